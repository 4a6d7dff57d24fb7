"""Reports as values and as one page that loads nothing and runs only its own scripts."""

import base64
import hashlib
import json
import math
import re
import shutil
import stat
import sys
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest
from support import hostile_demo
from support import widget_controls as kit
from support.clients import stopped
from support.histories import DAWN, Clock, Person, Service, a_record, an_alert, seen_through
from support.hostile_texts import PAYLOADS
from support.report_sections import section_alone, statements

import exposurekit as ek
from exposurekit import analysis
from exposurekit.analysis.manual_tasks import FormValue, Task
from exposurekit.analysis.step_requirements import DOCUMENT, MAILBOX
from exposurekit.analysis.work_queue import work_queue
from exposurekit.charts import describe
from exposurekit.charts.theme import MINUS
from exposurekit.cli import report as report_command
from exposurekit.errors import ConfigurationError, InvalidArgument, NotFound
from exposurekit.history import History
from exposurekit.questions import QUESTIONS
from exposurekit.reports import headline
from exposurekit.reports.data import ReportSource
from exposurekit.reports.html import _displayed
from exposurekit.reports.kinds import KINDS as KIND_TYPES
from exposurekit.reports.kinds import build_report, needed_tables
from exposurekit.reports.manual_steps import removals
from exposurekit.reports.model import ROWS_MAX, Fact, Removal
from exposurekit.system.atomic_files import write_output
from exposurekit.text.sanitize import escaped

FIRST = DAWN.date()
KINDS = {"fleet": {}, "person": {"user": 2}, "changes": {"since": FIRST}, "sites": {"kind": "sites"}}


def collected_history(directory, service, days=range(4), broken=None):
    """An exposure, and a history of some days on which a listing of person 1 is removed and comes back."""
    clock = Clock()
    history = History(directory / "history", clock=clock)
    with seen_through(service) as exposure:
        for day in days:
            first = service.people[1].records
            first[0] |= {"status": "removed" if day in (1, 2) else "discovered"}
            clock.set(DAWN + timedelta(days=day))
            service.broken = broken or {} if day == days[-1] else {}
            history.collect(exposure.refresh(), progress=False)
        yield exposure.refresh(), history


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    yield from collected_history(tmp_path_factory.mktemp("collected"), kit.three_people())


@pytest.fixture(scope="module")
def exposure(sources):
    return sources[0]


@pytest.fixture(scope="module")
def history(sources):
    return sources[1].pinned()


@pytest.fixture(scope="module")
def reports(exposure, history):
    """A report of each kind, of a history and an exposure."""
    return {kind: ek.report(history, exposure=exposure, **options) for kind, options in KINDS.items()}


@pytest.fixture(scope="module")
def full(reports):
    """The report on everyone."""
    return reports["fleet"]


@pytest.fixture(scope="module")
def fleet(history):
    """The report on everyone, of a history alone."""
    return ek.report(history)


@pytest.fixture(scope="module")
def now(exposure):
    """The report on everyone, of an exposure alone."""
    return ek.report(exposure)


@pytest.fixture(scope="module")
def page(fleet):
    return page_of(fleet)


def section_of(report, key):
    return next(section for section in report.sections if section.key == key)


def with_removal(report, removal):
    """The report with this manual work alone."""
    return replace(report, sections=(replace(section_of(report, "work_queue"), removals=(removal,)),))


def page_of(report):
    """The page of a report without its scripts, the scripts that run, and its data."""
    html = report.to_html()
    running = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    return re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL), running, data


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_imply_the_kind(reports, kind):
    report = reports[kind]
    assert report.kind == kind
    assert report.finding.endswith(".")
    assert report.data == json.loads(report.to_json())
    assert len({section.key for section in report.sections}) == len(report.sections)
    assert tuple(KINDS) == tuple(KIND_TYPES) == report_command.KINDS


FLEET_KEYS = [
    *("by_site", "week", "score", "status_over_time", "time_to_removal", "relistings"),
    *("blockers", "work_queue", "coverage"),
]


def test_fleet_sections_have_the_tables_of_the_questions(exposure, history, full):
    assert [section.key for section in full.sections] == FLEET_KEYS
    by_site = full.table("by_site")
    counts = analysis.by_site(history.records())[["site", "open", "removed", "total"]]
    pd.testing.assert_frame_equal(by_site[[*counts]], counts)
    outcomes = history.site_outcomes()
    pd.testing.assert_frame_equal(by_site, outcomes[[name for name in outcomes if name in by_site]])
    times = history.time_to_removal()
    is_late = (times["requested"] == 0) & (times["removed"] == 0)
    in_order = pd.concat([times[~is_late], times[is_late]])["site"].tolist()
    assert full.table("time_to_removal")["site"].tolist() == in_order
    pd.testing.assert_frame_equal(full.table("coverage"), history.coverage())
    over_time = history.status_over_time().drop(columns="at")
    pd.testing.assert_frame_equal(full.table("status_over_time"), over_time)
    score = full.table("score")
    counts = ["user_id", "listings", "pages", "score"]
    pd.testing.assert_frame_equal(score[counts], history.score()[counts])
    assert score["person"].tolist() == exposure.with_people(history.score())["person"].tolist()


def test_a_row_of_a_person_says_where_and_what(history, full):
    records, links, queue = history.records(), history.links(), history.work_queue()
    records = records[analysis.is_open(records["status"])]
    rows = full.table("score").to_dict("records")
    assert any(row["listings"] for row in rows)
    for row in rows:
        own = records[records["user_id"] == row["user_id"]]
        pages = links[(links["user_id"] == row["user_id"]) & (links["presence"] == "listed")]["contains"]
        if len(own):
            assert row["open_sites"] == ", ".join(sorted({*own["site"].astype("str")}))
            assert row["first_seen_at"] == own["first_seen_at"].min().floor("D")
        assert row["pending removal"] == (own["status"] == "pending removal").sum()
        kinds = {kind for cell in pages.dropna() for kind in cell}
        assert {*(row["contains"] if isinstance(row["contains"], list) else [])} <= kinds
        minutes = queue.loc[queue["user_id"] == row["user_id"], "minutes"].sum()
        assert row["minutes"] == pytest.approx(minutes, abs=1)


@pytest.fixture(scope="module")
def fleet_data(history):
    """The tables of the report on everyone, of a history alone."""
    return ReportSource(history).load(needed_tables("fleet"))


def test_card_of_a_forecast_has_its_interval_and_caution(fleet_data):
    data = fleet_data
    caution = "rough: 30 days are more than a third of the history"
    forecast = data["next_forecast"].assign(
        open=35.2, low=24.0, high=48.0, of_open=30.4, of_gone=3.4, of_new=1.4, reason=caution
    )

    def card_of(forecast, name="open in 30 days"):
        report = build_report("fleet", replace(data, tables={**data.tables, "next_forecast": forecast}))
        return next(fact for fact in report.facts if fact.name == name)

    if_done = "open in 30 days if all is done"

    card = card_of(forecast)
    # Not even a forecast of none is an end by itself: of 35, 3 are listings that stay open until done by hand.
    parts = "30 of the 6 open now, 4 listed again and 1 new"  # add up to 35
    expected = "if nothing is done by hand (95% interval: 24\N{EN DASH}48); 29 more"
    assert card.qualifier == f"{expected} than now: {parts}. {caution.capitalize()}"
    basis = "it assumes that nothing is done by hand, and that each site continues at its past rates"
    assert card.detail == basis
    # Of the 3, half are expected to be removed: no request was seen on these sites, so it may be none or all.
    done = card_of(forecast, if_done)
    best = "32 at best, if every manual removal succeeds by then"
    low, high = 33 - math.hypot(11.2, 1.5), 33 + math.hypot(12.8, 1.5)
    band = f"(95% interval: {math.floor(low)}\N{EN DASH}{math.ceil(high)})"
    assert (done.value, done.qualifier) == ("33", f"if all manual work is done now {band}; {best}")
    assert done.detail == (
        "it assumes that 2 of 3 listings are removed by then (the expected removals of all sites together) and not listed "
        "again"
    )
    assert done.definition.startswith("expected number of open listings if all manual work is done now")
    done = card_of(forecast.assign(open=6.9, of_open=2.1), if_done)
    best = "5 at best, if every manual removal succeeds by then"  # of the 2, though 3 wait
    assert done.qualifier.endswith(f"; {best}")
    card = card_of(forecast.assign(open=6.9, of_open=2.1))
    assert "; 1 more than now: 2 of the 6 open now, 4 listed again and 1 new. " in card.qualifier
    card = card_of(forecast.assign(open=6.2, of_open=2.1, of_gone=3.4, of_new=0.7))
    assert "; as many as now: " in card.qualifier
    card = card_of(forecast.assign(open=6.9, of_open=2.1))
    assert card.detail.endswith("; so some that wait go without a request")
    course = data["status_over_time"]
    month_ago = course.head(1).assign(period=course["period"].iloc[0] - pd.Timedelta(days=40), open=4)
    tables = data.tables | {"status_over_time": pd.concat([month_ago, course], ignore_index=True)}
    report = build_report("fleet", replace(data, tables=tables | {"next_forecast": forecast}))
    [card] = [fact for fact in report.facts if fact.name == "open in 30 days"]
    assert "; more than on any of the last 30 days (6 at most); " in card.detail
    assert card.detail.endswith("; 2 more are open now than 28 days ago")


