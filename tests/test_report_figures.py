"""Figures of a report: one that stands in several places is the same in all, or the page says why it is not."""

import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from history_kit import DAWN, Clock, Person, Service, a_record, seen_through

import exposurekit as ek
from exposurekit.analysis import DEFINITIONS
from exposurekit.history import History
from exposurekit.reports.html import _heading

DAYS = 21


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=8, days=DAYS, seed=5, cache=False, progress=False) as demo:
        yield demo


@pytest.fixture(scope="module")
def pages(demo):
    """A report of each kind, of the same moment."""
    kinds = {"fleet": {}, "changes": {"since": "14d"}, "sites": {"kind": "sites"}, "person": {"user": 3}}
    made = {kind: ek.report(demo.history, exposure=demo.exposure, **asked) for kind, asked in kinds.items()}
    return made | {"now": ek.report(demo.exposure)}


def facts(report):
    return {
        fact.name: int(fact.value.replace(",", ""))
        for fact in report.facts
        if fact.value.replace(",", "").isdigit()
    }


def tables(report):
    return {section.key: section.table for section in report.sections if section.table is not None}


def words(report, key):
    return next(section["words"] for section in report.data["sections"] if section["key"] == key)


def first_number(text):
    return int(re.search(r"\d[\d,]*", text)[0].replace(",", ""))


@pytest.mark.parametrize("kind", ["fleet", "sites", "now"])
def test_open_and_removed_are_the_same_in_every_place(pages, kind):
    report, of = pages[kind], facts(pages[kind])
    by_site = tables(report)["by_site"]
    assert of["open listings"] == by_site["open"].sum() == first_number(report.finding)
    assert of["open listings"] == first_number(words(report, "by_site")) > 0
    assert of["removed"] == by_site["removed"].sum() > 0
    assert f"of {by_site['total'].sum()} found" in report.finding
    assert by_site["open"].is_monotonic_decreasing


def test_counts_over_time_end_with_the_figures_of_the_page(pages):
    last = tables(pages["fleet"])["status_over_time"].iloc[-1]
    of = facts(pages["fleet"])
    assert (of["open listings"], of["removed"]) == (last["total"] - last["removed"], last["removed"])
    assert first_number(words(pages["fleet"], "status_over_time")) == of["open listings"]


@pytest.mark.parametrize("kind", ["fleet", "changes", "person", "now"])
def test_the_score_adds_up_to_what_its_card_says(pages, kind):
    card = next(fact for fact in pages[kind].facts if fact.name == "score")
    parts = re.findall(r"(\d+) [a-z ]+ \u00d7 (\d+)", card.qualifier)
    assert sum(int(n) * int(points) for n, points in parts) == int(card.value) > 0


@pytest.mark.parametrize("kind", ["fleet", "sites", "changes", "now", "person"])
def test_the_work_by_hand_is_the_listings_and_the_pages(pages, kind):
    report = pages[kind]
    card = next(fact for fact in report.facts if fact.name == "removals by hand")
    listings, of_pages = re.match(r"(\d+) listings?, (\d+) web pages?", card.qualifier).groups()
    assert int(listings) + int(of_pages) == int(card.value) > 0
    if "work_queue" in tables(report):
        assert len(tables(report)["work_queue"]) == int(card.value)


def test_kinds_of_report_of_one_moment_agree(pages):
    for name in ("open listings", "score", "removals by hand"):
        assert len({facts(pages[kind])[name] for kind in ("fleet", "changes", "sites", "now")}) == 1, name
    assert tables(pages["fleet"])["by_site"].equals(tables(pages["sites"])["by_site"])


def test_changes_are_the_same_in_cards_chart_and_table_and_the_page_says_where_a_count_is_another(pages):
    report, of = pages["changes"], facts(pages["changes"])
    of_tables = tables(report)
    chart = of_tables["changes"].set_index("cause")
    counts = of_tables["counts"].set_index("what")
    for cause in ("new", "listed again", "removed"):
        assert of[cause] == abs(chart.loc[cause, "n"]) == counts.loc[cause, "moves"]
    assert of["open listings"] == chart["open"].iloc[-1]
    assert f"{chart['open'].iloc[0]} on " in report.facts[0].qualifier
    said = words(report, "counts")
    differ = counts[counts["moves"].notna() & (counts["moves"] != counts["n"])]
    for cause, row in differ.iterrows():
        assert f"{cause} ({row['n']} and {row['moves']:.0f})" in said
    for cause in {*counts.index} - {*differ.index}:
        assert f"{cause} (" not in said
    assert len(of_tables["things"]) == counts["n"].drop("unchanged").sum()


