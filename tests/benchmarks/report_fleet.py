"""What a fleet's report costs over many records, beside the same tables as bare pandas HTML; and how soon it is drawn.

    .venv/bin/python tests/benchmarks/report_fleet.py [--people 5000] [--records 20] [--days 2] [--keep DIR]

A loopback server answers prebuilt bodies; several runs make a history. Then, each in a process of its own: the report,
and the same tables written by ``DataFrame.to_html``. Prints seconds, CPU and peak memory of both, their ratio, the size of
the page, and how long Chromium takes from opening the file to its first chart. Bounds: 3 s, 600 MB, 3 MB, 1 s; with
``--people 50000``, a million records, 10 s, 1.5 GB, 4 MB, 1 s.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def collected(people, records, days, directory):
    from history_collect import CREDENTIALS, served
    from support.histories import DAWN, Clock

    import exposurekit as ek

    clock = Clock()
    with served(people, records) as base_url, ek.History(directory, clock=clock) as history:
        exposure = ek.connect(base_url, **CREDENTIALS, progress=False)
        for day in range(days):
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure, progress=False)


def report(directory, out):
    import exposurekit as ek
    from exposurekit import analysis, charts  # noqa: F401  what an analyst has loaded by then

    history = ek.History(directory)
    history.runs()
    began = time.perf_counter()
    report_page = ek.report(history, out)
    return time.perf_counter() - began, {"sections": len(report_page.sections)}


def by_hand(directory, out):
    import exposurekit as ek
    from exposurekit import analysis

    history = ek.History(directory)
    history.runs()
    began = time.perf_counter()
    records = history.records()
    tables = [
        analysis.by_site(records),
        history.status_over_time(),
        history.time_to_removal(),
        history.relistings(),
        history.work_queue().head(2_000),
        history.coverage(),
    ]
    Path(out).write_text("".join(table.to_html() for table in tables))
    return time.perf_counter() - began, {"tables": len(tables)}


def measured(which, directory, out):
    command = [sys.executable, __file__, "--which", which, "--keep", str(directory), "--out", str(out)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout.splitlines()[-1])


def first_chart_s(file):
    """From opening a page to its first chart, in Chromium."""
    from support.jupyter import browsing

    with browsing(file=file) as (page, _):
        page.goto("about:blank")
        began = time.perf_counter()
        page.goto(file.resolve().as_uri(), wait_until="commit")
        page.locator("svg.main-svg").first.wait_for()
        return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=5_000)
    parser.add_argument("--records", type=int, default=20)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--which")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.which:
        seconds, more = {"report": report, "by hand": by_hand}[options.which](options.keep, options.out)
        cpu = time.process_time()  # of the whole process, with its imports
        print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mb": peak_mb()} | more))
        return
    with tempfile.TemporaryDirectory() as scratch:
        directory = options.keep or Path(scratch) / "history"
        if not directory.exists():
            collected(options.people, options.records, options.days, directory)
        figures_by_side = {
            which: measured(which, directory, Path(scratch) / f"{which}.html")
            for which in ("by hand", "report")
        }
        for which, figures in figures_by_side.items():
            print(
                f"{which:<8} {figures['seconds']:6.2f} s  {figures['cpu']:6.2f} CPU s with imports  "
                f"{figures['peak_mb']:5.0f} MB"
            )
        page = Path(scratch) / "report.html"
        ratio = figures_by_side["report"]["seconds"] / figures_by_side["by hand"]["seconds"]
        print(f"ratio {ratio:.2f}; the page has {page.stat().st_size / 1e6:.2f} MB")
        print(f"first chart after {first_chart_s(page):.2f} s")


if __name__ == "__main__":
    main()
