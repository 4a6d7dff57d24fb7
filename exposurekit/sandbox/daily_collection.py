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
from exposurekit.text.html_cards import html_card

_READERS = ("_reader", "_queries", "_annotations")  # the parts of a history that answer
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


class DemoHistory(History):
    """A demo's history, whose questions fail with the reason after the demo has ended and its files are deleted."""

    def end(self, reason: str) -> None:
        """Close it; from now on everything that reads it raises `NotFound` with this reason."""
        self.close()
        for part in _READERS:
            self.__dict__.pop(part, None)
        self._end_reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        if name in _READERS and "_end_reason" in self.__dict__:
            raise NotFound(self._end_reason)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"History({self._end_reason})" if "_end_reason" in self.__dict__ else super().__repr__()

    def _repr_html_(self) -> str:
        if "_end_reason" in self.__dict__:
            return html_card("History", {}, note=self._end_reason)
        return super()._repr_html_()


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
