"""Slots that owners share, so that nobody's requests, however many, keep the others' waiting."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable

from exposurekit.errors import ExposureError


class TooManyWait(ExposureError):
    """The maximum number already waits for this owner."""


class FairSlots:
    """Slots that owners share. A free one goes to the waiting owner with the lowest rank; ties rotate.

    Args:
        n: The number of slots.
        most: The slots that one owner may hold.
        waiting_max: The requests of one owner that may wait.
        rank: Returns an owner's rank; by default the number of slots that it holds.
    """

    def __init__(
        self, n: int, *, most: int, waiting_max: int, rank: Callable[[Hashable], float] | None = None
    ) -> None:
        self._free = n
        self._most = most
        self._waiting_max = waiting_max
        self._taken: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._rank = rank or (lambda owner: self._taken.get(owner, 0))

    def acquire_free(self, owner: Hashable) -> bool:
        """Take a slot if that needs no waiting; return whether it is taken."""
        if owner in self._waiting or not self._may_take(owner):
            return False
        self._take(owner)
        return True

    async def acquire(self, owner: Hashable) -> None:
        """Take a slot, or wait for one; raises `TooManyWait`."""
        if self.acquire_free(owner):
            return
        turns = self._waiting.setdefault(owner, deque())
        if len(turns) >= self._waiting_max:
            raise TooManyWait("too many requests of one owner wait")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came meanwhile
                self.release(owner)
            else:
                self._forget(owner, turn)
            raise

    def release(self, owner: Hashable) -> None:
        """Give a slot back."""
        self._free += 1
        if self._taken[owner] > 1:
            self._taken[owner] -= 1
        else:
            del self._taken[owner]
        while self._waiting and (following := [one for one in self._waiting if self._may_take(one)]):
            one = min(following, key=self._rank)
            turn = self._waiting[one][0]
            self._forget(one, turn)
            if not turn.done():  # otherwise it has just been given up
                self._take(one)
                turn.set_result(None)

    def _may_take(self, owner: Hashable) -> bool:
        return self._free > 0 and self._taken.get(owner, 0) < self._most

    def _take(self, owner: Hashable) -> None:
        self._free -= 1
        self._taken[owner] = self._taken.get(owner, 0) + 1

    def _forget(self, owner: Hashable, turn: asyncio.Future[None]) -> None:
        """Drop a turn from the queue, if it is there; the others of this owner queue behind the other owners."""
        turns = self._waiting.pop(owner, deque())
        if turn in turns:
            turns.remove(turn)
        if turns:
            self._waiting[owner] = turns
