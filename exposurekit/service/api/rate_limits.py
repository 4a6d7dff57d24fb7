"""Rate limits: requests per key, and failed authentications per key and per address.

Both are counted by key fingerprint and client address. Any client can write X-Forwarded-For, so it counts only in
requests from a proxy that the operator trusts; behind another one all addresses are the proxy's. Failed authentications
are also counted per address, for all keys together, with ten times the limit. Beyond a limit a 401 becomes a 429.
Failures never block a request with valid credentials: otherwise anybody who sees a key in a URL could lock the
integrator out.

Each process counts for itself, in memory. Of the `limits` package's strategies, the fixed window is the one that
forgets unused keys; across the edge of two windows it allows twice the rate.
"""

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exposurekit.service.errors import ApiError

if TYPE_CHECKING:
    from limits import RateLimitItem

REQUESTS_PER_SECOND = 200  # per key and address
REFUSALS_PER_MINUTE = 20  # responses 401
BURST_S = 10
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
        # Loaded late: it takes half a second, and --help needs only the numbers above.
        from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
        from limits.storage import MemoryStorage
        from limits.strategies import FixedWindowRateLimiter

        self._requests = RateLimitItemPerSecond(limits.requests_per_second * BURST_S, BURST_S)
        self._failures = RateLimitItemPerMinute(limits.refusals_per_minute)
        self._address_failures = RateLimitItemPerMinute(limits.refusals_per_minute * KEYS_AN_ADDRESS)
        self._window = FixedWindowRateLimiter(MemoryStorage())

    def check(self, client_key: str) -> None:
        """Count a request; raises `ApiError` 429 with the time to wait if there are too many."""
        if not self._window.hit(self._requests, "requests", client_key):
            raise self._too_many_requests("too many requests", self._requests, "requests", client_key)

    def count_error(self, client_key: str, address: str, status: int) -> None:
        """Count an error response; raises `ApiError` 429 after too many 401s with this key, or from this address."""
        if status != UNAUTHORIZED:
            return
        counters = ((self._address_failures, "address", address), (self._failures, "refusals", client_key))
        exceeded = [counter for counter in counters if not self._window.hit(*counter)]
        if exceeded:
            raise self._too_many_requests("too many failed authentications", *exceeded[0])

    def _too_many_requests(self, message: str, item: "RateLimitItem", kind: str, client_key: str) -> ApiError:
        seconds = self._window.get_window_stats(item, kind, client_key).reset_time - time.time()
        return ApiError(TOO_MANY, message, retry_after_s=max(1, math.ceil(seconds)))
