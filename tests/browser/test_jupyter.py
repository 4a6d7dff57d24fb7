"""Widgets and charts in a real JupyterLab and a real Notebook 7, in a Chromium that reaches loopback alone."""

import contextlib
import re
import shutil

import pandas as pd
import pytest
from playwright.sync_api import expect
from support import contrast
from support import jupyter as kit
from support.accessibility import violations
from support.drawn_charts import (
    COUNT,
    SETTLED,
    assert_well_drawn,
    cells_of_charts,
    every_chart,
    measured,
    settled,
)

import exposurekit as ek

pytestmark = pytest.mark.long  # a browser, twice
TABLES = """
import pandas as pd, exposurekit as ek
records, alerts = pd.read_pickle("records.pickle"), pd.read_pickle("alerts.pickle")
history = ek.History("history")
"""
MANY = """
import numpy as np
many = pd.concat([records] * (200_000 // len(records) + 1), ignore_index=True).head(200_000)
many["number"] = np.arange(len(many))
explorer = ek.widgets.Explorer(many, name="many")
explorer
"""
WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A directory with tables and a history of a demo of three people."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("tables")
    with ek.demo(people=3, days=2) as demo:
        demo.exposure.records().to_pickle(directory / "records.pickle")
        demo.exposure.alerts().to_pickle(directory / "alerts.pickle")
        shutil.copytree(demo.history.path, directory / "history")
    return directory


# What both front ends do in the same way is tested in one of them; Lab's sidebar leaves a phone no room.
in_lab = pytest.mark.parametrize("front", ["lab"], indirect=True)
in_notebook = pytest.mark.parametrize("front", ["notebook"], indirect=True)


@pytest.fixture(scope="module", params=["lab", "notebook"])
def front(request):
    return request.param


@pytest.fixture(scope="module")
def desk(front, tables, tmp_path_factory):
    directory = tmp_path_factory.mktemp("work") / front
    shutil.copytree(tables, directory)
    with kit.desk(directory, front) as desk:
        yield desk


@pytest.fixture(scope="module")
def described_heights():
    return [drawn.layout.height for drawn in every_chart().values()]


PICKED = """(index) =>
  [...document.querySelectorAll(".exposurekit-panel [role=option]")].findIndex((one) => one.ariaSelected === "true") === index"""


DISCONNECTED = """() => getComputedStyle(document.querySelector(".exposurekit-panel"), "::after").content
    .startsWith('"Not connected to the kernel: run the cell again.')"""


STEPS = ".exposurekit-steps .widget-checkbox"


def _steps_by_alert(directory):
    """The steps that a checklist displays for each alert, in its order."""
    alerts = pd.read_pickle(directory / "alerts.pickle")  # noqa: S301  of the fixture
    checklist = ek.widgets.OptOutChecklist(alerts, ek.History(directory / "history"))
    procedures = alerts["opt_out_procedure"].iloc[checklist.order]
    return [tuple(f"{number}. {step}" for number, step in enumerate(steps, 1)) for steps in procedures]


def _turn(page, key, steps, index):
    """Press a key, and wait until the alert at an index is picked and none but its steps are displayed."""
    page.locator(STEPS).evaluate_all("(all) => all.forEach((one) => { one.dataset.isOld = true; })")
    page.keyboard.press(key)
    page.wait_for_function(PICKED, arg=index)
    expect(page.locator(f"{STEPS}[data-is-old]")).to_have_count(0)
    expect(page.locator(STEPS)).to_have_text([*steps[index]])


@in_lab
def test_keys_change_the_alert_and_ticks_outlive_the_kernel(desk):
    page = desk.shows(TABLES, "ek.widgets.OptOutChecklist(alerts, history)")
    options = page.locator(".exposurekit-panel [role=option]")
    options.first.wait_for()
    steps = _steps_by_alert(desk.directory)[: options.count()]  # the rest is not in the list
    assert len({*steps[:2]}) == len({*steps[-2:]}) == 2  # each key displays other steps
    page.locator(".exposurekit-panel[tabindex='0']").first.focus()  # by then it receives keys
    for key, index in (("n", 1), ("p", 0)):
        _turn(page, key, steps, index)
    page.locator(".exposurekit-panel [role=listbox]").focus()
    for key, index in (("End", len(steps) - 1), ("ArrowUp", len(steps) - 2), ("Home", 0)):
        _turn(page, key, steps, index)
    box = page.locator(STEPS).get_by_role("checkbox").first
    expect(box).not_to_be_checked()
    page.keyboard.press("s")  # past the values to copy
    expect(box).to_be_focused()
    page.keyboard.press("Space")
    _status(page, "1 of 1 step done")
    kit.kernel_restarted(page)
    page.wait_for_function(DISCONNECTED)
    expect(page.locator(".exposurekit-panel").locator("input:visible, button:visible")).to_have_count(0)
    kit.run_all(page)
    _status(page, "; 1 of")  # finished alerts are last, so another one is displayed
    assert desk.sight.left == []
    assert ek.History(desk.directory / "history").ticks()["value"].tolist() == ["done"]


