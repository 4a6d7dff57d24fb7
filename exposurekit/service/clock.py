"""What time it is. Given to everything that asks, so that ninety days can pass in seconds; never sleeps."""

from datetime import UTC, datetime, timedelta


class Clock:
    """The machine's own time."""

    def now(self) -> datetime:
        """This instant, in UTC."""
        return datetime.now(UTC)


class FrozenClock(Clock):
    """A time that stands still until it is told to pass.

    >>> clock = FrozenClock(datetime(2026, 1, 2, tzinfo=UTC))
    >>> clock.advance(timedelta(days=90))
    >>> clock.now().isoformat()
    '2026-04-02T00:00:00+00:00'
    """

    def __init__(self, at: datetime) -> None:
        self._now = at.astimezone(UTC)

    def now(self) -> datetime:
        """The instant at which it stands."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self._now += by