def test_forecast_also_assumes_that_all_manual_work_is_done(fleet_data):
    """The card, the section, its table and its chart have one number."""
    data = fleet_data
    rates = {site: rate for rate, site in enumerate(data.manual_listings["site"].unique(), 1)}
    queue = data["work_queue"].assign(success_rate=data["work_queue"]["site"].map(rates) / 4)
    numbers = {"open": 35.2, "low": 24.0, "high": 48.0, "of_open": 30.4, "of_gone": 3.4, "of_new": 1.4}
    forecast = data["next_forecast"].assign(**numbers)
    later = forecast.assign(days=90, reason="too short", **dict.fromkeys(numbers, float("nan")))
    parts = {
        "next_forecast": forecast,
        "forecast": pd.concat([forecast, later], ignore_index=True),
        "work_queue": queue,
    }
    expected = 35 - round(float(queue.loc[data.manual_listings.index, "success_rate"].sum()))
    report = build_report("fleet", replace(data, tables=data.tables | parts), ["forecast"])
    [section] = report.sections
    [card] = [fact for fact in report.facts if fact.name == "open in 30 days if all is done"]
    assert card.value == str(expected)
    assert card.qualifier.endswith("; 32 at best, if every manual removal succeeds by then")
    band = card.line.removeprefix("if all manual work is done now ")
    assert re.fullmatch(r"\(95% interval: \d+\N{EN DASH}\d+\)", band)
    words = f"In 30 days: about {expected} {band} if all manual work is done, 32 if all of it succeeds."
    assert section.text == words
    assert section.table["if_done"].tolist()[0] == expected
    assert section.table["if_done"].isna().tolist() == [False, True]
    assert f"; {expected} if all manual work is done" in describe(section.figure)
    [line] = [trace for trace in section.figure.data if trace.name == "if all manual work is done"]
    assert [*line.y] == [6, expected]


def test_removals_of_slow_sites_come_after_a_forecast(fleet_data):
    data = fleet_data
    numbers = {"open": 35.2, "low": 24.0, "high": 48.0, "of_open": 30.4, "of_gone": 3.4, "of_new": 1.4}
    queue = data["work_queue"].assign(success_rate=1.0)
    parts = {"next_forecast": data["next_forecast"].assign(**numbers), "work_queue": queue}
    details, outlooks = [], []
    for days in (29, 30):
        outcomes = data["site_outcomes"].assign(declared_days=days)
        tables = data.tables | parts | {"site_outcomes": outcomes}
        report = build_report("fleet", replace(data, tables=tables))
        [card] = [fact for fact in report.facts if fact.name == "open in 30 days if all is done"]
        assert card.qualifier.endswith(", also on slower sites") == (days == 30)
        details.append(card.detail)
        outlooks.append(report.outlook)
        assert report.outlook in re.sub("<[^>]+>", "", report.to_html())
    assert "it assumes that 3 of 3 listings are removed by then" in details[0]
    assert "; 3 more come later, on sites that declare 30 days or more" in details[1]
    assert "it assumes that 0 of 3 listings are removed by then" in details[1]
    assert [action.expected for action in report.actions if action.expected][-1] == 3.0
    assert outlooks[0].startswith(
        "Of the 3.0 expected removals, about 3 come within 30 days (32 open listings then "
    )
    assert re.fullmatch(
        r"Of the 3\.0 expected removals, none comes within 30 days \(35 open listings then\); about 3 come later, on .+ "
        r"\(30 days declared\)\.",
        outlooks[1],
    )


@pytest.mark.parametrize(
    ("n", "days", "expected", "outlook"),
    [
        (
            (30.4, 3.4, 1.4),
            29,
            None,
            "If all manual work is done now, about 3 removals come within 30 days (32 open listings then instead of 35).",
        ),
        (
            (30.4, 3.4, 1.4),
            30,
            None,
            (
                "If all manual work is done now, no removal comes within 30 days (35 open listings then); "
                "about 3 come later, on PeepFinder (30 days declared)."
            ),
        ),
        (
            (1.1, 0.3, 0.6),
            29,
            None,
            (
                "If all manual work is done now, about 1 removal comes within 30 days (1 open listing then instead of 2); "
                "about 2 would come without manual work, too."
            ),
        ),
        (
            (2.1, 0.3, 0.6),
            29,
            3.0,
            (
                "Of the 3.0 expected removals, about 2 come within 30 days (1 open listing then instead of 3); "
                "about 1 would come without manual work, too."
            ),
        ),
        (
            (1.1, 0.3, 0.6),
            30,
            3.0,
            (
                "Of the 3.0 expected removals, none comes within 30 days (2 open listings then); "
                "about 1 comes later, on PeepFinder (30 days declared); "
                "about 2 would come without manual work, too."
            ),
        ),
        ((30.4, 3.4, float("nan")), 29, 3.0, ""),
    ],
)
def test_outlook_counts_what_comes_when(fleet_data, n, days, expected, outlook):
    data = fleet_data
    numbers = {"of_open": n[0], "of_gone": n[1], "of_new": n[2], "open": sum(n), "low": 0.0, "high": 48.0}
    parts = {
        "next_forecast": data["next_forecast"].assign(**numbers),
        "work_queue": data["work_queue"].assign(success_rate=1.0),
        "site_outcomes": data["site_outcomes"].assign(declared_days=days),
    }
    assert headline.outlook(replace(data, tables=data.tables | parts), expected) == outlook


def test_outlook_before_an_action_that_waits_has_the_stated_removals(fleet_data):
    """The only manual work is its own sum, and pending removals are the last action."""
    data = fleet_data
    status = data["records"]["status"].astype("str")
    numbers = {"open": 35.2, "low": 24.0, "high": 48.0, "of_open": 30.4, "of_gone": 3.4, "of_new": 1.4}
    parts = {
        "next_forecast": data["next_forecast"].assign(**numbers),
        "work_queue": data["work_queue"].assign(success_rate=1.0),
        "records": data["records"].assign(
            status=status.where(data["records"]["site"] != "Thirdplace", "pending removal")
        ),
        "links": data["links"].head(0),
    }
    report = build_report("fleet", replace(data, tables=data.tables | parts))
    assert [(action.expected, action.text[:5]) for action in report.actions][-1] == (None, "Wait ")
    assert report.outlook.startswith("Of the 3.0 expected removals, about 3 come within 30 days ")


