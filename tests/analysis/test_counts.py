"""Counts by site and by person: each listing counts once, under the right person, site and status."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import RECORD, TEXT, USER
from support.tables import rows, shape

from exposurekit import analysis, charts, frames
from exposurekit.analysis import by_site, by_user, user_by_site
from exposurekit.contract.models import User
from exposurekit.errors import InvalidArgument

NAMED = ["discovered", "pending removal", "removed"]
GONE = ["vanished", "unknown"]
COUNTS = ["open", *NAMED, "other", "total"]
IDS = [0, 1, 2**53, 2**53 + 1, 2**63 - 1]  # the middle ones are equal as float64
HOSTILE = [
    *("", " ", "0", "nan", "None", "a", "A", "a\x00", "x" * 500, "<b>x</b>", "\u202eevil", "Straße", "🎈"),
    *("site", "user_id", "total", "status", "other", "people", "__index__", "discovered"),
]


def records(*listings):
    """Listings as (user, site, status)."""
    table = pd.DataFrame(listings, columns=["user_id", "site", "status"])
    return table.astype({"user_id": "int64", "site": "category", "status": "category"})


def cells(matrix):
    """The people, the sites, and the number of open records of each."""
    return [*matrix.index], [*matrix.columns], matrix.to_numpy().tolist()


BY_SITE = {"site": "str", **dict.fromkeys([*COUNTS, "people"], "int64")}
BY_USER = dict.fromkeys(["user_id", *COUNTS, "sites"], "int64")


def test_sites_and_people_have_rows_and_statuses_columns():
    """Specification, "Record"."""
    listings = {5: [("A", "discovered")], 7: [("A", "removed"), ("B", "removed"), ("B", "pending removal")]}
    users = []
    for user, listed in listings.items():
        of = [RECORD | {"id": n, "site": site, "status": status} for n, (site, status) in enumerate(listed)]
        users.append(User.model_validate(USER | {"id": user, "records": of}))
    table = frames.from_users(users)["records"]
    assert (shape(by_site(table)), shape(by_user(table))) == (BY_SITE, BY_USER)
    assert rows(by_site(table)) == [("A", 1, 1, 0, 1, 0, 2, 2), ("B", 1, 0, 1, 1, 0, 2, 1)]
    assert rows(by_user(table)) == [(7, 1, 0, 1, 2, 0, 3, 2), (5, 1, 1, 0, 0, 0, 1, 1)]
    matrix = user_by_site(table)
    assert cells(matrix) == ([5, 7], ["A", "B"], [[1, 0], [0, 1]])
    assert (matrix.index.name, matrix.columns.name) == ("user_id", "site")
    assert (str(matrix.index.dtype), str(matrix.columns.dtype)) == ("int64", "str")


def test_a_status_outside_the_specification_counts_as_other():
    odd = ["verifying", "Removed", "", "other", "total", "<img src=x onerror=alert(1)>"]
    table = records(*((1, "A", status) for status in odd))
    assert rows(by_user(table)) == [(1, 6, 0, 0, 0, 6, 6, 1)]
    assert rows(by_site(table)) == [("A", 6, 0, 0, 0, 6, 6, 1)]


def test_a_listing_without_a_status_is_open_everywhere():
    """The tables, the score, the chart and the definition agree."""
    table = records((1, "A", None), (1, "A", "removed")).assign(locations=[["Oakmere, CA"], []])
    assert rows(by_user(table)) == [(1, 1, 0, 0, 1, 1, 2, 1)]
    assert rows(by_site(table)) == [("A", 1, 0, 0, 1, 1, 2, 1)]
    assert cells(user_by_site(table)) == ([1], ["A"], [[1]])
    assert analysis.is_open(table["status"]).tolist() == [True, False]
    assert analysis.by_state(table)["listings"].sum() > 0
    points = analysis.score(table, pd.DataFrame({"user_id": []}, dtype="int64"))
    assert (points["listings"].item(), points["score"].item()) == (1, analysis.WEIGHTS["other"])
    assert "1 listing is open" in charts.by_site(by_site(table)).layout.title.text
    assert analysis.DEFINITIONS["other"].endswith("or without one; counts as open")


def test_every_status_is_open_unless_it_ends_a_listing():
    statuses = ["discovered", "pending removal", "verifying", "listed", "", "vanished (as reported)", None]
    for dtype in ("str", "category", "object"):
        column = pd.Series([*statuses, "removed", *GONE], dtype=dtype)
        assert analysis.is_open(column).tolist() == [True] * 7 + [False] * 3
    assert analysis.is_open(pd.Series([], dtype="str")).tolist() == []
    with pytest.raises(InvalidArgument, match=r"such as records\['status'\], not a table"):
        analysis.is_open(pd.DataFrame({"status": statuses}))


def test_rows_sort_by_open_then_total_then_name_or_id():
    listings = [(user, "B", "removed") for user in (9, 3, 9, 10, 2)]
    listings += [(1, "late", "pending removal"), (4, "odd", "verifying"), (4, "odd", "removed")]
    assert by_user(records(*listings))["user_id"].tolist() == [4, 1, 9, 2, 3, 10]
    ended = [(1, site, "removed") for site in ("a", "b", "c", "c")]
    sites = by_site(records(*listings[4:], *ended))
    assert sites["site"].tolist() == ["odd", "late", "c", "B", "a", "b"]
    assert sites.index.tolist() == [0, 1, 2, 3, 4, 5]


def test_the_matrix_has_every_person_and_site_most_open_first():
    listings = [(4, "b", "discovered"), (2, "a", "discovered"), (9, "c", "discovered"), (9, "c", "odd")]
    gone = [(1, "d", "removed"), (3, "e", "vanished"), (5, "f", "unknown")]
    people, sites, numbers = cells(user_by_site(records(*listings, *gone)))
    assert (people, sites) == ([9, 2, 4, 1, 3, 5], ["c", "a", "b", "d", "e", "f"])
    assert numbers[0] == [2, 0, 0, 0, 0, 0]
    assert numbers[3:] == [[0] * 6] * 3


def test_ids_that_are_equal_as_floats_are_two_people():
    table = records(*((user, "A", "discovered") for user in IDS))
    assert by_user(table)["user_id"].tolist() == user_by_site(table).index.tolist() == IDS


def test_unused_categories_give_no_row_and_no_column():
    table = records((1, "A", "removed"), (1, "B", "verifying"), (2, "C", "discovered"), (2, "C", "vanished"))
    few = table[table["user_id"] == 1]
    assert rows(by_user(few)) == [(1, 1, 0, 0, 1, 1, 2, 2)]
    assert rows(by_site(few)) == [("B", 1, 0, 0, 0, 1, 1, 1), ("A", 0, 0, 0, 1, 0, 1, 1)]
    assert cells(user_by_site(few)) == ([1], ["B", "A"], [[1, 0]])
    assert rows(by_site(table.head(0))) == []


@pytest.mark.parametrize("site", HOSTILE)
def test_a_site_may_have_any_name(site):
    table = records((1, site, "discovered"), (2, site, "removed"), (2, "Beside", "removed"))
    assert rows(by_site(table)) == [(site, 1, 1, 0, 1, 0, 2, 2), ("Beside", 0, 0, 0, 1, 0, 1, 1)]
    assert cells(user_by_site(table)) == ([1, 2], [site, "Beside"], [[1, 0], [0, 0]])


def test_similar_site_names_are_different_sites():
    assert sorted(by_site(records(*((1, site, "removed") for site in HOSTILE)))["site"]) == sorted(HOSTILE)


LISTINGS = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.sampled_from(["A", "B", "C"]) | TEXT | st.sampled_from(HOSTILE),
        st.sampled_from([*NAMED, *GONE]) | TEXT,
    ),
    max_size=12,
)


def by_hand(listings, column):
    """Each person (0) or site (1) with its counts, as one count after the other."""
    has_gone = any(status in GONE for *_, status in listings)
    for name in {listing[column] for listing in listings}:
        of = [(listing[1 - column], listing[2]) for listing in listings if listing[column] == name]
        listed = [(other, status) for other, status in of if status not in GONE]
        named = [sum(status == one for _, status in listed) for one in NAMED]
        counts = [len(listed) - named[2], *named, len(listed) - sum(named), len(listed)]
        gone = [sum(status == one for _, status in of) for one in GONE] if has_gone else []
        yield (name, *counts, len({other for other, _ in listed}), *gone)


@settings(max_examples=40)
@given(LISTINGS)
def test_every_listing_counts_once(listings):
    table = records(*listings)
    gone = GONE if any(status in GONE for *_, status in listings) else []
    for question, column, names in ((by_user, 0, [*BY_USER]), (by_site, 1, [*BY_SITE])):
        answer = question(table)
        assert answer.columns.tolist() == names + gone
        expected = sorted(by_hand(listings, column), key=lambda row: (-row[1], -row[6], row[0]))
        assert rows(answer) == expected
    still = [(user, site) for user, site, status in listings if status not in ("removed", *GONE)]
    ranked = [
        sorted({one[n] for one in listings}, key=lambda one, n=n: (-sum(s[n] == one for s in still), one))
        for n in (0, 1)
    ]
    expected = [[still.count((user, site)) for site in ranked[1]] for user in ranked[0]]
    assert cells(user_by_site(table)) == (*ranked, expected)


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
    assert int(people["total"].sum()) == int(by_site(table)["total"].sum()) == n
    assert int(people["sites"].sum()) == len(table.drop_duplicates(["user_id", "site"]))
    assert int(matrix.to_numpy().sum()) == int((table["status"] != "removed").sum())
