"""How long a dashboard takes to open over 100,000 records, and to answer a filter, beside pandas alone.

    .venv/bin/python tests/benchmarks/dashboard.py [--records 100000] [--runs 20]

Without a history, and with one of so many looks at 200 people, collected from a scripted service on loopback: what it
adds is a second chart. Pandas alone does the same filter and the same count by site and status, and shows nothing.
The bounds are 0.5 s to open and 0.2 s for a filter, of the processor's time; each figure is the median of five, a filter with the twin made anew.
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
from support import controls as kit
from support.histories import DAWN, Clock, Person, Service, a_record, seen_through

from exposurekit.history import History
from exposurekit.widgets import Dashboard

OPEN_S, FILTER_S, TIMES, PEOPLE = 0.5, 0.2, 5, 200
PICKS = {
    "one status": {"statuses": ["removed"]},
    "three sites": {"sites": ["Site 001", "Site 002", "Site 003"]},
    "one person": {"user": 7},
    "nothing": {},
}


STATUSES = ("discovered", "pending removal", "removed")


def everyone(records):
    """So many records, shared evenly among the people."""
    each = -(-records // PEOPLE)
    return {
        user: Person(
            [a_record(user * each + n, STATUSES[n % 3], f"Site {(user + n) % 120:03}") for n in range(each)]
        )
        for user in range(1, PEOPLE + 1)
    }


def took(act):
    """The median of some times, in seconds."""
    times = []
    for _ in range(TIMES):
        began = time.process_time()
        act()
        times.append(time.process_time() - began)
    return median(times)


def by_hand(records, *, sites=(), statuses=(), user=None):
    """The same filter and count."""
    selected = records
    if user is not None:
        selected = selected[selected["user_id"] == user]
    if sites:
        selected = selected[selected["site"].isin(sites)]
    if statuses:
        selected = selected[selected["status"].isin(statuses)]
    return pd.crosstab(selected["site"], selected["status"])


def collected(path, runs):
    """A history of so many looks, in which listings are removed one after the other."""
    service, clock = Service(), Clock()
    history = History(path / "history", clock=clock)
    with seen_through(service) as exposure:
        for run in range(runs):
            for user in range(1, PEOPLE + 1):
                status = "removed" if user % runs <= run else "discovered"
                service.people[user] = Person([a_record(user, status, f"Site {user % 120:03}")])
            clock.set(DAWN + timedelta(days=run))
            history.collect(exposure.refresh(), progress=False)
    return history


def measured(name, exposure, history):
    """Print what a dashboard takes."""
    records = exposure.records()
    opening = took(lambda: Dashboard(exposure, history))
    print(f"{name}: opens in {opening:.2f} s (at most {OPEN_S})")
    dashboard = Dashboard(exposure, history)
    with kit.published(dashboard):
        for what, picked in PICKS.items():
            answer, alone = took(lambda: dashboard.pick(**picked)), took(lambda: by_hand(records, **picked))  # noqa: B023
            print(
                f"  {what}: {answer:.3f} s (at most {FILTER_S}), pandas {alone:.3f} s, {answer / alone:.1f} times"
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    service = Service()
    service.people.update(everyone(options.records))
    with seen_through(service) as exposure, tempfile.TemporaryDirectory() as directory:
        exposure.refresh()
        measured("without a history", exposure, None)
        measured(f"with {options.runs} runs", exposure, collected(Path(directory), options.runs))


if __name__ == "__main__":
    main()
