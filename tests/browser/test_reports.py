"""A report in a real Chromium without a network: drawn, used, printed, read by a screen reader, and attacked."""

import contextlib
import ctypes
import itertools
import json
import re
import shutil
from collections import Counter
from datetime import timedelta

import pandas as pd
import plotly.graph_objects as go
import pypdfium2
import pytest
from pypdfium2 import raw
from support import contrast, hostile_demo, ticked
from support import jupyter as kit
from support import widget_controls as controls
from support.accessibility import violations
from support.chart_tables import transitions
from support.drawn_charts import assert_well_drawn, every_chart, fitted, measured
from support.histories import DAWN, Clock, Person, Service, a_record, seen_through
from support.hostile_texts import BEACON, PAYLOADS, RUN

import exposurekit as ek
from exposurekit import analysis, charts
from exposurekit.errors import ConfigurationError
from exposurekit.history import History
from exposurekit.reports import pdf as reports_pdf
from exposurekit.text.html_cards import stylesheet
from exposurekit.widgets import static_html

pytestmark = pytest.mark.long
KINDS = {"fleet": 5, "person": 2, "changes": 3, "sites": 2}  # at least so many charts
VIEWS = {"wide": {}, "dark and narrow": {"dark": True, "width": 390}}
PAPERS = {"wide": "A4", "dark and narrow": "Letter"}
PAPER = {"width": 720, "height": 1050}  # A4 within its margins, in CSS pixels
LAST_HEADS = ("Manualwork", "Datasource")
PAGES_MAX = 5  # of the fleet report
FOOT_PT = 40  # of a page: its number is below
BEFORE_PRINT = "() => dispatchEvent(new Event('beforeprint'))"

CUT = """() => [...document.querySelectorAll(".chart")].flatMap((place) => {
    const room = place.getBoundingClientRect();
    const out = ({ left, right, top, bottom }) => left < room.left - 1 || right > room.right + 1
        || top < room.top - 1 || bottom > room.bottom + 1;
    return [...place.querySelectorAll("svg.main-svg text")].filter(
        (text) => text.textContent.trim() && out(text.getBoundingClientRect())).map((text) => text.textContent);
})"""
# The charts that are wider than their section, or leave a part of it empty.
MISFITS = """() => [...document.querySelectorAll(".chart")].filter((place) => {
    const chart = place.querySelector("svg.main-svg").getBoundingClientRect();
    const section = place.closest("section").getBoundingClientRect();
    return chart.right > section.right + 1 || chart.width < 0.95 * section.width;
}).map((place) => place.id)"""
CARD_EDGES = "() => [...document.querySelectorAll('.card')].map((card) => card.getBoundingClientRect().right)"
HALVES = "() => [...document.querySelectorAll('.half')].map((section) => section.getBoundingClientRect().top)"
# The column headers that take more than one line.
# The interval of an estimate stands in a second line.
BROKEN_HEADS = """() => [...document.querySelectorAll("th:not(.estimate) button")].filter(
    (head) => head.getClientRects().length && head.clientHeight > 2 * parseFloat(getComputedStyle(head).fontSize)
).map((head) => head.textContent)"""
# The entries of each legend: top, left and right in pixels, and the width of the chart.
LEGENDS = """() => [...document.querySelectorAll(".chart")].map((place) => [...place.querySelectorAll(".traces")].map((entry) => {
    const { top, left, right } = entry.getBoundingClientRect(), room = place.getBoundingClientRect();
    return { top: Math.round(top), left: left - room.left, right: right - room.left, width: room.width };
}))"""
CHART_TEXTS = """() => [...document.querySelectorAll(".chart")].map((place) => [...place.querySelectorAll(
    ".xtitle, .x2title, .ytitle, .ytick text, .legendtext")].map((text) => text.textContent))"""
CHART_WIDTH = "() => document.querySelector('.chart svg.main-svg').getBoundingClientRect().width"
DATES = """() => [...document.querySelectorAll(".chart .xtick text")].map((label) => {
    const { left, right } = label.getBoundingClientRect();
    return { left, right };
})"""
TITLES = """() => [...document.querySelectorAll("section:has(.chart)")].map((section) => [
    section.querySelector("h2").textContent,
    [...section.querySelectorAll(".chart .xtitle, .chart .ytick text")].map((text) => text.textContent)])"""


@pytest.fixture(scope="module", autouse=True)
def browser():
    kit.needs_browser()
    with kit.chromium():
        yield


