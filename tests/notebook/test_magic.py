"""``%exposure`` in IPython on a demo: tables, charts, selections, connections and help."""

import shlex

import pandas as pd
import pytest
from IPython.core.error import UsageError
from support.ipython import Notebook

import exposurekit as ek
from exposurekit import analysis, charts
from exposurekit.notebook.commands import verbs
from exposurekit.questions import QUESTIONS

VERBS = verbs()
OF_EXPOSURE = ("users", "records", "links", "alerts", "steps", "failures")


def same(table, expected):
    pd.testing.assert_frame_equal(table, expected)


@pytest.mark.parametrize("verb", OF_EXPOSURE)
def test_a_table_is_the_one_of_the_exposure(notebook, demo, verb):
    same(notebook.table(verb), demo.exposure[verb])


def test_a_question_uses_the_exposure_or_the_history(notebook, demo):
    history = demo.history.pinned()
    day = f"{history.runs()['finished_at'].iloc[0]:%Y-%m-%dT%H:%MZ}"
    for question in QUESTIONS.values():
        verb = question.name.replace("_", "-")
        since = {"since": day} if question.required else {}
        line = f"{verb} --since {day}" if since else verb
        table = notebook.table(line)
        if question.inputs:
            tables = {name: demo.exposure[name] for name in question.inputs}
            if "steps" in tables:
                tables["steps"] = history.with_ticks(tables["steps"])
            same(table, question.answer(tables.__getitem__))
        else:
            names = {"exposure": demo.exposure} if question.takes_exposure else {}
            same(table, question.ask(history, **since, **names))
        if "chart" in VERBS[verb].options:
            drawn = notebook.table(f"{line} --chart")
            assert isinstance(drawn, charts.Chart)
            assert charts.describe(drawn) == charts.describe(getattr(charts, question.name)(table))


def test_runs_are_those_of_the_history(notebook, demo):
    same(notebook.table("runs"), demo.history.runs())


def test_a_line_returns_a_table_unless_a_semicolon_follows(notebook, demo):
    same(notebook("%exposure records"), demo.exposure.records())
    assert notebook("%exposure records;") is None


def test_site_status_and_user_select_rows_in_any_case(notebook, demo):
    records = demo.exposure.records()
    first = records.iloc[0]
    for option, column in (("site", "site"), ("status", "status"), ("user", "user_id")):
        table = notebook.table(f"records --{option} {shlex.quote(str(first[column]).upper())}")
        same(table, records[records[column] == first[column]].reset_index(drop=True))


def test_underscores_and_by_are_accepted_as_in_python(notebook, demo):
    same(notebook.table("by_site"), notebook.table("by-site"))
    by_week = demo.history.status_over_time(by="site", every="week")
    same(notebook.table("status_over_time --by site --every week"), by_week)
    day = f"{demo.history.runs()['finished_at'].iloc[-1]:%Y-%m-%d}"
    same(notebook.table(f"records --as_of {day}"), demo.history.records(as_of=day))


def test_a_user_may_be_named_for_tables_and_for_histories(notebook, demo):
    user = demo.exposure.users().iloc[0]
    name = shlex.quote(f"{user['first_name']} {user['last_name']}")
    same(notebook.table(f"records --user {name}"), demo.exposure.records(int(user["user_id"])))
    over_time = demo.history.status_over_time(user=int(user["user_id"]))
    same(notebook.table(f"status-over-time --user {name}"), over_time)
    notebook.table(f"by-site --user {name} --chart")
    provenance = notebook.names["table"].layout.meta["provenance"]
    assert provenance == f"{demo.exposure.provenance} · user {user['user_id']}"


def test_repeated_options_select_either_and_different_ones_both(notebook, demo):
    records = demo.exposure.records()
    one, two = records["site"].unique()[:2]
    table = notebook.table(f"records --site '{one}' --site '{two}' --status discovered")
    expected = records[records["site"].isin([one, two]) & (records["status"] == "discovered")]
    same(table, expected.reset_index(drop=True))


def test_a_question_uses_the_selected_rows(notebook, demo):
    user = int(demo.exposure.users()["user_id"].iloc[0])
    same(notebook.table(f"by-site --user {user}"), analysis.by_site(demo.exposure.records(user)))


def test_an_unknown_site_warns_and_names_the_nearest(notebook, demo, capsys):
    """An empty table of a misspelt site must not read as a clean one."""
    site = demo.exposure.records()["site"].iloc[0]
    assert len(notebook.table(f"records --site '{site}x'")) == 0
    assert f" Did you mean {site!r}?" in capsys.readouterr().err


def test_a_status_without_rows_gives_no_warning(notebook, demo, capsys):
    demo.exposure.records()
    assert len(notebook.table("records --status vanished")) == 0
    assert capsys.readouterr().err == ""


def test_counts_over_time_by_site_and_week(notebook, demo):
    table = notebook.table("status-over-time --group-by site --every week --kind record")
    same(table, demo.history.status_over_time(by="site", every="week"))


def test_counts_over_time_of_one_site_and_its_chart(notebook, demo):
    site = demo.history.records()["site"].iloc[0]
    line = f"status-over-time --site {shlex.quote(site.lower())}"
    same(notebook.table(line), demo.history.status_over_time(site=site))
    provenance = notebook.table(f"{line} --chart").layout.meta["provenance"]
    assert provenance == f"{demo.history.provenance} · {site}"


def test_a_table_as_of_a_day_comes_from_the_history(notebook, demo):
    day = f"{demo.history.runs()['finished_at'].iloc[-1]:%Y-%m-%d}"
    same(notebook.table(f"records --as-of {day}"), demo.history.records(as_of=day))


