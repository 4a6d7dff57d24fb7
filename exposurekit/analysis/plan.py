"""Plan: the manual removals with the most expected removals in a given time."""

import math
from collections.abc import Iterator, Sequence
from numbers import Real

import numpy as np
import pandas as pd

from exposurekit.analysis.work_queue import LISTING, PAGE, STARTED, TO_DO, VISIT_MINUTES
from exposurekit.errors import InvalidArgument, MissingColumns

PLAN_MINUTES = 30.0
_FIRST_COLUMNS = (  # the ten that a notebook displays before it leaves columns out
    *("person", "user_id", "site", "minutes", "minutes_until", "reason"),
    *("name", "url", "opt_out_procedure", "form_values"),
)
_TOLERANCE = 1e-9  # minutes; sums of floating-point numbers differ by less
_SLACK = 1e-6  # the same of weights, which are whole numbers
_PRICE_STEPS = 100


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
        The chosen rows of ``queue`` in its order, and all its columns; first ``person``, if it is there, ``user_id``,
        ``site``, ``minutes``, ``minutes_until`` and ``reason``, then what the work needs: ``name`` on the listing, ``url``,
        ``opt_out_procedure`` (the steps) and ``form_values``. ``minutes`` (float64) has the steps of the alert
        and its part of the visit among the chosen ones, and ``minutes_until`` (float64) the sum up to and including the
        row. No rows if the time is too short for any alert.

    Raises:
        MissingColumns: ``queue`` lacks a column.
        InvalidArgument: ``minutes`` is not a positive number.

    Source: fixed-charge knapsack, solved exactly: dynamic programming over what a Lagrangian bound does not rule out.

    >>> best = analysis.plan(history.work_queue(), minutes=30)
    >>> bool(best["minutes"].sum() <= 30)
    True
    """
    MissingColumns.check(
        "plan", queue, ("kind", "group", "state", "minutes", "items", "success_rate", "reason")
    )
    if not (isinstance(minutes, Real) and math.isfinite(minutes) and minutes > 0):
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
    best["minutes_until"] = best["minutes"].cumsum()
    first = [name for name in _FIRST_COLUMNS if name in best]
    return best[first + [name for name in best if name not in first]].reset_index(drop=True)


def _weights(queue: pd.DataFrame, groups: Sequence["pd.Series[float]"]) -> list[int]:
    """What an alert of each group counts: its success rate in percent, divided by the greatest common divisor of all."""
    rates = queue["success_rate"].fillna(1.0)
    percents = [max(round(100 * float(rates[part.index[0]])), 1) for part in groups]
    common = math.gcd(*percents)
    return [percent // common for percent in percents]


def _best(groups: Sequence[np.ndarray], weights: Sequence[int], budget: float, visit: float) -> list[int]:
    """How many alerts of each group to do, cheapest first, so that they weigh most within the budget, in the least time.

    At a price per minute, each group has a number that is worth most, and any other number there loses something. All of
    these together are a bound of what a choice can weigh, so one that falls short of it by little has lost little in every
    group. Choices that lose no more than a limit are compared; the limit rises until the best of them meets it.
    """
    if not groups:
        return []
    budget += _TOLERANCE
    times = [np.concatenate([[0.0], visit + np.cumsum(costs)]) for costs in groups]
    times = [within[within <= budget] for within in times]
    values = [weight * np.arange(len(within)) for within, weight in zip(times, weights, strict=True)]
    price = _price(times, values, budget)
    worths = [value - price * within for value, within in zip(values, times, strict=True)]
    losses = [worth.max() - worth for worth in worths]
    bound = sum(float(worth.max()) for worth in worths) + price * budget
    limit = float(max(weights))
    while True:
        numbers = _heaviest(times, weights, losses, budget, limit)
        short = bound - float(np.dot(numbers, weights)) if numbers else math.inf
        if short <= limit:
            return numbers
        limit = min(short, 2 * limit)


def _price(times: Sequence[np.ndarray], values: Sequence[np.ndarray], budget: float) -> float:
    """The price per minute at which the bound is lowest; the bound is convex."""
    time, value = np.concatenate(times), np.concatenate(values)
    first = np.cumsum([0, *map(len, times[:-1])])

    def bound(price: float) -> float:
        return price * budget + float(np.maximum.reduceat(value - price * time, first).sum())

    takes_time = time > 0
    low, high = 0.0, float((value[takes_time] / time[takes_time]).max(initial=0.0))
    for _ in range(_PRICE_STEPS):
        third = (high - low) / 3
        low, high = (low, high - third) if bound(low + third) <= bound(high - third) else (low + third, high)
    return low


def _heaviest(
    times: Sequence[np.ndarray],
    weights: Sequence[int],
    losses: Sequence[np.ndarray],
    budget: float,
    limit: float,
) -> list[int]:
    """The heaviest choice within the budget that loses no more than the limit, in the least time; empty: there is none.

    ``least[i]`` is the least time for i units of weight above the lowest, in the groups so far, and ``lost[i]`` its loss.
    """
    limit += _SLACK
    choices = [np.flatnonzero(loss <= limit).tolist() for loss in losses]
    several = [weight for weight, numbers in zip(weights, choices, strict=True) if len(numbers) > 1]
    unit = math.gcd(*several) or 1
    least, lost, steps = np.zeros(1), np.zeros(1), []
    for within, weight, loss, numbers in zip(times, weights, losses, choices, strict=True):
        step, fewest = weight // unit, numbers[0]
        longer = np.full(len(least) + step * (numbers[-1] - fewest), np.inf)
        loses, taken = longer.copy(), np.full(len(longer), fewest)
        for n in numbers:
            part = slice(step * (n - fewest), step * (n - fewest) + len(least))
            is_less = least + within[n] < longer[part] - _TOLERANCE
            np.copyto(longer[part], least + within[n], where=is_less)
            np.copyto(loses[part], lost + loss[n], where=is_less)
            np.copyto(taken[part], n, where=is_less)
        longer[(loses > limit) | (longer > budget)] = np.inf
        feasible = np.flatnonzero(np.isfinite(longer))
        if not len(feasible):
            return []
        window = slice(feasible[0], feasible[-1] + 1)
        least, lost = longer[window], loses[window]
        steps.append((taken[window], step, fewest, int(feasible[0])))
    return [*_backwards(steps, len(least) - 1)][::-1]


def _backwards(steps: Sequence[tuple[np.ndarray, int, int, int]], at: int) -> Iterator[int]:
    for taken, step, fewest, first in reversed(steps):
        n = int(taken[at])
        yield n
        at += first - step * (n - fewest)
