"""Database backends: connections and transactions of SQLite and PostgreSQL.

SQLite statements run on the event loop itself: reading a cached page takes about 40 microseconds, and a thread round
trip ten times that (measured: aiosqlite leaves 8% of a bare handler's throughput). Only the commit, which waits for the
disk, runs in a thread. With a write-ahead log, readers never wait for the writer.

Writers of several processes queue: SQLite itself gives its lock to whoever happens to ask when it is free, so beside a
process that always has a next write, another's waited for seconds.

On SQLite, `rows` bypasses SQLAlchemy for the queries that every request makes: a query is compiled once and then goes
to the driver (measured: 6 instead of 60 microseconds for one row, 29 instead of 99 for thirty).
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote
from weakref import WeakKeyDictionary

from sqlalchemy import (
    URL,
    CompoundSelect,
    Connection,
    CursorResult,
    Engine,
    Executable,
    LargeBinary,
    Select,
    create_engine,
    event,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError, OperationalError

from exposurekit.errors import ConfigurationError
from exposurekit.service.storage.database_faults import LOCKED, REPLACED
from exposurekit.system.atomic_files import file_id
from exposurekit.system.sqlite_log import INDEX_SUFFIX, orphaned_log
from exposurekit.text.sanitize import plain

if TYPE_CHECKING:  # with it comes SQLAlchemy's object mapper, which takes a tenth of a second
    from sqlalchemy.ext.asyncio import AsyncConnection

CHECK_EVERY_S = 0.2  # reads check as often that the file is in its place; to ask takes 16 us
BUSY_TIMEOUT_S = 10  # for the lock in this process, and again for the file's lock
QUEUE_TIMEOUT_S = 0.5  # for the turn to wait for the file's lock; then it is waited for out of turn
ASK_EVERY_S = 0.002  # for the file's lock; to ask takes 20 us
QUEUE_SUFFIX = "-queue"  # of the file in whose lock writers queue
UNSUPPORTED_URL = (
    "the database (--database, EXPOSUREKIT_DATABASE) must be sqlite:///FILE or "
    "postgresql+psycopg://USER@HOST:PORT/NAME"
)
_PUT_BACK = "put {name} back, or restore a backup as the manual says; before you create a new database, move {log} and {index} away"
_OWN_TABLE = "integrators"  # every version has it
_WRITES_NOTHING = text("DELETE FROM integrators WHERE false")
_PRIMARY_CODE = 0xFF  # of an extended error code
_PRAGMAS = ("foreign_keys=ON", "secure_delete=ON")
_log = logging.getLogger("exposurekit.service")
T = TypeVar("T")
Query = Select[*tuple[Any, ...]] | CompoundSelect[*tuple[Any, ...]]
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class InlineConnection:
    """A blocking connection with the interface of SQLAlchemy's `AsyncConnection`, and the driver's own connection.

    One cursor per connection: creating one per statement would cost each request 1 us. It is safe because each method
    reads all rows before it returns.
    """

    connection: Connection
    driver: sqlite3.Connection
    cursor: sqlite3.Cursor

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        """Run one statement, blocking."""
        return self.connection.execute(statement, parameters)

    async def run_sync(self, function: Callable[[Connection], T]) -> T:
        """Call a synchronous function with the connection."""
        return function(self.connection)

    def rows(self, query: Query, values: Mapping[str, Any]) -> Rows:
        """Run a query through the driver; it must be a constant of its module, because its compiled form is cached."""
        compiled = _compiled(query)
        try:
            rows = self.cursor.execute(compiled.sql, values).fetchall()
        except sqlite3.OperationalError as error:
            problem = error
        else:
            return compiled.converted(rows) if compiled.converters else rows
        raise OperationalError(None, None, problem, hide_parameters=True)

    def begin(self) -> None:
        """Begin a write transaction; wait for the lock."""
        self._control("BEGIN IMMEDIATE")

    def write_page(self) -> None:
        """Write a page without changing anything; an update that changes no value writes nothing."""
        self._control("PRAGMA user_version=0")

    def commit(self) -> None:
        """Commit the transaction."""
        self._control("COMMIT")

    def _control(self, command: str) -> None:
        try:
            self.driver.execute(command)
        except sqlite3.Error as error:
            problem = error
        else:
            return
        raise _database_error(problem)

    def end(self) -> None:
        """End the transaction, unless it is committed: roll it back."""
        if self.connection.in_transaction():  # SQLAlchemy began one with its first statement
            self.connection.rollback()
        self.driver.rollback()


AnyConnection: TypeAlias = "InlineConnection | AsyncConnection"


def create_backend(
    url: URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S, durable: bool = True
) -> "SQLite | PostgreSQL":
    """Create the backend for a database URL; raises `ConfigurationError` if it is not supported, or has no driver."""
    match url.get_backend_name():
        case "sqlite" if url.database not in {None, "", ":memory:"} and url == _file_url(url):
            return SQLite(url, busy_timeout_s, durable=durable)
        case "postgresql":
            return PostgreSQL(url)
    raise ConfigurationError(UNSUPPORTED_URL)


def _file_url(url: URL) -> URL:
    """Return a URL with nothing but its file."""
    return URL.create(url.drivername, database=url.database)


class SQLite:
    """SQLite: one file with a write-ahead log, and one writer at a time.

    If it is not `durable`, a commit does not wait for the disk.
    """

    def __init__(self, url: URL, busy_timeout_s: float, *, durable: bool = True) -> None:
        self._path = url.database or ""
        self._busy_timeout_s = busy_timeout_s
        self._durable = durable
        self._file_id: tuple[int, int] | None = None
        self._check_at = 0.0  # the next check by a read
        self._engine = create_engine(
            url.set(drivername="sqlite+pysqlite"),
            hide_parameters=True,
            # Transactions are begun explicitly, not by the driver; a read leaves nothing to reset.
            connect_args={"isolation_level": None, "timeout": busy_timeout_s},
            pool_reset_on_return=None,
            max_overflow=-1,  # waiting for a connection would block the loop that has to return it
        )
        self._readers: list[InlineConnection] = []  # kept open: a round trip to the pool takes 10 us
        self._writers: list[InlineConnection] = []
        # One lock per event loop; between loops and between processes, the file's own lock decides.
        self._write_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._queue = _WriterQueue(f"{self._path}{QUEUE_SUFFIX}")
        pragmas = (f"synchronous={'FULL' if durable else 'OFF'}", *_PRAGMAS)
        event.listen(
            self._engine, "connect", lambda connection, _: _set_pragmas(connection, busy_timeout_s, pragmas)
        )

    def ensure_exists(self) -> None:
        """Create the file, readable by its owner alone; the log inherits its mode.

        Raises `ConfigurationError` if there is a file that is not a service's database; it stays unchanged.
        """
        check_own(self._path)
        # An existing file is not opened here: closing it would drop the locks of this process's other connections to it,
        # and another process that closes the database would then delete its log (POSIX).
        if not Path(self._path).exists():
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            _log.info("created=%s", plain(Path(self._path).name))  # what is before it may name a person
        self._file_id = file_id(self._path)

    def reading(self, wrap: Callable[[InlineConnection], T]) -> "_ReadConnection[T]":
        """Open a read-only connection that sees one snapshot of the database; yields what `wrap` makes of it."""
        if (now := time.monotonic()) >= self._check_at:
            self._check_file()
            self._check_at = now + CHECK_EVERY_S
        return _ReadConnection(self._readers, self._engine, wrap)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[InlineConnection]:
        """Open the one write transaction; other writers wait for a lock."""
        lock = self._write_locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with asyncio.timeout(self._busy_timeout_s):
            await lock.acquire()
        try:
            self._check_file()
            writer = _take(self._writers, self._engine)
            try:
                await self._begin(writer)  # the write lock first: no deadlock, no stale read
                yield writer
                if self._durable:
                    await _in_thread(writer.commit)
                else:
                    writer.commit()
            finally:
                writer.end()
                self._writers.append(writer)
            self._check_file()
        finally:
            lock.release()

    async def _begin(self, writer: InlineConnection) -> None:
        """Begin a write transaction in turn; raises `OperationalError` if the lock is not free in time."""
        until = time.monotonic() + min(QUEUE_TIMEOUT_S, self._busy_timeout_s)
        try:
            while not self._queue.enter() and time.monotonic() < until:  # noqa: ASYNC110  another process leaves it
                await asyncio.sleep(ASK_EVERY_S)
            until = time.monotonic() + self._busy_timeout_s
            while not self._begin_at_once(writer):
                if time.monotonic() >= until:
                    raise OperationalError(None, None, sqlite3.OperationalError(LOCKED), hide_parameters=True)
                await asyncio.sleep(ASK_EVERY_S)
        finally:
            self._queue.leave()

    def _begin_at_once(self, writer: InlineConnection) -> bool:
        """Begin a write transaction if that needs no waiting; return whether it has begun."""
        writer.driver.execute("PRAGMA busy_timeout=0")
        try:
            writer.begin()
        except OperationalError as error:
            if not _is_busy(error.orig):
                raise
            return False
        finally:
            writer.driver.execute(f"PRAGMA busy_timeout={int(self._busy_timeout_s * 1000)}")
        return True

    def _check_file(self) -> None:
        """Refuse to use a file that is no longer at its path: what is written there would be lost."""
        if self._file_id is not None and file_id(self._path) != self._file_id:
            problem = sqlite3.OperationalError(REPLACED)
            raise OperationalError(None, None, problem, hide_parameters=True)

    async def check_writable(self) -> None:
        """Raise `OperationalError` if nothing can be written, as on a full disk; waits for no other writer."""
        writer = _take(self._writers, self._engine)
        try:
            if self._begin_at_once(writer):  # on a file that can only be read, it begins to read
                writer.write_page()
                writer.commit()
        finally:
            writer.end()
            self._writers.append(writer)

    async def scrub(self) -> bool:
        """Checkpoint the write-ahead log into the file, which overwrites deleted data; readers may prevent it."""

        def checkpoint() -> bool:
            with self._engine.connect() as connection:
                busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
                return not busy

        return await asyncio.to_thread(checkpoint)

    async def close(self) -> None:
        """Close every connection."""
        for connections in (self._readers, self._writers):
            while connections:
                connections.pop().connection.close()
        self._engine.dispose()
        self._queue.close()


class _WriterQueue:
    """Whose turn it is to write, among processes: one of them waits for the write lock at a time, and so gets it.

    It is a lock on a file beside the database, which only its owner can open, and ends with its process. Where there are
    no such locks, whoever asks first is first.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    def enter(self) -> bool:
        """Enter without waiting; return whether it is this process's turn."""
        try:
            import fcntl  # not on Windows

            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (
            ImportError,
            OSError,
        ):  # a file system without locks, or a directory that may not be written to
            pass
        return True

    def leave(self) -> None:
        """Let another process wait for the write lock."""
        if self._file is not None:
            import fcntl

            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file. It stays: another process that had opened a removed one would not see who is in the new one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def check_own(path: str) -> None:
    """Raise `ConfigurationError` if the file is not a service's database, or only its log is there; opens it read-only."""
    file = Path(path)
    if not file.exists() or not file.stat().st_size:
        if log := orphaned_log(file):
            state = "empty" if file.exists() else "missing"
            problem = f"the database {file} is {state}, but {log} beside it holds its latest changes"
            fix = _PUT_BACK.format(name=file.name, log=log, index=f"{file.name}{INDEX_SUFFIX}")
            raise ConfigurationError(plain(problem), fix=plain(fix))
        return
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    except sqlite3.OperationalError:
        return  # locked or not readable: opening it says so
    except sqlite3.DatabaseError:
        problem = "is damaged or not an SQLite database"
        fix = "restore it from a backup, or name another file"
    else:
        if not names or _OWN_TABLE in names:
            return
        problem, fix = "belongs to another program", "name another file"
    raise ConfigurationError(f"the database {path} {problem}", fix=fix)


