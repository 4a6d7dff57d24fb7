"""Webhook outbox: events grouped into deliveries, and the deliveries as an operator sees them.

An event is a row written in the transaction of the change that it reports. A user's first event opens a window, and
the events of the next ten minutes form one delivery. When the window closes, the body is fixed: every attempt sends
the same bytes. An interrupted attempt is repeated and counts once, when it ends. A worker that has lost its lease, or
whose user is erased, gets `LeaseLost`.
"""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, func, insert, select, true, update

from exposurekit.contract import codec
from exposurekit.contract.webhooks import GROUPING_WINDOW, GROUPS
from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encrypted_columns import BODY, EVENT
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import attempts, deliveries, events, integrators, users
from exposurekit.service.webhooks import endpoints
from exposurekit.service.webhooks.states import DEAD, DELIVERED, OPEN, PENDING, STATES

KEEP_DELIVERED = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class PreparedDelivery:
    """A delivery that is ready to send."""

    lease: Lease
    webhook_id: str
    body: bytes = field(repr=False)
    callback: endpoints.Callback | None = None


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """A delivery as an operator sees it, without its content."""

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
    """Add an event to the user's open window, or open one; no-op if the integrator has no callback.

    The user must be locked (`consent.lock_user`).
    """
    if await session.first(_HAS_CALLBACK, {"user_id": user_id}) is None:
        return
    now = session.clock.now()  # one instant for both: an event is never later than its window opens
    row = {
        "user_id": user_id,
        "delivery_id": await _open_window(session, user_id, now),
        "kind": kind,
        "ciphertext": session.encrypt(EVENT, user_id, dict(item)),
        "created_at": now,
    }
    await session.add(_INSERT_EVENT, row)


async def prepare(session: Session, lease: Lease) -> PreparedDelivery:
    """Prepare a due delivery: close its window if it is open, and decrypt its body and callback."""
    if (owner := await session.first(_DELIVERY, {"delivery_id": lease.row_id})) is not None:
        with suppress(consent.NoSuchUser):  # erased just now, with the delivery
            # Wait for whoever is adding to the window.
            await consent.lock_user(session, owner.user_id, changes=False)
    row = await locked_delivery(session, lease)
    ciphertext = row.body_ciphertext or await _close_window(session, row.id, row.user_id)
    body: str = session.decrypt(BODY, row.user_id, ciphertext)
    callback = endpoints.decrypt_callback(session, row.integrator_id, row.callback_ciphertext)
    return PreparedDelivery(lease, row.webhook_id, body.encode(), callback)


async def locked_delivery(session: Session, lease: Lease) -> Row[Any]:
    """Return the row of a delivery that this worker has."""
    await leases.assert_held(session, deliveries, lease)
    [row] = await session.all(_DELIVERY, {"delivery_id": lease.row_id})
    return row


async def all(  # noqa: A001  read as webhooks.all
    session: Session, *, state: str | None = None, limit: int = 100
) -> list[DeliveryInfo]:
    """List deliveries, newest first."""
    statement = _DELIVERY_INFO if state is None else _DELIVERY_INFO.where(deliveries.c.state == state)
    return [DeliveryInfo(*tuple(row)) for row in await session.all(statement.limit(limit))]


async def counts(session: Session) -> dict[str, int]:
    """Count the deliveries in each state."""
    by_state = {row.state: int(row.many) for row in await session.all(_COUNTS)}
    return {state: by_state.get(state, 0) for state in STATES}


async def count_replayable(session: Session) -> int:
    """Count the dead deliveries of integrators that have a callback."""
    [row] = await session.all(_REPLAYABLE)
    return int(row.many)


async def replay(session: Session, webhook_id: str) -> None:
    """Queue a dead delivery again, with all its attempts, the same id and the same bytes."""
    one = deliveries.c.webhook_id == webhook_id
    if await _replay(session, one):
        return
    if await session.first(select(deliveries.c.id).where(one, deliveries.c.state == DEAD)):
        raise ConfigurationError(
            "its integrator has no callback: set one with exposurekit integrator set-callback, then replay"
        )
    raise ConfigurationError(
        "no dead delivery has this id: exposurekit webhooks list --state dead shows them"
    )


async def replay_all(session: Session) -> int:
    """Queue every dead delivery of an integrator with a callback again. Return how many."""
    return await _replay(session, true())


