"""Charts as HTML: which output includes plotly.js, and the text without it."""

import base64
import gzip
import json
import re

import plotly.offline
import pytest
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.interactiveshell import InteractiveShell
from support.chart_tables import HOSTILE, TABLES, draw, hostile

from exposurekit import charts
from exposurekit.charts.embedding import VENDORED_VERSION, plotly_js

LIBRARY = 'class="exposurekit-drawing"'


@pytest.fixture
def run():
    """Returns a function that runs a cell in a kernel's shell and returns the HTML of its charts."""
    InteractiveShell.clear_instance()  # publishing without a shell makes one, of another class
    shell = ZMQInteractiveShell.instance()
    html = []
    shell.user_ns["show"] = lambda chart: html.append(shell.display_formatter.format(chart)[0]["text/html"])
    shell.user_ns["chart"] = draw("by_site", TABLES["by_site"]())
    shell.user_ns["hostile"] = draw("by_site", hostile(TABLES["by_site"]()), provenance=HOSTILE)

    def run_cell(code, **metadata):
        shell.set_parent({"header": {"msg_id": "1"}, "metadata": metadata, "content": {}})
        html.clear()
        shell.run_cell(code, store_history=True).raise_error()
        return "".join(html)

    yield run_cell
    ZMQInteractiveShell.clear_instance()


def test_the_first_chart_of_a_kernel_brings_plotly_js(run):
    first, second = (run("show(chart)", cellId=name) for name in "ab")
    assert LIBRARY in first
    assert LIBRARY not in second
    assert len(first) < 720_000
    assert len(second) < 10_000


def test_a_cell_that_runs_again_brings_it_again(run):
    outputs = [run("show(chart)", cellId=name) for name in ("a", "b", "a", "b")]
    assert [LIBRARY in output for output in outputs] == [True, False, True, False]


@pytest.mark.parametrize(
    "gone", [("pass", {"cellId": "a"}), ("pass", {"cellId": "c", "deletedCells": ["a"]})]
)
def test_another_brings_it_where_the_output_is_gone(run, gone):
    code, metadata = gone
    run("show(chart)", cellId="a")
    output = run("show(chart)", cellId="b")
    run(code, **metadata)
    assert [LIBRARY in output, LIBRARY in run("show(chart)", cellId="b")] == [False, True]


def test_without_cell_ids_a_cell_is_identified_by_its_code(run):
    outputs = [run(code) for code in ("show(chart)", "show(chart) ", "show(chart)")]
    assert [LIBRARY in output for output in outputs] == [True, False, True]


def test_the_description_is_in_the_html_once_and_escaped(run):
    html = run("show(chart)")
    [words] = re.findall(r"<p>(.*?)</p>", html)
    assert words == charts.describe(draw("by_site", TABLES["by_site"]()))
    packed = re.search(r'<script type="text/plain">(.*?)</script>', html)[1]
    figure = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert "meta" not in figure["layout"]
    assert figure["config"]["showSendToCloud"] is False
    assert "<a href" not in run("show(hostile)")


def test_without_a_kernel_its_words_are_all_of_the_html():
    html = draw("by_site", TABLES["by_site"]())._repr_mimebundle_()["text/html"]
    assert html.startswith("<p>4 listings")
    assert "<script" not in html


def test_the_bundle_speaks_the_language_of_the_installed_plotly():
    assert plotly.offline.get_plotlyjs_version().partition(".")[0] == VENDORED_VERSION.partition(".")[0]
    assert f"v{VENDORED_VERSION}" in plotly_js()[:200]
    assert len(plotly_js()) < 1_550_000


def test_another_plotly_brings_its_own():
    assert plotly_js("99.0.0") == plotly.offline.get_plotlyjs()
