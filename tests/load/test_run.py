"""The pressure test runs at a tiny size; its long run is a command."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


def test_the_pressure_test_runs_at_a_tiny_size():
    command = [sys.executable, Path(__file__).with_name("run.py"), "--people", "30", "--seconds", "1"]
    names = ["wrong secrets", "silent", "large people"]
    run = subprocess.run([*command, *names], capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line[:14].strip() for line in lines] == ["abuse", "none", *names]
    assert all(line.endswith("none") for line in lines[1:])  # no error
    for *_, failed, answered, _, _, _ in map(str.split, lines[1:]):
        assert failed == "0"  # of the scrapes
        assert int(answered) > 0  # of the requests that they counted
