"""Counts over time and by group, compared with a count by hand."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tables import rows

from exposurekit.analysis import counts, status_over_time
from exposurekit.analysis.status_over_time import since_observed
from exposurekit.errors import InvalidArgument

START = datetime(2026, 2, 26, tzinfo=UTC)  # a Thursday, before the end of a month
COUNTS = ["open", "discovered", "pending removal", "removed", "other", "total", "vanished", "unknown"]
INSTANT = "datetime64[us, UTC]"
STATUSES = st.sampled_from(
    ["discovered", "pending removal", "removed", "vanished", "unknown", "verifying", "other", "", "total"]
)
INSTANTS = st.integers(-(10**6), 12 * 86_400).map(lambda s: START + timedelta(seconds=s, microseconds=s % 7))
CHANGES = st.lists(
    st.tuples(
        INSTANTS, st.sampled_from(["A", "b", "a", ""]), st.none() | STATUSES, STATUSES, st.integers(1, 2**40)
    ),
    max_size=15,
)
RUNS = st.lists(st.tuples(INSTANTS, st.integers(0, 9), st.integers(0, 9)), max_size=5)


def transitions(*rows):
    columns = {"at": INSTANT, "site": "str", "prev_status": "str", "status": "str", "n": "int64"}
    return pd.DataFrame(rows, columns=[*columns]).astype(columns)


def runs(*rows):
    columns = {"at": INSTANT, "people": "int64", "unseen": "int64"}
    return pd.DataFrame(rows, columns=[*columns]).astype(columns)


def at(day, hour=0):
    return START + timedelta(days=day, hours=hour)


def begin(instant, every):
    """Return the start of an instant's period."""
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "run": instant,
        "day": midnight,
        "week": midnight - timedelta(days=instant.weekday()),
        "month": midnight.replace(day=1),
    }[every]


def column(status):
    return status if status in COUNTS and status not in ("open", "total") else "other"


def by_hand(changes, loads, *, every, site=None):
    """Yield each period: its start, last observation, counts at its end, and the latest run so far."""
    instants = [change[0] for change in changes] + [run[0] for run in loads]
    for start in sorted({begin(instant, every) for instant in instants}):
        counts = dict.fromkeys(COUNTS, 0)
        until = [change for change in changes if begin(change[0], every) <= start]
        of_site = [change for change in until if site is None or change[1] == site]
        for _, _, before, after, n in of_site:
            counts[column(after)] += n
            if before is not None:
                counts[column(before)] -= n
        counts["total"] = sum(counts[name] for name in COUNTS[1:5])
        counts["open"] = counts["total"] - counts["removed"]
        last = max(instant for instant in instants if begin(instant, every) == start)
        past_runs = [run for run in sorted(loads, key=lambda run: run[0]) if begin(run[0], every) <= start]
        if site is None or of_site:
            yield (start, last, *counts.values()), (past_runs[-1][1:] if past_runs else None)


@settings(max_examples=25)
@given(CHANGES, RUNS, st.sampled_from(["run", "day", "week", "month"]))
def test_counts_over_time_equal_a_count_by_hand(changes, loads, every):
    table = status_over_time(transitions(*changes), runs(*loads), every=every)
    expected = [*by_hand(changes, loads, every=every)]
    assert rows(table[["period", "at", *COUNTS]]) == [row for row, _ in expected]
    people = [None if pd.isna(row[0]) else row for row in rows(table[["people", "unseen"]])]
    assert people == [run_counts for _, run_counts in expected]


@settings(max_examples=25)
@given(CHANGES, RUNS, st.sampled_from(["run", "day", "week", "month"]))
def test_each_group_counts_from_its_first_change(changes, loads, every):
    table = status_over_time(transitions(*changes), runs(*loads), by="site", every=every)
    expected = [
        (*row[:2], site, *row[2:])
        for site in {change[1] for change in changes}
        for row, _ in by_hand(changes, loads, every=every, site=site)
    ]
    assert rows(table) == sorted(expected, key=lambda row: (row[0], row[2]))


@settings(max_examples=15)
@given(CHANGES)
def test_counts_are_the_last_row_of_the_counts_over_time(changes):
    table = counts(transitions(*changes))
    over_time = status_over_time(transitions(*changes), runs(), by="site", every="month")
    last = over_time[over_time["period"] == over_time["period"].max()]
    ranked = last.sort_values(["open", "total", "site"], ascending=[False, False, True])
    expected = ranked[["site", *COUNTS]]
    pd.testing.assert_frame_equal(table, expected.reset_index(drop=True))


def test_a_period_without_a_run_has_no_row():
    changes = transitions((at(0, 9), "A", None, "discovered", 5))
    table = status_over_time(changes, runs((at(0, 9), 3, 0), (at(2, 9), 4, 1), (at(2, 8), 4, 4)))
    assert rows(table[["period", "at", "discovered", "people", "unseen"]]) == [
        (at(0), at(0, 9), 5, 3, 0),
        (at(2), at(2, 9), 5, 4, 1),
    ]


