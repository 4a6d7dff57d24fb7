"""The local machine: paths, key files and the ASGI server."""
