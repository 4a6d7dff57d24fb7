"""The notifier: evaluates rules after each run and sends notifications through Apprise, with retries."""

import logging
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import apprise

from exposurekit.errors import ConfigurationError, ExposureError, safe_reason, suggestion
from exposurekit.history import History
from exposurekit.monitor.notifications import apprise_errors
from exposurekit.monitor.notifications.evaluate import (
    EvaluationContext,
    Trigger,
    evaluate,
    evaluate_failure,
    last_run_at,
)
from exposurekit.monitor.notifications.outbox import Notification, NotificationOutbox
from exposurekit.monitor.notifications.rules import Rule, Rules, counted_title
from exposurekit.system.clock import utc_now
from exposurekit.system.file_store import FileStore

SEND_INTERVAL_S = 5.0
STOP_TIMEOUT_S = 120.0  # wait for a message that is being sent: the next watch would send it again
TITLES_MAX = 3  # in the title of a message; the others are in its text
LINES_MAX = 30  # of one title in a message; the rest is counted
RECOVERED = "collections succeed again"
_PROTOCOLS = ("protocols", "secure_protocols")  # of an Apprise plugin
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,19}")  # of an address; anything else may be a secret
_log = logging.getLogger("exposurekit.monitor")
apprise_errors.silence_apprise()


