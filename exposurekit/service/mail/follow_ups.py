"""Follow-ups: opt-outs by email about a listing after a request that the site did not carry out.

A listing that is back after a removal counts as such a request, too. A listing is followed up once until it is removed. An
email about another listing of the person counts, if one request removes both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from sqlalchemy import bindparam, func, select

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL
from exposurekit.service.findings.alerts import Event
from exposurekit.service.mail.opt_out_requests import (
    APPROVED,
    DRAFT,
    EMAIL,
    ENDED,
    REPLIED,
    SENDING,
    SENT,
    MailRequest,
)
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import Instant, alerts, mail_requests, records

# An opt-out that could not be sent is none of them: nobody has asked the site.
_FAILURES = {Event.OPT_OUT_REFUSED, Event.OPT_OUT_IGNORED, Event.OPT_OUT_UNCONFIRMED}
_UNSENT, _SENT = (DRAFT, APPROVED, SENDING), (SENT, REPLIED)
_RECORDS = select(records.c.id, records.c.site, records.c.created_at).where(
    records.c.user_id == bindparam("user_id")
)
_EVENTS = (
    select(alerts.c.record_id, records.c.site, alerts.c.kind, alerts.c.created_at)
    .join(records)
    .where(alerts.c.user_id == bindparam("user_id"))
    .order_by(alerts.c.id)
)
_EMAILS = (
    select(
        *(mail_requests.c.id, mail_requests.c.user_id, mail_requests.c.record_id, mail_requests.c.site),
        *(mail_requests.c.state, records.c.status, mail_requests.c.sent_at),
        func.coalesce(mail_requests.c.sent_at, mail_requests.c.created_at, type_=Instant).label("at"),
    )
    .join(records, mail_requests.c.record_id == records.c.id)
    .where(mail_requests.c.kind == EMAIL)
    .order_by(mail_requests.c.id)
)
_OF_PERSON = _EMAILS.where(mail_requests.c.user_id == bindparam("user_id"))


class Step(Enum):
    """What is next for a listing: a form for a person, an email, or the outcome of an email that was sent before."""

    FORM = auto()
    EMAIL = auto()
    OUTCOME = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the last request for a listing was not carried out, and when it had been sent.

    `LISTED_AGAIN`: the listing is back. `NEW_RECORD`: it is new, and the request removed others that the same request
    removes.
    """

    event: Event
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class SiteEmail:
    """An opt-out by email, the status of the listing that it names, and when it was sent, or else created.

    `sent_at` is also when it may have been sent.
    """

    id: int
    user_id: int
    record_id: int
    site: str
    state: str
    status: str
    sent_at: datetime | None
    at: datetime

    @property
    def is_open(self) -> bool:
        """Whether it may still be sent."""
        return self.state in _UNSENT and self.status == DISCOVERED

    @property
    def was_sent(self) -> bool:
        """Whether it was sent, and did not come back."""
        return self.state in _SENT

    @property
    def ended_unsent(self) -> bool:
        """Whether it ended before anybody tried to send it: its approval was withdrawn with the consent, or it was given up."""
        return self.state == ENDED and self.sent_at is None

    def covers(self, record_id: int, site: str, definitions: Mapping[str, Definition]) -> bool:
        """Return whether it asks to remove a listing of its person, perhaps with others."""
        named = definitions.get(self.site)
        return self.record_id == record_id or (named is not None and named.clears(site))


async def emails(session: Session, user_id: int | None = None) -> Sequence[SiteEmail]:
    """Return the opt-outs by email about a person, or about everybody, oldest first."""
    if user_id is None:
        rows = await session.all(_EMAILS)
    else:
        rows = await session.all(_OF_PERSON, {"user_id": user_id})
    return [SiteEmail(**row._asdict()) for row in rows]


