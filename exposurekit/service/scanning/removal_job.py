"""The step of a removal that is due: submit the opt-out or prepare it for a person, or scan for the listing."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, select

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL
from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.findings import evidence, removals
from exposurekit.service.findings.alerts import Event
from exposurekit.service.mail import follow_ups, opt_out_emails, opt_out_requests, smtp
from exposurekit.service.mail.follow_ups import Step
from exposurekit.service.mail.opt_out_requests import MailRequest
from exposurekit.service.mail.settings import Smtp
from exposurekit.service.mail.smtp import NotSent, PerhapsSent
from exposurekit.service.models import Listing
from exposurekit.service.scanning import form_opt_outs, schedule
from exposurekit.service.scanning.save_scan import known_listings, match_listings, save_result
from exposurekit.service.scanning.scan import ScanContext, lease_check, lock_person, writing_with_lease
from exposurekit.service.scanning.site_scan import scan_site
from exposurekit.service.sites.definition import Definition, EmailOptOut
from exposurekit.service.sites.statistics import VALUE_MISSING, WAITS_FOR_PERSON
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import records

# After an opt-out with an unclear answer; after the last, a person must act.
RETRY_AFTER = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=3))
SISTER_DELAY = timedelta(minutes=5)  # about the time that an opt-out takes
_log = logging.getLogger("exposurekit.service")


_RECORD = select(records).where(records.c.id == bindparam("record_id"))
_STILL_DUE = _RECORD.where(records.c.due_at <= bindparam("now")).with_only_columns(
    records.c.status, records.c.changed_at, records.c.absences
)
_STILL_DISCOVERED = _RECORD.where(records.c.status == DISCOVERED).with_only_columns(records.c.id)


@dataclass(frozen=True, slots=True)
class _Job:
    lease: Lease
    user_id: int
    site: Definition
    subject: Subject = field(repr=False)
    record: Mapping[str, Any] = field(repr=False)
    listings: Sequence[Listing] = field(repr=False)
    opt_out_attempts: int = 0

    @property
    def missing(self) -> tuple[str, ...]:
        """The user fields that the opt-out requires and lacks."""
        return self.site.missing(self.subject, self.record)


async def remove(context: ScanContext, lease: Lease) -> None:
    """Run the step that is due for the record of the lease; raises `LeaseLost` as a scan does."""
    async with context.database.reading() as session:
        row = await session.first(_RECORD, {"record_id": lease.row_id})
        subject = None
        if row is not None and await consent.may_scan(session, row.user_id):
            subject = await users.get_subject(session, row.user_id)
        record = None if row is None else session.decrypt("records", row.user_id, row.ciphertext)
        listings = {} if row is None else await known_listings(session, row.user_id)
    site = None if row is None else context.definitions.get(row.site)
    if row is None or site is None or subject is None or record is None:
        await _finish(context, lease)
        return
    job = _Job(lease, row.user_id, site, subject, record, listings.get(row.site, []), row.opt_out_attempts)
    if row.status == PENDING_REMOVAL or row.absences:
        if not await _waits_for_mail(context, job):
            await _verify(context, job)
    elif row.status == DISCOVERED and row.refused_at is None and site.sends_opt_outs:
        await _submit(context, job)
    elif row.status == DISCOVERED and site.prepares_opt_outs:
        await _prepare(context, job)
    else:
        await _finish(context, lease)


async def _waits_for_mail(context: ScanContext, job: _Job) -> bool:
    """Return whether the record's opt-out is not confirmed yet; after its time, the removal is left to a person."""
    if job.site.removal.confirm is None:
        return False
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        record_id, now = job.lease.row_id, session.clock.now()
        request = await opt_out_requests.open_request(session, record_id, opt_out_requests.CONFIRMATION)
        if request is None or request.answer_by is None:
            return False
        answer_by = request.answer_by
        if request.state == opt_out_requests.FOLLOWING or answer_by > now:
            due_at = max(answer_by, now + schedule.MIN_VERIFICATION_DELAY)
            await leases.complete(session, records, job.lease, due_at=due_at)
            return True
        await opt_out_requests.change_state(
            session, request.id, opt_out_requests.EXPIRED, before=request.state
        )
        await leases.complete(session, records, job.lease, due_at=None)
        await removals.refuse_removal(session, record_id, job.site.site(), event=Event.OPT_OUT_UNCONFIRMED)
        return True


async def _verify(context: ScanContext, job: _Job) -> None:
    """Scan the site; one scan counts for all records of the user there that are due, so their jobs take turns."""
    turn = context.verifications.setdefault((job.user_id, job.site.name), asyncio.Lock())
    waits = turn.locked()
    async with turn:
        if waits and not await _is_due(context, job):
            async with context.database.writing() as session:
                await leases.abandon(session, records, job.lease)
        else:
            await _scan(context, job)