@dataclass(slots=True)
class Notifier:
    """Evaluates rules on a history, stores the notifications in an outbox and sends them."""

    rules: Rules
    outbox: NotificationOutbox
    clock: Callable[[], datetime] = utc_now
    _send_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _wake: threading.Event = field(default_factory=threading.Event, repr=False)
    _stopping: threading.Event = field(default_factory=threading.Event, repr=False)

    def on_new_run(self, history: History) -> int:
        """Evaluate the rules after a run; store new notifications and return their number."""
        at, last = self.clock(), last_run_at(history)
        context = EvaluationContext(history, _since(history, self.outbox.evaluated_until()), at)
        notifications = self._notifications(lambda rule: evaluate(rule, context), at)
        new = self.outbox.put(notifications, evaluated_until=last)
        self._wake.set()
        return new

    def on_failure(self, in_a_row: int, since: str, reason: str) -> int:
        """Evaluate the rules after a failed run; store new notifications and return their number."""
        at = self.clock()
        new = self.outbox.put(
            self._notifications(lambda rule: evaluate_failure(rule, in_a_row, since, reason), at)
        )
        self._wake.set()
        return new

    def on_recovery(self, failures: int, since: str) -> int:
        """Tell the addresses that were told of failed runs, in a row after the last success, that a run succeeded."""
        at, count = self.clock(), f"{failures:,} " if failures else ""
        line = f"after {count}failed collection{'' if failures == 1 else 's'}"
        by_target: dict[str, Notification] = {}  # an address of several rules gets one message
        for rule in sorted(self.rules.notifications, key=lambda rule: not rule.urgent):
            for failure in evaluate_failure(rule, rule.times, since, ""):
                for target in rule.send:
                    if target not in by_target and self.outbox.has(target, failure.key):
                        key, due_at = f"{failure.key} over", self.rules.due_at(rule, at)
                        by_target[target] = Notification(
                            target, key, RECOVERED, line, due_at, urgent=rule.urgent
                        )
        new = self.outbox.put([*by_target.values()]) if by_target else 0
        self._wake.set()
        return new

    def unsent(self) -> dict[str, int]:
        """Count the unsent notifications by the reason why they wait, and until when."""
        at = self.clock()
        until_quiet_end = self.rules.after_quiet(at)
        reasons: Counter[str] = Counter()
        for target, is_urgent, due_at, retry_at, has_file in self.outbox.unsent():
            if retry_at is not None:
                reasons[f"{target} could not be reached; next attempt at {self._wall(retry_at)}"] += 1
            elif due_at > at and has_file:
                reasons[f"its file could not be read; next attempt at {self._wall(due_at)}"] += 1
            elif due_at > at:
                reasons[f"digest at {self._wall(due_at)}"] += 1
            elif until_quiet_end > at and not is_urgent:
                reasons[f"quiet hours until {self._wall(until_quiet_end)}"] += 1
            else:
                reasons["due now"] += 1
        return dict(reasons)

    def _wall(self, at: datetime) -> str:
        """A time of the clock on the wall."""
        return f"{at.astimezone(ZoneInfo(self.rules.time_zone)):%Y-%m-%d %H:%M} {self.rules.time_zone}"

    def send(self) -> int:
        """Send what is due, one message per address; return the number of messages sent."""
        with self._send_lock:
            return self._send_due()

    def _send_due(self) -> int:
        sent, at = 0, self.clock()
        for target, due in self.outbox.due(at).items():
            is_quiet = self.rules.after_quiet(at) > at
            ready = [(number, one) for number, one in due if not is_quiet or one.urgent]
            if not ready:
                continue
            failure = self._deliver(target, ready, at)
            if failure == "":
                sent += 1
            elif failure:
                retry_at = _time(self.outbox.mark_failed(target, at))
                _log.warning("could not notify %s: %s; next attempt at %s", target, failure, retry_at)
        return sent

    def send_test(self) -> dict[str, str]:
        """Send a test message to each address; return the failure's reason by address, empty if it was sent."""
        text = ("exposurekit can reach you", "This is a test message.")
        return {target: self._send_message(target, *text) for target in self.rules.send_to}

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send in a background thread while the block runs; unsent notifications stay in the outbox."""
        thread = threading.Thread(target=self._send_until_stopped, name="notifications", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._wake.set()
            thread.join(timeout=STOP_TIMEOUT_S)

    def _send_until_stopped(self) -> None:
        while not self._stopping.is_set():
            try:
                self.send()
            except Exception as error:  # noqa: BLE001  keep sending: the next attempt may succeed
                _log.warning("sending notifications failed: %s", safe_reason(error))
            self._wake.wait(SEND_INTERVAL_S)
            self._wake.clear()

    def _notifications(
        self, triggers: Callable[[Rule], Sequence[Trigger]], at: datetime
    ) -> list[Notification]:
        """Create one notification per address and trigger: the earliest of all rules, and personal or urgent if any rule is."""
        unique: dict[tuple[str, str], Notification] = {}
        for rule in sorted(self.rules.notifications, key=lambda rule: not rule.personal):
            for notification in self._of_rule(rule, triggers(rule), at):
                key = (notification.target, notification.trigger_key)
                first = unique.setdefault(key, notification)
                earliest = notification if notification.due_at < first.due_at else first
                is_urgent = first.urgent or notification.urgent
                unique[key] = replace(earliest, line=first.line, urgent=is_urgent)
        return [*unique.values()]

    def _of_rule(self, rule: Rule, triggers: Sequence[Trigger], at: datetime) -> Iterator[Notification]:
        due_at = self.rules.due_at(rule, at)
        for trigger in triggers:
            line = trigger.personal_summary if rule.personal else trigger.summary
            for target in rule.send:
                yield Notification(target, trigger.key, rule.title, line, due_at, urgent=rule.urgent)

    def _deliver(self, target: str, ready: Sequence[tuple[int, Notification]], at: datetime) -> str | None:
        """Send one message; return why it failed, empty if it was sent, and None if nothing was to be sent.

        One with a file that cannot be read now, such as in a bucket that is away, waits, and the others do not.
        """
        if target not in self.rules.send_to:  # removed from the rules since: drop them
            self.outbox.mark_sent(target, [number for number, _ in ready])
            return ""
        readable, files = list[tuple[int, Notification]](), list[str]()
        with tempfile.TemporaryDirectory(prefix="exposurekit-attachments-") as directory:
            for number, one in ready:
                try:
                    files += _local_file(one.attachment, Path(directory) / str(number))
                except (OSError, ExposureError) as error:
                    retry_at = self.outbox.postpone(number, at)
                    reason = f"a file to attach could not be read ({safe_reason(error)})"
                    _log.warning(
                        "could not notify %s: %s; next attempt at %s", target, reason, _time(retry_at)
                    )
                else:
                    readable.append((number, one))
            if not readable:
                return None
            failure = self._send_message(target, *compose_message([one for _, one in readable]), files)
        if not failure:
            self.outbox.mark_sent(target, [number for number, _ in readable])
        return failure

    def _send_message(self, target: str, title: str, body: str, files: Sequence[str] = ()) -> str:
        """Send one message with files; return the failure's reason, empty if it was sent."""
        plugin = _plugin(self.rules.send_to[target].get_secret_value())
        if plugin is None:
            return "Apprise does not support this address"
        client = apprise.Apprise(asset=plugin.asset)
        client.add(plugin)
        content: dict[str, Any] = {"title": title, "body": body, "body_format": apprise.NotifyFormat.TEXT}
        with apprise_errors.capture_apprise_log() as lines:
            try:
                sent = bool(client.notify(**content, attach=list(files) or None))
            except Exception:  # noqa: BLE001  a plugin's error may contain the address
                sent = False
        return "" if sent else apprise_errors.failure_reason(lines)


def _time(at: datetime) -> str:
    return f"{at:%H:%M:%S} UTC"


