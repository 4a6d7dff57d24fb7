"""The self-hosted service: all of the specification, durable. Stands on contract, markup and errors alone."""
