"""A collector: what one load of everyone brings goes to the staging area, batch after batch. Asks nobody itself."""

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

PEOPLE_A_PART = 1_000
WHOLE, PARTIAL, FAILED, TOLD = "whole", "partial", "failed", "told"
RESERVED = (VANISHED, UNKNOWN)
_BESIDE = {"alert_number", "status"}  # told again in other rows, or not the thing's own


class Source(Protocol):
    """Whom a history collects from; an `Exposure` is one."""

    @property
    def origin(self) -> str:
        """The service and the integrator, without a key."""

    def stream(
        self, take: Callable[[Batch], None], *, choose: Callable[[int], bool], progress: bool | None = None
    ) -> UserListing:
        """Load everyone who is chosen, batch after batch, and keep nobody."""


@dataclass(slots=True)
class Collector:
    """One shard's part of a run, on its way to the staging area; holds a part of it at a time.

    Attributes:
        staged: Where it goes.
        shard: Which shard this is, from 1.
        records_by: ``id`` or ``reference``: what makes two records the same.
        clock: What time it is.
    """

    staged: StagedRun
    shard: int
    records_by: str
    clock: Callable[[], datetime]
    _done: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    _batches: list[tuple[pa.Array, pa.Array]] = field(default_factory=list, repr=False)
    _people: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def resume(self) -> None:
        """Leave out whom an interrupted collector has looked at already."""
        self._done = np.sort(np.array(self.staged.people(self.shard), np.int64))

    def choose(self, user_id: int) -> bool:
        """Whether this shard is to look at this person now."""
        mine = user_id % BUCKETS % self.staged.plan.shards == self.shard - 1
        chosen = self.staged.plan.only is None or user_id in self.staged.plan.only
        return mine and chosen and not self._is_done(user_id)

    def take(self, batch: Batch) -> None:
        """Keep a batch; a part goes to the staging area when there is enough for one."""
        incomplete = batch.incomplete
        self._batches.append((frames.pack_users(batch.users), frames.pack_alerts(batch.alerts)))
        self._people += [
            # What could not be read of somebody is not known to be gone.
            {
                "user_id": user["id"],
                "outcome": PARTIAL if user["is_scanning"] or user["id"] in incomplete else WHOLE,
            }
            for user in batch.users
        ]
        self._people += [asdict(failure) | {"outcome": FAILED} for failure in batch.failures]
        if len(self._people) >= PEOPLE_A_PART:
            self.flush()

    def flush(self) -> None:
        """What is kept goes to the staging area."""
        if not self._people:
            return
        tables = frames.flatten(
            [people for people, _ in self._batches], [alerts for _, alerts in self._batches]
        )
        things = {kind: items_of(kind, tables[CONTENT_OF[kind]], self.records_by) for kind in KINDS}
        self.staged.put(people_table(self._people), things, self.clock(), self.shard)
        self._batches, self._people = [], []

    def _is_done(self, user_id: int) -> bool:
        place = int(np.searchsorted(self._done, user_id))
        return place < len(self._done) and int(self._done[place]) == user_id


def items_of(kind: str, table: pa.Table, records_by: str = "id") -> pa.Table:
    """Rows of `frames` as a part holds them: with key, hash, site and status; the first of a key counts."""
    plain = {
        name: table[name].cast(STAGED[kind].field(name).type)
        for name in table.column_names
        if name in STAGED[kind].names
    }
    rows = pa.table(plain)
    given = _keys(kind, rows, records_by)
    rows = rows.append_column("key", pa.array(given, pa.int64()))
    first = ~pd.DataFrame({"user_id": rows["user_id"].to_numpy(), "key": given}).duplicated().to_numpy()
    rows = rows if first.all() else rows.filter(pa.array(first))
    bucket = pa.array(rows["user_id"].to_numpy() % BUCKETS, pa.int32())
    columns = {"bucket": bucket, "hash": _hashes(rows, records_by)} | _standing(kind, rows)
    for name, values in columns.items():
        rows = rows.append_column(name, values)
    return rows


def _keys(kind: str, rows: pa.Table, records_by: str) -> Any:
    if kind == "record":
        if records_by == "id":
            return rows["record_id"].to_numpy()
        named = zip(*(rows[name].to_pylist() for name in ("record_id", "site", "reference_id")), strict=True)
        return np.array([identity.record_key(*one, by=records_by) for one in named], np.int64)
    if kind == "link":
        pairs = zip(rows["url"].to_pylist(), rows["title"].to_pylist(), strict=True)
        return np.array([identity.link_key(*pair) for pair in pairs], np.int64)
    names = ("record_id", "site", "href", "link_url", "text")
    told = zip(*(rows[name].to_pylist() for name in names), strict=True)
    return np.array([identity.alert_key(*one, by=records_by) for one in told], np.int64)


