"""Transports over httpx: for the blocking client, and for a transport that the caller passes."""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Iterator
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from exposurekit.client.protocol import BAD_REQUEST, BODY_MAX, Request
from exposurekit.client.retry import Response, Result, TransportFailure
from exposurekit.client.unpacking import Body, BodyTooLarge
from exposurekit.errors import ConfigurationError


class HttpxTransport:
    """An httpx.Client that uses proxies, stores no cookies, and follows no redirects (the path contains the key)."""

    def __init__(self, transport: Any) -> None:
        if isinstance(transport, httpx.AsyncBaseTransport) and not isinstance(transport, httpx.BaseTransport):
            raise ConfigurationError("Client needs a blocking transport; AsyncClient accepts either kind")
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        self._session = httpx.Client(
            transport=transport,
            verify=certificates(),
            follow_redirects=False,
            cookies=no_cookies,
            event_hooks={"response": [_without_location]},
        )

    def send(self, request: Request, seconds: float) -> Result:
        """Send one request. A network problem is a `TransportFailure`, not an exception."""
        deadline = time.monotonic() + seconds
        try:
            with self._session.stream(
                request.method, request.url, headers=request.headers, content=request.body, timeout=seconds
            ) as response:
                body = _body(response)
                for chunk in _chunks(response):
                    body.feed(chunk)
                    if time.monotonic() > deadline:
                        return TransportFailure.timeout()
                _close_if_surplus(response)
                return Response(response.status_code, response.headers, body.content())
        except BodyTooLarge:
            return TransportFailure.too_large()
        except Exception as error:  # noqa: BLE001  the exception may contain the URL, so it ends here
            return _failure(error, httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

    def close(self) -> None:
        """Close all connections."""
        self._session.close()


def async_transport(transport: Any) -> "AsyncHttpxTransport | ThreadedTransport":
    """Wrap the caller's transport for an `AsyncClient`."""
    is_async = isinstance(transport, httpx.AsyncBaseTransport)
    return AsyncHttpxTransport(transport) if is_async else ThreadedTransport(transport)


class AsyncHttpxTransport:
    """An async httpx transport from the caller."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def send(self, request: Request, seconds: float) -> Result:
        """Send one request. A network problem is a `TransportFailure`, not an exception."""
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(request)
        except BodyTooLarge:
            return TransportFailure.too_large()
        except Exception as error:  # noqa: BLE001  the exception may contain the URL, so it ends here
            # Not ConnectTimeout: httpx-aiohttp also raises that for a dropped connection.
            return _failure(error, httpx.ConnectError)

    async def _exchange(self, request: Request) -> Result:
        httpx_request = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.body
        )
        response = await self._transport.handle_async_request(httpx_request)
        try:
            body = _body(response)
            if response.is_stream_consumed:
                body.feed(response.content)
            else:
                async for chunk in response.aiter_raw():
                    body.feed(chunk)
            return Response(response.status_code, response.headers, body.content())
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


class ThreadedTransport:
    """A blocking httpx transport from the caller, run in worker threads. The caller closes it."""

    def __init__(self, transport: Any) -> None:
        self._blocking = HttpxTransport(transport)

    async def send(self, request: Request, seconds: float) -> Result:
        """Send one request. A network problem is a `TransportFailure`, not an exception."""
        return await asyncio.to_thread(self._blocking.send, request, seconds)

    async def aclose(self) -> None:
        """Do nothing: a blocking client may still use the transport."""


def certificates() -> ssl.SSLContext:
    """The certificate authorities of this process, of ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` where they are set.

    All clients share them: to read them takes longer than a request.
    """
    return _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _certificates(*_settings: str | None) -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _without_location(response: httpx.Response) -> None:
    """Drop the redirect's target: httpx parses it even if it does not follow it, and fails on an invalid one."""
    response.headers.pop("location", None)


def _close_if_surplus(response: httpx.Response) -> None:
    """Close a connection with bytes after the response: httpx would read them as the next response."""
    connection: Any = response.stream
    # There is no public way to it.
    for name in ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state"):
        connection = getattr(connection, name, None)
    surplus, _ = getattr(connection, "trailing_data", (b"", False))
    if surplus:
        response.extensions["network_stream"].close()


def _body(response: httpx.Response) -> Body:
    """An empty body for the response; what httpx has read already is decompressed."""
    is_compressed = not response.is_stream_consumed
    encoding = response.headers.get("content-encoding") if is_compressed else None
    return Body(encoding, BODY_MAX, is_error=response.status_code >= BAD_REQUEST)


def _chunks(response: httpx.Response) -> Iterator[bytes]:
    return iter((response.content,)) if response.is_stream_consumed else response.iter_raw()


def _failure(error: Exception, *never_sent: type[Exception]) -> TransportFailure:
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
