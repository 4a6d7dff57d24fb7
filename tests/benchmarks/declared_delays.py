"""How many sites that take longer than they declare are found, and how many others are: in simulated worlds.

python tests/benchmarks/declared_delays.py [--worlds 200] [--seed 0] [--every 1 3 7]

Each world has fifteen sites, of which four take two to four times the days that they declare, and three take exactly
these in the median. The others are quicker, but for one removal in ten. The service verifies a removal as it does in
truth: by absences on two days, from the declared days on.
"""

import argparse

import numpy as np
import pandas as pd

from exposurekit.analysis import declared_vs_observed

SITES, LIARS, BORDERLINE = 15, 4, 3
LISTINGS = 30  # requests a site, on average
DAYS = 120
DECLARED = (3, 5, 7, 10, 14, 21, 30)
START = pd.Timestamp("2026-01-01T06:00Z")


def removal_days(rng, kind, declared, n):
    """The days that a site takes, of so many requests."""
    if kind == "liar":
        slowness = rng.uniform(2, 4)
        return declared * slowness * rng.lognormal(0, 0.35, n)
    if kind == "borderline":
        return declared * rng.lognormal(0, 0.35, n)
    return declared * np.where(rng.random(n) < 0.1, 1.8, rng.uniform(0.6, 1.0, n))


def requests_of(rng, site, kind, declared, gap):
    """The requests of one site, as runs that are some days apart observe them."""
    n = rng.poisson(LISTINGS)
    # Half are there at the start, the others come later.
    requested = np.where(rng.random(n) < 0.5, rng.uniform(1, 4, n), rng.uniform(1, DAYS, n))
    gone = requested + removal_days(rng, kind, declared, n)
    first_scan = requested + max(declared, 1 / 24)
    verified = first_scan + np.ceil(np.maximum(gone - first_scan, 0)) + 1
    begin, end, last = np.ceil(requested / gap) * gap, np.ceil(verified / gap) * gap, DAYS // gap * gap
    days = {
        "requested_after": begin - gap,
        "requested_at": begin,
        "ended_after": end - gap,
        "ended_at": end,
        "observed_until": np.full(n, last),
    }
    table = pd.DataFrame({name: START + pd.to_timedelta(part, unit="D") for name, part in days.items()})
    is_removed = end <= last
    table = table.assign(site=site, end=np.where(is_removed, "removed", None))
    table.loc[~is_removed, ["ended_after", "ended_at"]] = pd.NaT
    return table[begin <= last]


def world(seed, gap):
    """The answer of one world, with the kind of each site."""
    rng = np.random.default_rng(seed)
    kinds = np.array(
        ["liar"] * LIARS + ["borderline"] * BORDERLINE + ["honest"] * (SITES - LIARS - BORDERLINE)
    )
    declared = rng.choice(DECLARED, SITES)
    names = [f"Site {number}" for number in range(SITES)]
    requests = pd.concat([requests_of(rng, *site, gap) for site in zip(names, kinds, declared, strict=True)])
    answer = declared_vs_observed(requests, pd.DataFrame({"site": names, "declared_days": declared}))
    return answer.assign(kind=answer["site"].map(dict(zip(names, kinds, strict=True))))


def rates(worlds, gap, seed=0):
    """The share of liars that are found, the mean share of others among the sites that are, and liars by declared days."""
    power, false, borderline, liars = [], [], [], []
    for number in range(worlds):
        answer = world(seed + number, gap)
        takes_longer = answer["takes_longer"].fillna(value=False).astype("bool")
        is_liar = answer["kind"] == "liar"
        power.append(takes_longer[is_liar].mean())
        false.append((takes_longer & ~is_liar).sum() / max(takes_longer.sum(), 1))
        borderline.append(takes_longer[answer["kind"] == "borderline"].mean())
        liars.append(answer.assign(found=takes_longer)[is_liar])
    by_days = pd.concat(liars).groupby("declared_days")["found"].mean()
    return np.mean(power), np.mean(false), np.mean(borderline), by_days


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, nargs="+", default=(1, 3, 7), help="days between runs")
    options = parser.parse_args()
    for gap in options.every:
        power, false, borderline, by_days = rates(options.worlds, gap, options.seed)
        print(
            f"runs every {gap} days: {power:.3f} of the sites that take longer are found; false discovery rate "
            f"{false:.4f}; {borderline:.4f} of those that take as long as they declare"
        )
        shares = ", ".join(f"{days:g} days {share:.2f}" for days, share in by_days.items())
        print(f"  found, by the days that they declare: {shares}", flush=True)


if __name__ == "__main__":
    main()
