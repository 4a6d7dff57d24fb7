"""What a demo's history sees each day, and takes in while the next one passes. Asks at no other time than it says.

A look is had when its day ends, over HTTP; to take it in costs more than most days do, and needs nobody to wait.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from exposurekit.client.bulk import Batch, Choose, UserListing
from exposurekit.exposure import Exposure
from exposurekit.history import History

PEOPLE_WAITING = 200  # how many people's looks may wait to be taken in: they lie in memory


@dataclass(frozen=True, slots=True)
class DailySource:
    """One look at everyone, had already; a history collects from it as from an `Exposure`.

    Attributes:
        origin: The service and the integrator.
        at: When it was had.
    """

    origin: str
    at: datetime
    batches: Sequence[Batch] = field(repr=False)
    listing: UserListing

    @classmethod
    def of(cls, exposure: Exposure, at: datetime) -> "DailySource":
        """Look now."""
        batches: list[Batch] = []
        listing = exposure.stream(batches.append, progress=False)
        return cls(exposure.origin, at, batches, listing)

    def stream(
        self,
        take: Callable[[Batch], None],
        *,
        choose: Choose,
        progress: bool | None = None,  # noqa: ARG002  a source's signature
    ) -> UserListing:
        """Give what was seen of everyone who is chosen."""
        for batch in self.batches:
            take(_chosen(batch, choose))
        return self.listing

    @property
    def waits_at_most(self) -> int:
        """How many looks like this one may wait."""
        return max(1, PEOPLE_WAITING // max(1, self.listing.returned))


class DailyCollector:
    """A history that is told of looks, and takes them in behind, one after another.

    Attributes:
        history: What it writes to; it has the time of the look that is being taken in.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._at: datetime | None = None
        self.history = History(path, clock=self._now)

    @contextmanager
    def taking(self) -> Iterator[Callable[[DailySource], None]]:
        """A function that is given looks; when the block ends they are taken in."""
        waiting: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1, "exposurekit-history") as behind:

            def take(seen: DailySource) -> None:
                while len(waiting) >= seen.waits_at_most:
                    waiting.popleft().result()
                waiting.append(behind.submit(self._take, seen))

            try:
                yield take
                while waiting:
                    waiting.popleft().result()
            finally:
                behind.shutdown(cancel_futures=True)

    def _take(self, seen: DailySource) -> None:
        self._at = seen.at
        try:
            self.history.collect(seen, progress=False)
        finally:
            self._at = None

    def _now(self) -> datetime:
        return self._at or self._clock()


def _chosen(batch: Batch, choose: Choose) -> Batch:
    return Batch(
        [key for key in batch.keys if choose(key.id)],
        [user for user in batch.users if choose(user["id"])],
        [alerts for alerts in batch.alerts if choose(alerts["user_id"])],
        [failure for failure in batch.failures if choose(failure.user_id)],
        {user_id: found for user_id, found in batch.deviations.items() if choose(user_id)},
    )
