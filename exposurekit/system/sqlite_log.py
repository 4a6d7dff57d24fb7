"""The write-ahead log that SQLite has beside a database, and its index."""

from pathlib import Path

SUFFIX = "-wal"
INDEX_SUFFIX = "-shm"
SUFFIXES = SUFFIX, INDEX_SUFFIX


def orphaned_log(file: Path) -> str | None:
    """Return the name of the log beside a database that is missing or empty; None: there is none, or nothing is in it.

    SQLite would delete it, with the changes that it holds, as soon as it opened a new database there.
    """
    if file.exists() and file.stat().st_size:
        return None
    log = file.with_name(f"{file.name}{SUFFIX}")
    return log.name if log.exists() and log.stat().st_size else None
