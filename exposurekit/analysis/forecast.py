"""Forecast of open listings, assuming that removals, relistings and arrivals continue at their past rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.bootstrap import Arrivals, arrivals
from exposurekit.analysis.group_codes import Ints, group_codes, instant, instants
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
_PRIOR_DAYS = 2.0  # weight of the average hazard of those at risk at each age, in listing-days
_PRIOR_MIN, _PRIOR_MAX = 1.0, 1_000.0  # weight of the multiple 1 for each site, in ends
# Sites whose multiples differ by no more than this are projected as one; by twice that or more if too many remain.
_CLASS_WIDTH, _MAX_CLASSES = 0.1, 50
_ROUNDS = 30  # until the sites' multiples are stable
_ROUNDING = 1e-9  # of a share that reaches 0
_LEAST_SHARE = 1e-300  # that survives a day, for its logarithm
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
    days: int | Sequence[int] = HORIZONS,
    arrivals_days: int = ARRIVALS_DAYS,
    level: float = 0.95,
) -> pd.DataFrame:
    """Forecast the number of open listings, assuming that past rates of removal, relisting and arrival continue.

    Open listings are removed at the rates observed for their age; removed and vanished listings are listed again at the rates
    observed for the time they have been gone. How old or how long gone a listing was at the first load of its user is
    not known: those that were open, and those that were removed, have rates of their own by the days since then. Each
    site's rates are a multiple of those of all sites, estimated from its own removals and relistings, and nearer to 1
    the fewer they are; a listing that is removed, or listed again, continues at the rates of its site. New listings arrive
    as on the observed days, for the current people and for people who will register. Beyond the observed ages the last
    rate continues. If runs are days apart, what they observed began, or ended, on any day since the run before.

    The interval comes from 400 draws of the rates plus sampling error; arrivals resample the time between two runs as a
    whole, so bursts widen it. If the history does not support a forecast, the numbers are missing and ``reason`` says
    why: the history is shorter than 30 days or twice the horizon, or has fewer than five runs; every open listing would
    be older than any that was observed; or new listings arrived in too few bursts (four are needed, or fifteen if the
    horizon is longer than a third of the history, or the history shorter than 60 days).

    Args:
        records: A table as returned by `History.records()`: ``user_id``, ``status``, ``first_seen_at``, ``changed_at``
            (UTC), ``episode`` (0: never observed open), ``left_censored`` (bool: already there when its user was first
            loaded). People whom the service no longer lists are left out. With ``site`` in all three tables,
            each site has rates of its own.
        life_table: As in `time_to_removal`. Removed and vanished both count as ends.
        relistings: A table as returned by `relistings`: ``removed_at``, ``listed_again_at`` (UTC), ``gone_days``.
        at: The instant of the tables; ``days`` count from it.
        people: All monitored people, also those without listings: ``user_id``, ``watched_from`` (UTC; missing: since
            their first listing). None: the people in ``records``, since their first listing.
        runs: The times of the runs: ``finished_at`` (UTC). None: they are a day apart.
        days: One horizon in days, or several, each at least 1.
        arrivals_days: The number of days before ``at`` from which the arrival rate is estimated; if runs are days apart,
            at least those of four runs.
        level: Confidence level of the interval, between 0 and 1.

    Returns:
        One row for each of ``days``: ``days``, ``open_now`` (int64), the expected number of open listings ``of_open``
        (open now), ``of_gone`` (removed or vanished now), ``of_new`` (not listed yet, including those of people who
        will register), ``open`` (their sum), ``low``, ``high`` (its interval; all float64, missing without a
        forecast), ``beyond`` (open now, and by then older than any that was observed; int64), ``reason`` (text: why
        there is no forecast, or a caution; missing: neither). pandas cuts long texts:
        ``print(*forecast["reason"].dropna(), sep="; ")`` prints them whole.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: A horizon is less than a day, or ``level`` is not between 0 and 1.

    Source: Kaplan-Meier estimate by age with a beta posterior (Hjort, Ann. Statist. 18 (1990), 1259); sites as a shared
    gamma frailty (Nielsen et al., Scand. J. Statist. 19 (1992), 25); removals and relistings as an alternating renewal
    process (Cox, Renewal Theory (1962), 7); Bayesian bootstrap (Rubin, Ann. Statist. 9 (1981), 130).

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
    horizons = [days] if isinstance(days, int) else days
    if not horizons or min(horizons) < 1 or not 0 < level < 1:
        raise InvalidArgument("invalid days or level: days must be at least 1, level between 0 and 1")
    if arrivals_days < 1:
        raise InvalidArgument("invalid arrivals_days: it must be at least 1")
    rng, gap = np.random.default_rng(_SEED), 1 if runs is None else _gap(runs, at)
    (listed, life_table, relistings), sites = _with_site_numbers(
        records[~_is_unlisted(records)], life_table, relistings
    )
    opened = _groups(_open_listings(life_table, sites, gap), rng, is_open=True)
    closed = _groups(_closed_listings(listed, relistings, at, sites, gap), rng, is_open=False)
    enough_days = arrivals_days if gap == 1 else max(arrivals_days, MIN_BURSTS * gap)
    new = arrivals(listed, people, at, max_days=enough_days, span=gap, sites=sites)
    possible = [ahead for ahead in horizons if _missing_days(new, ahead) is None]
    population = _population(opened, closed, new, max(possible, default=0), rng)
    table = pd.DataFrame([_row(population, new, ahead, level) for ahead in horizons])
    numbers = dict.fromkeys(("of_open", "of_gone", "of_new", "open", "low", "high"), "float64")
    table = table.astype(
        {"days": "int64", "open_now": "int64", **numbers, "beyond": "int64", "reason": "str"}
    )
    table.attrs["level"] = level  # for the chart's labels
    return table


