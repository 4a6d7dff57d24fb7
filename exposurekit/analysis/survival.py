"""How long removals take, told honestly: what is still open is counted as still open, and not left out.

Kaplan and Meier's estimate with delayed entry, on ages in whole days. Never calls a vanished listing removed.
"""

from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.grouping import Ints, add, columns_of, grouped
from exposurekit.analysis.statuses import UNKNOWN, VANISHED
from exposurekit.contract.types import REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns

ENTERED, RETURNED, OPEN = "entered", "returned", "open"
EXITS = (REMOVED, VANISHED, UNKNOWN, OPEN)
FLOWS = (ENTERED, RETURNED, *EXITS)
_HALF = 0.5 + 1e-12  # a product of fractions that is a half may come out a hair above


def time_to_removal(
    flows: pd.DataFrame, *, by: str | None = "site", left_censored: bool = False, level: float = 0.95
) -> pd.DataFrame:
    """How long it takes until a listing is verified as removed, and what share never is.

    Args:
        flows: One row for each number of episodes (spans of being open) that came or went at one age: ``days`` (the
            episode's age, int64, whole days), ``flow`` (``entered``: it began; ``returned``: it had gone out of view,
            and from this age on it was watched again; ``removed``, ``vanished``, ``unknown``: so it ended; ``open``: so
            old it is now), ``left_censored`` (bool: it was open at the first look at its person, so its age is more
            than its ``days``), ``n`` (int64), and the column that ``by`` names.
        by: ``site``, or any other column; None for all together.
        left_censored: Count these too, as if they had begun when first seen: times come out too short.
        level: Of the intervals, between 0 and 1.

    Returns:
        One row a group, most episodes first, then by name: the group (text, or int64 where its name ends in ``_id``),
        ``n`` (episodes; each counts once, however often it came back into view), ``removed``, ``vanished``,
        ``unknown``, ``open`` (how they ended; one that came back into view ends twice), ``left_out`` (left-censored
        episodes that are not counted; all int64), ``median_days`` (the age at which half are removed), ``median_low``, ``median_high`` (its interval; all
        Int64, days; missing where the curve, or its band, does not come down to a half), ``never`` (the share not
        removed by the longest age observed), ``never_low``, ``never_high`` (its interval; float64, 0 to 1; missing
        where there is no episode, and the interval also where the share is 0 or 1: the formula says nothing there),
        ``followed_days`` (that longest age, Int64, days).

    Raises:
        MissingColumns: ``flows`` lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: Kaplan and Meier, J. Am. Stat. Assoc. 53 (1958), 457; at risk with delayed entry, Greenwood's variance and
    the log(-log) interval as in Klein and Moeschberger, Survival Analysis, 2nd ed., 4.2 to 4.6, and Kalbfleisch and
    Prentice, The Statistical Analysis of Failure Time Data, 2nd ed., 1.4; the median's interval by Brookmeyer and
    Crowley, Biometrics 38 (1982), 29, from that band.

    >>> flows = pd.DataFrame(
    ...     {
    ...         "site": "Seekfolk",
    ...         "days": [0, 2, 5, 9],
    ...         "flow": ["entered", "removed", "removed", "open"],
    ...         "left_censored": False,
    ...         "n": [10, 4, 3, 3],
    ...     }
    ... )
    >>> [row] = analysis.time_to_removal(flows).to_dict("records")
    >>> row["n"], row["removed"], row["open"], row["median_days"], round(row["never"], 3)
    (10, 7, 3, 5, 0.3)
    """
    _check("time_to_removal", flows, by, level)
    names, group = grouped(flows, by)
    kept = np.full(len(flows), left_censored) | ~flows["left_censored"].to_numpy("bool")
    begun = (flows["flow"] == ENTERED).to_numpy("bool")
    n = flows["n"].to_numpy("int64")
    ended = _by_flow(flows[kept], group[kept], len(names))
    table = pd.DataFrame(
        {
            "n": _sums(group, n * (begun & kept), len(names)),
            **{flow: ended[:, FLOWS.index(flow)] for flow in EXITS},
            "left_out": _sums(group, n * (begun & ~kept), len(names)),
        }
    )
    table = pd.concat([table, _summary(_curve(flows[kept], group[kept], level), len(names))], axis=1)
    if by is None:
        return table
    table.insert(0, by, names)
    return table.sort_values(["n", by], ascending=[False, True], ignore_index=True)


