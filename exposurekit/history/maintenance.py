"""Maintenance: checkpoints, compaction, erasure and integrity checks. Only erasure changes query results."""

import contextlib
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.errors import DiskFull, ExposureError
from exposurekit.history import change_detection, staging
from exposurekit.history.engines.duckdb import CorruptHistory, DuckDB, Files, StaleSnapshot, write_view
from exposurekit.history.storage.delta import HistoryLocked, Store
from exposurekit.history.storage.schema import (
    BUCKET_SQL,
    BUCKETS,
    CONTENT_OF,
    KINDS,
    PEOPLE_COUNTED,
    SHARED,
    TABLES,
    bucket_of,
    in_parts,
)
from exposurekit.text.times import EPOCH
from exposurekit.text.us_addresses import street_and_town

_log = logging.getLogger("exposurekit.history")
REMEDY = "put the files that are named back from a copy, or restore the whole history from one"
MEMORY = "260MB"
BATCH_ROWS = 20_000
GROUP_ROWS = 500_000  # items compared at a time; bounds memory
WRITE_ROWS = 125_000  # items written at a time, with their content; bounds memory
SINGLE_THREAD_ROWS = 2_000  # writing fewer is faster than starting a second thread
IN_MEMORY_ROWS = 80_000  # up to this many are buffered and written to both tables in parallel
READ_SINCE = ("changes", *CONTENT_OF.values())  # read together with the checkpoint
FILE_BYTES = 8 << 20  # larger files are never merged
# Files are merged with those of about their size: so each row is rewritten a few times, however long the history is.
TIERS = (32 << 10, 256 << 10, 2 << 20, FILE_BYTES)
REWRITTEN_KEEP_HOURS = 1  # how long readers can use replaced files of tables that every run rewrites
REWRITTEN_TABLES = ("runs", "people", "checkpoint")

