"""Staged runs: loaded data on disk, waiting to be ingested.

A run is a directory with a ``began`` and an ``ended`` file per shard, and parts: Parquet files of people and their
items. The people of a part are written last; without them the part is ignored.
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
from exposurekit.history.record_keys import hash64
from exposurekit.history.storage.delta import Store, has_running_owner
from exposurekit.history.storage.schema import KINDS, STAGED, STAGED_PEOPLE
from exposurekit.text.urls import host

DIRECTORY = "staging"
PEOPLE = "person"
_SEQ_FILE, _UPDATED_FILE = "seq.json", "seen.json"
_PARTS_A_SHARD = 1_000_000_000
_IDENTITY_FIELDS = ("origin", "scope", "shards", "only", "is_named", "service")
_REMOVED_PREFIX = ".gone-"
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The specification of a run."""

    run: str
    started_at: datetime
    origin: str = "collect"  # or ``webhook``
    scope: str = "everyone"  # or ``some``
    source: str = ""  # the service and the integrator, without a key
    shards: int = 1  # collectors that share the run
    only: tuple[int, ...] | None = None  # the ids to load; None: everyone
    is_named: bool = False  # by the caller
    inbox: str | None = None  # of its deliveries,
    inbox_until: int | None = None  # and the number of the last one

    @property
    def service(self) -> tuple[str, str]:
        """The service and the integrator of the source, as runs of the same one have them."""
        return service_of(self.source)

    @property
    def continuation(self) -> str:
        """What becomes of the run if its collection is stopped, in words."""
        if self.is_named:
            return "a collect of the same run continues from there"
        if self.only is not None:
            return "the next collect adds it to the history, without the rest"
        return "the next collect continues from there"


@dataclass(frozen=True, slots=True)
class ShardResult:
    """The end of one shard: when, how many users were listed, and whether the list was complete."""

    finished_at: datetime
    listed: int
    complete: bool


@dataclass(slots=True)
class StagedRun:
    """A run that is being collected, or is pending ingestion."""

    plan: RunSpec
    _store: Store = field(repr=False)

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.plan.run

    def put(self, people: pa.Table, items: dict[str, pa.Table], at: datetime, shard: int = 1) -> None:
        """Add one part: people, and their items by kind; the columns of `STAGED_PEOPLE` and `STAGED` except ``part``."""
        part = _PARTS_A_SHARD * shard + len(self._names(f"{PEOPLE}-{shard}-")) + 1
        self._store.write_json(self._path(_UPDATED_FILE), at.isoformat())
        names = self._names()
        for kind in KINDS:
            name = f"{kind}-{shard}-{part}"
            if kind in items and items[kind].num_rows:
                self._write(name, _with_part(items[kind], part, STAGED[kind]))
            elif name in names:  # of an interrupted write of this part
                self._store.files.delete_file(self._path(name))
        self._write(f"{PEOPLE}-{shard}-{part}", _with_part(people, part, STAGED_PEOPLE))

    def put_deliveries(self, rows: pa.Table) -> None:
        """Add rows of the table ``deliveries``, without ``seq``."""
        self._write("delivery-1-0", rows)

    def files(self, kind: str) -> Files:
        """Return the files of one kind, of complete parts."""
        schema = STAGED_PEOPLE if kind == PEOPLE else STAGED[kind]
        complete = {name.partition("-")[2] for name in self._names() if name.startswith(f"{PEOPLE}-")}
        names = self._names(f"{kind}-")
        paths = [self._path(name) for name in names if name.partition("-")[2] in complete]
        files = self._store.files
        dataset = (
            None if self._store.is_local else lambda: pa.dataset.dataset(paths, schema, filesystem=files)
        )
        return Files(paths, schema, dataset)

    def deliveries(self) -> pa.Table | None:
        """Return the rows that `put_deliveries` added."""
        paths = [self._path(name) for name in self._names() if name.startswith("delivery-")]
        return pq.read_table(paths[0], filesystem=self._store.files) if paths else None

    def people(self, shard: int | None = None) -> list[int]:
        """Return the ids of the users that one shard, or all shards, already loaded."""
        user_ids: list[int] = []
        for path in self.files(PEOPLE).uris:
            if shard is None or f"/{PEOPLE}-{shard}-" in path:
                table = pq.read_table(path, columns=["user_id"], filesystem=self._store.files)
                user_ids += table["user_id"].to_pylist()
        return user_ids

    def end(self, result: ShardResult, shard: int = 1) -> None:
        """Write the end of a shard."""
        value = {"finished_at": result.finished_at.isoformat()}
        self._store.write_json(
            self._path(f"ended-{shard}.json"), value | {"listed": result.listed, "complete": result.complete}
        )

    def ends(self) -> dict[int, ShardResult]:
        """Return the shards that ended."""
        results = {}
        for name in self._names("ended-"):
            value = self._store.read_json(self._path(name))
            shard = int(name.removeprefix("ended-").removesuffix(".json"))
            results[shard] = ShardResult(
                datetime.fromisoformat(value["finished_at"]), value["listed"], value["complete"]
            )
        return results

    @property
    def is_complete(self) -> bool:
        """Whether every shard ended."""
        return not self.waits_for

    @property
    def waits_for(self) -> tuple[int, ...]:
        """The shards that have not ended."""
        results = self.ends()
        return tuple(shard for shard in range(1, self.plan.shards + 1) if shard not in results)

    @property
    def updated_at(self) -> datetime:
        """When the last part was added."""
        updated_at = self._json(_UPDATED_FILE)
        return self.plan.started_at if updated_at is None else datetime.fromisoformat(updated_at)

    @property
    def seq(self) -> int | None:
        """The number under which it is being ingested; None if that has not begun."""
        has_begun = self._store.exists(DIRECTORY, _folder(self.run), _SEQ_FILE)
        return int(self._json(_SEQ_FILE)) if has_begun else None

    def begin_ingest(self, seq: int) -> None:
        """Assign the sequence number to this run permanently."""
        self._store.write_json(self._path(_SEQ_FILE), seq)

    def remove(self) -> None:
        """Remove the run after it was ingested or abandoned: rename its directory, then delete it."""
        if self._store.is_local:
            self._store.files.move(
                self._path(), self._store.path(DIRECTORY, f"{_REMOVED_PREFIX}{time.time_ns()}")
            )
            sweep(self._store)
        else:
            self._store.files.delete_dir(self._path())

    def rewrite(self, select: Any) -> None:
        """Replace every part by the table that ``select`` returns for it; delete the drafts of killed processes."""
        for info in self._infos():
            if info.base_name.startswith(".") and not has_running_owner(info.base_name):
                self._store.files.delete_file(info.path)
        for name in self._names():
            if name.endswith(".json"):
                continue
            table = pq.read_table(self._path(name), filesystem=self._store.files)
            selected = select(table)
            if not selected.equals(table):
                self._write(name, selected)

    def _write(self, name: str, table: pa.Table) -> None:
        with self._store.atomic_write(self._path(name)) as stream:
            pq.write_table(table, stream, compression="zstd")

    def _path(self, *names: str) -> str:
        return self._store.path(DIRECTORY, _folder(self.run), *names)

    def _json(self, name: str) -> Any:
        """Read a JSON file of the run; None if it is not there."""
        names = (DIRECTORY, _folder(self.run), name)
        return self._store.read_json(self._store.path(*names)) if self._store.exists(*names) else None

    def _infos(self) -> list[pa.fs.FileInfo]:
        return self._store.infos(DIRECTORY, _folder(self.run))

    def _names(self, prefix: str = "") -> list[str]:
        # After a loss of power, files may be empty.
        names = sorted(info.base_name for info in self._infos() if info.size)
        return [name for name in names if name.startswith(prefix) and not name.startswith(".")]


