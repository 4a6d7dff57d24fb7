"""Where everything is kept. Opens looks and transactions, makes the tables, checks the key; knows no domain."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Executable, Insert, Row, insert, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError

from exposurekit.errors import Misconfigured
from exposurekit.service import tables
from exposurekit.service.clock import Clock
from exposurekit.service.stores import BUSY_TIMEOUT_S, AnyConnection, store_of
from exposurekit.service.vault import Vault

Values = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class Work:
    """One look at the database or one transaction, with the vault and the clock that go with it."""

    connection: AnyConnection = field(repr=False)
    vault: Vault
    clock: Clock

    def seal(self, part: str, user_id: int, value: Any) -> bytes:
        """A value for one part of what is kept about one person; it opens nowhere else."""
        return self.vault.seal(value, f"{part}:{user_id}")

    def unseal(self, part: str, user_id: int, sealed: bytes) -> Any:
        """What was sealed for this part of this person."""
        return self.vault.unseal(sealed, f"{part}:{user_id}")

    async def all(self, statement: Executable, values: Values = None) -> Sequence[Row[Any]]:
        """Every row."""
        return (await self.connection.execute(statement, values)).all()

    async def first(self, statement: Executable, values: Values = None) -> Row[Any] | None:
        """The first row, or None."""
        return (await self.connection.execute(statement, values)).first()

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
        Misconfigured: The address names no database of these two kinds.
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
        """Make what is missing and check the key; the second time nothing.

        Raises:
            Misconfigured: The database cannot be reached, or was made with another key.
        """
        if self._opened:
            return self
        try:
            self._store.touch()
            async with self.writing() as work:
                await work.connection.run_sync(tables.metadata.create_all)
                await _check_key(work)
        except (DBAPIError, OSError) as error:
            problem = type(error.orig if isinstance(error, DBAPIError) else error).__name__
        except Misconfigured:
            await self.close()
            raise
        else:
            self._opened = True
            return self
        await self.close()
        where = self._url.set(username=None, password=None, query={})
        raise Misconfigured(
            f"the database {where} cannot be opened ({problem}): check where it is and who may use it"
        )

    async def close(self) -> None:
        """Let go of every connection."""
        await self._store.close()
        self._opened = False

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Work]:
        """A look; each statement sees one moment."""
        async with self._store.reading() as connection:
            yield Work(connection, self.vault, self.clock)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Work]:
        """A transaction: all of it is kept, or after an exception nothing. Never one inside another."""
        async with self._store.writing() as connection:
            yield Work(connection, self.vault, self.clock)


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
    except ArgumentError:
        pass  # its text holds the address, and the address may hold a password
    raise Misconfigured("the database must be sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME")


async def _check_key(work: Work) -> None:
    marks = tables.marks.c
    row = await work.first(select(marks.value).where(marks.name == "key fingerprint"))
    if row is None:
        await work.run(insert(tables.marks), {"name": "key fingerprint", "value": work.vault.key_fingerprint})
    elif row.value != work.vault.key_fingerprint:
        raise Misconfigured(
            "this database was made with another key: set EXPOSUREKIT_SERVICE_KEY or EXPOSUREKIT_SERVICE_KEY_FILE "
            "to the one it was made with"
        )