def write_reports(directory, history, exposure, since):
    """A report of each kind in a directory; return that on everyone."""
    fleet = ek.report(history, directory / "fleet.html", exposure=exposure)
    ek.report(history, directory / "person.html", exposure=exposure, user=1)
    ek.report(history, directory / "changes.html", since=since)
    ek.report(history, directory / "sites.html", kind="sites")
    return fleet


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A report of each kind, of a demo of ten days."""
    with ek.demo(people=6, days=10) as demo:
        began = demo.history.runs()["finished_at"].iloc[2]
        directory = tmp_path_factory.mktemp("reports")
        write_reports(directory, demo.history, demo.exposure, began)
        shutil.copytree(demo.history.path, directory / "history")
    return directory


@pytest.fixture(scope="module")
def fleet(reports):
    return reports / "fleet.html"


@pytest.fixture(scope="module")
def pdf(fleet):
    """The report on everyone as a PDF."""
    file = fleet.with_suffix(".pdf")
    file.write_bytes(reports_pdf.print_pdf(fleet.read_text()))
    return pypdfium2.PdfDocument(file)


@contextlib.contextmanager
def opened(file, **view):
    """The page of a file, and what the browser observed."""
    with kit.browsing(file=file, **view) as (page, observed):
        page.goto(file.resolve().as_uri())
        yield page, observed


def drawn(page):
    """All charts, each drawn after it was scrolled into view."""
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
        chart.locator("svg.main-svg").first.wait_for()
    return fitted(page, page.locator(".chart").count())


def test_charts_out_of_view_are_drawn_without_scrolling(fleet):
    with opened(fleet) as (page, observed):
        page.wait_for_function("() => [...document.querySelectorAll('.chart')].every((one) => one.data)")
        assert page.evaluate("() => scrollY") == 0
        assert page.locator(".chart").count() > 4
        assert observed.errors == []


@pytest.mark.parametrize(("kind", "view"), [*itertools.product(KINDS, VIEWS)])
def test_report_is_drawn_offline_accessible_and_printable(reports, kind, view):
    with opened(reports / f"{kind}.html", **VIEWS[view]) as (page, observed):
        as_drawn = drawn(page)
        assert len(as_drawn) >= KINDS[kind]
        assert_well_drawn(as_drawn, page.locator(".chart").count())
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(CUT) == []
        assert page.evaluate(BROKEN_HEADS) == []
        has_buttons = page.locator(".modebar-btn").count() > 0  # on a phone, they would cover the charts
        assert has_buttons == (page.viewport_size["width"] > 520)
        assert page.locator("[data-title*='Share'], [data-title*='loud']").count() == 0
        if kind == "fleet":
            assert violations(page) == {}
        texts = contrast.measured(page, "body")
        assert len(texts) > 100
        assert [one for one in texts if one["ratio"] < contrast.LEAST] == []  # WCAG 2.1 AA
        assert_printable(page, PAPERS[view])
        assert (observed.left, observed.dialogs, observed.errors) == ([], [], [])


def assert_printable(page, paper):
    """Paper has each chart whole on the page of its title, all column headers, no control, and dark ink."""
    screen_width = page.evaluate(CHART_WIDTH)
    pages, palest = on_paper(page.pdf(format=paper))
    page.emulate_media(media="print")
    page.evaluate(BEFORE_PRINT)
    charts, titles = page.evaluate(CHART_TEXTS), page.evaluate(TITLES)
    heads = [head.text_content() for head in page.locator("th:visible").all()]
    page.emulate_media(media="screen")
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(CHART_WIDTH) == screen_width
    paper_text = "".join(pages)
    assert len(heads) > 5
    assert [name for name in heads if words(name).casefold() not in paper_text.casefold()] == []
    assert sum(map(len, charts)) > 5
    assert [chart for chart in charts if not _on_one_page(pages, chart)] == []
    # Lines of a title may alternate with those of the column beside it.
    assert [title for title, chart in titles if not _on_one_page(pages, [*title.split(), *chart])] == []
    assert "Filter" not in paper_text
    assert palest < 200  # of white paper


def _on_one_page(pages, texts):
    return any(all(words(text) in page for text in texts) for page in pages)


@pytest.fixture(scope="module")
def report_of_charts(tmp_path_factory):
    file = tmp_path_factory.mktemp("charts") / "charts.html"
    sections = [ek.Section(name, figure=chart) for name, chart in every_chart().items()]
    with seen_through(controls.three_people()) as exposure:
        ek.report(exposure, file, sections=sections)
    return file


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_each_chart_is_drawn_as_described(report_of_charts, width):
    """On a screen and on paper: its height and trace types, with no label cut or covered."""
    with opened(report_of_charts, width=width) as (page, observed):
        assert_well_drawn(drawn(page))
        if width == 390:  # paper differs most from it
            lay_out_on_paper(page)
            assert_well_drawn(measured(page))
        assert observed.errors == []


@pytest.mark.parametrize("width", [390, 560])
def test_dates_below_a_narrow_chart_have_room(tmp_path, width):
    """Otherwise Plotly turns them, depending on the font."""
    days = pd.date_range("2026-09-25", periods=63, tz="UTC")
    runs = pd.DataFrame({"at": days, "people": 1, "unseen": 0})
    figure = charts.status_over_time(analysis.status_over_time(transitions().assign(at=days[:3]), runs))
    with seen_through(controls.three_people()) as exposure:
        ek.report(exposure, tmp_path / "charts.html", sections=[ek.Section("Course", figure=figure)])
    with opened(tmp_path / "charts.html", width=width) as (page, _):
        assert len(drawn(page)) == 1
        boxes = page.evaluate(DATES)
    assert len(boxes) > 2
    gaps = [after["left"] - before["right"] for before, after in itertools.pairwise(boxes)]
    assert min(gaps) > 12


def test_legends_on_a_phone_stand_in_rows(report_of_charts):
    """An entry begins a new row only if the one before has no room for it."""
    with opened(report_of_charts, width=390) as (page, _):
        drawn(page)
        legends = [entries for entries in page.evaluate(LEGENDS) if len(entries) > 1]
    assert len(legends) > 5
    n_rows = [len({entry["top"] for entry in entries}) for entries in legends]
    assert any(1 < rows < len(entries) for rows, entries in zip(n_rows, legends, strict=True))
    for entries in legends:
        for before, entry in itertools.pairwise(entries):
            if entry["top"] > before["top"]:
                needed = before["right"] + entry["right"] - entry["left"]
                assert needed > 0.8 * entry["width"]  # texts are narrower than their estimated width


def test_names_of_sites_on_a_phone_are_whole(fleet):
    """They take up to three lines, and the rows the height of them."""
    with opened(fleet, width=390) as (page, _):
        assert_well_drawn(drawn(page), page.locator(".chart").count())
        texts = [text for chart in page.evaluate(CHART_TEXTS) for text in chart]
    assert sum("Crumbtrail" in text for text in texts) > 2
    assert [text for text in texts if "\N{HORIZONTAL ELLIPSIS}" in text] == []


def test_printed_charts_fill_their_sections(tmp_path):
    """Paper has sections of half its width, two in a row: a chart of one of them must not cover the other."""
    service, clock = controls.three_people(), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day, status in enumerate(("discovered", "removed", "discovered")):
            clock.set(DAWN + timedelta(days=day))
            service.people[1].records[0] |= {"status": status}
            history.collect(exposure.refresh(), progress=False)
        report = write_reports(tmp_path, history, exposure, since=DAWN)
    assert "1 of 4 listings ever removed was listed again" in section_finding(report, "relistings")
    for kind in KINDS:
        with opened(tmp_path / f"{kind}.html") as (page, _):
            drawn(page)
            lay_out_on_paper(page)
            page.wait_for_function(f"() => !({MISFITS})().length")
            tops = Counter(page.evaluate(HALVES))
            assert {*tops.values()} <= {2}
            assert kind != "fleet" or tops
            assert page.evaluate(CARD_EDGES)
            assert max(page.evaluate(CARD_EDGES)) <= PAPER["width"] - 1  # a border at the edge would be cut


@pytest.mark.parametrize(("people", "is_printed"), [(12, False), (14, True)])
def test_paper_has_the_people_that_a_chart_omits(tmp_path, people, is_printed):
    service = Service({n: Person([a_record(n, site=f"Site {n}")]) for n in range(1, people + 1)})
    with seen_through(service) as exposure:
        ek.report(exposure, tmp_path / "score.html", sections=["score"])
    with opened(tmp_path / "score.html") as (page, _):
        drawn(page)
        lay_out_on_paper(page)
        rows = page.locator("#score tbody tr")
        assert rows.count() == people
        assert [row.is_visible() for row in rows.all()] == [is_printed] * people


def test_lists_are_lists_on_paper(fleet):
    with opened(fleet) as (page, _):
        lay_out_on_paper(page)
        items = page.locator("#precision li, #counted > div:not(.meaning)").all()
        assert len(items) > 5
        assert {item.evaluate("(one) => getComputedStyle(one).display") for item in items} == {"list-item"}
        for heading in page.locator(".required").all():  # begins a line of its own
            assert heading.evaluate("(one) => one.getClientRects().length") > 1


def test_the_last_figure_on_a_phone_fills_its_row(reports):
    with opened(reports / "person.html", width=390) as (page, _):
        cards = [card.bounding_box() for card in page.locator(".figures .card").all()]
    rows = Counter(card["y"] for card in cards)
    assert len(cards) % 2
    assert [*rows.values()] == [2] * (len(cards) // 2) + [1]
    assert cards[-1]["x"] + cards[-1]["width"] == pytest.approx(cards[1]["x"] + cards[1]["width"], abs=1)


def lay_out_on_paper(page):
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    page.evaluate("() => { document.documentElement.style.scrollbarWidth = 'none'; }")  # paper has none
    page.evaluate(BEFORE_PRINT)


def section_finding(report, key):
    return next(section.finding for section in report.sections if section.key == key)


# The horizontal middle of each of these parts of a text, in elements and in charts, at its first visible occurrence.
MIDDLES = """(parts) => {
    const whole = parts.join("");
    for (const root of document.querySelectorAll("h2, p, li, dd, td, summary, svg text")) {
        const leaves = [], walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
        let text = "";
        while (walker.nextNode()) for (const [at, one] of [...walker.currentNode.data].entries()) {
            if (/[\\u2066-\\u2069]/.test(one)) continue;
            leaves.push([walker.currentNode, at]);
            text += one;
        }
        const start = text.indexOf(whole);
        if (start < 0 || !root.getClientRects().length) continue;
        let from = start;
        return parts.map((part) => {
            const range = document.createRange(), until = from + part.length - 1;
            range.setStart(...leaves[from]);
            range.setEnd(leaves[until][0], leaves[until][1] + 1);
            from += part.length;
            const box = range.getBoundingClientRect();
            return (box.left + box.right) / 2;
        });
    }
    return [];
}"""
LEFTWARD = (
    "\u05d0\u05ea\u05e8 \u05e6\u05e4\u05d5\u05df",
    "\u062f\u0644\u064a\u0644 \u0627\u0644\u0646\u0627\u0633",
)


@pytest.mark.parametrize("site", LEFTWARD)
def test_names_from_right_to_left_leave_numbers_where_they_are(tmp_path, site):
    """In a sentence, a list and the label of a chart, what stands before and after such a name is drawn there."""
    service = Service(
        {user: Person([a_record(user, site=f"{site}"), a_record(user + 5)]) for user in (1, 2, 3)}
    )
    service.people[1].records.append(a_record(20, site=site))
    with seen_through(service) as exposure:
        section = ek.Section(
            "Ours",
            text=f"Most on {site} 7, {site} 5.",
            table=pd.DataFrame({"site": [f"{site} 24"]}),
            figure=charts.by_site(analysis.by_site(exposure.records().assign(site=f"{site} 24"))),
        )
        ek.report(exposure, tmp_path / "fleet.html", sections=["by_site", section])
    with opened(tmp_path / "fleet.html") as (page, _):
        drawn(page)
        for parts in (
            ["Most open listings: ", site, " (4)."],
            ["Most on ", site, " 7, ", site, " 5."],
        ):
            middles = page.evaluate(MIDDLES, parts)
            assert middles == sorted(middles) != []
        axis = page.locator("#ours-chart svg text").all_text_contents()
        assert f"\u2068{site}\u2069 24" in axis  # as the label of a row, where there is no markup
        name, number = page.evaluate(MIDDLES.replace("h2, p, li, dd, td, summary, ", ""), [site, " 24"])
        assert name < number
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        name, number = page.evaluate(
            MIDDLES.replace("h2, p, li, dd, td, summary, svg text", "td"), [site, " 24"]
        )
        assert number < name  # a value alone has the direction of its own
    table = static_html.table(pd.DataFrame({"site": [f"{site} 24"]}), caption=f"Most on {site} 7")
    (tmp_path / "widget.html").write_text(
        f'<meta charset="utf-8"><style>{stylesheet()}</style><div class="exposurekit">{table}</div>', "utf-8"
    )
    with opened(tmp_path / "widget.html") as (page, _):
        name, number = page.evaluate(MIDDLES, [site, " 24"])
        assert number < name
        middles = page.evaluate(MIDDLES.replace("h2, p,", "caption,"), ["Most on ", site, " 7"])
        assert middles == sorted(middles) != []


@pytest.mark.parametrize("site", LEFTWARD)
def test_each_line_of_a_narrow_label_isolates_its_words(tmp_path, site):
    """A mark that encloses words from right to left has no effect beyond the line that it is on."""
    name = " ".join([site] * 3)
    with seen_through(Service({1: Person([a_record(1)])})) as exposure:
        figure = charts.by_site(analysis.by_site(exposure.records().assign(site=f"{name} 24")))
        ek.report(exposure, tmp_path / "fleet.html", sections=[ek.Section("Ours", figure=figure)])
    with opened(tmp_path / "fleet.html", width=390) as (page, _):
        drawn(page)
        lines = page.locator("#ours-chart .ytick tspan.line").all_text_contents()
    marked = [line for line in lines if line != "24"]
    assert len(marked) > 1
    for line in marked:
        assert re.fullmatch(r"\u2068[^\u2068\u2069]+\u2069( 24|\N{HORIZONTAL ELLIPSIS})?", line)


def test_small_counts_have_each_tick_once(tmp_path):
    days = pd.date_range("2026-03-01", periods=3, tz="UTC")
    runs = pd.DataFrame({"at": days, "people": 1, "unseen": 0})
    figures = {}
    for n in (0, 1, 2, 9):
        came = transitions().assign(at=days, n=[n, 0, 0])
        for by in (None, "site"):
            figures[f"{n} {by}"] = charts.status_over_time(analysis.status_over_time(came, runs, by=by))
    sections = [ek.Section(name, figure=figure) for name, figure in figures.items()]
    with seen_through(controls.three_people()) as exposure:
        ek.report(exposure, tmp_path / "charts.html", sections=sections)
    with opened(tmp_path / "charts.html", width=390) as (page, _):
        assert_well_drawn(drawn(page), len(figures))


def test_figures_of_others_are_drawn_with_any_axis(tmp_path):
    """Also without an axis of their own; one that cannot be drawn says so, and the others are drawn."""
    texts = {"text": ["1", "2"], "textposition": "outside"}
    bars = go.Bar(x=[1, 2], y=["a", "b"], orientation="h", **texts)
    ranges = {
        "log": {"type": "log", "range": [0, 1]},
        "reversed": {"range": [4, 0]},
        "dates": {"type": "date", "range": ["1970-01-01", "1970-01-02"]},
    }
    ticks = {"tickvals": [*range(9)], "ticktext": [*range(9)]}
    figures = {
        "none": go.Figure(bars),
        "impossible": go.Figure(bars, layout={"xaxis": {"title": "impossible"}}),
        "numbers": go.Figure(
            go.Scatter(x=[1, 2], y=[3, 4], text=[10, None], mode="text"), layout={"xaxis": ticks}
        ),
        **{name: go.Figure(bars, layout={"xaxis": axis}) for name, axis in ranges.items()},
    }
    sections = [ek.Section(name, figure=figure) for name, figure in figures.items()]
    with seen_through(controls.three_people()) as exposure:
        html = ek.report(exposure, sections=sections).to_html()
    file = tmp_path / "own.html"
    file.write_text(html.replace('"text":"impossible"', '"text":7'))
    with opened(file, width=390) as (page, _):
        all_but_one = "(n) => document.querySelectorAll('.chart .svg-container').length === n"
        page.wait_for_function(all_but_one, arg=len(figures) - 1)
        assert page.locator("#impossible-chart").inner_text() == "This chart could not be drawn."
        for name, axis in ranges.items():
            drawn_range = page.evaluate(
                "(id) => document.getElementById(id).layout.xaxis.range", f"{name}-chart"
            )
            assert drawn_range == axis["range"], name
        lay_out_on_paper(page)
        assert page.evaluate(all_but_one, len(figures) - 1)


def words(text):
    """A text without its white space, since lines break in different places."""
    return "".join(text.split())


def on_paper(pdf):
    """The text of each page, within its edges; and the palest ink, of 255."""
    document = pdf if isinstance(pdf, pypdfium2.PdfDocument) else pypdfium2.PdfDocument(pdf)
    pages, palest = [], 0
    for page in document:
        text = page.get_textpage()
        pages.append(words(text.get_text_bounded(0, 0, *page.get_size())))
        ink = [ctypes.c_uint() for _ in range(4)]
        for char_index in range(text.count_chars()):
            raw.FPDFText_GetFillColor(text, char_index, *ink)
            palest = max(palest, *(part.value for part in ink[:3]))
    return pages, palest


def test_long_table_has_its_header_on_each_page(reports):
    with opened(reports / "changes.html") as (page, _):
        heads = [words(head).casefold() for head in page.locator("#diff thead th").all_text_contents()]
        pages, _ = on_paper(page.pdf(width="10cm", height="6cm"))
    assert sum(all(head in text.casefold() for head in heads) for text in pages) > 1


def test_pdf_has_charts_and_manual_work_on_numbered_pages(pdf):
    pages, palest = on_paper(pdf)
    text = "".join(pages)
    work, source = (next(n for n, page in enumerate(pages, 1) if head in page) for head in LAST_HEADS)
    assert work <= min(4, source)
    assert len(pages) <= PAGES_MAX
    assert palest < 200
    for words_of_report in (
        *(
            "days from first observation",
            "estimated share still listed",
            "kite-club.example/members/",
            "Begin at",
        ),
        "Only if the form asks:",
    ):
        assert words(words_of_report) in text
    assert not any(one in text for one in ("ticked", "left_scope", "2026-11-1200:00"))
    for number, page in enumerate(pages, 1):
        assert words(f"{number} of {len(pages)}") in page
        assert words("Confidential: personal data") in page
    assert words("Show it only to people who need it") in pages[0]


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_fleet_report_has_as_many_pages_on_either_paper(fleet, paper):
    """The page has margins of its own, so that those of a browser make no difference."""
    with opened(fleet) as (page, _):
        drawn(page)
        wide = dict.fromkeys(("top", "left", "right", "bottom"), "1in")
        printed = [page.pdf(format=paper), page.pdf(format=paper, margin=wide, print_background=True)]
    assert [len(pypdfium2.PdfDocument(one)) for one in printed] == [PAGES_MAX] * 2


@pytest.mark.parametrize("height", [9, 9.5, 10, 10.5, 11.5, 12, 12.5, 13])
def test_charts_stay_whole_wherever_a_page_ends(fleet, height):
    with opened(fleet) as (page, _):
        drawn(page)
        page.emulate_media(media="print")
        page.evaluate(BEFORE_PRINT)
        charts = page.evaluate(CHART_TEXTS)
        pages, _ = on_paper(page.pdf(width="8.5in", height=f"{height}in"))
    assert sum(map(len, charts)) > 5
    assert [chart for chart in charts if not _on_one_page(pages, chart)] == []


def test_rows_are_there_without_scripts(fleet):
    """Charts are not: their descriptions stand for them, and on paper the tables that they replace are printed."""
    with (
        kit.chromium() as browser,
        contextlib.closing(browser.new_context(java_script_enabled=False)) as view,
    ):
        page = view.new_page()
        page.goto(fleet.resolve().as_uri())
        numbers = page.locator("#status_over_time .numbers")
        days = numbers.locator("tbody td:first-child").all_text_contents()
        numbers.locator("summary").click()
        visible = numbers.locator("tbody tr:visible").count()
        descriptions = page.locator(".described")
        described = [one.is_visible() for one in descriptions.all()]
        charts = page.locator(".chart:visible").count()
        n_rows = page.locator("#work_queue tbody tr").count()
        pages, _ = on_paper(page.pdf(format="A4"))
    assert visible == len(days) > 5
    assert all(described)
    assert len(described) > 4
    assert charts == 0
    text = "".join(pages)
    assert all(day in text for day in days)
    head = words("Manual work, in numbers")
    queue = text[text.index(head) :]
    assert n_rows > 5
    assert [n for n in range(1, n_rows + 1) if str(n) not in queue] == []


# Each visible cell of a table but the first of its row: its heading beside it, its value, and whether it fits.
CARDS = """() => [...document.querySelectorAll('#by_site tbody tr:not([hidden]) td:not(:first-child)')].map((cell) => ({
    heading: getComputedStyle(cell, '::before').content, value: cell.textContent,
    fits: cell.getBoundingClientRect().right <= innerWidth && cell.scrollWidth <= cell.clientWidth + 1 }))"""
# The height of the bar of a cell, and of the room below its text.
BAR = """(cell) => {
    const { backgroundSize, paddingBottom } = getComputedStyle(cell);
    return { height: parseFloat(backgroundSize.split(" ").at(-1)), below: parseFloat(paddingBottom) };
}"""


def test_rows_on_a_phone_are_cards_to_sort_and_filter(fleet):
    """The first cards come with a button for the others, so that opening a table does not bury what follows."""
    with opened(fleet, width=390) as (page, observed):
        assert page.locator(".numbers[open]").count() == 0
        page.locator("#by_site .numbers > summary").click()
        idle = page.locator("#by_site td:is(.zero, .none)")
        assert idle.count() > 0
        assert not any(cell.is_visible() for cell in idle.all())
        cells = page.evaluate(CARDS)
        headings = [text.strip() for text in page.locator("#by_site thead th").all_text_contents()]
        n = len(headings) - 1
        words_of = [cell["heading"].strip('"').casefold() for cell in cells[:n]]
        assert words_of == [heading.casefold() for heading in headings[1:]]
        assert all(cell["fits"] for cell in cells)
        assert len(cells) % n == 0
        assert len(cells) // n > 5
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        room = page.locator("#by_site .numbers").bounding_box()["height"]
        assert room < page.viewport_size["height"]
        cards = page.locator("#by_site tbody tr").locator("visible=true")
        n_rows = page.locator("#by_site tbody tr").count()
        assert cards.count() == 3
        page.locator("#by_site").get_by_role("button", name=f"Show all {n_rows} rows").click()
        assert cards.count() == n_rows
        scrolled = "() => [...document.querySelectorAll('.wide')].filter((box) => box.scrollHeight > box.clientHeight + 1)"
        assert page.evaluate(f"{scrolled}.length") == 0
        at, requests = headings.index("removed"), headings.index("requests")
        without_effect = [
            row.locator("td").nth(at)
            for row in cards.all()
            if row.locator("td").nth(at).text_content()
            == "0"
            != row.locator("td").nth(requests).text_content()
        ]
        assert without_effect
        assert all(cell.is_visible() for cell in without_effect)
        bar = page.locator("#by_site .share").first.evaluate(BAR)
        assert bar["height"] <= bar["below"]
        first = page.locator("#by_site tbody td:first-child").first
        name = first.text_content()
        page.locator("#by_site").get_by_role("combobox", name="Sort ").select_option("found")
        totals = [int(cell["value"]) for cell in page.evaluate(CARDS)[words_of.index("found") :: n]]
        assert totals == sorted(totals, reverse=True)
        page.locator("#by_site input[type=search]").fill(name)
        assert len(page.evaluate(CARDS)) == n
        assert observed.errors == []


def test_tables_fit_a_desk_and_a_tablet(fleet):
    """A ranking with its number cut in half is none."""
    wider = """() => [...document.querySelectorAll(".wide")].filter((box) => box.scrollWidth > box.clientWidth + 1)
        .map((box) => box.closest("section").id)"""
    for width in (1280, 800):
        with opened(fleet, width=width) as (page, _):
            page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert page.evaluate(wider) == [], width


def test_buttons_of_a_chart_come_when_it_is_used(fleet):
    with opened(fleet) as (page, _):
        drawn(page)
        buttons = page.locator("#by_site .modebar")
        opacity = "(one) => getComputedStyle(one).opacity"
        assert buttons.evaluate(opacity) == "0"
        buttons.locator("button").first.focus()
        assert buttons.evaluate(opacity) == "1"
        page.locator("h1").click()
        assert buttons.evaluate(opacity) == "0"
        page.locator("#by_site .chart").hover()
        assert buttons.evaluate(opacity) == "1"


def test_definitions_are_read_by_keyboard_and_followed(fleet):
    with opened(fleet) as (page, observed):
        word = page.locator("#time_to_removal .term").first
        word.focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        tip = "(one) => getComputedStyle(one, '::after')"
        definition = word.get_attribute("title")
        assert word.evaluate(f"(one) => ({tip})(one).content").strip('"') == definition
        page.keyboard.press("Enter")
        entry = page.locator(f"#glossary div:has({word.get_attribute('href')})")
        entry.wait_for()
        assert entry.locator("dd").text_content() == definition
        page.go_back()
        page.wait_for_function("() => !location.hash")
        word.wait_for()
        top = "one.getBoundingClientRect().top"
        page.wait_for_function(f"(one) => 0 < {top} && {top} < innerHeight", arg=word.element_handle())
        head = page.locator("#by_site th[title]").first
        head.locator("button").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        assert head.evaluate(f"(one) => ({tip})(one).content").strip('"') == head.get_attribute("title")
        assert observed.errors == []


def test_pdf_needs_a_browser(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="install one"):
        reports_pdf.print_pdf("<p>")


def test_pdf_links_can_be_clicked(pdf):
    """Text of size zero has no box, and Chromium makes no annotation for it."""
    urls = set()
    for page in pdf:
        for number in range(raw.FPDFPage_GetAnnotCount(page)):
            annotation = raw.FPDFPage_GetAnnot(page, number)
            action = raw.FPDFLink_GetAction(raw.FPDFAnnot_GetLink(annotation))
            buffer = ctypes.create_string_buffer(2_000)
            size = raw.FPDFAction_GetURIPath(page.pdf, action, buffer, len(buffer))
            urls.add(buffer.raw[: max(size - 1, 0)].decode())
            raw.FPDFPage_CloseAnnot(annotation)
    assert any(url.startswith("http://kite-club.example/members/") for url in urls)
    assert any("/opt-out" in url for url in urls)
    assert len(urls) > 20


def test_pdf_bookmarks_are_headings_and_none_ends_a_page(fleet, pdf):
    with opened(fleet) as (page, _):
        printed = "h1, h3, h2:not(#analysts h2)"  # code is not printed
        headings = [" ".join(text.split()) for text in page.locator(printed).all_text_contents()]
        others = page.locator("caption, summary, .tasks > p").all_text_contents()
    bookmarks = [" ".join(bookmark.get_title().split()) for bookmark in pdf.get_toc()]
    assert len(bookmarks) > 10
    assert bookmarks == headings
    assert {last_line(page) for page in pdf} & {*map(words, [*headings, *others])} == set()


def last_line(page):
    """The last line of a page above its foot."""
    text = page.get_textpage().get_text_bounded(0, FOOT_PT, *page.get_size())
    return words(text.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def used(fleet):
    """The report on everyone, which several tests use as one reader would: each another part of it."""
    with opened(fleet) as (page, observed):
        drawn(page)
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        yield page, observed


def test_ticking_all_can_be_undone(used):
    page, observed = used
    tasks = page.locator(".tasks:has(.all)").first
    boxes = tasks.locator(".task input")
    boxes.nth(1).focus()
    page.keyboard.press("Space")
    before = [box.is_checked() for box in boxes.all()]
    every = tasks.locator(".all")
    every.click()
    blocked = tasks.locator(".task.blocked input")
    assert tasks.locator(".task input:checked").count() == boxes.count() - blocked.count()
    assert every.inner_text().endswith("ticked · Undo")
    every.click()
    assert [box.is_checked() for box in boxes.all()] == before
    assert every.inner_text().startswith("Tick all")
    assert observed.errors == []


def test_saved_ticks_are_done_in_the_next_report(reports, fleet, tmp_path):
    with opened(fleet) as (page, observed):
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        bar, boxes = page.locator(".save"), page.locator(".task:not(.blocked) input")
        assert bar.is_hidden()
        for box in boxes.all()[:3]:
            box.check()
        boxes.nth(1).uncheck()
        items = page.locator(".task input:checked").evaluate_all("(all) => all.map((one) => one.value)")
        page.reload()
        assert bar.get_by_role("status").inner_text() == "2 ticked"
        with page.expect_download() as download_info:
            bar.get_by_role("button", name="Save ticks").click()
        file = tmp_path / "ticks.json"
        download_info.value.save_as(file)
        assert (observed.left, observed.errors) == ([], [])
    name = download_info.value.suggested_filename
    assert re.fullmatch(r"exposurekit-ticks-\d{4}-\d\d-\d\d\.json", name)
    saved = json.loads(file.read_text())["ticks"]
    assert [f"{one['user_id']} {one['item']}" for one in saved] == items
    assert [{*one} for one in saved] == [
        {"user_id", "item", "ticked_at"}
    ] * 2  # and nothing else, such as a name
    with History(shutil.copytree(reports / "history", tmp_path / "history")) as history:
        before = ticked.items(ek.report(history).to_html())
        assert str(history.import_ticks(file)) == "2 items marked as done"
        after = ticked.items(ek.report(history).to_html())
    assert sorted(after) == sorted({*before} - {*items})
    assert len(after) == len(before) - 2


def test_ticks_are_not_those_of_another_service(fleet, tmp_path):
    html, file = fleet.read_text(), tmp_path / "report.html"
    [service] = set(re.findall('class="kicker">[^<]*<span>([^<]+)', html))
    file.write_text(html)
    with opened(file) as (page, observed):
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.locator(".task:not(.blocked) input").first.check()
        for text, n in (html.replace(service, "listings.example · other"), 0), (html, 1):
            file.write_text(text)
            page.reload()
            assert page.locator(".task input:checked").count() == n
        assert observed.errors == []


def test_table_is_sorted_filtered_and_downloaded(used):
    page, observed = used
    numbers = page.locator("#by_site .numbers")
    heads = [head.text_content() for head in numbers.locator("th button").all()]
    totals = numbers.locator(f"tbody tr td:nth-child({heads.index('found') + 1})")
    values = [int(text) for text in totals.all_inner_texts()]
    for descending in (False, True):
        numbers.get_by_role("button", name="found", exact=True).click()
        assert [int(text) for text in totals.all_inner_texts()] == sorted(values, reverse=descending)
    site = numbers.locator("tbody tr td").first.inner_text()
    numbers.get_by_label("Filter").fill(site)
    assert numbers.locator("tbody tr:visible").count() == 1
    with page.expect_download() as download_info:
        numbers.get_by_role("button", name="as CSV").click()
    assert download_info.value.suggested_filename == "by_site.csv"
    saved = download_info.value.path().read_text()
    assert saved.startswith("\ufeffsite,verdict,open,")  # with the mark, Excel reads it as UTF-8
    assert [line.partition(",")[0] for line in saved.splitlines()[1:]] == [site]  # what is found
    numbers.get_by_role("button", name="Reset").click()
    assert numbers.locator("tbody tr:visible").count() == len(values)
    with page.expect_download() as download_info:
        numbers.get_by_role("button", name="as CSV").click()
    assert len(download_info.value.path().read_text().splitlines()) == len(values) + 1
    assert (observed.left, observed.errors) == ([], [])


def test_rows_are_filtered_by_picked_values(used):
    page, observed = used
    numbers = page.locator("#work_queue .numbers")
    rows = numbers.locator("tbody tr")
    [site] = numbers.get_by_label("site in").all()
    assert numbers.get_by_label("person in").locator("option").count() > 3
    for option in site.locator("option").all()[1:]:
        site.select_option(option.get_attribute("value"))
        name, n = re.fullmatch(r"(.*) \((\d+)\)", option.text_content()).groups()
        shown_rows = rows.locator("visible=true")
        assert shown_rows.count() == int(n) == rows.filter(has_text=name).locator("visible=true").count()
        assert numbers.get_by_role("status").inner_text() == f"{n} of {rows.count()} rows"
    numbers.get_by_label("Filter").fill("no such text")
    assert rows.locator("visible=true").count() == 0
    numbers.get_by_label("Filter").fill("")
    site.select_option("")
    assert rows.locator("visible=true").count() == rows.count()
    assert observed.errors == []


WHOSE_FIGURES = """() => [...document.querySelectorAll("#work_queue h3 + .about")]
    .filter((one) => one.offsetParent).map((one) => getComputedStyle(one, "::before").content)"""
WORK_ITEMS = "() => document.querySelectorAll('#work_queue .task').length"


def shown(page):
    """The items of manual work that are displayed, by card."""
    cards = page.locator("#work_queue article.card:visible").all()
    return {card.locator("h3").inner_text(): card.locator(".task:visible").count() for card in cards}


def test_manual_work_is_filtered_by_site_and_person(fleet):
    """Each choice counts what it would leave; a person of a table is picked by a link, and paper has every item."""
    with opened(fleet) as (page, observed):
        total = page.evaluate(WORK_ITEMS)
        tools, whole = page.locator("#to-do"), shown(page)
        assert sum(whole.values()) == total
        chips = tools.get_by_role("group").get_by_role("button")
        counts = {chip.get_attribute("value"): int(chip.locator("span").inner_text()) for chip in chips.all()}
        assert sum(counts.values()) == total
        site = next(name for name in counts if name != "Web pages")
        chips.first.focus()
        tools.get_by_role("button", name=site).press("Enter")
        assert {*shown(page)} <= {site, f"{site} (later)"}
        assert sum(shown(page).values()) == counts[site]
        assert tools.get_by_role("status").inner_text() == f"{counts[site]} of {total} items"
        person = tools.get_by_role("combobox")
        of_site = person.evaluate(
            "(list) => [...list.options].slice(1).map((one) => /\\((\\d+)\\)$/.exec(one.text)[1])"
        )
        assert sum(map(int, of_site)) == counts[site]
        tools.get_by_role("button", name="Reset").click()
        assert shown(page) == whole
        link = page.locator("#score tbody a").first
        user = link.get_attribute("data-user")
        link.click()
        n = page.locator(f"#work_queue .task:has(input[value^='{user} '])").count()
        assert sum(shown(page).values()) == n < total
        assert person.input_value() == user
        assert {*page.evaluate(WHOSE_FIGURES)} == {'"For everybody: "'}
        assert page.locator("#work_queue button.all:visible").count() == 0  # it would tick what is hidden
        page.emulate_media(media="print")
        assert sum(shown(page).values()) == total
        page.emulate_media(media="screen")
        page.locator(".actions a[href^='#work_queue-']").first.click()
        assert shown(page) == whole
        assert {*page.evaluate(WHOSE_FIGURES)} == {"none"}
        assert observed.errors == []


def test_facets_count_what_they_leave_and_paper_has_all(reports):
    """By keyboard; the numbers of a facet are those under the other filters."""
    with opened(reports / "changes.html") as (page, observed):
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        numbers = page.locator("#diff .numbers")
        rows = numbers.locator("tbody tr")
        kinds = numbers.get_by_role("group", name="what in").get_by_role("button")
        of_kind = [re.fullmatch(r"(.*) (\d+)", text).groups() for text in kinds.all_inner_texts()]
        assert len(of_kind) > 1
        assert sum(int(n) for _, n in of_kind) == rows.count()
        kinds.first.focus()
        page.keyboard.press("Space")
        shown = rows.locator("visible=true")
        assert shown.count() == int(of_kind[0][1]) < rows.count()
        assert all(of_kind[0][0] in text for text in shown.all_inner_texts())
        options = numbers.get_by_label("site in").locator("option").all_text_contents()[1:]
        assert sum(int(text.rpartition("(")[2].rstrip(")")) for text in options) == shown.count()
        assert numbers.get_by_role("button", name="as CSV").inner_text() == f"CSV ({shown.count()} rows)"
        page.emulate_media(media="print")
        page.evaluate(BEFORE_PRINT)
        assert rows.locator("visible=true").count() == rows.count()
        assert observed.errors == []


def test_a_table_says_what_it_is_sorted_by(fleet):
    mark = "(one) => getComputedStyle(one, '::after').content"
    with opened(fleet) as (page, _):
        for key, name, order in (
            ("by_site", "open", "descending"),
            ("score", "score", "descending"),
            ("status_over_time", "period", "descending"),
            ("time_to_removal", "median days", "ascending"),
            ("work_queue", "rank", "ascending"),
        ):
            [head] = page.locator(f"#{key} th[aria-sort]").all()
            assert head.get_attribute("aria-sort") == order
            assert head.text_content().startswith(name)
            arrow = "\u2191" if order == "ascending" else "\u2193"
            assert arrow in head.locator("button").evaluate(mark)


def test_rows_of_tables_take_one_line_on_a_desk(fleet):
    taller = """() => [...document.querySelectorAll("main .wide tbody tr")].filter(
        (row) => row.getBoundingClientRect().height > 2.6 * parseFloat(getComputedStyle(row).fontSize)
    ).map((row) => row.textContent)"""
    with opened(fleet, width=1280) as (page, _):
        page.add_style_tag(content=".long { content-visibility: visible !important; }")
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.locator("#work_queue tbody tr").count() > 5
        assert page.evaluate(taller) == []


@pytest.mark.parametrize("width", [390, kit.WIDTH])
def test_rows_keep_their_name_when_scrolled_sideways(used, width):
    page, _ = used
    page.set_viewport_size({"width": width, "height": 1400})
    numbers = page.locator("#by_site .numbers")
    place = numbers.locator(".wide")
    place.evaluate("(box) => { box.style.maxWidth = '300px'; box.scrollLeft = 200; }")
    name = numbers.locator("tbody td").locator("visible=true").first
    lefts = [one.evaluate("(one) => one.getBoundingClientRect().left") for one in (name, place)]
    assert abs(lefts[0] - lefts[1]) < 2


def test_accessibility_check_can_fail(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<html><body><img src='data:,'><button></button></body></html>")
    with opened(bad) as (page, _):
        assert {"button-name", "image-alt", "html-has-lang"} <= violations(page).keys()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Reports of a service in which every text is hostile."""
    directory, service = tmp_path_factory.mktemp("hostile"), Service()
    service.people = {number: hostile_demo.hostile(number, text) for number, text in enumerate(PAYLOADS, 1)}
    with seen_through(service) as exposure, ek.History(directory / "history") as history:
        history.collect(exposure, progress=False)
        first = history.last_run().finished_at
        service.people[1].records[0]["status"] = "removed"
        history.collect(exposure.refresh(), progress=False)
        write_reports(directory, history, exposure, first)
    return directory


