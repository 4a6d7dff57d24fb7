"""Messages that arrived: stored encrypted, processed once, and bounded in number.

States: ``received`` (to be processed), ``following`` (its link is being followed), ``confirmed`` (without its content),
``rejected`` (a person may read it, and its link was not followed), and ``answer`` (to an opt-out by email; for a person).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, insert, select, update

from exposurekit.errors import ConfigurationError
from exposurekit.service.mail import opt_out_requests
from exposurekit.service.mail.mailboxes import HEAD_BYTES, RawMessage
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.encrypted_columns import MESSAGE
from exposurekit.service.storage.tables import mail_messages
from exposurekit.service.storage.tables import mail_requests as _requests
from exposurekit.service.storage.tables import mailboxes as _mailboxes

RECEIVED, FOLLOWING, CONFIRMED, REJECTED = "received", "following", "confirmed", "rejected"
ANSWER = "answer"
STATES = (RECEIVED, FOLLOWING, CONFIRMED, REJECTED, ANSWER)
TO_READ = (REJECTED, ANSWER)  # by a person
UNADDRESSED_MAX, OF_REQUEST_MAX = 500, 10  # messages for a person; the oldest of more are deleted
REASON_MAX = 200  # characters
RETENTION = timedelta(days=90)
AUTOMATIC = "an automatic message: the opt-out by email is not answered"
AUTOMATIC_BESIDE_REPLY = "an automatic message: the opt-out by email is answered"
NO_REQUEST = "no request has the address that it was sent to"
TOO_LARGE = "it is larger than 1 MB; only its beginning is stored"
_DOMAIN = "mail message"
_ROW = select(mail_messages).where(mail_messages.c.id == bindparam("message_id"))
_OF_DIGEST = select(mail_messages.c.id).where(mail_messages.c.digest == bindparam("digest"))
_COLUMNS: tuple[ColumnElement[Any], ...] = (
    *(
        mail_messages.c.id,
        mail_messages.c.request_id,
        mail_messages.c.user_id,
        _requests.c.record_id,
        _requests.c.site,
    ),
    *(mail_messages.c.state, mail_messages.c.reason, mail_messages.c.received_at),
)


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message. `request_id`, `user_id`, `record_id` and `site` are those of its request, if it has one."""

    id: int
    request_id: int | None
    user_id: int | None
    record_id: int | None
    site: str | None
    state: str
    reason: str | None
    received_at: datetime


@dataclass(frozen=True, slots=True)
class MailboxCheck:
    """When a mailbox was last read, and why a later check failed, if one did."""

    address: str
    checked_at: datetime | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message in the mailbox, the addresses that it was sent to, and the Message-IDs of those that it answers."""

    raw: RawMessage
    recipients: Sequence[str] = field(default=(), repr=False)
    references: Sequence[str] = field(default=(), repr=False)


async def store(session: Session, arrival: Arrival, settings: MailSettings) -> None:
    """Store a message of the mailbox, unless it is stored already."""
    digest = session.vault.fingerprint(arrival.raw.content.decode("latin-1"), _DOMAIN)
    if await session.first(_OF_DIGEST, {"digest": digest}) is not None:
        return
    tokens = {token for one in arrival.recipients if (token := settings.token_in(one))}
    tokens = tokens or {token for one in arrival.references if (token := settings.token_of_reference(one))}
    # Anybody can write to the mailbox, so less is stored of what no request waits for.
    owner = await opt_out_requests.owner_of_token(session, tokens.pop()) if len(tokens) == 1 else None
    request_id, user_id = owner or (None, None)
    reason = None if owner else NO_REQUEST
    content = arrival.raw.content if owner else arrival.raw.content[:HEAD_BYTES]
    if arrival.raw.is_cut:
        reason = TOO_LARGE
    now = session.clock.now()
    row = {
        "user_id": user_id,
        "request_id": request_id,
        "digest": digest,
        "state": REJECTED if reason else RECEIVED,
        "reason": reason,
        "ciphertext": session.encrypt(MESSAGE, user_id or 0, content.decode("latin-1")),
        "received_at": now,
        "due_at": None if reason else now,
    }
    await session.add(insert(mail_messages), row)
    await _delete_oldest(session, request_id)


async def _delete_oldest(session: Session, request_id: int | None) -> None:
    """Delete the oldest messages for a person of a request, or of no request, beyond their number."""
    limit = UNADDRESSED_MAX if request_id is None else OF_REQUEST_MAX
    is_readable = and_(
        mail_messages.c.request_id.is_not_distinct_from(request_id), mail_messages.c.state.in_(TO_READ)
    )
    newest = select(mail_messages.c.id).where(is_readable).order_by(mail_messages.c.id.desc()).limit(limit)
    await session.run(delete(mail_messages).where(is_readable, mail_messages.c.id.not_in(newest)))


async def row_of(session: Session, message_id: int) -> Row[Any] | None:
    """Return a message's row; None: there is none with this id."""
    return await session.first(_ROW, {"message_id": message_id})


