"""What one load of everyone found, as it grows: tables, secrets and failures. Fetches nothing."""

import contextlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pyarrow as pa

from exposurekit import frames
from exposurekit.client import fleet
from exposurekit.errors import Misconfigured

PACKS = 6  # packed batches that wait to become tables together


def utc_now() -> datetime:
    """What time it is.

    >>> from exposurekit.look import utc_now
    >>> utc_now().tzinfo is not None
    True
    """
    return datetime.now(UTC)


@dataclass(slots=True)
class Look:
    """What one load found, as it grows."""

    batches: dict[str, list[pa.Table]] = field(default_factory=lambda: {name: [] for name in frames.TABLES})
    people: list[pa.Array] = field(default_factory=list)
    told: list[pa.Array] = field(default_factory=list)
    secrets: dict[int, int | str] = field(default_factory=dict, repr=False)
    loaded: set[int] = field(default_factory=set)
    failed: int = 0
    done: int = 0
    total: int | None = None
    whole: bool = False
    at: datetime = field(default_factory=utc_now)

    def __repr__(self) -> str:
        failed = f", {self.failed:,} more not loaded" if self.failed else ""
        if self.whole:
            return f"{len(self.loaded):,} people{failed}"
        total = "?" if self.total is None else f"{self.total:,}"
        return f"{len(self.loaded):,} of {total} people{failed}: stopped before the end"

    def take(self, batch: fleet.Batch) -> None:
        """Keep a batch, packed; unpack some together."""
        self.secrets.update((key.id, key.secret) for key in batch.keys)
        self.loaded.update(user["id"] for user in batch.users)
        self.failed += len(batch.failures)
        self.people.append(frames.people(batch.users))
        self.told.append(frames.told(batch.alerts))
        if batch.failures:
            self.batches["failures"].append(frames.failures([asdict(failure) for failure in batch.failures]))
        if len(self.people) >= PACKS:
            self.unpack()

    def unpack(self) -> None:
        """Make tables of what was packed."""
        for name, table in frames.flatten(self.people, self.told).items():
            self.batches[name].append(table)
        self.people, self.told = [], []

    def seen(self, done: int, total: int | None) -> None:
        """How far the load is."""
        self.done, self.total = done, total


def ids_of(user: Any) -> list[int]:
    """The ids of the people who are asked for: of one, or of several.

    Raises:
        Misconfigured: These are none.

    >>> from exposurekit.look import ids_of
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
    raise Misconfigured("user is the id of a person, or a list of ids")
