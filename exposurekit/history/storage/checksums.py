"""Checksums of a table's files: what a write left on the disk, so that later damage is found."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from exposurekit.history.storage.location import Location

DIRECTORY = "checksums"
_LOG = "_delta_log"
LOG_FILE = _LOG + "/{:020}.json"


def note(store: Location, name: str, version: int, paths: Iterable[str]) -> None:
    """Write the checksums of a table's data files, as its log names them, and of its log; files that have one keep it.

    The caller holds the lock of these checksums.
    """
    noted = read(store, name)
    files = noted["files"] if noted else {}
    current = {path: files.get(path) or _checksum(store, name, path) for path in _all(store, name, paths)}
    store.make_directory(store.path(DIRECTORY))
    store.write_json(
        _path(store, name), {"version": max(version, noted["version"] if noted else 0), "files": current}
    )


def changed(store: Location, name: str, version: int | None, paths: Iterable[str]) -> list[str]:
    """Return the files of a table that differ from their checksum, and those of its missing versions.

    Without a version, as its log cannot be read, these are files of the log.
    """
    noted = read(store, name)
    if noted is None:
        return []
    files = noted["files"]
    if version is None:
        expected = [path for path in files if path.startswith(_LOG)]
    else:
        lost = range(version + 1, noted["version"] + 1)
        expected = [LOG_FILE.format(number) for number in lost]
        expected += [path for path in _all(store, name, paths) if path in files]
    return [path for path in expected if path not in files or files[path] != _checksum(store, name, path)]


def read(store: Location, name: str) -> dict[str, Any] | None:
    """Return the noted version and checksums of a table; None if there are none yet. Damaged ones are a `ValueError`."""
    if not Path(_path(store, name)).exists():
        return None
    noted = store.read_json(_path(store, name))
    if not isinstance(noted, dict) or not {"version", "files"} <= noted.keys():
        raise ValueError
    return noted


def _all(store: Location, name: str, paths: Iterable[str]) -> list[str]:
    """The data files and the log, without its pointer to the last checkpoint, which changes."""
    log = Path(store.path(name, _LOG)).glob("[0-9]*")
    return [*map(unquote, paths), *(f"{_LOG}/{file.name}" for file in log)]


def _checksum(store: Location, name: str, path: str) -> str | None:
    try:
        with Path(store.path(name, path)).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def path_of(name: str) -> str:
    """Return the path of a table's checksums in the history."""
    return f"{DIRECTORY}/{name}.json"


def _path(store: Location, name: str) -> str:
    return store.path(path_of(name))
