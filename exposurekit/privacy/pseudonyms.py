"""Pseudonyms for people in shared reports: stable as long as the key is the same."""

import base64
import hmac

from exposurekit.system import key_files, paths

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

    If the key is lost, all pseudonyms change.
    """
    return Pseudonyms(key_files.load_or_create(paths.config_dir() / "pseudonyms.key", "the pseudonyms'"))
