"""Every chart as it is drawn in an exported notebook, and on paper."""

import contextlib
import json
import warnings
from pathlib import Path

import nbformat
import pypdfium2
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from support import jupyter as kit
from support.drawn_charts import assert_well_drawn, cells_of_charts, every_chart, fitted, measured

from exposurekit import charts
from exposurekit.charts.embedding import plotly_js
from exposurekit.charts.theme import MIME
from exposurekit.widgets.figure_widget import FigureView

pytestmark = pytest.mark.long  # a browser, and a kernel


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A notebook with every chart, run and exported by nbconvert."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("exported")
    notebook = nbformat.read(kit.written(directory / "charts.ipynb", *cells_of_charts()), as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the kernel's libraries, not ours
        NotebookClient(notebook, timeout=300).execute()
        html, _ = HTMLExporter().from_notebook_node(notebook)
    file = directory / "charts.html"
    file.write_text(html, "utf-8")
    with kit.chromium():
        yield file


@contextlib.contextmanager
def opened(file, **view):
    """The page of an exported notebook, when all its charts are drawn."""
    with kit.browsing(file=file, **view) as (page, sight):
        page.goto(file.as_uri())
        fitted(page)
        yield page, sight


@pytest.mark.parametrize("width", [390, 1200, 320])
def test_exported_notebook_draws_every_chart_without_a_network(exported, width):
    with opened(exported, width=width) as (page, sight):
        assert_well_drawn(fitted(page))
        assert page.locator("[data-title*='Share'], [data-title*='loud']").count() == 0
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 720, "height": 1050})  # A4 within its margins, in CSS pixels
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        assert_well_drawn(measured(page))
        assert sight.errors == []
        # nbconvert requests its own libraries in every page.
        assert {address.split("/")[2] for address in sight.left} <= {"cdnjs.cloudflare.com"}


def test_exported_charts_have_alternative_texts_and_follow_the_width(exported):
    texts = [charts.describe(chart) for chart in every_chart().values()]
    with opened(exported, width=1200) as (page, _):
        nodes = kit.accessible_nodes(page, "figure.exposurekit-chart")
        assert [one.name for one in nodes if one.role == "group" and one.name] == texts
        assert all(page.locator("body").inner_text().count(text) == 0 for text in texts)
        wide = fitted(page)[0].width
        page.set_viewport_size({"width": 390, "height": 1400})
        narrowed = "(width) => document.querySelector('.js-plotly-plot')._fullLayout.width < width"
        page.wait_for_function(narrowed, arg=wide - 400)
        assert_well_drawn(fitted(page))


def test_description_replaces_a_chart_that_cannot_be_drawn(exported):
    with kit.browsing(file=exported) as (page, _):
        page.add_init_script("delete globalThis.DecompressionStream")
        page.goto(exported.as_uri())
        page.get_by_text(charts.describe(next(iter(every_chart().values())))).first.wait_for()


def test_paper_of_an_exported_notebook_has_every_chart(exported, tmp_path):
    titles = [chart.layout.title.text.replace("<br>", "") for chart in every_chart().values()]
    with opened(exported) as (page, _):
        for paper in ("A4", "Letter"):
            page.pdf(format=paper, path=tmp_path / "charts.pdf")
            document = pypdfium2.PdfDocument(tmp_path / "charts.pdf")
            text = "".join("".join(page.get_textpage().get_text_range().split()) for page in document)
            assert [title for title in titles if "".join(title.split()) not in text] == [], paper


# A view of each model, as a notebook has it: its elements are in `views`, its models in `models`.
SHOWN = """async ({ script, code, figures }) => {
  const { default: widget } = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const states = figures.map((figure) => ({ figure, _library: "IPY_MODEL_1", _version: "1" }));
  const widget_manager = { get_model: async () => ({ get: () => code }) };
  globalThis.models = states.map((state) => {
    const listeners = [], change = (figure) => { state.figure = figure; listeners.forEach((run) => run()); };
    return { widget_manager, change, get: (name) => state[name], on: (_, run) => listeners.push(run), off() {}, send() {} };
  });
  globalThis.views = models.map((model) => document.body.appendChild(document.createElement("div")));
  views.forEach((el, at) => widget.render({ model: models[at], el }));
}"""
VALUES = "() => views.map((view) => view.data?.[0].x)"


@contextlib.contextmanager
def viewed(*figures, code=None):
    """A page with a view of each figure, once the browser has loaded what draws them."""
    view = FigureView(charts.Chart())
    content = {"script": view._esm, "code": code or view._library.code, "figures": figures}
    with kit.browsing(width=900) as (page, sight):
        page.evaluate(SHOWN, content)
        page.wait_for_function("() => views.every((view) => view.childNodes.length)")
        yield page, sight


def a_figure(*values, **layout):
    """A figure of the widget with bars of these values."""
    size = {"height": 300, "margin": {"l": 40, "r": 20, "t": 20, "b": 40}}
    return {
        "data": [{"type": "bar", "x": [*values], "y": [1, 2], "orientation": "h"}],
        "layout": size | layout,
    }