def test_before_the_first_full_run_people_are_not_counted():
    table = status_over_time(transitions((at(0), "A", None, "discovered", 1)), runs((at(1), 3, 0)))
    assert table["people"].tolist() == [pd.NA, 3]
    assert table["unseen"].isna().tolist() == [True, False]


def test_of_simultaneous_runs_the_last_row_counts():
    table = status_over_time(transitions(), runs(*[(at(0), people, 0) for people in range(100)]))
    assert table["people"].tolist() == [99]


def test_total_is_what_the_service_lists():
    changes = transitions(
        (at(0), "A", None, "removed", 1),
        (at(0), "A", None, "verifying", 2),
        (at(0), "A", None, "vanished", 4),
        (at(0), "A", None, "unknown", 8),
    )
    [row] = status_over_time(changes, runs())[COUNTS].to_dict("records")
    assert row == dict(zip(COUNTS, (2, 0, 0, 1, 2, 3, 4, 8), strict=True))


def test_links_have_the_statuses_that_are_passed():
    changes = transitions(
        (at(0), "a.example", None, "listed", 3), (at(1), "a.example", "listed", "vanished", 1)
    )
    table = status_over_time(changes, runs(), statuses=("listed",))
    named = ["period", "at", "open", "listed", "other", "total", "vanished", "unknown"]
    assert table.columns.tolist()[:8] == named
    assert table["listed"].tolist() == [3, 2]
    assert rows(counts(changes, statuses=("listed",))) == [("a.example", 2, 2, 0, 2, 1, 0)]


def test_weeks_begin_on_monday_also_before_1970():
    monday, sunday = (
        datetime(1969, 12, 22, tzinfo=UTC),
        datetime(1969, 12, 28, 23, 59, 59, 999_999, tzinfo=UTC),
    )
    table = status_over_time(transitions(), runs((monday, 1, 0), (sunday, 1, 0)), every="week")
    assert rows(table[["period", "at"]]) == [(monday, sunday)]


def test_instants_of_another_zone_are_converted_to_utc():
    changes = transitions((at(0, 1), "A", None, "discovered", 1))
    elsewhere = changes.assign(at=changes["at"].dt.tz_convert("America/Los_Angeles"))
    pd.testing.assert_frame_equal(status_over_time(elsewhere, runs()), status_over_time(changes, runs()))


def test_the_columns_are_those_declared_whatever_the_tables_hold():
    full = transitions((at(0), "A", None, "discovered", 1)), runs((at(0), 1, 0))
    bare = [pd.DataFrame(columns=table.columns, dtype="object") for table in full]
    for by, group in ((None, []), ("site", ["str"])):
        expected = [INSTANT, INSTANT, *group, *["int64"] * 8, *(["Int64"] * 2 if by is None else [])]
        for tables in (full, (transitions(), runs()), bare):
            table = status_over_time(*tables, by=by)
            assert [str(dtype) for dtype in table.dtypes] == expected
            assert table.index.tolist() == [*range(len(table))]
    for tables in (full[0], bare[0]):
        assert [str(dtype) for dtype in counts(tables).dtypes] == ["str", *["int64"] * 8]


def test_people_are_groups_by_number():
    changes = transitions((at(0), "A", None, "discovered", 1), (at(0), "A", None, "removed", 1))
    table = status_over_time(changes.assign(user_id=[2**62 + 1, 7]), runs(), by="user_id")
    assert table["user_id"].tolist() == [7, 2**62 + 1]
    assert str(table["user_id"].dtype) == "int64"


def test_a_group_without_listed_records_has_a_row():
    changes = transitions((at(0), "A", None, "discovered", 2), (at(1), "A", "discovered", "vanished", 2))
    assert rows(counts(changes)) == [("A", 0, 0, 0, 0, 0, 0, 2, 0)]


def test_many_changes_sum_to_whole_numbers_beyond_what_floats_hold():
    changes = transitions(*[(at(0), "A", None, "discovered", 2**53), (at(1), "A", None, "discovered", 1)])
    table = status_over_time(changes, runs())
    assert table["discovered"].tolist() == [2**53, 2**53 + 1]


def test_a_count_begins_with_the_first_observation_of_anybody():
    listed = pd.DataFrame({"total": 0, "people": [0, 2, 2, 2], "unseen": [0, 2, 1, 2]}).astype("Int64")
    assert since_observed(listed)["unseen"].tolist() == [1, 2]
    found = listed.assign(total=[0, 1, 1, 0])
    assert since_observed(found)["unseen"].tolist() == [2, 1, 2]
    assert len(since_observed(listed.head(2))) == 2


def test_an_unknown_period_is_an_error():
    with pytest.raises(InvalidArgument, match="every: use one of run, day, week, month"):
        status_over_time(transitions(), runs(), every="year")
