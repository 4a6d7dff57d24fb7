"""One collector of a named run, or one reader, as a process to be killed. Says what it came to, a line of JSON each time.

    python tests/crash/collector.py collect HISTORY BASE_URL RUN
    python tests/crash/collector.py read HISTORY STOP

A collector ends when its run is acknowledged; a reader when there is a file STOP.
"""

import json
import random
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exposurekit.client import Client, RetryPolicy
from exposurekit.errors import NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History, collector, maintenance

NEWEST = 3  # rows of a table that are told


def collect(path: str, base_url: str, run: str) -> Iterator[dict[str, Any]]:
    """Collect one run; upkeep is due often, and what is staged comes in many parts."""
    maintenance.CHECKPOINT_ROWS, maintenance.CHECKPOINT_SHARE = 500, 0.2
    maintenance.MERGE_EVERY, maintenance.MAX_FILES = 3, {True: 200, False: 6}
    collector.USERS_PER_PART = 40
    access = {"integration_name": "acme", "api_key": "key", "api_secret": "secret"}
    with (
        Client(base_url, **access, retries=RetryPolicy(max_retries=0, initial_delay=0)) as client,
        History(path) as history,
    ):
        collected = history.collect(Exposure(client, progress=False), run=run)
        yield {"run": collected.run, "seq": collected.seq, **collected.people, **collected.counts}


def read(path: str, stop: str) -> Iterator[dict[str, Any]]:
    """Ask all the time, while others write."""
    drawn = random.Random(stop)  # noqa: S311  a draw that can be repeated
    history = History(path)
    while not Path(stop).exists():
        try:
            yield _looked(history, drawn)
        except NotFound:
            yield {"empty": True}
        except Exception:  # noqa: BLE001  any error of a reader is what this is about
            yield {"error": traceback.format_exc()}


def _looked(history: History, drawn: random.Random) -> dict[str, Any]:
    """What the history says of some runs, and whether its answers agree with each other."""
    runs = history.runs()
    if runs.empty:
        raise NotFound("Nothing yet")
    rows = runs.tail(NEWEST).set_index("run").select_dtypes("int64")
    at = drawn.choice(runs["finished_at"].tolist()[-NEWEST:])
    over_time = history.status_over_time(every="run").tail(NEWEST).set_index("period")
    return {
        "runs": {name: row.to_dict() for name, row in rows.iterrows()},
        "records": {at.isoformat(): _counts(history.records(as_of=at)["status"])},
        "links": {at.isoformat(): _counts(history.links(as_of=at)["presence"])},
        "sites": {at.isoformat(): int(history.by_site(as_of=at)["total"].sum())},
        "over time": {period.isoformat(): _told(row) for period, row in over_time.iterrows()},
        "diff": _agrees(history.diff(runs["finished_at"].iloc[0])),
        "verify": history.verify(),
    }


def _counts(statuses: Any) -> dict[str, int]:
    return {str(status): int(n) for status, n in statuses.value_counts().items() if n}


def _told(row: Any) -> dict[str, int]:
    return {
        name: int(n)
        for name, n in row.items()
        if n and name not in {"at", "open", "total", "people", "unseen"}
    }


def _agrees(diff: Any) -> bool:
    """Whether the number of open things moved as the things did."""
    closed = ["removed", "vanished", "unknown"]
    before, after = diff.changes["before"], diff.changes["after"]
    opened = (before.isna() | before.isin(closed)) & ~after.isin(closed)
    ended = before.notna() & ~before.isin(closed) & after.isin(closed)
    changes_by_cause = diff.why.set_index("cause")["open"]
    return int(opened.sum()) - int(ended.sum()) == int(
        changes_by_cause["open after"] - changes_by_cause["open before"]
    )


if __name__ == "__main__":
    act = {"collect": collect, "read": read}[sys.argv[1]]
    for line in act(*sys.argv[2:]):
        print(json.dumps(line), flush=True)  # noqa: T201  what it is for
