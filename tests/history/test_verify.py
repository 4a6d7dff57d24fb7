"""`History.verify` finds damaged files, and no query silently reads from them."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.damage import build_history, damages
from support.shell import Shell, read_only, run_unprivileged

from exposurekit.errors import ExposureError
from exposurekit.history import History

READS = {
    "runs": "runs",
    "changes": "records",
    "records": "records",
    "links": "links",
    "people": "people",
    "cube": "by_site",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole") / "history"
    build_history(directory)
    return directory


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "history")


def data_file(directory, table):
    return Path(DeltaTable(directory / table).file_uris()[0])


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.long
@pytest.mark.parametrize("table", READS)
def test_an_unreadable_file_is_a_violation_and_an_error(copy, table):
    file = data_file(copy, table)
    cut(file)
    history = History(copy)
    assert history.verify() == {f"{file.relative_to(copy)} cannot be read": 1}
    with pytest.raises(ExposureError, match="exposurekit history verify") as error:
        getattr(history, READS[table])()
    assert str(copy) not in str(error.value)


def test_the_command_names_the_violation_and_exits_with_1(copy, tmp_path):
    missing, unreadable = data_file(copy, "records"), data_file(copy, "annotations")
    missing.unlink()
    cut(unreadable)
    run = Shell(tmp_path, EXPOSUREKIT_HISTORY="history").here("history", "verify")
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        f"Damaged: {missing.relative_to(copy)} is missing.",
        f"Damaged: {unreadable.relative_to(copy)} cannot be read.",
        "Put the files that are named back from a copy, or restore the whole history from one.",
    ]


def test_an_unreadable_file_without_checksums_is_named(copy):
    """A history of an older version has none."""
    shutil.rmtree(copy / "checksums")
    file = data_file(copy, "people")
    cut(file)
    assert History(copy).verify() == {f"{file.relative_to(copy)} cannot be read": 1}


@pytest.mark.long
@pytest.mark.parametrize("table", ["records", "people", "changes", "runs", "deliveries"])
def test_a_lost_version_of_a_table_is_a_violation(copy, table):
    """The newest file of the log is deleted: the table is readable, and lacks its last rows."""
    lost = max((copy / table / "_delta_log").glob("*.json"))
    lost.unlink()
    assert f"{lost.relative_to(copy)} is missing" in History(copy).verify()
    shutil.rmtree(copy / "checksums")  # a history of an older version has none
    assert History(copy).verify()


def test_a_flipped_bit_in_a_readable_file_is_a_violation(copy):
    file = data_file(copy, "annotations")
    data = bytearray(file.read_bytes())
    data[data.index(b"parquet-rs")] ^= 1  # the name of the writer
    file.write_bytes(bytes(data))
    assert History(copy).verify() == {f"{file.relative_to(copy)} was changed after it was written": 1}


@pytest.mark.parametrize("file", [f"records/_delta_log/{0:020}.json", "checksums/records.json"])
def test_a_damaged_log_or_list_of_checksums_is_named(copy, file):
    (copy / file).write_text("{")
    assert f"{file} was changed after it was written" in History(copy).verify()


def test_violations_of_other_tables_are_listed_too(copy):
    file = data_file(copy, "records")
    cut(file)
    history = History(copy)
    history._store.append("cube", history._store.rows("cube"))
    damage = {f"{file.relative_to(copy)} cannot be read", "the sums differ from the changes"}
    assert {*history.verify()} == damage


VERIFY_AND_COMPACT = """
import sys
from exposurekit.errors import ConfigurationError
from exposurekit.history import History
history = History(sys.argv[1])
print(history.verify())
try:
    history.compact()
except ConfigurationError as error:
    print(error)
"""


def test_a_read_only_copy_is_verified_without_a_write(copy):
    file = data_file(copy, "people")
    cut(file)
    before = sorted(copy.rglob("*"))
    with read_only(copy, *before):
        run = run_unprivileged(VERIFY_AND_COMPACT, copy)
    damaged, error = run.stdout.splitlines()
    assert damaged == str({f"{file.relative_to(copy)} cannot be read": 1})
    assert "cannot be read or written there: Permission denied" in error
    assert sorted(copy.rglob("*")) == before


def test_a_copy_with_read_only_locks_is_verified(copy):
    """Another user's files in one's own directory."""
    before = sorted(copy.rglob("*"))
    with read_only(*copy.rglob("*.lock")):
        run = run_unprivileged(VERIFY_AND_COMPACT, copy)
    intact, error = run.stdout.splitlines()
    assert intact == "{}"
    assert "cannot be read or written there: Permission denied" in error
    assert sorted(copy.rglob("*")) == before


def test_no_damage_is_undetected_and_changes_a_result(whole):
    """Six damages, one of each kind; `python tests/support/damage.py` does four hundred."""
    table = damages(whole, 6, 0)
    assert len(table) >= 5
    assert not table.loc[~table["detected"], "wrong"].astype("bool").any()
