"""The location of a history: its path, its JSON files and its settings.

Nothing is created before the first write. No error repeats the path, which may contain a secret.
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

from exposurekit.errors import ConfigurationError, DiskFull, NotFound
from exposurekit.history.storage.schema import TABLES
from exposurekit.system.atomic_files import NO_SPACE

_ABOUT = "history.json"
FORMAT = 3  # of new histories; `upgrade` converts older ones
_OS_ERROR = re.compile(r"\(?(?:os error|errno|Errno) (\d+)[)\]]")
_FORBIDDEN_CHARACTERS = "%[]*?{}"  # deltalake or an engine would interpret them
_OWN_FILES = re.compile(  # tables, staged runs, the inbox, the watch; their locks and drafts
    rf"(?:{'|'.join(TABLES)}|checksums|staging|lost\+found)|inbox\.(?:path|db(?:-\w+)?)|watch\.json"
    r"|\.[\w-]+\.lock|\.(?:history\.json|watch\.json|inbox\.path)\.[\w.]+"
)


class Location:
    """A directory, or an URL that deltalake takes; created on the first write."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = _uri_of(path)
        self.is_local = "://" not in self.uri
        self._options = dict(storage_options or {}) or None
        self._new_records_by: str | None = None
        with resolve():
            self.files, self.root = self._file_system()

    def path(self, *names: str) -> str:
        """Return a path within the history, for `files`."""
        return "/".join((self.root, *names))

    def exists(self, *names: str) -> bool:
        """Return whether a file is there; without a name, whether a history was begun there."""
        kind = self.files.get_file_info(self.path(*(names or [_ABOUT]))).type
        return bool(kind != pa.fs.FileType.NotFound)

    def infos(self, *names: str, recursive: bool = False) -> list[pa.fs.FileInfo]:
        """List a directory; empty if it is not there."""
        selector = pa.fs.FileSelector(self.path(*names), allow_not_found=True, recursive=recursive)
        return list(self.files.get_file_info(selector))

    def settings(self, *, records_by: str | None, otherwise: str) -> str:
        """Return what identifies a record in this history; a new one will be created with ``records_by``."""
        with resolve():
            if not self.exists():
                self._check_is_empty()
                self._new_records_by = records_by or otherwise
                return self._new_records_by
        stored = str(self._about()["records_by"])
        if records_by is not None and stored != records_by:
            raise ConfigurationError(
                f"This history was created with records_by={stored!r}: open it with that"
            )
        self._new_records_by = stored
        return stored

    def check_exists(self) -> None:
        """Check that a history was begun here, as an empty result would be misleading."""
        with resolve():
            exists = self.exists()
        if not exists:
            raise NotFound("There is no history there yet: call collect(), or check the path")

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
        """Record that the person is erased, and no longer who."""
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

    def make_directory(self, path: str) -> None:
        """Create a directory that only its owner can read; an existing one is unchanged."""
        if not self.is_local:
            self.files.create_dir(path, recursive=True)
        elif not Path(path).is_dir():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).mkdir(mode=0o700, exist_ok=True)

    def sync(self) -> None:
        """Flush writes to the disk, so that they survive a loss of power."""
        if self.is_local:
            os.sync()

    def read_json(self, path: str) -> Any:
        """Read a JSON file."""
        with self.files.open_input_stream(path) as stream:
            return json.loads(stream.read())

    def write_json(self, path: str, value: Any) -> None:
        """Write a JSON file, atomically."""
        with self.atomic_write(path) as stream:
            stream.write(json.dumps(value).encode())

    @contextlib.contextmanager
    def atomic_write(self, path: str) -> Iterator[Any]:
        """Open a file that appears once it is complete."""
        directory, _, name = path.rpartition("/")
        draft = f"{directory}/.{name}.{os.getpid()}.{secrets.token_hex(4)}" if self.is_local else path
        try:
            with writing():
                with self.files.open_output_stream(draft) as stream:
                    yield stream
                if draft != path:
                    self.files.move(draft, path)
        except BaseException:  # Ctrl-C too: an erasure skips the drafts of a running process
            if draft != path:
                Path(draft).unlink(missing_ok=True)
            raise

    def _about(self) -> dict[str, Any]:
        try:
            about = dict(self.read_json(self.path(_ABOUT)))
            datetime.fromisoformat(about.get("erased_at", "1970-01-01"))
            return about | {"records_by": about["records_by"], "format": int(about.get("format", 1))}
        except (ValueError, TypeError, KeyError, OSError):
            raise ConfigurationError(
                f"{_ABOUT} of this history cannot be read: put it back from a copy"
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

    def _file_system(self) -> tuple[pa.fs.FileSystem, str]:
        if self.is_local:
            return pa.fs.LocalFileSystem(), self.uri
        if not self.uri.startswith("s3://"):
            file_system: tuple[pa.fs.FileSystem, str] = pa.fs.FileSystem.from_uri(self.uri)
            return file_system
        options = {name.lower(): value for name, value in (self._options or {}).items()}
        names = {
            "aws_access_key_id": "access_key",
            "aws_secret_access_key": "secret_key",
            "aws_region": "region",
            "aws_endpoint_url": "endpoint_override",
        }
        arguments = {names[name]: value for name, value in options.items() if name in names}
        return pa.fs.S3FileSystem(**arguments), self.uri.removeprefix("s3://")


@contextlib.contextmanager
def resolve() -> Iterator[None]:
    """Turn errors of the file system into one line that does not repeat the path."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ConfigurationError(f"A history cannot be read or written there: {_problem(error)}") from None


@contextlib.contextmanager
def writing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn the errors of a full disk, of the system, Arrow or another library, into one that does not repeat the path."""
    try:
        yield
    except (OSError, pa.ArrowException, *kinds) as error:
        if not _is_full(error):
            raise
        raise DiskFull(
            "No space is left where the history is stored: free some, and try again. What it has is complete"
        ) from None


def _is_full(error: Exception) -> bool:
    """Return whether the disk, a quota or a limit on files refused a write; deltalake has that only in its text."""
    code = error.errno if isinstance(error, OSError) else None
    return code in NO_SPACE or {*map(int, _OS_ERROR.findall(str(error)))} & NO_SPACE != set()


def _problem(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, pa.ArrowInvalid):
        return "it is not a directory, nor a bucket such as s3://bucket/history"
    return "this address does not respond, or refuses these storage_options"


def _uri_of(path: object) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ConfigurationError(
            "A history's path is a directory, such as exposure-history, or s3://bucket/history"
        )
    try:
        text.encode()  # Python decodes bytes that are not UTF-8 as lone surrogates, which Arrow does not accept
    except UnicodeEncodeError:
        raise ConfigurationError("A history's path is not UTF-8: choose another") from None
    scheme, is_uri, within = text.partition("://")
    if not is_uri:
        return _local(text)
    if "@" in within or "?" in within or not within.strip("/"):
        raise ConfigurationError(
            "A history's path is s3://bucket/history; pass a user and a secret as storage_options"
        )
    if "%" in within:  # deltalake would unescape it, Arrow would not
        raise ConfigurationError("A history's path must not contain %: choose another")
    return f"{scheme}://{within.rstrip('/')}"


def _local(text: str) -> str:
    try:
        path = str(Path(text).expanduser().absolute())
    except RuntimeError:  # its text contains the name
        raise ConfigurationError("No such user in the history's path '~name'") from None
    if set(path) & set(_FORBIDDEN_CHARACTERS):
        characters = " ".join(_FORBIDDEN_CHARACTERS)
        raise ConfigurationError(f"A history's path must not contain any of {characters}: choose another")
    return path
