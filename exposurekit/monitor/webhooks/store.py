"""What the inbox received, as it came, in one SQLite file. Durable before anybody is told so; reads no meaning into it.

Several processes may use one file: one receives, one drains, one lists. Each transaction is on the disk when it
returns (WAL, synchronous=FULL).
"""

import hashlib
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate, takewhile
from pathlib import Path

from exposurekit.contract.webhooks import GROUPING_WINDOW, RETRY_DELAYS
from exposurekit.monitor.sqlite import Database, Kind
from exposurekit.monitor.webhooks.parsing import mentions

# A sender without webhook-ids repeats a body for 46 minutes; twice that, for clocks and queues that lag. Later the
# same bytes are news: what was listed, gone and listed again is told in the same words.
DEDUP_WINDOW = 2 * (GROUPING_WINDOW + sum(RETRY_DELAYS, timedelta()))
# A delivery can be replayed by hand, with its id and bytes, for as long as its sender keeps it: here, 90 days.
DEDUP_TTL = timedelta(days=90)
BATCH_BYTES = 16 * 2**20  # of bodies given at once, but for one that is larger by itself

INBOX = Kind(
    "the inbox",
    0x45584B49,
    (
        "CREATE TABLE about (identity TEXT NOT NULL)",
        "INSERT INTO about VALUES (lower(hex(randomblob(16))))",
        """CREATE TABLE letters (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            webhook_id TEXT,           -- NULL: its sender gives none
            digest BLOB NOT NULL,      -- SHA-256 of the body
            received_at INTEGER NOT NULL,  -- microseconds since 1970, UTC
            body BLOB,                 -- NULL: drained, and only known any more
            reason TEXT                -- NULL: not quarantined
        )""",
        "CREATE UNIQUE INDEX once ON letters (webhook_id, digest) WHERE webhook_id IS NOT NULL",
        "CREATE INDEX alike ON letters (digest, received_at) WHERE webhook_id IS NULL",
        "CREATE INDEX kept ON letters (number) WHERE body IS NOT NULL",
        "CREATE INDEX known ON letters (received_at) WHERE body IS NULL",
    ),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """One request's body as it came."""

    number: int
    received_at: datetime
    webhook_id: str | None
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A letter that cannot be read, without its body. ``size`` in bytes."""

    number: int
    received_at: datetime
    reason: str
    size: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How many letters wait, are quarantined, or are drained and only known; when the oldest that waits came."""

    waiting: int
    quarantined: int
    known: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class Erased:
    """How many letters an erasure deleted.

    Attributes:
        letters: In all.
        by_value: Of these, those that told nobody's id, and held one of the values.
        quarantined: Of these, those that had been set apart.
    """

    letters: int
    by_value: int
    quarantined: int = 0


def utc_now() -> datetime:
    """This instant."""
    return datetime.now(UTC)


class InboxStore:
    """The letters of one inbox; the file is made at first use, for its owner alone.

    Args:
        path: The file.
        clock: Tells the instant.
        busy_s: How long another process's transaction is waited for.

    >>> import tempfile
    >>> letters = InboxStore(Path(tempfile.mkdtemp()) / "inbox.db")
    >>> letters.put("msg_1", b"{}"), letters.put("msg_1", b"{}"), letters.counts().waiting
    (True, False, 1)
    >>> letters.close()
    """

    def __init__(
        self, path: str | Path, *, clock: Callable[[], datetime] = utc_now, busy_s: float = 5.0
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._database = Database(self.path, busy_s, INBOX)

    @property
    def identity(self) -> str:
        """What this inbox is called, for as long as its file exists; two files never share it: see `renew`."""
        with self._database.reading() as connection:
            return str(connection.execute("SELECT identity FROM about").fetchone()[0])

    def renew(self, drained: int) -> bool:
        """Take another identity where no letter ever had a number as great as one that was drained.

        Such a file is an older copy that was put back: it gives those numbers again, to letters that nobody has seen.

        Args:
            drained: The greatest number that was drained of the inbox of this identity.

        Returns:
            Whether it has another identity now.

        Raises:
            NotKept: It could not be done.

        >>> import tempfile
        >>> letters = InboxStore(Path(tempfile.mkdtemp()) / "inbox.db")
        >>> letters.put("msg_1", b"{}"), letters.renew(1), letters.renew(2)
        (True, False, True)
        >>> letters.close()
        """
        with self._database.writing() as connection:
            given = connection.execute(
                "SELECT max(coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'letters'), 0), "
                "coalesce((SELECT max(number) FROM letters), 0))"
            ).fetchone()[0]
            if given >= drained:
                return False
            connection.execute("UPDATE about SET identity = ?", (str(uuid.uuid4()),))
        return True

    def put(self, webhook_id: str | None, body: bytes) -> bool:
        """Keep one; False: it was received already. See `put_all`."""
        return self.put_all([(webhook_id, body)])[0]

    def put_all(self, received: Iterable[tuple[str | None, bytes]]) -> list[bool]:
        """Keep several in one transaction; on the disk when this returns.

        The same webhook-id with the same bytes is received already, for `DEDUP_TTL`; with other bytes it is another
        letter. Without an id, the same bytes are received already within `DEDUP_WINDOW`.

        Returns:
            Of each, whether it was new.

        Raises:
            NotKept: None of them is kept.
        """
        at = _microseconds(self._clock())
        with self._database.writing() as connection:
            return [_put(connection, at, webhook_id, body) for webhook_id, body in received]

    def unprocessed(self, after: int = 0, limit: int = 500) -> list[InboxMessage]:
        """The first letters past a number, none of them quarantined; at most `limit`, and about `BATCH_BYTES`."""
        with self._database.reading() as connection:
            sizes = connection.execute(
                "SELECT number, length(body) FROM letters WHERE body IS NOT NULL AND reason IS NULL "
                "AND number > ? ORDER BY number LIMIT ?",
                (after, limit),
            ).fetchall()
            if not sizes:
                return []
            within = list(
                takewhile(lambda total: total <= BATCH_BYTES, accumulate(size for _, size in sizes))
            )
            last = sizes[max(len(within), 1) - 1][0]
            rows = connection.execute(
                "SELECT number, received_at, webhook_id, body FROM letters WHERE body IS NOT NULL "
                "AND reason IS NULL AND number > ? AND number <= ? ORDER BY number",
                (after, last),
            ).fetchall()
        return [InboxMessage(number, _instant(at), webhook_id, body) for number, at, webhook_id, body in rows]

    def quarantine(self, number: int, reason: str) -> None:
        """Set one apart; the reason holds no value of it."""
        with self._database.writing() as connection:
            connection.execute("UPDATE letters SET reason = ? WHERE number = ?", (reason, number))

    def quarantined(self) -> list[Quarantined]:
        """Those that were set apart, by number."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT number, received_at, reason, length(body) FROM letters "
                "WHERE body IS NOT NULL AND reason IS NOT NULL ORDER BY number"
            ).fetchall()
        return [Quarantined(number, _instant(at), reason, size) for number, at, reason, size in rows]

    def body(self, number: int) -> bytes | None:
        """What came, byte for byte; None: there is no such letter any more."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT body FROM letters WHERE number = ?", (number,)).fetchone()
        return row[0] if row else None

    def forget(self, until: int) -> None:
        """Drop the bodies of those that were drained, up to a number; their ids and digests stay for `DEDUP_TTL`."""
        oldest = _microseconds(self._clock() - DEDUP_TTL)
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE letters SET body = NULL WHERE body IS NOT NULL AND reason IS NULL AND number <= ?",
                (until,),
            )
            connection.execute("DELETE FROM letters WHERE body IS NULL AND received_at < ?", (oldest,))

    def counts(self) -> Counts:
        """How many there are of each sort."""
        with self._database.reading() as connection:
            kept = connection.execute(
                "SELECT count(*) FILTER (WHERE reason IS NULL), count(*) FILTER (WHERE reason IS NOT NULL), "
                "min(received_at) FILTER (WHERE reason IS NULL) FROM letters WHERE body IS NOT NULL"
            ).fetchone()
            known = connection.execute("SELECT count(*) FROM letters WHERE body IS NULL").fetchone()[0]
        waiting, quarantined, oldest = kept
        return Counts(waiting, quarantined, known, None if oldest is None else _instant(oldest))

    def erase(self, user_id: int, values: Iterable[str] = ()) -> Erased:
        """Delete every letter about a person, the quarantined too; no byte of them is left in the file or its log.

        Args:
            user_id: The person's id: letters that say it go.
            values: The person's details. A letter that does not tell whose it is goes if it holds the id as a number,
                or one of them that has 6 characters or more: see `reading.mentions`.

        Returns:
            How many were deleted, and how many of them for a value alone.

        Raises:
            NotKept: It could not be done, or another process reads the old bytes: erase again.
        """
        details = tuple(values)
        found, seen = self._about(0, user_id, details)
        with self._database.writing() as connection:
            more, _ = self._about(seen, user_id, details)  # what came meanwhile
            gone = found | more
            apart = connection.execute(
                "SELECT number FROM letters WHERE body IS NOT NULL AND reason IS NOT NULL"
            ).fetchall()
            connection.executemany("DELETE FROM letters WHERE number = ?", [(number,) for number in gone])
        self._database.scrub()
        by_value = sum(by == "value" for by in gone.values())
        return Erased(len(gone), by_value, sum(number in gone for [number] in apart))

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        self._database.close()

    def _about(self, after: int, user_id: int, values: Sequence[str]) -> tuple[dict[int, str], int]:
        """The numbers past one whose letters are about a person, by what that is told; and the last looked at."""
        found: dict[int, str] = {}
        while True:
            with self._database.reading() as connection:
                row = connection.execute(
                    "SELECT number, body FROM letters WHERE body IS NOT NULL AND number > ? "
                    "ORDER BY number LIMIT 1",
                    (after,),
                ).fetchone()
            if row is None:
                return found, after
            after = row[0]
            if by := mentions(row[1], user_id, values):
                found[after] = by


def _put(connection: sqlite3.Connection, at: int, webhook_id: str | None, body: bytes) -> bool:
    digest = hashlib.sha256(body).digest()
    if webhook_id is None:
        since = at - DEDUP_WINDOW // timedelta(microseconds=1)
        there = connection.execute(
            "SELECT 1 FROM letters WHERE webhook_id IS NULL AND digest = ? AND received_at > ? LIMIT 1",
            (digest, since),
        ).fetchone()
        if there:
            return False
    done = connection.execute(
        "INSERT INTO letters (webhook_id, digest, received_at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (webhook_id, digest, at, body),
    )
    return done.rowcount == 1


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _instant(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
