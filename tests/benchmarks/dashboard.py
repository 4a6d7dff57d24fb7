"""How long a dashboard takes to open over 100,000 records and to apply a filter, beside pandas alone.

    .venv/bin/python tests/benchmarks/dashboard.py [--records 100000] [--runs 20]

Without a history, and with one of 200 people, which adds a second chart. Pandas alone does the same filter and the same
count by site and status, and shows nothing. The bounds are 0.5 s to open and 0.2 s for a filter, in CPU time.
"""

import argparse
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

import pandas as pd
from support import widget_controls as kit
from support.histories import DAWN, Clock, Person, Service, a_record, seen_through

from exposurekit.history import History
from exposurekit.widgets import Dashboard

OPEN_S, FILTER_S = 0.5, 0.2
PICKS = {
    "one status": {"statuses": ["removed"]},
    "three sites": {"sites": ["Site 001", "Site 002", "Site 003"]},
    "one person": {"user": 7},
    "nothing": {},
}


STATUSES = ("discovered", "pending removal", "removed")


def everyone(people, records):
    each = -(-records // people)
    return {
        user: Person(
            [a_record(user * each + n, STATUSES[n % 3], f"Site {(user + n) % 120:03}") for n in range(each)]
        )
        for user in range(1, people + 1)
    }


def median_s(act, times):
    spent = []
    for _ in range(times):
        began = time.process_time()
        act()
        spent.append(time.process_time() - began)
    return median(spent)


def by_hand(records, *, sites=(), statuses=(), user=None):
    selected = records
    if user is not None:
        selected = selected[selected["user_id"] == user]
    if sites:
        selected = selected[selected["site"].isin(sites)]
    if statuses:
        selected = selected[selected["status"].isin(statuses)]
    return pd.crosstab(selected["site"], selected["status"])


def collected(path, people, runs):
    """A history in which records are removed one after the other."""
    service, clock = Service(), Clock()
    history = History(path / "history", clock=clock)
    with seen_through(service) as exposure:
        for run in range(runs):
            for user in range(1, people + 1):
                status = "removed" if user % runs <= run else "discovered"
                service.people[user] = Person([a_record(user, status, f"Site {user % 120:03}")])
            clock.set(DAWN + timedelta(days=run))
            history.collect(exposure.refresh(), progress=False)
    return history


def measure(name, exposure, history, times):
    records = exposure.records()
    opening = median_s(lambda: Dashboard(exposure, history), times)
    print(f"{name}: opens in {opening:.2f} s (at most {OPEN_S})")
    dashboard = Dashboard(exposure, history)
    with kit.published(dashboard):
        for what, picked in PICKS.items():
            ours = median_s(lambda: dashboard.pick(**picked), times)  # noqa: B023  called at once
            alone = median_s(lambda: by_hand(records, **picked), times)  # noqa: B023
            print(
                f"  {what}: {ours:.3f} s (at most {FILTER_S}), pandas {alone:.3f} s, {ours / alone:.1f} times"
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    service = Service()
    service.people.update(everyone(options.people, options.records))
    with seen_through(service) as exposure, tempfile.TemporaryDirectory() as directory:
        exposure.refresh()
        measure("without a history", exposure, None, options.times)
        history = collected(Path(directory), options.people, options.runs)
        measure(f"with {options.runs} runs", exposure, history, options.times)


if __name__ == "__main__":
    main()
