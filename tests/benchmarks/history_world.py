"""Invented people whose records come and go, day by day, staged as a collector stages them.

The statuses are arrays, so that a day of two million records takes seconds. The same for the same arguments.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exposurekit.history import staging
from exposurekit.history.collector import USERS_PER_PART
from exposurekit.history.staging import RunSpec, ShardResult
from exposurekit.history.storage.schema import BUCKETS, STAGED

SITES = 50
FIRST_DAY = datetime(2026, 1, 5, 2, tzinfo=UTC)
RUN_LASTS = timedelta(hours=3)
DISCOVERED, PENDING, REMOVED, GONE = range(4)
STATUSES = pa.array(["discovered", "pending removal", "removed"])
# The share that goes from one status to another in a day: so long, on average, it stays.
DAILY = (
    (DISCOVERED, PENDING, 1 / 45),
    (DISCOVERED, GONE, 1 / 600),
    (PENDING, REMOVED, 1 / 20),
    (REMOVED, DISCOVERED, 1 / 120),
    (GONE, DISCOVERED, 1 / 90),
)
AT_FIRST = (0.55, 0.15, 0.30, 0.0)
SAYS_ANEW, FAILS = 1 / 2000, 1 / 1000
_NAMES = pa.array(
    [f"{a} {b}" for a in ("Juniper", "Alder", "Fenna", "Jory") for b in ("Dunmarsh", "Corvane")]
)
_TOWNS = pa.array(["Larch Bay, ME", "Old Quarry, NM", "Tall Pines, OR", "Westhollow, MA"])
_NEEDED = pa.array(["first_name", "last_name", "email"])
_SITES = pa.array([f"Seekfolk {number}" for number in range(SITES)])


class World:
    """Everyone's records as they stand on one day."""

    def __init__(self, people: int, records: int, seed: int = 7) -> None:
        self.people, self.records = people, records
        self.day = 0
        self._random = np.random.default_rng(seed)
        things = people * records
        share = 1 / np.arange(1, SITES + 1)
        self._site = self._random.choice(SITES, things, p=share / share.sum()).astype(np.int16)
        self._status = self._random.choice(4, things, p=AT_FIRST).astype(np.int8)
        self._versions = np.zeros(things, np.int16)

    def next_day(self) -> None:
        self.day += 1
        chance = self._random.random(len(self._status), np.float32)
        came = self._status.copy()
        for before in range(4):
            low = 0.0
            for _, after, share in (one for one in DAILY if one[0] == before):
                moves = (self._status == before) & (chance >= low) & (chance < low + share)
                came[moves] = after
                low += share
        self._status = came
        anew = self._random.integers(0, len(came), int(len(came) * SAYS_ANEW))
        self._versions[anew] += 1

    def staged(self, store):
        """The day's run of everyone, staged and ended."""
        began = FIRST_DAY + timedelta(days=self.day)
        staged = staging.begin_staged(store, RunSpec(f"day-{self.day}", began))
        fails = np.random.default_rng(self.day).random(self.people) < FAILS
        for low in range(0, self.people, USERS_PER_PART):
            high = min(self.people, low + USERS_PER_PART)
            people = [
                {"user_id": number + 1, "outcome": "failed" if fails[number] else "whole"}
                for number in range(low, high)
            ]
            staged.put(staging.people_table(people), {"record": self._part(low, high, fails)}, began)
        staged.end(ShardResult(began + RUN_LASTS, self.people, complete=True))
        return staged

    def _part(self, low: int, high: int, fails):
        index = np.arange(low * self.records, high * self.records)
        person = index // self.records
        index = index[(self._status[index] != GONE) & ~fails[person]]
        user_id = index // self.records + 1
        key = user_id * 1000 + index % self.records
        site, status = _SITES.take(self._site[index]), STATUSES.take(self._status[index])
        ages = self._versions[index].astype(np.int64)
        columns = {
            "bucket": user_id % BUCKETS,
            "thing_site": site,
            "thing_status": status,
            "user_id": user_id,
            "key": key,
            "hash": _mixed(key * 64 + ages),
            "record_id": key,
            "site": site,
            "status": status,
            "name": _NAMES.take(user_id % len(_NAMES)),
            "age": 25 + (user_id % 50) + ages,
            "href": pc.binary_join_element_wise("https://seekfolk.example/people", _text(key), "/"),
            "relations": _lists(_NAMES, key, 3),
            "aliases": _lists(_NAMES, key, 1),
            "locations": _lists(_TOWNS, key, 2),
            "reference_id": pc.utf8_lpad(_text(_mixed(key) % 10**9), 10, "0"),
            "user_fields_required_for_removal": _lists(_NEEDED, key, 2),
        }
        kinds = STAGED["record"]
        return pa.table({name: pc.cast(values, kinds.field(name).type) for name, values in columns.items()})


def _text(values):
    return pc.cast(pa.array(values), pa.string())


def _lists(words, number, length: int):
    chosen = (number[:, None] + np.arange(length)) % len(words)
    offsets = np.arange(len(number) + 1, dtype=np.int32) * length
    return pa.ListArray.from_arrays(pa.array(offsets), words.take(pa.array(chosen.ravel())))


def _mixed(number):
    """Numbers that look like hashes (splitmix64)."""
    value = number.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (value ^ (value >> np.uint64(31))).astype(np.int64)
