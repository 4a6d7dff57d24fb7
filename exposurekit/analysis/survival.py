"""Time to removal: Kaplan-Meier estimates with delayed entry and censoring, on ages in whole days."""

from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.grouping import Ints, add_counts, column_codes, group_codes
from exposurekit.analysis.statuses import UNKNOWN, VANISHED
from exposurekit.contract.types import REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns

ENTERED, RETURNED, OPEN = "entered", "returned", "open"
EXITS = (REMOVED, VANISHED, UNKNOWN, OPEN)
FLOWS = (ENTERED, RETURNED, *EXITS)
_HALF = 0.5 + 1e-12  # rounding may put a product of fractions just above one half


def time_to_removal(
    life_table: pd.DataFrame, *, by: str | None = "site", left_censored: bool = False, level: float = 0.95
) -> pd.DataFrame:
    """Estimate the median time until a listing's removal is verified, and the share that is never removed.

    Args:
        life_table: One row per group, age and flow of episodes (spans of being open): ``days`` (age of the episode,
            int64, whole days), ``flow`` (``entered``: it began; ``returned``: its user was listed again at this age;
            ``removed``, ``vanished``, ``unknown``: it ended; ``open``: it is this old now), ``left_censored`` (bool:
            already open when its user was first loaded, so its true age is higher), ``n`` (int64), and the column
            named by ``by``.
        by: ``site`` or any other column; None for all listings together.
        left_censored: Include left-censored episodes as if they had begun when first observed; times are then too short.
        level: Confidence level of the intervals, between 0 and 1.

    Returns:
        One row per group, most episodes first, then by name: the group (text, or int64 if its name ends in ``_id``),
        ``n`` (episodes), ``removed``, ``vanished``, ``unknown``, ``open`` (how they ended; an episode whose user was
        listed again ends twice), ``left_out`` (left-censored episodes that are excluded; all int64), ``median_days``
        (the age at which half are removed), ``median_low``, ``median_high`` (its interval; all Int64, days; missing if
        the curve, or its band, stays above one half), ``never`` (the share not removed by the longest age observed),
        ``never_low``, ``never_high`` (its interval; float64, 0 to 1; missing without episodes, and for a share of 0 or
        1, where Greenwood's formula is undefined), ``followed_days`` (the longest age observed, Int64, days).

    Raises:
        MissingColumns: ``life_table`` lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: Kaplan and Meier, J. Am. Stat. Assoc. 53 (1958), 457. Delayed entry, Greenwood's variance and the log(-log)
    interval as in Klein and Moeschberger, Survival Analysis, 2nd ed., 4.2 to 4.6, and Kalbfleisch and Prentice, The
    Statistical Analysis of Failure Time Data, 2nd ed., 1.4. The median's interval from that band as in Brookmeyer and
    Crowley, Biometrics 38 (1982), 29.

    >>> life_table = pd.DataFrame(
    ...     {
    ...         "site": "Seekfolk",
    ...         "days": [0, 2, 5, 9],
    ...         "flow": ["entered", "removed", "removed", "open"],
    ...         "left_censored": False,
    ...         "n": [10, 4, 3, 3],
    ...     }
    ... )
    >>> [row] = analysis.time_to_removal(life_table).to_dict("records")
    >>> row["n"], row["removed"], row["open"], row["median_days"], round(row["never"], 3)
    (10, 7, 3, 5, 0.3)
    """
    _check("time_to_removal", life_table, by, level)
    names, group = group_codes(life_table, by)
    included = np.full(len(life_table), left_censored) | ~life_table["left_censored"].to_numpy("bool")
    entered = (life_table["flow"] == ENTERED).to_numpy("bool")
    n = life_table["n"].to_numpy("int64")
    flows = _count_flows(life_table[included], group[included], len(names))
    table = pd.DataFrame(
        {
            "n": _sum_by_group(group, n * (entered & included), len(names)),
            **{flow: flows[:, FLOWS.index(flow)] for flow in EXITS},
            "left_out": _sum_by_group(group, n * (entered & ~included), len(names)),
        }
    )
    curve = _curve(life_table[included], group[included], level)
    table = pd.concat([table, _summary(curve, len(names))], axis=1)
    if by is not None:
        table.insert(0, by, names)
        table = table.sort_values(["n", by], ascending=[False, True], ignore_index=True)
    table.attrs["level"] = level  # for the chart's labels
    return table


