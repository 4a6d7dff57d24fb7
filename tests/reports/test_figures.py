"""A figure in several parts of a report is the same in all of them, or the page explains the difference."""

import io
import json
import re
from dataclasses import asdict, replace
from datetime import timedelta
from html import unescape
from html.parser import HTMLParser

import pandas as pd
import pytest
from support.chart_tables import declared, findings, requests, timed
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through
from support.report_sections import section_alone, statements

import exposurekit as ek
from exposurekit.analysis import DEFINITIONS
from exposurekit.analysis.definitions import TERMS
from exposurekit.analysis.diff import WHAT
from exposurekit.analysis.work_queue import CHECK_MINUTES
from exposurekit.charts import describe
from exposurekit.charts.embedding import plotly_js
from exposurekit.charts.theme import format_duration
from exposurekit.history import History
from exposurekit.reports.actions import _first_of_site
from exposurekit.reports.data import ReportSource
from exposurekit.reports.html import Glossary, _body, _card_labels, _displayed, _heading
from exposurekit.reports.kinds import build_report, needed_tables
from exposurekit.reports.manual_steps import open_items
from exposurekit.reports.model import Removal
from exposurekit.text.formatting import percent, pluralize
from exposurekit.text.sanitize import escaped


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=4, days=9, seed=5, cache=False, progress=False) as demo:
        yield demo


@pytest.fixture(scope="module")
def history(demo):
    """The demo's history, of which each table is read once."""
    return demo.history.pinned()


@pytest.fixture(scope="module")
def pages(demo, history):
    """A report of each kind, of the same moment."""
    kinds = {"fleet": {}, "changes": {"since": "8d"}, "sites": {"kind": "sites"}, "person": {"user": 3}}
    reports = {kind: ek.report(history, exposure=demo.exposure, **options) for kind, options in kinds.items()}
    return reports | {"now": ek.report(demo.exposure)}


@pytest.fixture(scope="module")
def html_of():
    """Returns the page of a module's report, which is rendered once."""
    rendered = {}

    def html_of(report):
        _, html = rendered.get(id(report)) or rendered.setdefault(id(report), (report, report.to_html()))
        return html

    return html_of


def facts(report):
    values = {fact.name: fact.value.replace(",", "") for fact in report.facts}
    return {name: int(value) for name, value in values.items() if value.isdigit()}


def tables(report):
    return {section.key: section.table for section in report.sections if section.table is not None}


def finding(report, key):
    return next(section["finding"] for section in report.data["sections"] if section["key"] == key)


def first_number(text):
    return int(re.search(r"\d[\d,]*", text)[0].replace(",", ""))


def test_reports_of_a_demo_name_its_service_and_no_address(demo, pages, html_of):
    for report in pages.values():
        assert report.provenance["server"] == "simulated service with invented people · demo"
        assert "127.0.0.1" not in html_of(report)
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
    for report in pages.values():
        cards = {fact.name: fact for fact in report.facts}
        by_hand, score = cards["to do by hand"], cards.get("score")
        counts = re.match(r"(\d+) listings?, (\d+) web pages?", by_hand.qualifier).groups()
        assert sum(map(int, counts)) == int(by_hand.value) > 0
        if "work_queue" in tables(report):
            assert len(tables(report)["work_queue"]) == int(by_hand.value)
        if score is not None:
            parts = re.findall(r"(\d+) [a-z ]+ \u00d7 (\d+)", score.detail)
            assert sum(int(n) * int(points) for n, points in parts) == int(score.value) > 0


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ([None, None], "with personal data"),
        (["https://a.example/1", None], "on 1 host"),
        (["https://a.example/1", "https://b.example/1"], "on 2 hosts"),
        (["https://a.example/1"] * 2 + [None], "on 1 host; 1 different link"),
        (["no address"] * 2, "1 different link"),
    ],
)
def test_card_of_pages_counts_those_with_an_address(fleet_data, urls, words):
    links = pd.DataFrame({"user_id": range(len(urls)), "url": pd.Series(urls, dtype="str")})
    [card] = [
        one for one in with_tables(fleet_data, ["by_site"], links=links).facts if one.name == "web pages"
    ]
    assert card.value == str(len(urls))
    assert card.qualifier == words
    assert "they have no opt-out form" in DEFINITIONS["web pages"]


def test_minutes_of_the_parts_add_up_to_the_total(pages):
    for report in pages.values():
        [section] = [one for one in report.sections if one.removals] or [None]
        if section is None:
            continue
        total = section.table["minutes"].sum()
        assert sum(one.minutes for one in section.removals) == total
        card = next(fact for fact in report.facts if fact.name == "to do by hand")
        assert f"about {format_duration(total)}" in card.qualifier
        assert f"about {format_duration(total)} in total" in describe(section.figure)


@pytest.fixture(scope="module")
def relisted(tmp_path_factory):
    """A report on people of whom two have listings that were listed again, one of them twice, and all of whom share a page."""
    pending, found, gone = "pending removal", "discovered", "removed"
    courses = {
        1: (pending, gone, found, gone, pending, pending),
        2: (pending, gone, gone, found, found, found),
        3: (found, pending, pending, gone, gone, gone),
        4: (found, found, found, found, found, found),
    }
    service, clock, page = Service(), Clock(), a_link("https://pages.example/all")
    directory = tmp_path_factory.mktemp("relisted")
    with seen_through(service) as exposure, History(directory / "history", clock=clock) as history:
        for day in range(6):
            for number, course in courses.items():
                records = [a_record(10 * number + n, course[day], site=f"Site {n}") for n in range(number)]
                alerts = [an_alert("Listed", item) for item in (*records, page)]
                service.people[number] = Person(records, [page], alerts)
            clock.set(DAWN + timedelta(days=2 * day))
            history.collect(exposure.refresh(), progress=False)
        return ek.report(history, exposure=exposure.refresh())


def bars(chart, *names):
    """The sum of the bars of these names, or of all bars."""
    traces = [one for one in chart.data if one.type == "bar" and (not names or one.name in names)]
    return sum(sum(one.x) for one in traces if one.xaxis in (None, "x"))


COUNTED = {  # by section: what it counts, in its text, its table and its chart
    "by_site": (
        r"(\d+) listings? (?:is|are) open",
        lambda table: table["open"].sum(),
        lambda chart: bars(chart, "discovered", "pending removal", "other"),
    ),
    "week": (
        r"(\d+) (?:is|are) open",
        lambda table: table["open_after"].sum(),
        lambda chart: re.search(r"open after: (\d+)", describe(chart))[1],
    ),
    "score": (r"(\d+) points in total", lambda table: table["score"].sum(), bars),
    "status_over_time": (
        r"(\d+) of \d+ listings? (?:is|are) open",
        lambda table: table["open"].iloc[-1],
        lambda chart: sum(
            int(n) for n in re.findall(r"(\d+) (?:discovered|pending removal|other)\b", describe(chart))
        ),
    ),
    "time_to_removal": (
        r"n = (\d+)",
        lambda table: table["n"].sum(),
        lambda chart: sum(
            int(re.search(r"listed (\d+) times?", text)[1]) for text in chart.layout.yaxis.ticktext
        ),
    ),
    "relistings": (r"(\d+) relistings?(?: of \d+ listings?)?[,.]", len, bars),
    "work_queue": (r"(\d+) items? in all", len, lambda chart: bars(chart, "started", "to do", "later")),
}


def test_text_chart_table_and_csv_of_sections_count_the_same(relisted, pages, html_of):
    compared = set()
    for report in (relisted, pages["fleet"], pages["sites"]):
        html = html_of(report)
        for section in report.sections:
            if section.table is None or section.key not in COUNTED:
                continue
            pattern, of_table, of_chart = COUNTED[section.key]
            words = f"{section.finding} {statements(section)}"
            n = int(re.search(pattern, words)[1])
            part = html[html.index(f'<section id="{section.key}"') :].partition("</section>")[0]
            csv = pd.read_csv(io.StringIO(json.loads(re.findall(r"<script[^>]*>(\".*?)</script>", part)[-1])))
            assert n == of_table(section.table) == of_table(csv) > 0, section.key
            if section.figure is not None:
                assert n == int(of_chart(section.figure)), section.key
            body = part.partition("<tbody>")[2].partition("</tbody>")[0]
            assert (
                body.count("<tr>")
                == len(csv)
                == section.rows
                == int(re.search(r"Table: (\d+) rows?<", part)[1])
            ), section.key
            compared.add(section.key)
    assert compared == {*COUNTED}


def test_web_pages_and_relistings_have_one_count_and_name(relisted):
    """A page counts once for each person on it; a listing that was listed again twice is one, and has two relistings."""
    cards = {fact.name: fact for fact in relisted.facts}
    assert cards["web pages"].value == "4"
    assert cards["web pages"].qualifier == "on 1 host; 1 different link"
    assert " listings, 4 web pages, about " in cards["to do by hand"].qualifier
    assert " and 4 web pages; about " in relisted.sections[-2].text
    [action] = [one for one in relisted.actions if one.text.startswith("Write to")]
    assert action.text == "Write to the owners of 4 web pages on 1 host"
    assert action.effect.startswith(
        "1 different link (a page counts for each person on it). It takes less if "
    )
    assert tables(relisted)["score"]["pages"].sum() == 4
    assert "4 web pages \u00d7 1" in cards["score"].detail
    table = tables(relisted)["relistings"]
    ever = re.match(r"of (\d+) listings ever removed: 3 were listed again", cards["removed"].line)
    now = table.drop_duplicates(["user_id", "reference_id"], keep="last")["status"]
    assert int(ever[1]) == int(cards["removed"].value) + (now != "removed").sum() == 6
    assert cards["listed again"].value == str(len(table.drop_duplicates(["user_id", "reference_id"]))) == "3"
    assert finding(relisted, "relistings").startswith(
        "3 of 6 listings ever removed were listed again (50%); "
    )
    back = tables(relisted)["by_site"].set_index("site")["listed_again"]
    days = table["gone_days"]
    [section] = [one for one in relisted.sections if one.key == "relistings"]
    named = re.match(r"4 relistings of 3 listings, on (.*), after (\d+)\D(\d+) days\. ", section.text)
    of_sites = re.findall(r"(Site \d) \((\d) of \d(?:, (\d) times)?\)", named[1])
    assert [(site, n) for site, n, _ in of_sites] == [(site, str(n)) for site, n in back.items() if n]
    assert sum(int(times or n) for _, n, times in of_sites) == len(table) == 4  # as the bars of the chart
    assert (int(named[2]), int(named[3])) == (days.min(), days.max())
    assert tables(relisted)["by_site"]["listed_again"].sum() == 3