async def _is_due(context: ScanContext, job: _Job) -> bool:
    async with context.database.reading() as session:
        values = {"record_id": job.lease.row_id, "now": session.clock.now()}
        return await session.first(_STILL_DUE, values) is not None


async def _scan(context: ScanContext, job: _Job) -> None:
    check = lease_check(context.database, records, job.lease)
    result = await scan_site(
        job.site,
        job.subject,
        context.fetcher,
        previous=job.listings,
        controls=context.controls,
        cancel_check=check,
    )
    matches = await match_listings(job.subject, result, context.database.clock.now().date())
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        await save_result(
            session,
            job.user_id,
            job.site,
            result,
            matches,
            scan_id=evidence.new_scan_id(),
            lease=job.lease,
        )
        now, record_id = session.clock.now(), job.lease.row_id
        row = await session.first(_STILL_DUE, {"record_id": record_id, "now": now})
        if row is None or (row.status == DISCOVERED and not row.absences):
            # The scan counted: another one is due later, or the next opt-out is due now.
            await leases.clear(session, records, records.c.id == record_id)
            return
        # The scan was inconclusive for this record: try again, but not for ever. A saved page counts whenever it comes.
        waits = result.inconclusive == WAITS_FOR_PERSON
        due_at = None if waits else schedule.next_verification_at(now, job.site)
        await leases.complete(session, records, job.lease, due_at=due_at)
        expired = row.changed_at + timedelta(days=job.site.removal.give_up_days) <= now
        if expired and row.status == PENDING_REMOVAL and result.inconclusive != VALUE_MISSING:
            description = job.site.site()
            await removals.refuse_removal(session, record_id, description, event=Event.OPT_OUT_IGNORED)


async def _submit(context: ScanContext, job: _Job) -> None:
    if await _waits_for_sister(context, job):
        return
    if job.missing:
        await _leave_to_person(context, job)
        return
    if job.site.removal.email is not None:
        await _submit_by_email(context, job, job.site.removal.email)
        return
    request = await _issue_request(context, job)
    check = lease_check(context.database, records, job.lease)
    email = "" if request is None or context.mail is None else context.mail.request_address(request.token)
    answer, reason = await form_opt_outs.send(
        job.site, job.subject, job.record, context.fetcher, request_email=email, cancel_check=check
    )
    _log.info("opt_out=%r record=%d answer=%s reason=%r", job.site.name, job.lease.row_id, answer, reason)
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        record_id, now = job.lease.row_id, session.clock.now()
        if await session.first(_STILL_DISCOVERED, {"record_id": record_id}) is None:
            # A sister site's opt-out removed it meanwhile, or the site's message was quicker than its answer.
            await leases.clear(session, records, records.c.id == record_id)
            return
        if answer == "unclear" and await _postpone(session, job):
            return
        await leases.complete(session, records, job.lease, due_at=None)
        description = job.site.site()
        if answer == "accepted" and request is not None:
            answer_by = now + schedule.confirmed_within(job.site)
            await opt_out_requests.extend(session, request.id, answer_by)
            await removals.submit_removal(session, record_id, description, next_scan_at=answer_by)
        elif answer == "accepted":
            scan_at = schedule.first_verification_at(now, job.site)
            await removals.submit_removal(session, record_id, description, next_scan_at=scan_at)
            await submit_sisters(session, context.definitions, job.site, job.user_id)
        else:
            if request is not None:
                await opt_out_requests.change_state(
                    session, request.id, opt_out_requests.ENDED, before=opt_out_requests.WAITING
                )
            event = Event.OPT_OUT_REFUSED if answer == "refused" else Event.OPT_OUT_UNANSWERED
            await removals.refuse_removal(session, record_id, description, event=event)


async def _leave_to_person(context: ScanContext, job: _Job) -> None:
    """End an opt-out that lacks a required field; an alert says how a person can send it."""
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        record_id = job.lease.row_id
        if await session.first(_STILL_DISCOVERED, {"record_id": record_id}) is None:
            # A sister site's opt-out removes it.
            await leases.clear(session, records, records.c.id == record_id)
            return
        await leases.complete(session, records, job.lease, due_at=None)
        await opt_out_requests.end(session, record_id, unsent=True)
        description = job.site.site()
        await removals.refuse_removal(session, record_id, description, event=Event.OPT_OUT_UNANSWERED)