async def delete_delivered(session: Session) -> int:
    """Delete what was delivered more than `KEEP_DELIVERED` ago. Return how many deliveries that were."""
    before = session.clock.now() - KEEP_DELIVERED
    old = and_(deliveries.c.state == DELIVERED, deliveries.c.ended_at < before)
    return await session.run(deliveries.delete().where(old))


async def _replay(session: Session, which: ColumnElement[bool]) -> int:
    again = {"state": PENDING, "failed_attempts": 0, "ended_at": None, "due_at": session.clock.now()}
    dead = update(deliveries).where(which, deliveries.c.state == DEAD, deliveries.c.user_id.in_(_CALLED_BACK))
    return await session.run(dead.values(**again))


async def _open_window(session: Session, user_id: int, now: datetime) -> int:
    row = await session.first(_OPEN, {"user_id": user_id})
    if row is not None and row.opened_at + GROUPING_WINDOW > now:
        return int(row.id)
    if row is not None:  # it should be closed by now, but no worker has done so
        await _close_window(session, row.id, user_id)
    delivery = {
        "user_id": user_id,
        "webhook_id": f"msg_{secrets.token_hex(16)}",
        "state": OPEN,
        "opened_at": now,
        "due_at": now + GROUPING_WINDOW,
    }
    return await session.add(_INSERT_DELIVERY, delivery)


async def _close_window(session: Session, delivery_id: int, user_id: int) -> bytes:
    groups: dict[str, list[Any]] = {}
    stored = await session.all(_EVENTS, {"delivery_id": delivery_id})
    items = session.decrypt_readable([(EVENT, user_id, row.ciphertext) for row in stored])
    for row, item in zip(stored, items, strict=True):
        if item is not DAMAGED:
            groups.setdefault(row.kind, []).append(item)
    names = [name for name in GROUPS if name in groups]
    body = {"user_id": user_id, "events": names, **{name: groups[name] for name in names}}
    ciphertext = session.encrypt(BODY, user_id, codec.encode(body, "json").decode())
    changes = {"state": PENDING, "body_ciphertext": ciphertext}
    await session.run(_CHANGE_DELIVERY, changes | {"delivery_id": delivery_id})
    return ciphertext


_INSERT_EVENT, _INSERT_DELIVERY = insert(events), insert(deliveries)
_CHANGE_DELIVERY = update(deliveries).where(deliveries.c.id == bindparam("delivery_id"))
_EVENTS = (
    select(events.c.kind, events.c.ciphertext)
    .where(events.c.delivery_id == bindparam("delivery_id"))
    .order_by(events.c.id)
)
_CALLED_BACK = select(users.c.id).join(integrators).where(integrators.c.callback_ciphertext.is_not(None))
_HAS_CALLBACK = _CALLED_BACK.where(users.c.id == bindparam("user_id"))
# A literal, as in the partial index: PostgreSQL would not use the index for a bound parameter.
_OPEN = select(deliveries.c.id, deliveries.c.opened_at).where(
    deliveries.c.user_id == bindparam("user_id"), deliveries.c.state == "open"
)
_DELIVERY = (
    select(deliveries, users.c.integrator_id, integrators.c.callback_ciphertext)
    .select_from(deliveries.join(users).join(integrators))
    .where(deliveries.c.id == bindparam("delivery_id"))
)
_COUNTS = select(deliveries.c.state, func.count().label("many")).group_by(deliveries.c.state)
_REPLAYABLE = (
    select(func.count().label("many"))
    .select_from(deliveries.join(users).join(integrators))
    .where(deliveries.c.state == DEAD, integrators.c.callback_ciphertext.is_not(None))
)
_attempt_count = select(func.count()).where(attempts.c.delivery_id == deliveries.c.id).scalar_subquery()
_event_count = select(func.count()).where(events.c.delivery_id == deliveries.c.id).scalar_subquery()
_last_outcome = (
    select(attempts.c.outcome)
    .where(attempts.c.delivery_id == deliveries.c.id)
    .order_by(attempts.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_DELIVERY_INFO = (
    select(
        *(deliveries.c.id, deliveries.c.webhook_id, integrators.c.name, deliveries.c.user_id),
        *(deliveries.c.state, deliveries.c.opened_at, _event_count, _attempt_count),
        *(deliveries.c.due_at, _last_outcome),
    )
    .select_from(deliveries.join(users).join(integrators))
    .order_by(deliveries.c.id.desc())
)
