"""Plan: the manual removals with the most expected removals in a given time."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from exposurekit.analysis.work_queue import LISTING, PAGE, STARTED, TO_DO, VISIT_MINUTES
from exposurekit.errors import InvalidArgument, MissingColumns

PLAN_MINUTES = 30.0
_TOLERANCE = 1e-9  # minutes; sums of floating-point numbers differ by less


def plan(
    queue: pd.DataFrame, minutes: float = PLAN_MINUTES, *, visit_minutes: float = VISIT_MINUTES
) -> pd.DataFrame:
    """Choose the alerts with the most expected removals within some minutes, then the most web pages in what is left.

    A listing counts as much as the success rate of its group, in whole percent. No other choice within the same time
    counts more, given the estimated minutes: each group takes one visit, whatever is done there. Alerts with a ``reason``
    to wait are left out, as are those that are done or unable.

    Args:
        queue: A table as returned by `work_queue` or `History.work_queue`.
        minutes: The time there is.
        visit_minutes: As it was passed to `work_queue`.

    Returns:
        The chosen rows of ``queue`` in its order, and all its columns. ``minutes`` (float64) has the steps of the alert
        and its part of the visit among the chosen ones, and ``minutes_until`` (float64) the sum up to and including the
        row. No rows if the time is too short for any alert.

    Raises:
        MissingColumns: ``queue`` lacks a column.
        InvalidArgument: ``minutes`` is not a positive number.

    Source: fixed-charge knapsack, solved exactly by dynamic programming over the number of alerts.

    >>> best = analysis.plan(history.work_queue(), minutes=30)
    >>> bool(best["minutes"].sum() <= 30)
    True
    """
    MissingColumns.check(
        "plan", queue, ("kind", "group", "state", "minutes", "items", "success_rate", "reason")
    )
    if not (math.isfinite(minutes) and minutes > 0):
        raise InvalidArgument("invalid minutes: pass a positive number")
    queue = queue.reset_index(drop=True)
    can_start = queue["state"].isin((TO_DO, STARTED)) & queue["reason"].isna()
    to_do = queue[can_start & (queue["items"] > 0)]
    own = to_do["minutes"] - visit_minutes / to_do["items"]  # without the visit
    chosen: list[int] = []
    left = minutes
    for kind in (LISTING, PAGE):
        costs = own[to_do["kind"] == kind].sort_values(kind="stable")
        groups = [part for _, part in costs.groupby(to_do["group"], sort=False, dropna=False)]
        numbers = _best(
            [part.to_numpy("float64") for part in groups], _weights(to_do, groups), left, visit_minutes
        )
        picked = [part.head(n) for part, n in zip(groups, numbers, strict=True) if n]
        chosen += [number for part in picked for number in part.index]
        left -= sum(float(part.sum()) + visit_minutes for part in picked)
    best = queue.loc[sorted(chosen)]
    visits = visit_minutes / best.groupby(["kind", "group"], dropna=False)["minutes"].transform("size")
    best = best.assign(minutes=own[best.index] + visits)
    best.insert([*best].index("minutes") + 1, "minutes_until", best["minutes"].cumsum())
    return best.reset_index(drop=True)


def _weights(queue: pd.DataFrame, groups: Sequence["pd.Series[float]"]) -> list[int]:
    """What an alert of each group counts: its success rate in percent, divided by the greatest common divisor of all."""
    rates = queue["success_rate"].fillna(1.0)
    percents = [max(round(100 * float(rates[part.index[0]])), 1) for part in groups]
    common = math.gcd(*percents)
    return [percent // common for percent in percents]


def _best(groups: Sequence[np.ndarray], weights: Sequence[int], budget: float, visit: float) -> list[int]:
    """How many alerts of each group to do, cheapest first, so that they weigh most within the budget.

    ``least[n]`` is the least time in which alerts of the groups so far can be done that weigh n together.
    """
    # There is time for everything: of ten thousand alerts, to find that below would take a minute and 400 MB.
    if sum(visit + float(costs.sum()) for costs in groups) <= budget + _TOLERANCE:
        return [len(costs) for costs in groups]
    least = np.zeros(1)
    steps: list[np.ndarray] = []
    for costs, weight in zip(groups, weights, strict=True):
        within = np.concatenate([[0.0], visit + np.cumsum(costs)])
        within = within[within <= budget + _TOLERANCE]
        longer = np.full(len(least) + weight * (len(within) - 1), np.inf)
        taken = np.zeros(len(longer), "int64")
        for n, cost in enumerate(within.tolist()):
            part = slice(weight * n, weight * n + len(least))
            is_less = least + cost < longer[part] - _TOLERANCE
            longer[part] = np.where(is_less, least + cost, longer[part])
            taken[part] = np.where(is_less, n, taken[part])
        is_affordable = longer <= budget + _TOLERANCE
        n_states = int(np.flatnonzero(is_affordable)[-1]) + 1
        least, taken = np.where(is_affordable, longer, np.inf)[:n_states], taken[:n_states]
        steps.append(taken)
    return [*_backwards(steps, weights, len(least) - 1)][::-1]


def _backwards(steps: Sequence[np.ndarray], weights: Sequence[int], n: int) -> Iterator[int]:
    for taken, weight in zip(reversed(steps), reversed(weights), strict=True):
        yield int(taken[n])
        n -= weight * int(taken[n])
