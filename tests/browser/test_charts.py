"""Every chart as it is drawn in an exported notebook, and on paper."""

import contextlib
import warnings

import nbformat
import pypdfium2
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from support import jupyter as kit
from support.drawn_charts import COUNT, assert_well_drawn, cells_of_charts, every_chart, measured

from exposurekit import charts

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


def test_paper_of_an_exported_notebook_has_every_chart(exported, tmp_path):
    titles = [chart.layout.title.text.replace("<br>", "") for chart in every_chart().values()]
    with opened(exported) as (page, _):
        for paper in ("A4", "Letter"):
            page.pdf(format=paper, path=tmp_path / "charts.pdf")
            document = pypdfium2.PdfDocument(tmp_path / "charts.pdf")
            text = "".join("".join(page.get_textpage().get_text_range().split()) for page in document)
            assert [title for title in titles if "".join(title.split()) not in text] == [], paper
