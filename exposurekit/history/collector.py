"""Collect one load of everyone, or webhook deliveries, into a staged run."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from exposurekit import frames
from exposurekit.analysis import LISTED, UNKNOWN, VANISHED
from exposurekit.client.bulk import Batch, UserListing
from exposurekit.contract import lenient
from exposurekit.contract.models import Alert, Link, Record
from exposurekit.contract.types import REMOVED
from exposurekit.contract.webhooks import REMOVED_RECORDS
from exposurekit.errors import InvalidResponse
from exposurekit.history import identity
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.staging import StagedRun, people_table
from exposurekit.history.storage.schema import BUCKETS, CONTENT_OF, KINDS, STAGED

USERS_PER_PART = 1_000
WHOLE, PARTIAL, FAILED, REPORTED = "whole", "partial", "failed", "told"
RESERVED_STATUSES = (VANISHED, UNKNOWN)
_NOT_HASHED = {"alert_number", "status"}  # repeated in other rows, or not the item's own


class Source(Protocol):
    """What a history collects from; an `Exposure` is one."""

    @property
    def origin(self) -> str:
        """The service and the integrator, without a key."""

    def stream(
        self, take: Callable[[Batch], None], *, choose: Callable[[int], bool], progress: bool | None = None
    ) -> UserListing:
        """Load the chosen users and pass each batch on."""


@dataclass(slots=True)
class Collector:
    """Writes one shard of a run to the staging area, part by part.

    Attributes:
        staged: The run.
        shard: The number of the shard, from 1.
        records_by: ``id`` or ``reference``: what identifies a record.
        clock: Returns the current time.
    """

    staged: StagedRun
    shard: int
    records_by: str
    clock: Callable[[], datetime]
    _loaded: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    _batches: list[tuple[pa.Array, pa.Array]] = field(default_factory=list, repr=False)
    _people: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def resume(self) -> None:
        """Skip the users whom an interrupted collector has loaded already."""
        self._loaded = np.sort(np.array(self.staged.people(self.shard), np.int64))

    def choose(self, user_id: int) -> bool:
        """Return whether this shard still has to load this user."""
        mine = user_id % BUCKETS % self.staged.plan.shards == self.shard - 1
        chosen = self.staged.plan.only is None or user_id in self.staged.plan.only
        return mine and chosen and not self._is_loaded(user_id)

    def take(self, batch: Batch) -> None:
        """Add a batch; a full part is written to the staging area."""
        incomplete = batch.incomplete
        self._batches.append((frames.pack_users(batch.users), frames.pack_alerts(batch.alerts)))
        self._people += [
            # What could not be read is not gone: the load was partial.
            {
                "user_id": user["id"],
                "outcome": PARTIAL if user["is_scanning"] or user["id"] in incomplete else WHOLE,
            }
            for user in batch.users
        ]
        self._people += [asdict(failure) | {"outcome": FAILED} for failure in batch.failures]
        if len(self._people) >= USERS_PER_PART:
            self.flush()

    def flush(self) -> None:
        """Write the buffered batches to the staging area as a part."""
        if not self._people:
            return
        tables = frames.flatten(
            [people for people, _ in self._batches], [alerts for _, alerts in self._batches]
        )
        things = {kind: items_of(kind, tables[CONTENT_OF[kind]], self.records_by) for kind in KINDS}
        self.staged.put(people_table(self._people), things, self.clock(), self.shard)
        self._batches, self._people = [], []

    def _is_loaded(self, user_id: int) -> bool:
        position = int(np.searchsorted(self._loaded, user_id))
        return position < len(self._loaded) and int(self._loaded[position]) == user_id


def items_of(kind: str, table: pa.Table, records_by: str = "id") -> pa.Table:
    """Convert rows of `frames` to rows of a part, with key, hash, site and status; the first of a key counts."""
    plain = {
        name: table[name].cast(STAGED[kind].field(name).type)
        for name in table.column_names
        if name in STAGED[kind].names
    }
    rows = pa.table(plain)
    keys = _keys(kind, rows, records_by)
    rows = rows.append_column("key", pa.array(keys, pa.int64()))
    first = ~pd.DataFrame({"user_id": rows["user_id"].to_numpy(), "key": keys}).duplicated().to_numpy()
    rows = rows if first.all() else rows.filter(pa.array(first))
    bucket = pa.array(rows["user_id"].to_numpy() % BUCKETS, pa.int32())
    columns = {"bucket": bucket, "hash": _hashes(rows, records_by)} | _site_and_status(kind, rows)
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows


def _keys(kind: str, rows: pa.Table, records_by: str) -> Any:
    if kind == "record":
        if records_by == "id":
            return rows["record_id"].to_numpy()
        values = zip(*(rows[name].to_pylist() for name in ("record_id", "site", "reference_id")), strict=True)
        return np.array([identity.record_key(*row, by=records_by) for row in values], np.int64)
    if kind == "link":
        pairs = zip(rows["url"].to_pylist(), rows["title"].to_pylist(), strict=True)
        return np.array([identity.link_key(*pair) for pair in pairs], np.int64)
    names = ("record_id", "site", "href", "link_url", "text")
    values = zip(*(rows[name].to_pylist() for name in names), strict=True)
    return np.array([identity.alert_key(*row, by=records_by) for row in values], np.int64)


def _hashes(rows: pa.Table, records_by: str) -> pa.Array:
    excluded = _NOT_HASHED | {"user_id", "key"} | ({"record_id"} if records_by != "id" else set())
    texts = [_text(rows[name]) for name in rows.column_names if name not in excluded]
    joined = pc.binary_join_element_wise(*texts, "\x1f")
    return pa.array([identity.hash64(text) for text in joined.to_pylist()], pa.int64())


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(values.type):
        values = pc.binary_join(values.combine_chunks(), "\x1e")
    return pc.fill_null(values.cast(pa.string()), "\x00")


def _site_and_status(kind: str, rows: pa.Table) -> dict[str, pa.Array]:
    """The columns ``thing_site`` and ``thing_status``."""
    if kind == "record":
        is_reserved = pc.is_in(rows["status"], pa.array(RESERVED_STATUSES))
        marked = pc.binary_join_element_wise(rows["status"], "(as told)", " ")
        return {"thing_site": rows["site"], "thing_status": pc.if_else(is_reserved, marked, rows["status"])}
    if kind == "link":
        sites = [identity.host(url) for url in rows["url"].to_pylist()]
    else:
        pairs = zip(rows["site"].to_pylist(), rows["link_url"].to_pylist(), strict=True)
        sites = [site if site is not None else identity.host(url) for site, url in pairs]
    return {
        "thing_site": pa.array(sites, pa.string()),
        "thing_status": pa.array([LISTED] * rows.num_rows, pa.string()),
    }


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
    tables = _to_tables(things)
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


def _to_tables(things: Mapping[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    """Convert items to the tables of `frames`."""
    return {kind: frames.from_items(CONTENT_OF[kind], things[kind]) for kind in KINDS}
