"""Time to removal: Kaplan-Meier estimates with delayed entry and censoring, on ages in whole days."""

from itertools import pairwise
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.group_codes import Ints, add_counts, column_codes, group_codes
from exposurekit.analysis.statuses import UNKNOWN, VANISHED
from exposurekit.contract.types import REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns

ENTERED, RETURNED, OPEN = "entered", "returned", "open"
FIRST_REMOVED = "first_removed"  # removed between two runs, and first observed then
EXITS = (REMOVED, FIRST_REMOVED, VANISHED, UNKNOWN, OPEN)
FLOWS = (ENTERED, RETURNED, *EXITS)
MIN_N = 5  # fewer episodes have neither a median nor a share never removed
UNREQUESTED = "no removal request seen yet"
_MEDIAN, NEVER = ("median_days", "median_low", "median_high"), ("never", "never_low", "never_high")
_ROUNDING = 1e-12  # rounding may put a product of fractions just above one half
# Share of the change between neighbouring steps by which a straight line between runs may err.
_CURVATURE = 0.25
Floats = NDArray[np.float64]
_Ages: TypeAlias = dict[str, NDArray[Any]]  # the columns of one group's curve


def time_to_removal(
    life_table: pd.DataFrame, *, by: str | None = "site", left_censored: bool = False, level: float = 0.95
) -> pd.DataFrame:
    """Estimate the median time until a listing's removal is verified, and the share that is never removed.

    Args:
        life_table: One row per group, age and flow of episodes (spans of being open): ``days`` (age of the episode,
            int64, whole days since its first observation), ``flow`` (``entered``: it began; ``returned``: its user was
            listed again at this age, or its removal was verified after it had vanished; ``removed``, ``vanished``, ``unknown``: it ended; ``first_removed``: it was first
            observed when it was removed already, and entered at the same age; ``open``: it is this old now),
            ``left_censored`` (bool: already open when its user was first loaded, so its true age is higher), ``n``
            (int64), the column named by ``by``, and, if listings are observed at intervals, ``gap_days`` (of entries:
            the days between the run that first observed them and the run before).
        by: ``site`` or any other column; None for all listings together.
        left_censored: Include left-censored episodes as if they had begun when first observed; times are then too short.
        level: Confidence level of the intervals, between 0 and 1.

    Returns:
        One row per group, most episodes first, then by name: the group (text, or int64 if its name ends in ``_id``),
        ``n`` (episodes), ``removed``, ``first_removed`` (of these, the ones that no run observed as open),
        ``vanished``, ``unknown``, ``open`` (how they ended; an episode that returned ends twice),
        ``left_out`` (left-censored episodes that are excluded; all int64), ``median_days`` (the age at which half are
        removed), ``median_low``, ``median_high`` (its interval; all Float64, days; missing if the curve, or its band,
        stays above one half, or with fewer than five episodes), ``never`` (the share not removed by the longest age observed), ``never_low``,
        ``never_high`` (its interval; float64, 0 to 1; missing with fewer than five episodes), ``followed_days`` (the longest age
        observed, Int64, days).

    A listing is on average half a gap older than its first observation, and a removal is observed at the next run:
    the median lies on a straight line between two runs. Its interval allows for a curve there, so it is wider the
    further apart the runs are, and may end up to one gap after the last age.

    Raises:
        MissingColumns: ``life_table`` lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: Kaplan and Meier, J. Am. Stat. Assoc. 53 (1958), 457. Delayed entry, Greenwood's variance and the log(-log)
    interval as in Klein and Moeschberger, Survival Analysis, 2nd ed., 4.2 to 4.6, and Kalbfleisch and Prentice, The
    Statistical Analysis of Failure Time Data, 2nd ed., 1.4. The median's interval from that band as in Brookmeyer and
    Crowley, Biometrics 38 (1982), 29. ``never`` of 0 or 1, for which Greenwood's formula is undefined: Fay, Brittain and
    Proschan, Biostatistics 14 (2013), 723.

    >>> flows = {"days": [0, 2, 5, 9], "flow": ["entered", "removed", "removed", "open"], "n": [10, 4, 3, 3]}
    >>> life_table = pd.DataFrame(flows).assign(site="Seekfolk", left_censored=False)
    >>> [row] = analysis.time_to_removal(life_table).to_dict("records")
    >>> row["n"], row["removed"], row["open"], row["median_days"], round(row["never"], 3)
    (10, 7, 3, 5.0, 0.3)
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
            REMOVED: flows[:, FLOWS.index(REMOVED)] + flows[:, FLOWS.index(FIRST_REMOVED)],
            **{flow: flows[:, FLOWS.index(flow)] for flow in EXITS[1:]},
            "left_out": _sum_by_group(group, n * (entered & ~included), len(names)),
        }
    )
    curve = _curve(life_table[included], group[included], level)
    gaps = _mean_gaps(life_table[entered & included], group[entered & included], len(names))
    summary = _summary(curve, gaps, level)
    estimates = [*_MEDIAN, *NEVER]
    summary[estimates] = summary[estimates].where(table["n"] >= MIN_N)
    table = pd.concat([table, summary], axis=1)
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
        One row per age (and group) with an entry or an exit, ascending: the group, ``days`` (int64, days since the first
        observation; the listing itself is up to the time between two runs older), ``at_risk``
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


def is_unrequested(table: pd.DataFrame) -> "pd.Series[bool]":
    """Which groups removed nothing and had no request: their times do not tell how long a removal takes.

    In a table without ``requested``, such as that of `time_to_removal`, no group is known to have none.
    """
    if "requested" not in table:
        return pd.Series(data=False, index=table.index)
    return (table["requested"] == 0) & (table[REMOVED] == 0)


def _check(question: str, life_table: pd.DataFrame, by: str | None, level: float) -> None:
    needed = ("days", "flow", "left_censored", "n", *([] if by is None else [by]))
    if {"presence", "record_id"} & {*getattr(life_table, "columns", ())}:
        raise MissingColumns(
            question, needed, advice=f"records are not a life table: call history.{question}()"
        )
    MissingColumns.check(question, life_table, needed)
    if not 0 < level < 1:
        raise InvalidArgument("invalid level: it must be between 0 and 1, such as 0.95")


def _sum_by_group(group: Ints, n: Ints, groups: int) -> Ints:
    cells = np.zeros(groups, "int64")
    add_counts(cells, (group,), n)
    return cells


def _count_flows(life_table: pd.DataFrame, row: Ints, rows: int) -> Ints:
    cells = np.zeros((rows, len(FLOWS)), "int64")
    add_counts(cells, (row, column_codes(life_table["flow"], FLOWS)), life_table["n"].to_numpy("int64"))
    return cells


def _curve(life_table: pd.DataFrame, group: Ints, level: float) -> pd.DataFrame:
    """The estimate at each age of each group, ascending."""
    days = life_table["days"].to_numpy("int64")
    span = int(days.max(initial=0)) + 1
    steps, row = np.unique(group * span + days, return_inverse=True)
    n = pd.DataFrame(_count_flows(life_table, row.astype("int64"), len(steps)), columns=[*FLOWS])
    removed = n[REMOVED] + n[FIRST_REMOVED]
    curve = pd.DataFrame({"group": steps // span, "days": steps % span, REMOVED: removed})
    exits = n[[*EXITS]].sum(axis=1).astype("int64")
    # Episodes that enter or exit at an age are at risk at that age.
    curve["at_risk"] = (n[ENTERED] + n[RETURNED] - exits).groupby(curve["group"]).cumsum() + exits
    curve["censored"] = exits - removed
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


def _mean_gaps(entries: pd.DataFrame, group: Ints, groups: int) -> Floats:
    """The mean days between runs when the episodes of each group were first observed; 0 if observed continuously."""
    if "gap_days" not in entries:
        return np.zeros(groups)
    n = entries["n"].to_numpy("float64")
    total = np.bincount(group, n * entries["gap_days"].to_numpy("float64"), groups)
    mean: Floats = total / np.maximum(np.bincount(group, n, groups), 1)
    return mean


def _summary(curve: pd.DataFrame, gaps: Floats, level: float) -> pd.DataFrame:
    """For each group, the age at which the curve and its band reach one half, and their last values."""
    rows = [{"followed_days": None, **dict.fromkeys(_MEDIAN), **dict.fromkeys(NEVER)} for _ in gaps]
    columns = {str(name): curve[name].to_numpy() for name in curve}
    of_row = columns["group"]
    ends = np.flatnonzero(np.diff(of_row, append=-1)) + 1  # rows are in order of their groups
    for begin, end in pairwise([0, *ends.tolist()]):
        ages = {name: values[begin:end] for name, values in columns.items()}
        group = int(of_row[begin])
        medians = zip(_MEDIAN, _median(ages, float(gaps[group]), level), strict=True)
        rows[group] = {**dict(medians), **_never(ages, level), "followed_days": ages["days"][-1]}
    dtypes = dict.fromkeys(_MEDIAN, "Float64") | dict.fromkeys(NEVER, "float64") | {"followed_days": "Int64"}
    return pd.DataFrame(rows, columns=[*dtypes]).astype(dtypes)


def _never(ages: _Ages, level: float) -> dict[str, float]:
    """The last share and its interval, also for a share of 0 or 1."""
    low, high = _limits(ages, level)
    if not ages[REMOVED].any():
        low[-1:] = ((1 - level) / 2) ** (1 / max(int(ages["at_risk"][-1]), 1))
        high[-1:] = 1
    return dict(zip(NEVER, (float(ages["survival"][-1]), low[-1], high[-1]), strict=True))


def _limits(ages: _Ages, level: float) -> tuple[Floats, Floats]:
    """The band of a group, also where its curve is 0 and Greenwood's formula is undefined."""
    low, high = (ages[name].astype("float64") for name in ("low", "high"))
    at_end = np.flatnonzero(ages["survival"] <= 0)
    if len(at_end):
        end = int(at_end[0])
        before = 1.0 if end == 0 or np.isnan(high[end - 1]) else high[end - 1]
        low[end:] = 0
        high[end:] = before * (1 - ((1 - level) / 2) ** (1 / int(ages["at_risk"][end])))
    return low, high


