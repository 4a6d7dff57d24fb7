"""Injected time, so that tests and the sandbox can let days pass in seconds."""

import asyncio
from datetime import UTC, datetime, timedelta

CLOCK_MARGIN = timedelta(minutes=1)  # by which a clock may be set back without an effect


class Clock:
    """The system clock."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class FrozenClock(Clock):
    """A clock that only moves with `advance`; `sleep` returns at once."""

    def __init__(self, at: datetime) -> None:
        self._now = at.astimezone(UTC)

    def now(self) -> datetime:
        """Return the clock's time."""
        return self._now

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002  only advance() moves the time
        """Yield to other tasks."""
        await asyncio.sleep(0)

    def advance(self, by: timedelta) -> None:
        """Move the clock forward."""
        self._now += by
