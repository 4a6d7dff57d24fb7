"""Users: create, list, show and update the people that an integrator registered."""

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
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.accounts.user_items import KINDS
from exposurekit.service.errors import ApiError
from exposurekit.service.models import record_resource
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import DAMAGED, Session

INSTANT_FORMAT = "%Y/%m/%d %H:%M:%S +0000"
SECRET_LOW, SECRET_HIGH = 10**17, 10**18  # spec does not say: the format of a secret; here 18 digits
# The same message for an unknown id and a wrong secret.
UNKNOWN_USER = "the user's id or secret is not accepted"
_NAMES = ("first_name", "middle_name", "last_name")
PERSON, SECRET = "users", "secrets"  # purposes of a user's ciphertexts

_users, _user_items, _records = tables.users.c, tables.user_items.c, tables.records.c
_links, _history = tables.links.c, tables.service_history.c


@dataclass(frozen=True, slots=True)
class Account:
    """A user's row, encrypted except for the secret."""

    id: int
    secret: str = field(repr=False)
    ciphertext: bytes = field(repr=False)
    is_scanning: bool
    identification_on_file: bool
    version: int = 0  # counts changes of what the API shows of the user

    @property
    def cache_key(self) -> tuple[int, int, bool, bool]:
        """Equal as long as the API shows the same of the user."""
        return self.id, self.version, self.is_scanning, self.identification_on_file


async def create(session: Session, integrator_id: int, values: Mapping[str, Any]) -> Account:
    """Create a user and activate the service; if consent is attested, schedule a scan.

    Raises `ApiError`: 400 if a list item has an id, or the integrator has as many users as it may have, 401 if the
    integrator was removed meanwhile.
    """
    secret = str(secrets.randbelow(SECRET_HIGH - SECRET_LOW) + SECRET_LOW)
    person = {**{name: values.get(name, "") for name in _NAMES}, "birth_date": values.get("birth_date")}
    now = session.clock.now()
    integrator = await integrators.lock(session, integrator_id)
    if integrator is None:
        raise ApiError(401, integrators.NOT_ACCEPTED)  # removed meanwhile
    await _check_quota(session, integrator_id, integrator.people_max)
    # The row comes first: ciphertexts are bound to its id.
    row = {"integrator_id": integrator_id, "secret_ciphertext": b"", "ciphertext": b"", "created_at": now}
    user_id = await session.add(sql.insert(tables.users), row)
    ciphertext = session.encrypt(PERSON, user_id, person)
    encrypted = {"ciphertext": ciphertext, "secret_ciphertext": session.encrypt(SECRET, user_id, secret)}
    await session.run(sql.update(tables.users).filter_by(id=user_id).values(**encrypted))
    await user_items.update_items(session, user_id, values)
    await consent.activate(session, user_id)
    if integrator.attested_by is not None:
        await consent.consent(session, user_id, granted_by=integrator.attested_by)
    is_scanning = integrator.attested_by is not None
    return Account(user_id, secret, ciphertext, is_scanning=is_scanning, identification_on_file=False)


async def check_may_create(session: Session, integrator_id: int) -> bool:
    """Return whether a new user would be scanned; raises the `ApiError` of `create` that depends on no value."""
    row = tables.integrators.c
    integrator = await session.first(
        sql.select(row.attested_by, row.people_max).where(row.id == integrator_id)
    )
    if integrator is None:
        raise ApiError(401, integrators.NOT_ACCEPTED)
    await _check_quota(session, integrator_id, integrator.people_max)
    return integrator.attested_by is not None


async def _check_quota(session: Session, integrator_id: int, quota: int | None) -> None:
    if quota is None:
        return
    [(people,)] = await session.rows(_COUNT, {"integrator_id": integrator_id})
    if people >= quota:
        raise ApiError(400, f"the quota of {quota:,} people is reached: ask the operator to raise it")


async def update(session: Session, account: Account, values: Mapping[str, Any]) -> tuple[Account, bool]:
    """Update a user: fields that are not in ``values`` are unchanged, blank ones are cleared.

    Return the account, and whether anything changed. Raises `ApiError`: 400 if a list item's id is not one of this
    user's, 401 if the user was erased meanwhile.
    """
    try:
        await consent.lock_user(session, account.id)
    except consent.NoSuchUser:
        raise ApiError(401, UNKNOWN_USER) from None
    [row] = await session.all(_PERSON, {"user_id": account.id})
    person = session.decrypt(PERSON, account.id, row.ciphertext)
    changed = person | {name: values[name] for name in person if name in values}
    ciphertext = row.ciphertext
    if changed != person:
        ciphertext = session.encrypt(PERSON, account.id, changed)
        await session.run(sql.update(tables.users).filter_by(id=account.id).values(ciphertext=ciphertext))
    items_changed = await user_items.update_items(session, account.id, values)
    return replace(account, ciphertext=ciphertext), items_changed or changed != person