def _with_site_numbers(*tables: pd.DataFrame) -> tuple[list[pd.DataFrame], int]:
    """Number the sites; if a table has none, all listings are of one."""
    if not all("site" in table for table in tables):
        return [table.assign(site=0) for table in tables], 1
    codes, of_tables = zip(
        *(pd.factorize(table["site"], use_na_sentinel=False) for table in tables), strict=True
    )
    distinct = pd.DataFrame({"site": [site for sites in of_tables for site in sites]})
    names, numbers = group_codes(distinct, "site")
    ends = np.cumsum([len(sites) for sites in of_tables])
    split = zip(tables, codes, np.split(numbers, ends[:-1]), strict=True)
    return [table.assign(site=number[code]) for table, code, number in split], max(len(names), 1)


@dataclass(frozen=True, slots=True)
class _Curve:
    """Survival by age in days: the estimate in the first row, bootstrap draws in the others."""

    log_survival: (
        Floats  # up to and including each age: one column per observed age, after a first column of zeros
    )
    log_beyond: Floats  # the same for each day beyond the oldest observed age
    multiples: Floats  # of the hazard, and so of these logarithms: one column per site

    @property
    def oldest(self) -> int:
        """The oldest observed age; -1: none."""
        return int(self.log_survival.shape[1]) - 2

    def log_survival_at(self, ages: Ints) -> Floats:
        """The logarithm of the share that survives each age, where the multiple is 1."""
        beyond = np.maximum(ages - self.oldest, 0)
        observed: Floats = self.log_survival[:, np.minimum(ages, self.oldest) + 1]
        return observed + self.log_beyond[:, None] * beyond


def _curve(
    at_risk: Floats, ended: Floats, multiples: Floats, correction: Floats, rng: np.random.Generator
) -> _Curve:
    """Estimate a curve from the numbers at risk and ended, one row per site and one column per age."""
    risk, ends = at_risk.sum(axis=0), ended.sum(axis=0)
    relative = _mean_multiple(multiples, at_risk)
    prior = np.minimum((ends.sum() + 0.5) / (relative[0] @ risk + 1) * relative[0], _MAX_RATE)
    draws = rng.beta(
        ends + _PRIOR_DAYS * prior,
        np.maximum(risk - ends, 0) + _PRIOR_DAYS * (1 - prior),
        (_DRAWS, len(risk)),
    )
    left = np.maximum(1 - np.vstack([_share(ends, risk), draws]), _LEAST_SHARE)
    log_survival = np.cumsum(np.log(left) * correction / relative, axis=1)
    log_beyond = _log_beyond(at_risk, ended, multiples, rng)
    return _Curve(np.hstack([np.zeros((1 + _DRAWS, 1)), log_survival]), log_beyond, multiples)


