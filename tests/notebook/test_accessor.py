"""``frame.exposure``: the questions on a table in hand, and a copy of it that holds nothing personal."""

import subprocess
import sys

import pandas as pd
import pytest
from support.histories import Clock, Person, Service, a_link, a_record, an_alert, seen_through

import exposurekit as ek
from exposurekit import analysis, charts
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.history import History
from exposurekit.notebook import accessor
from exposurekit.privacy.redaction import INSTANTS, NUMBERS, WORDS, redacted
from exposurekit.questions import QUESTIONS

CANARY = {
    "name": "Canaria Listed",
    "href": "https://canary.example/listed",
    "relations": ["Canary Relation"],
    "aliases": ["Canary Otherwise"],
    "locations": ["Canarytown, CA"],
    "reference_id": "canary-000123",
    "age": 97,
}
ARGUMENTS = {
    "alerts": {"text": "Canary text", "guide": "Canary guide", "opt_out_procedure": ["Open canary.example"]}
}
# The one person of these tests' service, as it has them in every answer.
PERSONAL = ("canar", "odalys", "wren", "fennimoor", "503555", "fir way", "tall pines", "01234", "1979-06")


@pytest.fixture(scope="module")
def tables_source(tmp_path_factory):
    """An exposure of a service of two people, and a history of it with marks."""
    service = Service()
    record = a_record(7, site="Lookup", **CANARY)
    link = a_link("https://canary.example/page", "Canary Title")
    alerts = [
        an_alert("Canary text", record) | ARGUMENTS["alerts"],
        an_alert("Canary text", link) | ARGUMENTS["alerts"],
    ]
    service.people[1] = Person([record, a_record(8, "removed", "Otherwise")], [link], alerts)
    path = tmp_path_factory.mktemp("accessor") / "history"
    with seen_through(service) as exposure, History(path, clock=Clock()) as history:
        history.collect(exposure)
        history.label(history.records().iloc[0], "not mine", reason="Canary reason")
        history.note(history.records().iloc[0], "Canary note")
        yield exposure, history


@pytest.fixture(scope="module")
def exposure(tables_source):
    return tables_source[0]


@pytest.fixture(scope="module")
def history(tables_source):
    return tables_source[1]


# --- questions ----------------------------------------------------------------------------------------

WITH_INPUTS = [question for question in QUESTIONS.values() if question.inputs]
INPUT = {question.name: question.inputs[0] for question in WITH_INPUTS if len(question.inputs) == 1}


@pytest.mark.parametrize("question", WITH_INPUTS, ids=lambda question: question.name)
def test_a_question_and_its_chart_are_those_of_the_analysis(exposure, question):
    table, *rest = (exposure[name] for name in question.inputs)
    answer = getattr(table.exposure, question.name)(*rest)
    pd.testing.assert_frame_equal(answer, question.analysis(table, *rest))
    drawn = table.exposure.chart(question.name, *rest, provenance="here")
    assert drawn.to_plotly_json() == question.draw(answer, provenance="here").to_plotly_json()


def test_the_steps_of_some_alerts(exposure):
    some = exposure.alerts().head(1)
    expected = exposure.steps()[lambda steps: steps["alert_number"] == 0]
    pd.testing.assert_frame_equal(some.exposure.steps(), expected.reset_index(drop=True))


def test_tables_of_a_history_answer_too(history):
    assert history.records().exposure.by_site()["site"].tolist() == ["Lookup", "Otherwise"]
    assert len(history.steps().exposure.work_queue()) == len(history.work_queue())


@pytest.mark.parametrize("question", [*INPUT, "steps"])
def test_another_table_is_told_which_one_to_take(exposure, question):
    taken = INPUT.get(question, "alerts")
    with pytest.raises(
        MissingColumns, match=rf"df\.exposure\.{question}\(\) needs {taken}\(\) of an Exposure or a"
    ):
        getattr(exposure.failures().exposure, question)()


def test_a_missing_column_is_named(exposure):
    with pytest.raises(MissingColumns) as lacking:
        exposure.records().drop(columns="status").exposure.by_site()
    assert lacking.value.missing == ("status",)
    assert lacking.value.__cause__ is None


