"""Consent and activation: whether a user may be scanned. Also erases a user.

Without a recorded consent (who granted it, when, and for what) nothing is searched or submitted for a user. An operator
can attest consent once for an integrator; it is then recorded for each user that the integrator registers.

Each change raises `NoSuchUser` if no user has the id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    false,
    func,
    insert,
    select,
    true,
    update,
)

from exposurekit.errors import ExposureError
from exposurekit.service.accounts import documents
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import (
    consents,
    integrators,
    mail_requests,
    records,
    service_history,
    users,
)

ACTIVATED, DEACTIVATED = "activated_service_on", "deactivated_service_on"
PURPOSE = "scan and removal"
EARLY_SCAN_DELAY = timedelta(hours=1)  # between scans, however often a user changes


class NoSuchUser(ExposureError):
    """No user has this id."""

    def __init__(self, user_id: int) -> None:
        super().__init__(f"no user has the id {user_id}: exposurekit users list shows the ids")


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered user and their scans, without personal data."""

    user_id: int
    integrator: str
    registered_at: datetime
    is_active: bool
    has_consent: bool
    records: int
    last_scan_at: datetime | None  # the end of the last complete one
    next_scan_at: datetime | None  # None: the user may not be scanned


async def lock_user(session: Session, user_id: int, *, changes: bool = True) -> Row[Any]:
    """Lock a user's row until the end of the transaction, so that changes to one user are serialized.

    Call this before any change of what the API shows of a user. It increments the user's version, which makes their
    document out of date, and the end of the transaction writes a new one; not if the user only has to be locked.
    """
    row = await session.first(_LOCK_USER, {"user_id": user_id, "changes": int(changes)})
    if row is None:
        raise NoSuchUser(user_id)
    if changes:
        session.before_commit((documents.write, user_id), partial(documents.write, user_id=user_id))
    return row


async def may_scan(session: Session, user_id: int) -> bool:
    """Return whether the service is active for a user and a consent is in force."""
    last = await session.first(_LAST_EVENT, {"user_id": user_id})
    consent = await session.first(_IN_FORCE, {"user_id": user_id})
    return last is not None and last.event == ACTIVATED and consent is not None


async def in_force(session: Session, user_id: int) -> Row[Any] | None:
    """Return when the consent in force was granted and by whom; None: there is none."""
    return await session.first(_GRANT, {"user_id": user_id})


async def scannable(session: Session) -> list[int]:
    """Return the ids of the users who may be scanned."""
    return [row.id for row in await session.all(_SCANNABLE)]


async def counts(session: Session) -> dict[str, int]:
    """Count users: registered, active, with consent, and those who may be scanned."""
    [row] = await session.all(_COUNTS)
    return row._asdict()


async def registrations(session: Session, *, limit: int) -> list[Registration]:
    """Return the newest users, in order of id."""
    rows = await session.all(_REGISTRATIONS.limit(limit))
    return [Registration(**row._asdict()) for row in reversed(rows)]


async def rescan(session: Session, user_ids: Sequence[int] | None = None) -> int:
    """Make the next scan of users due now, by default of everybody who may be scanned. Return how many scans are due.

    A scan that is under way is not repeated. Raises `NoSuchUser` if an id is nobody's.
    """
    now = session.clock.now()
    chosen = users.c.id.in_(user_ids) if user_ids is not None else true()
    registered = {row.id for row in await session.all(select(users.c.id).where(chosen))} if user_ids else ()
    if unknown := [user_id for user_id in user_ids or () if user_id not in registered]:
        raise NoSuchUser(unknown[0])
    await session.run(update(users).where(chosen, users.c.due_at > now).values(due_at=now))
    [row] = await session.all(select(func.count().label("due")).where(chosen, users.c.due_at.is_not(None)))
    return int(row.due)


async def consent(session: Session, user_id: int, *, granted_by: str) -> None:
    """Record a user's consent, unless one is in force, and schedule a scan."""
    await lock_user(session, user_id)
    if await session.first(_IN_FORCE, {"user_id": user_id}) is None:
        grant = {"granted_by": granted_by, "granted_at": session.clock.now()}
        await session.add(insert(consents), {"user_id": user_id, "purpose": PURPOSE, **grant})
    await schedule_scan(session, user_id)


async def withdraw(session: Session, user_id: int, *, withdrawn_by: str) -> int:
    """Withdraw a user's consent and cancel their jobs. Return how many consents were in force."""
    await lock_user(session, user_id)
    withdrawal = {"withdrawn_by": withdrawn_by, "withdrawn_at": session.clock.now()}
    in_force = and_(consents.c.user_id == user_id, consents.c.withdrawn_at.is_(None))
    withdrawn = await session.run(update(consents).where(in_force).values(**withdrawal))
    await _cancel_work(session, user_id)
    return withdrawn