def test_the_work_queue_has_the_ticks_of_the_history(notebook, demo):
    steps = demo.exposure.steps()
    assert demo.history.tick(steps.head(1)) == 1
    same(notebook.table("work-queue"), analysis.work_queue(demo.history.with_ticks(steps)))
    assert notebook.table("work-queue")["done"].sum() == 1


def test_a_chart_states_its_source_and_selection(notebook, demo):
    notebook.table("by-site --status discovered --chart")
    provenance = notebook.names["table"].layout.meta["provenance"]
    assert provenance == f"{demo.exposure.provenance} · status discovered"
    notebook.table("coverage --chart")
    assert notebook.names["table"].layout.meta["provenance"] == demo.history.provenance


def test_variables_of_the_usual_names_are_used(demo, working_directory):
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


def test_the_only_variable_of_a_type_is_used(demo, working_directory, monkeypatch):
    monkeypatch.setenv("EXPOSUREKIT_HISTORY", "nowhere")
    notebook = Notebook(exp=demo.exposure, hist=demo.history, number=7)
    notebook.names["again"] = notebook.names["exp"]  # another name for the same one
    same(notebook.table("records"), demo.exposure.records())
    same(notebook.table("runs"), demo.history.runs())


def test_of_several_variables_one_must_be_chosen(demo, working_directory):
    second = ek.connect(**demo.connection)
    with ek.History("other") as other:
        notebook = Notebook(exp=demo.exposure, exp2=second, hist=demo.history, old=other)
        with pytest.raises(
            UsageError, match=r"several variables of type Exposure \(exp, exp2\): choose one with %exp"
        ):
            notebook("%exposure records")
        with pytest.raises(UsageError, match=r"several variables of type History \(hist, old\)"):
            notebook("%exposure runs")
        assert "--help" in "".join(notebook.completed("%exposure records --"))
        notebook("%exposure use exp")
        notebook("%exposure use hist")
        same(notebook.table("records"), demo.exposure.records())
        same(notebook.table("runs"), demo.history.runs())


def test_without_an_exposure_a_history_answers(demo, working_directory, capsys):
    notebook = Notebook(history=demo.history)
    same(notebook.table("records"), demo.history.records())
    assert capsys.readouterr().err == f"Source: {demo.history.provenance}\n"
    notebook.table("records --as-of today")  # which asks for a history
    assert capsys.readouterr().err == ""


def test_a_plan_has_the_names_of_a_loaded_exposure(notebook, demo):
    demo.exposure.users()
    same(notebook.table("plan --minutes 20"), demo.history.plan(20, exposure=demo.exposure))
    same(notebook.table("failed_removals"), demo.history.failed_removals())


def test_without_variables_settings_are_used(demo, working_directory, monkeypatch):
    lines = [f"EXPOSUREKIT_{name.upper()}={value}" for name, value in demo.connection.items()]
    (working_directory / ".env").write_text("\n".join(lines))
    assert len(Notebook().table("users")) == 3
    (working_directory / ".env").unlink()
    for name, value in demo.connection.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)
    notebook = Notebook()
    assert len(notebook.table("users")) == 3
    assert notebook.table("connect").client.config.base_url == demo.connection["base_url"]


def test_without_a_variable_the_history_of_the_environment_is_used(demo, working_directory, monkeypatch):
    notebook = Notebook(exposure=demo.exposure)
    notebook.table("collect --history other --run monday")
    monkeypatch.setenv("EXPOSUREKIT_HISTORY", "other")
    assert notebook.table("runs")["run"].tolist() == ["monday"]
    assert notebook.table("collect --run tuesday").run == "tuesday"
    with ek.History() as history:
        assert history.runs()["run"].tolist() == ["monday", "tuesday"]
        assert history.tick(history.steps().head(1)) == 1
    assert notebook.table("work-queue")["done"].sum() == 1
    same(Notebook(demo=demo).table("runs"), demo.history.runs())


def test_the_latest_connection_is_used(demo, working_directory, monkeypatch):
    for name, value in demo.connection.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)
    notebook = Notebook(demo=demo)
    connected = notebook.table("connect")
    assert connected is not demo.exposure
    notebook("%exposure users")
    assert connected.is_loaded
    assert notebook.table("use demo") is demo
    assert notebook.table("refresh") is demo.exposure


def test_a_history_is_created_and_read_in_a_directory(notebook, demo, working_directory):
    run = notebook.table("collect --history new --run monday")
    assert (run.run, run.failed) == ("monday", 0)
    assert notebook.table("runs --history new")["run"].tolist() == ["monday"]
    table = notebook.table("records --history new")
    assert len(table) == len(demo.exposure.records())
    assert "left_censored" in table


def test_the_help_lists_the_verbs_and_their_options(notebook, capsys):
    for line in ("%exposure", "%exposure --help", "%exposure -h"):
        assert notebook(line) is None
        out = capsys.readouterr().out
        assert [verb for verb in VERBS if f"  {verb} " not in out] == []
    for verb, command in VERBS.items():
        assert notebook(f"%exposure {verb} --help") is None
        out = capsys.readouterr().out
        assert command.help in out
        assert [name for name in command.options if f"  --{name}" not in out] == []


def test_the_extension_reloads_and_unloads(notebook):
    notebook("%reload_ext exposurekit")
    assert len([line for line in notebook.completed("%exposure by-s") if line.endswith("by-site")]) == 1
    notebook("%unload_ext exposurekit")
    assert notebook.completed("%exposure by-s") != ["%exposure by-site", "%exposure by-state"]
    with pytest.raises(UsageError, match="not found"):
        notebook("%exposure records")
