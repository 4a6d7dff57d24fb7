"""Every benchmark runs, at a size that says nothing about speed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # several processes, which import everything
HERE = Path(__file__).parent
TINY = {
    "load_fleet": "--people 4 --rounds 1",
    "service_front": "--rounds 1 --seconds 0.1 --connections 1 --latencies 3",
    "service_work": "--deliveries 4 --people 2 --rounds 1",
    "history_log days": "--people 8 --records 2 --runs 1 --timed 2 --rounds 1",
    "history_log growth": "--changes 300 600 --rounds 1",
    "history_daily": "--people 5 --records 2 --runs 11 --turns 1",
    "history_collect": "--people 2 4 --records 1",
    "dashboard": "--people 8 --records 16 --runs 2 --times 1",
    "explorer": "--rows 5000 --times 1",
    "report_fleet": "--people 4 --records 2 --days 2",
    "leak_search": "--records 2000",
    "site_mending": "--layouts 2 --people 20",
    "declared_delays": "--worlds 2",
    "missed_listings": "--worlds 2 --services 1 --people 3",
    "guarded_web": "--people 1 --days 3",
    "evidence": "--pairs 5 --tamperings 60",
}


def test_every_benchmark_in_the_readme_is_tested():
    manual = (HERE.parent / "README.md").read_text()
    assert set(re.findall(r"tests/benchmarks/(\w+)\.py( \w+)?\n", manual)) == {
        (name.split()[0], "".join(f" {part}" for part in name.split()[1:])) for name in TINY
    }


# Runs scripts one after the other as Python would; what they import is imported once.
RUN_ALL = """
import contextlib, io, json, runpy, sys, traceback
from pathlib import Path
runs, path = {}, sys.path[1:]
for name, words in json.loads(sys.argv[1]).items():
    sys.argv, sys.path[:], ended = words, [str(Path(words[0]).parent), *path], ""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_path(words[0], run_name="__main__")
        except (Exception, SystemExit) as error:
            ended = traceback.format_exc() if getattr(error, "code", True) else ""
    runs[name] = [ended, out.getvalue()]
print(json.dumps(runs))
"""
ALONE = {"explorer"}  # starts a process that imports it


@pytest.fixture(scope="module")
def runs():
    """By benchmark, how it failed, and what it printed."""
    words = {
        name: [str(HERE / f"{name.split()[0]}.py"), *name.split()[1:], *options.split()]
        for name, options in TINY.items()
    }
    together = json.dumps({name: words[name] for name in TINY if name not in ALONE})
    run = python("-c", RUN_ALL, together)
    assert run.returncode == 0, run.stderr
    alone = {name: python(*words[name]) for name in ALONE}
    return json.loads(run.stdout) | {
        name: [one.returncode and one.stderr, one.stdout] for name, one in alone.items()
    }


def python(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("benchmark", TINY)
def test_a_benchmark_runs_at_a_tiny_size(runs, benchmark):
    failure, output = runs[benchmark]
    assert not failure, failure
    assert output.strip()
