"""Webhook endpoint of the invented integrator: verifies signatures and counts items."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exposurekit.contract import codec
from exposurekit.monitor.webhooks.signatures import SignatureHeaders, decode_secrets, is_signed

PATH = "/webhook"


@dataclass(slots=True)
class Integrator:
    """The deliveries an integrator received, each counted once."""

    secret: str = field(repr=False)  # signs the deliveries
    deliveries: int = 0
    refused: int = 0  # deliveries with a wrong signature
    items: Counter[str] = field(default_factory=Counter)  # by group: new_alerts, removed_records, ...
    _webhook_ids: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restore an integrator from what `saved_state` returned."""
        items, webhook_ids = Counter(state["items"]), set(state["_webhook_ids"])
        return cls(state["secret"], state["deliveries"], state["refused"], items, webhook_ids)

    def saved_state(self) -> dict[str, Any]:
        """Return the counts and the secret as plain JSON."""
        counts = {"deliveries": self.deliveries, "refused": self.refused, "items": dict(self.items)}
        return {"secret": self.secret, **counts, "_webhook_ids": sorted(self._webhook_ids)}

    @property
    def app(self) -> Starlette:
        """The ASGI application that the service posts to."""
        return Starlette(routes=[Route(PATH, self._receive, methods=["POST"])])

    async def _receive(self, request: Request) -> Response:
        body = await request.body()
        webhook_id, timestamp, signatures = (
            request.headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
        )
        signature = SignatureHeaders(webhook_id.encode(), timestamp.encode(), signatures.encode())
        if not is_signed(signature, body, decode_secrets([self.secret])):
            self.refused += 1
            return Response(status_code=401)
        if webhook_id not in self._webhook_ids:
            self._webhook_ids.add(webhook_id)
            self.deliveries += 1
            delivery = codec.decode(body, "json")
            self.items.update({group: len(delivery[group]) for group in delivery["events"]})
        return Response(status_code=204)
