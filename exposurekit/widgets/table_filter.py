"""A filter over a table as a value: its rows, and the same filter as code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Filter:
    """A search, picked values and an order.

    Attributes:
        search: A text that some text column contains, in any case.
        chosen: For each column, the values to keep.
        sort: A column, and whether it is ascending.
    """

    search: str = ""
    chosen: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    sort: tuple[str, bool] | None = None

    def rows(self, frame: pd.DataFrame, texts: "TextIndex") -> NDArray[np.int64]:
        """The positions of the matching rows, in order.

        Args:
            frame: The table.
            texts: The index of the same table.
        """
        matches = np.ones(len(frame), "bool")
        for column, picked in self.chosen.items():
            matches &= frame[column].isin(list(picked)).to_numpy("bool")
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
