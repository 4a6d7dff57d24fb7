"""Backup of an SQLite database: a consistent copy, made while the service runs and then checked."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL

from exposurekit.errors import ConfigurationError, DiskFull
from exposurekit.service.storage.database_faults import explain
from exposurekit.system.atomic_files import NO_SPACE
from exposurekit.system.sqlite_log import orphaned_log
from exposurekit.text.sanitize import plain

DRAFT_SUFFIX = ".partial"
_NO_SPACE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}  # only the copy is written
_PAGES = 2_000  # copied at a time: some milliseconds


def back_up(database: Path, copy: Path, on_progress: Callable[[float], object] = lambda _: None) -> None:
    """Copy a database as it is now; other processes may write meanwhile. The copy is readable by its owner alone.

    It appears under its name once it is complete and checked. `on_progress` gets the fraction that is copied.

    Raises:
        DiskFull: No space is left for the copy.
        ConfigurationError: The copy exists, or it or the database cannot be used.
    """
    if os.path.lexists(copy):
        raise _exists(copy)
    if log := orphaned_log(copy):  # SQLite would write it into the copy
        raise ConfigurationError(f"{plain(log)}, the log of another database, exists: name another file")
    draft = copy.with_name(copy.name + DRAFT_SUFFIX)
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise ConfigurationError(
            f"{plain(draft)} exists: another backup to this file is running, or one was killed; delete it then"
        ) from None
    except OSError as error:
        raise _not_written(copy, error) from None
    try:
        _copy(database, draft, on_progress)
        _check(draft)
        _sync(draft)
        _publish(draft, copy)
        _sync(copy.parent)
    except OSError as error:
        raise _not_written(copy, error) from None
    finally:
        draft.unlink(missing_ok=True)


def _copy(database: Path, draft: Path, on_progress: Callable[[float], object]) -> None:
    def copied(_: int, remaining: int, total: int) -> None:
        on_progress(1 - remaining / max(total, 1))

    try:
        with closing(_opened(database, "mode=rw")) as source, closing(sqlite3.connect(draft)) as target:
            # One snapshot: otherwise, each write of another process would start the copy again.
            source.execute("BEGIN")
            source.execute("SELECT name FROM sqlite_master").fetchall()
            target.execute("PRAGMA journal_mode=OFF")  # a copy that fails is deleted
            target.execute("PRAGMA synchronous=OFF")  # it is synchronized at the end
            source.backup(target, pages=_PAGES, progress=copied)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in _NO_SPACE:
            raise _no_space(draft.with_suffix("")) from None
        problem = explain(error, URL.create("sqlite", database=str(database)))
    except sqlite3.DatabaseError as error:
        problem = explain(error, URL.create("sqlite", database=str(database)))
    else:
        return
    raise ConfigurationError(f"the database cannot be copied: {problem}")


def _check(draft: Path) -> None:
    """Raise `ConfigurationError` if SQLite finds the copy damaged."""
    try:
        with closing(_opened(draft, "mode=ro&immutable=1")) as connection:  # creates no log
            [result] = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError:
        result = "damaged"
    if result != "ok":
        raise ConfigurationError(
            "the copy is damaged, and so probably is the database: nothing was written; run exposurekit service check"
        )


def _opened(file: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file))}?{options}", uri=True, isolation_level=None)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _publish(draft: Path, copy: Path) -> None:
    """Move the draft into place, unless a file is there."""
    try:
        copy.hardlink_to(draft)
    except FileExistsError:
        raise _exists(copy) from None
    except OSError:  # a file system without links
        if os.path.lexists(copy):
            raise _exists(copy) from None
        draft.rename(copy)


def _exists(copy: Path) -> ConfigurationError:
    return ConfigurationError(f"{plain(copy)} exists and stays as it is: name another file")


def _not_written(copy: Path, error: OSError) -> Exception:
    if error.errno in NO_SPACE:
        return _no_space(copy)
    return ConfigurationError(f"{plain(copy)} cannot be written: {error.strerror}")


def _no_space(copy: Path) -> DiskFull:
    return DiskFull(f"no space is left for {plain(copy)}: free some space, or name a file on another disk")
