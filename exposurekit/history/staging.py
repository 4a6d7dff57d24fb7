"""What one run saw, as it comes, before it is taken in. Outlives its collector; is gone once it was taken in.

A run is a folder: ``began`` and ``ended`` of each shard, and parts: Parquet files of people and their things. A part
counts when its people are there, which are written last.
"""

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from exposurekit.errors import InvalidArgument
from exposurekit.history.engines.duckdb import Files
from exposurekit.history.identity import hash64
from exposurekit.history.storage.delta import Store, draft_owner
from exposurekit.history.storage.schema import KINDS, STAGED, STAGED_PEOPLE

ROOM = "staging"
PEOPLE = "person"
_NUMBER, _SEEN = "seq.json", "seen.json"
_PARTS_A_SHARD = 1_000_000_000
_SHARED = ("origin", "scope", "shards", "only", "is_named")
_GONE = ".gone-"  # no run's folder is called so


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What a run is: who looks, at whom, and since when.

    Attributes:
        origin: ``look`` or ``webhook``.
        scope: ``everyone`` or ``some``.
        source: The service and the integrator; holds no key.
        shards: How many collectors share it.
        only: Whom it looks at; None: everyone.
        is_named: Whether somebody gave it its name, and will ask for it by that.
        inbox, inbox_until: The inbox whose deliveries it holds, and the last of them.
    """

    run: str
    started_at: datetime
    origin: str = "look"
    scope: str = "everyone"
    source: str = ""
    shards: int = 1
    only: tuple[int, ...] | None = None
    is_named: bool = False
    inbox: str | None = None
    inbox_until: int | None = None


@dataclass(frozen=True, slots=True)
class ShardResult:
    """How one shard ended: when, how many people were listed, and whether these were all."""

    finished_at: datetime
    listed: int
    complete: bool


@dataclass(slots=True)
class StagedRun:
    """One run that is being collected, or waits to be taken in."""

    plan: RunSpec
    _store: Store = field(repr=False)

    @property
    def run(self) -> str:
        """Its name."""
        return self.plan.run

    def put(self, people: pa.Table, things: dict[str, pa.Table], at: datetime, shard: int = 1) -> None:
        """Add one part: people, and by kind what was seen of them; columns `STAGED` and `STAGED_PEOPLE` less part."""
        part = _PARTS_A_SHARD * shard + len(self._names(f"{PEOPLE}-{shard}-")) + 1
        self._store.write_json(self._place(_SEEN), at.isoformat())
        for kind in KINDS:
            if kind in things and things[kind].num_rows:
                self._write(f"{kind}-{shard}-{part}", _numbered(things[kind], part, STAGED[kind]))
        self._write(f"{PEOPLE}-{shard}-{part}", _numbered(people, part, STAGED_PEOPLE))

    def put_told(self, rows: pa.Table) -> None:
        """Add what deliveries said beside their things: columns of the table ``deliveries`` less seq."""
        self._write("delivery-1-0", rows)

    def files(self, kind: str) -> Files:
        """The parts of one kind that count."""
        schema = STAGED_PEOPLE if kind == PEOPLE else STAGED[kind]
        whole = {name.partition("-")[2] for name in self._names() if name.startswith(f"{PEOPLE}-")}
        names = self._names(f"{kind}-")
        there = [self._place(name) for name in names if name.partition("-")[2] in whole]
        if self._store.is_local:
            return Files(there, schema)
        return Files(there, schema, lambda: pa.dataset.dataset(there, schema, filesystem=self._store.files))

    def told(self) -> pa.Table | None:
        """What `put_told` added."""
        places = [self._place(name) for name in self._names() if name.startswith("delivery-")]
        return pq.read_table(places[0], filesystem=self._store.files) if places else None

    def people(self, shard: int | None = None) -> list[int]:
        """Who was asked about already, by one shard or by all."""
        found: list[int] = []
        for place in self.files(PEOPLE).uris:
            if shard is None or f"/{PEOPLE}-{shard}-" in place:
                table = pq.read_table(place, columns=["user_id"], filesystem=self._store.files)
                found += table["user_id"].to_pylist()
        return found

    def end(self, ended: ShardResult, shard: int = 1) -> None:
        """One shard has looked at all of its people."""
        value = {"finished_at": ended.finished_at.isoformat()}
        self._store.write_json(
            self._place(f"ended-{shard}.json"),
            value | {"listed": ended.listed, "complete": ended.complete},
        )

    def ends(self) -> dict[int, ShardResult]:
        """The shards that ended."""
        found = {}
        for name in self._names("ended-"):
            value = self._store.read_json(self._place(name))
            shard = int(name.removeprefix("ended-").removesuffix(".json"))
            found[shard] = ShardResult(
                datetime.fromisoformat(value["finished_at"]), value["listed"], value["complete"]
            )
        return found

    @property
    def is_whole(self) -> bool:
        """Whether every shard ended."""
        return not self.waits_for

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The shards that did not end."""
        ended = self.ends()
        return tuple(shard for shard in range(1, self.plan.shards + 1) if shard not in ended)

    @property
    def seen_at(self) -> datetime:
        """When the last part came."""
        place = self._place(_SEEN)
        if self._store.files.get_file_info(place).type == pa.fs.FileType.NotFound:
            return self.plan.started_at
        return datetime.fromisoformat(self._store.read_json(place))

    @property
    def number(self) -> int | None:
        """The seq under which it is being taken in; None: that has not begun."""
        place = self._place(_NUMBER)
        if self._store.files.get_file_info(place).type == pa.fs.FileType.NotFound:
            return None
        return int(self._store.read_json(place))

    def begin_ingest(self, seq: int) -> None:
        """From now on it is this run that the number belongs to, whatever happens."""
        self._store.write_json(self._place(_NUMBER), seq)

    def remove(self) -> None:
        """It was taken in, or is given up: gone at once for everybody, and then from the disk."""
        if self._store.is_local:
            self._store.files.move(self._place(), self._store.place(ROOM, f"{_GONE}{time.time_ns()}"))
            sweep(self._store)
        else:
            self._store.files.delete_dir(self._place())

    def keep_only(self, keeps: Any) -> None:
        """Write every part anew with what ``keeps``, a function of tables, leaves of it; drafts of the killed go."""
        for info in self._infos():
            if info.base_name.startswith(".") and not draft_owner(info.base_name):
                self._store.files.delete_file(info.path)
        for name in self._names():
            if name.endswith(".json"):
                continue
            place = self._place(name)
            table = pq.read_table(place, filesystem=self._store.files)
            left = keeps(table)
            if left.num_rows != table.num_rows:
                self._write(name, left)

    def _write(self, name: str, table: pa.Table) -> None:
        with self._store.whole(self._place(name)) as stream:
            pq.write_table(table, stream, compression="zstd")

    def _place(self, *names: str) -> str:
        return self._store.place(ROOM, _folder(self.run), *names)

    def _infos(self) -> list[pa.fs.FileInfo]:
        found: list[pa.fs.FileInfo] = self._store.files.get_file_info(
            pa.fs.FileSelector(self._place(), allow_not_found=True)
        )
        return found

    def _names(self, begin: str = "") -> list[str]:
        names = sorted(
            info.base_name for info in self._infos() if info.size
        )  # nothing, after a loss of power
        return [name for name in names if name.startswith(begin) and not name.startswith(".")]


