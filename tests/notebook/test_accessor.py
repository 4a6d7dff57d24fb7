"""``frame.exposure``: the questions on a table, and a copy without personal data."""

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
# Values of the person on file.
PERSONAL = ("canar", "odalys", "wren", "fennimoor", "503555", "fir way", "tall pines", "01234", "1979-06")


@pytest.fixture(scope="module")
def tables_source(tmp_path_factory):
    """An exposure, and its history with a label and a note."""
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


WITH_INPUTS = [question for question in QUESTIONS.values() if question.inputs]
INPUT = {question.name: question.inputs[0] for question in WITH_INPUTS if len(question.inputs) == 1}


@pytest.mark.parametrize("question", WITH_INPUTS, ids=lambda question: question.name)
def test_a_question_and_its_chart_are_those_of_the_analysis(exposure, question):
    table, *rest = (exposure[name] for name in question.inputs)
    answer = getattr(table.exposure, question.name)(*rest)
    pd.testing.assert_frame_equal(answer, question.analysis(table, *rest))
    drawn = table.exposure.chart(question.name, *rest, provenance="here")
    assert drawn.to_plotly_json() == question.draw(answer, provenance="here").to_plotly_json()


def test_steps_of_alerts_equal_those_of_the_exposure(exposure):
    some = exposure.alerts().head(1)
    expected = exposure.steps()[lambda steps: steps["alert_number"] == 0]
    pd.testing.assert_frame_equal(some.exposure.steps(), expected.reset_index(drop=True))


def test_questions_work_on_tables_of_a_history(history):
    assert history.records().exposure.by_site()["site"].tolist() == ["Lookup", "Otherwise"]
    assert len(history.steps().exposure.work_queue()) == len(history.work_queue())


@pytest.mark.parametrize("question", [*INPUT, "steps"])
def test_a_wrong_table_raises_an_error_naming_the_right(exposure, question):
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


def test_the_answer_of_a_question_can_be_drawn(exposure, history):
    answer = exposure.records().exposure.by_site()
    assert answer.exposure.chart("by_site").to_plotly_json() == charts.by_site(answer).to_plotly_json()
    assert isinstance(history.time_to_removal().exposure.chart("time_to_removal"), charts.Chart)
    with pytest.raises(MissingColumns, match=r"pass history\.forecast\(\)"):
        answer.exposure.chart("forecast")


@pytest.mark.parametrize("question", ["redact", "__init__", "chart", "describe", "by-site", ""])
def test_an_unknown_chart_raises_an_error_naming_all(exposure, question):
    with pytest.raises(InvalidArgument, match="question is one of: by_site, by_user"):
        exposure.records().exposure.chart(question)


def test_an_error_names_the_nearest_question(exposure):
    with pytest.raises(InvalidArgument, match=r"; did you mean by_site\?"):
        exposure.records().exposure.chart("by_sit")


def test_its_repr_lists_its_methods(exposure):
    text = repr(exposure.records().exposure)
    assert {"by_site", "steps", "chart", "redact"} <= {*text.replace(",", "").split()}
    assert "\n" not in text
    assert " at 0x" not in text


def text_of(table):
    """Return the whole text of a table, with its index, categories and attributes."""
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
    of_analysis = {
        "by_site": analysis.by_site(exposure.records()),
        "by_state": analysis.by_state(exposure.records()),
        "user_by_site": analysis.user_by_site(exposure.records()),
        "work_queue": history.work_queue(),
        "by host": history.by_site(kind="link"),
        "links over time": history.status_over_time(by="site", kind="link"),
        "moved": history.diff(since, kind="link").changes,
    }
    return of_exposure | of_history | of_analysis


def test_redacted_tables_have_nothing_personal(exposure, history):
    tables = everything(exposure, history)
    for name, table in tables.items():
        text = text_of(redacted(table))
        assert [canary for canary in PERSONAL if canary in text] == [], name
    for name in ("records", "links", "alerts", "steps", "users", "emails", "addresses"):
        assert any(canary in text_of(tables[f"exposure, {name}"]) for canary in PERSONAL), name
    for name in ("history, labels", "history, notes", "by host"):
        assert any(canary in text_of(tables[name]) for canary in PERSONAL), name


