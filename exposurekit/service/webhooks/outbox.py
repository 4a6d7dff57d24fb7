"""What integrators are told: events, grouped by window, frozen, attempted, delivered or dead. Sends nothing itself.

An event is a row written in the transaction of what happened; with a person's first event a window opens, and the
events of the ten minutes from then on are one delivery. When the window closes the body is frozen: every attempt
sends the same bytes. An attempt that was interrupted is made again and counts once, when it ends.

States of a delivery::

    open --window closes--> frozen --2xx--> delivered
                              | ^
            after each retry  | +--replay--+
                              +----------> dead
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, func, insert, select, true, update

from exposurekit.contract import codec
from exposurekit.contract.webhooks import GROUPING_WINDOW, GROUPS, RETRY_DELAYS
from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent
from exposurekit.service.constants import STATES
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import attempts, deliveries, events, integrators, users
from exposurekit.service.webhooks import endpoints

OPEN, PENDING, DELIVERED, DEAD = STATES
BODY, EVENT = "deliveries", "events"  # the parts that bodies and items are sealed for


@dataclass(frozen=True, slots=True)
class PreparedDelivery:
    """A delivery that is ready to be sent."""

    lease: Lease
    webhook_id: str
    body: bytes = field(repr=False)
    callback: endpoints.Callback | None = None


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """A delivery as an operator sees it: nothing of what it says."""

    id: int
    webhook_id: str
    integrator: str
    user_id: int
    state: str
    opened_at: datetime
    events: int
    attempts: int
    due_at: datetime | None
    last_outcome: str | None


async def enqueue_event(session: Session, user_id: int, kind: str, item: Mapping[str, Any]) -> None:
    """Something happened to a person: it goes into the window that is open, or opens one.

    Nothing is kept for an integrator who has no callback. The person's row must be held.
    """
    if await session.first(_HAS_CALLBACK, {"user_id": user_id}) is None:
        return
    now = session.clock.now()  # one instant for both: an event is never later than its window
    row = {
        "user_id": user_id,
        "delivery_id": await _window(session, user_id, now),
        "kind": kind,
        "ciphertext": session.encrypt(EVENT, user_id, dict(item)),
        "created_at": now,
    }
    await session.add(_INSERT_EVENT, row)


async def prepare(session: Session, lease: Lease) -> PreparedDelivery:
    """The body of a delivery that is due, frozen now if it is not yet, and where it goes.

    Raises:
        LeaseLost: Another worker has it, or the person is forgotten.
    """
    if (known := await session.first(_DELIVERY, {"delivery_id": lease.row_id})) is not None:
        with suppress(consent.NoSuchUser):  # forgotten this moment, and the delivery too
            await consent.lock_user(session, known.user_id)  # whoever is adding to the window ends first
    row = await _held(session, lease)
    ciphertext = row.body_ciphertext or await _freeze(session, row.id, row.user_id)
    body: str = session.decrypt(BODY, row.user_id, ciphertext)
    callback_ciphertext = row.callback_ciphertext
    callback = (
        endpoints.decrypted(session, row.integrator_id, callback_ciphertext) if callback_ciphertext else None
    )
    return PreparedDelivery(lease, row.webhook_id, body.encode(), callback)


async def record_attempt(session: Session, lease: Lease, *, status: int | None, outcome: str) -> str:
    """An attempt has ended; the delivery's state after it.

    Args:
        session: A write session.
        lease: The delivery, taken.
        status: The answer's; None: there was none.
        outcome: In a word or two, for the operator.

    Raises:
        LeaseLost: Another worker has the delivery.
    """
    row = await _held(session, lease)
    now = session.clock.now()
    made = {"delivery_id": row.id, "at": now, "status": status, "outcome": outcome}
    await session.add(insert(attempts), made)
    if status is not None and 200 <= status < 300:  # noqa: PLR2004  not shown: what counts as success
        await leases.complete(session, deliveries, lease, due_at=None, state=DELIVERED, ended_at=now)
        return DELIVERED
    failed = row.failed_attempts + 1
    if failed > len(RETRY_DELAYS):
        dead = {"state": DEAD, "failed_attempts": failed, "ended_at": now}
        await leases.complete(session, deliveries, lease, due_at=None, **dead)
        return DEAD
    again = now + RETRY_DELAYS[failed - 1]
    await leases.complete(session, deliveries, lease, due_at=again, failed_attempts=failed)
    return PENDING


async def all(  # noqa: A001  read as webhooks.all
    session: Session, *, state: str | None = None, limit: int = 100
) -> list[DeliveryInfo]:
    """The newest deliveries, newest first."""
    statement = _SHOWN if state is None else _SHOWN.where(deliveries.c.state == state)
    return [DeliveryInfo(*tuple(row)) for row in await session.all(statement.limit(limit))]


async def counts(session: Session) -> dict[str, int]:
    """How many deliveries are in each state."""
    found = {row.state: int(row.many) for row in await session.all(_COUNTS)}
    return {state: found.get(state, 0) for state in STATES}


async def replay(session: Session, webhook_id: str) -> None:
    """Send a dead delivery again, from its first attempt on: the same id, the same bytes.

    Raises:
        ConfigurationError: There is no dead delivery of that id.
    """
    if not await _replay(session, deliveries.c.webhook_id == webhook_id):
        raise ConfigurationError(
            "there is no dead delivery of that id: exposurekit webhooks list --state dead"
        )


async def replay_all(session: Session) -> int:
    """Send every dead delivery again; how many."""
    return await _replay(session, true())


async def forget_delivered(session: Session, before: datetime) -> int:
    """Delete what was delivered before then; how many."""
    old = and_(deliveries.c.state == DELIVERED, deliveries.c.ended_at < before)
    return await session.run(deliveries.delete().where(old))


async def _replay(session: Session, which: ColumnElement[bool]) -> int:
    again = {"state": PENDING, "failed_attempts": 0, "ended_at": None, "due_at": session.clock.now()}
    return await session.run(update(deliveries).where(which, deliveries.c.state == DEAD).values(**again))


async def _window(session: Session, user_id: int, now: datetime) -> int:
    row = await session.first(_OPEN, {"user_id": user_id})
    if row is not None and row.opened_at + GROUPING_WINDOW > now:
        return int(row.id)
    if row is not None:  # it should have been closed by now, and no worker has come by
        await _freeze(session, row.id, user_id)
    made = {
        "user_id": user_id,
        "webhook_id": f"msg_{secrets.token_hex(16)}",
        "state": OPEN,
        "opened_at": now,
        "due_at": now + GROUPING_WINDOW,
    }
    return await session.add(insert(deliveries), made)


async def _freeze(session: Session, delivery_id: int, user_id: int) -> bytes:
    groups: dict[str, list[Any]] = {}
    for row in await session.all(_EVENTS, {"delivery_id": delivery_id}):
        groups.setdefault(row.kind, []).append(session.decrypt(EVENT, user_id, row.ciphertext))
    told = [name for name in GROUPS if name in groups]
    body = {"user_id": user_id, "events": told, **{name: groups[name] for name in told}}
    ciphertext = session.encrypt(BODY, user_id, codec.encode(body, "json").decode())
    frozen = {"state": PENDING, "body_ciphertext": ciphertext}
    await session.run(update(deliveries).where(deliveries.c.id == delivery_id).values(**frozen))
    return ciphertext


async def _held(session: Session, lease: Lease) -> Row[Any]:
    await leases.assert_held(session, deliveries, lease)
    [row] = await session.all(_DELIVERY, {"delivery_id": lease.row_id})
    return row


_INSERT_EVENT = insert(events)
_HAS_CALLBACK = (
    select(users.c.id)
    .join(integrators)
    .where(users.c.id == bindparam("user_id"), integrators.c.callback_ciphertext.is_not(None))
)
# The literal text is what the partial index says: a bound state would not be planned with it on PostgreSQL.
_OPEN = select(deliveries.c.id, deliveries.c.opened_at).where(
    deliveries.c.user_id == bindparam("user_id"), deliveries.c.state == "open"
)
_EVENTS = (
    select(events.c.kind, events.c.ciphertext)
    .where(events.c.delivery_id == bindparam("delivery_id"))
    .order_by(events.c.id)
)
_DELIVERY = (
    select(
        deliveries.c.id,
        deliveries.c.user_id,
        deliveries.c.webhook_id,
        deliveries.c.failed_attempts,
        deliveries.c.body_ciphertext,
        users.c.integrator_id,
        integrators.c.callback_ciphertext,
    )
    .select_from(deliveries.join(users).join(integrators))
    .where(deliveries.c.id == bindparam("delivery_id"))
)
_COUNTS = select(deliveries.c.state, func.count().label("many")).group_by(deliveries.c.state)
_attempted = select(func.count()).where(attempts.c.delivery_id == deliveries.c.id).scalar_subquery()
_told = select(func.count()).where(events.c.delivery_id == deliveries.c.id).scalar_subquery()
_outcome = (
    select(attempts.c.outcome)
    .where(attempts.c.delivery_id == deliveries.c.id)
    .order_by(attempts.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_SHOWN = (
    select(
        deliveries.c.id,
        deliveries.c.webhook_id,
        integrators.c.name,
        deliveries.c.user_id,
        deliveries.c.state,
        deliveries.c.opened_at,
        _told,
        _attempted,
        deliveries.c.due_at,
        _outcome,
    )
    .select_from(deliveries.join(users).join(integrators))
    .order_by(deliveries.c.id.desc())
)
