"""Times: one parser, and every query with a time accepts all of its forms."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.histories import Clock, Person, Service, a_record, seen_through

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.history import History
from exposurekit.reports import report
from exposurekit.text.times import end_of_day, format_time, is_day, parse_duration, parse_start, parse_time

NOW = datetime(2026, 11, 22, 15, 30, tzinfo=UTC)


TIMES = {
    end_of_day(date(2026, 11, 22)): ["today", "0d"],
    end_of_day(date(2026, 11, 21)): ["yesterday", " Yesterday ", "1d", "1 day", np.int64(1)],
    end_of_day(date(2026, 11, 8)): [
        *("14d", "14D", "14 d", "14 days", "2w", "2 Weeks", "14", 14, "14 days ago", "2 weeks ago"),
    ],
    end_of_day(date(2026, 8, 22)): ["3mo", "3 MO", "3 months", "3 Months ago"],
    end_of_day(date(2025, 11, 22)): ["1y", "1 year", "12mo", "12 months ago"],
    datetime(2026, 11, 21, 3, 30, tzinfo=UTC): ["36h ago", "36 hours", "36h"],
    end_of_day(date(2026, 11, 13)): ["2026-11-13", date(2026, 11, 13)],
    datetime(2026, 11, 13, 12, tzinfo=UTC): [
        *("2026-11-13T12:00Z", "2026-11-13 12:00", np.datetime64("2026-11-13T12:00:00")),
        *(pd.Timestamp("2026-11-13T12:00"), pd.Timestamp("2026-11-13T12:00Z")),
        datetime(2026, 11, 13, 12),  # noqa: DTZ001  without a zone it is UTC
        datetime(2026, 11, 13, 14, tzinfo=timezone(timedelta(hours=2))),
    ],
}


@pytest.mark.parametrize(
    ("value", "expected"), [(value, expected) for expected, values in TIMES.items() for value in values]
)
def test_every_form_of_a_time_is_parsed(value, expected):
    assert parse_time(value, now=NOW) == expected


@pytest.mark.parametrize(
    ("today", "span", "expected"),
    [
        *(
            (date(2026, 5, 31), span, day)
            for span, day in (("1mo", "04-30"), ("3mo", "02-28"), ("5mo", "2025-12-31"))
        ),
        *((date(2028, 2, 29), span, day) for span, day in (("1y", "2027-02-28"), ("4y", "2024-02-29"))),
        *((date(2026, 1, 15), span, day) for span, day in (("1mo", "2025-12-15"), ("13mo", "2024-12-15"))),
    ],
)
def test_months_and_years_are_those_of_the_calendar(today, span, expected):
    at = parse_time(span, now=end_of_day(today))
    assert at == end_of_day(date.fromisoformat(expected if len(expected) > 5 else f"2026-{expected}"))
    assert parse_duration(span, now=end_of_day(today)) == end_of_day(today) - at


def test_changes_since_today_count_from_its_beginning():
    """Nothing changes after the end of today; an instant and any other day are as everywhere."""
    for today in ("today", "0d", "2026-11-22", date(2026, 11, 22)):
        assert parse_start(today, now=NOW) == parse_time("yesterday", now=NOW)
    for start in ("yesterday", "2w", "36h", "2026-11-23", end_of_day(date(2026, 11, 22))):
        assert parse_start(start, now=NOW) == parse_time(start, now=NOW)


def test_value_for_another_argument_gets_a_hint():
    message = r"DataFrame is not a time: pass it by name: dataframe="
    with pytest.raises(InvalidArgument, match=message):
        parse_time(pd.DataFrame(), now=NOW)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "soon",
            "14 ago",
            "d",
            "-3d",
            -3,
            "14m",
            "14 mos",
            "1.5d",
            "9999y",
            "99999 months",
            1.5,
            20261113,
            True,
            "14dd",
        ),
        *("2026-13-01", "999999d", "", None),
    ],
)
def test_invalid_time_is_refused_with_the_accepted_forms(value):
    with pytest.raises(InvalidArgument) as refusal:
        parse_time(value, now=NOW)
    forms = (
        "14d",
        "2w",
        "3mo",
        "1y",
        "36h",
        "today",
        "yesterday",
        "2026-11-13",
        "2026-11-13T12:00Z",
        "date",
        "Timestamp",
    )
    assert [form for form in forms if form not in str(refusal.value)] == []
    assert "without a zone it is UTC" in str(refusal.value)


def test_span_before_the_first_day_is_refused():
    with pytest.raises(InvalidArgument):
        parse_time("99999d", now=datetime(100, 1, 1, tzinfo=UTC))


@given(st.integers(0, 5000))
def test_days_and_hours_ago_are_subtracted(days):
    assert parse_time(f"{days}d", now=NOW) == parse_time(NOW.date() - timedelta(days=days), now=NOW)
    assert parse_time(f"{days}h", now=NOW) == NOW - timedelta(hours=days)
    assert is_day(f"{days}d")
    assert not is_day(f"{days}h")


def test_formatted_time_is_a_day_or_an_instant():
    assert format_time(parse_time("14d", now=NOW)) == "2026-11-08"
    assert format_time(parse_time("36h", now=NOW)) == "2026-11-21 03:30 UTC"


LAST = datetime(2026, 11, 22, 9, tzinfo=UTC)


DAYS_AGO = (19, 14, 13, 9, 5, 4, 3, 1, 0)


@pytest.fixture(scope="module")
def daily(tmp_path_factory):
    """A history with runs at nine on some of twenty days; one record is removed, then one more is listed."""
    service = Service()
    with seen_through(service) as exposure:
        clock = Clock()
        history = History(tmp_path_factory.mktemp("daily") / "history", clock=clock)
        for days in DAYS_AGO:
            records = [a_record(11, "removed" if days < 10 else "discovered")]
            records += [a_record(12)] if days < 5 else []
            service.people[1] = Person(records)
            clock.set(LAST - timedelta(days=days))
            history.collect(exposure)
        yield history


SAME = ["14d", date(2026, 11, 8), pd.Timestamp(LAST) - pd.Timedelta("14D")]
QUERIES = {
    "diff": lambda history, when: history.diff(when).why,
    "score_changes": lambda history, when: history.score_changes(when),
    "records": lambda history, when: history.records(as_of=when),
    "links": lambda history, when: history.links(as_of=when),
    "alerts": lambda history, when: history.alerts(as_of=when),
    "by_site": lambda history, when: history.by_site(as_of=when),
    "score": lambda history, when: history.score(as_of=when),
    "work_queue": lambda history, when: history.work_queue(as_of=when),
    "relistings": lambda history, when: history.relistings(as_of=when),
    "stale": lambda history, when: history.stale(since=when),
    "status_over_time since": lambda history, when: history.status_over_time(since=when),
    "status_over_time until": lambda history, when: history.status_over_time(until=when),
}


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_accepts_every_kind_of_time(daily, query):
    results = [QUERIES[query](daily, when) for when in SAME]
    for result in results[1:]:
        pd.testing.assert_frame_equal(result, results[0])


@pytest.mark.parametrize("query", ["time_to_removal", "survival", "life_table", "forecast"])
def test_query_in_days_accepts_only_days(daily, query):
    run = getattr(daily, query)
    pd.testing.assert_frame_equal(run(as_of="14d"), run(as_of="2026-11-08"))
    with pytest.raises(InvalidArgument, match="as_of must be a day"):
        run(as_of="36h")


def test_two_weeks_of_counts_begin_two_weeks_ago(daily):
    counts, moved = daily.status_over_time(since="14d"), daily.diff("14d")
    assert counts["period"].iloc[0].day == 8
    open_ = counts["total"] - counts["removed"]
    assert (open_.iloc[0], open_.iloc[-1]) == (moved.why["open"].iloc[0], moved.why["open"].iloc[-1])
    assert daily.status_over_time(since="5d", until="3d")["period"].dt.day.tolist() == [17, 18, 19]


def test_diff_states_its_period(daily):
    moved = daily.diff("14d", "yesterday")
    assert (moved.since, moved.until) == (end_of_day(date(2026, 11, 8)), end_of_day(date(2026, 11, 21)))
    assert "2026-11-08" in moved._repr_html_()


def test_report_states_its_first_day(daily):
    page = report(daily, since="14d")
    assert page.title == "What changed since 2026-11-08"
    assert page.provenance["since"] == "2026-11-08"
    assert report(daily, since=date(2026, 11, 8)).data == page.data


def test_spans_are_relative_to_now(daily):
    later = History(daily.path, clock=lambda: LAST + timedelta(days=8))
    with later, pytest.raises(NotFound, match="Nothing was observed after 2026-11-22 09:00 UTC"):
        later.diff("1d")
    with History(daily.path, clock=lambda: LAST + timedelta(days=2)) as later:
        pd.testing.assert_frame_equal(later.diff("16d").why, daily.diff("14d").why)
