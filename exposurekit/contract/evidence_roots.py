"""Roots of evidence: one signed hash a day, which commits to all entries of that day and to the root before.

The SHA-256 digests of a day's entries are the leaves of a Merkle tree, as in RFC 9162, so a path of a few hashes shows that
an entry is among them, without the others. A root is an Ed25519 signature over the tree's hash and the hash of the root
before. Each entry contains a random salt: without the entry, its digest reveals nothing.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from exposurekit.errors import NEEDS_SERVICE, ConfigurationError, InvalidEvidence

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

NO_ROOT = "0" * 64  # what the first root has as the hash of the one before
KEY_PEM_MAX = 4096  # bytes
_STATEMENT = b"exposurekit evidence root 1\n"


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a day's entries."""

    number: int  # from 1, without gaps
    day: str  # in UTC, such as 2026-11-26
    entries: int
    tree: str  # the hash of the Merkle tree, as 64 hexadecimal digits
    previous: str  # the hash of the root before
    signature: str = ""  # of the statement, as 128 hexadecimal digits

    @property
    def statement(self) -> bytes:
        r"""What is signed, and what the hash is of.

        >>> from exposurekit.contract.evidence_roots import NO_ROOT, Root
        >>> Root(1, "2026-11-26", 2, "ab" * 32, NO_ROOT).statement[:45]
        b'exposurekit evidence root 1\n1 2026-11-26 2 ab'
        """
        values = (self.number, self.day, self.entries, self.tree, self.previous)
        return _STATEMENT + " ".join(map(str, values)).encode()

    @property
    def hash(self) -> str:
        """The hash that the next root contains, as 64 hexadecimal digits."""
        return hashlib.sha256(self.statement).hexdigest()


class Tree:
    """The Merkle tree over the digests of a day's entries, in their order; at least one."""

    def __init__(self, digests: Sequence[bytes]) -> None:
        self._leaves = [_leaf(digest) for digest in digests]

    @cached_property
    def _levels(self) -> list[list[bytes]]:
        levels = [self._leaves]
        while len(level := levels[-1]) > 1:
            pairs = [_node(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
            levels.append(pairs + level[len(level) & ~1 :])  # an odd last node is that of the next level, too
        return levels

    @property
    def hash(self) -> str:
        """The hash of the tree, as 64 hexadecimal digits."""
        return self._levels[-1][0].hex()

    def path(self, position: int) -> list[str]:
        """Return the hashes that lead from the entry at a position, counted from 0, to the hash of the tree."""
        path: list[str] = []
        for level in self._levels[:-1]:
            if (sibling := position ^ 1) < len(level):
                path.append(level[sibling].hex())
            position >>= 1
        return path


def hash_at_end(digest: bytes, position: int, entries: int, path: Sequence[str]) -> str | None:
    """Return the hash to which a path leads from an entry's digest; None: the path has another length.

    >>> from exposurekit.contract.evidence_roots import Tree, hash_at_end
    >>> digests = [b"1" * 32, b"2" * 32, b"3" * 32]
    >>> tree = Tree(digests)
    >>> hash_at_end(digests[2], 2, 3, tree.path(2)) == tree.hash
    True
    """
    hashes, node, size = list(reversed(path)), _leaf(digest), entries
    while size > 1:
        if position ^ 1 < size:
            if not hashes:
                return None
            sibling = bytes.fromhex(hashes.pop())
            node = _node(sibling, node) if position & 1 else _node(node, sibling)
        position >>= 1
        size = (size + 1) >> 1
    return None if hashes else node.hex()


def _leaf(digest: bytes) -> bytes:
    return hashlib.sha256(b"\0" + digest).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


class PublicKey:
    """The public half of an installation's Ed25519 key: verifies what the service signed."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._key: Ed25519PublicKey = _ed25519().Ed25519PublicKey.from_public_bytes(raw)

    @classmethod
    def from_pem(cls, pem: bytes, source: str) -> "PublicKey":
        """Read a key in PEM; raises `InvalidEvidence`, which names the source, if it is not an Ed25519 key."""
        ed25519 = _ed25519()
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization

        try:
            key = serialization.load_pem_public_key(pem[:KEY_PEM_MAX])
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise InvalidEvidence(f"{source}: it is not a public Ed25519 key in PEM")
        return cls(key.public_bytes_raw())

    @property
    def pem(self) -> bytes:
        """The key in PEM, which OpenSSL reads, too."""
        from cryptography.hazmat.primitives import serialization

        pem: bytes = self._key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return pem

    @property
    def fingerprint(self) -> str:
        """The first 32 hexadecimal digits of the key's SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:32]

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether the service signed the message."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise ConfigurationError(NEEDS_SERVICE) from None
    return ed25519
