"""Key files: created at first use, readable by their owner alone."""

import base64
import binascii
import os
import secrets
from pathlib import Path

from exposurekit.errors import ConfigurationError
from exposurekit.system.atomic_files import write_file
from exposurekit.text.sanitize import plain

KEY_BYTES = 32


def load_or_create(file: Path, owner: str, *, missing: ConfigurationError | None = None) -> bytes:
    """Load the key in a file, or create the file; with an error `missing`, it must be there.

    `owner` says whose key it is in messages, such as ``"the service's"``. Raises `ConfigurationError` if the file is
    malformed, readable by others, or cannot be read or created.
    """
    try:
        if not file.exists():
            if missing:
                raise missing
            _create(file)
        return _read(file, owner)
    except OSError as error:
        problem = error.strerror
    raise ConfigurationError(
        f"{owner} key file {plain(file)} cannot be read or created ({problem})",
        fix="correct its path, owner or permissions",
    )


def decode_key(text: str, source: str) -> bytes:
    """Decode a key from base64url; raises `ConfigurationError` with its source, not its text."""
    bare = text.strip().rstrip("=")
    try:
        key = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError(f"{source} is not the base64url form of {KEY_BYTES} bytes")
    return key


def _read(file: Path, owner: str) -> bytes:
    if os.name == "posix" and file.stat().st_mode & 0o077:
        raise ConfigurationError(
            f"{owner} key file {plain(file)} is readable by others", fix="run chmod 600 on it"
        )
    return decode_key(file.read_text("utf-8", "replace"), plain(file))


def _create(file: Path) -> None:
    for directory in reversed([parent for parent in file.parents if not parent.exists()]):
        directory.mkdir(mode=0o700, exist_ok=True)
    # Two processes that start together agree on one key.
    key = base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"
    write_file(file, key, overwrite=False, durable=True)
