"""What every chart holds to: a question of its own, a finding in words, and no text from outside as markup."""

import inspect
import json

import plotly.graph_objects as go
import pytest
from support.chart_tables import HOSTILE, TABLES, draw, hostile, over_time, records

from exposurekit import analysis, charts
from exposurekit.charts.theme import INK, MIME, PAPER
from exposurekit.errors import MissingColumns

# These make tables for other questions, or are a list of people; no chart is of the same name.
NOT_DRAWN = {"counts", "diff", "diff_by_site", "diff_counts", "is_open", "on_file", "stale"}
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
    """The strings of a figure in which Plotly would read a tag, a template or a formula that is not the house's own."""
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


@each
def test_a_chart_says_its_finding_and_its_numbers(name):
    figure = draw(name, TABLES[name](), provenance="As of today")
    finding, _, summary = charts.describe(figure).partition(". ")
    assert finding
    assert figure.layout.title.text.replace("<br>", " ") == finding
    assert any(character.isdigit() for character in summary)
    assert figure.layout.title.subtitle.text == "As of today"


@each
def test_a_chart_leaves_the_background_to_the_theme(name):
    layout = draw(name, TABLES[name]()).layout
    assert layout.template.layout.paper_bgcolor == layout.template.layout.plot_bgcolor == "rgba(0,0,0,0)"


@each
def test_a_chart_has_a_paper_colour_where_themes_cannot_apply(name):
    """JupyterLab draws the MIME type alone: no one colour of text reads at 4.5:1 on white and on its dark."""
    figure = draw(name, TABLES[name]())
    figure_json = figure._repr_mimebundle_()[MIME]
    assert (
        figure_json["layout"]["paper_bgcolor"],
        figure_json["layout"]["template"]["layout"]["font"]["color"],
    ) == (
        PAPER,
        INK,
    )
    own = [trace["type"] for trace in figure_json["data"] if "textfont" in trace]
    assert {*own} <= {"heatmap"}  # its words stand on its cells


@each
def test_no_text_from_outside_is_markup(name):
    table = hostile(TABLES[name]())
    figure = draw(name, table, provenance=HOSTILE)
    assert read_as_markup(figure) == []
    assert "&lt;a href" in json.dumps([*strings(json.loads(figure.to_json())["layout"]["title"])])


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


@each
def test_an_empty_table_gives_a_chart_that_says_so(name):
    figure = draw(name, TABLES[name]().iloc[:0])
    assert figure.layout.title.text
    assert charts.describe(figure)
    assert not figure.data


def lacks(name, table, column):
    """The columns that a chart asks for, once one is gone; none where it does without."""
    try:
        draw(name, table.drop(columns=column))
    except MissingColumns as error:
        return error.missing
    return ()


@pytest.mark.parametrize("name", [name for name in TABLES if name != "user_by_site"])
def test_a_table_that_lacks_a_column_is_told_which(name):
    """A column that a chart does without may be missing; there is no other error than the one that names it."""
    table = TABLES[name]()
    missing_by_column = {column: lacks(name, table, column) for column in table}
    assert any(missing_by_column.values())
    assert all(missing in ((), (column,)) for column, missing in missing_by_column.items())


def test_a_matrix_that_is_none_is_told_so():
    with pytest.raises(MissingColumns, match=r"user_id \(as its index\)"):
        charts.user_by_site(TABLES["user_by_site"]().reset_index())


@each
def test_a_notebook_gets_plain_json_and_no_way_to_upload(name):
    bundle = draw(name, TABLES[name]())._repr_mimebundle_()
    drawn = json.loads(json.dumps(bundle))["application/vnd.plotly.v1+json"]
    assert drawn["config"]["showSendToCloud"] is False
    assert drawn["config"]["plotlyServerURL"] == ""
    assert drawn["config"]["typesetMath"] is False


@each
def test_what_has_a_name_is_told_apart_without_colour(name):
    traces = [
        trace for trace in draw(name, TABLES[name]()).data if trace.name and trace.showlegend is not False
    ]
    styles = []
    for trace in traces:
        drawn = trace.to_plotly_json()
        marker, line = drawn.get("marker", {}), drawn.get("line", {})
        pattern = drawn.get("fillpattern", marker.get("pattern", {})).get("shape")
        styles.append((trace.type, drawn.get("fill"), pattern, line.get("dash"), marker.get("symbol")))
    assert len(set(styles)) == len(styles)


@each
def test_a_chart_is_one_line_in_a_terminal(name):
    text = repr(draw(name, hostile(TABLES[name]())))
    assert text.startswith("Chart(")
    assert "\n" not in text
