"""Explorer: a table to filter, sort, search and page through; the browser receives one page of it."""

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from keyword import iskeyword
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
import pandas as pd
from ipywidgets import Dropdown, HBox, Layout, Textarea

from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.frames.arrow import ArrowTable, from_arrow
from exposurekit.history import History
from exposurekit.system.atomic_files import write_output
from exposurekit.text.formatting import as_csv, is_missing
from exposurekit.text.sanitize import escaped, plain
from exposurekit.widgets import static_html
from exposurekit.widgets.column_summary import Summary
from exposurekit.widgets.data_grid import Grid, Pager
from exposurekit.widgets.frame_rows import FrameTable, suggestion
from exposurekit.widgets.multi_select import MultiSelect
from exposurekit.widgets.panel import Panel, with_classes
from exposurekit.widgets.sql_rows import SqlTable, is_relation
from exposurekit.widgets.table_filter import Filter, Range, read_range
from exposurekit.widgets.textbox import TextBox

CELL_MAX = 200
_EXAMPLES = {"number": "a number", "day": "YYYY-MM-DD", "instant": "YYYY-MM-DD"}
COPY_MAX = 50_000  # rows that a clipboard is given
_NAME = "frame"  # of a table that no variable holds
_NO_FILTER = "# no filter yet"
_OF_ALL = "of all rows"
_COUNTING = "counting the rows …"
_NO_MATCH, _NO_ROWS = "No rows match. Clear the filters to see all rows.", "The table has no rows."


