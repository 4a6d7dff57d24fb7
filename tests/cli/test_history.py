"""The history commands: collect, show, and maintenance."""

import json
import re
import shutil
import signal
import threading
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support import faults, ticked
from support.clients import many
from support.histories import Person, Service, a_record, an_alert, seen_through
from support.ports import free_port
from support.shell import TIMEOUT_S, Shell, connection, error_of
from support.watches import KEY, SECRET

import exposurekit as ek
from exposurekit.history import History
from exposurekit.monitor.webhooks.ingest import process_inbox
from exposurekit.monitor.webhooks.store import InboxStore

pytestmark = pytest.mark.long  # processes of their own

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "Peep\x1b[31m\u202eFinder\r\n2  look"


class Fleet:
    """A service of twenty people that records which were requested; those past ten may get no response."""

    def __init__(self):
        self.user_ids = []
        self.is_slow = False
        self.broken = set()
        self.eight_wait = threading.Event()  # the number of parallel requests
        self._answer = many(range(1, 21), self._meddle)

    def __call__(self, request):
        return self._answer(request)

    def _meddle(self, request, user_id):
        if request.operation != "get_user":
            return None
        self.user_ids.append(user_id)
        if user_id in self.broken:
            return faults.server_error()
        if not self.is_slow or user_id <= 10:
            return None
        if sum(one > 10 for one in self.user_ids) == 8:
            self.eight_wait.set()
        return faults.BlackHole()


def shell_of(directory, base_url):
    return Shell(directory, **connection(base_url, "acme", KEY, SECRET))


@pytest.fixture
def fleet():
    return Fleet()


@pytest.fixture
def shell(fleet, tmp_path):
    with faults.running(fleet) as server:
        yield shell_of(tmp_path, server.base_url)


@pytest.fixture(scope="module")
def collected_history(tmp_path_factory):
    """Two runs and a staged one, of two people, at a site with a hostile name."""
    directory = tmp_path_factory.mktemp("collected") / "history"
    service = Service({number: Person([a_record(10 * number, site=HOSTILE)]) for number in (1, 2)})
    with seen_through(service) as exposure, History(directory) as history:
        history.collect(exposure, run="sunday")
        service.people[1].records[0]["status"] = "removed"
        history.collect(exposure, run="monday")
        history.collect(exposure, run="tuesday", shard="1/2")
    return directory


@pytest.fixture
def copy(collected_history, tmp_path):
    shutil.copytree(collected_history, tmp_path / "history")
    return Shell(tmp_path, EXPOSUREKIT_HISTORY="history")


def is_silent_about(shell, *runs):
    for run in runs:
        for secret in (KEY, SECRET, "secret-", shell.environment["EXPOSUREKIT_BASE_URL"].split("//")[1]):
            assert secret not in run.stdout + run.stderr


def test_collect_prints_one_line_and_a_repeated_run_adds_nothing(shell, fleet):
    first = shell("collect", "--history", "history", "--run", "monday")
    assert (first.returncode, first.stderr) == (0, "")
    assert re.fullmatch(
        r"run monday: 20 people loaded in full, 20 registered, 20 open listings were there at the first load, "
        r"in \d+(\.\d)? (s|min \d+ s)\n",
        first.stdout,
    )
    fleet.user_ids.clear()
    again = shell.here("collect", "--history", "history", "--run", "monday", "--json")
    summary = json.loads(again.stdout)
    figures = [summary[name] for name in ("run", "seq", "whole", "waits_for")]
    assert (again.returncode, figures) == (0, ["monday", 1, 20, []])
    assert fleet.user_ids == []
    assert summary["was_there"] is True
    prose = shell.here("collect", "--history", "history", "--run", "monday").stdout
    assert prose == first.stdout.replace("\n", " (it was there already; nothing was added)\n")
    runs = shell.here("history", "runs", "--history", "history", "--json")
    assert [row["run"] for row in json.loads(runs.stdout)] == ["monday"]
    is_silent_about(shell, first, again, runs)


def test_a_moved_service_is_named_once(shell, fleet):
    words = ("collect", "--history", "history")
    assert shell.here(*words).returncode == 0
    shell.environment["EXPOSUREKIT_INTEGRATION_NAME"] = "other"
    fleet.user_ids.clear()
    for refused in (shell.here(*words), shell("watch", "run", "--history", "history")):
        assert refused.returncode == 1
        assert "was collected from another service or integrator" in error_of(refused)
        assert "run exposurekit collect --moved once" in error_of(refused)
    assert fleet.user_ids == []
    assert shell.here(*words, "--moved").returncode == 0
    assert shell.here(*words).returncode == 0
    runs = json.loads(shell.here("history", "runs", "--history", "history", "--json").stdout)
    assert len(runs) == 3


