"""Every chart as it is drawn in JupyterLab and Notebook 7, in an exported notebook, and on paper."""

import contextlib
import warnings
from pathlib import Path

import nbformat
import pypdfium2
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from support import jupyter as kit
from support.drawn_charts import COUNT, SETTLED, TABLES, assert_well_drawn, every_chart, measured, settled

from exposurekit import charts

pytestmark = pytest.mark.long  # a browser, and a kernel
OPEN = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support import drawn_charts
every = drawn_charts.every_chart()
"""
CELLS = [OPEN, *(f"every[{name!r}]" for name in TABLES)]


@pytest.fixture(scope="module")
def heights():
    return [drawn.layout.height for drawn in every_chart().values()]


def assert_as_described(page, heights):
    drawn = settled(page)
    assert_well_drawn(drawn)
    assert [round(one.height) for one in drawn] == heights


@pytest.mark.parametrize("front", ["lab", "notebook"])
def test_charts_have_the_same_height_in_any_place(front, heights, tmp_path):
    """At any width, beside a sidebar, after their output was hidden, behind another tab, and in a second view."""
    kit.needs_browser()
    with kit.desk(tmp_path, front) as desk:
        page = desk.shows(*CELLS)
        assert_as_described(page, heights)
        kit.sidebar_toggled(page, front)
        assert_as_described(page, heights)
        page.set_viewport_size({"width": 1000, "height": 1400})
        kit.sidebar_toggled(page, front)
        assert_as_described(page, heights)
        before = measured(page)
        kit.run_command(page, "notebook:hide-all-cell-outputs")
        page.wait_for_function(f"() => !({SETTLED})(1)")
        kit.run_command(page, "notebook:show-all-cell-outputs")
        assert_as_described(page, heights)
        assert [one.width for one in measured(page)] == [one.width for one in before]
        if front == "lab":  # which has tabs and views
            assert_high_enough_in_lab(page, heights)


def assert_high_enough_in_lab(page, heights):
    page.set_viewport_size({"width": 700, "height": 1400})
    assert [round(one.height) for one in settled(page)] == heights
    kit.run_command(page, "launcher:create")
    page.wait_for_selector(".jp-Launcher")
    page.set_viewport_size({"width": 1250, "height": 1400})
    page.locator(".lm-TabBar-tab", has_text="desk.ipynb").first.click()
    assert_as_described(page, heights)
    page.locator(".js-plotly-plot").first.click(button="right", position={"x": 5, "y": 5})
    page.locator(".lm-Menu-item", has_text="Create New View").first.click()
    picture = kit.settled(page, page.locator(".jp-LinkedOutputView .plot-img").first)
    page.mouse.move(picture["x"] + 200, picture["y"] + 100)  # as a picture, until it is pointed at
    page.locator(".jp-LinkedOutputView .js-plotly-plot").wait_for()
    *rest, view = settled(page, COUNT + 1)
    assert [round(one.height) for one in rest] == heights
    assert view.height >= heights[0] - 1  # Plotly fills the panel of a view


# Of a front end that draws only the cells in view: scroll there; whether the charts in view are drawn, or pictures of them.
SCROLL = (
    "(at) => document.querySelectorAll('.jp-WindowedPanel-outer').forEach((one) => { one.scrollTop = at; })"
)
IN_VIEW = """() => [...document.querySelectorAll(".jp-RenderedPlotly")].filter((one) => {
  const { top, bottom } = one.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}).every((one) => one.querySelector(".plot-img") || one.querySelector(".js-plotly-plot")?._fullLayout?.width)"""


def test_charts_drawn_out_of_view_are_drawn_whole(heights, tmp_path):
    """Both front ends draw only the cells in view by default."""
    kit.needs_browser()
    with kit.desk(tmp_path, "lab", windowed=True) as desk:
        page, drawn = desk.shows(*CELLS, height=700), {}
        for at in range(0, 12_000, 600):
            page.evaluate(SCROLL, at)
            page.wait_for_timeout(100)  # until the cells in view are there
            page.wait_for_function(IN_VIEW)
            drawn |= {one.title: one for one in measured(page) if one.width}
    titles = [chart.layout.title.text.replace("<br>", " ") for chart in every_chart().values()]
    assert [round(drawn[title].height) for title in titles if title in drawn] == heights


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A notebook with every chart, run and exported by nbconvert."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("exported")
    notebook = nbformat.read(kit.written(directory / "charts.ipynb", *CELLS), as_version=4)
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
    drawn = "(n) => document.querySelectorAll('figure[role=group] svg.main-svg').length >= n"
    with kit.browsing(file=file, **view) as (page, sight):
        page.goto(file.as_uri())
        page.wait_for_function(drawn, arg=COUNT)
        yield page, sight


@pytest.mark.parametrize("width", [390, 1200, 320])
def test_exported_notebook_draws_every_chart_without_a_network(exported, width):
    with opened(exported, width=width) as (page, sight):
        assert_well_drawn(measured(page))
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
        wide = measured(page)[0].width
        page.set_viewport_size({"width": 390, "height": 1400})
        narrowed = "(width) => document.querySelector('.js-plotly-plot')._fullLayout.width < width"
        page.wait_for_function(narrowed, arg=wide - 400)
        assert_well_drawn(measured(page))


def test_description_replaces_a_chart_that_cannot_be_drawn(exported):
    with kit.browsing(file=exported) as (page, _):
        page.add_init_script("delete globalThis.DecompressionStream")
        page.goto(exported.as_uri())
        page.get_by_text(charts.describe(next(iter(every_chart().values())))).first.wait_for()


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_paper_of_an_exported_notebook_has_every_chart(exported, paper, tmp_path):
    with opened(exported) as (page, _):
        page.pdf(format=paper, path=tmp_path / "charts.pdf")
    document = pypdfium2.PdfDocument(tmp_path / "charts.pdf")
    text = "".join("".join(page.get_textpage().get_text_range().split()) for page in document)
    titles = [chart.layout.title.text.replace("<br>", "") for chart in every_chart().values()]
    assert [title for title in titles if "".join(title.split()) not in text] == []