def assert_nothing_ran(page, observed):
    page.wait_for_load_state("networkidle")
    assert page.evaluate("() => window.ran") is None
    assert observed.dialogs == []
    assert not any(address.startswith(BEACON) for address in observed.left)


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_texts_run_nothing_and_send_nothing(hostile, kind):
    with opened(hostile / f"{kind}.html") as (page, observed):
        for chart in page.locator(".chart").all():
            kit.hovered(page, chart)
        assert_nothing_ran(page, observed)
        assert observed.left == []


ATTACK = f"<img src=x onerror={RUN}><img src={BEACON}/a.png>"


def test_check_of_hostile_texts_can_fail(tmp_path):
    file = tmp_path / "control.html"
    file.write_text(f"<html><body>{ATTACK}</body></html>")
    with opened(file) as (page, observed):
        page.wait_for_function("() => window.ran === 1")
        kit.wait_for_images(page)
        assert f"{BEACON}/a.png" in observed.left


def test_policy_alone_stops_markup_that_is_not_escaped(fleet, tmp_path):
    file = tmp_path / "broken.html"
    attack = f"<main>{ATTACK}<script>{RUN}</script>"
    file.write_text(fleet.read_text().replace("<main>", attack))
    with opened(file) as (page, observed):
        drawn(page)
        assert_nothing_ran(page, observed)
