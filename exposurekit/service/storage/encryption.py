"""What is encrypted at rest, and how. Knows keys and values; never a table, and never shows either.

Values are sealed with AES-256-GCM under a fresh nonce each time, and bound to a purpose (a table and whose row it
is): a sealed value moved elsewhere does not open. A version byte stands in front, so that keys can be rotated.
What must be found again is kept as a fingerprint, HMAC-SHA256 with the domain inside.
"""

import hmac
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import from_json

from exposurekit.contract import codec
from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.system import key_files, paths
from exposurekit.text.sanitize import plain

KEY_VARIABLE, KEY_FILE_VARIABLE = "EXPOSUREKIT_SERVICE_KEY", "EXPOSUREKIT_SERVICE_KEY_FILE"
_VERSION = b"\x01"
_NONCE_BYTES = 12
_HEAD_BYTES = len(_VERSION) + _NONCE_BYTES
_CLOSED = "a stored value does not open with this key"


class DecryptionError(ExposureError):
    """A sealed value does not open: another key made it, another row owns it, or it was changed."""


class Vault:
    """Seals values and makes fingerprints with one key.

    >>> vault = Vault(Vault.generate_key())
    >>> vault.unseal(vault.seal({"city": "Oakmere"}, "details:7"), "details:7")
    {'city': 'Oakmere'}
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != key_files.KEY_BYTES:
            raise ConfigurationError(f"the service's key must have {key_files.KEY_BYTES} bytes")
        # One key for each use, so that no fingerprint can ever say anything about a sealed value.
        self._cipher = AESGCM(hmac.digest(key, b"exposurekit sealing 1", "sha256"))
        self._fingerprint_key = hmac.digest(key, b"exposurekit fingerprints 1", "sha256")

    def __repr__(self) -> str:
        return "Vault(key hidden)"

    @staticmethod
    def generate_key() -> bytes:
        """A new random key."""
        return secrets.token_bytes(key_files.KEY_BYTES)

    @property
    def key_fingerprint(self) -> str:
        """Tells one key from another and says nothing about it; a database remembers it."""
        return self.fingerprint("", "key").hex()

    def seal(self, value: Any, purpose: str) -> bytes:
        """A plain JSON value, encrypted for one purpose."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, codec.encode(value, "json"), purpose.encode())

    def unseal(self, ciphertext: bytes, purpose: str) -> Any:
        """What was sealed for this purpose.

        Raises:
            DecryptionError: It was sealed with another key or for another purpose, or it was changed.
        """
        opened = self._opened([(ciphertext, purpose)])
        if opened is None:
            raise DecryptionError(_CLOSED)
        return opened[0]

    def unseal_all(self, ciphertext: Sequence[tuple[bytes, str]]) -> list[Any]:
        """What was sealed, each value for the purpose beside it, in the same order.

        Raises:
            DecryptionError: As `unseal`, for any of them.
        """
        opened = self._opened(ciphertext)
        if opened is None:
            raise DecryptionError(_CLOSED)
        return opened

    def _opened(self, ciphertext: Sequence[tuple[bytes, str]]) -> list[Any] | None:
        decrypt = self._cipher.decrypt
        try:
            texts = [
                decrypt(one[1:_HEAD_BYTES], one[_HEAD_BYTES:], purpose.encode())
                for one, purpose in ciphertext
                if one[:1] == _VERSION
            ]
            # What opens is what `seal` wrote, and needs none of the guards of a stranger's body: 1 us a record, not 6,
            # and less as one list. Only names are kept by the reader: a value would outlive its request.
            opened = from_json(b"[%b]" % b",".join(texts), cache_strings="keys")
        except (InvalidTag, ValueError):
            return None
        return opened if len(opened) == len(ciphertext) else None

    def fingerprint(self, text: str, domain: str) -> bytes:
        """The same 32 bytes for the same text and domain; without the key nobody can make or test them."""
        return hmac.digest(
            self._fingerprint_key, f"{domain}\0{text}".encode("utf-8", "surrogatepass"), "sha256"
        )


def load_key(path: Path | None = None, *, make: bool = True) -> bytes:
    """The service's key: from the environment, else from a file that is made at first use.

    Args:
        path: The key's file. Without it ``EXPOSUREKIT_SERVICE_KEY_FILE``, else ``exposurekit/service.key`` in
            the user's configuration directory. ``EXPOSUREKIT_SERVICE_KEY`` (base64url of 32 bytes) comes first.

        make: Whether to make a key where there is none: a database that is there needs the one it was made with.

    Raises:
        ConfigurationError: There is no key; what is there is not a key, others may read it, or it can be neither read nor made.
    """
    if text := os.environ.get(KEY_VARIABLE):
        return key_files.key_of(text, KEY_VARIABLE)
    file = path or Path(os.environ.get(KEY_FILE_VARIABLE) or paths.config_dir() / "service.key")
    needed = (
        f"there is no key at {plain(file)}, and the database needs the one it was made with: --key-file, "
        f"{KEY_FILE_VARIABLE} or {KEY_VARIABLE} tell where it is"
    )
    return key_files.load_or_create(file, "the service's", missing="" if make else needed)