async def email_states(
    session: Session, user_id: int, definitions: Mapping[str, Definition]
) -> Mapping[int, str]:
    """Return the state of the newest opt-out by email that asks to remove a listing, by record of a person."""
    sent = await emails(session, user_id)
    states: dict[int, str] = {}
    for row in await session.all(_RECORDS, {"user_id": user_id}):
        of_record = [
            one.state
            for one in sent
            if one.at >= row.created_at and one.covers(row.id, row.site, definitions)
        ]
        states |= {row.id: of_record[-1]} if of_record else {}
    return states


async def failures(
    session: Session, requests: Sequence[MailRequest], definitions: Mapping[str, Definition]
) -> Mapping[int, Failure]:
    """Return what each opt-out by email follows, by request: the last failure of its record until it was created.

    Left out are those that follow nothing: no opt-out had failed since the listing was discovered, or the site has no
    definition, or takes opt-outs only by email.
    """
    followed: dict[int, Failure] = {}
    histories: dict[int, _History] = {}
    for one in requests:
        site = definitions.get(one.site)
        if site is None or site.removal.method != "assisted":
            continue
        if one.user_id not in histories:
            histories[one.user_id] = await _history(session, one.user_id)
        last, _ = _outcome(histories[one.user_id], one.record_id, site, one.created_at)
        if last is not None:
            followed[one.id] = last
    return followed


async def next_step(
    session: Session, user_id: int, record_id: int, site: Definition, definitions: Mapping[str, Definition]
) -> Step:
    """Return what is next for a ``discovered`` record. The caller has locked the user."""
    history = await _history(session, user_id)
    last, listed_at = _outcome(history, record_id, site, session.clock.now())
    covering = [
        one for one in await emails(session, user_id) if one.covers(record_id, site.name, definitions)
    ]
    if any(one.is_open and one.record_id == record_id for one in covering):
        return Step.EMAIL
    if last is None or any(one.is_open for one in covering):
        return Step.FORM
    earlier = [one for one in covering if one.at >= listed_at and not one.ended_unsent]
    if not earlier:
        return Step.EMAIL
    is_awaited = any(
        one.was_sent and one.status == PENDING_REMOVAL and one.at > last.sent_at for one in earlier
    )
    return Step.OUTCOME if is_awaited else Step.FORM


@dataclass(frozen=True, slots=True)
class _History:
    """When the records of a person were discovered, and what came of them: record, site, kind and time, oldest first."""

    discovered_at: Mapping[int, datetime]
    events: Sequence[tuple[int, str, str, datetime]]


async def _history(session: Session, user_id: int) -> _History:
    values = {"user_id": user_id}
    discovered_at = {row.id: row.created_at for row in await session.all(_RECORDS, values)}
    events = [
        (row.record_id, row.site, row.kind, row.created_at) for row in await session.all(_EVENTS, values)
    ]
    return _History(discovered_at, events)


def _outcome(
    history: _History, record_id: int, site: Definition, until: datetime
) -> tuple[Failure | None, datetime]:
    """Return the last failure of a record until an instant, and since when it is listed."""
    listed_at = history.discovered_at[record_id]
    last: Failure | None = None
    sent_at: dict[int, datetime] = {}
    # From sites that the same request removes from: when, and sent when.
    removed: list[tuple[datetime, datetime]] = []
    for one, name, kind, at in history.events:
        if at > until:
            break
        if kind == Event.OPT_OUT_SUBMITTED:
            sent_at[one] = at
        elif one == record_id and kind == Event.LISTED_AGAIN:
            # What disappeared before anybody asked was not removed on request.
            earlier = sent_at.pop(one, None)
            last = Failure(Event.LISTED_AGAIN, earlier) if earlier else None
            listed_at = at
        elif one == record_id and kind in _FAILURES:
            last = Failure(Event(kind), sent_at.get(one, at))
        elif kind == Event.REMOVAL_VERIFIED and one in sent_at and site.clears(name):
            removed.append((at, sent_at[one]))
    sent = [sent for at, sent in removed if at <= listed_at]
    if last is None and sent:
        last = Failure(Event.NEW_RECORD, sent[-1])
    return last, listed_at
