"""What every chart guarantees: a finding, escaped text, and no need of colour."""

import inspect
import json

import numpy as np
import plotly.graph_objects as go
import pytest
from support.chart_tables import HOSTILE, TABLES, draw, hostile, over_time, records, title

from exposurekit import analysis, charts
from exposurekit.analysis import OTHER, UNKNOWN
from exposurekit.charts import theme
from exposurekit.charts.theme import MIME
from exposurekit.errors import MissingColumns

# Without a chart of the same name: they make tables for other questions, or are a list.
NOT_DRAWN = {
    "counts",
    "diff",
    "diff_by_site",
    "diff_counts",
    "failed_removals",
    "is_open",
    "minutes_spent",
    "on_file",
    "plan",
    "site_outcomes",
    "stale",
    "step_minutes",
}
QUESTIONS = {name for name in analysis.__all__ if inspect.isfunction(getattr(analysis, name))} - NOT_DRAWN


each = pytest.mark.parametrize("name", TABLES)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)


def read_as_markup(figure):
    """Return the strings of a figure in which Plotly would read a foreign tag, template or formula."""
    drawn = json.loads(figure.to_json())
    drawn["layout"].pop("meta", None)
    own = ("<br>", "<extra></extra>", "%{customdata}", "%{customdata:,d}", "%{y:,d}", "%{z:,d}")
    texts = []
    for text in strings(drawn):
        rest = text
        for allowed in own:
            rest = rest.replace(allowed, "")
        if "<" in rest or "%{" in rest or "$" in rest:
            texts.append(text)
    return texts


def test_every_question_has_its_chart():
    assert {name.split()[0] for name in TABLES} == QUESTIONS
    assert set(charts.__all__) >= QUESTIONS


@pytest.fixture(scope="module")
def figures():
    return {name: draw(name, table(), provenance="As of today") for name, table in TABLES.items()}


@each
def test_a_chart_states_its_finding_and_its_numbers(name, figures):
    figure = figures[name]
    finding, _, summary = charts.describe(figure).partition(". ")
    assert finding
    assert title(figure) == finding
    assert any(character.isdigit() for character in summary)
    assert figure.layout.title.subtitle.text == "As of today"


def test_another_figure_in_this_design_has_its_title_left():
    ours = charts.by_site(TABLES["by_site"]()).layout.title
    theirs = go.Figure(layout={"template": "exposurekit"}).layout.template.layout.title
    assert (theirs.x, theirs.pad.l) == (ours.x, ours.pad.l) == (0, 16)
    assert theirs.xanchor == "left"


@each
def test_texts_follow_the_theme_also_where_plotly_alone_draws(name, figures):
    """JupyterLab draws the MIME type alone: no one colour of text reads at 4.5:1 on white and on its dark."""
    layout = figures[name].layout.template.layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"
    drawn = json.loads(json.dumps(figures[name]._repr_mimebundle_()))[MIME]
    assert "paper_bgcolor" not in drawn["layout"]
    title = drawn["layout"]["title"]
    axes = [part for key, part in drawn["layout"].items() if key[1:].startswith("axis")]
    texts = [title["text"], title["subtitle"]["text"], *(axis["title"].get("text") for axis in axes)]
    for axis in axes:
        texts += axis["ticktext"] if "ticktext" in axis else [axis["tickprefix"]]
    texts += [
        text for trace in drawn["data"] if trace["type"] == "scatter" for text in trace.get("text") or ()
    ]
    assert [text for text in texts if text and "color:var(--jp-ui-font-color1," not in text] == []
    own = [trace["type"] for trace in drawn["data"] if "color" in trace.get("textfont", {})]
    assert {*own} <= {"heatmap"}  # its text is on its cells
    assert drawn["config"]["showSendToCloud"] is False  # and nothing is uploaded
    assert drawn["config"]["plotlyServerURL"] == ""
    assert drawn["config"]["typesetMath"] is False


@each
def test_hostile_text_is_escaped_and_a_repr_is_one_line(name):
    figure = draw(name, hostile(TABLES[name]()), provenance=HOSTILE)
    assert read_as_markup(figure) == []
    assert "&lt;a href" in json.dumps([*strings(json.loads(figure.to_json())["layout"]["title"])])
    assert repr(figure).startswith("Chart(")
    assert "\n" not in repr(figure)


