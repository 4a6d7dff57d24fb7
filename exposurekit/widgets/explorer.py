"""Explorer: a table to filter, sort, search and page through; the browser receives one page of it."""

import contextlib
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import pandas as pd
from ipywidgets import Dropdown, HBox, Layout, Textarea

from exposurekit.errors import InvalidArgument
from exposurekit.text.formatting import as_csv, is_missing
from exposurekit.text.sanitize import escaped, plain
from exposurekit.widgets import static_html
from exposurekit.widgets.column_summary import summarize
from exposurekit.widgets.data_grid import Grid, Pager
from exposurekit.widgets.multi_select import MultiSelect
from exposurekit.widgets.panel import Panel, with_classes
from exposurekit.widgets.table_filter import Filter, TextIndex, unordered
from exposurekit.widgets.textbox import TextBox

CHOICES_MAX = 200  # a column with more distinct values is searched, not picked from
CELL_MAX = 200
COPY_MAX = 50_000  # rows that a clipboard is given


@runtime_checkable
class ArrowTable(Protocol):
    """A table of any library that speaks Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as a PyCapsule."""


class Explorer(Panel):
    """Any table, page by page; the filtered and the selected rows are DataFrames, the filter is code to run again.

    The head of each column has a small histogram, or its most frequent values, and the share that is missing; of a table
    with more than 2,000 rows they are estimated.

    Args:
        frame: A table of any size; it is not changed. One of another library, such as Polars, PyArrow or a DuckDB
            relation, is read through ``__arrow_c_stream__``.
        name: The name of the table in the code.

    Attributes:
        filter: The current filter.
        columns: The columns that are displayed; empty: all.

    Raises:
        InvalidArgument: ``frame`` is not a table.

    >>> explorer = ek.widgets.Explorer(exposure.records(), name="records")
    >>> explorer.choose("status", ["discovered"])
    >>> explorer.code
    'records[records["status"] == "discovered"]'
    """

    def __init__(self, frame: pd.DataFrame | ArrowTable, *, name: str = "frame") -> None:
        self._is_arrow = not isinstance(frame, pd.DataFrame) and isinstance(frame, ArrowTable)
        if self._is_arrow:
            frame = pd.DataFrame.from_arrow(frame)  # type: ignore[attr-defined]  # new in pandas 3
        if not isinstance(frame, pd.DataFrame) or len({*map(str, frame.columns)}) < len(frame.columns):
            raise InvalidArgument("frame is a table whose columns have distinct names")
        if not name.isidentifier() or iskeyword(name):
            raise InvalidArgument("name is the name of the table in your notebook, such as records")
        self._frame, self._name_in_code = frame.reset_index(drop=True), name
        self._texts = TextIndex(self._frame)
        self.filter = Filter()
        self.columns: tuple[Any, ...] = ()
        self._selected: set[int] = set()
        self._is_updating = False
        self._positions = np.arange(len(frame))
        self._grid = Grid(
            self.callback(self._sort), self.callback(self._select_row), self.callback(lambda _: self._copy())
        )
        self._pager = Pager(self.callback(lambda _: self._show()))
        super().__init__(self._controls())
        self._summarize()
        self._show()

    def _controls(self) -> list[Any]:
        self._search = TextBox(description="Search", placeholder="any text")
        self._column = Dropdown(
            description="Column",
            options=[("choose a column", None), *((plain(c), c) for c in _choices(self._frame))],
        )
        self._column.index = 0  # without a value, the browser would display nothing
        self._values = MultiSelect("Values", everything="all values")
        self._values.layout.display = "none"
        self._column_picker = MultiSelect("Columns", everything="all columns")
        self._column_picker.offer([(plain(one), str(one)) for one in self._frame.columns])
        self._code = Textarea(description="Code", disabled=True, rows=2, layout=Layout(width="auto"))
        clear = self.button("Clear", lambda _: self.clear())
        self._search.observe(self.callback(self._search_typed), "value")
        self._column.observe(self.callback(lambda change: self._offer_values(change["new"])), "value")
        self._values.observe(self.callback(self._pick_values), "value")
        self._column_picker.observe(self.callback(self._pick_columns), "value")
        picks = [self._search, self._column, self._values, self._column_picker, clear]
        return [with_classes(HBox(picks), "exposurekit-filters"), self._grid, self._pager, self._code]

    def show(self, frame: pd.DataFrame) -> None:
        """Display another table with the same columns; the filter stays, the selection is cleared."""
        self._frame, self._selected = frame.reset_index(drop=True), set()
        self._texts = TextIndex(self._frame)
        self._summarize()
        self._set_filter(self.filter)

    @property
    def frame(self) -> pd.DataFrame:
        """The filtered rows with the picked columns, sorted as displayed; a copy."""
        return self._visible().iloc[self._positions].copy()

    @property
    def selection(self) -> pd.DataFrame:
        """The selected rows, filtered or not; a copy.

        >>> len(ek.widgets.Explorer(exposure.records()).selection)
        0
        """
        return self._frame.iloc[sorted(self._selected)].copy()

    @property
    def code(self) -> str:
        """Code that returns the same rows in the notebook."""
        by, name = self.filter.sort, self._name_in_code
        as_text = by is not None and unordered(self._frame[by[0]])
        code = self.filter.code(name, columns=self.columns, as_text=as_text)
        if not self._is_arrow:
            return code
        table = f"pd.DataFrame.from_arrow({name})"
        return table if code == name else f"{table}.pipe(lambda {name}: {code})"

    def search(self, text: str) -> None:
        """Keep the rows in which any text contains this, in any case.

        >>> explorer = ek.widgets.Explorer(exposure.records())
        >>> explorer.search("no such text")
        >>> len(explorer.frame)
        0
        """
        self._set_filter(Filter(text.strip(), self.filter.chosen, self.filter.sort))
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
        if column not in self._frame.columns:
            raise InvalidArgument(f"no such column{_suggestion(column, self._frame.columns)}")
        if unordered(self._frame[column]):
            raise InvalidArgument("the column contains lists: search it, or filter it with pandas")
        is_one = isinstance(values, str) or not isinstance(values, Collection)
        selected: tuple[Any, ...] = (values,) if is_one else tuple(cast("Collection[object]", values))
        self._check_values(column, selected)
        others = {name: one for name, one in self.filter.chosen.items() if name != column}
        selection = others | ({column: selected} if selected else {})
        self._set_filter(Filter(self.filter.search, selection, self.filter.sort))

    def choose_columns(self, columns: Sequence[object]) -> None:
        """Display these columns, in the order of the table; an empty list displays all.

        Raises:
            InvalidArgument: The table has no such column.

        >>> explorer = ek.widgets.Explorer(exposure.records(), name="records")
        >>> explorer.choose_columns(["site", "status"])
        >>> explorer.code
        'records[["site", "status"]]'
        """
        if missing := [one for one in columns if one not in self._frame.columns]:
            raise InvalidArgument(f"no such column{_suggestion(missing[0], self._frame.columns)}")
        self.columns = tuple(one for one in self._frame.columns if one in columns)
        self._is_updating = True
        try:
            self._column_picker.value = tuple(map(str, self.columns))
        finally:
            self._is_updating = False
        self._show()

    def _check_values(self, column: str, values: tuple[Any, ...]) -> None:
        is_category = isinstance(self._frame[column].dtype, pd.CategoricalDtype)
        there = self._frame[column].cat.categories if is_category else self._frame[column].unique()
        missing = [
            value
            for value, is_there in zip(values, pd.Index(values).isin(there), strict=True)
            if not is_there
        ]
        if missing:  # values of other columns may be personal, and are not named
            nearest = (
                _suggestion(missing[0], there) if is_category else ": the column has another value or type"
            )
            raise InvalidArgument(f"no such value in {column}{nearest}")

    def clear(self) -> None:
        """Display the whole table again, without search, values, order and selection; the columns stay."""
        self._column.index, self._search.value = 0, ""
        self._selected = set()
        self._set_filter(Filter())

    def line(self) -> str:
        """How many rows are displayed and selected."""
        return f"Explorer: {self._counts()}"

    def _counts(self) -> str:
        return f"{len(self._positions):,} of {len(self._frame):,} rows, {len(self._selected)} selected"

    def _visible(self) -> pd.DataFrame:
        return self._frame[[*self.columns]] if self.columns else self._frame

    def to_html(self) -> str:
        """The first of the filtered rows, and the code.

        >>> "<table>" in ek.widgets.Explorer(exposure.records()).to_html()
        True
        """
        first = self._visible().iloc[self._positions[: static_html.ROWS]]
        table = static_html.table(first, caption=self._counts(), total=len(self._positions))
        return static_html.section(table, f'<p class="calls"><code>{escaped(self.code)}</code></p>')

    def _set_filter(self, new: Filter) -> None:
        self._positions = new.rows(self._frame, self._texts)
        self.filter, self._pager.page = new, 0
        self._show()

    def _sort(self, name: str) -> None:
        by = self.filter.sort
        column = next(one for one in self._frame.columns if str(one) == name)
        ascending = not (by and by[0] == column and by[1])
        self._set_filter(Filter(self.filter.search, self.filter.chosen, (column, ascending)))

    def _offer_values(self, column: str | None) -> None:
        """Offer the values of a column; those that are picked stay so."""
        options = [] if column is None else _choices(self._frame[[column]]).get(column, [])
        picked = () if column is None else self.filter.chosen.get(column, ())
        counts = {} if column is None else self._frame[column].value_counts().to_dict()
        self._is_updating = True
        try:
            self._values.layout.display = "none" if column is None else None
            self._values.offer([(plain(value)[:CELL_MAX], value) for value in options], picked, counts=counts)
        finally:
            self._is_updating = False

    def _pick_values(self, change: Any) -> None:
        column = self._column.value
        if column is not None and not self._is_updating:
            self.choose(column, change["new"])

    def _pick_columns(self, change: Any) -> None:
        if not self._is_updating:
            self.choose_columns([one for one in self._frame.columns if str(one) in change["new"]])

    def _copy(self) -> None:
        """Have the browser copy the filtered rows."""
        if len(self._positions) > COPY_MAX:
            self._grid.copy(None)
            raise InvalidArgument(
                f"More than {COPY_MAX:,} rows: filter them, or write explorer.frame to a file with ek.export"
            )
        self._grid.copy(as_csv(self.frame))

    def _summarize(self) -> None:
        self._summaries = dict(zip(map(str, self._frame.columns), summarize(self._frame), strict=True))

    def _search_typed(self, change: Any) -> None:
        if change["new"].strip() != self.filter.search:
            self.search(change["new"])

    def _select_row(self, row: tuple[int, bool]) -> None:
        index, selected = row
        self._selected = self._selected | {index} if selected else self._selected - {index}
        self._show()

    def _show(self) -> None:
        positions = self._positions[self._pager.rows(len(self._positions))]
        page = self._visible().iloc[positions]
        with self._grid.hold_sync():
            self._grid.columns = [str(name) for name in page.columns]
            self._grid.summaries = [self._summaries[name] for name in self._grid.columns]
            self._grid.rows = [
                [int(position), [_text(value) for value in row]]
                for position, row in zip(positions, page.itertuples(index=False), strict=True)
            ]
            by, ascending = self.filter.sort or (None, True)
            self._grid.sort = [*((None, True) if by is None else (str(by), ascending))]
            self._grid.selected = sorted(self._selected & {*map(int, positions)})
            self._grid.caption = self._counts()
        self._code.value = self.code


def _suggestion(name: object, names: Iterable[object]) -> str:
    by_key = {str(one).casefold(): str(one) for one in names}
    nearest = get_close_matches(str(name).casefold(), by_key, n=1)
    if nearest:
        return f": did you mean {plain(by_key[nearest[0]])!r}?"
    return f": use one of {', '.join(plain(one) for one in list(by_key.values())[:20])}" if by_key else ""


def _choices(frame: pd.DataFrame) -> dict[Any, list[Any]]:
    choices = {}
    for column in frame.columns:
        if unordered(frame[column]):
            continue  # lists cannot be picked
        values = frame[column].dropna().drop_duplicates()
        if 0 < len(values) <= CHOICES_MAX:
            with contextlib.suppress(TypeError):  # values without an order are searched, too
                choices[column] = sorted(values.tolist())
    return choices


def _text(value: object) -> str:
    if is_missing(value):
        return "—"
    text = ", ".join(map(str, value)) if isinstance(value, (list, tuple, np.ndarray)) else str(value)
    return plain(text)[:CELL_MAX]
