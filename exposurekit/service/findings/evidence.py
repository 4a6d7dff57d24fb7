"""Evidence: what a page showed when a listing was found, and when its removal was verified.

An entry's content is encrypted and deleted with the person. Its digest stays, and reveals nothing without the content,
which contains a random salt. Once a UTC day is over, `make_roots` signs one root over the digests of its entries and the
root before. So a purge breaks nothing, and nobody without the service's key can change, add or remove entries of earlier
days unnoticed. `export` writes a person's entries as a bundle, which anybody can verify.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from itertools import groupby
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Exists,
    and_,
    bindparam,
    insert,
    select,
    update,
)

from exposurekit.contract import evidence_bundle
from exposurekit.contract.evidence_bundle import AFTER, BEFORE
from exposurekit.contract.evidence_roots import NO_ROOT, Root, Tree
from exposurekit.service.models import Excerpt, Listing
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encrypted_columns import EVIDENCE

PAGES_MAX = 4  # of an absence
_ADDRESS_MAX, _QUERY_MAX, _TEXT_MAX = 1_000, 2_000, 800  # bytes in JSON
_OTHER_BYTES = 600  # names, numbers and times of an entry
_LOCK = 6_148_820_357  # an arbitrary number: no entry is appended while roots are made

_evidence, _entries, _roots = tables.evidence.c, tables.evidence_entries.c, tables.evidence_roots.c


@dataclass(frozen=True, slots=True)
class Export:
    """A person's bundle, and what is not in it."""

    content: bytes = field(repr=False)
    before: int  # entries
    after: int
    not_rooted: int  # entries of today, whose root is made after midnight
    damaged: int  # entries that cannot be read, or do not have their digest
    new_roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """The scan of a site that an entry is from."""

    id: str
    site: str
    source: str  # "scan", or "saved page" for pages that a person saved
    at: datetime


def new_scan_id() -> str:
    """Return a random id, which the entries of one scan share."""
    return secrets.token_hex(8)


def is_recorded(record_id: ColumnElement[int]) -> Exists:
    """Return the condition that a record has evidence of how it was found."""
    return select(_evidence.id).where(_evidence.record_id == record_id, _evidence.kind == BEFORE).exists()


def before(listing: Listing, scan: Scan) -> dict[str, Any]:
    """Return the content of an entry: how a page showed a listing."""
    return _content(BEFORE, listing, [listing.excerpt] if listing.excerpt else [], scan)


def after(listing: Listing, pages: Sequence[Excerpt], scan: Scan) -> dict[str, Any]:
    """Return the content of an entry: the pages that do not show a stored listing any more."""
    return _content(AFTER, listing, pages[:PAGES_MAX], scan)


