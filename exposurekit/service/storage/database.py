"""Where everything is kept. Opens looks and transactions, makes the tables, checks the key; knows no domain."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, Executable, Insert, Row, insert, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError

from exposurekit.errors import ConfigurationError
from exposurekit.service.clock import Clock
from exposurekit.service.storage import migrations, tables
from exposurekit.service.storage.backends import (
    BUSY_TIMEOUT_S,
    NONE_OF_THE_TWO,
    AnyConnection,
    Question,
    Rows,
    rows,
    store_of,
)
from exposurekit.service.storage.encryption import Vault

FAULTS = (DBAPIError, OSError, TimeoutError)  # what a database that is busy or away raises
Values = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class Session:
    """One look at the database or one transaction, with the vault and the clock that go with it."""

    connection: AnyConnection = field(repr=False)
    vault: Vault
    clock: Clock

    def seal(self, part: str, user_id: int, value: Any) -> bytes:
        """A value for one part of what is kept about one person; it opens nowhere else."""
        return self.vault.seal(value, f"{part}:{user_id}")

    def unseal(self, part: str, user_id: int, ciphertext: bytes) -> Any:
        """What was sealed for this part of this person."""
        return self.vault.unseal(ciphertext, f"{part}:{user_id}")

    def unseal_all(self, ciphertext: Iterable[tuple[str, int, bytes]]) -> list[Any]:
        """As `unseal`, of many a part, a person and what was sealed for them; in the same order."""
        return self.vault.unseal_all([(one, f"{part}:{user_id}") for part, user_id, one in ciphertext])

    async def all(self, statement: Executable, values: Values = None) -> Sequence[Row[Any]]:
        """Every row."""
        return (await self.connection.execute(statement, values)).all()

    async def first(self, statement: Executable, values: Values = None) -> Row[Any] | None:
        """The first row, or None."""
        return (await self.connection.execute(statement, values)).first()

    async def rows(self, question: Question, values: Mapping[str, Any]) -> Rows:
        """Every row of a question that many requests ask, as plain tuples, on the shortest way; see `stores.rows`."""
        return await rows(self.connection, question, values)

    async def run(self, statement: Executable, values: Values = None) -> int:
        """Change rows; how many."""
        return (await self.connection.execute(statement, values)).rowcount

    async def add(self, statement: Insert, values: Mapping[str, Any]) -> int:
        """Insert one row; its id."""
        [key] = (await self.connection.execute(statement, values)).inserted_primary_key or (0,)
        return int(key)


class Database:
    """The service's memory.

    Args:
        url: ``sqlite:///service.db`` or ``postgresql+psycopg://...``.
        vault: Seals what is personal before it comes here.
        clock: Handed on with every piece of work.
        busy_timeout_s: Seconds that a write waits for its turn, and again for a lock of another process (SQLite).

    Raises:
        ConfigurationError: The address names no database of these two kinds.
    """

    def __init__(
        self, url: str, *, vault: Vault, clock: Clock, busy_timeout_s: float = BUSY_TIMEOUT_S
    ) -> None:
        self.vault = vault
        self.clock = clock
        self._url = _parsed(url)
        self._store = store_of(self._url, busy_timeout_s=busy_timeout_s)
        self._opened = False

    def __repr__(self) -> str:
        return f"Database({self._url.render_as_string(hide_password=True)!r})"

    async def open(self) -> Self:
        """Bring the tables to this version and check the key; the second time nothing.

        A look tells whether there is anything to bring: where there is not, nobody who writes is waited for.

        Raises:
            ConfigurationError: The database cannot be reached, or was made with another key.
        """
        if self._opened:
            return self
        try:
            self._store.touch()
            if not await self._is_ready():
                await self._make_ready()
        except (DBAPIError, OSError) as error:
            problem = type(error.orig if isinstance(error, DBAPIError) else error).__name__
        except ConfigurationError:
            await self.close()
            raise
        else:
            self._opened = True
            return self
        await self.close()
        where = self._url.set(username=None, password=None, query={})
        raise ConfigurationError(
            f"the database {where} cannot be opened ({problem}): check where it is and who may use it"
        )

    async def _is_ready(self) -> bool:
        async with self.reading() as work:
            return await work.connection.run_sync(migrations.is_newest) and await _knows_key(work)

    async def _make_ready(self) -> None:
        """Looks again: another process may have been quicker."""
        async with self.writing() as work:
            await work.connection.run_sync(migrations.migrate)
            if not await _knows_key(work):
                mark = {"name": "key fingerprint", "value": self.vault.key_fingerprint}
                await work.run(insert(tables.service_metadata), mark)

    async def scrub(self) -> bool:
        """See that what was deleted lies in no log of the database either; whether that could be done now."""
        return await self._store.scrub()

    async def close(self) -> None:
        """Let go of every connection."""
        await self._store.close()
        self._opened = False

    def reading(self) -> AbstractAsyncContextManager[Session]:
        """A look; each statement sees one moment."""
        return _Look(self._store.reading(), self.vault, self.clock)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Session]:
        """A transaction: all of it is kept, or after an exception nothing. Never one inside another."""
        async with self._store.writing() as connection:
            yield Session(connection, self.vault, self.clock)


class _Look(AbstractAsyncContextManager[Session]):
    """A connection that reads, with what goes with it. A class, not a generator: every request takes one."""

    __slots__ = ("_clock", "_connecting", "_vault")

    def __init__(
        self, connecting: AbstractAsyncContextManager[AnyConnection], vault: Vault, clock: Clock
    ) -> None:
        self._connecting = connecting
        self._vault = vault
        self._clock = clock

    async def __aenter__(self) -> Session:
        return Session(await self._connecting.__aenter__(), self._vault, self._clock)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._connecting.__aexit__(kind, fault, trace)


def is_there(url: str) -> bool | None:
    """Whether an SQLite file is there already; None: a server's database, which is known once it is opened."""
    parsed = _parsed(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    file = Path(parsed.database or "")
    return file.is_file() and file.stat().st_size > 0


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        pass  # its text holds the address, and the address may hold a password
    raise ConfigurationError(NONE_OF_THE_TWO)


async def _knows_key(work: Session) -> bool:
    """Whether it was made with this key; False: with none yet."""
    marks = tables.service_metadata.c
    row = await work.first(select(marks.value).where(marks.name == "key fingerprint"))
    if row is not None and row.value != work.vault.key_fingerprint:
        raise ConfigurationError(
            "this database was made with another key: set EXPOSUREKIT_SERVICE_KEY or EXPOSUREKIT_SERVICE_KEY_FILE "
            "to the one it was made with"
        )
    return row is not None
