"""Where a question is answered: one ANSI SQL text over lists of Parquet files, by DuckDB here or Spark on a cluster.

Never writes, never lists files, and knows no question. The same text gives the same table, values and types alike.
What a text must heed for that: `CAST` the sum of integers and ROW_NUMBER() to BIGINT, and whatever else the engines
type each in their own way; say `NULLS FIRST` or `NULLS LAST` wherever a null may be sorted; quote names with `"`, texts with `'`.
"""

import contextlib
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast

import duckdb
import pyarrow as pa
import pyarrow.fs

from exposurekit.errors import InvalidArgument
from exposurekit.history.engines.base import (
    DUCKDB,
    CorruptHistory,
    Engine,
    Files,
    StaleSnapshot,
    bind_values,
    checked,
    kind_of,
    named,
    partitioned_by,
    path_of,
    plain,
    quoted,
)
from exposurekit.history.engines.spark import Spark

__all__ = ["CorruptHistory", "DuckDB", "Engine", "Files", "Spark", "StaleSnapshot", "engine_of"]

_SPILL = "exposurekit-duckdb-"
# How many rows a file has is not known before, so that a join would hold the larger side; and the newest row of each
# thing would be found by reading the files twice.
_TOO_CLEVER = "join_order,build_side_probe_side,late_materialization,top_n_window_elimination"
_STOPPED = re.compile("Query interrupted|KeyboardInterrupt")  # what DuckDB makes of a Ctrl-C, now and then
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


