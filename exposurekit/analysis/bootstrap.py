"""Bootstrap of the forecast: new listings and people from run to run, and samples of future days drawn from them."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.group_codes import Instants, Ints, instant, instants

SETTLING_DAYS = 7
Floats = NDArray[np.float64]
_DAY_US = 86_400_000_000
_FIRST, _FURTHER, _INITIAL, _REGISTERED = range(4)  # the columns of `Arrivals.daily`


@dataclass(frozen=True, slots=True)
class Arrivals:
    """New listings per span from one run to the next and the people they belong to, newest first.

    Spans are resampled whole, so listings that appeared together in the past appear together in the future: the more the
    spans differ, the wider the interval. ``counts`` has one row per span and four columns: people who got their first
    listing, other new listings (both only for people followed for more than `SETTLING_DAYS`), listings that people who
    registered after the first load had in their first days, and people who registered.
    """

    counts: Floats
    exposed: Floats  # people who had been followed for more than `SETTLING_DAYS`, mean of the days with any
    share: Floats  # the share of each span's days with any
    span: int  # its days
    settled: int  # people who have been followed for more than `SETTLING_DAYS` today
    settling: Floats  # people who pass `SETTLING_DAYS` on each of the coming days
    clean: int  # people who have had no listing so far
    days: int  # since the first person was registered
    by_site: Floats  # all these listings, by the number of their site

    @property
    def rates(self) -> Floats:
        """`counts` per day, scaled to the number of people today, without the days on which nobody was followed."""
        scale: Floats = np.repeat(1 / (self.span * self.share[:, None]), self.counts.shape[1], axis=1)
        # First listings are not scaled: fewer people are without one, but more people are followed.
        scale[:, _FURTHER] *= self.settled / self.exposed
        scaled: Floats = self.counts * scale
        return scaled

    def expected(self, ahead: int) -> Floats:
        """New listings on each of the next `ahead` days if every day equals the average."""
        mean = np.average(self.rates, axis=0, weights=self.share)
        [listings] = self._listings(np.repeat(mean[None, None], ahead, axis=1))
        daily: Floats = listings
        return daily

    def resampled(self, ahead: int, draws: int, rng: np.random.Generator) -> Floats:
        """New listings on each of the next `ahead` days, one row per draw; includes the uncertainty of the rates.

        A Bayesian bootstrap over spans (Rubin, Ann. Statist. 9 (1981), 130). Half a pseudo-span, the average of those
        that had arrivals, allows for more than a quiet history shows.
        """
        spans = self.rates
        busy = spans[spans.any(axis=1)]
        pseudo = np.array([0, 1 / self.span, 0, 0]) if not len(busy) else busy.mean(axis=0)
        weights = rng.gamma(np.append(self.share, 0.5), size=(draws, len(spans) + 1)).cumsum(axis=1)
        quantiles = rng.random((draws, -(-ahead // self.span))) * weights[:, -1:]
        picks = [np.searchsorted(row, values) for row, values in zip(weights, quantiles, strict=True)]
        sampled = np.vstack([spans, pseudo])[np.stack(picks)]
        if self.span == 1:
            return self._listings(sampled)
        # What one run found may have arrived on one day of its span.
        days = np.zeros((*sampled.shape[:2], self.span, sampled.shape[2]))
        day = rng.integers(self.span, size=sampled.shape[:2])[..., None, None]
        np.put_along_axis(days, day, self.span * sampled[:, :, None], axis=2)
        return self._listings(days.reshape(draws, -1, sampled.shape[2])[:, :ahead])

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
    def bursts(self) -> tuple[float, float]:
        """The number of spans with arrivals, and of arrivals in each: k and n for n listings in each of k spans."""
        n = self._totals
        total, squares = n.sum(), np.square(n).sum()
        return (total**2 / squares, squares / total) if total else (0.0, 0.0)

    @property
    def together(self) -> float:
        """How many listings arrive together: 1 if each comes by itself, since the variance then equals the mean."""
        n = self._totals
        return float(n.var() / n.mean()) if n.any() else 0.0

    @property
    def _totals(self) -> Floats:
        totals: Floats = self.rates[:, :_REGISTERED].sum(axis=1) * self.span
        return totals


def arrivals(
    records: pd.DataFrame,
    people: pd.DataFrame | None,
    at: datetime,
    *,
    max_days: int,
    span: int,
    sites: int,
) -> Arrivals:
    """Count new listings and registrations of the last ``max_days`` days, in spans of ``span`` days.

    Listings from somebody's first days already existed, so they say nothing about the rate of new listings. For people
    of the first load they are ignored; for people who registered later they count with the registration. ``people`` and
    ``at`` are those of `forecast`; ``site`` is a number below ``sites``.
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
    max_days = max(max_days // span, 1) * span
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
    settled_days = np.sort(followed - SETTLING_DAYS)
    daily = np.stack([np.bincount(ages[ages < max_days], minlength=max_days) for ages in columns], axis=1)
    exposed = len(followed) - np.searchsorted(settled_days, np.arange(max_days), side="right")
    exposed = exposed.reshape(-1, span)
    exposed_days = (exposed > 0).sum(axis=1)
    spans = np.flatnonzero(exposed_days)
    settling = np.bincount(1 - settled_days[settled_days <= 0], minlength=SETTLING_DAYS + 2)[1:]
    return Arrivals(
        counts=daily.reshape(-1, span, len(columns)).sum(axis=1)[spans].astype("float64"),
        exposed=(exposed.sum(axis=1)[spans] / exposed_days[spans]).astype("float64"),
        share=exposed_days[spans] / span,
        span=span,
        settled=int((settled_days > 0).sum()),
        settling=settling.astype("float64"),
        clean=int((~followed_days.index.isin(user)).sum()),
        days=days,
        by_site=np.bincount(
            records["site"].to_numpy("int64")[(is_arrival | is_initial) & (age < max_days)], minlength=sites
        ).astype("float64"),
    )


def _days(now: np.datetime64, then: Instants) -> Ints:
    """Whole days from `then` to `now`; 0 if `then` is missing."""
    span = (now - np.where(np.isnat(then), now, then)).astype("timedelta64[us]").astype("int64")
    days: Ints = np.maximum(span // _DAY_US, 0)
    return days
