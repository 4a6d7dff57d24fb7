"""Status transitions of a record: opt-out submitted, removal verified, opt-out refused or ignored.

spec does not say: the transitions. Here::

    discovered --submit--> pending removal --gone twice in a row--> removed
     ^   |  ^                     |                                  |  ^
     |   |  +--refused, ignored---+                                  |  |
     |   +-----------gone twice in a row (a human did it)------------|--+
     +----------------listed again (findings.discover_record)--------+

Each transition raises `NoSuchRecord` if no record on that site has the id, and `WrongStatus` from any other status.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import bindparam, func, select, update

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import ExposureError
from exposurekit.service.accounts import consent
from exposurekit.service.findings import alerts
from exposurekit.service.findings.alerts import Event
from exposurekit.service.models import OPT_OUT_FIELDS, Site, record_resource
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.tables import Instant, records
from exposurekit.service.storage.tables import alerts as alert_rows

CONFIRMING_ABSENCES = 2  # in a row confirm a removal, unless a site requires more
_LISTED = frozenset({DISCOVERED, PENDING_REMOVAL})
_log = logging.getLogger("exposurekit.service")


@dataclass(frozen=True, slots=True)
class RemovalProgress:
    """How far the removal of a record is."""

    opt_out_sent_at: datetime | None  # the last one; None: none was sent
    absences: int  # in a row that count
    next_check_at: datetime | None  # when an absence counts next; None: nothing is scheduled


class WrongStatus(ExposureError):
    """The record's status does not allow this transition."""


class NoSuchRecord(ExposureError):
    """No record on that site has this id."""


async def progress(session: Session, user_id: int) -> dict[int, RemovalProgress]:
    """Return how far the removals of a user's records are, by record."""
    rows = await session.all(_PROGRESS, {"user_id": user_id})
    return {
        row.id: RemovalProgress(
            row.opt_out_sent_at,
            row.absences,
            row.due_at if row.status == PENDING_REMOVAL or row.absences else None,
        )
        for row in rows
    }


async def submit_removal(
    session: Session, record_id: int, site: Site, *, next_scan_at: datetime | None = None
) -> None:
    """Record a submitted opt-out: ``discovered`` -> ``pending removal``, with an alert."""
    record = await _lock_record(session, record_id, site, {DISCOVERED}, "submitted for removal")
    await _change(session, record, status=PENDING_REMOVAL, due_at=next_scan_at, opt_out_attempts=0)
    await _add_alert(session, Event.OPT_OUT_SUBMITTED, record, site, PENDING_REMOVAL)


async def verify_removal(
    session: Session,
    record_id: int,
    site: Site,
    *,
    absent: bool,
    confirmations: int = CONFIRMING_ABSENCES,
    next_scan_at: datetime | None = None,
) -> str:
    """Record a site scan of a listed record. Return the record's status after it.

    After enough absences in a row the record is ``removed``, with an alert; a presence resets the count. Do not call
    this for an inconclusive scan (a block, a time-out). A listing that a person had removed goes the same way.
    """
    record = await _lock_record(session, record_id, site, _LISTED, "verified as removed")
    absences = record.absences + 1 if absent else 0
    if absences < confirmations:
        await _change(session, record, status=record.status, absences=absences, due_at=next_scan_at)
        return record.status
    await _change(session, record, status=REMOVED, absences=absences, due_at=None)
    await _add_alert(session, Event.REMOVAL_VERIFIED, record, site, REMOVED)
    return REMOVED


async def schedule_verification(
    session: Session, record_id: int, site: Site, *, next_scan_at: datetime
) -> None:
    """Set when a record that is ``pending removal`` is scanned for next."""
    record = await _lock_record(session, record_id, site, {PENDING_REMOVAL}, "scheduled for verification")
    await _change(session, record, status=PENDING_REMOVAL, due_at=next_scan_at)


