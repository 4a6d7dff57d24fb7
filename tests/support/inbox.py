"""An inbox on loopback, and a sender that signs as the reference implementation does."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
from standardwebhooks import Webhook

from exposurekit.client.transports.httpx import certificates
from exposurekit.monitor.webhooks.receiver import create_app
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.service.webhooks.endpoints import new_secret
from exposurekit.system.asgi_server import running

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PATH = "unguessable-path-0123456789"
SECRET = new_secret()
BODY = json.dumps({"user_id": 12, "events": []})
LOOPBACK = "127.0.0.1"


@contextmanager
def listening(inbox: InboxStore, **options: Any) -> Iterator[httpx.Client]:
    """A client that posts to an inbox."""
    with (
        running(create_app(inbox, **options), LOOPBACK, 0) as base_url,
        httpx.Client(verify=certificates()) as http,
    ):
        http.base_url = httpx.URL(base_url)
        yield http


def emptied(inbox: InboxStore) -> InboxStore:
    """Delete all messages."""
    with inbox._database.writing() as connection:
        connection.execute("DELETE FROM messages")
    return inbox


def signed_headers(
    secret: str = SECRET, at: datetime = NOW, body: str = BODY, webhook_id: str = "msg_1"
) -> dict[str, str]:
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(webhook_id, at, body),
    }
