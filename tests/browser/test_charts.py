"""Every chart as it is drawn: in JupyterLab and Notebook 7, in an exported notebook, and on paper."""

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


# --- live -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["lab", "notebook"])
def front(request):
    return request.param


@pytest.fixture(scope="module")
def page(front, tmp_path_factory):
    kit.needs_browser()
    with kit.desk(tmp_path_factory.mktemp("charts"), front) as desk:
        yield desk.shows(*CELLS)


@pytest.fixture(scope="module")
def heights():
    return [drawn.layout.height for drawn in every_chart().values()]


def assert_as_described(page, heights):
    drawn = settled(page)
    assert_well_drawn(drawn)
    assert [round(one.height) for one in drawn] == heights


@pytest.mark.parametrize("width", [1300, 1000])
def test_a_chart_has_the_same_height_at_any_width(page, heights, width):
    page.set_viewport_size({"width": width, "height": 1400})
    assert_as_described(page, heights)


@pytest.mark.parametrize("front", ["lab"], indirect=True)
def test_a_narrow_window_leaves_its_height(page, heights):
    page.set_viewport_size({"width": 700, "height": 1400})
    assert [round(one.height) for one in settled(page)] == heights
    page.set_viewport_size({"width": 1300, "height": 1400})
    assert_as_described(page, heights)


def test_a_chart_keeps_its_height_beside_a_sidebar(page, front, heights):
    page.set_viewport_size({"width": 1300, "height": 1400})
    for _ in range(2):
        kit.sidebar_toggled(page, front)
        assert_as_described(page, heights)


def test_a_chart_keeps_its_height_when_its_output_was_hidden(page, heights):
    page.set_viewport_size({"width": 1300, "height": 1400})
    before = settled(page)
    kit.run_command(page, "notebook:hide-all-cell-outputs")
    page.wait_for_function(f"() => !({SETTLED})(1)")
    kit.run_command(page, "notebook:show-all-cell-outputs")
    assert_as_described(page, heights)
    assert [one.width for one in measured(page)] == [one.width for one in before]


@pytest.mark.parametrize("front", ["lab"], indirect=True)
def test_a_chart_keeps_its_height_behind_another_tab(page, heights):
    kit.run_command(page, "launcher:create")
    page.wait_for_selector(".jp-Launcher")
    page.set_viewport_size({"width": 1250, "height": 1400})
    page.locator(".lm-TabBar-tab", has_text="desk.ipynb").first.click()
    assert_as_described(page, heights)


@pytest.mark.parametrize("front", ["lab"], indirect=True)
def test_a_second_view_is_at_least_as_high(page, heights):
    page.locator(".js-plotly-plot").first.click(button="right", position={"x": 5, "y": 5})
    page.locator(".lm-Menu-item", has_text="Create New View").first.click()
    picture = kit.settled(page, page.locator(".jp-LinkedOutputView .plot-img").first)
    page.mouse.move(picture["x"] + 200, picture["y"] + 100)  # as a picture, until it is pointed at
    page.locator(".jp-LinkedOutputView .js-plotly-plot").wait_for()
    for width in (1300, 1100):
        page.set_viewport_size({"width": width, "height": 1400})
        *rest, view = settled(page, COUNT + 1)
        assert [round(one.height) for one in rest] == heights
        assert view.height >= heights[0] - 1  # Plotly fills the panel of a view


@pytest.mark.parametrize("front", ["lab"], indirect=True)
def test_charts_drawn_out_of_view_are_drawn_whole(front, heights, tmp_path):
    """Where only the cells in view are drawn, as both front ends do by default."""
    scrolled = "(at) => [...document.querySelectorAll('.jp-WindowedPanel-outer')].forEach((one) => { one.scrollTop = at; })"
    kit.needs_browser()
    with kit.desk(tmp_path, front, windowed=True) as desk:
        page = desk.shows(*CELLS, height=700)
        drawn = {}
        for at in range(0, 12_000, 400):
            page.evaluate(scrolled, at)
            page.wait_for_timeout(400)  # until what came into view is drawn
            drawn |= {one.title: one for one in measured(page) if one.width}
        titles = [chart.layout.title.text.replace("<br>", " ") for chart in every_chart().values()]
        assert [round(drawn[title].height) for title in titles if title in drawn] == heights


# --- exported ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A notebook with every chart, run and exported by nbconvert as it is."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("exported")
    path = kit.written(directory / "charts.ipynb", *CELLS)
    notebook = nbformat.read(path, as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the kernel's libraries, not ours
        NotebookClient(notebook, timeout=300).execute()
        html, _ = HTMLExporter().from_notebook_node(notebook)
    file = directory / "charts.html"
    file.write_text(html, "utf-8")
    return file


def open_file(page, file):
    """The page of an exported notebook, when all its charts are drawn."""
    page.goto(file.as_uri())
    page.wait_for_function(
        "(n) => document.querySelectorAll('figure[role=img] svg.main-svg').length >= n", arg=COUNT
    )


@pytest.mark.parametrize("width", [390, 700, 1200, 320])
def test_an_exported_notebook_draws_every_chart_without_a_network(exported, width):
    with kit.browsing(width=width, file=exported) as (page, sight):
        open_file(page, exported)
        assert_well_drawn(measured(page))
        assert page.locator("[data-title*='Share'], [data-title*='loud']").count() == 0
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 720, "height": 1050})  # A4 within its margins, in CSS pixels
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        assert_well_drawn(measured(page))
        assert sight.errors == []
        # nbconvert's own, in every page; nothing of a chart's.
        assert {address.split("/")[2] for address in sight.left} <= {"cdnjs.cloudflare.com"}


def test_an_exported_chart_has_its_alternative_text_once(exported):
    words = [charts.describe(chart) for chart in every_chart().values()]
    with kit.browsing(file=exported) as (page, _):
        open_file(page, exported)
        nodes = kit.told_to_a_reader(page, "figure.exposurekit-chart")
        assert [one.name for one in nodes if one.role in ("image", "img") and one.name] == words
        assert all(page.locator("body").inner_text().count(one) == 0 for one in words)


def test_an_exported_chart_is_redrawn_for_another_width(exported):
    with kit.browsing(width=1200, file=exported) as (page, _):
        open_file(page, exported)
        wide = measured(page)[0].width
        page.set_viewport_size({"width": 390, "height": 1400})
        page.wait_for_function(
            "(w) => document.querySelector('.js-plotly-plot')._fullLayout.width < w", arg=wide - 400
        )
        assert_well_drawn(measured(page))


def test_where_it_cannot_be_drawn_the_words_stand_there(exported):
    with kit.browsing(file=exported) as (page, _):
        page.add_init_script("delete globalThis.DecompressionStream")
        page.goto(exported.as_uri())
        first = charts.describe(next(iter(every_chart().values())))
        page.get_by_text(first).first.wait_for()


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_the_paper_of_an_exported_notebook_has_every_chart(exported, paper, tmp_path):
    with kit.browsing(file=exported) as (page, _):
        open_file(page, exported)
        page.pdf(format=paper, path=tmp_path / "charts.pdf")
    text = "".join(
        one.get_textpage().get_text_range() for one in pypdfium2.PdfDocument(tmp_path / "charts.pdf")
    )
    paper_text = "".join(text.split())
    titles = [
        "".join(chart.layout.title.text.replace("<br>", "").split()) for chart in every_chart().values()
    ]
    assert [title for title in titles if title not in paper_text] == []
