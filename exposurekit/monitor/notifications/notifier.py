"""Tells people what they want to be told, by Apprise, beside a watch. Never stops it; loses nothing that was not told."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import apprise

from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.history import History
from exposurekit.monitor.notifications import apprise_errors
from exposurekit.monitor.notifications.evaluate import (
    EvaluationContext,
    Trigger,
    evaluate,
    latest,
    on_failure,
)
from exposurekit.monitor.notifications.outbox import Notification, NotificationOutbox
from exposurekit.monitor.notifications.rules import Rule, Rules

LOOK_EVERY_S = 5.0
ENDS_WITHIN_S = 120.0  # a message that is on its way is waited for: else it would be sent again by the next
LINES_MAX = 30  # of one kind in a message; the rest is counted
_log = logging.getLogger("exposurekit.monitor")
apprise_errors.quiet()


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Notifier:
    """Judges a history by rules, keeps what is to be told, and sends it.

    Attributes:
        rules: What somebody wants to be told, and where.
        notices: What waits.
        clock: What time it is.

    >>> Notifier(rules, NotificationOutbox(path))  # doctest: +SKIP
    """

    rules: Rules
    notices: NotificationOutbox
    clock: Callable[[], datetime] = _now
    _sending: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _rings: threading.Event = field(default_factory=threading.Event, repr=False)
    _ends: threading.Event = field(default_factory=threading.Event, repr=False)

    def looked(self, history: History) -> int:
        """A history was added to: keep what is new to be told. Returns how much that is."""
        at, last = self.clock(), latest(history)
        seen = EvaluationContext(history, _since(history, self.notices.judged_until()), at)
        many = self.notices.put(self._found(lambda rule: evaluate(rule, seen), at), judged_until=last)
        self._rings.set()
        return many

    def failed(self, in_a_row: int, since: str, reason: str) -> int:
        """A collection failed, so often in a row since that instant."""
        at = self.clock()
        many = self.notices.put(self._found(lambda rule: on_failure(rule, in_a_row, since, reason), at))
        self._rings.set()
        return many

    def send(self) -> int:
        """Send what is due: one message to each address. Returns how many messages arrived."""
        with self._sending:
            return self._send()

    def _send(self) -> int:
        arrived, at = 0, self.clock()
        for target, waiting in self.notices.due(at).items():
            urgent = self.rules.after_quiet(at) <= at
            ready = [(number, notice) for number, notice in waiting if urgent or self._is_urgent(notice)]
            if not ready:
                continue
            if refused := self._refusal(target, [notice for _, notice in ready]):
                again_at = f"{self.notices.not_told(target, at):%H:%M:%S} UTC"
                _log.warning("%s could not be told: %s; the next try is at %s", target, refused, again_at)
            else:
                self.notices.told(target, [number for number, _ in ready])
                arrived += 1
        return arrived

    def test(self) -> dict[str, str]:
        """Send a word to each address; why it did not arrive, or nothing where it did."""
        titles = ("exposurekit can reach you", "This is a test. Nothing happened.")
        return {target: self._sends(target, *titles) for target in self.rules.send_to}

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send beside what goes on in the block; what is not sent by its end waits in the file."""
        thread = threading.Thread(target=self._until_ended, name="notices", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._rings.set()
            thread.join(timeout=ENDS_WITHIN_S)

    def _until_ended(self) -> None:
        while not self._ends.is_set():
            try:
                self.send()
            except Exception as error:  # noqa: BLE001  whatever it was, the next try may go well
                known = isinstance(error, ExposureError)
                _log.warning("notices could not be sent: %s", error if known else type(error).__name__)
            self._rings.wait(LOOK_EVERY_S)
            self._rings.clear()

    def _found(self, of: Callable[[Rule], Sequence[Trigger]], at: datetime) -> list[Notification]:
        """One for each address and cause: as soon as any rule has it, and as personal as any has it."""
        found: dict[tuple[str, str], Notification] = {}
        for rule in sorted(self.rules.rules, key=lambda rule: not rule.personal):
            for notice in self._notices(rule, of(rule), at):
                first = found.setdefault((notice.target, notice.cause), notice)
                if notice.due_at < first.due_at:
                    found[notice.target, notice.cause] = replace(notice, line=first.line)
        return [*found.values()]

    def _notices(self, rule: Rule, found: Sequence[Trigger], at: datetime) -> Iterator[Notification]:
        due_at = self.rules.due_at(rule, at)
        for cause in found:
            line = cause.personal if rule.personal else cause.about
            for target in rule.send:
                yield Notification(target, cause.key, rule.title, line, due_at)

    def _is_urgent(self, notice: Notification) -> bool:
        return any(
            rule.urgent and rule.title == notice.title and notice.target in rule.send
            for rule in self.rules.rules
        )

    def _refusal(self, target: str, notices: Sequence[Notification]) -> str:
        if target not in self.rules.send_to:  # it was taken out of the rules since
            return ""
        return self._sends(target, *message(notices))

    def _sends(self, target: str, title: str, body: str) -> str:
        """Send, and say why it did not arrive; nothing where it did."""
        plugin = _plugin(self.rules.send_to[target].get_secret_value())
        if plugin is None:
            return "this is no address that can be told"
        door = apprise.Apprise(asset=plugin.asset)
        door.add(plugin)
        with apprise_errors.apprise_log() as said:
            try:
                arrived = bool(door.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT))
            except Exception:  # noqa: BLE001  a plugin's error may hold the address
                arrived = False
        return "" if arrived else apprise_errors.reason(said)


