"""Keys that a machine keeps for itself, each in a file: made at first use, for their owner alone. Uses none."""

import base64
import binascii
import os
import secrets
from pathlib import Path

from exposurekit.errors import ConfigurationError
from exposurekit.system.atomic_files import write_file
from exposurekit.text.sanitize import plain

KEY_BYTES = 32


def load_or_create(file: Path, of: str, *, missing: str = "") -> bytes:
    """The key in a file, which is made where there is none.

    Args:
        file: Where it is.
        of: Whose key it is, for messages.
        missing: What to say instead of making one.

    Raises:
        ConfigurationError: It is not a key, others may read it, it can be neither read nor made, or it is missing.

    >>> from exposurekit.system import key_files, paths
    >>> file = paths.config_dir() / "example.key"
    >>> key_files.load_or_create(file, "the example's") == key_files.load_or_create(file, "the example's")
    True
    """
    try:
        if not file.exists():
            if missing:
                raise ConfigurationError(missing)
            _make(file)
        return _read(file, of)
    except OSError as error:
        problem = error.strerror
    raise ConfigurationError(f"{of} key file {plain(file)} can be neither read nor made: {problem}")


def key_of(text: str, where: str) -> bytes:
    """A key from its base64url form.

    Raises:
        ConfigurationError: It is none; the message says where it stands, and not what stands there.

    >>> from exposurekit.system import key_files
    >>> len(key_files.key_of("A" * 43, "KEY"))
    32
    """
    bare = text.strip().rstrip("=")
    try:
        key = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError(f"{where} does not hold the base64url form of {KEY_BYTES} bytes")
    return key


def _read(file: Path, of: str) -> bytes:
    if os.name == "posix" and file.stat().st_mode & 0o077:
        raise ConfigurationError(f"{of} key file {plain(file)} can be read by others: chmod 600 it")
    return key_of(file.read_text("utf-8", "replace"), plain(file))


def _make(file: Path) -> None:
    for directory in reversed([parent for parent in file.parents if not parent.exists()]):
        directory.mkdir(mode=0o700, exist_ok=True)
    # Two processes that start together agree on one key.
    key = base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"
    write_file(file, key, overwrite=False, durable=True)
