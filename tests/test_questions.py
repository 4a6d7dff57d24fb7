"""The table of questions: every interface offers each entry, including a new one."""

import itertools

import pandas as pd
import pytest
from support.demos import small_demo

import exposurekit as ek
from exposurekit.charts import Chart
from exposurekit.charts.theme import chart
from exposurekit.cli.main import run
from exposurekit.errors import MissingColumns
from exposurekit.notebook.commands import run_command
from exposurekit.notebook.namespace import NotebookContext
from exposurekit.questions import QUESTIONS, Question
from exposurekit.widgets import Dashboard


@pytest.fixture(scope="module")
def demo():
    return small_demo()


def by_page(records):
    """How many listings have a page of their own."""
    return pd.DataFrame({"user_id": [1], "listings": [int(records["href"].notna().sum())]})


def draw_by_page(table, *, provenance=""):
    MissingColumns.check("by_page", table, ("listings",))
    n = table["listings"].iloc[0]
    return chart([], finding=f"{n} listings have a page", summary=f"{n} listings.", provenance=provenance)


@pytest.fixture
def new_question(monkeypatch):
    question = Question(
        *("by_page", "Listings with a page", "Exposure", ("records",), ("as_of",)),
        function=by_page,
        chart=draw_by_page,
    )
    monkeypatch.setitem(QUESTIONS, question.name, question)
    return question


@pytest.mark.usefixtures("new_question")
def test_a_new_question_is_a_method_of_a_table(demo):
    records = demo.exposure.records()
    assert "by_page" in dir(records.exposure)
    pd.testing.assert_frame_equal(records.exposure.by_page(), by_page(records))
    assert isinstance(records.exposure.chart("by_page"), Chart)


@pytest.mark.usefixtures("new_question")
def test_a_new_question_is_a_verb_of_the_magic(demo):
    context = NotebookContext(lambda: {"demo": demo})
    records = demo.exposure.records()
    pd.testing.assert_frame_equal(run_command(context, "by-page"), by_page(records))
    site = records["site"].iloc[0]
    drawn = run_command(context, f"by-page --site '{site}' --chart")
    assert drawn.layout.meta["finding"].startswith(f"{(records['site'] == site).sum()} ")
    assert f"site {site}" in drawn.layout.meta["provenance"]


@pytest.mark.usefixtures("new_question")
def test_a_new_question_is_exported(demo, tmp_path):
    file = tmp_path / "pages.csv"
    assert run(["export", "by_page", "--history", demo.history.path, "--out", str(file)]) == 0
    assert pd.read_csv(file)["user_id"].tolist() == [1]


@pytest.mark.usefixtures("new_question")
def test_a_new_question_is_a_choice_of_the_dashboard(demo):
    dashboard = Dashboard(demo.exposure, demo.history)
    dashboard.ask("by_page")
    assert "listings have a page" in dashboard.to_html()


@pytest.mark.usefixtures("new_question")
def test_a_new_question_is_a_section_of_a_report(demo):
    [section] = ek.report(demo.history, sections=["by_page"]).sections
    assert section.title == "Listings with a page"
    assert "listings have a page" in section.finding


def test_each_group_of_questions_is_in_one_part():
    groups = [question.group for question in QUESTIONS.values()]
    assert [group for group, _ in itertools.groupby(groups)] == [*dict.fromkeys(groups)]
    assert len({*groups}) == 5
    assert all(groups)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_has_a_table_and_a_chart(demo, name):
    question = QUESTIONS[name]
    options = {"since": "1d"} if question.required else {}
    if question.needs_exposure:
        answer = question.answer(demo.exposure.__getitem__)
    else:
        answer = question.ask(demo.history, **options)
    assert {*question.columns} <= {*answer.columns}
    if question.has_chart:
        assert isinstance(question.draw(answer), Chart)


@pytest.mark.parametrize("name", [name for name, one in QUESTIONS.items() if one.inputs])
def test_exposure_and_history_tables_give_the_same_columns(demo, name):
    question = QUESTIONS[name]
    table = question.answer(demo.exposure.__getitem__)
    if not question.needs_exposure:
        same = [column for column in question.ask(demo.history) if column in table]
        assert same
        assert {*table.columns} - {*same} <= {"people", "person", "form_values"}


def test_a_missing_or_superfluous_time_is_an_error(demo, tmp_path, capsys):
    words = ["export", "changes", "--history", demo.history.path, "--out", str(tmp_path / "t.csv")]
    assert run(words) == 2
    assert "changes needs --since, such as --since 14d" in capsys.readouterr().err
    assert run([*words, "--since", "1d"]) == 0
    assert run([*words[:1], "records", *words[2:], "--since", "1d"]) == 2
    assert "records does not take --since" in capsys.readouterr().err