@pytest.mark.parametrize("days", ["24", "30", "1,000"])
def test_forecast_over_any_number_of_days_is_defined(days):
    assert "expected number of open listings" in Fact(f"open in {days} days", "4").definition


def test_shorter_forecast_is_compared_with_as_many_days(fleet_data):
    data, course = fleet_data, fleet_data["status_over_time"]
    forecast = data["next_forecast"].assign(
        days=20, open=35.2, low=24.0, high=48.0, of_open=30.4, of_gone=3.4, of_new=1.4
    )
    last = course["period"].iloc[-1]
    before = pd.concat([course.head(1)] * 2).assign(
        period=[last - pd.Timedelta(days=40), last - pd.Timedelta(days=25)], open=[4, 5]
    )
    tables = data.tables | {"status_over_time": pd.concat([before, course], ignore_index=True)}
    report = build_report("fleet", replace(data, tables=tables | {"next_forecast": forecast}))
    [card] = [fact for fact in report.facts if fact.name == "open in 20 days"]
    assert card.detail.endswith("; 1 more is open now than 14 days ago")  # whole weeks


def test_facts_count_the_records(history, fleet):
    facts = {fact.name: fact for fact in fleet.facts}
    values = {name: facts[name].value for name in ("open listings", "removed", "web pages")}
    assert values == {"open listings": "6", "removed": "3", "web pages": "3"}
    found = f"of {len(history.records())} found"
    assert facts["open listings"].qualifier == found
    assert facts["open listings"].detail == "all 3 people were observed in the last run"
    assert float(facts["score"].value) == history.score()["score"].sum() > 0
    assert facts["to do by hand"].value == "3"
    cards = fleet._repr_html_()
    assert "0 removed" not in cards
    assert f"{fleet.facts[0].value} \u00b7 {fleet.facts[0].qualifier}" in cards


def test_sections_that_cannot_be_made_are_named(exposure):
    with pytest.warns(
        UserWarning,
        match=r"left out \(survival and relistings\): this report has no such data; most need a history",
    ):
        report = ek.report(exposure, sections=["survival", "by_site", "relistings"])
    assert [section.key for section in report.sections] == ["by_site"]


@pytest.mark.long
def test_incomplete_people_are_counted_beside_the_figure(tmp_path):
    service = kit.three_people()
    for _, history in collected_history(tmp_path, service, days=(0, 1), broken={2: "no user"}):
        report = ek.report(history, sections=["by_site"])
        assert report.facts[0].qualifier == "1 of 3 people was not observed completely in the last run"
        assert "1 not observed completely" in report.provenance["people"]


def test_a_history_with_an_exposure_takes_a_name(tmp_path):
    service = kit.three_people()
    service.people[2].profile["first_name"] = "Thaddeus"
    for exposure, history in collected_history(tmp_path, service, days=(0,)):
        report = ek.report(history, exposure=exposure, user="thaddeus")
        assert report.title == ek.report(history, exposure=exposure, user=2).title
        assert "Thaddeus" in report.title
        with pytest.raises(InvalidArgument, match="pass exposure="):
            ek.report(history, user="thaddeus")


@pytest.mark.filterwarnings("ignore:16 of 25 people")
@pytest.mark.parametrize("share_safe", [False, True])
def test_report_of_a_stopped_load_counts_everyone_listed(share_safe):
    only = "Only 16 of 25 people were loaded: the load was stopped."
    with stopped(16, 25) as exposure:
        report = ek.report(exposure, share_safe=share_safe)
        coverage = section_of(report, "failures")
        assert report.title.startswith("Exposure of 16 of 25 people")
        assert report.finding.startswith(only)
        assert report.caveat.startswith(only)
        assert report.provenance["people"] == "16 of 25 people: the load was stopped"
        assert "all 16" not in report.provenance["observed"]
        assert report.facts[0].qualifier == "9 of 25 people were not loaded"
        assert coverage.text == only
        drawn = section_of(report, "by_site").figure
        assert drawn is None or "people 16 of 25 people" in drawn.layout.meta["provenance"]
        if not share_safe:
            assert not ek.report(exposure, user=3).caveat.startswith(only)


@pytest.fixture(scope="module")
def nine_days(tmp_path_factory):
    """A history of nine days with three runs, and its report."""
    for _, history in collected_history(
        tmp_path_factory.mktemp("nine_days"), kit.three_people(), days=(0, 1, 8)
    ):
        yield history, ek.report(history, sections=["by_site", "week"])


@pytest.fixture(scope="module")
def week_data(nine_days):
    """The tables of a report on the last of the nine days."""
    history, _ = nine_days
    return ReportSource(history).load(needed_tables("fleet", ["week"]))


def test_figure_has_its_trend_and_weekly_change(nine_days):
    history, report = nine_days
    fact = report.facts[0]
    n = history.status_over_time()["open"].tolist()
    more = n[-1] - n[1]
    assert fact.name == "open listings"
    assert fact.trend == tuple(n)
    assert fact.change == f"{f'{more:+}'.replace('-', MINUS) if more else 'unchanged'} in 7 days"
    assert fact.value == str(n[-1])


def test_last_days_have_their_causes_and_sites(nine_days):
    history, report = nine_days
    [site] = history.relistings()["site"]
    week, cards = section_of(report, "week"), {fact.name: fact for fact in report.facts}
    assert week.finding == "6 are open, 1 more than before: 1 listed again."
    changes = f"0 new; 1 listed again ({site} 1); 0 removed"
    assert week.points == (f"2026-03-02 to 2026-03-09: from 5 to 6 open; {changes}.",)
    rows = [[site, 1], ["unchanged: 2 sites", 0]]
    assert week.table[["site", "listed again"]].to_numpy().tolist() == rows
    bars = [trace.name for trace in week.figure.data if trace.type == "bar"]
    assert bars == ["new, or listed again", "net change"]
    again = f"on {site}; 1 of 4 listings ever removed (25%); 1 of them is open now"
    assert (cards["listed again"].value, cards["listed again"].qualifier) == ("1", again)
    assert f": 1 was listed again (on {site})" in cards["removed"].qualifier
    assert cards["removed"].change == f"{MINUS}1 in 7 days"
    assert report.provenance["observed"] == "all 3 people in the last run"


@pytest.mark.parametrize(("pending", "words"), [((4, 2), "4, 1 more"), ((2, 2), ""), ((0, 2), "4, 3 fewer")])
def test_fewer_pending_removals_do_not_hide_more_to_do(week_data, pending, words):
    data, records = week_data, week_data["records"]
    is_open = analysis.is_open(records["status"])
    status = (
        records["status"]
        .astype("str")
        .mask(records.index.isin(records.index[is_open][:2]), "pending removal")
    )
    course = data["status_over_time"].assign(open=[7, 7, 6])
    course["pending removal"] = [pending[0], pending[0], pending[1]]
    tables = data.tables | {"records": records.assign(status=status), "status_over_time": course}
    [week] = build_report("fleet", replace(data, tables=tables), ["week"]).sections
    assert week.finding.endswith(f". Without a pending removal: {words}." if words else ": 1 listed again.")


def test_removals_of_the_week_that_undo_relistings_are_counted(week_data):
    data = week_data
    [site, *_] = data["week_by_site"]["site"]
    removed = data["week_by_site"].assign(removed=(data["week_by_site"]["site"] == site) * 2)
    records = data["records"].assign(status="discovered", episode=1)
    records.loc[records.index[:2], ["status", "changed_at"]] = "removed", records["changed_at"].max()
    for again, words in ((2, " All 2 removed listings"), (1, " 1 of the 2 removed listings"), (0, "")):
        records.loc[records.index[:again], "episode"] = 2
        tables = data.tables | {"records": records, "week_by_site": removed}
        [week] = build_report("fleet", replace(data, tables=tables), ["week"]).sections
        assert ("had been listed again before" in week.text) == bool(words)
        assert words in f" {week.text}"
        records["episode"] = 1


