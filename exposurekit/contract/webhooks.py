"""The webhook delivery: its body, groups, grouping window, retry delays and signature."""

import base64
import hmac
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, Literal

from pydantic import Field

from exposurekit.contract.models import Alert, AnyRecord, Link, Resource
from exposurekit.contract.types import Id

GROUPING_WINDOW = timedelta(minutes=10)
RETRY_DELAYS = (timedelta(seconds=60), timedelta(minutes=5), timedelta(minutes=30))

# spec does not say how to sign: as Standard Webhooks do
SECRET_PREFIX = "whsec_"  # noqa: S105  of a signing secret, and none itself

DISCOVERED_LINKS, REMOVED_RECORDS, NEW_ALERTS = "discovered_links", "removed_records", "new_alerts"
DISCOVERED_RECORDS = "discovered_records"  # not shown: the name for newly discovered records; ours
GROUPS = (DISCOVERED_RECORDS, REMOVED_RECORDS, DISCOVERED_LINKS, NEW_ALERTS)

Shape = Literal["records", "links", "alerts", "unknown"]
_OF_RECORD = ("id", "site", "status")  # fields of a record that nothing else has together


def decode_secret(secret: str) -> bytes:
    """Return the key of a signing secret: base64, with or without ``whsec_``. An error's message may contain it."""
    return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)


def sign(key: bytes, webhook_id: bytes, timestamp: bytes, body: bytes) -> bytes:
    """Return the signature of an attempt: the header ``webhook-signature`` holds one or more of them."""
    content = b".".join((webhook_id, timestamp, body))
    return b"v1," + base64.b64encode(hmac.digest(key, content, "sha256"))


def shape_of(items: Any) -> Shape:
    """Return what a group contains, judged by its items: the set of group names is open."""
    if not isinstance(items, list) or not items or not all(isinstance(item, dict) for item in items):
        return "unknown"
    if all("record" in item or {*_OF_RECORD} <= item.keys() for item in items):
        return "records"
    if all("text" in item for item in items):
        return "alerts"
    if all("url" in item and "title" in item for item in items):
        return "links"
    return "unknown"


class Delivery(Resource):
    """One webhook body. ``others`` has the groups that the specification does not name.

    >>> ek.Delivery(user_id=12, events=["removed_records"]).removed_records
    []
    """

    repr_fields: ClassVar[tuple[str, ...]] = ("user_id", "events")

    user_id: Id
    events: list[str]
    discovered_records: list[AnyRecord] = Field(default_factory=list)
    removed_records: list[AnyRecord] = Field(default_factory=list)
    discovered_links: list[Link] = Field(default_factory=list)
    new_alerts: list[Alert] = Field(default_factory=list)

    @property
    def others(self) -> dict[str, Any]:
        """The groups that the specification does not name, unchanged: those in ``events``, then others with known items."""
        extra = self.model_extra or {}
        # not shown: that an event and its group have the same name
        names = [*self.events, *(name for name, items in extra.items() if shape_of(items) != "unknown")]
        return {name: extra[name] for name in names if name in extra}

    def groups(self) -> Iterator[tuple[str, Shape, list[Any]]]:
        """Yield each group: its name, what it contains, and its items as plain values."""
        for name in GROUPS:
            if items := getattr(self, name):
                yield name, _SHAPES[name], [item.model_dump(mode="json") for item in items]
        for name, items in self.others.items():
            yield name, shape_of(items), items if isinstance(items, list) else [items]


_SHAPES: dict[str, Shape] = {
    DISCOVERED_RECORDS: "records",
    REMOVED_RECORDS: "records",
    DISCOVERED_LINKS: "links",
    NEW_ALERTS: "alerts",
}
