"""The watch: collects everyone at intervals, processes the inbox and notifies; retries after errors."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from exposurekit.client.bulk import Batch, UserFilter
from exposurekit.errors import ExposureError, NotFound, safe_reason
from exposurekit.history import History
from exposurekit.history.collector import Source
from exposurekit.history.engines.base import CorruptHistory
from exposurekit.history.storage.delta import HistoryLocked
from exposurekit.monitor.status import WatchStatus
from exposurekit.monitor.webhooks.ingest import process_inbox
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.system.clock import utc_now
from exposurekit.system.stop_signal import StopSignal
from exposurekit.text.sanitize import plain
from exposurekit.text.times import interval

if TYPE_CHECKING:  # it imports Apprise, so it is loaded only with rules
    from exposurekit.monitor.notifications.notifier import Notifier

INBOX_INTERVAL = timedelta(seconds=10)
WAIT_MAX = timedelta(seconds=60)
# A service reports many users within minutes, and each collection lists all users: collect them together.
HINT_DELAY = timedelta(minutes=2)
# The delay after a failed collection; it doubles each time, up to the watch's interval.
RETRY_DELAY = timedelta(minutes=1)
CLOCK_TOLERANCE = timedelta(minutes=1)  # a normal correction of the clock is not a problem
_log = logging.getLogger("exposurekit.monitor")


class Stopped(BaseException):
    """The watch was stopped during a collection; the loaded part stays staged for the next one."""


@dataclass(slots=True)
class _StoppableSource:
    """A source that knows whether it is loading, and does not start once the watch is stopped."""

    source: Source
    stop_signal: StopSignal
    is_loading: bool = False

    @property
    def origin(self) -> str:
        return self.source.origin

    def iter_batches(
        self, *, only: UserFilter | None = None, progress: bool | None = None
    ) -> Iterator[Batch]:
        self.is_loading = True
        try:
            if self.stop_signal.is_set:
                raise Stopped
            yield from self.source.iter_batches(only=only, progress=progress)
        finally:
            self.is_loading = False


@dataclass(slots=True)
class Watch:
    """Collects everyone at intervals, ingests webhook deliveries, and reloads the users that they name.

    A failed collection is recorded in the status and retried, soon at first; the watch goes on. Senders of webhooks
    give up after their third retry, so only the regular runs make the history complete; webhooks make it early.
    """

    history: History
    source: Source
    every: timedelta  # from the start of one complete run to the next
    status: WatchStatus
    inbox: InboxStore | None = None
    notifier: "Notifier | None" = None
    write_reports: Callable[[], int] | None = None  # those that are due; it raises no error
    clock: Callable[[], datetime] = utc_now
    wait: Callable[[float], bool] | None = None  # for seconds or until `stop`; returns whether it was stopped
    _stop_signal: StopSignal = field(default_factory=StopSignal, repr=False)
    _stoppable: _StoppableSource = field(init=False, repr=False)
    _hinted_users: frozenset[int] = field(default=frozenset(), repr=False)
    _hinted_at: datetime | None = None
    _failures: int = 0
    _evaluated_seq: int = 0
    _retry_at: datetime | None = None

    def __post_init__(self) -> None:
        self._stoppable = _StoppableSource(self.source, self._stop_signal)

    def run(self, background: AbstractContextManager[object] | None = None) -> None:
        """Watch until `stop` is called.

        `background` is a context to keep open meanwhile, such as a server; it is entered after the checks.

        Raises `HistoryLocked` if another process watches with this history, and `ConfigurationError` if the history
        was collected from another service.
        """
        with suppress(CorruptHistory):  # the watch goes on: the file may be put back
            self.history.check_source(self.source)
        wait = self.wait or self._stop_signal.wait
        sending = self.notifier.sending() if self.notifier else nullcontext()
        with self._lock(), background or nullcontext(), sending:
            self.status.start(
                os.getpid(),
                self.clock(),
                self.every,
                sends=self.notifier is not None,
                inbox=None if self.inbox is None else self.inbox.path,
            )
            path, every = plain(self.history.path), interval(self.every)
            _log.info("watching %s every %s; first run %s", path, every, self._first_run())
            try:
                while not self._stop_signal.is_set:
                    if wait(self._pause(self.run_due())):
                        break
            except Stopped:
                pass
            finally:
                self.status.stop(self.clock())

    def stop(self) -> bool:
        """Stop soon: a load now, a write when it is finished. Return whether a load is in progress."""
        self._stop_signal.set()
        return self._stoppable.is_loading

    def run_due(self) -> datetime:
        """Run due work: process the inbox, collect everyone or the users named in webhooks, evaluate the rules.

        Return when the next complete run is due.
        """
        self._process_inbox()
        try:
            self._collect_if_due()
            self._evaluate_if_new()
            if self.write_reports is not None:
                self.write_reports()
            self._check_clock()
            due_at = self._due_at()
        except KeyboardInterrupt:
            raise Stopped from None
        except Exception as error:  # noqa: BLE001  the watch goes on: the next collection may succeed
            due_at = self._on_failure(error)
        self.status.record_wait(due_at, self._inbox_counts(), *self._unsent_notifications())
        return due_at

    def _process_inbox(self) -> None:
        if self.inbox is None:
            return
        with suppress(HistoryLocked):  # another process writes to the history; the messages wait
            try:
                result = process_inbox(self.inbox, self.history)
            except Exception as error:
                if isinstance(error, HistoryLocked):
                    raise
                if self.status.record_ingest_failure(self.clock(), reason := safe_reason(error)):
                    _log.warning("the inbox could not be processed: %s", reason)
            else:
                self._add_hints(result.user_ids)
                if result.ingested or result.quarantined:
                    _log.info("deliveries: %d ingested, %d quarantined", result.ingested, result.quarantined)
                self.status.record_ingest(self.clock(), result.ingested)

    def _add_hints(self, user_ids: frozenset[int]) -> None:
        if user_ids and not self._hinted_users:
            self._hinted_at = self.clock()
        self._hinted_users |= user_ids

    def _collect_if_due(self) -> None:
        due_at = self._due_at()
        now = self.clock()  # read after _due_at: on an empty history a run is due at the time of that call
        if due_at <= now:
            self._collect(None)
        elif self._hinted_at is not None and self._is_hint_due(self._hinted_at, now):
            self._collect(self._hinted_users)

    def _is_hint_due(self, hinted_at: datetime, now: datetime) -> bool:
        due_at = max(hinted_at + HINT_DELAY, self._valid_retry_at(now) or hinted_at)
        return due_at <= now or hinted_at > now

    def _collect(self, only: frozenset[int] | None) -> None:
        self.status.record_collecting(self.clock(), everyone=only is None)
        failures, last_success = self._failures, self._last_success()
        run = self.history.collect(self._stoppable, only=only, progress=False)
        self._hinted_users, self._hinted_at = frozenset(), None
        self._failures, self._retry_at = 0, None
        self.status.record_run(self.clock(), run, everyone=only is None)
        _log.info("%s", run)
        if self.notifier is not None:
            self._notify(lambda notifier: notifier.on_recovery(failures, last_success))

    def _evaluate_if_new(self) -> None:
        """Evaluate the rules if there is a new run, from this watch, the inbox or another process."""
        if self.notifier is None:
            return
        with suppress(NotFound):
            newest = self.history.last_run().seq or 0
            if newest != self._evaluated_seq:
                self._notify(lambda notifier: notifier.on_new_run(self.history))
                self._evaluated_seq = newest

    def _evaluate(self, notifier: "Notifier") -> int:
        try:
            return notifier.on_new_run(self.history)
        except NotFound:  # the history has no run yet
            return 0

    def _notify(self, evaluate: Callable[["Notifier"], int]) -> None:
        """Evaluate rules; an error there does not stop the watch, and the next run evaluates the same period."""
        assert self.notifier is not None  # noqa: S101  callers check it
        try:
            if count := evaluate(self.notifier):
                _log.info("%d new notifications", count)
        except Exception as error:  # noqa: BLE001  as above
            _log.warning("the notification rules could not be evaluated: %s", safe_reason(error))

    def _on_failure(self, error: Exception) -> datetime:
        """Record a failed collection; return when to retry."""
        self._failures += 1
        delay = min(self.every, RETRY_DELAY * 2 ** min(self._failures - 1, 20))
        retry_at: datetime = self.clock() + delay
        reason = safe_reason(error)
        self.status.record_failure(self.clock(), reason, self._failures)
        _log.warning("a collection failed: %s", reason)
        self._retry_at = retry_at
        if self.notifier is not None:
            self._notify(lambda notifier: notifier.on_failure(self._failures, self._last_success(), reason))
            # Time passes without a run, too: `stuck` and `not_seen` may match by now.
            self._notify(self._evaluate)
        return retry_at

    def _last_success(self) -> str:
        """When the last collection that succeeded began, of everyone or of some; it tells series of failures apart."""
        try:
            runs = self.history.runs()
            return str(runs.loc[runs["origin"] == "collect", "started_at"].max())
        except ExposureError:
            return "never"

    def _due_at(self) -> datetime:
        now = self.clock()
        last = self.history.last_collected_at(until=now)  # another process may have collected meanwhile
        due_at = now if last is None else last + self.every
        return max(due_at, self._valid_retry_at(now) or due_at)

    def _valid_retry_at(self, now: datetime) -> datetime | None:
        """The retry time; None if it is further away than the interval, as after the clock was set back."""
        is_valid = self._retry_at is not None and self._retry_at <= now + self.every
        return self._retry_at if is_valid else None

    def _check_clock(self) -> None:
        newest, now = self.history.last_collected_at(), self.clock()
        is_ahead = newest is not None and newest > now + CLOCK_TOLERANCE
        if self.status.record_run_ahead(now, newest if is_ahead else None):
            _log.warning("the clock went back: the history has a run of %s", newest)

    def _first_run(self) -> str:
        try:
            due_at = self._due_at()
        except ExposureError:
            return "now"
        return "now" if due_at <= self.clock() else f"at {due_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"

    def _pause(self, due_at: datetime) -> float:
        until = due_at - self.clock()
        longest = WAIT_MAX if self.inbox is None else INBOX_INTERVAL
        return max(timedelta(0), min(until, longest)).total_seconds()

    def _inbox_counts(self) -> dict[str, Any] | None:
        if self.inbox is None:
            return None
        try:
            return asdict(self.inbox.counts())
        except ExposureError:
            return None

    def _unsent_notifications(self) -> tuple[int | None, dict[str, int]]:
        """How many notifications wait, and how many of them for which reason."""
        if self.notifier is None:
            return None, {}
        try:
            return self.notifier.outbox.waiting(), self.notifier.unsent()
        except ExposureError:
            return None, {}

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(self.history.lock("watch"))
            except HistoryLocked:
                raise HistoryLocked(
                    "Another process already watches with this history: exposurekit watch status shows its state"
                ) from None
            yield
