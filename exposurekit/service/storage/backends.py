"""The two kinds of database: how a look and a transaction are opened in each. Knows no table.

SQLite is called on the event loop itself, without a thread for each statement: a look at a page in memory takes
some 40 microseconds, and the way to a thread and back ten times that (measured: 0.08 of a bare handler's requests
a second through aiosqlite). Only what may wait goes to a thread: the turn to write, and the commit. Readers of a
write-ahead log never wait for the writer.

A question that every request asks goes past SQLAlchemy there (`rows`): it is put in words once, and then handed to
the driver itself (measured: 6 instead of 60 microseconds for one row, 29 instead of 99 for thirty).
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar
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
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from exposurekit.errors import ConfigurationError

BUSY_TIMEOUT_S = 10  # for the turn in this process, and again for the file's lock
NONE_OF_THE_TWO = (
    "the database (--database, EXPOSUREKIT_DATABASE) must be sqlite:///FILE or "
    "postgresql+psycopg://USER@HOST:PORT/NAME"
)
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")
T = TypeVar("T")
Question = Select[*tuple[Any, ...]] | CompoundSelect[*tuple[Any, ...]]
Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class InlineConnection:
    """A blocking connection with the face of SQLAlchemy's asynchronous one, and the driver's own beneath it."""

    connection: Connection
    driver: sqlite3.Connection

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        """Run one statement, here and now."""
        return self.connection.execute(statement, parameters)

    async def run_sync(self, function: Callable[[Connection], T]) -> T:
        """Give the connection to a function that knows nothing of waiting."""
        return function(self.connection)

    def rows(self, question: Question, values: Mapping[str, Any]) -> Rows:
        """Ask the driver itself."""
        try:
            return _words(question).asked(self.driver, values)
        except sqlite3.OperationalError as error:
            problem = error
        raise OperationalError(None, None, problem, hide_parameters=True)


AnyConnection = InlineConnection | AsyncConnection


async def rows(connection: AnyConnection, question: Question, values: Mapping[str, Any]) -> Rows:
    """Every row, as a plain tuple, on the shortest way there is.

    Args:
        connection: Of either kind of database.
        question: A constant of its room: its words are kept for as long as the process lives.
        values: For its parameters: whole numbers, texts and bytes.
    """
    if isinstance(connection, InlineConnection):
        return connection.rows(question, values)
    return (await connection.execute(question, values)).all()


class Store(Protocol):
    """One kind of database."""

    def touch(self) -> None:
        """Make sure that there is something to connect to."""

    def reading(self) -> AbstractAsyncContextManager[AnyConnection]:
        """A connection that only reads."""

    def writing(self) -> AbstractAsyncContextManager[AnyConnection]:
        """A connection in a transaction: committed at the end, after an exception rolled back."""

    async def scrub(self) -> bool:
        """See that what was deleted does not lie about in a log; whether that could be done."""

    async def close(self) -> None:
        """Let go of every connection."""


def store_of(url: URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Store:
    """The store that an address names.

    Raises:
        ConfigurationError: It names neither of the two kinds, or the kind's driver is not installed.
    """
    match url.get_backend_name():
        case "sqlite" if url.database not in {None, "", ":memory:"} and not url.query:
            return SQLite(url, busy_timeout_s)
        case "postgresql":
            return PostgreSQL(url)
    raise ConfigurationError(NONE_OF_THE_TWO)


class SQLite:
    """One file, a write-ahead log beside it, and one writer at a time."""

    def __init__(self, url: URL, busy_timeout_s: float) -> None:
        self._path = url.database or ""
        self._busy_timeout_s = busy_timeout_s
        self._engine = create_engine(
            url.set(drivername="sqlite+pysqlite"),
            hide_parameters=True,
            # Transactions are begun here, not guessed by the driver; there is nothing to reset after a look.
            connect_args={"isolation_level": None, "timeout": busy_timeout_s},
            pool_reset_on_return=None,
            max_overflow=-1,  # waiting for a connection would stop the loop that has to give it back
        )
        self._lookers: list[InlineConnection] = []  # kept open: the way to the pool and back takes 10 us
        # A queue for each event loop; between loops, as between processes, the file's own lock decides.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        event.listen(self._engine, "connect", _set_pragmas)

    def touch(self) -> None:
        """Make the file, for its owner alone; the log takes its mode from it."""
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))

    def reading(self) -> "_Look":
        """A connection that only reads: one moment of the log, whatever is written."""
        return _Look(self._lookers, self._engine)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[InlineConnection]:
        """The one connection that writes; others of this process wait their turn, of others for the file's lock."""
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with asyncio.timeout(self._busy_timeout_s):
            await turn.acquire()
        try:
            with self._engine.connect() as connection:
                # The write lock first: no deadlock, no stale read.
                await _in_thread(partial(connection.exec_driver_sql, "BEGIN IMMEDIATE"))
                yield _inline(connection)
                await _in_thread(connection.commit)
        finally:
            turn.release()

    async def scrub(self) -> bool:
        """Empty the write-ahead log into the file, where what is deleted is overwritten; readers may prevent it."""

        def emptied() -> bool:
            with self._engine.connect() as connection:
                busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
                return not busy

        return await asyncio.to_thread(emptied)

    async def close(self) -> None:
        """Let go of every connection."""
        while self._lookers:
            self._lookers.pop().connection.close()
        self._engine.dispose()


