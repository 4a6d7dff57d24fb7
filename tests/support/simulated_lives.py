"""Worlds of listings that come, go and come back, and the tables that a history would have of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pandas as pd

AT = datetime(2026, 6, 30, 23, 59, 59, 999_999, tzinfo=UTC)  # the end of a history's last day
_RUN_BEFORE_MIDNIGHT = np.timedelta64(576, "m")  # of a day's run
LAST = 220  # days that a world lasts; its first run is at the end of day 0
_FLOW = ["site", "days", "flow", "left_censored"]
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def exponential(mean):
    return lambda chance, site: chance.geometric(1 / mean, len(site))


def weibull(shape, scale):
    return lambda chance, site: np.ceil(scale * chance.weibull(shape, len(site))).clip(1)


def fixed(days):
    return lambda _, site: np.full(len(site), days)


def by_site(*draws):
    """Each site has its own law: the first site the first, and so on, over again."""

    def draw(chance, site):
        lasting = np.stack([one(chance, site) for one in draws])
        return lasting[site % len(draws), np.arange(len(site))]

    return draw


def never(share, draw):
    return lambda chance, site: np.where(chance.random(len(site)) < share, 9_999, draw(chance, site))


@dataclass(frozen=True)
class World:
    """How listings live.

    Attributes:
        people: How many are registered at the first run.
        there: How many listings each of them has at the first run, on average.
        gone: How many more listings of each of them are removed at the first run, on average, for up to 60 days.
        aged: Whether these listings are of any age at the first run; otherwise they begin then.
        arrivals: How many new listings come a day, for all who are registered at first; per cluster if clustered.
        cluster: How many listings come together.
        first_only: One listing a day, each time for somebody who has none.
        registrations: How many people register a day, on average.
        together: How many people register together.
        stays: How long a listing stays.
        away: How long it stays away, then.
        vanishes: Share of ends that are not verified as removals.
        sites: How many sites there are.
    """

    people: int = 40
    there: float = 5
    gone: float = 0
    aged: bool = True
    arrivals: float = 1.5
    cluster: int = 1
    first_only: bool = False
    registrations: float = 0
    together: int = 1
    stays: Draw = field(default_factory=lambda: exponential(25))
    away: Draw = field(default_factory=lambda: fixed(9_999))
    vanishes: float = 0
    sites: int = 12


KINDS = {
    "exponential": World(),
    "exponential, slow": World(stays=exponential(90), arrivals=0.5),
    "Weibull, ever less": World(stays=weibull(0.6, 20)),
    "Weibull, ever more": World(stays=weibull(1.8, 30)),
    "fixed delay": World(stays=fixed(20)),
    "fixed delay, all new at first": World(stays=fixed(14), aged=False),
    "mixed sites": World(stays=by_site(*map(exponential, (5, 15, 40, 120)))),
    "mixed delays": World(stays=by_site(fixed(7), fixed(21), exponential(60))),
    "some never": World(stays=never(0.3, exponential(15))),
    "relisting": World(stays=exponential(15), away=never(0.3, exponential(20))),
    "vanishing": World(stays=exponential(25), away=never(0.5, exponential(10)), vanishes=0.4),
    "5 people": World(people=5, there=6, arrivals=0.15),
    "10 people": World(people=10, there=6, arrivals=0.3),
    "registrations": World(people=20, registrations=0.7, arrivals=0.5),
    "registrations in bursts": World(people=20, registrations=1, together=10, arrivals=0.5),
    "clusters of 20": World(arrivals=0.1, cluster=20),
    "clusters of 60": World(arrivals=0.1, cluster=60),
    "rare clusters of 60": World(arrivals=0.04, cluster=60),
    "clean at first": World(people=100, there=0, first_only=True, stays=fixed(9_999)),
    "clean at first, removed": World(people=100, there=0, arrivals=1, stays=exponential(30)),
    "no arrivals": World(arrivals=0),
    "removed at first, 30% for good": World(gone=5, away=never(0.3, exponential(40))),
    "removed at first, most for good": World(gone=5, away=never(0.8, exponential(15))),
    "removed at first, ever less back": World(gone=5, away=weibull(0.6, 40)),
    "removed at first, back in time": World(gone=5, away=fixed(50)),
    "many removed at first": World(there=2, gone=15, arrivals=0.5, away=never(0.5, exponential(60))),
    "quick sites relist": World(
        stays=by_site(*map(exponential, (10, 15, 15, 40, 150, 9_999))),
        away=by_site(never(0.1, exponential(20)), *[fixed(9_999)] * 5),
    ),
    "slow sites relist": World(
        stays=by_site(*map(exponential, (120, 6, 10, 15, 25, 40))),
        away=by_site(never(0.1, exponential(12)), *[fixed(9_999)] * 5),
    ),
    "quick sites relist in time": World(
        stays=by_site(fixed(7), fixed(10), fixed(21), exponential(40), exponential(150), fixed(9_999)),
        away=by_site(fixed(25), *[fixed(9_999)] * 5),
    ),
    "removed at first, quick sites relist": World(
        gone=5,
        stays=by_site(*map(exponential, (10, 15, 15, 40, 150, 9_999))),
        away=by_site(never(0.1, exponential(20)), *[fixed(9_999)] * 5),
    ),
}


class Life:
    """One world, lived: who registered when, and when each listing was open."""

    def __init__(self, world, seed):
        chance = np.random.default_rng(seed)
        bursts = chance.poisson(world.registrations / world.together, LAST)
        days = np.repeat(np.arange(1, LAST + 1), bursts * world.together)
        self.registered = np.concatenate([np.zeros(world.people, "int64"), days])
        there = chance.poisson(world.there, len(self.registered))
        user = np.repeat(np.arange(len(self.registered)), there)
        met_open = len(user)
        if world.gone:
            gone = chance.poisson(world.gone, len(self.registered))
            user = np.append(user, np.repeat(np.arange(len(self.registered)), gone))
        first, met_gone = self.registered[user], slice(met_open, len(user))
        came_user, came = self._arrivals(world, chance)
        self.user, first = np.concatenate([user, came_user]), np.concatenate([first, came])
        self.site = chance.integers(0, world.sites, len(self.user))
        spans = np.stack([draw(chance, self.site) for draw in (world.stays, world.away) * 12], axis=1).astype(
            "int64"
        )
        if world.aged:  # in the long run: what lasts longer is met more often
            spans[:met_open, 0] = self._met(world.stays, chance, self.site[:met_open])
        self.gone = np.zeros(len(self.user), "bool")
        self.gone[met_gone], spans[met_gone, 0] = True, 0
        spans[met_gone, 1] = self._met(world.away, chance, self.site[met_gone])
        turns = np.column_stack([first, first[:, None] + spans.cumsum(axis=1)])
        self.turns, self.vanishes = turns, chance.random(turns.shape) < world.vanishes

    def _met(self, draw, chance, site):
        """How much longer lasts what is met at a random instant of its first 60 days."""
        left = np.zeros(len(site), "int64")
        todo = np.arange(len(site))
        while len(todo):
            lasts = draw(chance, site[todo]).astype("int64")
            rest = lasts - chance.integers(0, 60, len(todo))
            left[todo] = rest
            todo = todo[rest < 1]
        return left

    def _arrivals(self, world, chance):
        if world.first_only:
            days = np.arange(1, world.people + 1)
            return chance.permutation(world.people), days
        rate = world.arrivals * np.array(
            [(self.registered <= day).sum() / world.people for day in range(1, LAST + 1)]
        )
        events = chance.poisson(rate)
        day = np.repeat(np.arange(1, LAST + 1), events * world.cluster)
        here = np.searchsorted(self.registered, day, side="right")
        return (chance.random(len(day)) * here).astype("int64"), day

    def open_at(self, day):
        """How many listings are open at the end of a day, of whoever is registered by then."""
        return int(((self.turns <= day).sum(axis=1) % 2).sum())

    def parts_at(self, age, ahead):
        """How many listings are open `ahead` days after an age: of those open then, those gone then, and new ones."""
        before, turn = ((self.turns <= day).sum(axis=1) for day in (age, age + ahead))
        is_new = before == 0
        return tuple(
            int((turn[part] % 2).sum()) for part in (before % 2 == 1, ~is_new & (before % 2 == 0), is_new)
        )

    def tables(self, age, every=1):
        """Records, flows by site, relistings, people and runs, as of a run at the end of a day; `every` days one ran."""
        is_registered = self.turns[:, 0] <= age
        user, site, turns, vanishes, met_gone = (
            column[is_registered] for column in (self.user, self.site, self.turns, self.vanishes, self.gone)
        )
        turns = age - (age - turns) // every * every  # the run that observed it
        turn = (turns <= age).sum(axis=1) - 1
        at = np.arange(len(turns))
        gone = np.where(vanishes[at, turn] & ~(met_gone & (turn == 1)), "vanished", "removed")
        baseline = (turns[:, 0] == 0) | met_gone
        records = pd.DataFrame(
            {
                "user_id": user,
                "site": _names(site),
                "status": np.where(turn % 2 == 0, "discovered", gone),
                "first_seen_at": self._instants(age, turns[:, 0]),
                "changed_at": self._instants(age, turns[at, turn]),
                "episode": turn // 2 + 1 - met_gone,
                "left_censored": baseline & (turn <= 1),
            }
        ).astype({"status": "str", "user_id": "int64", "site": "str"})
        people = np.flatnonzero(self.registered <= age)
        watched = pd.DataFrame(
            {
                "user_id": people,
                "watched_from": self._instants(age, age - (age - self.registered[people]) // every * every),
            }
        )
        flows = self._flows(age, site, turns, vanishes, baseline)
        runs = pd.DataFrame({"finished_at": self._instants(age, range(age % every, age + 1, every))})
        return records, flows, self._back(age, site, turns, met_gone), watched, runs

    def _instants(self, age, day):
        ago = (age - np.asarray(day, "int64")) * np.timedelta64(1, "D") + _RUN_BEFORE_MIDNIGHT
        return pd.DatetimeIndex(np.datetime64(AT.replace(tzinfo=None), "us") - ago).tz_localize("UTC")

    def _flows(self, age, site, turns, vanishes, baseline):
        begun, ended = turns[:, :-1:2], turns[:, 1::2]
        first = np.zeros(begun.shape, "bool")
        first[:, 0] = baseline
        there = (begun <= age) & ((ended > begun) | ~first)  # not what was removed at first
        how = np.where(vanishes[:, 1::2][there], "vanished", "removed").astype("object")
        how[(ended == begun)[there]] = "first_removed"  # it came and went between two runs
        left = pd.DataFrame(
            {
                "site": np.broadcast_to(site[:, None], begun.shape)[there],
                "days": np.minimum(ended, age)[there] - begun[there],
                "flow": np.where(ended[there] > age, "open", how),
                "left_censored": first[there],
                "n": 1,
            }
        )
        table = (
            pd.concat([left.assign(days=0, flow="entered"), left]).groupby(_FLOW, as_index=False)["n"].sum()
        )
        table["site"] = _names(table["site"])
        return table.astype({"site": "str", "flow": "str", "n": "int64"})

    def _back(self, age, site, turns, met_gone):
        gone, again = turns[:, 1:-1:2], turns[:, 2::2]
        back = again <= age
        gone_days = (again - gone).astype("float64")
        gone_days[met_gone, 0] = np.nan
        return pd.DataFrame(
            {
                "site": _names(np.broadcast_to(site[:, None], back.shape)[back]),
                "removed_at": self._instants(age, gone[back]),
                "listed_again_at": self._instants(age, again[back]),
                "gone_days": gone_days[back],
            }
        ).astype({"site": "str"})


def _names(site):
    return [f"site {one}" for one in site]
