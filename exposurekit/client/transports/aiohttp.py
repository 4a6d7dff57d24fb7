"""Transport over aiohttp, for bulk loads.

At 32 connections httpx's async pool costs 2.5 ms of CPU per request, aiohttp 0.085 ms; httpx on top of aiohttp
doubles that again with its own requests and responses (measured: tests/benchmarks/load_fleet.py).
"""

import asyncio
import ssl
from functools import cache, partial
from typing import Any
from urllib.request import getproxies

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from exposurekit.client.protocol import BODY_MAX, Request
from exposurekit.client.retry import Response, Result, TransportFailure
from exposurekit.client.unpacking import Body, BodyTooLarge
from exposurekit.errors import ConfigurationError

HEAD_MAX = 100 * 1024  # bytes of status line and headers, the same limit as the blocking client's
_HEADERS_MAX = 10_000
_END = b"\r\n\r\n"


class AiohttpTransport:
    """An aiohttp session with a maximum number of connections. It follows no redirects and stores no cookies."""

    def __init__(self, connections: int, headers: dict[str, str], *, secure: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._headers = headers
        connector = aiohttp.TCPConnector(limit=connections, ssl=_certificates() if secure else False)
        protocol: Any = partial(_Protocol, loop=self._loop)
        connector._factory = protocol  # noqa: SLF001  no argument sets it
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=connector,
            auto_decompress=False,  # `Body` does it, as in the blocking client
            max_line_size=HEAD_MAX,
            max_field_size=HEAD_MAX,
            max_headers=_HEADERS_MAX,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Use proxies as httpx does. Without one this must be off: aiohttp would look for a proxy in a worker
            # thread at each request, which costs as much as the request.
            trust_env=bool(getproxies()),
        )
        # aiohttp would repeat a PUT on a dropped connection, which would append its list items twice.
        self._session._retry_connection = False  # noqa: SLF001  aiohttp's own test client does the same

    async def send(self, request: Request, seconds: float) -> Result:
        """Send one request. A network problem is a `TransportFailure`, not an exception.

        Raises:
            ConfigurationError: The client was first used in another event loop, where its connections are.
        """
        self._check_loop()
        try:
            response = await self._session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=None if request.headers is self._headers else request.headers,
                data=request.body,
                allow_redirects=False,
                timeout=_timeout(seconds),
            )
            try:
                return await _read_body(response)
            finally:
                response.release()
        except aiohttp.ClientConnectorDNSError:
            return TransportFailure.dns()
        except (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch):
            return TransportFailure.tls()
        except aiohttp.ClientConnectorError:
            return TransportFailure.refused()
        except TimeoutError:
            return TransportFailure.timeout()
        except Exception as error:  # noqa: BLE001  the exception may contain the URL, so it ends here
            return (
                TransportFailure.too_large()
                if isinstance(error, BodyTooLarge)
                else TransportFailure.disconnected()
            )

    async def aclose(self) -> None:
        """Close all connections."""
        self._check_loop()
        await self._session.close()

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "an AsyncClient belongs to one event loop: create one per loop, with `async with`"
            )


async def _read_body(response: aiohttp.ClientResponse) -> Result:
    if (response.content_length or BODY_MAX) < BODY_MAX and "Content-Encoding" not in response.headers:
        return Response(response.status, response.headers, await response.read())
    # The size is not announced, or grows when the body is decompressed.
    body = Body(response.headers.get("Content-Encoding"), BODY_MAX)
    async for chunk in response.content.iter_any():
        body.feed(chunk)
    return Response(response.status, response.headers, body.content())


class _Protocol(ResponseHandler):
    """aiohttp's protocol, except that bytes after a response's body do not make the response invalid."""

    def set_response_params(self, **options: Any) -> None:
        """Set up the parser for the next response, as aiohttp does."""
        super().set_response_params(**options)
        self._parser: Any = _OneResponse(self._parser, self)


class _OneResponse:
    """A parser for one response. Bytes after the response are dropped and the connection is closed."""

    def __init__(self, parser: Any, protocol: _Protocol) -> None:
        self._parser = parser
        self._protocol = protocol
        self._head_size = 0
        self._tail = b""  # the last bytes of the head: its end may be split between two chunks
        self._remaining: int | None = None  # bytes of the body; None: not announced, or not yet known
        self._in_head = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> Any:
        """Parse the bytes that belong to the response."""
        messages: list[Any] = []
        while self._in_head and data:
            end = (self._tail + data).find(_END)
            split = len(data) if end < 0 else end - len(self._tail) + len(_END)
            self._head_size += split
            if self._head_size > HEAD_MAX + len(_END) and end < 0:
                raise aiohttp.http_exceptions.LineTooLong(b"the head", HEAD_MAX)
            self._tail = (self._tail + data)[-3:] if end < 0 else b""
            more, upgraded, tail = self._parser.feed_data(data[:split])
            messages += more
            data = data[split:]
            if upgraded:
                return messages, upgraded, tail + data
            if more and more[-1][0].code >= 200:  # noqa: PLR2004  1xx precedes the response
                self._in_head, self._remaining = False, _length(more[-1][0])
        if self._remaining is not None:
            data, surplus = data[: self._remaining], data[self._remaining :]
            self._remaining -= len(data)
            if surplus:
                self._protocol._should_close = True  # noqa: SLF001  as aiohttp's own parser does
        if not data and messages:
            return messages, False, b""
        more, upgraded, tail = self._parser.feed_data(data)
        return [*messages, *more], upgraded, tail


def _length(message: Any) -> int | None:
    """Bytes of the body by ``Content-Length``; None if the header does not apply."""
    length = message.headers.get("Content-Length", "")
    return None if message.chunked or not (length.isascii() and length.isdecimal()) else int(length)


@cache
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


def _certificates() -> ssl.SSLContext:
    from httpx import create_ssl_context

    return create_ssl_context()  # the same authorities as the blocking client
