"""A limit on the memory of what clients are sending: the client that holds most makes way for the others."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from exposurekit.errors import ExposureError


class MemoryBudgetExceeded(ExposureError):
    """There is no memory left, and nobody else to make way."""


class MemoryBudget:
    """Bytes that requests share.

    >>> budget = MemoryBudget(1_000)
    >>> with budget.reservation("192.0.2.1", lambda: print("makes way")) as slow:
    ...     slow.add(800)
    ...     with budget.reservation("192.0.2.2", lambda: None) as other:
    ...         other.add(300)
    makes way
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._reservations: dict[Reservation, None] = {}  # the oldest first

    @contextmanager
    def reservation(self, owner: str, make_way: Callable[[], object]) -> Iterator["Reservation"]:
        """Reserve bytes for the duration of the block.

        Args:
            owner: Who sends, such as an address.
            make_way: Called if others need the memory: it ends the request soon, and its bytes count no more.
        """
        one = Reservation(self, owner, make_way)
        self._reservations[one] = None
        try:
            yield one
        finally:
            self._forget(one)

    def take(self, one: "Reservation", size: int) -> None:
        """Add bytes to a reservation; if there are too few, the oldest of the owner with most makes way."""
        if one not in self._reservations:
            raise MemoryBudgetExceeded("this request had to make way for others")
        one.size += size
        self._free -= size
        while self._free < 0:
            following = self._next_to_go()
            if following is None or following is one:
                raise MemoryBudgetExceeded("too much is being sent at once")
            self._forget(following)
            following.make_way()

    def _next_to_go(self) -> "Reservation | None":
        can_go = [one for one in self._reservations if one.size and not one.is_complete]
        totals = Counter[str]()
        for one in can_go:
            totals[one.owner] += one.size
        return max(can_go, key=lambda one: totals[one.owner], default=None)  # of equal ones the first

    def _forget(self, one: "Reservation") -> None:
        if one in self._reservations:
            del self._reservations[one]
            self._free += one.size


class Reservation:
    """The bytes of one request."""

    def __init__(self, budget: MemoryBudget, owner: str, make_way: Callable[[], object]) -> None:
        self._budget = budget
        self.owner = owner
        self.make_way = make_way
        self.size = 0
        self.is_complete = False  # everything has arrived: it makes way for nobody

    def add(self, size: int) -> None:
        """Reserve more bytes; raises `MemoryBudgetExceeded` if there are none."""
        self._budget.take(self, size)
