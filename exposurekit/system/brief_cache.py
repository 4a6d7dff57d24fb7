"""A cache that the first call after each minute empties, since what it holds may be secret."""

from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import TypeVar, TypeVarTuple

CACHED_S = 60.0
Ts = TypeVarTuple("Ts")
T = TypeVar("T")


def cached_briefly(
    function: Callable[[*Ts], T], *, entries: int, clock: Callable[[], float] = monotonic
) -> Callable[[*Ts], T]:
    """Return the function with a cache of the latest results, which the first call after each minute empties.

    >>> length = cached_briefly(len, entries=100)
    >>> length("abc")
    3
    """
    cached = lru_cache(maxsize=entries)(function)
    empty_at = clock() + CACHED_S

    def call(*args: *Ts) -> T:
        nonlocal empty_at
        if (now := clock()) >= empty_at:
            cached.cache_clear()
            empty_at = now + CACHED_S
        return cached(*args)

    return call
