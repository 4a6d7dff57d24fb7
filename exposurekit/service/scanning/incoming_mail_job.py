"""Jobs on mail: store what is in the mailbox, and follow the link that confirms an opt-out.

A message is deleted in the mailbox only after it was stored. Its link is followed at most once: the request's state says so
before the link is requested, in a transaction of its own. After a kill in between nobody knows whether the site got the
request; a person then sees the message, and scans show whether the listing goes.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import bindparam, select, update

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL
from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.service.accounts import consent
from exposurekit.service.clock import CLOCK_MARGIN
from exposurekit.service.findings import removals
from exposurekit.service.findings.alerts import Event
from exposurekit.service.mail import (
    confirmation,
    dkim_signature,
    mailboxes,
    message_parsing,
    message_store,
    opt_out_requests,
)
from exposurekit.service.mail.confirmation import NotFollowed
from exposurekit.service.mail.dkim_signature import DnsUnavailable
from exposurekit.service.mail.mailboxes import MailboxUnavailable, RawMessage
from exposurekit.service.mail.message_parsing import UnreadableMessage
from exposurekit.service.mail.message_store import Arrival
from exposurekit.service.mail.opt_out_requests import MailRequest
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.scanning import schedule
from exposurekit.service.scanning.form_opt_outs import Marks, OptOutResult, interpret
from exposurekit.service.scanning.politeness import FETCH_FAILURES, RetryLater, failure_reason
from exposurekit.service.scanning.removal_job import submit_sisters
from exposurekit.service.scanning.scan import ScanContext, lock_person, writing_with_lease
from exposurekit.service.scanning.site_scan import PAGE_BYTES_MAX
from exposurekit.service.sites.definition import Confirmation, Definition
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.leases import Lease, LeaseLost
from exposurekit.service.storage.tables import mail_messages, records
from exposurekit.service.storage.tables import mailboxes as _mailboxes

RETRY_AFTER = timedelta(minutes=15)  # when DNS does not answer, or the site asks to retry later
BATCH, BATCHES_MAX = 20, 20  # messages in one transaction, and transactions in one job
INTERRUPTED = "the worker stopped while it followed the link: the site may have got it"
_MAILBOX = select(_mailboxes).where(_mailboxes.c.address == bindparam("address"))
_RECORD = select(records.c.status).where(records.c.id == bindparam("record_id"))
_log = logging.getLogger("exposurekit.service")


async def register_mailbox(database: Database, settings: MailSettings) -> None:
    """Make a check of the mailbox due, unless one is within the time of the settings."""
    async with database.reading() as session:
        row = await session.first(_MAILBOX, {"address": settings.address})
        latest = session.clock.now() + timedelta(seconds=settings.check_every_s) + CLOCK_MARGIN
    if row is not None and row.due_at is not None and row.due_at <= latest:
        return
    async with database.writing() as session:
        row = await session.first(_MAILBOX, {"address": settings.address})
        due = {"due_at": session.clock.now()}
        if row is None:
            await session.add(_mailboxes.insert(), {"address": settings.address} | due)
        else:
            await session.run(update(_mailboxes).filter_by(id=row.id).values(**due))


async def check_mailbox(context: ScanContext, lease: Lease) -> None:
    """Store the messages in the mailbox of the lease, delete them there, and schedule the next check."""
    async with context.database.reading() as session:
        address = (await session.all(select(_mailboxes.c.address).filter_by(id=lease.row_id)))[0].address
    if context.mail is None or context.mail.address != address:
        async with context.database.writing() as session:
            await leases.complete(session, _mailboxes, lease, due_at=None)
        return
    problem, is_empty = None, True
    try:
        is_empty = await _store_some(context, context.mail, lease)
    except (MailboxUnavailable, ConfigurationError) as error:
        problem = str(error)[:80]
        _log.error("mailbox=unavailable reason=%r", problem)
    async with context.database.writing() as session:
        now = session.clock.now()
        due_at = now + timedelta(seconds=context.mail.check_every_s if is_empty else 0)
        checked = {"problem": problem} if problem else {"problem": None, "checked_at": now}
        await leases.complete(session, _mailboxes, lease, due_at=due_at, **checked)


async def _store_some(context: ScanContext, settings: MailSettings, lease: Lease) -> bool:
    """Store messages, as many as the lease leaves time for. Return whether the mailbox is empty now."""
    # One thread at a time uses the connection.
    opening = mailboxes.opened(settings)
    mailbox = await asyncio.to_thread(opening.__enter__)
    try:
        for _ in range(BATCHES_MAX):
            batch = await asyncio.to_thread(mailbox.fetch, BATCH)
            if not batch:
                return True
            arrivals = await asyncio.to_thread(_arrivals, batch)
            async with context.database.writing() as session:
                await leases.assert_held(session, _mailboxes, lease)
                for arrival in arrivals:
                    await message_store.store(session, arrival, settings)
            await asyncio.to_thread(mailbox.delete, [raw.key for raw in batch])
        return False
    finally:
        await asyncio.to_thread(opening.__exit__, None, None, None)


def _arrivals(raws: Sequence[RawMessage]) -> list[Arrival]:
    return [_arrival(raw) for raw in raws]


def _arrival(raw: RawMessage) -> Arrival:
    try:
        mail = message_parsing.parse(raw.content)
    except UnreadableMessage:
        return Arrival(raw)
    return Arrival(raw, mail.recipients, mail.references)


@dataclass(frozen=True, slots=True)
class _Job:
    lease: Lease
    request: MailRequest
    site: Definition
    expected: Confirmation
    content: bytes = field(repr=False)


async def process_message(context: ScanContext, lease: Lease) -> None:
    """Follow the link in the message of the lease, if it confirms an opt-out; else leave the message to a person.

    Raises:
        LeaseLost: Another worker has the message, or the person was purged.
    """
    if await _save_answer(context, lease):
        return
    try:
        job = await _load(context, lease)
        link = await _link(context, job)
        answer, reason = await _follow(context, job, link)
    except NotFollowed as error:
        await _reject(context, lease, str(error))
    except (DnsUnavailable, RetryLater):
        async with context.database.writing() as session:
            await leases.complete(session, mail_messages, lease, due_at=session.clock.now() + RETRY_AFTER)
    else:
        _log.info(
            "confirmation=%r record=%d answer=%s reason=%r",
            job.site.name,
            job.request.record_id,
            answer,
            reason,
        )
        await _save(context, job, answer, reason)


async def _save_answer(context: ScanContext, lease: Lease) -> bool:
    """Record an answer to an opt-out by email, or that it was not delivered; return False if the message is about no such opt-out.

    An automatic message is no answer: the time to answer runs on.
    """
    async with context.database.reading() as session:
        row = await message_store.row_of(session, lease.row_id)
        request = None if row is None else await opt_out_requests.get(session, row.request_id)
        if row is None or request is None or request.kind != opt_out_requests.EMAIL:
            return False
        content = message_store.content_of(session, row)
    state, reason = opt_out_requests.REPLIED, "it answers an opt-out by email"
    with suppress(UnreadableMessage):
        mail = await asyncio.to_thread(message_parsing.parse, content)
        if mail.is_bounce:
            state, reason = opt_out_requests.RETURNED, "an opt-out by email was not delivered"
        elif mail.is_automatic:  # such as an acknowledgement or a read receipt
            state, reason = opt_out_requests.SENT, message_store.AUTOMATIC
    async with writing_with_lease(context, mail_messages, lease, request.user_id) as session:
        await leases.complete(session, mail_messages, lease, due_at=None)
        await message_store.change_state(session, lease.row_id, message_store.ANSWER, reason=reason)
        is_first = await opt_out_requests.change_state(
            session, request.id, state, before=opt_out_requests.SENT
        )
        current = await opt_out_requests.get(session, request.id)
        if current is not None and current.state == opt_out_requests.REPLIED:
            await message_store.mark_automatic_as_replied(session, request.id)
        site = context.definitions.get(request.site)
        record = await session.first(_RECORD, {"record_id": request.record_id})
        is_pending = record is not None and record.status == PENDING_REMOVAL
        if is_first and state == opt_out_requests.RETURNED and site and is_pending:
            event = Event.OPT_OUT_UNANSWERED
            await removals.refuse_removal(session, request.record_id, site.site(), event=event)
    return True


async def _load(context: ScanContext, lease: Lease) -> _Job:
    async with context.database.reading() as session:
        row = await message_store.row_of(session, lease.row_id)
        if row is None:
            raise LeaseLost("the message and its user were purged")
        request = await opt_out_requests.get(session, row.request_id)
        if request is None:
            raise NotFollowed(message_store.NO_REQUEST)
        if row.state == message_store.FOLLOWING:
            raise NotFollowed(INTERRUPTED)
        await _check_request(session, request)
        content = message_store.content_of(session, row)
    site = context.definitions.get(request.site)
    if site is None or site.removal.confirm is None:
        raise NotFollowed("no definition says what the site's message looks like")
    return _Job(lease, request, site, site.removal.confirm, content)


async def _check_request(session: Session, request: MailRequest) -> None:
    """Check that a request still waits, and that its person may be scanned; raises `NotFollowed`."""
    if request.state != opt_out_requests.WAITING:
        raise NotFollowed(f"its request is no longer waiting: it is {request.state}")
    if request.answer_by is not None and request.answer_by <= session.clock.now():
        raise NotFollowed("it came too late")
    if not await consent.may_scan(session, request.user_id):
        raise NotFollowed("the person's consent was withdrawn, or the service is not active for them")
    record = await session.first(_RECORD, {"record_id": request.record_id})
    if record is None or record.status not in {DISCOVERED, PENDING_REMOVAL}:
        raise NotFollowed("the listing is gone already")


async def _link(context: ScanContext, job: _Job) -> str:
    """Return the link of a message that is what the definition describes; raises `NotFollowed`."""
    if context.mail is None:
        raise NotFollowed("no mailbox is configured")
    address = context.mail.request_address(job.request.token)
    try:
        mail = await asyncio.to_thread(message_parsing.parse, job.content)
    except UnreadableMessage as error:
        raise NotFollowed(f"it cannot be read: {error}") from None
    confirmation.check_headers(mail, job.expected, address)
    domain = job.expected.signing_domain
    if not await asyncio.to_thread(dkim_signature.is_signed, job.content, domain, context.resolve_txt):
        raise NotFollowed(f"it has no valid DKIM signature of {domain}")
    return confirmation.confirmation_link(mail, job.expected)


async def _follow(context: ScanContext, job: _Job, link: str) -> tuple[OptOutResult, str]:
    """Follow a link once; raises `NotFollowed` if it was not requested, or `RetryLater` if it may be later."""
    claimed = False

    async def claim() -> None:
        nonlocal claimed
        if not claimed:  # not again for a redirect
            await _claim(context, job)
            claimed = True

    try:
        await context.fetcher.check_encrypted(link)
        async with context.fetcher.session(job.site.name, job.site.politeness, cancel_check=claim) as session:
            response = await session.fetch(
                link, timeout_s=job.site.search.timeout_s, bytes_max=PAGE_BYTES_MAX
            )
    except FETCH_FAILURES as error:
        if not claimed and isinstance(error, RetryLater):
            raise
        if not claimed:
            raise NotFollowed(f"the link was not requested: {failure_reason(error)}") from None
        return "unclear", failure_reason(error)
    marks = Marks(job.expected.accepted, job.expected.refused, job.site.search.blocked)
    return interpret(marks, response.status, response.text)


async def _claim(context: ScanContext, job: _Job) -> None:
    """Record that the link is being followed, just before it is requested; raises `NotFollowed` if it may not be."""
    async with writing_with_lease(context, mail_messages, job.lease, job.request.user_id) as session:
        request = await opt_out_requests.get(session, job.request.id)
        if request is None:
            raise LeaseLost("the request was purged")
        await _check_request(session, request)
        await opt_out_requests.change_state(
            session, request.id, opt_out_requests.FOLLOWING, before=opt_out_requests.WAITING
        )
        await message_store.change_state(session, job.lease.row_id, message_store.FOLLOWING)


async def _save(context: ScanContext, job: _Job, answer: OptOutResult, reason: str) -> None:
    state = opt_out_requests.CONFIRMED if answer == "accepted" else answer
    async with writing_with_lease(context, mail_messages, job.lease, job.request.user_id) as session:
        await opt_out_requests.change_state(session, job.request.id, state, before=opt_out_requests.FOLLOWING)
        await leases.complete(session, mail_messages, job.lease, due_at=None)
        if answer == "accepted":
            await message_store.change_state(session, job.lease.row_id, message_store.CONFIRMED)
        else:
            text = f"its link was followed: {reason}"
            await message_store.change_state(session, job.lease.row_id, message_store.REJECTED, reason=text)
        await _change_record(session, context.definitions, job.site, job.request, answer)


async def confirm(session: Session, message_id: int, definitions: Mapping[str, Definition]) -> int:
    """Record that a person judged a rejected message and confirmed the opt-out; nothing is requested. Return the record's id.

    Raises:
        ConfigurationError: No message has the id.
        InvalidArgument: It is not a rejected message to a request that waits, or its site has no definition.
    """
    message, _ = await message_store.find(session, message_id)
    if message.user_id is not None:
        await consent.lock_user(session, message.user_id, changes=False)
    row = await message_store.row_of(session, message_id)
    request = None if row is None else await opt_out_requests.get(session, row.request_id)
    if row is None or request is None or row.state != message_store.REJECTED:
        raise InvalidArgument(f"message {message_id} is not a rejected message to the address of a request")
    try:
        await _check_request(session, request)
    except NotFollowed as error:
        raise InvalidArgument(f"message {message_id}: {error}") from None
    if (site := definitions.get(request.site)) is None:
        raise InvalidArgument(
            f"message {message_id}: its site has no definition: name the directory with --sites"
        )
    await opt_out_requests.change_state(
        session, request.id, opt_out_requests.CONFIRMED, before=opt_out_requests.WAITING
    )
    await message_store.change_state(session, message_id, message_store.CONFIRMED)
    await _change_record(session, definitions, site, request, "accepted")
    return request.record_id


async def _change_record(
    session: Session,
    definitions: Mapping[str, Definition],
    site: Definition,
    request: MailRequest,
    answer: OptOutResult,
) -> None:
    """Change the status of the record whose link was followed. An unclear answer is for the scans to clear up."""
    record = await session.first(_RECORD, {"record_id": request.record_id})
    if record is None or record.status not in {DISCOVERED, PENDING_REMOVAL}:
        return
    description, scan_at = site.site(), schedule.first_verification_at(session.clock.now(), site)
    if answer == "refused":
        await removals.refuse_removal(session, request.record_id, description, event=Event.OPT_OUT_REFUSED)
        return
    if record.status == PENDING_REMOVAL:
        await removals.schedule_verification(session, request.record_id, description, next_scan_at=scan_at)
    elif answer == "accepted" or site.removal.method == "assisted":
        # The form's answer was unclear or is not saved yet, or nobody has reported the form: the message shows that it
        # was sent.
        await opt_out_requests.end(session, request.record_id, unsent=True)
        await removals.submit_removal(session, request.record_id, description, next_scan_at=scan_at)
    if answer == "accepted":
        await submit_sisters(session, definitions, site, request.user_id)


async def _reject(context: ScanContext, lease: Lease, reason: str) -> None:
    """Leave a message to a person."""
    async with context.database.writing() as session:
        row = await message_store.row_of(session, lease.row_id)
        if row is None:
            raise LeaseLost("the message and its user were purged")
        request = await opt_out_requests.get(session, row.request_id)
        if request is not None:
            await lock_person(session, request.user_id)
        await leases.complete(session, mail_messages, lease, due_at=None)
        await message_store.change_state(session, lease.row_id, message_store.REJECTED, reason=reason)
        if request is not None and row.state == message_store.FOLLOWING:
            await opt_out_requests.change_state(
                session, request.id, opt_out_requests.UNCLEAR, before=opt_out_requests.FOLLOWING
            )
            if (site := context.definitions.get(request.site)) is not None:
                await _change_record(session, context.definitions, site, request, "unclear")
    _log.info("message=%d rejected=%r", lease.row_id, reason)
