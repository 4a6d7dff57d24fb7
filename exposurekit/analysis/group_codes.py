"""Group codes, counts in numbered cells, and instants as UTC microseconds."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.statuses import OTHER
from exposurekit.errors import InvalidArgument

Ints = NDArray[np.int64]
Instants = NDArray[np.datetime64]
UTC_INSTANT = pd.DatetimeTZDtype("us", "UTC")


def instants(at: "pd.Series[Any]") -> Instants:
    """Convert a column of instants to UTC microseconds without a zone; naive instants are UTC."""
    if not isinstance(at.dtype, pd.DatetimeTZDtype):
        try:
            at = pd.to_datetime(at, utc=True)
        except ValueError:
            raise InvalidArgument(f"{at.name} must be dates: pd.to_datetime(table['{at.name}'])") from None
    return at.to_numpy("datetime64[us]")


def instant(at: datetime) -> np.datetime64:
    """Convert one instant to UTC microseconds without a zone; a naive instant is UTC."""
    try:
        timestamp = pd.Timestamp(at)
    except (ValueError, TypeError):
        raise InvalidArgument("the instant must be a datetime, or a text such as 2026-03-20T12:00Z") from None
    naive = timestamp if timestamp.tz is None else timestamp.tz_convert(None)
    converted: np.datetime64 = naive.to_datetime64().astype("datetime64[us]")
    return converted


def utc_index(at: Instants) -> pd.DatetimeIndex:
    """Convert UTC microseconds without a zone to datetime64[us, UTC]."""
    return pd.DatetimeIndex(at.astype("datetime64[us]")).tz_localize("UTC")


def group_codes(table: pd.DataFrame, by: str | None) -> tuple["pd.Series[Any]", Ints]:
    """Return the groups, ascending, and the group number of each row; without `by` there is one unnamed group.

    Columns that end in ``_id`` give int64 groups, all others text.
    """
    if by is None:
        return pd.Series([0]), np.zeros(len(table), "int64")
    kind: Literal["int64", "str"] = "int64" if by.endswith("_id") else "str"
    codes, uniques = pd.factorize(table[by], use_na_sentinel=False)  # each distinct value is converted once
    ranks, names = pd.factorize(pd.Series(uniques, dtype=kind), sort=True, use_na_sentinel=False)
    return pd.Series(names, dtype=kind, name=by), ranks.astype("int64")[codes]


def column_codes(status: "pd.Series[Any]", columns: Sequence[str]) -> Ints:
    """Return the column number of each status: `OTHER` for a status without a column, -1 for a missing one."""
    codes, uniques = pd.factorize(status)  # each distinct text is looked up once
    numbers = pd.Index(columns).get_indexer(pd.Index(uniques))
    numbers[numbers < 0] = columns.index(OTHER) if OTHER in columns else -1
    return np.append(numbers, -1)[codes].astype("int64")


def add_transitions(
    cells: Ints, indices: tuple[Ints, ...], transitions: pd.DataFrame, columns: Sequence[str]
) -> None:
    """Add the ``n`` of each transition to the cell of its ``status``, and subtract it from that of its ``prev_status``."""
    n = transitions["n"].to_numpy("int64")
    add_counts(cells, (*indices, column_codes(transitions["status"], columns)), n)
    add_counts(cells, (*indices, column_codes(transitions["prev_status"], columns)), -n)


def add_counts(cells: Ints, indices: tuple[Ints, ...], n: Ints) -> None:
    """Add each number to its cell, in place; skip those whose last index is -1."""
    valid = indices[-1] >= 0
    flat = np.ravel_multi_index([index[valid] for index in indices], cells.shape)
    np.add.at(cells.reshape(-1), flat, n[valid])
