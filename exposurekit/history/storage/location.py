"""Where a history lies: its path, its small files, what it was begun with. Knows no table but by name.

Nothing is made before something is written there; and no error repeats the path, which may hold a secret.
"""

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from exposurekit.errors import ConfigurationError, NotFound
from exposurekit.history.storage.schema import TABLES

_ABOUT = "history.json"
FORMAT = 2  # of what is written; `upgrade` brings older histories to it
_UNREACHED = "%[]*?{}"  # what deltalake, or an engine, takes for something else in a path
_OURS = re.compile(  # tables, runs that are staged, the inbox, the watch; locks and drafts of these
    rf"(?:{'|'.join(TABLES)}|staging|lost\+found)|inbox\.(?:path|db(?:-\w+)?)|watch\.json"
    r"|\.[\w-]+\.lock|\.(?:history\.json|watch\.json|inbox\.path)\.[\w.]+"
)


class Location:
    """A directory, or what stands for one where deltalake reaches; made when something is first written."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = _uri_of(path)
        self.is_local = "://" not in self.uri
        self._options = dict(storage_options or {}) or None
        self._begun_with: str | None = None
        with resolve():
            self.files, self.root = self._file_system()

    def place(self, *names: str) -> str:
        """A path within the history, for `files`."""
        return "/".join((self.root, *names))

    def settings(self, *, records_by: str | None, otherwise: str) -> str:
        """What tells records apart in this history; where there is none yet, it will be begun with what is wanted.

        Raises:
            ConfigurationError: It is there, and was made otherwise; or what it was made with cannot be read; or nothing can
                lie there, or other things do.
        """
        with resolve():
            if not self._is_there:
                self._check_is_free()
                self._begun_with = records_by or otherwise
                return self._begun_with
        found = str(self._about()["records_by"])
        if records_by is not None and found != records_by:
            raise ConfigurationError(f"This history was made with records_by={found!r}: open it so")
        self._begun_with = found
        return found

    def check_exists(self) -> None:
        """Say so where no history was begun: nothing is known then, which is another thing than nothing to tell.

        Raises:
            NotFound: There is none.
        """
        with resolve():
            there = self._is_there
        if not there:
            raise NotFound("There is no history there yet: collect() begins one, or the path is another")

    def begin(self) -> None:
        """Make the directory, and say there what tells records apart; a history that is there stays as it is.

        Raises:
            ConfigurationError: It cannot be made; or somebody else began it otherwise since it was opened.
        """
        with resolve():
            if not self._is_there:
                self.make(self.root)
                about = {"records_by": self._begun_with or "id", "format": FORMAT}
                self.write_json(self.place(_ABOUT), about)
        self.settings(records_by=self._begun_with, otherwise="id")

    def erased_at(self) -> datetime | None:
        """When somebody was last erased: what was known of everybody before that is known no longer."""
        told = self._about().get("erased_at")
        return None if told is None else datetime.fromisoformat(told)

    def note_erasure(self, at: datetime) -> None:
        """Somebody is erased now; whom is said nowhere."""
        self.write_json(self.place(_ABOUT), self._about() | {"erased_at": at.astimezone(UTC).isoformat()})

    def format(self) -> int | None:
        """Return the format of the history; None if there is no history."""
        with resolve():
            exists = self._is_there
        return int(self._about().get("format", 1)) if exists else None

    def note_format(self) -> None:
        """Write that the history has the current format."""
        self.write_json(self.place(_ABOUT), self._about() | {"format": FORMAT})

    def make(self, place: str) -> None:
        """A directory, which nobody but its owner looks into; one that is there stays as it is."""
        if not self.is_local:
            self.files.create_dir(place, recursive=True)
        elif not Path(place).is_dir():
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            Path(place).mkdir(mode=0o700, exist_ok=True)

    def sync(self) -> None:
        """What was written outlives a loss of power."""
        if self.is_local:
            os.sync()

    def read_json(self, place: str) -> Any:
        """A small file of ours."""
        with self.files.open_input_stream(place) as stream:
            return json.loads(stream.read())

    def write_json(self, place: str, value: Any) -> None:
        """Put a small file there, whole or not at all."""
        with self.whole(place) as stream:
            stream.write(json.dumps(value).encode())

    @contextlib.contextmanager
    def whole(self, place: str) -> Iterator[Any]:
        """A file that appears when it is written to its end."""
        within, _, name = place.rpartition("/")
        draft = f"{within}/.{name}.{os.getpid()}.{secrets.token_hex(4)}" if self.is_local else place
        try:
            with self.files.open_output_stream(draft) as stream:
                yield stream
            if draft != place:
                self.files.move(draft, place)
        except (
            BaseException
        ):  # Ctrl-C too: whoever erases somebody passes over the drafts of a process that lives
            if draft != place:
                Path(draft).unlink(missing_ok=True)
            raise

    @property
    def _is_there(self) -> bool:
        found = self.files.get_file_info(self.place(_ABOUT)).type
        return bool(found != pa.fs.FileType.NotFound)

    def _about(self) -> dict[str, Any]:
        try:
            told = dict(self.read_json(self.place(_ABOUT)))
            datetime.fromisoformat(told.get("erased_at", "1970-01-01"))
            return told | {"records_by": told["records_by"], "format": int(told.get("format", 1))}
        except (ValueError, TypeError, KeyError, OSError):
            raise ConfigurationError(
                f"{_ABOUT} of this history cannot be read: put it back from a copy"
            ) from None

    def _check_is_free(self) -> None:
        """A new history lies in no file, and not among other things."""
        if self.files.get_file_info(self.root).type == pa.fs.FileType.File:
            raise ConfigurationError(
                "A history's path is a directory, and there is a file: choose an empty or new directory"
            )
        there = self.files.get_file_info(pa.fs.FileSelector(self.root, allow_not_found=True))
        if not all(_OURS.fullmatch(info.base_name) for info in there):
            raise ConfigurationError(
                "That directory holds other things, and no history: choose an empty or new directory, or name the one that has it"
            )

    def _file_system(self) -> tuple[pa.fs.FileSystem, str]:
        if self.is_local:
            return pa.fs.LocalFileSystem(), self.uri
        if not self.uri.startswith("s3://"):
            found: tuple[pa.fs.FileSystem, str] = pa.fs.FileSystem.from_uri(self.uri)
            return found
        told = {name.lower(): value for name, value in (self._options or {}).items()}
        known = {
            "aws_access_key_id": "access_key",
            "aws_secret_access_key": "secret_key",
            "aws_region": "region",
            "aws_endpoint_url": "endpoint_override",
        }
        given = {known[name]: value for name, value in told.items() if name in known}
        return pa.fs.S3FileSystem(**given), self.uri.removeprefix("s3://")


@contextlib.contextmanager
def resolve() -> Iterator[None]:
    """Has what is wrong with a place told in one line, which does not say where that is."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ConfigurationError(f"A history cannot be read or kept there: {_problem(error)}") from None