# Whether the bars of each row of the first chart are full; the names of its sites, once each bar knows its row.
# Which bars are not dimmed; while the chart is drawn anew it has no bars, and this is true of no state.
FULL = """() => document.querySelector('.js-plotly-plot').data?.[0]?.marker.opacity.map((one) => one === 1)
    ?? [false]"""
ROWS = """() => {
  const chart = document.querySelector(".js-plotly-plot");
  for (const bar of chart.querySelectorAll(".bars .point path")) {
    if (bar.getBBox().width > 5) bar.dataset.row = bar.parentNode.__data__.i;
  }
  return chart.layout.yaxis.ticktext;
}"""
SPOKEN = re.compile(r"\d{4}-\d\d-\d\d")
# Where the second day of a chart over time is, as a share of the width of its area.
SECOND_DAY = """(area) => {
  const chart = area.closest(".js-plotly-plot"), axis = chart._fullLayout.xaxis;
  return axis.d2p(chart._fullData[0].x[1]) / axis._length;
}"""
PRESSED = "(n) => document.querySelectorAll('.exposurekit-panel [aria-pressed=true]').length === n"
DASHBOARD = """
demo = ek.demo(people=3, days=2)
ek.widgets.Dashboard(demo.exposure, demo.history)
"""


@in_notebook
def test_dashboard_follows_typing_clicks_and_clear(desk):
    """As an analyst uses it: without Enter or an id, and with a way back."""
    page = desk.shows(TABLES, DASHBOARD, height=2400)
    bars = page.locator(".js-plotly-plot").first.locator(".bars .point path")
    bars.first.wait_for(state="attached")
    _status(page, "records, now")
    summary = page.locator(".exposurekit-panel [role=status]").first
    everything = summary.text_content()
    person, search = (
        page.locator(".exposurekit-panel").first.get_by_label(name, exact=True)
        for name in ("Person", "Search")
    )
    person.press_sequentially("Zebedee")
    page.get_by_text("No person here has this name or id. Everyone is shown.").wait_for()
    expect(summary).to_have_text(everything)
    label = page.locator("datalist option").first.get_attribute("value")
    day = page.get_by_role("slider", name="Day", exact=True)
    expect(day).to_have_attribute("aria-valuetext", "now")
    day.press("ArrowLeft")
    expect(day).to_have_attribute("aria-valuetext", SPOKEN)
    _status(page, f"records, {day.get_attribute('aria-valuetext')}")
    day.press("End")
    expect(day).to_have_attribute("aria-valuetext", "now")
    expect(summary).to_have_text(everything)
    person.fill("")
    person.press_sequentially(label.rpartition(" (")[0].upper())
    _status(page, ", now, user 1")
    chips = page.get_by_role("group", name="Statuses").get_by_role("button")
    for number in range(chips.count()):
        chips.nth(number).click()
        page.wait_for_function(PRESSED, arg=number + 1)
    words = [name.strip() for name in chips.locator("span:first-child").all_text_contents()]
    _status(page, f"statuses: {', '.join(words)}")
    page.wait_for_function(f"() => ({FULL})().every((full) => full)")
    sites = page.evaluate(ROWS)
    for row in (0, 1):
        _click_row(page, row)
        _status(page, ", ".join(sites[: row + 1]))
        page.wait_for_function(f"(n) => ({FULL})().every((full, row) => full === (row <= n))", arg=row)
    _click_row(page, 0)
    _status(page, f"sites: {sites[1]}")
    expect(page.get_by_role("status").filter(has_text=", 20")).to_have_count(0)
    area = page.locator(".js-plotly-plot").nth(1).locator(".nsewdrag").first
    kit.clicked(page, area, across=area.evaluate(SECOND_DAY))
    _status(page, ", 20")  # a day
    search.press_sequentially("no such text")
    page.get_by_text("Rows 0 to 0 of 0").wait_for()
    page.get_by_role("button", name="Clear").first.click()
    expect(summary).to_have_text(everything)
    for box in (person, search):
        expect(box).to_have_value("")
    page.wait_for_function(f"() => ({FULL})().every((full) => full)")
    page.get_by_text(re.compile(r"Rows 1 to \d+ of")).wait_for()
    assert page.locator("[data-title*='Share'], [data-title*='loud']").count() == 0
    assert page.locator(".modebar-btn").count() > 0  # there are buttons, and none that uploads
    assert desk.sight.left == []


