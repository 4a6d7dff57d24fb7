"""How often the interval of missed listings holds the truth: in simulated worlds.

python tests/benchmarks/missed_listings.py [--worlds 500] [--seed 0]

Each world has some listings, and ways that find each with a chance of their own. In some kinds of worlds two ways find
the same ones, or some listings are hard to find in every way: then more are missed than estimated.
"""

import argparse

import numpy as np
import pandas as pd

from exposurekit.analysis import missed

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind in KINDS:
        inside, truth, estimate, share = coverage(kind, options.worlds, options.seed)
        print(
            f"{kind:38} the interval holds the truth in {inside:6.1%}; missed {truth:6.1f}, estimated {estimate:6.1f}; "
            f"estimates in {share:.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
