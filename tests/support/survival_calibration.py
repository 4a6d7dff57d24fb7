"""How often the intervals of `analysis.time_to_removal` hold the truth: by kind of world and by distance of runs.

python tests/support/survival_calibration.py [--worlds 200] [--listings 400]
"""

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import pandas as pd

from exposurekit.analysis import time_to_removal

LAST = 126  # day of the last run; a multiple of every distance
GAPS = (1, 3, 7)
# Each kind: the Weibull distribution's shape and median of the listings that are removed, and the share of the others.
KINDS = {
    "exponential, 3.5 days": (1, 3.5, 0),
    "exponential, 14 days": (1, 14, 0),
    "Weibull 0.6, 3.5 days": (0.6, 3.5, 0),
    "Weibull 1.8, 3.5 days": (1.8, 3.5, 0),
    "fixed, 10.3 days": (1_000, 10.3, 0),
    "30% never": (1, 3.5, 0.3),
}


def age_at(kind, removed):
    """The age by which a share of the listings is removed."""
    shape, median, never = KINDS[kind]
    return median * (-np.log1p(-np.minimum(removed / (1 - never), 1 - 1e-9)) / math.log(2)) ** (1 / shape)


def share_open(kind, age):
    shape, median, never = KINDS[kind]
    return never + (1 - never) * np.exp(-math.log(2) * (age / median) ** shape)


def life_table(kind, gap, listings, seed):
    """The life table of one world: listings begin at any time, runs are `gap` days apart."""
    never = KINDS[kind][2]
    rng = np.random.default_rng(seed)
    begun = rng.uniform(0, LAST, listings)
    removed = rng.random(listings)
    ended = begun + np.where(removed < 1 - never, age_at(kind, removed), math.inf)
    first = np.ceil(begun / gap) * gap
    removed_at = np.ceil(ended / gap) * gap
    is_removed = removed_at <= LAST
    days = (np.where(is_removed, removed_at, LAST) - first).astype("int64")
    flow = np.where(~is_removed, "open", np.where(days == 0, "first_removed", "removed"))
    entries = {"days": [0], "flow": ["entered"], "gap_days": [gap], "n": [listings]}
    table = pd.concat(
        [pd.DataFrame(entries), pd.DataFrame({"days": days, "flow": flow, "gap_days": 0, "n": 1})]
    )
    return table.assign(left_censored=False).astype({"flow": "str"})


def calibration(kind, gap, *, worlds=200, listings=400, first_seed=0):
    """Coverage of the median and of the share never removed, and the median's typical estimate and interval."""
    truth = age_at(kind, 0.5)
    tables = (
        time_to_removal(life_table(kind, gap, listings, first_seed + seed), by=None) for seed in range(worlds)
    )
    rows = pd.concat(tables)
    never = share_open(kind, rows["followed_days"].astype("float64") + gap / 2)
    median = {
        name: rows[f"median_{name}"].astype("float64").fillna(math.inf) for name in ("days", "low", "high")
    }
    return {
        "kind": kind,
        "gap": gap,
        "listings": listings,
        "median": ((median["low"] <= truth) & (truth <= median["high"])).mean(),
        "never": ((rows["never_low"] <= never) & (never <= rows["never_high"])).mean(),
        "truth": truth,
        **{name: values.median() for name, values in median.items()},
        "first_removed": rows["first_removed"].mean() / listings,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--listings", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind in KINDS:
        for gap in GAPS:
            row = calibration(
                kind, gap, worlds=options.worlds, listings=options.listings, first_seed=options.seed
            )
            print(  # noqa: T201
                f"{kind:24} runs every {gap} days  coverage: median {row['median']:4.0%}, never {row['never']:4.0%}  "
                f"true {row['truth']:4.1f}  estimate {row['days']:4.1f} ({row['low']:.1f} to {row['high']:.1f})  "
                f"{row['first_removed']:4.0%} first observed removed",
                flush=True,
            )


if __name__ == "__main__":
    main()