PERSONAL_TABLES = (
    *("changes", "checkpoint", *CONTENT_OF.values()),
    *("load_issues", "deliveries", "people", "annotations"),
)
PERSONAL_COLUMNS = {
    "record": ("name", "href", "reference_id", "unnest(aliases)", "unnest(relations)"),
    "link": ("url", "title"),
    "alert": ("url", "href", "link_url", "link_title"),
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """When maintenance is due after a run.

    Attributes:
        checkpoint_share, checkpoint_rows: A checkpoint is due if there are more newer changes than this share of its
            rows plus this number.
        checkpoint_files, rows_per_file: It is also due if they are in more files than this number plus one per so many
            items: reading them then costs about as much as a checkpoint.
        max_files, files_per_bucket: Files are merged if a table has more below half of the least of `TIERS` than the first
            number, and than the second number for each of its buckets; half as many more for each further tier.
        max_merged_bytes: How much is merged after one run, about; the rest follows after the next ones.
        keep_hours: How long readers can use the files that were merged.
        vacuum_every: The number of runs after which files are deleted that nobody needs; those of a merge, with the next
            merge of the table.
    """

    checkpoint_share: float = 0.25
    checkpoint_rows: int = 2_000
    checkpoint_files: int = 480
    rows_per_file: int = 1_000
    max_files: int = 16
    files_per_bucket: int = 4
    max_merged_bytes: int = 64 << 20
    keep_hours: int = 24
    vacuum_every: int = 16


DEFAULT_SCHEDULE = Schedule()


@dataclass(frozen=True, slots=True)
class Merge:
    """The files of a table to merge: those below a size, in some buckets (None: the table has none)."""

    table: str
    below: int
    buckets: tuple[int, ...] | None
    size: int


def maintain_if_due(store: Store, seq: int, schedule: Schedule | None = DEFAULT_SCHEDULE) -> None:
    """After a run, write a checkpoint if many changes are newer than the last, and merge files if there are many.

    The history's size decides, so that a run costs as much after years as after a week. None of this changes an answer,
    so an error is logged, and the run counts. With `None` as the schedule, nothing is done.
    """
    if schedule is None:
        return
    with _errors_logged(seq):
        _maintain(store, seq, schedule)


@contextlib.contextmanager
def _errors_logged(seq: int) -> Iterator[None]:
    try:
        yield
    except HistoryLocked:  # another process did it: there is nothing to do
        pass
    except ExposureError as error:
        _log.warning("history not compacted after run %d: %s", seq, error)


def _maintain(store: Store, seq: int, schedule: Schedule) -> None:
    started, merged, deleted = time.perf_counter(), 0, 0
    merges = merges_due(store, schedule)
    is_thorough = seq % schedule.vacuum_every == 0
    for name in TABLES if is_thorough else [merge.table for merge in merges]:  # first: the rest needs space
        hours = (
            min(REWRITTEN_KEEP_HOURS, schedule.keep_hours)
            if name in REWRITTEN_TABLES
            else schedule.keep_hours
        )
        with store.changing(name):
            deleted += store.vacuum(name, hours=hours)
            if is_thorough:
                store.trim_log(name)
    # Large files are read after each run if they have anything newer than the checkpoint.
    if _is_checkpoint_due(store, schedule) or any(
        merge.below > TIERS[0] and merge.table in READ_SINCE for merge in merges
    ):
        with _errors_logged(seq):
            checkpoint(store, seq)
            _log.debug("checkpoint after run %d", seq)
    for merge in merges:
        with _errors_logged(seq):
            files = store.merge_small_files(merge.table, merge.below, merge.buckets)
            _log.debug("%s: merged %d files of at most %d kB", merge.table, files, merge.below >> 10)
            merged += files
    if merged or deleted:
        seconds = time.perf_counter() - started
        _log.info("history compacted: %d files merged, %d deleted, in %.1f s", merged, deleted, seconds)


def merges_due(store: Store, schedule: Schedule) -> list[Merge]:
    """Return what to merge now: of each table the highest tier that has too many files, the fullest buckets first."""
    merges, left = [], schedule.max_merged_bytes
    for name in TABLES:
        files = store.file_sizes(name)
        for tier, below in reversed([*enumerate(TIERS)]):
            # Any two files of less than half are merged, and larger ones may be merged with them.
            counts = Counter(bucket for bucket, size in files if size < below // 2)
            limit = max(schedule.max_files, schedule.files_per_bucket * len(counts))
            if counts.total() > limit * (1 + tier / 2) and left > 0:
                merge = _fullest(name, below, files, counts, left)
                merges.append(merge)
                left -= merge.size
                break
    return merges


def _fullest(
    name: str,
    below: int,
    files: Sequence[tuple[int | None, int]],
    counts: Mapping[int | None, int],
    most: int,
) -> Merge:
    """Select the buckets with the most files, up to a number of bytes, and at least one."""
    sizes: Counter[int | None] = Counter()
    for bucket, size in files:
        sizes[bucket] += size if size < below else 0
    chosen: list[int | None] = []
    total = 0
    for bucket in sorted(counts, key=lambda bucket: (-counts[bucket], bucket)):
        if chosen and (counts[bucket] == 1 or total + sizes[bucket] > most):
            break
        chosen.append(bucket)
        total += sizes[bucket]
    return Merge(name, below, tuple(b for b in chosen if b is not None) or None, total)


def checkpoint(store: Store, seq: int) -> None:
    """Write the state of every item after a run."""
    after = store.version("checkpoint", "checkpoint")
    before = state_files(store, after)
    parameters = {"seq": seq + 1, "checkpointed": after}
    # About the number of items: those observed for the first time, and some that changed.
    items = max(sum(rows for _, rows, _ in store.sizes(name)) for name in ("checkpoint", "records"))
    groups_of, kinds = in_parts(0, BUCKETS - 1, items, WRITE_ROWS), kinds_of(store)
    with DuckDB(memory_limit=MEMORY, as_written=True) as engine, engine.views(before) as cursor:

        def groups() -> Iterator[pa.Table]:
            for low, high in groups_of:
                buckets = {"low": low, "high": high}
                select_users(cursor, before, low, high)
                for kind in kinds:
                    yield cursor.sql(_state_sql(kind), params=parameters | buckets).to_arrow_table()

        store.append("checkpoint", groups(), once=("checkpoint", seq), overwrite=True, count=items)


def state_files(store: Store, after: int) -> dict[str, Files]:
    """Return the files of the current state: the checkpoint and everything newer, with the columns that it needs."""
    files = store.snapshot("checkpoint") | {name: store.since(name, after) for name in READ_SINCE}
    return {name: files[name].select(columns) for name, columns in change_detection.STATE_OF.items()}


def select_users(cursor: Any, tables: Mapping[str, Files], low: int, high: int) -> None:
    """Restrict the views to the files of some buckets."""
    if high - low == BUCKETS - 1:
        return  # all buckets
    for name in ("checkpoint", *READ_SINCE):
        write_view(cursor, name, tables[name].within(low, high))


def grouped(rows: int) -> list[tuple[int, int]]:
    """Split all buckets into ranges that are small enough to compare in memory."""
    return in_parts(0, BUCKETS - 1, rows, GROUP_ROWS)


def kinds_of(store: Store) -> list[str]:
    """Return the kinds of items observed so far."""
    return [kind for kind in KINDS if store.table(CONTENT_OF[kind]) is not None]


def _state_sql(kind: str) -> str:
    return (
        f"SELECT *, '{kind}' AS kind, {BUCKET_SQL} AS bucket "
        f"FROM ({change_detection.state(kind)}) ORDER BY bucket"
    )


def compact(store: Store, seq: int) -> None:
    """Write a checkpoint and merge files; replaced files are deleted after a day."""
    if seq:
        checkpoint(store, seq)
        rebuild_cube(store)
    for name in TABLES:
        store.merge_small_files(name, FILE_BYTES)
        with store.changing(name):
            store.vacuum(name, hours=DEFAULT_SCHEDULE.keep_hours)
            store.trim_log(name)


def erase(store: Store, user_id: int) -> int:
    """Delete all rows about a person from all files, and recompute the sums.

    The remaining rows overwrite a whole bucket or table, so that the logs do not reveal whose rows were deleted.
    `Location.begin_erasure` comes before, so that `finish_erasure` can complete what is interrupted. While
    it is incomplete, sums may include the person. Return the number of deleted rows.
    """
    try:
        return _erase(store, user_id)
    except DiskFull:
        raise DiskFull(
            "No space is left where the history is stored, and the person is not erased yet: free some space, and erase again"
        ) from None


def finish_erasure(store: Store) -> None:
    """Complete an erasure that a full disk or a killed process interrupted. The caller holds `Store.exclusive`."""
    if (user_id := store.erasing()) is not None:
        erase(store, user_id)


def _erase(store: Store, user_id: int) -> int:
    removed = 0
    with DuckDB(memory_limit=MEMORY) as engine:
        for name in PERSONAL_TABLES:
            removed += _erase_rows(store, engine, name, user_id)
    staging.sweep(store)
    for staged in staging.all_staged(store):
        staged.rewrite(lambda rows: rows.filter(pc.not_equal(rows["user_id"], user_id)))
    rebuild_cube(store)
    for name in TABLES:
        with store.changing(name):
            store.vacuum(name, hours=0)
    store.end_erasure()
    return removed


def _erase_rows(store: Store, engine: DuckDB, name: str, user_id: int) -> int:
    erased = 0
    for partition in (SHARED, bucket_of(user_id)) if TABLES[name].bucketed else (None,):
        within = "true" if partition is None else f"bucket = {partition}"
        with store.changing(name), engine.views(store.snapshot(name)) as cursor:
            text = f"SELECT count(*) FROM {name} WHERE {within} AND user_id = $user_id"
            [[rows]] = cursor.execute(text, {"user_id": user_id}).fetchall()
            if rows:
                text = f"SELECT * FROM {name} WHERE {within} AND user_id <> $user_id"
                others = cursor.sql(text, params={"user_id": user_id}).to_arrow_reader(BATCH_ROWS)
                store.replace(name, others, partition)
            erased += int(rows)
    return erased


def personal_values(store: Store, user_id: int) -> set[str]:
    """Return the personal values about a user in tables and staged runs: names, URLs, titles, references."""
    return _texts_about(store, user_id, PERSONAL_COLUMNS)


def personal_addresses(store: Store, user_id: int) -> set[tuple[str, str]]:
    """Return the streets with their towns on a user's listings, in tables and staged runs; a town alone is many people's."""
    locations = _texts_about(store, user_id, {"record": ("unnest(locations)",)})
    return {address for location in locations if (address := street_and_town(location))}


def _texts_about(store: Store, user_id: int, columns_of: Mapping[str, tuple[str, ...]]) -> set[str]:
    values: set[str] = set()
    with DuckDB() as engine:
        for kind, columns in columns_of.items():
            tables = [store.snapshot(CONTENT_OF[kind])[CONTENT_OF[kind]]]
            tables += [staged.files(kind) for staged in staging.all_staged(store)]
            for table in tables:
                values |= _values(engine, table, columns, user_id)
    return values


def _values(engine: DuckDB, table: Files, columns: tuple[str, ...], user_id: int) -> set[str]:
    texts = " UNION ".join(
        f"SELECT {column} AS value FROM content WHERE user_id = :user_id" for column in columns
    )
    rows = engine.ask(texts, {"content": table}, {"user_id": user_id})
    return {value for value in rows["value"].to_pylist() if value}


def rebuild_cube(store: Store) -> None:
    """Recompute the sums of changes from all changes."""
    with DuckDB(memory_limit=MEMORY) as engine:
        cells = engine.ask(change_detection.CUBE.format(where=""), store.snapshot("changes"), {})
    store.append("cube", cells, overwrite=True)


def _is_checkpoint_due(store: Store, schedule: Schedule) -> bool:
    after = store.version("checkpoint", "checkpoint")
    newer = [rows for name in READ_SINCE for _, rows, newest in store.sizes(name) if newest > after]
    rows = sum(rows for _, rows, _ in store.sizes("checkpoint"))
    max_files = schedule.checkpoint_files + rows // schedule.rows_per_file
    return len(newer) > max_files or sum(newer) > schedule.checkpoint_rows + schedule.checkpoint_share * rows


def _same_beginnings(kind: str) -> str:
    """Select the items whose first change and first content are from different runs."""
    first = "SELECT user_id, key, min(seq) AS seq FROM {}GROUP BY user_id, key"
    return f"""
        SELECT '{kind}' AS what FROM ({first.format(f"changes WHERE kind = '{kind}' ")}) AS moves
        FULL JOIN ({first.format(f"{CONTENT_OF[kind]} ")}) AS content
            ON content.user_id = moves.user_id AND content.key = moves.key
        WHERE moves.seq IS DISTINCT FROM content.seq"""


def _counted(table: str, *ways: Mapping[str, str]) -> str:
    """Select the runs since the last erasure whose counts differ from the rows of a table, by every way of counting."""
    columns = ", ".join(
        f"{n} AS {name}_{way}" for way, counts in enumerate(ways) for name, n in counts.items()
    )
    differ = " AND ".join(
        f"({' OR '.join(f'coalesce(runs.{name}, 0) <> coalesce(counted.{name}_{way}, 0)' for name in counts)})"
        for way, counts in enumerate(ways)
    )
    return f"""
        SELECT CAST(runs.seq AS VARCHAR) AS what FROM runs
        LEFT JOIN (SELECT seq, {columns} FROM {table} GROUP BY seq) AS counted ON counted.seq = runs.seq
        WHERE runs.started_at > :erased_at AND {differ}"""


# What tables must not contain, each with a query for the rows that do.
INCONSISTENCIES = {
    "a run has two numbers, or a number two runs": """
        SELECT run AS what FROM runs GROUP BY run HAVING count(*) > 1
        UNION ALL SELECT CAST(seq AS VARCHAR) FROM runs GROUP BY seq HAVING count(*) > 1""",
    "a user has two rows": "SELECT 'user' AS what FROM people GROUP BY user_id HAVING count(*) > 1",
    "a registered user has no row": """
        SELECT what FROM load_issues WHERE what = 'registered' AND user_id NOT IN (SELECT user_id FROM people)""",
    "a change, a load issue or a delivery belongs to no run": """
        SELECT CAST(seq AS VARCHAR) AS what FROM (
            SELECT seq FROM changes UNION ALL SELECT seq FROM load_issues UNION ALL SELECT seq FROM deliveries
        ) AS rows_of_runs WHERE seq NOT IN (SELECT seq FROM runs)""",
    "a run changes an item twice": """
        SELECT kind AS what FROM changes GROUP BY kind, user_id, key, seq HAVING count(*) > 1""",
    "a change does not begin with the status of the one before": """
        SELECT kind AS what FROM (
            SELECT kind, prev_status, seen_at, status,
                lag(status) OVER (PARTITION BY kind, user_id, key ORDER BY seq) AS before,
                lag(seen_at) OVER (PARTITION BY kind, user_id, key ORDER BY seq) AS seen_before
            FROM changes
        ) AS paired
        WHERE prev_status IS DISTINCT FROM before OR seen_before > seen_at OR prev_status = status""",
    "the sums differ from the changes": """
        SELECT kind AS what FROM (
            SELECT kind, site, status, seq, n FROM cube
            UNION ALL SELECT kind, site, status, seq, -1 FROM changes
        ) AS both_sides GROUP BY kind, site, status, seq HAVING sum(n) <> 0""",
    "the checkpoint differs from the changes": """
        SELECT checkpoint.kind AS what FROM checkpoint
        LEFT JOIN (
            SELECT kind, user_id, key, max(seq) AS seq FROM changes WHERE seq <= :checkpointed
            GROUP BY kind, user_id, key
        ) AS newest ON newest.kind = checkpoint.kind AND newest.user_id = checkpoint.user_id
            AND newest.key = checkpoint.key
        WHERE newest.seq IS DISTINCT FROM checkpoint.seq""",
    "an item belongs to no user": """
        SELECT changes.kind AS what FROM changes
        WHERE user_id NOT IN (SELECT user_id FROM people) AND user_id NOT IN (SELECT user_id FROM deliveries)""",
    **{
        f"{table} and changes begin with different runs": _same_beginnings(kind)
        for kind, table in CONTENT_OF.items()
    },
    "a run does not have the changes that it counted": _counted(
        "changes", *map(change_detection.count_changes, change_detection.COUNT_VERSIONS)
    ),
    "a run does not have the load issues that it counted": _counted(
        "load_issues",
        {name: f"count(*) FILTER (what = '{name}')" for name in PEOPLE_COUNTED if name != "whole"},
    ),
    "a run does not have the deliveries that it counted": _counted("deliveries", {"deliveries": "count(*)"}),
}


def violations(store: Store) -> dict[str, int]:
    """Return in words what is damaged, with the number of rows (1 for a file); empty if nothing is."""
    with DuckDB(keeps_small=True) as engine:
        unreadable = [name for name in TABLES if not _is_readable(engine, store, name)]
        of_files = (_damage_of_files(store, name, is_readable=name not in unreadable) for name in TABLES)
        damage = {problem: 1 for problems in of_files for problem in problems}
        tables = store.snapshot(*(name for name in TABLES if name not in unreadable))
        parameters: dict[str, Any] = {"erased_at": store.erased_at() or EPOCH}
        if "checkpoint" not in unreadable:
            parameters["checkpointed"] = store.version("checkpoint", "checkpoint")
        for inconsistency, text in INCONSISTENCIES.items():
            names = {name for name in TABLES if re.search(rf"(?:FROM|JOIN) {name}\b", text)}
            if not names.isdisjoint(unreadable) or not any(tables[name].uris for name in names):
                continue  # tables without a row contradict nothing
            used = {name: value for name, value in parameters.items() if f":{name}" in text}
            rows = engine.ask(text, {name: tables[name] for name in names}, used).num_rows
            if rows:
                damage[inconsistency] = rows
        if not {"runs", "people"} & {*unreadable} and not _has_newest_run(store):
            damage["people are not as of the newest run"] = 1
    return damage


def _has_newest_run(store: Store) -> bool:
    runs = store.rows("runs")
    newest = pc.max(runs.filter(pc.equal(runs["origin"], "collect"))["seq"]).as_py() or 0
    return store.version("people", "ingest") >= newest


def _damage_of_files(store: Store, name: str, *, is_readable: bool) -> list[str]:
    """Say which files of a table are damaged, by their paths in the history."""
    problems = dict.fromkeys(store.changed_files(name), "was changed after it was written")
    if not is_readable:
        problems |= dict.fromkeys(store.unreadable_files(name), "cannot be read")
        problems = problems or {name: "cannot be read"}
    return [f"{path} {problem if store.exists(path) else 'is missing'}" for path, problem in problems.items()]


def _is_readable(engine: DuckDB, store: Store, name: str) -> bool:
    """Return whether a table has as many rows as its log says, and all values are readable."""
    text = f"SELECT count(*) AS n, max(hash({name})) IS NULL AS is_empty FROM {name}"
    try:
        sizes = store.sizes(name)
        if not sizes:
            return True
        logged = sum(rows for _, rows, _ in sizes)
        counts = engine.ask(text, store.snapshot(name), {})
    except (CorruptHistory, StaleSnapshot):
        return False
    return bool(counts["n"][0].as_py() == logged)
