"""What an operator may do wrong: each error is one line that says what is wrong and what to do, without a traceback."""

import json
import os
import shlex
import subprocess

import pytest
from support.shell import COMMAND, Shell, error_of, run_unprivileged

RUN = "from exposurekit.cli import run; run()"


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "a directory").mkdir()
    (tmp_path / "file").write_text("not a database" * 200)
    return Shell(tmp_path)


NO_DATABASE = "no database sqlite:////nowhere/at/all.db"
WRONG = {  # by its exit code, each command line, and what the error says
    1: {
        "service status --database 'sqlite:///a directory'": "the database a directory is a directory: name a file in it",
        "service status --database sqlite:///file": (  # not: there is no key
            "the database file is damaged or not an SQLite database: restore it from a backup, or name another file"
        ),
        "integrator add acme --no-attestation --database sqlite:///nowhere/service.db": (
            "cannot be opened: the directory of service.db does not exist; create it"
        ),
        "integrator add 'a b' --no-attestation": "1 to 64",
        "integrator add 'a b' --no-attestation --database sqlite:////nowhere/at/all.db": "1 to 64",
        "integrator rotate nobody": "integrator add NAME --attested-by WHO creates one",
        "serve --database sqlite:///a.db?mode=memory": "sqlite:///FILE",
        "serve --database mysql://x": "sqlite:///FILE",
        "serve --database sqlite://user:secret@host/a.db": "sqlite:///FILE",
        "serve --port 0 --database sqlite:////nowhere/at/all.db": NO_DATABASE,
        "serve --port 0 --create --database sqlite:////nowhere/at/all.db": "cannot be opened",
        "demo --out nowhere/page.html": "Error: --out: no such directory: nowhere",
        "collect --history history": "Error: Not connected: set EXPOSUREKIT_BASE_URL, ",
    },
    2: {
        "evidence export 1 --out x.zip --since 13.11.2026": (
            "Invalid value for '--since': '13.11.2026' is not a day such as 2026-11-13"
        ),
        "integrator add acme --attested-by J\udcc3\udcb6rg": (
            "a name or a role has 1 to 200 printable characters, in UTF-8"
        ),
        "report --out x.html --rows": "--rows is for --share-safe",
        "report --out x.html --evidence-key file": "--evidence-key is for --evidence",
        "users candidates --limit -1": "'--limit': '-1' is not a whole number from 1 to 100,000",
        "users candidates --limit 1.5": "'--limit': '1.5' is not a whole number from 1 to 100,000",
        "serve --port http": "'--port': 'http' is not a whole number from 0 to 65,535",
        "collect --user 0": "'--user': '0' is not an id: pass a whole number",
        f"users records {'9' * 5000}": "is not an id: pass a whole number",
    },
}


@pytest.mark.parametrize(
    ("line", "code"),
    [(line, code) for code in WRONG for line in WRONG[code]],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_value_is_explained(shell, line, code):
    run = shell.here(*shlex.split(line))
    assert (run.returncode, run.stdout) == (code, "")
    assert WRONG[code][line] in (error_of(run) if code == 1 else run.stderr)


@pytest.mark.parametrize(
    "words", ["integrator add acme --no-attestation", "service status", "serve --create"]
)
def test_an_absolute_path_with_three_slashes_is_explained(shell, words):
    file = shell.directory / "service.db"
    run = shell.here(*words.split(), "--database", f"sqlite://{file}")
    assert error_of(run) == (
        f"Error: the directory of sqlite://{file} does not exist: an absolute path has four slashes: sqlite:///{file}"
    )
    assert [*shell.directory.glob("**/*.db")] == []


def test_the_doctor_names_a_history_that_is_a_file(shell):
    run = shell.here("doctor", "--history", "file", "--json")
    [history] = [one for one in json.loads(run.stdout) if one["check"] == "history"]
    assert (run.returncode, history["state"]) == (1, "fail")
    assert "this is a file" in history["message"]


@pytest.fixture
def forbidden(tmp_path, monkeypatch):
    """A directory that nobody may enter."""
    directory = tmp_path / "forbidden"
    (directory / "config" / "exposurekit").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(directory / "config"))
    monkeypatch.delenv("EXPOSUREKIT_DATABASE", raising=False)
    directory.chmod(0)
    yield directory
    directory.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ("service", "status", "--database", "sqlite:///{}/service.db"),
        ("sites", "check", "{}/seekfolk.yaml"),
        ("integrator", "add", "acme", "--no-attestation", "--database", "sqlite:///{}.db"),
    ],
    ids=" ".join,
)
def test_a_forbidden_directory_is_one_line(forbidden, words):
    run = run_unprivileged(RUN, *(word.format(forbidden) for word in words))
    assert run.returncode == 1
    error = error_of(run)
    assert error.startswith(f"Error: {forbidden}")
    assert error.endswith(
        ": permission denied: run the command as the file's owner, or change who may use it"
    )


def test_an_unreadable_env_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").touch(mode=0)
    run = run_unprivileged(RUN, "collect")
    assert error_of(run) == "Error: .env cannot be read: Permission denied"
    [credentials] = [
        one
        for one in json.loads(run_unprivileged(RUN, "doctor", "--json").stdout)
        if one["check"] == "credentials"
    ]
    assert (credentials["state"], credentials["message"]) == (
        "fail",
        ".env cannot be read: Permission denied",
    )


def test_the_doctor_goes_on_after_a_forbidden_directory(forbidden):
    run = run_unprivileged(RUN, "doctor", "--history", f"{forbidden}-history", "--json")
    checks = {one["check"]: one for one in json.loads(run.stdout)}
    assert (run.returncode, run.stderr, checks["files"]["state"]) == (1, "", "fail")
    assert checks["files"]["message"].endswith(": permission denied")
    assert checks["history"]["message"] == "does not exist yet"


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [
        ("<&-", ("integrator", "add", "acme"), 2),
        ("<&-", ("integrator", "set-callback", "acme", "https://acme.example/", "--secret", "-"), 1),
        (">&-", ("--help",), 0),
        ("2>&-", ("service", "status"), 1),
    ],
    ids=str,
)
def test_a_closed_stream_is_no_traceback(tmp_path, closed, words, code):
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", COMMAND, *words]
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, "Traceback" in run.stderr) == (code, False)
