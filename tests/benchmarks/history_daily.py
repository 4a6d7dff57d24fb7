"""What a daily run costs after years, beside one of the second week; and how many files and bytes a history has then.

    .venv/bin/python tests/benchmarks/history_daily.py [--people 1000] [--records 20] [--runs 1095] [--merging on]

A loaded run is staged each day and ingested as a collection does, by a history that was opened for it. Days pass: nothing
is kept for readers of the day before, and the logs' files become a day older. At each report the history, and one that
is ten days old, ingest so many runs in turn. Prints the CPU of both in the median and the mean, with the merging of
small files, and the ratios; and the files and bytes on disk, as a ratio to what the tables hold. With ``--merging off``,
runs merge nothing.
"""

import argparse
import copy
import os
import shutil
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
YOUNG = 10
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


def compare(path, number, turns):
    files, size = on_disk(path)
    old, young = zip(*turns, strict=True)
    print(
        f"run {number:>5,}: CPU {median(old):.3f} s, mean {mean(old):.3f} s; run {YOUNG}: {median(young):.3f} s, mean "
        f"{mean(young):.3f} s; ratio {median(old) / median(young):.2f}, mean {mean(old) / mean(young):.2f}; {files:,} files, "
        f"{size / 1e6:.1f} MB, {size / in_tables(path):.2f} times the tables; records and counts in {answers(path):.2f} CPU s "
        f"(load average {os.getloadavg()[0]:.1f})",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    defaults = {"people": 1_000, "records": 20, "runs": 1_095, "every": 100, "turns": 16}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--merging", choices=("on", "off"), default="on")
    options = parser.parse_args()
    schedule = AT_ONCE if options.merging == "on" else None

    def next_run(path, world):
        cpu = cpu_of_run(path, world, schedule)
        pass_a_day(path)
        world.next_day()
        return cpu

    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        path, young, beside = (Path(directory, name) for name in ("history", "young", "beside"))
        world, young_world = World(options.people, options.records), None
        for number in range(1, options.runs + 1):
            next_run(path, world)
            if number == YOUNG:
                shutil.copytree(path, young)
                young_world = copy.deepcopy(world)
            if number >= YOUNG and (number % options.every == 0 or number == options.runs):
                shutil.copytree(young, beside)
                its_world = copy.deepcopy(young_world)
                turns = [(next_run(path, world), next_run(beside, its_world)) for _ in range(options.turns)]
                compare(path, number, turns)
                shutil.rmtree(beside)


if __name__ == "__main__":
    main()
