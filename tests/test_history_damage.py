"""A file that was emptied, cut or spoiled: among the broken promises, and told to whoever reads it."""

import shutil
from pathlib import Path

import pytest
from cli_kit import Shell, error_of
from deltalake import DeltaTable
from history_kit import Clock, Person, Service, a_link, a_record, an_alert, seen_through

from exposurekit.errors import ExposureError
from exposurekit.history import History

SPOILED = {
    "emptied": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "another": lambda _: b"no table at all, but long enough for one",
    "garbled": lambda data: data[:4] + bytes(one ^ 0x5A for one in data[4:60]) + data[60:],
}
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
    record = a_record(11)
    person = Person([record], [a_link("https://page.example/1")], [an_alert("Look", record)])
    with seen_through(Service({1: person})) as exposure, History(directory, clock=Clock()) as history:
        history.collect(exposure)
    return directory


def spoil(directory, table, how):
    file = Path(DeltaTable(directory / table).file_uris()[0])
    file.write_bytes(SPOILED[how](file.read_bytes()))


@pytest.mark.parametrize(
    ("table", "how"),
    [*((table, "cut") for table in READS), *(("records", how) for how in SPOILED if how != "cut")],
)
def test_a_file_that_is_spoiled_is_a_broken_promise_and_who_reads_it_is_told(whole, tmp_path, table, how):
    directory = shutil.copytree(whole, tmp_path / "history")
    spoil(directory, table, how)
    history = History(directory)
    assert history.verify() == {f"the files of {table} are there and can be read": 1}
    with pytest.raises(ExposureError, match="exposurekit history verify") as error:
        getattr(history, READS[table])()
    assert str(tmp_path) not in str(error.value)
    shell = Shell(tmp_path, EXPOSUREKIT_HISTORY="history")
    run = shell.here("history", "verify")
    assert run.returncode == 1
    assert error_of(run) == f"Violated: the files of {table} are there and can be read (1 row)"


def test_a_log_that_is_cut_is_told_too(whole, tmp_path):
    directory = shutil.copytree(whole, tmp_path / "history")
    log = directory / "records" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text()[:40])
    assert "the files of records are there and can be read" in History(directory).verify()
    with pytest.raises(ExposureError, match="exposurekit history verify"):
        History(directory).records()


def test_a_file_that_is_gone_is_told_to_who_reads_it(whole, tmp_path):
    directory = shutil.copytree(whole, tmp_path / "history")
    Path(DeltaTable(directory / "records").file_uris()[0]).unlink()
    history = History(directory)
    assert history.verify() == {"the files of records are there and can be read": 1}
    with pytest.raises(ExposureError, match="exposurekit history verify"):
        history.records()


def test_what_else_is_broken_is_found_beside_it(whole, tmp_path):
    directory = shutil.copytree(whole, tmp_path / "history")
    spoil(directory, "records", "cut")
    history = History(directory)
    history._store.append("cube", history._store.rows("cube"))
    assert set(history.verify()) == {
        "the files of records are there and can be read",
        "the sums agree with the changes",
    }