def _plugin(url: str) -> Any:
    """What sends to an address; None: nothing can."""
    asset = apprise.AppriseAsset(async_mode=False, app_id="exposurekit")
    plugin = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if plugin is not None:
        plugin.overflow_mode = apprise.OverflowMode.SPLIT  # what is too long for one message comes as several
        plugin.redirects = False  # who follows one asks again without the message, and hears that all is well
    return plugin


def _since(history: History, judged_until: datetime | None) -> datetime | None:
    """Since when it is news: what was judged, and not what came into the history later though it is older.

    A webhook that arrives while somebody looks is taken in after that look. Who is asked about a moment twice is told
    the same causes, and of these an address is told once.
    """
    if judged_until is None:
        return None
    runs = history.runs()
    judged = runs.loc[runs["finished_at"] == judged_until, "seq"]
    newer = runs[runs["seq"] > judged.max()] if len(judged) else runs.head(0)
    if newer.empty:
        return judged_until
    began: datetime = newer["started_at"].min().to_pydatetime() - timedelta(microseconds=1)
    first: datetime = runs["finished_at"].iloc[0].to_pydatetime()
    return max(min(judged_until, began), first)


def message(notices: Sequence[Notification]) -> tuple[str, str]:
    r"""The title and the text of one message about all of these; what says the same is counted.

    >>> from exposurekit.monitor.notifications.notifier import message
    >>> at = datetime(2026, 3, 1, tzinfo=UTC)
    >>> message([Notification("me", key, "listings are new", "Seekfolk", at) for key in "ab"])
    ('exposurekit: 2 listings are new', '2 listings are new:\n  Seekfolk (2)')
    """
    by_title: dict[str, list[str]] = {}
    for notice in notices:
        by_title.setdefault(notice.title, []).append(notice.line)
    parts = [_part(title, lines) for title, lines in by_title.items()]
    first = _headed(*next(iter(by_title.items())))
    more = f", and {len(by_title) - 1} more" if len(by_title) > 1 else ""
    return f"exposurekit: {first}{more}", "\n\n".join(parts)


def _part(title: str, lines: Sequence[str]) -> str:
    counted = Counter(line for line in lines if line)
    said = [f"  {line} ({n:,})" if n > 1 else f"  {line}" for line, n in counted.most_common(LINES_MAX)]
    rest = len(counted) - LINES_MAX
    said += [f"  and {rest:,} more"] if rest > 0 else []
    return "\n".join([f"{_headed(title, lines)}{':' if said else '.'}", *said])


def _headed(title: str, lines: Sequence[str]) -> str:
    things = title.startswith(("listings", "people", "removals", "sites"))
    return f"{len(lines):,} {title}" if things else title


def check(rules: Rules) -> None:
    """See that each address is one that Apprise knows, and reaches one recipient.

    Of several, the one that was told would be told again as long as another cannot be.

    Raises:
        ConfigurationError: One is not; the message names it, and does not tell it.
    """
    for name, address in rules.send_to.items():
        plugin = _plugin(address.get_secret_value())
        if plugin is None:
            raise ConfigurationError(
                f"send_to, {name}: this is no address that can be told, such as mailto://user:password@example.com; "
                "in a password @ / : # % are written %40 %2F %3A %23 %25"
            )
        if (many := _is_delivered(plugin)) > 1:
            raise ConfigurationError(
                f"send_to, {name}: this reaches {many} recipients; give each an address of its own, "
                "or while one cannot be told the others are told again"
            )


def _is_delivered(plugin: Any) -> int:
    """How many recipients it has: its length, but for the tries it makes at each."""
    many: int = len(plugin) // (plugin.retry + 1)
    return many
