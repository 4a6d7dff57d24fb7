"""Users: create, list, show and update the people that an integrator registered."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sql
from sqlalchemy import bindparam

from exposurekit.contract.operations import LIST_LIMIT_DEFAULT
from exposurekit.service.accounts import consent, integrators, user_items
from exposurekit.service.accounts.documents import NAMES, Account
from exposurekit.service.accounts.subject import Subject, changed_fields
from exposurekit.service.errors import QUOTA_REASON, ApiError
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.encrypted_columns import PERSON, SECRET

SECRET_LOW, SECRET_HIGH = 10**17, 10**18  # spec does not say: the format of a secret; here 18 digits
_LIST_PART = 100  # users of a list that are decrypted before other requests have a turn
# The same message for an unknown id and a wrong secret.
UNKNOWN_USER = "the user's id or secret is not accepted"

_users = tables.users.c


async def create(session: Session, integrator_id: int, values: Mapping[str, Any]) -> Account:
    """Create a user and activate the service; if consent is attested, schedule a scan.

    Raises `ApiError`: 400 if a birth date is in the future, a list item has an id, or the integrator has as many users as it may have, 401 if the
    integrator was removed meanwhile.
    """
    _check_birth_date(session, values)
    secret = str(secrets.randbelow(SECRET_HIGH - SECRET_LOW) + SECRET_LOW)
    person = {**{name: values.get(name, "") for name in NAMES}, "birth_date": values.get("birth_date")}
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


def _check_birth_date(session: Session, values: Mapping[str, Any]) -> None:
    """Refuse a day that is in the future everywhere."""
    tomorrow = session.clock.now() + timedelta(days=1)
    if (values.get("birth_date") or 0) > tomorrow.timestamp():
        raise ApiError(400, "birth_date is invalid: it must not be in the future")


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
        problem = f"the quota of {quota:,} people is reached: ask the operator to raise it"
        raise ApiError(400, problem, reason=QUOTA_REASON)


async def update(
    session: Session, account: Account, values: Mapping[str, Any]
) -> tuple[Account, frozenset[str]]:
    """Update a user: fields that are not in ``values`` are unchanged, blank ones are cleared.

    Return the account, and the user fields for which a search or a form may now get another value. Raises `ApiError`: 400 if a birth date is in the future or a list
    item's id is not one of this user's, 401 if the user was erased meanwhile.
    """
    _check_birth_date(session, values)
    try:
        await consent.lock_user(session, account.id)
    except consent.NoSuchUser:
        raise ApiError(401, UNKNOWN_USER) from None
    [row] = await session.all(_PERSON, {"user_id": account.id})
    person = session.decrypt(PERSON, account.id, row.ciphertext)
    changed = person | {name: values[name] for name in person if name in values}
    ciphertext = row.ciphertext
    before = Subject.from_profile(person, await user_items.load_items(session, account.id))
    if changed != person:
        ciphertext = session.encrypt(PERSON, account.id, changed)
        await session.run(sql.update(tables.users).filter_by(id=account.id).values(ciphertext=ciphertext))
    await user_items.update_items(session, account.id, values)
    after = Subject.from_profile(changed, await user_items.load_items(session, account.id))
    return replace(account, ciphertext=ciphertext), changed_fields(before, after)


async def page(session: Session, integrator_id: int, values: Mapping[str, Any]) -> bytes:
    """Return one page of an integrator's users as JSON, ordered by id."""
    [(count,)] = await session.rows(_COUNT, {"integrator_id": integrator_id})
    rows = await session.rows(_PAGE, _bounds(integrator_id, values))
    items: list[bytes] = []
    for begin in range(0, len(rows), _LIST_PART):
        if begin:
            await asyncio.sleep(0)  # a long list takes milliseconds
        part = rows[begin : begin + _LIST_PART]
        user_secrets = session.all_readable_json(
            [(SECRET, user_id, ciphertext) for user_id, ciphertext in part]
        )
        pairs = zip(part, user_secrets, strict=True)
        items += [b'{"id":%d,"secret":%b}' % (row[0], secret) for row, secret in pairs if secret is not None]
    # spec does not say: count or total; both are returned, and both count all users of the integrator
    return b'{"count":%d,"total":%d,"users":[%b]}' % (count, count, b",".join(items))


def _bounds(integrator_id: int, values: Mapping[str, Any]) -> dict[str, int]:
    limit, offset = values.get("limit") or LIST_LIMIT_DEFAULT, values.get("offset") or 0
    return {"integrator_id": integrator_id, "limit": limit, "offset": offset}


async def refresh(session: Session, account: Account) -> Account:
    """Reload whether the user is being scanned; raises `ApiError` 401 if the user was erased."""
    row = await session.first(sql.select(_users.is_scanning).filter_by(id=account.id))
    if row is None:
        raise ApiError(401, UNKNOWN_USER)
    return replace(account, is_scanning=row.is_scanning)


async def is_registered(session: Session, user_id: int) -> bool:
    """Return whether a user has this id, also if their data is damaged."""
    return await session.first(sql.select(_users.id).filter_by(id=user_id)) is not None


async def get_subject(session: Session, user_id: int) -> Subject | None:
    """Return the user as the subject of a scan; None: no user has this id."""
    row = await session.first(_PERSON, {"user_id": user_id})
    if row is None:
        return None
    return Subject.from_profile(
        session.decrypt(PERSON, user_id, row.ciphertext), await user_items.load_items(session, user_id)
    )


_PERSON = sql.select(_users.ciphertext).where(_users.id == bindparam("user_id"))
_OWN = _users.integrator_id == bindparam("integrator_id")
_COUNT = sql.select(sql.func.count().label("users")).select_from(tables.users).where(_OWN)
_PAGE = (
    sql.select(_users.id, _users.secret_ciphertext)
    .where(_OWN)
    .order_by(_users.id)
    .limit(bindparam("limit"))
    .offset(bindparam("offset"))
)
