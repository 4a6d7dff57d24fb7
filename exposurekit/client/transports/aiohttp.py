"""Bytes over aiohttp: what carries a fleet's thousands of calls. Decides nothing.

httpx's own async pool costs 2.5 ms of CPU a request at 32 connections, aiohttp's 0.085; httpx over aiohttp
still spends as much again on its requests and responses (measured: tests/benchmarks/load_fleet.py).
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

HEAD_MAX = 100 * 1024  # bytes of status line and headers, as the blocking client takes them
_HEADERS_MAX = 10_000
_END = b"\r\n\r\n"


class Awaiting:
    """One aiohttp session with this many connections; follows no redirect and keeps no cookie."""

    def __init__(self, connections: int, headers: dict[str, str], *, secure: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._standing = headers
        connector = aiohttp.TCPConnector(limit=connections, ssl=_certificates() if secure else False)
        protocol: Any = partial(_Protocol, loop=self._loop)
        connector._factory = protocol  # noqa: SLF001  no argument sets it
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=connector,
            auto_decompress=False,  # `Body` does it, as for the blocking client
            max_line_size=HEAD_MAX,
            max_field_size=HEAD_MAX,
            max_headers=_HEADERS_MAX,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Proxies, as httpx heeds them. Where there is none it must be off: aiohttp would look for one in a
            # worker thread at each request, which costs as much as the request.
            trust_env=bool(getproxies()),
        )
        # aiohttp would send a PUT again by itself on a dropped connection, and append its list items twice.
        self._session._retry_connection = False  # noqa: SLF001  as its own test client does; tests hold the effect

    async def send(self, request: Request, seconds: float) -> Result:
        """One try; never raises for what happens on the wire.

        Raises:
            ConfigurationError: The client was first used in another event loop, and its connections belong there.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "an AsyncClient belongs to one event loop: make one in each, with `async with`"
            )
        try:
            response = await self._session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=None if request.headers is self._standing else request.headers,
                data=request.body,
                allow_redirects=False,
                timeout=_within(seconds),
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
        except Exception as error:  # noqa: BLE001  whatever it raises may hold the URL, and ends here
            return (
                TransportFailure.too_large()
                if isinstance(error, BodyTooLarge)
                else TransportFailure.disconnected()
            )

    async def aclose(self) -> None:
        """Close the connections that are kept open."""
        self._check_loop()
        await self._session.close()

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "an AsyncClient belongs to one event loop: make one in each, with `async with`"
            )


async def _read_body(response: aiohttp.ClientResponse) -> Result:
    if (response.content_length or BODY_MAX) < BODY_MAX and "Content-Encoding" not in response.headers:
        return Response(response.status, response.headers, await response.read())
    # A size that is not told, or that grows as it is unpacked.
    body = Body(response.headers.get("Content-Encoding"), BODY_MAX)
    async for piece in response.content.iter_any():
        body.feed(piece)
    return Response(response.status, response.headers, body.whole())


class _Protocol(ResponseHandler):
    """aiohttp's, which does not take bytes behind an answer's body for a broken answer."""

    def set_response_params(self, **how: Any) -> None:
        """As aiohttp sets up its parser for the next answer."""
        super().set_response_params(**how)
        self._parser: Any = _OneAnswer(self._parser, self)


class _OneAnswer:
    """A parser that is given one answer alone; what comes behind it is dropped, and the connection not used again."""

    def __init__(self, parser: Any, protocol: _Protocol) -> None:
        self._parser = parser
        self._protocol = protocol
        self._head = 0  # bytes of it so far
        self._last = b""  # the last of them: its end may come in two pieces
        self._left: int | None = None  # bytes of the body; None: not known yet, or not told
        self._in_head = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> Any:
        """Parse what is the answer's own."""
        messages: list[Any] = []
        while self._in_head and data:
            found = (self._last + data).find(_END)
            cut = len(data) if found < 0 else found - len(self._last) + len(_END)
            self._head += cut
            if self._head > HEAD_MAX + len(_END) and found < 0:
                raise aiohttp.http_exceptions.LineTooLong(b"the head", HEAD_MAX)
            self._last = (self._last + data)[-3:] if found < 0 else b""
            more, upgraded, tail = self._parser.feed_data(data[:cut])
            messages += more
            data = data[cut:]
            if upgraded:
                return messages, upgraded, tail + data
            if more and more[-1][0].code >= 200:  # noqa: PLR2004  what is below precedes the answer
                self._in_head, self._left = False, _length(more[-1][0])
        if self._left is not None:
            data, beyond = data[: self._left], data[self._left :]
            self._left -= len(data)
            if beyond:
                self._protocol._should_close = True  # noqa: SLF001  as its own parser has it closed
        if not data and messages:
            return messages, False, b""
        more, upgraded, tail = self._parser.feed_data(data)
        return [*messages, *more], upgraded, tail


def _length(message: Any) -> int | None:
    """Bytes of an answer's body; None: its end is told otherwise."""
    told = message.headers.get("Content-Length", "")
    return None if message.chunked or not (told.isascii() and told.isdecimal()) else int(told)


@cache
def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


def _certificates() -> ssl.SSLContext:
    from httpx import create_ssl_context

    return create_ssl_context()  # the authorities that the blocking client trusts