async def _prepare(context: ScanContext, job: _Job) -> None:
    """Follow up an earlier opt-out by email, or issue the address with which a person sends the next one."""
    email = job.site.removal.email
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        record_id = job.lease.row_id
        if await session.first(_STILL_DISCOVERED, {"record_id": record_id}) is None:
            # A sister site's opt-out removes it.
            await leases.clear(session, records, records.c.id == record_id)
            return
        step = await _next_step(session, context, job)
        if step is Step.EMAIL and (sending := _sending(context)) is not None:
            await opt_out_requests.end(session, record_id)  # its message would come too late
            await _issue_email(session, job, sending)
        else:
            await _prepare_form(session, job, step)
            return
    if email is not None:
        await _submit_by_email(context, job, email)


async def _next_step(session: Session, context: ScanContext, job: _Job) -> Step:
    """Return what is next for an assisted opt-out; only a worker that can send follows it up."""
    if job.site.removal.email is None or _sending(context) is None:
        return Step.FORM
    if job.missing:
        # Nobody could send it, and it would hide the form.
        email = await opt_out_requests.open_request(session, job.lease.row_id, opt_out_requests.EMAIL)
        if email is not None:
            await opt_out_requests.stop_sending(session, email.id, opt_out_requests.ENDED)
            await opt_out_requests.change_state(session, email.id, opt_out_requests.ENDED, before=email.state)
        return Step.FORM
    return await follow_ups.next_step(session, job.user_id, job.lease.row_id, job.site, context.definitions)


async def _prepare_form(session: Session, job: _Job, step: Step) -> None:
    """Leave the opt-out to a person, or its outcome to the scans if an email that was sent covers it."""
    record_id = job.lease.row_id
    await leases.complete(session, records, job.lease, due_at=None)
    if step is Step.OUTCOME:
        await opt_out_requests.end(session, record_id)  # the message of its form would come too late
        scan_at = schedule.first_verification_at(session.clock.now(), job.site)
        await removals.submit_removal(session, record_id, job.site.site(), next_scan_at=scan_at)
    elif job.site.removal.confirm is not None:
        await opt_out_requests.issue(session, job.user_id, record_id, job.site.name, within=None)


def _sending(context: ScanContext) -> Smtp | None:
    """Return the settings with which opt-outs are sent by email; None: none are."""
    return None if context.mail is None else context.mail.smtp


async def _issue_email(session: Session, job: _Job, sending: Smtp) -> MailRequest:
    return await opt_out_requests.issue_email(
        session,
        job.user_id,
        job.lease.row_id,
        job.site.name,
        requires_approval=sending.requires_approval,
    )


async def _waits_for_sister(context: ScanContext, job: _Job) -> bool:
    """Postpone the step if an opt-out that also removes this listing is being sent to a sister site."""
    sisters = [
        name for name, site in context.definitions.items() if job.site.name in site.removal.also_removes
    ]
    if not sisters:
        return False
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        now = session.clock.now()
        in_progress = select(records.c.id).where(
            records.c.user_id == job.user_id,
            records.c.site.in_(sisters),
            records.c.id < job.lease.row_id,  # the older of two concurrent jobs goes first
            records.c.status == DISCOVERED,
            records.c.lease_until > now,
            records.c.due_at <= now,
        )
        if await session.first(in_progress) is None:
            return False
        await leases.complete(session, records, job.lease, due_at=now + SISTER_DELAY)
        return True


async def _submit_by_email(context: ScanContext, job: _Job, email: EmailOptOut) -> None:
    """Send an approved opt-out once. After a kill nobody knows whether it was sent, so a person has to approve it again."""
    request = await _begin_sending(context, job)
    if request is None or context.mail is None or context.mail.smtp is None:
        return
    async with context.database.reading() as session:
        message = await opt_out_emails.message(
            session, context.mail, request, job.site, subject=job.subject, record=job.record
        )
    sender = context.mail.request_address(request.token)
    result = "sent"
    try:
        await asyncio.to_thread(smtp.send, context.mail.smtp, message, envelope_sender=sender, to=email.to)
    except (NotSent, ConfigurationError) as error:
        result, reason = "failed", str(error)
    except PerhapsSent as error:
        result, reason = "unclear", str(error)
    else:
        reason = "the server accepted it"
    _log.info("email=%r record=%d result=%s reason=%r", job.site.name, job.lease.row_id, result, reason)
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        await _save_sending(session, context, job, request, result)