def survival(
    flows: pd.DataFrame, *, by: str | None = None, left_censored: bool = False, level: float = 0.95
) -> pd.DataFrame:
    """The share of listings not yet removed, by age: the curve behind `time_to_removal`.

    Args:
        flows: As `time_to_removal` takes them.
        by: ``site``, or any other column; None for all together.
        left_censored: Count also what was open at the first look at its person.
        level: Of the band, between 0 and 1.

    Returns:
        One row for each age (and group) at which anything came or went, ascending: the group, ``days`` (int64),
        ``at_risk`` (episodes watched at that age, before it ends for any), ``removed``, ``censored`` (vanished, out of
        view or still open at that age; all int64, episodes), ``survival`` (the share not removed up to and with that
        age; float64, 0 to 1), ``low``, ``high`` (its pointwise band; missing where the share is 0 or 1).

    Raises:
        MissingColumns: ``flows`` lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: as of `time_to_removal`.

    >>> flows = pd.DataFrame(
    ...     {"days": [0, 2, 9], "flow": ["entered", "removed", "open"], "left_censored": False, "n": [10, 4, 6]}
    ... )
    >>> analysis.survival(flows).round(3)
       days  at_risk  removed  censored  survival    low  high
    0     0       10        0         0       1.0    NaN   NaN
    1     2       10        4         0       0.6  0.253  0.827
    2     9        6        0         6       0.6  0.253  0.827
    """
    _check("survival", flows, by, level)
    kept = flows if left_censored else flows[~flows["left_censored"].to_numpy("bool")]
    names, group = grouped(kept, by)
    curve = _curve(kept, group, level)
    shown = curve[["days", "at_risk", "removed", "censored", "survival", "low", "high"]]
    if by is not None:
        shown.insert(0, by, names.take(curve["group"].to_numpy()).array)
    return shown


def _check(question: str, flows: pd.DataFrame, by: str | None, level: float) -> None:
    needed = ("days", "flow", "left_censored", "n", *([] if by is None else [by]))
    MissingColumns.check(question, flows.columns, needed)
    if not 0 < level < 1:
        raise InvalidArgument("level is between 0 and 1, such as 0.95")


def _sums(group: Ints, n: Ints, groups: int) -> Ints:
    cells = np.zeros(groups, "int64")
    add(cells, (group,), n)
    return cells


def _by_flow(flows: pd.DataFrame, place: Ints, places: int) -> Ints:
    """How many of each flow at each place."""
    cells = np.zeros((places, len(FLOWS)), "int64")
    add(cells, (place, columns_of(flows["flow"], FLOWS)), flows["n"].to_numpy("int64"))
    return cells


def _curve(flows: pd.DataFrame, group: Ints, level: float) -> pd.DataFrame:
    """The estimate at each age of each group, ascending."""
    days = flows["days"].to_numpy("int64")
    span = int(days.max(initial=0)) + 1
    steps, place = np.unique(group * span + days, return_inverse=True)
    n = pd.DataFrame(_by_flow(flows, place.astype("int64"), len(steps)), columns=[*FLOWS])
    curve = pd.DataFrame({"group": steps // span, "days": steps % span, REMOVED: n[REMOVED]})
    left = n[[*EXITS]].sum(axis=1).astype("int64")
    # Whoever enters at an age is at risk at it, and so is whoever leaves at it.
    curve["at_risk"] = (n[ENTERED] + n[RETURNED] - left).groupby(curve["group"]).cumsum() + left
    curve["censored"] = left - n[REMOVED]
    hazard = curve[REMOVED] / curve["at_risk"].clip(lower=1)
    curve["survival"] = (1 - hazard).groupby(curve["group"]).cumprod()
    return curve.assign(**_band(curve, level))


def _band(curve: pd.DataFrame, level: float) -> dict[str, Any]:
    """Pointwise limits that stay between 0 and 1: Greenwood's variance, carried to log(-log S)."""
    stay = (curve["at_risk"] - curve[REMOVED]).clip(lower=1)  # 0 only where S is 0, and has no band
    terms = curve[REMOVED] / (curve["at_risk"].clip(lower=1) * stay)
    greenwood = terms.groupby(curve["group"]).cumsum()
    share = curve["survival"].where(
        (curve["survival"] > 0) & (curve[REMOVED].groupby(curve["group"]).cumsum() > 0)
    )
    width = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(greenwood) / -np.log(share)
    return {"low": share ** np.exp(width), "high": share ** np.exp(-width)}


def _summary(curve: pd.DataFrame, groups: int) -> pd.DataFrame:
    """Of each group: when its curve and its band come down to a half, and where they end."""
    last = curve.groupby("group").tail(1).set_index("group").reindex(range(groups))
    ends = last.rename(columns={"survival": "never", "low": "never_low", "high": "never_high"})
    crossed = {"median_days": "survival", "median_low": "low", "median_high": "high"}
    medians = {name: _first_day_below(curve, column, groups) for name, column in crossed.items()}
    never = ends[["never", "never_low", "never_high"]].astype("float64").reset_index(drop=True)
    followed = last["days"].astype("Int64").reset_index(drop=True)
    return pd.DataFrame(medians).join(never).assign(followed_days=followed)


def _first_day_below(curve: pd.DataFrame, column: str, groups: int) -> "pd.Series[Any]":
    """The first age at which a share is a half or less."""
    down = curve[curve[column] <= _HALF]
    return down.groupby("group")["days"].first().reindex(range(groups)).astype("Int64").reset_index(drop=True)
