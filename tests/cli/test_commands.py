"""The shell: what it prints, what it exits with, and that its errors say what to do in one line."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pandas as pd
import pytest
from support.shell import COMMAND, Shell, error_of, said_until

import exposurekit as ek
from exposurekit.cli.demo import _print_table, _retries_in_words
from exposurekit.cli.main import cli

ATTESTED = ("--attested-by", "Jo Doe")


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.mark.long
def test_the_demo_prints_the_tables_and_writes_the_page(shell):
    run = shell("demo", "--people", "4", "--days", "3", "--seed", "3", "--json")
    assert run.returncode == 0, run.stderr
    for table in ("users(): 4 rows", "records()", "links()", "alerts()", "steps()", "by_site"):
        assert table in run.stdout
    tables = run.stdout.partition("\nWrote ")[0]
    assert max(map(len, tables.splitlines())) <= 80
    connection = json.loads(run.stdout.splitlines()[-1])
    assert set(connection) >= {
        *("base_url", "integration_name", "api_key", "api_secret"),
        *("people", "days", "out", "webhook_items", "agreement"),
    }
    assert connection["people"] == 4
    assert connection["base_url"].startswith("http://127.0.0.1:")
    assert 'id="by_site-chart"' in (shell.directory / connection["out"]).read_text()
    with ek.History(connection["history"]) as history:
        assert history.verify() == {}
        assert len(history.people()) == 4


@pytest.mark.long
def test_the_same_seed_gives_the_same_demo(shell):
    def figures(seed):
        return shell(
            "demo", "--people", "3", "--days", "1", "--seed", seed, "--out", "page.html"
        ).stdout.partition("by_site(")[2]

    first, second, other = (re.sub(r"127\.0\.0\.1:\d+", "", figures(seed)) for seed in ("3", "3", "4"))
    assert first == second != other


@pytest.mark.long
def test_a_demo_without_people_is_a_demo(shell):
    run = shell("demo", "--people", "0")
    assert run.returncode == 0, run.stderr
    assert "users(): 0 rows" in run.stdout


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_serves_until_it_is_told_to_end(shell, number):
    with shell.started("demo", "--people", "2", "--days", "0", "--serve", "--json") as process:
        lines = []
        while not lines or not lines[-1].startswith("{"):
            lines.append(process.stdout.readline())
            assert lines[-1], "it ended by itself"
        connection = json.loads(lines[-1])
        names = ("base_url", "integration_name", "api_key", "api_secret")
        exposure = ek.connect(**{name: connection[name] for name in names})
        assert len(exposure.users()) == 2
        exposure.client.close()
        printed = next(line.strip() for line in lines if "ek.connect(" in line)
        scope = {"ek": ek}
        exec(printed, scope)  # noqa: S102  the line that it tells people to copy
        assert len(scope["exposure"].users()) == 2
        process.send_signal(number)
        assert process.wait(timeout=20) == 0


def printed(output, words):
    """The indented lines of the first block after these words."""
    block = re.search(rf"{words}[^:]*:\n\n((?:    .*\n)+)", output)
    return [line.removeprefix("    ") for line in block[1].splitlines()]


def in_a_shell(shell, lines):
    """Run lines in one shell of a user's; the exit code of each, and what all wrote."""
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


@pytest.mark.long
def test_what_the_demo_prints_runs_as_it_stands(shell):
    for _ in range(2):  # a second demo takes the place of the first one's history
        run = shell("demo", "--people", "3", "--days", "3", "--history", "the demo's")
        assert run.returncode == 0, run.stderr
    environment = printed(run.stdout, "Run these lines in this shell")
    commands = printed(run.stdout, "Then try")
    codes, log = in_a_shell(shell, [*environment, *commands])
    assert [line.split()[1] for line in commands] == ["report", "check", "open", "export"]
    assert [
        code == 0 or (code == 3 and "check" in line) for code, line in zip(codes[1:], commands, strict=True)
    ] == ([True] * 4), log
    assert commands[3].endswith("exposurekit export queue --personal --out queue.xlsx")
    with zipfile.ZipFile(shell.directory / "queue.xlsx") as book:
        assert book.read("xl/worksheets/sheet1.xml").count(b"<row ") > 1  # a header alone is no queue
    assert log.count("are missing") == 2  # the report and the queue say how to add names
    assert {"week.html", "queue.xlsx", "the demo's"} <= {path.name for path in shell.directory.iterdir()}


@pytest.mark.long
def test_other_commands_use_a_demo_that_serves(shell):
    with shell.started("demo", "--people", "3", "--days", "2", "--serve") as process:
        lines = []
        while not lines or "ek.connect(" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], "it ended by itself"
        output = "".join(lines)
        commands = [*printed(output, "Then try"), "exposurekit export users --out users.csv"]
        codes, log = in_a_shell(shell, [*printed(output, "Run these lines in another shell"), *commands])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    assert {*codes} <= {0, 3}, log
    assert any(" collect" in line for line in commands)
    assert any(line.endswith(" export queue --personal --live --out queue.xlsx") for line in commands)
    assert "exposurekit report --live --since " in commands[0]
    assert "are missing" not in log
    assert (shell.directory / "users.csv").read_text().count("\n") == 4
    with ek.History(shell.directory / "demo-history") as history:
        assert len(history.runs()) == 4  # before anybody was there, two days, and this collect


def test_the_demo_replaces_no_history_that_it_did_not_make(shell):
    mine = shell.directory / "demo-history"
    mine.mkdir()
    (mine / "history.json").write_text("{}")
    run = shell("demo")
    assert run.returncode == 1
    assert (
        error_of(run)
        == "Error: --history: demo-history is not empty and not from a demo: name another directory"
    )
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


