"""Answers that were given, encoded, for as long as nothing about them has changed. Decides nothing; keeps no file.

This is opened personal data in memory. The process has the key and opens the same data for every request anyway;
what stands here is bounded in size and time, is never written, and is given only to a caller whom the gate let in
just now: it is asked each time, and a person who is gone or a key that was rotated is refused there. What tells
that nothing has changed is read in the same look as the gate's question, so that an answer is never remembered
under another moment than its own. `cachetools` keeps count: well kept, and it costs a microsecond.
"""

import asyncio
import time
from collections.abc import Callable, Hashable

from cachetools import TTLCache

BYTES_MAX = 2**24  # some two thousand people with twenty records each
SHARE = 16  # no answer is kept that is larger than this part of the whole
AGE_MAX_S = 600
TIDY_EVERY_S = 30
_ENTRY_BYTES = 600  # about what the key takes, and what keeps it in order


class ResponseCache:
    """Bodies by what they show; those least recently asked for go first. Belongs to one event loop.

    Args:
        bytes_max: How much is kept; 0: nothing.
        clock: Seconds that never run back.
    """

    def __init__(self, bytes_max: int = BYTES_MAX, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_on = bytes_max > 0
        self._size_max = bytes_max // SHARE
        self._bodies: TTLCache[Hashable, bytes] = TTLCache(bytes_max, AGE_MAX_S, clock, _size)

    def __repr__(self) -> str:
        return "Memory(hidden)"

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def size(self) -> int:
        """How many bytes are kept, what keeps them in order included."""
        return int(self._bodies.currsize)

    def find(self, key: Hashable) -> bytes | None:
        """What was kept under this key, unless it is too old or had to make room."""
        try:
            return self._bodies[key]  # get() would look twice
        except KeyError:
            return None

    def keep(self, key: Hashable, body: bytes) -> None:
        """Remember a body; nothing, where it is too large."""
        if _size(body) <= self._size_max:
            self._bodies[key] = body

    def clear(self) -> None:
        """Forget everything."""
        self._bodies.clear()

    async def tidy(self) -> None:
        """Until cancelled: forget what is too old, also while nobody asks."""
        while True:
            await asyncio.sleep(TIDY_EVERY_S)
            self._bodies.expire()


def _size(body: bytes) -> int:
    return len(body) + _ENTRY_BYTES
