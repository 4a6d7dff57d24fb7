"""The query engine interface: SQL, Parquet files, parameters, and the column types common to all engines."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset

from exposurekit.errors import ExposureError
from exposurekit.history.storage.schema import SHARED

DUCKDB, SPARK = 0, 1
# The types that a column may have, with their names in DuckDB and Spark.
_TYPES: dict[pa.DataType, tuple[str, str]] = {
    pa.bool_(): ("BOOLEAN", "BOOLEAN"),
    pa.int16(): ("SMALLINT", "SMALLINT"),
    pa.int32(): ("INTEGER", "INT"),
    pa.int64(): ("BIGINT", "BIGINT"),
    pa.float64(): ("DOUBLE", "DOUBLE"),
    pa.string(): ("VARCHAR", "STRING"),
    pa.date32(): ("DATE", "DATE"),
    pa.timestamp("us", tz="UTC"): ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP"),
    pa.list_(pa.string()): ("VARCHAR[]", "ARRAY<STRING>"),
}
# Skips string literals, quoted identifiers and comments, in which a colon does not begin a parameter.
_TOKENS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | :: | :(?P<name>[A-Za-z_]\w*)""",
    re.DOTALL | re.VERBOSE,
)
_BUCKET = re.compile(r"/bucket=(-?\d+)/")


class StaleSnapshot(ExposureError):
    """A listed file is gone, for example after a vacuum: list the files again and retry."""

    def __init__(self) -> None:
        super().__init__(
            "Files that were listed are gone, or not visible from here: list the files again and retry"
        )


class CorruptHistory(ExposureError):
    """A file is damaged or missing."""

    def __init__(self) -> None:
        super().__init__(
            "A file of this history cannot be read; verify() says which: exposurekit history verify --history DIR. Put it back from a copy"
        )


@dataclass(frozen=True)
class Files:
    """One snapshot of a table: Parquet files and their schema; a column missing from an older file is null.

    URIs are as from `DeltaTable.file_uris()`: local paths are percent-encoded. Hive directories such as `bucket=7/` supply
    the column `bucket` if the schema declares it.
    """

    uris: Sequence[str]
    schema: pa.Schema
    # Opens the same files for DuckDB where it cannot reach them by path, such as those on s3.
    dataset: Callable[[], pyarrow.dataset.Dataset] | None = None

    def within(self, first: int, last: int) -> "Files":
        """Return the files of some buckets, and of all; all files if their paths do not contain the bucket.

        >>> files = ["/t/bucket=3/a.parquet", "/t/bucket=12/b.parquet", "/t/bucket=-1/c.parquet"]
        >>> Files(files, pa.schema([])).within(4, 20).uris
        ['/t/bucket=12/b.parquet', '/t/bucket=-1/c.parquet']
        """
        buckets = [_BUCKET.search(uri) for uri in self.uris]
        if self.dataset is not None or not all(buckets):
            return self
        pairs = zip(self.uris, buckets, strict=True)
        chosen = {SHARED, *range(first, last + 1)}
        return replace(self, uris=[uri for uri, match in pairs if match and int(match[1]) in chosen])

    def select(self, names: Sequence[str]) -> "Files":
        """Return the same files with some of their columns; the others are not read.

        >>> Files(["/t/a.parquet"], pa.schema({"a": pa.int64(), "b": pa.int64()})).select(["b"]).schema.names
        ['b']
        """
        return replace(self, schema=pa.schema([self.schema.field(name) for name in names]))


class Engine(Protocol):
    """Runs queries: `DuckDB`, `Spark`, or your own."""

    def ask(
        self, sql: str, tables: Mapping[str, Files | pa.Table], parameters: Mapping[str, Any]
    ) -> pa.Table:
        """Run one query.

        Args:
            sql: One ANSI SELECT; `:name` stands for a parameter.
            tables: The tables that the text names: files, or a small Arrow table (a list of ids, say).
            parameters: Values by name: str, int (64 bits), bool, datetime with a zone, None.

        Returns:
            Columns as the text names them, ordered by its `ORDER BY`; bool, int16, int32, int64,
            float64, string, date32, timestamp[us, UTC] and lists of strings only.

        Raises:
            StaleSnapshot: A listed file was deleted.
            CorruptHistory: A file is damaged.
            TypeError: A parameter, a declared column or a column of the result is of another type.
        """

    def close(self) -> None:
        """Free memory and temporary files, and stop a cluster session that was started here."""


def bind_values(
    sql: str, parameters: Mapping[str, Any], *, mark: str, dialect: int
) -> tuple[str, dict[str, Any]]:
    """Replace ``:name`` by the engine's placeholders, cast to type; return the SQL and the values in use."""
    values: dict[str, Any] = {}

    def with_mark(token: re.Match[str]) -> str:
        name = token["name"]
        if name is None:
            # In Spark a backslash starts an escape; in the standard it does not.
            return token[0].replace("\\", "\\\\") if dialect == SPARK and token[0][0] == "'" else token[0]
        values[name], kind = _sql_literal(name, parameters[name])
        # Without a cast, an engine infers the type of a number, and of the result, from its size.
        return f"CAST({mark}{name} AS {_TYPES[kind][dialect]})" if kind else f"{mark}{name}"

    return _TOKENS.sub(with_mark, sql), values


def _sql_literal(name: str, value: Any) -> tuple[Any, pa.DataType | None]:
    match value:
        case None:
            return None, None
        case bool():
            return value, pa.bool_()
        case int():
            return pa.scalar(value, pa.int64()).as_py(), pa.int64()
        case str():
            return value, pa.string()
        case datetime() if value.utcoffset() is not None:
            # As text: drivers treat microseconds and zones differently.
            return value.astimezone(UTC).isoformat(), pa.timestamp("us", tz="UTC")
    raise TypeError(f"The parameter {name} is a {type(value).__name__}: of many values, make a table")


def partitioned_by(path: str, columns: Mapping[str, str]) -> list[str]:
    """Return the declared columns encoded in a file's path, outermost first."""
    return [name for name in re.findall(r"/([^/=]+)=[^/]*(?=/)", path) if name in columns]


def path_of(uri: str) -> str:
    """Return the local path of a file URI."""
    return uri if "://" in uri else unquote(uri)


def checked(name: str) -> str:
    """Return a table name if it is valid."""
    if not name.isidentifier():
        raise ValueError(f"A table's name must be a plain word, which {name!r} is not")
    return name


def quoted(name: str) -> str:
    """Quote an identifier in standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A text in standard SQL.

    >>> text_literal("Peep's Pages")
    "'Peep''s Pages'"
    """
    return "'" + value.replace("'", "''") + "'"


def kind_of(field: pa.Field) -> pa.DataType:
    """Return the common type of a column."""
    kind = field.type
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        return pa.list_(pa.string())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if kind not in _TYPES:
        raise TypeError(f"The column {field.name} is {kind}, which the engines do not share: CAST it")
    return kind


def type_names(field: pa.Field) -> tuple[str, str]:
    """Return the names of a column type in DuckDB and Spark."""
    return _TYPES[kind_of(field)]


def plain(table: pa.Table) -> pa.Table:
    """Cast a table to the types common to all engines."""
    return table.cast(pa.schema([(field.name, kind_of(field)) for field in table.schema]))