def _share(ended: Floats, at_risk: Floats) -> Floats:
    share: Floats = np.divide(ended, at_risk, out=np.zeros_like(ended), where=at_risk > 0)
    return share


def _mean_multiple(multiples: Floats, at_risk: Floats) -> Floats:
    """The mean multiple of those at risk at each age; 1 without any."""
    total, risk = multiples @ at_risk, at_risk.sum(axis=0)
    mean: Floats = np.divide(total, risk, out=np.ones_like(total), where=risk > 0)
    return mean


def _multiples(at_risk: Floats, ended: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Estimate each site's multiple of the hazard at every age, shrunk towards 1, and a correction of that hazard.

    The fewer ends a site was expected to have, and the less the sites differ, the nearer it is to 1. The hazard at each
    age is that at which, with these multiples, as many end as were observed: the logarithm of the share that was left,
    divided by the mean multiple of those at risk, times the correction, which matters only where many end within a day.

    Source: EM algorithm of the shared gamma frailty (Nielsen et al., Scand. J. Statist. 19 (1992), 25) in the grouped
    proportional hazards model (Prentice and Gloeckler, Biometrics 34 (1978), 57).
    """
    risk, share = at_risk.sum(axis=0), _share(ended.sum(axis=0), at_risk.sum(axis=0))
    # An age at which all end says nothing about the sites.
    log_left = np.log1p(-np.where(share < 1, share, 0))
    ended = ended * (share < 1)
    multiples, base = np.ones(len(at_risk)), -log_left
    for _ in range(_ROUNDS):
        hazard = multiples[:, None] * base
        # If a listing could end more than once a day: so many for each that ended.
        per_end = np.divide(hazard, -np.expm1(-hazard), out=np.ones_like(hazard), where=hazard > 0)
        ends, expected = (ended * per_end).sum(axis=1), at_risk @ base
        prior = _prior_ends(ends, expected)
        multiples = (ends + prior) / (expected + prior)
        left = np.maximum(at_risk * np.exp(-multiples[:, None] * base), _LEAST_SHARE)
        change = np.log(left.sum(axis=0) / np.maximum(risk, 1)) - log_left  # Newton's method
        base = np.maximum(base + (base > 0) * change * left.sum(axis=0) / (multiples @ left), base / 2)
    simple = -log_left / _mean_multiple(multiples, at_risk)
    correction = np.divide(base, simple, out=np.ones_like(base), where=simple > 0)
    draws = rng.gamma(ends + prior, 1 / (expected + prior), (_DRAWS, len(ends)))
    return np.vstack([multiples, draws]), correction


def _log_beyond(at_risk: Floats, ended: Floats, multiples: Floats, rng: np.random.Generator) -> Floats:
    """Estimate the logarithm of the share that survives a day beyond the oldest observed age.

    The hazard of the later half of the observed ages continues, with the drift since the earlier half, shrunk towards
    none.
    """
    # Age 0 is left out: a listing that ends on its first day never counts as open.
    at_risk, ended = at_risk[:, 1:], ended[:, 1:]
    if not at_risk.sum():
        return np.zeros(1 + _DRAWS)
    half = at_risk.shape[1] // 2
    (earlier, n), (earlier_days, days) = (
        (table[:, :half].sum(axis=1), table[:, half:].sum(axis=1)) for table in (ended, at_risk)
    )
    relative = _mean_multiple(multiples, days[:, None])[:, 0]
    mean, prior_mean = (
        (ended.sum() + extra) / (multiples[0] @ at_risk.sum(axis=1)) * relative for extra in (0, 0.5)
    )
    level = (n.sum() + 1) / (days.sum() + 1 / mean[0]) if mean[0] else 0.0
    levels = rng.gamma(n.sum() + 1, 1 / (days.sum() + 1 / prior_mean[1:]))
    drift, error = _drift(n, days, earlier, earlier_days)
    rates = np.append(level, levels) * np.exp(np.append(drift, rng.normal(drift, error, _DRAWS)))
    log_share: Floats = np.log1p(-np.minimum(rates, _MAX_RATE))
    return log_share / relative


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
    """The weight of the multiple 1 for each site, in ends: the less the sites differ, the higher.

    Source: moment estimate of the variance between sites, DerSimonian and Laird, Controlled Clinical Trials 7 (1986),
    177.
    """
    n, expected = n[expected > 0], expected[expected > 0]
    excess = (np.square(n - expected) / expected).sum() - max(len(n) - 1, 0)
    variance = excess / max(expected.sum() - np.square(expected).sum() / max(expected.sum(), 1), 1)
    return float(1 / np.clip(variance, 1 / _PRIOR_MAX, 1 / _PRIOR_MIN))


@dataclass(frozen=True, slots=True)
class _Counts:
    """Listings in one state, open or closed: one row per site, one column per day in it."""

    n: Floats  # in it now
    at_risk: Floats
    ended: Floats


@dataclass(frozen=True, slots=True)
class _Group:
    """Listings in one state, open or closed, and their survival in it."""

    n: Floats  # one row per site, one column per day in it
    curve: _Curve
    is_open: bool

    def merged(self, members: Floats, weights: Floats) -> "_Group":
        """The same with classes of sites for sites: the members of each, and their weights in its multiple."""
        curve = replace(self.curve, multiples=self.curve.multiples @ weights)
        return _Group(members.T @ self.n, curve, self.is_open)

    def open_then(self, ahead: int, after_end: Floats) -> tuple[Floats, Floats]:
        """How many are open in `ahead` days, and the variance of that number.

        `after_end` is the share open by days since the state ended, per site.
        """
        ages, days = np.arange(self.n.shape[1]), np.arange(ahead + 1)
        logs = self.curve.log_survival_at(ages + ahead) - self.curve.log_survival_at(ages)
        estimate = self.curve.log_survival_at(np.arange(len(ages) + ahead))[0]
        daily = estimate[ages[:, None] + days] - estimate[ages, None]
        number, variance = np.zeros(1 + _DRAWS), np.zeros(1 + _DRAWS)
        for site in np.flatnonzero(self.n.any(axis=1)):  # all sites at once would take too much memory
            multiple, present = self.curve.multiples[:, site], np.flatnonzero(self.n[site])
            n = self.n[site, present]
            survival = np.exp(multiple[:, None] * logs[:, present])
            ended = -np.diff(n @ np.exp(multiple[0] * daily[present]))
            weights = ended / ended.sum() if ended.any() else np.full(ahead, 1 / ahead)
            ended_share = after_end[site][:, ahead - 1 :: -1] @ weights
            share = self.is_open * survival + ended_share[:, None] * (1 - survival)
            number += share @ n
            variance += (share * (1 - share)) @ n
        return number, variance

    def beyond(self, ahead: int) -> int:
        """The number that will be older than the oldest observed age, at sites where the curve did not reach 0."""
        is_left = self.curve.multiples[0] * self.curve.log_survival[0, -1] > np.log(_ROUNDING)
        return int(self.n[is_left, max(self.curve.oldest + 1 - ahead, 0) :].sum())


def _groups(
    counts: tuple[_Counts, _Counts], rng: np.random.Generator, *, is_open: bool
) -> tuple[_Group, _Group]:
    """The listings of one state: those whose start was observed, and those of the first load."""
    at_risk, ended = (
        np.hstack(tables) for tables in zip(*((one.at_risk, one.ended) for one in counts), strict=True)
    )
    multiples, correction = _multiples(at_risk, ended, rng)
    corrections = np.split(correction, [counts[0].n.shape[1]])
    followed, baseline = (
        _Group(one.n, _curve(one.at_risk, one.ended, multiples, corrected, rng), is_open)
        for one, corrected in zip(counts, corrections, strict=True)
    )
    return followed, baseline


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


def _open_listings(life_table: pd.DataFrame, sites: int, gap: int) -> tuple[_Counts, _Counts]:
    """Open listings whose start was observed, and those of the first load, whose age is not known."""
    left_censored = life_table["left_censored"].to_numpy("bool")
    # On average, a listing began half-way between two runs.
    return (
        _open_counts(life_table[~left_censored], sites, gap, gap // 2),
        _open_counts(life_table[left_censored], sites, gap, 0),
    )


def _open_counts(life_table: pd.DataFrame, sites: int, gap: int, shift: int) -> _Counts:
    flow, site = life_table["flow"].astype("str").to_numpy(), life_table["site"].to_numpy("int64")
    days, n = life_table["days"].to_numpy("int64"), life_table["n"].to_numpy("int64")
    ages = int(days.max(initial=-1)) + 1

    def count(rows: NDArray[np.bool_]) -> Floats:
        return _count(site[rows], days[rows], sites, ages, n[rows])

    entered, returned = count(flow == ENTERED), count(flow == RETURNED)
    is_end, is_open = np.isin(flow, (*CLOSED, FIRST_REMOVED)), flow == OPEN
    ends = _since_the_run_before(count(is_end), gap, shift)
    present, exits, entries = np.zeros_like(ends), ends.copy(), np.zeros_like(ends)
    present[:, shift:] = count(is_open)
    exits[:, shift:] += count(~is_end & ~np.isin(flow, (ENTERED, RETURNED)))
    entries[:, :ages] += entered
    entries[:, shift:] += returned
    # Episodes that exit at an age are at risk at that age.
    at_risk = np.maximum(np.cumsum(entries - exits, axis=1) + exits, ends)
    return _Counts(present, at_risk, ends)


def _closed_listings(
    records: pd.DataFrame, relistings: pd.DataFrame, at: datetime, sites: int, gap: int
) -> tuple[_Counts, _Counts]:
    """Removed and vanished listings: those seen to close, and those already closed at the first load of their user.

    The latter are followed from that load on: how long they had been closed by then is not known.
    """
    records = records[records["status"].isin(CLOSED).to_numpy("bool")]
    is_baseline = ((records["episode"] == 0) & records["left_censored"].astype("bool")).to_numpy("bool")
    since = instants(records["changed_at"]).copy()
    since[is_baseline] = instants(records["first_seen_at"])[is_baseline]
    closed_days = np.maximum((instant(at) - since) // _DAY, 0).astype("int64")
    followed_days = (instants(relistings["listed_again_at"]) - instants(relistings["removed_at"])) / _DAY
    gone_days = relistings["gone_days"].to_numpy("float64")
    is_relisted_baseline = np.isnan(gone_days) & ~np.isnan(followed_days)
    site, relisted_site = (table["site"].to_numpy("int64") for table in (records, relistings))
    followed, baseline = (
        _closed_counts(
            (site[rows], closed_days[rows]),
            # To the nearest day: two loads are a day apart, give or take minutes.
            (relisted_site[relisted], days[relisted].round().astype("int64")),
            sites,
            gap,
            shift,
        )
        for rows, relisted, days, shift in (
            (~is_baseline, ~np.isnan(gone_days), gone_days, gap // 2),
            (is_baseline, is_relisted_baseline, followed_days, 0),
        )
    )
    return followed, baseline


def _closed_counts(
    closed: tuple[Ints, Ints], relisted: tuple[Ints, Ints], sites: int, gap: int, shift: int
) -> _Counts:
    """Count closed listings, and the relistings that end that state, by site and days since they closed."""
    ages = int(max(closed[1].max(initial=-1), relisted[1].max(initial=-1))) + 1
    n = np.zeros((sites, ages + shift))
    n[:, shift:] = _count(*closed, sites, ages)
    ended = _since_the_run_before(_count(*relisted, sites, ages), gap, shift)
    at_risk = (n + ended)[:, ::-1].cumsum(axis=1)[:, ::-1]
    return _Counts(n, at_risk, ended)


def _count(site: Ints, days: Ints, sites: int, ages: int, n: Ints | None = None) -> Floats:
    cells = np.bincount(site * ages + days, n, sites * ages)
    return cells.reshape(sites, ages).astype("float64")


def _renewal(open_curve: _Curve, closed_curve: _Curve, span: int) -> tuple[Floats, Floats]:
    """The share that is open by site and by days after opening and after closing: an alternating renewal process."""
    logs = [
        curve.log_survival_at(np.arange(span + 1)) - curve.log_survival_at(np.zeros(1, "int64"))
        for curve in (open_curve, closed_curve)
    ]
    sites = open_curve.multiples.shape[1]
    after_opening, after_closing = np.zeros((2, sites, 1 + _DRAWS, span + 1))
    for site in range(sites):
        still_open, still_closed = (
            np.exp(curve.multiples[:, [site]] * log)
            for curve, log in zip((open_curve, closed_curve), logs, strict=True)
        )
        ends, returns = -np.diff(still_open, axis=1), -np.diff(still_closed, axis=1)
        opened, closed = after_opening[site], after_closing[site]
        opened[:] = still_open
        for day in range(1, span + 1):
            closed[:, day] = np.einsum("ij,ij->i", returns[:, :day], opened[:, day - 1 :: -1])
            opened[:, day] += np.einsum("ij,ij->i", ends[:, :day], closed[:, day - 1 :: -1])
    return after_opening, after_closing


@dataclass(frozen=True, slots=True)
class _Population:
    """All listings: open ones, those open since the first load, closed ones, those closed since the first load."""

    # Each with the share that is open by days since its state ended, per site.
    groups: tuple[tuple[_Group, Floats], ...]
    after_arrival: Floats  # the share of new listings that is open by days since they appeared

    @property
    def open_now(self) -> int:
        return sum(int(group.n.sum()) for group, _ in self.groups if group.is_open)

    @property
    def closed_baseline(self) -> int:
        return int(self.groups[-1][0].n.sum())

    def beyond(self, ahead: int) -> int:
        return sum(group.beyond(ahead) for group, _ in self.groups if group.is_open)


def _population(
    opened: tuple[_Group, _Group],
    closed: tuple[_Group, _Group],
    new: Arrivals,
    span: int,
    rng: np.random.Generator,
) -> _Population:
    # One pseudo-listing, of any site that has listings.
    listings = sum(group.n.sum(axis=1) for group in (*opened, *closed)) + _ROUNDING
    n = new.by_site + listings / listings.sum()
    members = _classes(opened[0].curve.multiples[0], closed[0].curve.multiples[0])
    weights = members * (listings + n)[:, None]
    opened_classes, closed_classes = (
        [group.merged(members, weights / weights.sum(axis=0)) for group in groups]
        for groups in (opened, closed)
    )
    after_opening, after_closing = _renewal(opened_classes[0].curve, closed_classes[0].curve, span)
    draws = rng.gamma(n @ members, size=(_DRAWS, members.shape[1]))
    shares = np.vstack([n @ members, draws])
    after_arrival = np.einsum("ds,sdk->dk", shares / shares.sum(axis=1)[:, None], after_opening)
    groups = (
        *((group, after_closing) for group in opened_classes),
        *((group, after_opening) for group in closed_classes),
    )
    return _Population(groups, after_arrival)


def _classes(*multiples: Floats) -> Floats:
    """Sites with similar multiples, of both hazards, are in one class: a row per site and a column per class, 0 or 1."""
    width, classes = _CLASS_WIDTH, np.zeros((0, 0))
    while not classes.size or classes.shape[1] > _MAX_CLASSES:
        keys = np.round(np.log(np.stack(multiples)) / width)
        _, site_class = np.unique(keys, axis=1, return_inverse=True)
        classes = np.eye(site_class.max() + 1)[site_class]
        width *= 2
    return classes


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


def _missing_days(new: Arrivals, ahead: int) -> str | None:
    """How the history is too short for a horizon; None if it is not."""
    needed = max(MIN_RATIO * ahead, MIN_HISTORY_DAYS)
    if new.days >= needed:
        return None
    return f"{ahead} days ahead require {needed} days of history, and listings were observed for {math.floor(new.days)}"


def _obstacle(population: _Population, new: Arrivals, ahead: int) -> str | None:
    """Why the history does not support a forecast; None if it does."""
    if missing := _missing_days(new, ahead):
        return missing
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
    open_share = population.after_arrival[:, ahead - 1 :: -1]  # by day of arrival
    new_listings = np.vstack([new.expected(ahead), new.resampled(ahead, _DRAWS, rng)])
    of_new = (new_listings * open_share).sum(axis=1)
    variance = (new_listings * open_share * (1 - open_share)).sum(axis=1)
    parts = []
    for group, after_end in population.groups:
        number, spread = group.open_then(ahead, after_end)
        parts.append(number)
        variance += spread
    total = of_new + sum(parts)
    samples = total[1:] + np.sqrt(np.maximum(variance[1:], 0)) * rng.standard_t(_T_DF, (_ERRORS, _DRAWS))
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
