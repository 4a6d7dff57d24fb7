"""Relistings, compared with a walk through each record's changes; and people whose last complete load is old."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tables import shape

from exposurekit.analysis import failed_removals, relistings, stale

START = datetime(2026, 3, 1, tzinfo=UTC)
INSTANT = "datetime64[us, UTC]"
CHANGES = {
    "kind": "str",
    "user_id": "int64",
    "key": "int64",
    "site": "str",
    "seen_at": INSTANT,
    "status": "str",
    "prev_status": "str",
    "episode": "int32",
}
RELISTINGS = {
    "user_id": "int64",
    "record_id": "Int64",
    "site": "str",
    "removed_at": INSTANT,
    "previous_status": "str",
    "listed_again_at": INSTANT,
    "gone_days": "float64",
    "gone_days_low": "float64",
    "gone_days_high": "float64",
    "episode": "int64",
    "key": "int64",
}
CLOSED = ("removed", "vanished")
# What may follow what; None is before the first.
FOLLOWS = {
    None: ["discovered", "verifying", "removed"],
    "discovered": ["verifying", "removed", "vanished", "unknown"],
    "verifying": ["discovered", "removed", "vanished", "unknown"],
    "removed": ["discovered", "unknown"],
    "vanished": ["discovered", "removed"],
    "unknown": ["discovered", "removed"],
}
# One thing: which of its next statuses it takes, and how many days later (some at the same instant).
WALKS = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=9), max_size=4)


def day(days):
    return START + timedelta(days=days)


def changes(*rows):
    return pd.DataFrame(rows, columns=[*CHANGES]).astype(CHANGES)


def walked(key, *steps, kind="record"):
    """One thing's changes, with the episodes that a history gives them: (status, day) each."""
    previous, episode, open_since = None, 0, None
    for status, days in steps:
        if status in (*CLOSED, "unknown"):
            open_since = None if status in CLOSED else open_since
        elif open_since is None:
            episode, open_since = episode + 1, days
        yield (kind, key % 3, key, f"site {key}", day(days), status, previous, episode)
        previous = status


def by_hand(steps):
    """When a thing was gone, what it was then, and when it was listed again."""
    gone, was = None, None
    for status, days in steps:
        if status in CLOSED:
            gone = days if gone is None else gone
            was = "removed" if "removed" in (status, was) else "vanished"
        elif status != "unknown":
            if gone is not None:
                yield day(gone), was, day(days), float(days - gone)
            gone = was = None


def steps_of(walk):
    status, days, steps = None, 0, []
    for choice, later in walk:
        status = FOLLOWS[status][choice % len(FOLLOWS[status])]
        days += later
        steps.append((status, days))
    return steps


@settings(max_examples=60)
@given(WALKS, st.randoms(use_true_random=False))
def test_relistings_equal_a_walk_through_each_record(walks, random):
    things = {key: steps_of(walk) for key, walk in enumerate(walks)}
    rows = [row for key, steps in things.items() for row in walked(key, *steps)]
    random.shuffle(rows)
    table = relistings(changes(*rows))
    assert shape(table) == RELISTINGS
    returns = table[["record_id", "removed_at", "previous_status", "listed_again_at", "gone_days"]]
    expected = [(key, *again) for key, steps in things.items() for again in by_hand(steps)]
    assert sorted(returns.itertuples(index=False, name=None)) == sorted(expected)
    assert table["listed_again_at"].is_monotonic_increasing


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("discovered", 0), ("vanished", 5), ("removed", 9), ("discovered", 20)], [("removed", 15, 2)]),
        ([("discovered", 0), ("unknown", 3), ("discovered", 5)], []),  # only back in scope
        ([("discovered", 0), ("removed", 2), ("unknown", 3), ("discovered", 8)], [("removed", 6, 2)]),
        ([("removed", 1), ("discovered", 2)], [("removed", 1, 1)]),
        (
            [("discovered", 0), ("removed", 1), ("verifying", 2), ("vanished", 5), ("discovered", 9)],
            [("removed", 1, 2), ("vanished", 4, 3)],
        ),
    ],
)
def test_each_return_after_a_removal_is_a_relisting(steps, expected):
    table = relistings(changes(*walked(4, *steps)))
    columns = ["previous_status", "gone_days", "episode"]
    assert [*table[columns].itertuples(index=False, name=None)] == expected
    assert {*table[["user_id", "record_id", "key"]].itertuples(index=False, name=None)} <= {(1, 4, 4)}


def test_changes_have_the_id_where_it_is_not_the_key():
    steps = [("discovered", 0), ("removed", 1), ("discovered", 2)]
    log = changes(*walked(4, *steps), *walked(7, *steps))
    ids = pd.Series([2**62 + 1] * 3 + [None] * 3, dtype="Int64")
    table = relistings(log.assign(record_id=ids))
    assert table["key"].tolist() == [4, 7]
    assert [*table["record_id"]] == [2**62 + 1, pd.NA]
    assert relistings(log)["record_id"].tolist() == [4, 7]


