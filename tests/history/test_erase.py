"""A person is erased, and comes back if the service still lists them."""

import shutil
import subprocess
import sys
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from support.histories import DAWN, Clock, Person, a_link, a_record, an_alert

from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.history import History, maintenance
from exposurekit.history.storage.delta import SHARED_ROWS

DAY = timedelta(days=1)


def person(user_id, status="discovered"):
    record = a_record(10 * user_id, status)
    return Person([record], [a_link(f"https://page.example/{user_id}")], [an_alert("Look", record)])


@pytest.fixture(scope="module")
def base(served_exposure, tmp_path_factory):
    """A history of persons 1 and 2, which no test changes: two runs on two days."""
    service, exposure = served_exposure
    service.people = {1: person(1), 2: person(2)}
    clock = Clock()
    with History(tmp_path_factory.mktemp("base") / "history", clock=clock) as history:
        for day, shared_rows in enumerate((SHARED_ROWS, 0)):  # in files of all buckets, and of one
            clock.set(DAWN + day * DAY)
            history._store.shared_rows = shared_rows
            history.collect(exposure)
            service.people = {1: person(1), 2: person(2, "pending removal")}
        yield history


@pytest.fixture
def erasable(base, served_exposure, tmp_path):
    """A copy of the base; and a function that collects a run on another day."""
    service, exposure = served_exposure
    service.people = {1: person(1), 2: person(2)}
    clock = Clock()
    history = History(shutil.copytree(base.path, tmp_path / "history"), clock=clock)

    def collect(day, **more):
        clock.set(DAWN + day * DAY)
        return history.collect(exposure, **more)

    return history, service, clock, collect


@pytest.mark.parametrize(
    "user_id",
    [2.7, 2.0, True, np.True_, np.float64(2), None, [2], (2,), "2", -1, 2**63, pd.NA, np.array([2])],
)
def test_only_an_integer_is_a_user_id(base, user_id):
    before = base.changes()
    for query in (base.erase, base.personal_values):
        with pytest.raises(InvalidArgument, match="A user id is an integer"):
            query(user_id)
    assert base.changes().equals(before)


def test_a_user_key_is_no_user_id(base, served_exposure):
    with pytest.raises(InvalidArgument):
        base.erase(served_exposure[1].key(2))


def test_integers_of_any_type_are_user_ids(erasable):
    history, *_ = erasable
    for kind in (int, np.int64, np.uint8, np.int32):
        assert history.personal_values(kind(2))
    assert history.erase(np.uint8(2)) > 0
    assert set(history.changes()["user_id"]) == {1}
    assert history.erase(np.int32(0)) == history.erase(0) == 0


@pytest.mark.filterwarnings("ignore:No listing is on a site named")
def test_what_is_written_during_an_erasure_stays(erasable):
    """The erasure has read the tables before another process labels a record and renames a site."""
    history, _, clock, _ = erasable
    clock.set(DAWN + 2 * DAY)
    other = History(history.path)
    records = other.records().query("user_id == 1")
    other.label(records, "unsure")
    other.rename_site("Nosey", "Nosy")
    with history._store.exclusive():
        history._store.begin_erasure(clock(), 2)
        history._store.snapshot("annotations", "site_names")
        other.label(records, "mine")
        other.rename_site("Peeper", "Peep")
        maintenance.erase(history._store, 2)
    for one in (history, other, History(history.path)):
        assert one.labels()["value"].tolist() == ["mine"]
        assert one.site_names()["name"].tolist() == ["Nosy", "Peep"]
    assert not history.verify()


ANNOTATES = """
import sys
import warnings
from exposurekit.history import History
warnings.filterwarnings("ignore", "No listing is on a site named")
history = History(sys.argv[1])
records = history.records().query("user_id == 1")
print(flush=True)
for number in range(int(sys.argv[2])):
    history.note(records, f"note {number}")
    history.rename_site("Nosey", f"Nosy {number}")
"""


def test_erasures_beside_a_writing_process_lose_nothing(erasable):
    history, _, clock, _ = erasable
    clock.set(DAWN + 2 * DAY)
    notes = 12
    command = [sys.executable, "-c", ANNOTATES, history.path, str(notes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        while process.poll() is None:
            history.erase(2)
        assert (process.returncode, process.stderr.read()) == (0, "")
    assert history.notes()["note"].tolist() == [f"note {number}" for number in range(notes)]
    assert history.site_names()["name"].tolist() == [f"Nosy {notes - 1}"]
    assert not history.verify()


def test_an_erased_person_comes_back_as_a_baseline(erasable):
    """Nothing counts as new: whether it was observed before the erasure is unknown."""
    history, service, clock, collect = erasable
    clock.set(DAWN + 2 * DAY)
    history.erase(2)
    run = collect(3)
    counted = {name: run.counts[name] for name in ("new", "entered_scope", "links_new", "alerts_new")}
    assert counted == {"new": 0, "entered_scope": 1, "links_new": 0, "alerts_new": 0}
    back = history.changes().query("user_id == 2")
    assert back["left_censored"].all()
    assert back["not_before"].isna().all()
    service.people[2] = person(2, "removed")
    collect(4)
    moved = history.diff(DAWN + DAY).counts.set_index("what")["n"]
    assert moved[["new", "removed", "entered scope"]].tolist() == [0, 1, 1]
    assert history.time_to_removal(by=None)["removed"].sum() == 0
    assert history.verify() == {}


def test_registering_after_a_run_begun_after_the_erasure_is_new(erasable):
    history, service, clock, collect = erasable
    clock.set(DAWN + 2 * DAY)
    history.erase(2)
    del service.people[2]
    service.people[3] = person(3)
    assert collect(3).new == 0  # it may be the erased person
    service.people[4] = person(4)
    assert collect(4).new == 1
    changes_by_user = history.changes().query("kind == 'record'").set_index("user_id")
    assert changes_by_user["left_censored"].to_dict() == {1: True, 3: True, 4: False}
    assert changes_by_user.loc[4, "not_before"] == DAWN + 3 * DAY


def test_a_run_begun_before_the_erasure_reports_nobody_as_new(erasable):
    history, _, clock, collect = erasable
    collect(2, run="shared", shard="1/2")
    clock.set(DAWN + 3 * DAY)
    history.erase(1)
    assert collect(3, run="shared", shard="2/2").seq == 3
    assert collect(4).new == 0
    assert history.changes().query("user_id == 1")["left_censored"].all()


def test_the_manifest_has_the_erasures_time_without_the_id(erasable, tmp_path):
    history, _, clock, _ = erasable
    clock.set(DAWN + 2 * DAY)
    history.erase(2)
    manifest = (tmp_path / "history" / "history.json").read_text()
    assert manifest == '{"records_by": "id", "format": 4, "erased_at": "2026-03-03T20:00:00+00:00"}'
    (tmp_path / "history" / "history.json").write_text('{"records_by": "id", "erased_at": "soon"}')
    with pytest.raises(ConfigurationError, match="restore it from a copy"):
        History(tmp_path / "history")
