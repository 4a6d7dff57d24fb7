"""Storage of a history: its location, the Delta tables and their schema."""