@in_lab
def test_chart_changed_before_it_is_drawn_has_the_change(desk):
    """The kernel changes a chart before a page displays it: what the page receives is the state, not the change."""
    page = desk.shows(
        TABLES,
        "user = int(history.records()['user_id'].iloc[0])\ndashboard = ek.widgets.Dashboard(history=history)\ndashboard.pick(user=user)",
        "dashboard",
    )
    names = page.locator(".js-plotly-plot").first.locator(".yaxislayer-above text, .yaxislayer-below text")
    names.first.wait_for(state="attached")
    records = ek.History(desk.directory / "history").records()
    theirs = records[records["user_id"] == records["user_id"].iloc[0]]
    assert 0 < theirs["site"].nunique() < records["site"].nunique()
    # In a narrow chart, a name takes two lines.
    assert {name.replace(" ", "") for name in names.all_text_contents()} == {
        name.replace(" ", "") for name in theirs["site"]
    }


CHARTS = 3  # of a dashboard with a history
WIDE = """() => [...document.querySelectorAll(".exposurekit-panel, .exposurekit-panel *")]
  .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
  .filter((one) => ["auto", "scroll"].includes(getComputedStyle(one).overflowX))
  .map((one) => one.className)"""
DRAWN = """() => [...document.querySelectorAll(".exposurekit-panel .js-plotly-plot .main-svg:first-child")]
  .map((one) => one.getBoundingClientRect()).every((box) => box.height > 100 && box.width > 200)"""


def _heights(page):
    """The heights of the charts of a dashboard, each as wide as its container."""
    drawn = settled(page, CHARTS)
    assert_well_drawn(drawn, CHARTS)
    return [one.height for one in drawn]


def _uncovered(page, width):
    """Cover the notebook with another tab, change the width of the window, and close that tab."""
    kit.run_command(page, "launcher:create")
    page.wait_for_selector(".jp-Launcher")
    page.set_viewport_size({"width": width, "height": 1400})
    page.locator(".lm-TabBar-tab", has_text="desk.ipynb").first.click()
    page.evaluate(
        "() => [...window.jupyterapp.shell.widgets('main')].find((one) => one.node.querySelector('.jp-Launcher')).close()"
    )


def test_charts_of_a_dashboard_fit_their_container(desk, front):
    """A sidebar, hidden outputs and another tab change the container of a chart, and not the window."""
    page = desk.shows(TABLES, "ek.widgets.Dashboard(history=history)")
    heights = _heights(page)
    for width in (1250, 1300):  # the window changes while the sidebar is the other way
        kit.sidebar_toggled(page, front)
        assert _heights(page) == heights
        page.set_viewport_size({"width": width, "height": 1400})
        assert _heights(page) == heights
    kit.run_command(page, "notebook:hide-all-cell-outputs")
    page.wait_for_function(f"() => !({SETTLED})(1)")
    page.set_viewport_size({"width": 1200, "height": 1400})
    kit.run_command(page, "notebook:show-all-cell-outputs")
    assert _heights(page) == heights
    if front == "lab":  # the other front has no tabs
        _uncovered(page, width=1300)
        assert _heights(page) == heights
    display = "(style) => { document.querySelector('.exposurekit-panel').style.display = style; }"
    for style, width in (("none", 900), ("", kit.WIDTH)):
        page.evaluate(display, style)
        page.set_viewport_size({"width": width, "height": 3_000})
    page.wait_for_function(DRAWN)


SCROLLED = (
    "(at) => document.querySelectorAll('.jp-WindowedPanel-outer').forEach((one) => { one.scrollTop = at; })"
)
FILLER = ["print('line\\n' * 40)"] * 12  # more than a screen is high
OUT_OF_VIEW = """() => [...document.querySelectorAll(".exposurekit-panel")].every((one) => {
  const { top, bottom } = one.getBoundingClientRect();
  return bottom <= 0 || top >= innerHeight;
})"""


