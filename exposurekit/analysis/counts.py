"""Listings by site, by user and by status, at one instant."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import Ints, add_counts, add_transitions, column_codes, group_codes
from exposurekit.analysis.statuses import NOT_LISTED, OPEN, OTHER, UNKNOWN, VANISHED, is_open
from exposurekit.contract.types import REMOVED, STATUSES
from exposurekit.errors import MissingColumns

WHOLE = "whole"  # in `attrs`: the rows and open listings of the whole table, for the title of a chart of some rows


def by_site(records: pd.DataFrame) -> pd.DataFrame:
    """Count listings per site and status.

    Args:
        records: A table as returned by `Exposure.records()` or `History.records()`; one row per listing. Needs
            ``site``, ``status``, ``user_id``.

    Returns:
        One row per site, sorted by open listings, then by all listings, then by name: ``site`` (text), ``open``,
        ``discovered``, ``pending removal``, ``removed``, ``other``, ``total`` (listings), ``people`` (who have a
        listing there; all int64). ``open`` counts the listings that still have to be removed: ``discovered``,
        ``pending removal`` and ``other`` (another status, or none). Sites without a listing have no row.
        If a record of a history is ``vanished`` or ``unknown``, there are two more columns of these names (int64).
        The service no longer lists these records, so ``total`` and ``people`` do not count them.
        ``attrs["whole"]`` has the number of rows and open listings, so that a chart of ``.head(3)`` can say of how many.

    Raises:
        MissingColumns: ``records`` lacks a column.

    `analysis.DEFINITIONS` defines each figure. Source: specification, "Record".

    >>> table = analysis.by_site(exposure.records())
    >>> most_open = table.head(3)  # the three sites with most open listings
    >>> most_open["open"].max() == table["open"].max()
    np.True_
    >>> int(table["total"].sum()) == len(exposure.records())
    True
    """
    return _count_by("by_site", records, "site", distinct="people", of_column="user_id")


def by_user(records: pd.DataFrame) -> pd.DataFrame:
    """Count listings per person and status.

    Args:
        records: As in `by_site`.

    Returns:
        One row per person, sorted by open listings, then by all listings, then by id: ``user_id`` (int64), then the
        columns of `by_site`, with ``sites`` (that have a listing, int64) instead of ``people``. People who never had a
        listing have no row.

    Raises:
        MissingColumns: ``records`` lacks a column.

    Source: specification, "Record".

    >>> analysis.by_user(exposure.records()).columns.tolist()
    ['user_id', 'open', 'discovered', 'pending removal', 'removed', 'other', 'total', 'sites']
    """
    return _count_by("by_user", records, "user_id", distinct="sites", of_column="site")


def user_by_site(records: pd.DataFrame) -> pd.DataFrame:
    """Count open listings per person and site, as a matrix.

    Args:
        records: As in `by_site`.

    Returns:
        One row per person (the index, ``user_id``, int64) and one column per site (``site``, text), both with the most
        open listings first, then by id and by name; the cells are open listings (int64). Every person and site that
        ever had a listing is included.

    Raises:
        MissingColumns: ``records`` lacks a column.

    >>> matrix = analysis.user_by_site(exposure.records())
    >>> int(matrix.to_numpy().sum()) == int(analysis.is_open(exposure.records()["status"]).sum())
    True
    """
    MissingColumns.check("user_by_site", records, ("site", "status", "user_id"))
    (people, row), (sites, column) = group_codes(records, "user_id"), group_codes(records, "site")
    cells = np.zeros((len(people), len(sites)), "int64")
    add_counts(cells, (row, column), is_open(records["status"]).astype("int64"))
    # Stable: ties stay in ascending order.
    rows, columns = (np.argsort(-cells.sum(axis=axis), kind="stable") for axis in (1, 0))
    return pd.DataFrame(
        cells[np.ix_(rows, columns)], index=pd.Index(people.take(rows)), columns=pd.Index(sites.take(columns))
    )


def _count_by(
    question: str, records: pd.DataFrame, by: str, *, distinct: str, of_column: str
) -> pd.DataFrame:
    """Count listings per group and status, and the distinct values of one more column."""
    MissingColumns.check(question, records, ("site", "status", "user_id"))
    names, group = group_codes(records, by)
    columns = [*STATUSES, OTHER, *NOT_LISTED]
    column = column_codes(records["status"], columns)
    column = np.where(column < 0, columns.index(OTHER), column)
    cells = np.zeros((len(names), len(columns)), "int64")
    add_counts(cells, (group, column), np.ones(len(records), "int64"))
    counts = with_total(pd.DataFrame(cells, columns=columns))
    listed = column < columns.index(NOT_LISTED[0])
    n_distinct = _count_distinct(group[listed], records.loc[listed, of_column], len(names))
    counts.insert(len(STATUSES) + 2, distinct, n_distinct)
    is_open_now = is_open(records["status"])
    counts.insert(0, OPEN, np.bincount(group[is_open_now], minlength=len(names)).astype("int64"))
    if listed.all():
        counts = counts.drop(columns=[*NOT_LISTED])
    return _sort(pd.concat([names, counts], axis=1), by)


def _count_distinct(group: Ints, values: "pd.Series[Any]", groups: int) -> Ints:
    codes, uniques = pd.factorize(values)
    pairs = pd.unique(group[codes >= 0] * max(len(uniques), 1) + codes[codes >= 0])
    return np.bincount(pairs // max(len(uniques), 1), minlength=groups).astype("int64")


def counts(
    transitions: pd.DataFrame, *, by: str = "site", statuses: Sequence[str] = STATUSES
) -> pd.DataFrame:
    """Count items per group and status after all transitions: `by_site` for a history.

    Args:
        transitions: One row per set of equal changes: the column named by ``by``, ``prev_status`` (text; missing: first
            observation), ``status`` (text), ``n`` (int64).
        by: The column to group by: ``site``, ``user_id``, ...
        statuses: Statuses with a column of their own. Links and alerts have only ``listed``.

    Returns:
        One row per group, sorted by ``open``, then by ``total``, then by name: the group (text, or int64 if its name
        ends in ``_id``), ``open`` (all but ``removed``, ``vanished`` and ``unknown``), one column per status,
        ``other``, ``total`` (their sum: what the service lists), ``vanished``, ``unknown`` (all int64). A group whose
        items are all gone keeps its row, with a ``total`` of 0.

    Raises:
        MissingColumns: ``transitions`` lacks a column.

    >>> moves = {"prev_status": [None, "discovered", None], "status": ["discovered", "vanished", "removed"]}
    >>> transitions = pd.DataFrame(moves).assign(site=["Seekfolk", "Seekfolk", "Peoplepile"], n=[5, 2, 1])
    >>> analysis.counts(transitions)[["site", "open", "discovered", "removed", "total", "vanished"]]
             site  open  discovered  removed  total  vanished
    0    Seekfolk     3           3        0      3         2
    1  Peoplepile     0           0        1      1         0
    """
    MissingColumns.check("counts", transitions, (by, "prev_status", "status", "n"))
    names, group = group_codes(transitions, by)
    columns = [*statuses, OTHER, VANISHED, UNKNOWN]
    cells = np.zeros((len(names), len(columns)), "int64")
    add_transitions(cells, (group,), transitions, columns)
    table = with_open(with_total(pd.DataFrame(cells, columns=columns)))
    return _sort(pd.concat([names, table], axis=1), by)


def with_total(table: pd.DataFrame) -> pd.DataFrame:
    """Insert ``total``, the sum of all statuses that the service lists, after their columns."""
    listed = [column for column in table.columns if column not in NOT_LISTED]
    total = table[listed].sum(axis=1).astype("int64")
    return pd.concat([table[listed], total.rename("total"), table[[*NOT_LISTED]]], axis=1)


def with_open(table: pd.DataFrame) -> pd.DataFrame:
    """Insert ``open``, the part of ``total`` that is not removed, as the first column."""
    return pd.concat([(table["total"] - table.get(REMOVED, 0)).rename(OPEN), table], axis=1)


def _sort(table: pd.DataFrame, by: str) -> pd.DataFrame:
    ordered = table.sort_values([OPEN, "total", by], ascending=[False, False, True], ignore_index=True)
    ordered.attrs[WHOLE] = {"rows": len(ordered), OPEN: int(ordered[OPEN].sum())}
    return ordered
