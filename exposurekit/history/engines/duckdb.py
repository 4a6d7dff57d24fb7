"""DuckDB as a query engine: ANSI SQL over lists of Parquet files, in this process.

DuckDB and Spark give the same table for the same text, if it follows these rules: `CAST` the sum of integers and
ROW_NUMBER() to BIGINT, and whatever else the engines type differently; write `NULLS FIRST` or `NULLS LAST` wherever a
null may be sorted; quote names with `"` and texts with `'`.
"""

import contextlib
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs

from exposurekit.errors import DiskFull, InvalidArgument
from exposurekit.history.engines.base import (
    DUCKDB,
    CorruptHistory,
    Engine,
    Files,
    StaleSnapshot,
    bind_values,
    checked,
    kind_of,
    partitioned_by,
    path_of,
    plain,
    quoted,
    text_literal,
    type_names,
)
from exposurekit.history.engines.spark import Spark

__all__ = [
    "CorruptHistory",
    "DuckDB",
    "Engine",
    "Files",
    "Spark",
    "StaleSnapshot",
    "engine_of",
    "from_parquet",
    "path_pattern",
    "quoted",
    "readable",
    "text_literal",
]

_Part = TypeVar("_Part")
_SPILL = "exposurekit-duckdb-"
# DuckDB does not know the number of rows in advance, so a join would build on the larger side, and selecting the newest
# row of each item would read the files twice.
_DISABLED_OPTIMIZERS = "join_order,build_side_probe_side,late_materialization,top_n_window_elimination"
_NO_SPACE = re.compile(
    "No space left on device|File too large|Disk quota exceeded|failed to offload data block"
)
_INTERRUPTED = re.compile("Query interrupted|KeyboardInterrupt")  # how DuckDB sometimes reports a Ctrl-C
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# Small tables are read once and stay in memory: to open and bind a file takes longer than to query it.
SMALL_BYTES, _SMALL_TABLES = 1_000_000, 32
# Each run adds a small file to some tables; the others are not read again.
_SMALL_FILE_BYTES, _SMALL_FILES = 32_000, 128
# Threads and reading ahead cost more than they save there.
_PARQUET = pyarrow.dataset.ParquetFileFormat(pre_buffer=False)


