"""Rounds on a clock: look at everyone every so often, and at whom a webhook tells of. Survives errors; stores nothing itself."""

import logging
import os
import queue
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from exposurekit.client.bulk import Batch, UserFilter, UserListing
from exposurekit.errors import ExposureError, NotFound
from exposurekit.history import History
from exposurekit.history.collector import Source
from exposurekit.history.storage.delta import HistoryLocked
from exposurekit.monitor.status import WatchStatus
from exposurekit.monitor.webhooks.ingest import process_inbox
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.text.sanitize import plain

DRAIN_EVERY = timedelta(seconds=10)
WAIT_MAX = timedelta(seconds=60)
# A service tells of many people within minutes, and each look at some lists everyone: one look for all of them.
HINTS_AFTER = timedelta(minutes=2)
# After a look that failed, doubled each time, never longer than the watch's own pace.
AGAIN_FIRST = timedelta(minutes=1)
CLOCK_STEP = timedelta(minutes=1)  # a clock that is set right goes back that far, and nobody minds
_log = logging.getLogger("exposurekit.monitor")


class Notifies(Protocol):
    """Who tells people what they want to be told: `telling.Notifier`, which is heavy, and not everybody's."""

    def looked(self, history: History) -> int:
        """A history was added to."""

    def failed(self, in_a_row: int, since: str, reason: str) -> int:
        """A collection failed, so often in a row."""

    def sending(self) -> AbstractContextManager[None]:
        """Send beside what goes on in the block."""


class Stopped(BaseException):
    """Somebody asked the watch to end in the middle of a look; what was seen stays staged for the next."""


def _now() -> datetime:
    return datetime.now(UTC)


class _Stopping:
    """Whether the watch is to end. A signal's handler sets it, wherever the waiting stands: an Event would lock."""

    def __init__(self) -> None:
        self.is_set = False
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        self.is_set = True
        self._bell.put(None)

    def wait(self, seconds: float) -> bool:
        with suppress(queue.Empty):
            self._bell.get(timeout=seconds)
        return self.is_set


@dataclass(slots=True)
class _Watched:
    """A source whose looking can be stopped, and nothing else of it."""

    source: Source
    stopping: _Stopping
    looking: bool = False

    @property
    def origin(self) -> str:
        return self.source.origin

    def stream(
        self, take: Callable[[Batch], None], *, choose: UserFilter, progress: bool | None = None
    ) -> UserListing:
        self.looking = True
        try:
            if self.stopping.is_set:
                raise Stopped
            return self.source.stream(take, choose=choose, progress=progress)
        finally:
            self.looking = False


