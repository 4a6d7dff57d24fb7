"""A history beside what an analyst would write by hand, and beside itself when it is ten times as large.

    .venv/bin/python tests/benchmarks/history_log.py days [--people 100000] [--records 20] [--runs 180] [--keep DIR]
    .venv/bin/python tests/benchmarks/history_log.py growth [--changes 10000000 100000000] [--keep DIR]

`days`: status counts per day beside pandas over the same Parquet files; and the ingest of a run beside a diff and insert
in DuckDB's own tables, both sides in turn over the same staged files, from the first run on and from the last on; what
they remember must be equal. `growth`: the same question of the sums and of the log, and every question at each size.
With `--keep` the histories are used again at the next call. Prints medians, ratios and the load average.
"""

# ruff: noqa: S608  names and texts of our own, no value of anybody's

import argparse
import contextlib
import os
import shutil
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import history_large
from history_by_hand import Diffed, status_counts
from history_world import FIRST_DAY, RUN_LASTS, World

from exposurekit.history import History, ingest, sql
from exposurekit.history.engines.duckdb import DuckDB

EVER = {
    "cube": (-(2**31), 2**31 - 1),
    "changes": (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)),
}


def timed(do):
    """Seconds by the clock and of this process' CPU."""
    began, spent = time.perf_counter(), time.process_time()
    do()
    return time.perf_counter() - began, time.process_time() - spent


def loaded():
    return f"load average {os.getloadavg()[0]:.1f}"


def compared(what, ours, theirs, name):
    """Print the medians and the totals of two sides, and the ratios ours / theirs."""
    for unit_index, unit in enumerate(("s", "CPU s")):
        mine, other = [one[unit_index] for one in ours], [one[unit_index] for one in theirs]
        print(
            f"{what}: exposurekit {median(mine):.3f} {unit}, {name} {median(other):.3f} {unit}, "
            f"ratio {median(mine) / median(other):.2f} (of all {len(mine)} together {sum(mine) / sum(other):.2f})"
        )


def take_in(history, staged):
    with history._store.exclusive():
        ingest.ingest_run(history._store, staged)


def files(history, name):
    return list(history._store.snapshot(name)[name].uris)


def in_turn(what, history, diffed, world, runs):
    ours, theirs = [], []
    for _ in range(runs):
        staged, seq = world.staged(history._store), ingest.last_seq(history._store) + 1
        began = FIRST_DAY + timedelta(days=world.day)
        run_files = (began, began + RUN_LASTS, staged.files("person").uris, staged.files("record").uris)
        theirs.append(timed(lambda: diffed.take_in(seq, *run_files)))  # noqa: B023  called at once
        ours.append(timed(lambda: take_in(history, staged)))  # noqa: B023  called at once
        print(f"    run {seq}: {ours[-1][0]:.1f} s, DuckDB {theirs[-1][0]:.1f} s ({loaded()})", flush=True)
        world.next_day()
    assert diffed.differs(files(history, "changes")) == 0
    if len(ours) > 1 and seq == runs:
        compared(f"{what}, first run", ours[:1], theirs[:1], "DuckDB")
        ours, theirs = ours[1:], theirs[1:]
    compared(f"{what}, a run of {world.people * world.records:,} records", ours, theirs, "DuckDB")


def grown(options, directory):
    """A history of so many daily runs, and its world on the day after."""
    history, world = History(directory), World(options.people, options.records)
    there = ingest.last_seq(history._store)
    for number in range(options.runs):
        if number >= there:
            staged = world.staged(history._store)
            seconds, _ = timed(lambda: take_in(history, staged))  # noqa: B023  called at once
            print(f"    run {number + 1} taken in: {seconds:.1f} s ({loaded()})", flush=True)
        world.next_day()
    return history, world


def days(options, keep):
    with tempfile.TemporaryDirectory(dir=keep) as directory:
        fresh = History(f"{directory}/first"), Diffed(f"{directory}/first.duckdb")
        in_turn("ingest, from the first run", *fresh, World(options.people, options.records), options.timed)
    history, world = grown(options, keep / f"days-{options.people}-{options.records}")
    changes = files(history, "changes")
    by_hand, ours = status_counts(changes), history.status_over_time()
    assert all((by_hand[name].to_numpy() == ours[name].to_numpy()).all() for name in by_hand.columns)
    turns = [
        (timed(history.status_over_time), timed(lambda: status_counts(changes)))
        for _ in range(options.rounds)
    ]
    compared(
        f"status counts, {int(history._reader.query('SELECT COUNT(*) AS n FROM changes', ('changes',))['n'][0].as_py()):,} changes in {len(changes)} files",
        *zip(*turns, strict=True),
        "pandas",
    )
    with tempfile.TemporaryDirectory(dir=keep) as directory:
        copy = History(shutil.copytree(history.path, f"{directory}/last"))
        table_files = {name: files(copy, name) for name in ("people", "changes", "records")}
        diffed = Diffed(f"{directory}/last.duckdb", table_files)
        in_turn(f"ingest, from run {options.runs + 1}", copy, diffed, world, options.timed)


