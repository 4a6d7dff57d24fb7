import logging
import os
import re
import shutil
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from pandas.testing import assert_frame_equal
from support.histories import DAWN, Clock, Person, a_record

from exposurekit.history import History
from exposurekit.history.engines.duckdb import CorruptHistory
from exposurekit.history.maintenance import FILE_BYTES, TIERS, Schedule, maintain_if_due, merges_due
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import SHARED

RUNS = 5
TWO_DAYS_S = 2 * 86_400


@pytest.fixture(scope="module")
def base(served_exposure, tmp_path_factory):
    """The directory of a history of two people, each with a listing that changes in every run."""
    service, exposure = served_exposure
    service.clear()
    clock, directory = Clock(), tmp_path_factory.mktemp("base") / "history"
    with History(directory, clock=clock, records_by="id") as history:
        for day in range(RUNS):
            status = ("discovered", "pending removal")[day % 2]
            service.people |= {user: Person([a_record(10 + user, status)]) for user in (1, 2)}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure)
    return directory, clock, service.people


@pytest.fixture
def history(base, served_exposure, tmp_path):
    directory, clock, people = base
    service, _ = served_exposure
    service.clear()
    service.people = dict(people)
    return History(shutil.copytree(directory, tmp_path / "history"), clock=clock, records_by="id")


def test_a_small_table_is_read_again_only_after_a_write(history):
    reader, writer = Store(history.path), Store(history.path)
    rows = reader.rows("runs")
    assert reader.rows("runs") is rows
    assert rows.num_rows == RUNS
    writer.append("runs", rows.slice(0, 1))
    assert reader.rows("runs").num_rows == RUNS + 1


def files_by_bucket(store, name="changes"):
    return [*Counter(bucket for bucket, _ in store.file_sizes(name)).values()]


def maintain(store, seq=RUNS, **limits):
    with store.exclusive():
        maintain_if_due(store, seq, Schedule(**limits))


def on_disk(store, name, pattern="bucket=*/*"):
    return [*Path(store.root, name).glob(pattern)]


def age(store):
    """Make every file two days old."""
    old = time.time() - TWO_DAYS_S
    for path in Path(store.root).rglob("*"):
        os.utime(path, (old, old))


def test_more_small_files_than_the_schedule_allows_are_merged(history):
    store = history._store
    records, changes = history.records(), history.status_over_time()

    def maintained(**limits):
        maintain(store, **limits)
        return files_by_bucket(store)

    assert maintained() == [RUNS]
    assert maintained(max_files=RUNS, files_per_bucket=1) == [RUNS]
    assert maintained(max_files=1, files_per_bucket=RUNS) == [RUNS]
    assert maintained(max_files=1, files_per_bucket=1) == [1]
    assert_frame_equal(history.records(), records)
    assert_frame_equal(history.status_over_time(), changes)
    assert not history.verify()


class SizedStore(Store):
    """A store of which only the sizes of the files of ``changes`` matter."""

    def __init__(self, path, sizes):
        super().__init__(path)
        self.sizes_of_changes = sizes

    def file_sizes(self, name):
        return self.sizes_of_changes if name == "changes" else []


