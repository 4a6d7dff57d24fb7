"""A history of the first format is upgraded in place when it is opened, wherever an earlier upgrade was killed."""

import fcntl
import json
import tarfile
from pathlib import Path

import pytest
from crash.collector_scenes import BEFORE, Canned
from deltalake import DeltaTable

from exposurekit import errors
from exposurekit.history import History, HistoryLocked
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.upgrade import upgrade

# Written by the last version of format 1: four runs, a failed user, one who left and one who came, deliveries, labels,
# ticks, notes, and a run whose second shard is missing.
OLD = Path(__file__).parent.parent / "support" / "data" / "history_format_1.tar.gz"
PEOPLE = {
    "whole_at": "last_complete_at",
    "looked_until": "observed_until",
    "known_from": "first_registered_after",
}
RUNS = {"came_into_view": "entered_scope", "out_of_view": "left_scope"}
TABLES = {"exceptions": "load_issues", "marks": "annotations"}
STEPS = 5  # two tables with columns, two tables, and the format


@pytest.fixture
def directory(tmp_path):
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "history_format_1"


def contents(directory):
    """Every table, as rows in any order, under the names of today."""
    tables = {}
    for path in sorted(directory.glob("*/_delta_log")):
        rows = DeltaTable(path.parent).to_pyarrow_table()
        columns = {"people": PEOPLE, "runs": RUNS}.get(path.parent.name, {})
        rows = rows.rename_columns([columns.get(name, name) for name in rows.column_names])
        name = TABLES.get(path.parent.name, path.parent.name)
        tables[name] = sorted(map(repr, rows.select(sorted(rows.column_names)).to_pylist()))
    return tables


def about(directory):
    return json.loads((directory / "history.json").read_text())


class Dying(Store):
    """A store whose process ends before it does a step of the upgrade, or just after."""

    def __init__(self, path, number, *, after):
        super().__init__(path)
        self.left, self.after = number, after
        self.settings(records_by=None, otherwise="id")

    def step(self, work, *arguments):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise KeyboardInterrupt
        work(*arguments)
        if self.left == 0:
            raise KeyboardInterrupt

    def rename_columns(self, *arguments):
        self.step(super().rename_columns, *arguments)

    def rename_table(self, *arguments):
        self.step(super().rename_table, *arguments)

    def note_format(self):
        self.step(super().note_format)


def test_an_upgraded_history_has_the_same_rows_under_new_names(directory):
    before = contents(directory)
    with History(directory) as history:
        assert contents(directory) == before
        assert {"load_issues", "annotations"} < set(before)
        assert not any((directory / name).exists() for name in TABLES)
        assert about(directory) == {"records_by": "id", "format": 2}
        assert history.verify() == {}
        people = history.people().set_index("user_id")
        assert people.loc[3, "last_complete_at"] < people.loc[3, "observed_until"]
        assert people["first_registered_after"].notna().tolist() == [False, False, False, True]
        assert history.runs()["entered_scope"].tolist() == [6, 0, 0, 0, 0, 0]
        assert history.runs()["left_scope"].tolist() == [0, 0, 2, 0, 0, 0]
        assert history.load_issues()["what"].tolist().count("registered") == 4
        assert history.links()["presence"].tolist() == ["listed", "listed", "listed", "unknown", "listed"]
        assert history.relistings()["previous_status"].tolist() == ["removed"]
        assert history.labels()["value"].tolist() == ["not mine"]
        assert history.ticks()["value"].tolist() == ["done", "done"]
        assert history.notes()["note"].tolist() == ["asked by phone"]


def test_an_upgraded_history_collects_and_finalizes(directory):
    with History(directory) as history:
        [pending] = history.pending_runs()
        assert history.finalize(pending.run).seq == 7
        assert history.collect(Canned(BEFORE), run="next", progress=False).seq == 8
        history.label(history.records().iloc[0], "mine")
        assert history.labels()["value"].tolist() == ["mine"]
        assert history.verify() == {}


def test_an_upgraded_history_leaves_nothing_of_an_erased_person(directory):
    with History(directory) as history:
        assert history.erase(1) > 0
    for path in directory.glob("*/_delta_log"):
        table = DeltaTable(path.parent)
        if "user_id" in table.schema().to_arrow().names if hasattr(table.schema(), "to_arrow") else ():
            assert 1 not in table.to_pyarrow_table()["user_id"].to_pylist()
        files = {Path(uri).name for uri in table.file_uris()}
        assert {
            file.name for file in path.parent.rglob("*.parquet") if "_delta_log" not in str(file)
        } == files


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, STEPS + 1))
def test_a_killed_upgrade_is_completed_at_the_next_opening(directory, number, after):
    before = contents(directory)
    with pytest.raises(KeyboardInterrupt):
        upgrade(Dying(directory, number, after=after))
    with History(directory) as history:
        assert (about(directory)["format"], history.verify()) == (2, {})
    assert contents(directory) == before


def test_a_current_history_is_left_alone(directory):
    History(directory).close()
    versions = {path: DeltaTable(path.parent).version() for path in directory.glob("*/_delta_log")}
    History(directory).close()
    assert versions == {path: DeltaTable(path.parent).version() for path in directory.glob("*/_delta_log")}


def test_a_new_history_has_the_current_format(tmp_path):
    with History(tmp_path / "history") as history:
        history.collect(Canned(BEFORE), progress=False)
    assert about(tmp_path / "history") == {"records_by": "id", "format": 2}


def test_a_history_of_a_newer_version_is_refused(directory):
    (directory / "history.json").write_text('{"records_by": "id", "format": 3}')
    with pytest.raises(errors.ConfigurationError, match=r"format 3\): update exposurekit"):
        History(directory)


def test_a_running_watch_is_not_upgraded_under_its_feet(directory):
    before = contents(directory)
    with (directory / ".watch.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(HistoryLocked, match="stop the watch"):
            History(directory)
    assert (contents(directory), about(directory)) == (before, {"records_by": "id"})
