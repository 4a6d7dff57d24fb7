"""The location of a history: its path, its JSON files and its settings.

Nothing is created before the first write. No error repeats the path, which may contain a secret.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from exposurekit.errors import ConfigurationError, DiskFull, NotFound
from exposurekit.history.storage.schema import TABLES
from exposurekit.system.atomic_files import NO_SPACE
from exposurekit.system.file_store import FileStore, problem
from exposurekit.text.sanitize import plain

_ABOUT = "history.json"
FORMAT = 4  # of new histories; `upgrade` converts older ones
_OS_ERROR = re.compile(r"\(?(?:os error|errno|Errno) (\d+)[)\]]")
_OWN_FILES = re.compile(  # settings, tables, staged runs, the inbox, the watch; their locks and drafts
    rf"(?:{'|'.join(TABLES)}|checksums|staging|lost\+found|history\.json)|inbox\.(?:path|db(?:-\w+)?)|watch\.json"
    r"|\.[\w-]+\.lock|\.(?:history\.json|watch\.json|inbox\.path)\.[\w.]+"
)


class Location(FileStore):
    """A directory, or an URL that deltalake takes; created on the first write."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self._new_records_by: str | None = None
        with resolve():
            super().__init__(path, storage_options, what="A history's path", name="history")

    def exists(self, *names: str) -> bool:
        """Return whether a file is there; without a name, whether a history was begun there."""
        return super().exists(*(names or [_ABOUT]))

    @property
    def label(self) -> str:
        """The last part of the path, for messages: what is before it may name a person."""
        return plain(self.uri.rstrip("/").rpartition("/")[2]) or "this directory"

    def settings(self, *, records_by: str | None, otherwise: str) -> str:
        """Return what identifies a record in this history; a new one will be created with ``records_by``."""
        with resolve():
            if not self.exists():
                self._check_is_empty()
                if not self.exists():  # another process may have begun it meanwhile
                    self._new_records_by = records_by or otherwise
                    return self._new_records_by
        stored = str(self._about()["records_by"])
        if records_by is not None and stored != records_by:
            raise ConfigurationError(
                f"This history was created with records_by={stored!r} (--record-key {stored}): open it with that, or with "
                "neither"
            )
        self._new_records_by = stored
        return stored

    def check_exists(self) -> None:
        """Check that a history was begun here, as an empty result would be misleading."""
        with resolve():
            exists = self.exists()
        if not exists:
            raise NotFound(
                f"There is no history there yet, in {self.label}: call collect(), or check the path"
            )

    def begin(self) -> None:
        """Create the directory and its settings; an existing history is unchanged."""
        with resolve():
            if not self.exists():
                self.make_directory(self.root)
                about = {"records_by": self._new_records_by or "id", "format": FORMAT}
                self.write_json(self.path(_ABOUT), about)
        self.settings(records_by=self._new_records_by, otherwise="id")

    @property
    def is_writable(self) -> bool:
        """Whether files and locks can be written there; a store that is not on this machine counts as writable."""
        if not self.is_local:
            return True
        paths = [Path(self.root), *Path(self.root).glob(".*.lock")]
        return all(os.access(path, os.W_OK) for path in paths)

    def erased_at(self) -> datetime | None:
        """Return when a person was last erased; earlier runs cannot be used to tell who is new."""
        erased_at = self._about().get("erased_at")
        return None if erased_at is None else datetime.fromisoformat(erased_at)

    def begin_erasure(self, at: datetime, user_id: int) -> None:
        """Record that a person is being erased."""
        noted = {"erased_at": at.astimezone(UTC).isoformat(), "erasing": user_id}
        self.write_json(self.path(_ABOUT), self._about() | noted)

    def erasing(self) -> int | None:
        """Return whose erasure began and did not end, if any."""
        user_id = self._about().get("erasing")
        return None if user_id is None else int(user_id)

    def end_erasure(self) -> None:
        """Record that the person is erased, and forget who it was."""
        about = self._about()
        self.write_json(self.path(_ABOUT), {name: about[name] for name in about if name != "erasing"})

    def format(self) -> int | None:
        """Return the format of the history; None if there is no history."""
        with resolve():
            exists = self.exists()
        return int(self._about().get("format", 1)) if exists else None

    def note_format(self) -> None:
        """Record that the history has the current format."""
        self.write_json(self.path(_ABOUT), self._about() | {"format": FORMAT})

    @contextlib.contextmanager
    def atomic_write(self, path: str) -> Iterator[Any]:
        """Open a file that appears once it is complete."""
        with writing(), super().atomic_write(path) as stream:
            yield stream

    def _about(self) -> dict[str, Any]:
        try:
            about = dict(self.read_json(self.path(_ABOUT)))
            datetime.fromisoformat(about.get("erased_at", "1970-01-01"))
            return about | {"records_by": about["records_by"], "format": int(about.get("format", 1))}
        except (ValueError, TypeError, KeyError, OSError):
            raise ConfigurationError(
                f"{_ABOUT} of this history cannot be read: restore it from a copy"
            ) from None

    def _check_is_empty(self) -> None:
        if self.files.get_file_info(self.root).type == pa.fs.FileType.File:
            raise ConfigurationError(
                "A history's path is a directory, and this is a file: choose an empty or new directory"
            )
        if not all(_OWN_FILES.fullmatch(info.base_name) for info in self.infos()):
            raise ConfigurationError(
                "That directory contains other files and no history: choose an empty or new directory, or the history's own"
            )


@contextlib.contextmanager
def resolve() -> Iterator[None]:
    """Turn errors of the file system into one line that does not repeat the path."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ConfigurationError(f"A history cannot be read or written there: {problem(error)}") from None


@contextlib.contextmanager
def writing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn the errors of a full disk, of the system, Arrow or another library, into one that does not repeat the path."""
    try:
        yield
    except (OSError, pa.ArrowException, *kinds) as error:
        if not _is_full(error):
            raise
        raise DiskFull(
            "No space is left where the history is stored: free some space, and try again. What it has is complete"
        ) from None


def _is_full(error: Exception) -> bool:
    """Return whether the disk, a quota or a limit on files refused a write; deltalake has that only in its text."""
    code = error.errno if isinstance(error, OSError) else None
    return code in NO_SPACE or {*map(int, _OS_ERROR.findall(str(error)))} & NO_SPACE != set()
