"""Bytes over httpx: for the blocking client, and for whatever transport somebody gives. Decides nothing."""

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from exposurekit.client.protocol import BODY_MAX, Request
from exposurekit.client.retry import Response, Result, TransportFailure
from exposurekit.client.unpacking import Body, BodyTooLarge
from exposurekit.errors import ConfigurationError


class Blocking:
    """One httpx.Client, which heeds proxies, keeps no cookie and follows no redirect: the key is in the path."""

    def __init__(self, transport: Any) -> None:
        if isinstance(transport, httpx.AsyncBaseTransport) and not isinstance(transport, httpx.BaseTransport):
            raise ConfigurationError(
                "a Client that blocks needs a transport that does; AsyncClient takes either"
            )
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        self._session = httpx.Client(
            transport=transport,
            follow_redirects=False,
            cookies=no_cookies,
            event_hooks={"response": [_without_location]},
        )

    def send(self, request: Request, seconds: float) -> Result:
        """One try; never raises for what happens on the wire."""
        until = time.monotonic() + seconds
        try:
            with self._session.stream(
                request.method, request.url, headers=request.headers, content=request.body, timeout=seconds
            ) as response:
                body = _body(response)
                for piece in _pieces(response):
                    body.feed(piece)
                    if time.monotonic() > until:
                        return TransportFailure.timeout()
                _close_if_more(response)
                return Response(response.status_code, response.headers, body.whole())
        except BodyTooLarge:
            return TransportFailure.too_large()
        except Exception as error:  # noqa: BLE001  whatever it raises may hold the URL, and ends here
            return _failure_of(error, httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._session.close()


def awaiting(transport: Any) -> "Awaiting | InThreads":
    """A transport that was given, to await."""
    return Awaiting(transport) if isinstance(transport, httpx.AsyncBaseTransport) else InThreads(transport)


class Awaiting:
    """A transport that was given, awaited."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def send(self, request: Request, seconds: float) -> Result:
        """One try; never raises for what happens on the wire."""
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(request)
        except BodyTooLarge:
            return TransportFailure.too_large()
        except Exception as error:  # noqa: BLE001  whatever it raises may hold the URL, and ends here
            # Not ConnectTimeout: httpx-aiohttp, which may be given, raises it for a dropped connection too.
            return _failure_of(error, httpx.ConnectError)

    async def _exchange(self, request: Request) -> Result:
        asked = httpx.Request(request.method, request.url, headers=request.headers, content=request.body)
        response = await self._transport.handle_async_request(asked)
        try:
            body = _body(response)
            if response.is_stream_consumed:
                body.feed(response.content)
            else:
                async for piece in response.aiter_raw():
                    body.feed(piece)
            return Response(response.status_code, response.headers, body.whole())
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connections that are kept open."""
        await self._transport.aclose()


class InThreads:
    """A transport that was given and blocks, awaited in worker threads. Whoever gave it closes it."""

    def __init__(self, transport: Any) -> None:
        self._blocking = Blocking(transport)

    async def send(self, request: Request, seconds: float) -> Result:
        """One try; never raises for what happens on the wire."""
        return await asyncio.to_thread(self._blocking.send, request, seconds)

    async def aclose(self) -> None:
        """Nothing: the transport may be a blocking client's, which goes on."""


def _without_location(response: httpx.Response) -> None:
    """A redirect is not followed; httpx would read its address all the same, and fail on one that it cannot use."""
    response.headers.pop("location", None)


def _close_if_more(response: httpx.Response) -> None:
    """Close a connection that brought bytes behind the answer: httpx would take them for the next one."""
    connection: Any = response.stream
    for name in (
        "_stream",
        "_httpcore_stream",
        "_stream",
        "_connection",
        "_h11_state",
    ):  # nothing public leads there
        connection = getattr(connection, name, None)
    more, _ = getattr(connection, "trailing_data", (b"", False))
    if more:
        response.extensions["network_stream"].close()


def _body(response: httpx.Response) -> Body:
    """Where the body goes; what httpx has read by itself, it has unpacked."""
    packed = not response.is_stream_consumed
    return Body(response.headers.get("content-encoding") if packed else None, BODY_MAX)


def _pieces(response: httpx.Response) -> Iterator[bytes]:
    return iter((response.content,)) if response.is_stream_consumed else response.iter_raw()


def _failure_of(error: Exception, *never_sent: type[Exception]) -> TransportFailure:
    received = not isinstance(error, never_sent)
    if isinstance(error, httpx.ConnectError):
        if _caused_by(error, socket.gaierror):
            return TransportFailure.dns()
        if _caused_by(error, ssl.SSLError):
            return TransportFailure.tls()
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return TransportFailure.timeout(maybe_received=received)
    return TransportFailure.disconnected() if received else TransportFailure.refused()


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    cause = error.__cause__ or error.__context__
    return isinstance(error, kind) or (cause is not None and _caused_by(cause, kind))