@dataclass(slots=True)
class Watch:
    """Collects every so often, takes in what webhooks tell, and looks again, together, at whom they tell of.

    A look that fails is told in the state and tried again, soon at first; the watch goes on. Since a sender gives up
    after its third retry, it is the look at everyone that makes the memory whole; webhooks make it early.

    Attributes:
        history: What remembers.
        source: Whom to look at; an `Exposure`.
        every: From the start of one look at everyone to the next.
        state: Where the watch tells how it is doing.
        letters: The inbox to drain; None: there is none.
        teller: Who tells people what they want to be told; None: nobody.
        clock: What time it is.
        wait: Waits so many seconds, or until the watch is stopped; True: it was.

    >>> watch = Watch(history, exposure, timedelta(hours=6), State(path))  # doctest: +SKIP
    >>> watch.run()  # doctest: +SKIP
    """

    history: History
    source: Source
    every: timedelta
    state: WatchStatus
    letters: InboxStore | None = None
    teller: Notifies | None = None
    clock: Callable[[], datetime] = _now
    wait: Callable[[float], bool] | None = None
    _stopping: _Stopping = field(default_factory=_Stopping, repr=False)
    _watched: _Watched = field(init=False, repr=False)
    _hints: frozenset[int] = field(default=frozenset(), repr=False)
    _hinted_at: datetime | None = None
    _failures: int = 0
    _judged: int = 0
    _again_at: datetime | None = None

    def __post_init__(self) -> None:
        self._watched = _Watched(self.source, self._stopping)

    def run(self, beside: AbstractContextManager[object] | None = None) -> None:
        """Watch until `stop`.

        Args:
            beside: What is open for as long as this watches, such as a server; not touched where another watches.

        Raises:
            HistoryLocked: Another process watches with this history.
        """
        waits = self.wait or self._stopping.wait
        with self._alone(), beside or nullcontext(), self.teller.sending() if self.teller else nullcontext():
            self.state.begin(os.getpid(), self.clock(), self.every)
            _log.info(
                "watching %s every %s; next look %s",
                plain(self.history.path),
                _span(self.every),
                self._first(),
            )
            try:
                while not self._stopping.is_set:
                    if waits(self._pause(self.turn())):
                        break
            except Stopped:
                pass
            finally:
                self.state.end(self.clock())

    def stop(self) -> bool:
        """End soon: a look at once, whatever is being written when it is written. True: it is looking now."""
        self._stopping.set()
        return self._watched.looking

    def turn(self) -> datetime:
        """Do what is due now: drain the inbox, look at everyone, or at those whom webhooks told of.

        Returns:
            When the next look at everyone is due.
        """
        self._drain()
        try:
            self._look_if_due()
            self._judge_if_new()
            self._check_clock()
            due_at = self._due_at()
        except KeyboardInterrupt:
            raise Stopped from None
        except Exception as error:  # noqa: BLE001  whatever it was, the next look may go well
            due_at = self._failed(error)
        self.state.waits(due_at, self._inbox_counts())
        return due_at

    def _drain(self) -> None:
        if self.letters is None:
            return
        with suppress(HistoryLocked):  # a collector takes in at this moment; the letters wait
            try:
                drained = process_inbox(self.letters, self.history)
            except Exception as error:
                if isinstance(error, HistoryLocked):
                    raise
                self._undrained(error)
            else:
                self._hint(drained.user_ids)
                if drained.taken or drained.quarantined:
                    _log.info("deliveries: %d taken in, %d quarantined", drained.taken, drained.quarantined)
                self.state.drained(self.clock(), drained.taken, drained.quarantined)

    def _hint(self, user_ids: frozenset[int]) -> None:
        if user_ids and not self._hints:
            self._hinted_at = self.clock()
        self._hints |= user_ids

    def _undrained(self, error: Exception) -> None:
        if self.state.ingest_failed(self.clock(), reason := _reason(error)):
            _log.warning("the inbox could not be drained: %s", reason)

    def _look_if_due(self) -> None:
        due_at = self._due_at()
        now = self.clock()  # after: where nobody looked yet, the look was due when that was asked
        if due_at <= now:
            self._look(None)
        elif self._hinted_at is not None and self._is_hint_due(self._hinted_at, now):
            self._look(self._hints)

    def _is_hint_due(self, hinted_at: datetime, now: datetime) -> bool:
        due_at = max(hinted_at + HINTS_AFTER, self._believed(self._again_at, now) or hinted_at)
        return due_at <= now or hinted_at > now

    def _look(self, only: frozenset[int] | None) -> None:
        self.state.looks(self.clock(), everyone=only is None)
        run = self.history.collect(self._watched, only=only, progress=False)
        self._hints, self._hinted_at = frozenset(), None
        self._failures, self._again_at = 0, None
        self.state.looked(self.clock(), run)
        _log.info("%s", run)

    def _judge_if_new(self) -> None:
        """Whoever took a run in: a look of this watch, the inbox, or another process."""
        if self.teller is None:
            return
        with suppress(NotFound):
            newest = self.history.last_run().seq or 0
            if newest != self._judged:
                self._tell(lambda teller: teller.looked(self.history))
                self._judged = newest

    def _judged_by(self, teller: Notifies) -> int:
        try:
            return teller.looked(self.history)
        except NotFound:  # nobody looked yet
            return 0

    def _tell(self, what: Callable[[Notifies], int]) -> None:
        """Whatever goes wrong there stops no watch: the next look tells what this one could not."""
        assert self.teller is not None  # noqa: S101  asked where there is one
        try:
            if many := what(self.teller):
                _log.info("%d notices are to be sent", many)
        except Exception as error:  # noqa: BLE001  as above
            _log.warning("what is to be told could not be found out: %s", _reason(error))

    def _failed(self, error: Exception) -> datetime:
        """When to try again."""
        self._failures += 1
        again_at: datetime = self.clock() + min(self.every, AGAIN_FIRST * 2 ** min(self._failures - 1, 20))
        reason = _reason(error)
        self.state.failed(self.clock(), f"a look failed: {reason}", self._failures)
        _log.warning("a look failed: %s", reason)
        self._again_at = again_at
        if self.teller is not None:
            self._tell(lambda teller: teller.failed(self._failures, self._well_until(), reason))
            # Days pass all the same: somebody is stuck by now, or was not seen for long.
            self._tell(self._judged_by)
        return again_at

    def _well_until(self) -> str:
        """The last look before looks failed: what tells one streak from another, whoever watches."""
        try:
            return str(self.history.last_collected_at())
        except ExposureError:
            return "never"

    def _due_at(self) -> datetime:
        now = self.clock()
        last = self.history.last_collected_at(until=now)  # another process may have looked meanwhile
        due_at = now if last is None else last + self.every
        return max(due_at, self._believed(self._again_at, now) or due_at)

    def _believed(self, again_at: datetime | None, now: datetime) -> datetime | None:
        """Nothing is put off for longer than the watch's pace: what is, was by a clock that has gone back since."""
        return None if again_at is None or again_at > now + self.every else again_at

    def _check_clock(self) -> None:
        newest, now = self.history.last_collected_at(), self.clock()
        is_ahead = newest is not None and newest > now + CLOCK_STEP
        if self.state.clock(now, newest if is_ahead else None):
            _log.warning("the clock went back: the history has a look of %s", newest)

    def _first(self) -> str:
        """When the first look is, as far as the history tells."""
        try:
            due_at = self._due_at()
        except ExposureError:
            return "at once"
        return "at once" if due_at <= self.clock() else f"at {due_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

    def _pause(self, due_at: datetime) -> float:
        until = due_at - self.clock()
        longest = WAIT_MAX if self.letters is None else DRAIN_EVERY
        return max(timedelta(0), min(until, longest)).total_seconds()

    def _inbox_counts(self) -> dict[str, Any] | None:
        if self.letters is None:
            return None
        try:
            counts = self.letters.counts()
        except ExposureError:
            return None
        return {name: getattr(counts, name) for name in counts.__dataclass_fields__}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(self.history.lock("watch"))
            except HistoryLocked:
                told = "exposurekit watch status shows how it is doing"
                raise HistoryLocked(f"Another process watches with this history already; {told}") from None
            yield


def _span(every: timedelta) -> str:
    """As the command takes it: 6h, 10m, 90s."""
    units = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
    seconds = every.total_seconds()
    unit, size = next((one for one in units if not seconds % one[1]), units[-1])
    return f"{seconds / size:g}{unit}"


def _reason(error: Exception) -> str:
    # Another's error may name files, addresses or values: its kind is enough.
    return str(error) if isinstance(error, ExposureError) else type(error).__name__
