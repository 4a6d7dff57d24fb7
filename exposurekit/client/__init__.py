"""The API client: blocking and asyncio, with retries and bulk loading.

::

    client      Client and AsyncClient                 config      settings from arguments, environment, .env
    base        what both share                        calls       one operation as a value
    protocol    a call as a request, and back          retry       whether and when to retry
    bulk        load everyone                          payloads    the fields of a person, ready to send
    unpacking   decompress a body, bounded             background  an async iterator from blocking code
    progress    progress bar                           log_filter  keep secrets out of logs
    error_masking  reasons of errors, without personal data
    probe       how a service reads the specification's open points
    transports/ httpx and aiohttp
"""

from exposurekit.client.client import AsyncClient, Client
from exposurekit.client.retry import RetryPolicy

__all__ = ["AsyncClient", "Client", "RetryPolicy"]
