"""`History.verify` finds damaged files, and no query silently reads from them."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.damage import build_history, damages
from support.shell import Shell, error_of, read_only, run_unprivileged

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
UNREADABLE = "the files of {} are there and can be read"


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
    cut(data_file(copy, table))
    history = History(copy)
    assert history.verify() == {UNREADABLE.format(table): 1}
    with pytest.raises(ExposureError, match="exposurekit history verify") as error:
        getattr(history, READS[table])()
    assert str(copy) not in str(error.value)


def test_the_command_names_the_violation_and_exits_with_1(copy, tmp_path):
    data_file(copy, "records").unlink()
    run = Shell(tmp_path, EXPOSUREKIT_HISTORY="history").here("history", "verify")
    assert run.returncode == 1
    assert error_of(run).startswith("Damaged: a file of the table records is missing or cannot be read.")


def test_the_command_names_the_table_of_a_changed_file(copy, tmp_path):
    file = data_file(copy, "annotations")
    file.write_bytes(b"x" + file.read_bytes()[1:-1] + b"x")
    run = Shell(tmp_path, EXPOSUREKIT_HISTORY="history").here("history", "verify")
    assert run.returncode == 1
    assert "Damaged: " in run.stderr
    assert " of the table annotations " in run.stderr


@pytest.mark.long
@pytest.mark.parametrize("table", ["records", "people", "changes", "runs", "deliveries"])
def test_a_lost_version_of_a_table_is_a_violation(copy, table):
    """The newest file of the log is deleted: the table is readable, and lacks its last rows."""
    max((copy / table / "_delta_log").glob("*.json")).unlink()
    assert History(copy).verify()
    shutil.rmtree(copy / "checksums")  # a history of an older version has none
    assert History(copy).verify()


def test_a_flipped_bit_in_a_readable_file_is_a_violation(copy):
    file = data_file(copy, "annotations")
    data = bytearray(file.read_bytes())
    data[4] ^= 1
    file.write_bytes(bytes(data))
    assert any("annotations" in invariant for invariant in History(copy).verify())


def test_violations_of_other_tables_are_listed_too(copy):
    cut(data_file(copy, "records"))
    history = History(copy)
    history._store.append("cube", history._store.rows("cube"))
    assert {UNREADABLE.format("records"), "the sums agree with the changes"} <= {*history.verify()}


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
    cut(data_file(copy, "people"))
    before = sorted(copy.rglob("*"))
    with read_only(copy, *before):
        run = run_unprivileged(VERIFY_AND_COMPACT, copy)
    damaged, error = run.stdout.splitlines()
    assert damaged == str({UNREADABLE.format("people"): 1})
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
