"""The processes of the collector's crash test: collectors, which may be killed, and one reader."""

import json
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from exposurekit.client import Client, RetryPolicy
from exposurekit.errors import NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.history.maintenance import Schedule

NEWEST = 3  # runs, or rows of a table, that the reader reports
OFTEN = Schedule(checkpoint_rows=500, checkpoint_share=0.2, vacuum_every=3, max_files=6, files_per_bucket=3)
Report = dict[str, Any]


def main(log: Path, act: Callable[..., Iterator[Report]], arguments: tuple[str, ...]) -> None:
    """Write what a process reports to its log, a line of JSON each time."""
    errors = os.open(log.with_suffix(".err"), os.O_WRONLY | os.O_CREAT)
    os.dup2(errors, sys.stderr.fileno())
    with log.open("w") as lines:
        for report in act(*arguments):
            print(json.dumps(report), file=lines, flush=True)


def collect(path: str, base_url: str, run: str, users_per_part: int) -> Iterator[Report]:
    """Collect one run, and report it as acknowledged; maintenance is due often."""
    access = {"integration_name": "acme", "api_key": "key", "api_secret": "secret"}
    with (
        Client(base_url, **access, retries=RetryPolicy(max_retries=0, initial_delay=0)) as client,
        History(path) as history,
    ):
        history._runs = replace(history._runs, users_per_part=users_per_part, schedule=OFTEN)
        collected = history.collect(Exposure(client, progress=False), run=run)
        yield {"run": collected.run, "seq": collected.seq, **collected.people, **collected.counts}


def read(path: str, stop: str) -> Iterator[Report]:
    """Query the history again and again until there is a file ``stop``."""
    drawn = random.Random(stop)  # noqa: S311  a draw that can be repeated
    history = History(path)
    while not Path(stop).exists():
        try:
            yield _read_once(history, drawn)
        except NotFound:
            yield {"empty": True}
        except Exception:  # noqa: BLE001  any error of a reader breaks a rule
            yield {"error": traceback.format_exc()}


def _read_once(history: History, drawn: random.Random) -> Report:
    """Query some runs, and check that the results agree with each other."""
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
        "over time": {period.isoformat(): _status_counts(row) for period, row in over_time.iterrows()},
        "diff": _is_consistent(history.diff(runs["finished_at"].iloc[0])),
        "verify": history.verify(),
    }


def _counts(statuses: Any) -> dict[str, int]:
    return {str(status): int(n) for status, n in statuses.value_counts().items() if n}


def _status_counts(row: Any) -> dict[str, int]:
    return {
        name: int(n)
        for name, n in row.items()
        if n and name not in {"at", "open", "total", "people", "unseen"}
    }


def _is_consistent(diff: Any) -> bool:
    """Whether the number of open records changed as the changes say."""
    closed = ["removed", "vanished", "unknown"]
    before, after = diff.changes["before"], diff.changes["after"]
    opened = (before.isna() | before.isin(closed)) & ~after.isin(closed)
    ended = before.notna() & ~before.isin(closed) & after.isin(closed)
    open_by_cause = diff.why.set_index("cause")["open"]
    change = open_by_cause["open after"] - open_by_cause["open before"]
    return int(opened.sum()) - int(ended.sum()) == int(change)
