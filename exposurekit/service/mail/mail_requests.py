"""Opt-out requests that wait for mail: each has an address of its own, and its message is answered once.

States::

    waiting --its link is about to be followed--> following --> confirmed, refused, unclear
       |--> expired: no message came in time
       +--> ended: the opt-out was refused or given up before
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import bindparam, insert, select, update

from exposurekit.service.mail.settings import new_token
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import mail_requests

WAITING, FOLLOWING, CONFIRMED, REFUSED = "waiting", "following", "confirmed", "refused"
UNCLEAR, EXPIRED, ENDED = "unclear", "expired", "ended"
REQUEST = "mail requests"  # the purpose of a request's ciphertext
_DOMAIN = "mail token"
_ROW = select(mail_requests).where(mail_requests.c.id == bindparam("request_id"))
_OF_TOKEN = select(mail_requests.c.id, mail_requests.c.user_id).where(
    mail_requests.c.token_digest == bindparam("digest")
)
_OPEN = (
    select(mail_requests.c.id)
    .where(
        mail_requests.c.record_id == bindparam("record_id"), mail_requests.c.state.in_((WAITING, FOLLOWING))
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
    state: str
    token: str = field(repr=False)
    answer_by: datetime


async def issue(
    session: Session, user_id: int, record_id: int, site: str, *, within: timedelta
) -> MailRequest:
    """Return the open request of a record, or create one. The caller has locked the user."""
    request = await open_request(session, record_id)
    now = session.clock.now()
    if request is not None and request.state == WAITING:
        await extend(session, request.id, now + within)
        return request
    token = new_token()
    row = {
        "user_id": user_id,
        "record_id": record_id,
        "site": site,
        "state": WAITING,
        "token_digest": session.vault.fingerprint(token, _DOMAIN),
        "ciphertext": session.encrypt(REQUEST, user_id, {"token": token}),
        "created_at": now,
        "answer_by": now + within,
        "changed_at": now,
    }
    request_id = await session.add(insert(mail_requests), row)
    return MailRequest(request_id, user_id, record_id, site, WAITING, token, now + within)


async def get(session: Session, request_id: int) -> MailRequest | None:
    """Return a request; None: there is none with this id."""
    row = await session.first(_ROW, {"request_id": request_id})
    if row is None:
        return None
    token = session.decrypt(REQUEST, row.user_id, row.ciphertext)["token"]
    return MailRequest(row.id, row.user_id, row.record_id, row.site, row.state, token, row.answer_by)


async def open_request(session: Session, record_id: int) -> MailRequest | None:
    """Return the request of a record that waits or whose link is being followed; None: there is none."""
    row = await session.first(_OPEN, {"record_id": record_id})
    return None if row is None else await get(session, row.id)


async def owner_of_token(session: Session, token: str) -> tuple[int, int] | None:
    """Return the ids of the request with a token and of its user; None: no request has it."""
    row = await session.first(_OF_TOKEN, {"digest": session.vault.fingerprint(token, _DOMAIN)})
    return None if row is None else (row.id, row.user_id)


async def extend(session: Session, request_id: int, answer_by: datetime) -> None:
    """Set until when a request waits."""
    await session.run(update(mail_requests).filter_by(id=request_id).values(answer_by=answer_by))


async def change_state(session: Session, request_id: int, state: str, *, before: str) -> bool:
    """Change a request's state; return False, and change nothing, unless it was `before`."""
    is_unchanged = (mail_requests.c.id == request_id) & (mail_requests.c.state == before)
    change = update(mail_requests).where(is_unchanged).values(state=state, changed_at=session.clock.now())
    return await session.run(change) == 1