def survival(
    life_table: pd.DataFrame, *, by: str | None = None, left_censored: bool = False, level: float = 0.95
) -> pd.DataFrame:
    """Estimate the share of listings not yet removed, by age: the curve behind `time_to_removal`.

    Args:
        life_table: As in `time_to_removal`.
        by: ``site`` or any other column; None for all listings together.
        left_censored: Include episodes that were already open when their user was first loaded.
        level: Confidence level of the band, between 0 and 1.

    Returns:
        One row per age (and group) with an entry or an exit, ascending: the group, ``days`` (int64), ``at_risk``
        (episodes under observation at that age), ``removed``, ``censored`` (vanished, unknown or still open at that
        age; all int64, episodes), ``survival`` (the share not removed up to and including that age; float64, 0 to 1),
        ``low``, ``high`` (its pointwise band; missing for a share of 0 or 1).

    Raises:
        MissingColumns: ``life_table`` lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: as for `time_to_removal`.

    >>> life_table = pd.DataFrame(
    ...     {"days": [0, 2, 9], "flow": ["entered", "removed", "open"], "left_censored": False, "n": [10, 4, 6]}
    ... )
    >>> analysis.survival(life_table).round(3)
       days  at_risk  removed  censored  survival    low  high
    0     0       10        0         0       1.0    NaN   NaN
    1     2       10        4         0       0.6  0.253  0.827
    2     9        6        0         6       0.6  0.253  0.827
    """
    _check("survival", life_table, by, level)
    included = life_table if left_censored else life_table[~life_table["left_censored"].to_numpy("bool")]
    names, group = group_codes(included, by)
    curve = _curve(included, group, level)
    table = curve[["days", "at_risk", "removed", "censored", "survival", "low", "high"]]
    if by is not None:
        table.insert(0, by, names.take(curve["group"].to_numpy()).array)
    table.attrs["level"] = level  # for the chart's labels
    return table


def _check(question: str, life_table: pd.DataFrame, by: str | None, level: float) -> None:
    needed = ("days", "flow", "left_censored", "n", *([] if by is None else [by]))
    MissingColumns.check(question, life_table.columns, needed)
    if not 0 < level < 1:
        raise InvalidArgument("invalid level: it must be between 0 and 1, such as 0.95")


def _sum_by_group(group: Ints, n: Ints, groups: int) -> Ints:
    cells = np.zeros(groups, "int64")
    add_counts(cells, (group,), n)
    return cells


def _count_flows(life_table: pd.DataFrame, row: Ints, rows: int) -> Ints:
    """Count episodes per flow (columns) and row number."""
    cells = np.zeros((rows, len(FLOWS)), "int64")
    add_counts(cells, (row, column_codes(life_table["flow"], FLOWS)), life_table["n"].to_numpy("int64"))
    return cells


def _curve(life_table: pd.DataFrame, group: Ints, level: float) -> pd.DataFrame:
    """The estimate at each age of each group, ascending."""
    days = life_table["days"].to_numpy("int64")
    span = int(days.max(initial=0)) + 1
    steps, row = np.unique(group * span + days, return_inverse=True)
    n = pd.DataFrame(_count_flows(life_table, row.astype("int64"), len(steps)), columns=[*FLOWS])
    curve = pd.DataFrame({"group": steps // span, "days": steps % span, REMOVED: n[REMOVED]})
    exits = n[[*EXITS]].sum(axis=1).astype("int64")
    # Episodes that enter or exit at an age are at risk at that age.
    curve["at_risk"] = (n[ENTERED] + n[RETURNED] - exits).groupby(curve["group"]).cumsum() + exits
    curve["censored"] = exits - n[REMOVED]
    hazard = curve[REMOVED] / curve["at_risk"].clip(lower=1)
    curve["survival"] = (1 - hazard).groupby(curve["group"]).cumprod()
    return curve.assign(**_band(curve, level))


def _band(curve: pd.DataFrame, level: float) -> dict[str, Any]:
    """Pointwise limits between 0 and 1: Greenwood's variance, transformed to log(-log S)."""
    remaining = (curve["at_risk"] - curve[REMOVED]).clip(lower=1)  # 0 only where S is 0, which has no band
    terms = curve[REMOVED] / (curve["at_risk"].clip(lower=1) * remaining)
    greenwood = terms.groupby(curve["group"]).cumsum()
    share = curve["survival"].where(
        (curve["survival"] > 0) & (curve[REMOVED].groupby(curve["group"]).cumsum() > 0)
    )
    width = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(greenwood) / -np.log(share)
    return {"low": share ** np.exp(width), "high": share ** np.exp(-width)}


def _summary(curve: pd.DataFrame, groups: int) -> pd.DataFrame:
    """For each group, the first age at which the curve and its band reach one half, and their last values."""
    last = curve.groupby("group").tail(1).set_index("group").reindex(range(groups))
    ends = last.rename(columns={"survival": "never", "low": "never_low", "high": "never_high"})
    columns = {"median_days": "survival", "median_low": "low", "median_high": "high"}
    medians = {name: _median(curve, column, groups) for name, column in columns.items()}
    never = ends[["never", "never_low", "never_high"]].astype("float64").reset_index(drop=True)
    followed = last["days"].astype("Int64").reset_index(drop=True)
    return pd.DataFrame(medians).join(never).assign(followed_days=followed)


def _median(curve: pd.DataFrame, column: str, groups: int) -> "pd.Series[Any]":
    """The first age at which a share is one half or less."""
    below = curve[curve[column] <= _HALF]
    return (
        below.groupby("group")["days"].first().reindex(range(groups)).astype("Int64").reset_index(drop=True)
    )