@pytest.mark.parametrize(
    ("sizes", "below", "buckets"),
    [
        ([(1, FILE_BYTES)] * 100, None, None),
        ([(1, FILE_BYTES // 2)] * 100, None, None),  # no two of them fit
        ([(1, FILE_BYTES // 2 - 1)] * 40, None, None),
        ([(1, FILE_BYTES // 2 - 1)] * 41, FILE_BYTES, (1,)),
        ([(1, 100)] * 16, None, None),
        ([(1, 100)] * 17 + [(1, TIERS[0])] * 7, TIERS[0], (1,)),
        ([(1, 100)] * 17 + [(1, TIERS[0])] * 8, TIERS[1], (1,)),
        ([(1, 100)] * 9 + [(2, 100)] * 10 + [(3, 100)], TIERS[0], (2, 1)),
    ],
)
def test_files_are_merged_with_files_of_about_their_size(tmp_path, sizes, below, buckets):
    merges = merges_due(SizedStore(tmp_path, sizes), Schedule())
    assert [(merge.below, merge.buckets) for merge in merges] == ([] if below is None else [(below, buckets)])


def test_one_run_merges_a_limited_number_of_bytes(tmp_path):
    store = SizedStore(tmp_path, [(bucket, 1 << 20) for bucket in range(64) for _ in range(11)])
    [merge] = merges_due(store, Schedule())
    assert merge.size == 55 << 20
    assert len(merge.buckets) == 5
    [merge] = merges_due(store, Schedule(max_merged_bytes=1))
    assert len(merge.buckets) == 1


def test_larger_files_of_a_merge_count_to_its_bytes(tmp_path):
    sizes = [*[1 << 20] * 11, FILE_BYTES // 2, FILE_BYTES - 1, FILE_BYTES]
    store = SizedStore(tmp_path, [(bucket, size) for bucket in range(64) for size in sizes])
    [merge] = merges_due(store, Schedule())
    assert merge.size == 2 * ((11 << 20) + FILE_BYTES // 2 + FILE_BYTES - 1)
    assert len(merge.buckets) == 2


@pytest.mark.parametrize(("rows", "buckets"), [(0, {1, 2}), (2, {SHARED})])
def test_few_rows_are_written_to_one_file(served_exposure, tmp_path, rows, buckets):
    service, exposure = served_exposure
    service.people = {user: Person([a_record(10 + user)]) for user in (1, 2)}
    history = History(tmp_path / "history")
    history._store.shared_rows = rows
    history.collect(exposure)
    for name in ("changes", "records"):
        assert {bucket for bucket, _ in history._store.file_sizes(name)} == buckets
    assert history.records()["user_id"].tolist() == [1, 2]


@pytest.mark.parametrize(("rows", "buckets"), [(0, {1, 2}), (1, {SHARED})])
def test_a_small_checkpoint_is_one_file(history, rows, buckets):
    history._store.shared_rows = rows
    history.compact()
    assert {bucket for bucket, _ in history._store.file_sizes("checkpoint")} == buckets


def test_shared_files_have_a_limited_size(history, served_exposure, monkeypatch):
    _, exposure = served_exposure
    shared = dict(history._store.file_sizes("changes"))
    assert shared.keys() == {SHARED}
    monkeypatch.setattr("exposurekit.history.storage.delta.SHARED_BYTES", shared[SHARED])
    served_exposure[0].people |= {user: Person([a_record(10 + user, "removed")]) for user in (1, 2)}
    history.collect(exposure)
    assert {bucket for bucket, _ in history._store.file_sizes("changes")} == {SHARED, 1, 2}
    assert history.records()["status"].tolist() == ["removed", "removed"]
    assert not history.verify()


def test_the_log_says_what_was_merged(history, caplog):
    with caplog.at_level(logging.INFO, "exposurekit.history"):
        maintain(history._store)
        assert not caplog.messages
        maintain(history._store, max_files=1, files_per_bucket=1)
    [message] = caplog.messages
    assert re.fullmatch(r"history compacted: \d+ files merged, 0 deleted, in \d+\.\d s", message)


@pytest.mark.parametrize("damage", ["cut", "deleted"])
def test_a_damaged_file_does_not_stop_the_next_runs(history, served_exposure, monkeypatch, caplog, damage):
    _, exposure = served_exposure
    history.note(history.records(), "first")
    history.note(history.records(), "second")
    always = Schedule(max_files=1, files_per_bucket=1, vacuum_every=1)
    monkeypatch.setattr("exposurekit.history.maintenance.DEFAULT_SCHEDULE", always)
    damaged = on_disk(history._store, "annotations", "*.parquet")[0]
    if damage == "cut":
        os.truncate(damaged, 100)
    else:
        damaged.unlink()
    again = History(history.path, clock=Clock())
    for seq in (RUNS + 1, RUNS + 2):
        caplog.clear()
        assert again.collect(exposure).seq == seq
        assert not again.pending_runs()
        [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert warning.startswith(
            f"history not compacted after run {seq}: A file of this history cannot be read"
        )
        assert history.path not in caplog.text
    assert files_by_bucket(again._store) == [1]  # of other tables
    with pytest.raises(CorruptHistory):
        again.compact()


def test_a_write_raises_the_error_of_its_rows(history):
    def rows():
        yield history._store.rows("people")
        raise KeyboardInterrupt

    before = history.people()
    with history._store.exclusive(), pytest.raises(KeyboardInterrupt):
        history._store.append("people", rows(), overwrite=True)
    assert_frame_equal(history.people(), before)
    assert not history.verify()


def test_a_checkpoint_of_damaged_files_has_one_plain_error(history):
    os.truncate(on_disk(history._store, "changes")[0], 100)
    with pytest.raises(CorruptHistory) as refused:
        history.compact()
    assert refused.value.__suppress_context__


def test_files_that_nobody_needs_go_after_a_day(history):
    store = history._store
    orphan = Path(store.root, "changes", "bucket=-1", "part-of-a-killed-process.parquet")
    orphan.write_bytes(b"PAR1")
    live = sum(files_by_bucket(store))
    maintain(store, vacuum_every=1)
    assert len(on_disk(store, "changes")) == live + 1
    age(store)
    maintain(store, vacuum_every=1)
    assert len(on_disk(store, "changes")) == live
    assert not history.verify()


def test_open_histories_read_on_after_old_log_versions_go(history, served_exposure):
    _, exposure = served_exposure
    reader = History(history.path)
    rows = len(reader.runs())
    age(history._store)
    maintain(history._store, vacuum_every=1)
    assert not on_disk(history._store, "runs", "_delta_log/*00000.json")
    history.collect(exposure)
    assert len(reader.runs()) == len(History(history.path).runs()) == rows + 1
    assert not history.verify()


def test_without_auto_compact_runs_leave_all_files(history, served_exposure, monkeypatch):
    _, exposure = served_exposure
    always = Schedule(max_files=1, files_per_bucket=1, vacuum_every=1)
    monkeypatch.setattr("exposurekit.history.maintenance.DEFAULT_SCHEDULE", always)
    History(history.path, auto_compact=False).collect(exposure)
    assert files_by_bucket(history._store) == [RUNS]
    History(history.path).collect(exposure)
    assert files_by_bucket(history._store) == [1]
