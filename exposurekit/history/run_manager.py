"""Run manager: begin or resume a run, load it, ingest it, and clean up after killed processes."""

import contextlib
import operator
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

import pyarrow.compute as pc

from exposurekit.client.bulk import Batch
from exposurekit.errors import ConfigurationError, LoadStopped
from exposurekit.history import ingest, maintenance, record_keys, staging
from exposurekit.history.collector import USERS_PER_PART, Collector, Source, stage_deliveries
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.ingest import Run
from exposurekit.history.staging import RunSpec, ShardResult, StagedRun
from exposurekit.history.storage.delta import HistoryLocked, Store

RESUME_PERIOD = timedelta(hours=6)

Load = Callable[..., Iterator[Batch]]


@dataclass(frozen=True, slots=True)
class RunManager:
    """Manages the runs of one history until they are ingested."""

    store: Store
    clock: Callable[[], datetime]
    records_by: str
    users_per_part: int = USERS_PER_PART
    schedule: maintenance.Schedule | None = maintenance.DEFAULT_SCHEDULE

    def collect(
        self,
        exposure: Source,
        *,
        run: str | None,
        part: tuple[int, int],
        only: tuple[int, ...] | None,
        progress: bool | None,
        moved: bool = False,
    ) -> Run:
        """Collect a run, as `History.collect`; ``part`` is the number of the shard and the number of shards."""
        if not moved:
            self.check_source(exposure.origin)
        load = partial(exposure.iter_batches, progress=progress)
        try:
            return self._collect(exposure, load, run, part, only)
        except KeyboardInterrupt:
            pass  # raised below, without the frames of the interrupted request
        staged = self._stopped(run, only)
        raise LoadStopped(
            f"what was loaded is kept, and {staged.plan.continuation}" if staged else "nobody was loaded"
        )

    def _stopped(self, run: str | None, only: tuple[int, ...] | None) -> StagedRun | None:
        """Return the staged run of a collection that was stopped, if it has loaded anybody."""
        for staged in staging.all_staged(self.store) if self.store.exists() else []:
            plan = staged.plan
            is_it = plan.run == run if run else not plan.is_named and plan.only == only
            if plan.origin == "collect" and is_it and staged.people():
                return staged
        return None

    def _collect(
        self,
        exposure: Source,
        load: Load,
        run: str | None,
        part: tuple[int, int],
        only: tuple[int, ...] | None,
    ) -> Run:
        number, shards = part
        plan, batches = None, None
        with contextlib.ExitStack() as stack:
            if not self.store.exists():
                plan = self._plan(exposure, run, shards, only)
                collector = Collector(StagedRun(plan, self.store), number, self.records_by, self.clock)
                begun = stack.enter_context(_closing(load(only=collector.is_pending)))
                batches = chain([next(begun)], begun)  # if this fails, no history is created
            self._finish_erasure()
            busy = f"Another process is collecting into {self.store.label}: wait until it ends"
            stack.enter_context(self.store.locked(_run_lock(run, number), wait=run is not None, busy=busy))
            if run and (row := ingest.row_of(self.store, run)) is not None:
                self.finish_ingest(run)
                return replace(ingest.run_from_row(row), was_there=True)
            if run is None and (interrupted := self._interrupted(only, exposure.origin)) is not None:
                plan, batches = interrupted, None
            staged = staging.begin_staged(self.store, plan or self._plan(exposure, run, shards, only), number)
            if number not in staged.ends():
                self._load(staged, number, load, batches)
            return self.ingest_if_complete(staged)

    def check_source(self, source: str) -> None:
        """Raise if the history was collected from another service, as `History.check_source`."""
        if not self.store.exists():
            return
        runs = ingest.runs_table(self.store)
        runs = runs.filter(pc.equal(runs["origin"], "collect")).select(["started_at", "source"])
        sources = [(row["started_at"], row["source"]) for row in runs.to_pylist()]
        plans = [staged.plan for staged in staging.all_staged(self.store)]
        sources += [(plan.started_at, plan.source) for plan in plans if plan.origin == "collect"]
        by_start = sorted((one for one in sources if one[1]), key=operator.itemgetter(0))
        if by_start and staging.service_of(by_start[-1][1]) != staging.service_of(source):
            raise ConfigurationError(
                "this history was collected from another service or integrator, which runs() names as its source: people "
                "of the two would be mixed. Collect into another history; if the people are the same, run exposurekit "
                "collect --moved once, or pass moved=True"
            )

    def _plan(self, exposure: Source, run: str | None, shards: int, only: tuple[int, ...] | None) -> RunSpec:
        started_at = self.clock()
        return RunSpec(
            run or f"{started_at:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}",
            started_at,
            scope="everyone" if only is None else "some",
            source=exposure.origin,
            shards=shards,
            only=only,
            is_named=run is not None,
        )

    def _interrupted(self, only: tuple[int, ...] | None, source: str) -> RunSpec | None:
        """Return the unnamed run of a stopped collector if it can be resumed; end all others."""
        for staged in staging.all_staged(self.store):
            plan = staged.plan
            if plan.origin != "collect" or plan.is_named:
                continue
            if not staged.is_complete and not staged.people():
                staged.remove()  # no user was loaded
            elif self._can_resume(staged, only, source):
                return plan
            else:
                self.close_missing_shards(staged)
                self.ingest_if_complete(staged)
        return None

    def _can_resume(self, staged: StagedRun, only: tuple[int, ...] | None, source: str) -> bool:
        everyone = only is None and staged.plan.only is None
        is_same = everyone and staged.plan.service == staging.service_of(source)
        return is_same and not staged.is_complete and staged.updated_at + RESUME_PERIOD >= self.clock()

    def _load(self, staged: StagedRun, shard: int, load: Load, begun: Iterator[Batch] | None) -> None:
        """Load the users of a shard; ``begun`` is a load of them that has begun."""
        collector = Collector(staged, shard, self.records_by, self.clock, self.users_per_part)
        collector.resume()
        if begun is None or collector.has_loaded:  # another process has loaded some meanwhile, and ended
            begun = load(only=collector.is_pending)
        listing = None
        try:
            with _closing(begun) as batches:
                for batch in batches:
                    collector.add(batch)
                    listing = batch.listing
        except BaseException:
            collector.flush()
            if staged.plan.shards == 1 and not staged.people():
                staged.remove()  # no user was loaded: there is nothing to resume
            raise
        collector.flush()
        assert listing is not None  # noqa: S101  the last batch has it
        staged.end(ShardResult(self.clock(), listing.returned, listing.is_complete), shard)

    def ingest_if_complete(self, staged: StagedRun) -> Run:
        """Ingest a run if all of its shards have ended, and return it."""
        is_complete = staged.is_complete  # first: another process may ingest and remove it meanwhile
        if not is_complete and ingest.row_of(self.store, staged.run) is None:
            return pending_run(staged)
        with self.store.exclusive():
            if ingest.row_of(self.store, staged.run) is None or staged.seq is not None:
                # On a store without locks, another process may be ingesting this run.
                with contextlib.suppress(HistoryLocked):
                    ingest.ingest_run(self.store, staged, self.schedule)
        row = ingest.row_of(self.store, staged.run)
        return ingest.run_from_row(row) if row is not None else pending_run(staged)

    def finish_ingest(self, run: str) -> None:
        """Complete or remove what a killed ingest left of a run that has its row already."""
        if staging.find_staged(self.store, run) is None:
            return
        with self.store.exclusive():
            # Again: the process that had the lock may have completed it.
            staged = staging.find_staged(self.store, run)
            if staged is not None and staged.seq is not None:
                ingest.ingest_run(self.store, staged, self.schedule)
            elif staged is not None:
                staged.remove()

    def close_missing_shards(self, staged: StagedRun) -> None:
        """End the shards that have not ended: users they did not load count as missed."""
        for shard in staged.waits_for:
            staged.end(ShardResult(staged.updated_at, len(staged.people(shard)), complete=False), shard)

    def finalize(self, staged: StagedRun) -> Run:
        """Ingest a named run whose remaining shards will not come."""
        with contextlib.ExitStack() as stack:
            for shard in staged.waits_for:
                stack.enter_context(self.store.locked(_run_lock(staged.run, shard), wait=False))
            self.close_missing_shards(staged)
        return self.ingest_if_complete(staged)

    def _finish_erasure(self) -> None:
        """Complete an interrupted erasure before anything is loaded: it clears staged runs, too."""
        self.store.begin()
        if self.store.erasing() is not None:
            with self.store.exclusive():
                maintenance.finish_erasure(self.store)

    def complete_ingests(self) -> None:
        """Complete the ingests, and the erasure, that killed processes or a full disk interrupted."""
        for staged in staging.all_staged(self.store):
            if staged.seq is not None:
                ingest.ingest_run(self.store, staged, self.schedule)
        maintenance.finish_erasure(self.store)

    def discard_staged(self, inbox: str) -> None:
        """Remove staged deliveries of an inbox, which still has them."""
        for staged in staging.all_staged(self.store):
            if staged.plan.inbox == inbox:
                staged.remove()

    def ingest_segment(self, segment: list[ReceivedDelivery], inbox: str) -> None:
        """Ingest deliveries, at most one of each user."""
        received = [delivery.received_at for delivery in segment]
        first, last = segment[0].number, segment[-1].number
        plan = RunSpec(
            f"inbox-{inbox}-{first}-{last}", min(received), "webhook", "some", inbox=inbox, inbox_until=last
        )
        staged = staging.begin_staged(self.store, plan)
        stage_deliveries(staged, segment, self.records_by)
        staged.end(ShardResult(max(received), len(segment), complete=False))
        ingest.ingest_run(self.store, staged, self.schedule)


@contextlib.contextmanager
def _closing(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """End a load with the block, even if it was not read to its end."""
    try:
        yield batches
    finally:
        if isinstance(batches, Generator):
            batches.close()


def _run_lock(run: str | None, shard: int) -> str:
    return "collect-unnamed" if run is None else f"collect-{record_keys.hash64(run, shard) % 2**64:016x}"


def pending_run(staged: StagedRun) -> Run:
    """Return a staged run as a `Run` without a number."""
    plan = staged.plan
    run = Run(plan.run, None, plan.started_at, None, plan.origin, {}, {})
    return replace(run, waits_for=staged.waits_for, shards=plan.shards, continuation=plan.continuation)
