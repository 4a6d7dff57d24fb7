"""Evidence bundles: zip files of a person's evidence that anybody can verify, without a database, a secret or a network.

::

    README.txt           what this is, and what a verification proves
    manifest.json        the entries in their order, each with its hash and its path to a root, and the roots
    manifest.sig         the service's signature of the manifest
    key.pem              the service's public key
    entries/000001.json  an entry: what was on a page, where and when

The same evidence is the same file, to the byte: members are stored in this order, uncompressed, without times. A bundle is
hostile until it is verified, so a reader writes its members again and accepts no file that differs.
"""

import hashlib
import json
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from io import BytesIO
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from exposurekit.contract.evidence_roots import NO_ROOT, PublicKey, Root, hash_at_end
from exposurekit.errors import InvalidArgument, InvalidEvidence
from exposurekit.text.sanitize import plain

BYTES_MAX = 100 * 2**20
ENTRIES_MAX = 20_000
ENTRY_BYTES_MAX = 15_000  # two, before and after, are a pair
README, MANIFEST, SIGNATURE, KEY = "README.txt", "manifest.json", "manifest.sig", "key.pem"
_FIXED = README, MANIFEST, SIGNATURE, KEY
_ZIP_END, _ZIP64_END = b"PK\5\6", b"PK\6\7"
_MEMBER_MAX = 80  # bytes of a member in the directory
_DAMAGED = "the file is not a bundle, or it was changed: its zip format is damaged"
_TOO_MUCH = f"a bundle has at most {ENTRIES_MAX:,} entries and {BYTES_MAX // 2**20} MiB, and this is more: export fewer days"
_ENTRY = re.compile(r"entries/\d{6}\.json", re.ASCII)
_SIGNED = b"exposurekit evidence manifest 1\n"
_README = """\
Evidence of exposurekit about one person
========================================

This file contains personal data, perhaps also of other people on the same pages.

Each file in entries/ is what a people-search site showed at one time. "before" is the text of the person's listing when it
was found. "after" is the text of the pages of results that no longer showed it, when its removal was verified.

To verify the file, without a network or a database:

    exposurekit evidence verify bundle.zip --key key.pem

key.pem is the key that you got from whoever runs the service, not the one in this file: anybody can make a file with a key
of their own.

What a verification proves: the service with this key recorded these texts at these times, by its own clock. It signed each
day's root, a hash that commits to the entries of that day and to the root before. Nothing was changed, removed, added or
reordered since the export. If somebody kept a root from its day, it also proves that the entries are not younger.

What it does not prove: that a site tells the truth, that a listing is about the person, that the person has no other
listing, or that the service is honest. Long texts are cut; the hash beside a text is that of the whole text, or of its first
500,000 characters.
"""

Hash = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
_Number = Annotated[int, Field(ge=0, lt=2**63)]


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("the year is out of range in UTC") from None


