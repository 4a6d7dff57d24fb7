"""Who is exposed where, now: each listing is counted once, under the right person, site and status."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import RECORD, TEXT, USER

from exposurekit import analysis, charts, frames
from exposurekit.analysis import by_user, user_by_site
from exposurekit.contract.models import User
from exposurekit.errors import MissingColumns

COLUMNS = ["user_id", "open", "discovered", "pending removal", "removed", "other", "total", "sites"]
NAMED = ["discovered", "pending removal", "removed"]
GONE = ["vanished", "unknown"]
IDS = [0, 1, 2**53, 2**53 + 1, 2**63 - 1]  # the middle ones are one and the same as float64
HOSTILE = ["", " ", "nan", "None", "<b>x</b>", "a\x00", "a", "A", "\u202eevil", "site", "user_id", "x" * 500]


def records(*listings):
    """Listings as (user, site, status), as the frames give them."""
    people = {user: [] for user, _, _ in listings}
    for number, (user, site, status) in enumerate(listings):
        people[user].append(RECORD | {"id": number, "site": site, "status": status})
    users = [
        User.model_validate(USER | {"id": user, "records": listed_records})
        for user, listed_records in people.items()
    ]
    return frames.from_users(users)["records"]


def rows(table):
    return [tuple(row) for row in table.itertuples(index=False)]


def cells(matrix):
    """Person and site -> how many, with the order of both."""
    return [*matrix.index], [*matrix.columns], matrix.to_numpy().tolist()


def bare(table):
    """Without rows, and all of it objects: what somebody may make by hand."""
    return pd.DataFrame(columns=table.columns, dtype="object")


def test_each_person_has_one_row_and_each_status_its_column():
    """Specification, "Record"."""
    table = by_user(
        records((5, "A", "discovered"), (7, "A", "removed"), (7, "B", "removed"), (7, "B", "pending removal"))
    )
    assert table.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in table.dtypes] == ["int64"] * 8
    assert rows(table) == [(7, 1, 0, 1, 2, 0, 3, 2), (5, 1, 1, 0, 0, 0, 1, 1)]


def test_a_status_outside_the_specification_counts_as_other_per_person():
    odd = ["verifying", "Removed", "", "other", "total", "<img src=x onerror=alert(1)>"]
    assert rows(by_user(records(*((1, "A", status) for status in odd)))) == [(1, 6, 0, 0, 0, 6, 6, 1)]


def test_a_listing_without_a_status_is_open_everywhere():
    """Unknown is not zero: the tables, the score, the chart and the definition agree."""
    untold = records((1, "A", "discovered"), (1, "A", "removed"))
    untold["status"] = untold["status"].where(untold["status"] != "discovered")
    assert rows(by_user(untold)) == [(1, 1, 0, 0, 1, 1, 2, 1)]
    assert rows(analysis.by_site(untold)) == [("A", 1, 0, 0, 1, 1, 2, 1)]
    assert cells(user_by_site(untold)) == ([1], ["A"], [[1]])
    assert analysis.is_open(untold["status"]).tolist() == [True, False]
    assert analysis.by_state(untold)["listings"].sum() > 0
    points = analysis.score(untold, pd.DataFrame({"user_id": []}, dtype="int64"))
    assert (points["listings"].item(), points["score"].item()) == (1, analysis.WEIGHTS["other"])
    assert "1 listing is open" in charts.by_site(analysis.by_site(untold)).layout.title.text
    assert analysis.DEFINITIONS["other"].endswith("or without one; counts as open")


def test_people_sort_by_total_then_id():
    table = by_user(records(*((user, "A", "removed") for user in (9, 3, 9, 10, 2))))
    assert table["user_id"].tolist() == [9, 2, 3, 10]
    assert table.index.tolist() == [0, 1, 2, 3]


def test_ids_that_are_one_as_floats_are_two_people():
    table = by_user(records(*((user, "A", "discovered") for user in IDS)))
    assert sorted(table["user_id"].tolist()) == IDS
    assert user_by_site(records(*((user, "A", "discovered") for user in IDS))).index.tolist() == IDS


def test_records_gone_from_a_history_have_their_own_columns():
    table = by_user(
        records((1, "A", "vanished"), (1, "B", "verifying"), (2, "A", "unknown"), (2, "B", "vanished"))
    )
    assert table.columns.tolist() == [*COLUMNS, *GONE]
    assert rows(table) == [(1, 1, 0, 0, 0, 1, 1, 1, 1, 0), (2, 0, 0, 0, 0, 0, 0, 0, 1, 1)]


def test_the_matrix_says_how_many_are_open():
    matrix = user_by_site(
        records((1, "A", "discovered"), (1, "A", "odd"), (2, "B", "pending removal"), (2, "A", "removed"))
    )
    assert cells(matrix) == ([1, 2], ["A", "B"], [[2, 0], [0, 1]])
    assert (str(matrix.index.dtype), str(matrix.columns.dtype)) == ("int64", "str")
    assert (matrix.index.name, matrix.columns.name) == ("user_id", "site")
    assert {str(dtype) for dtype in matrix.dtypes} == {"int64"}


def test_the_matrix_has_everyone_with_a_listing_and_every_site():
    matrix = user_by_site(records((1, "A", "removed"), (2, "B", "vanished"), (3, "C", "unknown")))
    assert cells(matrix) == ([1, 2, 3], ["A", "B", "C"], [[0] * 3] * 3)


def test_the_matrix_sorts_by_open_records_then_id_and_name():
    listings = [(4, "b", "discovered"), (2, "a", "discovered"), (9, "c", "discovered"), (9, "c", "odd")]
    matrix = user_by_site(records(*listings, (1, "d", "removed")))
    assert cells(matrix)[:2] == ([9, 2, 4, 1], ["c", "a", "b", "d"])


@pytest.mark.parametrize("site", HOSTILE)
def test_a_site_in_the_matrix_may_have_any_name(site):
    matrix = user_by_site(records((1, site, "discovered"), (2, site, "removed"), (2, "Beside", "removed")))
    assert cells(matrix) == ([1, 2], [site, "Beside"], [[1, 0], [0, 0]])


def test_no_listings_give_the_same_columns():
    for none in (frames.frame("records", []), bare(records())):
        table, matrix = by_user(none), user_by_site(none)
        assert (table.columns.tolist(), {str(dtype) for dtype in table.dtypes}) == (COLUMNS, {"int64"})
        assert (len(table), matrix.shape) == (0, (0, 0))
        assert (str(matrix.index.dtype), matrix.index.name, matrix.columns.name) == (
            "int64",
            "user_id",
            "site",
        )


@pytest.mark.parametrize("question", [by_user, user_by_site], ids=lambda question: question.__name__)
@pytest.mark.parametrize("missing", [["site"], ["status"], ["user_id"], ["site", "status", "user_id"]])
def test_a_table_that_lacks_columns_is_told_which(question, missing):
    expected = f"^{question.__name__} needs the columns {', '.join(missing)}, and the table lacks them$"
    with pytest.raises(MissingColumns, match=expected) as refusal:
        question(records((1, "A", "removed")).drop(columns=missing))
    assert refusal.value.missing == tuple(missing)


def test_levels_that_no_listing_has_count_nowhere():
    table = records((1, "A", "removed"), (1, "B", "verifying"), (2, "C", "discovered"))
    few = table[table["user_id"] == 1]
    assert rows(by_user(few)) == [(1, 1, 0, 0, 1, 1, 2, 2)]
    assert cells(user_by_site(few)) == ([1], ["B", "A"], [[1, 0]])


@pytest.mark.parametrize("dtype", ["category", "str", "object"])
def test_texts_count_the_same_however_they_are_kept(dtype):
    table = records((1, "A", "removed"), (2, "B", "odd"), (2, "A", "vanished"))
    recast = table.astype({"site": dtype, "status": dtype})
    assert rows(by_user(recast)) == rows(by_user(table))
    assert cells(user_by_site(recast)) == cells(user_by_site(table))


def test_the_index_is_ignored_and_the_table_stays_unchanged():
    table = records((1, "A", "removed"), (2, "B", "x"), (2, "A", "x"))
    before = table.copy(deep=True)
    for other in (table.set_index("record_id"), table.sample(frac=1, random_state=1), table[::-1]):
        assert rows(by_user(other)) == rows(by_user(table))
        assert cells(user_by_site(other)) == cells(user_by_site(table))
    assert by_user(pd.concat([table, table]))["total"].tolist() == [4, 2]
    pd.testing.assert_frame_equal(table, before)


LISTINGS = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.sampled_from(["A", "B", "C"]) | TEXT | st.sampled_from(HOSTILE),
        st.sampled_from([*NAMED, *GONE]) | TEXT,
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(LISTINGS)
def test_every_listing_of_a_person_is_counted_once(listings):
    table = by_user(records(*listings))
    has_gone = any(status in GONE for _, _, status in listings)
    assert table.columns.tolist() == COLUMNS + GONE * has_gone
    expected = []
    for user in {user for user, _, _ in listings}:
        of = [(site, status) for owner, site, status in listings if owner == user]
        listed = [(site, status) for site, status in of if status not in GONE]
        named = [sum(status == name for _, status in listed) for name in NAMED]
        is_open = sum(status != "removed" for _, status in listed)
        counts = [is_open, *named, len(listed) - sum(named), len(listed), len({site for site, _ in listed})]
        gone = [sum(status == name for _, status in of) for name in GONE]
        expected.append((user, *counts, *(gone if has_gone else [])))
    assert rows(table) == sorted(expected, key=lambda row: (-row[1], -row[6], row[0]))


@settings(max_examples=60, deadline=None)
@given(LISTINGS)
def test_every_open_listing_is_in_the_matrix_once(listings):
    matrix = user_by_site(records(*listings))
    still = [(user, site) for user, site, status in listings if status not in ("removed", *GONE)]
    people = sorted(
        {user for user, _, _ in listings}, key=lambda one: (-sum(u == one for u, _ in still), one)
    )
    sites = sorted({site for _, site, _ in listings}, key=lambda one: (-sum(s == one for _, s in still), one))
    expected = [[still.count((user, site)) for site in sites] for user in people]
    assert cells(matrix) == (people, sites, expected)


def test_a_hundred_thousand_listings_are_counted():
    n, chance = 100_000, np.random.default_rng(7)
    table = pd.DataFrame(
        {
            "user_id": chance.integers(0, 20_000, n),
            "site": pd.Categorical.from_codes(chance.integers(0, 50, n), [f"Site {k}" for k in range(50)]),
            "status": pd.Categorical.from_codes(chance.integers(0, 4, n), [*NAMED, "verifying"]),
        }
    )
    people, matrix = by_user(table), user_by_site(table)
    assert int(people["total"].sum()) == n
    assert int(people["sites"].sum()) == len(table.drop_duplicates(["user_id", "site"]))
    assert int(matrix.to_numpy().sum()) == int((table["status"] != "removed").sum())
    some = people["user_id"].iloc[0]
    of = table[table["user_id"] == some]
    assert people["removed"].iloc[0] == (of["status"] == "removed").sum()
