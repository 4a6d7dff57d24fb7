"""How often the interval of missed listings holds the truth: in simulated worlds.

python tests/benchmarks/missed_listings.py [--worlds 500] [--services 0] [--seed 0]

Each world has some listings, and ways that find each with a chance of their own. In some kinds of worlds two ways find
the same ones, or some listings are hard to find in every way: then more are missed than estimated. With --services, as many
services scan the sandbox, whose search engine returns half of the listings' pages and whose sites block the searches for
some names, and `sites missed` estimates.
"""

import argparse
import logging
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from exposurekit.analysis import missed
from exposurekit.client import Client
from exposurekit.sandbox.backend import Backend
from exposurekit.sandbox.world.asgi import Request
from exposurekit.sandbox.world.formats import roll
from exposurekit.sandbox.world.world import World
from exposurekit.service.accounts import users
from exposurekit.service.clock import FrozenClock
from exposurekit.service.scanning import html_text, websearch

# Each kind: the number of listings, the chance of each way, whether the first two ways depend on each other, and the
# spread of the listings' difficulty.
KINDS = {
    "two ways, 200 listings": (200, (0.8, 0.5), False, 0),
    "two ways, 60 listings": (60, (0.6, 0.4), False, 0),
    "two ways that find little": (300, (0.3, 0.2), False, 0),
    "three ways, 200 listings": (200, (0.7, 0.5, 0.3), False, 0),
    "three ways, 60 listings": (60, (0.6, 0.4, 0.3), False, 0),
    "three ways, of which two agree": (300, (0.6, 0.5, 0.4), True, 0),
    "two ways, listings unlike each other": (200, (0.8, 0.5), False, 1),
}


def world(kind, seed):
    """The number of missed listings in one world, and the last row of the answer."""
    listings, chances, agree, spread = KINDS[kind]
    rng = np.random.default_rng(seed)
    chance = np.log(np.array(chances) / (1 - np.array(chances))) + spread * rng.normal(size=(listings, 1))
    is_seen = rng.random((listings, len(chances))) < 1 / (1 + np.exp(-chance))
    if agree:  # the second way repeats the first for half of the listings
        is_seen[:, 1] = np.where(rng.random(listings) < 0.5, is_seen[:, 0], is_seen[:, 1])
    pages = pd.Series([f"https://seekfolk.example/{number}" for number in range(listings)])
    first, second, *others = [
        pd.DataFrame({"user_id": 1, "href": pages[part], "url": pages[part]}) for part in is_seen.T
    ]
    answer = missed(first, second, others={f"way {n}": table for n, table in enumerate(others, 3)})
    return (~is_seen.any(axis=1)).sum(), answer.iloc[-1]


def coverage(kind, worlds, seed=0):
    """How often the interval held the truth, where there was one; the mean truth and estimate; how often there was one."""
    rows = [world(kind, seed + number) for number in range(worlds)]
    rows = [(truth, last) for truth, last in rows if pd.notna(last["listings"])]
    is_inside = [
        last["low"] <= truth and (pd.isna(last["high"]) or truth <= last["high"]) for truth, last in rows
    ]
    truths, estimates = [truth for truth, _ in rows], [last["listings"] for _, last in rows]
    return np.mean(is_inside), np.mean(truths), np.mean(estimates), len(rows) / worlds


INDEXED = 0.5  # of the listings' pages, those that the search engine returns
BLOCKED = tuple(f"/people/{initial}" for initial in "abcde")  # the listings of these people are not shown
START = datetime(2026, 1, 1, 9, tzinfo=UTC)


class IndexedWorld(World):
    """An invented web whose search engine returns a share of the listings' pages."""

    def __init__(self, people, *, seed, clock):
        super().__init__(people, seed=seed, clock=clock)
        for one in self._state.listings.entries:
            if one.href and roll(seed, "indexed", one.site.name, one.reference_id) < INDEXED:
                for name in sorted(one.keys):
                    self._engine.add(name, one.href, f"{one.name}, {one.site.name}", one.name)


def service(people, seed):
    """The listings that neither the scans nor the web search of a service found, and the answer."""
    clock = FrozenClock(START)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="exposurekit-missed-")))
        world = stack.enter_context(IndexedWorld(people, seed=seed, clock=clock).running())
        backend = Backend(directory, world)
        for name, site in backend.definitions.items():
            search = site.search.model_copy(update={"blocked": (*site.search.blocked, *BLOCKED)})
            backend.definitions[name] = site.model_copy(update={"search": search})
        with Client(**backend.start(stack)) as client:
            backend.register(client, progress=False)
        backend.advance_to(START + timedelta(minutes=1))
        records, searched = backend.work(
            lambda session: websearch.pages_by_way(session, [*world.definitions])
        )
        subjects = {
            index: backend.work(lambda session, one=user_id: users.get_subject(session, one))
            for user_id, index in backend.person_index.items()
        }
        listed = {
            (truth.person, truth.href)
            for truth in world.listings()
            if truth.visible
            and truth.person is not None
            and truth.href
            and shows_street(world, truth, subjects)
        }
        found = {(backend.person_index[user_id], href) for user_id, href in (*records, *searched)}
    hosts = {urlsplit(href).hostname for _, href in records}
    listed = {one for one in listed if urlsplit(one[1]).hostname in hosts}
    answer = missed(
        pd.DataFrame(records, columns=["user_id", "href"]), pd.DataFrame(searched, columns=["user_id", "url"])
    )
    return len(listed), len(listed - found), answer


def shows_street(world, truth, subjects):
    parts = urlsplit(truth.href)
    page = world.respond(Request("GET", parts.netloc, parts.path, {})).body.decode(errors="replace")
    return websearch.ADDRESS in html_text.kinds_in(subjects[truth.person], html_text.text_of(page)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--services", type=int, default=0)
    parser.add_argument("--people", type=int, default=40, help="of each service")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind in KINDS:
        inside, truth, estimate, share = coverage(kind, options.worlds, options.seed)
        print(
            f"{kind:38} the interval holds the truth in {inside:6.1%}; missed {truth:6.1f}, estimated {estimate:6.1f}; "
            f"estimates in {share:.0%}",
            flush=True,
        )
    logging.disable(logging.CRITICAL)
    for number in range(options.services):
        listed, truth, answer = service(options.people, options.seed + number)
        counts = dict(zip(answer["ways"], answer["listings"], strict=True))
        last = answer.iloc[-1]
        print(
            f"a service, {listed} listings: {counts}; missed {truth}, interval {last['low']} to {last['high']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
