"""Rate limits: requests per key, and failed authentications per key and per address.

Both are counted by key fingerprint and client address. Any client can write X-Forwarded-For, so it counts only in
requests from a proxy that the operator trusts; behind another one all addresses are the proxy's. Failed authentications
are also counted per address, for all keys together, with ten times the limit. Beyond a limit a 401 becomes a 429.
Failures never block a request with valid credentials: otherwise anybody who sees a key in a URL could lock the
integrator out.

Counts are in memory, in windows of a fixed length; across the edge of two windows twice the rate is possible. The server
processes of one service share them. (The `limits` package starts a thread for each window, while the request waits.)
"""

import math
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from time import monotonic

from exposurekit.service.errors import ApiError

REQUESTS_PER_SECOND = 200  # per key and address
REFUSALS_PER_MINUTE = 20  # responses 401
BURST_S, MINUTE_S = 10, 60
KEYS_AN_ADDRESS = 10  # the limit of an address, as a multiple of a key's
TOO_MANY, UNAUTHORIZED = 429, 401


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one key from one address."""

    requests_per_second: int = REQUESTS_PER_SECOND  # averaged over ten seconds
    refusals_per_minute: int = REFUSALS_PER_MINUTE  # responses 401, after which the next ones are 429


class RateLimiter:
    """Counts requests and failed authentications, alone or together with other processes."""

    def __init__(self, limits: Limits, shared: "SharedCounts | None" = None) -> None:
        windows = (
            (BURST_S, limits.requests_per_second * BURST_S),
            (MINUTE_S, limits.refusals_per_minute),
            (MINUTE_S, limits.refusals_per_minute * KEYS_AN_ADDRESS),
        )
        self._requests, self._failures, self._address_failures = (
            _Window(*window) if shared is None else _SharedWindow(*window, shared, table)
            for table, window in enumerate(windows)
        )

    def check(self, client_key: str) -> None:
        """Count a request; raises `ApiError` 429 with the time to wait if there are too many."""
        self._requests.count(client_key, "too many requests")

    def count_error(self, client_key: str, address: str, status: int) -> None:
        """Count an error response; raises `ApiError` 429 after too many 401s with this key, or from this address."""
        if status == UNAUTHORIZED:
            # The address first: beyond its limit, keys that it invents take no memory.
            self._address_failures.count(address, "too many failed authentications")
            self._failures.count(client_key, "too many failed authentications")


class _Window:
    """Counts by name within a time window; the next window begins at zero."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._counts = Counter[str]()
        self._ends_at = 0.0

    def count(self, name: str, message: str) -> None:
        now = monotonic()
        if now >= self._ends_at:
            self._begin(now)
        if self._add(name) > self._most:
            raise ApiError(TOO_MANY, message, retry_after_s=max(1, math.ceil(self._ends_at - now)))

    def _begin(self, now: float) -> None:
        self._counts.clear()
        self._ends_at = now + self._seconds

    def _add(self, name: str) -> int:
        """Count a name; return how often it was counted in this window."""
        self._counts[name] += 1
        return self._counts[name]


class SharedCounts:
    """Counts that the processes of one service share.

    Each process writes a part of the memory of its own, and adds what it reads in the parts of the others. So none ever
    waits for another, and one that is killed leaves no lock behind, and its counts to the process that replaces it.

    Args:
        memory: `words` integers of 64 bits in memory that the processes share; at first, all are 0.
        process: The number of this process, from 0.

    >>> memory = memoryview(bytearray(8 * SharedCounts.words(2))).cast("Q")
    >>> one, other = (SharedCounts(memory, process) for process in range(2))
    >>> [counts.add(0, 1, "192.0.2.1") for counts in (one, other, one)]
    [1, 2, 3]
    """

    def __init__(self, memory: "memoryview[int]", process: int) -> None:
        self._memory = memory
        self._process = process
        self._processes = len(memory) // (_TABLES * _TABLE_WORDS)

    @staticmethod
    def words(processes: int) -> int:
        """Return the number of integers that this many processes need."""
        return 1 + processes * _TABLES * _TABLE_WORDS

    def start(self, now: float) -> float:
        """Return when the first window of all processes began, by `time.monotonic`, which they share."""
        if not self._memory[0]:
            self._memory[0] = int(now * 1e6)
        return self._memory[0] / 1e6

    def add(self, table: int, window: int, name: str) -> int | None:
        """Count a name in a window of one table; return the count of all processes.

        None: this process has no room left for the name in this window.
        """
        fingerprint = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
        own = self._find(table, self._process, window, fingerprint)
        if own is None:
            return None
        index, count = own
        self._memory[index] = fingerprint  # first: without a count of this window the entry is free
        self._memory[index + 1] = window << _COUNT_BITS | (count + 1)
        total = count + 1
        for process in range(self._processes):
            if process != self._process:
                other = self._find(table, process, window, fingerprint)
                total += 0 if other is None else other[1]
        return total

    def _find(self, table: int, process: int, window: int, fingerprint: int) -> tuple[int, int] | None:
        """Return the entry of a fingerprint and its count, or a free one and 0; None: there is neither."""
        memory, begin = self._memory, 1 + (process * _TABLES + table) * _TABLE_WORDS
        for probe in range(_PROBES):
            index = begin + 2 * ((fingerprint + probe) % _ENTRIES)
            counted = memory[index + 1]
            if counted >> _COUNT_BITS != window:
                return index, 0
            if memory[index] == fingerprint:
                return index, counted & _COUNT_MAX
        return None


# An entry is a fingerprint of the name, and the window's number with the count.
_TABLES, _ENTRIES, _PROBES = 3, 1 << 15, 32
_TABLE_WORDS = 2 * _ENTRIES
_COUNT_BITS = 32
_COUNT_MAX = (1 << _COUNT_BITS) - 1


class _SharedWindow(_Window):
    """A window of all processes; names for which there is no room are counted by each process for itself."""

    def __init__(self, seconds: float, most: int, shared: SharedCounts, table: int) -> None:
        super().__init__(seconds, most)
        self._shared, self._table = shared, table
        self._number = 0

    def _begin(self, now: float) -> None:
        start = self._shared.start(now)
        self._number = int((now - start) // self._seconds) + 1
        self._counts.clear()
        self._ends_at = start + self._number * self._seconds

    def _add(self, name: str) -> int:
        count = self._shared.add(self._table, self._number, name)
        return super()._add(name) if count is None else count