def test_a_run_that_cannot_list_people_is_not_stored(tmp_path):
    port = free_port()
    shell = shell_of(tmp_path, f"http://127.0.0.1:{port}")
    run = shell.here("collect", "--history", "history", "--run", "monday")
    assert run.returncode == 1
    runs = shell.here("history", "runs", "--history", "history")
    assert (runs.returncode, runs.stdout) == (1, "")
    assert error_of(runs).startswith("Error: There is no history in history: exposurekit collect")
    assert not (tmp_path / "history").exists()


def test_the_last_shard_completes_a_run(shell, fleet):
    words = ("collect", "--history", "history", "--run", "monday", "--shard")
    first = shell.here(*words, "1/2")
    assert first.stdout == "run monday: staged, waits for shard 2\n"
    assert fleet.user_ids
    assert not [user_id for user_id in fleet.user_ids if user_id % 2]
    waiting = shell.here("history", "runs", "--history", "history")
    assert (waiting.returncode, waiting.stdout) == (0, "")
    assert "run monday: staged, waits for shard 2\n" in waiting.stderr
    last = shell.here(*words, "2/2")
    assert last.stdout.startswith("run monday: 20 people loaded in full")
    assert sorted(fleet.user_ids) == list(range(1, 21))
    is_silent_about(shell, first, waiting, last)
    nameless = error_of(shell.here("collect", "--shard", "1/2"))
    assert nameless.endswith("--shard needs a run with a name: add --run NAME")


def test_people_who_fail_to_load_are_reported_with_the_reason(shell, fleet):
    words = ("collect", "--history", "history")
    fleet.broken = {3, 4}
    run = shell.here(*words)
    assert run.returncode == 0
    advice = "exposurekit history issues --history DIR lists them, and why\n"
    assert f"2 people were not loaded completely. {advice}" in run.stderr
    assert shell.here(*words, "--fail-on-errors").returncode == 3
    listed = json.loads(shell.here("history", "issues", "--history", "history", "--json").stdout)
    assert [(row["user_id"], row["what"], row["status"]) for row in listed] == [
        (3, "failed", 500),
        (4, "failed", 500),
    ]
    fleet.broken = set()
    assert shell.here(*words, "--fail-on-errors").returncode == 0
    issues = ("history", "issues", "--history", "history")
    with History(shell.directory / "history") as history:
        name = history.last_run().run
    assert shell.here(*issues).stderr == f"Everyone was loaded completely in run {name}.\n"
    assert shell.here(*words, "--user", "3").returncode == 0
    assert shell.here(*issues).stderr.startswith("Each of the chosen people was loaded completely in run ")
    is_silent_about(shell, run)


def test_issues_need_a_collected_run(shell):
    with (
        History(shell.directory / "history") as history,
        closing(InboxStore(shell.directory / "inbox.db")) as inbox,
    ):
        inbox.put("msg_1", b'{"user_id": 2, "events": []}')
        process_inbox(inbox, history)
        assert history.runs()["origin"].tolist() == ["webhook"]
    run = shell.here("history", "issues", "--history", "history")
    assert run.returncode == 1
    assert "Nobody was loaded yet" in error_of(run)


def test_a_second_collection_at_once_names_the_history(shell):
    with History(shell.directory / "history") as history, history._store.locked("collect-unnamed"):
        run = shell.here("collect", "--history", "history")
    assert run.returncode == 1
    assert error_of(run) == "Error: Another process is collecting into history: wait until it ends"


def test_a_user_who_is_not_registered_is_reported(shell):
    words = ("collect", "--history", "history", "--user")
    nobody = shell.here(*words, "999")
    assert (nobody.returncode, nobody.stderr) == (1, "999 is not registered\n")
    some = shell.here(*words, "998", "--user", "3", "--json")
    assert (some.returncode, some.stderr) == (0, "998 is not registered\n")
    assert json.loads(some.stdout)["not_registered"] == [998]
    assert shell.here(*words, "3").stderr == ""


@pytest.mark.parametrize(
    "path", ["s3://AKIA:sekret@bucket/x", "http://user:sekret@host.example/x", "file", "/proc/x"]
)
@pytest.mark.parametrize(
    "words",
    [("collect",), ("history", "runs"), ("history", "erase", "1"), ("watch", "run"), ("inbox", "run")],
)
def test_an_invalid_path_is_reported_without_repeating_it(shell, words, path):
    (shell.directory / "file").touch()
    run = shell.here(*words, "--history", path)
    assert run.returncode == 1
    assert "sekret" not in error_of(run)