_Time = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Kind = Literal["before", "after"]  # as found, and without it
BEFORE, AFTER = get_args(Kind)
_Parsed = TypeVar("_Parsed", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class PageText(_Model):
    """The text of a page, or of a listing on it."""

    address: str | None = Field(repr=False)  # None: a saved page that does not contain it
    status: int  # of HTTP
    text: str = Field(repr=False)
    sha256: Hash  # of the text, of its first 500,000 characters if it is longer, in UTF-8
    is_cut: bool


class EntryContent(_Model):
    """The content of an entry."""

    user_id: _Number
    record_id: _Number
    site: str
    kind: Kind
    observed_at: _Time  # when the scan was saved
    recorded_at: _Time  # the same, or when a candidate was accepted
    scan_id: str  # entries of one scan have the same
    source: Literal["scan", "saved page"]
    reference_id: str = Field(repr=False)  # the site's own id of the listing
    href: str | None = Field(repr=False)
    query: dict[str, str] | None = Field(repr=False)  # the search that finds the listing
    pages: list[PageText] = Field(repr=False)
    salt: str = Field(repr=False)


class _ManifestEntry(_Model):
    member: str
    sha256: Hash
    root: _Number
    position: _Number
    path: list[Hash] = Field(max_length=64)


class _ManifestRoot(_Model):
    number: _Number
    day: str
    entries: _Number
    tree: Hash
    previous: Hash
    signature: Annotated[str, Field(pattern=r"\A[0-9a-f]{128}\z")]


class _Manifest(_Model):
    format: Literal[1]
    user_id: _Number
    readme: Hash
    entries: list[_ManifestEntry] = Field(max_length=ENTRIES_MAX)
    roots: list[_ManifestRoot]


@dataclass(frozen=True, slots=True)
class RootedEntry:
    """An entry to write: its bytes, its root, and its place and path in the root's tree."""

    content: bytes = field(repr=False)
    root: int
    position: int
    path: Sequence[str]


@dataclass(frozen=True, slots=True)
class VerifiedEntry:
    """An entry of a bundle that verifies."""

    content: EntryContent
    sha256: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that verifies, at least with the key that it contains.

    Attributes:
        user_id: The person that it is about.
        entries: The entries in their order.
        roots: The roots, from the first that is needed to the last.
        key: The key that it is signed with.
        has_expected_key: Whether that is the key that the reader had from elsewhere; if not, anybody may have made it.
    """

    user_id: int
    entries: tuple[VerifiedEntry, ...] = field(repr=False)
    roots: tuple[Root, ...] = field(repr=False)
    key: PublicKey = field(repr=False)
    has_expected_key: bool

    @property
    def clock_was_set_back(self) -> bool:
        """Whether the days of the roots go back, so that the service's clock was wrong on some of them."""
        return any(after.day < before.day for before, after in pairwise(self.roots))


def encode(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of an entry or a manifest, the same for equal values.

    >>> from exposurekit.contract.evidence_bundle import encode
    >>> encode({"b": 1, "a": "é"}).decode()
    '{"a":"é","b":1}'
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def write(
    user_id: int,
    entries: Sequence[RootedEntry],
    roots: Sequence[Root],
    *,
    key: PublicKey,
    sign: Callable[[bytes], bytes],
) -> bytes:
    """Return the bundle of a person's entries, which are ordered by root and position.

    Raises:
        InvalidArgument: They are too many, or too large, for a bundle.
    """
    if len(entries) > ENTRIES_MAX or sum(len(one.content) for one in entries) > BYTES_MAX:
        raise InvalidArgument(_TOO_MUCH)
    members = {f"entries/{number:06}.json": one.content for number, one in enumerate(entries, 1)}
    manifest = encode(
        {
            "format": 1,
            "user_id": user_id,
            "readme": _sha256(_README.encode()),
            "entries": [
                {"member": member, "sha256": _sha256(one.content), "root": one.root}
                | {"position": one.position, "path": list(one.path)}
                for member, one in zip(members, entries, strict=True)
            ],
            "roots": list(map(asdict, roots)),
        }
    )
    fixed = {
        README: _README.encode(),
        MANIFEST: manifest,
        SIGNATURE: sign(_SIGNED + manifest).hex().encode(),
        KEY: key.pem,
    }
    content = _zip(fixed | members)
    if len(content) > BYTES_MAX:
        raise InvalidArgument(_TOO_MUCH)
    return content


def verify(content: bytes, expected_key: PublicKey | None = None) -> Bundle:
    """Verify a bundle, and return what is in it.

    Args:
        content: The file.
        expected_key: The service's key, obtained separately; None: the one in the bundle, which proves only that the
            bundle agrees with itself.

    Raises:
        InvalidEvidence: It does not verify; the message names the member and the problem.
    """
    members = _members(content)
    key = PublicKey.from_pem(members[KEY], KEY)
    if key.pem != members[KEY]:
        raise InvalidEvidence(f"{KEY}: it is not written as the service writes a key")
    if expected_key is not None and expected_key.raw != key.raw:
        raise InvalidEvidence(
            f"{KEY}: the bundle is signed with another key ({key.fingerprint}) than the one you gave "
            f"({expected_key.fingerprint})"
        )
    signature = _unhex(members[SIGNATURE])
    if signature is None or not key.verifies(signature, _SIGNED + members[MANIFEST]):
        raise InvalidEvidence(f"{SIGNATURE}: it is not the key's signature of {MANIFEST}")
    manifest = _parsed(_Manifest, members[MANIFEST], MANIFEST)
    if manifest.readme != _sha256(members[README]):
        raise InvalidEvidence(f"{README}: its hash is not the one in {MANIFEST}")
    roots = tuple(Root(**one.model_dump()) for one in manifest.roots)
    _verify_roots(roots, key)
    _verify_names(members, manifest)
    entries = tuple(_verified_entries(members, manifest, {root.number: root for root in roots}))
    return Bundle(manifest.user_id, entries, roots, key, expected_key is not None)


# --- the file ---------------------------------------------------------------------------------------------


def _zip(members: Mapping[str, bytes]) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members, key=lambda name: (name not in _FIXED, name)):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # whatever this system is
            info.external_attr = 0o600 << 16
            archive.writestr(info, members[name])
    return file.getvalue()


def _members(content: bytes) -> dict[str, bytes]:
    """Return the members of a file that is exactly as `_zip` writes it; nothing is unpacked or written."""
    if len(content) > BYTES_MAX:
        raise InvalidEvidence(f"the file has more than {BYTES_MAX // 2**20} MiB: it is not a bundle")
    _check_end(content)
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            _check_directory(archive.infolist(), len(content))
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OSError, struct.error):
        raise InvalidEvidence(_DAMAGED) from None
    if missing := [name for name in _FIXED if name not in members]:
        raise InvalidEvidence(f"{missing[0]}: it is missing")
    if _zip(members) != content:
        raise InvalidEvidence("the file was changed between or beside its members")
    return members


