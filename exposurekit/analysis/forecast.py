"""The forecast: how many listings will be open, if removals, returns and arrivals go on as before. Knows no causes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.arrivals import Arrivals, arrivals
from exposurekit.analysis.grouping import Ints, add, grouped, instant, instants
from exposurekit.analysis.statuses import CLOSED, UNKNOWN
from exposurekit.analysis.survival import ENTERED, OPEN, RETURNED
from exposurekit.errors import InvalidArgument, MissingColumns

HORIZONS = (30, 60, 90)
ARRIVALS_DAYS = 120
SHORTEST = 30  # days of history; before, delays of weeks look as if nothing were ever removed
# A history is so many times as long as the horizon, or gives no number; under the second it says so.
SHORT, CAUTION = 2, 3
# Where so many listings come together, it takes so many bursts; the second where the horizon is cautioned against.
BURST, MIN_BURSTS, CAUTIOUS_BURSTS = 5.0, 4, 15
_DRAWS, _CHANCES, _SEED = 400, 10, 20260630
_POOLED_DAYS = 2.0  # listing-days at the usual rate that stand beside those observed at each age
_POOLED_LEAST, _POOLED_MOST = 1.0, 1_000.0  # ends at the fleet's rate that stand beside those of each site
_MOST = 0.99  # the highest rate: more than one in one does not end a day
_DRIFT = 0.7  # how much a hazard's logarithm may move from half to half of the ages: a standard deviation
_FREEDOM = 10  # of Student's t, for chance: the shares whose variance it is are estimates
_DAY = np.timedelta64(86_400, "s")
Floats = NDArray[np.float64]


def forecast(
    records: pd.DataFrame,
    flows: pd.DataFrame,
    relistings: pd.DataFrame,
    *,
    at: datetime,
    people: pd.DataFrame | None = None,
    days: Sequence[int] = HORIZONS,
    arrivals_days: int = ARRIVALS_DAYS,
    level: float = 0.95,
) -> pd.DataFrame:
    """Forecast how many listings will be open, if removals, returns and arrivals go on as before.

    Open listings are removed as others of their age were; those that were open at the first load, as such listings were
    since then. Listings that are gone come back as others did that were gone for as long. New listings come as on the
    days observed, for the people followed, and with people who register. Beyond the ages that were followed each site's
    listings go on at the site's last rate, pooled with the fleet's.

    The interval is from 400 draws of what the rates may be, with the chance of each listing; arrivals resample whole
    days, so bursts widen it. There is no number where the history says too little, and ``reason`` says why: it is
    shorter than twice the horizon or than 30 days, every open listing will be older than any
    that was followed, or new listings came in too few bursts: it takes four, and fifteen where the horizon is longer than a
    third of the history.

    Args:
        records: As returned by `History.records`: ``user_id``, ``status``, ``first_seen_at``, ``changed_at`` (UTC).
            People whom the service lists no longer are left out.
        flows: As returned by `History.life_table`; with ``site`` the rates are each site's own. Removed and vanished both
            count as ends.
        relistings: As returned by `relistings`: ``gone_days``.
        at: The instant of the tables, the end of their last day; ``days`` are counted from it.
        people: Who is followed: ``user_id``, ``watched_from`` (UTC; missing: from their first listing). None: people
            with records, from their first. People without a listing count, so that first listings are expected too.
        days: Horizons in days, each one or more.
        arrivals_days: How many days before ``at`` new listings are counted over.
        level: Of the interval, between 0 and 1.

    Returns:
        One row for each of ``days``: ``days``, ``open_now`` (int64), the expected number of open listings ``of_open``
        (open now too), ``of_gone`` (removed or vanished now), ``of_new`` (not listed yet, those of people who will
        register included), ``open`` (their sum), ``low``, ``high`` (its interval; all float64, missing where there is
        no number), ``beyond`` (open now, and older by then than any of their kind that was followed; int64),
        ``reason`` (text: why there is no number, or what to be careful of; missing: nothing).

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: A horizon is less than a day, or ``level`` not between 0 and 1.

    Source: Kaplan and Meier's estimate by age with a beta posterior (Hjort, Ann. Statist. 18 (1990), 1259); returns and
    removals as an alternating renewal process, Cox, Renewal Theory (1962), 7; the Bayesian bootstrap, Rubin, Ann.
    Statist. 9 (1981), 130.

    >>> table = history.forecast()
    >>> table["days"].tolist(), table.columns.tolist()[-4:]
    ([30, 60, 90], ['low', 'high', 'beyond', 'reason'])
    """
    needed = ("user_id", "status", "first_seen_at", "changed_at")
    MissingColumns.check("forecast", records.columns, needed)
    MissingColumns.check("forecast, of its flows,", flows.columns, ("days", "flow", "left_censored", "n"))
    MissingColumns.check("forecast, of its relistings,", relistings.columns, ("gone_days",))
    if people is not None:
        MissingColumns.check("forecast, of its people,", people.columns, ("user_id", "watched_from"))
    if not days or min(days) < 1 or not 0 < level < 1:
        raise InvalidArgument("days are one or more, and level is between 0 and 1")
    if arrivals_days < 1:
        raise InvalidArgument("arrivals_days is one or more")
    chance = np.random.default_rng(_SEED)
    known = records[~_out_of_view(records)]
    followed, baseline = _still_open(flows, chance)
    away = _closed_listings(known, relistings, at, chance)
    opened, closed = _renewal(followed.curve, away.curve, max(days))
    fleet = _Fleet(((followed, closed), (baseline, closed), (away, opened)), opened)
    new = arrivals(known, people, at, arrivals_days)
    table = pd.DataFrame([_row(fleet, new, ahead, level) for ahead in days])
    numbers = dict.fromkeys(("of_open", "of_gone", "of_new", "open", "low", "high"), "float64")
    table = table.astype(
        {"days": "int64", "open_now": "int64", **numbers, "beyond": "int64", "reason": "str"}
    )
    table.attrs["level"] = level  # what the chart calls its interval
    return table


@dataclass(frozen=True, slots=True)
class _Curve:
    """How long things last, by their age in days: the estimate in the first row, and a draw of it in each other.

    Attributes:
        lasting: The share that lasts longer than each age; a column for each age followed.
        rates: How often what is older ends, a day; a column for each site.
    """

    lasting: Floats
    rates: Floats

    @property
    def oldest(self) -> int:
        """The highest age that was followed; -1: none."""
        return int(self.lasting.shape[1]) - 2

    def stay(self, ages: Ints, ahead: int, sites: Ints) -> Floats:
        """The share of those of each age and site that lasts so many days more."""
        now = self.lasting[:, np.minimum(ages, self.oldest) + 1]
        then = self.lasting[:, np.minimum(ages + ahead, self.oldest) + 1]
        shares = np.divide(then, now, out=np.ones_like(then), where=now > 0)
        past = np.maximum(ages + ahead - self.oldest, 0) - np.maximum(ages - self.oldest, 0)
        stay: Floats = shares * np.exp(np.log1p(-self.rates[:, sites]) * past)
        return stay

    def together(self, n: Ints) -> "_Curve":
        """The same with one rate for all sites, of which there are so many things each; of none, all count alike."""
        weights = n if n.any() else np.ones_like(n)
        rate: Floats = self.rates @ weights / weights.sum()
        return _Curve(self.lasting, rate[:, None])

    def paths(self, ages: Ints, n: Ints, ahead: int) -> Floats:
        """How many of so many of each age are left after none, one, two and more days."""
        site = np.zeros(len(ages), "int64")
        return np.stack([self.stay(ages, day, site) @ n for day in range(ahead + 1)], axis=1)


def _curve(at_risk: Floats, ended: Floats, chance: np.random.Generator) -> _Curve:
    """From how many were followed at each age and how many ended at it: a row for each site."""
    risk, ends = at_risk.sum(axis=0), ended.sum(axis=0)
    hazard = np.divide(ends, risk, out=np.zeros_like(ends), where=risk > 0)
    usual = (ends.sum() + 0.5) / (risk.sum() + 1)
    drawn = chance.beta(
        ends + _POOLED_DAYS * usual,
        np.maximum(risk - ends, 0) + _POOLED_DAYS * (1 - usual),
        (_DRAWS, len(risk)),
    )
    lasting = np.cumprod(1 - np.vstack([hazard, drawn]), axis=1)
    return _Curve(np.hstack([np.ones((1 + _DRAWS, 1)), lasting]), _rates(at_risk, ended, chance))


def _rates(at_risk: Floats, ended: Floats, chance: np.random.Generator) -> Floats:
    """How often each site's listings end that are older than any followed.

    The hazard is that of the later half of the ages followed, and moves on as it did from the earlier half: by how much
    is pooled with not at all. Each site's hazard is pooled with the fleet's.
    """
    at_risk, ended = (
        at_risk[:, 1:],
        ended[:, 1:],
    )  # in days: what ends within its first is not there to be listed
    if not at_risk.sum():
        return np.zeros((1 + _DRAWS, len(at_risk)))
    half = at_risk.shape[1] // 2
    (earlier, n), (earlier_days, days) = (
        (table[:, :half].sum(axis=1), table[:, half:].sum(axis=1)) for table in (ended, at_risk)
    )
    usual, doubted = ended.sum() / at_risk.sum(), (ended.sum() + 0.5) / at_risk.sum()
    level = (n.sum() + 1) / (days.sum() + 1 / usual) if usual else 0.0
    levels = chance.gamma(n.sum() + 1, 1 / (days.sum() + 1 / doubted), _DRAWS)
    drift, error = _drift(n, days, earlier, earlier_days)
    fleet = np.append(level, levels) * np.exp(np.append(drift, chance.normal(drift, error, _DRAWS)))
    expected = days * (n.sum() / max(days.sum(), 1))
    pooled = _pooled(n, expected)
    of_site = (n + pooled) / (expected + pooled)
    of_sites = chance.gamma(n + pooled, 1 / (expected + pooled), (_DRAWS, len(n)))
    rates: Floats = np.minimum(fleet[:, None] * np.vstack([of_site, of_sites]), _MOST)
    return rates


def _drift(n: Floats, days: Floats, earlier: Floats, earlier_days: Floats) -> tuple[float, float]:
    """By how much the logarithm of the hazard moved from one half of the ages to the other, and the standard error.

    Within sites, by Mantel and Haenszel's rate ratio (Rothman, Modern Epidemiology, 3rd ed., 15): that fewer and fewer
    listings are those of quick sites is no drift.
    """
    both = np.maximum(days + earlier_days, 1)
    up, down = (n * earlier_days / both).sum(), (earlier * days / both).sum()
    if not up + down:
        return 0.0, _DRIFT
    noise = 1 / (n.sum() + 0.5) + 1 / (earlier.sum() + 0.5)
    weight = _DRIFT**2 / (_DRIFT**2 + noise)
    return float(np.log((up + 0.25) / (down + 0.25)) * weight), float(_DRIFT * np.sqrt(1 - weight))


def _pooled(n: Floats, expected: Floats) -> float:
    """How many ends at the fleet's rate stand beside each site's own: the less the sites differ, the more.

    Source: the variance between sites by moments, as DerSimonian and Laird, Controlled Clinical Trials 7 (1986), 177.
    """
    n, expected = n[expected > 0], expected[expected > 0]
    beyond_chance = (np.square(n - expected) / expected).sum() - (len(n) - 1)
    variance = beyond_chance / max(expected.sum() - np.square(expected).sum() / max(expected.sum(), 1), 1)
    return float(1 / np.clip(variance, 1 / _POOLED_MOST, 1 / _POOLED_LEAST))


@dataclass(frozen=True, slots=True)
class _Group:
    """Things that are open, or gone.

    Attributes:
        ages: For how many days they have been so.
        sites: The number of their site.
        n: How many, of each age and site.
        curve: How long such things stay so.
        is_open: Whether they are open.
    """

    ages: Ints
    sites: Ints
    n: Ints
    curve: _Curve
    is_open: bool

    def share(self, ahead: int, after: Floats) -> Floats:
        """The share of each that is open so many days ahead; what has ended until then is as ``after`` says of such."""
        stay = self.curve.stay(self.ages, ahead, self.sites)
        share: Floats = self.is_open * stay + self._ended(ahead, after)[:, None] * (1 - stay)
        return share

    def _ended(self, ahead: int, after: Floats) -> Floats:
        """Of what has ended by then, of all sites together, the share that is open."""
        ages, place = np.unique(self.ages, return_inverse=True)
        n = np.bincount(place, self.n, len(ages)).astype("int64")
        of_site = np.bincount(self.sites, self.n, self.curve.rates.shape[1]).astype("int64")
        ended = -np.diff(self.curve.together(of_site).paths(ages, n, ahead), axis=1)
        total, is_open = ended.sum(axis=1), (ended * after[:, ahead - 1 :: -1]).sum(axis=1)
        share: Floats = np.divide(is_open, total, out=np.zeros_like(total), where=total > 0)
        return share

    def beyond(self, ahead: int) -> int:
        """How many will be older than anything that was followed; none where all that was followed has ended."""
        is_older = (self.ages + ahead > self.curve.oldest) & bool(self.curve.lasting[0, -1])
        return int(self.n[is_older].sum())


def _still_open(flows: pd.DataFrame, chance: np.random.Generator) -> tuple[_Group, _Group]:
    """Open listings: those whose beginning was observed, and those of the first load, whose age is not known."""
    first = flows["left_censored"].to_numpy("bool")
    names, site = grouped(flows, "site" if "site" in flows else None)
    sites = max(len(names), 1)
    followed, baseline = (_episodes(flows[part], site[part], sites, chance) for part in (~first, first))
    return followed, baseline


def _episodes(flows: pd.DataFrame, site: Ints, sites: int, chance: np.random.Generator) -> _Group:
    flow = flows["flow"].astype("str").to_numpy()
    days, n = flows["days"].to_numpy("int64"), flows["n"].to_numpy("int64")
    comes = np.isin(flow, (ENTERED, RETURNED))
    cells = []
    for which in (comes, ~comes, np.isin(flow, CLOSED)):
        counted = np.zeros((sites, int(days.max(initial=-1)) + 1), "int64")
        add(counted, (site[which], days[which]), n[which])
        cells.append(counted)
    came, left, ended = cells
    at_risk = np.maximum(
        np.cumsum(came - left, axis=1) + left, ended
    )  # whoever leaves at an age was at risk at it
    still = flow == OPEN
    curve = _curve(at_risk.astype("float64"), ended.astype("float64"), chance)
    return _Group(days[still], site[still], n[still], curve, is_open=True)


def _closed_listings(
    records: pd.DataFrame, relistings: pd.DataFrame, at: datetime, chance: np.random.Generator
) -> _Group:
    """Listings that are gone, and how long such stay gone: a return ends that, as a removal ends being open."""
    changed = instants(records["changed_at"])[records["status"].isin(CLOSED).to_numpy("bool")]
    since = np.maximum((instant(at) - changed) // _DAY, 0).astype("int64")
    # To the nearest day: two loads are a day apart, and some minutes more or less.
    back = relistings["gone_days"].dropna().astype("float64").round().astype("int64").to_numpy()
    ages = int(max(since.max(initial=-1), back.max(initial=-1))) + 1
    still, ended = np.bincount(since, minlength=ages), np.bincount(back, minlength=ages)
    at_risk = (still + ended)[::-1].cumsum()[::-1]
    oldest = np.flatnonzero(still)
    curve = _curve(at_risk[None].astype("float64"), ended[None].astype("float64"), chance)
    return _Group(oldest, np.zeros(len(oldest), "int64"), still[oldest].astype("int64"), curve, is_open=False)


def _renewal(ending: _Curve, returning: _Curve, span: int) -> tuple[Floats, Floats]:
    """The share that is open so many days after being opened, and so many after being closed; they feed each other."""
    new, one = np.zeros(1, "int64"), np.ones(1, "int64")
    none = (np.zeros(curve.rates.shape[1], "int64") for curve in (ending, returning))
    lasting, gone = (
        curve.together(n).paths(new, one, span) for curve, n in zip((ending, returning), none, strict=True)
    )
    ends, returns = -np.diff(lasting, axis=1), -np.diff(gone, axis=1)
    opened, closed = lasting.copy(), np.zeros_like(lasting)
    for day in range(1, span + 1):
        closed[:, day] = (returns[:, :day] * opened[:, day - 1 :: -1]).sum(axis=1)
        opened[:, day] += (ends[:, :day] * closed[:, day - 1 :: -1]).sum(axis=1)
    return opened, closed


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Open listings, those of the first load, and those that are gone, each with what becomes of them when that ends."""

    groups: tuple[tuple[_Group, Floats], ...]
    opened: Floats

    @property
    def open_now(self) -> int:
        """How many listings are open."""
        return sum(int(group.n.sum()) for group, _ in self.groups if group.is_open)

    def beyond(self, ahead: int) -> int:
        """How many of these will be older than anything that was followed."""
        return sum(group.beyond(ahead) for group, _ in self.groups if group.is_open)


