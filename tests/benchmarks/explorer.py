"""How long an explorer takes over a Parquet file, and how much memory, beside the same queries in DuckDB by hand.

    .venv/bin/python tests/benchmarks/explorer.py [--rows 10000000] [--times 3]

The bounds are 1 s to open, 0.5 s for the first rows of a search, and 400 MB above what the imports take. Times are of the
clock and, in brackets, of the CPU of all threads: on a busy machine, the first is longer. A search in vain reads every
text of the file.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb

from exposurekit.widgets import Explorer
from exposurekit.widgets.sql_rows import MEMORY
from exposurekit.widgets.table_filter import Filter

OPEN_S, SEARCH_S, MEMORY_MB = 1, 0.5, 400
RECORDS = """
COPY (
  SELECT 'Site ' || lpad((range * 7 % 120)::VARCHAR, 3, '0') AS site,
    ['discovered', 'pending removal', 'removed'][range % 3 + 1] AS status,
    range // 20 + 1 AS user_id, range + 1 AS record_id, 'Odalys Fennimoor ' || range // 20 AS name,
    (range % 80)::SMALLINT AS age, 'https://peepfinder.example/p/' || range AS href, '00' || range AS reference_id,
    CASE WHEN range % 5 > 0 THEN ['Tall Pines, OR'] END AS locations,
    TIMESTAMPTZ '2026-01-01 00:00:00+00' + INTERVAL (range % 100000) MINUTE AS first_seen_at
  FROM range($rows)
) TO '{path}' (FORMAT parquet)
"""
TEXTS = ("site", "status", "name", "href", "reference_id")


NO_TEXT = "no such text {n}"
FREQUENT = "fennimoor {n}"


def matches(text):
    return " OR ".join(f"{column} ILIKE '%{text}%'" for column in TEXTS)


def queries(rows):
    """What is done by hand for each step of the explorer; {n} is another number each time."""
    runs = " UNION ALL ".join(f"(FROM t LIMIT 250 OFFSET {one * rows // 8})" for one in range(8))
    count = "SELECT count(*) FROM t WHERE "
    return {
        "open": ["FROM t LIMIT 20", count + "TRUE", runs],
        "search": [f"FROM t WHERE {matches(FREQUENT)} LIMIT 20", count + matches(FREQUENT)],
        "search in vain": [f"FROM t WHERE {matches(NO_TEXT)} LIMIT 20"],
        "filter": ["FROM t WHERE age = {n} LIMIT 20", count + "age = {n}"],
        "sort": ["FROM t WHERE age > {n} ORDER BY age DESC LIMIT 20", count + "age > {n}"],
    }


class Steps:
    """The same with an explorer."""

    def __init__(self, path):
        self.path, self.explorer, self.first_rows = path, Explorer(path), []
        self.explorer._grid.observe(lambda _: self.first_rows.append(time.perf_counter()), "rows")
        self.by_name = {
            "open": lambda _: Explorer(path),
            "search": lambda n: self.explorer.search(FREQUENT.format(n=n)),
            "search in vain": lambda n: self.explorer.search(NO_TEXT.format(n=n)),
            "filter": lambda n: self.explorer.choose("age", n),
            "sort": self.sort,
        }

    def sort(self, n):
        for ascending in (True, False):
            self.explorer._set_filter(Filter(chosen={"age": (n,)}, sort=("age", ascending)))

    def before(self):
        self.explorer.clear()
        self.first_rows.clear()


def spent(act, times, before=lambda: None):
    """The medians of the clock and of the CPU."""
    clock, cpu = [], []
    for number in range(1, times + 1):
        before()
        began, used = time.perf_counter(), time.process_time()
        act(number)
        clock.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return median(clock), median(cpu)


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(path, rows):
    """Write the file, in a process of its own: what that takes is not the explorer's."""
    with duckdb.connect(config={"memory_limit": MEMORY}) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(RECORDS.format(path=path), {"rows": rows})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "records.parquet")
        process = multiprocessing.get_context("spawn").Process(target=write, args=(path, options.rows))
        process.start()
        process.join()
        imports = peak_mb()
        steps, ours, firsts = Steps(path), {}, {}
        for name, act in steps.by_name.items():
            ours[name] = spent(act, options.times, steps.before)
            began = time.perf_counter()
            steps.before()
            act(options.times + 1)
            firsts[name] = (steps.first_rows or [time.perf_counter()])[0] - began
        peak = peak_mb() - imports
        with duckdb.connect(config={"memory_limit": MEMORY}) as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.execute(f"CREATE VIEW t AS FROM '{path}'")
            for name, texts in queries(options.rows).items():
                by_hand = spent(
                    lambda n: [connection.sql(one.replace("{n}", str(n))).fetchall() for one in texts],  # noqa: B023  called at once
                    options.times,
                )
                clock, cpu = ours[name]
                print(
                    f"{name}: {clock:.2f} s ({cpu:.2f} s of CPU), first rows after {firsts[name]:.2f} s; by hand "
                    f"{by_hand[0]:.2f} s ({by_hand[1]:.2f} s of CPU): {cpu / by_hand[1]:.1f} times the CPU"
                )
    print(f"memory: {peak:.0f} MB above the imports (at most {MEMORY_MB})")
    print(f"bounds: open {OPEN_S} s, first rows of a search {SEARCH_S} s")


if __name__ == "__main__":
    main()
