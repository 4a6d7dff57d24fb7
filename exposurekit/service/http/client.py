"""The one door by which the service goes out to the web. Never goes where it was not vetted to go, and says nothing.

A host is resolved once, all that it resolves to is vetted, and the connection is made to exactly that: a name that
resolves to something else the next moment changes nothing. Connections are kept for a visit at most, and nothing
is sent on a kept one: a POST on one that the other side just closed is lost.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial

import aiohttp
from aiohttp.abc import AbstractCookieJar, AbstractResolver, ResolveResult
from yarl import URL

from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.service.http.address_policy import (
    ForbiddenAddress,
    check_addresses,
    check_host,
    literal,
    networks,
)
from exposurekit.service.http.request import WITHOUT_BODY, Request, parsed
from exposurekit.service.http.response import FetchError, Reason, Response, Unpacking

__all__ = ["FetchError", "ForbiddenAddress", "HttpSession", "Outbound", "Resolve", "Response"]

Resolve = Callable[[str, int], Awaitable[Sequence[tuple[str, int]]]]

_CHECK_S = 15
_RESOLVING_AT_ONCE = 32
_REDIRECTS = {301, 302, 303, 307, 308}


class _Fetching:
    """What one request and a visit have in common; they differ in the cookies."""

    def __init__(self, door: "_VettingResolver") -> None:
        self._door = door

    def _session(self, method: str) -> AbstractAsyncContextManager[aiohttp.ClientSession]:  # noqa: ARG002
        return self._door.session(aiohttp.DummyCookieJar(), kept=False)

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float = 15,
        bytes_max: int = 2_000_000,
        redirects_max: int = 5,
        reads_body: bool = True,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> Response:
        """Ask once, and follow where the answer leads; an answer of any status is an answer.

        Args:
            url: ``http`` or ``https``, without a user or a password.
            method: The HTTP method. A 301, 302 or 303 makes any but HEAD a GET.
            headers: Beside these the door sets what frames a request. To another origin only ``Accept`` and
                ``User-Agent`` go on.
            params: Put behind those that the URL has.
            form: Sent as a web page's form would be; it comes before `body`.
            body: Sent as it is.
            timeout_s: Seconds for the whole exchange, its redirects with it, from when there is room for it.
            bytes_max: The most bytes of a body, both as it comes and unpacked.
            redirects_max: How many are followed; with 0 the redirect itself is the answer.
            reads_body: False where the status alone matters: whatever stands in the body, it is an answer.
            before: Called when there is room, just before the request; what it raises ends the matter.

        Raises:
            ForbiddenAddress: The address, or one that it leads to, may not be visited; or a form would go to another host.
            FetchError: No whole answer came.

        >>> async def status():
        ...     outbound = Outbound(opened=["127.0.0.0/8"])
        ...     return (await outbound.fetch(connection["base_url"], redirects_max=0)).status
        >>> asyncio.run(status())
        404
        """
        async with self._door.room():
            if before is not None:
                await before()
            try:
                async with asyncio.timeout(timeout_s):
                    asked = Request.first(
                        url, method=method, headers=headers or {}, params=params or {}, form=form, body=body
                    )
                    return await self._followed(asked, bytes_max if reads_body else None, redirects_max)
            except ExposureError:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is may hold the URL, and ends here
                reason = _reason(error)
        raise FetchError(reason)

    async def _followed(self, asked: Request, bytes_max: int | None, redirects_max: int) -> Response:
        async with self._session(asked.method) as session:
            for _ in range(redirects_max + 1):
                self._door.check(asked.url)
                async with session.request(
                    asked.method, asked.url, headers=asked.headers, data=asked.body, allow_redirects=False
                ) as response:
                    location = response.headers.get("location")
                    if not (redirects_max and location and response.status in _REDIRECTS):
                        return await _to_response(response, bytes_max)
                asked = asked.redirected(response.status, location)
        raise FetchError("too many redirects")


class HttpSession(_Fetching):
    """Requests that share their cookies, and where that is safe their connections, with nobody else."""

    def __init__(self, door: "_VettingResolver") -> None:
        super().__init__(door)
        # For bare addresses too: a form may well be on one. Quoted, many a site would not know its own again.
        self._jar = aiohttp.CookieJar(unsafe=True, quote_cookie=False)
        self._kept = door.session(self._jar, kept=True)

    def _session(self, method: str) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
        # What is sent on a connection that was dropped meanwhile is lost, and must not be sent twice unasked.
        return (
            nullcontext(self._kept) if method in WITHOUT_BODY else self._door.session(self._jar, kept=False)
        )

    async def end(self) -> None:
        """Hang up."""
        await self._kept.close()


class Outbound(_Fetching):
    """The way out to the web. May be used in several event loops; holds nothing open between requests, but in a visit.

    Args:
        opened: Networks in CIDR form that may be visited though they are not public. Link-local addresses and
            metadata services never may, whatever is opened.
        resolve: Tells a host's addresses and the ports to connect to; without it the system does.
        concurrency: Maximum number of concurrent requests; the timeout of a waiting request has not started.

    Raises:
        ConfigurationError: A network is not in CIDR form, or `concurrency` is less than 1.

    >>> asyncio.run(Outbound().check("http://127.0.0.1:8642/"))
    Traceback (most recent call last):
    exposurekit.service.http.address_policy.NotPublic: ...
    """

    def __init__(
        self, *, opened: Iterable[str] = (), resolve: Resolve | None = None, concurrency: int = 100
    ) -> None:
        if concurrency < 1:
            raise ConfigurationError("concurrency must be at least 1 (concurrent requests)")
        super().__init__(_VettingResolver(opened, resolve, concurrency))
        for name in ("aiohttp.client", "aiohttp.internal"):
            logging.getLogger(name).addFilter(_nothing)

    def __repr__(self) -> str:
        return "Outbound()"

    async def check(self, url: str) -> tuple[str, ...]:
        """Resolve and vet an address now, and what it resolved to; fetches nothing. A later visit vets it again.

        Raises:
            ForbiddenAddress: It may not be visited.
            FetchError: ``"unreachable"``: it has no address.

        >>> asyncio.run(Outbound(opened=["127.0.0.0/8"]).check("http://127.0.0.1:8642/"))
        ('127.0.0.1',)
        """
        try:
            async with asyncio.timeout(_CHECK_S):
                return await self._door.vet(parsed(url))
        except ExposureError:
            raise
        except Exception:  # noqa: BLE001, S110  its text may hold the host
            pass
        raise FetchError("unreachable")

    @asynccontextmanager
    async def visit(self) -> AsyncIterator[HttpSession]:
        """Keep cookies for as long as the block lasts: a form sets one before it takes what is sent.

        >>> async def status():
        ...     async with Outbound(opened=["127.0.0.0/8"]).visit() as visit:
        ...         return (await visit.fetch(connection["base_url"])).status
        >>> asyncio.run(status())
        404
        """
        visit = HttpSession(self._door)
        try:
            yield visit
        finally:
            await visit.end()

    async def close(self) -> None:
        """Go out no more: what is asked from now on is unreachable. What runs ends in its own time."""
        self._door.shut()


class _VettingResolver(AbstractResolver):
    """Opens connections, and only to addresses that it vetted: aiohttp connects to what its resolver gives."""

    def __init__(self, opened: Iterable[str], resolve: Resolve | None, concurrency: int) -> None:
        self._opened = networks(opened)
        self._resolve = resolve or self._ask_the_system
        self._concurrency = concurrency
        self._rooms: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        # Of its own: a name server that does not answer holds a thread, and the loop's few have other work.
        self._threads = ThreadPoolExecutor(_RESOLVING_AT_ONCE, "exposurekit-resolve")
        self._is_shut = False

    def room(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._is_shut:
            raise FetchError("unreachable")
        if loop not in self._rooms:
            self._rooms = {used: room for used, room in self._rooms.items() if not used.is_closed()}
            self._rooms[loop] = asyncio.Semaphore(self._concurrency)
        return self._rooms[loop]

    def session(self, cookies: AbstractCookieJar, *, kept: bool) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=self, use_dns_cache=False, force_close=not kept, limit=0),
            cookie_jar=cookies,
            timeout=aiohttp.ClientTimeout(),  # one clock for the whole exchange runs outside
            trust_env=False,
            auto_decompress=False,
        )
        # On a dropped connection aiohttp asks again by itself, but for a POST. A kept one may have been dropped
        # between two questions; on a fresh one it must not: a link in a mail may confirm only once.
        session._retry_connection = kept  # noqa: SLF001  as its own test client does; a test holds the effect
        return session

    def check(self, url: URL) -> None:
        """What can be said before anything is resolved; aiohttp asks no resolver about a bare address."""
        host = url.raw_host or ""
        check_host(host)
        if literal(host) is not None:
            check_addresses([host], self._opened)

    async def vet(self, url: URL) -> tuple[str, ...]:
        self.check(url)
        host = url.raw_host or ""
        if literal(host) is not None:
            return (host,)
        return tuple(found["host"] for found in await self.resolve(host, url.port or 0))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._found(host, port)
        if not found:
            raise OSError("no address")
        check_addresses([address for address, _ in found], self._opened)
        return [
            ResolveResult(hostname=host, host=address, port=at, family=family, proto=0, flags=0)
            for address, at in found
        ]

    async def _found(self, host: str, port: int) -> Sequence[tuple[str, int]]:
        try:
            return await self._resolve(host, port)
        except Exception:  # noqa: BLE001  its text may hold the host; what cannot be resolved has no address
            return ()

    async def _ask_the_system(self, host: str, port: int) -> Sequence[tuple[str, int]]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [(str(address[0]), int(address[1])) for *_, address in found]

    async def close(self) -> None:
        """Nothing: it belongs to no connector."""

    def shut(self) -> None:
        self._is_shut = True
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _to_response(response: aiohttp.ClientResponse, bytes_max: int | None) -> Response:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        readable = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        before = headers.get(name.lower())
        headers[name.lower()] = readable if before is None else f"{before}, {readable}"
    if bytes_max is None:
        return Response(response.status, str(response.url), headers, b"")
    body = Unpacking(headers.get("content-encoding", "identity"), bytes_max)
    async for piece in response.content.iter_any():
        body.feed(piece)
    return Response(response.status, str(response.url), headers, body.whole())


def _reason(error: Exception) -> Reason:
    if isinstance(error, TimeoutError):
        return "time-out"
    if isinstance(error, ssl.SSLError):
        return "unreadable"
    return "unreachable" if isinstance(error, aiohttp.ClientConnectionError | OSError) else "unreadable"


def _nothing(_: logging.LogRecord) -> bool:
    """What aiohttp logs of a request are its cookies and its host."""
    return False
