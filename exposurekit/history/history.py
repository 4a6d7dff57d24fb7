"""History: observations of all users over time, in one directory."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from numbers import Integral
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.analysis.selection import user_ids
from exposurekit.errors import ConfigurationError, DiskFull, InvalidArgument, NotFound
from exposurekit.frames.key_access import Keyed
from exposurekit.history import ingest, maintenance, staging
from exposurekit.history import run_manager as history_runs
from exposurekit.history.annotations import Annotations
from exposurekit.history.collector import Source, segments
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.engines.duckdb import CorruptHistory, engine_of
from exposurekit.history.ingest import Run
from exposurekit.history.queries import HistoryQueries
from exposurekit.history.reader import HistoryReader
from exposurekit.history.run_manager import RunManager
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import BUCKETS
from exposurekit.history.storage.upgrade import upgrade
from exposurekit.system import paths
from exposurekit.system.clock import utc_now
from exposurekit.text.html_cards import html_card

RECORDS_BY = ("id", "reference")
_Part = TypeVar("_Part")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _delegate(
    attribute: str, method: Callable[Concatenate[_Part, _Arguments], _Result]
) -> Callable[Concatenate[Any, _Arguments], _Result]:
    """Return a method that calls ``method`` on the part in ``attribute``."""

    @functools.wraps(method)
    def delegated(self: Any, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        return method(getattr(self, attribute), *args, **kwargs)

    return delegated


class History(Keyed):
    """What was observed, and when: a directory of Delta tables with one writer at a time and any number of readers.

    Run by run it stores each change of status of each record, link and alert. A failed or partial load never reads as a
    removal. It contains personal data, but no key or secret: protect it as you protect the service's own data.
    ``history["records"]`` is ``history.records()``, and a notebook completes the name.

    >>> history.collect(exposure).failed
    0
    """

    keyed = (
        *("records", "links", "alerts", "steps", "people"),
        *("runs", "collection_runs", "load_issues", "changes", "deliveries"),
        *("labels", "ticks", "notes"),
    )
    _open_store: type[Store] = Store

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        engine: object = None,
        records_by: str | None = None,
        clock: Callable[[], datetime] = utc_now,
        storage_options: Mapping[str, str] | None = None,
        auto_compact: bool = True,
    ) -> None:
        """Open a history; a new one is created on the first write, one of an older format is upgraded.

        Args:
            path: A directory (new or empty if there is no history yet), or an URL that deltalake takes, such as
                ``s3://...``. None: the one that the environment variable ``EXPOSUREKIT_HISTORY`` names.
            engine: What runs the queries: None for DuckDB in this process; a Spark session, or the ``spark://host:port``
                of a cluster.
            records_by: What identifies a record: its ``id``; or ``reference``, its site and ``reference_id``, if the
                service gives a listing another id at each scan. It is fixed when the history is created. None: as the
                history was created, ``id`` for a new one.
            clock: Returns the current time.
            storage_options: For a path that is not local, as deltalake takes them, such as ``AWS_ACCESS_KEY_ID``.
            auto_compact: Whether runs merge small files when there are many, and delete old ones: without it, call
                `compact` now and then.

        Raises:
            InvalidArgument: An argument is invalid.
            ConfigurationError: There is no path; the history was created with another ``records_by``; or the path cannot be reached, is a
                file, or contains other files; or a newer version wrote the history.
            HistoryLocked: The history has an older format, and a watch or a collection is running on it.
        """
        if records_by not in (None, *RECORDS_BY):
            raise InvalidArgument(f"records_by is one of: {', '.join(RECORDS_BY)}")
        chosen = paths.history_path() if path is None else path
        if chosen is None:
            raise ConfigurationError(
                f'Pass the path of the history, such as ek.History("exposure-history"), or set {paths.HISTORY_VARIABLE}'
            )
        self._store = self._open_store(chosen, storage_options)
        self._engine = engine_of(engine)
        self._clock = clock
        self._records_by = self._store.settings(records_by=records_by, otherwise="id")
        upgrade(self._store)
        schedule = maintenance.DEFAULT_SCHEDULE if auto_compact else None
        self._runs = RunManager(self._store, clock, self._records_by, schedule=schedule)
        self._read_with(HistoryReader(self._store, self._engine, self._records_by, clock))

    def _read_with(self, reader: HistoryReader) -> None:
        self._reader = reader
        self._annotations = Annotations(reader)
        self._queries = HistoryQueries(reader, self._annotations)

    def pinned(self) -> Self:
        """Return this history as of its newest run, for several questions: each table is read once, and answers agree.

        Later runs, labels, ticks and notes do not count. The tables stay in memory as long as the pinned history lives.
        It shares the engine of this history: closing one closes both. A pinned history returns itself.

        >>> pinned = history.pinned()
        >>> pinned.records().equals(history.records())
        True
        """
        if self._reader.answers is not None:
            return self
        pinned = copy.copy(self)
        pinned._read_with(replace(self._reader, answers={}))  # noqa: SLF001  of this class
        return pinned

    def __repr__(self) -> str:
        try:
            return f"History({self._store.uri!r}, {self.last_run().seq:,} runs)"
        except NotFound:
            return f"History({self._store.uri!r}, empty)"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"path": self.path}
        try:
            run = self.last_run()
        except NotFound:
            first = {"history.collect(exposure)": "observe everyone, and store what is new"}
            return html_card("History", facts | {"runs": "none yet: call collect() first"}, calls=first)
        return html_card(
            "History",
            facts | {"newest": run},
            note=f"as of {run.finished_at:%Y-%m-%d %H:%M} UTC",
            figures={"runs": f"{run.seq:,}", "people": f"{self._reader.n_registered():,}"},
            calls={
                'history.diff("14d")': "what changed in two weeks, and why",
                "ek.widgets.Dashboard(history=history)": "explore every day so far",
                'ek.report(history, "report.html")': "write a report",
            },
        )

    @property
    def provenance(self) -> str:
        """The source of the tables: the number of runs, the end of the newest, and how many people are registered.

        They are the ``people`` of `status_over_time`: somebody whom one run alone did not list still counts.

        Raises:
            NotFound: The history is empty.

        >>> history.provenance.startswith("history of ")
        True
        """
        run = self.last_run()
        return f"history of {run.seq:,} runs · as of {run.finished_at:%Y-%m-%d %H:%M} UTC · {self._reader.n_registered():,} people"

    @property
    def path(self) -> str:
        """The directory or URL of the history."""
        return self._store.uri

    @property
    def records_by(self) -> str:
        """What identifies a record: ``id`` or ``reference``."""
        return self._records_by

    # --- tables, questions and annotations ---

    runs = _delegate("_reader", HistoryReader.runs)
    collection_runs = _delegate("_reader", HistoryReader.collection_runs)
    last_run = _delegate("_reader", HistoryReader.last_run)
    people = _delegate("_reader", HistoryReader.people)
    load_issues = _delegate("_reader", HistoryReader.load_issues)
    changes = _delegate("_reader", HistoryReader.changes)
    deliveries = _delegate("_reader", HistoryReader.deliveries)
    records = _delegate("_reader", HistoryReader.records)
    links = _delegate("_reader", HistoryReader.links)
    alerts = _delegate("_reader", HistoryReader.alerts)

    status_over_time = _delegate("_queries", HistoryQueries.status_over_time)
    by_site = _delegate("_queries", HistoryQueries.by_site)
    by_user = _delegate("_queries", HistoryQueries.by_user)
    diff = _delegate("_queries", HistoryQueries.diff)
    time_to_removal = _delegate("_queries", HistoryQueries.time_to_removal)
    survival = _delegate("_queries", HistoryQueries.survival)
    removal_requests = _delegate("_queries", HistoryQueries.removal_requests)
    declared_vs_observed = _delegate("_queries", HistoryQueries.declared_vs_observed)
    life_table = _delegate("_queries", HistoryQueries.life_table)
    relistings = _delegate("_queries", HistoryQueries.relistings)
    forecast = _delegate("_queries", HistoryQueries.forecast)
    score = _delegate("_queries", HistoryQueries.score)
    score_changes = _delegate("_queries", HistoryQueries.score_changes)
    stale = _delegate("_queries", HistoryQueries.stale)
    coverage = _delegate("_queries", HistoryQueries.coverage)
    missed = _delegate("_queries", HistoryQueries.missed)
    site_health = _delegate("_queries", HistoryQueries.site_health)

    steps = _delegate("_queries", HistoryQueries.steps)
    with_ticks = _delegate("_annotations", Annotations.with_ticks)
    with_labels = _delegate("_annotations", Annotations.with_labels)
    timed_steps = _delegate("_annotations", Annotations.timed_steps)
    step_minutes = _delegate("_annotations", Annotations.step_minutes)
    minutes_by_site = _delegate("_annotations", Annotations.minutes_by_site)
    work_queue = _delegate("_queries", HistoryQueries.work_queue)
    plan = _delegate("_queries", HistoryQueries.plan)
    failed_removals = _delegate("_queries", HistoryQueries.failed_removals)
    site_outcomes = _delegate("_queries", HistoryQueries.site_outcomes)
    stalled_sites = _delegate("_queries", HistoryQueries.stalled_sites)
    success_rates = _delegate("_queries", HistoryQueries.success_rates)
    site_experience = _delegate("_queries", HistoryQueries.site_experience)
    precision = _delegate("_queries", HistoryQueries.precision)

    label = _delegate("_annotations", Annotations.label)
    tick = _delegate("_annotations", Annotations.tick)
    import_ticks = _delegate("_annotations", Annotations.import_ticks)
    note = _delegate("_annotations", Annotations.note)
    rename_site = _delegate("_annotations", Annotations.rename_site)
    site_names = _delegate("_reader", HistoryReader.site_names)
    declare_days = _delegate("_annotations", Annotations.declare_days)
    declared_days = _delegate("_reader", HistoryReader.declared_days)
    labels = _delegate("_annotations", Annotations.labels)
    ticks = _delegate("_annotations", Annotations.ticks)
    notes = _delegate("_annotations", Annotations.notes)

    # --- collecting ---

    def collect(
        self,
        exposure: Source,
        *,
        run: str | None = None,
        shard: str | None = None,
        only: Iterable[int] | None = None,
        progress: bool | None = None,
        moved: bool = False,
    ) -> Run:
        """Load everyone once and store it as one run.

        Batches go to disk as they arrive, so memory does not grow with the number of people. If a collection is stopped
        or killed, the next call within six hours resumes it. If two processes collect a run of the same name, one
        writes it.

        Args:
            exposure: What to load from.
            run: The name of the run; a name that was collected already adds nothing. None: a new run.
            shard: ``2/8``: the second of eight collectors that share a named run, each with its part of the people. The
                run is ingested when the last one ends.
            only: Load these people alone; the run says nothing of the others. ``people["listed"]`` of the result is how
                many of them are registered.
            progress: Whether to show a progress bar; None: in a notebook and in a terminal.
            moved: Whether the service or the integrator may have another name or address than in the last run; the people
                are the same.

        Returns:
            The run and its changes; ``seq`` is None while other shards run, and ``was_there`` is set if the run was
                ingested before.

        Raises:
            HistoryLocked: Another process is collecting; give the run a name to share it.
            InvalidArgument: ``exposure`` is not an `Exposure`, or another argument is invalid.
            ConfigurationError: The directory cannot be created; or the last run was collected from another service or
                integrator, and ``moved`` is not set.
            DiskFull: No space is left. What was loaded stays staged.
            LoadStopped: Ctrl-C stopped the load; a `KeyboardInterrupt` that says whether anything was kept.
            ExposureError: The list of users could not be loaded. What was loaded stays staged.

        >>> history.collect(exposure, run="monday").new, history.collect(exposure, run="monday").run
        (0, 'monday')
        """
        if not (hasattr(exposure, "iter_batches") and hasattr(exposure, "origin")):
            raise InvalidArgument("collect() needs an Exposure, as ek.connect() returns it")
        part, chosen = _parse_shard(shard, run), None if only is None else tuple(sorted({*user_ids(only)}))
        return self._runs.collect(exposure, run=run, part=part, only=chosen, progress=progress, moved=moved)

    def check_source(self, exposure: Source) -> None:
        """Check that the last run was collected from this service and integrator, as `collect` does.

        On this machine only the integrator's name is compared, because ports change.

        Raises:
            ConfigurationError: The last run was collected from another service or integrator.
            CorruptHistory: A file is damaged or missing.

        >>> history.check_source(exposure)
        """
        self._runs.check_source(exposure.origin)

    def ingest_deliveries(self, deliveries: Sequence[ReceivedDelivery], inbox: str) -> int:
        """Ingest webhook deliveries: each is an observation of the items in it, never of an absence.

        Args:
            deliveries: Numbered by their inbox; those that were ingested before are skipped.
            inbox: The identity of the inbox.

        Returns:
            The number of new deliveries.

        >>> history.ingest_deliveries([], inbox="mine")
        0
        """
        with self._store.exclusive():
            self._runs.complete_ingests()
            self._runs.discard_staged(inbox)
            last = self.last_delivery(inbox)
            new = [delivery for delivery in deliveries if delivery.number > last]
            for segment in segments(new):
                self._runs.ingest_segment(segment, inbox)
        return len(new)

    def last_delivery(self, inbox: str) -> int:
        """Return the number of the last delivery ingested from an inbox; 0 if there is none.

        >>> history.last_delivery("mine")
        0
        """
        runs = ingest.runs_table(self._store)
        return pc.max(runs.filter(pc.equal(runs["inbox"], inbox))["inbox_until"]).as_py() or 0

    def last_collected_at(self, *, until: datetime | None = None) -> datetime | None:
        """Return when the newest run of everyone began; None if there is none.

        Args:
            until: Consider only runs that began by then; None: all.

        >>> history.last_collected_at() is not None
        True
        """
        starts = ingest.collection_runs(self._store)["started_at"]
        if until is not None:
            starts = starts.filter(pc.less_equal(starts, pa.scalar(until, starts.type)))
        newest: datetime | None = pc.max(starts).as_py()
        return newest

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Lock a name in this history, so that one process alone does that work.

        Raises:
            HistoryLocked: Another process has the lock.

        >>> with history.lock("watch"):
        ...     pass
        """
        return self._store.locked(name, wait=False)

    def pending_runs(self) -> list[Run]:
        """Return the runs that are staged and not ingested: other shards are running, or a collector was stopped.

        >>> history.pending_runs()
        []
        """
        return [history_runs.pending_run(staged) for staged in staging.all_staged(self._store)]

    def finalize(self, run: str) -> Run:
        """Ingest a run whose remaining shards will not come; users they did not load count as missed, not as gone.

        Raises:
            NotFound: No such run is pending.
            HistoryLocked: One of its shards is running.

        >>> history.finalize("monday")
        Traceback (most recent call last):
        exposurekit.errors.NotFound: No pending run has that name; pending_runs(), or exposurekit history runs, lists them
        """
        staged = staging.find_staged(self._store, run)
        if staged is None:
            raise NotFound(
                "No pending run has that name; pending_runs(), or exposurekit history runs, lists them"
            )
        return self._runs.finalize(staged)

    # --- erasing and maintenance ---

    def erase(self, user_id: int) -> int:
        """Remove a person from every file: the tables, their older versions, and staged runs.

        The sums are recomputed without the person. A webhook inbox beside the history has its own `erase`; the command
        ``exposurekit history erase`` does both. The next `collect`, or a running watch, brings the person back unless
        the service no longer lists them. After an erasure the history cannot tell who was observed before, so new
        users count as a baseline, and not as new, until a complete run that began after it.

        Args:
            user_id: One id, 0 or more.

        Returns:
            The number of erased rows.

        Raises:
            InvalidArgument: ``user_id`` is not an id; nothing was erased.
            NotFound: There is no history.
            DiskFull: No space is left, and the person is not erased everywhere; totals may still include them. The next
                `erase`, `collect`, `compact` or `verify` with space finishes it.

        >>> history.erase(999_999)
        0
        """
        checked_id = _checked_id(user_id)
        self._store.check_exists()
        with self._store.exclusive():
            self._runs.complete_ingests()
            # First: a process may be killed before all rows are gone.
            self._store.begin_erasure(self._clock(), checked_id)
            return maintenance.erase(self._store, checked_id)

    def personal_values(self, user_id: int) -> set[str]:
        """Return what findings hold about a person by name: names, addresses of listings and links, references.

        Use them to search for traces elsewhere before you erase the person here.

        Raises:
            InvalidArgument: ``user_id`` is not an id.
            NotFound: There is no history.

        >>> history.personal_values(999_999)
        set()
        """
        checked_id = _checked_id(user_id)
        self._store.check_exists()
        return maintenance.personal_values(self._store, checked_id)

    def personal_addresses(self, user_id: int) -> set[tuple[str, str]]:
        """Return the streets with house number on a person's listings, each with its town.

        Both are in lower case and abbreviated. Use them as `personal_values`; a town without a street identifies nobody.

        Raises:
            InvalidArgument: ``user_id`` is not an id.
            NotFound: There is no history.

        >>> history.personal_addresses(999_999)
        set()
        """
        checked_id = _checked_id(user_id)
        self._store.check_exists()
        return maintenance.personal_addresses(self._store, checked_id)

    def compact(self) -> None:
        """Merge all small files; the old ones stay for a day, for readers. Runs merge those that are too many.

        Raises:
            NotFound: There is no history.

        >>> history.compact()
        """
        self._store.check_exists()
        with self._store.exclusive():
            self._runs.complete_ingests()
            maintenance.compact(self._store, ingest.last_seq(self._store))

    def verify(self) -> dict[str, int]:
        """Check the integrity of the history: every file against its checksum, and the tables against each other.

        An ingest that was killed is completed first, unless this is a read-only copy. A table with an unreadable file is
        not compared with the others.

        Returns:
            What is damaged, in words: a file by its path in the history, or what its tables contradict; and in how many
            rows, 1 for a file. Empty if nothing is.

        Raises:
            NotFound: There is no history.

        >>> history.verify()
        {}
        """
        self._store.check_exists()
        if not self._store.is_writable:
            return maintenance.violations(self._store)
        with self._store.exclusive():
            with contextlib.suppress(CorruptHistory, DiskFull):
                self._runs.complete_ingests()
            return maintenance.violations(self._store)

    def sync(self) -> None:
        """Flush writes to the disk, so that they survive a loss of power; each run does so when it is ingested.

        >>> history.sync()
        """
        self._store.sync()

    def close(self) -> None:
        """Close the engine. The data stays."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_id(user_id: object) -> int:
    """Return one user id as an int; only integers of 0 or more are ids."""
    if isinstance(user_id, Integral) and not isinstance(user_id, bool) and 0 <= int(user_id) < 2**63:
        return int(user_id)
    raise InvalidArgument("A user id is an integer of 0 or more, such as 12: take it from the column user_id")


def _parse_shard(shard: str | None, run: str | None) -> tuple[int, int]:
    if run is not None and not (isinstance(run, str) and run.strip() and run.isprintable()):
        raise InvalidArgument("The name of a run is plain text, such as 2026-11-21")
    if shard is None:
        return 1, 1
    with contextlib.suppress(ValueError):
        number, _, count = str(shard).partition("/")
        if 1 <= int(number) <= int(count) <= BUCKETS:
            if run is None:
                raise InvalidArgument("Shards share a named run: give the run a name, too")
            return int(number), int(count)
    raise InvalidArgument(f"A shard is written n/m, such as 2/8, with m at most {BUCKETS}")
