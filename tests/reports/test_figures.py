"""Figures of a report: one that stands in several places is the same in all, or the page says why it is not."""

import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from support.histories import DAWN, Clock, Person, Service, a_record, seen_through

import exposurekit as ek
from exposurekit.analysis import DEFINITIONS
from exposurekit.charts.theme import percent
from exposurekit.history import History
from exposurekit.reports.html import _heading

DAYS = 15


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=6, days=DAYS, seed=5, cache=False, progress=False) as demo:
        yield demo


@pytest.fixture(scope="module")
def pages(demo):
    """A report of each kind, of the same moment."""
    kinds = {"fleet": {}, "changes": {"since": "14d"}, "sites": {"kind": "sites"}, "person": {"user": 3}}
    reports = {
        kind: ek.report(demo.history, exposure=demo.exposure, **options) for kind, options in kinds.items()
    }
    return reports | {"now": ek.report(demo.exposure)}


def facts(report):
    return {
        fact.name: int(fact.value.replace(",", ""))
        for fact in report.facts
        if fact.value.replace(",", "").isdigit()
    }


def tables(report):
    return {section.key: section.table for section in report.sections if section.table is not None}


def words(report, key):
    return next(section["finding"] for section in report.data["sections"] if section["key"] == key)


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


def test_the_time_to_removal_states_its_interval_and_its_listings(demo, pages):
    [row] = demo.history.time_to_removal(by=None).to_dict("records")
    card = next(fact for fact in pages["fleet"].facts if fact.name == "half removed within")
    seen_open = row["n"] - row["first_removed"]
    assert f"({seen_open:,} seen open, {row['first_removed']:,} first seen removed)" in card.qualifier
    low, high = (percent(row[name]) for name in ("never_low", "never_high"))
    assert card.qualifier.endswith(f" days (95 % interval: {low}\N{EN DASH}{high})")


def test_kinds_of_report_of_one_moment_agree(pages):
    for name in ("open listings", "score", "removals by hand"):
        assert len({facts(pages[kind])[name] for kind in ("fleet", "changes", "sites", "now")}) == 1, name
    assert tables(pages["fleet"])["by_site"].equals(tables(pages["sites"])["by_site"])


def test_changes_agree_in_cards_chart_and_table_or_are_explained(pages):
    report, of = pages["changes"], facts(pages["changes"])
    of_tables = tables(report)
    chart = of_tables["changes"].set_index("cause")
    counts = of_tables["counts"].set_index("what")
    for cause in ("new", "listed again", "removed"):
        assert of[cause] == abs(chart.loc[cause, "n"]) == counts.loc[cause, "n"]
    assert of["open listings"] == chart["open"].iloc[-1]
    assert f"{chart['open'].iloc[0]} on " in report.facts[0].qualifier
    by_site = of_tables["diff_by_site"]
    assert by_site["open_after"].sum() == of["open listings"] == counts.loc["still open", "n"]
    assert by_site["new"].sum() == of["new"]
    assert len(of_tables["diff"]) == counts["n"].drop("still open").sum()


def report_of(tmp_path, days, since):
    """A report on the changes of a history: what each person has, day by day."""
    service, clock = Service(), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day, people in enumerate(days):
            service.people = {user_id: Person(records) for user_id, records in people.items()}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure)
        return ek.report(history, since=since)


GAINS, LOSSES = ("new", "entered scope", "listed again"), ("removed", "vanished", "left scope")


def test_cards_of_changes_explain_the_change_in_open_listings(tmp_path):
    early = {1: [a_record(10, "removed"), a_record(11), a_record(12)], 2: [a_record(20), a_record(21)]}
    later = {1: [a_record(10), a_record(11, "removed"), a_record(13), a_record(14)]}
    report = report_of(tmp_path, [early, later, later], DAWN)
    cards = {fact.name: int(fact.value) for fact in report.facts if fact.name in (*GAINS, *LOSSES)}
    assert cards == {"new": 2, "listed again": 1, "removed": 1, "vanished": 1, "left scope": 2}
    assert (facts(report)["open listings"], report.facts[0].qualifier) == (3, "4 on 2026-03-01 20:00 UTC")
    assert 4 + sum(cards.get(name, 0) for name in GAINS) - sum(cards.get(name, 0) for name in LOSSES) == 3


