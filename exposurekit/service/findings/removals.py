"""The life of a removal: submitted, verified by looks in a row, refused or ignored. Sends no opt-out itself.

Transitions (not shown; ours)::

    discovered --submit--> pending removal --gone twice in a row--> removed
     ^   |  ^                     |                                  |  ^
     |   |  +--refused, ignored---+                                  |  |
     |   +-----------gone twice in a row (a human did it)------------|--+
     +----------------listed again (findings.discover_record)--------+
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import and_, bindparam, select, update

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import ExposureError
from exposurekit.service.accounts import consent
from exposurekit.service.constants import GONE_LOOKS
from exposurekit.service.findings import alerts
from exposurekit.service.findings.alerts import Event
from exposurekit.service.models import Site, record_resource
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import records

_LISTED = frozenset({DISCOVERED, PENDING_REMOVAL})


class WrongStatus(ExposureError):
    """The record is not in the status that this step starts from."""


class NoSuchRecord(ExposureError):
    """There is no record of that id on that site."""


async def submit_removal(
    session: Session, record_id: int, site: Site, *, look_at: datetime | None = None
) -> None:
    """An opt-out was submitted: ``discovered`` -> ``pending removal``, with an alert; a look is due then.

    Raises:
        NoSuchRecord: There is no record of that id on that site.
        WrongStatus: The record is not ``discovered``.
    """
    record = await _held(session, record_id, site, {DISCOVERED}, "submitted for removal")
    await _change(session, record, status=PENDING_REMOVAL, due_at=look_at, opt_out_attempts=0)
    await _tell(session, Event.OPT_OUT_SUBMITTED, record, site, PENDING_REMOVAL)


async def verify_removal(
    session: Session,
    record_id: int,
    site: Site,
    *,
    gone: bool,
    confirmations: int = GONE_LOOKS,
    look_at: datetime | None = None,
) -> str:
    """A look was taken at a listing that is to go; the status after it, and when the next look is due.

    The last of so many looks in a row that find it gone makes it ``removed``, with an alert; one that finds it
    starts the count again. A look that told nothing (a block, a time-out) is not to be reported here. A listing
    that a human had taken down goes the same way.

    Raises:
        NoSuchRecord: There is no record of that id on that site.
        WrongStatus: The record is ``removed`` already.
    """
    record = await _held(session, record_id, site, _LISTED, "verified as removed")
    looks = record.absences + 1 if gone else 0
    if looks < confirmations:
        await _change(session, record, status=record.status, absences=looks, due_at=look_at)
        return record.status
    await _change(session, record, status=REMOVED, absences=looks, due_at=None)
    await _tell(session, Event.REMOVAL_VERIFIED, record, site, REMOVED)
    return REMOVED


async def refuse_removal(
    session: Session, record_id: int, site: Site, *, because: Event = Event.OPT_OUT_REFUSED
) -> None:
    """An opt-out came to nothing: ``discovered``, with an alert that says why and carries the steps by hand.

    Raises:
        NoSuchRecord: There is no record of that id on that site.
        WrongStatus: The record is ``removed``.
    """
    record = await _held(session, record_id, site, _LISTED, "refused")
    await _change(session, record, status=DISCOVERED, due_at=None, refused_at=session.clock.now())
    await _tell(session, because, record, site, DISCOVERED)


async def reconsider(session: Session, user_id: int) -> None:
    """The person has changed: what could not be submitted, or was refused, may be submitted now."""
    ours = and_(records.c.user_id == user_id, records.c.status == DISCOVERED, records.c.due_at.is_(None))
    again = {"due_at": session.clock.now(), "refused_at": None, "opt_out_attempts": 0}
    await session.run(update(records).where(ours).values(**again))


@dataclass(frozen=True, slots=True)
class _Record:
    id: int
    user_id: int
    status: str
    absences: int
    stored: Mapping[str, Any] = field(repr=False)


_OWNER = select(records.c.user_id).where(
    records.c.id == bindparam("record_id"), records.c.site == bindparam("site")
)
_HELD = select(records.c.user_id, records.c.status, records.c.absences, records.c.ciphertext).where(
    records.c.id == bindparam("record_id")
)


async def _held(
    session: Session, record_id: int, site: Site, statuses: frozenset[str] | set[str], step: str
) -> _Record:
    owner = await session.first(_OWNER, {"record_id": record_id, "site": site.name})
    if owner is None:
        raise NoSuchRecord("there is no record of that id on that site")
    await consent.lock_user(
        session, owner.user_id
    )  # the person first, always: two who hold cannot wait for each other
    [row] = await session.all(_HELD, {"record_id": record_id})
    if row.status not in statuses:
        wanted = " or ".join(sorted(statuses))
        raise WrongStatus(f"a record that is {row.status} cannot be {step}: it must be {wanted}")
    stored: dict[str, Any] = session.decrypt("records", row.user_id, row.ciphertext)
    return _Record(record_id, row.user_id, row.status, row.absences, stored)


async def _change(session: Session, record: _Record, *, status: str, absences: int = 0, **more: Any) -> None:
    changed: dict[str, Any] = {"status": status, "absences": absences, **more}
    if status != record.status:
        changed["changed_at"] = session.clock.now()
    await session.run(update(records).where(records.c.id == record.id), changed)


async def _tell(session: Session, event: Event, record: _Record, site: Site, status: str) -> None:
    resource = record_resource(record.id, site.name, status, record.stored)
    await alerts.about_record(session, event, record.user_id, resource, site)
