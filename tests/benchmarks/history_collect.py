"""What a collection of everyone holds in memory, by how many people there are: it must not grow with them.

    .venv/bin/python tests/benchmarks/history_collect.py [--people 5000 50000] [--records 20]

A loopback server of its own process serves prebuilt bodies; each collection is a process of its own, which collects
into a new history, takes the run in, and tells its peak (ru_maxrss). Prints both sizes and the ratio.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
CREDENTIALS = {"integration_name": "acme", "api_key": "key", "api_secret": "secret"}


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def collect(base_url, directory):
    import exposurekit as ek

    exposure = ek.connect(base_url, **CREDENTIALS, progress=False)
    history = ek.History(directory)
    imported_mb, began = peak_mb(), time.perf_counter()
    run = history.collect(exposure, progress=False)
    figures = {"seconds": time.perf_counter() - began, "peak_mb": peak_mb(), "imported_mb": imported_mb}
    loaded = run.people["whole"] + run.people["partial"]
    print(json.dumps(figures | {"people": loaded, "records": run.counts["entered_scope"]}))


@contextlib.contextmanager
def served(people, records):
    command = [sys.executable, HERE / "peer_server.py", "--people", str(people), "--records", str(records)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
    finally:
        server.terminate()
        server.communicate()


def measured(people, records):
    with served(people, records) as base_url, tempfile.TemporaryDirectory() as directory:
        run = subprocess.run(
            [sys.executable, __file__, "--base-url", base_url, "--into", f"{directory}/history"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    figures = json.loads(run.stdout.splitlines()[-1])
    assert figures["people"] == people, figures
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--records", type=int, default=20)
    parser.add_argument("--base-url")
    parser.add_argument("--into")
    options = parser.parse_args()
    if options.base_url:
        collect(options.base_url, options.into)
        return
    peaks = []
    for people in options.people:
        figures = measured(people, options.records)
        peaks.append(figures["peak_mb"])
        print(
            f"{people:>7,} people x {options.records} records: peak {figures['peak_mb']:6.0f} MB "
            f"({figures['imported_mb']:.0f} MB of it before), {figures['seconds']:6.1f} s, "
            f"{people / figures['seconds']:,.0f} people a second",
            flush=True,
        )
    load = os.getloadavg()[0]
    print(f"peak memory, most to fewest people: ratio {peaks[-1] / peaks[0]:.2f} (load average {load:.1f})")


if __name__ == "__main__":
    main()