def test_a_history_keeps_its_record_identity(shell):
    first = shell.here("collect", "--history", "history", "--record-key", "reference")
    assert first.returncode == 0
    again = shell.here("collect", "--history", "history")
    assert "20 people loaded in full" in again.stdout
    for command in (("collect",), ("watch", "run")):
        run = shell.here(*command, "--history", "history", "--record-key", "id")
        assert run.returncode == 1
        assert "reference" in error_of(run)
    with History(shell.directory / "history", records_by="reference") as history:
        assert len(history.runs()) == 2
    plain = shell.here("collect", "--history", "plain")
    assert plain.returncode == 0
    with History(shell.directory / "plain", records_by="id") as history:
        assert len(history.runs()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_collection_is_resumed_by_the_next(shell, fleet, number):
    fleet.is_slow = True
    with shell.started("collect", "--history", "history") as process:
        assert fleet.eight_wait.wait(TIMEOUT_S)
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    messages = ["What was loaded is kept, and the next collect continues from there.", "Stopped."]
    assert (out, err.split("\n\n")) == ("", [messages[0], f"{messages[1]}\n"])
    [line] = shell.here("history", "runs", "--history", "history").stderr.splitlines()[1:]
    assert line.endswith(": interrupted; the next collect continues from there")
    fleet.is_slow = False
    fleet.user_ids.clear()
    rest = shell.here("collect", "--history", "history")
    assert sorted(fleet.user_ids) == list(range(11, 21))
    assert "20 people loaded in full" in rest.stdout
    verified = shell.here("history", "verify", "--history", "history")
    assert verified.stdout == "ok: the history is not damaged.\n"
    is_silent_about(shell, rest)


@pytest.mark.parametrize(
    ("words", "missing", "error"),
    [
        (["collect"], "BASE_URL", "EXPOSUREKIT_BASE_URL"),
        (["watch", "run"], "API_KEY", "EXPOSUREKIT_API_KEY"),
        (["collect"], None, "Error: List users"),
    ],
)
def test_a_missing_connection_or_service_is_a_one_line_error(tmp_path, words, missing, error):
    shell = shell_of(tmp_path, "http://127.0.0.1:9")
    if missing:
        shell.environment[f"EXPOSUREKIT_{missing}"] = ""
    run = shell.here(*words, "--history", "history")
    assert (run.returncode, run.stdout) == (1, "")
    assert error in error_of(run)
    assert missing is None or list(tmp_path.iterdir()) == []
    is_silent_about(shell_of(tmp_path, "http://127.0.0.1:9"), run)


def test_runs_and_statuses_are_printed_in_columns_and_as_json(copy):
    prose = copy.here("history", "runs")
    assert prose.stdout.splitlines()[0].split()[:5] == ["seq", "run", "origin", "finished", "at"]
    assert len(prose.stdout.splitlines()) == 3
    assert prose.stderr == "run tuesday: staged, waits for shard 2\n"
    rows = json.loads(copy.here("history", "runs", "--json").stdout)
    runs = [(row["run"], row["whole"], row["removed"]) for row in rows]
    assert runs == [("sunday", 2, 0), ("monday", 2, 1)]
    head, first, last = copy.here("history", "show", "--every", "run").stdout.splitlines()
    assert head.split()[:2] == ["period", "at"]
    assert first.split()[2:6] == ["2", "2", "0", "0"]
    assert last.split()[2:6] == ["1", "1", "0", "1"]
    [row] = json.loads(copy.here("history", "show", "--group-by", "user_id", "--json").stdout)[:1]
    assert (row["user_id"], row["removed"], row["total"]) == (1, 1, 1)
    links = copy.here("history", "show", "--kind", "link", "--json")
    assert (links.returncode, links.stderr) == (0, "")
    assert json.loads(links.stdout)[0]["total"] == 0


def test_a_run_before_anybody_registered_is_no_count_of_zero(tmp_path):
    service = Service({})
    with seen_through(service) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure)
        service.people[1] = Person([a_record(11)])
        history.collect(exposure)
    run = Shell(tmp_path).here("history", "show", "--every", "run", "--history", "history", "--json")
    assert [row["total"] for row in json.loads(run.stdout)] == [1]


