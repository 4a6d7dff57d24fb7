"""Who asks too much: a key that storms, and keys that are guessed at. Counts in memory, and names nobody.

Counted by the fingerprint of the key and the address that it comes from, so that somebody elsewhere who fails
does not shut an integrator out. Behind a proxy every address is the proxy's, and the key alone decides. What is
refused is counted by the address alone as well, whatever the keys: past ten times as many, what would be refused
with 401 is answered 429. A request that is accepted is never counted there, and never turned away for it.

Each process counts for itself. `limits` counts: well kept. Of its strategies this is the one that forgets a key which is not heard
of again; at the edge of two windows it lets twice as much through.
"""

import math
import time
from dataclasses import dataclass

from limits import RateLimitItem, RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from exposurekit.service.constants import REQUESTS_PER_SECOND
from exposurekit.service.errors import ApiError

REFUSALS_PER_MINUTE = 20  # of the kind 401
BURST_S = 10
KEYS_AN_ADDRESS = 10  # as many keys may be refused as often as one, before the address is told to wait
TOO_MANY, UNAUTHORIZED = 429, 401
_NOT_ACCEPTED = "too many requests that were not accepted"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one key may ask from one address.

    Attributes:
        requests_per_second: On average over ten seconds.
        refusals_per_minute: Answers 401; past them the key is not looked at until the oldest is a minute old. Past
            ten times as many of one address, with whatever keys, its refusals are 429.
    """

    requests_per_second: int = REQUESTS_PER_SECOND
    refusals_per_minute: int = REFUSALS_PER_MINUTE


class RateLimiter:
    """Counts requests and refusals, and says when it is enough."""

    def __init__(self, limits: Limits) -> None:
        self._requests = RateLimitItemPerSecond(limits.requests_per_second * BURST_S, BURST_S)
        self._refusals = RateLimitItemPerMinute(limits.refusals_per_minute)
        self._anybodys = RateLimitItemPerMinute(limits.refusals_per_minute * KEYS_AN_ADDRESS)
        self._window = FixedWindowRateLimiter(MemoryStorage())

    def check(self, who: str) -> None:
        """One request more.

        Raises:
            Refusal: 429, with how long to wait.
        """
        if not self._window.test(self._refusals, "refusals", who):
            raise self._enough(_NOT_ACCEPTED, self._refusals, "refusals", who)
        if not self._window.hit(self._requests, "requests", who):
            raise self._enough("too many requests", self._requests, "requests", who)

    def refused(self, who: str, address: str, status: int) -> None:
        """A request was refused, to a key at this address.

        Raises:
            Refusal: 429 in its place: too many were refused to this address, with whatever keys.
        """
        if status != UNAUTHORIZED:
            return
        self._window.hit(self._refusals, "refusals", who)
        if not self._window.hit(self._anybodys, "address", address):
            raise self._enough(_NOT_ACCEPTED, self._anybodys, "address", address)

    def _enough(self, message: str, item: RateLimitItem, kind: str, who: str) -> ApiError:
        seconds = self._window.get_window_stats(item, kind, who).reset_time - time.time()
        return ApiError(TOO_MANY, message, retry_after_s=max(1, math.ceil(seconds)))
