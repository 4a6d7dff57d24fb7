"""What changed between two instants, and why the total moved: it always adds up."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.analysis import changes, diff, diff_by_site, diff_counts
from exposurekit.errors import InvalidArgument, MissingColumns

START = datetime(2026, 3, 1, tzinfo=UTC)
CAUSES = [
    *("open before", "new", "came into view", "listed again"),
    *("removed", "vanished", "out of view", "open after"),
]
WHAT = [
    *("new", "came into view", "listed again", "removal failed", "status changed"),
    *("removed", "vanished", "out of view", "unchanged"),
]
OPEN = ["discovered", "pending removal", "verifying", "listed", ""]
STATUSES = st.sampled_from([*OPEN, "removed", "vanished", "unknown"])
MOVES = st.lists(
    st.tuples(st.integers(0, 6), st.none() | STATUSES, STATUSES, st.booleans(), st.integers(1, 99)),
    max_size=15,
)


def transitions(*rows):
    dtypes = {"prev_status": "str", "status": "str", "left_censored": "bool", "n": "int64"}
    table = pd.DataFrame(rows, columns=["at", *dtypes]).astype(dtypes)
    return table.assign(at=pd.to_datetime([START + timedelta(days=row[0]) for row in rows], utc=True))


def things(*rows):
    dtypes = {"before": "str", "after": "str", "left_censored": "bool"}
    return pd.DataFrame(rows, columns=[*dtypes]).astype(dtypes)


def moved(*rows, a=START, b=START + timedelta(days=9), before=100):
    table = changes(transitions(*rows), a, b, open_before=before)
    return {row.cause: row.n for row in table.itertuples() if row.n and row.cause != "open before"}


@pytest.mark.parametrize(
    ("before", "after", "left_censored", "cause"),
    [
        (None, "discovered", False, {"new": 3}),
        (None, "discovered", True, {"came into view": 3}),
        ("unknown", "discovered", False, {"came into view": 3}),
        ("unknown", "discovered", True, {"came into view": 3}),
        ("removed", "verifying", False, {"listed again": 3}),
        ("vanished", "discovered", True, {"listed again": 3}),
        ("pending removal", "removed", True, {"removed": -3}),
        ("listed", "vanished", False, {"vanished": -3}),
        ("discovered", "unknown", False, {"out of view": -3}),
        ("discovered", "pending removal", False, {}),
        (None, "removed", True, {}),
        (None, "removed", False, {}),
        ("vanished", "removed", False, {}),
        ("removed", "unknown", False, {}),
        ("unknown", "removed", False, {}),
    ],
)
def test_each_change_has_its_cause(before, after, left_censored, cause):
    assert moved((1, before, after, left_censored, 3)) == cause


def test_the_first_instant_is_left_out_and_the_last_is_not():
    rows = [(day, None, "discovered", False, 10**day) for day in range(4)]
    span = {"a": START + timedelta(days=1), "b": START + timedelta(days=3)}
    assert moved(*rows, **span) == {"new": 1100}
    naive = {name: instant.replace(tzinfo=None) for name, instant in span.items()}
    assert moved(*rows, **naive) == {"new": 1100}
    assert moved(*rows, a=START, b=START) == {}


@settings(deadline=None)
@given(MOVES, st.integers(0, 6), st.integers(0, 6), st.integers(0, 10**6))
def test_it_always_adds_up(moves, a, days, before):
    b = a + days
    table = changes(
        transitions(*moves), START + timedelta(days=a), START + timedelta(days=b), open_before=before
    )
    assert table["cause"].tolist() == CAUSES
    assert [str(dtype) for dtype in table.dtypes] == ["str", "int64", "int64"]
    assert table["open"].tolist() == table["n"].cumsum().tolist()
    assert table["open"].iloc[0] == before
    after = before
    for day, previous, status, _, n in moves:
        if a < day <= b:
            after += n * ((status in OPEN) - (previous in OPEN))
    assert table["open"].iloc[-1] == after
    assert (table["n"].iloc[1:4] >= 0).all()
    assert (table["n"].iloc[4:7] <= 0).all()


def test_no_changes_move_nothing_whatever_their_columns_hold():
    for none in (transitions(), pd.DataFrame(columns=transitions().columns, dtype="object")):
        table = changes(none, START, START, open_before=7)
        assert table["n"].tolist() == [7, 0, 0, 0, 0, 0, 0, 0]
        assert table["open"].tolist() == [7] * 8
        assert [str(dtype) for dtype in table.dtypes] == ["str", "int64", "int64"]


def test_time_does_not_run_back():
    with pytest.raises(InvalidArgument, match="b is before a"):
        changes(transitions(), START, START - timedelta(seconds=1), open_before=0)


@pytest.mark.parametrize(
    ("before", "after", "left_censored", "what"),
    [
        ("discovered", "discovered", True, "unchanged"),
        ("unknown", "unknown", False, "unchanged"),
        ("removed", "removed", False, "unchanged"),
        ("discovered", "unknown", False, "out of view"),
        ("removed", "unknown", False, "out of view"),
        (None, "unknown", True, "out of view"),
        (None, "discovered", True, "came into view"),
        (None, "removed", True, "came into view"),
        ("unknown", "discovered", False, "came into view"),
        ("unknown", "removed", False, "came into view"),
        ("unknown", "vanished", False, "came into view"),
        ("discovered", "removed", True, "removed"),
        ("vanished", "removed", False, "removed"),
        (None, "removed", False, "removed"),
        ("discovered", "vanished", True, "vanished"),
        ("removed", "vanished", False, "vanished"),
        (None, "vanished", False, "vanished"),
        (None, "verifying", False, "new"),
        ("removed", "discovered", False, "listed again"),
        ("vanished", "pending removal", True, "listed again"),
        ("discovered", "pending removal", True, "status changed"),
        ("pending removal", "discovered", False, "removal failed"),
        ("", "listed", False, "status changed"),
    ],
)
def test_each_thing_has_come_to_one_end(before, after, left_censored, what):
    table = diff(things((before, after, left_censored)))
    assert table["what"].tolist() == [what]


def test_a_first_look_is_never_new_and_never_a_removal():
    baseline = things(*[(None, status, True) for status in (*OPEN, "removed", "vanished")])
    assert set(diff(baseline)["what"]) == {"came into view"}


def test_whatever_says_which_thing_it_is_stays_beside_it():
    table = things(("discovered", "removed", False), (None, "discovered", False))
    marked = table.assign(kind="record", user_id=[1, 2], key=[3, 4]).set_index(pd.Index([9, 9]))
    result = diff(marked)
    pd.testing.assert_frame_equal(result.drop(columns="what"), marked)
    assert result["what"].tolist() == ["removed", "new"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | STATUSES, STATUSES, st.booleans()), max_size=12), st.integers(0, 10**9))
def test_each_thing_is_counted_once(rows, unchanged):
    result = diff(things(*rows))
    table = diff_counts(result, unchanged)
    assert table["what"].tolist() == WHAT
    assert [str(dtype) for dtype in table.dtypes] == ["str", "int64"]
    counted = Counter(result["what"]) + Counter(unchanged=unchanged)
    assert dict(zip(table["what"], table["n"], strict=True)) == {what: counted[what] for what in WHAT}
    assert str(result["what"].dtype) == "str"


@settings(deadline=None)
@given(st.lists(st.tuples(st.none() | STATUSES, STATUSES, st.booleans()), max_size=12))
def test_what_the_total_lost_and_won_is_told_by_both_alike(rows):
    """Where each thing changed once, the waterfall's causes are the ends that the things came to."""
    once = [row for row in rows if (row[0] in OPEN) != (row[1] in OPEN)]
    told = Counter(diff(things(*once))["what"])
    signs = dict.fromkeys(WHAT[:3], 1) | dict.fromkeys(WHAT[5:8], -1)
    found = moved(*[(1, before, after, censored, 1) for before, after, censored in once])
    assert found == {what: signs[what] * n for what, n in told.items()}


