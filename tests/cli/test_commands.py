"""The command: what it prints, its exit codes, and errors that state a remedy in one line."""

import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pandas as pd
import pytest
from support.shell import COMMAND, Shell, connection, ended, error_of, line_with, listening, read_until

import exposurekit as ek
from exposurekit.cli.demo import _print_table, _retries_in_words
from exposurekit.cli.history import DEMO_MARKER

ATTESTED = ("--attested-by", "Jo Doe")


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """Two demos with the same seed; the second, a process of its own, replaces the history of the first."""
    shell = Shell(tmp_path_factory.mktemp("demo"))
    words = ("demo", "--people", "3", "--days", "2", "--history", "the demo's", "--json")
    runs = [run(*words) for run in (shell.here, shell)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    return shell, *(run.stdout for run in runs)


@pytest.mark.long
def test_the_demo_prints_tables_and_writes_page_and_history(demo_run):
    shell, _, output = demo_run
    for table in ("users(): 3 rows", "records()", "links()", "alerts()", "steps()", "by_site"):
        assert table in output
    assert max(map(len, output.partition("\nWrote ")[0].splitlines())) <= 80
    assert "\nEvery record matched its site within two weeks.\n" in output
    days = re.findall(
        r"^ *20\d\d-\d\d-\d\d .*", output.partition("history.status_over_time()")[2], re.MULTILINE
    )
    assert "after 2 simulated days" in " ".join(output.split())
    assert len(days) == 2  # without the run before anyone was registered
    legend = [line.split()[0] for line in printed(output, r"history\.status_over_time\(\)")]
    assert legend == ["listed", "gone", "late", "wrong"]
    connection = json.loads(output.splitlines()[-1])
    assert set(connection) >= {
        *("base_url", "integration_name", "api_key", "api_secret"),
        *("people", "days", "out", "webhook_items", "agreement"),
    }
    assert connection["people"] == 3
    assert connection["base_url"].startswith("http://127.0.0.1:")
    assert 'id="by_site-chart"' in (shell.directory / connection["out"]).read_text()
    with ek.History(shell.directory / connection["history"]) as history:
        assert history.verify() == {}
        assert len(history.people()) == 3


@pytest.fixture(scope="module")
def demo_history(tmp_path_factory):
    with ek.demo(people=1, days=0, progress=False) as demo:
        return shutil.copytree(demo.history.path, tmp_path_factory.mktemp("demo") / "history")


@pytest.fixture
def earlier_demo(shell, demo_history):
    """The history of an earlier demo, where the next one would save its own."""
    copied = Path(shutil.copytree(demo_history, shell.directory / "demo-history"))
    (copied / DEMO_MARKER).touch()
    return copied


ANNOTATE = {
    "notes": lambda history: history.note(history.records().iloc[0], "requested by post"),
    "site_names": lambda history: history.rename_site(history.records()["site"].iloc[0], "A New Name"),
    "declared_days": lambda history: history.declare_days({history.records()["site"].iloc[0]: 7}),
}


@pytest.mark.parametrize("kind", ANNOTATE)
def test_a_demo_preserves_what_a_user_wrote(shell, earlier_demo, kind):
    with ek.History(earlier_demo) as history:
        ANNOTATE[kind](history)
        written = getattr(history, kind)()
    run = shell.here("demo", "--people", "0", "--days", "0")
    assert run.returncode == 1
    assert "declared days, which a new demo would replace: name another directory" in run.stderr
    assert len(written)
    with ek.History(earlier_demo) as history:
        assert getattr(history, kind)().equals(written)


def test_a_demo_preserves_a_history_it_cannot_read(shell, earlier_demo):
    about = earlier_demo / "history.json"
    newer = json.dumps(json.loads(about.read_text()) | {"format": 99})
    about.write_text(newer)
    run = shell.here("demo", "--people", "0", "--days", "0")
    assert run.returncode == 1
    assert "cannot be read" in run.stderr
    assert "name another directory, or delete this one" in run.stderr
    assert about.read_text() == newer


@pytest.mark.parametrize(("people", "number"), [("0", "0 invented people"), ("1", "1 invented person")])
def test_a_demo_without_a_day_prints_its_only_state(shell, people, number):
    run = shell.here("demo", "--people", people, "--days", "0")
    assert run.returncode == 0, run.stderr
    assert f"with {number}, after 0 simulated days." in " ".join(run.stdout.split())
    over_time = run.stdout.partition("history.status_over_time()")[2]
    assert len(re.findall(r"^ *20\d\d-\d\d-\d\d .*", over_time, re.MULTILINE)) == 1


@pytest.mark.long
def test_the_same_seed_gives_the_same_demo(demo_run, shell):
    def figures(output):
        return re.sub(r"127\.0\.0\.1:\d+", "", output.partition("by_site(")[2].partition("\nWrote ")[0])

    _, first, second = demo_run
    other = shell.here("demo", "--people", "3", "--days", "2", "--seed", "4").stdout
    assert figures(first) == figures(second) != figures(other)


@pytest.mark.long
def test_a_demo_without_people_is_a_demo(shell):
    run = shell.here("demo", "--people", "0", "--days", "1")
    assert run.returncode == 0, run.stderr
    assert "users(): 0 rows" in run.stdout


def printed(output, words):
    """Return the indented lines of the first block after these words."""
    block = re.search(rf"{words}[^:]*:\n\n((?:    .*\n)+)", output)
    return [line.removeprefix("    ") for line in block[1].splitlines()]


def in_a_shell(shell, lines):
    """Run lines in one shell; return the exit code of each and the output of all."""
    text = "\n".join(f"{line}; echo code=$?" for line in lines)
    environment = shell.environment | {"BROWSER": "true", "PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-c", text],
        cwd=shell.directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(code) for code in re.findall(r"code=(\d+)", run.stdout)], run.stdout + run.stderr