def test_waiting_since_the_first_run_is_said_as_that(fleet_data):
    data = fleet_data
    days = (data.as_of.date() - data.first_run_at.date()).days
    many = pd.Series([days] * 5, dtype="int64")
    for waiting, words in (
        (many, f"; most have waited since monitoring began, {days} days ago"),
        (many - 1, f"; half have waited {days - 1} days or more"),
    ):
        shown = replace(data)
        shown.__dict__["waiting_days"] = waiting
        assert build_report("fleet", shown, ["by_site"]).parts[0].endswith(words)


def growing_history(directory, *hours):
    """A history with a run at each of these hours after dawn, which finds one more listing each time."""
    clock, service = Clock(), Service({1: Person()})
    history = History(directory / "history", clock=clock)
    with seen_through(service) as exposure:
        for hour in hours:
            service.people[1].records.append(a_record(hour + 100))
            clock.set(DAWN + timedelta(hours=hour))
            history.collect(exposure.refresh(), progress=False)
    return history


def test_long_rows_and_items_repeat_nothing(tmp_path):
    """A row names three sites of a person; an item has the listed name where its heading has another."""
    sites = ("PeepFinder", "Seekfolk", "Nosy Heron", "Crumbtrail", "Brambledex")
    records = [a_record(number, site=site) for number, site in enumerate(sites)]
    records[-1]["name"] = "FENNIMOOR, ODALYS"
    clock, service = (
        Clock(),
        Service({1: Person(records, alerts=[an_alert("Found", one) for one in records])}),
    )
    history = History(tmp_path / "history", clock=clock)
    with seen_through(service) as exposure:
        history.collect(exposure, progress=False)
    report = ek.report(history, sections=["score", "work_queue"])
    [row] = report.table("score").to_dict("records")
    assert row["open_sites"] == "Brambledex, Crumbtrail, Nosy Heron and 2 more"
    html = report.to_html()
    assert html.count("<strong>listed as Odalys Fennimoor (user 1)</strong>") == len(sites)
    assert re.findall("<em>Name as listed</em> <code>(.*?)</code>", html) == ["FENNIMOOR, ODALYS"]


@pytest.mark.parametrize(
    ("hours", "change", "title"),
    [
        ((-36, -12, 0, 80, 24 * 7 + 1), "+2 in 7 days", "The last 7 days"),  # the start day has two runs
        ((0, 24 * 7 - 1), "+1 in 7 days", "The last 7 days"),  # a cron job is late once
        ((0, 24, 24 * 14, 24 * 15), "+2 since 2026-03-02", "Since 2026-03-02"),  # no run for two weeks
        ((0, 1, 24, 48), "+2 since 2026-03-01", "Since 2026-03-01"),  # a young history
    ],
)
def test_figure_and_section_count_the_same_days(tmp_path, hours, change, title):
    report = ek.report(growing_history(tmp_path, *hours), sections=["week"])
    [week] = report.sections
    more = change.split()[0].lstrip("+")
    assert (report.facts[0].change, week.title) == (change, title)
    assert f"{more} more than before: {more} new" in week.finding


def test_history_of_one_day_has_no_section_on_changes(tmp_path):
    history = growing_history(tmp_path, 0, 1)
    with pytest.warns(UserWarning, match=r"left out \(week\): this report has no such data$"):
        report = ek.report(history, sections=["week", "by_site"])
    assert [section.key for section in report.sections] == ["by_site"]
    assert report.facts[0].change == ""


@pytest.mark.parametrize(
    ("n_first", "relisted_ids", "n", "words"),
    [
        (6, (1, 7), 7, "5 of 11 listings found and 2 relistings"),
        (6, (), 5, "5 of 11 listings found"),
        (0, (7,), 6, "5 listings and 1 relisting"),
    ],
)
def test_followed_listings_are_those_found_later_and_relistings(tmp_path, n_first, relisted_ids, n, words):
    """Listings that were open at the first load are found, and not followed."""
    first, later = (
        [a_record(number) for number in range(1, n_first + 1)],
        [a_record(number) for number in range(7, 12)],
    )
    changes = [{}, {}, dict.fromkeys(relisted_ids, "removed"), dict.fromkeys(relisted_ids, "discovered")]
    clock, service = Clock(), Service({1: Person()})
    history = History(tmp_path / "history", clock=clock)
    with seen_through(service) as exposure:
        for day, statuses in enumerate(changes):
            service.people[1].records = records = [*first, *(later if day else [])]
            for record in records:
                record |= {"status": statuses.get(record["id"], record["status"])}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
    report = ek.report(history, sections=["time_to_removal"])
    cards = {fact.name: fact for fact in report.facts}
    assert cards["listed again"].value == str(len(relisted_ids))
    assert cards["half removed within"].qualifier.endswith(f"based on {words}")
    section = section_of(report, "time_to_removal")
    n_open = section.table["open"].sum()
    assert f"{words} are followed (n = {n}); {n_open} of them are open." in section.points
    person = section_alone("time_to_removal", history, user=1)
    assert "followed (n = " not in " ".join(person.points)


def test_columns_of_zeros_or_nothing_are_named_below_their_table():
    zero, one = pd.array([0, 0], "Int64"), pd.array([0, 1], "Int64")
    table = pd.DataFrame({"site": ["A", "B"], "open": one, "other": zero, "total": [pd.NA, pd.NA]})
    table = table.astype({"total": "Int64"}).assign(precision=[0.5, 0.9], low=[0.2, None], high=[0.8, 1.0])
    with seen_through(kit.three_people()) as exposure:
        html, _, data = page_of(ek.report(exposure, sections=[ek.Section("Ours", table=table)]))
    heads = re.findall('<th scope="col"[^>]*>([^<]*)<', html.partition("<main>")[2])
    assert heads == ["site", "open", "other", "total", "precision "]  # one's own table is whole
    displayed = _displayed(table, "by_site")
    assert [*displayed["table"]] == ["site", "open", "precision"]
    notes = "Not shown, because all values are zero: other. Not shown, because no row has a value: found."
    assert displayed["note"] == notes  # missing is not zero
    assert '<span class="interval">(interval)</span></th>' in html
    assert '>50% <span class="interval">(20\N{EN DASH}80%)</span></td>' in html
    assert '>90% <span class="interval">(up to 100%)</span></td>' in html
    assert "site,open,other,total,precision,low,high" in data[-1]


def test_times_of_day_are_left_out_where_all_are_midnight(exposure):
    at = pd.to_datetime(["2026-03-01T00:00", None, "2026-03-02T07:00"], utc=True)
    table = pd.DataFrame({"day": at[[0, 1, 0]], "at": at})
    html = ek.report(exposure, sections=[ek.Section("Ours", table=table)]).to_html()
    cells = re.findall("<td[^>]*>([^<]*)</td>", html.partition("<main>")[2])
    assert cells == [
        "2026-03-01",
        "2026-03-01 00:00",
        "\N{EM DASH}",
        "\N{EM DASH}",
        "2026-03-01",
        "2026-03-02 07:00",
    ]


def test_short_list_of_each_change_is_open(reports):
    """It is the one table of a week that says whom to look at; a long one is closed."""
    section = section_of(reports["changes"], "diff")
    for rows, is_open in ((12, True), (13, False)):
        table = pd.concat([section.table] * 13, ignore_index=True).head(rows)
        long = replace(reports["changes"], sections=(replace(section, table=table, rows=rows),))
        assert ('<details class="numbers" data-name="diff" open>' in page_of(long)[0]) == is_open


def test_work_of_a_report_on_a_person_is_theirs(reports):
    removals = {kind: section_of(reports[kind], "work_queue").removals for kind in ("fleet", "person")}
    assert all(" of 1 person" in removal.amount for removal in removals["person"])
    assert " of 1 person" not in page_of(reports["person"])[0]
    assert any(removal.amount in page_of(reports["fleet"])[0] for removal in removals["fleet"])


