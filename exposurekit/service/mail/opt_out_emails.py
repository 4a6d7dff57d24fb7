"""Opt-outs by email: their messages, a person's approval, and complaints about those without an answer."""

from collections.abc import Mapping
from email.message import EmailMessage
from typing import Any

from sqlalchemy import select, update

from exposurekit.contract.types import DISCOVERED, REMOVED
from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.mail import follow_ups, message_store, opt_out_requests, smtp, wording
from exposurekit.service.mail.opt_out_requests import MailRequest
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.mail.wording import Consent, Earlier, Listing
from exposurekit.service.matching.opt_out_subject import as_listed
from exposurekit.service.sites.definition import Definition, EmailOptOut
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import records

_NAMES = ("first_name", "middle_name", "last_name")


async def message(
    session: Session,
    settings: MailSettings,
    request: MailRequest,
    site: Definition,
    *,
    subject: Subject,
    record: Mapping[str, Any],
) -> EmailMessage:
    """Return the message of an opt-out; raises `ConfigurationError` if there is no consent on record."""
    email = _email(site)
    grant = await consent.in_force(session, request.user_id)
    if grant is None:
        raise ConfigurationError("no consent of the person is on record")
    failure = (await follow_ups.failures(session, [request], {site.name: site})).get(request.id)
    text = wording.opt_out(
        email.template,
        _listing(site, record),
        _person(site, subject, record),
        Consent(granted_at=grant.granted_at, granted_by=grant.granted_by),
        answer_within_days=email.answer_days,
        earlier=Earlier(failure.event, failure.sent_at, site.opt_out_url) if failure else None,
    )
    return smtp.compose(
        sender=settings.address,
        reply_to=settings.request_address(request.token),
        to=email.to,
        subject=wording.SUBJECT.format(reference=f"{request.id:04}"),
        message_id=settings.message_id(request.token),
        date=request.date or session.clock.now(),
        text=text,
    )


async def approve(session: Session, request_id: int) -> MailRequest:
    """Approve a draft, which makes it due.

    Raises:
        ConfigurationError: It is no draft, its record is not ``discovered``, or its person has not consented.
    """
    request = await find(session, request_id)
    await consent.lock_user(session, request.user_id, changes=False)
    if not await consent.may_scan(session, request.user_id):
        raise ConfigurationError(
            f"request {request_id}: the person's consent was withdrawn, or the service is not active"
        )
    if not await opt_out_requests.change_state(
        session, request_id, opt_out_requests.APPROVED, before=opt_out_requests.DRAFT
    ):
        raise ConfigurationError(f"request {request_id} is {request.state}: only a draft can be approved")
    [record] = await session.all(select(records.c.status).filter_by(id=request.record_id))
    if record.status != DISCOVERED:
        raise ConfigurationError(f"request {request_id}: its record is {record.status}")
    due = {"due_at": session.clock.now(), "opt_out_attempts": 0}
    await session.run(update(records).filter_by(id=request.record_id).values(**due))
    return request


async def record_reply(session: Session, request_id: int) -> bool:
    """Record that a site has answered an opt-out; return False if it was recorded before.

    Raises:
        ConfigurationError: It was not sent, or came back.
    """
    request = await find(session, request_id)
    await consent.lock_user(session, request.user_id, changes=False)
    if await opt_out_requests.change_state(
        session, request_id, opt_out_requests.REPLIED, before=opt_out_requests.SENT
    ):
        await message_store.mark_automatic_as_replied(session, request_id)
        return True
    state = (await find(session, request_id)).state
    if state != opt_out_requests.REPLIED:
        raise ConfigurationError(f"request {request_id} is {state}: only one that was sent can be answered")
    return False


async def find(session: Session, request_id: int) -> MailRequest:
    """Return an opt-out by email; raises `ConfigurationError` if none has this id."""
    request = await opt_out_requests.get(session, request_id)
    if request is None or request.kind != opt_out_requests.EMAIL:
        raise ConfigurationError(
            f"no opt-out by email has the id {request_id}: exposurekit mail emails shows them"
        )
    return request


async def preview(
    session: Session, request_id: int, settings: MailSettings, definitions: Mapping[str, Definition]
) -> EmailMessage:
    """Return the message of an opt-out by email as it is, or would be, sent."""
    request = await find(session, request_id)
    site, subject, record, _ = await _context(session, request, definitions)
    return await message(session, settings, request, site, subject=subject, record=record)


async def complaint(session: Session, request_id: int, definitions: Mapping[str, Definition]) -> str:
    """Return a draft of a complaint; raises `ConfigurationError` unless the answer is overdue."""
    request = await find(session, request_id)
    if not request.is_overdue(session.clock.now()) or request.sent_at is None or request.answer_by is None:
        raise ConfigurationError(f"request {request_id} is {request.state}, and its answer is not overdue")
    site, subject, record, status = await _context(session, request, definitions)
    email = _email(site)
    return wording.complaint(
        email.template,
        _listing(site, record),
        _person(site, subject, record),
        to=email.to,
        sent_at=request.sent_at,
        answer_by=request.answer_by,
        is_removed=status == REMOVED,
    )


async def _context(
    session: Session, request: MailRequest, definitions: Mapping[str, Definition]
) -> tuple[Definition, Subject, Mapping[str, Any], str]:
    site, subject = definitions.get(request.site), await users.get_subject(session, request.user_id)
    if site is None or site.removal.email is None:
        raise ConfigurationError(
            "the site has no definition with a block email: name the directory with --sites"
        )
    [row] = await session.all(select(records.c.ciphertext, records.c.status).filter_by(id=request.record_id))
    if subject is None:
        raise ConfigurationError("the person's data cannot be read")
    return site, subject, session.decrypt("records", request.user_id, row.ciphertext), row.status


def _email(site: Definition) -> EmailOptOut:
    if site.removal.email is None:
        raise ConfigurationError("the site's definition has no block email")
    return site.removal.email


def _listing(site: Definition, record: Mapping[str, Any]) -> Listing:
    return Listing(
        site=site.name, name=record["name"], href=record["href"], reference_id=record["reference_id"]
    )


def _person(site: Definition, subject: Subject, record: Mapping[str, Any]) -> dict[str, str]:
    """The person's name, and what else the site requires, as the listing shows them."""
    values = as_listed(subject, record).values()
    return {name: values[name] for name in dict.fromkeys((*_NAMES, *site.removal.user_fields_required))}