def in_this_process(shell, lines):
    """As `in_a_shell`, without a process for each line: these export a variable, or run the command."""
    there = Shell(shell.directory, **shell.environment | {"BROWSER": "true"})
    runs = []
    for command, *words in map(shlex.split, lines):
        if command == "export":
            there.environment |= dict(word.split("=", 1) for word in words)
        else:
            assert Path(command).name == "exposurekit"
            # What starts a browser does not wait for it, as a process of its own may.
            runs.append(there(*words) if words[0] == "open" else there.here(*words))
    return [run.returncode for run in runs], "".join(run.stdout + run.stderr for run in runs)


@pytest.mark.long
def test_the_commands_that_the_demo_prints_run(demo_run):
    shell, _, output = demo_run
    environment = printed(output, "Run these lines in this shell")
    commands = printed(output, "Commands to try")
    assert [line.split()[1] for line in commands] == ["report", "check", "open", "export"]
    [*_, shell_code], shell_log = in_a_shell(shell, [*environment, commands[1]])
    codes, log = in_this_process(shell, [*environment, *commands])
    assert codes[-3] == shell_code in {0, 3}, shell_log
    assert {*codes[:-3], *codes[-2:]} == {0}, log
    assert commands[3].endswith("exposurekit export queue --personal --out queue.xlsx")
    with zipfile.ZipFile(shell.directory / "queue.xlsx") as book:
        assert book.read("xl/worksheets/sheet1.xml").count(b"<row ") > 1  # more than the header
    assert log.count("are missing") == 2  # the report and the queue say how to add names
    assert {"week.html", "queue.xlsx", "the demo's"} <= {path.name for path in shell.directory.iterdir()}


@pytest.mark.long
def test_a_demo_serves_other_commands_until_ctrl_c(shell):
    with shell.started("demo", "--people", "2", "--days", "1", "--serve", "--json") as process:
        lines = read_until(process, '{"base_url', "stdout")
        output, connection = "".join(lines), json.loads(lines[-1])
        names = ("base_url", "integration_name", "api_key", "api_secret")
        with ek.Client(**{name: connection[name] for name in names}) as client:
            assert len(client.list_users().users) == 2
        scope = {"ek": ek}
        exec(next(line.strip() for line in lines if "ek.connect(" in line), scope)  # noqa: S102  the line that it tells people to copy
        assert len(scope["exposure"].users()) == 2
        exec(next(line.strip() for line in lines if "ek.History(" in line), scope)  # noqa: S102  likewise
        with scope["history"] as history:
            assert len(history.runs()) == 2
        scope["exposure"].client.close()
        commands = [*printed(output, "Commands to try"), "exposurekit export users --out users.csv"]
        exports = printed(output, "Run these lines in another shell")
        assert output.partition(exports[-1])[2].strip() == lines[-1].strip()  # they are the last to be read
        codes, log = in_this_process(shell, [*exports, *commands])
        ended(process, signal.SIGINT)
    assert {*codes} <= {0, 3}, log
    assert any(" collect" in line for line in commands)
    assert any(line.endswith(" export queue --personal --live --out queue.xlsx") for line in commands)
    assert "exposurekit report --live --since " in commands[0]
    assert "are missing" not in log
    assert (shell.directory / "users.csv").read_text().count("\n") == 3
    with ek.History(shell.directory / "demo-history") as history:
        assert len(history.runs()) == 3  # before anyone registered, one day, and this collect