def test_other_arguments_of_a_question_are_passed_on():
    required = {
        "user_id": [1, 2],
        "site": "Lookup",
        "status": "discovered",
        "user_fields_required_for_removal": [["zip"], ["email"]],
    }
    records, on_file = pd.DataFrame(required), pd.DataFrame({"user_id": [], "field": []})
    answer = analysis.best_next_fields(records, on_file, asks=1)
    assert len(answer) < len(analysis.best_next_fields(records, on_file))
    drawn = records.exposure.chart("best_next_fields", on_file, asks=1)
    assert drawn.to_plotly_json() == charts.best_next_fields(answer).to_plotly_json()


def test_a_table_that_is_an_answer_is_drawn(exposure, history):
    answer = exposure.records().exposure.by_site()
    assert answer.exposure.chart("by_site").to_plotly_json() == charts.by_site(answer).to_plotly_json()
    assert isinstance(history.time_to_removal().exposure.chart("time_to_removal"), charts.Chart)
    with pytest.raises(MissingColumns, match=r"pass history\.forecast\(\)"):
        answer.exposure.chart("forecast")


@pytest.mark.parametrize("question", ["redact", "__init__", "chart", "describe", "by-site", ""])
def test_what_is_no_chart_is_told_which_there_are(exposure, question):
    with pytest.raises(InvalidArgument, match="takes one of: by_site, by_user"):
        exposure.records().exposure.chart(question)


# --- redacted -----------------------------------------------------------------------------------------


def text_of(table):
    """All that a table holds, its index, its categories and its notes included."""
    categories = [
        str(table[name].cat.categories.tolist()) for name in table if table[name].dtype == "category"
    ]
    texts = [
        table.reset_index().to_json(date_format="iso"),
        str(table.attrs),
        str(table.index.name),
        *categories,
    ]
    return "".join(texts).lower()


def everything(exposure, history):
    of_exposure = {f"exposure, {name}": exposure[name] for name in exposure.keyed}
    of_history = {f"history, {name}": history[name] for name in history.keyed}
    since = history.runs()["finished_at"].iloc[0]
    annotated_tables = {
        "by_site": analysis.by_site(exposure.records()),
        "by_state": analysis.by_state(exposure.records()),
        "user_by_site": analysis.user_by_site(exposure.records()),
        "work_queue": history.work_queue(),
        "by host": history.by_site(kind="link"),
        "links over time": history.status_over_time(by="site", kind="link"),
        "moved": history.diff(since, kind="link").changes,
    }
    return of_exposure | of_history | annotated_tables


def test_nothing_personal_is_left_in_any_table(exposure, history):
    for name, table in everything(exposure, history).items():
        text = text_of(redacted(table))
        assert [canary for canary in PERSONAL if canary in text] == [], name


def test_it_was_there_to_be_found(exposure, history):
    """Else the test before could not fail."""
    tables = everything(exposure, history)
    for name in ("exposure, records", "exposure, links", "exposure, alerts", "exposure, steps", "by host"):
        assert "canar" in text_of(tables[name]), name
    for name in (
        "exposure, users",
        "exposure, emails",
        "exposure, addresses",
        "history, labels",
        "history, notes",
    ):
        assert any(canary in text_of(tables[name]) for canary in PERSONAL), name


def test_what_an_analyst_counts_with_is_left(exposure, history):
    redacted_records = exposure.records().exposure.redact()
    assert redacted_records.columns.tolist() == [
        "site",
        "status",
        "user_id",
        "user_fields_required_for_removal",
        "record_id",
    ]
    pd.testing.assert_frame_equal(redacted_records.exposure.by_site(), exposure.records().exposure.by_site())
    assert history.status_over_time().exposure.redact().equals(history.status_over_time())
    for table in (exposure.failures(), history.coverage(), history.time_to_removal(), history.forecast()):
        assert {*table} - {*table.exposure.redact()} <= {"reason"}
    assert exposure.records().exposure.by_state().exposure.redact().columns.tolist()[0] == "state"
    assert "state" not in exposure.addresses().exposure.redact()


def test_the_table_itself_is_left_as_it_is(exposure):
    records = exposure.records()
    before = records.copy()
    redacted_records = records.exposure.redact()
    redacted_records.loc[0, "user_id"] = 999
    pd.testing.assert_frame_equal(records, before)


def test_rows_and_their_order_stay(exposure):
    shuffled = exposure.records().sort_values("record_id", ascending=False)
    assert shuffled.exposure.redact()["record_id"].tolist() == shuffled["record_id"].tolist()


