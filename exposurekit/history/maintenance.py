"""Maintenance: a newer checkpoint, fewer files, what verifies, and what erases. Changes no answer to any question."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.history import change_detection, staging
from exposurekit.history.engines.duckdb import CorruptHistory, DuckDB, Files, StaleSnapshot, write_view
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import BUCKETS, CONTENT_OF, KINDS, TABLES, in_parts

MEMORY = "260MB"
ROWS_A_BATCH = 20_000
ROWS_A_GROUP = 500_000  # things compared at once: memory grows with this, not with how many there are,
ROWS_A_WRITING = 125_000  # and more with those written at once: with all that they say
ROWS_FEW = 2_000  # so many are written before a second thread has begun
ROWS_AT_HAND = 80_000  # so many are read whole, and written to both their tables side by side
CHECKPOINT_SHARE = 0.5  # changes since the checkpoint, to what it holds, past which it is made anew
CHECKPOINT_ROWS = 50_000  # and so many are not worth one
CHECKPOINT_FILES = 160  # but so many files are,
ROWS_A_FILE = (
    1_000  # and one more for so many things: about where reading files costs as much as a checkpoint
)
READ_SINCE = ("changes", *CONTENT_OF.values())  # what is read together with the checkpoint
FILES = {True: 384, False: 64}  # how many a table may have, bucketed or not, before they are put together
FILE_BYTES = 8 << 20
KEEP_HOURS = 24  # how long files that were put together elsewhere stay for whoever reads them,
KEEP_WHOLE_HOURS = 1  # and those of tables that each run writes whole
WRITTEN_WHOLE = ("runs", "people", "checkpoint")
LOOK_EVERY = 16  # runs

PERSONAL = (
    "changes",
    *CONTENT_OF.values(),
    "checkpoint",
    "load_issues",
    "deliveries",
    "people",
    "annotations",
)

NAMED = {
    "record": ("name", "href", "reference_id", "unnest(aliases)", "unnest(relations)"),
    "link": ("url", "title"),
    "alert": ("url", "href", "link_url", "link_title"),
}


def checkpoint_if_due(store: Store, seq: int) -> None:
    """After a run: a new checkpoint where the changes since the last are many; now and then, fewer files."""
    if _is_checkpoint_due(store):
        checkpoint(store, seq)
    if seq % LOOK_EVERY == 0:
        for name, table in TABLES.items():
            if len(store.snapshot(name)[name].uris) > FILES[table.bucketed]:
                store.merge_small_files(name, FILE_BYTES)
            store.vacuum(name, hours=KEEP_WHOLE_HOURS if name in WRITTEN_WHOLE else KEEP_HOURS)


def checkpoint(store: Store, seq: int) -> None:
    """Write every thing as it stands after a run."""
    after = store.version("checkpoint", "checkpoint")
    before = known_users(store, after)
    parameters = {"seq": seq + 1, "checkpointed": after}
    groups_of, kinds = in_parts(0, BUCKETS - 1, _known(store), ROWS_A_WRITING), kinds_of(store)
    with DuckDB(memory_limit=MEMORY, as_written=True) as engine, engine.views(before) as cursor:

        def groups() -> Iterator[pa.Table]:
            for low, high in groups_of:
                buckets = {"low": low, "high": high}
                select_users(cursor, before, low, high)
                for kind in kinds:
                    yield cursor.sql(_standing(kind), params=parameters | buckets).to_arrow_table()

        store.append("checkpoint", groups(), once=("checkpoint", seq), overwrite=True)


def known_users(store: Store, after: int) -> dict[str, Files]:
    """What every thing was after a run: the checkpoint of then, and what is newer."""
    return store.snapshot("checkpoint") | {name: store.since(name, after) for name in READ_SINCE}


def select_users(cursor: Any, tables: Mapping[str, Files], low: int, high: int) -> None:
    """See the files of some buckets alone: the others need not be opened to find that nothing in them counts."""
    if high - low == BUCKETS - 1:
        return  # all of them are seen as it is
    for name in ("checkpoint", *READ_SINCE):
        write_view(cursor, name, tables[name].within(low, high))


def grouped(rows: int) -> list[tuple[int, int]]:
    """Buckets, first and last, so many together as memory is meant to hold at once.

    >>> grouped(0), len(grouped(10**9))
    ([(0, 63)], 64)
    """
    return in_parts(0, BUCKETS - 1, rows, ROWS_A_GROUP)


def kinds_of(store: Store) -> list[str]:
    """The kinds of which anything was ever seen."""
    return [kind for kind in KINDS if store.table(CONTENT_OF[kind]) is not None]


def _known(store: Store) -> int:
    """About how many things there are: as many as were seen for the first time, and some that changed."""
    return max(sum(rows for _, rows, _ in store.sizes(name)) for name in ("checkpoint", "records"))


def _standing(kind: str) -> str:
    return (
        f"SELECT *, '{kind}' AS kind, (user_id % {BUCKETS})::INTEGER AS bucket "
        f"FROM ({change_detection.state(kind)}) ORDER BY bucket"
    )


def compact(store: Store, seq: int) -> None:
    """A new checkpoint and as few files as can be; old ones stay for a day, for whoever reads them."""
    if seq:
        checkpoint(store, seq)
        rebuild_cube(store)
    for name in TABLES:
        store.merge_small_files(name, FILE_BYTES)
        store.vacuum(name, hours=KEEP_HOURS)


def erase(store: Store, user_id: int) -> int:
    """Take every row about a person out of every file, and make the sums anew.

    What is left is written in place of all, so that the tables' logs do not say whose rows went.

    Returns:
        How many rows there were.
    """
    gone = 0
    with DuckDB(memory_limit=MEMORY) as engine:
        for name in PERSONAL:
            gone += _erased_rows(store, engine, name, user_id)
    staging.sweep(store)
    for staged in staging.all_staged(store):
        staged.keep_only(lambda rows: _without(rows, user_id))
    rebuild_cube(store)
    for name in TABLES:
        store.vacuum(name, hours=0)
    return gone


def _erased_rows(store: Store, engine: DuckDB, name: str, user_id: int) -> int:
    bucketed = TABLES[name].bucketed
    within = f"bucket = {user_id % BUCKETS}" if bucketed else "true"
    with engine.views(store.snapshot(name)) as cursor:
        text = f"SELECT count(*) FROM {name} WHERE {within} AND user_id = $user_id"
        [[rows]] = cursor.execute(text, {"user_id": user_id}).fetchall()
        if rows:
            text = f"SELECT * FROM {name} WHERE {within} AND user_id <> $user_id"
            left = cursor.sql(text, params={"user_id": user_id}).to_arrow_reader(ROWS_A_BATCH)
            store.replace(name, left, user_id % BUCKETS if bucketed else None)
    return int(rows)


def personal_values(store: Store, user_id: int) -> set[str]:
    """Return what the tables and staged runs hold about a person by name."""
    found: set[str] = set()
    with DuckDB() as engine:
        for kind, columns in NAMED.items():
            known = [store.snapshot(CONTENT_OF[kind])[CONTENT_OF[kind]]]
            known += [staged.files(kind) for staged in staging.all_staged(store)]
            for table in known:
                found |= _values(engine, table, columns, user_id)
    return found


def _values(engine: DuckDB, table: Files, columns: tuple[str, ...], user_id: int) -> set[str]:
    texts = " UNION ".join(
        f"SELECT {column} AS value FROM told WHERE user_id = :user_id" for column in columns
    )
    rows = engine.ask(texts, {"told": table}, {"user_id": user_id})
    return {value for value in rows["value"].to_pylist() if value}


def _without(rows: pa.Table, user_id: int) -> pa.Table:
    return rows.filter(pc.not_equal(rows["user_id"], user_id))


def rebuild_cube(store: Store) -> None:
    """The sums of the changes, summed again."""
    with DuckDB(memory_limit=MEMORY) as engine:
        cells = engine.ask(change_detection.CUBE.format(where=""), store.snapshot("changes"), {})
    store.append("cube", cells, overwrite=True)


def _is_checkpoint_due(store: Store) -> bool:
    """Whether what is newer than the checkpoint is much, or lies in many files."""
    after = store.version("checkpoint", "checkpoint")
    newer = [rows for name in READ_SINCE for _, rows, newest in store.sizes(name) if newest > after]
    held = sum(rows for _, rows, _ in store.sizes("checkpoint"))
    many = CHECKPOINT_FILES + held // ROWS_A_FILE
    return len(newer) > many or sum(newer) > CHECKPOINT_ROWS + CHECKPOINT_SHARE * held


# What must be so in every history, as questions for the rows that break it.
INVARIANTS = {
    "a run has one number, and each number one run": """
        SELECT run AS what FROM runs GROUP BY run HAVING count(*) > 1
        UNION ALL SELECT CAST(seq AS VARCHAR) FROM runs GROUP BY seq HAVING count(*) > 1""",
    "every change belongs to a run that was taken in": """
        SELECT CAST(seq AS VARCHAR) AS what FROM changes WHERE seq NOT IN (SELECT seq FROM runs)""",
    "a run changes a thing once": """
        SELECT kind AS what FROM changes GROUP BY kind, user_id, key, seq HAVING count(*) > 1""",
    "each change begins where the one before it ended": """
        SELECT kind AS what FROM (
            SELECT kind, prev_status, seen_at, status,
                lag(status) OVER (PARTITION BY kind, user_id, key ORDER BY seq) AS before,
                lag(seen_at) OVER (PARTITION BY kind, user_id, key ORDER BY seq) AS seen_before
            FROM changes
        ) AS paired
        WHERE prev_status IS DISTINCT FROM before OR seen_before > seen_at OR prev_status = status""",
    "the sums agree with the changes": """
        SELECT kind AS what FROM (
            SELECT kind, site, status, seq, n FROM cube
            UNION ALL SELECT kind, site, status, seq, -1 FROM changes
        ) AS both_sides GROUP BY kind, site, status, seq HAVING sum(n) <> 0""",
    "the checkpoint agrees with the changes": """
        SELECT checkpoint.kind AS what FROM checkpoint
        LEFT JOIN (
            SELECT kind, user_id, key, max(seq) AS seq FROM changes WHERE seq <= :checkpointed
            GROUP BY kind, user_id, key
        ) AS newest ON newest.kind = checkpoint.kind AND newest.user_id = checkpoint.user_id
            AND newest.key = checkpoint.key
        WHERE newest.seq IS DISTINCT FROM checkpoint.seq""",
    "whoever has things is known, or was told of": """
        SELECT changes.kind AS what FROM changes
        WHERE user_id NOT IN (SELECT user_id FROM people) AND user_id NOT IN (SELECT user_id FROM deliveries)""",
}


def violations(store: Store) -> dict[str, int]:
    """Which promises the tables break, and in how many rows; empty: none."""
    with DuckDB() as engine:
        lost = [name for name in TABLES if not _is_readable(engine, store, name)]
        found = {f"the files of {name} are there and can be read": 1 for name in lost}
        tables = store.snapshot(*(name for name in TABLES if name not in lost))
        given = {"checkpointed": store.version("checkpoint", "checkpoint")}
        for promise, text in INVARIANTS.items():
            named = {name for name in TABLES if re.search(rf"(?:FROM|JOIN) {name}\b", text)}
            if not named.isdisjoint(lost):
                continue
            about = {name: tables[name] for name in named}
            rows = engine.ask(text, about, given if ":checkpointed" in text else {}).num_rows
            if rows:
                found[promise] = rows
    return found


def _is_readable(engine: DuckDB, store: Store, name: str) -> bool:
    """Whether as many rows are there as the log tells, and every value in them can be read."""
    text = f"SELECT count(*) AS n, max(hash({name})) IS NULL AS is_empty FROM {name}"
    try:
        told = sum(rows for _, rows, _ in store.sizes(name))
        found = engine.ask(text, store.snapshot(name), {})
    except (CorruptHistory, StaleSnapshot):
        return False
    return bool(found["n"][0].as_py() == told)
