"""Rate limits: requests per key, and failed authentications per key and per address.

Both are counted by key fingerprint and client address. Any client can write X-Forwarded-For, so it counts only in
requests from a proxy that the operator trusts; behind another one all addresses are the proxy's. Failed authentications
are also counted per address, for all keys together, with ten times the limit. Beyond a limit a 401 becomes a 429.
Failures never block a request with valid credentials: otherwise anybody who sees a key in a URL could lock the
integrator out.

Each process counts for itself, in memory, in windows of a fixed length; across the edge of two windows twice the rate is
possible. (The `limits` package starts a thread for each window, while the request waits.)
"""

import math
from collections import Counter
from dataclasses import dataclass
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
    """Counts requests and failed authentications."""

    def __init__(self, limits: Limits) -> None:
        self._requests = _Window(BURST_S, limits.requests_per_second * BURST_S)
        self._failures = _Window(MINUTE_S, limits.refusals_per_minute)
        self._address_failures = _Window(MINUTE_S, limits.refusals_per_minute * KEYS_AN_ADDRESS)

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
    """Counts by name until its time is over, then anew."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._counts = Counter[str]()
        self._ends_at = 0.0

    def count(self, name: str, message: str) -> None:
        now = monotonic()
        if now >= self._ends_at:
            self._counts.clear()
            self._ends_at = now + self._seconds
        self._counts[name] += 1
        if self._counts[name] > self._most:
            raise ApiError(TOO_MANY, message, retry_after_s=max(1, math.ceil(self._ends_at - now)))
