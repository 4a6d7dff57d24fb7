"""Forecast of open listings, assuming that removals, relistings and arrivals continue at their past rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.bootstrap import Arrivals, arrivals
from exposurekit.analysis.group_codes import Ints, add_counts, group_codes, instant, instants
from exposurekit.analysis.statuses import CLOSED, UNKNOWN
from exposurekit.analysis.survival import ENTERED, FIRST_REMOVED, OPEN, RETURNED
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.frames.arrow import texts

HORIZONS = (30, 60, 90)
ARRIVALS_DAYS = 120
MIN_HISTORY_DAYS = 30  # in a shorter history, removals that take weeks look as if they never happened
# Days of history per day of horizon: fewer than the first give no forecast, fewer than the second a caution.
MIN_RATIO, CAUTION_RATIO = 2, 3
# Listings that appear in bursts of this size need this many bursts; the last applies to horizons with a caution, and
# to every horizon in a history shorter than this: one that had enough bursts by then had more than usual.
BURST_SIZE, MIN_BURSTS, CAUTION_BURSTS, BURST_HISTORY_DAYS = 5.0, 4, 15, 60
_DRAWS, _ERRORS, _SEED = 400, 10, 20260630  # draws of the rates, sampling errors per draw
_PRIOR_DAYS = 2.0  # weight of the average hazard at each age, in listing-days
_PRIOR_MIN, _PRIOR_MAX = 1.0, 1_000.0  # weight of the overall rate for each site, in ends
_ROUNDING = 1e-9  # of a share that reaches 0
_MAX_RATE = 0.99  # per day; a rate is a share of what is left
_DRIFT_SD = 0.7  # prior standard deviation of the change in the log hazard from the earlier to the later half of the ages
_T_DF = 10  # degrees of freedom of the sampling errors: their variance is itself an estimate
_DAY = np.timedelta64(86_400, "s")
Floats = NDArray[np.float64]


def forecast(
    records: pd.DataFrame,
    life_table: pd.DataFrame,
    relistings: pd.DataFrame,
    *,
    at: datetime,
    people: pd.DataFrame | None = None,
    runs: pd.DataFrame | None = None,
    days: Sequence[int] = HORIZONS,
    arrivals_days: int = ARRIVALS_DAYS,
    level: float = 0.95,
) -> pd.DataFrame:
    """Forecast the number of open listings, assuming that past rates of removal, relisting and arrival continue.

    Open listings are removed at the rates observed for their age; removed and vanished listings come back at the rates
    observed for the time they have been gone. How old or how long gone a listing was at the first load of its user is
    not known: those that were open, and those that were removed, have rates of their own by the days since then. New
    listings arrive as on the observed days, for the current people and for people who will register. Beyond the observed
    ages each site's last rate continues, pooled with the overall rate. If runs are days apart, what they observed began,
    or ended, on any day since the run before.

    The interval comes from 400 draws of the rates plus sampling error; arrivals resample the time between two runs as a
    whole, so bursts widen it. If the history does not support a forecast, the numbers are missing and ``reason`` says
    why: the history is shorter than 30 days or twice the horizon, or has fewer than five runs; every open listing would
    be older than any that was observed; or new listings arrived in too few bursts (four are needed, or fifteen if the
    horizon is longer than a third of the history, or the history shorter than 60 days).

    Args:
        records: A table as returned by `History.records()`: ``user_id``, ``status``, ``first_seen_at``, ``changed_at``
            (UTC), ``episode`` (0: never observed open), ``left_censored`` (bool: already there when its user was first
            loaded). People whom the service no longer lists are left out.
        life_table: As in `time_to_removal`. With ``site``, each site has its own rates. Removed and vanished both count
            as ends.
        relistings: A table as returned by `relistings`: ``removed_at``, ``listed_again_at`` (UTC), ``gone_days``.
        at: The instant of the tables; ``days`` count from it.
        people: All monitored people, also those without listings: ``user_id``, ``watched_from`` (UTC; missing: since
            their first listing). None: the people in ``records``, since their first listing.
        runs: The times of the runs: ``finished_at`` (UTC). None: they are a day apart.
        days: Horizons in days, at least 1.
        arrivals_days: The number of days before ``at`` from which the arrival rate is estimated; if runs are days apart,
            at least those of four runs.
        level: Confidence level of the interval, between 0 and 1.

    Returns:
        One row for each of ``days``: ``days``, ``open_now`` (int64), the expected number of open listings ``of_open``
        (open now), ``of_gone`` (removed or vanished now), ``of_new`` (not listed yet, including those of people who
        will register), ``open`` (their sum), ``low``, ``high`` (its interval; all float64, missing without a
        forecast), ``beyond`` (open now, and by then older than any that was observed; int64), ``reason`` (text: why
        there is no forecast, or a caution; missing: neither).

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: A horizon is less than a day, or ``level`` is not between 0 and 1.

    Source: Kaplan-Meier estimate by age with a beta posterior (Hjort, Ann. Statist. 18 (1990), 1259); removals and
    relistings as an alternating renewal process (Cox, Renewal Theory (1962), 7); Bayesian bootstrap (Rubin, Ann.
    Statist. 9 (1981), 130).

    >>> table = history.forecast()
    >>> table["days"].tolist(), table.columns.tolist()[-4:]
    ([30, 60, 90], ['low', 'high', 'beyond', 'reason'])
    """
    needed = ("user_id", "status", "first_seen_at", "changed_at", "episode", "left_censored")
    MissingColumns.check("forecast", records, needed)
    flows = ("days", "flow", "left_censored", "n")
    MissingColumns.check("forecast, table life_table,", life_table, flows)
    back = ("removed_at", "listed_again_at", "gone_days")
    MissingColumns.check("forecast, table relistings,", relistings, back)
    if people is not None:
        MissingColumns.check("forecast, table people,", people, ("user_id", "watched_from"))
    if runs is not None:
        MissingColumns.check("forecast, table runs,", runs, ("finished_at",))
    if not days or min(days) < 1 or not 0 < level < 1:
        raise InvalidArgument("invalid days or level: days must be at least 1, level between 0 and 1")
    if arrivals_days < 1:
        raise InvalidArgument("invalid arrivals_days: it must be at least 1")
    rng, gap = np.random.default_rng(_SEED), 1 if runs is None else _gap(runs, at)
    listed = records[~_is_unlisted(records)]
    followed, baseline = _open_listings(life_table, gap, rng)
    closed, closed_baseline = _closed_listings(listed, relistings, at, gap, rng)
    after_opening, after_closing = _renewal(followed.curve, closed.curve, max(days))
    population = _Population(
        (
            (followed, after_closing),
            (baseline, after_closing),
            (closed, after_opening),
            (closed_baseline, after_opening),
        ),
        after_opening,
    )
    enough_days = arrivals_days if gap == 1 else max(arrivals_days, MIN_BURSTS * gap)
    new = arrivals(listed, people, at, enough_days, gap)
    table = pd.DataFrame([_row(population, new, ahead, level) for ahead in days])
    numbers = dict.fromkeys(("of_open", "of_gone", "of_new", "open", "low", "high"), "float64")
    table = table.astype(
        {"days": "int64", "open_now": "int64", **numbers, "beyond": "int64", "reason": "str"}
    )
    table.attrs["level"] = level  # for the chart's labels
    return table


@dataclass(frozen=True, slots=True)
class _Curve:
    """Survival by age in days: the estimate in the first row, bootstrap draws in the others."""

    survival: (
        Floats  # the share that survives each age: one column per observed age, after a first column of ones
    )
    rates: Floats  # daily hazard beyond the oldest observed age: one column per site

    @property
    def oldest(self) -> int:
        """The oldest observed age; -1: none."""
        return int(self.survival.shape[1]) - 2

    def conditional_survival(self, ages: Ints, ahead: int, sites: Ints) -> Floats:
        """The share of those of each age and site that survives `ahead` more days."""
        now = self.survival[:, np.minimum(ages, self.oldest) + 1]
        then = self.survival[:, np.minimum(ages + ahead, self.oldest) + 1]
        shares = np.divide(then, now, out=np.ones_like(then), where=now > 0)
        beyond = np.maximum(ages + ahead - self.oldest, 0) - np.maximum(ages - self.oldest, 0)
        conditional: Floats = shares * np.exp(np.log1p(-self.rates[:, sites]) * beyond)
        return conditional

    def with_mean_rate(self, n: Ints) -> "_Curve":
        """The same curve with one rate, the mean over the sites weighted by `n` (equal weights if all are 0)."""
        weights = n if n.any() else np.ones_like(n)
        rate: Floats = self.rates @ weights / weights.sum()
        return _Curve(self.survival, rate[:, None])

    def survivors(self, ages: Ints, n: Ints, ahead: int) -> Floats:
        """The number that survive of `n` at each age, after 0 to `ahead` days (columns)."""
        site = np.zeros(len(ages), "int64")
        return np.stack([self.conditional_survival(ages, day, site) @ n for day in range(ahead + 1)], axis=1)


def _curve(at_risk: Floats, ended: Floats, rng: np.random.Generator) -> _Curve:
    """Estimate a curve from the numbers at risk and ended, one row per site and one column per age."""
    risk, ends = at_risk.sum(axis=0), ended.sum(axis=0)
    hazard = np.divide(ends, risk, out=np.zeros_like(ends), where=risk > 0)
    mean = (ends.sum() + 0.5) / (risk.sum() + 1)
    draws = rng.beta(
        ends + _PRIOR_DAYS * mean, np.maximum(risk - ends, 0) + _PRIOR_DAYS * (1 - mean), (_DRAWS, len(risk))
    )
    survival = np.cumprod(1 - np.vstack([hazard, draws]), axis=1)
    return _Curve(np.hstack([np.ones((1 + _DRAWS, 1)), survival]), _rates(at_risk, ended, rng))


def _rates(at_risk: Floats, ended: Floats, rng: np.random.Generator) -> Floats:
    """Estimate each site's daily hazard beyond the oldest observed age.

    The hazard of the later half of the observed ages continues, with the drift since the earlier half, shrunk towards
    none. Each site's hazard is shrunk towards the overall one.
    """
    # Age 0 is left out: a listing that ends on its first day never counts as open.
    at_risk, ended = at_risk[:, 1:], ended[:, 1:]
    if not at_risk.sum():
        return np.zeros((1 + _DRAWS, len(at_risk)))
    half = at_risk.shape[1] // 2
    (earlier, n), (earlier_days, days) = (
        (table[:, :half].sum(axis=1), table[:, half:].sum(axis=1)) for table in (ended, at_risk)
    )
    mean, prior_mean = ended.sum() / at_risk.sum(), (ended.sum() + 0.5) / at_risk.sum()
    level = (n.sum() + 1) / (days.sum() + 1 / mean) if mean else 0.0
    levels = rng.gamma(n.sum() + 1, 1 / (days.sum() + 1 / prior_mean), _DRAWS)
    drift, error = _drift(n, days, earlier, earlier_days)
    overall = np.append(level, levels) * np.exp(np.append(drift, rng.normal(drift, error, _DRAWS)))
    expected = days * (n.sum() / max(days.sum(), 1))
    prior = _prior_ends(n, expected)
    site_ratio = (n + prior) / (expected + prior)
    site_ratios = rng.gamma(n + prior, 1 / (expected + prior), (_DRAWS, len(n)))
    rates: Floats = np.minimum(overall[:, None] * np.vstack([site_ratio, site_ratios]), _MAX_RATE)
    return rates


def _drift(n: Floats, days: Floats, earlier: Floats, earlier_days: Floats) -> tuple[float, float]:
    """Estimate the change in the log hazard between the halves of the ages, and its standard error.

    Estimated within sites by the Mantel-Haenszel rate ratio (Rothman, Modern Epidemiology, 3rd ed., 15), so that a
    falling share of fast sites is not mistaken for drift.
    """
    total_days = np.maximum(days + earlier_days, 1)
    up, down = (n * earlier_days / total_days).sum(), (earlier * days / total_days).sum()
    if not up + down:
        return 0.0, _DRIFT_SD
    noise = 1 / (n.sum() + 0.5) + 1 / (earlier.sum() + 0.5)
    weight = _DRIFT_SD**2 / (_DRIFT_SD**2 + noise)
    return float(np.log((up + 0.25) / (down + 0.25)) * weight), float(_DRIFT_SD * np.sqrt(1 - weight))


def _prior_ends(n: Floats, expected: Floats) -> float:
    """The weight of the overall rate for each site, in ends: the less the sites differ, the higher.

    Source: moment estimate of the variance between sites, DerSimonian and Laird, Controlled Clinical Trials 7 (1986),
    177.
    """
    n, expected = n[expected > 0], expected[expected > 0]
    excess = (np.square(n - expected) / expected).sum() - (len(n) - 1)
    variance = excess / max(expected.sum() - np.square(expected).sum() / max(expected.sum(), 1), 1)
    return float(1 / np.clip(variance, 1 / _PRIOR_MAX, 1 / _PRIOR_MIN))


@dataclass(frozen=True, slots=True)
class _Group:
    """Listings in one state, open or closed, by days in it and by site."""

    ages: Ints
    sites: Ints
    n: Ints
    curve: _Curve  # survival in this state
    is_open: bool

    def share_open(self, ahead: int, after_end: Floats) -> Floats:
        """The share of each that is open in `ahead` days; `after_end` is the share open by days since the state ended."""
        survival = self.curve.conditional_survival(self.ages, ahead, self.sites)
        share: Floats = self.is_open * survival + self._ended_share_open(ahead, after_end)[:, None] * (
            1 - survival
        )
        return share

    def _ended_share_open(self, ahead: int, after_end: Floats) -> Floats:
        """The share that is open of those whose state has ended by then, over all sites."""
        ages, age_index = np.unique(self.ages, return_inverse=True)
        n = np.bincount(age_index, self.n, len(ages)).astype("int64")
        per_site = np.bincount(self.sites, self.n, self.curve.rates.shape[1]).astype("int64")
        ended = -np.diff(self.curve.with_mean_rate(per_site).survivors(ages, n, ahead), axis=1)
        total, n_open = ended.sum(axis=1), (ended * after_end[:, ahead - 1 :: -1]).sum(axis=1)
        share: Floats = np.divide(n_open, total, out=np.zeros_like(total), where=total > 0)
        return share

    def beyond(self, ahead: int) -> int:
        """The number that will be older than the oldest observed age; 0 if the curve reached 0."""
        is_older = (self.ages + ahead > self.curve.oldest) & (self.curve.survival[0, -1] > _ROUNDING)
        return int(self.n[is_older].sum())


def _gap(runs: pd.DataFrame, at: datetime) -> int:
    """The median of the days from one run to the next, at least 1."""
    finished = np.unique(instants(runs["finished_at"]))
    gaps = np.diff(finished[finished <= instant(at)]) / _DAY
    return max(int(np.median(gaps).round()), 1) if len(gaps) else 1


def _since_the_run_before(observed: Floats, gap: int, shift: int) -> Floats:
    """Spread what was observed at each age evenly over the days since the run before; ages grow by `shift`."""
    days: Floats = np.zeros((*observed.shape[:-1], observed.shape[-1] + shift))
    age = np.arange(shift, days.shape[-1])
    share = observed / np.clip(age, 1, gap)
    for back in range(gap):
        is_day = (age > back) | (age == 0) & (back == 0)
        days[..., age[is_day] - back] += share[..., is_day]
    return days


def _open_listings(life_table: pd.DataFrame, gap: int, rng: np.random.Generator) -> tuple[_Group, _Group]:
    """Open listings whose start was observed, and those of the first load, whose age is not known."""
    left_censored = life_table["left_censored"].to_numpy("bool")
    names, site = group_codes(life_table, "site" if "site" in life_table else None)
    sites = max(len(names), 1)
    # On average, a listing began half-way between two runs.
    followed, baseline = (
        _open_group(life_table[part], site[part], sites, rng, gap=gap, shift=shift)
        for part, shift in ((~left_censored, gap // 2), (left_censored, 0))
    )
    return followed, baseline


def _open_group(
    life_table: pd.DataFrame, site: Ints, sites: int, rng: np.random.Generator, *, gap: int, shift: int
) -> _Group:
    flow = life_table["flow"].astype("str").to_numpy()
    days, n = life_table["days"].to_numpy("int64"), life_table["n"].to_numpy("int64")
    ages = int(days.max(initial=-1)) + 1

    def count(rows: NDArray[np.bool_]) -> Floats:
        cells = np.zeros((sites, ages), "int64")
        add_counts(cells, (site[rows], days[rows]), n[rows])
        return cells.astype("float64")

    entered, returned = count(flow == ENTERED), count(flow == RETURNED)
    is_end, is_open = np.isin(flow, (*CLOSED, FIRST_REMOVED)), flow == OPEN
    ends = _since_the_run_before(count(is_end), gap, shift)
    exits, entries = ends.copy(), np.zeros_like(ends)
    exits[:, shift:] += count(~is_end & ~np.isin(flow, (ENTERED, RETURNED)))
    entries[:, :ages] += entered
    entries[:, shift:] += returned
    # Episodes that exit at an age are at risk at that age.
    at_risk = np.maximum(np.cumsum(entries - exits, axis=1) + exits, ends)
    return _Group(days[is_open] + shift, site[is_open], n[is_open], _curve(at_risk, ends, rng), is_open=True)


def _closed_listings(
    records: pd.DataFrame, relistings: pd.DataFrame, at: datetime, gap: int, rng: np.random.Generator
) -> tuple[_Group, _Group]:
    """Removed and vanished listings: those seen to close, and those already closed at the first load of their user.

    The latter are followed from that load on: how long they had been closed by then is not known.
    """
    records = records[records["status"].isin(CLOSED).to_numpy("bool")]
    is_baseline = ((records["episode"] == 0) & records["left_censored"].astype("bool")).to_numpy("bool")
    since = instants(records["changed_at"]).copy()
    since[is_baseline] = instants(records["first_seen_at"])[is_baseline]
    closed_days = np.maximum((instant(at) - since) // _DAY, 0).astype("int64")
    followed_days = (instants(relistings["listed_again_at"]) - instants(relistings["removed_at"])) / _DAY
    baseline_days = followed_days[relistings["gone_days"].isna().to_numpy("bool") & ~np.isnan(followed_days)]
    gone_days = relistings["gone_days"].dropna().to_numpy("float64")
    return (
        _closed_group(closed_days[~is_baseline], gone_days, gap, gap // 2, rng),
        _closed_group(closed_days[is_baseline], baseline_days, gap, 0, rng),
    )


def _closed_group(
    closed_days: Ints, relisted_days: Floats, gap: int, shift: int, rng: np.random.Generator
) -> _Group:
    """Closed listings by the days since, with the survival of that state: a relisting ends it."""
    # To the nearest day: two loads are a day apart, give or take minutes.
    relisted = relisted_days.round().astype("int64")
    ages = int(max(closed_days.max(initial=-1), relisted.max(initial=-1))) + 1
    n = np.bincount(closed_days + shift, minlength=ages + shift)
    ended = _since_the_run_before(np.bincount(relisted, minlength=ages).astype("float64"), gap, shift)
    at_risk = (n + ended)[::-1].cumsum()[::-1]
    present = np.flatnonzero(n)
    curve = _curve(at_risk[None], ended[None], rng)
    return _Group(present, np.zeros(len(present), "int64"), n[present].astype("int64"), curve, is_open=False)


def _renewal(open_curve: _Curve, closed_curve: _Curve, span: int) -> tuple[Floats, Floats]:
    """The share that is open by days after opening and by days after closing: an alternating renewal process."""
    age, one = np.zeros(1, "int64"), np.ones(1, "int64")
    still_open, still_closed = (
        curve.with_mean_rate(np.zeros(curve.rates.shape[1], "int64")).survivors(age, one, span)
        for curve in (open_curve, closed_curve)
    )
    ends, returns = -np.diff(still_open, axis=1), -np.diff(still_closed, axis=1)
    after_opening, after_closing = still_open.copy(), np.zeros_like(still_open)
    for day in range(1, span + 1):
        after_closing[:, day] = (returns[:, :day] * after_opening[:, day - 1 :: -1]).sum(axis=1)
        after_opening[:, day] += (ends[:, :day] * after_closing[:, day - 1 :: -1]).sum(axis=1)
    return after_opening, after_closing


@dataclass(frozen=True, slots=True)
class _Population:
    """All listings: open ones, those open since the first load, closed ones, those closed since the first load."""

    # Each with the share that is open by days since its state ended.
    groups: tuple[tuple[_Group, Floats], ...]
    after_opening: Floats  # the share that is open by days since opening

    @property
    def open_now(self) -> int:
        return sum(int(group.n.sum()) for group, _ in self.groups if group.is_open)

    @property
    def closed_baseline(self) -> int:
        return int(self.groups[-1][0].n.sum())

    def beyond(self, ahead: int) -> int:
        return sum(group.beyond(ahead) for group, _ in self.groups if group.is_open)


def _row(population: _Population, new: Arrivals, ahead: int, level: float) -> dict[str, Any]:
    row: dict[str, Any] = {"days": ahead, "open_now": population.open_now}
    obstacle, cautions = _obstacle(population, new, ahead), []
    if obstacle is None:
        row |= _estimate(population, new, ahead, level)
        if new.days < CAUTION_RATIO * ahead:
            cautions.append(f"rough: {ahead} days are more than a third of the history")
        if population.closed_baseline:
            cautions.append(
                f"age unknown for listings already removed at the first load: {population.closed_baseline:,}"
            )
    else:
        row |= dict.fromkeys(("of_open", "of_gone", "of_new", "open", "low", "high"), np.nan)
    return row | {"beyond": population.beyond(ahead), "reason": obstacle or "; ".join(cautions) or None}


def _obstacle(population: _Population, new: Arrivals, ahead: int) -> str | None:
    """Why the history does not support a forecast; None if it does."""
    needed = max(MIN_RATIO * ahead, MIN_HISTORY_DAYS)
    if new.days < needed:
        return f"{ahead} days ahead require {needed} days of history, and listings were observed for {math.floor(new.days)}"
    if population.open_now and population.beyond(ahead) == population.open_now:
        return f"in {ahead} days every open listing will be older than any observed so far"
    if new.span > 1 and len(new.counts) < MIN_BURSTS:
        return f"runs are {new.span} days apart: a forecast needs at least {MIN_BURSTS + 1}"
    bursts, size = new.bursts
    needed = CAUTION_BURSTS if new.days < max(CAUTION_RATIO * ahead, BURST_HISTORY_DAYS) else MIN_BURSTS
    if new.together > BURST_SIZE and bursts < needed:
        return f"new listings arrived in bursts of about {size:,.0f}, and there were too few bursts to estimate a rate"
    return None


def _estimate(population: _Population, new: Arrivals, ahead: int, level: float) -> dict[str, float]:
    """The expected numbers and the interval; in each array the first row is the estimate, every other one a draw."""
    rng = np.random.default_rng([_SEED, ahead])
    open_share = population.after_opening[:, ahead - 1 :: -1]  # by day of arrival
    new_listings = np.vstack([new.expected(ahead), new.resampled(ahead, _DRAWS, rng)])
    of_new = (new_listings * open_share).sum(axis=1)
    variance = (new_listings * open_share * (1 - open_share)).sum(axis=1)
    parts = []
    for group, after_end in population.groups:
        share = group.share_open(ahead, after_end)
        parts.append(share @ group.n)
        variance += (share * (1 - share)) @ group.n
    total = of_new + sum(parts)
    samples = total[1:] + np.sqrt(variance[1:]) * rng.standard_t(_T_DF, (_ERRORS, _DRAWS))
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    followed, baseline, closed, closed_baseline = (float(part[0]) for part in parts)
    return {
        "of_open": followed + baseline,
        "of_gone": closed + closed_baseline,
        "of_new": float(of_new[0]),
        "open": float(total[0]),
        # Listings are whole numbers, at least 0.
        "low": max(float(np.floor(min(low, total[0]))), 0.0),
        "high": float(np.ceil(max(high, total[0]))),
    }


def _is_unlisted(records: pd.DataFrame) -> NDArray[np.bool_]:
    unknown = (texts(records["status"]) == UNKNOWN).to_numpy("bool")
    return records["user_id"].isin(records.loc[unknown, "user_id"]).to_numpy("bool")
