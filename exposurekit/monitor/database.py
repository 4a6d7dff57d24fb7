"""The SQLite file beneath the letters: made, opened, its transactions. Knows what a table holds by name alone."""

import os
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from exposurekit.errors import ExposureError, Misconfigured

_APPLICATION = 0x45584B49  # marks the file as an inbox
_SCHEMA = (
    "CREATE TABLE about (identity TEXT NOT NULL)",
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
)


class NotKept(ExposureError):
    """The inbox could not be written or read at this moment: disk full, locked, read-only."""


class Database:
    """One file, and one connection to it that threads share; made at first use, for its owner alone."""

    def __init__(self, path: Path, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; on the disk when the block is left well, and else nothing of it happened.

        Raises:
            NotKept: It could not be done.
        """
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled back by itself
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Statements by themselves; each is to be read to its end.

        Raises:
            NotKept: The file cannot be used at this moment.
            Misconfigured: It is no inbox, or cannot be made.
        """
        try:
            with self._lock:
                yield self._opened()
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
        else:
            return
        if name == "SQLITE_NOTADB":
            raise _not_an_inbox()
        raise NotKept(f"the inbox could not be used ({name}): it is locked, full or read-only; try again")

    def scrub(self) -> None:
        """Leave no byte of what was deleted in the file or its log.

        Raises:
            NotKept: Another process reads the old bytes.
        """
        with self.reading() as connection:
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise NotKept(
                "the letters are deleted, but another process reads the inbox and their bytes are "
                "still in its log: erase again"
            )

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and _identity_of(self._path) != self._file:
            self.close()  # moved away: what is written to it now nobody would find
        if self._connection is None:
            _make(self._path)
            self._file = _identity_of(self._path)
            self._connection = _connected(self._path, self._busy_s)
            weakref.finalize(self, self._connection.close)  # where whoever opened it forgets to
        return self._connection


def _make(path: Path) -> None:
    """The file, for its owner alone, and its name on the disk; SQLite gives its log the same rights."""
    problem = None
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except FileExistsError:
        return
    except OSError as error:
        problem = error.strerror
    if problem:
        raise Misconfigured(f"the inbox cannot be made where it was asked for: {problem}")


def _connected(path: Path, busy_s: float) -> sqlite3.Connection:
    # Without autocommit's help: sqlite3 would begin transactions of its own, and not IMMEDIATE ones.
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            _furnish(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _furnish(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")  # two processes may be the first
    [[application]] = connection.execute("PRAGMA application_id").fetchall()
    if application == _APPLICATION:
        connection.execute("ROLLBACK")
        return
    if application or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise _not_an_inbox()
    for statement in (*_SCHEMA, f"PRAGMA application_id = {_APPLICATION}"):
        connection.execute(statement)
    connection.execute("INSERT INTO about VALUES (?)", (str(uuid.uuid4()),))
    connection.execute("COMMIT")


def _not_an_inbox() -> Misconfigured:
    return Misconfigured("the file that should be the inbox is another: name one that is not there yet")


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
