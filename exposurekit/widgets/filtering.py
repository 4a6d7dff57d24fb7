"""A filter over a table, as a value: what is asked, which rows it leaves, and the code that says the same. Shows nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Filter:
    """What is asked of a table.

    Attributes:
        search: A text that any column of text holds, in any case.
        chosen: For a column, the values of which one is wanted.
        sort: A column, and whether it ascends.
    """

    search: str = ""
    chosen: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    sort: tuple[str, bool] | None = None

    def rows(self, frame: pd.DataFrame, texts: "TextIndex") -> NDArray[np.int64]:
        """The places of the rows that are left, in order.

        Args:
            frame: The table.
            texts: Of the same table.
        """
        kept = np.ones(len(frame), "bool")
        for column, values in self.chosen.items():
            kept &= frame[column].isin(list(values)).to_numpy("bool")
        if self.search:
            kept &= texts.holding(self.search)
        places = np.flatnonzero(kept).astype("int64")
        if self.sort is None:
            return places
        column, ascending = self.sort
        order = frame[column].iloc[places].reset_index(drop=True)
        by = order.astype("str") if unordered(frame[column]) else order
        sorted_places = by.sort_values(ascending=ascending, kind="stable", na_position="last").index
        return np.asarray(places[sorted_places.to_numpy()], "int64")

    def code(self, name: str = "frame", *, as_text: bool = False) -> str:
        """The same as code, which a notebook can run again; where a value is an instant, it asks for ``pd``.

        Args:
            name: What the table is called there.
            as_text: Whether the column that it is sorted by is `unordered`.

        >>> from exposurekit.widgets.filtering import Filter
        >>> Filter(chosen={"site": ("Seekfolk",)}, sort=("user_id", False)).code("records")
        "records[records['site'].isin(['Seekfolk'])].sort_values('user_id', ascending=False, kind='stable')"
        """
        conditions = [
            f"{name}[{column!r}].isin([{', '.join(map(_coded, values))}])"
            for column, values in self.chosen.items()
        ]
        if self.search:
            held = f".str.casefold().str.contains({self.search.casefold()!r}, regex=False, na=False)"
            texts = f"{name}.select_dtypes(['str', 'category']).astype('str')"
            conditions.append(f"{texts}.apply(lambda text: text{held}).any(axis=1)")
        kept = " & ".join(f"({one})" for one in conditions) if len(conditions) > 1 else "".join(conditions)
        code = f"{name}[{kept}]" if kept else name
        if self.sort is not None:
            key = ", key=lambda column: column.astype('str')" if as_text else ""
            code += f".sort_values({self.sort[0]!r}, ascending={self.sort[1]}, kind='stable'{key})"
        return code


def unordered(column: "pd.Series[Any]") -> bool:
    """Whether the values of a column have no order: they are lists, or of several kinds. These are sorted as text.

    >>> from exposurekit.widgets.filtering import unordered
    >>> unordered(exposure.records()["aliases"]), unordered(exposure.records()["site"])
    (True, False)
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        return column.dtype.kind == "O"
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True).startswith("mixed")


def _coded(value: object) -> str:
    """A value as code that gives it again."""
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, (pd.Timestamp, pd.Timedelta)):
        return f"pd.{value!r}"
    return f"pd.Timestamp({str(value)!r}).date()" if isinstance(value, date) else repr(value)


def _folded(texts: "pd.Series[str]") -> "pd.Series[str]":
    """As ``.str.casefold()``, which is slow: texts of ASCII alone are the same in small letters."""
    folded, other = texts.str.lower(), ~texts.str.isascii()
    folded[other] = texts[other].str.casefold()
    return folded


class TextIndex:
    """The texts of a table, made ready at the first search: each is then looked through once, however often it is there."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @cached_property
    def _columns(self) -> list[tuple[NDArray[np.int64], "pd.Series[str]"]]:
        texts = self._frame.select_dtypes(["str", "category"])
        found = [pd.factorize(texts[column].astype("str")) for column in texts.columns]
        return [(codes.astype("int64"), _folded(pd.Series(values, dtype="str"))) for codes, values in found]

    def holding(self, text: str) -> NDArray[np.bool_]:
        """Whether each row holds a text anywhere."""
        found = np.zeros(len(self._frame), "bool")
        for codes, values in self._columns:
            held = values.str.contains(text.casefold(), regex=False).to_numpy("bool")
            found |= np.append(held, False)[codes]
        return found
