"""The inbox: received webhook bodies in a SQLite file, unchanged and durable before the sender gets its 204.

Several processes may share one file: one receives, one processes, one lists. Each transaction is on disk when it
returns (WAL, synchronous=FULL).
"""

import hashlib
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path

from exposurekit.contract.webhooks import GROUPING_WINDOW, RETRY_DELAYS
from exposurekit.monitor.sqlite import Database, Schema, from_microseconds, to_microseconds
from exposurekit.monitor.webhooks.parsing import mentions
from exposurekit.system.clock import utc_now

# A sender without webhook-ids repeats a body for 46 minutes; the window is twice that, for clocks and queues that lag.
# Later, the same bytes are a new delivery: a record that is found, removed and found again gives the same body.
DEDUP_WINDOW = 2 * (GROUPING_WINDOW + sum(RETRY_DELAYS, timedelta()))
# An operator can replay a delivery, with its id and bytes, for as long as the sender stores it: our service, 90 days.
DEDUP_TTL = timedelta(days=90)
BATCH_BYTES = 16 * 2**20  # of bodies in one batch; a single larger body is a batch of its own

_INDEXES = (
    "CREATE UNIQUE INDEX messages_by_webhook_id ON messages (webhook_id, digest) WHERE webhook_id IS NOT NULL",
    "CREATE INDEX messages_by_digest ON messages (digest, received_at) WHERE webhook_id IS NULL",
    "CREATE INDEX messages_with_body ON messages (number) WHERE body IS NOT NULL",
    "CREATE INDEX messages_processed ON messages (received_at) WHERE body IS NULL",
)
INBOX_SCHEMA = Schema(
    "the inbox",
    0x45584B49,
    (
        "CREATE TABLE meta (identity TEXT NOT NULL)",
        "INSERT INTO meta VALUES (lower(hex(randomblob(16))))",
        """CREATE TABLE messages (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            webhook_id TEXT,           -- NULL: the sender sent none
            digest BLOB NOT NULL,      -- SHA-256 of the body
            received_at INTEGER NOT NULL,  -- microseconds since 1970, UTC
            body BLOB,                 -- NULL: processed; the row remains to recognise duplicates
            reason TEXT                -- why it is quarantined; NULL: it is not
        )""",
        *_INDEXES,
    ),
    upgrades=(
        (
            "ALTER TABLE about RENAME TO meta",
            "ALTER TABLE letters RENAME TO messages",
            "DROP INDEX once",
            "DROP INDEX alike",
            "DROP INDEX kept",
            "DROP INDEX known",
            *_INDEXES,
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """A received webhook delivery: the body of one request, unchanged."""

    number: int
    received_at: datetime
    webhook_id: str | None
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class QuarantinedMessage:
    """A message that cannot be processed, without its body; `size` is in bytes."""

    number: int
    received_at: datetime
    reason: str
    size: int


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """The number of messages that wait, are quarantined or were processed."""

    waiting: int
    quarantined: int
    processed: int


@dataclass(frozen=True, slots=True)
class ErasedMessages:
    """The number of messages that an erasure deleted."""

    total: int
    by_value: int  # those without a user_id, which contain one of the values
    quarantined: int = 0
    unclear: int = 0  # left there: those without a user_id, which contain the id's digits as another number


class InboxStore:
    """The messages of one inbox. The file is created on first use, for its owner only."""

    def __init__(
        self, path: str | Path, *, clock: Callable[[], datetime] = utc_now, busy_s: float = 5.0
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._database = Database(self.path, busy_s, INBOX_SCHEMA)

    @property
    def identity(self) -> str:
        """The inbox's id. It lives as long as the file, and no two files share one: see `reset_identity`."""
        with self._database.reading() as connection:
            return str(connection.execute("SELECT identity FROM meta").fetchone()[0])

    def reset_identity(self, last_processed: int) -> bool:
        """Give the inbox a new identity if it never assigned the number of a message that was processed.

        Such a file is an older copy that was restored: it will assign the same numbers to other messages. Return
        whether the identity changed.
        """
        with self._database.writing() as connection:
            last_assigned = connection.execute(
                "SELECT max(coalesce((SELECT max(seq) FROM sqlite_sequence WHERE name = 'messages'), 0), "
                "coalesce((SELECT max(number) FROM messages), 0))"
            ).fetchone()[0]
            if last_assigned >= last_processed:
                return False
            connection.execute("UPDATE meta SET identity = ?", (str(uuid.uuid4()),))
        return True

    def put(self, webhook_id: str | None, body: bytes) -> bool:
        """Store one message; False: it is a duplicate. See `put_all`."""
        return self.put_all([(webhook_id, body)])[0]

    def put_all(self, received: Iterable[tuple[str | None, bytes]]) -> list[bool]:
        """Store several messages in one transaction, or none; they are on disk when this returns.

        A message is a duplicate if the same webhook-id arrived with the same bytes within `DEDUP_TTL`; the same id with
        other bytes is a new message. Without an id, the same bytes are a duplicate within `DEDUP_WINDOW`. Return for
        each message whether it is new.
        """
        at = to_microseconds(self._clock())
        with self._database.writing() as connection:
            return [_insert(connection, at, webhook_id, body) for webhook_id, body in received]

    def unprocessed(self, after: int = 0, limit: int = 500) -> list[InboxMessage]:
        """Return the first waiting messages past a number: at most `limit`, and about `BATCH_BYTES` of bodies."""
        with self._database.reading() as connection:
            sizes = connection.execute(
                "SELECT number, length(body) FROM messages WHERE body IS NOT NULL AND reason IS NULL "
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
                "SELECT number, received_at, webhook_id, body FROM messages WHERE body IS NOT NULL "
                "AND reason IS NULL AND number > ? AND number <= ? ORDER BY number",
                (after, last),
            ).fetchall()
        return [
            InboxMessage(number, from_microseconds(at), webhook_id, body)
            for number, at, webhook_id, body in rows
        ]

    def quarantine(self, number: int, reason: str) -> None:
        """Quarantine a message; the reason must not contain any of its values."""
        with self._database.writing() as connection:
            connection.execute("UPDATE messages SET reason = ? WHERE number = ?", (reason, number))

    def discard_quarantined(self, number: int) -> None:
        """Drop the body of a quarantined message; its id and digest remain, as of a processed one."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE messages SET body = NULL, reason = NULL WHERE number = ? AND reason IS NOT NULL",
                (number,),
            )

    def retry_quarantined(self, number: int) -> None:
        """Let a quarantined message wait again, as the newest one: a history skips numbers below its last."""
        with self._database.writing() as connection:
            row = connection.execute(
                "DELETE FROM messages WHERE number = ? AND reason IS NOT NULL "
                "RETURNING webhook_id, digest, received_at, body",
                (number,),
            ).fetchone()
            if row is not None:
                connection.execute(
                    "INSERT INTO messages (webhook_id, digest, received_at, body) VALUES (?, ?, ?, ?)", row
                )

    def quarantined(self) -> list[QuarantinedMessage]:
        """List the quarantined messages by number."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT number, received_at, reason, length(body) FROM messages "
                "WHERE body IS NOT NULL AND reason IS NOT NULL ORDER BY number"
            ).fetchall()
        return [
            QuarantinedMessage(number, from_microseconds(at), reason, size)
            for number, at, reason, size in rows
        ]

    def body(self, number: int) -> bytes | None:
        """Return the body, byte for byte; None: there is no such message, or it was processed."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT body FROM messages WHERE number = ?", (number,)).fetchone()
        return row[0] if row else None

    def discard_processed(self, until: int) -> None:
        """Drop the bodies of processed messages up to a number; ids and digests remain for `DEDUP_TTL`."""
        oldest = to_microseconds(self._clock() - DEDUP_TTL)
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE messages SET body = NULL WHERE body IS NOT NULL AND reason IS NULL AND number <= ?",
                (until,),
            )
            connection.execute("DELETE FROM messages WHERE body IS NULL AND received_at < ?", (oldest,))

    def counts(self) -> InboxCounts:
        """Count the messages by state."""
        with self._database.reading() as connection:
            waiting, quarantined = connection.execute(
                "SELECT count(*) FILTER (WHERE reason IS NULL), count(*) FILTER (WHERE reason IS NOT NULL) "
                "FROM messages WHERE body IS NOT NULL"
            ).fetchone()
            processed = connection.execute("SELECT count(*) FROM messages WHERE body IS NULL").fetchone()[0]
        return InboxCounts(waiting, quarantined, processed)

    def erase(
        self,
        user_id: int,
        values: Iterable[str] = (),
        addresses: Collection[tuple[str, str]] = (),
        *,
        also_numbers: bool = False,
    ) -> ErasedMessages:
        """Delete every message about a user, quarantined ones too; no byte of them remains in the file or its log.

        Messages with this `user_id` are deleted. A message without a user_id is deleted if it contains the id, one of the
        user's personal values of 6 characters or more, or the street and the town of one of their addresses: see
        `parsing.mentions`. With `also_numbers`, so is one that contains the id's digits as another number, such as an age.
        """
        find = partial(
            self._find_mentions,
            is_about=partial(mentions, user_id=user_id, values=tuple(values), addresses=addresses),
        )
        matches, last_read = find(0)
        with self._database.writing() as connection:
            newer, _ = find(last_read)  # arrived since the first search
            matches |= newer
            unclear = 0 if also_numbers else sum(by == "number" for by in matches.values())
            matches = {number: by for number, by in matches.items() if also_numbers or by != "number"}
            quarantined = connection.execute(
                "SELECT number FROM messages WHERE body IS NOT NULL AND reason IS NOT NULL"
            ).fetchall()
            connection.executemany("DELETE FROM messages WHERE number = ?", [(number,) for number in matches])
        self._database.scrub()
        by_value = sum(by == "value" for by in matches.values())
        quarantined_count = sum(number in matches for [number] in quarantined)
        return ErasedMessages(len(matches), by_value, quarantined_count, unclear)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _find_mentions(
        self, after: int, is_about: Callable[[bytes], str | None]
    ) -> tuple[dict[int, str], int]:
        """Return the messages past a number that mention a user, with how they do; and the last number read."""
        matches: dict[int, str] = {}
        while True:
            with self._database.reading() as connection:
                row = connection.execute(
                    "SELECT number, body FROM messages WHERE body IS NOT NULL AND number > ? "
                    "ORDER BY number LIMIT 1",
                    (after,),
                ).fetchone()
            if row is None:
                return matches, after
            after = row[0]
            if by := is_about(row[1]):
                matches[after] = by


def _insert(connection: sqlite3.Connection, at: int, webhook_id: str | None, body: bytes) -> bool:
    digest = hashlib.sha256(body).digest()
    if webhook_id is None:
        since = at - DEDUP_WINDOW // timedelta(microseconds=1)
        duplicate = connection.execute(
            "SELECT 1 FROM messages WHERE webhook_id IS NULL AND digest = ? AND received_at > ? LIMIT 1",
            (digest, since),
        ).fetchone()
        if duplicate:
            return False
    cursor = connection.execute(
        "INSERT INTO messages (webhook_id, digest, received_at, body) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (webhook_id, digest, at, body),
    )
    return cursor.rowcount == 1