class _ReadConnection(AbstractAsyncContextManager[T]):
    """A read transaction of SQLite. A class, not a generator: it costs each request 2 us less."""

    __slots__ = ("_engine", "_reader", "_readers", "_wrap")

    def __init__(
        self, readers: list[InlineConnection], engine: Engine, wrap: Callable[[InlineConnection], T]
    ) -> None:
        self._readers = readers
        self._engine = engine
        self._wrap = wrap

    async def __aenter__(self) -> T:
        reader = _take(self._readers, self._engine)
        reader.cursor.execute("BEGIN")
        self._reader = reader
        return self._wrap(reader)

    async def __aexit__(self, *_: object) -> None:
        self._reader.end()
        self._readers.append(self._reader)


class PostgreSQL:
    """PostgreSQL, through psycopg's asynchronous connections."""

    def __init__(self, url: URL) -> None:
        from sqlalchemy.ext.asyncio import create_async_engine

        try:
            self._engine = create_async_engine(
                url.set(drivername="postgresql+psycopg"),
                hide_parameters=True,
                pool_pre_ping=True,
                isolation_level="READ COMMITTED",  # a statement sees what was committed while it waited for a lock
            )
        except ModuleNotFoundError:
            raise ConfigurationError(
                "PostgreSQL needs a driver", fix="pip install 'exposurekit[postgres]'"
            ) from None

    def ensure_exists(self) -> None:
        """Do nothing: the operator creates the database."""

    @asynccontextmanager
    async def reading(self, wrap: "Callable[[AsyncConnection], T]") -> AsyncIterator[T]:
        """Open a read-only connection; yields what `wrap` makes of it."""
        async with self._engine.execution_options(isolation_level="REPEATABLE READ").connect() as connection:
            yield wrap(connection)

    def writing(self) -> "AbstractAsyncContextManager[AsyncConnection]":
        """Open a transaction."""
        return self._engine.begin()

    async def check_writable(self) -> None:
        """Raise `DBAPIError` if the server is read-only or the role may not write."""
        async with self._engine.connect() as connection:
            await connection.execute(_WRITES_NOTHING)

    async def scrub(self) -> bool:
        """Do nothing: the server frees and overwrites deleted data in its own time."""
        return False

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()


