"""The service's database: read and write sessions, migrations, and the check of the encryption key."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic_core import from_json
from sqlalchemy import URL, Executable, Insert, Row, insert, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from exposurekit.errors import ConfigurationError
from exposurekit.service.clock import Clock
from exposurekit.service.storage import database_faults, migrations, tables
from exposurekit.service.storage.backends import (
    BUSY_TIMEOUT_S,
    UNSUPPORTED_URL,
    AnyConnection,
    InlineConnection,
    Query,
    Rows,
    check_own,
    create_backend,
)
from exposurekit.service.storage.encryption import DecryptionError, Vault
from exposurekit.text.sanitize import plain

_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")  # until the end of the transaction
_SHARED_LOCK = text("SELECT pg_advisory_xact_lock_shared(:lock)")
DAMAGED = object()  # a stored value that cannot be decrypted
DATABASE_ERRORS = (DBAPIError, OSError, TimeoutError)  # raised by a database that is locked or unreachable
_log = logging.getLogger("exposurekit.service")
Values = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


@dataclass(slots=True)  # not frozen: that would cost each request 1 us
class Session:
    """One read or write transaction, with the vault and the clock."""

    connection: AnyConnection = field(repr=False)
    vault: Vault
    clock: Clock
    _before_commit: dict[Hashable, Callable[["Session"], Awaitable[object]]] | None = field(
        default=None, repr=False
    )
    _after_commit: list[Callable[[], object]] = field(default_factory=list, repr=False)

    def before_commit(self, key: Hashable, action: Callable[["Session"], Awaitable[object]]) -> None:
        """Call an action once at the end of this write transaction, before it is committed; equal keys are one action."""
        if self._before_commit is None:
            raise LookupError("a read session commits nothing")
        self._before_commit.setdefault(key, action)

    def after_commit(self, action: Callable[[], object]) -> None:
        """Call an action once this write transaction is committed, such as one that logs what it changed."""
        self._after_commit.append(action)

    def is_done(self, key: Hashable) -> None:
        """Do not call an action at the end: what it does has been done."""
        if self._before_commit is not None:
            self._before_commit.pop(key, None)

    def encrypt(self, part: str, user_id: int, value: Any) -> bytes:
        """Encrypt a value for one part of a user's data; it decrypts for no other part or user."""
        return self.vault.encrypt(value, f"{part}:{user_id}")

    def decrypt(self, part: str, user_id: int, ciphertext: bytes) -> Any:
        """Decrypt a value of this part of this user's data."""
        return self.vault.decrypt(ciphertext, f"{part}:{user_id}")

    def decrypt_all(self, ciphertexts: Iterable[tuple[str, int, bytes]]) -> list[Any]:
        """Decrypt many values, each given as part, user id and ciphertext; in the same order."""
        return self.vault.decrypt_all([(one, f"{part}:{user_id}") for part, user_id, one in ciphertexts])

    def decrypt_readable(self, ciphertexts: Sequence[tuple[str, int, bytes]]) -> list[Any]:
        """Decrypt many values as `decrypt_all` does, but with `DAMAGED` in place of each that cannot be decrypted.

        Each damaged value is logged; the others are returned.
        """
        try:
            return self.decrypt_all(ciphertexts)
        except DecryptionError:
            return [self._readable(*one) for one in ciphertexts]

    def all_readable_json(self, ciphertexts: Sequence[tuple[str, int, bytes]]) -> list[bytes | None]:
        """Decrypt many values as `readable_json` does."""
        purposes = [(one, f"{part}:{user_id}") for part, user_id, one in ciphertexts]
        try:
            return [*self.vault.decrypt_to_json(purposes)]
        except DecryptionError:
            return [self.readable_json(*one) for one in ciphertexts]

    def _readable(self, part: str, user_id: int, ciphertext: bytes) -> Any:
        text = self.readable_json(part, user_id, ciphertext)
        return DAMAGED if text is None else from_json(text)

    def readable_json(self, part: str, user_id: int, ciphertext: bytes) -> bytes | None:
        """Decrypt a value to its JSON; None: it is damaged, which is logged."""
        try:
            return self.vault.decrypt_to_json([(ciphertext, f"{part}:{user_id}")])[0]
        except DecryptionError:
            _log.error("damaged=%s user=%d: exposurekit service check names the row", part, user_id)
            return None

    async def dialect(self) -> str:
        """Return the database's kind: ``sqlite`` or ``postgresql``."""
        return await self.connection.run_sync(lambda connection: connection.dialect.name)

    async def serialize(self, lock: int, *, shared: bool = False) -> None:
        """Wait until no other transaction has this lock, or, if `shared`, has it alone; SQLite has one writer anyway."""
        if await self.dialect() == "postgresql":
            await self.first(_SHARED_LOCK if shared else _LOCK, {"lock": lock})

    async def all(self, statement: Executable, values: Values = None) -> Sequence[Row[Any]]:
        """Return every row."""
        return (await self.connection.execute(statement, values)).all()

    async def first(self, statement: Executable, values: Values = None) -> Row[Any] | None:
        """Return the first row, or None."""
        return (await self.connection.execute(statement, values)).first()

    async def rows(self, query: Query, values: Mapping[str, Any]) -> Rows:
        """Return every row as a plain tuple, as fast as the backend can; for the queries that every request makes.

        The query must be a constant of its module. The values may be integers, strings and bytes.
        """
        if isinstance(self.connection, InlineConnection):
            return self.connection.rows(query, values)
        return (await self.connection.execute(query, values)).all()

    async def run(self, statement: Executable, values: Values = None) -> int:
        """Change rows. Return how many."""
        return (await self.connection.execute(statement, values)).rowcount

    async def add(self, statement: Insert, values: Mapping[str, Any]) -> int:
        """Insert one row. Return its id."""
        [key] = (await self.connection.execute(statement, values)).inserted_primary_key or (0,)
        return int(key)


