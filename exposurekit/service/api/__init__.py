"""The HTTP API: requests to handlers to responses."""
