"""The two API clients: `Client` blocks, `AsyncClient` is for asyncio."""

import asyncio
import functools
import inspect
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from exposurekit.client import calls, protocol
from exposurekit.client.base import BaseClient, Connections, Settings
from exposurekit.client.calls import Call, Key, Paging
from exposurekit.client.retry import Result
from exposurekit.contract.models import Reply, User, UserKey, UserPage
from exposurekit.errors import InvalidArgument, ScanTimeout, argument_hint
from exposurekit.text.html_cards import html_card

if TYPE_CHECKING:
    import pandas as pd  # loaded with the first table

P = ParamSpec("P")
R = TypeVar("R", bound=Reply)
T = TypeVar("T")

POLL_S = 0.25


def _blocking(build: Callable[P, Call[R, T]]) -> Callable[Concatenate["Client", P], T]:
    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = _build_call(build, args, kwargs)
        del args, kwargs  # a traceback with local variables shows no personal data
        if isinstance(call, Exception):
            raise call
        try:
            result = self.send(call)
        except KeyboardInterrupt as interrupt:  # the frames below hold URLs and bodies
            raise interrupt.with_traceback(None) from None
        return protocol.model(call, self.config, result)

    _describe(method, build)
    return method


def _async(build: Callable[P, Call[R, T]]) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = _build_call(build, args, kwargs)
        del args, kwargs
        if isinstance(call, Exception):
            raise call
        try:
            result = await self.send(call)
        except asyncio.CancelledError as interrupt:
            raise interrupt.with_traceback(None) from None
        return protocol.model(call, self.config, result)

    _describe(method, build)
    return method


def _build_call(build: Callable[..., Call[R, T]], args: Any, kwargs: Any) -> Call[R, T] | Exception:
    """Return the call, or the exception for invalid arguments, without a traceback that would show personal data."""
    try:
        return build(*args, **kwargs)
    except InvalidArgument as error:
        return error.with_traceback(None)
    except TypeError as error:
        return TypeError(f"{error}{argument_hint(error, inspect.signature(build).parameters)}")


def _describe(method: Any, build: Callable[..., Call[Any, Any]]) -> None:
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    returned = inspect.get_annotations(build)["return"].__args__[1]
    method.__signature__ = signature.replace(
        parameters=[self_parameter, *signature.parameters.values()], return_annotation=returned
    )


