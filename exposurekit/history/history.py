"""`History`: takes in what is seen of everyone, and remembers it. Asks no service of its own accord."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.frames.key_access import Keyed
from exposurekit.history import ingest, maintenance, staging
from exposurekit.history import runs as history_runs
from exposurekit.history.collector import Source, segments
from exposurekit.history.conversion import ids, one_id
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.engines.duckdb import CorruptHistory, engine_of
from exposurekit.history.ingest import Run
from exposurekit.history.runs import RunManager
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import BUCKETS
from exposurekit.history.weighing import Weighing
from exposurekit.text.html_cards import html_card

RECORDS_BY = ("id", "reference")


def _now() -> datetime:
    return datetime.now(UTC)


class History(Weighing, Keyed):
    """What was seen, and when: a directory of Delta tables that any number of processes may read while one writes.

    Run by run it remembers of each record, link and alert when its status was first seen to be another. A failed or
    partial look never reads as a removal. No key and no secret is ever in it; people's data is: keep it as you keep the
    service's own. ``history["records"]`` is ``history.records()``, and a notebook completes the name.

    >>> history.collect(exposure).failed
    0
    """

    keyed = (
        *("records", "links", "alerts", "steps", "people"),
        *("runs", "looks", "exceptions", "changes", "deliveries"),
        *("labels", "ticks", "notes"),
    )

    def __init__(
        self,
        path: str | Path,
        *,
        engine: object = None,
        records_by: str | None = None,
        clock: Callable[[], datetime] = _now,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Open a history; where there is none, its directory is made when something is first written.

        Args:
            path: A directory, which is a new or an empty one where there is no history yet; or ``s3://...`` as deltalake
                takes it.
            engine: What answers: None for DuckDB here; a Spark session, or the ``spark://host:port`` of a cluster.
            records_by: What makes two records the same: their ``id``; or ``reference``, site and ``reference_id``, where
                a service gives a listing another id at each scan. A history stays with what it was made with, which
                None takes; a new one is made with ``id``.
            clock: What time it is.
            storage_options: As deltalake takes them, for a path that is not local.

        Raises:
            InvalidArgument: An argument is invalid.
            ConfigurationError: The history was made with another ``records_by``; or the path cannot be reached, is a
                file, or holds other files.
        """
        if records_by not in (None, *RECORDS_BY):
            raise InvalidArgument(f"records_by is one of: {', '.join(RECORDS_BY)}")
        self._store = Store(path, storage_options)
        self._engine = engine_of(engine)
        self._clock = clock
        self._records_by = self._store.settings(records_by=records_by, otherwise="id")
        self._rounds = RunManager(self._store, clock, self._records_by)

    def __repr__(self) -> str:
        try:
            return f"History({self._store.uri!r}, {self.last_run().seq:,} runs)"
        except NotFound:
            return f"History({self._store.uri!r}, empty)"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {"lies at": self.path, "runs": "none yet: collect() takes the first look"}
        with contextlib.suppress(NotFound):
            run = self.last_run()
            facts |= {"runs": f"{run.seq:,}", "as of": run.finished_at, "newest": run}
        return html_card("History", facts)

    @property
    def provenance(self) -> str:
        """Where the tables come from: how many runs, when the newest ended, and how many people it listed.

        Raises:
            NotFound: Nothing was collected yet.

        >>> history.provenance.startswith("history of ")
        True
        """
        run = self.last_run()
        return f"history of {run.seq:,} runs · as of {run.finished_at:%Y-%m-%d %H:%M} UTC · {run.people['listed']:,} people"

    @property
    def path(self) -> str:
        """Where it lies."""
        return self._store.uri

    def collect(
        self,
        exposure: Source,
        *,
        run: str | None = None,
        shard: str | None = None,
        only: Iterable[int] | None = None,
        progress: bool | None = None,
    ) -> Run:
        """One look at everyone -> one run.

        What comes goes to the disk batch by batch, so that memory does not grow with the number of people; a collection
        that is stopped or killed goes on where it stood at the next call, for six hours. Of two that are asked for the
        same run, one writes it.

        Args:
            exposure: Whom to look at.
            run: The name of the run: who collects the same name adds nothing. None: a new one.
            shard: ``2/8``: the second of eight collectors that share a named run, one part of the people each. The run
                is taken in when the last of them ends.
            only: Look at these people alone; says nothing of the others. Of these, the ``people["listed"]`` of what is
                returned are registered.
            progress: Whether to show a progress bar; None: in a notebook and in a terminal.

        Returns:
            What it brought; with ``seq`` None where other shards have not ended, and ``was_there`` where the run was
                taken in before.

        Raises:
            HistoryLocked: Another process collects at this moment; give the run a name to share it.
            InvalidArgument: ``exposure`` is not an `Exposure`, or another argument is invalid.
            ConfigurationError: The directory cannot be made.
            ExposureError: The list of users could not be had. What was seen stays staged.

        >>> history.collect(exposure, run="monday").new, history.collect(exposure, run="monday").run
        (0, 'monday')
        """
        if not (hasattr(exposure, "stream") and hasattr(exposure, "origin")):
            raise InvalidArgument("collect() looks through an Exposure, as ek.connect() gives it")
        part, chosen = _parted(shard, run), None if only is None else ids(only)
        return self._rounds.collect(exposure, run=run, part=part, only=chosen, progress=progress)

    def ingest_deliveries(self, deliveries: Sequence[ReceivedDelivery], inbox: str) -> int:
        """Ingest webhook deliveries: each is an observation of what it says, never of an absence.

        Args:
            deliveries: Numbered by their inbox; those that were ingested before are skipped.
            inbox: The identity of the inbox.

        Returns:
            The number of new deliveries.

        >>> history.ingest_deliveries([], inbox="mine")
        0
        """
        with self._store.alone():
            self._rounds.end_begun()
            self._rounds.forget(inbox)
            last = self.last_delivery(inbox)
            new = [delivery for delivery in deliveries if delivery.number > last]
            for segment in segments(new):
                self._rounds.take_stretch(segment, inbox)
        return len(new)

    def last_delivery(self, inbox: str) -> int:
        """Return the number of the last delivery ingested from an inbox; 0 if there is none.

        >>> history.last_delivery("mine")
        0
        """
        runs = ingest.runs_table(self._store)
        return pc.max(runs.filter(pc.equal(runs["inbox"], inbox))["inbox_until"]).as_py() or 0

    def last_look_at(self, *, until: datetime | None = None) -> datetime | None:
        """When the newest look at everyone began; None: nobody looked yet.

        Args:
            until: Of those that began by then; None: of all.

        >>> history.last_look_at() is not None
        True
        """
        began = ingest.collection_runs(self._store)["started_at"]
        if until is not None:
            began = began.filter(pc.less_equal(began, pa.scalar(until, began.type)))
        newest: datetime | None = pc.max(began).as_py()
        return newest

    def lock(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Hold a name of this history, so that one process alone does that work.

        Raises:
            HistoryLocked: Another process holds it.

        >>> with history.lock("watch"):
        ...     pass
        """
        return self._store.locked(name, wait=False)

    def pending_runs(self) -> list[Run]:
        """Return the runs that are staged and not ingested: other shards are running, or a collector was stopped.

        >>> history.pending_runs()
        []
        """
        return [history_runs.waiting(staged) for staged in staging.all_staged(self._store)]

    def finalize(self, run: str) -> Run:
        """Ingest a run whose remaining shards will not come; users they did not load count as missed, not as gone.

        Raises:
            NotFound: No such run waits.
            HistoryLocked: One of its shards is looking at this moment.

        >>> history.finalize("monday")
        Traceback (most recent call last):
        exposurekit.errors.NotFound: No run of that name waits to be taken in
        """
        staged = staging.found(self._store, run)
        if staged is None:
            raise NotFound("No run of that name waits to be taken in")
        return self._rounds.finalize(staged)

    def erase(self, user_id: int) -> int:
        """Leave nothing of a person in any file: not in the tables, their older versions, or what is staged.

        The sums are made anew without the person. An inbox of webhooks beside the history has its own `erase`; the
        command ``exposurekit history erase`` does both. The next `collect`, or a watch that runs, brings the person back
        unless the service lists them no longer. Since nobody knows any more who was seen before, whoever first appears
        after an erasure is a baseline, and not new, until a whole look at everyone was begun after it.

        Args:
            user_id: One id; a whole number of 0 or more.

        Returns:
            How many rows there were.

        Raises:
            InvalidArgument: This is no id; nothing was erased.
            NotFound: There is no history.

        >>> history.erase(999_999)
        0
        """
        whom = one_id(user_id)
        self._store.check_is_there()
        with self._store.alone():
            self._rounds.end_begun()
            self._store.note_erasure(self._clock())  # first: a process may be killed before all rows are gone
            return maintenance.erase(self._store, whom)

    def personal_values(self, user_id: int) -> set[str]:
        """Return what findings hold about a person by name: names, addresses of listings and links, references.

        Use them to search for traces elsewhere before you erase the person here.

        Raises:
            InvalidArgument: This is no id.
            NotFound: There is no history.

        >>> history.personal_values(999_999)
        set()
        """
        whom = one_id(user_id)
        self._store.check_is_there()
        return maintenance.personal_values(self._store, whom)

    def compact(self) -> None:
        """Put many small files together; the old ones stay for a day, for whoever reads them. Done by itself, too.

        Raises:
            NotFound: There is no history.

        >>> history.compact()
        """
        self._store.check_is_there()
        with self._store.alone():
            self._rounds.end_begun()
            maintenance.compact(self._store, ingest.last_seq(self._store))

    def verify(self) -> dict[str, int]:
        """Which of a history's promises its files break, and in how many rows; empty: none.

        What an ingester that was killed left half done is ended first. Promises about a table of which a file cannot be
        read are not looked into: that it can is a promise, too.

        Raises:
            NotFound: There is no history.

        >>> history.verify()
        {}
        """
        self._store.check_is_there()
        with self._store.alone():
            with contextlib.suppress(CorruptHistory):
                self._rounds.end_begun()
            return maintenance.violations(self._store)

    def sync(self) -> None:
        """See to it that what was written outlives a loss of power; each run does so when it is taken in.

        >>> history.sync()
        """
        self._store.sync()

    def close(self) -> None:
        """End the engine. What is written stays."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _parted(shard: str | None, run: str | None) -> tuple[int, int]:
    if run is not None and not (isinstance(run, str) and run.strip() and run.isprintable()):
        raise InvalidArgument("The name of a run is some plain text, such as 2026-11-21")
    if shard is None:
        return 1, 1
    with contextlib.suppress(ValueError):
        number, _, of = str(shard).partition("/")
        if 1 <= int(number) <= int(of) <= BUCKETS:
            if run is None:
                raise InvalidArgument("The shards of a run share its name: give the run a name, too")
            return int(number), int(of)
    raise InvalidArgument(f"A shard is one of several, such as 2/8, of {BUCKETS} at most")
