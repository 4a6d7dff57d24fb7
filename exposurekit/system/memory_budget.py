"""A limit on the memory of what clients are sending: the client that holds most makes way for the others."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from exposurekit.errors import ExposureError


class MemoryBudgetExceeded(ExposureError):
    """The budget is exhausted, or this request had to make way for others."""


class MemoryBudget:
    """Bytes that requests share.

    >>> budget, limits = MemoryBudget(1_000), (asyncio.Timeout(None), asyncio.Timeout(None))
    >>> with budget.reservation("192.0.2.1", limits[0]) as slow:
    ...     slow.add(800)
    ...     with budget.reservation("192.0.2.2", limits[1]) as other:
    ...         other.add(200)
    ...         slow.is_current
    True
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._reservations: dict[Reservation, None] = {}  # the oldest first

    @contextmanager
    def reservation(self, owner: str, limit: asyncio.Timeout) -> Iterator["Reservation"]:
        """Reserve bytes for the duration of the block.

        Args:
            owner: Who sends, such as an address.
            limit: The time limit of what it sends; if others need the memory, it ends at once.
        """
        one = Reservation(self, owner, limit)
        self._reservations[one] = None
        try:
            yield one
        finally:
            self._forget(one)

    def take(self, one: "Reservation", size: int) -> None:
        """Add bytes to a reservation; if there are too few, the oldest of the owner with most makes way."""
        if not one.is_current:
            raise MemoryBudgetExceeded("this request had to make way for others")
        one.size += size
        self._free -= size
        while self._free < 0:
            following = self._next_to_go()
            if following is None or following is one:
                self._forget(one)
                raise MemoryBudgetExceeded("too much is being sent at once")
            self._forget(following)
            if not following.limit.expired():
                following.limit.reschedule(0)

    def _next_to_go(self) -> "Reservation | None":
        can_go = [one for one in self._reservations if one.size and not one.is_complete]
        totals = Counter[str]()
        for one in can_go:
            totals[one.owner] += one.size
        return max(can_go, key=lambda one: totals[one.owner], default=None)  # of equal ones the first

    def _forget(self, one: "Reservation") -> None:
        if one.is_current:
            one.is_current = False
            del self._reservations[one]
            self._free += one.size


class Reservation:
    """The bytes of one request."""

    def __init__(self, budget: MemoryBudget, owner: str, limit: asyncio.Timeout) -> None:
        self._budget = budget
        self.owner = owner
        self.limit = limit
        self.size = 0
        self.is_current = True  # it has not made way
        self.is_complete = False  # everything has arrived: it makes way for nobody

    def add(self, size: int) -> None:
        """Reserve more bytes; raises `MemoryBudgetExceeded` if there are none, or if this request had to make way."""
        self._budget.take(self, size)