def test_relistings_have_their_reference_in_a_total_order(relisted):
    table = tables(relisted)["relistings"]
    assert table["reference_id"].tolist() == ["0010", "0020", "0021", "0010"]
    by = ["listed_again_at", "user_id", "site", "reference_id"]
    assert table[by].equals(table[by].sort_values(by))
    assert not table.duplicated(by).any()


def test_queue_plan_checklist_and_report_take_the_same_time(demo, history, pages):
    """Also for pages, whose check takes as long as that of a listing."""
    queue = history.work_queue(exposure=demo.exposure)
    of_pages = queue[queue["kind"] == "page"]
    steps = history.steps()
    experience = history.site_experience()
    labelled = ek.analysis.work_queue(steps.assign(label="mine"), **experience)
    checks = queue["minutes"].sum() - labelled["minutes"].sum()
    without_labels = ek.analysis.work_queue(steps.drop(columns="label"), **experience)
    assert without_labels["minutes"].sum() == queue["minutes"].sum()
    assert checks == CHECK_MINUTES * len(queue)
    assert len(of_pages) > 2
    total = f"about {format_duration(queue['minutes'].sum())}"
    report = pages["fleet"]
    [section] = [one for one in report.sections if one.key == "work_queue"]
    card = next(one for one in report.facts if one.name == "to do by hand")
    checklist = ek.widgets.OptOutChecklist(demo.exposure, history).to_html()
    for text in (card.qualifier, section.text, describe(section.figure), checklist):
        assert total in text
    n_listings = len(queue) - len(of_pages)
    part = f"{format_duration(checks)} to check {n_listings} listings and {len(of_pages)} web pages"
    assert f"{total}; including {part}" in card.qualifier
    assert f"{total}, including {part}." in section.text
    caveat = f"The times below include this: 2 min each, {format_duration(checks)} in total."
    assert report.caveat.endswith(caveat)
    live = pages["now"]  # labels are in a history, so nobody has checked anything
    for other in (live, pages["changes"], pages["person"]):
        assert other.caveat.startswith("Nobody has checked yet whom the listings are about. ")
    for other in (live, pages["changes"]):
        [by_hand] = [one for one in other.facts if one.name == "to do by hand"]
        assert f"{total}; including {part}" in by_hand.qualifier
    assert live.half_hour.endswith(" In order of time only: success rates need a history.")
    assert "check and remove" in live.half_hour
    plan = history.plan(30, exposure=demo.exposure)
    assert f" in about {format_duration(plan['minutes'].sum())} (" in report.half_hour
    [times, visit, before] = re.search(
        r"\(([\d +]+) min, and (\d+) min to start on each site\)\.(.*)$", report.half_hour
    ).groups()
    assert before in ("", " Before that, tell 1 person to expect an email and click the link in it.")
    minutes = [*map(int, times.split(" + "))]
    assert len(minutes) == len(plan)
    assert sum(minutes) + int(visit) * plan["site"].nunique() == round(plan["minutes"].sum())
    assert all(f" on {site}" in report.half_hour for site in plan["site"])
    assert len(plan) > 0


def test_superlatives_name_their_measure(pages):
    """Whoever reads that something is most, fastest or slowest reads by what."""
    headings = [
        words
        for report in pages.values()
        for section in report.sections
        for words in (section.title, section.finding, report.finding, *(one.text for one in report.actions))
    ]
    assert any("has the most open listings" in words for words in headings)
    for words in headings:
        assert not re.search(r"(?i)\bworst(?! by | first)|the most,|\bmost exposed(?!, by score)", words), (
            words
        )
        assert not re.search(r"fastest|slowest", words) or words.startswith("By median time"), words


def test_worst_site_is_the_first_of_each_ranking(pages, stalled):
    """The lead, the section on sites and its table name one site; an action on it says so."""
    for report in (pages["fleet"], pages["sites"], stalled["live"], stalled["history"]):
        by_site = tables(report)["by_site"]
        worst = by_site.loc[by_site["open"] == by_site["open"].max(), "site"].tolist()
        named = re.search(r" Most open listings: (.*) \((\d+)(?: each)?\)\.$", report.finding)
        assert re.split(", | and ", named[1]) == worst
        assert int(named[2]) == by_site["open"].iloc[0] > 0
        [section] = [one for one in report.sections if one.title == "Sites, most open listings first"]
        assert f"open. Most open listings: {worst[0]} {named[2]}" in section.finding
        assert re.match(
            rf"(?:No removal request has been seen yet on )?{re.escape(worst[0])}\b", section.text
        )
        of_worst = {one.text for one in report.actions if "ost open listings: " in one.effect}
        if of_worst:
            [text] = of_worst
            assert [f" on {one} by hand" in text for one in worst] == [True]
    assert any("ost open listings: " in one.effect for one in stalled["live"].actions)


def test_first_action_says_what_decides_the_order(pages, stalled):
    named = 0
    for report in (*pages.values(), *stalled.values()):
        for action in report.actions:
            if "ost expected removals per minute" in action.effect:
                work = next(one.removals for one in report.sections if one.removals)
                first = next(one for one in work if one.site)
                assert f" on {first.site} by hand" in action.text == report.actions[0].text
                named += 1
    assert named


def test_every_action_and_card_says_who_acts(pages, stalled, html_of):
    who = {"you", "you and the person listed", ""}  # nobody has to act on pending removals yet
    for report in (*pages.values(), *stalled.values()):
        assert report.actions
        assert {action.who for action in report.actions} <= who
        html = unescape(html_of(report))
        cards = [card for section in report.sections for card in section.removals]
        named = [one.who for one in (*report.actions, *cards) if one.who]
        for text in named:
            assert f'<em class="who">{text}</em>' in html
        assert html.count('<em class="who">') == len(named)
        assert [one for one in report.actions if not one.who] == [
            one for one in report.actions if "pending" in one.text
        ]


def test_two_periods_add_up_to_the_open_listings(tmp_path):
    """Each change is named with its sites, and the changes between two days explain the difference."""
    service, clock = Service({1: Person([a_record(1), a_record(2, site="Other")])}), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day in range(0, 22, 7):
            first, other, *_ = service.people[1].records
            first["status"] = "removed" if day in (7, 14) else "discovered"
            other["status"] = "removed" if day >= 14 else "discovered"
            service.people[1].records.append(a_record(10 + day, site="Other"))
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        week = section_alone("week", history)
    assert week.text == "Net change in open listings: +2; in the 7 days before: 0."
    this_week, week_before = week.points
    changes = "from 3 to 5 open; 1 new (Other 1); 1 listed again (PeepFinder 1); 0 removed"
    assert this_week == f"2026-03-15 to 2026-03-22: {changes}."
    changes = "from 3 to 3 open; 1 new (Other 1); 0 listed again; 1 removed (Other 1)"
    assert week_before == f"The 7 days before, 2026-03-08 to 2026-03-15: {changes}."


def test_changes_on_further_sites_are_counted(tmp_path):
    service, clock = Service({1: Person([a_record(1)])}), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day in (0, 7):
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
            service.people[1].records += [a_record(10 + n, site=f"Site {n // 2}") for n in range(2, 16)]
        week = section_alone("week", history)
    assert (
        "; 14 new (Site 1 2, Site 2 2, Site 3 2, Site 4 2, Site 5 2 and 4 on 2 other sites); "
        in week.points[0]
    )


def test_title_and_chart_of_removal_times_have_one_clock(fleet_data):
    report = build_report("fleet", fleet_data)
    card = next(fact for fact in report.facts if fact.name == "half removed within")
    [section] = [one for one in report.sections if one.key == "time_to_removal"]
    request, first = re.match(
        r"(\S+) days? from the request.*?; (\S+) days? from first observation\.",
        f"{card.value} {card.qualifier}",
    ).groups()
    assert section.finding.startswith(f"Median time to removal: {first} day")
    assert " from first observation; " in section.finding
    assert "request" not in section.finding
    assert section.figure.layout.xaxis.title.text == "days from first observation"
    assert f"From the removal request, the overall median is {request} day" in section.text
    assert (
        "from the first observation of a listing, with or without a removal request; requests that were refused, or not carried out in the usual time, count as not removed."
        in section.points[0]
    )


