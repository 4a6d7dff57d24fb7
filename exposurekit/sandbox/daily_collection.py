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
from typing import NoReturn

from exposurekit.client.bulk import Batch, UserFilter
from exposurekit.errors import NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.history.storage.delta import Store
from exposurekit.text.html_cards import html_card

MAX_QUEUED_USERS = 200  # users in loads that wait in memory to be written


@dataclass(frozen=True, slots=True)
class DailySource:
    """A finished load of everyone; a history collects from it as from an `Exposure`."""

    origin: str
    at: datetime
    batches: Sequence[Batch] = field(repr=False)

    @classmethod
    def load(cls, exposure: Exposure, at: datetime) -> "DailySource":
        """Load everyone now."""
        return cls(exposure.origin, at, [*exposure.iter_batches(progress=False)])

    def iter_batches(
        self,
        *,
        only: UserFilter | None = None,
        progress: bool | None = None,  # noqa: ARG002  a source's signature
    ) -> Iterator[Batch]:
        """Yield the batches, limited to the selected users."""
        return (batch if only is None else batch.filtered(only) for batch in self.batches)

    @property
    def max_queued(self) -> int:
        """How many loads of this size may wait in memory."""
        return max(1, MAX_QUEUED_USERS // max(1, sum(len(batch.keys) for batch in self.batches)))


class DemoStore(Store):
    """The tables of a demo's history, which nobody reads or writes after the demo has ended and they are deleted."""

    end_reason: str | None = None

    def end(self, reason: str) -> None:
        """Forget the location: from now on whatever needs it raises `NotFound` with this reason."""
        self.__dict__.clear()
        self.end_reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        if self.end_reason is not None:
            raise NotFound(self.end_reason)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


class DemoHistory(History):
    """A demo's history; it fails with the reason after the demo has ended."""

    _open_store = DemoStore
    _store: DemoStore

    def end(self, reason: str) -> None:
        """Close it; from now on whatever reads or writes its files raises `NotFound` with this reason."""
        self.close()
        self._store.end(reason)

    def __repr__(self) -> str:
        reason = self._store.end_reason
        return super().__repr__() if reason is None else f"History({reason})"

    def _repr_html_(self) -> str:
        reason = self._store.end_reason
        return super()._repr_html_() if reason is None else html_card("History", {}, note=reason)


class DailyCollector:
    """Writes loads to a history in the background; its clock shows the time of the load that is being written."""

    def __init__(self, path: Path, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._at: datetime | None = None
        self.history = DemoHistory(path, clock=self._now)

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