def test_a_column_that_is_not_known_goes(exposure):
    """An allow-list: what somebody adds tomorrow is not shown by mistake."""
    added = exposure.records().assign(comment="Canary", credit=1.5, born=pd.Timestamp("1961-04-12"))
    assert {"comment", "credit", "born"} & {*added.exposure.redact()} == set()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("links", ["https://canary.example"]),
        ("total", ["Canary"]),
        ("user_id", ["canary@mail.example"]),
        ("at", ["Canarytown"]),
        ("site", [5550101234]),
        ("occurred_at", [19610412]),
        ("status", [pd.Timestamp("1961-04-12")]),
        (0, ["Canary"]),
        (("site", "name"), ["Canary"]),
    ],
)
def test_a_column_name_counts_only_with_fitting_values(name, values):
    table = pd.DataFrame({"n": [1]})
    table[name] = pd.Series(values)
    assert redacted(table).columns.tolist() == ["n"]


@pytest.mark.parametrize("index", ["name", ["site", "name"], ["user_id", "href"]], ids=str)
def test_an_index_that_is_not_known_goes(exposure, index):
    redacted_records = exposure.records().set_index(index).exposure.redact()
    assert redacted_records.index.equals(pd.RangeIndex(len(redacted_records)))


def test_an_index_that_is_known_stays(exposure):
    assert exposure.records().set_index("record_id").exposure.redact().index.name == "record_id"
    assert exposure.records().exposure.user_by_site().exposure.redact().index.name == "user_id"


def test_an_index_without_a_name_that_holds_words_goes(exposure):
    records = exposure.records().set_index("name").rename_axis(index=None)
    assert "canar" not in text_of(records.exposure.redact())


def test_what_is_noted_of_a_table_goes(exposure):
    for table in (exposure.records(), exposure.records().exposure.user_by_site()):
        table.attrs["of"] = "Canary"
        assert table.exposure.redact().attrs == {}


def test_the_level_of_intervals_stays(history):
    assert history.forecast().exposure.redact().attrs == {"level": 0.95}


def test_the_categories_of_other_rows_go(exposure):
    one = exposure.records()[lambda records: records["site"] == "Otherwise"]
    assert one.exposure.redact()["site"].cat.categories.tolist() == ["Otherwise"]


def test_an_empty_table_keeps_its_dtypes(exposure):
    redacted_records = exposure.records().head(0).exposure.redact()
    assert str(redacted_records["user_id"].dtype) == "int64"
    assert len(redacted_records) == 0


def test_a_name_stands_for_one_sort_of_thing():
    assert set() == NUMBERS & INSTANTS
    assert {"status"} == NUMBERS & WORDS  # of a listing, and of an answer over HTTP
    assert not {"name", "birth_date", "age", "key", "url", "address", "number", "zip"} & (
        NUMBERS | INSTANTS | WORDS
    )


# --- where it comes from ------------------------------------------------------------------------------

WAYS = {
    "an exposure": "import exposurekit as ek; ek.Exposure; import pandas as pd",
    "pandas first": "import pandas as pd; import exposurekit",
    "a room": "from exposurekit import analysis; import pandas as pd",
    "by name": "import exposurekit.notebook.accessor; import pandas as pd",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_accessor_exists_as_soon_as_our_tables_can(way):
    code = f"{WAYS[way]}; print(pd.DataFrame({{'n': [1], 'x': ['y']}}).exposure.redact().columns.tolist())"
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True
    )
    assert completed.stdout.strip() == "['n']"


def test_it_brings_no_charts_and_no_client_along():
    code = "import pandas, sys, exposurekit; print([n for n in ('plotly', 'httpx', 'pydantic') if n in sys.modules])"
    completed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert completed.stdout.strip() == "[]"


def test_a_column_of_that_name_is_still_there():
    table = pd.DataFrame({"exposure": [1, 2]})
    assert table["exposure"].tolist() == [1, 2]
    assert accessor.ExposureAccessor is type(table.exposure)


def test_a_site_named_like_a_person_is_redacted(exposure):
    records = exposure.records()
    name = records["name"].iloc[0]
    with pytest.raises(ek.errors.Leak, match="name") as refused:
        records.assign(site=f"{name} Finder").exposure.redact()
    assert name not in str(refused.value)
