"""Rows to numbered cells, and what is counted in them; instants to plain microseconds and back. Asks nothing."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.statuses import OTHER

Ints = NDArray[np.int64]
Instants = NDArray[np.datetime64]
UTC_INSTANT = pd.DatetimeTZDtype("us", "UTC")


def instants(at: "pd.Series[Any]") -> Instants:
    """A column of instants as UTC microseconds without a zone; one that tells no zone is UTC."""
    return pd.to_datetime(at, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")


def instant(at: datetime) -> np.datetime64:
    """One instant as UTC microseconds without a zone; one that tells no zone is UTC."""
    [plain] = instants(pd.Series([at]))
    return np.datetime64(plain)


def aware(at: Instants) -> pd.DatetimeIndex:
    """The way back: datetime64[us, UTC]."""
    return pd.DatetimeIndex(at.astype("datetime64[us]")).tz_localize("UTC")


def grouped(table: pd.DataFrame, by: str | None) -> tuple["pd.Series[Any]", Ints]:
    """The groups, ascending, and the number of each row's; without `by` there is one, which has no name.

    Ids are int64; whatever else makes groups is text.
    """
    if by is None:
        return pd.Series([0]), np.zeros(len(table), "int64")
    kind: Literal["int64", "str"] = "int64" if by.endswith("_id") else "str"
    codes, names = pd.factorize(pd.Series(table[by], dtype=kind), sort=True, use_na_sentinel=False)
    return pd.Series(names, dtype=kind, name=by), codes.astype("int64")


def columns_of(status: "pd.Series[Any]", columns: Sequence[str]) -> Ints:
    """The number of each status's column, that of `OTHER` where it has none; -1 where the status is missing."""
    codes, found = pd.factorize(status)  # each text is looked up once, however many rows say it
    places = pd.Index(columns).get_indexer(pd.Index(found))
    places[places < 0] = columns.index(OTHER) if OTHER in columns else -1
    return np.append(places, -1)[codes].astype("int64")


def add(cells: Ints, places: tuple[Ints, ...], n: Ints) -> None:
    """Add each number to its cell, in place; one whose last place is -1 goes nowhere."""
    there = places[-1] >= 0
    flat = np.ravel_multi_index([place[there] for place in places], cells.shape)
    np.add.at(cells.reshape(-1), flat, n[there])