class Database:
    """The service's database at a URL: ``sqlite:///service.db`` or ``postgresql+psycopg://...``.

    On SQLite a write waits for another one, and again for another process, for the busy timeout. If it is not `durable`, a
    commit does not wait for the disk, and a crash of the machine may damage the file.
    """

    def __init__(
        self,
        url: str,
        *,
        vault: Vault,
        clock: Clock,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        durable: bool = True,
    ) -> None:
        self.vault = vault
        self.clock = clock
        self._url = _parsed(url)
        self._backend = create_backend(self._url, busy_timeout_s=busy_timeout_s, durable=durable)
        self._opened = False

    def __repr__(self) -> str:
        return f"Database({self._url.render_as_string(hide_password=True)!r})"

    async def open(self, *, writable: bool = False) -> Self:
        """Migrate the tables and check the key, once; raises `ConfigurationError` if that fails.

        With `writable`, also if the database can only be read. Opening an up-to-date database never waits for a writer.
        """
        try:
            if not self._opened and not await self.is_ready():
                await self._make_ready()
            if writable:
                await self._backend.check_writable()
        except (DBAPIError, OSError) as error:
            problem = self.explain(error)
        except ConfigurationError:
            await self.close()
            raise
        else:
            self._opened = True
            return self
        await self.close()
        url = self._url
        where = URL.create(url.drivername, host=url.host, port=url.port, database=url.database)
        raise ConfigurationError(f"the database {where} cannot be opened: {problem}")

    def explain(self, error: BaseException) -> str:
        """Return in words why this database cannot be used; never a password or a value."""
        return database_faults.explain(error, self._url)

    async def is_ready(self) -> bool:
        """Return whether an existing database is up to date and was created with this key; only reads.

        Raises:
            ConfigurationError: It was created with another key, or by a newer version; or it is not a service's.
        """
        self._backend.ensure_exists()
        async with self.reading() as session:
            return await session.connection.run_sync(migrations.is_newest) and await _has_key(session)

    async def _make_ready(self) -> None:
        """Check again in the transaction: another process may have been quicker."""
        async with self.writing() as session:
            await session.connection.run_sync(migrations.migrate)
            if not await _has_key(session):
                fingerprint = {"name": "key fingerprint", "value": self.vault.key_fingerprint}
                await session.run(insert(tables.service_metadata), fingerprint)

    async def scrub(self) -> bool:
        """Purge deleted data from the database's log. Return whether that succeeded."""
        return await self._backend.scrub()

    async def close(self) -> None:
        """Close every connection."""
        await self._backend.close()
        self._opened = False

    def reading(self) -> AbstractAsyncContextManager[Session]:
        """Open a read session, in which all statements see one snapshot."""
        return self._backend.reading(self._session)

    def _session(self, connection: AnyConnection) -> Session:
        return Session(connection, self.vault, self.clock)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Session]:
        """Open a write session: committed at the end, rolled back after an exception. Do not nest."""
        async with self._backend.writing() as connection:
            actions: dict[Hashable, Callable[[Session], Awaitable[object]]] = {}
            session = Session(connection, self.vault, self.clock, actions)
            yield session
            for action in actions.values():
                await action(session)
        for log in session._after_commit:  # noqa: SLF001
            log()


def exists(url: str) -> bool | None:
    """Return whether an SQLite file exists; None for a server's database.

    Raises `ConfigurationError` if the URL is not supported, or names a directory or another program's file.
    """
    parsed = _parsed(url)
    create_backend(parsed)
    if parsed.get_backend_name() != "sqlite":
        return None
    file = Path(parsed.database or "")
    if file.is_dir():
        raise ConfigurationError(f"the database {plain(file)} is a directory", fix="name a file in it")
    check_own(str(file))
    return file.is_file() and file.stat().st_size > 0


def url_for_tools(url: str) -> str:
    """Return a PostgreSQL URL as its own tools take it, without the password, which they read from .pgpass or ask for."""
    return _parsed(url)._replace(drivername="postgresql", password=None).render_as_string()


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        pass  # the text holds the URL, which may hold a password
    else:
        if "@" not in (parsed.host or ""):
            return parsed
        # What is before it belongs to the password, and would be printed as the host.
        raise ConfigurationError(f"{UNSUPPORTED_URL}; an @ in a password is written %40")
    raise ConfigurationError(UNSUPPORTED_URL)


async def _has_key(session: Session) -> bool:
    """Return whether the database was created with this key; False: it has no key yet."""
    metadata = tables.service_metadata.c
    row = await session.first(select(metadata.value).where(metadata.name == "key fingerprint"))
    if row is not None and row.value != session.vault.key_fingerprint:
        other = f" than that of {source}" if (source := session.vault.source) else ""
        raise ConfigurationError(
            f"the database was created with another key{other}",
            fix="set --key-file, EXPOSUREKIT_SERVICE_KEY_FILE or EXPOSUREKIT_SERVICE_KEY to its key",
        )
    return row is not None
