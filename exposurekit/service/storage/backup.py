"""Backup of an SQLite database: a consistent copy, made while the service runs and then checked."""

import os
import sqlite3
import stat
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

    It appears under its name once it is complete and checked; until then it is a draft beside it, which replaces the draft
    of a backup that was killed. `on_progress` gets the fraction that is copied.

    Raises:
        DiskFull: No space is left for the copy.
        ConfigurationError: The copy exists, another backup writes it, or it or the database cannot be used.
    """
    if os.path.lexists(copy):
        raise _exists(copy)
    if log := orphaned_log(copy):  # SQLite would write it into the copy
        raise ConfigurationError(f"{plain(log)}, the log of another database, exists: name another file")
    draft = copy.with_name(copy.name + DRAFT_SUFFIX)
    try:
        lock = _claim(draft)
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
        os.close(lock)


def _claim(draft: Path) -> int:
    """Create the draft, or empty one that a killed backup left; return it open, with a lock that ends with this process."""
    options = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        file, is_claimed = os.open(draft, options | os.O_EXCL, 0o600), True
    except FileExistsError:
        if not _is_draft(draft):
            raise ConfigurationError(
                f"{plain(draft)} exists, and no backup made it: rename or delete it"
            ) from None
        file, is_claimed = os.open(draft, options, 0o600), False
    try:
        import fcntl  # not on Windows

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A backup that ended after the file was opened has deleted it.
        is_claimed = os.path.samestat(os.fstat(file), draft.lstat())
    except (BlockingIOError, FileNotFoundError):
        is_claimed = False
    except (ImportError, OSError):  # a file system without locks: only a new file is nobody else's
        pass
    if not is_claimed:
        os.close(file)
        raise ConfigurationError(
            f"{plain(draft)} is being written: another backup to this file is running; delete the draft if none is"
        )
    os.truncate(file, 0)
    return file


def _is_draft(file: Path) -> bool:
    """Return whether a file is as a backup creates it, so that replacing it neither loses nor discloses anything."""
    status = file.lstat()
    is_private = os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and is_private


def _copy(database: Path, draft: Path, on_progress: Callable[[float], object]) -> None:
    def copied(_: int, remaining: int, total: int) -> None:
        on_progress(1 - remaining / max(total, 1))

    try:
        with (
            closing(_opened(database, "mode=rw")) as source,
            closing(_opened(draft, "mode=rw&nolock=1")) as target,
        ):
            # nolock: on a network disk, SQLite's locks would wait for that of the draft.
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
