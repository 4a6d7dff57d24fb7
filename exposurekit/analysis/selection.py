"""Row selection by user id; and by site, status or kind of data, ignoring case."""

import contextlib
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pandas as pd

from exposurekit.analysis.statuses import NOT_LISTED, OPEN, is_open
from exposurekit.contract.types import STATUSES
from exposurekit.errors import InvalidArgument
from exposurekit.text.html_cards import NAME_MAX, truncate
from exposurekit.text.sanitize import plain

Choice: TypeAlias = str | Iterable[str] | None
UserIds: TypeAlias = int | Iterable[int] | None


def select(table: pd.DataFrame, choices: Mapping[str, Choice]) -> tuple[pd.DataFrame, list[str]]:
    """Select the rows that match one value or several per column (None: any), and warn of values that do not occur.

    In a column of lists, any element may match. The status ``open`` is every open one. A warning names the closest value
    that does occur.
    """
    mask = pd.Series(data=True, index=table.index)
    warnings = []
    for column, choice in choices.items():
        if choice is None:
            continue
        chosen = _casefolded(column, choice)
        values = table[column].explode()
        present = values.dropna().unique()
        matching = values.isin([value for value in present if str(value).casefold() in chosen])
        if column == "status" and OPEN in chosen:
            matching |= is_open(values)
        absent = chosen - {str(value).casefold() for value in present} - {*STATUSES, *NOT_LISTED, OPEN}
        if absent:
            warnings.append(_no_match(column, absent, present))
        mask &= matching.groupby(level=0).any()
    return table[mask].reset_index(drop=True), warnings


def _casefolded(column: str, choice: str | Iterable[str]) -> set[str]:
    values = [choice] if isinstance(choice, str) else [*choice] if isinstance(choice, Iterable) else [None]
    if not all(isinstance(value, str) for value in values):
        raise InvalidArgument(f"invalid {column}: pass a string or several, such as {column}=['...', '...']")
    return {str(value).casefold() for value in values}


def _no_match(column: str, absent: set[str], present: Iterable[object]) -> str:
    by_folded = {plain(value).casefold(): plain(value) for value in present}
    close = [by_folded[match] for word in absent for match in difflib.get_close_matches(word, by_folded, 1)]
    hint = f" Did you mean {truncate(close[0], NAME_MAX)!r}?" if close else ""
    missing = ", ".join(sorted(truncate(plain(word), NAME_MAX) for word in absent))
    return f"No row has this {column}: {missing}.{hint}"


def user_ids(user: Any) -> list[int]:
    """Return one user id, or several, as a list.

    >>> user_ids(np.int64(3)), user_ids([1, 2])
    ([3], [1, 2])
    """
    ids: list[int] = []
    if not isinstance(user, str | bytes | bool | pd.DataFrame):
        several = list(user) if isinstance(user, Iterable) else [user]
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            ids = [int(one) for one in several]
        if ids == several and all(-(2**63) <= one < 2**63 for one in ids):
            return ids
    raise InvalidArgument(
        "user is the id of a person, or a list of ids: exposure.users(name) finds the id by name"
    )