def test_view_drawn_or_printed_while_hidden_is_up_to_date():
    with viewed(a_figure(1, 2)) as (page, _):
        for change in (
            f"models[0].change({json.dumps(a_figure(3, 4))})",
            f"models[0].change({json.dumps(a_figure(5, 6, bargap=0.5))})",
            "dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))",
        ):
            page.evaluate("() => { views[0].style.display = 'none'; }")
            page.evaluate("() => new Promise((then) => requestAnimationFrame(() => setTimeout(then)))")
            page.evaluate(f"() => {{ {change}; views[0].style.display = ''; }}")
            current = (
                f"() => JSON.stringify({VALUES[6:]}) === JSON.stringify([models[0].get('figure').data[0].x])"
            )
            page.wait_for_function(current)


def test_view_leaves_the_figure_of_its_model_alone():
    figure = a_figure(1, 2, xaxis={"title": {"text": "n"}}, showlegend=True)
    with viewed(figure) as (page, _):
        page.locator(".legendtoggle").first.click()
        page.wait_for_function("() => views[0].data[0].visible === 'legendonly'")
        assert page.evaluate("() => models[0].get('figure')") == figure


def test_view_that_cannot_be_drawn_says_so_until_it_can():
    with viewed(impossible := a_figure(1, yaxis={}, margin=None), a_figure(1, 2)) as (page, sight):
        error = "This chart could not be drawn."
        assert page.evaluate("() => views[0].textContent") == error
        assert page.evaluate(VALUES) == [None, [1, 2]]
        page.evaluate("(figure) => models[0].change(figure)", a_figure(3, 4))
        assert page.evaluate(VALUES) == [[3, 4], [1, 2]]
        assert page.get_by_text(error).count() == 0
        page.evaluate("(figure) => models[1].change(figure)", impossible)
        assert page.evaluate("() => views[1].textContent") == error
        assert sight.errors == []
    with viewed(a_figure(1, 2), code="throw new Error('no Plotly')") as (page, _):
        assert "Plotly could not be loaded" in page.evaluate("() => views[0].textContent")


READING = """() => {
  const { removeChild } = views[3];
  views[3].removeChild = (child) => { removeChild.call(views[3], child); globalThis.top_then = document.body.scrollTop; };
}"""


def test_page_stays_where_it_is_when_a_chart_changes():
    """Also if a script reads the layout while the chart is away, which lets the browser scroll."""
    with viewed(*[a_figure(1, 2)] * 4) as (page, _):
        page.add_style_tag(content="html { overflow: hidden } body { height: 500px; overflow-y: auto }")
        before = page.evaluate("() => { document.body.scrollTop = 10_000; return document.body.scrollTop; }")
        page.evaluate(READING)
        page.evaluate("(figure) => models[3].change(figure)", a_figure(1, 2, bargap=0.5))
        page.evaluate("() => ['before', 'after'].forEach((when) => dispatchEvent(new Event(`${when}print`)))")
        assert page.evaluate("() => [top_then, document.body.scrollTop]") == [before, before]
        assert before > 500


DRAWN_BY_PLOTLY = (Path(kit.__file__).parent / "browser_scripts/drawn_by_plotly.js").read_text()
LONG_PROVENANCE = (
    "history of 1,204 runs · as of 2026-03-31 09:00 UTC · 25,000 people · sites: Nosy Heron, Doorbell Almanac"
)


@pytest.mark.parametrize("width", [1280, 800, 390, 370])
def test_titles_are_whole_where_plotly_alone_draws(width):
    """In an output of JupyterLab, of any width: nothing fits the figure to it there."""
    kit.needs_browser()
    with kit.browsing(width=1300) as (page, _):
        page.add_script_tag(content=plotly_js())
        for name, chart in every_chart(LONG_PROVENANCE).items():
            drawn = page.evaluate(DRAWN_BY_PLOTLY, [chart._repr_mimebundle_()[MIME], width])
            assert drawn["texts"] == 2, name
            assert drawn["left"] >= 0, (name, drawn)
            assert drawn["right"] <= width, (name, drawn)
            assert drawn["top"] >= 0, (name, drawn)
            assert drawn["bottom"] <= drawn["plot"], (name, drawn)


@pytest.mark.parametrize("colour", ["rgb(255, 255, 255)", "rgb(33, 33, 33)"])
def test_texts_have_the_notebooks_colour_where_plotly_alone_draws(colour):
    kit.needs_browser()
    with kit.browsing(width=1300) as (page, _):
        page.add_script_tag(content=plotly_js())
        page.add_style_tag(content=f":root {{ --jp-ui-font-color1: {colour} }}")
        for name, chart in every_chart(LONG_PROVENANCE).items():
            drawn = page.evaluate(DRAWN_BY_PLOTLY, [chart._repr_mimebundle_()[MIME], 1280])
            assert drawn["colours"] == [colour], name
