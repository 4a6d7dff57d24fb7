"""A figure in several parts of a report is the same in all of them, or the page explains the difference."""

import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from support.histories import DAWN, Clock, Person, Service, a_record, seen_through

import exposurekit as ek
from exposurekit.analysis import DEFINITIONS
from exposurekit.charts.theme import percent
from exposurekit.history import History
from exposurekit.reports.html import _displayed, _heading


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=4, days=9, seed=5, cache=False, progress=False) as demo:
        yield demo


@pytest.fixture(scope="module")
def pages(demo):
    """A report of each kind, of the same moment."""
    kinds = {"fleet": {}, "changes": {"since": "8d"}, "sites": {"kind": "sites"}, "person": {"user": 3}}
    reports = {
        kind: ek.report(demo.history, exposure=demo.exposure, **options) for kind, options in kinds.items()
    }
    return reports | {"now": ek.report(demo.exposure)}


def facts(report):
    values = {fact.name: fact.value.replace(",", "") for fact in report.facts}
    return {name: int(value) for name, value in values.items() if value.isdigit()}


def tables(report):
    return {section.key: section.table for section in report.sections if section.table is not None}


def finding(report, key):
    return next(section["finding"] for section in report.data["sections"] if section["key"] == key)


def first_number(text):
    return int(re.search(r"\d[\d,]*", text)[0].replace(",", ""))


def test_reports_of_a_demo_name_its_service_and_no_address(demo, pages):
    for report in pages.values():
        assert report.provenance["server"] == "simulated service on this computer · demo"
        assert "127.0.0.1" not in report.to_html()
    for value in (demo.exposure, demo.client):
        assert "127.0.0.1" not in repr(value) + value._repr_html_()


def test_open_and_removed_counts_agree_everywhere(pages):
    for kind in ("fleet", "sites", "now"):
        report, cards = pages[kind], facts(pages[kind])
        by_site = tables(report)["by_site"]
        assert cards["open listings"] == by_site["open"].sum() == first_number(report.finding)
        assert cards["open listings"] == first_number(finding(report, "by_site")) > 0
        assert cards["removed"] == by_site["removed"].sum() > 0
        assert f"of {by_site['total'].sum()} listings found" in report.finding
        assert by_site["open"].is_monotonic_decreasing
    last, cards = tables(pages["fleet"])["status_over_time"].iloc[-1], facts(pages["fleet"])
    assert (cards["open listings"], cards["removed"]) == (last["total"] - last["removed"], last["removed"])
    assert first_number(finding(pages["fleet"], "status_over_time")) == cards["open listings"]


def test_cards_add_up_to_their_parts(pages):
    for kind, report in pages.items():
        cards = {fact.name: fact for fact in report.facts}
        by_hand, score = cards["to do by hand"], cards.get("score")
        counts = re.match(r"(\d+) listings?, (\d+) web pages?", by_hand.qualifier).groups()
        assert sum(map(int, counts)) == int(by_hand.value) > 0
        if "work_queue" in tables(report):
            assert len(tables(report)["work_queue"]) == int(by_hand.value)
        if kind != "sites":
            parts = re.findall(r"(\d+) [a-z ]+ \u00d7 (\d+)", score.detail)
            assert sum(int(n) * int(points) for n, points in parts) == int(score.value) > 0


def test_time_to_removal_states_its_interval_and_listings(demo, pages):
    [row] = demo.history.time_to_removal(by=None).to_dict("records")
    card = next(fact for fact in pages["fleet"].facts if fact.name == "half removed within")
    first_open = row["n"] - row["first_removed"]
    assert f"({first_open:,} seen open, {row['first_removed']:,} first seen removed)" in card.detail
    low, high = (percent(row[name]) for name in ("never_low", "never_high"))
    assert card.detail.endswith(f" days (95 % interval: {low}\N{EN DASH}{high})")


def test_kinds_of_report_agree(pages):
    for name in ("open listings", "score", "to do by hand"):
        assert len({facts(pages[kind])[name] for kind in ("fleet", "changes", "sites", "now")}) == 1, name
    assert tables(pages["fleet"])["by_site"].equals(tables(pages["sites"])["by_site"])


def test_changes_agree_in_cards_chart_and_tables(pages):
    report, cards, by_key = pages["changes"], facts(pages["changes"]), tables(pages["changes"])
    chart, counts = by_key["changes"].set_index("cause"), by_key["counts"].set_index("what")
    for cause in ("new", "listed again", "removed"):
        assert cards[cause] == abs(chart.loc[cause, "n"]) == counts.loc[cause, "n"]
    assert cards["open listings"] == chart["open"].iloc[-1]
    assert f"{chart['open'].iloc[0]} on " in report.facts[0].qualifier
    by_site = by_key["diff_by_site"]
    assert by_site["open_after"].sum() == cards["open listings"] == counts.loc["still open", "n"]
    assert by_site["new"].sum() == cards["new"]
    assert len(by_key["diff"]) == counts["n"].drop("still open").sum()
    assert by_key["score_changes"]["score"].iloc[-1] == facts(pages["fleet"])["score"]
    [score] = [section for section in report.sections if section.key == "score_changes"]
    assert "Each listing counts once" in score.text