class Client(BaseClient):
    """The eight operations as blocking calls, for scripts, shells and notebooks.

    >>> client.list_users(limit=2)
    UserPage(count=..., users=2)
    """

    create_user = _blocking(calls.create_user)
    list_users = _blocking(calls.list_users)
    get_user = _blocking(calls.get_user)
    update_user = _blocking(calls.update_user)
    list_user_records = _blocking(calls.list_user_records)
    get_record = _blocking(calls.get_record)
    list_user_links = _blocking(calls.list_user_links)
    get_user_alerts = _blocking(calls.get_user_alerts)

    def iter_users(self, page_size: int = calls.PAGE_SIZE) -> Iterator[UserKey]:
        """Iterate over all users' keys, page by page, each once.

        Raises:
            InvalidResponse: The pages do not end: a thousand times as many users came as the service counts.

        >>> sum(1 for key in client.iter_users()) == client.list_users().count
        True
        """
        paging, returned_ids = Paging(page_size), set[int]()
        while not paging.done:
            page = self.list_users(paging.limit, paging.offset)
            fresh = calls.new_keys(page, returned_ids)
            yield from fresh
            paging = paging.after(page, fresh=len(fresh))

    def wait_for_scan(self, key: Key, timeout: float = 300.0) -> User:
        """Poll a user until no scan is running, and return the user.

        Args:
            key: The user's key.
            timeout: Maximum seconds to wait.

        Raises:
            ScanTimeout: The scan did not finish in time.

        >>> client.wait_for_scan(key).is_scanning
        False
        """
        pauses = _poll_pauses(timeout, time.monotonic() + timeout)
        while (user := self.get_user(key)).is_scanning:
            time.sleep(next(pauses))
        return user

    def probe(self) -> "pd.DataFrame":
        """Report how this service handles what the specification leaves open. Sends read requests only.

        Returns:
            One row per point: ``point``, ``answer`` (text).

        >>> client.probe().set_index("point").loc["count of users", "answer"]
        'count and total'
        """
        from exposurekit.client import probe

        return probe.table(self)

    def send(self, call: Call[R, T]) -> Result:
        """Send a call, with retries, and return the raw response or the transport failure.

        >>> client.send(calls.list_users(limit=1))
        Response(200, ... bytes)
        """
        for tries in itertools.count(1):
            request = self.request(call)  # before the connections are opened: a closed client has none
            sender = self._connections.opened(self._open_sender)
            result: Result = sender.send(request, self.timeout_s(call))
            if (pause := self.wait_s(call, result, tries)) is None:
                break
            time.sleep(pause)
        return result

    def _open_sender(self) -> Any:
        from exposurekit.client.transports.httpx import HttpxTransport

        return HttpxTransport(self.transport)

    def as_async(self, connections: int = 8) -> "AsyncClient":
        """Return an `AsyncClient` with the same settings, and at most ``connections`` at a time.

        >>> client.as_async(connections=4).config is client.config
        True
        """
        # Without its constructor: these settings were checked, and warned about, before.
        client = object.__new__(AsyncClient)
        vars(client).update(vars(self), connections=connections, _connections=Connections())
        client._connections.is_closed = self.is_closed
        return client

    def _repr_html_(self) -> str:
        return _card(self)

    def close(self) -> None:
        """Close all connections. A call on a closed client is an error: create another client."""
        if sender := self._connections.close():
            sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(BaseClient):
    """The eight operations as coroutines, with the same arguments, errors and retries as `Client`.

    >>> async def first_page():
    ...     async with ek.AsyncClient(**connection) as client:
    ...         return await client.list_users(limit=2)
    >>> asyncio.run(first_page())
    UserPage(count=..., users=2)
    """

    def __init__(
        self, base_url: str | None = None, *, connections: int = 8, **settings: Unpack[Settings]
    ) -> None:
        """Create a client; the connection opens with the first call.

        Args:
            base_url: As for `Client`.
            connections: Maximum number of concurrent calls; further calls wait.
            settings: All other arguments of `Client`.
        """
        super().__init__(base_url, **settings)
        self.connections = connections

    create_user = _async(calls.create_user)
    list_users = _async(calls.list_users)
    get_user = _async(calls.get_user)
    update_user = _async(calls.update_user)
    list_user_records = _async(calls.list_user_records)
    get_record = _async(calls.get_record)
    list_user_links = _async(calls.list_user_links)
    get_user_alerts = _async(calls.get_user_alerts)

    async def iter_pages(
        self, page_size: int = calls.PAGE_SIZE, *, notes: protocol.Notes | None = None
    ) -> AsyncIterator[UserPage]:
        """Iterate over the pages of users' keys, each key once.

        Args:
            page_size: Maximum number of users per page.
            notes: Counter for deviations from the specification; None: warn about items that could not be read.

        >>> async def pages(client):
        ...     return [len(page.users) async for page in client.iter_pages(page_size=5)]
        >>> awaited(pages)[0]
        5
        """
        paging, returned_ids = Paging(page_size), set[int]()
        while not paging.done:
            call = calls.list_users(paging.limit, paging.offset)
            page = protocol.model(call, self.config, await self.send(call), notes)
            fresh = calls.new_keys(page, returned_ids)
            yield page.model_copy(update={"users": fresh})
            paging = paging.after(page, fresh=len(fresh))

    async def iter_users(self, page_size: int = calls.PAGE_SIZE) -> AsyncIterator[UserKey]:
        """Iterate over all users' keys, page by page, each once.

        >>> async def ids(client):
        ...     return [key.id async for key in client.iter_users()]
        >>> key.id in awaited(ids)
        True
        """
        async for page in self.iter_pages(page_size):
            for key in page.users:
                yield key

    async def wait_for_scan(self, key: Key, timeout: float = 300.0) -> User:  # noqa: ASYNC109  as Client's
        """Poll a user until no scan is running, and return the user.

        Raises:
            ScanTimeout: The scan did not finish in time.

        >>> awaited(lambda client: client.wait_for_scan(key)).is_scanning
        False
        """
        pauses = _poll_pauses(timeout, time.monotonic() + timeout)
        while (user := await self.get_user(key)).is_scanning:  # noqa: ASYNC110  it has no event to wait for
            await asyncio.sleep(next(pauses))
        return user

    async def send(self, call: Call[R, T]) -> Result:
        """Send a call, with retries, and return the raw response or the transport failure.

        >>> awaited(lambda client: client.send(calls.list_users(limit=1)))
        Response(200, ... bytes)
        """
        for tries in itertools.count(1):
            request = self.request(call)  # before the connections are opened: a closed client has none
            sender = self._connections.opened(self._open_sender)
            result: Result = await sender.send(request, self.timeout_s(call))
            if (pause := self.wait_s(call, result, tries)) is None:
                break
            await asyncio.sleep(pause)
        return result

    def _open_sender(self) -> Any:
        if self.transport is None:
            from exposurekit.client.transports.aiohttp import AiohttpTransport

            headers, secure = protocol.common_headers(self.config), self.config.base_url.startswith("https:")
            return AiohttpTransport(self.connections, headers, secure=secure)
        from exposurekit.client.transports import httpx

        return httpx.async_transport(self.transport)

    def _repr_html_(self) -> str:
        return _card(self)

    async def aclose(self) -> None:
        """Close all connections. A call on a closed client is an error: create another client."""
        if sender := self._connections.close():
            await sender.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _card(client: BaseClient) -> str:
    config = client.config
    rows = {
        "service": config.service,
        "integration": config.integration_name,
        "format": config.format,
        "timeout per try (s)": f"{client.timeout:g}",
        "retries": client.retry_policy.max_retries,
    }
    is_async = isinstance(client, AsyncClient)
    wait, everyone = ("await ", {}) if is_async else ("", {"ek.Exposure(client)": "everyone, as tables"})
    calls = {
        f"{wait}client.list_users()": "the ids and secrets of the first page of users",
        f"{wait}client.get_user(key)": "one user, with records and links",
    }
    return html_card(type(client).__name__, rows, calls=calls | everyone)


def _poll_pauses(timeout: float, deadline: float) -> Iterator[float]:
    """Yield the seconds to wait before each further poll, until the timeout."""
    pause = POLL_S
    while time.monotonic() < deadline:
        yield pause
        pause = min(pause * 1.5, 10 * POLL_S)
    raise ScanTimeout(
        f"The scan did not finish within {timeout:.0f} s. It continues: check later with get_user."
    )
