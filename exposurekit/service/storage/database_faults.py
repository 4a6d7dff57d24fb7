"""Why a database cannot be used, in words: never a password, a statement or a value."""

import errno
import os
import re
import shutil
import socket
import sqlite3
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from exposurekit.system.atomic_files import NO_SPACE
from exposurekit.system.sqlite_log import SUFFIXES
from exposurekit.text.sanitize import plain

LOCKED = "database is locked"  # as SQLite itself says it
FULL_BELOW = 65_536  # bytes: not even the index of a log fits, and SQLite reports a fault of the disk
_FULL_DISK = "no space is left on the disk of {file}: free some space"
_UNKNOWN_HOST = "the host {host} is unknown"
REPLACED = "the database's file was removed or replaced"
_PRIMARY_CODE = 0xFF  # of an extended error code
_NOT_WRITABLE = "{not_writable}"
_DISK_FAULT = "the disk of {file} reports an error"
_BY_CODE = {
    sqlite3.SQLITE_BUSY: "{file} is locked by another process; try again",
    sqlite3.SQLITE_LOCKED: "{file} is locked by another process; try again",
    sqlite3.SQLITE_FULL: _FULL_DISK,
    sqlite3.SQLITE_READONLY: _NOT_WRITABLE,
    sqlite3.SQLITE_CANTOPEN: _NOT_WRITABLE,
    sqlite3.SQLITE_PERM: "{file} cannot be read; check its permissions",
    sqlite3.SQLITE_IOERR: _DISK_FAULT,
    sqlite3.SQLITE_CORRUPT: "{file} is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "{file} is damaged; restore it from a backup",
}
_BY_ERRNO = {  # of opening a file of SQLite
    errno.ENOENT: "the directory of {file} does not exist; create it",
    errno.EACCES: _NOT_WRITABLE,
    errno.EROFS: _NOT_WRITABLE,
    **dict.fromkeys(NO_SPACE, _FULL_DISK),
}
_BY_TEXT = {
    LOCKED: _BY_CODE[sqlite3.SQLITE_BUSY],
    REPLACED: "{file} was removed or replaced; restart serve and worker",
}
_BY_STATE = {
    "25006": "the server is read-only",
    "42501": "the role {role} lacks a permission",
    "53100": "the server's disk is full",
    "53300": "the server has no free connection",
    "57P01": "the server was stopped",
}
# While connecting, the driver gives a text alone.
_BY_SERVER_TEXT = {
    r'role "[^"]*" does not exist': "there is no role {role}",
    r'database "[^"]*" does not exist': "there is no database {database}",
    "failed to resolve host": _UNKNOWN_HOST,
    "onnection refused": "connection refused; no server listens at {host}, port {port}",
    "No such file or directory": "no server listens on its socket",
    "Permission denied": "its socket cannot be used by this user",
    "password authentication failed": "the password of the role {role} is wrong",
    "no password supplied": "the server asks for a password",
    r"pg_hba\.conf": "the server's pg_hba.conf does not admit the role {role} from here",
    "starting up": "the server is starting; try again",
    "shutting down": "the server is stopping",
    "too many clients": "the server has no free connection",
    "remaining connection slots": "the server has no free connection",
    "timeout expired": "{host} does not answer",
    "No route to host": "there is no route to {host}",
    "erver closed the connection": "the server closed the connection",
    "does not support SSL": "the server at {host} offers no encrypted connection",
    "SSL (?:error|SYSCALL)": "the encrypted connection to {host} failed",
}


def explain(error: BaseException, url: URL) -> str:
    """Return why a database cannot be used; for an unusual fault, only its type.

    >>> from sqlalchemy import make_url
    >>> explain(sqlite3.OperationalError("database is locked"), make_url("sqlite:///service.db"))
    'service.db is locked by another process; try again'
    """
    cause = (error.orig if isinstance(error, DBAPIError) else None) or error
    words = _words(cause, is_file=url.get_backend_name() == "sqlite")
    if words is None:
        return type(cause).__name__
    if words == _DISK_FAULT and is_full(Path(url.database or "")):
        words = _FULL_DISK
    values = {
        "file": os.path.basename(url.database or ""),  # noqa: PTH119  a server's is no path
        "not_writable": _not_writable(Path(url.database or "")) if words == _NOT_WRITABLE else "",
        "database": url.database or "of this name",
        "host": url.host or "this address",
        "port": url.port or 5432,
        "role": url.username or "of this name",
    }
    return words.format_map({name: plain(str(value)) for name, value in values.items()})


def is_full(file: Path) -> bool:
    """Return whether no space is left for a database and its log."""
    with suppress(OSError):
        return shutil.disk_usage(file.resolve().parent).free < FULL_BELOW
    return False


def _not_writable(file: Path) -> str:
    """Return what of an SQLite database this user cannot read or write, and what to change."""
    verb, names = "read", _forbidden(file, os.R_OK)
    if not names:
        verb, names = "write", _forbidden(file, os.W_OK)
    if not names and is_full(file):
        return _FULL_DISK.format(file=file.name)
    if not names:
        return f"{file.name} or its directory cannot be opened or written: check its owner and permissions"
    with suppress(OSError, AttributeError):  # Windows has no statvfs
        if os.statvfs(file.parent).f_flag & os.ST_RDONLY:
            return f"{file.name} is on a file system that is mounted read-only: mount it writable"
    return f"this user cannot {verb} {', '.join(names)}: change the owner or the permissions"


def _forbidden(file: Path, access: int) -> list[str]:
    """Name what of an SQLite database this user may not use in a way."""
    files = [file, *(file.with_name(f"{file.name}{suffix}") for suffix in SUFFIXES)]
    names = [one.name for one in files if one.exists() and not os.access(one, access)]
    is_usable = os.access(file.parent, access | os.X_OK)
    return names if is_usable else [*names, f"the directory of {file.name}"]


def _words(cause: BaseException, *, is_file: bool) -> str | None:
    text = str(cause)
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return _BY_TEXT.get(text) if code is None else _BY_CODE.get(code & _PRIMARY_CODE)
    if isinstance(cause, OSError):
        return _words_of_system(cause, is_file=is_file)
    if state := getattr(cause, "sqlstate", None):
        return _BY_STATE.get(state)
    return next((words for part, words in _BY_SERVER_TEXT.items() if re.search(part, text)), None)


def _words_of_system(cause: OSError, *, is_file: bool) -> str | None:
    if isinstance(cause, TimeoutError):
        return "it did not answer in time; try again"
    if isinstance(cause, socket.gaierror):
        return _UNKNOWN_HOST
    if cause.errno is None:
        return None
    return (_BY_ERRNO.get(cause.errno) if is_file else None) or os.strerror(cause.errno)
