"""Row selection by user id; and by site, status or kind of data, ignoring case."""

import contextlib
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pandas as pd

from exposurekit.analysis.statuses import NOT_LISTED, OPEN, is_open
from exposurekit.contract.types import STATUSES
from exposurekit.errors import InvalidArgument, warn
from exposurekit.text.html_cards import NAME_MAX, truncate
from exposurekit.text.sanitize import plain

_LISTED_MAX = 8  # values that a warning lists, if none is close to what was asked for

Choice: TypeAlias = str | Iterable[str] | None
UserIds: TypeAlias = int | Iterable[int] | None


class NoMatch(UserWarning):
    """A value that was asked for does not occur."""


def select_or_warn(table: pd.DataFrame, choices: Mapping[str, Choice]) -> pd.DataFrame:
    """Return the rows that `select` does; each value that does not occur gives a warning, `NoMatch`."""
    rows, warnings = select(table, choices)
    for warning in warnings:
        warn(warning, NoMatch)
    return rows


def select(table: pd.DataFrame, choices: Mapping[str, Choice]) -> tuple[pd.DataFrame, list[str]]:
    """Select the rows that match one value or several per column (None: any), and say which values do not occur.

    In a column of lists, any element may match. The status ``open`` is every open one. A text names the closest value
    that does occur, or all if they are few.
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
        occurring = {str(value).casefold() for value in present} | {*STATUSES, *NOT_LISTED, OPEN}
        if absent := [typed for folded, typed in chosen.items() if folded not in occurring]:
            warnings.append(_no_match(column, absent, present))
        mask &= matching.groupby(level=0).any()
    return table[mask].reset_index(drop=True), warnings


def _casefolded(column: str, choice: str | Iterable[str]) -> dict[str, str]:
    """Return the values by their case-folded form."""
    values = [choice] if isinstance(choice, str) else [*choice] if isinstance(choice, Iterable) else [None]
    if not all(isinstance(value, str) for value in values):
        raise InvalidArgument(f"invalid {column}: pass a string or several, such as {column}=['...', '...']")
    return {str(value).casefold(): str(value) for value in values}


def _no_match(column: str, absent: Iterable[str], present: Iterable[object]) -> str:
    by_folded = {plain(value).casefold(): truncate(plain(value), NAME_MAX) for value in present}
    words = by_folded | ({value: value for value in (*STATUSES, OPEN)} if column == "status" else {})
    close = [words[match] for word in absent if (match := _closest(word.casefold(), words))]
    if close:
        hint = f" Did you mean {close[0]!r}?"
    else:
        hint = (
            f" The values are: {', '.join(by_folded.values())}." if 0 < len(by_folded) <= _LISTED_MAX else ""
        )
    missing = " or ".join(sorted(repr(truncate(plain(word), NAME_MAX)) for word in absent))
    sentence = (
        f"No listing is on a site named {missing}"
        if column == "site"
        else f"No row has the {column} {missing}"
    )
    return f"{sentence}.{hint}"


def _closest(typed: str, words: Iterable[str]) -> str | None:
    """Return the word that is most like what was typed, as a whole or at its beginning."""
    candidates: dict[str, str] = {}
    for word in words:
        candidates |= {word[: len(typed)]: candidates.get(word[: len(typed)], word), word: word}
    close = difflib.get_close_matches(typed, candidates, 1)
    return candidates[close[0]] if close else None


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