def summed_up(text):
    """A question whose result does not become a table: its rows are counted, and each column is worked out."""
    return f"SELECT COUNT(*) AS n, MAX(thing_status) AS status, MAX(href) AS href, MAX(changed_at) AS at FROM ({text}) everything"


def questions(history):
    """Every question that makes sense of millions of people, by name."""
    runs = history.runs()
    week, middle = runs["finished_at"].iloc[len(runs) // 3], runs["finished_at"].iloc[len(runs) // 2]
    parameters = {"kind": "record", "as_of": middle.to_pydatetime()}
    reader = history._reader
    everything = summed_up(sql.items("records", reader.statuses("record", reader.latest())))
    return {
        "status_over_time()": history.status_over_time,
        "status_over_time(every='run')": lambda: history.status_over_time(every="run"),
        "status_over_time(by='site')": lambda: history.status_over_time(by="site"),
        "status_over_time(by='user_id', user=3)": lambda: history.status_over_time(
            by="user_id", user=[1, 2, 3]
        ),
        "by_site()": history.by_site,
        "by_site(as_of an instant)": lambda: history.by_site(as_of=middle),
        "diff(a week)": lambda: history.diff(week, week + timedelta(days=7)),
        "time_to_removal()": history.time_to_removal,
        "survival()": history.survival,
        "relistings()": history.relistings,
        "stale()": history.stale,
        "people()": history.people,
        "records(as_of), as SQL": lambda: [
            *reader.query_by_buckets(everything, ("changes", "records"), parameters)
        ],
    }


def transitions(history, by, when, table):
    """The same text over the sums or over the log."""
    after, until = EVER[table]
    text = sql.transitions(by, table=table, when=when)
    return history._reader.query(text, ("runs", table), {"kind": "record", "after": after, "until": until})


def from_both(history, rounds):
    """Counts and by-site, of the sums and of the log."""
    for what, by, when in (("counts", (), "day"), ("by site", ("site",), "")):
        cube, log = (
            sorted(map(str, transitions(history, by, when, table).to_pylist()))
            for table in ("cube", "changes")
        )
        assert cube == log
        turns = [
            [timed(lambda: transitions(history, by, when, table)) for table in ("cube", "changes")]  # noqa: B023
            for _ in range(rounds)
        ]
        cubes, logs = zip(*turns, strict=True)
        for unit_index, unit in enumerate(("s", "CPU s")):
            of_cube, of_log = (median(one[unit_index] for one in side) for side in (cubes, logs))
            print(
                f"  {what}: cube {of_cube:.4f} {unit}, log {of_log:.4f} {unit}, ratio {of_log / of_cube:.1f}"
            )


def growth(options, keep):
    costs = defaultdict(dict)
    histories = {}
    for changes in options.changes:
        directory = keep / f"large-{changes}"
        if not (directory / "cube").exists():
            shutil.rmtree(directory, ignore_errors=True)
            seconds, _ = timed(lambda: history_large.fill_store(History(directory)._store, changes))  # noqa: B023
            print(f"    {changes:,} changes written: {seconds:.0f} s", flush=True)
        histories[changes] = History(directory, engine=DuckDB(memory_limit=options.memory, as_written=True))
    for history in histories.values():
        counted = [
            history._reader.query(f"SELECT COUNT(*) AS n FROM {name}", (name,))["n"][0].as_py()
            for name in ("changes", "cube")
        ]
        print(f"{counted[0]:,} changes, {counted[1]:,} sums ({loaded()})")
        from_both(history, options.rounds)
    for name in questions(histories[options.changes[0]]):
        for _ in range(options.rounds):
            for changes, history in histories.items():
                costs[name].setdefault(changes, []).append(timed(questions(history)[name]))
        for unit_index, unit in enumerate(("s", "CPU s")):
            medians = [median(one[unit_index] for one in costs[name][changes]) for changes in options.changes]
            values = ", ".join(f"{value:.3f} {unit}" for value in medians)
            print(f"{name}: {values}, grows by {medians[-1] / medians[0]:.1f} ({loaded()})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("days", "growth"))
    for name, default in (("people", 100_000), ("records", 20), ("runs", 180), ("timed", 12), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--changes", type=int, nargs="+", default=[10_000_000, 100_000_000])
    parser.add_argument("--memory", default="4GB")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        keep = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        keep.mkdir(parents=True, exist_ok=True)
        {"days": days, "growth": growth}[options.part](options, keep)


if __name__ == "__main__":
    main()