def content_of(session: Session, row: Row[Any]) -> bytes:
    """Return the message in a row as it arrived."""
    content: str = session.decrypt(MESSAGE, row.user_id or 0, row.ciphertext)
    return content.encode("latin-1")


async def change_state(session: Session, message_id: int, state: str, *, reason: str | None = None) -> None:
    """Set a message's state. The content of a confirmed one is deleted."""
    changes: dict[str, Any] = {"state": state, "reason": reason and reason[:REASON_MAX]}
    if state == CONFIRMED:
        changes["ciphertext"] = None
    await session.run(update(mail_messages).filter_by(id=message_id).values(**changes))
    if state in TO_READ:
        row = await row_of(session, message_id)
        await _delete_oldest(session, None if row is None else row.request_id)


async def mark_automatic_as_replied(session: Session, request_id: int) -> None:
    """Say of a request's automatic messages that it has been answered."""
    is_automatic = and_(mail_messages.c.request_id == request_id, mail_messages.c.reason == AUTOMATIC)
    await session.run(update(mail_messages).where(is_automatic).values(reason=AUTOMATIC_BESIDE_REPLY))


async def newest(session: Session, *, states: Sequence[str] = TO_READ, limit: int) -> list[Message]:
    """Return the newest messages in some states."""
    return await _messages(session, mail_messages.c.state.in_(states), limit=limit)


async def find(session: Session, message_id: int) -> tuple[Message, bytes | None]:
    """Return a message and its content, which a confirmed one no longer has; raises `ConfigurationError`."""
    row = await row_of(session, message_id)
    if row is None:
        raise ConfigurationError(
            f"no message has the id {message_id}: exposurekit mail list --all shows them"
        )
    [message] = await _messages(session, mail_messages.c.id == message_id, limit=1)
    return message, None if row.ciphertext is None else content_of(session, row)


async def discard(session: Session, message_ids: Sequence[int]) -> None:
    """Delete messages for a person; raises `ConfigurationError` if one of them is in another state or is not there."""
    for message_id in message_ids:
        message, _ = await find(session, message_id)
        if message.state not in TO_READ:
            raise ConfigurationError(
                f"message {message_id} is {message.state}: only one to read can be discarded"
            )
    await session.run(delete(mail_messages).where(mail_messages.c.id.in_(message_ids)))


async def discard_all(session: Session) -> int:
    """Delete every message for a person. Return how many."""
    return await session.run(delete(mail_messages).where(mail_messages.c.state.in_(TO_READ)))


async def delete_old(session: Session) -> int:
    """Delete messages that were processed 90 days ago. Return how many."""
    is_old = mail_messages.c.received_at < session.clock.now() - RETENTION
    return await session.run(
        delete(mail_messages).where(is_old, mail_messages.c.state.in_((CONFIRMED, *TO_READ)))
    )


async def counts(session: Session) -> dict[str, int]:
    """Count the messages in each state."""
    counting = select(mail_messages.c.state, func.count().label("n")).group_by(mail_messages.c.state)
    counted = {row.state: row.n for row in await session.all(counting)}
    return {state: counted.get(state, 0) for state in STATES}


async def mailboxes(session: Session) -> list[MailboxCheck]:
    """Return the last check of each mailbox that a worker has read."""
    columns = (_mailboxes.c.address, _mailboxes.c.checked_at, _mailboxes.c.problem)
    return [
        MailboxCheck(**row._asdict()) for row in await session.all(select(*columns).order_by(_mailboxes.c.id))
    ]


async def _messages(session: Session, *conditions: ColumnElement[bool], limit: int) -> list[Message]:
    query = select(*_COLUMNS).outerjoin(_requests, mail_messages.c.request_id == _requests.c.id)
    query = query.where(*conditions).order_by(mail_messages.c.id.desc()).limit(limit)
    return [Message(**row._asdict()) for row in await session.all(query)]
