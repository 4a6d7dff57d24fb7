"""Weekly reports: written to a directory or bucket when they are due, and announced; an index lists those in it.

What was done is read from the files and the outbox, so nothing is made twice, and nothing is lost with the process.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from exposurekit.errors import ConfigurationError, DiskFull, EmptyHistory, NotFound, safe_reason
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.monitor.notifications.outbox import CONFIDENTIAL_SUFFIX, Notification, NotificationOutbox
from exposurekit.monitor.notifications.rules import ReportRule, Rules
from exposurekit.reports import Report, html, report
from exposurekit.system.atomic_files import NO_SPACE
from exposurekit.system.clock import utc_now
from exposurekit.system.file_store import FileStore, problem
from exposurekit.text.sanitize import escape_chat

INDEX = "index.html"
RETRY_DELAY = timedelta(minutes=10)
HEAD_BYTES = 8_192  # of a report, which name its title and finding
_REPORT_FILE = re.compile(r"exposure-(\d{4}-\d{2}-\d{2})(-confidential)?\.html")
_log = logging.getLogger("exposurekit.monitor")


@dataclass(slots=True)
class WeeklyReports:
    """Writes the reports of rules when they are due, and puts their summaries into the outbox."""

    rules: Rules
    outbox: NotificationOutbox
    history: History
    load: Callable[[], Exposure]  # everyone, now: for names, and to search a share-safe report for them
    clock: Callable[[], datetime] = utc_now
    _done: dict[ReportRule, datetime] = field(default_factory=dict, repr=False)
    _retry_at: dict[ReportRule, datetime] = field(default_factory=dict, repr=False)

    def write_due(self) -> int:
        """Write each report that is due and not there yet; return how many were written.

        One that cannot be written is announced, and tried again after ten minutes.
        """
        return sum(self._write_if_due(rule) for rule in self.rules.reports)

    def _write_if_due(self, rule: ReportRule) -> bool:
        now = self.clock()
        due = self.rules.report_due_at(rule, now)
        retry_at = self._retry_at.get(rule)
        is_waiting = retry_at is not None and now < retry_at <= now + RETRY_DELAY
        if is_waiting or self._done.get(rule) == due:
            return False
        try:
            written = self._write(rule, due)
        except NotFound:  # the history has no run yet
            return False
        except Exception as error:  # noqa: BLE001  the watch goes on: the next attempt may succeed
            self._announce_failure(rule, due, error)
            self._retry_at[rule] = now + RETRY_DELAY
            return False
        self._done[rule] = due
        return written

    def _write(self, rule: ReportRule, due: datetime) -> bool:
        store = FileStore(rule.directory, what="The directory of the reports", name="reports")
        name = self._file_name(rule, due)
        key = _key(store.uri, name)
        missing = [target for target in rule.send if not self.outbox.has(target, key)]
        rule_key = self._rule_key(rule)
        try:
            if store.exists(name):
                page_key = _metadata(store, name).get("report-rule", "")
                if page_key in ("", rule_key) and not missing:  # earlier versions wrote no key
                    return False
                if page_key != rule_key:
                    raise ConfigurationError(
                        f"its directory has a {name} of something else: choose another directory"
                    )
            _check_index(store)
            store.make_directory(store.root)  # first: without it, there is no need to load everyone
            result = report(self.history, exposure=self.load(), share_safe=not rule.personal)
            store.write(store.path(name), html.page(result, rule_key=rule_key).encode())
            _delete_old(store, rule, rule_key)
            store.write(store.path(INDEX), html.index_page(_entries(store)).encode())
        except OSError as error:
            if error.errno in NO_SPACE:
                raise DiskFull("No space is left for it: free some space") from None
            raise ConfigurationError(f"its directory cannot be written: {problem(error)}") from None
        self._put(
            rule,
            missing,
            key,
            _summary(result, name),
            store.path(name) if store.is_local else f"{store.uri}/{name}",
        )
        _log.info("weekly report: %s written", name)
        return True

    def _rule_key(self, rule: ReportRule) -> str:
        """Identify a rule and the history, also if the history moves: its first run is that of no other."""
        runs = self.history.runs()
        if runs.empty:
            raise EmptyHistory("This history is empty: call collect() first")
        return _key("rule", rule.weekday, str(rule.personal), str(runs["started_at"].iloc[0]))[:16]

    def _file_name(self, rule: ReportRule, due: datetime) -> str:
        day = due.astimezone(ZoneInfo(self.rules.time_zone)).date()
        return f"exposure-{day}{CONFIDENTIAL_SUFFIX if rule.personal else '.html'}"

    def _announce_failure(self, rule: ReportRule, due: datetime, error: Exception) -> None:
        reason = safe_reason(error)
        _log.warning("the weekly report could not be written: %s", reason)
        line = escape_chat(f"It could not be written: {reason}. It is tried again every ten minutes.")
        self._put(rule, rule.send, _key(rule.directory, f"failed {due}"), line)

    def _put(
        self,
        rule: ReportRule,
        targets: tuple[str, ...] | list[str],
        key: str,
        line: str,
        file: str | None = None,
    ) -> None:
        attachment = file if rule.attach else None
        self.outbox.put(
            [Notification(target, key, rule.title, line, self.clock(), attachment) for target in targets]
        )


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(("weekly report", *parts)).encode()).hexdigest()


def _summary(result: Report, name: str) -> str:
    """The finding and its parts, how many people it counts, what changed in a week, and the name of the file, as one line."""
    changes = [f"{fact.name} {fact.value} ({fact.change})" for fact in result.facts if fact.change]
    changed = f" {'; '.join(changes)}." if changes else ""
    parts = f" {'; '.join(result.parts)}." if result.parts else ""
    return escape_chat(
        f"{result.finding}{parts} People: {result.provenance['people']}.{changed} Report: {name}"
    )


def _check_index(store: FileStore) -> None:
    """Raise if the directory has an index that is not ours: it may be somebody's web site."""
    if store.exists(INDEX) and not _is_ours(_metadata(store, INDEX)):
        raise ConfigurationError(f"its directory has an {INDEX} of something else: choose another directory")


