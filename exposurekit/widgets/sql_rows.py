"""A table that DuckDB reads: Parquet files on disk, or a relation. Only what is displayed is in memory."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard
from uuid import UUID

import numpy as np
import pandas as pd

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.frames.arrow import from_arrow
from exposurekit.history.engines.duckdb import (
    DuckDB,
    from_parquet,
    path_pattern,
    quoted,
    readable,
    text_literal,
)
from exposurekit.widgets.column_summary import ROWS_MAX, Summary, summarize
from exposurekit.widgets.frame_rows import CHOICES_MAX, LISTS, Row, no_such_value
from exposurekit.widgets.table_filter import Filter, Kind, Range, literal

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

MEMORY = "256MB"  # of DuckDB; it spills to disk beyond
_VIEW = "exposurekit_rows"
_FILE, _ROW = "exposurekit_file", "exposurekit_row"  # the number of a file, and of a row in it
_FILE_SHIFT = 2**32  # more rows than a Parquet file has
_SAMPLES = 8  # runs of rows from which a large table is summarized
_BATCH = 50_000
_NESTED = ("list", "array", "struct", "map", "union")
_FLOATS = ("float", "double")
_NUMBERS = (
    *(
        f"{sign}{size}"
        for sign in ("", "u")
        for size in ("tinyint", "smallint", "integer", "bigint", "hugeint")
    ),
    *("decimal", *_FLOATS),
)
_WITH_ZONE = "timestamp with time zone"
_PATTERN_SIGNS = re.compile("[%_!]")  # of ILIKE, and the sign that escapes them
_DELTA_LOG = "_delta_log"  # the directory of a Delta table that says which of its rows are current
_READ_WITH = {  # what of pandas reads other files
    ".csv": "read_csv",
    ".tsv": "read_table",
    ".xlsx": "read_excel",
    ".json": "read_json",
}
_PLAIN_NAME = re.compile("[a-z_][a-z0-9_]*")


class SqlTable:
    """Rows that are queried with SQL.

    Args:
        relation: The rows, with the columns of `DuckDB.parquet` if they have numbers.
        name: The name of the relation in the notebook.
        source: What the code has after FROM, if it needs no relation.
        engine: What is to stay open.
    """

    def __init__(
        self, relation: "DuckDBPyRelation", *, name: str = "", source: str = "", engine: DuckDB | None = None
    ) -> None:
        self._relation, self._name, self._source, self._engine = relation, name, source, engine
        types = dict(zip(relation.columns, (kind.id for kind in relation.types), strict=True))
        self.has_row_numbers = {_FILE, _ROW} <= types.keys()
        self._types = {column: kind for column, kind in types.items() if column not in (_FILE, _ROW)}
        self.columns = [*self._types]
        self._counts: dict[str, int] = {}
        self.n_rows = self.count(Filter())

    @classmethod
    def open(cls, path: str | Path) -> "SqlTable":
        """Open a Parquet file, or a directory of them.

        Raises:
            NotFound: There is no such file.
            InvalidArgument: The files belong to a Delta table, as those of a history do, or a file is damaged, or of another kind.
        """
        root = Path(path)
        if _is_of_delta(root):
            raise InvalidArgument(
                "These files belong to a Delta table or a history, and also contain deleted and replaced rows: pass a table of the history, such as ek.History(path).records()"
            )
        if root.is_file() and (read := _READ_WITH.get(root.suffix.lower())):
            raise InvalidArgument(f"Only Parquet files are opened by path: pass pd.{read}(path)")
        files = [root] if root.is_file() else sorted(root.rglob("*.parquet"))
        if not files:
            raise NotFound(
                "No Parquet file there: give the path of a Parquet file, or of a directory of them"
            )
        engine = DuckDB(memory_limit=MEMORY, in_order=True)
        pattern = path_pattern(f"{root}") + ("" if root.is_file() else "/**/*.parquet")
        with readable():
            relation = engine.parquet(files, (_FILE, _ROW))
            return cls(relation, source=from_parquet(text_literal(pattern)), engine=engine)

    def summaries(self) -> list[Summary]:
        """Summarize each column, if there are many rows from runs of them that are evenly spread."""
        if self.n_rows <= ROWS_MAX:
            return summarize(self._arrow(f"SELECT {self._list(self.columns)} FROM {_VIEW}"))
        size = ROWS_MAX // _SAMPLES
        runs = [
            f"(SELECT {self._list(self.columns)} FROM {_VIEW} LIMIT {size} OFFSET {one * (self.n_rows - size) // (_SAMPLES - 1)})"
            for one in range(_SAMPLES)
        ]
        return summarize(self._arrow(" UNION ALL ".join(runs)), is_sample=True)

    def count(self, selection: Filter) -> int:
        """Count the rows of a filter."""
        where = self._where(selection)
        if where not in self._counts:
            [(self._counts[where],)] = self._fetch(f"SELECT count(*) FROM {_VIEW}{where}")
        return self._counts[where]

    def page(self, selection: Filter, columns: Sequence[Any], begin: int, size: int) -> list[Row]:
        """Return some of the rows of a filter."""
        numbers = [f"{_FILE}::BIGINT * {_FILE_SHIFT} + {_ROW}"] if self.has_row_numbers else ["0"]
        select = ", ".join([*numbers, *map(self._identifier, columns)])
        rows = self._fetch(
            f"SELECT {select} FROM {self._ordered(selection)} LIMIT {int(size)} OFFSET {int(begin)}"
        )
        if len(rows) < size and (rows or not begin):  # the last page: the count is known without a query
            self._counts.setdefault(self._where(selection), begin + len(rows))
        if self.has_row_numbers:
            return [(number, values) for number, *values in rows]
        return [(begin + position, values) for position, (_, *values) in enumerate(rows)]

    def frame(self, selection: Filter, columns: Sequence[Any], limit: int | None = None) -> pd.DataFrame:
        """Return all rows of a filter, or the first ``limit``."""
        most = "" if limit is None else f" LIMIT {int(limit)}"
        return self._arrow(f"SELECT {self._list(columns)} FROM {self._ordered(selection)}{most}")

    def batches(self, selection: Filter, columns: Sequence[Any]) -> Iterator[pd.DataFrame]:
        """Yield all rows of a filter, some at a time."""
        with readable():
            text = f"SELECT {self._list(columns)} FROM {self._ordered(selection)}"
            for batch in self._query(text).to_arrow_reader(_BATCH):
                yield from_arrow(batch, is_part=True)

    def rows(self, numbers: Iterable[int]) -> pd.DataFrame:
        """Return the rows with these numbers."""
        in_files = groupby(sorted(numbers), lambda number: number // _FILE_SHIFT)
        conditions = [
            f"({_FILE} = {file} AND {_ROW} IN ({', '.join(str(one % _FILE_SHIFT) for one in each)}))"
            for file, each in in_files
        ]
        where = f"WHERE {' OR '.join(conditions)}" if conditions else "LIMIT 0"
        return self._arrow(f"SELECT {self._list(self.columns)} FROM {_VIEW} {where}")

    def code(self, selection: Filter, columns: Sequence[Any]) -> str:
        """Return code that selects the same rows and columns."""
        listed = "*" if [*columns] == self.columns else self._list(columns)
        source = self._source or self._identifier(self._name)
        lines = [f"SELECT {listed}", f"FROM {source}", *self._clauses(selection)]
        text = "\n".join(lines)
        sql = f'"""\n{text}\n"""' if is_plain_text(text) else literal(text)
        return f"{self._name}.query({literal(self._name)}, {sql})" if self._name else f"duckdb.sql({sql})"

    def available(self) -> list[Any]:
        """Return the columns whose values can be picked, as far as the rows of the summaries tell."""
        size = max(1, ROWS_MAX)
        candidates = [column for column, kind in self._types.items() if kind not in _NESTED]
        if not candidates:
            return []
        distinct = ", ".join(f"count(DISTINCT {self._identifier(one)})" for one in candidates)
        [counts] = self._fetch(f"SELECT {distinct} FROM (SELECT * FROM {_VIEW} LIMIT {size})")
        return [column for column, n in zip(candidates, counts, strict=True) if 0 < n <= CHOICES_MAX]

    def range_of(self, column: Any) -> tuple[Kind, tzinfo | None] | None:
        """Return of which kind the values of a column are, and the zone of instants; None: they have no range."""
        kind = self._types[column]
        if kind in _NUMBERS:
            return "number", None
        if kind == "date":
            return "day", None
        if kind.startswith("timestamp"):
            return "instant", UTC if kind == _WITH_ZONE else None
        return None

    def values(self, column: Any) -> dict[Any, int]:
        """Return the values of a column, in order, each with the number of its rows.

        Of too many numbers or dates none: they have a range.

        Raises:
            InvalidArgument: They are too many.
        """
        name = self._identifier(column)
        rows = self._fetch(
            f"SELECT {name}, count(*) FROM {_VIEW} WHERE {name} IS NOT NULL GROUP BY ALL ORDER BY 1 LIMIT {CHOICES_MAX + 1}"
        )
        if len(rows) > CHOICES_MAX and self.range_of(column):
            return {}
        if len(rows) > CHOICES_MAX:
            raise InvalidArgument(f"The column has more than {CHOICES_MAX} values: search for one")
        return dict(rows)

    def check_values(self, column: Any, values: Sequence[Any]) -> None:
        """Raise `InvalidArgument` if the column has lists, or none of these values."""
        if self._types[column] in _NESTED:
            raise InvalidArgument(LISTS)
        for value, text in zip(values, map(_sql_literal, values), strict=True):
            where = f"WHERE {self._identifier(column)} = {text}"
            try:
                rows = self._fetch(f"SELECT 1 FROM {_VIEW} {where} LIMIT 1")
            except InvalidArgument:  # of another type
                rows = []
            if not rows:
                raise no_such_value(column, value, None)

    def _arrow(self, text: str) -> pd.DataFrame:
        with readable():
            return from_arrow(self._query(text))

    def _fetch(self, text: str) -> list[Any]:
        with readable():
            rows: list[Any] = self._query(text).fetchall()
            return rows

    def _query(self, text: str) -> "DuckDBPyRelation":
        relation = self._relation.query(_VIEW, text)
        assert relation is not None  # noqa: S101  a SELECT returns rows
        return relation

    def _ordered(self, selection: Filter) -> str:
        """The rows of a filter in order; rows with the same value in the order of the table."""
        where = self._where(selection)
        if selection.sort is None:
            return f"{_VIEW}{where}"
        *_, order = self._clauses(selection)
        if self.has_row_numbers:
            return f"{_VIEW}{where} {order}, {_FILE}, {_ROW}"
        return f"(SELECT *, row_number() OVER () AS {_ROW} FROM {_VIEW}{where}) {order}, {_ROW}"

    def _where(self, selection: Filter) -> str:
        clauses = self._clauses(replace(selection, sort=None))
        return f" {clauses[0]}" if clauses else ""

    def _clauses(self, selection: Filter) -> list[str]:
        conditions = [self._condition(column, values) for column, values in selection.chosen.items()]
        conditions += [
            one for column, limits in selection.ranges.items() for one in self._within(column, limits)
        ]
        if selection.search:
            conditions.append(self._contains(selection.search))
        clauses = ["WHERE " + "\n  AND ".join(conditions)] if conditions else []
        if selection.sort is not None:
            column, ascending = selection.sort
            clauses.append(f"ORDER BY {self._identifier(column)}{'' if ascending else ' DESC'} NULLS LAST")
        return clauses

    def _condition(self, column: Any, values: Sequence[Any]) -> str:
        texts = [_sql_literal(value) for value in values]
        name = self._identifier(column)
        return f"{name} = {texts[0]}" if len(texts) == 1 else f"{name} IN ({', '.join(texts)})"

    def _within(self, column: Any, limits: Range) -> list[str]:
        name = self._identifier(column)
        conditions = [f"{name} {sign} {_sql_literal(value)}" for sign, value in limits.conditions()]
        # NaN is greater than any number in SQL, and not in the statistics that a file is filtered by: as text it is excluded.
        is_float = self._types[column] in _FLOATS
        return [*conditions, f"CAST({name} AS VARCHAR) <> 'nan'"] if is_float else conditions

    def _contains(self, search: str) -> str:
        pattern = text_literal("%" + _PATTERN_SIGNS.sub(r"!\g<0>", search) + "%")
        escape = " ESCAPE '!'" if _PATTERN_SIGNS.search(search) else ""
        texts = [
            self._identifier(column) if kind == "varchar" else f"CAST({self._identifier(column)} AS VARCHAR)"
            for column, kind in self._types.items()
            if kind in ("varchar", "enum")
        ]
        return f"({' OR '.join(f'{one} ILIKE {pattern}{escape}' for one in texts) or 'FALSE'})"

    def _list(self, columns: Sequence[Any]) -> str:
        return ", ".join(map(self._identifier, columns))

    def _identifier(self, name: str) -> str:
        return name if _PLAIN_NAME.fullmatch(name) and name not in self._keywords else quoted(name)

    @cached_property
    def _keywords(self) -> frozenset[str]:
        """Words that are not column names without quotes."""
        rows = self._fetch(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        )
        return frozenset(name for (name,) in rows)


def _is_of_delta(root: Path) -> bool:
    """Return whether a path is in a Delta table, or has one in it."""
    above = any((directory / _DELTA_LOG).is_dir() for directory in (root, *root.resolve().parents))
    return above or any(root.rglob(_DELTA_LOG))


def is_plain_text(text: str) -> bool:
    """Return whether a text can stand between three quotation marks as it is."""
    return text.replace("\n", "").isprintable() and "\\" not in text and '"""' not in text


def _sql_literal(value: Any) -> str:
    """A value as SQL."""
    value = value.item() if isinstance(value, np.generic) else value
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"  # infinity and NaN, too
        case str() | UUID():
            return text_literal(str(value))
        case date():  # or a time of a day
            kind = (
                "DATE" if not isinstance(value, datetime) else "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP"
            )
            return f"{kind} '{value}'"
    raise InvalidArgument(f"a {type(value).__name__} cannot be picked: filter it in code")


def is_relation(table: object) -> TypeGuard["DuckDBPyRelation"]:
    """Return whether a table is a relation of DuckDB."""
    return type(table).__name__ == "DuckDBPyRelation"
