"""Client, which blocks, and AsyncClient, its awaiting twin: they send bytes and sleep, and decide nothing."""

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from exposurekit.client import calls, protocol
from exposurekit.client.base import BaseClient, Settings
from exposurekit.client.calls import Call, Key, Paging
from exposurekit.client.retry import Result
from exposurekit.contract.models import Reply, User, UserKey, UserPage
from exposurekit.errors import InvalidArgument, ScanTimeout
from exposurekit.text.html_cards import html_card

if TYPE_CHECKING:
    import pandas as pd  # loaded with the first table

P = ParamSpec("P")
R = TypeVar("R", bound=Reply)
T = TypeVar("T")

POLL_S = 0.25


def _blocking(build: Callable[P, Call[R, T]]) -> Callable[Concatenate["Client", P], T]:
    """The operation as a method that waits for its reply."""

    def method(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = _new_client(build, args, kwargs)
        del args, kwargs  # a traceback that shows local names shows no person
        if isinstance(call, Exception):
            raise call
        try:
            outcome = self.send(call)
        except KeyboardInterrupt as stopped:  # the frames below hold addresses and bodies
            raise stopped.with_traceback(None) from None
        return protocol.model(call, self.config, outcome)

    _describe(method, build)
    return method


def _awaiting(build: Callable[P, Call[R, T]]) -> Callable[Concatenate["AsyncClient", P], Awaitable[T]]:
    """The operation as a method to await."""

    async def method(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = _new_client(build, args, kwargs)
        del args, kwargs
        if isinstance(call, Exception):
            raise call
        try:
            outcome = await self.send(call)
        except asyncio.CancelledError as stopped:
            raise stopped.with_traceback(None) from None
        return protocol.model(call, self.config, outcome)

    _describe(method, build)
    return method


def _new_client(build: Callable[..., Call[R, T]], args: Any, kwargs: Any) -> Call[R, T] | Exception:
    """The call, or why there is none; its traceback shows no person either."""
    try:
        return build(*args, **kwargs)
    except (InvalidArgument, TypeError) as error:
        return error.with_traceback(None)


def _describe(method: Any, build: Callable[..., Call[Any, Any]]) -> None:
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    me = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    answer = inspect.get_annotations(build)["return"].__args__[1]
    method.__signature__ = signature.replace(
        parameters=[me, *signature.parameters.values()], return_annotation=answer
    )


class Client(BaseClient):
    """The eight operations, one call each. Blocks; works in a script, a shell and a running notebook.

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
        """Every user's key, page after page, each once.

        >>> sum(1 for key in client.iter_users()) == client.list_users().count
        True
        """
        paging, listed = Paging(page_size), set[int]()
        while not paging.done:
            page = self.list_users(paging.limit, paging.offset)
            fresh = calls.unlisted(page, listed)
            yield from fresh
            paging = paging.after(page, fresh=len(fresh))

    def wait_for_scan(self, key: Key, timeout: float = 300.0) -> User:
        """Look at a user until no scan is running, and return the user as found then.

        Args:
            key: The user's key.
            timeout: Seconds to wait at most.

        Raises:
            ScanTimeout: The scan did not end in time.

        >>> client.wait_for_scan(key).is_scanning
        False
        """
        until, pause = time.monotonic() + timeout, POLL_S
        while (user := self.get_user(key)).is_scanning:
            _check_time(until - time.monotonic(), timeout)
            time.sleep(pause)
            pause = min(pause * 1.5, 10 * POLL_S)
        return user

    def probe(self) -> "pd.DataFrame":
        """How this service answers the points that the specification leaves open. Reads only.

        Returns:
            A DataFrame, one row a point: ``point``, ``answer`` (text; what could not be told says so).

        >>> client.probe().set_index("point").loc["count of users", "answer"]
        'count and total'
        """
        from exposurekit.client import probe

        return probe.table(self)

    def send(self, call: Call[R, T]) -> Result:
        """What a call comes to, after as many tries as it may have: the bytes, before they mean anything.

        >>> client.send(calls.list_users(limit=1))
        Response(200, ... bytes)
        """
        tries = 0
        while True:
            outcome = self._try(call)
            tries += 1
            pause = self.wait_s(call, outcome, tries)
            if pause is None:
                return outcome
            time.sleep(pause)

    def _try(self, call: Call[R, T]) -> Result:
        outcome: Result = self._carrier.send(protocol.request(call, self.config), self.seconds(call))
        return outcome

    @functools.cached_property
    def _carrier(self) -> Any:
        from exposurekit.client.transports.httpx import Blocking

        return Blocking(self.transport)

    def as_async(self, connections: int = 8) -> "AsyncClient":
        """An `AsyncClient` with the same settings and this many connections."""
        client = object.__new__(AsyncClient)
        settings = {name: value for name, value in vars(self).items() if name != "_carrier"}
        vars(client).update(settings, connections=connections)
        return client

    def _repr_html_(self) -> str:
        return _card(self)

    def close(self) -> None:
        """Close the connections that are kept open."""
        if "_carrier" in self.__dict__:
            self.__dict__.pop("_carrier").close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(BaseClient):
    """The eight operations, to await. The same calls, errors and retries as `Client`.

    >>> async def first_page():
    ...     async with ek.AsyncClient(**connection) as client:
    ...         return await client.list_users(limit=2)
    >>> asyncio.run(first_page())
    UserPage(count=..., users=2)
    """

    def __init__(
        self, base_url: str | None = None, *, connections: int = 8, **settings: Unpack[Settings]
    ) -> None:
        """Connect to a service.

        Args:
            base_url: As for `Client`.
            connections: Calls that are under way at once; further ones wait for a place.
            settings: All else that `Client` takes.
        """
        super().__init__(base_url, **settings)
        self.connections = connections

    create_user = _awaiting(calls.create_user)
    list_users = _awaiting(calls.list_users)
    get_user = _awaiting(calls.get_user)
    update_user = _awaiting(calls.update_user)
    list_user_records = _awaiting(calls.list_user_records)
    get_record = _awaiting(calls.get_record)
    list_user_links = _awaiting(calls.list_user_links)
    get_user_alerts = _awaiting(calls.get_user_alerts)

    async def iter_pages(
        self, page_size: int = calls.PAGE_SIZE, *, notes: protocol.Notes | None = None
    ) -> AsyncIterator[UserPage]:
        """Page after page of the users' keys, each key once.

        Args:
            page_size: Users on a page at most.
            notes: Where deviations from the specification are counted; None: a warning tells of lost items.

        >>> async def pages(client):
        ...     return [len(page.users) async for page in client.iter_pages(page_size=5)]
        >>> awaited(pages)[0]
        5
        """
        paging, listed = Paging(page_size), set[int]()
        while not paging.done:
            call = calls.list_users(paging.limit, paging.offset)
            page = protocol.model(call, self.config, await self.send(call), notes)
            fresh = calls.unlisted(page, listed)
            yield page.model_copy(update={"users": fresh})
            paging = paging.after(page, fresh=len(fresh))

    async def iter_users(self, page_size: int = calls.PAGE_SIZE) -> AsyncIterator[UserKey]:
        """Every user's key, page after page, each once.

        >>> async def ids(client):
        ...     return [key.id async for key in client.iter_users()]
        >>> key.id in awaited(ids)
        True
        """
        async for page in self.iter_pages(page_size):
            for key in page.users:
                yield key

    async def wait_for_scan(self, key: Key, timeout: float = 300.0) -> User:  # noqa: ASYNC109  as Client's
        """Look at a user until no scan is running, and return the user as found then.

        Raises:
            ScanTimeout: The scan did not end in time.

        >>> awaited(lambda client: client.wait_for_scan(key)).is_scanning
        False
        """
        until, pause = time.monotonic() + timeout, POLL_S
        while (user := await self.get_user(key)).is_scanning:
            _check_time(until - time.monotonic(), timeout)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 10 * POLL_S)
        return user

    async def send(self, call: Call[R, T]) -> Result:
        """What a call comes to, after as many tries as it may have: the bytes, before they mean anything.

        >>> awaited(lambda client: client.send(calls.list_users(limit=1)))
        Response(200, ... bytes)
        """
        tries = 0
        while True:
            asked = protocol.request(call, self.config)
            outcome: Result = await self._carrier.send(asked, self.seconds(call))
            tries += 1
            pause = self.wait_s(call, outcome, tries)
            if pause is None:
                return outcome
            await asyncio.sleep(pause)

    @functools.cached_property
    def _carrier(self) -> Any:
        if self.transport is None:
            from exposurekit.client.transports.aiohttp import Awaiting

            return Awaiting(
                self.connections, self.config.headers, secure=self.config.base_url.startswith("https:")
            )
        from exposurekit.client.transports import httpx

        return httpx.awaiting(self.transport)

    def _repr_html_(self) -> str:
        return _card(self)

    async def aclose(self) -> None:
        """Close the connections that are kept open."""
        if "_carrier" in self.__dict__:
            await self._carrier.aclose()
            del self._carrier

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _card(client: BaseClient) -> str:
    access = client.config
    facts = {
        "service": access.base_url,
        "integration": access.integration_name,
        "format": access.format,
        "seconds a try": f"{client.timeout:g}",
        "further tries": client.retry_policy.max_retries,
    }
    return html_card(type(client).__name__, facts)


def _check_time(left_s: float, timeout: float) -> None:
    if left_s <= 0:
        raise ScanTimeout(
            f"The scan did not end within {timeout:.0f} s; it goes on: look again with get_user."
        )
