"""Checksums of a table's files: what a write left on the disk, so that later damage is found."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from exposurekit.history.storage.location import Location

DIRECTORY = "checksums"
_LOG = "_delta_log"


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


def damaged(store: Location, name: str, version: int, paths: Iterable[str]) -> int:
    """Count the files of a table that differ from their checksum, and its missing versions."""
    noted = read(store, name)
    if noted is None:
        return 0
    files, lost = noted["files"], max(noted["version"] - version, 0)
    present = [path for path in _all(store, name, paths) if path in files]
    return int(lost + sum(files[path] != _checksum(store, name, path) for path in present))


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


def _path(store: Location, name: str) -> str:
    return store.path(DIRECTORY, f"{name}.json")
