"""The local machine: clock, paths, key files and the ASGI server."""
