"""A SQLite database file: creation, schema upgrades, transactions and secure deletion."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.system.atomic_files import file_id
from exposurekit.system.sqlite_log import INDEX_SUFFIX, SUFFIX, orphaned_log

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one kind of database file."""

    label: str  # the name of such a file in messages: "the inbox"
    application_id: int  # identifies the kind in the file's header
    statements: tuple[str, ...]  # create the tables of the current version
    upgrades: tuple[tuple[str, ...], ...] = ()  # version 0 to 1, 1 to 2, ...; `user_version` counts them

    @property
    def version(self) -> int:
        """The current version."""
        return len(self.upgrades)


class DatabaseUnavailable(ExposureError):
    """The file cannot be read or written right now: the disk is full, or the file is locked or read-only."""


class Database:
    """One database file with one connection that threads share.

    The file is created on first use, with permissions for its owner only. A file of an earlier version is upgraded.
    """

    def __init__(self, path: Path, busy_s: float, schema: Schema) -> None:
        self._path = path
        self._schema = schema
        self._busy_s = busy_s
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file_id: tuple[int, int] | None = None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: on disk when the block ends, rolled back if it raises."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite has already rolled back if the disk is full
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection in autocommit mode; fetch the result of each statement completely.

        Raises `DatabaseUnavailable` if the file cannot be used right now, and `ConfigurationError` if it is of another
        kind or a later version, or cannot be created.
        """
        try:
            with self._lock:
                yield self._connect()
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", type(error).__name__)
        else:
            return
        if name == "SQLITE_NOTADB":
            raise _wrong_kind(self._schema)
        raise DatabaseUnavailable(
            f"{self._schema.label} could not be used ({name}): it is locked, full or read-only. Try again"
        )

    def scrub(self) -> None:
        """Remove every byte of deleted rows from the file and its log.

        Raises `DatabaseUnavailable` if another process still reads the old bytes.
        """
        with self.reading() as connection:
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise DatabaseUnavailable(
                f"the data is deleted, but its bytes are still in the log of {self._schema.label}: another process "
                "reads them. Erase again"
            )

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and file_id(self._path) != self._file_id:
            self.close()  # the file was moved or replaced: writes to the old one would be lost
        if self._connection is None:
            _create_file(self._path, self._schema)
            self._file_id = file_id(self._path)
            self._connection = _open(self._path, self._busy_s, self._schema)
            weakref.finalize(self, self._connection.close)  # in case the caller does not close it
        return self._connection


def _create_file(path: Path, schema: Schema) -> None:
    """Create the file for its owner only; SQLite gives its log the same permissions."""
    if orphaned_log(path):
        raise ConfigurationError(
            f"{schema.label} is missing or empty, but the log beside it ({SUFFIX}) holds its latest changes: put its file back, "
            f"or move {SUFFIX} and {INDEX_SUFFIX} away before you create a new one"
        )
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
        raise ConfigurationError(f"{schema.label} cannot be created at its path: {error.strerror}") from None


def _open(path: Path, busy_s: float, schema: Schema) -> sqlite3.Connection:
    # isolation_level=None: sqlite3 would otherwise begin transactions of its own, and not IMMEDIATE ones
    connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {setting}")
        if _header(connection) != (schema.application_id, schema.version):
            _upgrade(connection, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def _header(connection: sqlite3.Connection) -> tuple[int, int]:
    [[application_id]] = connection.execute("PRAGMA application_id").fetchall()
    [[version]] = connection.execute("PRAGMA user_version").fetchall()
    return application_id, version


def _upgrade(connection: sqlite3.Connection, schema: Schema) -> None:
    """Create the tables of a new file, or upgrade an older one, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")  # two processes may open the file at the same time
    application_id, version = _header(connection)
    if application_id == schema.application_id:
        if version > schema.version:
            raise ConfigurationError(
                f"{schema.label} was written by a later version of exposurekit: upgrade exposurekit"
            )
        statements = [statement for upgrade in schema.upgrades[version:] for statement in upgrade]
    elif application_id or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        raise _wrong_kind(schema)
    else:
        statements = [*schema.statements, f"PRAGMA application_id = {schema.application_id}"]
    for statement in (*statements, f"PRAGMA user_version = {schema.version}"):
        connection.execute(statement)
    connection.execute("COMMIT")


def _wrong_kind(schema: Schema) -> ConfigurationError:
    return ConfigurationError(
        f"the file for {schema.label} is a different kind of file: use a path that does not exist yet"
    )


def to_microseconds(at: datetime) -> int:
    """Convert a time to what the tables store: microseconds since 1970, UTC."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(microseconds: int) -> datetime:
    """Convert a stored time back."""
    return _EPOCH + timedelta(microseconds=microseconds)
