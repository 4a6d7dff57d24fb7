"""Cache of finished demos in the user's cache directory.

Each demo is one file, written whole or not at all. Its key consists of the people, days, seed and the exact
version of the package. A file that is damaged or owned by another user counts as missing.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import exposurekit
from exposurekit.history.engines.duckdb import is_running
from exposurekit.system import paths

MAX_ENTRIES = 6  # the least recently used beyond these are deleted
MIN_PERSON_DAYS = 50  # people times days: a smaller demo is made in a few seconds
BYTES_MAX = 256 << 20  # of one demo
TOTAL_BYTES_MAX = 300_000_000  # of all of them: the least recently used beyond it are deleted
MAX_AGE = timedelta(days=7)
MANIFEST = "manifest.json"
SUFFIX = ".demo"
_SOURCE_SUFFIXES = {".py", ".yaml"}
# A demo does not depend on these packages.
_UNRELATED_PACKAGES = {"charts", "cli", "monitor", "notebook", "reports", "widgets"}


@dataclass(frozen=True, slots=True)
class DemoCache:
    """The cached demos that were made with the same parameters."""

    directory: Path  # it may not exist yet
    parameters: Mapping[str, str] = field(repr=False)

    def entries(self, today: date) -> Iterator["CachedDemo"]:
        """Yield the demos that end today or in the week before, newest first."""
        if not _is_private(self.directory):
            return
        for day in (today - timedelta(days=age) for age in range(MAX_AGE.days + 1)):
            if (file := self.directory / self._name(day)).is_file():
                yield CachedDemo(file, self.parameters)

    def put(self, parts: Sequence[Path], state: Mapping[str, Any], day: date) -> None:
        """Store a demo that ends on a day: its files, directories and state. Does nothing if the disk refuses."""
        draft = self.directory / f".{self._name(day)}.{os.getpid()}.{secrets.token_hex(4)}"
        with suppress(OSError):
            for folder in (self.directory.parent, self.directory):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(self.directory):
                return
            try:
                _pack(draft, parts, {"parameters": self.parameters, "state": state})
                if draft.stat().st_size <= BYTES_MAX:
                    draft.replace(self.directory / self._name(day))
            finally:
                draft.unlink(missing_ok=True)
            self._evict()

    def _name(self, day: date) -> str:
        version = (self.parameters["version"], self.parameters["digest"][:12])
        options = (f"{self.parameters[name]}-{name}" for name in ("people", "days", "seed"))
        return f"{'-'.join((*version, *options))}-{day}{SUFFIX}"

    def _evict(self) -> None:
        """Delete all but the newest demos, up to a number and a size, and the drafts of processes that ended."""
        files = sorted(self.directory.glob(f"[!.]*{SUFFIX}"), key=lambda file: -file.stat().st_mtime)
        totals = accumulate(file.stat().st_size for file in files)
        fitting = sum(total <= TOTAL_BYTES_MAX for total in totals)
        drafts = [file for file in self.directory.glob(f".*{SUFFIX}.*") if not _is_being_written(file)]
        for file in (*files[min(MAX_ENTRIES, fitting) :], *drafts):
            file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class CachedDemo:
    """A demo in the cache."""

    file: Path
    parameters: Mapping[str, str] = field(repr=False)

    def unpack(self, directory: Path) -> dict[str, Any]:
        """Extract its files into a directory and return its state; a damaged or foreign file may raise anything."""
        with ZipFile(self.file) as archive:
            manifest = json.loads(archive.read(MANIFEST))
            if manifest["parameters"] != self.parameters:
                raise ValueError("made with other parameters")
            archive.extractall(directory, [name for name in archive.namelist() if name != MANIFEST])
        with suppress(OSError):
            os.utime(self.file)  # eviction goes by last use
        state: dict[str, Any] = manifest["state"]
        return state

    def discard(self) -> None:
        """Delete it."""
        with suppress(OSError):
            self.file.unlink()


def cache_for(*, people: int, days: float, seed: int) -> DemoCache | None:
    """Return the cache for these parameters; None if such a demo is made in seconds or there is no cache directory."""
    if people * days < MIN_PERSON_DAYS:
        return None
    with suppress(RuntimeError, OSError):  # no home directory, or unreadable sources
        options = {"people": f"{people:d}", "days": f"{days:.15g}", "seed": f"{seed:d}"}
        version = {"version": exposurekit.__version__, "digest": _digest()}
        return DemoCache(paths.cache_dir() / "demos", options | version)
    return None


@cache
def _digest() -> str:
    """Fingerprint the package's sources, so that an edited package does not use demos of another state."""
    root = Path(exposurekit.__file__).parent
    files = [file.relative_to(root) for file in sorted(root.rglob("*")) if file.suffix in _SOURCE_SUFFIXES]
    fingerprints = [
        (str(file), (status := (root / file).stat()).st_size, status.st_mtime_ns)
        for file in files
        if file.parts[0] not in _UNRELATED_PACKAGES
    ]
    return hashlib.sha256(json.dumps(fingerprints).encode()).hexdigest()


def _pack(file: Path, parts: Sequence[Path], manifest: Mapping[str, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    # Stored, not deflated: the parts are encrypted or compressed already.
    with (
        os.fdopen(os.open(file, flags, 0o600), "wb") as stream,
        ZipFile(stream, "w", ZIP_STORED, strict_timestamps=False) as archive,
    ):
        archive.writestr(MANIFEST, json.dumps(manifest))
        for part in parts:
            for path in [part, *sorted(part.rglob("*"))]:
                if path.is_file() and not path.name.startswith("."):
                    archive.write(path, path.relative_to(part.parent))


def _is_private(directory: Path) -> bool:
    """Return whether only this user can write there: the contents of a cached demo are trusted."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return (
        directory.is_dir()
        and not directory.is_symlink()
        and status.st_uid == os.getuid()
        and not status.st_mode & 0o022
    )


def _is_being_written(draft: Path) -> bool:
    pid = draft.name.split(".")[-2]
    return pid.isdigit() and is_running(int(pid))


def today() -> datetime:
    """Return the end of a demo's last day: the last midnight, UTC."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