class DuckDB:
    """Answers on this machine, from several threads at once if asked so.

    Args:
        memory_limit: As DuckDB writes it, such as ``"2GB"``; more is spilled to a private directory.
        threads: How many; DuckDB's own default is one a core.

    >>> from exposurekit.history.engines.duckdb import DuckDB
    >>> engine = DuckDB(threads=1)
    >>> engine.ask("SELECT :n + 1 AS n", {}, {"n": 41}).to_pylist()
    [{'n': 42}]
    >>> engine.close()
    """

    def __init__(
        self, *, memory_limit: str | None = None, threads: int | None = None, as_written: bool = False
    ) -> None:
        _sweep()
        spill = tempfile.mkdtemp(prefix=f"{_SPILL}{os.getpid()}-")  # 0700
        settings: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": spill,
            "preserve_insertion_order": "false",
            # What is not built in would be fetched from the network.
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            # A name that is no table is an error, never a variable of the caller's.
            "python_enable_replacements": "false",
        }
        if memory_limit is not None:
            settings["memory_limit"] = memory_limit
        if threads is not None:
            settings["threads"] = str(threads)
        # At once, though many a history is only written to: of processes whose first DuckDB began after deltalake's threads
        # one in five aborted as they ended; none where it begins before.
        self._connection = duckdb.connect(":memory:", config=settings)
        with contextlib.suppress(duckdb.Error):  # where ICU is not built in there is no zone but UTC
            self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        if as_written:
            self._connection.execute(f"SET disabled_optimizers = '{_TOO_CLEVER}'")
        self._end = weakref.finalize(self, _ended, self._connection, spill)

    def ask(
        self, sql: str, tables: Mapping[str, Files | pa.Table], parameters: Mapping[str, Any]
    ) -> pa.Table:
        """As `Engine.ask`."""
        text, values = bind_values(sql, parameters, mark="$", dialect=DUCKDB)
        with self.views(tables) as cursor:
            found = cursor.sql(text, params=values or None).to_arrow_table()
        return plain(found)

    @contextlib.contextmanager
    def views(self, tables: Mapping[str, Files | pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that sees the tables, for work that is DuckDB's alone; its parameters stand as `$name`.

        Raises:
            StaleSnapshot: A file is gone since it was listed.
            CorruptHistory: A file is not what was written.
            KeyboardInterrupt: It was stopped.

        >>> from exposurekit.history.engines.duckdb import DuckDB
        >>> with DuckDB() as engine, engine.views({"ids": pa.table({"id": [3, 4]})}) as cursor:
        ...     cursor.sql("SELECT sum(id)::BIGINT AS n FROM ids").to_arrow_table().to_pylist()
        [{'n': 7}]
        """
        # A cursor has views of its own: those of another thread's question may bear the same names.
        with contextlib.closing(self._connection.cursor()) as cursor:
            try:
                for name, table in tables.items():
                    write_view(cursor, checked(name), table)
                yield cursor
            except (RuntimeError, duckdb.Error) as error:
                if _STOPPED.search(str(error)):
                    raise KeyboardInterrupt from None
                if not isinstance(error, duckdb.Error):
                    raise
                files = [table for table in tables.values() if isinstance(table, Files)]
                if any(_gone(table) for table in files):
                    raise StaleSnapshot from None
                if any(_is_about(error, table) for table in files):
                    raise CorruptHistory from None
                raise

    def close(self) -> None:
        """As `Engine.close`."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def engine_of(engine: object = None) -> Engine:
    """The engine that is meant.

    Args:
        engine: None or ``"duckdb"``; a Spark session or the address of a Spark master, as `Spark` takes them; or
            an engine, which is given back.

    Raises:
        InvalidArgument: ``engine`` is none of these.
        ConfigurationError: Spark is not installed or cannot be reached.

    >>> from exposurekit.history.engines.duckdb import engine_of
    >>> type(engine_of("duckdb")).__name__
    'DuckDB'
    """
    if engine is None or engine == "duckdb":
        return DuckDB(as_written=True)
    if isinstance(engine, DuckDB | Spark):
        return engine
    if isinstance(engine, str) or hasattr(engine, "newSession"):
        return Spark(engine)
    if hasattr(engine, "ask"):
        return cast("Engine", engine)
    raise InvalidArgument("An engine is None, 'duckdb', a Spark session or the address of a Spark master")


def write_view(cursor: duckdb.DuckDBPyConnection, name: str, table: Files | pa.Table) -> None:
    """Have a cursor see a table under a name, in place of what it saw there."""
    if isinstance(table, pa.Table):
        cursor.register(name, table)
    elif not table.uris:
        cursor.register(
            name, pa.schema([(field.name, kind_of(field)) for field in table.schema]).empty_table()
        )
    elif table.dataset is not None:
        cursor.register(name, table.dataset())
    else:
        cursor.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS {_reading(table)}")


def _reading(table: Files) -> str:
    """What reads the files: no file is opened to learn its columns, and an older one may lack some."""
    kinds = {field.name: named(field)[0] for field in table.schema}
    paths = [path_of(uri) for uri in table.uris]
    within = partitioned_by(paths[0], kinds)
    stored = ", ".join(
        f"{_text(name)}: {{'name': {_text(name)}, 'type': {_text(kind)}, 'default_value': NULL}}"
        for name, kind in kinds.items()
        if name not in within
    )
    # Not hive_partitioning: it goes with no schema. Files of other partitions are passed over all the same.
    columns = ", ".join(
        _from_path(name, kind) if name in within else quoted(name) for name, kind in kinds.items()
    )
    files = ", ".join(_text(re.sub(r"[*?\[{]", r"[\g<0>]", path)) for path in paths)
    # Names, types and paths, each quoted: nothing that a person wrote.
    return f"SELECT {columns} FROM read_parquet([{files}], filename = '_path', schema = MAP {{{stored}}})"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _from_path(name: str, kind: str) -> str:
    value = f"url_decode(regexp_extract(_path, {_text(f'.*/{re.escape(name)}=([^/]*)/')}, 1))"
    return f"CAST(NULLIF({value}, '{_HIVE_NULL}') AS {kind}) AS {quoted(name)}"


def _is_about(error: duckdb.Error, table: Files) -> bool:
    """Whether DuckDB complains of what is in a file: it names that one, or, where it cannot read on, nothing at all."""
    told = str(error)
    return type(error) is duckdb.Error or "Parquet" in told or any(path_of(uri) in told for uri in table.uris)


def _gone(table: Files) -> bool:
    if table.dataset is None or not table.uris:
        return not all(Path(path_of(uri)).exists() for uri in table.uris)
    dataset = table.dataset()
    found = dataset.filesystem.get_file_info(dataset.files)
    return any(file.type == pyarrow.fs.FileType.NotFound for file in found)


def _sweep() -> None:
    """What a process that was killed had spilled is people's data, and nobody's any more."""
    for place in Path(tempfile.gettempdir()).glob(f"{_SPILL}*-*"):
        pid = place.name.removeprefix(_SPILL).partition("-")[0]
        if pid.isdigit() and not session_is_open(int(pid)):
            shutil.rmtree(place, ignore_errors=True)


def session_is_open(pid: int) -> bool:
    """Whether a process of this machine runs.

    >>> session_is_open(os.getpid())
    True
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _ended(connection: duckdb.DuckDBPyConnection, spill: str) -> None:
    connection.close()
    shutil.rmtree(spill, ignore_errors=True)