def _median(ages: _Ages, gap: float, level: float) -> tuple[float | None, ...]:
    """The age at which half are removed, and its interval; None: not reached."""
    is_event = ages[REMOVED] > 0
    low, high = (limit[is_event] for limit in _limits(ages, level))
    days = ages["days"][is_event].astype("float64")
    share = ages["survival"][is_event].astype("float64")
    error = _CURVATURE * _bend(days, share, gap)
    crossings = (
        _crossing(days, share, gap, 0.5),
        _crossing(days, low, gap, 0.5 + error),
        _crossing(days, high, gap, 0.5 - error),
    )
    # Where the allowance for a curve hides the upper limit, the first run by which the band is below one half bounds
    # it: listings removed by then were at most one more gap old.
    reached = np.flatnonzero(high <= 0.5 + _ROUNDING)
    if crossings[0] is not None and crossings[2] is None and len(reached):
        crossings = (*crossings[:2], float(days[reached[0]]) + gap)
    return tuple(None if age is None else round(age, 1) for age in crossings)


def _crossing(days: Floats, share: Floats, gap: float, level: float) -> float | None:
    """Return the age at which a curve falls to a level, interpolated linearly between runs."""
    below = np.flatnonzero(share <= level + _ROUNDING)
    if not len(below):
        return None
    step = int(below[0])
    before = float(share[step - 1]) if step else 1.0
    begin = max(days[step] - gap / 2, 0)
    if not before > level:  # also where the band is missing
        return float(begin)
    return float(begin + (before - level) / (before - share[step]) * (days[step] + gap / 2 - begin))


def _bend(days: Floats, share: Floats, gap: float) -> float:
    """How much the share removed between two runs changes around the median: 0 if observed continuously."""
    below = np.flatnonzero(share <= 0.5 + _ROUNDING)
    if not len(below) or not gap:
        return 0.0
    # The curve rises from 0 within half a gap, so the first step counts for two.
    ends = days[below[0]] + gap * np.arange(-2, 2)
    steps = np.append(1.0, share)[np.searchsorted(days, ends + _ROUNDING, side="right")]
    drops = np.where(ends[1:] < gap, 2 * (1 - steps[1:]), steps[:-1] - steps[1:])
    drops = np.where(ends[1:] < 0, drops[1], drops)  # nothing before the first run
    return float(np.abs(np.diff(drops)).max())