async def activate(session: Session, user_id: int) -> None:
    """Activate the service for a user, unless it is active, and schedule a scan if there is consent."""
    await _record_event(session, user_id, ACTIVATED)
    await schedule_scan(session, user_id)


async def deactivate(session: Session, user_id: int) -> None:
    """Deactivate the service for a user and cancel their jobs. Findings stay."""
    await _record_event(session, user_id, DEACTIVATED)
    await _cancel_work(session, user_id)


async def schedule_scan(session: Session, user_id: int) -> bool:
    """Schedule a scan now if the user may be scanned. Return whether they may."""
    if not await may_scan(session, user_id):
        return False
    scan = {"due_at": session.clock.now(), "is_scanning": True}
    await session.run(update(users).filter_by(id=user_id).values(**scan))
    return True


async def schedule_early_scan(session: Session, user_id: int) -> bool:
    """Schedule a scan after a change of what is searched for: now, or `EARLY_SCAN_DELAY` after the last one.

    spec does not say: whether an update starts a scan. Return whether one is due now: `is_scanning` says so.
    """
    if not await may_scan(session, user_id):
        return False
    now, [row] = session.clock.now(), await session.all(_SCAN_TIMES, {"user_id": user_id})
    due_at = now
    if row.scanned_at is not None:  # by a clock that may have been ahead
        due_at = max(now, min(row.scanned_at, now) + EARLY_SCAN_DELAY)
    due_at = min(due_at, row.due_at or due_at)
    scan = {"due_at": due_at} | ({"is_scanning": True} if due_at <= now else {})
    await session.run(update(users).filter_by(id=user_id).values(**scan))
    return due_at <= now


async def purge(session: Session, user_id: int) -> None:
    """Erase a user from every table."""
    await lock_user(session, user_id)
    await session.run(delete(users).where(users.c.id == user_id))  # the other tables cascade


async def _record_event(session: Session, user_id: int, event: str) -> None:
    await lock_user(session, user_id)
    last = await session.first(_LAST_EVENT, {"user_id": user_id})
    if last is None or last.event != event:
        row = {"user_id": user_id, "event": event, "at": session.clock.now()}
        await session.add(insert(service_history), row)


async def _cancel_work(session: Session, user_id: int) -> None:
    """Cancel a user's due jobs, and approved opt-outs by email; a worker that is running a job loses its lease."""
    await leases.clear(session, users, users.c.id == user_id, due_at=None, is_scanning=False)
    await leases.clear(session, records, records.c.user_id == user_id, due_at=None)
    # An approval was for the data of that day: after a new consent, the opt-out is prepared anew.
    approved = (mail_requests.c.user_id == user_id) & (mail_requests.c.state == "approved")
    ended = {"state": "ended", "changed_at": session.clock.now()}
    await session.run(update(mail_requests).where(approved).values(**ended))


_LOCK_USER = (
    update(users)
    .where(users.c.id == bindparam("user_id"))
    .values(version=users.c.version + bindparam("changes", type_=Integer))
    .returning(users.c.id, users.c.integrator_id)
)


def _last_event(user_id: ColumnElement[int]) -> Select[str]:
    events = select(service_history.c.event).where(service_history.c.user_id == user_id)
    return events.order_by(service_history.c.id.desc()).limit(1)


def _in_force(user_id: ColumnElement[int]) -> Select[int]:
    return select(consents.c.id).where(
        consents.c.user_id == user_id, consents.c.purpose == PURPOSE, consents.c.withdrawn_at.is_(None)
    )


_SCAN_TIMES = select(users.c.scanned_at, users.c.due_at).where(users.c.id == bindparam("user_id"))
_GRANT = _in_force(bindparam("user_id")).with_only_columns(consents.c.granted_at, consents.c.granted_by)
_LAST_EVENT, _IN_FORCE = _last_event(bindparam("user_id")), _in_force(bindparam("user_id"))
_is_active = _last_event(users.c.id).scalar_subquery() == ACTIVATED
_has_consent = _in_force(users.c.id).exists()
_SCANNABLE = select(users.c.id).where(_is_active, _has_consent).order_by(users.c.id)
_REGISTRATIONS = (
    select(
        users.c.id.label("user_id"),
        integrators.c.name.label("integrator"),
        users.c.created_at.label("registered_at"),
        func.coalesce(_is_active, false()).label("is_active"),
        _has_consent.label("has_consent"),
        select(func.count()).where(records.c.user_id == users.c.id).scalar_subquery().label("records"),
        users.c.scanned_at.label("last_scan_at"),
        users.c.due_at.label("next_scan_at"),
    )
    .join(integrators, integrators.c.id == users.c.integrator_id)
    .order_by(users.c.id.desc())
)
_COUNTS = select(
    func.count().label("registered"),
    func.count().filter(_is_active).label("active"),
    func.count().filter(_has_consent).label("with_consent"),
    func.count().filter(_is_active, _has_consent).label("may_be_scanned"),
).select_from(users)
