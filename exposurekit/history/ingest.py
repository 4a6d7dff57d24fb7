"""Ingest staged runs into the tables: one process at a time; each step takes effect once, even after a crash."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.history import change_detection, maintenance, staging
from exposurekit.history.engines.duckdb import DuckDB, Files
from exposurekit.history.staging import PEOPLE, StagedRun
from exposurekit.history.storage.delta import HistoryLocked, Store
from exposurekit.history.storage.schema import CONTENT_OF, COUNTED, KINDS, PEOPLE_COUNTED, TABLES, in_parts
from exposurekit.history.storage.upgrade import share_files
from exposurekit.text.html_cards import NAME_MAX, html_card, truncate
from exposurekit.text.times import format_elapsed

_BASELINE = "entered_scope"  # in the first run, all that is open


@dataclass(frozen=True, slots=True)
class Run:
    """A run and its changes: a row of `History.runs`.

    Attributes:
        run: Its name.
        seq: Its number; None while it is not ingested, as other shards are running.
        started_at: When the first of its collectors began.
        finished_at: When the last one ended.
        origin: ``collect`` or ``webhook``.
        people: The number of listed people, and by how they were loaded: ``whole``, ``partial``, ``failed``, ...
        counts: The number of records ``new``, ``removed``, ``vanished``, ``relisted``, ..., of new links and alerts, as
            `History.diff` counts them: a record that was removed when it was first observed is new and removed; one that
            vanished in an earlier run, and is verified as removed now, is removed, and one vanished less.
        complete: Whether the list of users was complete.
        waits_for: The shards that have not ended.
        shards: The number of collectors that share it, while it is not ingested.
        continuation: What becomes of it if it was interrupted, in words, while it is not ingested.
        was_there: Whether it was ingested before this call, which added nothing.

    >>> run = history.last_run()
    >>> run.new, run.gone, run.failed
    (0, 0, 0)
    """

    run: str
    seq: int | None
    started_at: datetime
    finished_at: datetime | None
    origin: str
    people: Mapping[str, int]
    counts: Mapping[str, int]
    complete: bool = True
    waits_for: tuple[int, ...] = ()
    shards: int = 1
    continuation: str = ""
    was_there: bool = False

    @property
    def duration(self) -> timedelta | None:
        """The time from start to end."""
        return self.finished_at - self.started_at if self.finished_at else None

    @property
    def new(self) -> int:
        """Records that were observed for the first time, also if they had been removed by then."""
        return self.counts.get("new", 0)

    @property
    def changed(self) -> int:
        """Records with another status, open before and after."""
        return self.counts.get("changed", 0)

    @property
    def gone(self) -> int:
        """Records that are no longer open: removed (verified) or vanished."""
        return self.counts.get("removed", 0) + self.counts.get("vanished", 0)

    @property
    def failed(self) -> int:
        """People who could not be loaded."""
        return self.people.get("failed", 0)

    def __repr__(self) -> str:
        return f"Run({str(self)!r})"

    def _repr_html_(self) -> str:
        pairs = [(name, self.people.get(name)) for name in ("listed", *PEOPLE_COUNTED)]
        pairs += [(name, self.counts.get(name)) for name in COUNTED]
        figures = {name.replace("_", " "): f"{n:,}" for name, n in pairs if n and n > 0}
        facts = {"origin": self.origin, "began": self.started_at, "ended": self.finished_at, **figures}
        return html_card(f"Run {self.run}" if self.seq is not None else str(self), facts)

    def __str__(self) -> str:
        name = truncate(self.run, NAME_MAX)
        if self.seq is None:
            if self.waits_for and self.shards == 1:
                return f"run {name}: interrupted; {self.continuation}"
            waits = ", ".join(map(str, self.waits_for))
            missing = f"shard {waits}" if waits else "another process: collect again"
            return f"run {name}: staged, waits for {missing}"
        whole = self.people.get("whole", 0)
        parts = [f"{whole:,} {'person' if whole == 1 else 'people'} loaded in full"]
        parts += [f"{self.people[name]:,} {name}" for name in PEOPLE_COUNTED[1:] if self.people.get(name)]
        baseline = self.counts.get(_BASELINE, 0) if self.seq == 1 else 0
        parts += [
            _counted(name, self.counts[name])
            for name in COUNTED
            if self.counts.get(name, 0) > 0 and not (baseline and name == _BASELINE)
        ]
        if baseline:
            were = "listing was" if baseline == 1 else "listings were"
            parts.append(f"{baseline:,} open {were} there at the first load")
        took = f", in {format_elapsed(self.duration)}" if self.origin == "collect" and self.duration else ""
        return f"run {name}: {', '.join(parts)}{took}"


def _counted(name: str, n: int) -> str:
    kind, _, move = name.partition("_")
    if kind not in {"links", "alerts"}:
        return f"{n:,} {name.replace('_', ' ')}"
    return f"{n:,} {move} {kind.removesuffix('s') if n == 1 else kind}"


def run_from_row(row: Mapping[str, Any]) -> Run:
    """Return a run from its row in ``runs``."""
    names = ("run", "seq", "started_at", "finished_at", "origin", "complete")
    people = {name: row[name] for name in ("listed", *PEOPLE_COUNTED)}
    counts = {name: row[name] for name in COUNTED}
    return Run(**{name: row[name] for name in names}, people=people, counts=counts)


def ingest_run(
    store: Store, staged: StagedRun, schedule: maintenance.Schedule | None = maintenance.DEFAULT_SCHEDULE
) -> None:
    """Ingest a complete run into the tables, once.

    Ingests that other processes began and did not complete come first. The caller holds `Store.exclusive`.
    """
    share_files(store)
    staging.sweep(store)
    for unfinished in staging.all_staged(store):
        if unfinished.seq is not None and unfinished.run != staged.run:
            _Ingester(store, unfinished, schedule).run()
    if row_of(store, staged.run) is None or staged.seq is not None:
        _Ingester(store, staged, schedule).run()


def row_of(store: Store, run: str) -> dict[str, Any] | None:
    """Return the row of a run in ``runs``; None if it was not ingested."""
    table = store.rows("runs")
    rows = table.filter(pc.equal(table["run"], run)).to_pylist()
    return rows[0] if rows else None


def runs_table(store: Store) -> pa.Table:
    """Return the table ``runs``, in order."""
    return store.rows("runs").sort_by("seq")


class _Ingester:
    def __init__(self, store: Store, staged: StagedRun, schedule: maintenance.Schedule | None) -> None:
        self._store = store
        self._staged = staged
        self._schedule = schedule
        self._before = runs_table(store)
        self._was_begun = staged.seq is not None  # by a process that was killed, or had no space left
        self._seq = staged.seq or (pc.max(self._before["seq"]).as_py() or 0) + 1
        self._parameters = self._values()

    def run(self) -> None:
        if not self._store.is_local:
            self._claim()
        self._staged.begin_ingest(self._seq)
        if not self._is_ingested:
            self._write()
        maintenance.maintain_if_due(self._store, self._seq, self._schedule)
        self._store.sync()
        self._staged.remove()

    def _claim(self) -> None:
        """Claim the number before anything is written under it."""
        claim = pa.table({"seq": [self._seq], "run": [self._staged.run]})
        self._store.append("claims", claim, once=("claim", self._seq))
        claims = self._store.rows("claims")
        [holder] = claims.filter(pc.equal(claims["seq"], self._seq))["run"].to_pylist()
        if holder == self._staged.run:
            return
        if staging.find_staged(self._store, holder) is not None or row_of(self._store, holder) is not None:
            raise HistoryLocked("Another process is ingesting a run; this one is staged: collect again")
        # The process that claimed it ended without writing.
        self._parameters["seq"] = self._seq = self._seq + 1
        self._claim()

    @property
    def _is_ingested(self) -> bool:
        """Whether the last of its tables has it; from then on nothing may be computed again."""
        last = "people" if self._parameters["origin"] == "collect" else "runs"
        return self._store.version(last, "ingest") >= self._seq

    def _write(self) -> None:
        # The state before the run is the same at every attempt, since people are written last.
        checkpointed = self._parameters["checkpointed"]
        previous = self._store.snapshot("people") | maintenance.state_files(self._store, checkpointed)
        loaded = {f"staged_{kind}": self._staged.files(kind) for kind in (PEOPLE, *KINDS)}
        with (
            DuckDB(memory_limit=maintenance.MEMORY, as_written=True, keeps_small=True) as engine,
            engine.views(previous | loaded) as cursor,
        ):
            cursor.execute(change_detection.LOADED_USERS, self._bind(change_detection.LOADED_USERS))
            self._write_changes(cursor, previous)
            counts = self._write_cube(engine) | self._count_people(cursor)
            self._write_rest(cursor, counts)

    def _values(self) -> dict[str, Any]:
        plan, ends = self._staged.plan, self._staged.ends()
        complete = len(ends) >= plan.shards and all(end.complete for end in ends.values())
        erased_at = self._store.erased_at()
        runs = collection_runs(self._store)
        is_before = pc.and_(
            pc.less(runs["seq"], self._seq), pc.less_equal(runs["finished_at"], plan.started_at)
        )
        if erased_at is not None:
            # Runs before an erasure included the erased person, so they do not tell who is new.
            is_before = pc.and_(is_before, pc.greater(runs["started_at"], erased_at))
        before = runs.filter(pc.and_(is_before, runs["complete"]))["started_at"]
        return {
            "seq": self._seq,
            "started_at": plan.started_at,
            "finished_at": max((end.finished_at for end in ends.values()), default=plan.started_at),
            "origin": plan.origin,
            "scope": plan.scope,
            "complete": complete and plan.origin == "collect",
            "first_registered_after": pc.max(before).as_py(),
            "checkpointed": self._store.version("checkpoint", "checkpoint"),
        }

    def _bind(self, text: str, **more: Any) -> dict[str, Any]:
        return {name: value for name, value in (self._parameters | more).items() if f"${name}" in text}

    def _write_changes(self, cursor: Any, before: Mapping[str, Files]) -> None:
        """Compare group by group, and write when enough has changed: the content of a run is read once per write."""
        kinds = maintenance.kinds_of(self._store)
        for kind in KINDS:
            # Only the staged run decides: the same groups at each attempt.
            [[rows]] = cursor.execute(change_detection.latest_observation(kind)).fetchall()
            if rows or kind in kinds:
                self._compare(cursor, kind, maintenance.grouped(rows), before)

    def _compare(
        self, cursor: Any, kind: str, groups: list[tuple[int, int]], before: Mapping[str, Files]
    ) -> None:
        begin, rows, text = 0, 0, change_detection.step(kind)
        for number, (low, high) in enumerate(groups):
            maintenance.select_users(cursor, before, low, high)
            into = "CREATE OR REPLACE TEMP TABLE step AS" if low == begin else "INSERT INTO step"
            [[added]] = cursor.execute(f"{into} {text}", self._bind(text, low=low, high=high)).fetchall()
            rows = added if low == begin else rows + added
            if rows >= maintenance.GROUP_ROWS // 2 or number == len(groups) - 1:
                for part, buckets in enumerate(in_parts(begin, high, rows, maintenance.WRITE_ROWS)):
                    self._write_step(cursor, kind, (f"{kind}:{number}.{part}", self._seq), buckets, rows)
                begin = high + 1

    def _write_step(
        self, cursor: Any, kind: str, once: tuple[str, int], buckets: tuple[int, int], rows: int
    ) -> None:
        content = CONTENT_OF[kind]
        if not rows or (
            self._was_begun
            and min(self._store.version(name, once[0]) for name in ("changes", content)) >= self._seq
        ):
            return
        texts = {content: change_detection.describe(kind), "changes": change_detection.changed(kind)}
        if rows > maintenance.IN_MEMORY_ROWS:  # as in a large first run: stream one table after the other
            for name, text in texts.items():
                if (selection := self._select_step(cursor, name, text, buckets)) is not None:
                    self._store.append(
                        name, selection.to_arrow_reader(maintenance.BATCH_ROWS), once=once, count=rows
                    )
            return
        tables = {
            name: selection.to_arrow_table()
            for name, text in texts.items()
            if (selection := self._select_step(cursor, name, text, buckets)) is not None
        }

        def write(name: str) -> None:
            self._store.append(name, tables[name], once=once, count=rows)

        if rows <= maintenance.SINGLE_THREAD_ROWS:
            for name in tables:
                write(name)
            return
        with ThreadPoolExecutor(2) as writers:  # each compresses its table
            [*writers.map(write, tables)]

    def _select_step(self, cursor: Any, name: str, text: str, buckets: tuple[int, int]) -> Any:
        """Select a step's rows for a table, lazily; None if there are none."""
        low, high = buckets
        selected = "is_change" if name == "changes" else "is_new_content"
        count = f"SELECT count(*) FROM step WHERE bucket BETWEEN $low AND $high AND {selected}"
        [[rows]] = cursor.execute(count, {"low": low, "high": high}).fetchall()
        return cursor.sql(text, params=self._bind(text, low=low, high=high)) if rows else None

    def _write_cube(self, engine: DuckDB) -> dict[str, Any]:
        """Write the sums of this run's changes; return the number of changes by sort."""
        changes, parameters = {"changes": self._store.since("changes", self._seq - 1)}, {"seq": self._seq}
        cells = engine.ask(change_detection.CUBE.format(where="WHERE seq = :seq"), changes, parameters)
        counts = change_detection.count_changes()
        if not cells.num_rows:
            return dict.fromkeys(counts, 0)
        self._store.append("cube", cells, once=self._once)
        columns = ", ".join(f"{n} AS {name}" for name, n in counts.items())
        counted = engine.ask(f"SELECT {columns} FROM changes WHERE seq = :seq", changes, parameters)
        return dict(counted.to_pylist()[0])

    def _count_people(self, cursor: Any) -> dict[str, Any]:
        return dict(_read_rows(cursor, change_detection.count_people(), {}).to_pylist()[0])

    def _write_rest(self, cursor: Any, counts: Mapping[str, Any]) -> None:
        """Write the rest; the run counts once it has its row in ``runs``. People come last, as they are read above."""
        text = change_detection.LOAD_ISSUES
        load_issues = _read_rows(cursor, text, self._bind(text))
        if load_issues.num_rows:
            self._store.append("load_issues", load_issues, once=self._once)
        if (deliveries := self._staged.deliveries()) is not None:
            seq = pa.array([self._seq] * deliveries.num_rows, pa.int64())
            self._store.append("deliveries", deliveries.append_column("seq", seq), once=self._once)
        row = self._row(counts) | {"deliveries": None if deliveries is None else deliveries.num_rows}
        runs = pa.concat_tables([self._before, pa.Table.from_pylist([row], TABLES["runs"].schema)])
        if self._parameters["origin"] == "collect":
            self._store.append("runs", runs, once=self._once, overwrite=True)
            self._write_people(cursor)
        else:  # deliveries do not change the people read above
            text = change_detection.CHANGED_PEOPLE_COUNT
            if cursor.execute(text, self._bind(text)).fetchall()[0][0]:
                self._write_people(cursor)
            self._store.append("runs", runs, once=self._once, overwrite=True)

    def _write_people(self, cursor: Any) -> None:
        text = change_detection.PEOPLE_AFTER
        people = _read_rows(cursor, text, self._bind(text))
        self._store.append("people", people, once=self._once, overwrite=True)

    @property
    def _once(self) -> tuple[str, int]:
        return ("ingest", self._seq)

    def _row(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        plan = self._staged.plan
        values = {name: self._parameters[name] for name in ("seq", "started_at", "finished_at", "complete")}
        names = ("run", "origin", "scope", "source", "inbox", "inbox_until")
        return values | {name: getattr(plan, name) for name in names} | dict(counts)


def collection_runs(store: Store) -> pa.Table:
    """Return the runs that loaded everyone."""
    runs = runs_table(store)
    return runs.filter(pc.and_(pc.equal(runs["origin"], "collect"), pc.equal(runs["scope"], "everyone")))


def last_seq(store: Store) -> int:
    """Return the number of the newest run; 0 if there is none."""
    return pc.max(store.rows("runs")["seq"]).as_py() or 0


def _read_rows(cursor: Any, text: str, parameters: Mapping[str, Any]) -> pa.Table:
    return cursor.sql(text, params=parameters or None).to_arrow_table()
