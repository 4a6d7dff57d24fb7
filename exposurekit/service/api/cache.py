"""Response cache: encoded bodies, as long as the data behind them has not changed.

It holds decrypted personal data in memory, bounded in size and age and never written to disk; the process has the
encryption key and decrypts the same data for requests anyway. Every request is authenticated before a lookup, so an
erased user or a rotated key is refused. The cache key is read in the same snapshot as the credentials, so that a body
is never stored under another state than its own.
"""

import asyncio
import time
from collections.abc import Callable, Hashable

from cachetools import TTLCache

BYTES_MAX = 2**24  # about two thousand users with twenty records each
SHARE = 16  # a body larger than this fraction of the cache is not stored
AGE_MAX_S = 600
TIDY_EVERY_S = 30
_ENTRY_BYTES = 600  # approximate overhead of an entry


class ResponseCache:
    """A least-recently-used cache of bodies with a maximum age, for one event loop; a size of 0 disables it."""

    def __init__(self, bytes_max: int = BYTES_MAX, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.enabled = bytes_max > 0
        self._size_max = bytes_max // SHARE
        self._bodies: TTLCache[Hashable, bytes] = TTLCache(bytes_max, AGE_MAX_S, clock, _size)

    def __repr__(self) -> str:
        return "ResponseCache(hidden)"

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def size(self) -> int:
        """Size in bytes, with overhead."""
        return int(self._bodies.currsize)

    def get(self, key: Hashable) -> bytes | None:
        """Return the body of a key; None: not cached or expired."""
        try:
            return self._bodies[key]  # get() would look twice
        except KeyError:
            return None

    def put(self, key: Hashable, body: bytes) -> None:
        """Store a body, unless it is too large."""
        if _size(body) <= self._size_max:
            self._bodies[key] = body

    def clear(self) -> None:
        """Delete everything."""
        self._bodies.clear()

    async def delete_expired(self, *, every_s: float = TIDY_EVERY_S) -> None:
        """Delete expired bodies periodically, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            self._bodies.expire()


def _size(body: bytes) -> int:
    return len(body) + _ENTRY_BYTES
