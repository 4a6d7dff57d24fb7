"""A run from its beginning to its end: begun or gone on with, looked, taken in; tidied after whoever was killed."""

import contextlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from exposurekit.history import identity, ingest, staging
from exposurekit.history.collector import Collector, Source, stage_deliveries
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.ingest import Run
from exposurekit.history.staging import RunSpec, ShardResult, StagedRun
from exposurekit.history.storage.delta import HistoryLocked, Store

RESUME_WITHIN = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class RunManager:
    """The runs of one history, as they are under way."""

    store: Store
    clock: Callable[[], datetime]
    records_by: str

    def collect(
        self,
        exposure: Source,
        *,
        run: str | None,
        part: tuple[int, int],
        only: Iterable[int] | None,
        progress: bool | None,
    ) -> Run:
        """As `History.collect`; ``part`` is the number of the shard, and how many there are."""
        number, shards = part
        with self.store.locked(_run_lock(run, number), wait=run is not None):
            if run and (row := ingest.row_of(self.store, run)) is not None:
                self.tidy(run)
                return replace(ingest.run_from_row(row), was_there=True)
            plan = self._plan(exposure, run, shards, only)
            staged = staging.begun(self.store, plan, number)
            if number not in staged.ends():
                self._look(exposure, staged, number, progress)
            return self.taken_in(staged)

    def _plan(self, exposure: Source, run: str | None, shards: int, only: Iterable[int] | None) -> RunSpec:
        chosen = None if only is None else tuple(sorted(set(only)))
        if run is None and (interrupted := self._interrupted(chosen)) is not None:
            return interrupted
        started_at = self.clock()
        return RunSpec(
            run or f"{started_at:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}",
            started_at,
            scope="everyone" if chosen is None else "some",
            source=exposure.origin,
            shards=shards,
            only=chosen,
            is_named=run is not None,
        )

    def _interrupted(self, only: tuple[int, ...] | None) -> RunSpec | None:
        """The run without a name that a stopped collector left, if it is worth going on with; else it is ended."""
        for staged in staging.all_staged(self.store):
            plan = staged.plan
            if plan.origin != "look" or plan.is_named:
                continue
            if not staged.is_whole and not staged.people():
                staged.remove()  # nobody could be listed then: when it began would tell nothing
            elif self._goes_on(staged, only):
                return plan
            else:
                self.give_up_waiting(staged)
                self.taken_in(staged)
        return None

    def _goes_on(self, staged: StagedRun, only: tuple[int, ...] | None) -> bool:
        everyone = only is None and staged.plan.only is None
        return everyone and not staged.is_whole and staged.seen_at + RESUME_WITHIN >= self.clock()

    def _look(self, exposure: Source, staged: StagedRun, shard: int, progress: bool | None) -> None:  # noqa: FBT001
        collector = Collector(staged, shard, self.records_by, self.clock)
        collector.resume()
        try:
            listing = exposure.stream(collector.take, choose=collector.choose, progress=progress)
        except BaseException:
            collector.flush()
            if staged.plan.shards == 1 and not staged.people():
                staged.remove()  # nobody could be listed: there is nothing to go on with
            raise
        collector.flush()
        staged.end(ShardResult(self.clock(), listing.returned, listing.is_complete), shard)

    def taken_in(self, staged: StagedRun) -> Run:
        """Take a run in, if all of its shards ended; what it brought."""
        whole = staged.is_whole  # or taken in by another, and gone: so this is asked first
        if not whole and ingest.row_of(self.store, staged.run) is None:
            return pending_run(staged)
        with self.store.exclusive():
            if ingest.row_of(self.store, staged.run) is None or staged.number is not None:
                # Where there are no locks, somebody else may be at this very run.
                with contextlib.suppress(HistoryLocked):
                    ingest.ingest_run(self.store, staged)
        row = ingest.row_of(self.store, staged.run)
        return ingest.run_from_row(row) if row is not None else pending_run(staged)

    def tidy(self, run: str) -> None:
        """End what an ingester that was killed left of a run that counts already."""
        if staging.find_staged(self.store, run) is None:
            return
        with self.store.exclusive():
            staged = staging.find_staged(self.store, run)  # anybody who was alone may have ended it
            if staged is not None and staged.number is not None:
                ingest.ingest_run(self.store, staged)
            elif staged is not None:
                staged.remove()

    def give_up_waiting(self, staged: StagedRun) -> None:
        """Shards that did not end will not: whom they did not look at was missed."""
        for shard in staged.waits_for:
            staged.end(ShardResult(staged.seen_at, len(staged.people(shard)), complete=False), shard)

    def finalize(self, staged: StagedRun) -> Run:
        """Take in a named run whose other shards will not come.

        Raises:
            HistoryLocked: One of them is looking at this moment.
        """
        with contextlib.ExitStack() as stack:
            for shard in staged.waits_for:
                stack.enter_context(self.store.locked(_run_lock(staged.run, shard), wait=False))
            self.give_up_waiting(staged)
        return self.taken_in(staged)

    def complete_ingests(self) -> None:
        """What an ingester that was killed began to take in is ended."""
        for staged in staging.all_staged(self.store):
            if staged.number is not None:
                ingest.ingest_run(self.store, staged)

    def discard_staged(self, inbox: str) -> None:
        """What an earlier draining had only staged goes: its inbox has it still."""
        for staged in staging.all_staged(self.store):
            if staged.plan.inbox == inbox:
                staged.remove()

    def ingest_segment(self, stretch: list[ReceivedDelivery], inbox: str) -> None:
        """Take in deliveries, one of each person at most."""
        received = [one.received_at for one in stretch]
        first, last = stretch[0].number, stretch[-1].number
        plan = RunSpec(
            f"inbox-{inbox}-{first}-{last}", min(received), "webhook", "some", inbox=inbox, inbox_until=last
        )
        staged = staging.begun(self.store, plan)
        stage_deliveries(staged, stretch, self.records_by)
        staged.end(ShardResult(max(received), len(stretch), complete=False))
        ingest.ingest_run(self.store, staged)


def _run_lock(run: str | None, shard: int) -> str:
    return "collect-unnamed" if run is None else f"collect-{identity.hash64(run, shard) % 2**64:016x}"


def pending_run(staged: StagedRun) -> Run:
    """A run that is not taken in yet."""
    plan = staged.plan
    begun = Run(plan.run, None, plan.started_at, None, plan.origin, {}, {})
    return replace(begun, waits_for=staged.waits_for, shards=plan.shards)