class Explorer(Panel):
    """Any table, page by page; the filtered and the selected rows are DataFrames, the filter is code to run again.

    The head of each column has a small histogram, or its most frequent values, and the share that is missing: of all rows, which
    it says while a filter is set. Of a table with more than 2,000 rows they are estimated.

    Args:
        table: A table of any size; it is not changed. Labels in its index, such as those that ``groupby`` makes, become
            columns. A path of a Parquet file, or of a directory of them, and a DuckDB relation are queried with SQL: only
            the rows that are displayed are in memory. A table of another library, such as Polars or PyArrow, is read through
            ``__arrow_c_stream__``.
        name: The name of the table in the code. None: that of the variable that holds it, or else ``frame``.

    Attributes:
        filter: The current filter.
        columns: The columns that are displayed; empty: all.

    Raises:
        InvalidArgument: ``table`` is not a table, or a damaged file.
        NotFound: There is no Parquet file at that path.

    A relation is queried again for each page and filter: of a slow query, make a table first. Rows of a relation cannot
    be selected, as they have no number.

    >>> explorer = ek.widgets.Explorer(exposure.records(), name="records")
    >>> explorer.choose("status", ["discovered"])
    >>> explorer.code
    'records[records["status"] == "discovered"]'
    >>> path = ek.export(exposure.records(), "records.parquet", include_personal=True)
    >>> explorer = ek.widgets.Explorer("records.parquet")
    >>> explorer.choose("status", "discovered")
    >>> explorer.code.splitlines()[1:4]
    ['SELECT *', "FROM read_parquet('records.parquet', union_by_name = true)", "WHERE status = 'discovered'"]
    """

    def __init__(
        self, table: pd.DataFrame | ArrowTable | str | os.PathLike[str], *, name: str | None = None
    ) -> None:
        if name is None:
            name = _variable_of(table, sys._getframe(1))  # noqa: SLF001  documented
        is_named = name is not None
        name = _NAME if name is None else name
        if not name.isidentifier() or iskeyword(name):
            raise InvalidArgument("name is the name of the table in your notebook, such as records")
        self._table = _opened(table, name)
        self._code_head = [] if is_named or isinstance(self._table, SqlTable) else [f"# {name}: your table"]
        self.filter = Filter()
        self.columns: tuple[Any, ...] = ()
        self._selected: set[int] = set()
        self._texts: dict[str, tuple[str, ...]] = {}  # of the boxes for the ends of each range
        self._is_updating = False
        self._total = self._table.n_rows
        self._grid = Grid(
            self.callback(self._sort), self.callback(self._select_row), self.callback(lambda _: self._copy())
        )
        self._grid.has_boxes = self._table.has_row_numbers
        self._pager = Pager(self.callback(lambda _: self._show()))
        super().__init__(self._controls())
        self._summarize()
        self._show()

    def _controls(self) -> list[Any]:
        self._search = TextBox(description="Search", placeholder="any text")
        self._pickable = {*self._table.available()}
        offered = [c for c in self._table.columns if c in self._pickable or self._table.range_of(c)]
        self._column = Dropdown(
            description="Filter by", options=[("choose a column", None), *((plain(c), c) for c in offered)]
        )
        self._column.index = 0  # without a value, the browser would display nothing
        self._values = MultiSelect("Values", everything="all values")
        self._values.layout.display = "none"
        self._ends = {
            end: with_classes(TextBox(description=end), "exposurekit-end") for end in ("From", "To")
        }
        for box in self._ends.values():
            box.layout.display = "none"
            box.observe(self.callback(self._end_typed), "value")
        self._column_picker = MultiSelect("Columns", everything="all columns")
        self._column_picker.offer([(plain(one), str(one)) for one in self._table.columns])
        self._code = Textarea(description="Code", disabled=True, rows=2, layout=Layout(width="auto"))
        clear = self.button("Clear", lambda _: self.clear())
        self._search.observe(self.callback(self._search_typed), "value")
        self._column.observe(self.callback(lambda change: self._offer_values(change["new"])), "value")
        self._values.observe(self.callback(self._pick_values), "value")
        self._column_picker.observe(self.callback(self._pick_columns), "value")
        picks = [self._search, self._column, self._values, *self._ends.values(), self._column_picker, clear]
        return [with_classes(HBox(picks), "exposurekit-filters"), self._grid, self._pager, self._code]

    def show(self, frame: pd.DataFrame) -> None:
        """Display another table with the same columns; the filter stays, the selection is cleared.

        Raises:
            InvalidArgument: The explorer displays a file or a relation.
        """
        if not isinstance(self._table, FrameTable):
            raise InvalidArgument("This explorer displays a file or a relation: create another one")
        self._table, self._selected = self._table.with_frame(frame), set()
        self._summarize()
        self._set_filter(self.filter)

    @property
    def frame(self) -> pd.DataFrame:
        """The filtered rows with the picked columns, sorted as displayed; a copy, in memory."""
        return self._table.frame(self.filter, self._visible())

    @property
    def selection(self) -> pd.DataFrame:
        """The selected rows, filtered or not; a copy.

        >>> len(ek.widgets.Explorer(exposure.records()).selection)
        0
        """
        return self._table.rows(self._selected)

    @property
    def code(self) -> str:
        """Code that returns the same rows in the notebook; it may need ``pd``, ``ek`` or ``duckdb``."""
        return self._table.code(self.filter, self._visible())

    def _code_notes(self) -> list[str]:
        """What to say above the code: what its table is if that is not a variable, and that there is no filter."""
        is_whole = self.filter == Filter() and not self.columns
        return [*self._code_head, *([_NO_FILTER] if is_whole else [])]

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the filtered rows with the picked columns to a CSV file, with formulas escaped.

        Of a file or a relation, a part of the rows at a time is in memory. Others cannot read the file. If it cannot be
        written, nothing is.

        Raises:
            ConfigurationError: The file cannot be written.
            DiskFull: No space is left for the file, or for temporary files.
            InvalidArgument: A Parquet file or a relation can no longer be read.

        >>> explorer = ek.widgets.Explorer(exposure.records())
        >>> explorer.choose("status", "removed")
        >>> explorer.to_csv("removed.csv").name
        'removed.csv'
        """
        write_output(Path(path), self._csv())
        return Path(path)

    def _csv(self) -> Iterator[bytes]:
        """The filtered rows in parts; the first has the header."""
        header = True
        for batch in self._table.batches(self.filter, self._visible()):
            yield as_csv(batch, header=header).encode()
            header = False
        if header:
            yield as_csv(self._table.frame(self.filter, self._visible(), limit=0)).encode()

    def search(self, text: str) -> None:
        """Keep the rows in which any text contains this, in any case.

        >>> explorer = ek.widgets.Explorer(exposure.records())
        >>> explorer.search("no such text")
        >>> len(explorer.frame)
        0
        """
        self._set_filter(replace(self.filter, search=text.strip()))
        self._search.value = text

    def choose(self, column: str, values: object | Collection[object]) -> None:
        """Keep the rows whose column has one of these values; an empty list keeps all.

        Args:
            column: A column of the table.
            values: One value, or several.

        Raises:
            InvalidArgument: The table has no such column or value, or the column contains lists.

        >>> explorer = ek.widgets.Explorer(exposure.records())
        >>> explorer.choose("status", "removed")
        >>> bool((explorer.frame["status"] == "removed").all())
        True
        """
        self._check_column(column)
        is_one = isinstance(values, str) or not isinstance(values, Collection)
        selected: tuple[Any, ...] = (values,) if is_one else tuple(cast("Collection[object]", values))
        self._table.check_values(column, selected)
        others = {name: one for name, one in self.filter.chosen.items() if name != column}
        selection = others | ({column: selected} if selected else {})
        self._set_filter(replace(self.filter, chosen=selection))

    def choose_range(self, column: str, low: object = None, high: object = None) -> None:
        """Keep the rows whose number, date or time lies between two ends, which are included; without ends, keep all.

        Args:
            column: A column of numbers, days or instants.
            low: The least value; None: there is no lower end. A day may be text, such as ``"2026-11-13"``, and an
                instant, too. One without a zone has that of the column.
            high: The greatest value; None: there is no upper end. A day is meant until its end.

        Raises:
            InvalidArgument: The table has no such column, its values have no range, or an end is not of their kind.

        >>> explorer = ek.widgets.Explorer(exposure.records(), name="records")
        >>> explorer.choose_range("age", 40, 60)
        >>> explorer.code
        'records[(records["age"] >= 40) & (records["age"] <= 60)]'
        """
        self._check_column(column)
        kind = self._table.range_of(column)
        if kind is None:
            raise InvalidArgument(f"{plain(column)} has neither numbers nor dates: use choose or search")
        limits = read_range(*kind, low, high)
        others = {name: one for name, one in self.filter.ranges.items() if name != column}
        self._texts = self._texts | {column: tuple("" if end is None else str(end) for end in (low, high))}
        self._set_filter(
            replace(self.filter, ranges=others if limits == Range() else others | {column: limits})
        )
        if column == self._column.value:
            self._offer_ends(column)

    def _check_column(self, column: object) -> None:
        if column not in self._table.columns:
            raise InvalidArgument(f"no such column{suggestion(column, self._table.columns)}")

    def choose_columns(self, columns: Sequence[object]) -> None:
        """Display these columns, in the order of the table; an empty list displays all.

        Raises:
            InvalidArgument: The table has no such column.

        >>> explorer = ek.widgets.Explorer(exposure.records(), name="records")
        >>> explorer.choose_columns(["site", "status"])
        >>> explorer.code
        'records[["site", "status"]]'
        """
        if missing := [one for one in columns if one not in self._table.columns]:
            raise InvalidArgument(f"no such column{suggestion(missing[0], self._table.columns)}")
        self.columns = tuple(one for one in self._table.columns if one in columns)
        self._is_updating = True
        try:
            self._column_picker.value = tuple(map(str, self.columns))
        finally:
            self._is_updating = False
        self._show()

    def clear(self) -> None:
        """Display the whole table again, without search, values, ranges, order and selection; the columns stay."""
        self._column.index, self._search.value = 0, ""
        self._selected, self._texts = set(), {}
        self._set_filter(Filter())

    def line(self) -> str:
        """How many rows are displayed and selected."""
        return f"Explorer: {self._counts()}"

    def _counts(self) -> str:
        selected = f", {len(self._selected)} selected" if self._table.has_row_numbers else ""
        return f"{self._total:,} of {self._table.n_rows:,} rows{selected}"

    def _visible(self) -> Sequence[Any]:
        return self.columns or self._table.columns

    def to_html(self) -> str:
        """The first of the filtered rows, and the code.

        >>> "<table>" in ek.widgets.Explorer(exposure.records()).to_html()
        True
        """
        first = self._table.frame(self.filter, self._visible(), limit=static_html.ROWS)
        table = static_html.table(first, caption=self._counts(), total=self._total)
        lines = (
            f'<p class="calls"><code>{escaped(text)}</code></p>' for text in (*self._code_notes(), self.code)
        )
        return static_html.section(table, *lines)

    def _set_filter(self, new: Filter) -> None:
        self.filter, self._pager.page = new, 0
        self._show()

    def _sort(self, name: str) -> None:
        by = self.filter.sort
        column = next(one for one in self._table.columns if str(one) == name)
        ascending = not (by and by[0] == column and by[1])
        self._set_filter(replace(self.filter, sort=(column, ascending)))

    def _offer_values(self, column: str | None) -> None:
        """Offer the values of a column and the ends of their range; those that are chosen stay so."""
        self._values.layout.display = "none"
        self._offer_ends(column)
        counts = self._table.values(column) if column in self._pickable else {}
        picked = () if column is None else self.filter.chosen.get(column, ())
        self._is_updating = True
        try:
            self._values.layout.display = None if counts else "none"
            self._values.offer([(plain(value)[:CELL_MAX], value) for value in counts], picked, counts=counts)
        finally:
            self._is_updating = False

    def _offer_ends(self, column: str | None) -> None:
        """Offer the ends of the range of a column that has one."""
        kind = None if column is None else self._table.range_of(column)
        texts = ("", "") if column is None else self._texts.get(column, ("", ""))
        self._is_updating = True
        try:
            for box, text in zip(self._ends.values(), texts, strict=True):
                box.layout.display = "none" if kind is None else None
                box.placeholder = "" if kind is None else _EXAMPLES[kind[0]]
                box.value = text
        finally:
            self._is_updating = False

    def _end_typed(self, _: Any) -> None:
        column = self._column.value
        if column is not None and not self._is_updating:
            self.choose_range(column, *(box.value for box in self._ends.values()))

    def _pick_values(self, change: Any) -> None:
        column = self._column.value
        if column is not None and not self._is_updating:
            self.choose(column, change["new"])

    def _pick_columns(self, change: Any) -> None:
        if not self._is_updating:
            self.choose_columns([one for one in self._table.columns if str(one) in change["new"]])

    def _copy(self) -> None:
        """Have the browser copy the filtered rows."""
        if self._total > COPY_MAX:
            self._grid.copy(None)
            raise InvalidArgument(
                f'More than {COPY_MAX:,} rows: filter them, or write them to a file with explorer.to_csv("rows.csv")'
            )
        self._grid.copy(as_csv(self.frame))

    def _summarize(self) -> None:
        columns = map(str, self._table.columns)
        self._summaries = dict(zip(columns, self._table.summaries(), strict=True))

    def _summary_of(self, column: str) -> Summary:
        """The summary of a column, which is of all rows, and says so if not all are displayed."""
        summary = self._summaries[column]
        if not (self.filter.search or self.filter.chosen or self.filter.ranges):
            return summary
        return summary | {"note": " · ".join(filter(None, (summary["note"], _OF_ALL)))}

    def _search_typed(self, change: Any) -> None:
        if change["new"].strip() != self.filter.search:
            self.search(change["new"])

    def _select_row(self, row: tuple[int, bool]) -> None:
        index, selected = row
        self._selected = self._selected | {index} if selected else self._selected - {index}
        self._show()

    def _show(self) -> None:
        """Display the page; the rows first, as to count them may take longer."""
        columns = self._visible()
        rows = self._table.page(self.filter, columns, self._pager.begin, self._pager.size)
        with self._grid.hold_sync():
            self._grid.columns = [str(name) for name in columns]
            self._grid.summaries = [self._summary_of(name) for name in self._grid.columns]
            self._grid.rows = [[number, [_text(value) for value in values]] for number, values in rows]
            by, ascending = self.filter.sort or (None, True)
            self._grid.sort = [*((None, True) if by is None else (str(by), ascending))]
            self._grid.selected = sorted(self._selected & {number for number, _ in rows})
            self._grid.nothing = _NO_MATCH if self._table.n_rows else _NO_ROWS
            self._grid.caption = _COUNTING
        self._code.value = "\n".join([*self._code_notes(), self.code])
        self._total = self._table.count(self.filter)
        self._pager.show(self._total)
        self._grid.caption = self._counts()


def _variable_of(table: object, caller: FrameType) -> str | None:
    """The variable of the caller that holds a table; None: there is none."""
    names = {**caller.f_globals, **caller.f_locals}
    return next(
        (name for name, value in names.items() if value is table and name.isidentifier() and name[0] != "_"),
        None,
    )


def _opened(table: object, name: str) -> FrameTable | SqlTable:
    if isinstance(table, Exposure | History):
        kind = "Exposure" if isinstance(table, Exposure) else "History"  # also of a demo
        raise InvalidArgument(f"Pass one of its tables, not the {kind} itself: {kind.lower()}.records()")
    if isinstance(table, str | os.PathLike):
        return SqlTable.open(Path(table))
    if is_relation(table):
        return SqlTable(table, name=name)
    is_arrow = not isinstance(table, pd.DataFrame) and isinstance(table, ArrowTable)
    frame = from_arrow(cast("ArrowTable", table)) if is_arrow else table
    if not isinstance(frame, pd.DataFrame) or len({*map(str, frame.columns)}) < len(frame.columns):
        raise InvalidArgument(
            "table is a DataFrame or another table whose columns have distinct names, a DuckDB relation, or the path of a Parquet file"
        )
    return FrameTable(frame, name, is_arrow=is_arrow)


def _text(value: object) -> str:
    if is_missing(value):
        return "—"
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple, np.ndarray)) else str(value)
    return plain(text)[:CELL_MAX]
