"""Bootstrap of the forecast: new listings and people per day, and samples of future days drawn from them."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.grouping import Instants, Ints, instant, instants

SETTLING_DAYS = 7
Floats = NDArray[np.float64]
_DAY_US = 86_400_000_000
_FIRST, _FURTHER, _INITIAL, _REGISTERED = range(4)  # the columns of `Arrivals.daily`


@dataclass(frozen=True, slots=True)
class Arrivals:
    """New listings per day and the people they belong to, newest day first.

    Days are resampled whole, so listings that appeared together in the past appear together in the future: the more the
    days differ, the wider the interval. ``daily`` has one row per day and four columns: people who got their first listing,
    other new listings (both only for people followed for more than `SETTLING_DAYS`), listings that people who registered
    after the first load had in their first days, and people who registered.
    """

    daily: Floats
    exposed: Ints  # people who had been followed for more than `SETTLING_DAYS`, per day
    settled: int  # the same count today
    settling: Floats  # people who pass `SETTLING_DAYS` on each of the coming days
    clean: int  # people who have had no listing so far
    days: int  # since the first person was registered

    @property
    def rates(self) -> Floats:
        """`daily` scaled to the number of people today, without the days on which nobody was followed."""
        daily = self.daily[self.exposed > 0]
        scale: Floats = np.ones_like(daily)
        # First listings are not scaled: fewer people are without one, but more people are followed.
        scale[:, _FURTHER] = self.settled / self.exposed[self.exposed > 0]
        scaled: Floats = daily * scale
        return scaled

    def expected(self, ahead: int) -> Floats:
        """New listings on each of the next `ahead` days if every day equals the average."""
        [listings] = self._listings(np.repeat(self.rates.mean(axis=0)[None, None], ahead, axis=1))
        daily: Floats = listings
        return daily

    def resampled(self, ahead: int, draws: int, rng: np.random.Generator) -> Floats:
        """New listings on each of the next `ahead` days, one row per draw; includes the uncertainty of the rates.

        A Bayesian bootstrap over days (Rubin, Ann. Statist. 9 (1981), 130). Half a pseudo-day, the average of the days
        that had arrivals, allows for more than a quiet history shows.
        """
        days = self.rates
        busy = days[days.any(axis=1)]
        pseudo_day = np.array([0, 1, 0, 0]) if not len(busy) else busy.mean(axis=0)
        weights = rng.gamma(np.append(np.ones(len(days)), 0.5), size=(draws, len(days) + 1)).cumsum(axis=1)
        quantiles = rng.random((draws, ahead)) * weights[:, -1:]
        picks = [np.searchsorted(row, values) for row, values in zip(weights, quantiles, strict=True)]
        return self._listings(np.vstack([days, pseudo_day])[np.stack(picks)])

    def _listings(self, days: Floats) -> Floats:
        """New listings per draw and day: first listings are limited by the people without one, others grow with people."""
        registered = days[..., _REGISTERED]
        settling = np.broadcast_to(self.settling, (len(days), len(self.settling)))
        settled = self.settled + np.hstack([settling, registered]).cumsum(axis=1)[:, : registered.shape[1]]
        first = np.minimum(days[..., _FIRST].cumsum(axis=1), self.clean + registered.cumsum(axis=1))
        first = np.diff(first, axis=1, prepend=0)
        further = days[..., _FURTHER] * settled / max(self.settled, 1)
        listings: Floats = first + further + days[..., _INITIAL]
        return listings

    @property
    def clusters(self) -> tuple[float, float]:
        """The effective number of arrival days and the size of each: k and n for n listings on each of k days."""
        n = self.rates[:, :_REGISTERED].sum(axis=1)
        total, squares = n.sum(), np.square(n).sum()
        return (total**2 / squares, squares / total) if total else (0.0, 0.0)


def arrivals(records: pd.DataFrame, people: pd.DataFrame | None, at: datetime, max_days: int) -> Arrivals:
    """Count new listings and registrations on each of the last days.

    Listings from somebody's first days already existed, so they say nothing about the rate of new listings. For people
    of the first load they are ignored; for people who registered later they count with the registration. ``people`` and
    ``at`` are those of `forecast`.
    """
    now = instant(at)
    age, user = _days(now, instants(records["first_seen_at"])), records["user_id"].to_numpy("int64")
    oldest_age = pd.Series(age).groupby(user).max()
    followed_days = oldest_age
    if people is not None:
        since = instants(people["watched_from"])
        followed_days = pd.Series(_days(now, since), people["user_id"].to_numpy("int64")).where(
            ~np.isnat(since)
        )
        followed_days = followed_days.fillna(oldest_age).dropna().astype("int64")
    followed = followed_days.to_numpy("int64")
    days = int(followed.max(initial=0))
    max_days = min(max_days, days)
    owner_followed = followed_days.reindex(user).fillna(days).to_numpy("int64")
    is_arrival = owner_followed - age > SETTLING_DAYS
    is_first = age == oldest_age.reindex(user).to_numpy("int64")
    is_first &= ~pd.Series(user).where(is_first).duplicated().to_numpy("bool")
    is_initial = ~is_arrival & (owner_followed < days)
    columns = (
        age[is_arrival & is_first],
        age[is_arrival & ~is_first],
        age[is_initial],
        followed[followed < days],
    )
    daily = np.stack([np.bincount(ages[ages < max_days], minlength=max_days) for ages in columns], axis=1)
    settled_days = np.sort(followed - SETTLING_DAYS)
    settling = np.bincount(1 - settled_days[settled_days <= 0], minlength=SETTLING_DAYS + 2)[1:]
    return Arrivals(
        daily=daily.astype("float64"),
        exposed=len(followed) - np.searchsorted(settled_days, np.arange(max_days), side="right"),
        settled=int((settled_days > 0).sum()),
        settling=settling.astype("float64"),
        clean=int((~followed_days.index.isin(user)).sum()),
        days=days,
    )


def _days(now: np.datetime64, then: Instants) -> Ints:
    """Whole days from `then` to `now`; 0 if `then` is missing."""
    span = (now - np.where(np.isnat(then), now, then)).astype("timedelta64[us]").astype("int64")
    days: Ints = np.maximum(span // _DAY_US, 0)
    return days