class _Look(AbstractAsyncContextManager[InlineConnection]):
    """One look of SQLite. A class, not a generator: every request takes one, and it costs 2 us less."""

    __slots__ = ("_engine", "_looker", "_lookers")

    def __init__(self, lookers: list[InlineConnection], engine: Engine) -> None:
        self._lookers = lookers
        self._engine = engine

    async def __aenter__(self) -> InlineConnection:
        try:
            looker = self._lookers.pop()
        except IndexError:  # not asked before: another thread could take the last one meanwhile
            looker = _inline(self._engine.connect())
        looker.driver.execute("BEGIN")
        self._looker = looker
        return looker

    async def __aexit__(self, *_: object) -> None:
        looker = self._looker
        if looker.connection.in_transaction():  # SQLAlchemy began one when it was asked
            looker.connection.rollback()
        looker.driver.rollback()
        self._lookers.append(looker)


class PostgreSQL:
    """A server, through psycopg's asynchronous connections."""

    def __init__(self, url: URL) -> None:
        try:
            self._engine = create_async_engine(
                url.set(drivername="postgresql+psycopg"), hide_parameters=True, pool_pre_ping=True
            )
        except ModuleNotFoundError:
            raise ConfigurationError(
                "PostgreSQL needs a driver: pip install 'exposurekit[postgres]'"
            ) from None

    def touch(self) -> None:
        """Nothing: the server's operator makes the database."""

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection that only reads."""
        return self._engine.execution_options(isolation_level="REPEATABLE READ").connect()

    def writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection in a transaction."""
        return self._engine.begin()

    async def scrub(self) -> bool:
        """Nothing: the server's own cleaning (VACUUM) overwrites what is deleted, in its time."""
        return False

    async def close(self) -> None:
        """Let go of every connection."""
        await self._engine.dispose()


def _set_pragmas(connection: Any, _record: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _inline(connection: Connection) -> InlineConnection:
    return InlineConnection(connection, connection.connection.driver_connection)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Words:
    """A question in SQLite's words, and what makes its cells into values where the driver does not."""

    sql: str
    makers: tuple[tuple[int, Callable[[Any], Any]], ...]

    def asked(self, driver: sqlite3.Connection, values: Mapping[str, Any]) -> Rows:
        rows = driver.execute(self.sql, values).fetchall()
        return [self._made(row) for row in rows] if self.makers else rows

    def _made(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        cells = list(row)
        for index, made in self.makers:
            if cells[index] is not None:
                cells[index] = made(cells[index])
        return tuple(cells)


_DIALECT = sqlite.dialect(paramstyle="named")


@lru_cache(maxsize=64)  # there are some ten; a question that is no constant must not fill the memory
def _words(question: Question) -> _Words:
    kinds = [column.type.dialect_impl(_DIALECT) for column in question.selected_columns]
    makers = [
        None if isinstance(kind, LargeBinary) else kind.result_processor(_DIALECT, None) for kind in kinds
    ]
    return _Words(
        str(question.compile(dialect=_DIALECT)),
        tuple((index, made) for index, made in enumerate(makers) if made),
    )


async def _in_thread(function: Callable[[], object]) -> None:
    task = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])  # what a thread has begun must end before its connection is let go
        raise