def changes_of(tmp_path, days, since):
    """A report on the changes in what each person has on each day."""
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
    report = changes_of(tmp_path, [early, later, later], DAWN)
    cards = {fact.name: int(fact.value) for fact in report.facts if fact.name in (*GAINS, *LOSSES)}
    assert cards == {"new": 2, "listed again": 1, "removed": 1, "vanished": 1, "left scope": 2}
    assert (facts(report)["open listings"], report.facts[0].qualifier) == (3, "4 on 2026-03-01 20:00 UTC")
    assert 4 + sum(cards.get(name, 0) for name in GAINS) - sum(cards.get(name, 0) for name in LOSSES) == 3


def test_quiet_change_report_has_three_cards_of_changes(tmp_path):
    report = changes_of(tmp_path, [{1: [a_record(10)]}] * 2, DAWN)
    names = [fact.name for fact in report.facts]
    assert names[:4] == ["open listings", "new", "listed again", "removed"]
    assert not {*names} & {"entered scope", "vanished", "left scope"}


def test_listing_added_and_removed_counts_as_both(tmp_path):
    days = [[a_record(10)], [a_record(10), a_record(11)], [a_record(10), a_record(11, "removed")]]
    report = changes_of(tmp_path, [{1: records} for records in days], "2d")
    assert (facts(report)["new"], facts(report)["removed"], facts(report)["open listings"]) == (1, 1, 1)
    by_site = tables(report)["diff_by_site"]
    assert by_site.columns.tolist() == ["site", "open_before", "new", "removed", "open_after", "change"]
    assert by_site[["open_before", "new", "removed", "open_after"]].to_numpy().tolist() == [[1, 1, 1, 1]]
    assert tables(report)["diff"]["what"].tolist() == ["new", "removed"]


def test_reports_on_each_person_add_up_to_the_fleet(demo, pages):
    people = demo.exposure.users()["user_id"]
    cards = [facts(ek.report(demo.exposure, user=int(user), sections=["records"])) for user in people]
    for name in ("open listings", "removed", "score", "to do by hand", "web pages"):
        assert sum(one[name] for one in cards) == facts(pages["now"])[name], name


class Titles(HTMLParser):
    """The text that is displayed on hover, by the text of its element."""

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


def test_each_figure_has_its_definition_on_hover(pages):
    for report in pages.values():
        figures = Titles(report.to_html()).definition_by_text
        columns = {
            (key, name) for key, table in tables(report).items() for name in _displayed(table, key)["table"]
        }
        defined = {
            *(fact.name for fact in report.facts if fact.name in DEFINITIONS),
            *(heading_of(key, name) for key, name in columns if name in DEFINITIONS),
        }
        assert {*figures} == defined
        assert {*figures.values()} <= {*DEFINITIONS.values()}
        assert {"open listings", "removed", "score", "to do by hand"} <= {*figures}
        definitions = [fact["definition"] for fact in report.data["facts"]]
        assert definitions == [DEFINITIONS.get(fact.name, "") for fact in report.facts]


def test_charts_have_the_same_definitions_on_hover(pages):
    sections = [*pages["fleet"].sections, *pages["changes"].sections]
    charts = {section.key: section.figure for section in sections}
    defined = {"by_site": ("discovered", "removed"), "changes": ("new", "removed"), "score": ("score",)}
    for key, figures in defined.items():
        hover = " ".join(str(text) for trace in charts[key].data for text in trace.customdata or ())
        assert all(DEFINITIONS[figure] in hover.replace("<br>", " ") for figure in figures)


def test_definition_of_the_score_has_its_weights():
    for status in ("discovered", "pending removal", "page"):
        assert re.search(rf"{ek.analysis.WEIGHTS[status]:g} per {status}", DEFINITIONS["score"])


def heading_of(key, name):
    return re.search(">(.*)</th>", _heading(name, key))[1]


def test_no_heading_is_a_raw_column_name(pages):
    headings = [
        heading_of(key, name)
        for page in pages.values()
        for key, table in tables(page).items()
        for name in (*table, *_displayed(table, key)["table"])
    ]
    assert [heading for heading in headings if "_" in heading] == []
    assert heading_of("time_to_removal", "never") == "not removed"
    assert "title=" not in _heading("other", "coverage")  # that definition is about statuses


def test_shares_are_percentages(pages):
    html = pages["fleet"].to_html()
    table = tables(pages["fleet"])["time_to_removal"]
    assert table["never"].dropna().between(0, 1).all()
    assert f"{table['never'].iloc[0]:.0%} <span" in html