def _set_pragmas(connection: sqlite3.Connection, busy_timeout_s: float, pragmas: Sequence[str]) -> None:
    _enable_log(connection, busy_timeout_s)
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").close()


def _enable_log(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """Turn the write-ahead log on. For this SQLite does not wait for other connections that open a new file, too."""
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _is_busy(error: BaseException | None) -> bool:
    """Return whether another connection has the lock."""
    return (
        isinstance(error, sqlite3.OperationalError)
        and error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY
    )


def _database_error(error: sqlite3.Error) -> Exception:
    """Return the driver's error as SQLAlchemy raises it."""
    return DBAPIError.instance(None, None, error, sqlite3.Error, hide_parameters=True)


def _take(connections: list[InlineConnection], engine: Engine) -> InlineConnection:
    """Take an open connection, or open one."""
    try:
        return connections.pop()
    except IndexError:  # not checked before: another thread could take the last one meanwhile
        connection = engine.connect()
        driver: Any = connection.connection.driver_connection
        return InlineConnection(connection, driver, driver.cursor())


@dataclass(frozen=True, slots=True)
class _CompiledQuery:
    """A query compiled for SQLite, and converters for the columns that the driver does not convert."""

    sql: str
    converters: tuple[tuple[int, Callable[[Any], Any]], ...]

    def converted(self, rows: Rows) -> Rows:
        converted = []
        for row in rows:
            cells = list(row)
            for index, convert in self.converters:
                if cells[index] is not None:
                    cells[index] = convert(cells[index])
            converted.append(tuple(cells))
        return converted


_DIALECT = sqlite.dialect(paramstyle="named")


@lru_cache(maxsize=64)  # there are about ten; a query that is not a constant must not fill the memory
def _compiled(query: Query) -> _CompiledQuery:
    types = [column.type.dialect_impl(_DIALECT) for column in query.selected_columns]
    converters = [
        None if isinstance(type_, LargeBinary) else type_.result_processor(_DIALECT, None) for type_ in types
    ]
    return _CompiledQuery(
        str(query.compile(dialect=_DIALECT)),
        tuple((index, convert) for index, convert in enumerate(converters) if convert),
    )


async def _in_thread(function: Callable[[], object]) -> None:
    task = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        while (
            not task.done()
        ):  # the thread must finish before its connection is released, whatever else is cancelled
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
