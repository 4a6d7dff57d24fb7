"""A report in a real Chromium, opened from its file with nothing to reach: drawn, used, read aloud, and attacked."""

import ctypes
import subprocess
import tarfile

import pypdfium2
import pytest
from pypdfium2 import raw
from support import contrast, controls, hostile_demo
from support import jupyter as kit
from support.drawn_charts import assert_well_drawn, every_chart, measured
from support.histories import Service, seen_through
from support.hostile_texts import BEACON, PAYLOADS, RUN

import exposurekit as ek
from exposurekit.errors import ConfigurationError
from exposurekit.reports import pdf as reports_pdf

pytestmark = pytest.mark.long
AXE = "axe-core@4"
SIGHTS = {
    "wide": {},
    "dark": {"dark": True},
    "narrow": {"width": 390},
    "dark and narrow": {"dark": True, "width": 390},
}


CUT = """() => [...document.querySelectorAll(".chart")].flatMap((place) => {
    const room = place.getBoundingClientRect();
    const out = ({ left, right, top, bottom }) => left < room.left - 1 || right > room.right + 1
        || top < room.top - 1 || bottom > room.bottom + 1;
    return [...place.querySelectorAll("svg.main-svg text")].filter(
        (text) => text.textContent.trim() && out(text.getBoundingClientRect())).map((text) => text.textContent);
})"""


