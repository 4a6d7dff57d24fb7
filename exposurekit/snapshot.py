"""The snapshot of one load: tables, user secrets, failures and deviations."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

import pyarrow as pa

from exposurekit import frames
from exposurekit.client import bulk
from exposurekit.contract.deviations import Deviations

FLUSH_EVERY = 24  # packed batches, which become tables together


@dataclass(slots=True)
class Snapshot:
    """The snapshot of one load, which grows batch by batch; Ctrl-C never leaves half of a batch in it."""

    at: datetime
    total: int | None = None
    is_complete: bool = False
    loaded: frozenset[int] = frozenset()
    failed: int = 0
    not_requested: Sequence[bulk.Failure] = field(default=(), repr=False)
    secrets: dict[int, int | str] = field(default_factory=dict, repr=False)
    deviations: Deviations = field(default_factory=Deviations, repr=False)
    warned: set[object] = field(default_factory=set, repr=False)  # where `warn` said that it is incomplete
    parts: dict[str, list[pa.Table]] = field(default_factory=dict, repr=False)
    _packed: list[tuple[pa.Array, pa.Array, Sequence[bulk.Failure]]] = field(default_factory=list, repr=False)
    _flushed: list[dict[str, pa.Table]] = field(default_factory=list, repr=False)

    def __repr__(self) -> str:
        if self.is_complete:
            failed = f", {self.failed:,} more not loaded" if self.failed else ""
            return f"{len(self.loaded):,} people{failed}"
        n_left = self.listed - len(self.loaded) - self.failed
        failed = f", {self.failed:,} failed, {n_left:,} still to load" if self.failed else ""
        return f"{self.progress}{failed}: {bulk.STOPPED}"

    @property
    def progress(self) -> str:
        """How many people are loaded, of how many."""
        total = "?" if self.total is None else f"{self.total:,}"
        return f"{len(self.loaded):,} of {total} people"

    @property
    def listed(self) -> int:
        """How many people the service lists, as far as the load came to know them."""
        n_ids = len(self.loaded) + self.failed + len(self.not_requested)
        return n_ids if self.is_complete else max(n_ids, self.total or 0)

    def add(self, batch: bulk.Batch) -> None:
        """Add a batch, packed; some are unpacked together."""
        self.total = batch.total
        self.secrets.update((key.id, key.secret) for key in batch.keys)
        self.deviations.update(batch.counted_deviations())
        if batch.listing:
            self.failed += batch.listing.unidentified  # without an id, so not in failures()
        self.not_requested = [*self.not_requested, *batch.not_requested]
        self._packed.append(
            (frames.pack_users(batch.users), frames.pack_alerts(batch.alerts), batch.failures)
        )
        if len(self._packed) >= FLUSH_EVERY:
            self._flush()

    def _flush(self) -> None:
        packed, self._packed = self._packed, []  # first, so that no interrupted flush can repeat a row
        users, alerts, failures = zip(*packed, strict=True) if packed else ((), (), ())
        rows = [asdict(failure) for batch in failures for failure in batch]
        tables = frames.flatten(users, alerts) | {"failures": frames.of_rows("failures", rows)}
        # Of the steps, only their number is needed: their table is made of the alerts.
        tables["steps"] = tables["steps"].select(["step"])
        self._flushed.append(tables)

    def finish(self) -> None:
        """Convert everything to tables; nothing is added after this."""
        self._flush()
        self.parts = {name: [tables[name] for tables in self._flushed] for name in self._flushed[0]}
        self.parts["deviations"] = [frames.of_rows("deviations", self.deviations.rows())]
        self.loaded = frozenset(
            user_id for part in self.parts["users"] for user_id in part["user_id"].to_pylist()
        )
        self.failed += sum(map(len, self.parts["failures"]))
        self.parts["failures"].append(frames.of_rows("failures", [*map(asdict, self.not_requested)]))
        self._flushed = []
