"""How counts went: statuses at the end of each day, week or month. A period that nobody looked into has no row."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from exposurekit.analysis.counts import with_total
from exposurekit.analysis.grouping import Instants, Ints, add, aware, columns_of, grouped, instants
from exposurekit.analysis.statuses import OTHER, UNKNOWN, VANISHED
from exposurekit.contract.types import STATUSES
from exposurekit.errors import InvalidArgument, MissingColumns

Every = Literal["run", "day", "week", "month"]
EVERY: tuple[Every, ...] = ("run", "day", "week", "month")
_MONDAY = 3  # day 0, 1970-01-01, was a Thursday


def status_over_time(
    transitions: pd.DataFrame,
    looks: pd.DataFrame,
    *,
    by: str | None = None,
    every: Every = "day",
    statuses: Sequence[str] = STATUSES,
) -> pd.DataFrame:
    """How many things had each status, as last seen in each period.

    Args:
        transitions: One row a group of changes: ``at`` (when seen, UTC), ``prev_status`` (text; missing: seen for
            the first time), ``status`` (text), ``n`` (int64) and the column that ``by`` names. In any order.
        looks: One row a look at everyone: ``at`` (when it ended, UTC), ``people`` (who were to be seen), ``unseen`` (of
            these, not seen well: they failed, were being scanned, or the list of users lacked them).
        by: ``site``, ``user_id``, or None for all together.
        every: A row for each instant at which something was seen (``run``), or for each ``day``, ``week`` (from
            Monday) or ``month`` in UTC.
        statuses: Those that get a column; links and alerts have one, ``listed``.

    Returns:
        One row a period, ascending (and group: from its first change on, in every period; a hundred thousand people
        in 180 days are 18 million rows): ``period`` (its start) and ``at`` (the last observation in it; both
        datetime64[us, UTC]), the group (text, or int64 where its name ends in ``_id``), a column for each status,
        ``other`` (any status without a column), ``total`` (their sum: what the service lists, open and removed),
        ``vanished``, ``unknown`` (all int64, things). Without ``by`` also ``people`` and ``unseen`` of the last look
        so far (Int64, people; missing before the first). A period without any look or change has no row: what was
        not looked at is not known to have stayed.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: ``every`` is none of the four.

    >>> transitions = pd.DataFrame(
    ...     {
    ...         "at": pd.to_datetime(["2026-03-02T09:00Z", "2026-03-04T09:00Z"]),
    ...         "prev_status": [None, "discovered"],
    ...         "status": ["discovered", "removed"],
    ...         "n": [5, 2],
    ...     }
    ... )
    >>> looks = pd.DataFrame({"at": transitions["at"], "people": 3, "unseen": [0, 1]})
    >>> table = analysis.status_over_time(transitions, looks)
    >>> table[["period", "discovered", "removed", "total", "unseen"]]
                         period  discovered  removed  total  unseen
    0 2026-03-02 00:00:00+00:00           5        0      5       0
    1 2026-03-04 00:00:00+00:00           3        2      5       1
    """
    needed = ("at", "prev_status", "status", "n", *([] if by is None else [by]))
    MissingColumns.check("status_over_time", transitions.columns, needed)
    MissingColumns.check("status_over_time, of its looks,", looks.columns, ("at", "people", "unseen"))
    periods, changed, looked = _periods(transitions, looks, every)
    columns = [*statuses, OTHER, VANISHED, UNKNOWN]
    names, group = grouped(transitions, by)
    cells = _cumulated(transitions, (changed, group), (len(periods), len(names), len(columns)), columns)
    first = np.full(len(names), 0 if by is None else len(periods), "int64")
    np.minimum.at(first, group, changed)
    there = np.arange(len(periods))[:, None] >= first[None, :]
    row, place = np.nonzero(there)
    known = {} if by is None else {by: names.take(place).array}
    head = periods.take(row).assign(**known).reset_index(drop=True)
    table = pd.concat([head, with_total(pd.DataFrame(cells[there], columns=columns))], axis=1)
    return table if by is not None else table.assign(**_last_look(looks, looked, len(periods)))


def _periods(transitions: pd.DataFrame, looks: pd.DataFrame, every: Every) -> tuple[pd.DataFrame, Ints, Ints]:
    """The periods in which anything was seen, and the number of each change's and of each look's."""
    at = np.concatenate([instants(transitions["at"]), instants(looks["at"])])
    starts, place = np.unique(_starts(at, every), return_inverse=True)
    last = np.full(len(starts), np.iinfo("int64").min, "int64")
    np.maximum.at(last, place, at.astype("int64"))
    periods = pd.DataFrame({"period": aware(starts), "at": aware(last.astype("datetime64[us]"))})
    changed, looked = np.split(place.astype("int64"), [len(transitions)])
    return periods, changed, looked


def _starts(at: Instants, every: Every) -> Instants:
    """When the period of each instant began."""
    if every not in EVERY:
        raise InvalidArgument(f"every is one of {', '.join(EVERY)}")
    if every == "run":
        return at
    if every == "month":
        return at.astype("datetime64[M]").astype("datetime64[us]")
    days = at.astype("datetime64[D]").astype("int64")
    starts = (days + _MONDAY) // 7 * 7 - _MONDAY if every == "week" else days
    return starts.astype("datetime64[D]").astype("datetime64[us]")


def _cumulated(
    transitions: pd.DataFrame, places: tuple[Ints, Ints], shape: tuple[int, int, int], columns: list[str]
) -> Ints:
    """How many have each status at the end of each period: what all changes until then brought and took."""
    cells = np.zeros(shape, "int64")
    n = transitions["n"].to_numpy("int64")
    add(cells, (*places, columns_of(transitions["status"], columns)), n)
    add(cells, (*places, columns_of(transitions["prev_status"], columns)), -n)
    return cells.cumsum(axis=0, out=cells)


def _last_look(looks: pd.DataFrame, looked: Ints, periods: int) -> dict[str, Any]:
    """What the last look so far says of people, for each period."""
    order = np.argsort(instants(looks["at"]), kind="stable")
    last = np.searchsorted(looked[order], np.arange(periods), side="right") - 1
    before, row = last < 0, np.append(order, 0)[last]

    def of(column: str) -> Any:
        told = np.append(looks[column].to_numpy("int64"), 0)
        return pd.arrays.IntegerArray(told[row], before)

    return {column: of(column) for column in ("people", "unseen")}
