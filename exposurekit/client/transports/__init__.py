"""Transports over httpx and aiohttp. They only send bytes; `protocol` and `retry` decide."""