def test_medians_of_a_site_stand_in_one_table(fleet_data):
    flows = {"flow": ["entered", "removed"] * 2, "days": [0, 2, 0, 9], "n": 9, "gap_days": 1.0}
    life_table = pd.DataFrame({"site": [*"AABB"], "left_censored": False} | flows)
    times = ek.analysis.time_to_removal(life_table).assign(requested=9)
    outcomes = fleet_data["site_outcomes"].head(2).assign(**times[["site", "median_days"]])
    by_key = {}
    for name, more in (("equal", 0), ("later", 1)):
        of_requests = outcomes.assign(median_days=outcomes["median_days"] + more)
        parts = {"time_to_removal": times, "site_outcomes": of_requests}
        by_key[name] = with_tables(fleet_data, ["by_site", "time_to_removal"], **parts).sections
    assert not [name for name in by_key["equal"][0].table if "median" in name]
    equal, later = by_key["equal"][1], by_key["later"][1]
    assert "Each site's median is the same from the request; the overall one is not" in equal.points[0]
    assert "request_median" not in equal.table
    assert "is the same" not in later.points[0]
    assert later.table["request_median"].tolist() == [3, 10]
    displayed = _displayed(later.table, "time_to_removal")  # the clock of the chart; the CSV has both
    assert "request_median" not in displayed["table"]
    assert "In the CSV only: median days from request, " in displayed["note"]
    assert heading_of("time_to_removal", "request_median") == "median days from request"


@pytest.mark.parametrize("lacking", ["site_outcomes", "time_to_removal"])
def test_missing_median_equals_no_other(fleet_data, lacking):
    medians = {
        "site": [*"AB"],
        "median_days": pd.array([3, 9], "Float64"),
        "median_low": 2.0,
        "median_high": 9.5,
    }
    parts = {
        name: fleet_data[name].head(2).assign(**medians) for name in ("time_to_removal", "site_outcomes")
    }
    parts[lacking] = parts[lacking].assign(median_days=pd.array([3, None], "Float64"))
    [section] = with_tables(fleet_data, ["time_to_removal"], **parts).sections
    assert "the same either way" not in section.points[0]
    assert section.table["request_median"].notna().tolist() == [True, lacking != "site_outcomes"]


def test_sites_without_any_median_are_not_compared(fleet_data):
    """The medians from the request are of other sites than those of the table."""
    times = fleet_data["time_to_removal"].head(1).assign(site="A", median_days=float("nan"))
    outcomes = fleet_data["site_outcomes"].head(1).assign(site="B", median_days=3.0)
    parts = {"time_to_removal": times, "site_outcomes": outcomes}
    [section] = with_tables(fleet_data, ["time_to_removal"], **parts).sections
    assert "the same either way" not in section.points[0]
    assert "request_median" not in section.table


def test_percentages_are_written_in_one_way(pages, stalled, html_of):
    for report in (*pages.values(), *stalled.values()):
        html = unescape(html_of(report))
        page = html[html.index("<body") :].replace(plotly_js(), "")
        assert re.findall(r"\d%", page)
        assert re.findall(r"\d[ \u00a0\u202f]%", page) == []


def test_code_stands_at_the_end_for_analysts(pages, stalled, html_of):
    for name, report in [*pages.items(), *stalled.items()]:
        html = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", unescape(html_of(report)), flags=re.DOTALL)
        before, _, code = html.partition('<section id="analysts"')
        assert not re.search(r"\bek\.|share_safe=|--share-safe|history\.\w+\(", before), name
        assert ("ek.report(" in code) == (not report.is_share_safe) == bool(report.code), name


def test_lead_and_tiles_tell_requested_listings_from_others(history, pages):
    """Listings that nobody ever asked to remove are counted, and what the other requests achieved."""
    requests, fleet = history.removal_requests(), pages["fleet"]
    requested = {*zip(requests["user_id"], requests["key"], strict=True)}
    queue = history.work_queue(exposure=None)
    listings = queue.dropna(subset="record_id")
    never = sum(
        pair not in requested for pair in zip(listings["user_id"], listings["record_id"], strict=True)
    )
    assert never > 0
    words = "none" if never == len(listings) else f"{never}"
    assert f" need manual work, {words} of them with" in fleet.parts[0]
    without, after = never, len(listings) - never
    [work] = [one for one in fleet.sections if one.key == "work_queue"]
    assert f" {without} of {without + after} listings have had no request so far" in " ".join(
        ["", *work.points]
    )
    [card] = [fact for fact in fleet.facts if fact.name == "removed"]
    done = int((requests["end"] == "removed").sum())
    outcomes = history.site_outcomes()
    refused = int(outcomes["refused"].sum() + outcomes["ignored"].sum())
    assert (
        f" found; {done} of {done + refused} removal requests with an outcome were carried out"
        in card.qualifier
    )


def test_cards_of_manual_work_state_the_expected_removals(history, pages):
    rates = (
        history.work_queue().dropna(subset="site").drop_duplicates("site").set_index("site")["success_rate"]
    )
    cards = [card for section in pages["fleet"].sections for card in section.removals if card.site]
    assert cards
    for card in cards:
        assert card.expected == pytest.approx(rates[card.site] * card.listings)
        assert card.expected_removals in card.amount
    live = [card for section in pages["now"].sections for card in section.removals]
    assert live
    assert {card.expected for card in live} == {None}


def test_time_to_removal_states_its_interval_and_listings(history, pages):
    [row] = history.time_to_removal(by=None).to_dict("records")
    card = next(fact for fact in pages["fleet"].facts if fact.name == "half removed within")
    first_open = row["n"] - row["first_removed"]
    assert f"({first_open:,} seen open, {row['first_removed']:,} first seen removed)" in card.detail
    low, high = (percent(row[name]) for name in ("never_low", "never_high"))
    share, after = percent(row["never"]), f"are still listed after {row['followed_days']} days"
    band = f"(95% interval: {low.removesuffix('%')}\N{EN DASH}{high})"
    assert card.detail.endswith(f"; an estimated {share} {band} {after}")
    assert card.qualifier.endswith(f". Of all listings, requested or not, an estimated {share} {after}")
    [section] = [one for one in pages["fleet"].sections if one.key == "time_to_removal"]
    median = f"{row['median_days']:g} days from first observation"
    assert f" overall median is {card.value}." in section.text
    assert section.finding == f"Median time to removal: {median}; an estimated {share} {after}."
    ends = band.strip("()").removeprefix("95% interval: ")
    assert re.fullmatch(
        rf"95% interval: .* days, and {ends} of listings\. .* \(n = {row['n']}\); {row['open']} of them are open\.",
        section.points[1],
    )


def test_kinds_of_report_agree(pages):
    for name in ("open listings", "score", "to do by hand"):
        cards = [facts(pages[kind]) for kind in ("fleet", "changes", "sites", "now")]
        assert len({one[name] for one in cards if name in one}) == 1, name
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


LATER = "3 removal requests were not carried out within 14 days"


@pytest.fixture(scope="module")
def stalled(tmp_path_factory):
    """Reports of one history, with and without a live exposure: one site waits, and one removal lacks an email.

    The site refused seven requests, and did not carry out three.
    """
    service, clock = Service(), Clock()
    for number in range(1, 8):
        emails = [] if number == 1 else [{"id": number, "address": f"p{number}@mail.example"}]
        quick = a_record(number, site="Quick", user_fields_required_for_removal=["first_name", "email"])
        slow = a_record(10 + number, "pending removal", site="Slow", user_fields_required_for_removal=[])
        service.people[number] = Person(
            [quick, slow],
            alerts=[an_alert("Listed", quick), an_alert("Refused", slow)],
            profile={"emails": emails},
        )
    refused = [*service.people.values()]
    slow = [a_record(30 + number, "pending removal", site="Slow") for number in range(3)]
    service.people[8] = Person(slow, profile={"emails": []})
    with seen_through(service) as exposure:
        history = History(tmp_path_factory.mktemp("stalled") / "history", clock=clock)
        for day in (0, 15):
            clock.set(DAWN + timedelta(days=day))
            for person in refused:
                person.records[1]["status"] = "discovered" if day else "pending removal"
            history.collect(exposure.refresh(), progress=False)
        yield {
            "live": ek.report(history, exposure=exposure.refresh()),
            "history": ek.report(history),
            "shared": ek.report(history, exposure=exposure, share_safe=True),
            "changes": ek.report(history, since=DAWN),
            "changes, live": ek.report(history, since=DAWN, exposure=exposure),
        }


def test_column_without_refused_requests_says_in_the_usual_time(stalled):
    """What was not carried out includes what was refused, as in the verdicts."""
    section = ek.Section("Ours", table=pd.DataFrame({"site": ["Slow"], "refused": [2], "ignored": [1]}))
    html = replace(stalled["live"], sections=(section,)).to_html()
    headings = [re.sub("<[^>]+>", " ", one) for one in re.findall(r"<th\b.*?</th>", html)]
    assert any("not carried out in the usual time" in one for one in headings)


def test_actions_on_one_history_agree(stalled):
    texts = {kind: [action.text for action in report.actions] for kind, report in stalled.items()}
    assert texts["live"][0] == "Remove 6 of 7 open listings on Quick by hand"
    assert texts["history"][0] == texts["shared"][0] == "Remove 7 listings on Quick by hand"
    not_shown = "; whether required values are on file is left out because the report is shared"
    checks = {
        "history": ". Before you begin, check that the required values are on file.",
        "shared": ". Whether required values are on file is left out because the report is shared.",
    }
    for kind, note in (checks | {"changes": checks["history"]}).items():
        assert stalled[kind].actions[0].effect.endswith(note)
    values = "; whether required values, such as an email address, are on file was not checked"
    notes = dict.fromkeys(("history", "changes"), values) | {"shared": not_shown}
    cards = {
        kind: next(fact for fact in one.facts if fact.name == "to do by hand")
        for kind, one in stalled.items()
    }
    assert cards["live"].qualifier.endswith("; 1 of them cannot start: a required value is not on file")
    for kind, note in notes.items():
        assert cards[kind].qualifier.endswith(note)