@pytest.fixture(scope="module")
def windowed_desk(tables, tmp_path_factory):
    """One that draws only the cells in view, as both front ends do by default: with the same code."""
    directory = shutil.copytree(tables, tmp_path_factory.mktemp("windowed") / "notebook")
    with kit.desk(directory, "notebook", windowed=True) as desk:
        yield desk


def test_charts_run_out_of_view_are_as_tall_as_others(windowed_desk):
    """After all cells ran, the last one is in view."""
    page = windowed_desk.shows(TABLES, "ek.widgets.Dashboard(history=history)", *FILLER, height=700)
    measured_heights = []
    for width in (1_000, 1_250):  # the window changes while the charts are away
        page.evaluate(SCROLLED, 100_000)
        page.wait_for_function(OUT_OF_VIEW)
        page.set_viewport_size({"width": width, "height": 700})
        page.evaluate(SCROLLED, 0)
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        measured_heights.append(_heights(page))
    collapser = page.locator("[data-windowed-list-index='1'] .jp-OutputCollapser")
    collapser.click()
    page.wait_for_function(f"() => !({SETTLED})(1)")
    page.set_viewport_size({"width": 1_100, "height": 700})
    collapser.click()
    measured_heights.append(_heights(page))
    assert min(measured_heights[0]) > 100
    assert measured_heights == [measured_heights[0]] * 3


INTO_VIEW = "(cell) => { window.jupyterapp.shell.currentWidget.content.scrollToItem(cell, 'start'); }"
# Whether the chart of a cell is drawn, or a picture of it.
IN_CELL = """(cell) => {
  const chart = document.querySelector(`[data-windowed-list-index='${cell}'] .jp-RenderedPlotly`);
  return chart?.querySelector(".plot-img") || chart?.querySelector(".js-plotly-plot")?._fullLayout?.width;
}"""


def test_charts_drawn_out_of_view_are_drawn_whole(windowed_desk, described_heights):
    page, drawn = windowed_desk.shows(*cells_of_charts(), height=700), {}
    for cell in range(1, COUNT + 1):
        page.evaluate(INTO_VIEW, cell)
        page.wait_for_function(IN_CELL, arg=cell)
        drawn |= {one.title: one for one in measured(page) if one.width}
    titles = [chart.layout.title.text.replace("<br>", " ") for chart in every_chart().values()]
    assert [round(drawn[title].height) for title in titles if title in drawn] == described_heights


