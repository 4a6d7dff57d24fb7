"""A command's way to the service's database and its site definitions. Makes neither, unless it is told to."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from exposurekit.errors import ConfigurationError

T = TypeVar("T")
Do = Callable[[Any], Awaitable[T]]  # with a `Session`


def database(url: str, key_file: Path | None, *, makes: bool = False) -> Any:
    """The service's database, closed as yet; only a new one is given a new key.

    Raises:
        ConfigurationError: There is none and none is made, or its key is not there.
    """
    from exposurekit.service.clock import Clock
    from exposurekit.service.storage.database import Database, exists
    from exposurekit.service.storage.encryption import Vault, load_key

    there = exists(url)
    if there is False and not makes:
        raise ConfigurationError("there is no such database yet: exposurekit integrator add NAME makes one")
    make_key = makes and there is not True
    return Database(url, vault=Vault(load_key(key_file, create=make_key)), clock=Clock())


def transaction(url: str, key_file: Path | None, do: Do[T], *, makes: bool = False) -> T:
    """One transaction on the service's database."""

    async def write(opened: Any) -> T:
        async with opened.writing() as work:
            return await do(work)

    return _run_session(database(url, key_file, makes=makes), write)


def erase_with(url: str, key_file: Path | None, do: Do[None]) -> bool:
    """One transaction that erases; whether nothing is left in the database's log either."""

    async def erase(opened: Any) -> bool:
        async with opened.writing() as work:
            await do(work)
        return bool(await opened.scrub())

    return _run_session(database(url, key_file), erase)


def read_session(url: str, key_file: Path | None, do: Do[T]) -> T:
    """One look at the service's database."""

    async def look(opened: Any) -> T:
        async with opened.reading() as work:
            return await do(work)

    return _run_session(database(url, key_file), look)


def definitions(directory: Path | None) -> dict[str, Any]:
    """The sites of a directory; without one, of that in the configuration directory, if it is there.

    Raises:
        ConfigurationError: The directory is none, or a definition cannot be used.
    """
    from exposurekit.service.sites import loader
    from exposurekit.system import paths

    if directory is not None:
        return loader.directory(directory)
    usual = paths.config_dir() / "sites"
    return loader.directory(usual) if usual.is_dir() else {}


def _run_session(opened: Any, do: Do[T]) -> T:
    from exposurekit.service.storage.database import DATABASE_ERRORS

    async def work() -> T:
        await opened.open()
        try:
            return await do(opened)
        finally:
            await opened.close()

    try:
        return asyncio.run(work())
    except UnicodeEncodeError:
        raise ConfigurationError("what was given is not UTF-8") from None
    except DATABASE_ERRORS as error:
        problem = type(getattr(error, "orig", error)).__name__
    raise ConfigurationError(f"the database did not do it ({problem}): it is busy, or away; try again")
