"""Format table cells and counts as text, the same in widgets, reports and files; without escaping."""

import re
import unicodedata
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_any_real_numeric_dtype

from exposurekit.text import plurals

MISSING = "—"
NO_VALUE = "not known"
LIST_SEPARATOR = "; "  # in files: addresses and steps contain commas


def format_value(value: object) -> str:
    """Format a value as text; a missing value is a dash."""
    if isinstance(value, str):
        return str(value)
    if _is_list(value):
        return str(join_list(value, ", "))
    if is_missing(value):
        return MISSING
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, Real) and not isinstance(value, bool):
        return _number(value)
    return str(value)


def _number(value: Real) -> str:
    if isinstance(value, Integral):
        return f"{int(value):,}"
    number = float(value)
    # From 1,000 on, three digits would be in scientific notation.
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:,.3g}"  # noqa: PLR2004


pluralize = plurals.pluralize


def percent(share: float) -> str:
    """Format a share as a percentage; only exact 0 and 1 become 0% and 100%.

    >>> from exposurekit.text.formatting import percent
    >>> percent(0.254), percent(0.001), percent(0.999), percent(float("nan"))
    ('25%', 'under 1%', 'over 99%', 'not known')
    """
    if is_missing(share):
        return NO_VALUE
    if 0 < share <= 0.005:  # noqa: PLR2004  would round to 0%
        return "under 1%"
    return "over 99%" if 0.995 <= share < 1 else f"{share:.0%}"  # noqa: PLR2004  would round to 100%


def enumerate_words(words: Sequence[str], conjunction: str = "and") -> str:
    """Join words to a phrase.

    >>> from exposurekit.text.formatting import enumerate_words
    >>> enumerate_words(["address"]), enumerate_words(["address", "phone", "email"])
    ('address', 'address, phone and email')
    """
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def is_missing(value: object) -> bool:
    """Return whether a cell is missing; a list never is."""
    return not hasattr(value, "__len__") and bool(pd.isna(value))  # type: ignore[call-overload]


def rows(table: pd.DataFrame) -> list[list[str]]:
    """Format all cells of a table, row by row."""
    columns = [
        [format_value(cell) for cell in table.iloc[:, index].tolist()] for index in range(table.shape[1])
    ]
    return [[*row] for row in zip(*columns, strict=True)]


def join_list(value: Any, separator: str = LIST_SEPARATOR) -> Any:
    """Join a list to one text; return any other value unchanged."""
    return separator.join(map(str, value)) if _is_list(value) else value


def exploded(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """The items of a column of lists, a row each, under the index of their list; lists that a file holds as text, too.

    >>> from exposurekit.text.formatting import exploded
    >>> exploded(pd.Series(["email; address", "phone"])).tolist()
    ['email', 'address', 'phone']
    """
    return as_lists(column).explode()


def as_lists(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """A column of lists; a cell that a file holds as text is split."""
    if isinstance(column.dtype, pd.ArrowDtype):
        return column
    lists = [cell.split(LIST_SEPARATOR) if isinstance(cell, str) else cell for cell in column]
    return pd.Series(lists, column.index, dtype="object", name=column.name)


def _is_list(value: object) -> bool:
    # pandas returns the lists of an Arrow column as arrays, too.
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)


def escape_formula(value: Any) -> Any:
    """Escape text that a spreadsheet would read as a formula; join a list to one text, each item escaped.

    Source: OWASP, CSV Injection.
    """
    if _is_list(value):
        return join_list([escape_formula(str(item)) for item in value])
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ")  # some readers end the row there
    first, *others = _CELLS.split(text)
    # Quotation marks are doubled in CSV, and a reader drops them before it looks for a formula.
    escaped_cells = [f"'{cell}" if _is_formula(cell.replace('"', "")) else cell for cell in others]
    return "".join(["'" if _is_formula(text) else "", first, *escaped_cells])


def _is_formula(text: str) -> bool:
    return _visible(text).lstrip().startswith(_FORMULA)


def _visible(text: str) -> str:
    """Return the visible characters; spreadsheets read full-width signs as plain ones."""
    if text.isascii() and text.isprintable():
        return text
    visible = "".join(one for one in text if unicodedata.category(one) not in {"Cc", "Cf"})
    return unicodedata.normalize("NFKC", visible)


_FORMULA = ("=", "+", "-", "@", "|", "%")
# A semicolon, a tab or a line end may start a new cell.
_CELLS = re.compile(r"(?<=[;\t\n])")


def as_csv(table: pd.DataFrame, *, header: bool = True) -> str:
    r"""Write a table as CSV with formulas escaped; missing values are empty."""
    columns = [cells if is_any_real_numeric_dtype(cells) else _defused(cells) for _, cells in table.items()]
    names = [escape_formula(str(name)) for name in table.columns]
    whole = pd.concat(columns, axis=1) if columns else table
    return whole.to_csv(index=False, header=names if header else False, lineterminator="\n")


def _defused(cells: "pd.Series[Any]") -> "pd.Series[Any]":
    if isinstance(cells.dtype, pd.ArrowDtype):  # its `map` rounds large integers in lists
        return pd.Series([*map(escape_formula, cells)], index=cells.index, dtype="object")
    return cells.map(escape_formula, na_action="ignore").astype("object")
