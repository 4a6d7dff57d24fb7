"""Where listings stand: how many each site and each person holds, by status. Knows one moment, and no time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.grouping import Ints, add, columns_of, grouped
from exposurekit.analysis.statuses import NOT_LISTED, OPEN, OTHER, UNKNOWN, VANISHED, is_open
from exposurekit.contract.types import REMOVED, STATUSES
from exposurekit.errors import MissingColumns


def by_site(records: pd.DataFrame) -> pd.DataFrame:
    """How many listings each site holds, by status.

    Args:
        records: As `Exposure.records()` gives them, or a history; one row a listing. Needs ``site``, ``status``,
            ``user_id``.

    Returns:
        One row per site, sorted by open listings, then by all listings, then by name: ``site`` (text), ``open``,
        ``discovered``, ``pending removal``, ``removed``, ``other``, ``total`` (listings, int64), ``people`` (who have a
        listing there, int64). ``open`` is what still has to go: ``discovered`` and ``pending removal``, and any status
        that the specification does not name; those have one column, ``other``. A site without a listing has no row.
        Where a history says of any listing that it is vanished or unknown, there are two more columns,
        ``vanished`` and ``unknown`` (int64): the service lists these no longer, and neither ``total`` nor
        ``people`` counts them.

    Raises:
        MissingColumns: ``records`` lacks a column.

    `analysis.DEFINITIONS` says what each of these figures means. Source: specification, "Record".

    >>> table = analysis.by_site(exposure.records())
    >>> worst = table.head(3)  # the three sites that hurt most
    >>> worst["open"].max() == table["open"].max()
    np.True_
    >>> int(table["total"].sum()) == len(exposure.records())
    True
    """
    return _held("by_site", records, "site", beside={"people": "user_id"})


def by_user(records: pd.DataFrame) -> pd.DataFrame:
    """How many listings there are of each person, by status.

    Args:
        records: As `by_site` takes them.

    Returns:
        One row per person, sorted by open listings, then by all listings, then by id: ``user_id`` (int64), then the
        columns of `by_site`, with ``sites`` (which hold a listing, int64) where that has ``people``. A person who never
        had a listing has no row.

    Raises:
        MissingColumns: ``records`` lacks a column.

    Source: specification, "Record".

    >>> analysis.by_user(exposure.records()).columns.tolist()
    ['user_id', 'open', 'discovered', 'pending removal', 'removed', 'other', 'total', 'sites']
    """
    return _held("by_user", records, "user_id", beside={"sites": "site"})


def user_by_site(records: pd.DataFrame) -> pd.DataFrame:
    """How many open listings of each person each site holds: a matrix.

    Args:
        records: As `by_site` takes them.

    Returns:
        One row a person (the index, ``user_id``, int64) and one column a site (``site``, text), both with the most
        open listings first, then by id and by name: how many are open, neither removed nor gone (int64). Whoever had a
        listing, and whatever site held one, is there, with zeros where none is open any more.

    Raises:
        MissingColumns: ``records`` lacks a column.

    >>> matrix = analysis.user_by_site(exposure.records())
    >>> int(matrix.to_numpy().sum()) == int(analysis.is_open(exposure.records()["status"]).sum())
    True
    """
    MissingColumns.check("user_by_site", records.columns, ("site", "status", "user_id"))
    (people, row), (sites, column) = grouped(records, "user_id"), grouped(records, "site")
    cells = np.zeros((len(people), len(sites)), "int64")
    add(cells, (row, column), is_open(records["status"]).astype("int64"))
    # Stable: what has as many stays ascending.
    rows, columns = (np.argsort(-cells.sum(axis=axis), kind="stable") for axis in (1, 0))
    return pd.DataFrame(
        cells[np.ix_(rows, columns)], index=pd.Index(people.take(rows)), columns=pd.Index(sites.take(columns))
    )


def _held(question: str, records: pd.DataFrame, by: str, *, beside: dict[str, str]) -> pd.DataFrame:
    """Listings of each group by status, and how many different ones of another column it has."""
    MissingColumns.check(question, records.columns, ("site", "status", "user_id"))
    names, group = grouped(records, by)
    columns = [*STATUSES, OTHER, *NOT_LISTED]
    place = columns_of(records["status"].astype("str").fillna(OTHER), columns)
    cells = np.zeros((len(names), len(columns)), "int64")
    add(cells, (group, place), np.ones(len(records), "int64"))
    counts = with_total(pd.DataFrame(cells, columns=columns))
    listed = place < columns.index(NOT_LISTED[0])
    [(name, of)] = beside.items()
    counts.insert(len(STATUSES) + 2, name, _different(group[listed], records.loc[listed, of], len(names)))
    # Not the sum of the columns: a status that is missing counts as other, and is not open.
    is_open_now = is_open(records["status"].astype("str"))
    counts.insert(0, OPEN, np.bincount(group[is_open_now], minlength=len(names)).astype("int64"))
    shown = counts.drop(columns=[*NOT_LISTED]) if listed.all() else counts
    return _most_first(pd.concat([names, shown], axis=1), by)


def _different(group: Ints, values: "pd.Series[Any]", groups: int) -> Ints:
    """How many different values each group has."""
    codes, found = pd.factorize(values)
    pairs = np.unique(group[codes >= 0] * max(len(found), 1) + codes[codes >= 0])
    return np.bincount(pairs // max(len(found), 1), minlength=groups).astype("int64")


def counts(
    transitions: pd.DataFrame, *, by: str = "site", statuses: Sequence[str] = STATUSES
) -> pd.DataFrame:
    """How many things each group holds, by status, once all these changes are made: `by_site` of a history.

    Args:
        transitions: One row a group of changes: the column that ``by`` names, ``prev_status`` (text; missing: seen
            for the first time), ``status`` (text), ``n`` (int64).
        by: What to group by: ``site``, ``user_id``, ...
        statuses: Those that get a column; links and alerts have one, ``listed``.

    Returns:
        One row per group, sorted by ``open``, then by ``total``, then by name: the group (text, or int64 where its name
        ends in ``_id``), ``open`` (all but ``removed``, ``vanished`` and ``unknown``), a column for each status,
        ``other``, ``total`` (their sum: what the service lists), ``vanished``, ``unknown`` (all int64, things). A group
        of which all is gone keeps its row: its ``total`` is 0.

    Raises:
        MissingColumns: ``transitions`` lacks a column.

    >>> transitions = pd.DataFrame(
    ...     {
    ...         "site": ["Seekfolk", "Seekfolk", "Peoplepile"],
    ...         "prev_status": [None, "discovered", None],
    ...         "status": ["discovered", "vanished", "removed"],
    ...         "n": [5, 2, 1],
    ...     }
    ... )
    >>> analysis.counts(transitions)[["site", "open", "discovered", "removed", "total", "vanished"]]
             site  open  discovered  removed  total  vanished
    0    Seekfolk     3           3        0      3         2
    1  Peoplepile     0           0        1      1         0
    """
    MissingColumns.check("counts", transitions.columns, (by, "prev_status", "status", "n"))
    names, group = grouped(transitions, by)
    columns = [*statuses, OTHER, VANISHED, UNKNOWN]
    cells = np.zeros((len(names), len(columns)), "int64")
    n = transitions["n"].to_numpy("int64")
    add(cells, (group, columns_of(transitions["status"], columns)), n)
    add(cells, (group, columns_of(transitions["prev_status"], columns)), -n)
    counted = with_total(pd.DataFrame(cells, columns=columns))
    counted.insert(0, OPEN, counted["total"] - counted.get(REMOVED, 0))
    return _most_first(pd.concat([names, counted], axis=1), by)


def with_total(table: pd.DataFrame) -> pd.DataFrame:
    """Behind what adds up to it, ``total``: all that the service lists."""
    listed = [column for column in table.columns if column not in NOT_LISTED]
    total = table[listed].sum(axis=1).astype("int64")
    return pd.concat([table[listed], total.rename("total"), table[[*NOT_LISTED]]], axis=1)


def _most_first(table: pd.DataFrame, by: str) -> pd.DataFrame:
    return table.sort_values([OPEN, "total", by], ascending=[False, False, True], ignore_index=True)