def test_complete_observation_is_a_sentence_without_a_chart(fleet, tmp_path):
    [section] = [one for one in fleet.sections if one.key == "coverage"]
    assert section.finding.endswith("; the data of all 3 people is complete and less than a day old.")
    assert section.figure is None
    for _, history in collected_history(tmp_path, kit.three_people(), days=(0, 1), broken={2: "no user"}):
        assert section_alone("coverage", history).figure is not None


def test_next_actions_are_the_first_manual_work(full):
    work = section_of(full, "work_queue")
    first = next(removal for removal in work.removals if removal.site)
    assert 1 <= len(full.actions) <= 3
    assert first.site in full.actions[0].text
    assert f"Remove {first.listings} listing" in full.actions[0].text
    assert full.actions[0].section == f"work_queue-{work.removals.index(first) + 1}"
    html = full.to_html()
    assert all(f'id="{action.section}"' in html for action in full.actions)


def test_code_for_analysts_opens_the_history_by_its_name(history, exposure):
    begin = {
        name: ek.report(source, sections=["by_site"]).code["Begin with"]
        for name, source in (("past", history), ("now", exposure))
    }
    assert begin["past"] == (f'import exposurekit as ek; history = ek.History("{Path(history.path).name}")',)
    assert begin["now"] == ("import exposurekit as ek; exposure = ek.connect()",)


def test_rows_of_people_are_headed_by_the_name(full):
    table = section_of(full, "score").table
    assert [*table][:2] == ["person", "user_id"]


def test_columns_of_numbers_are_no_lists_to_pick_from(history):
    """Filtering by one of a few numbers, such as a change of -1, answers no question."""
    rows = pd.DataFrame({"site": [*"AAAABBBB"], "change": [0, 1] * 4, "state": [*"xxyyxxyy"]})
    html = ek.report(history, sections=[ek.Section("Own", table=rows)]).to_html()
    heads = re.findall(r"<th scope=\"col\"([^>]*)>([^<]+)</th>", html.partition("<main>")[2])
    picked = {name: "data-pick" in attributes for attributes, name in heads}
    assert picked == {"site": True, "change": False, "state": True}


def test_half_an_hour_is_spent_as_the_plan_says(history, full, fleet):
    plan = history.plan(30)
    sites = plan["site"].value_counts()
    assert len(sites)
    assert all(f"{n} listing{'s' * (n > 1)} on {site}" in fleet.half_hour for site, n in sites.items())
    assert fleet.half_hour.startswith("If you have 30 min, check and remove ")
    assert f"<p>{fleet.half_hour}</p>" in fleet.to_html()


def test_head_says_how_many_matches_nobody_has_checked(tmp_path):
    for exposure, history in collected_history(tmp_path, kit.three_people(), days=(0, 1)):
        records, caveats = history.records(), []
        keys = ["user_id", "record_id"]
        is_waiting = pd.MultiIndex.from_frame(records[keys]).isin(
            [*history.work_queue()[keys].itertuples(index=False, name=None)]
        )
        for checked in (records.head(0), records[is_waiting].head(1), records[~is_waiting], records):
            history.label(checked, "mine") if len(checked) else None
            report = ek.report(history, sections=["by_site"])
            caveats.append(report.caveat)
            html = report.to_html()
            assert bool(report.caveat) == ('<p class="caveat">' in html)
        now = ek.report(exposure, sections=["by_site"])
    rest = "Some may be about somebody else with the same name, so check each one first."
    times = "The times below include this: 2 min"
    n = len(records)
    assert caveats == [
        f"Nobody has checked yet whom the listings are about. {rest} {times} each, 4 min in total.",
        f"{n - 1} of {n} listings have not been checked. {rest} {times}.",
        f"1 of {n} listings has not been checked. {rest} {times}.",
        "",
    ]
    assert now.caveat == caveats[0]  # labels are in a history, so nobody has checked anything


def test_labels_of_manual_work_leave_no_time_to_check(tmp_path):
    for _, history in collected_history(tmp_path, kit.three_people(), days=(0,)):
        work = history.work_queue().dropna(subset="site")
        history.label(history.records().merge(work[["user_id", "record_id"]]), "mine")
        assert ek.report(history, sections=["by_site"]).caveat.endswith(" so check each one first.")


def test_manual_work_is_as_old_as_its_listings(history, fleet, fleet_data):
    """The newest alert of a listing may be younger than the listing."""
    first = history.records().set_index(["user_id", "record_id"])["first_seen_at"]
    work = fleet_data["work_queue"].dropna(subset="site")
    keys = [*zip(work["user_id"], work["record_id"], strict=True)]
    assert work["first_seen_at"].tolist() == [first[key] for key in keys]
    days = sorted((DAWN.date() + timedelta(days=3) - first[key].date()).days for key in keys)
    assert f"(the oldest for {days[-1]} days)" in fleet.parts[0]


def test_own_section_is_drawn_and_escaped(exposure):
    figure = go.Figure(go.Bar(x=["<img src=x onerror=alert(1)>", "b"], y=[1, 2], name="<b>bold</b>"))
    own = ek.Section("Our <targets>", figure=figure, table=pd.DataFrame({"<i>": ["<script>"]}), text="<u>")
    report = ek.report(exposure, sections=["by_site", own], title="Board <pack>")
    assert [section.key for section in report.sections] == ["by_site", "our_targets"]
    assert report.table("our_targets").equals(own.table)
    assert report.figure("our_targets").data[0].x[0] == "&lt;img src=x onerror=alert(1)&gt;"
    assert report.figure("our_targets").data[0].name == "<b>bold</b>"
    html, _, _ = page_of(report)
    assert "Our &lt;targets&gt;" in html
    assert "<h1>Board &lt;pack&gt;</h1>" in html
    assert '<td class="left">&lt;script&gt;</td>' in html
    with pytest.raises(NotFound, match="it has: by_site, our_targets"):
        report.table("by_moon")


def test_own_section_may_have_points_alone(exposure):
    report = ek.report(exposure, sections=[ek.Section("Ours", points=("Half by <June>.",))])
    assert report.sections[0].points == ("Half by <June>.",)
    assert "<li>Half by &lt;June&gt;.</li>" in page_of(report)[0]


def test_sections_with_the_same_title_have_different_keys(exposure):
    own = [ek.Section(title, text=title) for title in ("Work queue", "Targets", "Targets")]
    report = ek.report(exposure, sections=[*own, "work_queue"])
    keys = [section.key for section in report.sections]
    assert keys == ["work_queue_2", "targets", "targets_2", "work_queue"]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (ek.Section(" "), "needs a title"),
        (ek.Section("Empty"), "needs a figure, a table, a text or points"),
        (ek.Section("Wrong", figure="nofig"), "A figure must be a Plotly figure, not str"),
        (ek.Section("Wrong", table=[[1]]), "table of a section must be a pandas DataFrame, not list"),
        (ek.Section("Wrong", points="abc"), "points of a section must be a list of sentences, not str"),
        (ek.Section("Globe", figure=go.Figure(go.Scattergeo())), "cannot draw scattergeo"),
        ("by_moon", "a section is one of: by_site, .*"),
        ("changes", "needs a history and since"),
    ],
)
def test_section_that_cannot_be_drawn_raises_error(exposure, section, problem):
    with pytest.raises(InvalidArgument, match=problem):
        ek.report(exposure, sections=[section])


def test_sections_must_be_a_list(exposure):
    with pytest.raises(InvalidArgument, match=r"sections must be a list: sections=\["):
        ek.report(exposure, sections="by_site")


def test_error_names_each_section_once(exposure):
    with pytest.raises(InvalidArgument) as caught:
        ek.report(exposure, sections=["by_moon"])
    assert len(names := re.findall(r"\w+", str(caught.value).partition(": ")[2])) == len({*names})


