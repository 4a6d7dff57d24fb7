"""A SQLite file beneath letters, or notices: made, opened, its transactions. Knows no table."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from exposurekit.errors import ConfigurationError, ExposureError


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file is.

    Attributes:
        called: In messages: ``the inbox``.
        application: The number that marks the file.
        schema: The statements that make its tables.
    """

    called: str
    application: int
    schema: tuple[str, ...]


class NotKept(ExposureError):
    """It could not be written or read at this moment: disk full, locked, read-only."""


class Database:
    """One file, and one connection to it that threads share; made at first use, for its owner alone."""

    def __init__(self, path: Path, busy_s: float, kind: Kind) -> None:
        self._path = path
        self._kind = kind
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
            ConfigurationError: It is no inbox, or cannot be made.
        """
        try:
            with self._lock:
                yield self._opened()
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
        else:
            return
        if name == "SQLITE_NOTADB":
            raise _another(self._kind)
        raise NotKept(
            f"{self._kind.called} could not be used ({name}): it is locked, full or read-only; try again"
        )

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
                f"what was to go is deleted, but another process reads {self._kind.called} and its bytes are "
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
            _make(self._path, self._kind)
            self._file = _identity_of(self._path)
            self._connection = _connected(self._path, self._busy_s, self._kind)
            weakref.finalize(self, self._connection.close)  # where whoever opened it forgets to
        return self._connection


def _make(path: Path, kind: Kind) -> None:
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
        raise ConfigurationError(f"{kind.called} cannot be made where it was asked for: {problem}")


def _connected(path: Path, busy_s: float, kind: Kind) -> sqlite3.Connection:
    # Without autocommit's help: sqlite3 would begin transactions of its own, and not IMMEDIATE ones.
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        if connection.execute("PRAGMA application_id").fetchone()[0] != kind.application:
            _furnish(connection, kind)
    except BaseException:
        connection.close()
        raise
    return connection


def _furnish(connection: sqlite3.Connection, kind: Kind) -> None:
    connection.execute("BEGIN IMMEDIATE")  # two processes may be the first
    [[application]] = connection.execute("PRAGMA application_id").fetchall()
    if application == kind.application:
        connection.execute("ROLLBACK")
        return
    if application or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise _another(kind)
    for statement in (*kind.schema, f"PRAGMA application_id = {kind.application}"):
        connection.execute(statement)
    connection.execute("COMMIT")


def _another(kind: Kind) -> ConfigurationError:
    return ConfigurationError(
        f"the file that should be {kind.called} is another: name one that is not there yet"
    )


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
