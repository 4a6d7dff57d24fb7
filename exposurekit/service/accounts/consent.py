"""What stands between a person and the scanner: consent, and activation. Also forgets a person, wholly.

Nothing is looked up or submitted for anybody without a consent that is recorded: who gave it, when, for what. An
integrator's attestation, given once by its operator, is written to each person that it registers.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, bindparam, delete, exists, func, insert, select, update

from exposurekit.errors import ExposureError
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import consents, records, service_history, users

ACTIVATED, DEACTIVATED = "activated_service_on", "deactivated_service_on"
PURPOSE = "scan and removal"


class NoSuchUser(ExposureError):
    """Nobody of that id is registered."""


async def lock_user(work: Session, user_id: int) -> Row[Any]:
    """The person's row, nobody else's until the end of the transaction: what happens to one person has an order.

    Whoever changes what is shown of a person holds them first; their version tells that there was a change.

    Raises:
        NoSuchUser: Nobody of that id is registered.
    """
    row = await work.first(_HELD, {"user_id": user_id})
    if row is None:
        raise NoSuchUser("nobody of that id is registered")
    return row


async def may_scan(work: Session, user_id: int) -> bool:
    """Whether the service is activated for a person and a consent is in force."""
    last = await work.first(_LAST_EVENT, {"user_id": user_id})
    consent = await work.first(_IN_FORCE, {"user_id": user_id, "purpose": PURPOSE})
    return last is not None and last.event == ACTIVATED and consent is not None


async def counts(work: Session) -> dict[str, int]:
    """How many people are registered, for how many the service is active, consents, and how many may be scanned."""
    [row] = await work.all(_COUNTS, {"purpose": PURPOSE})
    return dict(row._mapping)  # noqa: SLF001  the public name of a row's columns


async def consent(work: Session, user_id: int, *, given_by: str) -> None:
    """Record that a person consents, unless a consent is in force; a scan is due at once in either case.

    Raises:
        NoSuchUser: Nobody of that id is registered.
    """
    await lock_user(work, user_id)
    if await work.first(_IN_FORCE, {"user_id": user_id, "purpose": PURPOSE}) is None:
        row = {"user_id": user_id, "purpose": PURPOSE, "given_by": given_by, "given_at": work.clock.now()}
        await work.add(insert(consents), row)
    await plan_scan(work, user_id)


async def withdraw(work: Session, user_id: int, *, withdrawn_by: str) -> int:
    """A person consents no longer: nothing more is looked up or submitted; how many consents were in force.

    Raises:
        NoSuchUser: Nobody of that id is registered.
    """
    await lock_user(work, user_id)
    ended = {"withdrawn_by": withdrawn_by, "withdrawn_at": work.clock.now()}
    ours = and_(consents.c.user_id == user_id, consents.c.withdrawn_at.is_(None))
    withdrawn = await work.run(update(consents).where(ours).values(**ended))
    await _cancel_work(work, user_id)
    return withdrawn


async def activate(work: Session, user_id: int) -> None:
    """Activate the service for a person, unless it is active; a scan is due at once in either case, given consent.

    Raises:
        NoSuchUser: Nobody of that id is registered.
    """
    await _enter(work, user_id, ACTIVATED)
    await plan_scan(work, user_id)


async def deactivate(work: Session, user_id: int) -> None:
    """Deactivate the service for a person, unless it is; nothing is due for them. What was found stays.

    Raises:
        NoSuchUser: Nobody of that id is registered.
    """
    await _enter(work, user_id, DEACTIVATED)
    await _cancel_work(work, user_id)


async def plan_scan(work: Session, user_id: int, at: datetime | None = None) -> bool:
    """A scan is due, now or then, if one may be made; whether it may."""
    if not await may_scan(work, user_id):
        return False
    now = work.clock.now()
    await work.run(_PLAN, {"user_id": user_id, "at": at or now, "scanning": at is None or at <= now})
    return True


async def purge(work: Session, user_id: int) -> None:
    """Forget a person: nothing is left of them in any table.

    Raises:
        NoSuchUser: Nobody of that id is registered.
    """
    await lock_user(work, user_id)
    await work.run(delete(users).where(users.c.id == user_id))  # every other table goes with it


async def _enter(work: Session, user_id: int, event: str) -> None:
    await lock_user(work, user_id)
    last = await work.first(_LAST_EVENT, {"user_id": user_id})
    if last is None or last.event != event:
        row = {"user_id": user_id, "event": event, "at": work.clock.now()}
        await work.add(insert(service_history), row)


async def _cancel_work(work: Session, user_id: int) -> None:
    """Nothing is due for this person; whoever is at work on them finds that the row is not theirs."""
    await leases.clear(work, users, users.c.id == user_id, due_at=None, is_scanning=False)
    await leases.clear(work, records, records.c.user_id == user_id, due_at=None)


_HELD = (
    update(users)
    .where(users.c.id == bindparam("user_id"))
    .values(version=users.c.version + 1)
    .returning(users.c.id, users.c.integrator_id)
)
_LAST_EVENT = (
    select(service_history.c.event)
    .where(service_history.c.user_id == bindparam("user_id"))
    .order_by(service_history.c.id.desc())
    .limit(1)
)
_IN_FORCE = select(consents.c.id).where(
    consents.c.user_id == bindparam("user_id"),
    consents.c.purpose == bindparam("purpose"),
    consents.c.withdrawn_at.is_(None),
)
_is_active = (
    select(service_history.c.event)
    .where(service_history.c.user_id == users.c.id)
    .order_by(service_history.c.id.desc())
    .limit(1)
    .scalar_subquery()
) == ACTIVATED
_consents = exists().where(
    consents.c.user_id == users.c.id,
    consents.c.purpose == bindparam("purpose"),
    consents.c.withdrawn_at.is_(None),
)
_COUNTS = select(
    func.count().label("registered"),
    func.count().filter(_is_active).label("active"),
    func.count().filter(_consents).label("with_consent"),
    func.count().filter(_is_active, _consents).label("may_be_scanned"),
).select_from(users)
_PLAN = (
    update(users)
    .where(users.c.id == bindparam("user_id"))
    .values(due_at=bindparam("at"), is_scanning=bindparam("scanning"))
)
