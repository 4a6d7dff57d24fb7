"""The people an integrator registered: registered, listed, shown, changed. Decides nothing about who may ask."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import sqlalchemy as sql
from sqlalchemy import bindparam

from exposurekit.contract.operations import LIST_LIMIT_DEFAULT
from exposurekit.service import details, integrators, tables
from exposurekit.service.database import Work
from exposurekit.service.items import KINDS
from exposurekit.service.refusals import Refusal
from exposurekit.service.sightings import shown_record

ACTIVATED, DEACTIVATED = "activated_service_on", "deactivated_service_on"
INSTANT_FORMAT = "%Y/%m/%d %H:%M:%S +0000"
SECRET_LOW, SECRET_HIGH = 10**17, 10**18  # not shown: what a secret looks like; ours has 18 digits
UNKNOWN_USER = "the user's id or secret is not accepted"  # the same words whichever of the two it is
_NAMES = ("first_name", "middle_name", "last_name")
PERSON, SECRET = "users", "secrets"  # the parts that a person's row is sealed for

_users, _details, _records = tables.users.c, tables.details.c, tables.records.c
_links, _history = tables.links.c, tables.service_history.c


@dataclass(frozen=True, slots=True)
class Account:
    """A registered person as the database keeps one, opened but for the lists."""

    id: int
    secret: str = field(repr=False)
    person: Mapping[str, Any] = field(repr=False)
    is_scanning: bool
    identification_on_file: bool


async def create(work: Work, integrator_id: int, values: Mapping[str, Any]) -> Account:
    """Register a person and activate the service for them.

    Raises:
        Refusal: 400, a list item bears an id.
    """
    secret = str(secrets.randbelow(SECRET_HIGH - SECRET_LOW) + SECRET_LOW)
    person = {**{name: values.get(name, "") for name in _NAMES}, "birth_date": values.get("birth_date")}
    now = work.clock.now()
    if await work.first(_HELD_INTEGRATOR, {"integrator_id": integrator_id}) is None:
        raise Refusal(401, integrators.NOT_ACCEPTED)  # it was removed meanwhile
    # The row comes first: what is sealed is bound to its id.
    row = {"integrator_id": integrator_id, "sealed_secret": b"", "sealed": b"", "created_at": now}
    user_id = await work.add(_INSERT, row)
    sealed_secret, sealed = work.seal(SECRET, user_id, secret), work.seal(PERSON, user_id, person)
    await work.run(_SEAL, {"user_id": user_id, "new_secret": sealed_secret, "new": sealed})
    await details.change(work, user_id, values)
    await work.run(_INSERT_HISTORY, {"user_id": user_id, "event": ACTIVATED, "at": now})
    return Account(user_id, secret, person, is_scanning=False, identification_on_file=False)


async def update(work: Work, account: Account, values: Mapping[str, Any]) -> Account:
    """Change a person: what is not in ``values`` stays, a blank clears.

    Raises:
        Refusal: 400, a list item's id is not one of this person's; 401, the person is gone meanwhile.
    """
    row = await work.first(_HELD, {"user_id": account.id})
    if row is None:
        raise Refusal(401, UNKNOWN_USER)
    person = work.unseal(PERSON, account.id, row.sealed)
    changed = person | {name: values[name] for name in person if name in values}
    if changed != person:
        await work.run(_UPDATE, {"user_id": account.id, "new": work.seal(PERSON, account.id, changed)})
    await details.change(work, account.id, values)
    return replace(account, person=changed)


async def page(work: Work, integrator_id: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """One page of an integrator's users, in order of id."""
    owner = {"integrator_id": integrator_id}
    bounds = {"limit": values.get("limit") or LIST_LIMIT_DEFAULT, "offset": values.get("offset") or 0}
    [counted] = await work.all(_COUNT, owner)
    rows = await work.all(_PAGE, owner | bounds)
    users = [{"id": row.id, "secret": secret_of(work, row.id, row.sealed_secret)} for row in rows]
    # not shown: which of count and total is returned; both are, and both count all of the integrator's users
    return {"count": counted.users, "total": counted.users, "users": users}


async def show(work: Work, account: Account, *, with_removal_fields: bool = False) -> dict[str, Any]:
    """A person as the specification describes one, with everything found about them."""
    lists: dict[str, list[dict[str, Any]]] = {
        part: [] for part in (*KINDS, "records", "links", "service_history")
    }
    rows = await work.all(_EVERYTHING, {"user_id": account.id})
    for part, row_id, state, site, at, sealed in sorted(map(tuple, rows), key=itemgetter(1)):
        if part == "service_history":
            lists[part].append({state: at.strftime(INSTANT_FORMAT)})
            continue
        stored = work.unseal(part, account.id, sealed)
        if part == "records":
            lists[part].append(
                shown_record(row_id, site, state, stored, with_removal_fields=with_removal_fields)
            )
        else:
            lists[part].append(stored if part == "links" else details.shown(part, row_id, stored))
    return {
        "id": account.id,
        "secret": account.secret,
        "birth_date": account.person["birth_date"],
        **{name: account.person[name] for name in _NAMES},
        **lists,
        "is_scanning": account.is_scanning,
        "identification_on_file": account.identification_on_file,
    }


def secret_of(work: Work, user_id: int, sealed: bytes) -> str:
    """A person's secret, opened."""
    return str(work.unseal(SECRET, user_id, sealed))


def account_of(work: Work, user_id: int, secret: str, row: sql.Row[Any]) -> Account:
    """The account in a row of the table of users."""
    person = work.unseal(PERSON, user_id, row.sealed)
    return Account(user_id, secret, person, row.is_scanning, row.identification_on_file)


_INSERT = sql.insert(tables.users)
_HELD_INTEGRATOR = (
    sql.select(tables.integrators.c.id)
    .where(tables.integrators.c.id == bindparam("integrator_id"))
    .with_for_update(read=True)
)
_INSERT_HISTORY = sql.insert(tables.service_history)
_ONE = _users.id == bindparam("user_id")
_SEAL = (
    sql.update(tables.users)
    .where(_ONE)
    .values(sealed_secret=bindparam("new_secret"), sealed=bindparam("new"))
)
_UPDATE = sql.update(tables.users).where(_ONE).values(sealed=bindparam("new"))
_HELD = sql.select(_users.sealed).where(_ONE).with_for_update()
_OWN = _users.integrator_id == bindparam("integrator_id")
_COUNT = sql.select(sql.func.count().label("users")).select_from(tables.users).where(_OWN)
_PAGE = (
    sql.select(_users.id, _users.sealed_secret)
    .where(_OWN)
    .order_by(_users.id)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
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
    sql.select(_details.kind, _details.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _details.sealed).where(
        _details.user_id == bindparam("user_id")
    ),
    _part("records", _records.id, _records.status, _records.site, _NO_INSTANT, _records.sealed),
    _part("links", _links.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _links.sealed),
    _part("service_history", _history.id, _history.event, _NO_TEXT, _history.at, _NO_BYTES),
)
