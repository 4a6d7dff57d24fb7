"""``%exposure`` in a real IPython, on a real service: tables out, charts out, and errors in one line that show nobody."""

import shlex

import pandas as pd
import pytest
from IPython.core.error import UsageError
from support.ipython import Notebook

from exposurekit import analysis, charts
from exposurekit.notebook.commands import verbs
from exposurekit.questions import QUESTIONS

VERBS = verbs()
OF_EXPOSURE = ("users", "records", "links", "alerts", "steps", "failures")


def same(table, expected):
    pd.testing.assert_frame_equal(table, expected)


# --- tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", OF_EXPOSURE)
def test_a_table_is_the_one_of_the_exposure(notebook, demo, verb):
    same(notebook.table(verb), demo.exposure[verb])


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=lambda question: question.name)
def test_a_question_is_answered_from_the_exposure_or_the_history(notebook, demo, question):
    day = f"{demo.history.runs()['finished_at'].iloc[0]:%Y-%m-%dT%H:%MZ}"
    verb = question.name.replace("_", "-")
    if question.inputs:
        tables = {name: demo.exposure[name] for name in question.inputs}
        if "steps" in tables:
            tables["steps"] = demo.history.with_ticks(tables["steps"])
        same(notebook.table(verb), question.answer(tables.__getitem__))
    elif question.required:
        same(notebook.table(f"{verb} --since {day}"), question.ask(demo.history, since=day))
    else:
        same(notebook.table(verb), question.ask(demo.history))


def test_runs_are_those_of_the_history(notebook, demo):
    same(notebook.table("runs"), demo.history.runs())


def test_a_line_alone_is_shown(notebook, demo):
    same(notebook("%exposure records"), demo.exposure.records())


def test_a_semicolon_shows_nothing(notebook):
    assert notebook("%exposure records;") is None


# --- less of them -------------------------------------------------------------------------------------


def test_sites_statuses_and_people_narrow_a_table(notebook, demo):
    records = demo.exposure.records()
    first = records.iloc[0]
    for option, column in (("site", "site"), ("status", "status"), ("user", "user_id")):
        table = notebook.table(f"records --{option} {shlex.quote(str(first[column]))}")
        expected = records[records[column] == first[column]]
        same(table, expected.reset_index(drop=True))


def test_several_of_one_are_either_and_several_options_are_both(notebook, demo):
    records = demo.exposure.records()
    one, two = records["site"].unique()[:2]
    table = notebook.table(f"records --site '{one}' --site '{two}' --status discovered")
    expected = records[records["site"].isin([one, two]) & (records["status"] == "discovered")]
    same(table, expected.reset_index(drop=True))


def test_capitals_do_not_matter(notebook, demo):
    site = demo.exposure.records()["site"].iloc[0]
    assert len(notebook.table(f"records --site '{site.upper()}'")) > 0


def test_a_question_is_asked_of_what_is_left(notebook, demo):
    user = int(demo.exposure.users()["user_id"].iloc[0])
    same(notebook.table(f"by-site --user {user}"), analysis.by_site(demo.exposure.records(user)))


def test_a_site_that_nothing_has_is_told_with_its_nearest(notebook, demo, capsys):
    """An empty table of a misspelt site must not read as a clean one."""
    site = demo.exposure.records()["site"].iloc[0]
    assert len(notebook.table(f"records --site '{site}x'")) == 0
    assert f" Did you mean {site!r}?" in capsys.readouterr().err


def test_a_status_that_nothing_has_today_is_no_mistake(notebook, demo, capsys):
    demo.exposure.records()
    assert len(notebook.table("records --status removed")) == 0
    assert capsys.readouterr().err == ""


def test_time_goes_by_site_and_week(notebook, demo):
    table = notebook.table("status-over-time --group-by site --every week --kind record")
    same(table, demo.history.status_over_time(by="site", every="week"))


def test_a_table_as_of_a_day_comes_from_the_history(notebook, demo):
    day = f"{demo.history.runs()['finished_at'].iloc[-1]:%Y-%m-%d}"
    same(notebook.table(f"records --as-of {day}"), demo.history.records(as_of=day))


def test_the_work_queue_knows_what_is_ticked(notebook, demo):
    steps = demo.exposure.steps()
    assert demo.history.tick(steps.head(1)) == 1
    same(notebook.table("work-queue"), analysis.work_queue(demo.history.with_ticks(steps)))
    assert notebook.table("work-queue")["done"].sum() == 1