def _content(kind: str, listing: Listing, pages: Sequence[Excerpt], scan: Scan) -> dict[str, Any]:
    """Return an entry's content without its record; texts are cut to fit `evidence_bundle.ENTRY_BYTES_MAX`."""
    query = None if listing.query is None else dict(listing.query)
    values: dict[str, Any] = {
        "kind": kind,
        "site": _cut(scan.site, _TEXT_MAX),
        "observed_at": scan.at.isoformat(timespec="microseconds"),
        "scan_id": scan.id,
        "source": scan.source,
        "reference_id": _cut(listing.reference_id, _TEXT_MAX),
        "href": listing.href if _size(listing.href) <= _QUERY_MAX else None,
        "query": query if _size(query) <= _QUERY_MAX else None,
    }
    without_text = [_page(page, "") for page in pages]
    room = evidence_bundle.ENTRY_BYTES_MAX - _OTHER_BYTES - _size(values | {"pages": without_text})
    return values | {"pages": [_page(page, _cut(page.text, room // len(pages))) for page in pages]}


def _page(excerpt: Excerpt, visible: str) -> dict[str, Any]:
    return {
        "address": excerpt.address if _size(excerpt.address) <= _ADDRESS_MAX else None,
        "status": excerpt.status,
        "text": visible,
        "sha256": excerpt.sha256,
        "is_cut": excerpt.is_cut or visible != excerpt.text,
    }


def _size(value: Any) -> int:
    return len(evidence_bundle.encode({"": value}))


def _cut(value: str, bytes_max: int) -> str:
    """Return as much of a text as has at most that many bytes in JSON."""
    if _size(value) <= bytes_max:
        return value
    low, high = 0, len(value)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(value[:middle]) <= bytes_max:
            low = middle
        else:
            high = middle - 1
    return value[:low]


async def append(session: Session, user_id: int, record_id: int, content: Mapping[str, Any]) -> None:
    """Append an entry with the content of `before` or `after` for a user's record. The user must be locked."""
    await session.serialize(_LOCK, shared=True)
    now = session.clock.now()
    complete = {
        **content,
        "user_id": user_id,
        "record_id": record_id,
        "recorded_at": now.isoformat(timespec="microseconds"),
        "salt": secrets.token_hex(16),
    }
    digest = hashlib.sha256(evidence_bundle.encode(complete)).digest()
    entry_id = await session.add(_ADD_ENTRY, {"day": now.date().isoformat(), "digest": digest})
    row = {"id": entry_id, "user_id": user_id, "record_id": record_id, "kind": content["kind"]}
    await session.add(_ADD, row | {"ciphertext": session.encrypt(EVIDENCE, user_id, complete)})


async def roots_are_due(session: Session) -> bool:
    """Return whether `make_roots` has entries to sign."""
    return await session.first(select(_entries.id).where(_is_due(session)).limit(1)) is not None


async def make_roots(session: Session) -> list[Root]:
    """Sign a root for each day that is over and has entries without one. Return the new roots.

    Days that the service's clock was ahead of are over, too: after its correction, the days go back, and the numbers go on.
    """
    await session.serialize(_LOCK)
    due = await session.all(
        select(_entries.id, _entries.day, _entries.digest).where(_is_due(session)).order_by(_entries.id)
    )
    last, new_roots = await _last_root(session), list[Root]()
    for day, group in groupby(due, key=lambda row: str(row.day)):
        rows = list(group)
        unsigned = Root(
            number=1 if last is None else last.number + 1,
            day=day,
            entries=len(rows),
            tree=Tree([bytes(row.digest) for row in rows]).hash,
            previous=NO_ROOT if last is None else last.hash,
        )
        last = replace(unsigned, signature=session.vault.sign(unsigned.statement).hex())
        await session.run(insert(tables.evidence_roots), asdict(last))
        in_group = and_(_is_due(session), _entries.day == day, _entries.id.between(rows[0].id, rows[-1].id))
        await session.run(update(tables.evidence_entries).where(in_group).values(root=last.number))
        new_roots.append(last)
    return new_roots


def _is_due(session: Session) -> ColumnElement[bool]:
    return and_(_entries.root.is_(None), _entries.day != session.clock.now().date().isoformat())


async def newest_roots(session: Session, limit: int) -> list[Root]:
    """Return the newest roots, oldest first."""
    rows = await session.all(select(tables.evidence_roots).order_by(_roots.number.desc()).limit(limit))
    return [Root(**row._asdict()) for row in reversed(rows)]


async def _last_root(session: Session) -> Root | None:
    return next(iter(await newest_roots(session, 1)), None)


async def export(session: Session, user_id: int, since: date = date.min, until: date = date.max) -> Export:
    """Return a user's bundle of the entries of these days, both included, after `make_roots`.

    Raises:
        InvalidArgument: That is more evidence than a bundle may contain.
    """
    new_roots = await make_roots(session)
    days = {"since": since.isoformat(), "until": until.isoformat()}
    rows = await session.all(_OF_USER, {"user_id": user_id, **days})
    contents = session.decrypt_readable([(EVIDENCE, user_id, row.ciphertext) for row in rows])
    encoded = [b"" if one is DAMAGED else evidence_bundle.encode(one) for one in contents]
    intact = [
        (row, one)
        for row, one in zip(rows, encoded, strict=True)
        if hashlib.sha256(one).digest() == bytes(row.digest)
    ]
    entries: list[evidence_bundle.RootedEntry] = []
    for number, group in groupby(
        (pair for pair in intact if pair[0].root), key=lambda pair: int(pair[0].root)
    ):
        leaves = await session.all(_OF_ROOT, {"root": number})
        tree = Tree([bytes(leaf.digest) for leaf in leaves])
        positions = {leaf.id: position for position, leaf in enumerate(leaves)}
        entries += [
            evidence_bundle.RootedEntry(one, number, positions[row.id], tree.path(positions[row.id]))
            for row, one in group
        ]
    numbers = [one.root for one in entries]
    between = _roots.number.between(min(numbers, default=0), max(numbers, default=0))
    signed = await session.all(select(tables.evidence_roots).where(between).order_by(_roots.number))
    before = sum(row.kind == BEFORE for row, _ in intact if row.root)
    return Export(
        evidence_bundle.write(
            user_id,
            entries,
            [Root(**row._asdict()) for row in signed],
            key=session.vault.public_key,
            sign=session.vault.sign,
        ),
        before=before,
        after=len(entries) - before,
        not_rooted=len(intact) - len(entries),
        damaged=len(rows) - len(intact),
        new_roots=tuple(new_roots),
    )


_ADD, _ADD_ENTRY = insert(tables.evidence), insert(tables.evidence_entries)
_OF_USER = (
    select(_evidence.id, _evidence.kind, _evidence.ciphertext, _entries.root, _entries.digest)
    .join_from(tables.evidence, tables.evidence_entries)
    .where(
        _evidence.user_id == bindparam("user_id"),
        _entries.day.between(bindparam("since"), bindparam("until")),
    )
    .order_by(_entries.root, _evidence.id)
)
_OF_ROOT = (
    select(_entries.id, _entries.digest).where(_entries.root == bindparam("root")).order_by(_entries.id)
)