def test_tables_that_lack_columns_are_told():
    with pytest.raises(MissingColumns, match="changes needs the columns left_censored,"):
        changes(transitions().drop(columns="left_censored"), START, START, open_before=0)
    with pytest.raises(MissingColumns, match="diff needs the columns before, after,"):
        diff(pd.DataFrame({"left_censored": []}))
    with pytest.raises(MissingColumns, match="diff_counts needs the columns what,"):
        diff_counts(things(), 0)


def test_by_site_adds_up_to_what_is_open_at_both_ends():
    changed = things(
        (None, "discovered", False),
        ("pending removal", "discovered", False),
        ("discovered", "removed", False),
    ).assign(site=["Near", "Near", "Far"])
    open_after = pd.DataFrame({"site": ["Near", "Quiet"], "open": [5, 2]})
    table = diff_by_site(diff(changed), open_after).set_index("site")
    assert table.index.tolist() == ["Near", "Quiet", "Far"]
    assert table["open_before"].tolist() == [4, 2, 1]
    assert table["open_after"].tolist() == [5, 2, 0]
    assert table["change"].tolist() == [1, 0, -1]
    assert table.loc["Near", ["new", "removal failed", "removed"]].tolist() == [1, 1, 0]
    assert set(map(str, table.dtypes)) == {"int64"}