@pytest.mark.parametrize(
    "words", [("show", "--group-by", "site"), ("runs",), ("runs", "--json"), ("finish", "x")]
)
def test_hostile_text_does_not_reach_the_terminal(copy, words):
    run = copy.here("history", *words)
    if words[0] == "show":
        assert "Peep[31mFinder 2  look" in run.stdout
    assert not CONTROL.search(run.stdout + run.stderr)


@pytest.mark.parametrize("words", [("runs",), ("show",), ("verify",), ("compact",), ("erase", "1")])
def test_a_missing_history_is_not_created(tmp_path, words):
    (tmp_path / "photographs").mkdir(mode=0o755)
    for there in ("photographs", "nowhere"):
        run = Shell(tmp_path).here("history", *words, "--history", there)
        assert run.returncode == 1
        message = f"There is no history in {there}: exposurekit collect --history {there} creates one"
        assert message in error_of(run)
    assert [file.name for file in tmp_path.rglob("*")] == ["photographs"]
    assert (tmp_path / "photographs").stat().st_mode & 0o777 == 0o755


def test_declared_days_come_from_csv_and_json(copy):
    (copy.directory / "days.csv").write_text("site,declared_days\nSlow,45\nQuick,\n")
    run = copy.here("history", "declare", "days.csv", "--source", "a registry")
    assert run.stdout == "Recorded the declared days of 1 site.\n"
    assert "No removal requests seen for: Slow" in run.stderr
    sites = [{"site": "Slow", "declared_days": None}, {"site": "Quick", "declared_days": 3.5}]
    (copy.directory / "days.json").write_text(json.dumps(sites))
    assert copy.here("history", "declare", "days.json").returncode == 0
    with History(copy.directory / "history") as history:
        days = history.declared_days()[["site", "declared_days", "source"]]
    assert days.to_numpy().tolist() == [["Quick", 3.5, ""], ["Slow", 45, "a registry"]]
    for text in ("site,days\nA,3\n", "site,declared_days\nA,soon\n", '[{"site": "A"}]', "[1]", "{"):
        (copy.directory / "days.csv").write_text(text)
        assert "days.csv: " in error_of(copy.here("history", "declare", "days.csv"))


def test_ticks_of_a_report_are_imported(tmp_path):
    record = a_record(1)
    service = Service({1: Person([record], [], [an_alert("Found", record)])})
    with seen_through(service) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure)
        items = ticked.items(ek.report(history).to_html())[:1]
    shell = Shell(tmp_path, EXPOSUREKIT_HISTORY="history")
    file = tmp_path / "ticks.json"
    file.write_text(ticked.ticks_file(items))
    assert shell.here("history", "import-ticks", "ticks.json").stdout == "1 item marked as done.\n"
    again = shell.here("history", "import-ticks", "ticks.json").stdout
    assert again == "0 items marked as done; 1 unchanged: done before, or marked later.\n"
    file.write_text("{}")
    assert "This is not a file of ticks" in error_of(shell.here("history", "import-ticks", "ticks.json"))


def test_an_incomplete_run_can_be_finished_by_hand(copy):
    finished = copy.here("history", "finish", "tuesday")
    assert re.fullmatch(r"run tuesday: 1 person loaded in full, 1 missed, in .+ s\n", finished.stdout)
    assert "No pending run has that name" in error_of(copy.here("history", "finish", "tuesday"))
    assert copy.here("history", "compact").returncode == 0
    assert copy.here("history", "verify").stdout == "ok: the history is not damaged.\n"
    assert json.loads(copy.here("history", "verify", "--json").stdout) == {}


def first_file(shell, table):
    """Return a file that the newest version of a table needs."""
    return Path(DeltaTable(shell.directory / "history" / table).file_uris()[0])


@pytest.mark.parametrize("table", ["changes", "records", "people", "cube"])
def test_verify_detects_a_missing_file(copy, table):
    first_file(copy, table).unlink()
    run = copy.here("history", "verify")
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert str(copy.directory) not in run.stderr


def test_verify_detects_a_changed_row(copy):
    file = first_file(copy, "changes")
    table = pq.read_table(file, partitioning=None)
    column_index = table.column_names.index("status")
    pq.write_table(table.set_column(column_index, "status", [["archived"] * table.num_rows]), file)
    prose, verified = copy.here("history", "verify"), copy.here("history", "verify", "--json")
    assert (prose.returncode, verified.returncode) == (1, 1)
    assert "Damaged: the sums differ from the changes" in prose.stderr
    assert json.loads(verified.stdout)["the sums differ from the changes"] > 1
