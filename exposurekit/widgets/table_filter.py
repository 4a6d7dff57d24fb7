"""A filter over a table as a value: its rows, and the same filter as code."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.errors import InvalidArgument

Kind = Literal["number", "day", "instant"]  # of values that have a range
End = int | float | date | pd.Timestamp | None


@dataclass(frozen=True, slots=True)
class Range:
    """The values from one end to the other, both included.

    Attributes:
        low: The least value; None: there is no lower end.
        high: The greatest value; None: there is no upper end.
        is_before: Whether ``high`` itself is left out, as is the instant after a day.
    """

    low: End = None
    high: End = None
    is_before: bool = False

    def conditions(self) -> list[tuple[str, End]]:
        """Comparisons with the ends that there are: an operator, and a value."""
        ends = ((">=", self.low), ("<" if self.is_before else "<=", self.high))
        return [(sign, value) for sign, value in ends if value is not None]

    def contains(self, column: "pd.Series[Any]") -> NDArray[np.bool_]:
        """Whether each value of a column lies in the range; a missing one does not."""
        matches = np.ones(len(column), "bool")
        for sign, value in self.conditions():
            is_inside = (
                column.ge(value) if sign == ">=" else column.lt(value) if sign == "<" else column.le(value)
            )
            matches &= is_inside.to_numpy("bool", na_value=False)
        return matches


def read_range(kind: Kind, zone: tzinfo | None, low: object, high: object) -> Range:
    """Read the ends of a range, which are values or the text of a box; empty text is no end.

    Args:
        kind: What the column has.
        zone: Of its instants; None: they have none.
        low: A number; or a day, from its beginning; or an instant. Text is ISO 8601.
        high: The same; a day is meant until its end.

    Raises:
        InvalidArgument: An end is not of that kind.

    >>> from exposurekit.widgets.table_filter import read_range
    >>> read_range("number", None, "18", "")
    Range(low=18, high=None, is_before=False)
    """
    if kind == "number":
        return Range(_number(low), _number(high))
    if kind == "day":
        return Range(_day(low), _day(high))
    end = _read(high)
    is_day = end is not None and not isinstance(end, datetime)
    until = end + timedelta(days=1) if end is not None and is_day else end
    return Range(_instant(_read(low), zone), _instant(until, zone), is_day)


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _number(value: object) -> int | float | None:
    if _is_blank(value):
        return None
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, str):
        for read in (int, float):
            with contextlib.suppress(ValueError):
                number = read(number)
                break
    if isinstance(number, int | float) and not isinstance(number, bool) and not math.isnan(number):
        return number
    raise InvalidArgument("an end of a range of numbers is a number, such as 18 or 0.5")


def _read(value: object) -> date | None:
    """A day, or an instant."""
    if _is_blank(value):
        return None
    if isinstance(value, str):
        for read in (date.fromisoformat, datetime.fromisoformat):
            with contextlib.suppress(ValueError):
                return read(value.strip())
    if isinstance(value, date) and not pd.isna(value):
        return value
    raise InvalidArgument(
        "an end of a range of dates is a day or an instant, such as 2026-11-13 or 2026-11-13T12:00"
    )


def _day(value: object) -> date | None:
    one = _read(value)
    return one.date() if isinstance(one, datetime) else one


def _instant(value: date | None, zone: tzinfo | None) -> pd.Timestamp | None:
    if value is None:
        return None
    instant = pd.Timestamp(value)
    if zone is not None:
        return instant.tz_localize(zone) if instant.tzinfo is None else instant.tz_convert(zone)
    return instant if instant.tzinfo is None else instant.tz_convert(UTC).tz_localize(None)


@dataclass(frozen=True, slots=True)
class Filter:
    """A search, picked values, ranges and an order.

    Attributes:
        search: A text that some text column contains, in any case.
        chosen: For each column, the values to keep.
        ranges: For each column, the range of the values to keep.
        sort: A column, and whether it is ascending.
    """

    search: str = ""
    chosen: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    sort: tuple[str, bool] | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)

    def rows(self, frame: pd.DataFrame, texts: "TextIndex") -> NDArray[np.int64]:
        """The positions of the matching rows, in order.

        Args:
            frame: The table.
            texts: The index of the same table.
        """
        matches = np.ones(len(frame), "bool")
        for column, picked in self.chosen.items():
            matches &= frame[column].isin(list(picked)).to_numpy("bool")
        for column, limits in self.ranges.items():
            matches &= limits.contains(frame[column])
        if self.search:
            matches &= texts.contains(self.search)
        positions = np.flatnonzero(matches).astype("int64")
        if self.sort is None:
            return positions
        column, ascending = self.sort
        values = frame[column].iloc[positions].reset_index(drop=True)
        keys = values.astype("str") if unordered(frame[column]) else values
        order = keys.sort_values(ascending=ascending, kind="stable", na_position="last").index
        return np.asarray(positions[order.to_numpy()], "int64")

    def code(self, name: str = "frame", *, columns: Sequence[Any] = (), as_text: bool = False) -> str:
        """The same filter as code for a notebook, which may need ``pd``.

        Args:
            name: The name of the table there.
            columns: The columns to keep; empty: all.
            as_text: Whether the sort column is `unordered`.

        >>> from exposurekit.widgets.table_filter import Filter
        >>> Filter(chosen={"site": ("Seekfolk",)}, sort=("user_id", False)).code("records")
        'records[records["site"] == "Seekfolk"].sort_values("user_id", ascending=False, kind="stable")'
        """
        conditions = [
            _condition(f"{name}[{literal(column)}]", values) for column, values in self.chosen.items()
        ]
        conditions += [
            f"{name}[{literal(column)}] {sign} {literal(value)}"
            for column, limits in self.ranges.items()
            for sign, value in limits.conditions()
        ]
        if self.search:
            text = literal(self.search.casefold())
            contains = f'column.astype("str").str.casefold().str.contains({text}, regex=False, na=False)'
            texts = f'{name}.select_dtypes(["str", "category"])'
            conditions.append(f"{texts}.apply(lambda column: {contains}).any(axis=1)")
        condition = (
            " & ".join(f"({one})" for one in conditions) if len(conditions) > 1 else "".join(conditions)
        )
        code = f"{name}[{condition}]" if condition else name
        if self.sort is not None:
            column, ascending = self.sort
            order = "" if ascending else ", ascending=False"
            key = ', key=lambda column: column.astype("str")' if as_text else ""
            code += f'.sort_values({literal(column)}{order}, kind="stable"{key})'
        return f"{code}[[{', '.join(map(literal, columns))}]]" if columns else code


def _condition(column: str, values: Sequence[Any]) -> str:
    if len(values) == 1 and not isinstance(values[0], (bool, np.bool_)):
        return f"{column} == {literal(values[0])}"
    return f"{column}.isin([{', '.join(map(literal, values))}])"


def unordered(column: "pd.Series[Any]") -> bool:
    """Whether the values of a column have no order, because they are lists or of mixed types; they are sorted as text.

    >>> from exposurekit.widgets.table_filter import unordered
    >>> unordered(exposure.records()["aliases"]), unordered(exposure.records()["site"])
    (True, False)
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        return column.dtype.kind == "O"
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True).startswith("mixed")


