"""Arrivals: new listings and new people by day, and resampled days for the time ahead. Draws with a seed."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.grouping import Instants, Ints, instant, instants

SETTLING_DAYS = 7
Floats = NDArray[np.float64]
_DAY_US = 86_400_000_000
_FIRST, _FURTHER, _BROUGHT, _REGISTERED = range(4)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What came on each day, and to how many people; the newest day comes first.

    A day is resampled as a whole, so listings that come together in the past come together in the future: bursts widen
    the interval as far as the days differ.

    Attributes:
        daily: One row a day, with four columns: people who got their first listing, other new listings (both only
            among people followed for more than `SETTLING_DAYS`), listings of people who registered after the first load
            (found in their first days), and people who registered.
        exposed: How many people were followed for more than `SETTLING_DAYS` on each day.
        settled: How many are today.
        settling: How many people will be from each of the coming days on.
        clean: How many people have had no listing so far.
        days: For how many days the first of them has been followed.
    """

    daily: Floats
    exposed: Ints
    settled: int
    settling: Floats
    clean: int
    days: int

    @property
    def rates(self) -> Floats:
        """The same as `daily`, as it would be for today's people; days on which nobody was followed are left out."""
        daily = self.daily[self.exposed > 0]
        scale: Floats = np.ones_like(daily)
        # First listings keep their pace: fewer people without one are left, and more people are followed.
        scale[:, _FURTHER] = self.settled / self.exposed[self.exposed > 0]
        scaled: Floats = daily * scale
        return scaled

    def expected(self, ahead: int) -> Floats:
        """New listings on each of the coming days, if each is like the average day."""
        [listings] = self._listings(np.repeat(self.rates.mean(axis=0)[None, None], ahead, axis=1))
        of_days: Floats = listings
        return of_days

    def resampled(self, ahead: int, draws: int, chance: np.random.Generator) -> Floats:
        """New listings on each of the coming days, one row a draw: the doubt about the rates is part of it.

        A Bayesian bootstrap (Rubin, Ann. Statist. 9 (1981), 130) over days, with half a day more that is like the average
        of the days on which anything came: where little came by chance, more may come.
        """
        days = self.rates
        some = days[days.any(axis=1)]
        least = np.array([0, 1, 0, 0]) if not len(some) else some.mean(axis=0)
        weights = chance.gamma(np.append(np.ones(len(days)), 0.5), size=(draws, len(days) + 1)).cumsum(axis=1)
        at = chance.random((draws, ahead)) * weights[:, -1:]
        picks = [np.searchsorted(row, places) for row, places in zip(weights, at, strict=True)]
        return self._listings(np.vstack([days, least])[np.stack(picks)])

    def _listings(self, days: Floats) -> Floats:
        """Of days by draw: first listings as long as there are people without one, others as people are followed."""
        registered = days[..., _REGISTERED]
        waiting = np.broadcast_to(self.settling, (len(days), len(self.settling)))
        settled = self.settled + np.hstack([waiting, registered]).cumsum(axis=1)[:, : registered.shape[1]]
        first = np.minimum(days[..., _FIRST].cumsum(axis=1), self.clean + registered.cumsum(axis=1))
        first = np.diff(first, axis=1, prepend=0)
        further = days[..., _FURTHER] * settled / max(self.settled, 1)
        listings: Floats = first + further + days[..., _BROUGHT]
        return listings

    @property
    def clusters(self) -> tuple[float, float]:
        """How many days it takes to make up the arrivals, and how many listings come on such a day.

        With n listings on each of k days these are k and n.
        """
        n = self.rates[:, :_REGISTERED].sum(axis=1)
        total, squares = n.sum(), np.square(n).sum()
        return (total**2 / squares, squares / total) if total else (0.0, 0.0)


def arrivals(records: pd.DataFrame, people: pd.DataFrame | None, at: datetime, within: int) -> Arrivals:
    """Count what came on each of the last days.

    What is found in somebody's first days was there before, and says nothing of how often new listings come. For people
    of the first load it does not count; what later ones bring counts as registrations do.

    Args:
        records: ``user_id``, ``first_seen_at``.
        people: ``user_id``, ``watched_from`` (UTC; missing: their first listing counts). None: only people with records.
        at: The end of the last day.
        within: How many days count at most.
    """
    now = instant(at)
    ago, user = _days(now, instants(records["first_seen_at"])), records["user_id"].to_numpy("int64")
    first_ago = pd.Series(ago).groupby(user).max()
    begun = first_ago
    if people is not None:
        since = instants(people["watched_from"])
        begun = pd.Series(_days(now, since), people["user_id"].to_numpy("int64")).where(~np.isnat(since))
        begun = begun.fillna(first_ago).dropna().astype("int64")
    followed = begun.to_numpy("int64")
    days = int(followed.max(initial=0))
    within = min(within, days)
    of_person = begun.reindex(user).fillna(days).to_numpy("int64")
    found = of_person - ago > SETTLING_DAYS
    is_first = ago == first_ago.reindex(user).to_numpy("int64")
    is_first &= ~pd.Series(user).where(is_first).duplicated().to_numpy("bool")
    brought = ~found & (of_person < days)
    counted = (ago[found & is_first], ago[found & ~is_first], ago[brought], followed[followed < days])
    daily = np.stack([np.bincount(one[one < within], minlength=within) for one in counted], axis=1)
    past_first_days = np.sort(followed - SETTLING_DAYS)
    return Arrivals(
        daily=daily.astype("float64"),
        exposed=len(followed) - np.searchsorted(past_first_days, np.arange(within), side="right"),
        settled=int((past_first_days > 0).sum()),
        settling=np.bincount(1 - past_first_days[past_first_days <= 0], minlength=SETTLING_DAYS + 2)[
            1:
        ].astype("float64"),
        clean=int((~begun.index.isin(user)).sum()),
        days=days,
    )


def _days(now: np.datetime64, then: Instants) -> Ints:
    """Whole days between; none where the one is missing."""
    span = (now - np.where(np.isnat(then), now, then)).astype("timedelta64[us]").astype("int64")
    days: Ints = np.maximum(span // _DAY_US, 0)
    return days
