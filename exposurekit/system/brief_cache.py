"""A cache that the first call after each minute empties, since what it holds may be secret."""

from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import ParamSpec, TypeVar

CACHED_S = 60.0
P = ParamSpec("P")
T = TypeVar("T")


def cached_briefly(
    function: Callable[P, T], *, entries: int, clock: Callable[[], float] = monotonic
) -> Callable[P, T]:
    """Return the function with a cache of the latest results, which the first call after each minute empties.

    >>> length = cached_briefly(len, entries=100)
    >>> length("abc")
    3
    """
    cached = lru_cache(maxsize=entries)(function)
    empty_at = clock() + CACHED_S

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        nonlocal empty_at
        if (now := clock()) >= empty_at:
            cached.cache_clear()
            empty_at = now + CACHED_S
        return cached(*args, **kwargs)  # type: ignore[arg-type]

    return call