async def refuse_removal(
    session: Session, record_id: int, site: Site, *, event: Event = Event.OPT_OUT_REFUSED
) -> None:
    """Record a failed opt-out: the record is ``discovered``, with an alert that has the reason and the manual steps.

    If a person sends opt-outs that the service prepares, another one is due.
    """
    record = await _lock_record(session, record_id, site, _LISTED, "refused")
    now = session.clock.now()
    due_at = now if site.prepared_by_us else None
    await _change(session, record, status=DISCOVERED, due_at=due_at, refused_at=now)
    await _add_alert(session, event, record, site, DISCOVERED)


async def reconsider(session: Session, user_id: int, changed_fields: Collection[str]) -> None:
    """After a change of the user, retry opt-outs that could not be submitted or were refused, if they contain what changed."""
    rows = await session.all(_STUCK, {"user_id": user_id}) if changed_fields else []
    values = session.decrypt_readable([("records", user_id, row.ciphertext) for row in rows])
    record_ids = [
        row.id
        for row, stored in zip(rows, values, strict=True)
        # Earlier versions did not store the fields; the next scan does.
        if stored is not DAMAGED
        and not {*stored.get(OPT_OUT_FIELDS, changed_fields)}.isdisjoint(changed_fields)
    ]
    again = {"due_at": session.clock.now(), "refused_at": None, "opt_out_attempts": 0}
    for record_id in record_ids:
        await session.run(_CHANGE, again | {"record_id": record_id})


_is_record = records.c.id == bindparam("record_id")
_OWNER = select(records.c.user_id).where(_is_record, records.c.site == bindparam("site"))
_RECORD = select(records).where(_is_record)
_STUCK = select(records.c.id, records.c.ciphertext).where(
    records.c.user_id == bindparam("user_id"), records.c.status == DISCOVERED, records.c.due_at.is_(None)
)
_CHANGE = update(records).where(_is_record)
_sent_at = select(func.max(alert_rows.c.created_at, type_=Instant)).where(
    alert_rows.c.record_id == records.c.id, alert_rows.c.kind == Event.OPT_OUT_SUBMITTED.value
)
_PROGRESS = select(
    *(records.c.id, records.c.status, records.c.absences, records.c.due_at),
    _sent_at.scalar_subquery().label("opt_out_sent_at"),
).where(records.c.user_id == bindparam("user_id"))


@dataclass(frozen=True, slots=True)
class _Record:
    id: int
    user_id: int
    status: str
    absences: int
    stored: Mapping[str, Any] = field(repr=False)


async def _lock_record(
    session: Session, record_id: int, site: Site, statuses: frozenset[str] | set[str], step: str
) -> _Record:
    owner = await session.first(_OWNER, {"record_id": record_id, "site": site.name})
    if owner is None:
        raise NoSuchRecord("no record on that site has this id")
    await consent.lock_user(session, owner.user_id)  # always the user first, so that locks cannot deadlock
    [row] = await session.all(_RECORD, {"record_id": record_id})
    if row.status not in statuses:
        expected = " or ".join(sorted(statuses))
        raise WrongStatus(f"a record that is {row.status} cannot be {step}: it must be {expected}")
    stored: dict[str, Any] = session.decrypt("records", row.user_id, row.ciphertext)
    return _Record(record_id, row.user_id, row.status, row.absences, stored)


async def _change(session: Session, record: _Record, *, status: str, absences: int = 0, **more: Any) -> None:
    changed: dict[str, Any] = {"status": status, "absences": absences, **more}
    if status != record.status:
        changed["changed_at"] = session.clock.now()
        session.after_commit(partial(_log.info, "record=%d status=%r", record.id, status))
    elif absences > record.absences:
        session.after_commit(partial(_log.info, "record=%d absences=%d", record.id, absences))
    await session.run(_CHANGE, changed | {"record_id": record.id})


async def _add_alert(session: Session, event: Event, record: _Record, site: Site, status: str) -> None:
    resource = record_resource(record.id, site.name, status, record.stored)
    await alerts.add_record_alert(session, event, record.user_id, resource, site)
