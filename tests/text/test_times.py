"""Times: one parser, and every question that takes a time takes all that it reads."""

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
from exposurekit.text.times import end_of_day, format_time, is_day, parse_time

NOW = datetime(2026, 11, 22, 15, 30, tzinfo=UTC)
NOON = datetime(2026, 11, 13, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("time_text", "meant"),
    [
        ("today", end_of_day(date(2026, 11, 22))),
        ("yesterday", end_of_day(date(2026, 11, 21))),
        (" Yesterday ", end_of_day(date(2026, 11, 21))),
        ("0d", end_of_day(date(2026, 11, 22))),
        ("1d", end_of_day(date(2026, 11, 21))),
        ("14d", end_of_day(date(2026, 11, 8))),
        ("14D", end_of_day(date(2026, 11, 8))),
        *((text, end_of_day(date(2026, 11, 8))) for text in ("14 d", "14 days", "2w", "2 Weeks", "14", 14)),
        (np.int64(1), end_of_day(date(2026, 11, 21))),
        ("1 day", end_of_day(date(2026, 11, 21))),
        ("14 days ago", end_of_day(date(2026, 11, 8))),
        ("2 weeks ago", end_of_day(date(2026, 11, 8))),
        ("36h ago", datetime(2026, 11, 21, 3, 30, tzinfo=UTC)),
        ("36 hours", datetime(2026, 11, 21, 3, 30, tzinfo=UTC)),
        ("36h", datetime(2026, 11, 21, 3, 30, tzinfo=UTC)),
        ("2026-11-13", end_of_day(date(2026, 11, 13))),
        (date(2026, 11, 13), end_of_day(date(2026, 11, 13))),
        ("2026-11-13T12:00Z", NOON),
        ("2026-11-13 12:00", NOON),
        (datetime(2026, 11, 13, 12), NOON),  # noqa: DTZ001  without a zone it is UTC
        (datetime(2026, 11, 13, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
        (pd.Timestamp("2026-11-13T12:00"), NOON),
        (pd.Timestamp("2026-11-13T12:00Z"), NOON),
        (np.datetime64("2026-11-13T12:00:00"), NOON),
    ],
)
def test_each_way_to_say_a_time_is_read(time_text, meant):
    assert parse_time(time_text, now=NOW) == meant


def test_what_is_meant_for_another_argument_is_told_apart():
    with pytest.raises(
        InvalidArgument, match=r"This is 'DataFrame': pass it by its name, such as dataframe="
    ):
        parse_time(pd.DataFrame(), now=NOW)


@pytest.mark.parametrize(
    "time_text",
    [
        "soon",
        "14 ago",
        "d",
        "-3d",
        -3,
        "14m",
        "14 months",
        "1.5d",
        1.5,
        20261113,
        True,
        "14dd",
        "2026-13-01",
        "999999d",
        "",
        None,
    ],
)
def test_an_invalid_time_is_refused_with_the_accepted_forms(time_text):
    with pytest.raises(InvalidArgument) as refusal:
        parse_time(time_text, now=NOW)
    for accepted in (
        "14d",
        "2w",
        "36h",
        "today",
        "yesterday",
        "2026-11-13",
        "2026-11-13T12:00Z",
        "date",
        "Timestamp",
    ):
        assert accepted in str(refusal.value)
    assert "without a zone it is UTC" in str(refusal.value)


def test_a_span_before_the_first_of_all_days_is_refused():
    with pytest.raises(InvalidArgument):
        parse_time("99999d", now=datetime(100, 1, 1, tzinfo=UTC))


@given(st.integers(0, 5000))
def test_so_many_days_back_are_that_day(days):
    assert parse_time(f"{days}d", now=NOW) == parse_time(NOW.date() - timedelta(days=days), now=NOW)
    assert parse_time(f"{days}h", now=NOW) == NOW - timedelta(hours=days)
    assert is_day(f"{days}d")
    assert not is_day(f"{days}h")


def test_a_time_in_words_is_a_day_or_an_instant():
    assert format_time(parse_time("14d", now=NOW)) == "2026-11-08"
    assert format_time(parse_time("36h", now=NOW)) == "2026-11-21 03:30 UTC"


DAYS = 20
LAST = datetime(2026, 11, 22, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def daily(tmp_path_factory):
    """A history of twenty days, with a run at nine each day; one record is removed, then one more is listed."""
    service = Service()
    with seen_through(service) as exposure:
        clock = Clock()
        history = History(tmp_path_factory.mktemp("daily") / "history", clock=clock)
        for back in reversed(range(DAYS)):
            records = [a_record(11, "removed" if back < 10 else "discovered")]
            records += [a_record(12)] if back < 5 else []
            service.people[1] = Person(records)
            clock.set(LAST - timedelta(days=back))
            history.collect(exposure)
        yield history


SAME = [
    "14d",
    "2w",
    "2026-11-08",
    date(2026, 11, 8),
    LAST - timedelta(days=14),
    pd.Timestamp(LAST) - pd.Timedelta("14D"),
]
SAME += ["336h", datetime(2026, 11, 8, 9), np.datetime64("2026-11-08T09:00")]  # noqa: DTZ001
QUESTIONS = {
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


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_takes_every_kind_of_time(daily, question):
    answers = [QUESTIONS[question](daily, when) for when in SAME]
    for answer in answers[1:]:
        pd.testing.assert_frame_equal(answer, answers[0])


@pytest.mark.parametrize("question", ["time_to_removal", "survival", "life_table", "forecast"])
def test_what_is_answered_in_days_takes_a_span_of_days(daily, question):
    ask = getattr(daily, question)
    pd.testing.assert_frame_equal(ask(as_of="14d"), ask(as_of="2026-11-08"))
    with pytest.raises(InvalidArgument, match="as_of must be a day"):
        ask(as_of="36h")


def test_two_weeks_of_counts_begin_two_weeks_ago(daily):
    counts, moved = daily.status_over_time(since="14d"), daily.diff("14d")
    assert len(counts) == 15
    open_ = counts["total"] - counts["removed"]
    assert (open_.iloc[0], open_.iloc[-1]) == (moved.why["open"].iloc[0], moved.why["open"].iloc[-1])
    assert daily.status_over_time(since="5d", until="3d")["period"].dt.day.tolist() == [17, 18, 19]


def test_a_diff_says_from_when_until_when_it_tells(daily):
    moved = daily.diff("14d", "yesterday")
    assert (moved.since, moved.until) == (end_of_day(date(2026, 11, 8)), end_of_day(date(2026, 11, 21)))
    assert "2026-11-08" in moved._repr_html_()


def test_a_report_names_the_day_that_was_meant(daily):
    page = report(daily, since="14d")
    assert page.title == "What changed since 2026-11-08"
    assert page.provenance["since"] == "2026-11-08"
    assert report(daily, since=date(2026, 11, 8)).data == page.data


def test_spans_go_back_from_now_instead_of_the_newest_run(daily):
    """Who asks of the last day must not be answered about a day long ago."""
    later = History(daily.path, clock=lambda: LAST + timedelta(days=8))
    with later, pytest.raises(NotFound, match="Nothing was observed after 2026-11-22 09:00 UTC"):
        later.diff("1d")
    with History(daily.path, clock=lambda: LAST + timedelta(days=2)) as later:
        pd.testing.assert_frame_equal(later.diff("16d").why, daily.diff("14d").why)