def _problem(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, pa.ArrowInvalid):
        return "it is no directory, and no bucket such as s3://bucket/history"
    return "nothing answers at this address, or not to these storage_options"


def _uri_of(path: object) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ConfigurationError(
            "A history's path is a directory, such as exposure-history, or s3://bucket/history"
        )
    if not _is_utf8(text):
        raise ConfigurationError("A history's path is not UTF-8: choose another")
    scheme, is_uri, within = text.partition("://")
    if not is_uri:
        return _local(text)
    if "@" in within or "?" in within or not within.strip("/"):
        raise ConfigurationError(
            "A history's path is s3://bucket/history; a user and a secret are storage_options"
        )
    if "%" in within:  # deltalake reads it as an escape, and Arrow as itself
        raise ConfigurationError("A history's path has no % in it: choose another")
    return f"{scheme}://{within.rstrip('/')}"


def _is_utf8(text: str) -> bool:
    """Whether Arrow can be given it: bytes that are no UTF-8 stand in a name as letters that are none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _local(text: str) -> str:
    try:
        found = str(Path(text).expanduser().absolute())
    except RuntimeError:  # its text holds the name
        raise ConfigurationError(
            "A history's path begins with ~ and somebody's name: there is nobody of it"
        ) from None
    if set(found) & set(_UNREACHED):
        raise ConfigurationError(f"A history's path has none of {' '.join(_UNREACHED)} in it: choose another")
    return found
