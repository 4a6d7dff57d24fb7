"""The integrator of the make-believe world: it is told by webhook, checks who tells it, and counts. Keeps no name."""

import base64
import hmac
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exposurekit.contract import codec
from exposurekit.service.webhooks.endpoints import PREFIX

PATH = "/told"


@dataclass(slots=True)
class Integrator:
    """What came in: deliveries, each once, and what they held.

    Attributes:
        secret: What the deliveries are signed with.
        deliveries: How many different ones.
        refused: How many whose signature was wrong.
        told: How many items, by group: ``new_alerts``, ``removed_records``, ...
    """

    secret: str = field(repr=False)
    deliveries: int = 0
    refused: int = 0
    told: Counter[str] = field(default_factory=Counter)
    _known: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def with_past(cls, past: Mapping[str, Any]) -> Self:
        """One that was told what another was."""
        return cls(**{**past, "told": Counter(past["told"]), "_known": set(past["_known"])})

    def past(self) -> dict[str, Any]:
        """What it was told, as plain JSON; its secret with it."""
        counted = {"deliveries": self.deliveries, "refused": self.refused, "told": dict(self.told)}
        return {"secret": self.secret, **counted, "_known": sorted(self._known)}

    @property
    def app(self) -> Starlette:
        """Where the service posts to."""
        return Starlette(routes=[Route(PATH, self._told, methods=["POST"])])

    async def _told(self, request: Request) -> Response:
        body = await request.body()
        webhook_id = request.headers.get("webhook-id", "")
        if not self._signed(request, webhook_id, body):
            self.refused += 1
            return Response(status_code=401)
        if webhook_id not in self._known:
            self._known.add(webhook_id)
            self.deliveries += 1
            delivery = codec.decode(body, "json")
            self.told.update({group: len(delivery[group]) for group in delivery["events"]})
        return Response(status_code=204)

    def _signed(self, request: Request, webhook_id: str, body: bytes) -> bool:
        key = base64.b64decode(self.secret.removeprefix(PREFIX))
        at = request.headers.get("webhook-timestamp", "")
        digest = hmac.digest(key, f"{webhook_id}.{at}.".encode() + body, "sha256")
        given = request.headers.get("webhook-signature", "")
        return hmac.compare_digest(given, f"v1,{base64.b64encode(digest).decode()}")
