"""A history of an older format is upgraded in place when it is opened, wherever an earlier upgrade was killed."""

import contextlib
import fcntl
import json
import shutil
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from crash.collector_scenes import BEFORE, Canned
from deltalake import DeltaTable
from support.shell import read_only, run_unprivileged

from exposurekit import errors
from exposurekit.history import History, HistoryLocked
from exposurekit.history.storage.delta import Store
from exposurekit.history.storage.schema import SHARED
from exposurekit.history.storage.upgrade import upgrade

# Written by the last versions of formats 1 and 2: runs, failed users, some who left and some who came, deliveries and
# annotations, a run whose second shard is missing; in format 2 also deliveries that are staged and not ingested.
DATA = Path(__file__).parent.parent / "support" / "data"
COLUMNS = {
    "whole_at": "last_complete_at",
    "looked_until": "observed_until",
    "known_from": "first_registered_after",
    "came_into_view": "entered_scope",
    "out_of_view": "left_scope",
}
TABLES = {"exceptions": "load_issues", "marks": "annotations"}
VALUES = {"look": "collect", "told": "reported"}


@pytest.fixture
def stored(tmp_path):
    """Extract a stored history."""

    def extract(name):
        with tarfile.open(DATA / f"{name}.tar.gz") as archive:
            archive.extractall(tmp_path, filter="data")
        return tmp_path / name

    return extract


@pytest.fixture
def directory(stored):
    return stored("history_format_1")


def contents(directory):
    """Every table, as rows in any order, with the names of today."""
    tables = {}
    for path in sorted(directory.glob("*/_delta_log")):
        rows = DeltaTable(path.parent).to_pyarrow_table().to_pylist()
        renamed = [{COLUMNS.get(name, name): value for name, value in row.items()} for row in rows]
        for row in renamed:
            row |= {name: VALUES.get(row[name], row[name]) for name in ("origin", "outcome") if name in row}
        table = TABLES.get(path.parent.name, path.parent.name)
        tables[table] = sorted(repr(sorted(row.items())) for row in renamed)
    return tables


def manifest(directory):
    return json.loads((directory / "history.json").read_text())


