"""Errors of ``%exposure``: one line with a remedy, no traceback, no secret, and no code of the line is run."""

import pytest
from IPython.core.error import UsageError
from support.ipython import NAMES, Notebook

# --- what goes wrong ----------------------------------------------------------------------------------

WRONG = {
    "recrods": "unknown verb: %exposure lists them all; did you mean records?",
    "diff 7d": "diff takes --since, .*; did you mean --since TIME?",
    "records 2026-11-13": "did you mean --as-of TIME?",
    "plan --minutes soon": "--minutes is a number, such as 30",
    "records --sight Seekfolk": "records takes --user, --site, .*; did you mean --site?",
    "records Seekfolk": "records takes --user",
    "records --limit 3": r"records takes .*; it returns the whole table, whose first rows are table\.head\(3\)$",
    "records --site": "--site needs a value: NAME",
    "records --site --status removed": "--site needs a value",
    "records --user twelve": "Nobody has this id or name: %exposure users lists everyone",
    "records --user 99999999999999999999": "--user must be a user id or a name",
    "records --user 999": r"Not among the people loaded: 999; %exposure failures names .*, %exposure refresh looks",
    "records --history nowhere": "there is no history in that directory: %exposure collect --history DIR",
    "records --site 'Seek": "a quotation mark is not closed",
    "records --as-of soon": "A time is 14d, 2w, 3mo, 1y or 36h",
    "status-over-time --every decade": "--every must be one of: run, day, week, month",
    "status-over-time --every": "--every needs a value: run or day or week or month",
    "diff": "diff needs --since TIME",
    "runs --chart": "runs takes --history, --help",
    "use nobody": "use NAME needs a variable that is an Exposure, a History or a demo: demo",
    "use": "use NAME needs a variable",
    "connect --base-url ftp://service.example": "Not connected|base_url is the part before",
    "blockers --history other": "blockers takes --user",
}


@pytest.mark.parametrize("line", WRONG)
def test_an_error_is_one_line_with_a_remedy(notebook, capsys, line):
    with pytest.raises(UsageError, match=WRONG[line]):
        notebook(f"%exposure {line}")
    out, err = capsys.readouterr()
    [message] = err.strip().splitlines()
    assert message.startswith("UsageError: ")
    assert "Traceback" not in out + err


def test_without_a_connection_the_error_names_the_settings(working_directory, capsys):
    notebook = Notebook()
    with pytest.raises(UsageError, match="set EXPOSUREKIT_BASE_URL"):
        notebook("%exposure records")
    with pytest.raises(UsageError, match="needs a history: --history DIR"):
        notebook("%exposure runs")


def test_the_history_of_the_environment_must_exist(demo, working_directory, monkeypatch):
    monkeypatch.setenv("EXPOSUREKIT_HISTORY", "nowhere")
    alone = Notebook(exposure=demo.exposure)
    with pytest.raises(UsageError, match="there is no history in that directory"):
        alone("%exposure runs")
    assert len(alone.table("work-queue")) > 0  # which needs none
    assert not (working_directory / "nowhere").exists()
    monkeypatch.setenv("EXPOSUREKIT_HISTORY", "ftp://nowhere.example/history")
    with pytest.warns(UserWarning, match="^Without ticks: "):
        assert len(alone.table("work-queue")) > 0


SECRETS = (
    "connect --api-key s3cr3t-of-mine",
    "connect --api-secret=s3cr3t-of-mine",
    "connect api_key=s3cr3t-of-mine",
    "records --api_key s3cr3t-of-mine",
    "records --secret s3cr3t-of-mine",
    "connect --password s3cr3t-of-mine",
    "--token s3cr3t-of-mine",
    "s3cr3t-of-mine",
    "connect s3cr3t-of-mine",
    "records --s3cr3t-of-mine",
    "records --user s3cr3t-of-mine",
    "status-over-time --every s3cr3t-of-mine",
    "use s3cr3t-of-mine",
    "connect --base-url https://me:s3cr3t-of-mine@service.example",
    "connect --base-url https://service.example/?api_secret=s3cr3t-of-mine",
    "diff --since s3cr3t-of-mine",
    "records --history s3cr3t-of-mine",
)


@pytest.mark.parametrize("line", SECRETS)
def test_a_secret_on_the_line_is_not_repeated(notebook, capsys, line, monkeypatch):
    for name in NAMES[1:]:
        monkeypatch.setenv(name, "x")
    with pytest.raises(UsageError) as refused:
        notebook(f"%exposure {line}")
    output = str(refused.value) + "".join(capsys.readouterr())
    assert "s3cr3t" not in output


def test_an_option_for_a_key_names_the_variables(notebook):
    with pytest.raises(
        UsageError, match="set EXPOSUREKIT_API_KEY and EXPOSUREKIT_API_SECRET in the environment"
    ):
        notebook("%exposure connect --api-key abc")


def test_a_refused_connection_shows_neither_key_nor_source_code(demo, working_directory, monkeypatch, capsys):
    """Even where IPython shows every variable of every frame."""
    wrong = demo.connection | {"api_key": "k3y-of-mine", "api_secret": "s3cret-of-mine"}
    for name, value in wrong.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)
    notebook = Notebook()
    notebook("%xmode Verbose")
    capsys.readouterr()
    with pytest.raises(UsageError, match="List users failed"):
        notebook("%exposure records")
    out, err = capsys.readouterr()
    assert err.startswith("UsageError: ")
    assert len(err.splitlines()) == 1
    assert "k3y" not in out + err
    assert "s3cret" not in out + err


def test_an_internal_error_has_no_personal_data(notebook, demo, capsys):
    notebook("%xmode Verbose")

    class Broken(type(demo.exposure)):
        def records(self, _user=None):
            raise ZeroDivisionError("Canaria Canarsson, canary-key")

    notebook.names["exposure"] = Broken(demo.client)
    with pytest.raises(UsageError, match=r"ZeroDivisionError: run the same in Python"):
        notebook("%exposure records")
    assert "canar" not in "".join(capsys.readouterr()).lower()


@pytest.mark.parametrize("name", ["{ran.append(1)}", "$ran", "{{ran.append(1)}}", "`ran`", "$(ran)"])
def test_code_in_the_line_is_not_run(notebook, name):
    notebook.names["ran"] = []
    assert len(notebook.table(f"records --site '{name}'")) == 0
    assert notebook.names["ran"] == []


def test_another_magic_runs_it(notebook):
    notebook.names["ran"] = []
    notebook.shell.register_magic_function(lambda line: line, "line", "another")
    notebook("%another {ran.append(1)}")
    assert notebook.names["ran"] == [1]
