"""Where listings stand: how many each site holds, by status. Knows one moment, and no time."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from exposurekit.analysis.statuses import NOT_LISTED, OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.tally import add, columns_of, grouped
from exposurekit.contract.values import STATUSES
from exposurekit.errors import MissingColumns


def by_site(records: pd.DataFrame) -> pd.DataFrame:
    """How many listings each site holds, by status.

    Args:
        records: As `Exposure.records()` gives them, or a history; one row a listing. Needs ``site``, ``status``,
            ``user_id``.

    Returns:
        One row a site, most listings first, then by name: ``site`` (text), ``discovered``, ``pending removal``,
        ``removed``, ``other``, ``total`` (listings, int64), ``people`` (who have a listing there, int64).
        A status that the specification does not name counts as ``other``; a site that holds nothing has no row.
        Where a history says of any listing that it is vanished or unknown, there are two more columns,
        ``vanished`` and ``unknown`` (int64): the service lists these no longer, and neither ``total`` nor
        ``people`` counts them.

    Raises:
        MissingColumns: ``records`` lacks a column.

    Source: specification, "Record".

    >>> table = analysis.by_site(exposure.records())
    >>> int(table["total"].sum()) == len(exposure.records())
    True
    """
    MissingColumns.check("by_site", records.columns, ("site", "status", "user_id"))
    status, sites = records["status"].astype("str"), records["site"].astype("str")
    listed = ~status.isin(NOT_LISTED)
    named = status.where(status.isin(STATUSES) | ~listed, OTHER)
    gone = [] if listed.all() else [*NOT_LISTED]
    counts = (
        pd.crosstab(sites, named).reindex(columns=[*STATUSES, OTHER, *gone], fill_value=0).astype("int64")
    )
    people = records["user_id"][listed].groupby(sites[listed]).nunique().reindex(counts.index, fill_value=0)
    counts.insert(len(STATUSES) + 1, "total", counts[[*STATUSES, OTHER]].sum(axis=1))
    counts.insert(len(STATUSES) + 2, "people", people)
    table = counts.rename_axis(index="site", columns=None).reset_index()
    return _most_first(table.astype({"people": "int64", "site": "str"}), "site")


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
        One row a group, most first, then by name: the group (text, or int64 where its name ends in ``_id``), a column
        for each status, ``other``, ``total`` (their sum: what the service lists), ``vanished``, ``unknown`` (all
        int64, things). A group of which all is gone keeps its row: its ``total`` is 0.

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
    >>> analysis.counts(transitions)[["site", "discovered", "removed", "total", "vanished"]]
             site  discovered  removed  total  vanished
    0    Seekfolk           3        0      3         2
    1  Peoplepile           0        1      1         0
    """
    MissingColumns.check("counts", transitions.columns, (by, "prev_status", "status", "n"))
    names, group = grouped(transitions, by)
    columns = [*statuses, OTHER, VANISHED, UNKNOWN]
    cells = np.zeros((len(names), len(columns)), "int64")
    n = transitions["n"].to_numpy("int64")
    add(cells, (group, columns_of(transitions["status"], columns)), n)
    add(cells, (group, columns_of(transitions["prev_status"], columns)), -n)
    table = pd.concat([names, with_total(pd.DataFrame(cells, columns=columns))], axis=1)
    return _most_first(table, by)


def with_total(table: pd.DataFrame) -> pd.DataFrame:
    """Behind what adds up to it, ``total``: all that the service lists."""
    listed = [column for column in table.columns if column not in NOT_LISTED]
    total = table[listed].sum(axis=1).astype("int64")
    return pd.concat([table[listed], total.rename("total"), table[[*NOT_LISTED]]], axis=1)


def _most_first(table: pd.DataFrame, by: str) -> pd.DataFrame:
    return table.sort_values(["total", by], ascending=[False, True], ignore_index=True)
