"""Open the service's database and load its site definitions, for commands."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from exposurekit.errors import ConfigurationError

T = TypeVar("T")
Task = Callable[[Any], Awaitable[T]]  # takes a `Session`


def database(url: str, key_file: Path | None, *, create: bool = False) -> Any:
    """Return the service's database, not yet open; a key is created only with a new database.

    Raises:
        ConfigurationError: It does not exist and ``create`` is false, or its key is missing.
    """
    from exposurekit.service.clock import Clock
    from exposurekit.service.storage.database import Database, exists
    from exposurekit.service.storage.encryption import Vault, load_key

    is_there = exists(url)  # None: not known before connecting
    if is_there is False and not create:
        raise ConfigurationError("there is no such database: exposurekit integrator add NAME creates one")
    create_key = create and is_there is not True
    return Database(url, vault=Vault(load_key(key_file, create=create_key)), clock=Clock())


def transaction(url: str, key_file: Path | None, task: Task[T], *, create: bool = False) -> T:
    """Run a task in a write transaction on the service's database."""

    async def write(opened: Any) -> T:
        async with opened.writing() as session:
            return await task(session)

    return _run_session(database(url, key_file, create=create), write)


def erase_with(url: str, key_file: Path | None, task: Task[None]) -> bool:
    """Run an erasing transaction; return whether the database's log is scrubbed too."""

    async def erase(opened: Any) -> bool:
        async with opened.writing() as session:
            await task(session)
        return bool(await opened.scrub())

    return _run_session(database(url, key_file), erase)


def read_session(url: str, key_file: Path | None, task: Task[T]) -> T:
    """Run a task in a read session on the service's database."""

    async def read(opened: Any) -> T:
        async with opened.reading() as session:
            return await task(session)

    return _run_session(database(url, key_file), read)


def definitions(directory: Path | None) -> dict[str, Any]:
    """Load the site definitions of a directory; default: ``sites`` in the configuration directory, if it exists.

    Raises:
        ConfigurationError: It is not a directory, or a definition is invalid.
    """
    from exposurekit.service.sites import loader
    from exposurekit.system import paths

    if directory is not None:
        return loader.directory(directory)
    default = paths.config_dir() / "sites"
    return loader.directory(default) if default.is_dir() else {}


def _run_session(opened: Any, task: Task[T]) -> T:
    from exposurekit.service.storage.database import DATABASE_ERRORS

    async def run() -> T:
        await opened.open()
        try:
            return await task(opened)
        finally:
            await opened.close()

    try:
        return asyncio.run(run())
    except UnicodeEncodeError:
        raise ConfigurationError("the arguments are not valid UTF-8") from None
    except DATABASE_ERRORS as error:
        problem = type(getattr(error, "orig", error)).__name__
    raise ConfigurationError(f"database error ({problem}): locked or unreachable. Try again")
