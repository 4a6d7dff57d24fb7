"""Staged run -> changes: the one ingester. Every step is done once, whoever is killed in between. Fetches nothing."""

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
from exposurekit.text.html_cards import NAME_MAX, html_card, truncate

_WRITTEN = {True: "is_said", False: "is_change"}


@dataclass(frozen=True, slots=True)
class Run:
    """One run and what it brought, as `History.runs` has it in a row.

    Attributes:
        run: Its name.
        seq: Its number; None where it is not taken in yet: other shards are still looking.
        started_at: When the first of its collectors began.
        finished_at: When the last ended.
        origin: ``look`` or ``webhook``.
        people: How many people were listed, and by how they were seen: ``whole``, ``partial``, ``failed``, ...
        counts: How many records are ``new``, ``removed``, ``vanished``, ``relisted``, ... and links and alerts new.
        complete: Whether the list of users was whole.
        waits_for: The shards that have not ended.
        shards: How many collectors share it, where it is not taken in.
        was_there: Whether it was taken in before it was asked for; nothing was added then.

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
    was_there: bool = False

    @property
    def duration(self) -> timedelta | None:
        """From its start to its end."""
        return self.finished_at - self.started_at if self.finished_at else None

    @property
    def new(self) -> int:
        """Records that were not listed at the last look at their person."""
        return self.counts.get("new", 0)

    @property
    def changed(self) -> int:
        """Records with another status, open before and after."""
        return self.counts.get("changed", 0)

    @property
    def gone(self) -> int:
        """Records that are no longer open: verified as removed, or vanished."""
        return self.counts.get("removed", 0) + self.counts.get("vanished", 0)

    @property
    def failed(self) -> int:
        """People who could not be looked at."""
        return self.people.get("failed", 0)

    def __repr__(self) -> str:
        return f"Run({str(self)!r})"

    def _repr_html_(self) -> str:
        counted = [(name, self.people) for name in ("listed", *PEOPLE_COUNTED)]
        counted += [(name, self.counts) for name in COUNTED]
        told = {name.replace("_", " "): f"{of[name]:,}" for name, of in counted if of.get(name)}
        facts = {"origin": self.origin, "began": self.started_at, "ended": self.finished_at, **told}
        return html_card(f"Run {self.run}" if self.seq is not None else str(self), facts)

    def __str__(self) -> str:
        name = truncate(self.run, NAME_MAX)
        if self.seq is None:
            if self.waits_for and self.shards == 1:
                return f"run {name}: begun, and did not end; the next collect goes on with it"
            waits = ", ".join(map(str, self.waits_for))
            awaited = f"shard {waits}" if waits else "another process: collect again"
            return f"run {name}: staged, waits for {awaited}"
        told = [f"{self.people.get('whole', 0):,} people seen well"]
        told += [f"{self.people[name]:,} {name}" for name in PEOPLE_COUNTED[1:] if self.people.get(name)]
        told += [
            f"{self.counts[name]:,} {name.replace('_', ' ')}" for name in COUNTED if self.counts.get(name)
        ]
        return f"run {name}: {', '.join(told)}"


def run_from_row(row: Mapping[str, Any]) -> Run:
    """A run from its row in ``runs``."""
    return Run(
        run=row["run"],
        seq=row["seq"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        origin=row["origin"],
        people={name: row[name] for name in ("listed", *PEOPLE_COUNTED)},
        counts={name: row[name] for name in COUNTED},
        complete=row["complete"],
    )


def ingest_run(store: Store, staged: StagedRun) -> None:
    """Take a whole run into the tables, once.

    What another ingester began and did not end is ended first. The caller holds `Store.alone`.
    """
    staging.sweep(store)
    for unfinished in staging.all_staged(store):
        if unfinished.number is not None and unfinished.run != staged.run:
            _Ingest(store, unfinished).run()
    if row_of(store, staged.run) is None or staged.number is not None:
        _Ingest(store, staged).run()


def row_of(store: Store, run: str) -> dict[str, Any] | None:
    """The row of a run in ``runs``; None: it was not taken in."""
    rows = runs_table(store)
    found = rows.filter(pc.equal(rows["run"], run)).to_pylist()
    return found[0] if found else None


def runs_table(store: Store) -> pa.Table:
    """All of ``runs``, in order."""
    return store.rows("runs").sort_by("seq")


class _Ingest:
    """One run on its way into the tables."""

    def __init__(self, store: Store, staged: StagedRun) -> None:
        self._store = store
        self._staged = staged
        self._before = runs_table(store)
        self._seq = staged.number or (pc.max(self._before["seq"]).as_py() or 0) + 1
        self._parameters = self._values()

    def run(self) -> None:
        if not self._store.is_local:
            self._claim()
        self._staged.begin_ingest(self._seq)
        if not self._is_written:
            self._write()
        maintenance.checkpoint_if_due(self._store, self._seq)
        self._store.sync()
        self._staged.remove()

    def _claim(self) -> None:
        """Have the number, before anything is written under it.

        Raises:
            HistoryLocked: Another run has it, and is about to be taken in.
        """
        claim = pa.table({"seq": [self._seq], "run": [self._staged.run]})
        self._store.append("claims", claim, once=("claim", self._seq))
        claims = self._store.rows("claims")
        [holder] = claims.filter(pc.equal(claims["seq"], self._seq))["run"].to_pylist()
        if holder == self._staged.run:
            return
        if staging.find_staged(self._store, holder) is not None or row_of(self._store, holder) is not None:
            raise HistoryLocked(
                "Another process takes in a run at this moment; this one is staged: collect again"
            )
        self._parameters["seq"] = self._seq = self._seq + 1  # whoever claimed it is gone, and wrote nothing
        self._claim()

    @property
    def _is_written(self) -> bool:
        """Whether the last of its tables has it: from then on nothing may be worked out again."""
        last = "people" if self._parameters["origin"] == "look" else "runs"
        return self._store.version(last, "ingest") >= self._seq

    def _write(self) -> None:
        known = self._known()
        with (
            DuckDB(memory_limit=maintenance.MEMORY, as_written=True) as engine,
            engine.views(known | self._said()) as cursor,
        ):
            cursor.execute(change_detection.LOOKED, self._given(change_detection.LOOKED))
            self._write_changes(cursor, known)
            counts = self._write_cube(engine) | self._looks_counted(cursor)
            self._write_rest(cursor, counts)

    def _known(self) -> dict[str, Files]:
        """What was known: the same at every attempt, since people are written last."""
        return self._store.snapshot("people") | maintenance.known_users(
            self._store, self._parameters["checkpointed"]
        )

    def _said(self) -> dict[str, Files]:
        """What is staged."""
        return {f"staged_{kind}": self._staged.files(kind) for kind in (PEOPLE, *KINDS)}

    def _values(self) -> dict[str, Any]:
        plan, ends = self._staged.plan, self._staged.ends()
        complete = len(ends) >= plan.shards and all(end.complete for end in ends.values())
        erased_at = self._store.erased_at()
        before = [
            row["started_at"]
            for row in collection_runs(self._store).to_pylist()
            if row["complete"] and row["finished_at"] <= plan.started_at and row["seq"] < self._seq
            # Whoever was erased was seen by the looks before that: these tell no longer who is new.
            if erased_at is None or row["started_at"] > erased_at
        ]
        return {
            "seq": self._seq,
            "started_at": plan.started_at,
            "finished_at": max((end.finished_at for end in ends.values()), default=plan.started_at),
            "origin": plan.origin,
            "scope": plan.scope,
            "complete": complete and plan.origin == "look",
            "first_registered_after": max(before, default=None),
            "checkpointed": self._store.version("checkpoint", "checkpoint"),
        }

    def _given(self, text: str, **more: Any) -> dict[str, Any]:
        """The parameters that a text names."""
        return {name: value for name, value in (self._parameters | more).items() if f"${name}" in text}

    def _write_changes(self, cursor: Any, before: Mapping[str, Files]) -> None:
        """Compared group by group, and written when enough has changed: what a run says is read once for each writing."""
        known = maintenance.kinds_of(self._store)
        for kind in KINDS:
            # By what is staged alone: the same groups at each attempt.
            cursor.execute(change_detection.latest_observation(kind))
            [[rows]] = cursor.execute("SELECT count(*) FROM seen").fetchall()
            if rows or kind in known:
                self._compare(cursor, kind, maintenance.grouped(rows), before)

    def _compare(
        self, cursor: Any, kind: str, groups: list[tuple[int, int]], before: Mapping[str, Files]
    ) -> None:
        begin, text = 0, change_detection.step(kind)
        for number, (low, high) in enumerate(groups):
            maintenance.select_users(cursor, before, low, high)
            into = "CREATE OR REPLACE TEMP TABLE step AS" if low == begin else "INSERT INTO step"
            cursor.execute(f"{into} {text}", self._given(text, low=low, high=high))
            held = cursor.execute("SELECT count(*) FROM step").fetchall()[0][0]
            if held >= maintenance.ROWS_A_GROUP // 2 or number == len(groups) - 1:
                for part, buckets in enumerate(in_parts(begin, high, held, maintenance.ROWS_A_WRITING)):
                    self._write_step(cursor, kind, (f"{kind}:{number}.{part}", self._seq), buckets, held)
                begin = high + 1

    def _write_step(
        self, cursor: Any, kind: str, once: tuple[str, int], buckets: tuple[int, int], held: int
    ) -> None:
        content = CONTENT_OF[kind]
        if min(self._store.version(name, once[0]) for name in ("changes", content)) >= self._seq:
            return
        texts = {content: change_detection.describe(kind), "changes": change_detection.changed(kind)}
        if (
            held > maintenance.ROWS_AT_HAND
        ):  # the first run says everything, and that is much: a stream, then a stream
            for name, text in texts.items():
                if (found := self._found(cursor, name, text, buckets)) is not None:
                    self._store.append(name, found.to_arrow_reader(maintenance.ROWS_A_BATCH), once=once)
            return
        tables = {
            name: found.to_arrow_table()
            for name, text in texts.items()
            if (found := self._found(cursor, name, text, buckets)) is not None
        }
        threads = 2 if held > maintenance.ROWS_FEW else 1
        with ThreadPoolExecutor(threads) as writers:  # each compresses what it writes
            [*writers.map(lambda name: self._store.append(name, tables[name], once=once), tables)]

    def _found(self, cursor: Any, name: str, text: str, buckets: tuple[int, int]) -> Any:
        """What a step gives of a table, not read yet; None: nothing."""
        low, high = buckets
        count = (
            f"SELECT count(*) FROM step WHERE bucket BETWEEN $low AND $high AND {_WRITTEN[name != 'changes']}"
        )
        [[rows]] = cursor.execute(count, {"low": low, "high": high}).fetchall()
        return cursor.sql(text, params=self._given(text, low=low, high=high)) if rows else None

    def _write_cube(self, engine: DuckDB) -> dict[str, Any]:
        """The sums of this run's changes; and how many there are of each sort."""
        changes, given = {"changes": self._store.since("changes", self._seq - 1)}, {"seq": self._seq}
        cells = engine.ask(change_detection.CUBE.format(where="WHERE seq = :seq"), changes, given)
        if cells.num_rows:
            self._store.append("cube", cells, once=self._once)
        counted: dict[str, Any] = engine.ask(change_detection.count_cells(), changes, given).to_pylist()[0]
        return counted

    def _looks_counted(self, cursor: Any) -> dict[str, Any]:
        counted: dict[str, Any] = _read_rows(cursor, change_detection.count_runs(), {}).to_pylist()[0]
        return counted

    def _write_rest(self, cursor: Any, counts: Mapping[str, Any]) -> None:
        """What makes the run whole: it counts from its row in ``runs`` on. People come last: they are read above."""
        text = change_detection.LOAD_ISSUES
        load_issues = _read_rows(cursor, text, self._given(text))
        if load_issues.num_rows:
            self._store.append("load_issues", load_issues, once=self._once)
        if (told := self._staged.told()) is not None:
            seq = pa.array([self._seq] * told.num_rows, pa.int64())
            self._store.append("deliveries", told.append_column("seq", seq), once=self._once)
        row = self._row(counts) | {"deliveries": told.num_rows if told is not None else None}
        runs = pa.concat_tables([self._before, pa.Table.from_pylist([row], TABLES["runs"].schema)])
        if self._parameters["origin"] == "look":
            self._store.append("runs", runs, once=self._once, overwrite=True)
            self._write_people(cursor)
        else:  # deliveries change nothing of people that was read above
            text = change_detection.ANYBODY_JUDGED
            if cursor.execute(text, self._given(text)).fetchall()[0][0]:
                self._write_people(cursor)
            self._store.append("runs", runs, once=self._once, overwrite=True)

    def _write_people(self, cursor: Any) -> None:
        text = change_detection.PEOPLE_AFTER
        people = _read_rows(cursor, text, self._given(text))
        self._store.append("people", people, once=self._once, overwrite=True)

    @property
    def _once(self) -> tuple[str, int]:
        return ("ingest", self._seq)

    def _row(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        plan = self._staged.plan
        given = {name: self._parameters[name] for name in ("seq", "started_at", "finished_at", "complete")}
        names = ("run", "origin", "scope", "source", "inbox", "inbox_until")
        return given | {name: getattr(plan, name) for name in names} | dict(counts)


def collection_runs(store: Store) -> pa.Table:
    """The looks at everyone among the runs."""
    runs = runs_table(store)
    return runs.filter(pc.and_(pc.equal(runs["origin"], "look"), pc.equal(runs["scope"], "everyone")))


def last_seq(store: Store) -> int:
    """The number of the newest run; 0: there is none."""
    return max(runs_table(store)["seq"].to_pylist(), default=0)


def _read_rows(cursor: Any, text: str, given: Mapping[str, Any]) -> pa.Table:
    return cursor.sql(text, params=given or None).to_arrow_table()