def test_the_demo_does_not_replace_a_foreign_history(shell):
    mine = shell.directory / "demo-history"
    mine.mkdir()
    (mine / "history.json").write_text("{}")
    run = shell.here("demo")
    assert run.returncode == 1
    message = "demo-history is not empty and not from a demo: name another directory"
    assert error_of(run) == f"Error: --history: {message}"
    assert (mine / "history.json").read_text() == "{}"


@pytest.mark.parametrize("columns", [40, 60, 80, 132])
def test_a_table_of_the_demo_fits_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    table = pd.DataFrame(
        {"user_id": [1, 2], "text": ["word " * 40, "\x1b[31m"], "longest_name_of_a_column": 5}
    )
    _print_table(table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= columns
    assert "user_id" in lines[0]
    assert "\x1b" not in "".join(lines)


@pytest.mark.long
def test_a_service_is_set_up_used_and_rotated(shell):
    database = ("--database", "sqlite:///service.db")

    def integrator(*words):
        return shell.here("integrator", *words, *database)

    added = json.loads(integrator("add", "acme", *ATTESTED, "--json").stdout)
    assert set(added) == {"integration_name", "api_key", "api_secret"}
    with shell.started("serve", *database, "--port", "0") as process:
        base_url = listening(process)
        with ek.Client(base_url, **added) as client:
            created = client.create_user(
                first_name="Juniper", last_name="Quill", addresses=[{"city": "Oak", "state": "CA"}]
            )
            rotated = json.loads(integrator("rotate", "acme", "--json").stdout)
            with pytest.raises(ek.Unauthorized):
                client.get_user(created.key)
        with ek.Client(base_url, **rotated) as client:
            assert client.get_user(created.key).first_name == "Juniper"
        assert httpx.get(f"{base_url}/openapi.json").json()["openapi"].startswith("3.1")
        ended(process)
    listed = json.loads(integrator("list", "--json").stdout)
    assert [(one["integration_name"], one["users"]) for one in listed] == [("acme", 1)]
    assert integrator("remove", "acme").returncode == 1
    assert "Removed acme and 1 user." in integrator("remove", "acme", "--with-users", "--yes").stdout
    assert json.loads(integrator("list", "--json").stdout) == []


def test_credentials_as_printed_work_in_an_env_file(shell, monkeypatch):
    run = shell.here("integrator", "add", "acme", *ATTESTED)
    (shell.directory / ".env").write_text(f"EXPOSUREKIT_BASE_URL=http://127.0.0.1:9\n{run.stdout}")
    monkeypatch.chdir(shell.directory)
    with ek.Client() as client:
        assert repr(client) == "Client('http://127.0.0.1:9', integration_name='acme')"


def test_wrong_keys_and_unknown_integrators_are_errors(shell):
    assert shell.here("integrator", "add", "acme", *ATTESTED).returncode == 0
    other = ("--database", "sqlite:///b.db", "--key-file", "b.key")
    assert shell.here("integrator", "add", "acme", *ATTESTED, *other).returncode == 0
    for words, message in (
        (("list", "--key-file", "typo/other.key"), "no key at typo/other.key"),
        (
            ("list", "--key-file", "b.key"),
            "another key than that of b.key: set --key-file, EXPOSUREKIT_SERVICE_KEY_FILE or EXPOSUREKIT_SERVICE_KEY",
        ),
        (("rotate", "nobody"), "exposurekit integrator list"),
    ):
        run = shell.here("integrator", *words)
        assert run.returncode == 1
        assert message in error_of(run)
    assert not (shell.directory / "typo").exists()  # no second key is created


def test_a_usage_error_exits_with_2_and_points_to_help(shell):
    run = shell("demo", "--people", "many")
    assert run.returncode == 2
    assert "--help" in run.stderr


def test_a_warning_is_a_sentence_without_code(shell):
    shell.environment |= connection("http://nohost.invalid", "acme", "key", "secret")
    run = shell("collect")
    warning, error = run.stderr.splitlines()
    assert warning == "Warning: base_url is plain HTTP: keys and secrets travel unencrypted; use https."
    assert error.startswith("Error: List users failed: host name not found.")


def test_help_states_bounds_in_words(shell):
    assert "from 1" not in shell.here("report", "--help").stdout  # the bounds of an id are nobody's concern
    assert "[default: 100; from 1 to 100,000]" in " ".join(
        shell.here("users", "candidates", "--help").stdout.split()
    )


STOPPED = (  # within exec, which Python records
    "import sys\n"
    "from exposurekit.cli import main, run\n"
    "main.run = lambda words: exec('raise KeyboardInterrupt')\n"
    "run()\n"
)


@pytest.mark.parametrize("words", [["-m", "stopped"], ["stopped.py"]], ids=["a module", "a script"])
def test_ctrl_c_exits_with_130_instead_of_a_signal(tmp_path, words):
    (tmp_path / "stopped.py").write_text(STOPPED)
    run = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (130, "Stopped.\n")


@pytest.mark.parametrize("module", ["click.exceptions", "exposurekit.cli.output"])
def test_ctrl_c_while_loading_exits_with_130_without_a_traceback(shell, module):
    shell.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    with shell.started("demo", "--people", "40") as process:
        line_with(process, module)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped." in err
    assert "Traceback" not in err


STOPPED_LATE = (
    "import os, signal\n"
    "from exposurekit.cli import main, run\n"
    "class Late:\n"
    "    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGINT):\n"
    "        kill(process, number)\n"
    "late = Late()\n"
    "main.run = lambda words: 3\n"
    "run()\n"
)


def test_ctrl_c_at_the_end_retains_the_exit_code():
    run = subprocess.run([sys.executable, "-c", STOPPED_LATE], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (3, "")


FROZEN = (
    "import atexit, gc\n"
    "from exposurekit.cli import main, run\n"
    "atexit.register(lambda: print(gc.get_freeze_count() > 10_000))\n"
    "main.run = lambda words: 0\n"
    "run()\n"
)


def test_a_command_ends_without_a_search_for_garbage():
    run = subprocess.run([sys.executable, "-c", FROZEN], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("True\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["--help"], ["completion", "bash"]], ids=" ".join)
def test_a_full_output_is_a_one_line_error(shell, words):
    with Path("/dev/full").open("w") as full, shell.started(*words, stdout=full) as process:
        err = process.stderr.read()
        process.wait()
    assert (process.returncode, err) == (1, "Error: cannot write the output: No space left on device\n")


def test_a_closed_pipe_ends_the_command_silently(shell):
    reading, writing = os.pipe()
    os.close(reading)
    with shell.started("--help", stdout=writing) as process:
        os.close(writing)
        err = process.stderr.read()
        process.wait()
    assert (process.returncode, err) == (1, "")


def test_the_package_runs_as_the_command(shell):
    command = [sys.executable, "-m", "exposurekit", "users", "purge", "--help"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == shell(*command[3:]).stdout


def test_the_command_loads_nothing_heavy_before_it_is_needed():
    heavy = ("pandas", "numpy", "pyarrow", "pydantic", "sqlalchemy", "aiohttp", "starlette", "yaml", "plotly")
    code = f"import exposurekit.cli.main, sys; print([name for name in {heavy!r} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_failed_jobs_of_a_demo_are_reported_once_in_words(capsys):
    with _retries_in_words():
        for row in (5, 6):
            logging.getLogger("exposurekit.service").error("worker=scan row=%d fault=TimeoutError", row)
    assert capsys.readouterr().err == "A background job timed out or failed. The service retries such jobs.\n"
