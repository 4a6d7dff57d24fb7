"""Pseudonyms for people in shared reports: stable as long as the key is the same."""

import base64
import hmac
import os
from pathlib import Path

from exposurekit.errors import ConfigurationError
from exposurekit.system import key_files, paths

KEY_VARIABLE, KEY_FILE_VARIABLE = "EXPOSUREKIT_PSEUDONYM_KEY", "EXPOSUREKIT_PSEUDONYM_KEY_FILE"
_HALF = 5  # characters before and after the dash: 50 bits, collisions are unlikely among a million people


class Pseudonyms:
    """Keyed pseudonyms: without the key they cannot be mapped to ids, even by trying all ids."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "Pseudonyms(...)"

    def of(self, user_id: int) -> str:
        """Return the pseudonym of a user: two groups of five letters or digits."""
        digest = hmac.digest(self._key, b"user %d" % user_id, "sha256")
        digits = base64.b32encode(digest).decode().lower()
        return f"{digits[:_HALF]}-{digits[_HALF : 2 * _HALF]}"


def load_pseudonyms() -> Pseudonyms:
    """Load the pseudonyms of this machine; the first use creates their key, readable by its owner alone.

    ``EXPOSUREKIT_PSEUDONYM_KEY`` (base64url of 32 bytes) takes precedence, then the file that
    ``EXPOSUREKIT_PSEUDONYM_KEY_FILE`` names: with a common key, several machines have the same pseudonyms. If the key is
    lost, all pseudonyms change.

    Raises:
        ConfigurationError: The key is malformed, its file is readable by others, or the named file does not exist.
    """
    if text := os.environ.get(KEY_VARIABLE):
        return Pseudonyms(key_files.decode_key(text, KEY_VARIABLE))
    named = os.environ.get(KEY_FILE_VARIABLE)
    missing = ConfigurationError(
        f"{KEY_FILE_VARIABLE} names a file that does not exist",
        fix="put a copy of the common key there: a new one would give other pseudonyms",
    )
    file = Path(named) if named else paths.config_dir() / "pseudonyms.key"
    return Pseudonyms(key_files.load_or_create(file, "the pseudonyms'", missing=missing if named else None))
