"""Plan: the manual removals that clear the most listings in a given time."""

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
    """Choose the alerts that clear the most listings within some minutes, then the most web pages in what is left.

    No other choice within the same time clears more listings, given the estimated minutes: each group takes one visit,
    whatever is done there. Alerts with a ``reason`` to wait are left out, as are those that are done or unable.

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
    MissingColumns.check("plan", queue, ("kind", "group", "state", "minutes", "items", "reason"))
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
        numbers = _best([part.to_numpy("float64") for part in groups], left, visit_minutes)
        picked = [part.head(n) for part, n in zip(groups, numbers, strict=True) if n]
        chosen += [number for part in picked for number in part.index]
        left -= sum(float(part.sum()) + visit_minutes for part in picked)
    best = queue.loc[sorted(chosen)]
    visits = visit_minutes / best.groupby(["kind", "group"], dropna=False)["minutes"].transform("size")
    best = best.assign(minutes=own[best.index] + visits)
    best.insert([*best].index("minutes") + 1, "minutes_until", best["minutes"].cumsum())
    return best.reset_index(drop=True)


def _best(groups: Sequence[np.ndarray], budget: float, visit: float) -> list[int]:
    """How many alerts of each group to do, cheapest first, so that they are most within the budget.

    ``least[n]`` is the least time in which n alerts of the groups so far can be done.
    """
    least = np.zeros(1)
    steps: list[np.ndarray] = []
    for costs in groups:
        within = np.concatenate([[0.0], visit + np.cumsum(costs)])
        within = within[within <= budget + _TOLERANCE]
        longer = np.full(len(least) + len(within) - 1, np.inf)
        taken = np.zeros(len(longer), "int64")
        for n, cost in enumerate(within.tolist()):
            part = slice(n, n + len(least))
            is_less = least + cost < longer[part] - _TOLERANCE
            longer[part] = np.where(is_less, least + cost, longer[part])
            taken[part] = np.where(is_less, n, taken[part])
        is_affordable = longer <= budget + _TOLERANCE
        least, taken = longer[is_affordable], taken[is_affordable]
        steps.append(taken)
    return [*_backwards(steps, len(least) - 1)][::-1]


def _backwards(steps: Sequence[np.ndarray], n: int) -> Iterator[int]:
    for taken in reversed(steps):
        yield int(taken[n])
        n -= int(taken[n])
