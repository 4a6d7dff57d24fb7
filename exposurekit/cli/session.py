"""The service's database, site definitions and mailbox, as a command's options name them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from exposurekit.errors import ConfigurationError
from exposurekit.system.named_files import read_bytes
from exposurekit.text.sanitize import plain

if TYPE_CHECKING:
    from exposurekit.service.audit import Action

NOT_USED = "Definitions with a problem are not used; serve and worker do not start until they are corrected."
ALL_INVALID = "every site definition is invalid: correct the files"
_SQLITE = "sqlite:///"
_LEFT_ON_SQLITE = (
    "Other processes were reading, so the encrypted data stays in the database's files until a later change overwrites it, "
    "or the last process closes the database."
)
_LEFT_ON_POSTGRESQL = (
    "PostgreSQL may still hold the encrypted data: in its tables until VACUUM FULL, and in its write-ahead log, with any "
    "archive and replica of it, until those segments are overwritten or deleted."
)
T = TypeVar("T")
Task = Callable[[Any], Awaitable[T]]  # takes a `Session`


@dataclass(frozen=True, slots=True)
class ServiceDatabase:
    """The database that `service_options` name; each method but `unopened` opens and closes it."""

    url: str
    key_file: Path | None

    def unopened(self, *, create: bool = False) -> Any:
        """Return the database, not yet open; unless `create` is set, the database and its key must exist."""
        from exposurekit.service.clock import Clock
        from exposurekit.service.storage.database import Database, exists
        from exposurekit.service.storage.encryption import Vault, key_source, load_key

        is_there = exists(self.url)  # None: not known before connecting
        if is_there is False and (not create or _lacks_slash(self.url)):
            raise _no_database_error(self.url)
        key = load_key(self.key_file, create=create and is_there is not True)
        return Database(self.url, vault=Vault(key, source=key_source(self.key_file)), clock=Clock())

    def sqlite_file(self) -> Path | None:
        """Return the file of an SQLite database, which must exist; None: it is PostgreSQL's."""
        from exposurekit.service.storage.database import exists

        is_there = exists(self.url)
        if is_there is False:
            raise _no_database_error(self.url)
        return Path(self.url.removeprefix(_SQLITE)) if is_there else None

    def read(self, task: Task[T]) -> T:
        """Run a task in a read session."""
        return _run_opened(self.unopened(), lambda opened: _run_in(opened.reading(), task))

    def write(self, task: Task[T], describe: "Callable[[T], Action]", *, create: bool = False) -> T:
        """Run a task in a write transaction, which also appends to the audit log what is described of its result."""
        audited = _audited(task, describe)
        return _run_opened(self.unopened(create=create), lambda opened: _run_in(opened.writing(), audited))

    def record(self, done: "Action") -> None:
        """Append to the audit log what a command did that wrote nothing else."""
        _run_opened(self.unopened(), lambda opened: _run_in(opened.writing(), lambda db: _append(db, done)))

    def erase(self, task: Task[T], describe: "Callable[[T], Action]") -> tuple[T, str]:
        """Erase as `write` does, and scrub the database's log; return also where the data remains, empty if nowhere."""

        async def erase(opened: Any) -> tuple[T, bool]:
            result = await _run_in(opened.writing(), _audited(task, describe))
            return result, bool(await opened.scrub())

        result, is_scrubbed = _run_opened(self.unopened(), erase)
        left = _LEFT_ON_POSTGRESQL if self.sqlite_file() is None else _LEFT_ON_SQLITE
        return result, "" if is_scrubbed else left

    def copy_to(self, url: str, on_progress: Callable[[float], object]) -> int:
        """Copy every row to an empty database with the same key. Return how many rows."""
        from exposurekit.service import audit, database_copy

        source = self.unopened()
        target = ServiceDatabase(url, self.key_file).unopened(create=True)

        async def copy(opened: Any) -> int:
            try:
                await target.open(writable=True)
                return await database_copy.copy(
                    opened, target, actor=audit.operator(), on_progress=on_progress
                )
            finally:
                await target.close()

        return _run_opened(source, copy)


def no_database(url: str) -> tuple[str, str]:
    """Say that there is no SQLite file or an empty one, with its path as the user typed it, and what to do."""
    if _lacks_slash(url):
        absolute = plain(url.replace(_SQLITE, f"{_SQLITE}/", 1))
        return (
            f"the directory of {plain(url)} does not exist",
            f"an absolute path has four slashes: {absolute}",
        )
    create = "exposurekit integrator add NAME --attested-by WHO creates one, and so does serve --create"
    is_empty = Path(url.removeprefix(_SQLITE)).is_file()
    why = f"the file of {plain(url)} is empty" if is_empty else f"there is no database {plain(url)}"
    return why, f"correct --database or EXPOSUREKIT_DATABASE; {create}"


def _no_database_error(url: str) -> ConfigurationError:
    why, fix = no_database(url)
    return ConfigurationError(f"{why}: {fix}")


def _lacks_slash(url: str) -> bool:
    """Whether the path of an SQLite file was probably meant as an absolute one: only then its directory exists."""
    path = Path(url.removeprefix(_SQLITE))
    is_relative = url.startswith(_SQLITE) and not path.is_absolute()
    return is_relative and not path.parent.exists() and (Path("/") / path).parent.exists()


