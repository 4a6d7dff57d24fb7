"""What a daily run costs after years, beside one of the second week; and how many files and bytes a history has then.

    .venv/bin/python tests/benchmarks/history_daily.py [--people 1000] [--records 20] [--runs 1095] [--merging on]

A loaded run is staged each day and ingested as a collection does, by a history that was opened for it. Days pass: nothing
is kept for readers of the day before, and the logs' files become a day older. Prints the CPU of the median and of the mean
run of two weeks, with the merging of small files; both as ratios to those of the second and third week; and the files and bytes on disk,
as a ratio to what the tables hold. With ``--merging off``, runs merge nothing.
"""

import argparse
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

from history_world import World

from exposurekit.history import History
from exposurekit.history.maintenance import Schedule
from exposurekit.history.storage.schema import TABLES

DAY_S = 86_400
DAYS = 14
AT_ONCE = Schedule(keep_hours=0)


def cpu_of_run(path, world, schedule):
    history = History(path)
    staged = world.staged(history._store)
    history.close()
    began = time.process_time()
    with History(path) as history:
        history._runs = replace(history._runs, schedule=schedule)
        history._runs.ingest_if_complete(staged)
    return time.process_time() - began


def pass_a_day(path):
    for log in path.glob("*/_delta_log/*"):
        at = log.stat().st_mtime - DAY_S
        os.utime(log, (at, at))


def on_disk(path):
    sizes = [file.stat().st_size for file in path.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def in_tables(path):
    store = History(path)._store
    return sum(size for name in TABLES for _, size in store.file_sizes(name))


def answers(path):
    """CPU of two questions to a history that was just opened."""
    began = time.process_time()
    with History(path) as history:
        history.records()
        history.status_over_time(by="site")
    return time.process_time() - began


def report(path, number, cpus, first):
    files, size = on_disk(path)
    newest = cpus[-DAYS:]
    ratio = (
        f", ratio {median(newest) / median(first):.2f} and {mean(newest) / mean(first):.2f}" if first else ""
    )
    print(
        f"run {number:>5,}: CPU {median(newest):.3f} s, mean {mean(newest):.3f} s{ratio}; {files:,} files, "
        f"{size / 1e6:.1f} MB, {size / in_tables(path):.2f} times the tables; records and counts in {answers(path):.2f} CPU s "
        f"(load average {os.getloadavg()[0]:.1f})",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("people", 1_000), ("records", 20), ("runs", 1_095), ("every", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--merging", choices=("on", "off"), default="on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        path, cpus = Path(directory, "history"), []
        world, schedule = World(options.people, options.records), AT_ONCE if options.merging == "on" else None
        for number in range(1, options.runs + 1):
            cpus.append(cpu_of_run(path, world, schedule))
            pass_a_day(path)
            world.next_day()
            first = cpus[7 : 7 + DAYS] if number > 7 + DAYS else []
            if number == 7 + DAYS or number % options.every == 0 or number == options.runs:
                report(path, number, cpus, first)


if __name__ == "__main__":
    main()
