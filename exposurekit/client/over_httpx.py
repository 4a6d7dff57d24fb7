"""Bytes over httpx: for the blocking client, and for whatever transport somebody gives. Decides nothing."""

import asyncio
import time
from typing import Any

import httpx

from exposurekit.client.retries import Answer, Lost, Outcome
from exposurekit.client.wire import BODY_MAX, Request


class Blocking:
    """One httpx.Client, which heeds proxies and follows no redirect: the key is in the path."""

    def __init__(self, transport: Any) -> None:
        self._session = httpx.Client(transport=transport, follow_redirects=False)

    def send(self, request: Request, seconds: float) -> Outcome:
        """One try; never raises for what happens on the wire."""
        until = time.monotonic() + seconds
        try:
            with self._session.stream(
                request.method, request.url, headers=request.headers, content=request.body, timeout=seconds
            ) as response:
                body = bytearray()
                for piece in response.iter_bytes():
                    body += piece
                    if len(body) > BODY_MAX:
                        return Lost.too_large()
                    if time.monotonic() > until:
                        return Lost.too_late()
                return Answer(response.status_code, response.headers, bytes(body))
        except Exception as error:  # noqa: BLE001  whatever it raises may hold the URL, and ends here
            return _lost(error, httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

    def close(self) -> None:
        """Close the connections that are kept open."""
        self._session.close()


class Awaiting:
    """A transport that was given, awaited; one that blocks is awaited in worker threads."""

    def __init__(self, transport: Any) -> None:
        self._transport = (
            transport if isinstance(transport, httpx.AsyncBaseTransport) else _InThreads(transport)
        )

    async def send(self, request: Request, seconds: float) -> Outcome:
        """One try; never raises for what happens on the wire."""
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(request)
        except Exception as error:  # noqa: BLE001  whatever it raises may hold the URL, and ends here
            # Not ConnectTimeout: httpx-aiohttp, which may be given, raises it for a dropped connection too.
            return _lost(error, httpx.ConnectError)

    async def _exchange(self, request: Request) -> Outcome:
        asked = httpx.Request(request.method, request.url, headers=request.headers, content=request.body)
        response = await self._transport.handle_async_request(asked)
        try:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > BODY_MAX:
                    return Lost.too_large()
            return Answer(response.status_code, response.headers, bytes(body))
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connections that are kept open."""
        await self._transport.aclose()


class _InThreads(httpx.AsyncBaseTransport):
    def __init__(self, blocking: httpx.BaseTransport) -> None:
        self._blocking = blocking

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.to_thread(self._whole, request)

    def _whole(self, request: httpx.Request) -> httpx.Response:
        response = self._blocking.handle_request(request)
        body = b"".join(response.iter_raw())
        response.close()
        return httpx.Response(response.status_code, headers=response.headers, content=body)


def _lost(error: Exception, *never_sent: type[Exception]) -> Lost:
    received = not isinstance(error, never_sent)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return Lost.too_late(maybe_received=received)
    return Lost.cut() if received else Lost.nobody()