def _row(fleet: _Fleet, new: Arrivals, ahead: int, level: float) -> dict[str, Any]:
    row: dict[str, Any] = {"days": ahead, "open_now": fleet.open_now}
    lacks, caution = _lacks(fleet, new, ahead), None
    if lacks is None:
        row |= _numbers(fleet, new, ahead, level)
        if new.days < CAUTION * ahead:
            caution = f"{ahead} days are more than a third of the {new.days} days of history"
    else:
        row |= dict.fromkeys(("of_open", "of_gone", "of_new", "open", "low", "high"), np.nan)
    return row | {"beyond": fleet.beyond(ahead), "reason": lacks or caution}


def _lacks(fleet: _Fleet, new: Arrivals, ahead: int) -> str | None:
    """Why the history does not say what comes; None: it does."""
    needed = max(SHORT * ahead, SHORTEST)
    if new.days < needed:
        return f"{new.days} days of history are too few for {ahead} days ahead: it takes {needed}"
    if fleet.open_now and fleet.beyond(ahead) == fleet.open_now:
        return f"in {ahead} days every open listing will be older than any that was followed"
    clusters, size = new.clusters
    if size > BURST and clusters < (CAUTIOUS_BURSTS if new.days < CAUTION * ahead else MIN_BURSTS):
        return (
            f"new listings came in bursts of about {size:,.0f}, and too few of them to say how many will come"
        )
    return None


