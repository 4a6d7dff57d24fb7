"""Daily collection into a demo's history, written in the background.

A load is taken at the end of its day, over HTTP. Writing it to the history takes longer than most days do, and
runs while the next day passes.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from exposurekit.client.bulk import Batch, UserFilter, UserListing
from exposurekit.exposure import Exposure
from exposurekit.history import History

MAX_QUEUED_USERS = 200  # users in loads that wait in memory to be written


@dataclass(frozen=True, slots=True)
class DailySource:
    """A finished load of everyone; a history collects from it as from an `Exposure`.

    Attributes:
        origin: The service and the integrator.
        at: When it was loaded.
    """

    origin: str
    at: datetime
    batches: Sequence[Batch] = field(repr=False)
    listing: UserListing

    @classmethod
    def load(cls, exposure: Exposure, at: datetime) -> "DailySource":
        """Load everyone now."""
        batches: list[Batch] = []
        listing = exposure.stream(batches.append, progress=False)
        return cls(exposure.origin, at, batches, listing)

    def stream(
        self,
        take: Callable[[Batch], None],
        *,
        choose: UserFilter,
        progress: bool | None = None,  # noqa: ARG002  a source's signature
    ) -> UserListing:
        """Pass on the batches, limited to the chosen users."""
        for batch in self.batches:
            take(_filtered(batch, choose))
        return self.listing

    @property
    def max_queued(self) -> int:
        """How many loads of this size may wait in memory."""
        return max(1, MAX_QUEUED_USERS // max(1, self.listing.returned))


class DailyCollector:
    """Writes loads to a history in the background, one after another.

    Attributes:
        history: The history; its clock shows the time of the load that is being written.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._at: datetime | None = None
        self.history = History(path, clock=self._now)

    @contextmanager
    def collecting(self) -> Iterator[Callable[[DailySource], None]]:
        """Yield a function that queues a load; all are written when the block ends."""
        queue: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1, "exposurekit-history") as executor:

            def enqueue(source: DailySource) -> None:
                while len(queue) >= source.max_queued:
                    queue.popleft().result()
                queue.append(executor.submit(self._collect, source))

            try:
                yield enqueue
                while queue:
                    queue.popleft().result()
            finally:
                executor.shutdown(cancel_futures=True)

    def _collect(self, source: DailySource) -> None:
        self._at = source.at
        try:
            self.history.collect(source, progress=False)
        finally:
            self._at = None

    def _now(self) -> datetime:
        return self._at or self._clock()


def _filtered(batch: Batch, choose: UserFilter) -> Batch:
    return Batch(
        [key for key in batch.keys if choose(key.id)],
        [user for user in batch.users if choose(user["id"])],
        [alerts for alerts in batch.alerts if choose(alerts["user_id"])],
        [failure for failure in batch.failures if choose(failure.user_id)],
        {user_id: deviations for user_id, deviations in batch.deviations.items() if choose(user_id)},
    )