def test_a_listing_that_came_and_went_is_counted_and_explained(tmp_path):
    service, clock = Service(), Clock()
    days = [[a_record(10)], [a_record(10), a_record(11)], [a_record(10), a_record(11, "removed")]]
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day, records in enumerate(days):
            service.people[1] = Person(records)
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure)
        report = ek.report(history, since="2d")
    assert (facts(report)["new"], facts(report)["removed"], facts(report)["open listings"]) == (1, 1, 1)
    assert report.facts[1].qualifier == "since 2026-03-01; 1 of them no longer open"
    counts = tables(report)["counts"].set_index("what")
    assert counts.loc["new", ["n", "moves"]].tolist() == [0, 1]
    assert counts.loc["removed", ["n", "moves"]].tolist() == [1, 1]
    assert "They differ for new (0 and 1): a listing that was found and removed in between" in words(
        report, "counts"
    )


def test_the_score_of_the_changes_ends_where_the_fleet_stands(pages):
    moved = tables(pages["changes"])["score_changes"]
    assert moved["score"].iloc[-1] == facts(pages["fleet"])["score"]
    assert "Each listing counts once" in words(pages["changes"], "score_changes")


def test_everybodys_own_pages_add_up_to_the_fleets(demo, pages):
    people = demo.exposure.users()["user_id"]
    own = [facts(ek.report(demo.exposure, user=int(user))) for user in people]
    for name in ("open listings", "removed", "score", "removals by hand", "pages with their data"):
        assert sum(one[name] for one in own) == facts(pages["now"])[name], name


class Titles(HTMLParser):
    """What is shown on hover, by the text that it stands at."""

    def __init__(self, html):
        super().__init__()
        self.found, self._title = {}, None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self._title = dict(attrs).get("title") if tag in ("th", "dfn") else None

    def handle_data(self, data):
        if self._title:
            self.found[data.strip()] = self._title
        self._title = None


@pytest.mark.parametrize("kind", ["fleet", "changes", "sites", "person", "now"])
def test_each_figure_shows_its_one_definition_on_hover(pages, kind):
    report = pages[kind]
    shown = Titles(report.to_html()).found
    columns = {(key, name) for key, table in tables(report).items() for name in table}
    defined = {
        *(fact.name for fact in report.facts if fact.name in DEFINITIONS),
        *(heading_of(key, name) for key, name in columns if name in DEFINITIONS),
    }
    assert {*shown} == defined
    assert {*shown.values()} <= {*DEFINITIONS.values()}
    assert {"open listings", "removed", "score", "removals by hand"} <= {*shown}
    assert [fact["definition"] for fact in report.data["facts"]] == [
        DEFINITIONS.get(f.name, "") for f in report.facts
    ]


def test_charts_show_the_same_definitions_on_hover(pages):
    charts = {
        section.key: section.chart for section in [*pages["fleet"].sections, *pages["changes"].sections]
    }
    for key, figures in {
        "by_site": ("discovered", "removed"),
        "changes": ("new", "removed"),
        "score": ("score",),
    }.items():
        hover = " ".join(str(said) for trace in charts[key].data for said in trace.customdata or ())
        for figure in figures:
            assert DEFINITIONS[figure] in hover.replace("<br>", " ")


def test_the_definition_of_the_score_is_what_its_weights_are():
    for status in ("discovered", "pending removal", "page"):
        assert re.search(rf"{ek.analysis.WEIGHTS[status]:g} per {status}", DEFINITIONS["score"])


def heading_of(key, name):
    """The heading of a column in the page."""
    return re.search(">(.*)</th>", _heading(name, key))[1]


def test_no_heading_is_a_raw_column_name(pages):
    headings = [
        heading_of(key, name)
        for page in pages.values()
        for key, table in tables(page).items()
        for name in table
    ]
    assert [heading for heading in headings if "_" in heading] == []
    assert heading_of("time_to_removal", "never") == "not removed"
    assert "title=" not in _heading("other", "coverage")  # that definition is about statuses


def test_a_share_is_shown_in_percent(pages):
    html = pages["fleet"].to_html()
    table = tables(pages["fleet"])["time_to_removal"]
    assert table["never"].between(0, 1).all()
    assert f"{table['never'].iloc[0]:.0%}</td>" in html
