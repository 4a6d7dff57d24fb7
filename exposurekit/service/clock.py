"""What time it is, and waiting. Given to everything that asks, so that ninety days can pass in seconds."""

import asyncio
from datetime import UTC, datetime, timedelta


class Clock:
    """The machine's own time."""

    def now(self) -> datetime:
        """This instant, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        await asyncio.sleep(seconds)


class FrozenClock(Clock):
    """A time that stands still until it is told to pass; whoever waits for it goes on at once.

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

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002  time passes when it is told to
        """Let others go first."""
        await asyncio.sleep(0)

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self._now += by
