"""Transports: httpx and aiohttp. They move bytes; decisions are made in `protocol` and `retry`."""
