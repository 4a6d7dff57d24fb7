"""Loading a fleet of people: exposurekit against a script by hand, both sides in one run.

    python tests/benchmarks/load_fleet.py [--people 2000] [--rounds 3]

Prints CPU seconds (user and system, of the loading process alone) and peak memory of each side, with and
without the imports, and the ratios exposurekit / by hand. The script by hand validates nothing.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
CREDENTIALS = ("acme", "key", "secret")


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def exposurekit(base_url):
    import exposurekit as ek

    name, key, secret = CREDENTIALS
    exposure = ek.connect(base_url, integration_name=name, api_key=key, api_secret=secret, progress=False)
    return {table: getattr(exposure, table)() for table in TABLES} | {"failures": exposure.failures()}


def by_hand(base_url):
    import by_hand as script

    return asyncio.run(script.load(base_url, *CREDENTIALS))


TABLES = ("users", "records", "links", "alerts", "steps", "aliases", "emails", "phone_numbers", "addresses")
SIDES = {"exposurekit": exposurekit, "by_hand": by_hand}


def one_side(side, base_url):
    if side == "exposurekit":
        import exposurekit.exposure  # noqa: F401  the imports are measured apart
    else:
        import by_hand  # noqa: F401
    imported = cpu_s()
    frames = SIDES[side](base_url)
    done = cpu_s()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = {name: len(frame) for name, frame in frames.items() if name in TABLES}
    print(json.dumps({"cpu_s": done, "load_cpu_s": done - imported, "peak_mb": peak, "rows": rows}))


def measured(side, base_url):
    run = subprocess.run(
        [sys.executable, __file__, "--side", side, "--base-url", base_url],
        check=True,
        capture_output=True,
        text=True,
        cwd=HERE,
    )
    return json.loads(run.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--base-url")
    options = parser.parse_args()
    if options.side:
        one_side(options.side, options.base_url)
        return
    server = subprocess.Popen(
        [sys.executable, HERE / "peer_server.py", "--people", str(options.people)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        base_url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        runs = [{side: measured(side, base_url) for side in SIDES} for _ in range(options.rounds)]
    finally:
        server.terminate()
        server.communicate()
    assert all(run["exposurekit"]["rows"] == {t: run["by_hand"]["rows"][t] for t in TABLES} for run in runs)
    print(f"{options.people} people, median of {options.rounds} rounds, sides in turn")
    for what in ("cpu_s", "load_cpu_s", "peak_mb"):
        ours, theirs = (median(run[side][what] for run in runs) for side in SIDES)
        print(f"{what:>10}: exposurekit {ours:8.2f}   by hand {theirs:8.2f}   ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