# The heads of columns that take more than one line; what is out of sight has none.
BROKEN_HEADS = """() => [...document.querySelectorAll("th button")].filter(
    (head) => head.getClientRects().length && head.clientHeight > 2 * parseFloat(getComputedStyle(head).fontSize)
).map((head) => head.textContent)"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A report of each kind, of a demo of ten days."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("report")
    with ek.demo(people=6, days=10) as demo:
        ek.report(demo.history, directory / "fleet.html", exposure=demo.exposure)
        ek.report(demo.history, directory / "person.html", exposure=demo.exposure, user=1)
        ek.report(demo.history, directory / "sites.html", kind="sites")
        began = demo.history.runs()["finished_at"].iloc[2]
        ek.report(demo.history, directory / "changes.html", since=began)
    return directory


@pytest.fixture
def file(reports):
    """The report of everyone."""
    return reports / "fleet.html"


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The checker of accessibility, from npm."""
    directory = tmp_path_factory.mktemp("axe")
    packed = subprocess.run(
        ["npm", "pack", "--silent", AXE],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    with tarfile.open(directory / packed.stdout.split()[-1]) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


def drawn(page):
    """All charts, each after it came into view."""
    for chart in page.locator(".chart").all():
        chart.scroll_into_view_if_needed()
        chart.locator("svg.main-svg").first.wait_for()
    return page.locator(".chart").count()


def opened(page, file):
    page.goto(file.resolve().as_uri())


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize(("kind", "charts"), [("fleet", 5), ("person", 2), ("changes", 3), ("sites", 4)])
def test_it_is_drawn_offline_and_fits(reports, kind, charts, sight):
    file = reports / f"{kind}.html"
    with kit.browsing(file=file, **SIGHTS[sight]) as (page, observed):
        opened(page, file)
        assert drawn(page) >= charts
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(CUT) == []
        assert_well_drawn(measured(page), page.locator(".chart").count())
        assert page.evaluate(BROKEN_HEADS) == []
        assert (observed.left, observed.dialogs, observed.errors) == ([], [], [])
        assert page.locator("[data-title*='Share'], [data-title*='loud']").count() == 0


@pytest.fixture(scope="module")
def of_every_chart(tmp_path_factory):
    """A report with each chart of `ek.charts`, and no other."""
    kit.needs_browser()
    file = tmp_path_factory.mktemp("every") / "charts.html"
    sections = [ek.Section(name, figure=chart) for name, chart in every_chart().items()]
    with seen_through(controls.three_people()) as exposure:
        ek.report(exposure, file, sections=sections)
    return file


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_each_chart_is_drawn_as_described(of_every_chart, width):
    """On a screen and on paper: its height and trace types, with no label cut or covered."""
    with kit.browsing(file=of_every_chart, width=width) as (page, observed):
        opened(page, of_every_chart)
        drawn(page)
        assert_well_drawn(measured(page))
        page.emulate_media(media="print")
        page.set_viewport_size(PAPER)
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        assert_well_drawn(measured(page))
        assert observed.errors == []


NAMED = """() => [...document.querySelectorAll(".chart")].map((place) => [...place.querySelectorAll(
    ".xtitle, .x2title, .ytitle, .ytick text, .legendtext")].map((text) => text.textContent))"""


TITLES = """() => [...document.querySelectorAll("section:has(.chart)")].map((section) => [
    section.querySelector("h2").textContent,
    [...section.querySelectorAll(".chart .xtitle, .chart .ytick text")].map((text) => text.textContent)])"""
LAST_HEADS = ("Data source", "Manual work")
PAPER = {"width": 720, "height": 1050}  # A4 within its margins, in CSS pixels
FOOT_PT = 40  # of a page: where its number stands


def words(text):
    """What is said, however it is broken into lines."""
    return "".join(text.split())


def on_paper(pdf):
    """What can be read of each page, within its edges; and the palest ink of it, of 255."""
    pages, palest = [], 0
    for page in pypdfium2.PdfDocument(pdf):
        text = page.get_textpage()
        pages.append(words(text.get_text_bounded(0, 0, *page.get_size())))
        ink = [ctypes.c_uint() for _ in range(4)]
        for char_index in range(text.count_chars()):
            raw.FPDFText_GetFillColor(text, char_index, *ink)
            palest = max(palest, *(part.value for part in ink[:3]))
    return pages, palest


@pytest.mark.parametrize(("sight", "paper"), [("wide", "A4"), ("dark and narrow", "Letter")])
@pytest.mark.parametrize("kind", ["fleet", "person", "changes", "sites"])
def test_paper_holds_every_chart_and_no_control(reports, kind, sight, paper):
    file = reports / f"{kind}.html"
    with kit.browsing(file=file, **SIGHTS[sight]) as (page, observed):
        opened(page, file)
        drawn(page)
        screen_width = page.locator(".chart svg.main-svg").first.bounding_box()["width"]
        pages, palest = on_paper(page.pdf(format=paper))
        page.emulate_media(media="print")
        page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
        named = page.evaluate(NAMED)
        heads = [head.text_content() for head in page.locator("th:visible").all()]
        titles = page.evaluate(TITLES)
        page.emulate_media(media="screen")
        page.evaluate("() => dispatchEvent(new Event('afterprint'))")
        assert page.locator(".chart svg.main-svg").first.bounding_box()["width"] == screen_width
        assert observed.errors == []
    paper_text = "".join(pages)
    assert len(heads) > 5
    assert [name for name in heads if words(name) not in paper_text] == []
    # Each chart is whole, and on one page.
    assert [
        chart for chart in named if not any(all(words(one) in page for one in chart) for page in pages)
    ] == []
    assert sum(map(len, named)) > 5
    assert [title for title, chart in titles if not _together(pages, title, chart)] == []
    assert "Filter" not in paper_text
    assert palest < 200  # of white paper


def _together(pages, title, chart):
    """Whether a chart is on the page on which its title is."""
    parts = title.split()  # lines of a title may alternate with those of the column beside it
    return any(
        all(part in page for part in parts) and all(words(one) in page for one in chart) for page in pages
    )


def test_a_long_table_has_its_head_on_each_page(reports):
    file = reports / "changes.html"
    with kit.browsing(file=file) as (page, _):
        opened(page, file)
        [head] = page.locator("#diff thead").all_text_contents()
        pages, _ = on_paper(page.pdf(width="10cm", height="6cm"))
    assert sum(words(head) in text for text in pages) > 1


@pytest.fixture(scope="module")
def of_the_demo(tmp_path_factory):
    """The fleet report that `exposurekit demo` writes, as a page and as a PDF."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("demo")
    with ek.demo() as demo:
        report = ek.report(demo.history, directory / "fleet.html", exposure=demo.exposure)
    (directory / "fleet.pdf").write_bytes(reports_pdf.print_pdf(report.to_html()))
    return directory / "fleet.html", directory / "fleet.pdf"


def test_the_demo_fleet_prints_on_six_numbered_pages(of_the_demo):
    """Charts and tables take three pages; then every item of manual work, with all that a form may ask for."""
    _, pdf = of_the_demo
    pages, _ = on_paper(pdf)
    begins = {
        head: next(at for at, text in enumerate(pages, 1) if words(head) in text) for head in LAST_HEADS
    }
    assert begins["Manual work"] <= min(4, begins["Data source"])
    assert len(pages) <= 6
    assert "kite-club.example/members/" in "".join(pages)
    assert words("Also on file, only if the form asks:") in "".join(pages)
    assert words("Begin at") in "".join(pages)
    assert "ticked" not in "".join(pages)
    for number, text in enumerate(pages, 1):
        assert words(f"{number} of {len(pages)}") in text
        assert words("Confidential: personal data") in text
    assert "Onlypeoplewhoworkontheseremovals" in pages[0]
    assert "left_scope" not in "".join(pages)
    assert "2026-11-1200:00" not in "".join(pages)


def test_links_in_the_pdf_can_be_clicked(of_the_demo):
    """Text of size zero has no box, and Chromium makes no annotation for it."""
    _, pdf = of_the_demo
    urls = set()
    for page in pypdfium2.PdfDocument(pdf):
        for number in range(raw.FPDFPage_GetAnnotCount(page)):
            annotation = raw.FPDFPage_GetAnnot(page, number)
            action = raw.FPDFLink_GetAction(raw.FPDFAnnot_GetLink(annotation))
            buffer = ctypes.create_string_buffer(2_000)
            size = raw.FPDFAction_GetURIPath(page.pdf, action, buffer, len(buffer))
            urls.add(buffer.raw[: max(size - 1, 0)].decode())
            raw.FPDFPage_CloseAnnot(annotation)
    assert any(url.startswith("http://kite-club.example/members/") for url in urls)
    assert any("/opt-out" in url for url in urls)
    assert len(urls) > 80


def test_the_pdf_has_a_bookmark_for_each_heading(of_the_demo):
    html, pdf = of_the_demo
    with kit.browsing(file=html) as (page, _):
        opened(page, html)
        headings = [words(heading) for heading in page.locator("h1, h2, h3").all_text_contents()]
    bookmarks = [words(bookmark.get_title()) for bookmark in pypdfium2.PdfDocument(pdf).get_toc()]
    assert len(bookmarks) > 10
    assert bookmarks == headings


def test_all_ticks_can_be_undone(file):
    with kit.browsing(file=file) as (page, observed):
        opened(page, file)
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        tasks = page.locator(".tasks:has(.all)").first
        boxes = tasks.locator(".task input")
        boxes.nth(1).focus()  # charts above are still being drawn, and move what a click aims at
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


def test_no_head_stands_last_on_a_page(of_the_demo):
    html, pdf = of_the_demo
    with kit.browsing(file=html) as (page, _):
        opened(page, html)
        within = page.locator("h1, h2, h3, caption, summary, .tasks > p")
        heads = {words(head) for head in within.all_text_contents()}
    last = [last_line(page) for page in pypdfium2.PdfDocument(pdf)]
    assert len(heads) > 10
    assert [line for line in last if line in heads] == []


def last_line(page):
    """The last line of a page above its foot."""
    width, height = page.get_size()
    return words(page.get_textpage().get_text_bounded(0, FOOT_PT, width, height).strip().splitlines()[-1])


def test_it_is_a_pdf_with_its_charts(file, tmp_path, monkeypatch):
    pages, palest = on_paper(reports_pdf.print_pdf(file.read_text()))
    assert "mediantimetoremoval(days)" in "".join(pages)
    assert "sharenotremoved" in "".join(pages)
    assert palest < 200
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="install one"):
        reports_pdf.print_pdf("<p>")


def test_a_table_is_sorted_and_filtered_and_gives_its_csv(file):
    with kit.browsing(file=file) as (page, observed):
        opened(page, file)
        numbers = page.locator("#by_site .numbers")
        numbers.locator("summary").click()
        totals = numbers.locator("tbody tr td:nth-child(6)")
        values = [int(text) for text in totals.all_inner_texts()]
        numbers.get_by_role("button", name="total", exact=True).click()
        assert [int(text) for text in totals.all_inner_texts()] == sorted(values)
        numbers.get_by_role("button", name="total", exact=True).click()
        assert [int(text) for text in totals.all_inner_texts()] == sorted(values, reverse=True)
        site = numbers.locator("tbody tr td").first.inner_text()
        numbers.get_by_label("Filter").fill(site)
        assert numbers.locator("tbody tr:visible").count() == 1
        with page.expect_download() as download_info:
            numbers.get_by_role("button", name="as CSV").click()
        assert download_info.value.suggested_filename == "by_site.csv"
        assert download_info.value.path().read_text().startswith("site,open,discovered,")
        assert (observed.left, observed.errors) == ([], [])


@pytest.mark.parametrize("sight", ["wide", "dark", "narrow"])
def test_nobody_is_left_out(file, axe, sight):
    """axe-core: no violation that it calls serious or critical."""
    with kit.browsing(file=file, **SIGHTS[sight]) as (page, _):
        opened(page, file)
        drawn(page)
        page.evaluate(axe)
        axe_result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        grave = [one for one in axe_result["violations"] if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in grave] == []


@pytest.mark.parametrize("sight", ["wide", "dark"])
@pytest.mark.parametrize("kind", ["fleet", "person", "changes", "sites"])
def test_text_reads_well_on_light_and_on_dark(reports, kind, sight):
    """WCAG 2.1 AA: at least 4.5:1, also in charts."""
    file = reports / f"{kind}.html"
    with kit.browsing(file=file, **SIGHTS[sight]) as (page, _):
        opened(page, file)
        drawn(page)
        texts = contrast.measured(page, "body")
    assert len(texts) > 100
    assert [one for one in texts if one["ratio"] < contrast.LEAST] == []


def test_what_leaves_somebody_out_is_seen(axe, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<html><body><img src='data:,'><button></button></body></html>")
    with kit.browsing(file=bad) as (page, _):
        opened(page, bad)
        page.evaluate(axe)
        axe_result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        assert {"button-name", "image-alt", "html-has-lang"} <= {
            one["id"] for one in axe_result["violations"]
        }


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Reports of a service of which every text is hostile."""
    kit.needs_browser()
    directory = tmp_path_factory.mktemp("hostile")
    service = Service()
    service.people = {number: hostile_demo.hostile(number, text) for number, text in enumerate(PAYLOADS, 1)}
    with seen_through(service) as exposure, ek.History(directory / "history") as history:
        history.collect(exposure, progress=False)
        first = history.last_run().finished_at
        service.people[1].records[0]["status"] = "removed"
        history.collect(exposure.refresh(), progress=False)
        ek.report(history, directory / "fleet.html", exposure=exposure)
        ek.report(history, directory / "person.html", user=3, exposure=exposure)
        ek.report(history, directory / "changes.html", since=first)
        ek.report(history, directory / "sites.html", kind="sites")
    return directory


@pytest.mark.parametrize("kind", ["fleet", "person", "changes", "sites"])
def test_a_hostile_service_runs_nothing_and_learns_nothing(hostile, kind):
    file = hostile / f"{kind}.html"
    with kit.browsing(file=file) as (page, observed):
        opened(page, file)
        for chart in page.locator(".chart").all():
            kit.hovered(page, chart)
        page.wait_for_timeout(500)
        assert page.evaluate("() => window.ran") is None
        assert (observed.left, observed.dialogs) == ([], [])


def test_without_escaping_and_policy_it_would(tmp_path):
    """The control: the same texts as markup, where nothing forbids them."""
    file = tmp_path / "control.html"
    file.write_text(f"<html><body><img src=x onerror={RUN}><img src={BEACON}/a.png></body></html>")
    with kit.browsing(file=file) as (page, observed):
        opened(page, file)
        page.wait_for_function("() => window.ran === 1")
        assert f"{BEACON}/a.png" in observed.left


def test_the_policy_alone_holds_where_escaping_would_fail(tmp_path):
    """A page whose steps were markup after all: its policy lets nothing of that run or leave."""
    kit.needs_browser()
    with seen_through(controls.three_people()) as exposure:
        html = ek.report(exposure).to_html()
    attack = f"<main><img src=x onerror={RUN}><img src={BEACON}/a.png><script>{RUN}</script>"
    file = tmp_path / "broken.html"
    file.write_text(html.replace("<main>", attack))
    with kit.browsing(file=file) as (page, observed):
        opened(page, file)
        drawn(page)
        page.wait_for_timeout(500)
        assert page.evaluate("() => window.ran") is None
        assert not any(address.startswith(BEACON) for address in observed.left)