def _local_file(location: str | None, directory: Path) -> list[str]:
    """Return the path of a file, if there is one; one in a bucket is copied into the directory first."""
    if location is None:
        return []
    file = Path(location)
    if "://" in location:
        parent, _, name = location.rpartition("/")
        store = FileStore(parent, what="The address of an attachment", name="reports")
        file = directory / name
        directory.mkdir()
        with suppress(FileNotFoundError):
            file.write_bytes(store.read(store.path(name)))
    return [str(file)] if file.is_file() else []


def _plugin(url: str) -> Any:
    """Create the Apprise plugin of an address; None: Apprise does not support it."""
    asset = apprise.AppriseAsset(async_mode=False, app_id="exposurekit")
    plugin = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if plugin is not None:
        plugin.overflow_mode = apprise.OverflowMode.SPLIT  # send a long text as several messages
        plugin.redirects = False  # a followed redirect drops the body and still looks successful
    return plugin


def _since(history: History, evaluated_until: datetime | None) -> datetime | None:
    """Return the start of the period to evaluate, so that late deliveries are included.

    A webhook that arrives during a run is ingested after it, though it is older. Evaluating a period twice gives the
    same triggers, and an address is notified once per trigger.
    """
    if evaluated_until is None:
        return None
    runs = history.runs()
    evaluated = runs.loc[runs["finished_at"] == evaluated_until, "seq"]
    newer = runs[runs["seq"] > evaluated.max()] if len(evaluated) else runs.head(0)
    if newer.empty:
        return evaluated_until
    started_at: datetime = newer["started_at"].min().to_pydatetime() - timedelta(microseconds=1)
    first: datetime = runs["finished_at"].iloc[0].to_pydatetime()
    return max(min(evaluated_until, started_at), first)


def compose_message(notifications: Sequence[Notification]) -> tuple[str, str]:
    """Compose the title and text of one message; equal lines are counted."""
    by_title: dict[str, list[str]] = {}
    for notification in notifications:
        by_title.setdefault(notification.title, []).append(notification.line)
    sections = [_section(title, lines) for title, lines in by_title.items()]
    counted = [counted_title(title, len(lines)) for title, lines in by_title.items()]
    rest = len(counted) - TITLES_MAX
    more = f", and {rest} more" if rest > 0 else ""
    return f"exposurekit: {', '.join(counted[:TITLES_MAX])}{more}", "\n\n".join(sections)


def _section(title: str, lines: Sequence[str]) -> str:
    counts = Counter(line for line in lines if line)
    texts = [f"  {line} ({n:,})" if n > 1 else f"  {line}" for line, n in counts.most_common(LINES_MAX)]
    rest = len(counts) - LINES_MAX
    texts += [f"  and {rest:,} more"] if rest > 0 else []
    heading = counted_title(title, len(lines))
    return "\n".join([f"{heading[:1].upper()}{heading[1:]}{':' if texts else '.'}", *texts])


def _scheme_problem(address: str) -> str:
    """Name the scheme of an address, if Apprise has none of that name, and the one that was probably meant."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        return ": it has no ://."
    plugins = apprise.Apprise().details()["schemas"]
    schemes = {name for plugin in plugins for kind in _PROTOCOLS for name in plugin[kind] or ()}
    if scheme.lower() in schemes or not _SCHEME.fullmatch(scheme):
        return "."
    meant = suggestion(scheme.lower(), schemes)
    # A word that is like no scheme may be a password.
    return f": there is no {scheme}://{meant}" if meant else ": Apprise has no scheme of that name."


def check_addresses(rules: Rules) -> None:
    """Check that Apprise supports each address, and that each reaches one recipient.

    With several recipients, those that were notified would be notified again while another one fails. Raises
    `ConfigurationError` with the name of the address, never the address.
    """
    for name, address in rules.send_to.items():
        plugin = _plugin(address.get_secret_value())
        if plugin is None:
            raise ConfigurationError(
                f"send_to, {name}: Apprise does not support this address{_scheme_problem(address.get_secret_value())} A valid one looks like "
                "mailtos://user:password@example.com; in a password write @ / : # % as %40 %2F %3A %23 %25"
            )
        # A plugin's length counts its retries, too.
        if (recipients := len(plugin) // (plugin.retry + 1)) > 1:
            raise ConfigurationError(
                f"send_to, {name}: the address reaches {recipients} recipients. Give each an address of its own: "
                "else all are notified again whenever one of them fails"
            )
        if not plugin.attachment_support and any(rule.attach and name in rule.send for rule in rules.reports):
            raise ConfigurationError(
                f"send_to, {name}: this address takes no files. Send the report to another, or leave out attach"
            )
