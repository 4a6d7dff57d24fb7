"""Files in a directory or a bucket: paths, listings, and files that appear complete or not at all."""

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from exposurekit.errors import ConfigurationError
from exposurekit.system.atomic_files import write_file

_FORBIDDEN_CHARACTERS = "%[]*?{}"  # deltalake or a query engine would interpret them
# What Arrow calls the options that deltalake takes, in upper case and without AWS_.
_S3_ARGUMENTS = {
    "ACCESS_KEY_ID": "access_key",
    "SECRET_ACCESS_KEY": "secret_key",
    "SESSION_TOKEN": "session_token",
    "TOKEN": "session_token",
    "REGION": "region",
    "DEFAULT_REGION": "region",
    "ENDPOINT_URL": "endpoint_override",
    "ENDPOINT": "endpoint_override",
}
_CREDENTIALS = {"access_key", "secret_key", "session_token"}


class FileStore:
    """A directory on this machine, or an address such as ``s3://bucket/reports``; nothing is created before a write.

    Args:
        path: The directory or the address.
        storage_options: Credentials of a bucket, such as ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and, if they are
            temporary, ``AWS_SESSION_TOKEN``; by default those of the environment.
        what: How errors name the path, such as ``A history's path``. They never repeat it: it may contain a secret.
        name: A name for the examples in errors, such as ``history``.
    """

    def __init__(
        self,
        path: str | Path,
        storage_options: Mapping[str, str] | None = None,
        *,
        what: str,
        name: str,
    ) -> None:
        self.uri = _uri_of(path, what, name)
        self.is_local = "://" not in self.uri
        self._options = dict(storage_options or {}) or None
        self.files, self.root = self._file_system()

    def path(self, *names: str) -> str:
        """Return a path within it, for `files`."""
        return "/".join((self.root, *names))

    def exists(self, *names: str) -> bool:
        """Return whether a file is there."""
        return bool(self.files.get_file_info(self.path(*names)).type != pa.fs.FileType.NotFound)

    def infos(self, *names: str, recursive: bool = False) -> list[pa.fs.FileInfo]:
        """List a directory; empty if it is not there."""
        selector = pa.fs.FileSelector(self.path(*names), allow_not_found=True, recursive=recursive)
        return list(self.files.get_file_info(selector))

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

    def read(self, path: str, bytes_max: int | None = None) -> bytes:
        """Read a file, or its first bytes."""
        with self.files.open_input_stream(path) as stream:
            content: bytes = stream.read(bytes_max)
        return content

    def write(self, path: str, content: bytes) -> None:
        """Write a file whole or not at all; on this machine only its owner can read it."""
        if self.is_local:
            write_file(Path(path), content)
        else:
            with self.files.open_output_stream(path) as stream:
                stream.write(content)

    def read_json(self, path: str) -> Any:
        """Read a JSON file."""
        return json.loads(self.read(path))

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
            with self.files.open_output_stream(draft) as stream:
                yield stream
            if draft != path:
                self.files.move(draft, path)
        except BaseException:  # Ctrl-C too: an erasure skips the drafts of a running process
            if draft != path:
                Path(draft).unlink(missing_ok=True)
            raise

    def _file_system(self) -> tuple[pa.fs.FileSystem, str]:
        if self.is_local:
            return pa.fs.LocalFileSystem(), self.uri
        if not self.uri.startswith("s3://"):
            file_system: tuple[pa.fs.FileSystem, str] = pa.fs.FileSystem.from_uri(self.uri)
            return file_system
        # Arrow reads the other names from the environment by itself.
        options = {"AWS_ENDPOINT_URL": os.environ.get("AWS_ENDPOINT_URL", "")} | (self._options or {})
        arguments: dict[str, Any] = {}
        for name, value in options.items():
            argument = _S3_ARGUMENTS.get(name.upper().removeprefix("AWS_"))
            if argument and value:
                arguments[argument] = value
        if arguments.keys() & _CREDENTIALS and not {"access_key", "secret_key"} <= arguments.keys():
            raise ConfigurationError(
                "storage options: the access key and the secret key must be given together, "
                "with or without a session token"
            )
        return pa.fs.S3FileSystem(**arguments), self.uri.removeprefix("s3://")


def problem(error: Exception) -> str:
    """Say what went wrong with a file, without its path."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    if isinstance(error, pa.ArrowInvalid):
        return "it is not a directory, nor a bucket such as s3://bucket/name"
    return "this address does not respond, or refuses the credentials"


def _uri_of(path: object, what: str, name: str) -> str:
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    bucket = f"s3://bucket/{name}"
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ConfigurationError(f"{what} is a directory, such as exposure-{name}, or {bucket}")
    try:
        text.encode()  # Python decodes bytes that are not UTF-8 as lone surrogates, which Arrow does not accept
    except UnicodeEncodeError:
        raise ConfigurationError(f"{what} is not UTF-8: choose another") from None
    scheme, is_uri, within = text.partition("://")
    if not is_uri:
        return _local(text, what)
    if "@" in within or "?" in within or not within.strip("/"):
        raise ConfigurationError(f"{what} is {bucket}: leave out the user and the secret")
    if "%" in within:  # deltalake would unescape it, Arrow would not
        raise ConfigurationError(f"{what} must not contain %: choose another")
    return f"{scheme}://{within.rstrip('/')}"


def _local(text: str, what: str) -> str:
    try:
        path = str(Path(text).expanduser().absolute())
    except RuntimeError:  # its text contains the name
        raise ConfigurationError(f"{what} names a user '~name' who does not exist") from None
    if set(path) & set(_FORBIDDEN_CHARACTERS):
        characters = " ".join(_FORBIDDEN_CHARACTERS)
        raise ConfigurationError(f"{what} must not contain any of {characters}: choose another")
    return path
