"""The snapshot of one load: tables, user secrets, failures and deviations."""

import contextlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa

from exposurekit import frames
from exposurekit.client import bulk
from exposurekit.contract.deviations import Deviation
from exposurekit.errors import InvalidArgument, warn

FLUSH_EVERY = 6  # packed batches, which become tables together


def utc_now() -> datetime:
    """Return the current time in UTC.

    >>> from exposurekit.snapshot import utc_now
    >>> utc_now().tzinfo is not None
    True
    """
    return datetime.now(UTC)


@dataclass(slots=True)
class Deviations:
    """The deviations of one load's responses from the specification, and the number of users of each."""

    users: dict[tuple[str, str, str], int] = field(default_factory=dict)
    examples: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def add(self, deviation: Deviation, users: int = 1) -> None:
        """Count a deviation for some users."""
        key = (deviation.operation, deviation.field, deviation.kind)
        self.users[key] = self.users.get(key, 0) + users
        self.examples.setdefault(key, deviation.example)

    def add_batch(self, batch: bulk.Batch) -> None:
        """Count the deviations of a batch."""
        for deviations in batch.deviations.values():
            for deviation in deviations:
                self.add(deviation)

    def add_listing(self, listing: bulk.UserListing) -> None:
        """Count the deviations of List users."""
        for deviation, users in listing.deviations.items():
            self.add(deviation, users)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per operation, field and kind."""
        names = ("operation", "field", "kind")
        return [
            {**dict(zip(names, key, strict=True)), "users": self.users[key], "example": self.examples[key]}
            for key in sorted(self.users)
        ]

    def warn(self) -> None:
        """Warn in one line if there are any."""
        if self.users:
            fields = len({(operation, name) for operation, name, _ in self.users})
            warn(
                f"answers deviate from the specification in {fields:,} field{'' if fields == 1 else 's'};"
                " exposure.deviations() lists them"
            )


@dataclass(slots=True)
class Snapshot:
    """The snapshot of one load, which grows batch by batch."""

    batches: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in frames.TABLES})
    people: list[pa.Array] = field(default_factory=list)
    alerts: list[pa.Array] = field(default_factory=list)
    secrets: dict[int, int | str] = field(default_factory=dict, repr=False)
    loaded: set[int] = field(default_factory=set)
    failed: int = 0
    done: int = 0
    total: int | None = None
    is_complete: bool = False
    at: datetime = field(default_factory=utc_now)

    def __repr__(self) -> str:
        failed = f", {self.failed:,} more not loaded" if self.failed else ""
        if self.is_complete:
            return f"{len(self.loaded):,} people{failed}"
        total = "?" if self.total is None else f"{self.total:,}"
        return f"{len(self.loaded):,} of {total} people{failed}: stopped before the end"

    def add(self, batch: bulk.Batch) -> None:
        """Add a batch, packed; some are unpacked together."""
        self.secrets.update((key.id, key.secret) for key in batch.keys)
        self.loaded.update(user["id"] for user in batch.users)
        self.failed += len(batch.failures)
        self.people.append(frames.pack_users(batch.users))
        self.alerts.append(frames.pack_alerts(batch.alerts))
        if batch.failures:
            self.batches["failures"].append(
                frames.of_rows("failures", [asdict(failure) for failure in batch.failures])
            )
        if len(self.people) >= FLUSH_EVERY:
            self.flush()

    def flush(self) -> None:
        """Convert the packed batches to tables."""
        for name, table in frames.flatten(self.people, self.alerts).items():
            self.batches[name].append(table)
        self.people, self.alerts = [], []

    def set_deviations(self, deviations: Deviations) -> None:
        """Store the deviations of the load."""
        self.batches["deviations"] = [frames.of_rows("deviations", deviations.rows())]

    def progress(self, done: int, total: int | None) -> None:
        """Update the number of loaded users, and the total."""
        self.done, self.total = done, total


def ids_of(user: Any) -> list[int]:
    """Return one user id, or several, as a list.

    Raises:
        InvalidArgument: These are no ids.

    >>> from exposurekit.snapshot import ids_of
    >>> ids_of(12), ids_of([1, 2])
    ([12], [1, 2])
    """
    ids: list[int] = []
    if not isinstance(user, str | bytes | bool | pd.DataFrame):
        several = list(user) if isinstance(user, Iterable) else [user]
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            ids = [int(one) for one in several]
        if ids == several:
            return ids
    raise InvalidArgument("user is the id of a person, or a list of ids")