def _numbered(table: pa.Table, part: int, schema: pa.Schema) -> pa.Table:
    numbers = pa.array([part], pa.int64()).take(pa.array([0] * table.num_rows, pa.int64()))
    return table.append_column("part", numbers).select(schema.names).cast(schema)


def begun(store: Store, plan: RunSpec, shard: int = 1) -> StagedRun:
    """The run of this name as it is staged, begun with this plan where nobody began it.

    Its start is the earliest of its shards'.

    Raises:
        InvalidArgument: It was begun with other shards, or at others.
    """
    place = store.place(ROOM, _folder(plan.run))
    known = find_staged(store, plan.run)
    if known is not None and any(getattr(known.plan, name) != getattr(plan, name) for name in _SHARED):
        raise InvalidArgument(
            "A run of that name was begun with other shards, or at others: take another name"
        )
    store.make(place)
    name = f"{place}/began-{shard}.json"
    if store.files.get_file_info(name).type == pa.fs.FileType.NotFound:
        store.write_json(name, _as_json(plan))
    staged = find_staged(store, plan.run)
    assert staged is not None  # noqa: S101  it was written just now
    return staged


def find_staged(store: Store, run: str) -> StagedRun | None:
    """A run that is staged; None: there is none of that name."""
    return _in_folder(store, store.place(ROOM, _folder(run)))


def _in_folder(store: Store, place: str) -> StagedRun | None:
    infos = store.files.get_file_info(pa.fs.FileSelector(place, allow_not_found=True))
    plans = [_from_json(store.read_json(info.path)) for info in infos if info.base_name.startswith("began-")]
    return StagedRun(min(plans, key=lambda plan: plan.started_at), store) if plans else None


def all_staged(store: Store) -> list[StagedRun]:
    """Every run that is staged, the earliest first."""
    infos = store.files.get_file_info(pa.fs.FileSelector(store.place(ROOM), allow_not_found=True))
    places = [info.path for info in infos if not info.base_name.startswith(_GONE)]
    runs = [_in_folder(store, place) for place in places]
    return sorted((run for run in runs if run), key=lambda run: (run.plan.started_at, run.run))


def sweep(store: Store) -> None:
    """Take off the disk what was removed; a process that was killed may have left some of it."""
    for info in store.files.get_file_info(pa.fs.FileSelector(store.place(ROOM), allow_not_found=True)):
        if info.base_name.startswith(_GONE):
            store.files.delete_dir(info.path)


def people_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """People as a part holds them: what is not said is null."""
    columns: Iterable[pa.Field] = [one for one in STAGED_PEOPLE if one.name != "part"]
    return pa.table({one.name: pa.array([row.get(one.name) for row in rows], one.type) for one in columns})


def _folder(run: str) -> str:
    """A run's folder: what of its name is safe anywhere, and what tells two names apart."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", run).strip("-")[:40]
    return f"{safe or 'run'}-{hash64(run) % 2**64:016x}"


def _as_json(plan: RunSpec) -> dict[str, Any]:
    value = {name: getattr(plan, name) for name in RunSpec.__slots__}
    return value | {"started_at": plan.started_at.isoformat()}


def _from_json(value: dict[str, Any]) -> RunSpec:
    only = None if value["only"] is None else tuple(value["only"])
    return RunSpec(**value | {"started_at": datetime.fromisoformat(value["started_at"]), "only": only})
