"""Changes between two instants, and their causes, which add up."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import product

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.analysis import changes, diff, diff_by_site, diff_counts
from exposurekit.errors import InvalidArgument

START = datetime(2026, 3, 1, tzinfo=UTC)
CAUSES = [
    *("open before", "new", "entered scope", "listed again"),
    *("removed", "vanished", "left scope", "open after"),
]
WHAT = [
    *("new", "entered scope", "listed again", "removal failed", "status changed"),
    *("removed", "vanished", "left scope"),
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


def test_the_range_excludes_its_start_and_includes_its_end():
    rows = [(day, None, "discovered", False, 10**day) for day in range(4)]
    span = {"a": START + timedelta(days=1), "b": START + timedelta(days=3)}
    assert moved(*rows, **span) == {"new": 1100}
    naive = {name: instant.replace(tzinfo=None) for name, instant in span.items()}
    assert moved(*rows, **naive) == {"new": 1100}
    assert moved(*rows, a=START, b=START) == {}


@settings(max_examples=30)
@given(MOVES, st.integers(0, 6), st.integers(0, 6), st.integers(0, 10**6))
def test_changes_always_add_up(moves, a, days, before):
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
    n = table.set_index("cause")["n"]
    assert (n[["new", "entered scope", "listed again"]] >= 0).all()
    assert (n[["removed", "left scope"]] <= 0).all()
    assert n["vanished"] <= -n["removed"]  # what vanished before, and is verified now


def test_an_end_before_the_start_is_an_error():
    with pytest.raises(InvalidArgument, match="b is before a"):
        changes(transitions(), START, START - timedelta(seconds=1), open_before=0)


@pytest.mark.parametrize(
    ("before", "after", "left_censored", "what"),
    [
        ("discovered", "discovered", True, []),
        ("unknown", "unknown", False, []),
        ("removed", "removed", False, []),
        ("discovered", "unknown", False, ["left scope"]),
        ("removed", "unknown", False, []),
        (None, "unknown", True, []),
        (None, "discovered", True, ["entered scope"]),
        (None, "removed", True, []),
        ("unknown", "discovered", False, ["entered scope"]),
        ("unknown", "removed", False, []),
        ("unknown", "vanished", False, []),
        ("discovered", "removed", True, ["removed"]),
        ("vanished", "removed", False, ["removed"]),
        (None, "removed", False, ["new", "removed"]),
        ("discovered", "vanished", True, ["vanished"]),
        ("removed", "vanished", False, []),
        (None, "vanished", False, ["new", "vanished"]),
        (None, "verifying", False, ["new"]),
        ("removed", "discovered", False, ["listed again"]),
        ("vanished", "pending removal", True, ["listed again"]),
        ("discovered", "pending removal", True, ["status changed"]),
        ("pending removal", "discovered", False, ["removal failed"]),
        ("", "listed", False, ["status changed"]),
    ],
)
def test_each_change_is_classified(before, after, left_censored, what):
    table = diff(things((before, after, left_censored)))
    assert table["what"].tolist() == what


def test_a_first_load_is_never_new_and_never_a_removal():
    baseline = things(*[(None, status, True) for status in (*OPEN, "removed", "vanished")])
    assert diff(baseline)["what"].tolist() == ["entered scope"] * len(OPEN)


def test_the_other_columns_are_passed_on():
    table = things(("discovered", "removed", False), (None, "discovered", False))
    marked = table.assign(kind="record", user_id=[1, 2], key=[3, 4]).set_index(pd.Index([9, 9]))
    result = diff(marked)
    pd.testing.assert_frame_equal(result.drop(columns="what"), marked)
    assert result["what"].tolist() == ["removed", "new"]


@settings(max_examples=30)
@given(st.lists(st.tuples(st.none() | STATUSES, STATUSES, st.booleans()), max_size=12), st.integers(0, 10**9))
def test_counts_are_the_rows_of_diff(rows, still_open):
    result = diff(things(*rows))
    table = diff_counts(result, still_open)
    assert table["what"].tolist() == [*WHAT, "still open"]
    assert [str(dtype) for dtype in table.dtypes] == ["str", "int64"]
    verified = (result["what"] == "removed") & (result["before"] == "vanished")
    counted = Counter(result["what"]) + Counter({"still open": still_open})
    counted["vanished"] -= int(verified.sum())
    assert dict(zip(table["what"], table["n"], strict=True)) == {
        what: counted.get(what, 0) for what in table["what"]
    }
    assert str(result["what"].dtype) == "str"


def test_changes_and_diff_agree_on_gains_and_losses():
    signs = dict.fromkeys(WHAT[:3], 1) | dict.fromkeys(WHAT[5:], -1)
    statuses = ["discovered", "pending removal", "removed", "vanished", "unknown"]
    for before, after, censored in product((None, *statuses), statuses, (True, False)):
        counts = diff_counts(diff(things((before, after, censored))), 0)
        n = dict(zip(counts["what"], counts["n"], strict=True))
        expected = {what: 3 * sign * n[what] for what, sign in signs.items() if n[what]}
        assert moved((1, before, after, censored, 3)) == expected


def test_a_removal_verified_after_vanishing_is_a_removal():
    """Within one period the listing was removed; in a later one it has not vanished any more."""
    steps = [("discovered", "vanished", False), ("vanished", "removed", False)]
    for rows, vanished, n_open in ((steps, 0, 1), (steps[1:], -1, 0)):
        table = diff(things(*rows).assign(site="Near"))
        counts = diff_counts(table, 0).set_index("what")["n"]
        [site] = diff_by_site(table, pd.DataFrame({"site": ["Near"], "open": [n_open]})).to_dict("records")
        assert (counts["removed"], counts["vanished"]) == (site["removed"], site["vanished"]) == (1, vanished)
        assert site["open_before"] + site["change"] == site["open_after"] == 0


def test_diff_by_site_counts_records_without_a_site():
    changed = things((None, "discovered", False), ("discovered", "removed", False)).assign(
        site=[None, "Near"]
    )
    table = diff_by_site(diff(changed), pd.DataFrame({"site": [None, "Near"], "open": [2, 1]}))
    assert table[["open_before", "new", "removed", "open_after"]].to_numpy().tolist() == [
        [2, 1, 0, 3],
        [1, 0, 1, 0],
    ]
    assert table["site"].isna().tolist() == [True, False]


def test_diff_by_site_adds_up_to_open_records_at_ends():
    changed = things(
        (None, "discovered", False),
        ("pending removal", "discovered", False),
        ("discovered", "removed", False),
    ).assign(site=["Near", "Near", "Far"])
    open_before = pd.DataFrame({"site": ["Near", "Quiet", "Far"], "open": [4, 2, 1]})
    table = diff_by_site(diff(changed), open_before).set_index("site")
    assert table.index.tolist() == ["Near", "Quiet", "Far"]
    assert table["open_before"].tolist() == [4, 2, 1]
    assert table["open_after"].tolist() == [5, 2, 0]
    assert table["change"].tolist() == [1, 0, -1]
    assert table.loc["Near", ["new", "removal failed", "removed"]].tolist() == [1, 1, 0]
    assert set(map(str, table.dtypes)) == {"int64"}
    assert table.columns.name is None