def test_days_gone_lie_between_the_observations_around_them():
    steps = [("discovered", 0), ("vanished", 5), ("removed", 9), ("discovered", 20)]
    log = changes(*walked(4, *steps))
    columns = ["gone_days_low", "gone_days", "gone_days_high"]
    [row] = relistings(log.assign(not_before=[None, day(3), day(5), day(16)]))[columns].to_numpy().tolist()
    assert row == [11, 15, 17]
    [row] = relistings(log.assign(not_before=[None, None, day(5), day(4)]))[columns].to_numpy().tolist()
    assert (row[:2], row[2] == row[2]) == ([0, 15], False)
    assert relistings(log)[["gone_days_low", "gone_days_high"]].isna().all(axis=None)


def test_links_and_alerts_are_left_out():
    steps = [("listed", 0), ("vanished", 1), ("listed", 2)]
    assert relistings(changes(*walked(1, *steps, kind="link"), *walked(1, *steps, kind="alert"))).empty


@pytest.mark.parametrize("was", CLOSED)
def test_a_removal_before_the_changes_has_no_instant(was):
    [*_, last] = walked(1, ("discovered", 0), (was, 5), ("discovered", 9))
    [row] = relistings(changes(last)).to_dict("records")
    assert row["removed_at"] is pd.NaT
    assert pd.isna(row["gone_days"])
    assert (row["previous_status"], row["listed_again_at"], row["episode"]) == (was, day(9), 2)


def test_two_people_with_the_same_listing_are_two():
    rows = [*walked(3, ("discovered", 0), ("removed", 1))]
    other = ("record", 2, 3, "site 3", day(2), "discovered", None, 1)
    assert relistings(changes(*rows, other)).empty


def people(*rows):
    dtypes = {"user_id": "int64", "listed": "bool", "last_complete_at": INSTANT}
    dtypes |= {"outcome": "str", "reason": "str"}
    return pd.DataFrame(rows, columns=[*dtypes]).astype(dtypes)


def test_people_without_a_complete_load_sort_by_days():
    table = people(
        (1, True, day(4), "failed", "late"),
        (2, True, day(5), "whole", None),
        (3, True, None, "partial", "a scan is running"),
        (4, False, day(0), "unlisted", None),
        (5, True, day(2) + timedelta(hours=12), "failed", "no answer"),
        (6, True, day(6), "whole", None),
    )
    overdue = stale(table.set_index(pd.Index([7] * 6)), since=day(5))
    assert overdue.columns.tolist() == ["user_id", "last_complete_at", "days", "outcome", "reason"]
    assert overdue["user_id"].tolist() == [3, 5, 1]
    assert overdue["days"].fillna(-1).tolist() == [-1, 2.5, 1.0]
    assert overdue["reason"].tolist() == ["a scan is running", "no answer", "late"]
    assert stale(table, since=day(5), until=day(8))["days"].fillna(-1).tolist() == [-1, 5.5, 4.0]
    assert overdue.index.tolist() == [0, 1, 2]


def test_a_load_after_now_counts_unless_later_ones_failed():
    """A clock that was ahead dated it."""
    table = people(
        (1, True, day(400), "whole", None),
        (2, True, day(400), "late", None),
        (3, True, day(4), "failed", None),
        (4, True, None, "failed", None),
    )
    overdue = stale(table, since=day(5), until=day(8))
    assert overdue["user_id"].tolist() == [4, 2, 3]
    assert overdue["days"].fillna(-1).tolist() == [-1, -1, 4.0]


def a_failed_removals_table():
    """One site with a request that failed, one that was not carried out within 14 days, and one that was listed again twice."""
    transitions = pd.DataFrame(
        {
            "site": ["Wall", "Wall", "Wall", "Wall", "Door"],
            "prev_status": [None, "discovered", "pending removal", "unknown", "pending removal"],
            "status": ["pending removal", "pending removal", "discovered", "pending removal", "removed"],
            "n": [2, 3, 1, 9, 4],
        }
    )
    changed_at = [START - timedelta(days=14), START - timedelta(days=13), START - timedelta(days=40)]
    records = pd.DataFrame({"site": "Wall", "status": ["pending removal"] * 2 + ["discovered"]})
    relistings = pd.DataFrame(
        {"site": "Door", "user_id": [1, 1, 2], "key": [5, 5, 6], "status": ["discovered"] * 2 + ["removed"]}
    )
    return failed_removals(
        transitions, records.assign(changed_at=changed_at), relistings, at=START
    ).set_index("site")


def test_requests_that_failed_or_were_not_carried_out_are_counted():
    wall = a_failed_removals_table().loc["Wall"]
    assert wall.to_dict() == {
        "requested": 5,
        "failed": 1,
        "without_effect": 1,
        "relistings": 0,
        "listed_again": 0,
        "open_again": 0,
    }


def test_listing_that_is_relisted_twice_counts_once():
    door = a_failed_removals_table().loc["Door"]
    assert (door["relistings"], door["listed_again"], door["open_again"]) == (3, 2, 1)