def service_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --database and --key-file, which the command receives as one `ServiceDatabase`."""

    @click.option(
        "--database",
        default="sqlite:///service.db",
        show_default=True,
        envvar="EXPOSUREKIT_DATABASE",
        show_envvar=True,
        help="The service's database: sqlite:///FILE, or postgresql+psycopg:// and its address.",
    )
    @click.option(
        "--key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="EXPOSUREKIT_SERVICE_KEY_FILE",
        show_envvar=True,
        help="The key that encrypts personal data; created with the database. Default: exposurekit/service.key in the "
        "configuration directory. Keep a copy: without it the data cannot be read.",
    )
    @wraps(command)
    def run(*args: Any, database: str, key_file: Path | None, **values: Any) -> None:
        command(*args, database=ServiceDatabase(database, key_file), **values)

    return run


def definitions(directory: Path | None) -> dict[str, Any]:
    """Load the site definitions of a directory; default: ``sites`` in the configuration directory, if it exists."""
    from exposurekit.service.sites import loader

    there = _sites_directory(directory)
    _warn_of_unread(there)
    return {} if there is None else loader.directory(there)


def may_define(directory: Path | None, name: str) -> bool:
    """Whether a file in the directory of `definitions` may be the invalid definition of a site."""
    from exposurekit.service.sites import loader

    there = _sites_directory(directory)
    return there is not None and loader.may_define(there, name)


def usable_definitions(directory: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Load as `definitions` does, without the invalid ones, of which lines on stderr warn; return the problems, too."""
    from exposurekit.service.sites import loader

    there = _sites_directory(directory)
    _warn_of_unread(there)
    loaded, problems = ({}, []) if there is None else loader.usable(there)
    for problem in problems:
        click.echo(plain(f"Warning: {problem}"), err=True)
    if problems and loaded:
        click.echo(NOT_USED, err=True)
    return loaded, problems


def _sites_directory(directory: Path | None) -> Path | None:
    """Return the directory, or the default if it exists."""
    from exposurekit.system import paths

    there = paths.config_dir() / "sites" if directory is None else directory
    if directory is None and not there.is_dir():
        return None
    return there


def _warn_of_unread(directory: Path | None) -> None:
    from exposurekit.service.sites import loader

    if directory is not None and (unread := loader.unread_in(directory)):
        click.echo(f"Warning: {unread}.", err=True)


def needed_definitions(directory: Path | None) -> dict[str, Any]:
    """Load as `usable_definitions` does, for a command that is about sites; raises `ConfigurationError` if there are none."""
    loaded, problems = usable_definitions(directory)
    if loaded:
        return loaded
    if problems:
        raise ConfigurationError(ALL_INVALID)
    where = "" if directory is None else f" in {plain(directory)}"
    raise ConfigurationError(
        f"no site definitions{where}: name their directory with --sites, or set EXPOSUREKIT_SITES"
    )


def mail_settings(file: Path | None) -> Any:
    """Load the settings of the mailbox; default: ``mail.yaml`` in the configuration directory, if it exists; else None."""
    from exposurekit.service.mail import settings
    from exposurekit.system import paths

    if file is not None:
        return settings.load(file)
    default = paths.config_dir() / "mail.yaml"
    return settings.load(default) if default.is_file() else None


def saved_pages(site: Any, files: Sequence[Path]) -> list[Any]:
    """Read saved pages; errors number them, since a file's name often contains the person's."""
    from exposurekit.service.scanning import saved_pages as pages

    def page(number: int, content: bytes) -> Any:
        try:
            return pages.read(site, content)
        except pages.UnusablePage as error:
            raise pages.UnusablePage(f"page {number}: {error}") from None

    return [page(number, content) for number, content in enumerate(page_contents(files), 1)]


def page_contents(files: Iterable[Path], *, start: int = 1) -> Iterator[bytes]:
    """Yield the content of saved pages, a byte more than allowed at most; errors number them."""
    from exposurekit.service.scanning.saved_pages import FILE_BYTES_MAX

    for number, file in enumerate(files, start):
        yield read_bytes(file, FILE_BYTES_MAX, label=f"page {number}")


def action(command: str, target: str | None = None, /, **details: Any) -> "Action":
    """Return what the audit log says of a command: what it concerned, and numbers or flags."""
    from exposurekit.service.audit import Action

    return Action(command, target, details)


def _audited(task: Task[T], describe: "Callable[[T], Action]") -> Task[T]:
    async def run(db: Any) -> T:
        result = await task(db)
        await _append(db, describe(result))
        return result

    return run


async def _append(db: Any, done: "Action") -> None:
    from exposurekit.service import audit

    await audit.append(db, done, actor=audit.operator())


async def _run_in(session: AbstractAsyncContextManager[Any], task: Task[T]) -> T:
    async with session as entered:
        return await task(entered)


def _run_opened(database: Any, task: Task[T]) -> T:
    """Open a database, run a task that takes it, and close it."""
    from exposurekit.service.storage.database import DATABASE_ERRORS

    async def run() -> T:
        await database.open()
        try:
            return await task(database)
        finally:
            await database.close()

    try:
        return asyncio.run(run())
    except UnicodeEncodeError:
        raise ConfigurationError("the arguments are not valid UTF-8") from None
    except DATABASE_ERRORS as error:
        problem = database.explain(error)
    raise ConfigurationError(f"the database cannot be used: {problem}")
