"""The directory of a history: Delta tables, snapshots of them, and who may write. Knows no meaning of a row.

deltalake is the only writer; readers of any make see whole versions. Column statistics are kept for `seq` alone: a
log that lists the least and the greatest name of each file would outlive the erasure of a person.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from exposurekit.errors import ExposureError
from exposurekit.history.engines.duckdb import CorruptHistory, Files, session_is_open
from exposurekit.history.storage.location import Location, resolve
from exposurekit.history.storage.schema import TABLES

# A writer holds a group of rows for each of 64 buckets until it is full: small ones, so that it never holds a whole run.
_WRITER = WriterProperties(compression="ZSTD", compression_level=3, max_row_group_size=8_192)
_COMPACTOR = WriterProperties(compression="ZSTD", compression_level=3, max_row_group_size=131_072)
TRIES = 5


class HistoryLocked(ExposureError):
    """Another process writes to this history at this moment."""


class Store(Location):
    """The tables of a history, in its place."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(path, storage_options)
        self._opened: dict[str, DeltaTable] = {}
        self._reading = threading.Lock()
        self._fresh: set[str] | None = None  # tables that nobody else can have changed since they were read

    def table(self, name: str) -> DeltaTable | None:
        """A table as it is now; None: nothing was ever written to it."""
        with self._reading:
            try:
                if name in self._opened:
                    if self._fresh is None or name not in self._fresh:
                        self._opened[name].update_incremental()
                else:
                    self._opened[name] = DeltaTable(self._uri(name), storage_options=self._options)
            except TableNotFoundError:
                return None
            except DeltaError:
                raise CorruptHistory from None
            if self._fresh is not None:
                self._fresh.add(name)
            return self._opened[name]

    def snapshot(self, *names: str) -> dict[str, Files]:
        """The files of some tables, each as of one version."""
        return {name: self._files(name) for name in names}

    def rows(self, name: str) -> pa.Table:
        """A small table whole, in any order."""
        for _ in range(TRIES):
            try:
                table = self.table(name)
                if table is None:
                    return TABLES[name].schema.empty_table()
                return self._dataset(name, table).to_table()
            except FileNotFoundError:  # taken off the disk since it was listed
                continue
            except (OSError, pa.ArrowException):
                break
        raise CorruptHistory

    def sizes(self, name: str) -> list[tuple[str, int, int]]:
        """Of each file of a table: its URI, how many rows, and the greatest seq among them (0: not kept)."""
        table = self.table(name)
        if table is None:
            return []
        told = pa.table(table.get_add_actions(flatten=True))
        kept = "max.seq" in told.column_names
        newest = told["max.seq"].to_pylist() if kept else [0] * told.num_rows
        paths, rows = told["path"].to_pylist(), told["num_records"].to_pylist()
        return [
            (f"{quote(self._uri(name)) if self.is_local else self._uri(name)}/{path}", n or 0, seq or 0)
            for path, n, seq in zip(paths, rows, newest, strict=True)
        ]

    def since(self, name: str, seq: int) -> Files:
        """The files of a table that hold anything newer than a run."""
        if not self.is_local:
            return self._files(name)
        newer = [uri for uri, _, newest in self.sizes(name) if newest > seq]
        return Files(tuple(newer), TABLES[name].schema)

    def version(self, name: str, transaction: str) -> int:
        """How far a table is with some work that is numbered: 0 where it never began."""
        table = self.table(name)
        return (table.transaction_version(transaction) or 0) if table is not None else 0

    def append(
        self, name: str, rows: Any, *, once: tuple[str, int] | None = None, overwrite: bool = False
    ) -> None:
        """Add rows in one commit, or put them in place of all.

        Args:
            name: The table.
            rows: An Arrow table, or a reader of batches.
            once: The name and number of this work. Where the table has come that far, nothing is written.
            overwrite: In place of what is there.

        Raises:
            HistoryLocked: Another process did the same work in between.
        """
        if once and self.version(name, once[0]) >= once[1]:
            return
        made = TABLES[name]
        try:
            write_deltalake(
                self._made(name),
                self._ready(rows, made.schema),
                mode="overwrite" if overwrite else "append",
                partition_by=["bucket"] if made.bucketed else None,
                writer_properties=_WRITER,
                commit_properties=CommitProperties(app_transactions=[Transaction(*once)] if once else None),
            )
        except CommitFailedError:
            raise HistoryLocked("Another process wrote the same at the same moment: try again") from None

    def replace(self, name: str, rows: Any, bucket: int | None) -> None:
        """Put rows in place of all of a bucket, or of the table; the log says which bucket, and not of whom."""
        made = TABLES[name]
        write_deltalake(
            self._made(name),
            self._ready(rows, made.schema),
            mode="overwrite",
            predicate=None if bucket is None else f"bucket = {bucket}",
            writer_properties=_WRITER,
        )

    def rename_columns(self, name: str, columns: Mapping[str, str]) -> None:
        """Rename columns of a table in one commit, which rewrites its rows; skipped if it was done."""
        table = self.table(name)
        if table is None or columns.keys().isdisjoint(field.name for field in table.schema().fields):
            return
        paths = [self.place(f"{name}/{unquote(path)}") for path in _paths(table)]
        rows = [pq.read_table(path, filesystem=self.files, partitioning=None) for path in paths]
        renamed = [part.rename_columns([columns.get(old, old) for old in part.column_names]) for part in rows]
        schema = TABLES[name].schema
        write_deltalake(
            table,
            _shaped(
                pa.concat_tables([schema.empty_table(), *(_shaped(part, schema) for part in renamed)]), schema
            ),
            mode="overwrite",
            schema_mode="overwrite",
            writer_properties=_WRITER,
        )
        self._opened.pop(name, None)

    def rename_table(self, name: str, new_name: str) -> None:
        """Rename a table, on a local disk; skipped if it was done."""
        if Path(self._uri(name)).is_dir():
            with resolve():
                Path(self._uri(name)).rename(self._uri(new_name))

    def merge_small_files(self, name: str, target_size: int) -> int:
        """Fewer files of the same rows; how many there are after."""
        table = self.table(name)
        if table is None:
            return 0
        table.optimize.compact(target_size=target_size, writer_properties=_COMPACTOR)
        table.create_checkpoint()
        return len(table.file_uris())

    def vacuum(self, name: str, *, hours: int) -> None:
        """Take files off the disk that no version of the last hours needs; zero: that the newest does not need."""
        table = self.table(name)
        if table is not None:
            table.vacuum(
                retention_hours=hours, enforce_retention_duration=False, dry_run=False, full=not hours
            )

    @contextlib.contextmanager
    def exclusive(self, *, wait: bool = True) -> Iterator[None]:
        """The one writer of this machine.

        A store that is not local has no locks: there `claims` keep runs apart, and whoever erases or compacts sees to it
        that nobody collects meanwhile.

        Raises:
            HistoryLocked: There is one already, and it is not to be waited for.
        """
        with self.locked("ingest", wait=wait):
            # Where there are locks, nobody writes but who holds this one.
            self._fresh = set() if self.is_local else None
            try:
                yield
            finally:
                self._fresh = None

    @contextlib.contextmanager
    def locked(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Hold a name of this history, which is begun where there is none; the lock goes with its process."""
        self.begin()
        if not self.is_local:
            yield
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with resolve():
            lock = os.open(Path(self.root, f".{name}.lock"), flags, 0o600)
        with os.fdopen(lock, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise HistoryLocked("Another process is at this already") from None
            yield

    def _ready(self, rows: Any, schema: pa.Schema) -> Any:
        if not self.is_local and not isinstance(rows, pa.Table):
            # deltalake cannot read from afar while it waits for what to write
            parts = [one if isinstance(one, pa.Table) else pa.Table.from_batches([one]) for one in rows]
            rows = pa.concat_tables(parts) if parts else schema.empty_table()
        return _shaped(rows, schema)

    def _uri(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def _made(self, name: str) -> DeltaTable:
        if (table := self.table(name)) is not None:
            return table
        made = TABLES[name]
        self.begin()
        if self.is_local:
            with resolve():
                self.make(self._uri(name))
        kept = {"delta.dataSkippingStatsColumns": "seq"} if "seq" in made.names else {}
        return DeltaTable.create(
            self._uri(name),
            schema=made.schema,
            mode="ignore",
            partition_by=["bucket"] if made.bucketed else None,
            configuration=kept or {"delta.dataSkippingNumIndexedCols": "0"},
            storage_options=self._options,
        )

    def _files(self, name: str) -> Files:
        table = self.table(name)
        schema = TABLES[name].schema
        if table is None:
            return Files((), schema)
        if not self.is_local:
            return Files(tuple(table.file_uris()), schema, lambda: self._dataset(name, table))
        return Files(tuple(table.file_uris()), schema)

    def _dataset(self, name: str, table: DeltaTable) -> pa.dataset.Dataset:
        """A table's files as Arrow reads them.

        Not deltalake's own way to one: that reads by way of Python, and what Arrow's threads still held of it when the
        process ended made that abort, once in some hundred times.
        """
        places = [self.place(f"{name}/{unquote(path)}") for path in _paths(table)]
        by = pa.dataset.partitioning(pa.schema([("bucket", pa.int32())]), flavor="hive")
        if not places:
            return pa.dataset.dataset(TABLES[name].schema.empty_table())
        return pa.dataset.dataset(
            places,
            TABLES[name].schema,
            format="parquet",
            filesystem=self.files,
            partitioning=by if TABLES[name].bucketed else None,
            partition_base_dir=self.place(name),
        )


def _paths(table: DeltaTable) -> list[str]:
    paths: list[str] = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    return paths


def _shaped(rows: Any, schema: pa.Schema) -> Any:
    if isinstance(rows, pa.Table):
        return rows.select(schema.names).cast(schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield from pa.table(batch).select(schema.names).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def draft_owner(name: str) -> bool:
    """Whether the process that writes a draft lives: `Store.whole` puts it into its name."""
    pid = name.rsplit(".", 2)[-2] if name.count(".") > 1 else ""
    return pid.isdigit() and session_is_open(int(pid))