def test_the_demo_says_where_it_cannot_write(shell):
    run = shell("demo", "--out", "nowhere/page.html")
    assert run.returncode == 1
    assert error_of(run) == "Error: --out: no such directory: nowhere"


@pytest.mark.long
def test_a_service_is_set_up_used_and_rotated(shell):
    database = ("--database", "sqlite:///service.db")
    added = json.loads(shell("integrator", "add", "acme", *ATTESTED, *database, "--json").stdout)
    assert set(added) == {"integration_name", "api_key", "api_secret"}
    with shell.started("serve", *database, "--port", "0") as process:
        base_url = re.search(r"http://\S+", said_until(process, "listening=")).group()
        with ek.Client(base_url, **added) as client:
            created = client.create_user(
                first_name="Juniper", last_name="Quill", addresses=[{"city": "Oak", "state": "CA"}]
            )
            rotated = json.loads(shell("integrator", "rotate", "acme", *database, "--json").stdout)
            with pytest.raises(ek.Unauthorized):
                client.get_user(created.key)
        with ek.Client(base_url, **rotated) as client:
            assert client.get_user(created.key).first_name == "Juniper"
        assert httpx.get(f"{base_url}/openapi.json").json()["openapi"].startswith("3.1")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    listed = json.loads(shell("integrator", "list", *database, "--json").stdout)
    assert [(one["integration_name"], one["users"]) for one in listed] == [("acme", 1)]
    assert shell("integrator", "remove", "acme", *database).returncode == 1
    assert "1 users" in shell("integrator", "remove", "acme", "--with-users", *database).stdout


def test_credentials_in_prose_stand_in_an_env_file(shell):
    run = shell("integrator", "add", "acme", *ATTESTED)
    (shell.directory / ".env").write_text(f"EXPOSUREKIT_BASE_URL=http://127.0.0.1:9\n{run.stdout}")
    code = "import exposurekit as ek; print(ek.Client())"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=shell.directory, capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == "Client('http://127.0.0.1:9', integration_name='acme')"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["integrator", "add", "a b", *ATTESTED], "1 to 64"),
        (["integrator", "rotate", "nobody"], "integrator add NAME creates one"),
        (["serve", "--database", "sqlite:///a.db?mode=memory"], "sqlite:///FILE"),
        (["serve", "--database", "mysql://x"], "sqlite:///FILE"),
        (["serve", "--port", "0", "--database", "sqlite:////nowhere/at/all.db"], "cannot be opened"),
    ],
)
def test_an_error_is_one_line_and_no_traceback(shell, words, message):
    run = shell(*words)
    assert run.returncode == 1
    assert message in error_of(run)


def test_a_database_is_never_given_a_second_key(shell):
    assert shell("integrator", "add", "acme", *ATTESTED).returncode == 0
    run = shell("integrator", "list", "--key-file", "typo/other.key")
    assert run.returncode == 1
    assert "no key at typo/other.key" in error_of(run)
    assert not (shell.directory / "typo").exists()


def test_another_key_is_told_from_the_right_one(shell):
    assert shell("integrator", "add", "acme", *ATTESTED).returncode == 0
    assert (
        shell(
            *("integrator", "add", "acme", *ATTESTED, "--database", "sqlite:///b.db", "--key-file", "b.key")
        ).returncode
        == 0
    )
    run = shell("integrator", "list", "--key-file", "b.key")
    assert run.returncode == 1
    assert "another key" in error_of(run)


def test_an_unknown_integrator_error_names_the_list_command(shell):
    assert shell("integrator", "add", "acme", *ATTESTED).returncode == 0
    assert "exposurekit integrator list" in error_of(shell("integrator", "rotate", "nobody"))


def test_a_usage_error_exits_with_2_and_points_to_help(shell):
    run = shell("demo", "--people", "many")
    assert run.returncode == 2
    assert "--help" in run.stderr


STOPPED = (  # while a text is run as code, of which Python keeps a note
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


@pytest.mark.parametrize("module", ["click.exceptions", "click.core", "exposurekit.cli.output"])
def test_ctrl_c_while_loading_exits_with_130_without_a_traceback(shell, module):
    shell.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    with shell.started("demo", "--people", "40") as process:
        said_until(process, module)
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


def test_stopped_while_it_ends_it_exits_with_what_it_found():
    run = subprocess.run([sys.executable, "-c", STOPPED_LATE], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (3, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="nothing here is always full")
@pytest.mark.parametrize("words", [["--help"], ["completion", "bash"]], ids=" ".join)
def test_a_closed_output_is_a_one_line_error(shell, words):
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [COMMAND, *words],
            env=shell.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert error_of(run) == "Error: cannot write the output: No space left on device"


def test_who_has_read_enough_is_told_nothing(shell):
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        [COMMAND, "--help"],
        env=shell.environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (run.returncode, run.stderr) == (1, "")


def commands(group, words=()):
    """Every command and group, as the words that call it."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


@pytest.mark.parametrize("words", list(commands(cli)), ids=" ".join)
def test_every_command_has_help_with_an_example(shell, words):
    run = shell.here(*words, "--help")
    assert run.returncode == 0
    assert run.stdout.startswith("Usage: exposurekit")
    is_group = "COMMAND [ARGS]..." in run.stdout
    assert is_group or f"Example: exposurekit {' '.join(words)}" in run.stdout


@pytest.mark.parametrize("words", [["--help"], ["users", "purge", "--help"]])
def test_the_package_is_the_command_too(shell, words):
    command = [sys.executable, "-m", "exposurekit.cli", *words]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == shell(*words).stdout


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
