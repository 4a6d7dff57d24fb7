"""Every benchmark runs, at a size that says nothing about speed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # a dozen processes, which import everything
HERE = Path(__file__).parent
TINY = {
    "load_fleet": "--people 4 --rounds 1",
    "service_front": "--rounds 1 --seconds 0.1 --connections 1",
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
    "missed_listings": "--worlds 2",
    "guarded_web": "--people 1 --days 3",
    "evidence": "--pairs 5 --tamperings 60",
}


def test_every_benchmark_in_the_readme_is_tested():
    manual = (HERE.parent / "README.md").read_text()
    assert set(re.findall(r"tests/benchmarks/(\w+)\.py( \w+)?\n", manual)) == {
        (name.split()[0], "".join(f" {part}" for part in name.split()[1:])) for name in TINY
    }


@pytest.mark.parametrize("benchmark", TINY)
def test_a_benchmark_runs_at_a_tiny_size(benchmark):
    name, *part = benchmark.split()
    command = [sys.executable, HERE / f"{name}.py", *part, *TINY[benchmark].split()]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