@pytest.mark.parametrize("kind", ["live", "changes, live"])
def test_a_request_for_a_field_names_it_by_its_label(stalled, kind):
    asks = [action.text for action in stalled[kind].actions if action.text.startswith("Ask ")]
    assert len(asks) == 1
    assert asks[0].endswith(" for the email address")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Reports of one history: six sites have work, of which one granted a request, and one page has some."""
    service, clock = Service(), Clock()
    for number in range(1, 7):
        listed = [
            a_record(10 * site + number, site=f"Site {site}", user_fields_required_for_removal=[])
            for site in range(1, 7 if number > 1 else 6)
        ]
        pages = [a_link("https://pages.example/all")]
        alerts = [an_alert("Listed", item) for item in (*listed, *pages)]
        service.people[number] = Person(listed, pages, alerts)
    with seen_through(service) as exposure:
        history = History(tmp_path_factory.mktemp("many") / "history", clock=clock)
        for day, status in enumerate(("pending removal", "removed")):
            service.people[1].records[0]["status"] = status
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        yield {
            "fleet": ek.report(history),
            "sites": ek.report(history, kind="sites"),
            "person": ek.report(history, user=2),
            "shared": ek.report(history, share_safe=True),
            "live": ek.report(exposure),
        }


def test_actions_sum_up_to_all_manual_work(many, pages, stalled, unequal):
    """In time and in expected removals, with the work that no action names."""
    for report in (*many.values(), *pages.values(), stalled["live"], stalled["history"], unequal):
        timed = [action for action in report.actions if action.minutes is not None]
        if not report.totals:
            assert len(timed) < 2
            continue
        *rest, total = report.totals
        assert len(rest) < 2
        rows = [*timed, *rest]
        assert total.text == ("These together" if report.is_share_safe else "Total")
        assert total.minutes == sum(row.minutes for row in rows) > 0
        assert total.listings == sum(row.listings for row in rows) > 0
        [card] = [fact for fact in report.facts if fact.name == "to do by hand"]
        if report.kind != "sites" and not report.is_share_safe:  # the one has no web pages, the other no rest
            assert f"{total.listings} listing" in card.qualifier
            assert f"about {total.time}" in card.qualifier
        expected = [row.expected for row in rows if row.expected is not None]
        assert bool(expected) == (total.expected is not None)
        if expected:
            assert total.expected == pytest.approx(sum(expected))
            assert total.low <= total.expected <= total.high
            for row in (*rows, total):
                assert row.expected is None or 0 <= row.low <= row.expected <= row.high <= row.listings


def test_expectations_without_any_observation_are_assumed(many):
    report = many["fleet"]
    basis = {action.site: action.basis for action in report.actions if action.minutes is not None}
    assert basis[""] == "not known: owners may refuse"
    assert basis.pop("Site 1") == "the site carried out 1 of 1 removal request so far"
    assert {one for site, one in basis.items() if site} == {"assumed: no request answered yet"}
    rest, total = report.totals
    assert rest.text.startswith("The other ")
    granted = [one.expected for one in report.actions if one.site == "Site 1"]
    [pages] = [one for one in report.actions if one.minutes is not None and not one.site]
    assert total.basis == (
        f"{total.expected - sum(granted):,.1f} of these are assumed; the time includes {pages.time} for web pages"
    )


def test_page_and_table_have_the_numbers_of_each_action(many, html_of):
    for kind, report in many.items():
        html, table = html_of(report), report.table("actions")
        actions = [*report.actions, *report.totals]
        assert table["action"].tolist() == [one.text for one in actions]
        for action, row in zip(actions, table.to_dict("records"), strict=True):
            for name in ("minutes", "expected", "low", "high", "per_minute"):
                value = getattr(action, name)
                assert row[name] == value if value is not None else pd.isna(row[name])
            if action.minutes is None:
                continue
            assert f"<td>{action.time}</td>" in html
            if action.expected is not None:
                assert f"<td>{action.expected:,.1f} ({action.low}\N{EN DASH}{action.high})" in html
                assert f"<td>{action.expected / action.minutes:.3f}</td>" in html
        assert ("Expected removals (95% interval)" in html) == (kind != "live"), kind
        assert report.data["totals"] == [asdict(one) for one in report.totals]


def test_actions_say_which_site_carries_out_no_request(stalled):
    """It may ignore a person's, too, so fewer listings may go."""
    notes = {
        action.text.split(" on ")[1].split()[0]: action.basis
        == "the site did not carry out 10 of 10 removal requests so far"
        for action in stalled["live"].actions
        if action.text.startswith("Remove ")
    }
    assert notes == {"Quick": False, "Slow": True}
    [slow] = [action for action in stalled["live"].actions if " on Slow " in action.text]
    assert slow.text.startswith("Remove 7 of 10 open listings")
    assert " of all open listings, if all are removed." in slow.effect
    assert (slow.listings, slow.expected) == (7, pytest.approx(7 / 12))
    assert (slow.low, slow.high) == (0, 3)


def test_actions_account_for_open_listings_that_they_leave_out(stalled):
    effects = {action.text: action.effect for action in stalled["live"].actions}
    [quick, _], [slow] = ([text for text in effects if f" on {site} " in text] for site in ("Quick", "Slow"))
    assert " 6 of 7 " in quick
    assert effects[quick].endswith(". One more has to wait (below).")
    assert " 7 of 10 " in slow
    assert effects[slow].endswith(". The 3 pending removals are not included.")
    [later] = [action for action in stalled["live"].actions if "Quick" in action.text and action.is_later]
    assert later.text.endswith(" by hand (later: once the email address is on file)")
    [queue] = [section for section in stalled["shared"].sections if section.key == "work_queue"]
    assert "Open listings that are pending removal, " in statements(queue)


@pytest.fixture(scope="module")
def unequal(tmp_path_factory):
    """A report: one site needs a copy of a bill, one carried out no request, and at one a person lacks an email address."""
    service, clock = Service(), Clock()
    fields = {"user_fields_required_for_removal": ["first_name"]}
    for number in range(1, 6):
        listed = [
            a_record(number, site="Clicks", user_fields_required_for_removal=["email"]),
            a_record(10 + number, site="Papers", **fields),
            a_record(20 + number, "pending removal", site="Deaf", **fields),
        ]
        steps = (["Send the form."], ["Send a copy of a bill."], ["Send the form."])
        alerts = [
            an_alert("Listed", record) | {"opt_out_procedure": procedure}
            for record, procedure in zip(listed, steps, strict=True)
        ]
        emails = [] if number == 1 else [{"id": number, "address": f"p{number}@mail.example"}]
        pages = [a_link(f"https://pages.example/{number}")]
        alerts.append(an_alert("Mentioned", pages[0]))
        service.people[number] = Person(listed, pages, alerts, profile={"emails": emails})
    with seen_through(service) as exposure:
        history = History(tmp_path_factory.mktemp("unequal") / "history", clock=clock)
        for day in (0, 20):
            clock.set(DAWN + timedelta(days=day))
            for person in service.people.values():
                person.records[2]["status"] = "discovered" if day else "pending removal"
            history.collect(exposure.refresh(), progress=False)
        return ek.report(history, exposure=exposure.refresh())


def test_actions_begin_with_the_most_expected_removals(unequal):
    """Also the one that needs documents, which can be asked for now: an action that hardly succeeds comes after it."""
    now = [action.text for action in unequal.actions if not action.is_later]
    assert now[0] == "Remove 4 of 5 open listings on Clicks by hand"
    assert now[1].endswith("now; later remove 5 listings on Papers by hand")
    assert now[1].startswith("Ask 5 people for a copy of a bill")
    assert " on Deaf by hand" in now[2]
    assert now[3].startswith("Write to the owners of 5 web pages")


def work_queue_of(report):
    return next(one for one in report.sections if one.key == "work_queue")


def test_manual_work_has_the_order_of_what_to_do_next(unequal, pages, stalled):
    """In its cards, its table and its chart; each action leads to its card."""
    for report in (unequal, pages["fleet"], stalled["history"], stalled["live"]):
        section = work_queue_of(report)
        steps = [
            int(one.section.removeprefix("work_queue-"))
            for one in report.actions
            if one.section.startswith("work_queue-") and not one.is_later
        ]
        assert steps == sorted(steps)
        cards = [card.site or "web page" for card in section.removals]
        table = section.table[section.table["state"] != "done"]
        assert [*dict.fromkeys(table["site"].astype("str").fillna("web page"))] == [*dict.fromkeys(cards)]
        drawn = [name.removesuffix(" (later)") for name in section.figure.layout.yaxis.ticktext]
        named = [one for one in drawn if one in cards]
        assert named == [one for one in dict.fromkeys(cards) if one in named] != []
    assert [card.site for card in work_queue_of(unequal).removals][:3] == ["Clicks", "Papers", "Deaf"]


def test_sites_and_people_of_tables_lead_to_their_work(unequal, html_of):
    html = html_of(unequal)
    cards = {card.site: at for at, card in reversed([*enumerate(work_queue_of(unequal).removals, 1)])}
    for site in ("Clicks", "Papers", "Deaf"):
        assert f'<a href="#work_queue-{cards[site]}">{site}</a></td>' in html
    for user in range(1, 6):
        assert f'<a href="#to-do" data-user="{user}">' in html
        assert re.search(rf'<input type="checkbox" value="{user} \d+">', html)
    assert 'id="to-do"' in html


def test_figures_that_other_parts_repeat_are_no_tiles(pages, html_of):
    report = pages["fleet"]
    tiles = [fact.name for fact in report.tiles]
    rest = [fact for fact in report.facts if fact.name not in tiles]
    assert [fact.name for fact in rest] == ["web pages", "score", "listed again"]
    assert len(tiles) <= 6
    counted = html_of(report).partition('<dl id="counted">')[2].partition("</dl>")[0]
    assert all(f"<dd>{fact.value}: " in counted for fact in rest)
    assert pages["person"].tiles == pages["person"].facts


