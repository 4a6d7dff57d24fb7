"""Opt-out requests that wait for mail: each has an address of its own, and its message is answered once.

A request whose form a person sends waits from when it is prepared, without a limit until the person reports that they
sent it. States of a request whose form is confirmed by mail::

    waiting --its link is about to be followed--> following --> confirmed, refused, unclear
       |--> expired: no message came in time
       +--> ended: the opt-out was refused or given up before

States of an opt-out by email::

    draft --a person approves it--> approved --> sending --> sent --> answered
      ^---it may have been sent, or not---------------+        +--> returned: it was not delivered
                                                      +--> returned: it could not be sent
    and from each of the first three: ended; from approved also if consent is withdrawn or the service deactivated

An opt-out by email that may have been sent has the time at which it may have been, even as a draft or ended, so that
none follows it unnoticed.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, bindparam, func, insert, or_, select, update

from exposurekit.service.mail.settings import new_token
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encrypted_columns import REQUEST
from exposurekit.service.storage.tables import mail_requests

WAITING, FOLLOWING, CONFIRMED, REFUSED = "waiting", "following", "confirmed", "refused"
UNCLEAR, EXPIRED, ENDED = "unclear", "expired", "ended"
DRAFT, APPROVED, SENDING, SENT = "draft", "approved", "sending", "sent"
REPLIED, RETURNED = "answered", "returned"
CONFIRMATION, EMAIL = "confirmation", "email"  # kinds
_OPEN_STATES = (WAITING, FOLLOWING, DRAFT, APPROVED, SENDING)
_DAY = timedelta(days=1)
_LOCK = 6_190_382_754  # an arbitrary number: the limits of a day are checked one after another
_DOMAIN = "mail token"
_ROW = select(mail_requests).where(mail_requests.c.id == bindparam("request_id"))
_OF_TOKEN = select(mail_requests.c.id, mail_requests.c.user_id).where(
    mail_requests.c.token_digest == bindparam("digest")
)
_OPEN = (
    select(mail_requests.c.id)
    .where(
        mail_requests.c.record_id == bindparam("record_id"),
        mail_requests.c.kind == bindparam("kind"),
        mail_requests.c.state.in_(_OPEN_STATES),
    )
    .order_by(mail_requests.c.id.desc())
    .limit(1)
)
_LAST_SENT = (  # or perhaps sent
    select(mail_requests.c.state)
    .where(
        mail_requests.c.record_id == bindparam("record_id"),
        mail_requests.c.kind == EMAIL,
        mail_requests.c.sent_at.is_not(None),
    )
    .order_by(mail_requests.c.id.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class MailRequest:
    """An opt-out request that waits for mail, or waited."""

    id: int
    user_id: int
    record_id: int
    site: str
    kind: str
    state: str
    token: str = field(repr=False)
    created_at: datetime
    sent_at: datetime | None  # or when it may have been sent
    answer_by: datetime | None  # of an email: only once it was sent

    @property
    def date(self) -> datetime | None:
        """When it was sent; None: it was not, or nobody knows."""
        return None if self.answer_by is None else self.sent_at

    def is_overdue(self, now: datetime) -> bool:
        """Return whether an opt-out that was sent got no answer in time."""
        return self.state == SENT and self.answer_by is not None and self.answer_by <= now


async def issue(
    session: Session, user_id: int, record_id: int, site: str, *, within: timedelta | None
) -> MailRequest:
    """Return the waiting request of a record, or create one. The caller has locked the user.

    `within` is how long it waits from now; None: without a limit, until a person has sent the form.
    """
    request = await open_request(session, record_id, CONFIRMATION)
    answer_by = None if within is None else session.clock.now() + within
    if request is None or request.state != WAITING:
        return await _add(session, user_id, record_id, site, answer_by=answer_by)
    await extend(session, request.id, answer_by)
    return replace(request, answer_by=answer_by)


async def issue_email(
    session: Session, user_id: int, record_id: int, site: str, *, requires_approval: bool
) -> MailRequest:
    """Return the open opt-out by email of a record, or create one. The caller has locked the user.

    One that comes after an opt-out that may have been sent needs an approval in any case.
    """
    request = await open_request(session, record_id, EMAIL)
    if request is not None:
        return request
    last = await session.first(_LAST_SENT, {"record_id": record_id})
    is_repeated = last is not None and last.state == ENDED
    state = DRAFT if requires_approval or is_repeated else APPROVED
    return await _add(session, user_id, record_id, site, kind=EMAIL, state=state)


async def _add(
    session: Session,
    user_id: int,
    record_id: int,
    site: str,
    *,
    kind: str = CONFIRMATION,
    state: str = WAITING,
    answer_by: datetime | None = None,
) -> MailRequest:
    now, token = session.clock.now(), new_token()
    row = {
        "user_id": user_id,
        "record_id": record_id,
        "site": site,
        "kind": kind,
        "state": state,
        "token_digest": session.vault.fingerprint(token, _DOMAIN),
        "ciphertext": session.encrypt(REQUEST, user_id, {"token": token}),
        "created_at": now,
        "answer_by": answer_by,
        "changed_at": now,
    }
    request_id = await session.add(insert(mail_requests), row)
    return MailRequest(request_id, user_id, record_id, site, kind, state, token, now, None, answer_by)


async def get(session: Session, request_id: int | None) -> MailRequest | None:
    """Return a request; None: there is none with this id, or no id."""
    row = await session.first(_ROW, {"request_id": request_id})
    return None if row is None else _request(session, row)


def _request(session: Session, row: Row[Any]) -> MailRequest:
    token = session.decrypt(REQUEST, row.user_id, row.ciphertext)["token"]
    times = (row.created_at, row.sent_at, row.answer_by)
    return MailRequest(row.id, row.user_id, row.record_id, row.site, row.kind, row.state, token, *times)


async def emails(
    session: Session, *, state: str | None = None, overdue: bool = False, limit: int
) -> list[MailRequest]:
    """Return the newest opt-outs by email: all, those in a state, or those whose answer is overdue."""
    conditions = [mail_requests.c.kind == EMAIL]
    if state is not None:
        conditions.append(mail_requests.c.state == state)
    if overdue:
        conditions += [mail_requests.c.state == SENT, mail_requests.c.answer_by <= session.clock.now()]
    query = select(mail_requests).where(*conditions).order_by(mail_requests.c.id.desc()).limit(limit)
    return [_request(session, row) for row in await session.all(query)]


async def begin_sending(
    session: Session, request: MailRequest, *, per_day: int, per_site_per_day: int
) -> bool:
    """Mark an approved opt-out as being sent, unless the limit of a day is reached; return whether it is.

    One that is sent again counts once, when it was last sent.
    """
    await session.serialize(_LOCK)
    since = session.clock.now() - _DAY
    # One that a kill interrupted stays in the state sending if its listing is removed meanwhile.
    is_sending = and_(mail_requests.c.state == SENDING, mail_requests.c.changed_at > since)
    recent = and_(mail_requests.c.kind == EMAIL, or_(mail_requests.c.sent_at > since, is_sending))
    of_site = func.count().filter(mail_requests.c.site == request.site)
    [row] = await session.all(select(func.count().label("n"), of_site.label("n_of_site")).where(recent))
    if row.n >= per_day or row.n_of_site >= per_site_per_day:
        return False
    return await change_state(session, request.id, SENDING, before=APPROVED)


async def record_sent(session: Session, request_id: int, *, answer_by: datetime) -> None:
    """Record that an opt-out was sent."""
    sent = {"sent_at": session.clock.now(), "answer_by": answer_by}
    await session.run(update(mail_requests).filter_by(id=request_id).values(**sent))
    await change_state(session, request_id, SENT, before=SENDING)


async def stop_sending(session: Session, request_id: int, state: str) -> None:
    """Change the state of an opt-out whose sending had begun, and record when it may have been sent."""
    is_sending = (mail_requests.c.id == request_id) & (mail_requests.c.state == SENDING)
    stopped = {"state": state, "sent_at": mail_requests.c.changed_at, "changed_at": session.clock.now()}
    await session.run(update(mail_requests).where(is_sending).values(**stopped))


async def waiting_tokens(session: Session) -> dict[int, str]:
    """Return the tokens of the requests that wait for a site's message, by record; without damaged ones."""
    is_open = (mail_requests.c.kind == CONFIRMATION) & mail_requests.c.state.in_((WAITING, FOLLOWING))
    rows = await session.all(select(mail_requests).where(is_open).order_by(mail_requests.c.id))
    values = session.decrypt_readable([(REQUEST, row.user_id, row.ciphertext) for row in rows])
    return {row.record_id: one["token"] for row, one in zip(rows, values, strict=True) if one is not DAMAGED}


