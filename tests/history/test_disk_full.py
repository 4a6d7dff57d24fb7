"""A full disk: one plain error, and a history that is complete as soon as there is space again."""

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from support.full_disk import file_size_limit
from support.histories import DAWN, Clock, Person, a_record

from exposurekit.errors import DiskFull
from exposurekit.history import History
from exposurekit.history.maintenance import Schedule

pytestmark = pytest.mark.long  # processes of their own
NO_SPACE = (
    "No space is left where the history is stored: free some space, and try again. What it has is complete"
)

NOT_ERASED = "No space is left where the history is stored, and the person is not erased yet: free some space, and erase again"


def noise(length):
    """Text that cannot be compressed below half its length."""
    return "".join(sha256(str(number).encode()).hexdigest() for number in range(length // 64))


@pytest.fixture(scope="module")
def base(served_exposure, tmp_path_factory):
    """Persons 2 and 66 are in the same bucket."""
    service, exposure = served_exposure
    large = a_record(31, name=noise(100_000))
    service.people = {2: Person([a_record(21)]), 66: Person([large])}
    clock = Clock()
    clock.set(DAWN)
    with History(tmp_path_factory.mktemp("base") / "history", clock=clock) as history:
        history.collect(exposure)
    return history.path


@pytest.fixture
def history(base, tmp_path):
    clock = Clock()
    clock.set(DAWN + timedelta(days=1))
    return History(shutil.copytree(base, tmp_path / "history"), clock=clock)


@pytest.fixture
def exposure(served_exposure):
    return served_exposure[1]


WRITES = {
    "a part of a run": lambda history, exposure: history.collect(exposure, run="second"),
    "an annotation": lambda history, _: history.label(history.records(), "mine", reason=noise(100_000)),
    "a checkpoint": lambda history, _: history.compact(),
    "an erasure": lambda history, _: history.erase(2),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_is_one_plain_error(history, exposure, write):
    with file_size_limit(500), pytest.raises(DiskFull) as refused:
        WRITES[write](history, exposure)
    assert str(refused.value) == (NOT_ERASED if write == "an erasure" else NO_SPACE)
    assert refused.value.__suppress_context__
    assert history.verify() == {}
    WRITES[write](history, exposure)
    assert history.verify() == {}


def test_a_run_counts_though_no_space_is_left_to_merge(history, served_exposure, monkeypatch, caplog):
    service, exposure = served_exposure
    always = Schedule(max_files=1, files_per_bucket=1)
    for status in ("pending removal", "discovered"):
        service.people |= {2: Person([a_record(21, status, name=status)])}
        history.collect(exposure, only=[2])
    monkeypatch.setattr("exposurekit.history.maintenance.DEFAULT_SCHEDULE", always)
    again = History(history.path, clock=history._clock)
    service.people |= {2: Person([a_record(21, "removed", name="removed")])}
    with file_size_limit(30_000):
        assert again.collect(exposure, only=[2]).seq == 4
    assert f"history not compacted after run 4: {NO_SPACE}" in caplog.messages
    assert not again.pending_runs()
    assert again.collect(exposure, only=[2]).seq == 5
    assert again.verify() == {}


FINISHES = {
    "erase": lambda history, _: history.erase(2),
    "collect": lambda history, exposure: history.collect(exposure),
    "compact": lambda history, _: history.compact(),
    "verify": lambda history, _: history.verify(),
}


@pytest.mark.parametrize("finish", FINISHES)
def test_an_erasure_without_space_is_finished_by_the_next_write(history, served_exposure, finish):
    service, exposure = served_exposure
    with file_size_limit(30_000), pytest.raises(DiskFull, match="erase again"):
        history.erase(2)
    manifest = Path(history.path, "history.json")
    assert json.loads(manifest.read_text())["erasing"] == 2
    assert (len(history.changes()), history.by_site()["total"].tolist()) == (1, [2])
    again = History(history.path)
    service.people = {66: service.people[66]}
    FINISHES[finish](again, exposure)
    assert (len(again.records()), again.by_site()["total"].tolist()) == (1, [1])
    assert again.people()["user_id"].tolist() == [66]
    assert "erasing" not in json.loads(manifest.read_text())
    assert again.verify() == {}


SPILLING = """
import resource, sys
from exposurekit.errors import DiskFull
from exposurekit.history.engines.duckdb import DuckDB
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
text = "CREATE TEMP TABLE sorted AS SELECT md5(range::VARCHAR) AS text FROM range(600000) ORDER BY text"
with DuckDB(memory_limit="20MB", threads=1) as engine:
    try:
        with engine.views({}) as cursor:
            cursor.execute(text)
    except DiskFull as error:
        print(error)
"""


def test_a_query_without_space_to_spill_says_so(tmp_path):
    command = [sys.executable, "-c", SPILLING]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert (
        run.stdout
        == "No space is left for temporary files: free some space, or set TMPDIR to another directory\n"
    )
