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

INSTANT = pa.timestamp("us", "UTC")
_LISTS = pa.list_(pa.string())
ITEM = [
    ("kind", pa.string()),
    ("user_id", pa.int64()),
    ("key", pa.int64()),
    ("site", pa.string()),
    ("status", pa.string()),
    ("prev_status", pa.string()),
    ("episode", pa.int32()),
    ("episode_at", INSTANT),
    ("left_censored", pa.bool_()),
]
CONTENT_OF = {"record": "records", "link": "links", "alert": "alerts"}
_KEYS = [("user_id", pa.int64()), ("key", pa.int64()), ("hash", pa.int64())]
COUNTED = (
    *("new", "entered_scope", "relisted", "changed", "removed", "vanished", "left_scope"),
    *("links_new", "links_vanished", "alerts_new", "alerts_vanished"),
)
PEOPLE_COUNTED = ("whole", "partial", "failed", "missed", "absent", "unlisted", "late", "registered")


@dataclass(frozen=True, slots=True)
class Table:
    """One Delta table: its columns, and whether it is partitioned by bucket of user."""

    schema: pa.Schema
    bucketed: bool = False

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return list(self.schema.names)


def _content_columns(kind: str) -> list[tuple[str, pa.DataType]]:
    """The columns of an item's content, as `frames` declares them, in plain Arrow types."""
    return [
        (column.name, _plain(column.kind.arrow))
        for column in frames.TABLES[CONTENT_OF[kind]]
        if column.name != "user_id"
    ]


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind


def _table(*columns: tuple[str, pa.DataType], bucketed: bool = False) -> Table:
    within = [("bucket", pa.int32())] if bucketed else []
    return Table(pa.schema([*columns, *within]), bucketed)


_OBSERVATION = [("seq", pa.int64()), ("seen_at", INSTANT)]
TABLES: dict[str, Table] = {
    # One row per ingested run; `seq` numbers them.
    "runs": _table(
        ("seq", pa.int64()),
        ("run", pa.string()),
        ("origin", pa.string()),
        ("scope", pa.string()),
        ("source", pa.string()),
        ("started_at", INSTANT),
        ("finished_at", INSTANT),
        ("complete", pa.bool_()),
        ("listed", pa.int64()),
        *((name, pa.int64()) for name in (*PEOPLE_COUNTED, *COUNTED)),
        ("inbox", pa.string()),
        ("inbox_until", pa.int64()),
        ("deliveries", pa.int64()),
    ),
    # The run of each number; on a store that is not local, where there are no locks.
    "claims": _table(("seq", pa.int64()), ("run", pa.string())),
    # One row per user whom a run did not load in full, or loaded for the first time.
    "load_issues": _table(
        ("seq", pa.int64()),
        ("user_id", pa.int64()),
        ("what", pa.string()),
        ("operation", pa.string()),
        ("error", pa.string()),
        ("status", pa.int16()),
        ("reason", pa.string()),
    ),
    # One row per observed change of an item's status.
    "changes": _table(
        *_OBSERVATION,
        ("day", pa.int32()),
        *ITEM,
        ("open_s", pa.int64()),
        ("not_before", INSTANT),
        bucketed=True,
    ),
    # The content of each item, whenever it changed.
    **{
        CONTENT_OF[kind]: _table(*_OBSERVATION, *_KEYS, *_content_columns(kind), bucketed=True)
        for kind in KINDS
    },
    # The state of every item after the run in the table's transaction "checkpoint".
    "checkpoint": _table(*_OBSERVATION, *ITEM, ("hash", pa.int64()), bucketed=True),
    # The number of changes by sort and day: queries over everyone sum these.
    "cube": _table(
        ("seq", pa.int64()),
        ("day", pa.int32()),
        ("kind", pa.string()),
        ("site", pa.string()),
        ("prev_status", pa.string()),
        ("status", pa.string()),
        ("opened_day", pa.int32()),
        ("left_censored", pa.bool_()),
        ("n", pa.int64()),
    ),
    # The current state of every user.
    "people": _table(
        ("user_id", pa.int64()),
        ("listed", pa.bool_()),
        ("last_complete_at", INSTANT),
        ("observed_until", INSTANT),
        ("first_registered_after", INSTANT),
        ("outcome", pa.string()),
        ("reason", pa.string()),
    ),
    # One row per webhook delivery; `others` has the fields that the specification does not name.
    "deliveries": _table(
        *_OBSERVATION,
        ("user_id", pa.int64()),
        ("webhook_id", pa.string()),
        ("events", _LISTS),
        ("others", pa.string()),
    ),
    # Labels, ticks and notes; the newest counts.
    "annotations": _table(
        ("marked_at", INSTANT),
        ("user_id", pa.int64()),
        ("kind", pa.string()),
        ("key", pa.int64()),
        ("mark", pa.string()),
        ("step", pa.int64()),
        ("value", pa.string()),
        ("note", pa.string()),
    ),
    # Sites that got another name; applied in order whenever a question is answered.
    "site_names": _table(("renamed_at", INSTANT), ("site", pa.string()), ("name", pa.string())),
}

STAGED_PEOPLE = pa.schema(
    [
        ("part", pa.int64()),
        ("user_id", pa.int64()),
        ("outcome", pa.string()),
        ("began", INSTANT),  # null: the start of the run
        ("seen_at", INSTANT),  # null: the end of the run
        ("operation", pa.string()),
        ("error", pa.string()),
        ("status", pa.int16()),
        ("reason", pa.string()),
    ]
)
STAGED = {
    kind: pa.schema(
        [
            ("part", pa.int64()),
            ("bucket", pa.int32()),
            ("thing_site", pa.string()),
            ("thing_status", pa.string()),
            *_KEYS,
            *_content_columns(kind),
        ]
    )
    for kind in KINDS
}


def bucket_of(user_id: int) -> int:
    """Return the bucket of a user."""
    return user_id % BUCKETS


def in_parts(low: int, high: int, rows: int, most: int) -> list[tuple[int, int]]:
    """Split a bucket range into parts of about ``most`` rows; a part has at least one bucket.

    >>> in_parts(8, 15, 10, 4), in_parts(0, 1, 10, 1)
    ([(8, 9), (10, 12), (13, 15)], [(0, 0), (1, 1)])
    """
    buckets = high - low + 1
    count = min(buckets, max(1, -(-rows // most)))
    edges = [low + buckets * position // count for position in range(count + 1)]
    return [(first, past - 1) for first, past in pairwise(edges)]