def _numbers(fleet: _Fleet, new: Arrivals, ahead: int, level: float) -> dict[str, float]:
    """What is expected, and the interval: the first row of each array is the estimate, each other a draw."""
    chance = np.random.default_rng([_SEED, ahead])
    left = fleet.opened[:, ahead - 1 :: -1]  # of what comes on each day, the share that is open then
    came = np.vstack([new.expected(ahead), new.resampled(ahead, _DRAWS, chance)])
    of_new, variance = (came * left).sum(axis=1), (came * left * (1 - left)).sum(axis=1)
    parts = []
    for group, after in fleet.groups:
        share = group.share(ahead, after)
        parts.append(share @ group.n)
        variance += (share * (1 - share)) @ group.n
    total = of_new + sum(parts)
    drawn = total[1:] + np.sqrt(variance[1:]) * chance.standard_t(_FREEDOM, (_CHANCES, _DRAWS))
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    followed, baseline, of_gone = (float(part[0]) for part in parts)
    return {
        "of_open": followed + baseline,
        "of_gone": of_gone,
        "of_new": float(of_new[0]),
        "open": float(total[0]),
        # Listings are counted in whole numbers, and there are never fewer than none.
        "low": max(float(np.floor(min(low, total[0]))), 0.0),
        "high": float(np.ceil(max(high, total[0]))),
    }


def _out_of_view(records: pd.DataFrame) -> NDArray[np.bool_]:
    """Whether each record's person is listed by the service no longer: nothing of theirs will be listed."""
    unknown = (records["status"].astype("str") == UNKNOWN).to_numpy("bool")
    return records["user_id"].isin(records.loc[unknown, "user_id"]).to_numpy("bool")
