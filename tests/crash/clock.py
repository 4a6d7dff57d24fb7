"""Time that runs fast, and is the same in every process. Knows no service."""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from exposurekit.service.clock import Clock


@dataclass(frozen=True, slots=True)
class FastClock(Clock):
    """The machine's time since an instant, so many times as fast.

    Attributes:
        epoch: When both were the same, in seconds since 1970.
        speed: How many seconds pass here in one of the machine's.
    """

    epoch: float
    speed: float

    def now(self) -> datetime:
        """This instant, in UTC."""
        return datetime.fromtimestamp(self.epoch + (time.time() - self.epoch) * self.speed, UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait so long, of this clock's seconds."""
        await asyncio.sleep(seconds / self.speed)
