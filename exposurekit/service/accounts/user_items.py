"""The lists of a person, item by item: appended, updated, deleted. Reads no request."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeVar

from sqlalchemy import Executable, Row, bindparam, delete, insert, select, update

from exposurekit.contract.inputs import (
    ITEMS_MAX,
    AddressItem,
    AliasItem,
    EmailItem,
    Item,
    PhoneNumberItem,
)
from exposurekit.contract.models import Address, Alias, Email, PhoneNumber, Resource
from exposurekit.service.errors import ApiError
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.tables import user_items

Fields = dict[str, str]
T = TypeVar("T")
TEXTS_MAX = 64 << 10  # spec does not say: the bytes of all texts in a user's lists
_PART = 50  # items that are written before other requests have a turn


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the lists: its items in requests and responses."""

    request: type[Item]
    response: type[Resource]
    hidden: frozenset[str] = frozenset()  # spec does not say: whether responses have these; stored, not sent

    @property
    def response_fields(self) -> tuple[str, ...]:
        """The fields in a response."""
        return tuple(name for name in self.response.model_fields if name != "id" and name not in self.hidden)


KINDS: Mapping[str, Kind] = {
    "aliases": Kind(AliasItem, Alias, frozenset({"alias_type"})),
    "emails": Kind(EmailItem, Email),
    "phone_numbers": Kind(PhoneNumberItem, PhoneNumber),
    "addresses": Kind(AddressItem, Address, frozenset({"country"})),
}
_SENT = {name: kind.response_fields for name, kind in KINDS.items()}
_OF_USER = select(user_items.c.id, user_items.c.kind, user_items.c.ciphertext).where(
    user_items.c.user_id == bindparam("user_id")
)
_INSERT = insert(user_items)
_UPDATE = (
    update(user_items).where(user_items.c.id == bindparam("item_id")).values(ciphertext=bindparam("new"))
)
_DELETE = delete(user_items).where(user_items.c.id == bindparam("item_id"))


def item_resource(kind: str, item_id: int, fields: Fields) -> dict[str, Any]:
    """Return an item as the specification describes it."""
    item: dict[str, Any] = {"id": item_id, **{name: fields[name] for name in _SENT[kind]}}
    if kind == "addresses":
        item["address2"] = item["address2"] or None  # the one field of an item that may be null
    return item


async def load_items(session: Session, user_id: int) -> dict[str, list[Fields]]:
    """Load a user's four lists, oldest item first."""
    lists: dict[str, list[Fields]] = {kind: [] for kind in KINDS}
    for row, fields in await _stored(session, user_id):
        if fields is not DAMAGED:
            lists[row.kind].append(fields)
    return lists


async def _stored(session: Session, user_id: int) -> list[tuple[Row[Any], Any]]:
    """Return a user's items with their fields, oldest first."""
    rows = sorted(await session.all(_OF_USER, {"user_id": user_id}), key=lambda row: int(row.id))
    values = session.decrypt_readable([(row.kind, user_id, row.ciphertext) for row in rows])
    return list(zip(rows, values, strict=True))


async def update_items(session: Session, user_id: int, lists: Mapping[str, Sequence[Item] | None]) -> bool:
    """Update the lists that are in ``lists``; None clears one. Return whether anything changed.

    An item without id is appended, or ignored with ``_destroy``. An item with id is updated (absent fields stay), or
    deleted with ``_destroy``. Raises `ApiError` 400 if an id is not in that list of the user, or the lists get too long.
    """
    requested = {kind: lists[kind] for kind in KINDS if kind in lists}
    if not requested:
        return False
    stored: dict[str, dict[int, Fields]] = {kind: {} for kind in KINDS}
    for row, fields in await _stored(session, user_id):
        # A damaged item can be deleted or written again.
        stored[row.kind][row.id] = {} if fields is DAMAGED else fields
    plans: dict[str, _Plan] = {}
    for kind, items in requested.items():
        plans[kind] = _plan_changes(kind, stored[kind], items)
        if len(items or ()) > _PART:
            await asyncio.sleep(0)
    _check_size(stored, plans)
    if problems := [problem for plan in plans.values() for problem in plan.problems]:
        raise ApiError(400, *problems)
    for kind, plan in plans.items():
        await _apply_plan(session, user_id, kind, plan)
    return any(plan.deleted or plan.updated or plan.appended for plan in plans.values())


@dataclass(slots=True)
class _Plan:
    deleted: list[int] = field(default_factory=list)
    updated: dict[int, Fields] = field(default_factory=dict)
    appended: list[Fields] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def applied_to(self, stored: Mapping[int, Fields]) -> Iterator[Fields]:
        """Yield the list's items as they will be."""
        gone = {*self.deleted}
        yield from (self.updated.get(key, fields) for key, fields in stored.items() if key not in gone)
        yield from self.appended


def _check_size(stored: Mapping[str, Mapping[int, Fields]], plans: Mapping[str, _Plan]) -> None:
    """Add a problem to each list that grows if all lists together have too much text, and more than before."""
    new = {kind: plan.applied_to(stored[kind]) for kind, plan in plans.items()}
    after = {kind: _bytes(new.get(kind, items.values())) for kind, items in stored.items()}
    if sum(after.values()) <= TEXTS_MAX:
        return
    before = {kind: _bytes(items.values()) for kind, items in stored.items()}
    if sum(after.values()) <= sum(before.values()):
        return
    for kind, plan in plans.items():
        if after[kind] > before[kind]:
            plan.problems.append(f"{kind} is too long: a user's lists have at most {TEXTS_MAX:,} bytes")


def _bytes(items: Iterable[Fields]) -> int:
    return len("".join(chain.from_iterable(fields.values() for fields in items)).encode())


def _plan_changes(kind: str, stored: Mapping[int, Fields], items: Sequence[Item] | None) -> _Plan:
    if items is None:
        return _Plan(deleted=list(stored))
    plan = _Plan()
    remaining = dict(stored)
    blank = dict.fromkeys(KINDS[kind].request.names(), "")
    for index, item in enumerate(items):
        item_id = int(item.id) if item.id else None
        if item_id is None:
            if not item.destroy:
                plan.appended.append({**blank, **item.fields})
        elif item_id not in remaining:
            plan.problems.append(f"{kind}[{index}][id] is invalid: the user has no such item")
        elif item.destroy:
            plan.deleted.append(item_id)
            del remaining[item_id]
        else:
            remaining[item_id] = {**blank, **remaining[item_id], **item.fields}
    if len(remaining) + len(plan.appended) > max(ITEMS_MAX, len(stored)):
        plan.problems.append(f"{kind} has more than {ITEMS_MAX} items")
    plan.updated = {key: fields for key, fields in remaining.items() if fields != stored[key]}
    return plan


async def _apply_plan(session: Session, user_id: int, kind: str, plan: _Plan) -> None:
    for updated in _parts(list(plan.updated.items())):
        rows = [{"item_id": key, "new": session.encrypt(kind, user_id, new)} for key, new in updated]
        await _run_part(session, _UPDATE, rows)
    for deleted in _parts(plan.deleted):
        await _run_part(session, _DELETE, [{"item_id": key} for key in deleted])
    for appended in _parts(plan.appended):
        new_rows = [
            {"user_id": user_id, "kind": kind, "ciphertext": session.encrypt(kind, user_id, new)}
            for new in appended
        ]
        await _run_part(session, _INSERT, new_rows)


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _PART] for start in range(0, len(items), _PART))


async def _run_part(session: Session, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> None:
    await session.run(statement, rows)
    if len(rows) == _PART:
        await asyncio.sleep(0)
