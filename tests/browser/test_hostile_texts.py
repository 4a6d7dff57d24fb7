"""Hostile text in every field of a service, displayed by every chart, widget, table and card in a real browser."""

import shutil
from pathlib import Path

import nbformat
import pytest
from support import hostile_demo
from support import jupyter as kit
from support.histories import Clock, Service, seen_through
from support.hostile_texts import BEACON, PAYLOADS, RUN

from exposurekit.history import History

pytestmark = pytest.mark.long  # a browser
NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
HEIGHT = 2400
HOSTILE = """
import os, sys
os.chdir({room!r})
sys.path.insert(0, {tests!r})
from support.hostile_demo import demo
"""
OPEN = """
import os, pandas as pd, exposurekit as ek
os.chdir({room!r})
from IPython.display import display
pd.set_option("display.max_colwidth", None, "display.max_rows", None)
tables = {{name: pd.read_pickle(f"{{name}}.pickle") for name in ("users", "records", "links", "alerts", "steps")}}
records, links, alerts = (tables[name] for name in ("records", "links", "alerts"))
history = ek.History("history")
"""
# Those of a history have the same texts in other columns.
TABLES = """
of_history = (history.records(), history.links(), history.alerts(), history.steps())
display(*tables.values(), *(table.head(9) for table in of_history))
"""
CHARTS = """
from exposurekit import analysis as ask, charts as draw
on_file = pd.DataFrame({"user_id": pd.Series([], dtype="int64"), "field": pd.Series([], dtype="str")})
diff = history.diff(history.runs()["finished_at"].iloc[0])
hostile = records["site"].iloc[0]
for chart in (
    draw.by_site(ask.by_site(records), provenance=hostile), draw.by_user(ask.by_user(records)),
    draw.user_by_site(ask.user_by_site(records)), draw.by_kind(ask.by_kind(links)),
    draw.by_state(ask.by_state(records)), draw.status_over_time(history.status_over_time(), provenance=hostile),
    draw.status_over_time(history.status_over_time(by="site")), draw.changes(diff.why),
    draw.time_to_removal(history.time_to_removal()), draw.survival(history.survival(by="site")),
    draw.relistings(history.relistings()), draw.blockers(ask.blockers(records, on_file)),
    draw.best_next_fields(ask.best_next_fields(records, on_file)), draw.work_queue(history.work_queue()),
    draw.precision(history.precision()), draw.coverage(history.coverage()),
    draw.site_health(history.site_health()), draw.forecast(history.forecast()),
):
    display(chart)
"""
# The checklist and the labels are displayed in a box, so that no static version is sent for each of many steps.
# Of two alerts with the same text, about a record and a link, the checklist has one or the other in turn.
WIDGETS = """
from ipywidgets import VBox
dashboard = ek.widgets.Dashboard(history=history)
in_turn = alerts[(alerts.index % 4 == 0) | (alerts.index % 4 == 3)]
assert in_turn["text"].nunique() == alerts["text"].nunique() == len(in_turn)
checklist = ek.widgets.OptOutChecklist(in_turn, history)
explorer = ek.widgets.Explorer(records, name="records")
explorer._pager._size.value = 100
labels = ek.widgets.RecordLabels(records, history)
display(dashboard, VBox([checklist, labels]), explorer, ek.widgets.ConnectionPanel(history=history))
dashboard.pick(sites=[records["site"].iloc[0]])
for _ in range(len(in_turn)):
    checklist.step(1)
for _ in range(len(records)):
    labels.step(1)
"""
STATIC_HTML = """
from IPython.display import HTML
display(*[HTML(one.to_html()) for one in (dashboard, checklist, explorer, labels)])
"""


@pytest.fixture(scope="module")
def hostile_history(tmp_path_factory):
    """A directory with the tables of a hostile service, and a history of two runs."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("hostile")
    service, clock = Service(), Clock()
    service.people = {number: hostile_demo.hostile(number, text) for number, text in enumerate(PAYLOADS, 1)}
    with seen_through(service) as exposure, History(directory / "history", clock=clock) as history:
        history.collect(exposure)
        service.people[1].records[0]["status"] = "removed"
        history.collect(exposure)
        for name in ("users", "records", "links", "alerts", "steps"):
            getattr(exposure, name)().to_pickle(directory / f"{name}.pickle")
    return directory


@pytest.fixture(scope="module")
def desk(hostile_history, tmp_path_factory):
    directory = tmp_path_factory.mktemp("work") / "lab"
    shutil.copytree(hostile_history, directory)
    with kit.desk(directory, "lab") as desk:
        yield desk


def test_charts_run_and_send_nothing(desk):
    page = desk.shows(
        OPEN.format(room=str(desk.directory)), CHARTS, "display(history, history.last_run())", height=HEIGHT
    )
    page.locator(".js-plotly-plot").first.wait_for(state="attached")
    assert_quiet(page, desk.sight)


def test_tables_run_and_send_nothing(desk):
    page = desk.shows(OPEN.format(room=str(desk.directory)), TABLES, height=HEIGHT)
    page.locator(".jp-RenderedHTML tbody tr").first.wait_for()
    assert_quiet(page, desk.sight)


# Not below the tables: each step of a widget would have them laid out again.
def test_widgets_run_and_send_nothing(desk):
    page = desk.shows(OPEN.format(room=str(desk.directory)), WIDGETS, STATIC_HTML, height=HEIGHT)
    page.locator(".exposurekit-grid tbody tr").first.wait_for()
    page.locator(".js-plotly-plot").first.wait_for(state="attached")
    assert_quiet(page, desk.sight)


def assert_quiet(page, sight):
    """Point at all charts: no cell failed, nothing ran, and no request left."""
    for chart in page.locator(".js-plotly-plot").all():
        kit.hovered(page, chart)  # which draws its label
    page.wait_for_load_state("networkidle")
    assert page.locator(".jp-OutputArea-output[data-mime-type*=error]").all_inner_texts() == []
    assert page.evaluate("() => window.ran") is None
    assert (sight.left, sight.dialogs) == ([], [])


@pytest.fixture(scope="module")
def six_weeks(tmp_path_factory):
    """Six weeks of a hostile service."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("six_weeks")
    hostile_demo.HostileDemo(directory).close()
    return directory / "history"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_shipped_notebooks_run_nothing_of_a_hostile_service(desk, six_weeks, tmp_path, path):
    shutil.copytree(six_weeks, tmp_path / "history")
    notebook = nbformat.read(path, as_version=4)
    [cell] = [cell for cell in notebook.cells if "ek.demo(" in cell.source and cell.cell_type == "code"]
    hostile = HOSTILE.format(room=str(tmp_path), tests=str(Path(__file__).parents[1]))
    cell.source = hostile + cell.source.replace("ek.demo(", "demo(")
    nbformat.write(notebook, desk.path)
    page = desk.runs(height=HEIGHT)
    page.locator(".js-plotly-plot").first.wait_for(state="attached")
    assert_quiet(page, desk.sight)


def test_check_can_fail(desk):
    """The same texts as markup run and send requests, and this is observed."""
    page = desk.shows(
        f"from IPython.display import HTML\nHTML('''<img src=x onerror={RUN}><img src={BEACON}/a.png>''')"
    )
    page.wait_for_function("() => window.ran === 1")
    kit.wait_for_images(page)
    assert f"{BEACON}/a.png" in desk.sight.left
    page.evaluate("() => { delete window.ran; }")  # for other tests
