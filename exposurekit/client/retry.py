"""Retry policy: whether to try a call again, and after how long."""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

from exposurekit.errors import InvalidArgument

_WAIT_MAX = 1e9  # seconds, over thirty years
RETRY_STATUSES = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Response({self.status}, {len(self.body)} bytes)"

    @property
    def retry_after_s(self) -> float | None:
        """Seconds that ``Retry-After`` asks to wait, as a number or as an HTTP date; None without one."""
        return retry_after(self.headers.get("retry-after"))


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """A request without a complete response."""

    reason: str
    maybe_received: bool = True  # False only if nothing was sent
    final: bool = False  # another try would fail in the same way

    @classmethod
    def refused(cls) -> "TransportFailure":
        """The connection was refused."""
        return cls("connection refused", maybe_received=False)

    @classmethod
    def dns(cls) -> "TransportFailure":
        """The host name has no address."""
        return cls("host name not found", maybe_received=False)

    @classmethod
    def tls(cls) -> "TransportFailure":
        """The TLS handshake failed."""
        return cls(
            "no TLS connection: the service speaks plain HTTP, or its certificate is invalid",
            maybe_received=False,
        )

    @classmethod
    def disconnected(cls) -> "TransportFailure":
        """The connection ended before the response did, or the response was not valid HTTP."""
        return cls("connection lost before the response was complete")

    @classmethod
    def timeout(cls, *, maybe_received: bool = True) -> "TransportFailure":
        """The time for one try ran out."""
        return cls("no response before the timeout", maybe_received)

    @classmethod
    def too_large(cls) -> "TransportFailure":
        """The response exceeds the size limit, which protects the memory."""
        return cls("the response is too large", final=True)


Result = Response | TransportFailure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to retry a call that may be repeated, and how long to wait in between.

    Args:
        max_retries: Maximum number of tries after the first one.
        initial_delay: Maximum seconds before the first retry; doubled for each further one, with full jitter.
        max_delay: Maximum seconds to wait. If ``Retry-After`` asks for more, the call is not retried.

    >>> RetryPolicy(max_retries=5).max_retries
    5
    """

    max_retries: int = 3
    initial_delay: float = 0.5
    max_delay: float = 60.0

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.initial_delay < 0 or self.max_delay < 0:
            raise InvalidArgument("RetryPolicy: max_retries, initial_delay and max_delay must be 0 or more")

    def wait_s(self, result: Result, *, tries: int, repeatable: bool) -> float | None:
        """Return the seconds to wait before the next try, or None if this result is final.

        Args:
            result: The last response or transport failure.
            tries: The number of tries so far, the first included.
            repeatable: Whether the service may receive the call twice.
        """
        if tries > self.max_retries:
            return None
        requested_s = None
        if isinstance(result, Response):
            if result.status not in RETRY_STATUSES or not repeatable:
                return None
            requested_s = result.retry_after_s
        elif result.final or (result.maybe_received and not repeatable):
            return None
        if requested_s is not None:
            return requested_s if requested_s <= self.max_delay else None
        longest_s = min(self.max_delay, self.initial_delay * 2 ** (tries - 1))
        return random.uniform(0, longest_s)  # noqa: S311  jitter, not a secret


def retry_after(value: str | None) -> float | None:
    """Return ``Retry-After`` as seconds from now, rounded up; None if it is missing or invalid."""
    if value is None:
        return None
    text = value.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(ceil(min(float(text), _WAIT_MAX)))
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
