"""The step of a removal that is due: send the opt-out, or look whether the listing is gone. Decides by what it sees."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, select

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.findings import removals
from exposurekit.service.findings.alerts import Event
from exposurekit.service.models import Listing
from exposurekit.service.scanning import optouts
from exposurekit.service.scanning.persist import known_listings, match_listings, save_result
from exposurekit.service.scanning.scan import LOOK_AGAIN, ScanContext, still_ours
from exposurekit.service.scanning.site_scan import scan_site
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.leases import Lease, LeaseLost
from exposurekit.service.storage.tables import records

# After an opt-out of which nobody knows whether it arrived; past the last, it is a human's job.
RETRY_AFTER = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=3))
SISTER_WAITS = timedelta(minutes=5)  # about as long as a request takes
SOONEST_LOOK = timedelta(hours=1)  # after an opt-out, however quick the site says that it is
_log = logging.getLogger("exposurekit.service")


@dataclass(frozen=True, slots=True)
class _Case:
    lease: Lease
    user_id: int
    site: Definition
    subject: Subject = field(repr=False)
    stored: Mapping[str, Any] = field(repr=False)
    known: Sequence[Listing] = field(repr=False)
    opt_out_attempts: int = 0


async def remove(web: ScanContext, lease: Lease) -> None:
    """Take the step that is due for the record which the lease is about.

    Raises:
        LeaseLost: It took too long, or the person must not be looked for any more.
    """
    async with web.database.reading() as work:
        row = await work.first(_RECORD, {"record_id": lease.row_id})
        subject = None
        if row is not None and await consent.may_scan(work, row.user_id):
            subject = await users.get_subject(work, row.user_id)
        stored = None if row is None else work.decrypt("records", row.user_id, row.ciphertext)
        known = {} if row is None else await known_listings(work, row.user_id)
    site = None if row is None else web.definitions.get(row.site)
    if row is None or site is None or subject is None or stored is None:
        await _finish(web, lease)
        return
    case_ = _Case(lease, row.user_id, site, subject, stored, known.get(row.site, []), row.opt_out_attempts)
    if row.status == PENDING_REMOVAL or row.absences:
        await _verify(web, case_)
    elif row.status == DISCOVERED and row.refused_at is None and site.site(subject).removed_by_us:
        await _submit(web, case_)
    else:
        await _finish(web, lease)


async def _verify(web: ScanContext, case_: _Case) -> None:
    still = still_ours(web.database, records, case_.lease)
    told = await scan_site(case_.site, case_.subject, web.manners, known=case_.known, still=still)
    judged = await match_listings(case_.subject, told, web.database.clock.now().date())
    async with web.database.writing() as work:
        await _assert_held(work, case_)
        await save_result(work, case_.user_id, case_.site, told, judged, about=case_.lease)
        now, record_id = work.clock.now(), case_.lease.row_id
        left = await work.first(_STILL_DUE, {"record_id": record_id, "now": now})
        if left is None:
            await leases.clear(work, records, records.c.id == record_id)
            return
        # The look told nothing of this record: it is left due, but not for ever.
        later = now + timedelta(days=case_.site.verification.every_days)
        await leases.complete(work, records, case_.lease, due_at=later)
        over = left.changed_at + timedelta(days=case_.site.removal.give_up_days) <= now
        if over and left.status == PENDING_REMOVAL:
            told_site = case_.site.site(case_.subject)
            await removals.refuse_removal(work, record_id, told_site, because=Event.OPT_OUT_IGNORED)


async def _submit(web: ScanContext, case_: _Case) -> None:
    if await _sister_asks(web, case_):
        return
    still = still_ours(web.database, records, case_.lease)
    answer, why = await optouts.send(case_.site, case_.subject, case_.stored, web.manners, still=still)
    _log.info("opt_out=%r record=%d answer=%s why=%r", case_.site.name, case_.lease.row_id, answer, why)
    async with web.database.writing() as work:
        await _assert_held(work, case_)
        record_id, now = case_.lease.row_id, work.clock.now()
        if await work.first(_STILL_DISCOVERED, {"record_id": record_id}) is None:
            # A sister's request has served it meanwhile.
            await leases.clear(work, records, records.c.id == record_id)
            return
        if answer == "unclear" and case_.opt_out_attempts < len(RETRY_AFTER):
            again = now + RETRY_AFTER[case_.opt_out_attempts]
            await leases.complete(
                work, records, case_.lease, due_at=again, opt_out_attempts=case_.opt_out_attempts + 1
            )
            return
        await leases.complete(work, records, case_.lease, due_at=None)
        told = case_.site.site(case_.subject)
        if answer == "accepted":
            await removals.submit_removal(work, record_id, told, look_at=_first_scan(now, case_.site))
            await _cover(work, web, case_)
        else:
            because = Event.OPT_OUT_REFUSED if answer == "refused" else Event.OPT_OUT_UNANSWERED
            await removals.refuse_removal(work, record_id, told, because=because)


async def _sister_asks(web: ScanContext, case_: _Case) -> bool:
    """Whether a request that is being made on a sister site serves this listing too; then it waits for that."""
    sisters = [name for name, site in web.definitions.items() if case_.site.name in site.removal.also_removes]
    if not sisters:
        return False
    async with web.database.writing() as work:
        await _assert_held(work, case_)
        now = work.clock.now()
        at_work = {"user_id": case_.user_id, "record_id": case_.lease.row_id, "now": now}
        if await work.first(_AT_WORK.where(records.c.site.in_(sisters)), at_work) is None:
            return False
        await leases.complete(work, records, case_.lease, due_at=now + SISTER_WAITS)
        return True


async def _cover(work: Session, web: ScanContext, case_: _Case) -> None:
    """The same request serves the sister sites: their listings of the person are on their way out too."""
    for name in case_.site.removal.also_removes:
        sister = web.definitions.get(name)
        if sister is None:
            continue
        look_at = _first_scan(work.clock.now(), case_.site)
        for row in await work.all(_DISCOVERED, {"user_id": case_.user_id, "site": name}):
            await removals.submit_removal(work, row.id, sister.site(case_.subject), look_at=look_at)


async def _finish(web: ScanContext, lease: Lease) -> None:
    """Nothing to do here now: no consent; a human's job, as after a refusal; or a site that this worker lacks."""
    async with web.database.writing() as work:
        row = await work.first(_RECORD, {"record_id": lease.row_id})
        if row is None or not await consent.may_scan(work, row.user_id):
            await leases.complete(work, records, lease, due_at=None)
            return
        await _hold_both(work, row.user_id, lease)
        again = await _again(work, web, row)
        await leases.complete(work, records, lease, due_at=again)


