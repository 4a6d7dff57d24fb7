"""Collect one load of everyone, or webhook deliveries, into a staged run."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from exposurekit import frames
from exposurekit.client.bulk import Batch, UserFilter
from exposurekit.contract import lenient
from exposurekit.contract.models import Alert, Link, Record
from exposurekit.contract.types import REMOVED
from exposurekit.contract.webhooks import REMOVED_RECORDS
from exposurekit.errors import InvalidResponse
from exposurekit.history.content_hash import items_of
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.staging import StagedRun, people_table
from exposurekit.history.storage.schema import CONTENT_OF, KINDS, bucket_of

USERS_PER_PART = 1_000
WHOLE, PARTIAL, FAILED, REPORTED = "whole", "partial", "failed", "reported"
DUPLICATE_RECORDS = "a record is listed more than once: its first entry counts"
SCANNING = "a scan was running: listings may be missing"


class Source(Protocol):
    """What a history collects from; an `Exposure` is one."""

    @property
    def origin(self) -> str:
        """The service and the integrator, without a key."""

    def iter_batches(
        self, *, only: UserFilter | None = None, progress: bool | None = None
    ) -> Iterator[Batch]:
        """Load the selected users, batch by batch; the last batch of a complete load has the listing."""


@dataclass(slots=True)
class Collector:
    """Writes one shard of a run to the staging area, part by part.

    Attributes:
        staged: The run.
        shard: The number of the shard, from 1.
        records_by: ``id`` or ``reference``: what identifies a record.
        clock: Returns the current time.
        users_per_part: How many users are loaded before a part is written.
    """

    staged: StagedRun
    shard: int
    records_by: str
    clock: Callable[[], datetime]
    users_per_part: int = USERS_PER_PART
    _loaded: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    _buffer: list[tuple[pa.Array, pa.Array, list[dict[str, Any]]]] = field(default_factory=list, repr=False)

    def resume(self) -> None:
        """Skip the users whom an interrupted collector has loaded already."""
        self._loaded = np.sort(np.array(self.staged.people(self.shard), np.int64))

    @property
    def has_loaded(self) -> bool:
        """Whether an interrupted collector has loaded users of this shard."""
        return bool(len(self._loaded))

    def is_pending(self, user_id: int) -> bool:
        """Return whether this shard still has to load this user."""
        mine = bucket_of(user_id) % self.staged.plan.shards == self.shard - 1
        chosen = self.staged.plan.only is None or user_id in self.staged.plan.only
        return mine and chosen and not self._is_loaded(user_id)

    def add(self, batch: Batch) -> None:
        """Add a batch; a full part is written to the staging area."""
        incomplete, repeating = batch.incomplete, batch.repeating
        people = []
        for user in batch.users:
            # What could not be read is not gone: the load was partial.
            why = [SCANNING] if user["is_scanning"] else []
            if lost := incomplete.get(user["id"]):
                why.append(f"not readable: {', '.join(lost)}")
            row = {
                "user_id": user["id"],
                "outcome": PARTIAL if why else WHOLE,
                "reason": "; ".join(why) or None,
            }
            people.append(_with_duplicates(row) if user["id"] in repeating else row)
        people += [asdict(failure) | {"outcome": FAILED} for failure in batch.failures]
        self._buffer.append((frames.pack_users(batch.users), frames.pack_alerts(batch.alerts), people))
        if sum(len(rows) for _, _, rows in self._buffer) >= self.users_per_part:
            self.flush()

    def flush(self) -> None:
        """Write the buffered batches to the staging area as a part.

        The buffer is emptied first: if Ctrl-C interrupts the write, these users are loaded again, and no part has
        some of them twice.
        """
        buffer, self._buffer = self._buffer, []
        people = [row for _, _, rows in buffer for row in rows]
        if not people:
            return
        tables = frames.flatten([users for users, _, _ in buffer], [alerts for _, alerts, _ in buffer])
        things = {kind: items_of(kind, tables[CONTENT_OF[kind]], self.records_by) for kind in KINDS}
        duplicated = _duplicated(tables[CONTENT_OF["record"]], things["record"])
        people = [_with_duplicates(row) if row["user_id"] in duplicated else row for row in people]
        self.staged.put(people_table(people), things, self.clock(), self.shard)

    def _is_loaded(self, user_id: int) -> bool:
        position = int(np.searchsorted(self._loaded, user_id))
        return position < len(self._loaded) and int(self._loaded[position]) == user_id


def _with_duplicates(person: dict[str, Any]) -> dict[str, Any]:
    """Add to a staged person that records are listed more than once, once, and last: that has a row of its own."""
    reason = person["reason"] or ""
    if reason.endswith(DUPLICATE_RECORDS):
        return person
    return person | {"reason": "; ".join(filter(None, (reason, DUPLICATE_RECORDS)))}


def _duplicated(listed: pa.Table, retained: pa.Table) -> set[int]:
    """Return the users with fewer records than were listed: some of theirs share a site and a reference."""
    if listed.num_rows == retained.num_rows:
        return set()
    return {*(Counter(listed["user_id"].to_pylist()) - Counter(retained["user_id"].to_pylist()))}


def segments(deliveries: Sequence[ReceivedDelivery]) -> Iterator[list[ReceivedDelivery]]:
    """Split deliveries, in order, into segments with at most one of each user."""
    segment: list[ReceivedDelivery] = []
    users: set[int] = set()
    for received in sorted(deliveries, key=lambda received: received.number):
        if received.delivery.user_id in users:
            yield segment
            segment, users = [], set()
        segment.append(received)
        users.add(received.delivery.user_id)
    if segment:
        yield segment


def stage_deliveries(staged: StagedRun, deliveries: Iterable[ReceivedDelivery], records_by: str) -> None:
    """Stage deliveries, at most one of each user, as observations of what they say."""
    people, rows = [], []
    things: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for received in deliveries:
        user_id = received.delivery.user_id
        people.append(
            {
                "user_id": user_id,
                "outcome": REPORTED,
                "began": received.received_at,
                "seen_at": received.received_at,
            }
        )
        rows.append(_row(received))
        # The first of a key counts; the last event of a delivery is the latest.
        order = {name: position for position, name in enumerate(received.delivery.events)}
        for name, shape, items in sorted(
            received.delivery.groups(), key=lambda group: -order.get(group[0], -1)
        ):
            _add_items(name, shape, items, user_id, things)
    tables = {kind: frames.from_items(CONTENT_OF[kind], things[kind]) for kind in KINDS}
    staged.put_deliveries(pa.Table.from_pylist(rows, _DELIVERY_SCHEMA))
    items_by_kind = {kind: items_of(kind, tables[kind], records_by) for kind in KINDS}
    staged.put(people_table(people), items_by_kind, max(row["seen_at"] for row in rows))


_DELIVERY_SCHEMA = pa.schema(
    [
        ("seen_at", pa.timestamp("us", "UTC")),
        ("user_id", pa.int64()),
        ("webhook_id", pa.string()),
        ("events", pa.list_(pa.string())),
        ("others", pa.string()),
    ]
)


def _row(received: ReceivedDelivery) -> dict[str, Any]:
    others = received.delivery.others
    return {
        "seen_at": received.received_at,
        "user_id": received.delivery.user_id,
        "webhook_id": received.webhook_id,
        "events": list(received.delivery.events),
        "others": json.dumps(others) if others else None,
    }


def _add_items(
    name: str, shape: str, items: Iterable[Any], user_id: int, things: Mapping[str, list[dict[str, Any]]]
) -> None:
    """Add the readable items of one group to those of their kind; the table ``deliveries`` has the others."""
    model = {"records": Record, "links": Link, "alerts": Alert}.get(shape)
    for item in items if model else ():
        bare = item.get("record", item) if shape == "records" and isinstance(item, dict) else item
        try:
            value = lenient.as_rows(model, bare).value  # type: ignore[arg-type]
        except InvalidResponse:
            continue
        if name == REMOVED_RECORDS:
            value["status"] = REMOVED
        things[shape.removesuffix("s")].append({"user_id": user_id, "item": value})
