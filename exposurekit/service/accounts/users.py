"""The people an integrator registered: registered, listed, shown, changed. Decides nothing about who may ask."""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import sqlalchemy as sql
from sqlalchemy import bindparam

from exposurekit.contract.operations import LIST_LIMIT_DEFAULT
from exposurekit.service.accounts import consent, integrators, user_items
from exposurekit.service.accounts.list_inputs import KINDS
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.errors import ApiError
from exposurekit.service.findings import removals
from exposurekit.service.models import shown_record
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Session

INSTANT_FORMAT = "%Y/%m/%d %H:%M:%S +0000"
SECRET_LOW, SECRET_HIGH = 10**17, 10**18  # not shown: what a secret looks like; ours has 18 digits
UNKNOWN_USER = "the user's id or secret is not accepted"  # the same words whichever of the two it is
_NAMES = ("first_name", "middle_name", "last_name")
PERSON, SECRET = "users", "secrets"  # the parts that a person's row is sealed for

_users, _user_items, _records = tables.users.c, tables.user_items.c, tables.records.c
_links, _history = tables.links.c, tables.service_history.c


@dataclass(frozen=True, slots=True)
class Account:
    """A registered person as the database keeps one, still sealed but for the secret.

    Attributes:
        version: Of what is shown of them, when they were looked up.
    """

    id: int
    secret: str = field(repr=False)
    ciphertext: bytes = field(repr=False)
    is_scanning: bool
    identification_on_file: bool
    version: int = 0

    @property
    def state(self) -> tuple[int, int, bool, bool]:
        """What is shown of a person is the same for as long as this is."""
        return self.id, self.version, self.is_scanning, self.identification_on_file


async def create(work: Session, integrator_id: int, values: Mapping[str, Any]) -> Account:
    """Register a person and activate the service for them; where their consent is attested, a scan is due.

    Raises:
        Refusal: 400, a list item bears an id.
    """
    secret = str(secrets.randbelow(SECRET_HIGH - SECRET_LOW) + SECRET_LOW)
    person = {**{name: values.get(name, "") for name in _NAMES}, "birth_date": values.get("birth_date")}
    now = work.clock.now()
    integrator = await work.first(_HELD_INTEGRATOR, {"integrator_id": integrator_id})
    if integrator is None:
        raise ApiError(401, integrators.NOT_ACCEPTED)  # it was removed meanwhile
    # The row comes first: what is sealed is bound to its id.
    row = {"integrator_id": integrator_id, "secret_ciphertext": b"", "ciphertext": b"", "created_at": now}
    user_id = await work.add(_INSERT, row)
    secret_ciphertext, ciphertext = work.seal(SECRET, user_id, secret), work.seal(PERSON, user_id, person)
    await work.run(_SEAL, {"user_id": user_id, "new_secret": secret_ciphertext, "new": ciphertext})
    await user_items.change(work, user_id, values)
    await consent.activate(work, user_id)
    if integrator.attested_by is not None:
        await consent.consent(work, user_id, given_by=integrator.attested_by)
    is_scanning = integrator.attested_by is not None
    return Account(user_id, secret, ciphertext, is_scanning=is_scanning, identification_on_file=False)


async def update(work: Session, account: Account, values: Mapping[str, Any]) -> Account:
    """Change a person: what is not in ``values`` stays, a blank clears.

    Raises:
        Refusal: 400, a list item's id is not one of this person's; 401, the person is gone meanwhile.
    """
    try:
        await consent.lock_user(work, account.id)
    except consent.NoSuchUser:
        raise ApiError(401, UNKNOWN_USER) from None
    [row] = await work.all(_PERSON, {"user_id": account.id})
    person = work.unseal(PERSON, account.id, row.ciphertext)
    changed = person | {name: values[name] for name in person if name in values}
    ciphertext = row.ciphertext
    if changed != person:
        ciphertext = work.seal(PERSON, account.id, changed)
        await work.run(_UPDATE, {"user_id": account.id, "new": ciphertext})
    # Both, always: an item's id that is not theirs is refused even where nothing else has changed.
    if await user_items.change(work, account.id, values) or changed != person:
        await removals.reconsider(work, account.id)
    return replace(account, ciphertext=ciphertext)