def literal(value: object) -> str:
    """A value as code, with double quotes as a formatter has them.

    >>> from exposurekit.widgets.table_filter import literal
    >>> literal("Seekfolk"), literal(7)
    ('"Seekfolk"', '7')
    """
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, (pd.Timestamp, pd.Timedelta)):
        return f"pd.{value!r}".replace("'", '"')
    if isinstance(value, date):
        return f'pd.Timestamp("{value}").date()'
    code = repr(value)
    is_plain = isinstance(value, str) and code[0] == "'" and '"' not in code and "\\'" not in code
    return f'"{code[1:-1]}"' if is_plain else code


def _folded(texts: "pd.Series[str]") -> "pd.Series[str]":
    """Like ``.str.casefold()``, but faster: for ASCII texts it is the same as lower case."""
    folded, other = texts.str.lower(), ~texts.str.isascii()
    folded[other] = texts[other].str.casefold()
    return folded


class TextIndex:
    """The distinct texts of a table, prepared at the first search, so that each text is searched once."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @cached_property
    def _columns(self) -> list[tuple[NDArray[np.int64], "pd.Series[str]"]]:
        texts = self._frame.select_dtypes(["str", "category"])
        factors = [pd.factorize(texts[column].astype("str")) for column in texts.columns]
        return [(codes.astype("int64"), _folded(pd.Series(values, dtype="str"))) for codes, values in factors]

    def contains(self, text: str) -> NDArray[np.bool_]:
        """Whether each row contains a text in any column."""
        matches = np.zeros(len(self._frame), "bool")
        for codes, values in self._columns:
            is_match = values.str.contains(text.casefold(), regex=False).to_numpy("bool")
            matches |= np.append(is_match, False)[codes]  # missing values have the code -1
        return matches