async def page(session: Session, integrator_id: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return one page of an integrator's users, ordered by id."""
    [(count,)] = await session.rows(_COUNT, {"integrator_id": integrator_id})
    rows = await session.rows(_PAGE, _bounds(integrator_id, values))
    user_secrets = session.decrypt_readable([(SECRET, user_id, ciphertext) for user_id, ciphertext in rows])
    users = [
        {"id": row[0], "secret": secret}
        for row, secret in zip(rows, user_secrets, strict=True)
        if secret is not DAMAGED
    ]
    # spec does not say: count or total; both are returned, and both count all users of the integrator
    return {"count": count, "total": count, "users": users}


async def page_cache_key(
    session: Session, integrator_id: int, values: Mapping[str, Any]
) -> tuple[int, bytes]:
    """Return a key that is equal as long as the page is: the number of users, and a digest of the ids on it.

    Ids are never reused, and a secret never changes. The highest id is not enough: on PostgreSQL a transaction may
    commit a lower one later.
    """
    [(count, ids)] = await session.rows(_PAGE_CACHE_KEY, _bounds(integrator_id, values))
    return count, hashlib.sha256((ids or "").encode()).digest()


def _bounds(integrator_id: int, values: Mapping[str, Any]) -> dict[str, int]:
    limit, offset = values.get("limit") or LIST_LIMIT_DEFAULT, values.get("offset") or 0
    return {"integrator_id": integrator_id, "limit": limit, "offset": offset}


async def show(session: Session, account: Account, *, with_removal_fields: bool = False) -> dict[str, Any]:
    """Return a user as the specification describes one, with all findings."""
    lists: dict[str, list[dict[str, Any]]] = {
        part: [] for part in (*KINDS, "records", "links", "service_history")
    }
    rows = sorted(await session.rows(_PROFILE_ROWS, {"user_id": account.id}), key=itemgetter(1))
    person = session.decrypt(PERSON, account.id, account.ciphertext)
    plaintexts = iter(
        session.decrypt_readable([(row[0], account.id, row[-1]) for row in rows if row[-1] is not None])
    )
    for part, row_id, state, site, at, ciphertext in rows:
        stored: Any = None if ciphertext is None else next(plaintexts)
        if stored is DAMAGED:
            continue
        resource: dict[str, Any]
        if part == "records":
            resource = record_resource(row_id, site, state, stored, with_removal_fields=with_removal_fields)
        elif part == "service_history":
            resource = {state: at.strftime(INSTANT_FORMAT)}
        else:
            resource = stored if part == "links" else user_items.item_resource(part, row_id, stored)
        lists[part].append(resource)
    return {
        "id": account.id,
        "secret": account.secret,
        "birth_date": person["birth_date"],
        **{name: person[name] for name in _NAMES},
        **lists,
        "is_scanning": account.is_scanning,
        "identification_on_file": account.identification_on_file,
    }


async def refresh(session: Session, account: Account) -> Account:
    """Reload whether the user is being scanned; raises `ApiError` 401 if the user was erased."""
    row = await session.first(sql.select(_users.is_scanning).filter_by(id=account.id))
    if row is None:
        raise ApiError(401, UNKNOWN_USER)
    return replace(account, is_scanning=row.is_scanning)


async def get_subject(session: Session, user_id: int) -> Subject | None:
    """Return the user as the subject of a scan; None: no user has this id."""
    row = await session.first(_PERSON, {"user_id": user_id})
    if row is None:
        return None
    return Subject.from_profile(
        session.decrypt(PERSON, user_id, row.ciphertext), await user_items.load_items(session, user_id)
    )


def decrypt_secret(session: Session, user_id: int, ciphertext: bytes) -> str:
    """Decrypt a user's secret."""
    return str(session.decrypt(SECRET, user_id, ciphertext))


_PERSON = sql.select(_users.ciphertext).where(_users.id == bindparam("user_id"))
_OWN = _users.integrator_id == bindparam("integrator_id")
_COUNT = sql.select(sql.func.count().label("users")).select_from(tables.users).where(_OWN)


def _select_page(*columns: sql.ColumnElement[Any]) -> sql.Select[Any]:
    page = sql.select(*columns).where(_OWN).order_by(_users.id)
    return page.limit(bindparam("limit")).offset(bindparam("offset"))


_PAGE = _select_page(_users.id, _users.secret_ciphertext)
_COMMA: Any = sql.literal_column("','")
_ON_PAGE = _select_page(_users.id).subquery()
_PAGE_CACHE_KEY = (
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


# One statement for the five tables: a round trip costs more than the rows.
_PROFILE_ROWS = sql.union_all(
    sql.select(
        _user_items.kind, _user_items.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _user_items.ciphertext
    ).where(_user_items.user_id == bindparam("user_id")),
    _part("records", _records.id, _records.status, _records.site, _NO_INSTANT, _records.ciphertext),
    _part("links", _links.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _links.ciphertext),
    _part("service_history", _history.id, _history.event, _NO_TEXT, _history.at, _NO_BYTES),
)
