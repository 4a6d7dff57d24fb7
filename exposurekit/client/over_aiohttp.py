"""Bytes over aiohttp: what carries a fleet's thousands of calls. Decides nothing.

httpx's own async pool costs 2.5 ms of CPU a request at 32 connections, aiohttp's 0.085; httpx over aiohttp
still spends as much again on its requests and responses (measured: tests/benchmarks/load_fleet.py).
"""

import asyncio
import ssl
from functools import cache
from urllib.request import getproxies

import aiohttp
from yarl import URL

from exposurekit.client.retries import Answer, Lost, Outcome
from exposurekit.client.wire import BODY_MAX, Request
from exposurekit.errors import Misconfigured


class Awaiting:
    """One aiohttp session with this many connections; follows no redirect and keeps no cookie."""

    def __init__(self, connections: int, headers: dict[str, str], *, secure: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._standing = headers
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(limit=connections, ssl=_certificates() if secure else False),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Proxies, as httpx heeds them. Where there is none it must be off: aiohttp would look for one in a
            # worker thread at each request, which costs as much as the request.
            trust_env=bool(getproxies()),
        )
        # aiohttp would send a PUT again by itself on a dropped connection, and append its list items twice.
        self._session._retry_connection = False  # noqa: SLF001  as its own test client does; tests hold the effect

    async def send(self, request: Request, seconds: float) -> Outcome:
        """One try; never raises for what happens on the wire.

        Raises:
            Misconfigured: The client was first used in another event loop, and its connections belong there.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise Misconfigured(
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
                return await _whole(response)
            finally:
                response.release()
        except aiohttp.ClientConnectorDNSError:
            return Lost.unknown()
        except (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch):
            return Lost.insecure()
        except aiohttp.ClientConnectorError:
            return Lost.nobody()
        except TimeoutError:
            return Lost.too_late()
        except Exception:  # noqa: BLE001  whatever it raises may hold the URL, and ends here
            return Lost.cut()

    async def aclose(self) -> None:
        """Close the connections that are kept open."""
        self._check_loop()
        await self._session.close()

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise Misconfigured(
                "an AsyncClient belongs to one event loop: make one in each, with `async with`"
            )


async def _whole(response: aiohttp.ClientResponse) -> Outcome:
    if (response.content_length or BODY_MAX) < BODY_MAX and "Content-Encoding" not in response.headers:
        return Answer(response.status, response.headers, await response.read())
    pieces, size = [], 0  # a size that is not told, or that grows as it is unpacked
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > BODY_MAX:
            return Lost.too_large()
    return Answer(response.status, response.headers, b"".join(pieces))


@cache
def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


def _certificates() -> ssl.SSLContext:
    from httpx import create_ssl_context

    return create_ssl_context()  # the authorities that the blocking client trusts