async def _begin_sending(context: ScanContext, job: _Job) -> MailRequest | None:
    """Return the opt-out that may be sent now; None: a person has to approve it, or it has to wait."""
    if (settings := _sending(context)) is None:
        await _finish(context, job.lease)
        return None
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        request = await _issue_email(session, job, settings)
        await opt_out_requests.stop_sending(session, request.id, opt_out_requests.DRAFT)
        if request.state != opt_out_requests.APPROVED:
            await leases.complete(session, records, job.lease, due_at=None)
            return None
        limits = {"per_day": settings.per_day, "per_site_per_day": settings.per_site_per_day}
        if not await opt_out_requests.begin_sending(session, request, **limits):
            await leases.complete(session, records, job.lease, due_at=session.clock.now() + RETRY_AFTER[0])
            return None
    return request


async def _save_sending(
    session: Session, context: ScanContext, job: _Job, request: MailRequest, result: str
) -> None:
    now, record_id, before = session.clock.now(), job.lease.row_id, opt_out_requests.SENDING
    description = job.site.site()
    if result == "sent" and (email := job.site.removal.email) is not None:
        answer_by = now + timedelta(days=email.answer_days)
        await opt_out_requests.record_sent(session, request.id, answer_by=answer_by)
    if await session.first(_STILL_DISCOVERED, {"record_id": record_id}) is None:
        # A person sent the form meanwhile, or a sister site's opt-out removes it.
        if result == "unclear":
            await opt_out_requests.stop_sending(session, request.id, opt_out_requests.ENDED)
        await opt_out_requests.change_state(session, request.id, opt_out_requests.ENDED, before=before)
        await leases.clear(session, records, records.c.id == record_id)
        return
    if result == "failed" and await _postpone(session, job):
        await opt_out_requests.change_state(session, request.id, opt_out_requests.APPROVED, before=before)
        return
    await leases.complete(session, records, job.lease, due_at=None)
    if result == "sent":
        scan_at = schedule.first_verification_at(now, job.site)
        await removals.submit_removal(session, record_id, description, next_scan_at=scan_at)
        await submit_sisters(session, context.definitions, job.site, job.user_id)
    elif result == "unclear":
        await opt_out_requests.stop_sending(session, request.id, opt_out_requests.DRAFT)
    else:
        await opt_out_requests.change_state(session, request.id, opt_out_requests.RETURNED, before=before)
        await removals.refuse_removal(session, record_id, description, event=Event.OPT_OUT_UNANSWERED)


async def _postpone(session: Session, job: _Job) -> bool:
    """Try an opt-out again later; return False if it was tried often enough."""
    if job.opt_out_attempts >= len(RETRY_AFTER):
        return False
    due_at = session.clock.now() + RETRY_AFTER[job.opt_out_attempts]
    attempts = job.opt_out_attempts + 1
    await leases.complete(session, records, job.lease, due_at=due_at, opt_out_attempts=attempts)
    return True


async def _issue_request(context: ScanContext, job: _Job) -> MailRequest | None:
    """Return the request whose address stands in the form; None: the site sends no message."""
    if job.site.removal.confirm is None:
        return None
    async with writing_with_lease(context, records, job.lease, job.user_id) as session:
        within = schedule.confirmed_within(job.site)
        return await opt_out_requests.issue(
            session, job.user_id, job.lease.row_id, job.site.name, within=within
        )


async def submit_sisters(
    session: Session,
    definitions: Mapping[str, Definition],
    site: Definition,
    user_id: int,
) -> int:
    """Mark the person's other listings that the same opt-out removes as submitted. Return how many."""
    scan_at, submitted = schedule.first_verification_at(session.clock.now(), site), 0
    for name, sister in definitions.items():
        if not site.clears(name):
            continue
        discovered = select(records.c.id).filter_by(user_id=user_id, site=name, status=DISCOVERED)
        for row in await session.all(discovered):
            await opt_out_requests.end(session, row.id, unsent=True)
            await removals.submit_removal(session, row.id, sister.site(), next_scan_at=scan_at)
            submitted += 1
    return submitted


async def _finish(context: ScanContext, lease: Lease) -> None:
    """Release a record without a step: no consent, a manual removal, or a site that this worker lacks."""
    async with context.database.writing() as session:
        row = await session.first(_RECORD, {"record_id": lease.row_id})
        if row is None or not await consent.may_scan(session, row.user_id):
            await leases.complete(session, records, lease, due_at=None)
            return
        await lock_person(session, row.user_id)
        due_at = await _due_at(session, context, row)
        await leases.complete(session, records, lease, due_at=due_at)


async def _due_at(session: Session, context: ScanContext, row: Row[Any]) -> datetime | None:
    now, site = session.clock.now(), context.definitions.get(row.site)
    if site is None:
        return schedule.next_scan_at(now, scanned=False)
    # Consent may have been recorded since the step began.
    ready = site.sends_opt_outs and row.refused_at is None
    return now if ready and row.status == DISCOVERED else None