async def _again(work: Session, web: ScanContext, row: Row[Any]) -> datetime | None:
    """When such a record is to be taken again."""
    now, site = work.clock.now(), web.definitions.get(row.site)
    if site is None:
        return now + LOOK_AGAIN  # another worker may know it
    subject = await users.get_subject(work, row.user_id)
    # The person may have supplied, just now, what was missing.
    ready = subject is not None and site.site(subject).removed_by_us and row.refused_at is None
    return now if ready and row.status == DISCOVERED else None


async def _assert_held(work: Session, case_: _Case) -> None:
    await _hold_both(work, case_.user_id, case_.lease)


async def _hold_both(work: Session, user_id: int, lease: Lease) -> None:
    try:
        await consent.lock_user(work, user_id)
    except consent.NoSuchUser:
        raise LeaseLost("the person is forgotten, and the record with them") from None
    await leases.assert_held(work, records, lease)


def _first_scan(now: datetime, site: Definition) -> datetime:
    days = site.verification.after_days
    wait = timedelta(days=site.removal.processing_days if days is None else days)
    return now + max(wait, SOONEST_LOOK)


_RECORD = select(
    records.c.user_id,
    records.c.site,
    records.c.status,
    records.c.absences,
    records.c.opt_out_attempts,
    records.c.refused_at,
    records.c.ciphertext,
).where(records.c.id == bindparam("record_id"))
_STILL_DISCOVERED = select(records.c.id).where(
    records.c.id == bindparam("record_id"), records.c.status == DISCOVERED
)
_STILL_DUE = select(records.c.status, records.c.changed_at).where(
    records.c.id == bindparam("record_id"), records.c.due_at <= bindparam("now")
)
# Of two that are taken at once, the older goes ahead.
_AT_WORK = select(records.c.id).where(
    records.c.user_id == bindparam("user_id"),
    records.c.id < bindparam("record_id"),
    records.c.status == DISCOVERED,
    records.c.lease_until > bindparam("now"),
    records.c.due_at <= bindparam("now"),
)
_DISCOVERED = select(records.c.id).where(
    records.c.user_id == bindparam("user_id"),
    records.c.site == bindparam("site"),
    records.c.status == DISCOVERED,
)