async def end(session: Session, record_id: int, *, unsent: bool = False) -> None:
    """End the requests of a record that wait for a message; with `unsent`, all those that nobody has sent, emails too."""
    is_waiting = mail_requests.c.state == WAITING
    if unsent:
        is_unsent = and_(is_waiting, mail_requests.c.answer_by.is_(None))
        is_waiting = or_(is_unsent, mail_requests.c.state.in_((DRAFT, APPROVED)))
    ended = {"state": ENDED, "changed_at": session.clock.now()}
    of_record = update(mail_requests).filter_by(record_id=record_id)
    await session.run(of_record.where(is_waiting).values(**ended))


async def open_request(session: Session, record_id: int, kind: str) -> MailRequest | None:
    """Return the request of a record and kind that is not decided yet; None: there is none."""
    row = await session.first(_OPEN, {"record_id": record_id, "kind": kind})
    return None if row is None else await get(session, row.id)


async def owner_of_token(session: Session, token: str) -> tuple[int, int] | None:
    """Return the ids of the request with a token and of its user; None: no request has it."""
    row = await session.first(_OF_TOKEN, {"digest": session.vault.fingerprint(token, _DOMAIN)})
    return None if row is None else (row.id, row.user_id)


async def extend(session: Session, request_id: int, answer_by: datetime | None) -> None:
    """Set until when a request waits; None: without a limit."""
    await session.run(update(mail_requests).filter_by(id=request_id).values(answer_by=answer_by))


async def change_state(session: Session, request_id: int, state: str, *, before: str) -> bool:
    """Change a request's state; return False, and change nothing, unless it was `before`."""
    is_unchanged = (mail_requests.c.id == request_id) & (mail_requests.c.state == before)
    change = update(mail_requests).where(is_unchanged).values(state=state, changed_at=session.clock.now())
    return await session.run(change) == 1
