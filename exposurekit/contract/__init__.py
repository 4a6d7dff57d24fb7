"""The API contract, shared by the toolkit and the service. No I/O."""
