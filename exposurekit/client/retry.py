"""Whether to ask again, and when. Decides on plain values; never sleeps."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from exposurekit.errors import InvalidArgument

ASK_AGAIN = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Response:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"Response({self.status}, {len(self.body)} bytes)"

    @property
    def retry_after_s(self) -> float | None:
        """Seconds the service asked to wait: ``Retry-After`` as seconds or as an HTTP date."""
        return retry_after(self.headers.get("retry-after"))


@dataclass(frozen=True, slots=True)
class TransportFailure:
    """No whole answer came. ``maybe_received`` is False only where nothing can have been sent.

    ``final``: the next try would end alike.
    """

    reason: str
    maybe_received: bool = True
    final: bool = False

    @classmethod
    def refused(cls) -> "TransportFailure":
        """No connection came about."""
        return cls("connection refused", maybe_received=False)

    @classmethod
    def dns(cls) -> "TransportFailure":
        """The host's name has no address."""
        return cls("host name not found", maybe_received=False)

    @classmethod
    def tls(cls) -> "TransportFailure":
        """No TLS connection came about."""
        return cls(
            "no TLS connection: the service speaks plain HTTP, or its certificate is invalid",
            maybe_received=False,
        )

    @classmethod
    def disconnected(cls) -> "TransportFailure":
        """The connection ended before the answer did, or what came was no HTTP."""
        return cls("connection lost before the response was complete")

    @classmethod
    def timeout(cls, *, maybe_received: bool = True) -> "TransportFailure":
        """The time for one try ran out."""
        return cls("no response before the timeout", maybe_received)

    @classmethod
    def too_large(cls) -> "TransportFailure":
        """The answer was given up, so that it does not fill the memory."""
        return cls("the response is too large", final=True)


Result = Response | TransportFailure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call that may be repeated is repeated, and how long to wait between.

    Args:
        max_retries: Further tries after the first.
        initial_delay: Seconds before the first retry at most; doubled for each further one, with full jitter.
        max_delay: Seconds of waiting at most, also where ``Retry-After`` asks for more: then the call ends.

    >>> RetryPolicy(max_retries=5).max_retries
    5
    """

    max_retries: int = 3
    initial_delay: float = 0.5
    max_delay: float = 60.0

    def __post_init__(self) -> None:
        if self.max_retries < 0 or self.initial_delay < 0 or self.max_delay < 0:
            raise InvalidArgument("RetryPolicy: max_retries, initial_delay and max_delay must be 0 or more")

    def wait_s(self, outcome: Result, *, tries: int, repeatable: bool) -> float | None:
        """Seconds to wait before the next try, or None where this outcome is final.

        Args:
            outcome: What the last try came to.
            tries: Tries made so far.
            repeatable: Whether the call may reach the service twice.
        """
        if tries > self.max_retries:
            return None
        asked = None
        if isinstance(outcome, Response):
            if outcome.status not in ASK_AGAIN or not repeatable:
                return None
            asked = outcome.retry_after_s
        elif outcome.final or (outcome.maybe_received and not repeatable):
            return None
        if asked is not None:
            return asked if asked <= self.max_delay else None
        most = min(self.max_delay, self.initial_delay * 2 ** (tries - 1))
        return random.uniform(0, most)  # noqa: S311  jitter, not a secret


def retry_after(value: str | None) -> float | None:
    """``Retry-After`` as seconds from now; None where it is missing or makes no sense.

    >>> retry_after("120"), retry_after("soon")
    (120.0, None)
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:  # noqa: PLR2004  thirty years and more make no sense
        return float(text)
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())
