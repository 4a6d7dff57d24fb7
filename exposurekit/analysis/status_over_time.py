"""Status counts over time: at the end of each day, week or month that was observed."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from exposurekit.analysis.counts import with_open, with_total
from exposurekit.analysis.group_codes import Instants, Ints, add_transitions, group_codes, instants, utc_index
from exposurekit.analysis.statuses import OTHER, UNKNOWN, VANISHED
from exposurekit.contract.types import STATUSES
from exposurekit.errors import InvalidArgument, MissingColumns

Every = Literal["run", "day", "week", "month"]
EVERY: tuple[Every, ...] = ("run", "day", "week", "month")
_MONDAY = 3  # day 0, 1970-01-01, was a Thursday


def status_over_time(
    transitions: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    by: str | None = None,
    every: Every = "day",
    statuses: Sequence[str] = STATUSES,
) -> pd.DataFrame:
    """Count items per status at the end of each observed period.

    Args:
        transitions: One row per set of equal changes, in any order: ``at`` (when observed, UTC), ``prev_status`` (text;
            missing: first observation), ``status`` (text), ``n`` (int64) and the column named by ``by``.
        runs: One row per run: ``at`` (when it ended, UTC), ``people`` (users to load), ``unseen`` (users not loaded
            completely: the load failed, a scan was running, or the user list lacked them).
        by: ``site``, ``user_id``, or None for all together.
        every: ``run`` for one row per instant with an observation, or ``day``, ``week`` (from Monday) or ``month`` in
            UTC.
        statuses: Statuses with a column of their own. Links and alerts have only ``listed``.

    Returns:
        One row per period, ascending; with ``by``, one row per period and group from the group's first change on (a
        hundred thousand people over 180 days are 18 million rows). ``period`` (its start) and ``at`` (the last
        observation in it; both datetime64[us, UTC]), the group (text, or int64 if its name ends in ``_id``), ``open``
        (all but ``removed``, ``vanished`` and ``unknown``), one column per status, ``other`` (statuses without a column), ``total`` (their sum: what the service lists, open and
        removed), ``vanished``, ``unknown`` (all int64). Without ``by`` also ``people`` and ``unseen`` of the last run so
        far (Int64; missing before the first). Periods without a run or change have no row, because nothing is known
        about them.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: ``every`` is not one of the four values.

    >>> at = pd.to_datetime(["2026-03-02T09:00Z", "2026-03-04T09:00Z"])
    >>> moves = {"prev_status": [None, "discovered"], "status": ["discovered", "removed"], "n": [5, 2]}
    >>> transitions = pd.DataFrame(moves).assign(at=at)
    >>> runs = pd.DataFrame({"at": at, "people": 3, "unseen": [0, 1]})
    >>> table = analysis.status_over_time(transitions, runs)
    >>> table[["period", "open", "removed", "total", "unseen"]]
                         period  open  removed  total  unseen
    0 2026-03-02 00:00:00+00:00     5        0      5       0
    1 2026-03-04 00:00:00+00:00     3        2      5       1
    """
    needed = ("at", "prev_status", "status", "n", *([] if by is None else [by]))
    MissingColumns.check("status_over_time", transitions, needed)
    MissingColumns.check("status_over_time, table runs,", runs, ("at", "people", "unseen"))
    periods, period, run_period = _periods(transitions, runs, every)
    columns = [*statuses, OTHER, VANISHED, UNKNOWN]
    names, group = group_codes(transitions, by)
    cells = np.zeros((len(periods), len(names), len(columns)), "int64")
    add_transitions(cells, (period, group), transitions, columns)
    cells.cumsum(axis=0, out=cells)
    first = np.full(len(names), 0 if by is None else len(periods), "int64")
    np.minimum.at(first, group, period)
    has_row = np.arange(len(periods))[:, None] >= first[None, :]
    period_row, group_row = np.nonzero(has_row)
    group_column = {} if by is None else {by: names.take(group_row).array}
    head = periods.take(period_row).assign(**group_column).reset_index(drop=True)
    table = pd.concat([head, with_open(with_total(pd.DataFrame(cells[has_row], columns=columns)))], axis=1)
    return table if by is not None else table.assign(**_last_run(runs, run_period, len(periods)))


def _periods(transitions: pd.DataFrame, runs: pd.DataFrame, every: Every) -> tuple[pd.DataFrame, Ints, Ints]:
    """The periods with an observation, and the period number of each transition and of each run."""
    at = np.concatenate([instants(transitions["at"]), instants(runs["at"])])
    starts, period = np.unique(_starts(at, every), return_inverse=True)
    last = np.full(len(starts), np.iinfo("int64").min, "int64")
    np.maximum.at(last, period, at.astype("int64"))
    periods = pd.DataFrame({"period": utc_index(starts), "at": utc_index(last.astype("datetime64[us]"))})
    transition_period, run_period = np.split(period.astype("int64"), [len(transitions)])
    return periods, transition_period, run_period


def _starts(at: Instants, every: Every) -> Instants:
    if every not in EVERY:
        raise InvalidArgument(f"invalid every: use one of {', '.join(EVERY)}")
    if every == "run":
        return at
    if every == "month":
        return at.astype("datetime64[M]").astype("datetime64[us]")
    days = at.astype("datetime64[D]").astype("int64")
    starts = (days + _MONDAY) // 7 * 7 - _MONDAY if every == "week" else days
    return starts.astype("datetime64[D]").astype("datetime64[us]")


def _last_run(runs: pd.DataFrame, run_period: Ints, periods: int) -> dict[str, Any]:
    """``people`` and ``unseen`` of the last run up to each period; missing before the first run."""
    order = np.argsort(instants(runs["at"]), kind="stable")
    last = np.searchsorted(run_period[order], np.arange(periods), side="right") - 1
    is_missing, row = last < 0, np.append(order, 0)[last]
    return {
        column: pd.arrays.IntegerArray(np.append(runs[column].to_numpy("int64"), 0)[row], is_missing)
        for column in ("people", "unseen")
    }


def since_observed(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table over time without its first rows, if they are from runs that observed nobody."""
    observed = table["total"] > 0
    if {"people", "unseen"} <= {*table}:
        observed |= (table["people"] > table["unseen"]).fillna(value=False)
    return table.loc[observed.idxmax() :].reset_index(drop=True) if observed.any() else table
