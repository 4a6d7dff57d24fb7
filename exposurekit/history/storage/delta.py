"""The Delta tables of a history: snapshots, commits and locks.

Only deltalake writes; readers of any kind see complete versions. The logs have column statistics of `seq` alone: the
smallest and greatest name of each file would outlive the erasure of a person.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.history.engines.duckdb import CorruptHistory, Files, is_running
from exposurekit.history.storage import checksums
from exposurekit.history.storage.location import FORMAT, Location, resolve, writing
from exposurekit.history.storage.schema import ANNOTATION_TABLES, SHARED, TABLES

# A writer buffers one row group per bucket: small ones, so that it never buffers a whole run.
_WRITER = WriterProperties(compression="ZSTD", compression_level=3, max_row_group_size=32_768)
_COMPACTOR = WriterProperties(compression="ZSTD", compression_level=3, max_row_group_size=131_072)
_LOG_DIRECTORY = "_delta_log"
MAX_TRIES = 5
SHARED_ROWS, SHARED_BYTES = 20_000, 16 << 20  # small writes share files until a table has so much of them
_WRITES_A_TABLE = 8  # a whole small table counts as this many of them
# A log is read from its last checkpoint on. Readers list the files again for each query, so they need no older versions.
_LOG = {
    "delta.checkpointInterval": "16",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}


class HistoryLocked(ExposureError):
    """Another process is writing to this history."""


class Store(Location):
    """The tables of a history, at its location.

    Attributes:
        shared_rows: Writes of at most this many rows share files, whatever the buckets of their users.
    """

    shared_rows = SHARED_ROWS

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(path, storage_options)
        self._opened: dict[str, DeltaTable] = {}
        self._rows: dict[str, tuple[tuple[str, ...], pa.Table]] = {}  # of small tables, with their files
        self._actions: dict[str, tuple[DeltaTable, int, pa.Table]] = {}  # the files of tables at a version
        self._reading = threading.Lock()
        self._locks: set[str] = set()  # that this store has
        # Tables that no other process can have changed since they were read.
        self._fresh: set[str] | None = None

    def table(self, name: str) -> DeltaTable | None:
        """Return a table at its newest version; None if nothing was ever written to it."""
        with self._reading:
            try:
                if name in self._opened:
                    is_fresh = self._fresh is not None and name in self._fresh
                    if not is_fresh and not self._is_newest(name):
                        self._opened[name].update_incremental()
                elif self.is_local and not Path(self._uri(name), _LOG_DIRECTORY).is_dir():
                    return None  # a thirtieth of what deltalake takes to notice
                else:
                    self._opened[name] = DeltaTable(self._uri(name), storage_options=self._options)
            except TableNotFoundError:
                return None
            except DeltaError:
                raise CorruptHistory from None
            if self._fresh is not None and name not in ANNOTATION_TABLES:
                self._fresh.add(name)
            return self._opened[name]

    def _is_newest(self, name: str) -> bool:
        """Return whether the log has the version that was read and none after it: a hundredth of what it takes to read it."""
        if not self.is_local:
            return False
        version = self._opened[name].version()
        is_there, has_next = (
            Path(self._uri(name), checksums.LOG_FILE.format(n)).exists() for n in (version, version + 1)
        )
        return is_there and not has_next

    def snapshot(self, *names: str) -> dict[str, Files]:
        """Return the files of some tables, each at one version."""
        return {name: self._files(name) for name in names}

    def rows(self, name: str) -> pa.Table:
        """Read a whole small table, in any order."""
        for _ in range(MAX_TRIES):
            try:
                table = self.table(name)
                return TABLES[name].schema.empty_table() if table is None else self._read(name, table)
            except FileNotFoundError:  # vacuumed since it was listed
                continue
            except (OSError, pa.ArrowException):
                break
        raise CorruptHistory

    def _read(self, name: str, table: DeltaTable) -> pa.Table:
        """Read a table again only if it has other files: these never change, and each run and query needs its rows."""
        files = tuple(table.file_uris())
        files_before, rows = self._rows.get(name, ((), None))
        if rows is None or files != files_before:
            rows = self._dataset(name, table).to_table()
            self._rows[name] = (files, rows)
        return rows

    def sizes(self, name: str) -> list[tuple[str, int, int]]:
        """Return the URI, number of rows and greatest seq (0: unknown) of each file of a table."""
        table = self.table(name)
        if table is None:
            return []
        actions = self._files_of(name, table)
        has_seq = "max.seq" in actions.column_names
        newest = actions["max.seq"].to_pylist() if has_seq else [0] * actions.num_rows
        paths, rows = actions["path"].to_pylist(), actions["num_records"].to_pylist()
        return [
            (f"{quote(self._uri(name)) if self.is_local else self._uri(name)}/{path}", n or 0, seq or 0)
            for path, n, seq in zip(paths, rows, newest, strict=True)
        ]

    def file_sizes(self, name: str) -> list[tuple[int | None, int]]:
        """Return the bucket (None: the table has none) and the bytes of each file of a table."""
        if (table := self.table(name)) is None:
            return []
        actions = self._files_of(name, table)
        bucketed = TABLES[name].bucketed
        buckets = actions["partition.bucket"].to_pylist() if bucketed else [None] * actions.num_rows
        return [*zip(buckets, actions["size_bytes"].to_pylist(), strict=True)]

    def since(self, name: str, seq: int) -> Files:
        """Return the files of a table with anything newer than a run."""
        if not self.is_local:
            return self._files(name)
        newer = [uri for uri, _, newest in self.sizes(name) if newest > seq]
        return Files(tuple(newer), TABLES[name].schema)

    def version(self, name: str, transaction: str) -> int:
        """Return the last number of some numbered work on a table; 0 if it never began."""
        table = self.table(name)
        return (table.transaction_version(transaction) or 0) if table is not None else 0

    def append(
        self,
        name: str,
        rows: Any,
        *,
        once: tuple[str, int] | None = None,
        overwrite: bool = False,
        count: int | None = None,
    ) -> None:
        """Add rows (a table, or a reader of batches) in one commit, or replace all rows.

        ``count`` is about how many there are: few rows of a table with buckets go into the partition `SHARED`.

        ``once`` is the name and the number of this work: if the table has that number already, nothing is written; if
        another process does it in between, this raises `HistoryLocked`.
        """
        if once and self.version(name, once[0]) >= once[1]:
            return
        declared = TABLES[name]
        ready = self._ready(rows, declared.schema)
        if count is not None and self._is_shared(name, count, overwrite=overwrite):
            ready = _in_shared_partition(ready)
        with _committing():
            _write(
                self._create(name),
                ready,
                mode="overwrite" if overwrite else "append",
                partition_by=["bucket"] if declared.bucketed else None,
                commit_properties=CommitProperties(app_transactions=[Transaction(*once)] if once else None),
            )
        self._note_checksums(name)

    def replace(self, name: str, rows: Any, bucket: int | None) -> None:
        """Replace all rows of a bucket, or of the table; the log reveals the bucket, but not the person."""
        declared = TABLES[name]
        with _committing():
            _write(
                self._create(name),
                self._ready(rows, declared.schema),
                mode="overwrite",
                predicate=None if bucket is None else f"bucket = {bucket}",
            )
        self._note_checksums(name)

    def rename_columns(self, name: str, columns: Mapping[str, str]) -> None:
        """Rename columns of a table in one commit, which rewrites its rows; skipped if it was done."""
        table = self.table(name)
        if table is None or columns.keys().isdisjoint(field.name for field in table.schema().fields):
            return
        paths = [self.path(f"{name}/{unquote(path)}") for path in self._paths(name, table)]
        rows = [pq.read_table(path, filesystem=self.files, partitioning=None) for path in paths]
        renamed = [part.rename_columns([columns.get(old, old) for old in part.column_names]) for part in rows]
        schema = TABLES[name].schema
        every = pa.concat_tables([schema.empty_table(), *(_shaped(part, schema) for part in renamed)])
        with writing(DeltaError):
            write_deltalake(
                table,
                _shaped(every, schema),
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

    def merge_small_files(self, name: str, target_size: int, buckets: Collection[int] | None = None) -> int:
        """Merge the files of a table, or of some buckets, that are smaller than a number of bytes, up to that size.

        Return the number of files that were merged.

        Raises:
            HistoryLocked: Another process rewrote the same files at the same time; nothing was merged.
            CorruptHistory: A file is damaged; nothing was merged.
        """
        table = self.table(name)
        if table is None:
            return 0
        within = None if buckets is None else [("bucket", "in", [str(bucket) for bucket in buckets])]
        with resolve(), _committing():
            merged = table.optimize.compact(
                partition_filters=within, target_size=target_size, writer_properties=_COMPACTOR
            )
        self._note_checksums(name)
        return int(merged["numFilesRemoved"])

    def trim_log(self, name: str) -> None:
        """Write a checkpoint of a table's log, and delete what is older than a day; tables of earlier versions, too."""
        if (table := self.table(name)) is None:
            return
        with resolve(), _committing():
            if not _LOG.items() <= table.metadata().configuration.items():
                table.alter.set_table_properties(_LOG)
            table.create_checkpoint()
            table.cleanup_metadata()
        self._note_checksums(name)

    def vacuum(self, name: str, *, hours: int) -> int:
        """Delete the files that no version of the last hours needs; 0: that the newest does not need. Return how many.

        The directory is listed: files of killed processes, and of removals that the log forgot, go as well.
        """
        table = self.table(name)
        if table is None:
            return 0
        with resolve(), _committing():
            deleted = table.vacuum(
                retention_hours=hours, enforce_retention_duration=False, dry_run=False, full=True
            )
        return len(deleted)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the history for writing.

        A store that is not local has no locks: there `claims` keep runs apart, and nobody may collect during an erasure
        or compaction.
        """
        with self.locked("ingest"):
            # With locks, only this process writes, but for annotations.
            self._fresh = set() if self.is_local else None
            try:
                yield
            finally:
                self._fresh = None

    @contextlib.contextmanager
    def changing(self, name: str) -> Iterator[None]:
        """Lock a table of annotations, to which any process may write at any time; `exclusive` locks the other tables."""
        with self.locked("annotations") if name in ANNOTATION_TABLES else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def locked(
        self, name: str, *, wait: bool = True, busy: str = "Another process is doing this already"
    ) -> Iterator[None]:
        """Lock a name of this history, creating the history if needed; the lock ends with its process.

        ``busy`` is the error if another process has it, without ``wait``.
        """
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
                raise HistoryLocked(busy) from None
            self._locks.add(name)
            try:
                yield
            finally:
                self._locks.discard(name)

    def is_locked_elsewhere(self, pattern: str) -> bool:
        """Return whether another process, or another store of this one, may have a lock whose name matches a glob."""
        names = {path.name[1 : -len(".lock")] for path in Path(self.root).glob(f".{pattern}.lock")}
        try:
            for name in names - self._locks:
                with self.locked(name, wait=False):
                    pass
        except (HistoryLocked, ConfigurationError):  # a lock of another user cannot be tried
            return True
        return False

    def changed_files(self, name: str) -> list[str]:
        """Return the files of a table that are not as they were written, and lost ones of its log, by their paths here."""
        if not self.is_local:
            return []
        with self._reading:
            self._opened.pop(name, None)  # a log that lost a version cannot be read on from a newer one
        version: int | None = None
        paths: list[str] = []
        with contextlib.suppress(CorruptHistory):
            table = self.table(name)
            version, paths = (-1, []) if table is None else (table.version(), self._paths(name, table))
        try:
            return [f"{name}/{path}" for path in checksums.changed(self, name, version, paths)]
        except ValueError:
            return [checksums.path_of(name)]

    def unreadable_files(self, name: str) -> list[str]:
        """Return the data files of a table that are missing or cannot be read, by their paths here."""
        paths: list[str] = []
        with contextlib.suppress(CorruptHistory):
            table = self.table(name)
            paths = [] if table is None else self._paths(name, table)
        named = (f"{name}/{unquote(path)}" for path in paths)
        return [path for path in named if not self._is_readable(path)]

    def _is_readable(self, path: str) -> bool:
        try:
            pq.read_table(self.path(path), filesystem=self.files, partitioning=None)
        except (OSError, pa.ArrowException):
            return False
        return True

    def _note_checksums(self, name: str) -> None:
        if not self.is_local:
            return
        with self.locked(f"checksums-{name}"):
            table = self.table(name)
            if table is not None:
                checksums.note(self, name, table.version(), self._paths(name, table))

    def _files_of(self, name: str, table: DeltaTable) -> pa.Table:
        """Return the files of a table, one row each; each write and its maintenance ask for them."""
        version, cached = table.version(), self._actions.get(name)
        if cached is None or cached[0] is not table or cached[1] != version:
            cached = self._actions[name] = (table, version, pa.table(table.get_add_actions(flatten=True)))
        return cached[2]

    def _paths(self, name: str, table: DeltaTable) -> list[str]:
        paths: list[str] = self._files_of(name, table)["path"].to_pylist()
        return paths

    def _is_shared(self, name: str, count: int, *, overwrite: bool) -> bool:
        """Return whether this many new rows go into the partition that all buckets share."""
        most = self.shared_rows * (_WRITES_A_TABLE if overwrite else 1)
        if not TABLES[name].bucketed or count > most or self.format() not in (None, FORMAT):
            return False
        return overwrite or sum(size for at, size in self.file_sizes(name) if at == SHARED) < SHARED_BYTES

    def _ready(self, rows: Any, schema: pa.Schema) -> Any:
        if not self.is_local and not isinstance(rows, pa.Table):
            # deltalake cannot read from a remote store while it waits for rows
            parts = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in rows]
            rows = pa.concat_tables(parts) if parts else schema.empty_table()
        return _shaped(rows, schema)

    def _uri(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def _create(self, name: str) -> DeltaTable:
        if (table := self.table(name)) is not None:
            return table
        declared = TABLES[name]
        self.begin()
        if self.is_local:
            with resolve():
                self.make_directory(self._uri(name))
        statistics = {"delta.dataSkippingStatsColumns": "seq"} if "seq" in declared.names else {}
        self._opened[name] = DeltaTable.create(
            self._uri(name),
            schema=declared.schema,
            mode="ignore",
            partition_by=["bucket"] if declared.bucketed else None,
            configuration=_LOG | (statistics or {"delta.dataSkippingNumIndexedCols": "0"}),
            storage_options=self._options,
        )
        return self._opened[name]

    def _files(self, name: str) -> Files:
        table = self.table(name)
        schema = TABLES[name].schema
        if table is None:
            return Files((), schema)
        dataset = None if self.is_local else lambda: self._dataset(name, table)
        return Files(tuple(table.file_uris()), schema, dataset)

    def _dataset(self, name: str, table: DeltaTable) -> pa.dataset.Dataset:
        """Return a table's files as an Arrow dataset.

        deltalake's own dataset reads through Python, and about one process in some hundred aborted at its end, as Arrow's
        threads still referred to it.
        """
        paths = [self.path(f"{name}/{unquote(path)}") for path in self._paths(name, table)]
        by = pa.dataset.partitioning(pa.schema([("bucket", pa.int32())]), flavor="hive")
        if not paths:
            return pa.dataset.dataset(TABLES[name].schema.empty_table())
        return pa.dataset.dataset(
            paths,
            TABLES[name].schema,
            format="parquet",
            filesystem=self.files,
            partitioning=by if TABLES[name].bucketed else None,
            partition_base_dir=self.path(name),
        )


@contextlib.contextmanager
def _committing() -> Iterator[None]:
    """Turn the errors of deltalake, which repeat paths, into those of a history."""
    try:
        with writing(DeltaError):
            yield
    except CommitFailedError:
        raise HistoryLocked("Another process wrote the same at the same time: try again") from None
    except DeltaError:  # of the files that the new rows are computed from, too
        raise CorruptHistory from None


def _write(table: DeltaTable, source: Any, **options: Any) -> None:
    """Write rows in one commit; the error of their source is raised as it was, where deltalake has only its text."""
    errors: list[BaseException] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from source
        except BaseException as error:
            errors.append(error)
            raise

    data = (
        source
        if isinstance(source, pa.Table)
        else pa.RecordBatchReader.from_batches(source.schema, batches())
    )
    try:
        write_deltalake(table, data, writer_properties=_WRITER, **options)
    except DeltaError:
        if not errors or isinstance(
            errors[0], OSError | pa.ArrowException
        ):  # DuckDB's readers have only text, too
            raise
        raise errors[0] from None


def _shaped(rows: Any, schema: pa.Schema) -> Any:
    if isinstance(rows, pa.Table):
        return rows.select(schema.names).cast(schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield from pa.table(batch).select(schema.names).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def _in_shared_partition(rows: Any) -> Any:
    """Give all rows the partition `SHARED`."""
    position, field = rows.schema.get_field_index("bucket"), rows.schema.field("bucket")

    def shared(part: Any) -> Any:
        return part.set_column(position, field, pa.array(np.full(part.num_rows, SHARED, np.int32)))

    if isinstance(rows, pa.Table):
        return shared(rows)
    return pa.RecordBatchReader.from_batches(rows.schema, (shared(batch) for batch in rows))


def has_running_owner(name: str) -> bool:
    """Return whether the process that writes a draft is running; `Store.atomic_write` puts its id into the name."""
    pid = name.rsplit(".", 2)[-2] if name.count(".") > 1 else ""
    return pid.isdigit() and is_running(int(pid))
