"""A table in memory as an explorer needs it: a page, the values of a column, and the rows of a filter."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.errors import InvalidArgument
from exposurekit.text.sanitize import plain
from exposurekit.widgets.column_summary import Summary, summarize
from exposurekit.widgets.table_filter import Filter, Kind, TextIndex, unordered

CHOICES_MAX = 200  # a column with more distinct values is searched, not picked from
LISTS = "the column contains lists: search it, or filter it in code"
Row = tuple[int, list[Any]]  # its number, and its values


class FrameTable:
    """A DataFrame.

    Args:
        frame: The rows. Labels in the index, such as those that `groupby` makes, are columns here; numbers without a name
            are not.
        name: Its name in the code.
        is_arrow: Whether that name is a table of another library in the notebook.
    """

    has_row_numbers = True

    def __init__(self, frame: pd.DataFrame, name: str, *, is_arrow: bool = False) -> None:
        has_labels = not is_arrow and _has_labels(frame)
        self._frame, self._name, self._is_arrow = frame.reset_index(drop=not has_labels), name, is_arrow
        self._source = (
            f"ek.frames.from_arrow({name})" if is_arrow else f"{name}.reset_index()" if has_labels else name
        )
        self._texts = TextIndex(self._frame)
        self._filter, self._positions = Filter(), np.arange(len(frame))
        self.columns: list[Any] = [*self._frame.columns]
        self.n_rows = len(frame)

    def with_frame(self, frame: pd.DataFrame) -> "FrameTable":
        """Return the same with other rows."""
        return FrameTable(frame, self._name, is_arrow=self._is_arrow)

    def summaries(self) -> list[Summary]:
        """Summarize each column."""
        return summarize(self._frame)

    def count(self, selection: Filter) -> int:
        """Count the rows of a filter."""
        return len(self._matching(selection))

    def page(self, selection: Filter, columns: Sequence[Any], begin: int, size: int) -> list[Row]:
        """Return some of the rows of a filter."""
        positions = self._matching(selection)[begin : begin + size]
        rows = self._frame[[*columns]].iloc[positions].itertuples(index=False)
        return [(int(position), [*row]) for position, row in zip(positions, rows, strict=True)]

    def frame(self, selection: Filter, columns: Sequence[Any], limit: int | None = None) -> pd.DataFrame:
        """Return all rows of a filter, or the first ``limit``; a copy."""
        positions = self._matching(selection)[:limit]
        frame = self._frame if [*columns] == self.columns else self._frame[[*columns]]
        return frame.iloc[positions].copy()

    def batches(self, selection: Filter, columns: Sequence[Any]) -> Iterator[pd.DataFrame]:
        """Yield all rows of a filter."""
        yield self.frame(selection, columns)

    def rows(self, numbers: Iterable[int]) -> pd.DataFrame:
        """Return the rows with these numbers; a copy."""
        return self._frame.iloc[sorted(numbers)].copy()

    def code(self, selection: Filter, columns: Sequence[Any]) -> str:
        """Return code that selects the same rows and columns."""
        by, name = selection.sort, self._name
        as_text = by is not None and unordered(self._frame[by[0]])
        chosen = () if [*columns] == self.columns else columns
        code = selection.code(name, columns=chosen, as_text=as_text)
        if self._source == name:
            return code
        if code == name:
            return self._source
        return f"{self._source}.pipe(lambda {name}: {code})"

    def available(self) -> list[Any]:
        """Return the columns whose values can be picked."""
        return [column for column in self.columns if self._distinct(column)]

    def range_of(self, column: Any) -> tuple[Kind, tzinfo | None] | None:
        """Return of which kind the values of a column are, and the zone of instants; None: they have no range."""
        dtype = self._frame[column].dtype
        types = pd.api.types
        if types.is_numeric_dtype(dtype):
            return None if types.is_bool_dtype(dtype) or types.is_complex_dtype(dtype) else ("number", None)
        if types.is_datetime64_any_dtype(dtype):
            return "instant", self._frame[column].dt.tz
        return None

    def values(self, column: Any) -> dict[Any, int]:
        """Return the values of a column that can be picked, in order, each with the number of its rows."""
        counts = self._frame[column].value_counts().to_dict()
        return {value: counts.get(value, 0) for value in self._distinct(column)}

    def check_values(self, column: Any, values: Sequence[Any]) -> None:
        """Raise `InvalidArgument` if the column has lists, or none of these values."""
        if unordered(self._frame[column]):
            raise InvalidArgument(LISTS)
        is_category = isinstance(self._frame[column].dtype, pd.CategoricalDtype)
        distinct = self._frame[column].cat.categories if is_category else self._frame[column].unique()
        is_there = pd.Index(values).isin(distinct)
        missing = [value for value, there in zip(values, is_there, strict=True) if not there]
        if missing:
            raise no_such_value(column, missing[0], distinct if is_category else None)

    def _distinct(self, column: Any) -> list[Any]:
        if unordered(self._frame[column]):
            return []  # lists cannot be picked
        values = self._frame[column].dropna().drop_duplicates()
        if len(values) <= CHOICES_MAX:
            with contextlib.suppress(TypeError):  # values without an order are searched, too
                return sorted(values.tolist())
        return []

    def _matching(self, selection: Filter) -> NDArray[np.int64]:
        if selection != self._filter:
            self._filter, self._positions = selection, selection.rows(self._frame, self._texts)
        return self._positions


def _has_labels(frame: pd.DataFrame) -> bool:
    """Whether the index of a table tells something that its columns do not."""
    index = frame.index
    is_single = index.nlevels == 1
    if is_single and index.name is None and pd.api.types.is_integer_dtype(index.dtype):
        return False
    unnamed = ["index"] if is_single else [f"level_{level}" for level in range(index.nlevels)]
    names = [other if name is None else name for name, other in zip(index.names, unnamed, strict=True)]
    return {*map(str, names)}.isdisjoint(map(str, frame.columns))


def no_such_value(column: Any, value: Any, values: Iterable[Any] | None) -> InvalidArgument:
    """Return the error about a value that a column does not have; with its values, unless they may be personal."""
    nearest = ": the column has another value or type" if values is None else suggestion(value, values)
    return InvalidArgument(f"no such value in {plain(column)}{nearest}")


def suggestion(name: object, names: Iterable[object]) -> str:
    """Return what an error says about a wrong name: the nearest, or all of a few."""
    by_key = {str(one).casefold(): str(one) for one in names}
    nearest = get_close_matches(str(name).casefold(), by_key, n=1)
    if nearest:
        return f": did you mean {plain(by_key[nearest[0]])!r}?"
    return f": use one of {', '.join(plain(one) for one in list(by_key.values())[:20])}" if by_key else ""