class DuckDB:
    """Runs queries on this machine, also from several threads at a time.

    Args:
        memory_limit: As DuckDB writes it, such as ``"2GB"``, for all engines of this process with the same settings; more
            is spilled to a private directory.
        threads: The number of threads; by default one per core.
        as_written: Whether joins and filters run in the order of the text.
        keeps_small: Whether small tables stay in memory, for an engine that is asked about them again and again.
        in_order: Whether rows that no ORDER BY sorts stay in the order of the files, which takes memory.
    """

    def __init__(
        self,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        as_written: bool = False,
        keeps_small: bool = False,
        in_order: bool = False,
    ) -> None:
        self._settings = _Settings(memory_limit, threads, as_written, in_order)
        instance, self._connection = _enter(self._settings)
        self._keeps_small = keeps_small
        self._read_small = lru_cache(_SMALL_TABLES)(_read_small)  # files of a history never change
        self._end = weakref.finalize(self, instance.leave, self._connection)

    def ask(
        self, sql: str, tables: Mapping[str, Files | pa.Table], parameters: Mapping[str, Any]
    ) -> pa.Table:
        """As `Engine.ask`."""
        text, values = bind_values(sql, parameters, mark="$", dialect=DUCKDB)
        with self.views(tables) as cursor:
            rows = cursor.sql(text, params=values or None).to_arrow_table()
        return plain(rows)

    @contextlib.contextmanager
    def views(self, tables: Mapping[str, Files | pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a cursor with the tables as views, for SQL of DuckDB; its parameters are written `$name`.

        Raises:
            StaleSnapshot: A listed file was deleted.
            CorruptHistory: A file is damaged.
            DiskFull: No space is left for temporary files.
            KeyboardInterrupt: The query was interrupted.
        """
        # Each cursor has its own views: another thread's query may use the same names.
        with contextlib.closing(self._connection.cursor()) as cursor:
            try:
                for name, table in tables.items():
                    write_view(cursor, checked(name), self._in_memory(table))
                yield cursor
            except (RuntimeError, duckdb.Error) as error:
                translated = _translated(error)
                if not isinstance(translated, InvalidArgument) or not isinstance(error, duckdb.Error):
                    raise translated from None
                files = [table for table in tables.values() if isinstance(table, Files)]
                if any(_has_missing_files(table) for table in files):
                    raise StaleSnapshot from None
                if any(_is_about(error, table) for table in files):
                    raise CorruptHistory from None
                raise

    def _in_memory(self, table: Files | pa.Table) -> Files | pa.Table:
        if (
            isinstance(table, pa.Table)
            or not self._keeps_small
            or not table.uris
            or table.dataset is not None
        ):
            return table
        small = self._read_small(tuple(table.uris), table.schema)
        return table if small is None else small

    def ask_on_each_core(
        self, ask: Callable[[Engine, _Part], pa.Table], parts: Sequence[_Part]
    ) -> Iterator[pa.Table]:
        """Yield the answer to a question for each part of the data, in order; as many at a time as there are threads.

        Each answer gets one thread: several would group the same rows, each by itself, and then merge their groups.
        """
        with contextlib.closing(self._connection.cursor()) as cursor:
            (threads,) = cursor.sql("SELECT current_setting('threads')::INTEGER").fetchall()[0]
        alone = self._settings._asdict() | {"threads": 1}
        with DuckDB(**alone) as engine, ThreadPoolExecutor(threads) as pool:
            yield from pool.map(partial(ask, engine), parts)

    def parquet(self, paths: Sequence[Path], numbers: tuple[str, str]) -> duckdb.DuckDBPyRelation:
        """Open Parquet files as a relation, without reading their rows; it lives as long as the engine.

        Args:
            paths: The files; a column missing from one of them is null there.
            numbers: The names of two more columns, which tell rows apart: the number of the file, from 0, and of the row
                in its file. They are left out if a file has columns that hide DuckDB's own.
        """
        # The progress bar of a query of two seconds would stay in the output of a notebook's cell.
        self._connection.execute("SET enable_progress_bar = false")
        source = from_parquet(f"[{_listed(map(str, paths))}]")
        relation = self._connection.sql(f"SELECT * FROM {source}")
        if {"file_index", "file_row_number", *numbers} & {one.lower() for one in relation.columns}:
            return relation
        file, row = map(quoted, numbers)
        return self._connection.sql(f"SELECT *, file_index AS {file}, file_row_number AS {row} FROM {source}")

    def close(self) -> None:
        """As `Engine.close`."""
        self._read_small.cache_clear()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Settings(NamedTuple):
    memory_limit: str | None
    threads: int | None
    as_written: bool
    in_order: bool


_instances: dict[tuple[int, str, _Settings], "_Instance"] = {}
_lock = threading.RLock()  # the garbage collector may close an engine at any point


class _Instance:
    """A DuckDB database in memory, shared by the engines of this process that have the same settings.

    Starting one takes 15 ms, more than most queries on a small history. It starts with the first engine, even if nothing
    is queried: if DuckDB started after deltalake's threads, one process in five aborted at its end; none if it started
    before. It lives until the process ends, or until its last engine closes if spilled files remain.
    """

    def __init__(self, settings: _Settings) -> None:
        _delete_old_spills()
        self._spill = tempfile.mkdtemp(prefix=f"{_SPILL}{os.getpid()}-")  # 0700
        options: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": self._spill,
            "preserve_insertion_order": str(settings.in_order).lower(),
            # Returns what a query has freed to the system.
            "allocator_background_threads": "true",
            # Extensions would be fetched from the network.
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # An unknown table is an error, never a variable of the caller.
            "python_enable_replacements": "false",
        }
        if settings.memory_limit is not None:
            options["memory_limit"] = settings.memory_limit
        if settings.threads is not None:
            options["threads"] = str(settings.threads)
        self._connection = duckdb.connect(":memory:", config=options)
        with contextlib.suppress(duckdb.Error):  # without ICU there is no zone but UTC
            self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        if settings.as_written:
            self._connection.execute(f"SET disabled_optimizers = '{_DISABLED_OPTIMIZERS}'")
        self._engines = 0
        self.end = weakref.finalize(self, _close, self._connection, self._spill)

    def enter(self) -> duckdb.DuckDBPyConnection:
        """Return a connection for one more engine."""
        self._engines += 1
        return self._connection.cursor()

    def leave(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Close an engine's connection; with the last one, forget what was read of files."""
        with _lock:
            connection.close()
            self._engines -= 1
            if not any(instance._engines for instance in _instances.values()):  # noqa: SLF001  of this class
                _read_file.cache_clear()
            if self._engines:
                return
            if not Path(self._spill).is_dir() or any(Path(self._spill).iterdir()):
                self.end()
                return
            for switch in ("false", "true"):
                self._connection.execute(f"SET enable_external_file_cache = {switch}")


def _enter(settings: _Settings) -> tuple[_Instance, duckdb.DuckDBPyConnection]:
    # A child process, and another directory for temporary files, have their own.
    key = (os.getpid(), tempfile.gettempdir(), settings)
    with _lock:
        instance = _instances.get(key)
        if instance is None or not instance.end.alive:
            instance = _instances[key] = _Instance(settings)
        return instance, instance.enter()


def _close(connection: duckdb.DuckDBPyConnection, spill: str) -> None:
    connection.close()
    shutil.rmtree(spill, ignore_errors=True)


def engine_of(engine: object = None) -> Engine:
    """Return the engine for an argument of `History`; an engine is returned as it is."""
    if engine is None or engine == "duckdb":
        return DuckDB(as_written=True, keeps_small=True)
    if isinstance(engine, DuckDB | Spark):
        return engine
    if isinstance(engine, str) or hasattr(engine, "newSession"):
        return Spark(engine)
    if hasattr(engine, "ask"):
        return cast("Engine", engine)
    raise InvalidArgument("An engine is None, 'duckdb', a Spark session or the address of a Spark master")


def _read_small(uris: tuple[str, ...], schema: pa.Schema) -> pa.Table | None:
    """Read files that are small together; None if they are not, or cannot be read: DuckDB then reads them, or says why."""
    paths = [path_of(uri) for uri in uris]
    with contextlib.suppress(OSError, pa.ArrowException):
        states = [Path(path).stat() for path in paths]
        if sum(state.st_size for state in states) <= SMALL_BYTES:
            return pa.concat_tables(
                (_read_file if state.st_size <= _SMALL_FILE_BYTES else _read_file.__wrapped__)(
                    path, (state.st_ino, state.st_size, state.st_mtime_ns), schema
                )
                for path, state in zip(paths, states, strict=True)
            )
    return None


@lru_cache(_SMALL_FILES)
def _read_file(path: str, _state: tuple[int, ...], schema: pa.Schema) -> pa.Table:
    """Read a file in a state: its inode, size and time of change."""
    kinds = pa.schema([(field.name, kind_of(field)) for field in schema])
    within = partitioned_by(path, kinds.names)
    by = pa.dataset.partitioning(pa.schema([kinds.field(name) for name in within]), flavor="hive")
    dataset = pa.dataset.dataset([path], kinds, format=_PARQUET, partitioning=by)
    return dataset.to_table(use_threads=False)


def write_view(cursor: duckdb.DuckDBPyConnection, name: str, table: Files | pa.Table) -> None:
    """Register a table as a view, in place of an earlier one of that name."""
    if isinstance(table, pa.Table):
        cursor.register(name, table)
    elif not table.uris:
        cursor.register(
            name, pa.schema([(field.name, kind_of(field)) for field in table.schema]).empty_table()
        )
    elif table.dataset is not None:
        cursor.register(name, table.dataset())
    else:
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS {_select_from_files(table)}")


def _select_from_files(table: Files) -> str:
    """What reads the files: no file is opened to learn its columns, and an older one may lack some."""
    kinds = {field.name: type_names(field)[0] for field in table.schema}
    paths = [path_of(uri) for uri in table.uris]
    within = partitioned_by(paths[0], kinds)
    stored = ", ".join(
        f"{text_literal(name)}: {{'name': {text_literal(name)}, 'type': {text_literal(kind)}, 'default_value': NULL}}"
        for name, kind in kinds.items()
        if name not in within
    )
    # Not hive_partitioning, which does not work with a schema. Files of other partitions are skipped all the same.
    columns = ", ".join(
        _from_path(name, kind) if name in within else quoted(name) for name, kind in kinds.items()
    )
    # Names, types and paths, each quoted: no user input.
    return f"SELECT {columns} FROM read_parquet([{_listed(paths)}], filename = '_path', schema = MAP {{{stored}}})"


def _listed(paths: Iterable[str]) -> str:
    """Paths as texts, in which no character is a pattern."""
    return ", ".join(text_literal(path_pattern(path)) for path in paths)


def path_pattern(path: str) -> str:
    """A path as a pattern of DuckDB that nothing else matches."""
    return re.sub(r"[*?\[{]", r"[\g<0>]", path)


def from_parquet(paths: str) -> str:
    """What stands after FROM to read Parquet files, whose columns may differ; `paths` is SQL."""
    return f"read_parquet({paths}, union_by_name = true)"


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Raise errors of DuckDB as those of this package; a message of DuckDB may hold values of the table.

    Raises:
        DiskFull: No space is left for temporary files.
        InvalidArgument: A file or a relation cannot be read.
        KeyboardInterrupt: The query was interrupted.
    """
    try:
        yield
    except (RuntimeError, OSError, duckdb.Error) as error:  # Arrow raises an OSError in a later batch of rows
        raise _translated(error) from None


def _translated(error: Exception) -> BaseException:
    if _INTERRUPTED.search(str(error)):
        return KeyboardInterrupt()
    if not isinstance(error, duckdb.Error | OSError):
        return error
    if _NO_SPACE.search(str(error)):
        return DiskFull(
            "No space is left for temporary files: free some space, or set TMPDIR to another directory"
        )
    kind = type(error).__name__
    return InvalidArgument(f"DuckDB cannot read this table ({kind}): check its files, or the query behind it")


def _from_path(name: str, kind: str) -> str:
    value = f"url_decode(regexp_extract(_path, {text_literal(f'.*/{re.escape(name)}=([^/]*)/')}, 1))"
    return f"CAST(NULLIF({value}, '{_HIVE_NULL}') AS {kind}) AS {quoted(name)}"


def _is_about(error: duckdb.Error, table: Files) -> bool:
    """Return whether an error is about a file: it names the file, or, if DuckDB cannot continue, nothing at all."""
    message = str(error)
    if type(error) is duckdb.Error or "Parquet" in message:
        return True
    return any(path_of(uri) in message for uri in table.uris)


def _has_missing_files(table: Files) -> bool:
    if table.dataset is None or not table.uris:
        return not all(Path(path_of(uri)).exists() for uri in table.uris)
    dataset = table.dataset()
    infos = dataset.filesystem.get_file_info(dataset.files)
    return any(info.type == pyarrow.fs.FileType.NotFound for info in infos)


def _delete_old_spills() -> None:
    """Delete what killed processes spilled: it is personal data."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_SPILL}*-*"):
        pid = directory.name.removeprefix(_SPILL).partition("-")[0]
        if pid.isdigit() and not is_running(int(pid)):
            shutil.rmtree(directory, ignore_errors=True)


def is_running(pid: int) -> bool:
    """Return whether a process is running on this machine."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
