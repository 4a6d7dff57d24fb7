"""The schema of a history's tables.

An *item* is a record, a link or an alert of one person: ``(kind, user_id, key)``. An *episode* is a period in which it
was open, from its first observation as open to its first observation as removed or vanished.
"""

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from exposurekit import frames

KINDS = ("record", "link", "alert")
BUCKETS = 64  # so that erasing a person rewrites one sixty-fourth
BUCKET_SQL = f"(user_id % {BUCKETS})::INTEGER"  # `bucket_of`, in a query
# The partition of small writes, with users of all buckets: one file instead of one for each bucket.
SHARED = -1

TEXT, FLAG = pa.string(), pa.bool_()
SMALL, INTEGER, LONG, NUMBER = pa.int16(), pa.int32(), pa.int64(), pa.float64()
INSTANT = pa.timestamp("us", "UTC")
Columns = dict[str, pa.DataType]
ITEM: Columns = {
    "kind": TEXT,
    "user_id": LONG,
    "key": LONG,
    "site": TEXT,
    "status": TEXT,
    "prev_status": TEXT,
    "episode": INTEGER,
    "episode_at": INSTANT,
    "left_censored": FLAG,
}
CONTENT_OF = {"record": "records", "link": "links", "alert": "alerts"}
COUNTED = (
    *("new", "entered_scope", "relisted", "changed", "removed", "vanished", "left_scope"),
    *("links_new", "links_vanished", "alerts_new", "alerts_vanished"),
)
PEOPLE_COUNTED = ("whole", "partial", "failed", "missed", "absent", "unlisted", "late", "registered")
_OBSERVATION: Columns = {"seq": LONG, "seen_at": INSTANT}
_KEYS: Columns = {"user_id": LONG, "key": LONG, "hash": LONG}
_FAILURE: Columns = {"operation": TEXT, "error": TEXT, "status": SMALL, "reason": TEXT}


@dataclass(frozen=True, slots=True)
class Table:
    """One Delta table: its columns, and whether it is partitioned by bucket of user."""

    schema: pa.Schema
    bucketed: bool = False

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return list(self.schema.names)


def _content_columns(kind: str) -> Columns:
    """The columns of an item's content, as `frames` declares them, in plain Arrow types."""
    columns = {column.name: column.kind.arrow for column in frames.TABLES[CONTENT_OF[kind]]}
    return {
        name: TEXT if pa.types.is_large_string(one) else one
        for name, one in columns.items()
        if name != "user_id"
    }


def _table(columns: Columns, *, bucketed: bool = False) -> Table:
    return Table(pa.schema(columns | ({"bucket": INTEGER} if bucketed else {})), bucketed)


TABLES: dict[str, Table] = {
    # One row per ingested run; `seq` numbers them.
    "runs": _table(
        {"seq": LONG, "run": TEXT, "origin": TEXT, "scope": TEXT, "source": TEXT}
        | {"started_at": INSTANT, "finished_at": INSTANT, "complete": FLAG}
        | dict.fromkeys(("listed", *PEOPLE_COUNTED, *COUNTED), LONG)
        | {"inbox": TEXT, "inbox_until": LONG, "deliveries": LONG}
    ),
    # The run of each number; on a store that is not local, where there are no locks.
    "claims": _table({"seq": LONG, "run": TEXT}),
    # One row per user whom a run did not load in full, or loaded for the first time.
    "load_issues": _table({"seq": LONG, "user_id": LONG, "what": TEXT} | _FAILURE),
    # One row per observed change of an item's status.
    "changes": _table(
        _OBSERVATION | {"day": INTEGER} | ITEM | {"open_s": LONG, "not_before": INSTANT}, bucketed=True
    ),
    # The content of each item, whenever it changed.
    **{
        CONTENT_OF[kind]: _table(_OBSERVATION | _KEYS | _content_columns(kind), bucketed=True)
        for kind in KINDS
    },
    # The state of every item after the run in the table's transaction "checkpoint".
    "checkpoint": _table(_OBSERVATION | ITEM | {"hash": LONG}, bucketed=True),
    # The number of changes by sort and day: queries over everyone sum these.
    "cube": _table(
        {"seq": LONG, "day": INTEGER, "kind": TEXT, "site": TEXT, "prev_status": TEXT, "status": TEXT}
        | {"opened_day": INTEGER, "left_censored": FLAG, "n": LONG}
    ),
    # The current state of every user.
    "people": _table(
        {"user_id": LONG, "listed": FLAG, "last_complete_at": INSTANT, "observed_until": INSTANT}
        | {"first_registered_after": INSTANT, "outcome": TEXT, "reason": TEXT}
    ),
    # One row per webhook delivery; `others` has the fields that the specification does not name.
    "deliveries": _table(
        _OBSERVATION | {"user_id": LONG, "webhook_id": TEXT, "events": pa.list_(TEXT), "others": TEXT}
    ),
    # Labels, ticks and notes; the newest counts.
    "annotations": _table(
        {"marked_at": INSTANT, "user_id": LONG, "kind": TEXT, "key": LONG}
        | {"mark": TEXT, "step": LONG, "value": TEXT, "note": TEXT}
    ),
    # Sites that got another name; applied in order whenever a question is answered.
    "site_names": _table({"renamed_at": INSTANT, "site": TEXT, "name": TEXT}),
    # The days that a site declares to need for a removal; the newest count, and null takes them back.
    "declared_days": _table({"declared_at": INSTANT, "site": TEXT, "days": NUMBER, "source": TEXT}),
}

# What people write at any time, also while another process ingests or erases.
ANNOTATION_TABLES = ("annotations", "site_names", "declared_days")

STAGED_PEOPLE = pa.schema(
    {"part": LONG, "user_id": LONG, "outcome": TEXT}
    # Null: the start, and the end, of the run.
    | {"began": INSTANT, "seen_at": INSTANT}
    | _FAILURE
)
STAGED = {
    kind: pa.schema(
        {"part": LONG, "bucket": INTEGER, "thing_site": TEXT, "thing_status": TEXT}
        | _KEYS
        | _content_columns(kind)
    )
    for kind in KINDS
}


def bucket_of(user_id: int) -> int:
    """Return the bucket of a user."""
    return user_id % BUCKETS


def within_buckets(low: str, high: str, table: str = "") -> str:
    """Return ANSI SQL for the rows of users of some buckets; files of other buckets are skipped."""
    bucket, user_id = (f"{table}.{name}" if table else name for name in ("bucket", "user_id"))
    return (
        f"(({bucket} = {SHARED} OR {bucket} BETWEEN {low} AND {high}) "
        f"AND {user_id} % {BUCKETS} BETWEEN {low} AND {high})"
    )


def in_parts(low: int, high: int, rows: int, most: int) -> list[tuple[int, int]]:
    """Split a bucket range into parts of about ``most`` rows; a part has at least one bucket."""
    buckets = high - low + 1
    count = min(buckets, max(1, -(-rows // most)))
    edges = [low + buckets * position // count for position in range(count + 1)]
    return [(first, past - 1) for first, past in pairwise(edges)]
