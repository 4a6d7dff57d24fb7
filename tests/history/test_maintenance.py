from datetime import timedelta

import pytest
from pandas.testing import assert_frame_equal
from support.histories import DAWN, Clock, Person, a_record

from exposurekit.history import History
from exposurekit.history.maintenance import SMALL_FILE_BYTES, Schedule, maintain_if_due

RUNS = 5


@pytest.fixture
def history(served_exposure, tmp_path):
    """Two people of different buckets, each with a listing that changes in every run."""
    service, exposure = served_exposure
    service.clear()
    clock = Clock()
    history = History(tmp_path / "history", clock=clock, records_by="id")
    for day in range(RUNS):
        status = ("discovered", "pending removal")[day % 2]
        service.people |= {user: Person([a_record(10 + user, status)]) for user in (1, 2)}
        clock.set(DAWN + timedelta(days=day))
        history.collect(exposure)
    return history


def test_more_small_files_than_the_schedule_allows_are_merged(history):
    store = history._store
    records, changes = history.records(), history.status_over_time()

    def maintained(**limits):
        with store.exclusive():
            maintain_if_due(store, RUNS, Schedule(**limits))
        return store.files_by_bucket("changes", below=SMALL_FILE_BYTES)

    assert maintained() == [RUNS, RUNS]
    assert maintained(max_files=2 * RUNS, files_per_bucket=1) == [RUNS, RUNS]
    assert maintained(max_files=1, files_per_bucket=RUNS) == [RUNS, RUNS]
    assert maintained(max_files=1, files_per_bucket=1) == [1, 1]
    assert_frame_equal(history.records(), records)
    assert_frame_equal(history.status_over_time(), changes)
    assert not history.verify()


def test_files_above_the_size_are_not_merged(history):
    store = history._store
    assert sum(store.files_by_bucket("changes", below=SMALL_FILE_BYTES)) == 2 * RUNS
    assert store.files_by_bucket("changes", below=500) == []
    assert store.files_by_bucket("runs", below=500) == [0]
    assert store.files_by_bucket("deliveries", below=SMALL_FILE_BYTES) == []