async def page(work: Session, integrator_id: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """One page of an integrator's users, in order of id."""
    [(count,)] = await work.rows(_COUNT, {"integrator_id": integrator_id})
    rows = await work.rows(_PAGE, _bounds(integrator_id, values))
    opened = work.unseal_all([(SECRET, user_id, ciphertext) for user_id, ciphertext in rows])
    users = [{"id": row[0], "secret": secret} for row, secret in zip(rows, opened, strict=True)]
    # not shown: which of count and total is returned; both are, and both count all of the integrator's users
    return {"count": count, "total": count, "users": users}


async def page_state(work: Session, integrator_id: int, values: Mapping[str, Any]) -> tuple[int, bytes]:
    """The page is the same for as long as this is: how many users there are, and a digest of the ids on it.

    Ids are never given twice, and a secret never changes. The highest id would not do for the ids: on PostgreSQL
    a transaction may commit a lower one later.
    """
    [(count, ids)] = await work.rows(_PAGE_STATE, _bounds(integrator_id, values))
    return count, hashlib.sha256((ids or "").encode()).digest()


def _bounds(integrator_id: int, values: Mapping[str, Any]) -> dict[str, int]:
    limit, offset = values.get("limit") or LIST_LIMIT_DEFAULT, values.get("offset") or 0
    return {"integrator_id": integrator_id, "limit": limit, "offset": offset}


async def show(work: Session, account: Account, *, with_removal_fields: bool = False) -> dict[str, Any]:
    """A person as the specification describes one, with everything found about them."""
    lists: dict[str, list[dict[str, Any]]] = {
        part: [] for part in (*KINDS, "records", "links", "service_history")
    }
    rows = sorted(await work.rows(_EVERYTHING, {"user_id": account.id}), key=itemgetter(1))
    person = work.unseal(PERSON, account.id, account.ciphertext)
    opened = iter(work.unseal_all([(row[0], account.id, row[-1]) for row in rows if row[-1] is not None]))
    for part, row_id, state, site, at, ciphertext in rows:
        stored: Any = None if ciphertext is None else next(opened)
        shown: dict[str, Any]
        if part == "records":
            shown = shown_record(row_id, site, state, stored, with_removal_fields=with_removal_fields)
        elif part == "service_history":
            shown = {state: at.strftime(INSTANT_FORMAT)}
        else:
            shown = stored if part == "links" else user_items.shown(part, row_id, stored)
        lists[part].append(shown)
    return {
        "id": account.id,
        "secret": account.secret,
        "birth_date": person["birth_date"],
        **{name: person[name] for name in _NAMES},
        **lists,
        "is_scanning": account.is_scanning,
        "identification_on_file": account.identification_on_file,
    }


async def as_it_is(work: Session, account: Account) -> Account:
    """An account after a while: whether it is scanned may have changed, or the person may be gone.

    Raises:
        Refusal: 401, the person is gone.
    """
    row = await work.first(_STATE, {"user_id": account.id})
    if row is None:
        raise ApiError(401, UNKNOWN_USER)
    return replace(account, is_scanning=row.is_scanning)


async def subject_of(work: Session, user_id: int) -> Subject | None:
    """A person as a search sees one; None: nobody of that id is registered."""
    row = await work.first(_PERSON, {"user_id": user_id})
    if row is None:
        return None
    return Subject.of(work.unseal(PERSON, user_id, row.ciphertext), await user_items.lists_of(work, user_id))


def secret_of(work: Session, user_id: int, ciphertext: bytes) -> str:
    """A person's secret, opened."""
    return str(work.unseal(SECRET, user_id, ciphertext))


_INSERT = sql.insert(tables.users)
_HELD_INTEGRATOR = (
    sql.select(tables.integrators.c.attested_by)
    .where(tables.integrators.c.id == bindparam("integrator_id"))
    .with_for_update(read=True)
)
_ONE = _users.id == bindparam("user_id")
_SEAL = (
    sql.update(tables.users)
    .where(_ONE)
    .values(secret_ciphertext=bindparam("new_secret"), ciphertext=bindparam("new"))
)
_UPDATE = sql.update(tables.users).where(_ONE).values(ciphertext=bindparam("new"))
_STATE = sql.select(_users.is_scanning).where(_ONE)
_PERSON = sql.select(_users.ciphertext).where(_ONE)
_OWN = _users.integrator_id == bindparam("integrator_id")
_COUNT = sql.select(sql.func.count().label("users")).select_from(tables.users).where(_OWN)
_PAGE = (
    sql.select(_users.id, _users.secret_ciphertext)
    .where(_OWN)
    .order_by(_users.id)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
_COMMA: Any = sql.literal_column("','")
_ON_PAGE = (
    sql.select(_users.id)
    .where(_OWN)
    .order_by(_users.id)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
    .subquery()
)
_PAGE_STATE = (
    sql.select(
        sql.func.count(),
        sql.select(sql.func.aggregate_strings(sql.cast(_ON_PAGE.c.id, sql.String), _COMMA)).scalar_subquery(),
    )
    .select_from(tables.users)
    .where(_OWN)
)

_NO_TEXT = sql.cast(sql.null(), sql.String)
_NO_INSTANT = sql.cast(sql.null(), tables.Instant)
_NO_BYTES = sql.cast(sql.null(), sql.LargeBinary)


def _part(name: str, *columns: sql.ColumnElement[Any]) -> sql.Select[Any]:
    owner = columns[0].table.c.user_id
    return sql.select(sql.literal_column(f"'{name}'").label("part"), *columns).where(
        owner == bindparam("user_id")
    )


# One statement for the five tables: the way to a database costs more than the rows.
_EVERYTHING = sql.union_all(
    sql.select(
        _user_items.kind, _user_items.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _user_items.ciphertext
    ).where(_user_items.user_id == bindparam("user_id")),
    _part("records", _records.id, _records.status, _records.site, _NO_INSTANT, _records.ciphertext),
    _part("links", _links.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _links.ciphertext),
    _part("service_history", _history.id, _history.event, _NO_TEXT, _history.at, _NO_BYTES),
)
