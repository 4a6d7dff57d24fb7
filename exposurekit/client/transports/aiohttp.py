"""Transport over aiohttp, for bulk loads.

At 32 connections httpx's async pool costs 2.5 ms of CPU per request, aiohttp 0.085 ms; httpx on top of aiohttp
doubles that again with its own requests and responses (measured: tests/benchmarks/load_fleet.py).
"""

import asyncio
import re
from functools import cache, partial
from typing import Any
from urllib.request import getproxies

import aiohttp
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from exposurekit.client.protocol import BAD_REQUEST, BODY_MAX, Request
from exposurekit.client.retry import Response, Result, TransportFailure
from exposurekit.client.unpacking import Body, BodyTooLarge
from exposurekit.errors import ConfigurationError

HEAD_MAX = 100 * 1024  # bytes of status line and headers, the same limit as the blocking client's
_HEADERS_MAX = 10_000
_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"^content-length:[ \t]*(.*?)[ \t]*\r?\n", re.IGNORECASE | re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding:.*\bchunked\b", re.IGNORECASE | re.MULTILINE)


class AiohttpTransport:
    """An aiohttp session with a maximum number of connections. It follows no redirects and stores no cookies."""

    def __init__(self, connections: int, headers: dict[str, str], *, secure: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._headers = headers
        from exposurekit.client.transports.httpx import certificates

        connector = aiohttp.TCPConnector(limit=connections, ssl=certificates() if secure else False)
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
        """Send one request. A network problem is a `TransportFailure`, not an exception."""
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
            is_too_large = isinstance(error, BodyTooLarge)
            return TransportFailure.too_large() if is_too_large else TransportFailure.disconnected()

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
    body = Body(response.headers.get("Content-Encoding"), BODY_MAX, is_error=response.status >= BAD_REQUEST)
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
        self._head = b""
        self._body: Any = None
        self._remaining: int | None = None  # bytes of the body; None: not announced, or not yet known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> Any:
        """Parse the bytes that belong to the response."""
        messages: list[Any] = []
        while self._body is None and data:
            start = max(0, len(self._head) - 3)  # the end may be split between two chunks
            self._head += data
            end = _END.search(self._head, start)
            if end is None or end.end() > HEAD_MAX + len(end[0]):
                if len(self._head) > HEAD_MAX:
                    raise aiohttp.http_exceptions.LineTooLong(b"the head", HEAD_MAX)
                return messages, False, b""
            head, data, self._head = self._head[: end.end()], self._head[end.end() :], b""
            more, upgraded, tail = self._parser.feed_data(self._unambiguous(head))
            messages += more
            if upgraded:
                return messages, upgraded, tail + data
            if more and more[-1][0].code >= 200:  # noqa: PLR2004  1xx precedes the response
                message, self._body = more[-1]
                self._remaining = _length(message)
        if self._remaining is not None:
            data, surplus = data[: self._remaining], data[self._remaining :]
            self._remaining -= len(data)
            if surplus:
                self._close_afterwards()
        if not data and messages:
            return messages, False, b""
        return messages, *self._rest(data)

    def _rest(self, data: bytes) -> tuple[bool, bytes]:
        try:
            _, upgraded, tail = self._parser.feed_data(data)
        except aiohttp.http_exceptions.HttpProcessingError:
            if not self._body.is_eof():
                raise
            self._close_afterwards()  # what is invalid follows the last chunk
            return False, b""
        return upgraded, tail

    def _unambiguous(self, head: bytes) -> bytes:
        """Drop a repeated length, and one beside chunks, which count instead (RFC 9112, section 6.3)."""
        lengths = _LENGTH.findall(head)
        if lengths and _CHUNKED.search(head):
            surplus = len(lengths)
        elif len(lengths) > 1 and len({*lengths}) == 1:
            surplus = len(lengths) - 1
        else:
            return head
        self._close_afterwards()
        return _LENGTH.sub(b"", head, count=surplus)

    def _close_afterwards(self) -> None:
        self._protocol._should_close = True  # noqa: SLF001  as aiohttp's own parser does


def _length(message: Any) -> int | None:
    """Bytes of the body by ``Content-Length``; None if the header does not apply."""
    length = message.headers.get("Content-Length", "")
    return None if message.chunked or not (length.isascii() and length.isdecimal()) else int(length)


@cache
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)