def _with_part(table: pa.Table, part: int, schema: pa.Schema) -> pa.Table:
    numbers = pa.array([part], pa.int64()).take(pa.array([0] * table.num_rows, pa.int64()))
    return table.append_column("part", numbers).select(schema.names).cast(schema)


def service_of(source: str) -> tuple[str, str]:
    """The address or name of a service, and the integrator; one on this machine has another port at each start."""
    service, _, integrator = source.rpartition(" · ")
    return "" if host(service) in _THIS_MACHINE else service.rstrip("/").casefold(), integrator


def begin_staged(store: Store, plan: RunSpec, shard: int = 1) -> StagedRun:
    """Return the staged run of this name; begin it if there is none. Its start is the earliest of its shards' starts."""
    existing = find_staged(store, plan.run)
    if existing is not None and any(
        getattr(existing.plan, name) != getattr(plan, name) for name in _IDENTITY_FIELDS
    ):
        raise InvalidArgument(
            "A run of that name was begun with other shards, for other people, or from another service: choose another name"
        )
    folder, name = _folder(plan.run), f"began-{shard}.json"
    store.make_directory(store.path(DIRECTORY, folder))
    if not store.exists(DIRECTORY, folder, name):
        store.write_json(store.path(DIRECTORY, folder, name), _to_json(plan))
    staged = find_staged(store, plan.run)
    assert staged is not None  # noqa: S101  written just now
    return staged


def find_staged(store: Store, run: str) -> StagedRun | None:
    """Return the staged run of a name, if any."""
    return _read_staged(store, _folder(run))


def _read_staged(store: Store, folder: str) -> StagedRun | None:
    infos = [info for info in store.infos(DIRECTORY, folder) if info.base_name.startswith("began-")]
    plans = [_from_json(store.read_json(info.path)) for info in infos]
    return StagedRun(min(plans, key=lambda plan: plan.started_at), store) if plans else None


def all_staged(store: Store) -> list[StagedRun]:
    """Return all staged runs, the earliest first."""
    folders = [info.base_name for info in store.infos(DIRECTORY)]
    runs = [_read_staged(store, folder) for folder in folders if not folder.startswith(_REMOVED_PREFIX)]
    return sorted((run for run in runs if run), key=lambda run: (run.plan.started_at, run.run))


def sweep(store: Store) -> None:
    """Delete the directories of removed runs, including those that a killed process left behind."""
    for info in store.infos(DIRECTORY):
        if info.base_name.startswith(_REMOVED_PREFIX):
            store.files.delete_dir(info.path)


def people_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Build the table of people of a part; missing values are null."""
    fields: Iterable[pa.Field] = [field for field in STAGED_PEOPLE if field.name != "part"]
    return pa.Table.from_pylist(list(rows), pa.schema(fields))


def _folder(run: str) -> str:
    """Return a run's directory name: the safe characters of its name, and a hash."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", run).strip("-")[:40]
    return f"{safe or 'run'}-{hash64(run) % 2**64:016x}"


def _to_json(plan: RunSpec) -> dict[str, Any]:
    value = {name: getattr(plan, name) for name in RunSpec.__slots__}
    return value | {"started_at": plan.started_at.isoformat()}


def _from_json(value: dict[str, Any]) -> RunSpec:
    only = None if value["only"] is None else tuple(value["only"])
    return RunSpec(**value | {"started_at": datetime.fromisoformat(value["started_at"]), "only": only})
