"""Demos that were made before, in the user's cache: copied from there, and never changed. Knows nothing of what is in one.

Each is one file, put there whole or not at all, and known by all that made it: people, days, seed and this very
version of the package. What is not ours, or is damaged, is as if it were not there.
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
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import exposurekit
from exposurekit.history.engines.duckdb import session_is_open
from exposurekit.system import paths

KEPT = 6  # demos; who made more has those used last
WORTH_KEEPING = 50  # people times days: less is made in a few seconds
BYTES_MAX = 256 << 20
LASTS = timedelta(days=7)
ABOUT = "about.json"
SUFFIX = ".demo"
_MADE_OF = {".py", ".yaml"}
_LOOK_ON = {
    "charts",
    "cli",
    "monitor",
    "notebook",
    "reports",
    "widgets",
}  # rooms that have no part in what is kept


@dataclass(frozen=True, slots=True)
class DemoCache:
    """Where demos of one making are.

    Attributes:
        place: The directory; it may not be there yet.
        making: What they were made with.
    """

    place: Path
    making: Mapping[str, str] = field(repr=False)

    def kept(self, today: date) -> Iterator["CachedDemo"]:
        """Those that are there, and end today or within the week before, the newest first."""
        if not _is_ours(self.place):
            return
        for day in (today - timedelta(days=back) for back in range(LASTS.days + 1)):
            if (file := self.place / self._name(day)).is_file():
                yield CachedDemo(file, self.making)

    def put(self, parts: Sequence[Path], past: Mapping[str, Any], day: date) -> None:
        """Keep a demo that ends on a day: files and directories, and its past. Where that cannot be, nothing."""
        draft = self.place / f".{self._name(day)}.{os.getpid()}.{secrets.token_hex(4)}"
        with suppress(OSError):
            for part in (self.place.parent, self.place):
                part.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(self.place):
                return
            try:
                _pack(draft, parts, {"making": self.making, "past": past})
                if draft.stat().st_size <= BYTES_MAX:
                    draft.replace(self.place / self._name(day))
            finally:
                draft.unlink(missing_ok=True)
            self._tidy()

    def _name(self, day: date) -> str:
        told = (self.making["version"], self.making["digest"][:12])
        made = (f"{self.making[name]}-{name}" for name in ("people", "days", "seed"))
        return f"{'-'.join((*told, *made))}-{day}{SUFFIX}"

    def _tidy(self) -> None:
        """Only the newest stay; what a process that was killed left half written goes."""
        files = sorted(self.place.glob(f"[!.]*{SUFFIX}"), key=lambda file: -file.stat().st_mtime)
        drafts = [file for file in self.place.glob(f".*{SUFFIX}.*") if not _is_written(file)]
        for file in (*files[KEPT:], *drafts):
            file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class CachedDemo:
    """A demo that was made before."""

    file: Path
    making: Mapping[str, str] = field(repr=False)

    def unpack(self, directory: Path) -> dict[str, Any]:
        """Copy it into a directory; its past.

        Raises:
            Exception: It is damaged, or none of ours: of whatever kind, since it may hold anything.
        """
        with ZipFile(self.file) as packed:
            about = json.loads(packed.read(ABOUT))
            if about["making"] != self.making:
                raise ValueError("it was made otherwise")
            packed.extractall(directory, [name for name in packed.namelist() if name != ABOUT])
        with suppress(OSError):
            os.utime(self.file)  # what is used stays longest
        past: dict[str, Any] = about["past"]
        return past

    def discard(self) -> None:
        """Throw it away."""
        with suppress(OSError):
            self.file.unlink()


def cache_for(*, people: int, days: float, seed: int) -> DemoCache | None:
    """Where demos of this making are; None: they are made too soon to be kept, or there is no place for them.

    >>> cache_for(people=25, days=90, seed=7).making["days"], cache_for(people=2, days=1, seed=7)
    ('90', None)
    """
    if people * days < WORTH_KEEPING:
        return None
    with suppress(RuntimeError, OSError):  # nobody's home, or nothing to be read
        making = {"people": f"{people:d}", "days": f"{days:.15g}", "seed": f"{seed:d}"}
        versions = {"version": exposurekit.__version__, "digest": _digest()}
        return DemoCache(paths.cache_dir() / "demos", making | versions)
    return None


@cache
def _digest() -> str:
    """What tells this package from any other, of the same version too, as while it is worked on."""
    root = Path(exposurekit.__file__).parent
    parts = [file.relative_to(root) for file in sorted(root.rglob("*")) if file.suffix in _MADE_OF]
    told = [
        (str(part), (about := (root / part).stat()).st_size, about.st_mtime_ns)
        for part in parts
        if part.parts[0] not in _LOOK_ON
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _pack(file: Path, parts: Sequence[Path], about: Mapping[str, Any]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    # Each part has its checksum there; encrypted, or compressed already, it would not become smaller.
    with (
        os.fdopen(os.open(file, flags, 0o600), "wb") as stream,
        ZipFile(stream, "w", ZIP_STORED, strict_timestamps=False) as packed,
    ):
        packed.writestr(ABOUT, json.dumps(about))
        for part in parts:
            for one in [part, *sorted(part.rglob("*"))]:
                if one.is_file() and not one.name.startswith("."):
                    packed.write(one, one.relative_to(part.parent))


def _is_ours(place: Path) -> bool:
    """Whether nobody else can have put anything there: what is in a demo is trusted."""
    try:
        about = place.lstat()
    except OSError:
        return False
    return (
        place.is_dir()
        and not place.is_symlink()
        and about.st_uid == os.getuid()
        and not about.st_mode & 0o022
    )


def _is_written(draft: Path) -> bool:
    pid = draft.name.split(".")[-2]
    return pid.isdigit() and session_is_open(int(pid))


def today() -> datetime:
    """Where the last of a demo's days ends: at the last midnight, UTC."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
