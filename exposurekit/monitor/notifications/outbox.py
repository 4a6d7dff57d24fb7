"""What is to be told and was not yet, in one SQLite file: once for each cause and address, until it was told. Sends nothing."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from exposurekit.monitor.sqlite import Database, Kind

NOTICES = Kind(
    "the file of notices",
    0x45584B4E,
    (
        """CREATE TABLE notices (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            target TEXT NOT NULL,      -- its name in the rules
            cause TEXT NOT NULL,       -- a digest
            title TEXT,                -- NULL: it was told, and only known any more
            line TEXT,
            due_at INTEGER NOT NULL,   -- microseconds since 1970, UTC
            UNIQUE (target, cause)
        )""",
        "CREATE INDEX waiting ON notices (target, due_at) WHERE title IS NOT NULL",
        # One row: until when the history was judged.
        "CREATE TABLE judged (one INTEGER PRIMARY KEY CHECK (one = 1), until INTEGER NOT NULL)",
        # Where the last try failed.
        "CREATE TABLE failing (target TEXT PRIMARY KEY, tries INTEGER NOT NULL, again_at INTEGER NOT NULL)",
    ),
)
FILE = "notices.db"  # beside what the watch says of itself
BUSY_S = 10.0
AGAIN_FIRST, AGAIN_LAST = timedelta(seconds=30), timedelta(minutes=15)
# A digest and quiet hours put off for two days at most; what waits longer was put off by a clock that has gone back.
DUE_LAST = timedelta(days=3)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Notification:
    """One line for one address.

    Attributes:
        target: The address' name in the rules.
        cause: What it is about, as a digest.
        title: What happened.
        line: Where, or to whom.
        due_at: When it may be sent.
    """

    target: str
    cause: str
    title: str
    line: str = field(repr=False)
    due_at: datetime


class NotificationOutbox:
    """What waits to be told; the file is made at first use, for its owner alone.

    >>> import tempfile
    >>> notices = NotificationOutbox(Path(tempfile.mkdtemp()) / "notices.db")
    >>> notices.waiting()
    0
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._database = Database(Path(path), BUSY_S, NOTICES)

    def judged_until(self) -> datetime | None:
        """Until when the history was asked what is to be told; None: it never was."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT until FROM judged").fetchone()
        return None if row is None else _instant(row[0])

    def put(self, notices: Sequence[Notification], judged_until: datetime | None = None) -> int:
        """Keep what is new of these, and until when the history was judged, in one step.

        Returns:
            How many were new: of each cause an address is told once.
        """
        with self._database.writing() as connection:
            before = connection.total_changes
            connection.executemany(
                "INSERT INTO notices (target, cause, title, line, due_at) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (target, cause) DO NOTHING",
                [(one.target, one.cause, one.title, one.line, _number(one.due_at)) for one in notices],
            )
            new = connection.total_changes - before
            if judged_until is not None:
                connection.execute("INSERT OR REPLACE INTO judged VALUES (1, ?)", (_number(judged_until),))
        return new

    def due(self, at: datetime) -> dict[str, list[tuple[int, Notification]]]:
        """By address, what may be sent now, oldest first, with its number; of an address that failed nothing too soon."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT number, notices.target, cause, title, line, due_at FROM notices "
                "LEFT JOIN failing ON failing.target = notices.target "
                "WHERE title IS NOT NULL AND due_at NOT BETWEEN ?1 + 1 AND ?2 "
                "AND coalesce(again_at, 0) NOT BETWEEN ?1 + 1 AND ?3 ORDER BY number",
                (_number(at), _number(at + DUE_LAST), _number(at + AGAIN_LAST)),
            ).fetchall()
        found: dict[str, list[tuple[int, Notification]]] = {}
        for number, target, cause, title, line, due_at in rows:
            found.setdefault(target, []).append(
                (number, Notification(target, cause, title, line, _instant(due_at)))
            )
        return found

    def told(self, target: str, numbers: Sequence[int]) -> None:
        """These arrived: what they said is forgotten, that they were told is not."""
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE notices SET title = NULL, line = NULL WHERE number = ?",
                [(number,) for number in numbers],
            )
            connection.execute("DELETE FROM failing WHERE target = ?", (target,))

    def not_told(self, target: str, at: datetime) -> datetime:
        """A try failed. Returns when the next one is: later each time, and never given up."""
        with self._database.writing() as connection:
            row = connection.execute("SELECT tries FROM failing WHERE target = ?", (target,)).fetchone()
            tries = 1 if row is None else row[0] + 1
            again_at: datetime = at + min(AGAIN_LAST, AGAIN_FIRST * 2 ** min(tries - 1, 20))
            connection.execute(
                "INSERT OR REPLACE INTO failing VALUES (?, ?, ?)", (target, tries, _number(again_at))
            )
        return again_at

    def erase(self, user_id: int) -> int:
        """Forget what waits to be told of a person; no byte of it is left in the file. Returns how many that were."""
        with self._database.writing() as connection:
            gone = connection.execute(
                "UPDATE notices SET title = NULL, line = NULL WHERE line LIKE ?1 OR line LIKE ?2",
                (f"user {user_id} %", f"user {user_id},%"),
            ).rowcount
        self._database.scrub()
        return gone

    def waiting(self) -> int:
        """How many wait, due or not."""
        with self._database.reading() as connection:
            many: int = connection.execute("SELECT count(*) FROM notices WHERE title IS NOT NULL").fetchone()[
                0
            ]
        return many

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


def _number(at: datetime) -> int:
    return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _instant(number: int) -> datetime:
    return _EPOCH + timedelta(microseconds=number)