# --- charts -------------------------------------------------------------------------------------------

CHARTED = [verb for verb, command in VERBS.items() if "chart" in command.options]


@pytest.mark.parametrize("verb", CHARTED)
def test_a_chart_is_that_of_the_same_name(notebook, demo, verb):
    day = f"{demo.history.runs()['finished_at'].iloc[0]:%Y-%m-%dT%H:%MZ}"
    since = f"--since {day}" if "since" in QUESTIONS[verb.replace("-", "_")].required else ""
    drawn = notebook.table(f"{verb} {since} --chart")
    assert isinstance(drawn, charts.Chart)
    expected = getattr(charts, verb.replace("-", "_"))(notebook.table(f"{verb} {since}"))
    assert charts.describe(drawn) == charts.describe(expected)


def test_a_chart_has_its_source_and_what_was_left_out(notebook, demo):
    notebook.table("by-site --status discovered --chart")
    provenance = notebook.names["found"].layout.meta["provenance"]
    assert provenance == f"{demo.exposure.provenance} · status discovered"
    notebook.table("coverage --chart")
    assert notebook.names["found"].layout.meta["provenance"] == demo.history.provenance


# --- whose tables -------------------------------------------------------------------------------------


def test_variables_of_the_usual_names_are_found(demo, working_directory):
    notebook = Notebook(exposure=demo.exposure, history=demo.history)
    same(notebook.table("records"), demo.exposure.records())
    same(notebook.table("runs"), demo.history.runs())


def test_a_variable_of_another_name_is_used_when_named(demo, working_directory):
    notebook = Notebook(mine=demo)
    notebook("%exposure use mine")
    same(notebook.table("users"), demo.exposure.users())
    same(notebook.table("runs"), demo.history.runs())
    del notebook.names["mine"]
    with pytest.raises(UsageError, match="no longer exists"):
        notebook("%exposure users")


def test_without_an_exposure_a_history_answers(demo, working_directory):
    notebook = Notebook(history=demo.history)
    same(notebook.table("records"), demo.history.records())


def test_without_either_the_environment_says_where(demo, working_directory, monkeypatch):
    for name, value in demo.connection.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)
    notebook = Notebook()
    assert len(notebook.table("users")) == 3
    assert notebook.table("connect").client.config.base_url == demo.connection["base_url"]


def test_a_file_of_settings_does_as_well(demo, working_directory):
    lines = [f"EXPOSUREKIT_{name.upper()}={value}" for name, value in demo.connection.items()]
    (working_directory / ".env").write_text("\n".join(lines))
    assert len(Notebook().table("users")) == 3


def test_what_was_connected_last_counts(demo, working_directory, monkeypatch):
    for name, value in demo.connection.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)
    notebook = Notebook(demo=demo)
    connected = notebook.table("connect")
    assert connected is not demo.exposure
    notebook("%exposure users")
    assert connected.is_loaded
    assert notebook.table("use demo") is demo
    assert notebook.table("refresh") is demo.exposure


def test_a_history_is_begun_in_a_directory_and_read_there(notebook, demo, working_directory):
    run = notebook.table("collect --history kept --run monday")
    assert (run.run, run.failed) == ("monday", 0)
    assert notebook.table("runs --history kept")["run"].tolist() == ["monday"]
    table = notebook.table("records --history kept")
    assert len(table) == len(demo.exposure.records())
    assert "left_censored" in table


# --- help, and coming and going -----------------------------------------------------------------------


@pytest.mark.parametrize("line", ["%exposure", "%exposure --help", "%exposure -h"])
def test_the_help_lists_the_verbs(notebook, capsys, line):
    assert notebook(line) is None
    out = capsys.readouterr().out
    assert [verb for verb in VERBS if f"  {verb} " not in out] == []


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_lists_its_options(notebook, capsys, verb):
    assert notebook(f"%exposure {verb} --help") is None
    out = capsys.readouterr().out
    assert VERBS[verb].help in out
    assert [name for name in VERBS[verb].options if f"  --{name}" not in out] == []


def test_it_comes_once_and_goes(notebook):
    notebook("%reload_ext exposurekit")
    assert len([line for line in notebook.completed("%exposure by-s") if line.endswith("by-site")]) == 1
    notebook("%unload_ext exposurekit")
    assert notebook.completed("%exposure by-s") != ["%exposure by-site", "%exposure by-state"]
    with pytest.raises(UsageError, match="not found"):
        notebook("%exposure records")