def test_redaction_retains_counts_and_ids(exposure, history):
    redacted_records = exposure.records().exposure.redact()
    columns = ["site", "status", "user_id", "user_fields_required_for_removal", "record_id"]
    assert redacted_records.columns.tolist() == columns
    pd.testing.assert_frame_equal(redacted_records.exposure.by_site(), exposure.records().exposure.by_site())
    assert history.status_over_time().exposure.redact().equals(history.status_over_time())
    for table in (exposure.failures(), history.coverage(), history.time_to_removal(), history.forecast()):
        assert {*table} - {*table.exposure.redact()} <= {"reason"}
    assert exposure.records().exposure.by_state().exposure.redact().columns.tolist()[0] == "state"
    assert "state" not in exposure.addresses().exposure.redact()


def test_redaction_does_not_change_the_table(exposure):
    records = exposure.records()
    before = records.copy()
    redacted_records = records.exposure.redact()
    redacted_records.loc[0, "user_id"] = 999
    pd.testing.assert_frame_equal(records, before)


def test_redaction_retains_rows_and_their_order(exposure):
    shuffled = exposure.records().sort_values("record_id", ascending=False)
    assert shuffled.exposure.redact()["record_id"].tolist() == shuffled["record_id"].tolist()


def test_an_unknown_column_is_removed(exposure):
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
@pytest.mark.parametrize("has_name", [True, False])
def test_a_personal_index_is_removed(exposure, index, has_name):
    indexed = exposure.records().set_index(index)
    if not has_name:
        indexed.index.names = [None] * indexed.index.nlevels
    answer = indexed.exposure.redact()
    assert "canar" not in text_of(answer)
    assert not has_name or answer.index.equals(pd.RangeIndex(len(answer)))


def test_an_index_with_an_allowed_name_is_retained(exposure):
    assert exposure.records().set_index("record_id").exposure.redact().index.name == "record_id"
    assert exposure.records().exposure.user_by_site().exposure.redact().index.name == "user_id"


def test_attributes_of_a_table_are_removed_except_numbers(exposure, history):
    for table in (exposure.records(), exposure.records().exposure.user_by_site()):
        table.attrs["of"] = "Canary"
        assert table.exposure.redact().attrs == {}
    forecast = history.forecast()
    assert forecast.exposure.redact().attrs == {"level": 0.95, "past": forecast.attrs["past"]}
    forecast.attrs["past"] = [(-1.0, "Canary")]
    assert forecast.exposure.redact().attrs == {"level": 0.95}


def test_categories_of_other_rows_are_removed(exposure):
    one = exposure.records()[lambda records: records["site"] == "Otherwise"]
    assert one.exposure.redact()["site"].cat.categories.tolist() == ["Otherwise"]


def test_an_empty_table_retains_its_dtypes(exposure):
    redacted_records = exposure.records().head(0).exposure.redact()
    assert str(redacted_records["user_id"].dtype) == "int64"
    assert len(redacted_records) == 0


def test_an_allowed_name_has_one_kind_of_values():
    assert set() == NUMBERS & INSTANTS
    assert {"status"} == NUMBERS & WORDS  # of a listing, and of an answer over HTTP
    assert not {"name", "birth_date", "age", "key", "url", "address", "number", "zip"} & (
        NUMBERS | INSTANTS | WORDS
    )


WAYS = {
    "an exposure": "import exposurekit as ek; ek.Exposure; import pandas as pd",
    "pandas first": "import pandas as pd; import exposurekit",
    "a subpackage": "from exposurekit import analysis; import pandas as pd",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_accessor_is_registered_with_the_package(way):
    heavy = "[n for n in ('plotly', 'httpx', 'pydantic') if n in sys.modules]"
    columns = "pd.DataFrame({'n': [1], 'x': ['y']}).exposure.redact().columns.tolist()"
    code = f"import sys; {WAYS[way]}; print({heavy if way == 'pandas first' else []}, {columns})"
    completed = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True
    )
    assert completed.stdout.strip() == "[] ['n']"


def test_a_column_named_exposure_is_accessible():
    table = pd.DataFrame({"exposure": [1, 2]})
    assert table["exposure"].tolist() == [1, 2]
    assert accessor.ExposureAccessor is type(table.exposure)


def test_a_site_named_like_a_person_is_redacted(exposure):
    records = exposure.records()
    name = records["name"].iloc[0]
    with pytest.raises(ek.errors.Leak, match="name") as refused:
        records.assign(site=f"{name} Finder").exposure.redact()
    assert name not in str(refused.value)


def test_misspelt_question_suggests_its_name(exposure):
    with pytest.raises(AttributeError) as error:
        exposure.records().exposure.by_sites()
    assert str(error.value) == "df.exposure has no 'by_sites'; did you mean by_site?"