def test_actions_do_not_depend_on_chosen_sections(exposure):
    whole = ek.report(exposure)
    own = ek.report(exposure, sections=["by_site", ek.Section("Ours", text="Half by June.")])
    assert [(one.text, one.effect) for one in own.actions] == [
        (one.text, one.effect) for one in whole.actions
    ]
    assert own.half_hour == whole.half_hour
    assert {one.section for one in own.actions} <= {"", "by_site"}
    html, _, _ = page_of(own)
    assert 'href="#work_queue' not in html
    assert 'href="#"' not in html


def test_logo_and_accent_are_inside_the_page(exposure, tmp_path):
    (tmp_path / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    options = {"logo": tmp_path / "logo.svg", "accent": "#7a1f5c"}
    html = ek.report(exposure, sections=["by_site"], **options).to_html()
    assert '<img class="logo" src="data:image/svg+xml;base64,' in html
    assert 'style="--brand:#7a1f5c"' in html
    with pytest.raises(InvalidArgument, match="six hexadecimal digits"):
        ek.report(exposure, accent="red;background:url(//x.example)")
    with pytest.raises(InvalidArgument, match=r"ends in \.png"):
        ek.report(exposure, logo=tmp_path / "logo.html")


def test_report_on_a_person_has_no_one_else(exposure, reports):
    current = ek.report(exposure, user=2)
    name = "Odalys Wren Fennimoor (user 2)"
    assert current.title == f"Exposure of {name}"
    [work] = [section.removals for section in current.sections if section.key == "work_queue"]
    assert {task.person for one in work for task in one.tasks} == {name}
    for report in (reports["person"], current):
        assert len(report.table("records")) == 3
        assert "pages.example/1" not in report.to_json()
        assert "pages.example/2" in report.to_json()
    assert "people" not in reports["person"].table("status_over_time")


def test_changes_count_from_an_instant(history):
    since = FIRST + timedelta(days=2)
    report = ek.report(history, since=since)
    [why, counts, sites, points, things, _] = report.sections
    assert report.provenance["since"] == str(since)
    assert report.finding == "6 listings are open, 1 more than before."
    assert things.table["what"].tolist() == ["listed again"]
    assert why.table["open"].tolist()[-1] == 6
    assert points.table["score"].tolist()[-1] == history.score()["score"].sum()
    assert counts.table["n"].tolist()[-1] == sites.table["open_after"].sum() == 6


def test_sections_are_limited_to_what_the_source_knows(now, fleet):
    keys = {section.key for section in now.sections}
    assert keys == {"by_site", "score", "blockers", "work_queue", "failures"}
    assert "blockers" not in {section.key for section in fleet.sections}
    assert "does not store what people have on file" in section_of(fleet, "coverage").points[-1]
    assert "Names on file and the values to enter are missing" in page_of(fleet)[0]


def test_manual_work_has_the_steps_of_every_alert(history, fleet, page):
    work = section_of(fleet, "work_queue")
    assert sum(removal.listings for removal in work.removals) == len(work.table) == 3
    steps = {tuple(alert) for alert in history.alerts()["opt_out_procedure"] if len(alert)}
    assert {removal.steps for removal in work.removals} <= steps
    assert all(f"<li>{step}</li>" in page[0] for removal in work.removals for step in removal.steps)


def test_alerts_with_the_same_steps_are_grouped():
    alerts = pd.DataFrame(
        {
            "user_id": [1, 2, 3],
            "alert_number": [0, 0, 0],
            "site": ["A", "A", "A"],
            "guide": ["Free.", "Free.", None],
            "opt_out_procedure": [["Open it.", "Press it."], ["Open it.", "Press it."], []],
            "url": ["https://a.example/1", "https://a.example/2", None],
        }
    )
    queue = alerts.assign(state=["open", "started", "done"], minutes=[4.0, 2.0, 0.0], success_rate=0.5)
    [removal] = removals(queue)
    assert (removal.listings, removal.people, removal.minutes) == (2, 2, 6.0)
    assert removal.expected == 1.0
    assert removal.steps == ("Open it.", "Press it.")
    assert [task.begin for task in removal.tasks] == ["https://a.example/1", "https://a.example/2"]
    assert removal.heading == "Same steps for 2 listings"
    [capped] = removals(queue, limit=1)
    assert (len(capped.tasks), capped.omitted, capped.listings) == (1, 1, 2)


def test_started_removal_no_longer_waits_for_its_document():
    steps = pd.DataFrame(
        {
            "user_id": [1, 1, 2, 2],
            "alert_number": 0,
            "step_number": [1, 2, 1, 2],
            "record_id": [7, 7, 8, 8],
            "site": "PeepFinder",
            "status": "discovered",
            "url": "https://peep.example/out",
            "step": ["Open the form.", "Upload a copy of your driver's license."] * 2,
            "guide": None,
            "tick": ["done", None, None, None],
        }
    )
    started, waiting = removals(work_queue(steps))
    assert started.preparations == waiting.preparations == (DOCUMENT,)
    assert (started.waits_for_document, waiting.waits_for_document) == (False, True)


def test_every_listing_has_a_checkbox_and_values(fleet):
    tasks = tuple(
        Task(
            f"Jo Doe (user {number})",
            "A",
            facts=(("Name as listed", "DOE JO"), ("Reference", f"000{number}")),
            address=f"https://a.example/{number}",
            entries=(FormValue("email", "jo@example.com", required=True), FormValue("phone_number", None)),
        )
        for number in range(500)
    )
    removal = Removal("A", None, ("Write.",), tasks, 500, 500, 9.0)
    html = with_removal(fleet, removal).to_html()
    assert html.count('<input type="checkbox">') == 500
    assert all(f"<code>000{number}</code>" in html for number in range(500))
    assert html.count("<em>email</em> <code>jo@example.com</code>") == 500
    assert "<em>phone</em>" not in html  # none is on file, and the form does not require it
    assert "not on this page" not in html
    assert "400 more are not on this page" in with_removal(fleet, replace(removal, listings=900)).to_html()


def page_with(fleet, *tasks):
    """The page of a report whose manual work is these tasks."""
    removal = Removal(tasks[0].site, None, ("Open a.example/out and wait.",), tasks, len(tasks), 1, 9.0)
    return page_of(with_removal(fleet, removal))[0]


def test_item_lists_values_to_enter_and_missing_values(fleet):
    email = (
        FormValue("email", "a@example.com", True, is_first_choice=True),
        FormValue("email", "b@example.com", True, True),
    )
    ready = Task(
        "user 1",
        "A",
        facts=(("Name as listed", "DOE"),),
        entries=(*email, FormValue("phone_number", "555", is_first_choice=True)),
        cautions=("differs: age 74, on file 73",),
    )
    missing = (FormValue("email", None, True),)
    blocked = Task("user 2", "A", facts=(("Name as listed", "not shown"),), entries=missing)
    html = page_with(fleet, ready, blocked)
    assert "<em>email (use this one)</em>" in html
    assert "<em>or email</em>" in html
    assert "To enter (required):" in html
    assert "<summary>Only if the form asks</summary>" in html
    assert '<p class="warning">differs: age 74, on file 73</p>' in html
    assert "<em>phone (use this one)</em>" in html  # as in the checklist
    assert html.count('<p class="warning">Cannot start yet: no email on file.') == 1
    assert html.count('class="task blocked"') == 1
    assert "not shown" in html
    assert ">not shown</code>" not in html  # nothing to copy
    assert '<li>Open <a href="https://a.example/out"' in html  # an address in a step is a link
    assert ">a.example/out</a> and wait.</li>" in html


def test_web_pages_are_grouped_by_host_with_their_values(fleet):
    values = (FormValue("name", "Jo Doe"), FormValue("email", "jo@example.com"))
    facts = (("Title of the page", "<script>x"), ("Contains", "email"))
    urls = ("https://a.example/jo?x=1", "https://b.example/", "https://a.example/2")
    rest = {"facts": facts, "entries": values, "cautions": ("Suspicious page: x.",)}
    html = page_with(fleet, *(Task("user 1", None, address=url, **rest) for url in urls))
    assert re.findall(r'<li class="host"><strong>(.*?)</strong>', html) == ["a.example", "b.example"]
    links = re.findall(r">([^<]*)</a> <span", html.partition("<main>")[2])
    assert links == ["a.example/jo?x=1", "a.example/2", "b.example"]
    assert html.count("“On file” is what the person has of the kinds of data on a page") == 1
    assert html.count(">On file: ") == 3
    assert "jo@example.com" in html
    assert "Jo Doe" not in html
    assert html.count("Suspicious page") == 3
    assert "&lt;script&gt;x" in html


def test_steps_that_need_the_person_are_marked_once(fleet):
    steps = ("Open the e-mail and click the link.", "Send a copy of a bill.")
    removal = Removal("A", None, steps, (Task("user 1", "A"), Task("user 2", "A")), 2, 2, 9.0)
    html = unescape(page_of(with_removal(fleet, removal))[0])
    assert (html.count(MAILBOX), html.count(DOCUMENT)) == (1, 1)


def test_blocked_items_come_last():
    values = (["email: not on file"], ["email: jo@example.com"])
    rows = [
        {"user_id": number, "form_values": form_values}
        | {"alert_number": 0, "site": "A", "guide": None, "opt_out_procedure": ["Write."], "url": None}
        | {"user_fields_required_for_removal": ["email"], "state": "open", "minutes": 2.0}
        for number, form_values in enumerate(values, 1)
    ]
    steps = pd.DataFrame(rows).assign(step="Write.", step_number=1, status="discovered")
    ready, waiting = removals(work_queue(steps.assign(record_id=steps["user_id"])))
    assert (ready.tasks[0].user_id, ready.reason) == (2, None)
    assert (waiting.tasks[0].user_id, waiting.reason) == (1, "email is not on file")
    assert "Reason to wait: email is not on file." in waiting.amount
    assert waiting.tasks[0].missing_values == ("email",)


def test_single_value_has_a_sentence_and_no_chart(full):
    for section in full.sections:
        if section.key == "blockers" and section.rows == 1:
            assert section.figure is None
            assert section.finding


def test_people_with_the_same_name_have_their_id(exposure, full):
    first = exposure.with_people(exposure.users()).iloc[0]
    assert f"{first['person']} (user {first['user_id']})" in full.figure("score").layout.yaxis.ticktext


def test_without_profiles_people_have_the_name_of_their_listings(tmp_path):
    names = ("Ida Quince", "Quince, Ida", "I Quince")
    records = [a_record(number, name=name) for number, name in enumerate(names)]
    listed, link = Person(records, alerts=[an_alert("Listed", records[1])]), "listed as Ida Quince"
    service = Service({1: listed, 2: Person([a_record(9, name=" ")])})
    with seen_through(service) as exposure, History(tmp_path / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        score = section_alone("score", history)
        person = ek.report(history, user=1, sections=["records", "work_queue"])
    assert set(score.figure.layout.yaxis.ticktext) == {"Ida Quince", "user 2"}
    assert "Names are as most of a person's listings show them" in statements(score)
    assert (link in person.title, "names" in person.provenance) == (True, True)
    assert [one.tasks[0].person for one in person.sections[1].removals] == [f"{link} (user 1)"]


def test_suffixes_of_listed_names_stay_last(tmp_path):
    names = ("John Smith, Jr.", "Ann Lee, MD", "Bo Ray, Ph.D.", "Cy Fox, iv", "Mdivani, Ivo")
    service = Service({number: Person([a_record(number, name=name)]) for number, name in enumerate(names, 1)})
    with seen_through(service) as exposure, History(tmp_path / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        figure = section_alone("score", history).figure
    assert set(figure.layout.yaxis.ticktext) == {*names[:4], "Ivo Mdivani"}


def test_names_in_capitals_give_way_to_others(tmp_path):
    """Whatever most listings show: capitals read badly, and their last name may come first."""
    names = {1: ("LEE ANN", "LEE ANN", "Ann Lee"), 2: ("RAY BO",), 3: ("Cy Fox", "CY FOX", "Cy Fox")}
    service = Service()
    for user, of_user in names.items():
        listed = [a_record(10 * user + number, name=name) for number, name in enumerate(of_user)]
        service.people[user] = Person(listed)
    with seen_through(service) as exposure, History(tmp_path / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        figure = section_alone("score", history).figure
    assert {*figure.layout.yaxis.ticktext} == {"Ann Lee", "RAY BO", "Cy Fox"}


def test_a_history_begins_when_somebody_was_observed(tmp_path):
    service, clock = Service(), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        for day, people in enumerate([{}, {1: Person([a_record(1)])}, {1: Person([a_record(1)])}]):
            service.people = people
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        report = ek.report(history, sections=["status_over_time"])
    assert report.title == "Exposure of 1 person, 2026-03-02 to 2026-03-03"
    runs = "3, 2026-03-01 to 2026-03-03; people were observed from 2026-03-02"
    assert report.provenance["runs"] == runs
    assert len(report.table("status_over_time")) == len(report.facts[0].trend) == 2


def test_a_name_of_one_person_has_no_id():
    service = Service()
    service.people = {1: kit.three_people().people[1]}
    with seen_through(service) as exposure:
        figure = section_alone("score", exposure).figure
    assert figure.layout.yaxis.ticktext == ("Odalys Wren Fennimoor",)


def test_long_table_states_how_many_rows_are_left_out():
    service = Service()
    service.people[1] = kit.three_people().people[1]
    service.people[1].records = [a_record(number, site=f"Site {number}") for number in range(ROWS_MAX + 5)]
    with seen_through(service) as exposure:
        report = ek.report(exposure, sections=["by_site"])
    [by_site] = report.sections
    assert (len(by_site.table), by_site.rows) == (ROWS_MAX, ROWS_MAX + 5)
    assert f"the first {ROWS_MAX:,} of {ROWS_MAX + 5:,}" in page_of(report)[0]


def test_wrong_arguments_raise_errors(exposure, history, tmp_path):
    for options in (
        {"kind": "moon"},
        {"kind": "changes"},
        {"kind": "person"},
        {"kind": "fleet", "since": FIRST},
        {"kind": "sites", "user": 2},
        {"kind": "changes", "user": 2, "since": FIRST},
    ):
        with pytest.raises(InvalidArgument):
            ek.report(history, **options)
    with pytest.raises(InvalidArgument, match="an Exposure or a History"):
        ek.report(pd.DataFrame())
    with pytest.raises(InvalidArgument, match="An exposure has no past"):
        ek.report(exposure, since=FIRST)
    for source, options in ((history, {"user": 99}), (History(tmp_path / "nothing"), {})):
        with pytest.raises(NotFound):
            ek.report(source, **options)


def test_service_without_people_has_a_report(tmp_path):
    with seen_through(Service()) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        assert history.removal_requests().empty
        assert history.site_outcomes().empty
        for source in (exposure, history):
            report = ek.report(source)
            assert report.finding.startswith("No listing is open, of 0 that were found")
            assert report.to_html()


def test_policy_names_each_script_by_its_hash(page):
    html, running, _ = page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1).replace("&#39;", "'")
    own = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in running]
    assert re.findall(r"'sha256-([^']*)'", policy) == own
    assert len(own) == 3
    for rule in ("default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert rule in policy


ALLOWED = {  # tags and attributes of a page
    *("body", "header", "nav", "main", "article", "h1", "h2", "h3", "dl", "dt", "dd", "span", "html", "details"),
    *("summary", "label", "input", "dfn", "svg", "polygon", "polyline", "progress", "em", "tfoot"),
    *("class", "role", "open", "type", "title", "id", "aria-labelledby", "aria-describedby", "aria-label"),
    *("tabindex", "data-name", "data-report", "data-pick", "data-rows", "aria-sort", "style", "button", "hidden"),
    "data-user",
}  # fmt: skip


@pytest.mark.long
def test_text_from_outside_runs_nothing(tmp_path):
    service = Service()
    service.people = {number: hostile_demo.hostile(number, text) for number, text in enumerate(PAYLOADS, 1)}
    for exposure, history in collected_history(tmp_path, service, days=(0, 1)):
        for options in KINDS.values():
            html, running, data = page_of(ek.report(history, exposure=exposure, **options))
            assert len(running) == 3
            assert not any("<" in one for one in data)
            # Numbers alone, the length of a bar; and headings as CSS strings, whose characters are escaped.
            styles = [unescape(one) for one in re.findall(r'<[^>]* style="([^"]*)"', html)]
            text = r"--h\d+:'(?:[A-Za-z0-9]|\\[0-9a-f]+ )*'"
            assert all(re.fullmatch(rf"--share:\d+%|{text}(;{text})*|", one) for one in styles)
            assert all(map(str.isdecimal, re.findall(r'<[^>]* data-user="([^"]*)"', html)))
            read = kit.Read(html[html.index("<body ") :])
            assert {one for one in read.foreign if one not in ALLOWED and not one.startswith("#")} == set()


def test_page_loads_nothing_and_offers_no_upload(page):
    html, _, data = page
    assert not re.search(r"<(?:link|img|iframe|object|embed|script src)", html)
    assert not re.search(r'src="|@import|url\(', html)
    configs = [chart["config"] for chart in map(json.loads, data) if isinstance(chart, dict)]
    assert len(configs) >= 5
    assert {(one["showSendToCloud"], one["plotlyServerURL"]) for one in configs} == {(False, "")}


def test_every_chart_has_an_alternative_text(fleet, page):
    drawn = [section for section in fleet.sections if section.figure is not None]
    assert len(drawn) >= 5
    for section in drawn:
        assert f'id="{section.key}-chart" role="group"' in page[0]
        assert f'aria-describedby="{section.key}-description"' in page[0]
        assert f">{escaped(describe(section.figure))}</p>" in page[0]
        assert section.finding


def test_page_is_reproducible_and_small_without_charts(history, fleet):
    html = fleet.to_html()
    assert ek.report(History(history.path)).to_html() == html
    assert html.index("drawFirst(places()[0])") < html.index("<table ")  # the first chart comes first
    bare = replace(fleet, sections=())
    html, running, _ = page_of(bare)
    assert len(running) == 1
    assert html.count("sha256-") == 1
    assert len(bare.to_html()) < 50_000


def test_page_contains_each_table_as_csv(fleet, page):
    _, _, data = page
    tables = [section.table for section in fleet.sections if section.table is not None]
    csv_texts = [one for one in map(json.loads, data) if isinstance(one, str)]
    assert [csv.count("\n") - 1 for csv in csv_texts] == [len(table) for table in tables]
    assert csv_texts[0].splitlines()[0] == ",".join(tables[0].columns)


def test_file_is_whole_and_private(now, exposure, tmp_path):
    path = tmp_path / "fleet.html"
    report = ek.report(exposure, path)
    assert path.read_text("utf-8") == report.to_html() == now.to_html()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_unwritable_file_raises_error_and_leaves_nothing(exposure, history, tmp_path):
    (tmp_path / "directory.html").mkdir()
    for path in ("nowhere/fleet.html", "directory.html"):
        with pytest.raises(ConfigurationError, match="cannot be written"):
            ek.report(exposure, tmp_path / path, sections=["by_site"])
    with pytest.raises(InvalidArgument, match=r"must end in \.html, \.htm or \.pdf: .*fleet\.docx"):
        ek.report(exposure, tmp_path / "fleet.docx")
    with pytest.raises(
        InvalidArgument, match=r"path is the name of the file to write, .* this is 'Exposure'"
    ):
        ek.report(exposure, exposure)
    for source, other in ((exposure, exposure), (history, history)):
        with pytest.raises(
            InvalidArgument,
            match=r"exposure must be an Exposure, beside a History: ek\.report\(history, 'report\.html', exposure=exposure\)",
        ):
            ek.report(source, exposure=other)
    assert [one.name for one in tmp_path.iterdir()] == ["directory.html"]


@pytest.mark.parametrize(
    "moment", [("c_return", "open"), ("c_call", "write"), ("c_call", "replace")], ids=" ".join
)
def test_interrupted_write_leaves_nothing(tmp_path, moment):
    file, files = tmp_path / "page.html", []

    def stopping(_, event, called):
        if (event, getattr(called, "__name__", "")) == moment:
            files.extend(tmp_path.iterdir())
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(stopping)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_output(file, b"Juniper")
    finally:
        sys.setprofile(before)
    assert len(files) == 1
    assert list(tmp_path.iterdir()) == []


def test_alert_about_a_page_has_its_own_group():
    service = kit.three_people()
    service.people[1].alerts[1] |= {"opt_out_procedure": ["Write to the webmaster."]}
    with seen_through(service) as exposure:
        html, *_ = page_of(ek.report(exposure, sections=["work_queue"]))
    assert "<h3>Web pages</h3>" in html
    assert "<li>Write to the webmaster.</li>" in html


def test_finished_rows_of_manual_work_are_counted(tmp_path):
    with seen_through(kit.three_people()) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        first = history.steps().groupby(["user_id", "alert_number"]).ngroup() == 0
        history.tick(history.steps()[first], "done")
        work = section_alone("work_queue", history, exposure=exposure)
    assert work.rows == sum(removal.listings for removal in work.removals) + 1
    assert work.points[-1] == "The table below also has 1 done."


def test_texts_are_left_aligned_and_flags_are_words(fleet, now):
    table = pd.DataFrame({"user_id": [1], "site": ["A"], "is_profile_field": [True], "n": [7]})
    section = replace(fleet.sections[0], table=table, rows=1)
    html = replace(fleet, sections=(section,)).to_html()
    assert '<td class="left">A</td><td class="left">yes</td><td>7</td>' in html
    assert re.search(r'<th scope="col" class="left"[^>]*>site</th>', html)
    assert re.search(r'<td class="unbroken left name">[A-Z][a-z]+', now.to_html())


class ReadTables(dict):
    """Tables by name, with the names of those that were read."""

    def __init__(self, *args):
        super().__init__(*args)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self.read |= {name} & {*self}
        return super().get(name, default)


@pytest.mark.parametrize("kind", KINDS)
def test_kind_loads_exactly_what_its_sections_read(exposure, history, kind):
    options = {name: value for name, value in KINDS[kind].items() if name != "kind"}
    source = ReportSource(history, exposure=exposure, **options)
    data = source.load(needed_tables(kind))
    tables = ReadTables(data.tables)
    build_report(kind, replace(data, tables=tables))
    unread = {"failures"} if kind == "fleet" else set()  # of an exposure alone
    assert {*tables} - tables.read == unread
    again = source.load(needed_tables(kind)).tables
    assert all(again[name] is table for name, table in data.tables.items())  # loaded once


def test_sections_query_neither_service_nor_history(tmp_path):
    for exposure, history in collected_history(tmp_path, kit.three_people(), days=(0,)):
        data = ReportSource(history, exposure=exposure).load(needed_tables("fleet"))
        before = build_report("fleet", data).to_json()
    shutil.rmtree(tmp_path / "history")
    assert build_report("fleet", data).to_json() == before


@pytest.mark.parametrize("since", [None, FIRST])
def test_every_question_is_a_section(exposure, history, since):
    names = [name for name, question in QUESTIONS.items() if bool(question.required) == bool(since)]
    report = ek.report(history, exposure=exposure, since=since, sections=names)
    assert [section.key for section in report.sections] == names
    titles = {name: QUESTIONS[name].title for name in QUESTIONS}
    titles |= {"coverage": "What is not known", "by_site": "Sites, most open listings first"}
    assert [section.title for section in report.sections] == [titles[name] for name in names]
    page = report.to_html()
    assert all(f'id="{name}"' in page for name in names)
