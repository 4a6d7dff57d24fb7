"""The two kinds of database: how a look and a transaction are opened in each. Knows no table.

SQLite is called on the event loop itself, without a thread for each statement: a look at a page in memory takes
some 40 microseconds, and the way to a thread and back ten times that (measured: 0.08 of a bare handler's requests
a second through aiosqlite). Only what may wait goes to a thread: the turn to write, and the commit. Readers of a
write-ahead log never wait for the writer.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, CursorResult, Executable, create_engine, event
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from exposurekit.errors import Misconfigured

BUSY_TIMEOUT_S = 10  # for the turn in this process, and again for the file's lock
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")
_WRITING = "exposurekit_writing"


@dataclass(frozen=True, slots=True)
class InlineConnection:
    """A blocking connection with the face of SQLAlchemy's asynchronous one."""

    connection: Connection

    async def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[Any]:
        """Run one statement, here and now."""
        return self.connection.execute(statement, parameters)

    async def run_sync(self, function: Callable[[Connection], None]) -> None:
        """Give the connection to a function that knows nothing of waiting."""
        function(self.connection)


AnyConnection = InlineConnection | AsyncConnection


class Store(Protocol):
    """One kind of database."""

    def touch(self) -> None:
        """Make sure that there is something to connect to."""

    def reading(self) -> AbstractAsyncContextManager[AnyConnection]:
        """A connection that only reads."""

    def writing(self) -> AbstractAsyncContextManager[AnyConnection]:
        """A connection in a transaction: committed at the end, after an exception rolled back."""

    async def close(self) -> None:
        """Let go of every connection."""


def store_of(url: URL, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Store:
    """The store that an address names.

    Raises:
        Misconfigured: It names neither of the two kinds, or the kind's driver is not installed.
    """
    match url.get_backend_name():
        case "sqlite" if url.database not in {None, "", ":memory:"} and not url.query:
            return SQLite(url, busy_timeout_s)
        case "postgresql":
            return PostgreSQL(url)
    raise Misconfigured("the database must be sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME")


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
        self._writer = self._engine.execution_options(**{_WRITING: True})
        # A queue for each event loop; between loops, as between processes, the file's own lock decides.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        event.listen(self._engine, "connect", _set_pragmas)
        event.listen(self._engine, "begin", _begin)

    def touch(self) -> None:
        """Make the file, for its owner alone; the log takes its mode from it."""
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[InlineConnection]:
        """A connection that only reads."""
        with self._engine.connect() as connection:
            yield InlineConnection(connection)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[InlineConnection]:
        """The one connection that writes; others of this process wait their turn, of others for the file's lock."""
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with asyncio.timeout(self._busy_timeout_s):
            await turn.acquire()
        try:
            with self._writer.connect() as connection:
                await _in_thread(connection.begin)
                yield InlineConnection(connection)
                await _in_thread(connection.commit)
        finally:
            turn.release()

    async def close(self) -> None:
        """Let go of every connection."""
        self._engine.dispose()


class PostgreSQL:
    """A server, through psycopg's asynchronous connections."""

    def __init__(self, url: URL) -> None:
        try:
            self._engine = create_async_engine(
                url.set(drivername="postgresql+psycopg"), hide_parameters=True, pool_pre_ping=True
            )
        except ModuleNotFoundError:
            raise Misconfigured("PostgreSQL needs a driver: pip install 'exposurekit[postgres]'") from None

    def touch(self) -> None:
        """Nothing: the server's operator makes the database."""

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection that only reads."""
        return self._engine.execution_options(isolation_level="REPEATABLE READ").connect()

    def writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection in a transaction."""
        return self._engine.begin()

    async def close(self) -> None:
        """Let go of every connection."""
        await self._engine.dispose()


def _set_pragmas(connection: Any, _record: object) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    # The write lock first: no deadlock, no stale read. A look is one moment of the log, whatever is written.
    writing = connection.get_execution_options().get(_WRITING)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


async def _in_thread(function: Callable[[], object]) -> None:
    task = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])  # what a thread has begun must end before its connection is let go
        raise