def test_a_missing_value_is_asked_for_once(unequal):
    [later] = [action for action in unequal.actions if action.is_later and "Clicks" in action.text]
    assert re.fullmatch(
        r"Ask [\w ]+ for the email address; then remove 1 of 5 .* on Clicks by hand", later.text
    )
    words = " ".join(f"{action.text} {action.effect}" for action in unequal.actions)
    assert words.count("email address") == 1
    assert "on file" not in words
    assert (later.expected, later.low, later.high) == (0.5, 0, 1)
    assert later.basis == "assumed: no request answered yet"
    assert later.effect.endswith(" The other 4 are in step 1.")


def test_first_work_of_a_site_is_marked():
    def work(site):
        return Removal(site, None, (), (), 1, 1, 1.0)

    groups = [work(site) for site in ("Slow", "Quick", "Slow", None)]
    assert _first_of_site(groups) == [True, True, False, True]
    assert _first_of_site([]) == []


@pytest.mark.parametrize(
    ("sites", "plan"),
    [
        (
            ("Slow", "Slow"),
            "2 listings on Slow ({0} (user 1), {0} (user 2)): about 1 in 4 requests expected to succeed",
        ),
        (
            ("Slow", "Slow", "Next"),
            "1 listing on Next ({0} (user 3)) and 2 listings on Slow ({0} (user 1), {0} (user 2)): 1 removal expected",
        ),
    ],
)
def test_half_an_hour_ends_at_a_site_that_refused(tmp_path, sites, plan):
    service, clock = Service(), Clock()
    for number, site in enumerate(sites, 1):
        status = "pending removal" if site == "Slow" else "discovered"
        listed = a_record(number, status, site=site, user_fields_required_for_removal=[])
        service.people[number] = Person([listed], alerts=[an_alert("Refused", listed)])
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day in (0, 5):
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
            for person in service.people.values():
                person.records[0]["status"] = "discovered"
        half_hour = ek.report(history, sections=["by_site"]).half_hour
    assert half_hour.startswith(
        f"If you have 30 min, check and remove {plan.format('Odalys Fennimoor')}, in about "
    )
    assert re.search(r"\(6 \+ 6( \+ 6)? min, and 3 min to start (there|on each site)\)\.$", half_hour)


def test_action_on_a_site_to_do_later_has_the_reason(stalled):
    for kind, report in stalled.items():
        later = [action for action in report.actions if "Slow" in action.text]
        assert all(
            "(later: after the others)" in one.text and f"Reason to wait: {LATER}" in one.effect
            for one in later
        ), kind
        assert len(later) == 1
        assert [one.is_later for one in report.actions] == sorted(one.is_later for one in report.actions)
        [work] = [section.removals for section in report.sections if section.key == "work_queue"]
        assert [one.reason for one in work if one.site == "Slow"] == [LATER], kind


def test_failed_and_undone_removals_agree_everywhere(tmp_path):
    """One removal fails, one is undone twice, one has no effect for 15 days."""
    pending, found, gone = "pending removal", "discovered", "removed"
    steps = [(pending, pending, pending), (found, gone, pending), (found, found, pending)]
    steps += [(found, gone, pending), (found, found, pending)]
    service, clock = Service(), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for number, statuses in zip((0, 1, 2, 3, 15), steps, strict=True):
            records = [a_record(one, status) for one, status in enumerate(statuses, 10)]
            service.people = {1: Person(records)}
            clock.set(DAWN + timedelta(days=number))
            history.collect(exposure.refresh(), progress=False)
        report = ek.report(history, sections=["failed_removals", "relistings"])
    [row] = tables(report)["failed_removals"].to_dict("records")
    counts = {
        "requested": 3,
        "failed": 1,
        "without_effect": 1,
        "relistings": 2,
        "listed_again": 1,
        "open_again": 1,
    }
    assert row == {"site": "PeepFinder"} | counts
    again = "1 of 1 listing ever removed was listed again (100%), 2 times in all; 1 of them is open now"
    assert finding(report, "failed_removals") == (
        "1 removal failed on PeepFinder; 1 removal request was not carried out in the usual time on PeepFinder; "
        + again
        + "."
    )
    assert finding(report, "relistings") == f"{again.replace(', 2 times in all', '')}."
    words = "2 relistings of 1 listing, on PeepFinder (1 of 1, 2 times), after 1\N{EN DASH}12 days."
    assert report.sections[1].text.startswith(words)
    card = next(fact for fact in report.facts if fact.name == "listed again")
    assert (card.value, card.line) == ("1", "on PeepFinder")
    assert card.qualifier.partition("; ")[2] == again.replace(" was listed again", "")
    status = tables(report)["relistings"]["status"]
    assert status.tolist() == ["listed again later", found]


def test_quiet_history_says_that_no_removal_failed(history, pages):
    section = section_alone("failed_removals", history)
    assert section.finding.startswith("No removal failed or was undone")
    assert "relistings" not in tables(pages["fleet"])


def test_parts_of_the_lead_sentence_add_up(pages, stalled):
    for report in (*pages.values(), *stalled.values()):
        if report.kind != "changes":
            parts = [
                re.match(r"(\d+) (?:needs?|waits?|removals?|requests?|is|are) ", one) for one in report.parts
            ]
            assert sum(int(part[1]) for part in parts) == facts(report)["open listings"] > 0
            assert len(re.findall(r"\.(?: |$)", report.finding)) <= 2
    assert (stalled["shared"].finding, stalled["shared"].parts) == (
        stalled["history"].finding,
        stalled["history"].parts,
    )