def _check_end(content: bytes) -> None:
    """Raise for an end that `_zip` does not write, or a larger directory than a bundle's, before that is parsed."""
    end = content[-22:]
    if len(end) < 22 or not end.startswith(_ZIP_END) or content[-42:].startswith(_ZIP64_END):  # noqa: PLR2004
        raise InvalidEvidence(_DAMAGED)
    if int.from_bytes(end[12:16], "little") > _MEMBER_MAX * (ENTRIES_MAX + len(_FIXED)):
        raise InvalidEvidence("the file has a larger directory than a bundle")


def _check_directory(infos: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Raise for names, sizes or methods that no bundle has, before anything is read."""
    names = set[str]()
    if len(infos) > ENTRIES_MAX + len(_FIXED):
        raise InvalidEvidence("the file has too many members for a bundle")
    if sum(info.file_size for info in infos) > size:
        raise InvalidEvidence("the members are larger than the file")
    for info in infos:
        name = info.filename
        if name not in _FIXED and not _ENTRY.fullmatch(name):
            raise InvalidEvidence(f"{plain(name)[:100]}: a bundle has no member of this name")
        if name in names:
            raise InvalidEvidence(f"{name}: it is in the file twice")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits:
            raise InvalidEvidence(f"{name}: it is compressed or encrypted, which a bundle never is")
        names.add(name)


# --- the parts --------------------------------------------------------------------------------------------


def _parsed(model: type[_Parsed], content: bytes, member: str) -> _Parsed:
    try:
        return model.model_validate_json(content)
    except ValidationError:
        pass  # it may quote the content
    raise InvalidEvidence(f"{member}: it does not have the format of a bundle")


def _verify_roots(roots: Sequence[Root], key: PublicKey) -> None:
    for root in roots:
        name = f"{MANIFEST}: root {root.number}"
        if not _is_day(root.day):
            raise InvalidEvidence(f"{name} has no valid day")
        if not key.verifies(bytes.fromhex(root.signature), root.statement):
            raise InvalidEvidence(f"{name}, of {root.day}, is not signed with the key")
        if (root.number == 1) != (root.previous == NO_ROOT) or root.number < 1:
            raise InvalidEvidence(f"{name} is not the first, or not after another")
    for before, root in pairwise(roots):
        if root.number != before.number + 1 or root.previous != before.hash:
            raise InvalidEvidence(f"{MANIFEST}: root {root.number} does not follow root {before.number}")


def _verify_names(members: Mapping[str, bytes], manifest: _Manifest) -> None:
    listed = [one.member for one in manifest.entries]
    if listed != [f"entries/{number:06}.json" for number in range(1, len(listed) + 1)]:
        raise InvalidEvidence(f"{MANIFEST}: the entries are not numbered in their order")
    if missing := [name for name in listed if name not in members]:
        raise InvalidEvidence(f"{missing[0]}: it is missing")
    if unlisted := sorted(members.keys() - {*_FIXED, *listed}):
        raise InvalidEvidence(f"{unlisted[0]}: {MANIFEST} does not list it")


def _verified_entries(
    members: Mapping[str, bytes], manifest: _Manifest, roots: Mapping[int, Root]
) -> Iterator[VerifiedEntry]:
    before = (0, -1)
    for one in manifest.entries:
        content, root = members[one.member], roots.get(one.root)
        digest = hashlib.sha256(content).digest()
        if digest.hex() != one.sha256:
            raise InvalidEvidence(f"{one.member}: its hash is not the one in {MANIFEST}: it was changed")
        if root is None or one.position >= root.entries:
            raise InvalidEvidence(f"{one.member}: it is under no root of {MANIFEST}")
        if hash_at_end(digest, one.position, root.entries, one.path) != root.tree:
            raise InvalidEvidence(f"{one.member}: it does not lead to the root of {root.day}")
        if (one.root, one.position) <= before:
            raise InvalidEvidence(f"{one.member}: it is not after the entry before it")
        before = one.root, one.position
        entry = _parsed(EntryContent, content, one.member)
        if entry.user_id != manifest.user_id:
            raise InvalidEvidence(f"{one.member}: it is about another person than the bundle")
        if entry.recorded_at.date().isoformat() != root.day:
            raise InvalidEvidence(f"{one.member}: its time is not on the day of its root, {root.day}")
        yield VerifiedEntry(entry, one.sha256)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _unhex(text: bytes) -> bytes | None:
    return bytes.fromhex(text.decode("latin-1")) if re.fullmatch(rb"[0-9a-f]{128}", text) else None


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