class Dying(Store):
    """A store whose process ends before it does a step of the upgrade."""

    def __init__(self, path, number):
        super().__init__(path)
        self.left = number
        self.settings(records_by=None, otherwise="id")

    def step(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def rename_columns(self, *arguments):
        self.step()
        super().rename_columns(*arguments)

    def rename_table(self, *arguments):
        self.step()
        super().rename_table(*arguments)

    def append(self, *arguments, **options):
        self.step()
        super().append(*arguments, **options)

    @contextlib.contextmanager
    def atomic_write(self, path):
        with super().atomic_write(path) as stream:
            yield stream
            self.step()


def test_an_upgraded_history_has_the_same_rows_under_new_names(directory):
    before = contents(directory)
    with History(directory) as history:
        assert contents(directory) == before
        assert {"load_issues", "annotations"} < set(before)
        assert not any((directory / name).exists() for name in TABLES)
        assert manifest(directory) == {"records_by": "id", "format": 4}
        assert history.verify() == {}
        people = history.people().set_index("user_id")
        assert people.loc[3, "last_complete_at"] < people.loc[3, "observed_until"]
        assert people["first_registered_after"].notna().tolist() == [False, False, False, True]
        assert set(history.runs()["origin"]) == {"collect", "webhook"}
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


@pytest.mark.long  # processes are killed
@pytest.mark.parametrize("name", ["history_format_1", "history_format_2"])
def test_a_killed_upgrade_is_completed_at_the_next_opening(stored, tmp_path, name):
    original = stored(name)
    before, killed = contents(original), 0
    for number in range(1, 50):
        directory = shutil.copytree(original, tmp_path / f"killed-{number}")
        try:
            upgrade(Dying(directory, number))
            break
        except KeyboardInterrupt:
            killed += 1
        upgrade(Dying(directory, 0))
        assert manifest(directory)["format"] == 4
        assert (contents(directory), staged(directory)) == (before, staged_after(original))
    with History(directory) as history:
        assert history.verify() == {}
    assert 8 <= killed < 49  # tables, their columns and values, staged files, and the format


def staged(directory):
    """The origins and outcomes of staged runs."""
    plans = [json.loads(path.read_text())["origin"] for path in sorted(directory.glob("staging/*/began-*"))]
    people = [
        pq.read_table(path)["outcome"].to_pylist() for path in sorted(directory.glob("staging/*/person-*"))
    ]
    return plans, people


def staged_after(directory):
    plans, people = staged(directory)
    return (
        [VALUES.get(origin, origin) for origin in plans],
        [[VALUES.get(outcome, outcome) for outcome in part] for part in people],
    )


def test_staged_runs_of_format_2_are_ingested_with_new_words(stored):
    directory = stored("history_format_2")
    before = contents(directory)
    assert staged(directory) == (["webhook", "look"], [["told"], ["whole"] * 3])
    with History(directory) as history:
        assert contents(directory) == before
        assert history.people()["outcome"].tolist() == [
            *["whole"] * 4,
            "partial",
            "absent",
            "whole",
            "reported",
        ]
        assert history.runs()["origin"].tolist() == ["collect", "collect", "collect", "webhook"]
        assert history.labels()["value"].tolist() == ["not mine"]
        assert staged(directory) == (["webhook", "collect"], [["reported"], ["whole"] * 3])
        for pending in history.pending_runs():
            history.finalize(pending.run)
        assert history.runs()["origin"].tolist()[4:] == ["collect", "webhook"]
        outcomes = history.people().set_index("user_id")["outcome"]
        assert (outcomes[9], outcomes[10]) == ("missed", "reported")  # the second shard is missing
        assert history.verify() == {}
    assert not {"look", "told"} & {value for row in contents_values(directory) for value in row}


def contents_values(directory):
    for name in ("runs", "people", "load_issues"):
        yield from (row.values() for row in DeltaTable(directory / name).to_pyarrow_table().to_pylist())


def test_a_current_history_is_not_upgraded(directory):
    History(directory).close()
    versions = {path: DeltaTable(path.parent).version() for path in directory.glob("*/_delta_log")}
    History(directory).close()
    assert versions == {path: DeltaTable(path.parent).version() for path in directory.glob("*/_delta_log")}


@pytest.fixture(scope="module")
def collected_format_3(tmp_path_factory):
    """A history as versions before format 4 collected it, and its changes."""
    directory = tmp_path_factory.mktemp("format_3") / "history"
    with History(directory) as history:
        history._store.shared_rows = 0
        history.collect(Canned(BEFORE), progress=False)
        (directory / "history.json").write_text('{"records_by": "id", "format": 3}')
        return directory, history.changes()


@pytest.fixture
def format_3(collected_format_3, tmp_path):
    directory, rows = collected_format_3
    return shutil.copytree(directory, tmp_path / "history"), rows


def shares_files(directory):
    with History(directory) as history:
        buckets = {bucket for bucket, _ in history._store.file_sizes("changes")}
        assert manifest(directory)["format"] == (4 if SHARED in buckets else 3)
        return SHARED in buckets


@pytest.mark.parametrize("lock", ["watch", "collect-00000000000000ab"])
def test_a_run_leaves_format_3_to_other_running_processes(format_3, lock):
    """They may be of an older version, which would miss rows in shared files."""
    directory, rows = format_3
    with Store(directory).locked(lock), History(directory) as history:
        assert history.changes().equals(rows)
        for _ in range(2):
            history.collect(Canned({}), progress=False)
        assert len(history.changes()) > len(rows)
    assert not shares_files(directory)
    with History(directory) as history:
        history.collect(Canned(BEFORE), progress=False)
        assert history.changes().head(len(rows)).equals(rows)
        assert not history.verify()
    assert shares_files(directory)


def test_only_a_run_makes_format_4_of_format_3(format_3):
    directory, rows = format_3
    with History(directory) as history:
        assert history.changes().equals(rows)
        history.note(history.records(), "no run")
        history.compact()
        assert not history.verify()
        assert not shares_files(directory)
        with history.lock("watch"):  # a watch of this version
            for _ in range(2):
                history.collect(Canned({}), progress=False)
        assert shares_files(directory)


def test_a_history_of_a_newer_version_is_refused(directory):
    (directory / "history.json").write_text('{"records_by": "id", "format": 5}')
    with pytest.raises(errors.ConfigurationError, match=r"format 5\): update exposurekit"):
        History(directory)


@pytest.mark.parametrize("protected", ["", ".watch.lock"], ids=["directory", "locks"])
def test_a_read_only_copy_has_an_error_with_advice(directory, protected):
    (directory / ".watch.lock").touch()
    before = contents(directory)
    with read_only(directory / protected):
        run = run_unprivileged(
            "import sys; from exposurekit.history import History; History(sys.argv[1])", directory
        )
    assert run.stderr.endswith("copy it to a writable place, then open it\n")
    assert (contents(directory), manifest(directory)) == (before, {"records_by": "id"})


@pytest.mark.parametrize("lock", ["watch", "collect-unnamed"])
def test_a_history_in_use_is_not_upgraded(directory, lock):
    before = contents(directory)
    with (directory / f".{lock}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(HistoryLocked, match="a watch or a collection is running on it: stop it"):
            History(directory)
    assert (contents(directory), manifest(directory)) == (before, {"records_by": "id"})