def _delete_old(store: FileStore, rule: ReportRule, rule_key: str) -> None:
    """Delete the oldest reports of a rule and history, beyond those that it keeps; one that cannot be deleted is logged."""
    if rule.keep is None:
        return
    for entry in [entry for entry in _entries(store) if entry.rule_key == rule_key][rule.keep :]:
        try:
            store.files.delete_file(store.path(entry.file))
        except OSError as error:
            _log.warning("weekly report: %s could not be deleted: %s", entry.file, problem(error))
        else:
            _log.info("weekly report: %s deleted: the %d newest remain", entry.file, rule.keep)


def _entries(store: FileStore) -> list[html.IndexEntry]:
    """The reports of the directory, newest first; files of the same name that are not ours are left out."""
    names = [match for info in store.infos() if (match := _REPORT_FILE.fullmatch(info.base_name))]
    newest_first = sorted(names, key=lambda match: match[0], reverse=True)
    metadata = [(match, _metadata(store, match[0])) for match in newest_first]
    return [
        html.IndexEntry(
            file=match[0],
            day=match[1],
            finding=page.get("description", ""),
            is_share_safe=match[2] is None,
            rule_key=page.get("report-rule", ""),
        )
        for match, page in metadata
        if _is_ours(page)
    ]


def _is_ours(metadata: Mapping[str, str]) -> bool:
    return "exposurekit" in metadata.get("generator", "")


def _metadata(store: FileStore, name: str) -> dict[str, str]:
    head = store.read(store.path(name), HEAD_BYTES).decode("utf-8", "replace")
    return html.metadata(head)
