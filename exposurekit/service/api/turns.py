"""Requests in turn: however many or large one client's requests are, another's waits only for a part of one.

One event loop processes all requests. Each takes a slot; a client (a key from an address) has few of them, and a free
one goes to the waiting client that has been charged least. A client is charged the time for which its requests occupy
the event loop: cost counts, not number. What may take long yields between its parts with ``asyncio.sleep(0)``. While a
client writes and others have requests, its other requests rest, since the others may have to wait for that write.
"""

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, TypeVar

from exposurekit.service.api.fair_slots import FairSlots
from exposurekit.service.errors import ApiError

SLOTS, SLOTS_PER_CLIENT = 16, 2
# Of one client: its open requests, and the bytes of their bodies.
REQUESTS_MAX, BODIES_MAX = 1_000, 16 << 20
RETRY_AFTER_S = 5
TOO_MANY = "too many of your requests wait: try again"
T = TypeVar("T")


@dataclass
class _Client:
    charged_s: float
    requests: int = 0  # open ones: in a slot, waiting or set aside
    body_bytes: int = 0  # of the open ones
    write: "asyncio.Future[None] | None" = None  # its write, until that ends

    @cached_property
    def writes(self) -> asyncio.Lock:
        """Held by the one that writes."""
        return asyncio.Lock()


class Turns:
    """The turns of one application's requests.

    Args:
        slots: The requests that are processed at the same time.
        slots_per_client: The same, of one client.
        bodies_max: The bytes of one client's open requests; a single request may have more.
        timer: Returns seconds; clients are charged by it.

    >>> import asyncio
    >>> async def answer(turn):
    ...     return 6 * 7
    >>> asyncio.run(Turns().take("192.0.2.1", answer))
    42
    """

    def __init__(
        self,
        slots: int = SLOTS,
        slots_per_client: int = SLOTS_PER_CLIENT,
        *,
        bodies_max: int = BODIES_MAX,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self._bodies_max = bodies_max
        self._timer = timer
        self._clients: dict[Hashable, _Client] = {}  # those with open requests
        self._slots = FairSlots(slots, most=slots_per_client, waiting_max=REQUESTS_MAX, rank=self._charged)
        # The highest charge of a request that has begun, or of a client that has none left. New clients begin with it, so
        # that nobody saves up idle time, and whoever returns at once is not ahead of those who wait.
        self._newest_charged_s = 0.0

    async def take(
        self, name: str, handle: Callable[["Turn"], Coroutine[Any, Any, T]], *, body_bytes: int = 0
    ) -> T:
        """Wait for the client's turn and return what the handler returns.

        Raises `ApiError` 503 if the client has too many requests open, or too large ones.
        """
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client(self._newest_charged_s)
        client.requests += 1
        client.body_bytes += body_bytes
        turn = Turn(self._slots, name, client)
        try:
            if client.requests > REQUESTS_MAX or client.body_bytes > max(body_bytes, self._bodies_max):
                raise ApiError(503, TOO_MANY, retry_after_s=RETRY_AFTER_S)
            if not turn.acquire_free():
                await turn.acquire()
            self._newest_charged_s = max(self._newest_charged_s, client.charged_s)
            return await self._charging(handle(turn), turn, client)
        finally:
            turn.release()
            client.requests -= 1
            client.body_bytes -= body_bytes
            if not client.requests:
                self._newest_charged_s = max(self._newest_charged_s, client.charged_s)
                del self._clients[name]

    def _charged(self, name: Hashable) -> float:
        return self._clients[name].charged_s

    @types.coroutine
    def _charging(
        self, coroutine: Coroutine[Any, Any, T], turn: "Turn", client: _Client
    ) -> Generator[Any, Any, T]:
        """Run a coroutine, and charge the client for each step between two waits."""
        value: Any = None
        fault: BaseException | None = None  # usually a cancellation: the coroutine's concern
        while True:
            try:
                while fault is None and client.write and not turn.is_writing and len(self._clients) > 1:
                    yield from asyncio.shield(client.write)
            except BaseException as cancellation:  # noqa: BLE001
                fault = cancellation
            began = self._timer()
            try:
                waits_for = coroutine.send(value) if fault is None else coroutine.throw(fault)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                client.charged_s += self._timer() - began
            value = fault = None
            try:
                value = yield waits_for
            except BaseException as cancellation:  # noqa: BLE001
                fault = cancellation


class Turn:
    """The slot of one request."""

    __slots__ = ("_client", "_is_taken", "_name", "_slots", "is_writing")

    def __init__(self, slots: FairSlots, name: Hashable, client: _Client) -> None:
        self._slots = slots
        self._client = client
        self._name = name
        self._is_taken = False
        self.is_writing = False

    def acquire_free(self) -> bool:
        """Take a slot if that needs no waiting; return whether it is taken."""
        self._is_taken = self._slots.acquire_free(self._name)
        return self._is_taken

    async def acquire(self) -> None:
        """Take a slot, or wait for one."""
        await self._slots.acquire(self._name)
        self._is_taken = True

    def release(self) -> None:
        """Give the slot back, if it has one."""
        if self._is_taken:
            self._is_taken = False
            self._slots.release(self._name)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait for the client's other writes: of the writes that wait for the database, one is of this client."""
        async with self._client.writes:
            self.is_writing = True
            self._client.write = write = asyncio.get_running_loop().create_future()
            try:
                yield
            finally:
                self.is_writing, self._client.write = False, None
                write.set_result(None)

    @asynccontextmanager
    async def set_aside(self) -> AsyncIterator[None]:
        """Give the slot back for the duration of the block, which waits for something else."""
        self.release()
        try:
            yield
        finally:
            await self.acquire()