@in_lab
def test_keyboard_picks_a_question_through_its_group(desk):
    page = desk.shows(TABLES, "ek.widgets.Dashboard(history=history)", height=3_000)
    groups = page.get_by_role("tablist", name="Groups of questions")
    picked = page.locator(".exposurekit-tabs [aria-selected=true]:visible")
    card = page.locator(".exposurekit-answers .exposurekit-chart-card")

    def assert_picked(group, question, value):
        expect(picked).to_have_text([group, question])
        page.wait_for_function(ANSWERED, arg=value)
        expect(card).to_have_attribute("aria-labelledby", picked.last.get_attribute("id"))

    assert_picked("Exposure", "Listings by user", "by_user")
    expect(groups.get_by_role("tab")).to_have_text(
        ["Exposure", "To do", "Changes", "Removals", "Data quality"]
    )
    page.get_by_role("tab", name="Exposure").focus()
    for key in ("ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert_picked("Changes", "Why the number of open listings changed", "changes")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert_picked("Changes", "Expected number of open listings", "forecast")
    page.keyboard.press("ArrowRight")
    assert_picked("Changes", "Why the number of open listings changed", "changes")
    page.keyboard.press("ArrowRight")
    assert_picked("Changes", "Why the score changed", "score_changes")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")
    assert_picked("Data quality", "Missed listings (estimate)", "missed")
    page.keyboard.press("ArrowRight")
    assert_picked("Exposure", "Listings by user", "by_user")
    page.get_by_role("tab", name="Changes").click()  # which was left at its second question
    assert_picked("Changes", "Why the score changed", "score_changes")
    assert [one.width for one in settled(page, CHARTS) if one.width < 100] == []
    assert violations(page, ".exposurekit-panel") == {}
    page.set_viewport_size({"width": 640, "height": 3_000})  # 1280 pixels at 200%
    questions = page.get_by_role("combobox", name="Questions")
    available = ek.widgets.Dashboard(history=ek.History(desk.directory / "history"))._available
    assert [one.get_attribute("value") for one in questions.locator("option").all()] == available
    questions.select_option("survival")
    page.wait_for_function(ANSWERED, arg="survival")
    assert_only_tables_scroll(page)
    assert violations(page, ".exposurekit-panel") == {}
    assert (desk.sight.left, desk.sight.errors) == ([], [])


def assert_only_tables_scroll(page):
    settled(page, CHARTS)
    assert {*page.evaluate(WIDE)} <= {"exposurekit-grid-box"}


ON_DISK = """
records.drop(columns=["relations", "aliases", "locations"]).to_parquet("records.parquet")
explorer = ek.widgets.Explorer("records.parquet")
explorer
"""


# Whether the first column is so wide.
WIDTH_IS = (
    "(width) => Math.abs(document.querySelector('.exposurekit-grid th .head').offsetWidth - width) <= 2"
)


@in_notebook
def test_keyboard_alone_explores_a_file(desk):
    """What is in use stays in its place: the focus, the width of a column, and the row that is ticked."""
    page = desk.shows(TABLES, ON_DISK)
    grid = page.locator(".exposurekit-grid")
    grid.locator("tbody tr").first.wait_for()
    page.get_by_label("Search").focus()
    page.keyboard.type("removed")
    page.keyboard.press("Enter")
    code = page.locator(".exposurekit-panel textarea")
    expect(code).to_have_value(
        re.compile(r"FROM read_parquet\('records\.parquet', union_by_name = true\).*ILIKE", re.DOTALL)
    )
    sort, edge = (
        grid.get_by_role("button", name="sort by site"),
        grid.get_by_role("separator", name="width of site"),
    )
    sort.focus()
    page.keyboard.press("Enter")
    grid.locator("th[aria-sort=ascending]").wait_for()
    width = grid.locator("th .head").first.evaluate("(one) => one.offsetWidth")
    page.keyboard.press("Tab")
    expect(edge).to_be_focused()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(WIDTH_IS, arg=width + 48)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    grid.locator("th[aria-sort=descending]").wait_for()
    expect(sort).to_be_focused()
    page.wait_for_function(WIDTH_IS, arg=width + 48)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.wait_for_function(WIDTH_IS, arg=width)
    row = grid.locator("tbody tr").first
    row.evaluate("(one) => { one.dataset.before = ''; }")
    row.get_by_role("checkbox").focus()
    page.keyboard.press("Space")
    page.get_by_text("1 selected").first.wait_for()
    expect(grid.locator("tbody tr.selected[data-before]").get_by_role("checkbox")).to_be_focused()
    assert violations(page, ".exposurekit-panel") == {}
    assert desk.sight.left == []


LIVING = """
import asyncio, time
from IPython.display import display
from exposurekit.widgets import figure_widget
def of(some): return ek.charts.by_site(ek.analysis.by_site(some))
whole, one = of(history.records()), of(history.records().head(1))
"""
GONE = 'first.update("gone")'
CHANGED = {
    "one of its views is gone": (
        "w = figure_widget.FigureView(whole)\nfirst = display(w, display_id='first')",
        "w",
        f"time.sleep(4)\n{GONE}",
    ),
    "it was requested late": (
        "w = figure_widget.FigureView(one)\nw.redraw(whole)",
        "display(w)\ntime.sleep(5)",
    ),
}
# Beside the cells: requests of the browser are processed when all of them have run.
LATER = "_ = asyncio.get_event_loop().call_later(2, lambda: w.redraw(one))"


@in_lab
@pytest.mark.parametrize("before", CHANGED)
def test_chart_applies_each_change_once(desk, before):
    page = desk.shows(TABLES, LIVING, *CHANGED[before], LATER)
    page.wait_for_function(
        "() => { const all = [...document.querySelectorAll('.js-plotly-plot')];"
        " return all.length === 1 && all[0].data.length && all[0].data[0].y.length === 1; }"
    )
    kit.wait_for_kernel(page)  # by then, a second message would have arrived
    trace_names = page.evaluate("() => document.querySelector('.js-plotly-plot').data.map((one) => one.name)")
    assert len(trace_names) == len(set(trace_names)) > 0
    site = ek.History(desk.directory / "history").records()["site"].iloc[0]
    assert site in page.locator(".js-plotly-plot .yaxislayer-above").first.text_content()


@in_lab
def test_browser_has_one_page_of_200_000_rows(desk):
    page = desk.shows(TABLES, MANY)
    _status(page, "Rows 1 to 20 of 200,000")
    page.get_by_role("button", name="Next page").click()
    _status(page, "Rows 21 to 40 of 200,000")
    grid = page.locator(".exposurekit-grid")
    expect(grid.locator("tbody tr")).to_have_count(20)
    for _ in range(2):
        grid.get_by_role("button", name="sort by number").click()
    grid.get_by_role("cell", name="199999", exact=True).wait_for()
    grid.get_by_role("checkbox").first.check()
    page.get_by_text("1 selected").first.wait_for()
    assert desk.sight.left == []


@in_notebook
def test_only_tables_scroll_sideways_on_a_phone(desk):
    page = desk.shows(TABLES, EVERY, height=3_000)
    page.locator(".exposurekit-grid tbody tr").first.wait_for()
    page.locator(".js-plotly-plot .bars").first.wait_for(state="attached")
    page.set_viewport_size({"width": 390, "height": 3_000})
    panels = "[...document.querySelectorAll('.exposurekit-panel')]"
    page.wait_for_function(f"() => {panels}.every((one) => one.clientWidth < 390)")
    assert_only_tables_scroll(page)
    page.wait_for_function(f"() => {panels}.every((one) => one.scrollWidth <= one.clientWidth + 1)")


# The charts with labelled rows: their width, that of their plot, and the labels.
LABELLED = """() => [...document.querySelectorAll('.js-plotly-plot')].filter((one) => one.clientWidth && one.layout.yaxis?.ticktext)
  .map((one) => ({ width: one.clientWidth, plot: one._fullLayout._size.w, labels: one.layout.yaxis.ticktext }))"""


# The charts of two panels: where each panel begins and ends, and the height of the chart.
PANELS = """() => [...document.querySelectorAll('.js-plotly-plot')].filter((one) => one.clientWidth && one._fullLayout?.xaxis2)
  .map(({ _fullLayout: { xaxis, xaxis2, yaxis, yaxis2, height } }) => ({
    left: [xaxis._offset, xaxis._offset + xaxis._length], right: [xaxis2._offset, xaxis2._offset + xaxis2._length],
    isStacked: Boolean(yaxis2) && yaxis2._offset >= yaxis._offset + yaxis._length, height }))"""


# Whether the last chart answers the question that is picked.
ANSWERED = """(question) => document.querySelector(".exposurekit-tabs select").value === question
  && document.querySelector(".exposurekit-chart-card[role=tabpanel]").ariaBusy === 'false'"""


@in_notebook
def test_plots_on_a_phone_have_half_of_the_width(desk):
    """Long labels take two lines there, and two panels stand below each other; where there is room, all is as before."""
    setup = "dashboard = ek.widgets.Dashboard(history=history)\ndashboard.ask('time_to_removal')"
    page = desk.shows(TABLES, setup, "dashboard", height=3_000)
    page.locator(".js-plotly-plot .bars").first.wait_for(state="attached")
    page.wait_for_function(f"() => ({LABELLED})().length > 1 && ({PANELS})().length")
    settled(page, CHARTS)
    whole, [wide] = [one["labels"] for one in page.evaluate(LABELLED)], page.evaluate(PANELS)
    assert not wide["isStacked"]
    assert wide["left"][1] < wide["right"][0]
    page.set_viewport_size({"width": 390, "height": 4_000})
    page.wait_for_function(
        f"() => {{ const rows = ({LABELLED})(); return rows.every(({{ width, plot }}) => width < 390 && 2 * plot > width)"
        " && rows.some(({ labels }) => labels.some((label) => label.includes('<br>'))); }",
    )
    stacked = f"() => ({PANELS})().every((one) => one.isStacked && Math.abs(one.left[0] - one.right[0]) < 2)"
    page.wait_for_function(stacked)
    assert_well_drawn(settled(page, CHARTS), CHARTS)
    assert page.evaluate(PANELS)[0]["height"] > wide["height"] + 100
    # Plotly keeps the margins of the chart before, which leave the next one no room.
    for question in ("user_by_site", "by_state", "time_to_removal"):
        page.locator(".exposurekit-tabs select").select_option(question)
        page.wait_for_function(ANSWERED, arg=question)
        assert_well_drawn(settled(page, CHARTS), CHARTS)
    page.set_viewport_size({"width": kit.WIDTH, "height": 3_000})
    same = f"(whole) => JSON.stringify(({LABELLED})().map((one) => one.labels)) === JSON.stringify(whole)"
    page.wait_for_function(same, arg=whole)
    settled(page, CHARTS)
    assert page.evaluate(PANELS) == [wide]


THEME = """(theme) => {
  const paper = getComputedStyle(document.body).getPropertyValue("--jp-layout-color0").trim();
  return document.body.dataset.jpThemeName === theme && /^#1/.test(paper) === theme.endsWith("Dark");
}"""
FAINT = """<body style="background: white; color: black"><p>black</p><p style="color: #7f7f7f">grey</p>
<p style="opacity: 0.5">half</p><p style="color: #767676">enough</p><p style="background: #111; color: white">white</p>
<svg width="300" height="60"><rect y="20" width="300" height="40" fill="#d55e00"/><text y="15" fill="#999">drawn</text>
<text y="45" fill="white">on a bar</text><text x="150" y="45" fill="black">read</text></svg></body>"""
EVERY = """
from IPython.display import display
explorer = ek.widgets.Explorer(records, name="records")
display(ek.widgets.Dashboard(history=history), ek.widgets.OptOutChecklist(alerts, history), explorer)
display(ek.widgets.RecordLabels(history.records(), history), ek.widgets.ConnectionPanel(history=history))
"""
CONTROLS = {
    "button",
    "checkbox",
    "combobox",
    "listbox",
    "option",
    "searchbox",
    "slider",
    "spinbutton",
    "textbox",
}
UNNAMED = "<div class='exposurekit-panel'><button></button><input type='text'></div>"


@in_lab
def test_controls_have_names_and_texts_have_contrast(desk):
    """For a screen reader, on the keyboard, and by WCAG 2.1 AA in both themes, also in charts."""
    page = desk.shows(TABLES, EVERY, height=3_000)
    page.locator(".exposurekit-grid tbody tr").first.wait_for()
    page.locator(".js-plotly-plot .bars .point path").first.wait_for(state="attached")
    expect(page.locator(".exposurekit-panel")).to_have_count(6)  # one is within the dashboard
    page.get_by_role("button", name="Load again").wait_for()  # of the last
    nodes = [one for one in kit.accessible_nodes(page, ".exposurekit-panel") if one.role in CONTROLS]
    assert {"button", "checkbox", "combobox", "listbox", "slider", "textbox"} <= {one.role for one in nodes}
    assert [one for one in nodes if not one.name] == []
    assert [one for one in nodes if not one.is_reached and one.role != "option"] == []
    assert violations(page, ".jp-OutputArea") == {}
    change_theme = "(theme) => { window.jupyterapp.commands.execute('apputils:change-theme', { theme }); }"
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.evaluate(change_theme, theme)
        page.wait_for_function(THEME, arg=theme)
        texts = contrast.measured(page, ".exposurekit-panel")
        assert len(texts) > 100
        assert {"listings", "Person", "Clear"} <= {one["words"] for one in texts}
        assert [one for one in texts if one["ratio"] < contrast.LEAST] == []


def test_accessibility_checks_can_fail():
    kit.needs_browser()
    with kit.browsing() as (page, _):
        page.set_content(FAINT)
        faint = {one["words"] for one in contrast.measured(page, "body") if one["ratio"] < contrast.LEAST}
        assert faint == {"grey", "half", "drawn", "on a bar"}
        page.set_content(UNNAMED)
        nodes = kit.accessible_nodes(page, ".exposurekit-panel")
        assert [one.role for one in nodes if one.role in CONTROLS and not one.name] == ["button", "textbox"]


LOADED = "demo = ek.demo(people=1, days=1)\ndemo.exposure.refresh()\nlen(demo.exposure.records())"


@in_notebook
def test_widgets_stay_live_and_progress_bars_leave_no_output(desk):
    page = desk.shows(TABLES, LOADED, "ek.widgets.Dashboard(history=history)")
    page.locator(".js-plotly-plot .bars").first.wait_for(state="attached")
    assert len(kit.outputs(kit.saved(page, desk.path), WIDGET)) == 1
    with _second_page(desk, desk.path.name) as again:
        again.locator(".exposurekit-panel .js-plotly-plot .bars").first.wait_for(state="attached")
        expect(again.get_by_text("model not found")).to_have_count(0)
        expect(again.locator("[class$=-static]").first).to_be_hidden()
    assert desk.sight.left == []


@contextlib.contextmanager
def _second_page(desk, name):
    """Another page with a notebook, beside the desk's."""
    page = kit.new_page(desk.page.context)
    kit.opened(page, desk.address, desk.front, name)
    yield page
    page.close()


def _status(page, words):
    page.wait_for_function(
        "(words) => [...document.querySelectorAll('[role=status]')].some(one => one.textContent.includes(words))",
        arg=words,
    )


def _click_row(page, row):
    """Click the bar of a row of the first chart."""
    page.evaluate(ROWS)  # which new bars do not know
    kit.clicked(page, page.locator(f"[data-row='{row}']").first)


@in_lab
def test_requests_to_other_hosts_are_blocked_and_recorded(desk):
    page = desk.shows("from IPython.display import HTML\nHTML('<img src=\"https://beacon.example/x.png\">')")
    page.wait_for_selector(".jp-OutputArea-output img", state="attached")
    kit.wait_for_images(page)
    assert set(desk.sight.left) == {"https://beacon.example/x.png"}


@in_notebook
def test_static_html_replaces_widgets_without_a_kernel(desk):
    page = desk.shows(
        TABLES,
        "ek.charts.by_site(ek.analysis.by_site(records))",  # on top: what is far below is drawn later
        'ek.widgets.OptOutChecklist(alerts[alerts["opt_out_procedure"].list.len() > 0].head(3))',
        "ek.widgets.Explorer(records.head(3))",
        "dashboard = ek.widgets.Dashboard(history=history)\ndashboard",
    )
    kit.restarted(page)  # a kernel sends plotly.js once, perhaps to an earlier notebook of the desk
    kit.run_all(page)
    box = page.locator(".widget-checkbox input").first
    box.wait_for()
    expect(page.locator("[class$=-static]").first).to_be_hidden()
    box.check()
    page.locator("[class$=-static] li", has_text="☑").first.wait_for(state="attached")
    assert "☑" in "".join(kit.outputs(kit.saved(page, desk.path), "text/html"))
    copy = shutil.copy(desk.path, desk.directory / "static.ipynb")  # which has another kernel
    with _second_page(desk, copy.name) as page:
        page.set_viewport_size({"width": kit.WIDTH, "height": 3_000})
        page.locator("[class$=-static] li", has_text="☑").first.wait_for()
        page.locator("[class$=-static] table").first.wait_for()
        page.locator(".jp-RenderedPlotly").first.wait_for()  # as a picture, until it is pointed at
        figures = page.locator("[class$=-static] figure[role=group]")
        expect(figures).to_have_count(3)
        names = figures.evaluate_all("(all) => all.map((one) => one.ariaLabel)")
        words = page.locator("[class$=-static]").last.inner_text()
        assert [len(names), len({*names})] == [3, 3]
        assert not [name for name in names if name in words]  # the description is not displayed, too
        page.get_by_text("run its cell again").first.wait_for()
        assert violations(page, ".jp-OutputArea") == {}
        expect(page.get_by_text("model not found").filter(visible=True)).to_have_count(0)
    assert desk.sight.left == []


def assert_as_described(page, heights):
    drawn = settled(page)
    assert_well_drawn(drawn)
    assert [round(one.height) for one in drawn] == heights


def test_charts_have_the_same_height_in_any_place(desk, front, described_heights):
    """At any width, beside a sidebar, after their output was hidden, behind another tab, and in a second view."""
    page = desk.shows(*cells_of_charts())
    assert_as_described(page, described_heights)
    kit.sidebar_toggled(page, front)
    assert_as_described(page, described_heights)
    page.set_viewport_size({"width": 1000, "height": 1400})
    kit.sidebar_toggled(page, front)
    assert_as_described(page, described_heights)
    before = settled(page)
    kit.run_command(page, "notebook:hide-all-cell-outputs")
    page.wait_for_function(f"() => !({SETTLED})(1)")
    kit.run_command(page, "notebook:show-all-cell-outputs")
    assert_as_described(page, described_heights)
    assert [one.width for one in settled(page)] == [one.width for one in before]
    if front == "lab":  # which has tabs and views
        assert_high_enough_in_lab(page, described_heights)


def assert_high_enough_in_lab(page, heights):
    page.set_viewport_size({"width": 700, "height": 1400})
    assert [round(one.height) for one in settled(page)] == heights
    _uncovered(page, width=1250)
    assert_as_described(page, heights)
    page.locator(".js-plotly-plot").first.click(button="right", position={"x": 5, "y": 5})
    page.locator(".lm-Menu-item", has_text="Create New View").first.click()
    picture = kit.settled(page, page.locator(".jp-LinkedOutputView .plot-img").first)
    page.mouse.move(picture["x"] + 200, picture["y"] + 100)  # as a picture, until it is pointed at
    page.locator(".jp-LinkedOutputView .js-plotly-plot").wait_for()
    *rest, view = settled(page, COUNT + 1)
    assert [round(one.height) for one in rest] == heights
    assert view.height >= heights[0] - 1  # Plotly fills the panel of a view
