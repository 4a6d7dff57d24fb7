"""Sending of one delivery: headers and signature, the request, and the attempt that is recorded.

Signatures follow Standard Webhooks (standardwebhooks.com): ``webhook-id``, ``webhook-timestamp``,
``webhook-signature``. Tests check them with the reference package, which is not a dependency because it brings an HTTP
client along.
"""

import logging
from datetime import datetime

from sqlalchemy import insert

from exposurekit.contract.webhooks import RETRY_DELAYS, decode_secret, sign
from exposurekit.service.http.address_policy import NotPublic
from exposurekit.service.http.client import FetchError, ForbiddenAddress, HttpClient
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import attempts, deliveries
from exposurekit.service.webhooks import outbox
from exposurekit.service.webhooks.endpoints import Callback
from exposurekit.service.webhooks.states import DEAD, DELIVERED, PENDING

ATTEMPT_S = 15  # spec does not say: how long an integrator may take
_REFUSED = "address refused"  # an attempt's outcome, or its beginning
_INSERT_ATTEMPT = insert(attempts)
_log = logging.getLogger("exposurekit.service")


async def deliver(database: Database, http: HttpClient, lease: Lease) -> None:
    """Make one attempt at a due delivery."""
    async with database.writing() as session:
        delivery = await outbox.prepare(session, lease)
        now = session.clock.now()
    status, outcome = await _send(delivery, http, now)
    async with database.writing() as session:
        state = await record_attempt(session, lease, status=status, outcome=outcome)
    needs_operator = state == DEAD or outcome.startswith(_REFUSED)
    level = logging.WARNING if needs_operator else logging.INFO
    _log.log(level, "webhook=%s outcome=%s state=%s", delivery.webhook_id, outcome, state)


def build_headers(callback: Callback, webhook_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers of one attempt, with a signature if the callback has a secret."""
    seconds = str(int(at.timestamp()))
    headers = {"content-type": "application/json", "webhook-id": webhook_id, "webhook-timestamp": seconds}
    if callback.secret is None:
        return headers
    signature = sign(decode_secret(callback.secret), webhook_id.encode(), seconds.encode(), body)
    return headers | {"webhook-signature": signature.decode()}


async def record_attempt(session: Session, lease: Lease, *, status: int | None, outcome: str) -> str:
    """Record an attempt, with the HTTP status (None: no response) and a short description for the operator.

    Return the delivery's new state.
    """
    row = await outbox.locked_delivery(session, lease)
    now = session.clock.now()
    attempt = {"delivery_id": row.id, "at": now, "status": status, "outcome": outcome}
    await session.add(_INSERT_ATTEMPT, attempt)
    if status is not None and 200 <= status < 300:  # noqa: PLR2004  spec does not say: what counts as success
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


async def _send(delivery: outbox.PreparedDelivery, http: HttpClient, now: datetime) -> tuple[int | None, str]:
    """Post a delivery to its callback. Return the HTTP status, if any, and the outcome in words."""
    if delivery.callback is None:
        return None, "no callback"
    headers = build_headers(delivery.callback, delivery.webhook_id, now, delivery.body)
    try:
        response = await http.fetch(
            delivery.callback.url,
            method="POST",
            headers=headers,
            body=delivery.body,
            timeout_s=ATTEMPT_S,
            redirects_max=0,
            reads_body=False,
        )
    except NotPublic:
        return None, f"{_REFUSED}: no --callback-network"
    except ForbiddenAddress:
        return None, _REFUSED
    except FetchError as error:
        return None, error.reason
    return response.status, f"status {response.status}"
