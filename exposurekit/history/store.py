"""The directory of a history: Delta tables, snapshots of them, and who may write. Knows no meaning of a row.

deltalake is the only writer; readers of any make see whole versions. Column statistics are kept for `seq` alone: a
log that lists the least and the greatest name of each file would outlive the erasure of a person.
"""

import contextlib
import fcntl
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from exposurekit.errors import ExposureError, Misconfigured
from exposurekit.history.engines import Files, lives
from exposurekit.history.tables import TABLES

# A writer holds a group of rows for each of 64 buckets until it is full: small ones, so that it never holds a whole run.
_WRITER = WriterProperties(compression="ZSTD", compression_level=3, max_row_group_size=8_192)
_COMPACTOR = WriterProperties(compression="ZSTD", compression_level=3, max_row_group_size=131_072)
_ABOUT = "history.json"
TRIES = 5
_UNREACHED = "%[]*?{}"  # what deltalake, or an engine, takes for something else in a path


class Busy(ExposureError):
    """Another process writes to this history at this moment."""


class Store:
    """Tables in a directory, or wherever deltalake reaches; made when something is first written."""

    def __init__(self, path: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = str(path).rstrip("/")
        self.is_local = "://" not in self.uri
        if self.is_local:
            self.uri = str(Path(self.uri).expanduser().absolute())
            if set(self.uri) & set(_UNREACHED):
                raise Misconfigured(
                    f"A history's path has none of {' '.join(_UNREACHED)} in it: choose another"
                )
        self._options = dict(storage_options or {}) or None
        self._opened: dict[str, DeltaTable] = {}
        self._reading = threading.Lock()
        self.files, self.root = self._file_system()

    def place(self, *names: str) -> str:
        """A path within the history, for `files`."""
        return "/".join((self.root, *names))

    def settings(self, *, records_by: str | None, otherwise: str) -> str:
        """What tells records apart in this history; made with what is wanted where it is new.

        Raises:
            Misconfigured: It is there, and was made otherwise; or what it was made with cannot be read.
        """
        place = self.place(_ABOUT)
        if self.files.get_file_info(place).type == pa.fs.FileType.NotFound:
            self.make(self.root)
            self.write_json(place, {"records_by": records_by or otherwise})
        try:
            found = str(dict(self.read_json(place))["records_by"])
        except (ValueError, TypeError, KeyError):
            raise Misconfigured(f"{_ABOUT} of this history cannot be read: put it back from a copy") from None
        if records_by is not None and found != records_by:
            raise Misconfigured(f"This history was made with records_by={found!r}: open it so")
        return found

    def make(self, place: str) -> None:
        """A directory, which nobody but its owner looks into; one that is there stays as it is."""
        if not self.is_local:
            self.files.create_dir(place, recursive=True)
        elif not Path(place).is_dir():
            Path(place).parent.mkdir(parents=True, exist_ok=True)
            Path(place).mkdir(mode=0o700, exist_ok=True)

    def sync(self) -> None:
        """What was written outlives a loss of power."""
        if self.is_local:
            os.sync()

    def read_json(self, place: str) -> Any:
        """A small file of ours."""
        with self.files.open_input_stream(place) as stream:
            return json.loads(stream.read())

    def write_json(self, place: str, value: Any) -> None:
        """Put a small file there, whole or not at all."""
        with self.whole(place) as stream:
            stream.write(json.dumps(value).encode())

    @contextlib.contextmanager
    def whole(self, place: str) -> Iterator[Any]:
        """A file that appears when it is written to its end."""
        within, _, name = place.rpartition("/")
        draft = f"{within}/.{name}.{os.getpid()}.{secrets.token_hex(4)}" if self.is_local else place
        with self.files.open_output_stream(draft) as stream:
            yield stream
        if draft != place:
            self.files.move(draft, place)

    def table(self, name: str) -> DeltaTable | None:
        """A table as it is now; None: nothing was ever written to it."""
        with self._reading:
            try:
                if name in self._opened:
                    self._opened[name].update_incremental()
                else:
                    self._opened[name] = DeltaTable(self._uri(name), storage_options=self._options)
            except TableNotFoundError:
                return None
            return self._opened[name]

    def snapshot(self, *names: str) -> dict[str, Files]:
        """The files of some tables, each as of one version."""
        return {name: self._files(name) for name in names}

    def rows(self, name: str) -> pa.Table:
        """A small table whole, in any order."""
        for turn in range(TRIES):
            try:
                table = self.table(name)
                if table is None:
                    return TABLES[name].schema.empty_table()
                return table.to_pyarrow_table().select(TABLES[name].names).cast(TABLES[name].schema)
            except FileNotFoundError:  # taken off the disk since it was listed
                if turn == TRIES - 1:
                    raise
        raise AssertionError

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
            Busy: Another process did the same work in between.
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
            raise Busy("Another process wrote the same at the same moment: try again") from None

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
    def alone(self, *, wait: bool = True) -> Iterator[None]:
        """The one writer of this machine.

        A store that is not local has no locks: there `claims` keep runs apart, and whoever erases or compacts sees to it
        that nobody collects meanwhile.

        Raises:
            Busy: There is one already, and it is not to be waited for.
        """
        with self.locked("ingest", wait=wait):
            yield

    @contextlib.contextmanager
    def locked(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Hold a name of this history; the lock goes with the process that holds it."""
        if not self.is_local:
            yield
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        with os.fdopen(os.open(Path(self.root, f".{name}.lock"), flags, 0o600), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Busy("Another process is at this already") from None
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
        if self.is_local:
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
            return Files(tuple(table.file_uris()), schema, table.to_pyarrow_dataset)
        return Files(tuple(table.file_uris()), schema)

    def _file_system(self) -> tuple[pa.fs.FileSystem, str]:
        if self.is_local:
            return pa.fs.LocalFileSystem(), self.uri
        if not self.uri.startswith("s3://"):
            found: tuple[pa.fs.FileSystem, str] = pa.fs.FileSystem.from_uri(self.uri)
            return found
        told = {name.lower(): value for name, value in (self._options or {}).items()}
        known = {
            "aws_access_key_id": "access_key",
            "aws_secret_access_key": "secret_key",
            "aws_region": "region",
            "aws_endpoint_url": "endpoint_override",
        }
        given = {known[name]: value for name, value in told.items() if name in known}
        return pa.fs.S3FileSystem(**given), self.uri.removeprefix("s3://")


def _shaped(rows: Any, schema: pa.Schema) -> Any:
    if isinstance(rows, pa.Table):
        return rows.select(schema.names).cast(schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield from pa.table(batch).select(schema.names).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def drafted_by_somebody(name: str) -> bool:
    """Whether the process that writes a draft lives: `Store.whole` puts it into its name."""
    pid = name.rsplit(".", 2)[-2] if name.count(".") > 1 else ""
    return pid.isdigit() and lives(int(pid))