def _hashes(rows: pa.Table, records_by: str) -> pa.Array:
    beside = _BESIDE | {"user_id", "key"} | ({"record_id"} if records_by != "id" else set())
    texts = [_text(rows[name]) for name in rows.column_names if name not in beside]
    joined = pc.binary_join_element_wise(*texts, "\x1f")
    return pa.array([identity.hash64(text) for text in joined.to_pylist()], pa.int64())


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(values.type):
        values = pc.binary_join(values.combine_chunks(), "\x1e")
    return pc.fill_null(values.cast(pa.string()), "\x00")


def _standing(kind: str, rows: pa.Table) -> dict[str, pa.Array]:
    """Where a thing is, and its status."""
    if kind == "record":
        ours = pc.is_in(rows["status"], pa.array(RESERVED))
        told = pc.binary_join_element_wise(rows["status"], "(as told)", " ")
        return {"thing_site": rows["site"], "thing_status": pc.if_else(ours, told, rows["status"])}
    if kind == "link":
        sites = [identity.host(url) for url in rows["url"].to_pylist()]
    else:
        named = zip(rows["site"].to_pylist(), rows["link_url"].to_pylist(), strict=True)
        sites = [site if site is not None else identity.host(url) for site, url in named]
    return {
        "thing_site": pa.array(sites, pa.string()),
        "thing_status": pa.array([LISTED] * rows.num_rows, pa.string()),
    }


def segments(told: Sequence[ReceivedDelivery]) -> Iterator[list[ReceivedDelivery]]:
    """Deliveries in their order, cut wherever somebody is told of again: each stretch has one of each person at most."""
    stretch: list[ReceivedDelivery] = []
    people: set[int] = set()
    for one in sorted(told, key=lambda one: one.number):
        if one.delivery.user_id in people:
            yield stretch
            stretch, people = [], set()
        stretch.append(one)
        people.add(one.delivery.user_id)
    if stretch:
        yield stretch


def stage_deliveries(staged: StagedRun, told: Iterable[ReceivedDelivery], records_by: str) -> None:
    """Put deliveries, one of each person at most, into the staging area as observations of what they say."""
    people, rows = [], []
    things: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for one in told:
        user_id = one.delivery.user_id
        people.append(
            {
                "user_id": user_id,
                "outcome": TOLD,
                "began": one.received_at,
                "seen_at": one.received_at,
            }
        )
        rows.append(_row(one))
        # The first of a key counts, and what a delivery names last is the latest.
        order = {name: place for place, name in enumerate(one.delivery.events)}
        for name, shape, items in sorted(one.delivery.groups(), key=lambda group: -order.get(group[0], -1)):
            _sort(name, shape, items, user_id, things)
    tables = _flattened(things)
    staged.put_told(pa.Table.from_pylist(rows, _TOLD))
    seen = {kind: items_of(kind, tables[kind], records_by) for kind in KINDS}
    staged.put(people_table(people), seen, max(row["seen_at"] for row in rows))


_TOLD = pa.schema(
    [
        ("seen_at", pa.timestamp("us", "UTC")),
        ("user_id", pa.int64()),
        ("webhook_id", pa.string()),
        ("events", pa.list_(pa.string())),
        ("others", pa.string()),
    ]
)


def _row(one: ReceivedDelivery) -> dict[str, Any]:
    others = one.delivery.others
    return {
        "seen_at": one.received_at,
        "user_id": one.delivery.user_id,
        "webhook_id": one.webhook_id,
        "events": list(one.delivery.events),
        "others": json.dumps(others) if others else None,
    }


def _sort(
    name: str, shape: str, items: Iterable[Any], user_id: int, things: Mapping[str, list[dict[str, Any]]]
) -> None:
    """The items of one group, to those of their kind; what cannot be read as one is kept as it came, elsewhere."""
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


def _flattened(things: Mapping[str, list[dict[str, Any]]]) -> dict[str, pa.Table]:
    """Items as the tables of `frames`."""
    return {kind: frames.from_items(CONTENT_OF[kind], things[kind]) for kind in KINDS}