def test_ticked_listings_do_not_wait_for_the_service(tmp_path):
    listed = [a_record(number, site="Gate") for number in range(1, 6)]
    alerts = [
        an_alert("Listed", one) | {"opt_out_procedure": ["Open the form.", "Send it."]} for one in listed[:4]
    ]
    service = Service({1: Person(listed, [], alerts)})
    with seen_through(service) as exposure, History(tmp_path / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        steps = history.steps()
        history.tick(steps[steps["record_id"] == 1], "done")
        history.tick(steps[steps["record_id"] == 2].head(1), "done")  # the second step is left
        history.tick(steps[steps["record_id"] == 3].head(1), "done")
        history.tick(steps[steps["record_id"] == 3].tail(1), "unable", note="the form wants a fax")
        parts = (
            "1 was done by hand and is not verified yet",
            "1 was marked unable",
            "1 waits for the service",
        )
        assert ek.report(history).parts[1:] == parts
        shared = ek.report(history, share_safe=True).parts
    assert shared[1:] == ("3 wait for the service or were ticked",)


def test_people_whom_one_run_does_not_list_still_count(tmp_path):
    service = Service({number: Person([a_record(number)]) for number in range(1, 6)})
    clock = Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        history.collect(exposure, progress=False)
        service.people = {number: service.people[number] for number in (1, 2)}
        clock.set(DAWN + timedelta(days=1))
        history.collect(exposure.refresh(), progress=False)
        report = ek.report(history)
        n_open = next(fact for fact in report.facts if fact.name == "open listings")
        assert n_open.qualifier == "3 of 5 people were not observed completely in the last run"
        assert "2 of 5 people completely in the last run" in report.to_html()
        assert history.provenance.endswith(" · 5 people")
        clock.set(DAWN + timedelta(days=2))
        history.collect(exposure.refresh(), progress=False)
        report = ek.report(history)
        assert history.provenance.endswith(" · 2 people")
    assert report.finding == "2 of 5 listings found on people-search sites are still open."
    assert report.parts[-1] == "besides, 3 are unknown without a verified removal"
    assert report.table("by_site")["total"].sum() == 5
    assert describe(report.figure("status_over_time")).startswith("2 of 5 listings are open; ")


def test_vanished_listings_are_not_praised_as_removals(tmp_path):
    listed = [a_record(number, status) for number, status in ((1, "discovered"), (2, "pending removal"))]
    service = Service({1: Person(listed), 2: Person([a_record(3)])})
    with seen_through(service) as exposure, History(tmp_path / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        service.people = {1: Person([]), 2: Person([])}
        history.collect(exposure.refresh(), progress=False)
        report = ek.report(history)
    assert (
        report.finding == "No listing is open, of 3 that were found. 3 vanished without a verified removal."
    )
    assert "never listed again" not in report.to_html()
    assert report.table("by_site")["verdict"].tolist() == ["3 vanished, no removal verified"]
    assert describe(report.figure("by_site")).startswith("No listing is open; 0 removed and 3 vanished. ")
    assert describe(report.figure("status_over_time")).startswith("0 of 3 listings are open")


def test_listings_of_namesakes_and_unknown_statuses_have_own_parts(tmp_path):
    statuses = ["discovered", "discovered", "blocked", "in review"]
    service = Service({1: Person([a_record(number, status) for number, status in enumerate(statuses, 1)])})
    with seen_through(service) as exposure, History(tmp_path / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        history.label(history.records().iloc[0], "not mine")
        report, shared = ek.report(history), ek.report(history, share_safe=True).parts
    parts = ("1 is labelled as somebody else's", "2 have an unknown status", "1 waits for the service")
    assert (report.finding, report.parts) == (
        "4 of 4 listings found on people-search sites are still open.",
        parts,
    )
    assert shared == ("2 have an unknown status", "2 wait for the service or were labelled")


def test_without_history_the_age_of_requests_is_not_known():
    service = Service({1: Person([a_record(1, "pending removal")])})
    with seen_through(service) as exposure:
        report = ek.report(exposure)
    assert report.finding == "1 of 1 listing found on people-search sites is still open."
    assert report.parts == ("1 is pending removal (for how long is not known)",)


@pytest.fixture(scope="module")
def nothing_open(request, tmp_path_factory):
    """An exposure and a history of two people, of whom one is on a page, and has no listing, or a removed one."""
    records = [a_record(1, "removed")] if request.param == "a removed one" else []
    service = Service({1: Person(records, [a_link("https://choir.example/members")]), 2: Person([])})
    directory = tmp_path_factory.mktemp("nothing_open")
    with seen_through(service) as exposure, History(directory / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        yield exposure, history.pinned()


@pytest.mark.parametrize(
    ("nothing_open", "options"),
    [
        ("no listing", {}),
        ("no listing", {"user": 1}),
        ("no listing", {"kind": "sites"}),
        ("no listing", {"share_safe": True}),
        ("no listing", {"since": DAWN}),
        ("a removed one", {}),  # also sites; and of one person nothing is shared
        ("a removed one", {"user": 1}),
        ("a removed one", {"since": DAWN}),
    ],
    indirect=["nothing_open"],
    scope="module",
)
def test_web_pages_are_reported_where_no_listing_is_open(nothing_open, options):
    exposure, history = nothing_open
    report = ek.report(history, exposure=exposure, **options)
    assert report.finding
    if not options:
        assert report.table("score")["pages"].tolist() == [1]
        assert report.table("score").get("first_seen_at", pd.Series(dtype=object)).isna().all()


def test_requests_not_carried_out_are_part_of_open_listings(tmp_path):
    service, clock = Service({1: Person([a_record(1, "pending removal"), a_record(2)])}), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day in (0, 14):
            service.people[1].records.append(a_record(3 + day, "pending removal"))
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        report = ek.report(history)
    parts = (
        "1 waits for the service",
        "1 removal is under way",
        "2 of 3 pending removal requests were not carried out in the usual time",
    )
    assert (report.finding, report.parts) == (
        "4 of 4 listings found on people-search sites are still open.",
        parts,
    )
    card = next(fact for fact in report.facts if fact.name == "open in 30 days")
    assert card.qualifier.endswith("; not counted: 2 removal requests not carried out in the usual time")
    # The newest request is of the last day, and is not carried out 14 days later.
    [pending] = [action for action in report.actions if action.is_later]
    later = DAWN + timedelta(days=28)
    assert pending.text == "Wait for 1 of 3 pending removals"
    usual = "only then has it waited longer than 95% of earlier removals took (14 days where there were few)."
    assert pending.effect == (f"Nothing to do before {later:%Y-%m-%d} (PeepFinder): {usual}")
    assert f'<a href="#{pending.section}">{pending.text}' in report.to_html()
    assert pending.section in {section.key for section in report.sections}


def test_rows_of_the_last_days_add_up_to_the_heading(tmp_path):
    """A site without a change is counted in the last row; the sums are those of the heading."""
    service, clock = Service({1: Person([a_record(1), a_record(2, site="Idle")])}), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day in range(0, 22, 7):
            service.people[1].records[0]["status"] = "removed" if day == 21 else "discovered"
            service.people[1].records.append(a_record(10 + day))
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        report = ek.report(history, sections=["week"])
    [week] = [section for section in report.sections if section.key == "week"]
    assert week.table["site"].tolist() == ["PeepFinder", "unchanged: 1 site"]
    assert week.totals["open_after"] == facts(report)["open listings"] == first_number(week.finding)
    assert (week.totals["open_before"], week.totals["new"], week.totals["removed"]) == (5, 1, 1)
    assert week.text == "Net change in open listings: 0; in the 7 days before: +1."
    assert week.points[0].startswith("2026-03-15 to 2026-03-22: from 5 to 5 open; 1 new (PeepFinder 1); ")
    changes = {fact.name: fact.change for fact in report.facts}
    assert changes["removed"] == "+1 in 7 days"
    assert changes["score"] == "unchanged in 7 days"
    assert "<tfoot>" in report.to_html()


def test_total_rows_are_the_sums_of_their_table(pages):
    for report in pages.values():
        for section in report.sections:
            for name, total in section.totals.items():
                assert total == section.table[name].sum()
    [by_site] = [section for section in pages["fleet"].sections if section.key == "by_site"]
    assert by_site.totals["open"] == facts(pages["fleet"])["open listings"]
    assert not {"people", "user_id", "median_days"} & {*by_site.totals}
    [score] = [section for section in pages["fleet"].sections if section.key == "score"]
    assert {*score.totals} == {"listings", "pending removal", "pages", "minutes", "score"}
    assert score.totals["score"] == facts(pages["fleet"])["score"]


def test_times_of_people_say_that_they_share_visits(fleet_data):
    words = "The time to get started on a site is divided among the people listed there"
    for people, is_shared in ((fleet_data["work_queue"]["user_id"], True), (1, False)):
        queue = fleet_data["work_queue"].assign(user_id=people)
        [section] = with_tables(fleet_data, ["score"], work_queue=queue).sections
        assert (words in statements(section)) == is_shared


def test_without_a_forecast_the_manual_work_is_a_floor(stalled):
    card = next(fact for fact in stalled["history"].facts if fact.name == "open in 30 days")
    assert card.value == "at least 14"
    not_carried_out = "not counted: 3 removal requests not carried out in the usual time"
    assert card.qualifier.startswith(
        f"14 listings stay open until done by hand; {not_carried_out}; no forecast yet; "
    )


def test_days_count_to_the_last_run(tmp_path):
    service, clock = Service({1: Person([a_record(1)])}), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for hours in (0, 60):
            clock.set(DAWN + timedelta(hours=hours))
            history.collect(exposure.refresh(), progress=False)
        clock.set(DAWN + timedelta(days=90))  # the report is made much later
        health, coverage = (section_alone(name, history).table for name in ("site_health", "coverage"))
    assert health["quiet_days"].tolist() == [2]
    assert coverage["people"].tolist() == [1, 0, 0, 0, 0]


def test_unobserved_people_and_their_listings_are_not_known(tmp_path):
    service, clock = (
        Service({1: Person([a_record(1)]), 2: Person([a_record(2), a_record(3, "removed")])}),
        Clock(),
    )
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day in (0, 1):
            service.broken = {2: "no user"} if day else {}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        report = ek.report(history)
    card = next(fact for fact in report.facts if fact.name == "not known")
    words = (
        "1 person was not observed completely in the last run: 1 open listing keeps its last observed status"
    )
    assert (card.value, card.qualifier) == ("1", words)
    [section] = [section for section in report.sections if section.key == "coverage"]
    assert section.title == "What is not known"
    assert f"{words}." in section.points
    assert section.finding.startswith("None of the 3 listings has been checked; ")
    first, record, *_, last = section.points
    assert first.startswith("So far we have only the service's word that these are the right people. ")
    assert "name, age (it may be a year off) and places with the person's." in first
    assert record.startswith(
        "Send your analyst the references of those that are the person's and of those that are not"
    )
    assert "Whether required values are on file is not known" in last


def test_headings_of_changes_count_the_rows_of_their_tables(pages):
    report, by_key = pages["changes"], tables(pages["changes"])
    assert first_number(finding(report, "diff")) == len(by_key["diff"])
    rows = by_key["diff"]
    assert rows["what"].map(WHAT.index).is_monotonic_increasing
    assert all(same["changed_at"].is_monotonic_decreasing for _, same in rows.groupby("what"))
    still_open = facts(report)["open listings"]
    assert finding(report, "counts").endswith(f"; {still_open} still open.")
    changed = by_key["diff_by_site"].drop(columns=["site", "open_before", "open_after", "change"]).any(axis=1)
    assert f"changed on {changed.sum()} of {len(changed)} sites" in finding(report, "diff_by_site")


def test_no_site_has_the_most_removals_in_a_tie(history):
    data = ReportSource(history, since="8d").load(needed_tables("changes"))
    for removed, end in (
        (2, r"sites\."),
        ([3] + [2] * (len(data["diff_by_site"]) - 1), r"sites; most removed on .*"),
    ):
        by_site = data["diff_by_site"].assign(removed=removed)
        report = build_report("changes", replace(data, tables=data.tables | {"diff_by_site": by_site}))
        assert re.fullmatch(rf"Listings changed on \d+ of \d+ {end}", finding(report, "diff_by_site"))


def test_report_on_a_person_states_the_figures_of_that_person(pages):
    report, cards = pages["person"], facts(pages["person"])
    listings = tables(report)["records"]
    assert finding(report, "records").startswith(f"{cards['open listings']} of {len(listings)} listings ")
    is_open = ek.analysis.is_open(listings["status"])
    assert [*is_open] == sorted(is_open, reverse=True)
    [course] = [section for section in report.sections if section.key == "status_over_time"]
    assert "last run loaded" not in course.text


def test_report_on_sites_has_actions_and_figures_of_sites(pages):
    report, cards = pages["sites"], facts(pages["sites"])
    assert report.title.startswith(f"Exposure on {len(tables(report)['by_site'])} sites, ")
    assert cards["sites with open listings"] == (tables(report)["by_site"]["open"] > 0).sum()
    assert report.actions
    assert {action.section for action in report.actions} == {"by_site"}


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


def test_each_figure_has_its_definition_on_hover(pages, html_of):
    for kind, report in pages.items():
        figures = Titles(html_of(report)).definition_by_text
        columns = {
            (key, name) for key, table in tables(report).items() for name in _displayed(table, key)["table"]
        }
        defined = {
            *(fact.name for fact in report.facts if fact.name in DEFINITIONS),
            *(heading_of(key, name) for key, name in columns if name in DEFINITIONS),
        }
        assert {*figures} == defined
        assert {*figures.values()} <= {*DEFINITIONS.values()}
        assert {"open listings", "removed", "to do by hand"} <= {*figures}
        assert ("score" in figures) == (kind != "sites")  # which is about sites, and not about people
        definitions = [fact["definition"] for fact in report.data["facts"]]
        assert definitions == [DEFINITIONS.get(fact.name, "") for fact in report.facts]


def test_charts_have_the_same_definitions_on_hover(pages):
    sections = [*pages["fleet"].sections, *pages["changes"].sections]
    charts = {section.key: section.figure for section in sections}
    causes = tables(pages["changes"])["changes"].query("n != 0")["cause"]
    occurred = [cause for cause in causes if cause in DEFINITIONS and "open" not in cause]
    assert "removed" in occurred
    defined = {"by_site": ("discovered", "removed"), "changes": occurred, "score": ("score",)}
    for key, figures in defined.items():
        hover = " ".join(str(text) for trace in charts[key].data for text in trace.customdata or ())
        assert all(DEFINITIONS[figure] in hover.replace("<br>", " ") for figure in figures)


def test_definition_of_the_score_has_its_weights():
    for status in ("discovered", "pending removal", "page"):
        words = {"page": "web page"}.get(status, status)
        assert re.search(rf"{ek.analysis.WEIGHTS[status]:g} per {words}", DEFINITIONS["score"])


def test_technical_words_are_defined_in_place_and_at_the_end(pages, html_of):
    for kind, report in pages.items():
        html = html_of(report)
        places = re.findall(r'<dt id="(term-[a-z0-9-]+)">', html)
        links = re.findall(r'<a class="term" href="#(term-[^"]+)" title="([^"]+)">([^<]+)</a>', html)
        assert len({*places}) == len(places) > 5, kind
        assert {place for place, _, _ in links} <= {*places}
        assert {unescape(text) for _, text, _ in links} <= {*TERMS.values()}
        glossary = html[html.index('<section id="glossary"') :]
        assert all(escaped(fact.definition) in glossary for fact in report.facts)
        words = {text for _, _, text in links}
        if kind in ("fleet", "sites"):
            assert {"listings", "open", "removed", "95% interval", "n"} <= words
        assert re.findall('<section id="([^"]*)"', glossary) == ["glossary", "analysts"]  # the last parts


def test_glossary_takes_no_part_of_a_word_or_of_markup():
    glossary = Glossary()
    marked = glossary.mark("<b>median</b> n = 3, seven n, scores, is being removed, was removed", "part")
    assert re.findall('term-[^"]+', marked) == ["term-median", "term-n", "term-score", "term-removed"]
    assert marked.startswith("&lt;b&gt;<a ")
    assert "</a>, is being removed, was <a " in marked
    assert glossary.mark("median, openly reopened", "part") == "median, openly reopened"


def test_cells_of_a_phone_have_headings_that_are_no_code():
    table = pd.DataFrame([[1, 2]], columns=["site", "a';} * {display:none} </style>"])
    labels = _card_labels(_displayed(table, "own"), "own")
    name, _, text = labels.partition(":")
    assert name == "--h2"
    assert re.fullmatch(r"'(?:[A-Za-z0-9]|\\[0-9a-f]+ )+'", text)


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
    assert heading_of("time_to_removal", "never") == "estimated share still listed"
    assert "title=" not in _heading("other", "coverage")  # that definition is about statuses


def test_shares_are_percentages(pages, html_of):
    html = html_of(pages["fleet"])
    table = tables(pages["fleet"])["time_to_removal"]
    assert table["never"].dropna().between(0, 1).all()
    assert f"{table['never'].iloc[0]:.0%} <span" in html


@pytest.fixture(scope="module")
def source(history):
    """What loads each table of the demo's history once."""
    return ReportSource(history)


def test_times_name_the_fastest_and_slowest_site(source):
    flows = {"flow": ["entered", "removed"] * 2 + ["entered", "open"], "n": 9, "gap_days": 1.0}
    life_table = pd.DataFrame(
        {"site": [*"AABBCC"], "days": [0, 2, 0, 9, 0, 14], "left_censored": False} | flows
    )
    data = source.load(needed_tables("sites"))
    times = ek.analysis.time_to_removal(life_table)
    parts = {"time_to_removal": times.assign(requested=[9, 9, 9])}
    report = build_report("sites", replace(data, tables={**data.tables, **parts}, run_gap=1))
    [section] = [section for section in report.sections if section.key == "time_to_removal"]
    band = "[\\d.]+\N{EN DASH}[\\d.]+"
    words = rf"By median time to removal, A is fastest \(2 days, {band}\) and B slowest \(9 days, .+\); "
    assert re.fullmatch(
        rf"{words}1 site has removed nothing\. From the removal request, the overall median is [\d.]+ days\.",
        section.text,
    )
    assert "No removals were observed on C, although 9 were requested." in section.points
    parts["time_to_removal"] = times.assign(requested=[9, 9, 0])
    unasked = build_report("sites", replace(data, tables={**data.tables, **parts}, run_gap=1))
    [section_unasked] = [one for one in unasked.sections if one.key == "time_to_removal"]
    assert section_unasked.text.partition(" From the removal request, ")[0].endswith(
        "; 1 site has had no request yet."
    )
    assert " No requests have been seen on C yet, " in statements(section_unasked)
    assert section_unasked.table["never"].isna().tolist() == [False, False, True]
    assert "has been followed for only a few days" in section.points[-2]
    assert "Runs are a day apart" in section.points[-1]


def test_sites_with_the_same_median_are_named_together(source):
    flows = {"flow": ["entered", "removed"] * 3, "n": 9, "gap_days": 1.0}
    sites = {"site": [*"AABBCC"], "left_censored": False}
    data = source.load(needed_tables("sites"))
    texts = []
    for days in (2, 2, 9), (2, 9, 9), (2, 2, 2):
        life_table = pd.DataFrame(sites | {"days": [one for end in days for one in (0, end)]} | flows)
        tables = data.tables | {"time_to_removal": ek.analysis.time_to_removal(life_table)}
        report = build_report("sites", replace(data, tables=tables))
        texts += [section.text for section in report.sections if section.key == "time_to_removal"]
    assert "A and B are fastest (2 days) and C slowest (9 days, " in texts[0]
    assert "A is fastest (2 days, " in texts[1]
    assert ") and B and C slowest (9 days)" in texts[1]
    assert "The median time to removal is 2 days on all 3 sites with removals." in texts[2]


@pytest.fixture(scope="module")
def fleet_data(source):
    return source.load(needed_tables("fleet"))


def with_tables(data, sections, **tables):
    """A report with these sections, in which some tables are others."""
    return build_report("fleet", replace(data, tables=data.tables | tables), sections)


def test_sites_that_take_longer_than_declared_are_named(fleet_data):
    [none] = with_tables(fleet_data, ["declared_vs_observed"], declared_vs_observed=None).sections
    assert none.text.startswith("Nobody has entered how fast sites promise to remove listings, ")
    sites = fleet_data["records"]["site"]
    days = declared().replace({"site": {"Other": sites.iloc[0]}})  # which had no request
    answer = ek.analysis.declared_vs_observed(requests(), days)
    report = with_tables(fleet_data, ["declared_vs_observed"], declared_vs_observed=answer)
    [section] = report.sections
    assert section.finding == "The only site that can be judged is slower than it declares: Near."
    assert section.text.startswith(
        "A request is overdue if its listing was still pending 2 days after the declared day: verification may take that long. "
    )
    rest = sites.nunique() - 1
    assert section.text.endswith(
        f" {rest} of {sites.nunique()} sites have no declared days; 1 more had no request."
    )
    assert (
        "A site takes longer if more than half of its due requests are overdue, and by more than chance would explain"
        in section.points[0]
    )
    assert section.table["site"].tolist() == ["Near", sites.iloc[0], "Far"]
    page = report.to_html()
    assert ">yes</td>" in page.partition('id="declared_vs_observed"')[2].partition("</section>")[0]


def test_sections_say_at_most_two_sentences_above_their_chart(pages, stalled, relisted):
    """The others are in the notes."""
    reports = [*pages.values(), *stalled.values(), relisted]
    texts = [section.text for report in reports for section in report.sections if section.text]
    assert len(texts) > 30
    assert [text for text in texts if len(re.findall(r"[.!?](?= [A-Z0-9]|$)", text)) > 2] == []


def test_columns_of_missing_fields_are_in_the_glossary(fleet_data):
    columns = {"field": ["email", "zip"], "records": [3, 2], "unlocks": [2, 1], "sites": [2, 1]}
    missing = pd.DataFrame(columns).assign(
        user_id=fleet_data["score"]["user_id"].iloc[0], is_profile_field=[True, False]
    )
    html = with_tables(fleet_data, ["blockers"], blockers=missing).to_html()
    glossary = html[html.index('<section id="glossary"') :]
    for heading, words in (
        ("removals it unlocks alone", "removals that can start once this value alone is on file"),
        (
            "part of a profile",
            "whether a profile has such a field; if not, the value may be on file elsewhere",
        ),
    ):
        assert re.search(rf">{heading}<.{{,40}}{words}", glossary, re.DOTALL), heading


def test_assumptions_of_estimates_are_stated(pages):
    words = (
        "The 95% interval beside an estimate assumes that sites behave as before and the matches are correct."
    )
    [section] = [section for section in pages["fleet"].sections if section.key == "coverage"]
    assert words in section.points


def test_people_whose_listings_may_be_of_a_namesake_are_named(fleet_data):
    queue = fleet_data["work_queue"]
    is_first = (queue["user_id"] == queue["user_id"].iloc[0]) & queue["site"].notna()
    on_file = [["name: Ann Bow", "first_name: Ann", "last_name: Bow"]] * len(queue)
    named = queue.assign(form_values=pd.Series(on_file, queue.index))
    for other, n in (("Zed Nobody", is_first.sum()), ("Ann Bow", 0)):
        names = pd.Series("Ann Bow", queue.index).mask(is_first, other)
        [section] = with_tables(fleet_data, ["score"], work_queue=named.assign(name=names)).sections
        assert ("another name than on file and may be about somebody else (" in section.text) == (n > 0)
        assert (f" {n} listing" in section.text) == (n > 0)


def test_first_place_that_rests_on_a_namesake_is_said(fleet_data):
    """Three points for each listing that may be another person's."""
    queue = fleet_data["work_queue"]
    of_site = queue.dropna(subset="site")
    user = of_site["user_id"].iloc[0]
    others = [one for one in fleet_data["score"]["user_id"] if one != user]
    is_user = (queue["user_id"] == user) & queue["site"].notna()
    on_file = pd.Series([["name: Ann Bow", "first_name: Ann", "last_name: Bow"]] * len(queue), queue.index)
    names = pd.Series("Ann Bow", queue.index).mask(is_user, "Zed Nobody")
    named = queue.assign(form_values=on_file, name=names)
    n = int(is_user.sum())
    for lead, is_said in ((3 * n - 1, True), (3 * n + 1, False)):
        points = pd.DataFrame({"user_id": [user, *others[:2]], "score": [50, 50 - lead, 1]})
        score = points.assign(**dict.fromkeys(("listings", "pages", "of_listings", "of_pages"), 1))
        [section] = with_tables(fleet_data, ["score"], work_queue=named, score=score).sections
        assert f"; {n} of them may be about somebody else with the same name" in section.text
        assert (" would have the most points" in section.text) == is_said
        of_doubt = f": 50 ({50 - 3 * n} without {pluralize(n, 'listing')} that may be about somebody else)."
        assert section.finding.endswith(of_doubt if is_said else ": 50.")
        assert "Points count listings and pages, however sensitive the data on them is." in section.points
    close = score.assign(score=[50, 50 - 3 * n + 1, 1])
    [section] = with_tables(fleet_data, ["score"], work_queue=named, score=close).sections
    assert section.finding.endswith(
        f": 50 ({50 - 3 * n} without {pluralize(n, 'listing')} that may be about somebody else)."
    )
    assert f", {fleet_data.names[int(others[0])]} would have the most points." in section.text


def test_manual_work_has_the_references_of_its_cards(demo, pages):
    [section] = [one for one in pages["fleet"].sections if one.key == "work_queue"]
    of_sites = section.table.dropna(subset="reference_id")
    on_cards = {
        (task.user_id, dict(task.facts).get("Reference"))
        for one in section.removals
        if one.site
        for task in one.tasks
    }
    assert {*zip(of_sites["user_id"], of_sites["reference_id"], strict=True)} == on_cards
    assert "record_id" not in section.table


def test_absences_are_limited_by_the_time_observed(relisted):
    """A listing that was not listed again may be so later."""
    days = tables(relisted)["relistings"]["gone_days"].max()
    [section] = [one for one in relisted.sections if one.key == "relistings"]
    removed = next(fact for fact in relisted.facts if fact.name == "removed")
    longest = int(re.search(r"never listed again \(gone for up to (\d+) days\)", removed.qualifier)[1])
    assert (
        f"No listing has been gone for more than {longest} days yet, so more may be listed again later."
        in section.text
    )
    assert longest >= days


def test_shared_reports_do_not_say_how_long_one_is_gone(history, pages):
    shared = ek.report(history, sections=["by_site"], share_safe=True)
    own, words = (" ".join(map(str, report.facts)) for report in (pages["fleet"], shared))
    assert "never listed again (gone for up to " in own
    assert re.search(r"\d+ were never listed again(?! \()", words)


def test_steps_of_the_person_are_told_apart(unequal):
    [clicks, *_] = [one for section in unequal.sections for one in section.removals if one.site == "Clicks"]
    mailed = replace(clicks, steps=("Send the form.", "Open the email and click the link in it."))
    assert mailed.worded_steps == ("Send the form.", "The person: Open the email and click the link in it.")
    html = replace(
        unequal, sections=(replace(unequal.sections[0], key="work_queue", removals=(mailed,)),)
    ).to_html()
    assert "<li>The person: Open the email and click the link in it.</li>" in html


def test_declared_days_are_pointed_to_where_they_stand(source, fleet_data):
    declared_days = {
        "site_outcomes": lambda table: table.assign(declared_days=10.0),
        "declared_vs_observed": lambda _: ek.analysis.declared_vs_observed(requests(), declared()),
    }

    def points(*others):
        sections = [*others, "coverage"]
        data = source.load(needed_tables("fleet", sections))
        tables = {
            name: declared_days.get(name, lambda table: table)(table) for name, table in data.tables.items()
        }
        [*_, section] = build_report("fleet", replace(data, tables=tables), sections).sections
        return " ".join(section.points)

    def text(**tables):
        report = with_tables(fleet_data, ["by_site"], **tables)
        return statements(report.sections[0])

    late = ek.analysis.declared_vs_observed(requests(), declared())
    outcomes = fleet_data["site_outcomes"].assign(declared_days=10.0)
    undeclared = {"site_outcomes": outcomes.assign(declared_days=float("nan"))}
    assert "so promises cannot be judged. Send the days that sites state to your analyst" in text(
        **undeclared
    )
    with_days = {"site_outcomes": outcomes, "declared_vs_observed": late}
    for is_slow, words in ((True, "it declares"), (False, "No site takes significantly longer")):
        slow = late.head(1).assign(takes_longer=is_slow)
        assert words in text(**with_days | {"declared_vs_observed": slow})
    both = ("by_site", "declared_vs_observed")
    for others in ((), *zip(both), both):  # days that are known are nothing unknown
        assert "declared days" not in points(*others)
    declared_days["site_outcomes"] = lambda table: table.assign(declared_days=float("nan"))
    assert ["promises cannot be judged" in points(*others) for others in ((), both)] == [True, False]


def test_missed_listings_are_estimated_or_the_reason_is_stated(fleet_data, pages):
    """The sandbox's web search leaves out the sites that are scanned, so it cannot tell what the scans overlook."""
    [section] = [section for section in pages["fleet"].sections if section.key == "coverage"]
    reason = "an estimate needs a second, independent search, and only site scans found any listings"
    assert f"The number of missed listings cannot be estimated: {reason}." in section.points
    assert "missed" not in tables(pages["fleet"])
    answer = ek.analysis.missed(*findings())
    report = with_tables(fleet_data, ["missed", "coverage"], missed=answer)
    listings, low, high = answer[["listings", "low", "high"]].iloc[-1]
    words = f"an estimated {listings:.0f} (95% interval: {low:.0f}\N{EN DASH}{high:.0f}) missed"
    assert report.facts[0].qualifier.endswith(f" found; {words}")
    section, unknown = report.sections
    assert section.finding == f"20 listings found; {words}."
    assert "The estimate assumes that the ways are independent" in statements(section)
    assert "cannot be estimated" not in " ".join(unknown.points)


def test_minutes_spent_and_left_are_stated(fleet_data, pages):
    assert not [one for one in pages["fleet"].sections if "Timed so far" in statements(one)]
    steps = timed().assign(user_id=1, kind="record", key=[*range(4)] * 4)
    learned = ek.analysis.step_minutes(steps)
    report = with_tables(fleet_data, ["work_queue"], timed_steps=steps, step_minutes=learned)
    [section] = report.sections
    minutes = open_items(fleet_data["work_queue"])["minutes"].sum()
    each = f"{minutes / fleet_data.manual_work[0]:.1f} min each"
    assert "Timed so far: 16 min on 4 listings and pages, 4.0 min each; left: " in statements(section)
    assert f", {each}." in statements(section)
    [fact] = [fact for fact in report.facts if fact.name == "to do by hand"]
    assert (
        "except on 2 sites, where minutes per step are learned from 14 timed ticks; steps that only"
        in fact.detail
    )


def test_small_share_is_the_same_in_table_and_sentence():
    table = pd.DataFrame({"site": ["A"], "never": [0.06], "never_low": [0.004], "never_high": [0.25]})
    table.attrs["level"] = 0.95
    assert _displayed(table, "time_to_removal")["intervals"] == {"never": ["(under 1\N{EN DASH}25%)"]}
    body = _body(_displayed(table.assign(never=0.004), "time_to_removal"), "time_to_removal")
    assert 'style="--share:1%">under 1% <span' in body


def test_queue_and_its_chart_have_the_same_states(pages, stalled):
    compared = 0
    for report in (*pages.values(), *stalled.values()):
        for section in report.sections:
            if section.key == "work_queue" and section.table is not None and section.figure is not None:
                states = section.table["state"].value_counts().to_dict()
                drawn = {trace.name: sum(trace.x) for trace in section.figure.data if trace.name in states}
                assert drawn == states
                compared += "later" in states
    assert compared


def test_web_pages_are_no_unnamed_site_in_the_queue(pages, html_of):
    """Their host stands for it."""
    html = html_of(pages["fleet"])
    queue = html[html.index('data-name="work_queue"') :].partition("</table>")[0]
    table = tables(pages["fleet"])["work_queue"]
    hosts = table.loc[table["site"].isna(), "group"].value_counts()
    assert len(hosts) > 1
    assert [queue.count(f">{host}<") for host in hosts.index] == hosts.tolist()
    assert table["site"].notna().sum() == sum(
        queue.count(f">{site}<") for site in table["site"].dropna().unique()
    )
