"""The notification outbox: one SQLite file with unsent notifications, unique by trigger and address."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from exposurekit.monitor.sqlite import Database, Schema, from_microseconds, to_microseconds
from exposurekit.system.sqlite_log import SUFFIXES

OUTBOX_SCHEMA = Schema(
    "the notification outbox",
    0x45584B4E,
    (
        """CREATE TABLE notifications (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            target TEXT NOT NULL,      -- the address' name in the rules
            trigger_key TEXT NOT NULL, -- a digest
            title TEXT,                -- NULL: sent; the row remains to recognise the trigger
            line TEXT,
            due_at INTEGER NOT NULL,   -- microseconds since 1970, UTC
            attachment TEXT,           -- the path or address of a file to send with it
            urgent INTEGER NOT NULL DEFAULT 0,  -- 1: it is also sent in quiet hours
            UNIQUE (target, trigger_key)
        )""",
        "CREATE INDEX notifications_unsent ON notifications (target, due_at) WHERE title IS NOT NULL",
        # one row: how far the rules were evaluated
        "CREATE TABLE evaluation (id INTEGER PRIMARY KEY CHECK (id = 1), evaluated_until INTEGER NOT NULL)",
        # targets whose last attempt failed
        "CREATE TABLE target_failures (target TEXT PRIMARY KEY, attempts INTEGER NOT NULL, retry_at INTEGER NOT NULL)",
    ),
    upgrades=(
        (
            "ALTER TABLE notices RENAME TO notifications",
            "ALTER TABLE notifications RENAME COLUMN cause TO trigger_key",
            "DROP INDEX waiting",
            "CREATE INDEX notifications_unsent ON notifications (target, due_at) WHERE title IS NOT NULL",
            "CREATE TABLE evaluation (id INTEGER PRIMARY KEY CHECK (id = 1), evaluated_until INTEGER NOT NULL)",
            "INSERT INTO evaluation SELECT one, until FROM judged",
            "DROP TABLE judged",
            "ALTER TABLE failing RENAME TO target_failures",
            "ALTER TABLE target_failures RENAME COLUMN tries TO attempts",
            "ALTER TABLE target_failures RENAME COLUMN again_at TO retry_at",
        ),
        ("ALTER TABLE notifications ADD COLUMN attachment TEXT",),
        ("ALTER TABLE notifications ADD COLUMN urgent INTEGER NOT NULL DEFAULT 0",),
    ),
)
FILE = "notifications.db"  # beside the watch's status file
_OLD_FILE = "notices.db"
CONFIDENTIAL_SUFFIX = "-confidential.html"  # of the file of a report with personal data
BUSY_S = 10.0
RETRY_DELAY_FIRST, RETRY_DELAY_MAX = timedelta(seconds=30), timedelta(minutes=15)
# A digest delays a notification by a day or two; a longer delay means that the clock went back.
DELAY_MAX = timedelta(days=3)


@dataclass(frozen=True, slots=True)
class Notification:
    """One line for one address."""

    target: str  # the address' name in the rules
    trigger_key: str
    title: str  # what happened
    line: str = field(repr=False)  # where, or to whom
    due_at: datetime
    attachment: str | None = field(default=None, repr=False)  # the path or address of a file to send with it
    urgent: bool = False  # it is also sent in quiet hours


class NotificationOutbox:
    """Notifications that wait to be sent. The file is created on first use, for its owner only."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._database = Database(Path(path), BUSY_S, OUTBOX_SCHEMA)

    def evaluated_until(self) -> datetime | None:
        """Return the time until which the rules were evaluated; None: never."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT evaluated_until FROM evaluation").fetchone()
        return None if row is None else from_microseconds(row[0])

    def put(self, notifications: Sequence[Notification], evaluated_until: datetime | None = None) -> int:
        """Store new notifications, and the time until which the rules were evaluated, in one transaction.

        Return how many are new: an address is notified once per trigger.
        """
        with self._database.writing() as connection:
            before = connection.total_changes
            connection.executemany(
                "INSERT INTO notifications (target, trigger_key, title, line, due_at, attachment, urgent) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (target, trigger_key) DO NOTHING",
                [
                    (
                        *(one.target, one.trigger_key, one.title, one.line),
                        *(to_microseconds(one.due_at), one.attachment, one.urgent),
                    )
                    for one in notifications
                ],
            )
            new = connection.total_changes - before
            if evaluated_until is not None:
                connection.execute(
                    "INSERT OR REPLACE INTO evaluation VALUES (1, ?)", (to_microseconds(evaluated_until),)
                )
        return new

    def due(self, at: datetime) -> dict[str, list[tuple[int, Notification]]]:
        """Return what may be sent at a time, by target, oldest first, each with its number.

        A target whose last attempt failed is left out until its next retry.
        """
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT number, notifications.target, trigger_key, title, line, due_at, attachment, urgent "
                "FROM notifications "
                "LEFT JOIN target_failures ON target_failures.target = notifications.target "
                "WHERE title IS NOT NULL AND due_at NOT BETWEEN ?1 + 1 AND ?2 "
                "AND coalesce(retry_at, 0) NOT BETWEEN ?1 + 1 AND ?3 ORDER BY number",
                (to_microseconds(at), to_microseconds(at + DELAY_MAX), to_microseconds(at + RETRY_DELAY_MAX)),
            ).fetchall()
        by_target: dict[str, list[tuple[int, Notification]]] = {}
        for number, target, trigger_key, title, line, due_at, attachment, urgent in rows:
            due = from_microseconds(due_at)
            by_target.setdefault(target, []).append(
                (number, Notification(target, trigger_key, title, line, due, attachment, bool(urgent)))
            )
        return by_target

    def mark_sent(self, target: str, numbers: Sequence[int]) -> None:
        """Record that notifications arrived: drop their text, remember their triggers."""
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE notifications SET title = NULL, line = NULL, attachment = NULL WHERE number = ?",
                [(number,) for number in numbers],
            )
            connection.execute("DELETE FROM target_failures WHERE target = ?", (target,))

    def mark_failed(self, target: str, at: datetime) -> datetime:
        """Record a failed attempt; return the time of the next one. Delays grow, and retries never end."""
        with self._database.writing() as connection:
            row = connection.execute(
                "SELECT attempts FROM target_failures WHERE target = ?", (target,)
            ).fetchone()
            attempts = 1 if row is None else row[0] + 1
            delay = min(RETRY_DELAY_MAX, RETRY_DELAY_FIRST * 2 ** min(attempts - 1, 20))
            retry_at: datetime = at + delay
            connection.execute(
                "INSERT OR REPLACE INTO target_failures VALUES (?, ?, ?)",
                (target, attempts, to_microseconds(retry_at)),
            )
        return retry_at

    def postpone(self, number: int, at: datetime) -> datetime:
        """Put off one notification whose file cannot be read, and no other of its target; return when it is due."""
        due_at = at + RETRY_DELAY_MAX
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE notifications SET due_at = ? WHERE number = ?", (to_microseconds(due_at), number)
            )
        return due_at

    def erase(self, user_id: int) -> int:
        """Delete the unsent text about a user, so that no byte of it remains in the file; return the number of lines."""
        with self._database.writing() as connection:
            erased = connection.execute(
                "UPDATE notifications SET title = NULL, line = NULL WHERE line LIKE ?1 OR line LIKE ?2",
                (f"user {user_id} %", f"user {user_id},%"),
            ).rowcount
        self._database.scrub()
        return erased

    def detach_confidential_reports(self) -> int:
        """Send the unsent confidential reports without their files, which name people; return the number of notifications."""
        with self._database.writing() as connection:
            return connection.execute(
                "UPDATE notifications SET attachment = NULL WHERE attachment LIKE ?",
                (f"%{CONFIDENTIAL_SUFFIX}",),
            ).rowcount

    def has(self, target: str, trigger_key: str) -> bool:
        """Return whether an address has, or will get, the notification of a trigger."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT 1 FROM notifications WHERE target = ? AND trigger_key = ?", (target, trigger_key)
            ).fetchone()
        return row is not None

    def waiting(self) -> int:
        """Count the unsent notifications, due or not."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT count(*) FROM notifications WHERE title IS NOT NULL").fetchone()
        return int(row[0])

    def unsent(self) -> list[tuple[str, bool, datetime, datetime | None, bool]]:
        """List the unsent notifications: target, if urgent, when due, when a failed target is tried again, if with a file."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT notifications.target, urgent, due_at, retry_at, attachment IS NOT NULL FROM notifications "
                "LEFT JOIN target_failures ON target_failures.target = notifications.target "
                "WHERE title IS NOT NULL ORDER BY number"
            ).fetchall()
        return [
            (
                *(target, bool(urgent), from_microseconds(due_at)),
                *(retry_at and from_microseconds(retry_at), bool(has_file)),
            )
            for target, urgent, due_at, retry_at, has_file in rows
        ]

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def outbox_file(directory: Path) -> Path:
    """Return the path of the outbox in a directory; a file of its former name is renamed, with its log.

    The database itself is renamed last: a killed rename is completed by the next call, before the file is opened.
    """
    file, old = directory / FILE, directory / _OLD_FILE
    if old.is_file() and not file.exists():
        for suffix in (*SUFFIXES, ""):
            with suppress(FileNotFoundError):  # there is no log, or another process renames it too
                Path(f"{old}{suffix}").rename(f"{file}{suffix}")
    return file
