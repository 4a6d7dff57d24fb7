"""A full disk, for this process or for another one."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

MOUNTED = 'mount -t tmpfs -o size=3M tmpfs "$0" && exec "$@"'


@contextmanager
def file_size_limit(size):
    """Within the block no file may grow beyond a size: the system refuses such writes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run_on_small_disk(code, directory):
    """Run Python code, with the directory as its argument, in a process for which that is a disk of three megabytes.

    Skips only if this user may not mount a disk and could not be expected to: not root, and not in CI.
    """
    mounted = ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNTED, directory]
    probe = subprocess.run([*mounted, "true"], capture_output=True, text=True, check=False)
    if probe.returncode and (os.geteuid() == 0 or os.environ.get("CI")):
        pytest.fail(f"no disk could be mounted: {probe.stderr}")
    if probe.returncode:
        pytest.skip(f"this user may not mount a disk: {probe.stderr.strip()}")
    words = [*mounted, sys.executable, "-c", code, directory]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    run = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout


def fill(directory):
    """Write a file that takes the space that is left on a small disk."""
    with (directory / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)):
                pass
        except OSError:
            return