def test_a_status_or_site_that_names_a_column_is_escaped():
    named = over_time().rename(columns={"discovered": HOSTILE})
    assert read_as_markup(charts.status_over_time(named)) == []
    matrix = analysis.user_by_site(records()).rename(columns={"Near": HOSTILE})
    assert read_as_markup(charts.user_by_site(matrix)) == []


def test_the_check_for_markup_finds_markup():
    for layout in ({"title": HOSTILE}, {"xaxis": {"ticktext": ["<b>a</b>"]}}, {"title": "%{meta.summary}"}):
        assert len(read_as_markup(go.Figure(layout=layout))) == 1
    assert read_as_markup(go.Figure(go.Bar(x=[1], customdata=["<i>a</i>"], name="$a$"))) == [
        "<i>a</i>",
        "$a$",
    ]


def test_another_figure_is_described_by_title_and_kind():
    bars = go.Figure([go.Bar(x=[1], name="2026"), go.Scatter(x=[1])], {"title": "Targets"})
    assert charts.describe(bars) == "Targets. A chart of bar (2026), scatter."
    assert charts.describe(go.Figure()) == "An empty chart."


@each
def test_an_empty_table_gives_a_chart_without_traces(name):
    figure = draw(name, TABLES[name]().iloc[:0])
    assert title(figure)
    assert charts.describe(figure)
    assert not figure.data


def lacks(name, table, column):
    """Return the columns that the error names without this column; none if there is no error."""
    try:
        draw(name, table.drop(columns=column))
    except MissingColumns as error:
        return error.missing
    return ()


@pytest.mark.parametrize("name", [name for name in TABLES if name != "user_by_site"])
def test_a_missing_column_is_named(name):
    table = TABLES[name]()
    missing_by_column = {column: lacks(name, table, column) for column in table}
    assert any(missing_by_column.values())
    assert all(missing in ((), (column,)) for column, missing in missing_by_column.items())


def test_a_table_that_is_no_matrix_is_an_error():
    with pytest.raises(MissingColumns, match=r"user_id \(as its index\)"):
        charts.user_by_site(TABLES["user_by_site"]().reset_index())


@each
def test_colours_of_statuses_are_for_statuses_alone(name, figures):
    """Otherwise a relisting, or something to do, looks like a listing that was discovered."""
    greys = {OTHER, UNKNOWN}
    statuses = {colour.casefold(): status for status, colour in charts.COLOURS.items() if status not in greys}
    for trace in figures[name].data:
        drawn = json.dumps(trace.to_plotly_json(), default=lambda array: array.tolist()).casefold()
        found = {status for colour, status in statuses.items() if colour in drawn}
        assert all(status in trace.name for status in found)
    assert not {one.casefold() for one in theme.SERIES} & {*statuses}


@each
def test_each_named_trace_has_a_pattern_or_symbol(name, figures):
    traces = [one for one in figures[name].data if one.name and one.showlegend is not False]
    styles = []
    for trace in traces:
        drawn = trace.to_plotly_json()
        marker, line = drawn.get("marker", {}), drawn.get("line", {})
        pattern = drawn.get("fillpattern", marker.get("pattern", {})).get("shape")
        styles.append((trace.type, drawn.get("fill"), pattern, line.get("dash"), marker.get("symbol")))
    assert len(set(styles)) == len(styles)


@pytest.mark.parametrize(
    ("name", "value"), [("title", "Own"), ("legend", None), ("xaxis", go.layout.XAxis(range=[0, 1]))]
)
def test_chart_takes_options_in_any_form_of_plotly(name, value):
    layout = theme.chart([], finding="Found", summary="", **{name: value}).layout
    assert layout[name] == go.Layout({name: value})[name]


@pytest.mark.parametrize(
    "marks",
    [
        {"tickvals": ["2026-01-05"], "tickformat": "%b %d"},
        {"tickvals": [1_000], "tickformat": "~s"},
        {"tickvals": np.array([1, 2])},
        {"tickvals": [None]},
    ],
    ids=str,
)
def test_a_chart_with_marks_of_ones_own_is_displayed(figures, marks):
    chart = charts.Chart(figures["by_site"]).update_xaxes(marks | {"tickprefix": "$", "ticksuffix": " k"})
    axis = chart._repr_mimebundle_()[MIME]["layout"]["xaxis"]
    assert "ticktext" not in axis
    assert (axis["tickprefix"][-2:], axis["ticksuffix"]) == (">$", " k</span>")
    assert axis["tickvals"]
