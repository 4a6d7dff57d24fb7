"""Outgoing HTTP: every connection goes to a vetted address, and nothing is logged.

A host is resolved once, all its addresses are checked, and the connection is made to exactly those, so that DNS
rebinding has no effect. Sessions reuse connections until the last of them ends, and only for requests without a body: a
POST on a connection that the other side has just closed would be lost.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractCookieJar, AbstractResolver, ResolveResult
from yarl import URL

from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.service.http.address_policy import (
    ForbiddenAddress,
    all_allowed,
    check_addresses,
    check_host,
    literal,
    parse_networks,
)
from exposurekit.service.http.request import WITHOUT_BODY, Request, parse_url
from exposurekit.service.http.response import BodyDecoder, FetchError, Reason, Response

__all__ = [
    "REDIRECT_STATUSES",
    "FetchError",
    "ForbiddenAddress",
    "HttpClient",
    "HttpSession",
    "Resolve",
    "Response",
]

Resolve = Callable[[str, int], Awaitable[Sequence[tuple[str, int]]]]

_CHECK_S = 15
_RESOLVING_AT_ONCE = 32
REDIRECT_STATUSES = {301, 302, 303, 307, 308}


class _Fetcher:
    """Sends requests; subclasses differ in cookies and connections."""

    def __init__(self, resolver: "_VettingResolver") -> None:
        self._resolver = resolver

    def _session(self, method: str) -> AbstractAsyncContextManager[aiohttp.ClientSession]:  # noqa: ARG002
        return self._resolver.client_session(aiohttp.DummyCookieJar(), keep_alive=False)

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
        """Send a request and follow redirects; a response of any status is returned.

        A 301, 302 or 303 makes any method but HEAD a GET. Framing headers are set by the client, and after a redirect
        to another origin only ``Accept`` and ``User-Agent`` are sent. A form is sent URL-encoded and takes precedence
        over a body. The timeout is for the whole exchange with its redirects, without the wait for a free slot; the
        maximum size is of the body both compressed and decompressed. With `redirects_max` 0 the redirect itself is
        returned. `before` is called just before the request, once there is a free slot; its exceptions propagate.

        Raises:
            ForbiddenAddress: The address, or one that it redirects to, is forbidden; or a form would go to another
            host. FetchError: No complete response was received.
        """
        async with self._resolver.limiter():
            if before is not None:
                await before()
            try:
                async with asyncio.timeout(timeout_s):
                    request = Request.create(
                        url, method=method, headers=headers or {}, params=params or {}, form=form, body=body
                    )
                    return await self._follow_redirects(
                        request, bytes_max if reads_body else None, redirects_max
                    )
            except ExposureError:
                raise
            except Exception as error:  # noqa: BLE001  its text may hold the URL
                reason, detail = _reason(error), _detail(error)
        raise FetchError(reason, detail)

    async def _follow_redirects(
        self, request: Request, bytes_max: int | None, redirects_max: int
    ) -> Response:
        async with self._session(request.method) as session:
            for _ in range(redirects_max + 1):
                self._resolver.check(request.url)
                async with session.request(
                    request.method,
                    request.url,
                    headers=request.headers,
                    data=request.body,
                    allow_redirects=False,
                ) as response:
                    location = response.headers.get("location")
                    if not (redirects_max and location and response.status in REDIRECT_STATUSES):
                        return await _to_response(response, bytes_max)
                request = request.redirected(response.status, location)
        raise FetchError("too many redirects")


class HttpSession(_Fetcher):
    """Requests that share cookies; where that is safe, they go over open connections."""

    def __init__(self, resolver: "_VettingResolver", connections: aiohttp.TCPConnector) -> None:
        super().__init__(resolver)
        # Cookies for IP addresses too, and unquoted: many sites do not recognise their own cookie in quotes.
        self._jar = aiohttp.CookieJar(unsafe=True, quote_cookie=False)
        self._keep_alive_session = resolver.client_session(
            self._jar, keep_alive=True, connections=connections
        )

    def _session(self, method: str) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
        # A body sent on a dropped connection is lost, and must not be sent twice.
        return (
            nullcontext(self._keep_alive_session)
            if method in WITHOUT_BODY
            else self._resolver.client_session(self._jar, keep_alive=False)
        )

    async def close(self) -> None:
        """Forget the cookies; the connections stay open for other sessions."""
        await self._keep_alive_session.close()


class HttpClient(_Fetcher):
    """HTTP client with vetted addresses, for any number of event loops. Only a session keeps connections open.

    Non-public networks in CIDR form can be allowed, but link-local addresses and metadata services are always
    forbidden. By default hosts are resolved by the system. Requests beyond the concurrency wait, and their timeout has
    not started.
    """

    def __init__(
        self, *, allowed_networks: Iterable[str] = (), resolve: Resolve | None = None, concurrency: int = 100
    ) -> None:
        if concurrency < 1:
            raise ConfigurationError("concurrency must be at least 1 (concurrent requests)")
        super().__init__(_VettingResolver(allowed_networks, resolve, concurrency))
        for name in ("aiohttp.client", "aiohttp.internal"):
            logging.getLogger(name).addFilter(_drop_record)

    def __repr__(self) -> str:
        return "HttpClient()"

    async def check(self, url: str) -> tuple[str, ...]:
        """Resolve and check a URL without fetching it; return its addresses. Raises `FetchError` if there are none."""
        try:
            async with asyncio.timeout(_CHECK_S):
                return await self._resolver.vet(parse_url(url))
        except ExposureError:
            raise
        except Exception:  # noqa: BLE001, S110  its text may hold the host
            pass
        raise FetchError("unreachable")

    async def check_encrypted(self, url: str) -> None:
        """Check a URL as `check` does, and that it is https, unless it leads into a network that the operator allowed."""
        addresses = await self.check(url)
        if parse_url(url).scheme != "https" and not self._resolver.are_allowed_networks(addresses):
            raise ForbiddenAddress("the address is forbidden: http is unencrypted")

    @asynccontextmanager
    async def session(self) -> AsyncIterator[HttpSession]:
        """Share cookies for the duration of the block, as forms require."""
        async with self._resolver.connections() as connections:
            session = HttpSession(self._resolver, connections)
            try:
                yield session
            finally:
                await session.close()

    async def close(self) -> None:
        """Refuse new requests as unreachable; running requests finish."""
        self._resolver.shut_down()


class _VettingResolver(AbstractResolver):
    """Resolves and vets hosts: aiohttp connects only to the addresses that its resolver returns."""

    def __init__(self, allowed_networks: Iterable[str], resolve: Resolve | None, concurrency: int) -> None:
        self._allowed_networks = parse_networks(allowed_networks)
        self._resolve = resolve or self._resolve_with_system
        self._concurrency = concurrency
        self._limiters: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._shared: WeakKeyDictionary[asyncio.AbstractEventLoop, _SharedConnections] = WeakKeyDictionary()
        # Its own threads: an unresponsive name server must not block the few threads of the loop.
        self._threads = ThreadPoolExecutor(_RESOLVING_AT_ONCE, "exposurekit-resolve")
        self._is_closed = False

    def limiter(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise FetchError("unreachable")
        if loop not in self._limiters:
            self._limiters = {
                loop_: limiter for loop_, limiter in self._limiters.items() if not loop_.is_closed()
            }
            self._limiters[loop] = asyncio.Semaphore(self._concurrency)
        return self._limiters[loop]

    @asynccontextmanager
    async def connections(self) -> AsyncIterator[aiohttp.TCPConnector]:
        """Keep connections of this event loop open until the last such block ends."""
        loop = asyncio.get_running_loop()
        if (shared := self._shared.get(loop)) is None:
            shared = self._shared[loop] = _SharedConnections(self._connector(keep_alive=True))
        shared.sessions += 1
        try:
            yield shared.connector
        finally:
            shared.sessions -= 1
            if not shared.sessions:
                del self._shared[loop]
                await shared.connector.close()

    def _connector(self, *, keep_alive: bool) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(resolver=self, use_dns_cache=False, force_close=not keep_alive, limit=0)

    def client_session(
        self,
        cookies: AbstractCookieJar,
        *,
        keep_alive: bool,
        connections: aiohttp.TCPConnector | None = None,
    ) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=connections or self._connector(keep_alive=keep_alive),
            connector_owner=connections is None,
            cookie_jar=cookies,
            timeout=aiohttp.ClientTimeout(),  # one timeout for the whole exchange is set outside
            trust_env=False,
            auto_decompress=False,
        )
        # aiohttp retries on a dropped connection, except a POST. That is right for a reused connection, but not for a
        # fresh one: a confirmation link may work only once.
        session._retry_connection = keep_alive  # noqa: SLF001  as aiohttp's own test client does
        return session

    def check(self, url: URL) -> None:
        """Check what does not need resolving; aiohttp does not call a resolver for an IP address."""
        host = url.raw_host or ""
        check_host(host)
        if literal(host) is not None:
            check_addresses([host], self._allowed_networks)

    def are_allowed_networks(self, addresses: Sequence[str]) -> bool:
        return all_allowed(addresses, self._allowed_networks)

    async def vet(self, url: URL) -> tuple[str, ...]:
        self.check(url)
        host = url.raw_host or ""
        if literal(host) is not None:
            return (host,)
        return tuple(addresses["host"] for addresses in await self.resolve(host, url.port or 0))

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._addresses(host, port)
        if not addresses:
            raise OSError("no address")
        check_addresses([address for address, _ in addresses], self._allowed_networks)
        return [
            ResolveResult(hostname=host, host=address, port=at, family=family, proto=0, flags=0)
            for address, at in addresses
        ]

    async def _addresses(self, host: str, port: int) -> Sequence[tuple[str, int]]:
        try:
            return await self._resolve(host, port)
        except Exception:  # noqa: BLE001  its text may hold the host
            return ()

    async def _resolve_with_system(self, host: str, port: int) -> Sequence[tuple[str, int]]:
        call = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        addresses = await asyncio.get_running_loop().run_in_executor(self._threads, call)
        return [(str(address[0]), int(address[1])) for *_, address in addresses]

    async def close(self) -> None:
        """Do nothing: the resolver is shared by connectors."""

    def shut_down(self) -> None:
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class _SharedConnections:
    connector: aiohttp.TCPConnector
    sessions: int = 0  # that use them


async def _to_response(response: aiohttp.ClientResponse, bytes_max: int | None) -> Response:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        readable = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        before = headers.get(name.lower())
        headers[name.lower()] = readable if before is None else f"{before}, {readable}"
    if bytes_max is None:
        return Response(response.status, str(response.url), headers, b"")
    body = BodyDecoder(headers.get("content-encoding", "identity"), bytes_max)
    async for piece in response.content.iter_any():
        body.feed(piece)
    return Response(response.status, str(response.url), headers, body.finish())


def _reason(error: Exception) -> Reason:
    if isinstance(error, TimeoutError):
        return "time-out"
    if isinstance(error, ssl.SSLError):
        return "unreadable"
    return "unreachable" if isinstance(error, aiohttp.ClientConnectionError | OSError) else "unreadable"


def _detail(error: Exception) -> str:
    """Name a fault of the connection; empty: the reason says it."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name does not resolve"
    if isinstance(error, ssl.CertificateError):
        return "the certificate is not valid"
    if isinstance(error, ssl.SSLError):
        return "TLS failed"
    is_refused = isinstance(error, OSError) and error.errno == errno.ECONNREFUSED
    return "the connection was refused" if is_refused else ""


def _drop_record(_: logging.LogRecord) -> bool:
    """Drop a log record: aiohttp logs cookies and hosts."""
    return False
