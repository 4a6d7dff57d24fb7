"""Encryption at rest: AES-256-GCM for values, HMAC-SHA256 fingerprints for lookups, signatures, and the service's key.

Each value is encrypted under a fresh nonce and bound to a purpose (a part of one user's data), so a ciphertext that is
moved to another row does not decrypt. A version byte in front allows key rotation.
"""

import hmac
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import from_json

from exposurekit.contract import codec
from exposurekit.contract.evidence_roots import PublicKey
from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.system import key_files, paths
from exposurekit.system.brief_cache import cached_briefly
from exposurekit.text.sanitize import plain

KEY_VARIABLE, KEY_FILE_VARIABLE = "EXPOSUREKIT_SERVICE_KEY", "EXPOSUREKIT_SERVICE_KEY_FILE"
_VERSION = b"\x01"
_NONCE_BYTES = 12
_HEAD_BYTES = len(_VERSION) + _NONCE_BYTES
_CACHED_FINGERPRINTS, _CACHED_LENGTH = 500, 100  # of the latest texts, and the characters of one
_NOT_DECRYPTABLE = "a stored value cannot be decrypted with this key"


class DecryptionError(ExposureError):
    """A value cannot be decrypted: wrong key, wrong purpose, or modified data."""


class Vault:
    """Encrypts values, computes fingerprints and signs, with one key; `source` says in messages where it is from."""

    def __init__(self, key: bytes, *, source: str = "") -> None:
        if len(key) != key_files.KEY_BYTES:
            raise ConfigurationError(f"the service's key must be {key_files.KEY_BYTES} bytes long")
        self.source = source
        # A separate key for each use, so that a fingerprint reveals nothing about a ciphertext.
        self._cipher = AESGCM(hmac.digest(key, b"exposurekit sealing 1", "sha256"))
        self._fingerprint_key = hmac.digest(key, b"exposurekit fingerprints 1", "sha256")
        self._signing_seed = hmac.digest(key, b"exposurekit signatures 1", "sha256")
        self._cached_fingerprint = cached_briefly(self._compute_fingerprint, entries=_CACHED_FINGERPRINTS)

    def __repr__(self) -> str:
        return "Vault(key hidden)"

    @staticmethod
    def generate_key() -> bytes:
        """Return a new random key."""
        return secrets.token_bytes(key_files.KEY_BYTES)

    @property
    def key_fingerprint(self) -> str:
        """A fingerprint of the key, stored in the database to detect a wrong key."""
        return self.fingerprint("", "key").hex()

    @property
    def public_key(self) -> PublicKey:
        """The key that verifies what the service signs."""
        return PublicKey(self._signing_key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """Sign a message with Ed25519; equal messages have equal signatures."""
        return self._signing_key.sign(message)

    @property
    def _signing_key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self._signing_seed)

    def encrypt(self, value: Any, purpose: str) -> bytes:
        """Encrypt a JSON value for one purpose."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, codec.encode(value, "json"), purpose.encode())

    def decrypt(self, ciphertext: bytes, purpose: str) -> Any:
        """Decrypt a value of this purpose; raises `DecryptionError` for any other."""
        return self.decrypt_all([(ciphertext, purpose)])[0]

    def decrypt_all(self, ciphertexts: Sequence[tuple[bytes, str]]) -> list[Any]:
        """Decrypt many values, each given as ciphertext and purpose; in the same order."""
        # `encrypt` wrote this JSON, so it needs none of the guards for foreign input: 1 us a record instead of 6, and
        # less as one list. Only keys are cached: a cached value would outlive its request.
        texts = self.decrypt_to_json(ciphertexts)
        with suppress(ValueError):
            values: list[Any] = from_json(b"[%b]" % b",".join(texts), cache_strings="keys")
            if len(values) == len(texts):
                return values
        raise DecryptionError(_NOT_DECRYPTABLE)

    def decrypt_to_json(self, ciphertexts: Sequence[tuple[bytes, str]]) -> list[bytes]:
        """Decrypt many values as `decrypt_all` does, each to its JSON."""
        decrypt = self._cipher.decrypt
        try:
            texts = [
                decrypt(one[1:_HEAD_BYTES], one[_HEAD_BYTES:], purpose.encode())
                for one, purpose in ciphertexts
                if one[:1] == _VERSION
            ]
        except (InvalidTag, ValueError):
            texts = []
        if len(texts) == len(ciphertexts):
            return texts
        raise DecryptionError(_NOT_DECRYPTABLE)

    def fingerprint(self, text: str, domain: str) -> bytes:
        """Return 32 bytes that are equal for equal text and domain, and cannot be computed without the key."""
        if len(text) > _CACHED_LENGTH:
            return self._compute_fingerprint(text, domain)
        return self._cached_fingerprint(text, domain)  # in a tenth of the time; each request needs two

    def _compute_fingerprint(self, text: str, domain: str) -> bytes:
        message = f"{domain}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._fingerprint_key, message, "sha256")


def load_key(path: Path | None = None, *, create: bool = True) -> bytes:
    """Load the service's key from the environment, else from a file that is created at first use.

    ``EXPOSUREKIT_SERVICE_KEY`` (base64url of 32 bytes) takes precedence over the file. That is `path`, else
    ``EXPOSUREKIT_SERVICE_KEY_FILE``, else ``exposurekit/service.key`` in the user's configuration directory. Without
    `create` it must exist: an existing database needs its own key.
    """
    if text := os.environ.get(KEY_VARIABLE):
        return key_files.decode_key(text, KEY_VARIABLE)
    file = _key_file(path)
    missing = ConfigurationError(
        f"no key at {plain(file)}, and the database needs the key that it was created with",
        fix=f"put your copy there, or set --key-file, {KEY_FILE_VARIABLE} or {KEY_VARIABLE}",
    )
    return key_files.load_or_create(file, "the service's", missing=None if create else missing)


def key_source(path: Path | None = None) -> str:
    """Return where `load_key` finds the key: the variable, or the file."""
    return KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else plain(_key_file(path))


def _key_file(path: Path | None) -> Path:
    return path or Path(os.environ.get(KEY_FILE_VARIABLE) or paths.config_dir() / "service.key")