def test_a_quiet_change_report_has_three_cards_of_changes(tmp_path):
    report = report_of(tmp_path, [{1: [a_record(10)]}] * 2, DAWN)
    names = [fact.name for fact in report.facts]
    assert names[:4] == ["open listings", "new", "listed again", "removed"]
    assert not {*names} & {"entered scope", "vanished", "left scope"}


def test_what_came_and_went_counts_as_new_and_removed(tmp_path):
    days = [[a_record(10)], [a_record(10), a_record(11)], [a_record(10), a_record(11, "removed")]]
    report = report_of(tmp_path, [{1: records} for records in days], "2d")
    assert (facts(report)["new"], facts(report)["removed"], facts(report)["open listings"]) == (1, 1, 1)
    by_site = tables(report)["diff_by_site"]
    assert by_site.columns.tolist() == ["site", "open_before", "new", "removed", "open_after", "change"]
    assert by_site[["open_before", "new", "removed", "open_after"]].to_numpy().tolist() == [[1, 1, 1, 1]]
    assert tables(report)["diff"]["what"].tolist() == ["new", "removed"]


def test_the_score_of_the_changes_ends_where_the_fleet_stands(pages):
    moved = tables(pages["changes"])["score_changes"]
    assert moved["score"].iloc[-1] == facts(pages["fleet"])["score"]
    [score] = [section for section in pages["changes"].sections if section.key == "score_changes"]
    assert "Each listing counts once" in score.text


def test_everybodys_own_pages_add_up_to_the_fleets(demo, pages):
    people = demo.exposure.users()["user_id"]
    own = [facts(ek.report(demo.exposure, user=int(user))) for user in people]
    for name in ("open listings", "removed", "score", "removals by hand", "pages with their data"):
        assert sum(one[name] for one in own) == facts(pages["now"])[name], name


class Titles(HTMLParser):
    """What is shown on hover, by the text that it stands at."""

    def __init__(self, html):
        super().__init__()
        self.definition_by_text, self._title = {}, None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self._title = dict(attrs).get("title") if tag in ("th", "dfn") else None

    def handle_data(self, data):
        if self._title:
            self.definition_by_text[data.strip()] = self._title
        self._title = None


@pytest.mark.parametrize("kind", ["fleet", "changes", "sites", "person", "now"])
def test_each_figure_shows_its_one_definition_on_hover(pages, kind):
    report = pages[kind]
    figures = Titles(report.to_html()).definition_by_text
    columns = {(key, name) for key, table in tables(report).items() for name in table}
    defined = {
        *(fact.name for fact in report.facts if fact.name in DEFINITIONS),
        *(heading_of(key, name) for key, name in columns if name in DEFINITIONS),
    }
    assert {*figures} == defined
    assert {*figures.values()} <= {*DEFINITIONS.values()}
    assert {"open listings", "removed", "score", "removals by hand"} <= {*figures}
    assert [fact["definition"] for fact in report.data["facts"]] == [
        DEFINITIONS.get(f.name, "") for f in report.facts
    ]


def test_charts_show_the_same_definitions_on_hover(pages):
    charts = {
        section.key: section.figure for section in [*pages["fleet"].sections, *pages["changes"].sections]
    }
    for key, figures in {
        "by_site": ("discovered", "removed"),
        "changes": ("new", "removed"),
        "score": ("score",),
    }.items():
        hover = " ".join(
            str(hover_text) for trace in charts[key].data for hover_text in trace.customdata or ()
        )
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
    assert table["never"].dropna().between(0, 1).all()
    assert f"{table['never'].iloc[0]:.0%}</td>" in html
