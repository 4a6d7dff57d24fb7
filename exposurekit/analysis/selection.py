"""The rows of a table that are of some sites, statuses or kinds of data; upper and lower case are the same."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pandas as pd

from exposurekit.analysis.statuses import NOT_LISTED
from exposurekit.contract.types import STATUSES
from exposurekit.errors import InvalidArgument
from exposurekit.text.html_cards import NAME_MAX, truncate
from exposurekit.text.sanitize import plain

Choice: TypeAlias = str | Iterable[str] | None


def select(table: pd.DataFrame, choices: Mapping[str, Choice]) -> tuple[pd.DataFrame, list[str]]:
    """Keep the rows whose columns have one of the values chosen for them.

    Args:
        table: A table with these columns; a column of lists has every value of its lists.
        choices: For each column one value or several; None: any.

    Returns:
        The rows that are left, numbered anew; and a sentence for each column of which no row has one of the values, with
        the nearest value that there is.

    Raises:
        InvalidArgument: A choice is neither a text nor several.

    >>> from exposurekit.analysis.selection import select
    >>> rows, doubts = select(exposure.records(), {"site": "nosy hern", "status": None})
    >>> len(rows), doubts
    (0, ["No row has this site: nosy hern; the nearest is 'Nosy Heron'."])
    """
    kept = pd.Series(data=True, index=table.index)
    doubts = []
    for column, choice in choices.items():
        if choice is None:
            continue
        wanted = _folded(column, choice)
        values = table[column].explode()
        present = values.dropna().unique()
        matching = values.isin([value for value in present if str(value).casefold() in wanted])
        absent = wanted - {str(value).casefold() for value in present} - {*STATUSES, *NOT_LISTED}
        if absent:
            doubts.append(_doubt(column, absent, present))
        kept &= matching.groupby(level=0).any()
    return table[kept].reset_index(drop=True), doubts


def _folded(column: str, choice: str | Iterable[str]) -> set[str]:
    values = [choice] if isinstance(choice, str) else [*choice] if isinstance(choice, Iterable) else [None]
    if not all(isinstance(value, str) for value in values):
        raise InvalidArgument(f"{column} takes a text or several, such as {column}=['...', '...']")
    return {str(value).casefold() for value in values}


def _doubt(column: str, wanted: set[str], present: Iterable[object]) -> str:
    known = {plain(value).casefold(): plain(value) for value in present}
    near = [known[match] for word in wanted for match in difflib.get_close_matches(word, known, 1)]
    nearest = f"; the nearest is {truncate(near[0], NAME_MAX)!r}" if near else ""
    missing = ", ".join(sorted(truncate(plain(word), NAME_MAX) for word in wanted))
    return f"No row has this {column}: {missing}{nearest}."
