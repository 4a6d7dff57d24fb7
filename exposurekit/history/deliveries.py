"""A received webhook delivery, as an inbox passes it to a history."""

from dataclasses import dataclass, field
from datetime import datetime

from exposurekit.contract.webhooks import Delivery
from exposurekit.text.html_cards import NAME_MAX, html_card, truncate


@dataclass(frozen=True, slots=True)
class ReceivedDelivery:
    """A webhook delivery, and when it was received.

    Attributes:
        number: Its position in the inbox, ascending from 1.
        received_at: When it was received, UTC.
        webhook_id: The sender's id; empty if there is none.
        delivery: The content.

    >>> from datetime import UTC, datetime
    >>> from exposurekit.contract.webhooks import Delivery
    >>> ek.ReceivedDelivery(1, datetime(2026, 11, 21, tzinfo=UTC), "msg_1", Delivery(user_id=12, events=[])).number
    1
    """

    number: int
    received_at: datetime
    webhook_id: str
    delivery: Delivery = field(repr=False)

    def __repr__(self) -> str:
        return f"ReceivedDelivery({self.number}, webhook_id={truncate(self.webhook_id, NAME_MAX)!r})"

    def _repr_html_(self) -> str:
        facts = {"number": self.number, "received": self.received_at, "webhook": self.webhook_id}
        content = {"user": self.delivery.user_id, "events": len(self.delivery.events)}
        return html_card("ReceivedDelivery", facts | content)
