"""Questions of an analyst: each gives the columns it promises, whatever the table holds."""

import inspect

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import RECORD, TEXT, USER

from exposurekit import analysis, frames
from exposurekit.analysis import by_site
from exposurekit.contract.models import User
from exposurekit.errors import ExposureError, InvalidArgument, MissingColumns

COLUMNS = ["site", "open", "discovered", "pending removal", "removed", "other", "total", "people"]
DTYPES = ["str", *["int64"] * 7]
HOSTILE = [
    "site",
    "total",
    "status",
    "other",
    "people",
    "nan",
    "None",
    "",
    " ",
    "<b>x</b>",
    "a\x00",
    "a",
    "A",
    "0",
    "Straße",
    "\u202eevil",
    "🎈",
    "x" * 500,
    "__index__",
    "discovered",
]


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


def test_each_site_has_one_row_and_each_status_its_column():
    """Specification, "Record"."""
    table = by_site(
        records((1, "B", "discovered"), (1, "A", "removed"), (2, "A", "pending removal"), (2, "A", "removed"))
    )
    assert table.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in table.dtypes] == DTYPES
    assert rows(table) == [("A", 1, 0, 1, 2, 0, 3, 2), ("B", 1, 1, 0, 0, 0, 1, 1)]


def test_a_status_outside_the_specification_counts_as_other():
    table = by_site(records((1, "A", "verifying"), (1, "A", "Removed"), (1, "A", ""), (1, "A", "other")))
    assert rows(table) == [("A", 4, 0, 0, 0, 4, 4, 1)]


def test_sites_are_sorted_by_open_then_total_then_name():
    listings = [(1, site, "removed") for site in ("b", "c", "a", "c", "B")]
    table = by_site(
        records(*listings, (1, "late", "pending removal"), (1, "odd", "verifying"), (1, "odd", "removed"))
    )
    assert table["site"].tolist() == ["odd", "late", "c", "B", "a", "b"]
    assert table["open"].tolist() == [1, 1, 0, 0, 0, 0]
    assert table.index.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_site_with_many_removed_listings_is_not_the_worst():
    """Which sites hurt most: those with most listings that still have to go."""
    listings = [*[(user, "Cleaned", "removed") for user in range(9)], (1, "Stubborn", "discovered")]
    assert by_site(records(*listings)).head(1)["site"].tolist() == ["Stubborn"]


def test_people_are_counted_once_a_site():
    table = by_site(
        records((1, "A", "removed"), (1, "A", "removed"), (2**63 - 1, "A", "removed"), (1, "B", "removed"))
    )
    assert table.set_index("site")["people"].to_dict() == {"A": 2, "B": 1}


def test_no_listings_give_the_same_columns_and_no_row():
    table = by_site(records())
    assert (table.columns.tolist(), [str(dtype) for dtype in table.dtypes], len(table)) == (
        COLUMNS,
        DTYPES,
        0,
    )


@pytest.mark.parametrize("missing", [["site"], ["status"], ["user_id"], ["site", "status", "user_id"]])
def test_a_table_that_lacks_columns_is_told_which(missing):
    with pytest.raises(MissingColumns, match=f"by_site needs the columns {', '.join(missing)}") as refusal:
        by_site(records((1, "A", "removed")).drop(columns=missing))
    assert refusal.value.missing == tuple(missing)
    assert isinstance(refusal.value, ExposureError)


def test_unused_categories_give_no_row_and_no_column():
    table = records((1, "A", "removed"), (1, "B", "verifying"), (1, "C", "discovered"))
    few = table[table["site"] == "A"]
    assert set(few["site"].cat.categories) == {"A", "B", "C"}
    assert rows(by_site(few)) == [("A", 0, 0, 0, 1, 0, 1, 1)]
    assert rows(by_site(table[table["user_id"] == 2])) == []


@pytest.mark.parametrize("site", HOSTILE)
def test_a_site_may_have_any_name(site):
    table = by_site(records((1, site, "removed"), (2, site, "x"), (1, "Beside", "removed")))
    assert rows(table) == [(site, 1, 0, 0, 1, 1, 2, 2), ("Beside", 0, 0, 0, 1, 0, 1, 1)]


def test_names_that_are_alike_stay_apart():
    assert sorted(by_site(records(*((1, site, "removed") for site in HOSTILE)))["site"]) == sorted(HOSTILE)


def test_the_table_that_is_asked_about_stays_as_it_is():
    table = records((1, "A", "removed"), (2, "B", "x"))
    before = table.copy(deep=True)
    by_site(table)
    pd.testing.assert_frame_equal(table, before)


def test_the_index_means_nothing():
    table = records((1, "A", "removed"), (2, "B", "x"), (2, "A", "x"))
    expected = rows(by_site(table))
    assert (
        rows(by_site(table.set_index("record_id")))
        == rows(by_site(table.sample(frac=1, random_state=1)))
        == expected
    )
    twice = by_site(pd.concat([table, table]))
    assert twice["total"].tolist() == [4, 2]
    assert twice["people"].tolist() == [2, 1]


LISTINGS = st.lists(
    st.tuples(
        st.integers(0, 3), TEXT | st.sampled_from(HOSTILE), TEXT | st.sampled_from(["discovered", "removed"])
    ),
    max_size=12,
)


@settings(max_examples=30)
@given(LISTINGS)
def test_every_listing_is_counted_once(listings):
    table = by_site(records(*listings))
    assert table.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in table.dtypes] == DTYPES
    assert table.set_index("site")["total"].to_dict() == {
        site: sum(listed_at == site for _, listed_at, _ in listings) for _, site, _ in listings
    }
    assert (table[COLUMNS[2:6]].sum(axis=1) == table["total"]).all()
    assert (table["open"] == table["total"] - table["removed"]).all()
    order = [*zip(-table["open"], -table["total"], table["site"], strict=True)]
    assert order == sorted(order)
    assert table["people"].sum() == len({(user, site) for user, site, _ in listings})


def test_records_gone_from_a_history_are_not_in_the_total():
    table = by_site(
        records((1, "A", "vanished"), (1, "A", "verifying"), (2, "A", "unknown"), (2, "B", "vanished"))
    )
    assert table.columns.tolist() == [*COLUMNS, "vanished", "unknown"]
    assert [str(dtype) for dtype in table.dtypes] == [*DTYPES, "int64", "int64"]
    assert rows(table) == [("A", 1, 0, 0, 0, 1, 1, 1, 1, 1), ("B", 0, 0, 0, 0, 0, 0, 0, 1, 0)]


def test_open_is_whatever_is_not_known_to_have_ended():
    """Unknown is not zero: a listing whose status is not told is listed."""
    statuses = ["discovered", "pending removal", "verifying", "listed", "", "vanished (as told)", None]
    ended = ["removed", "vanished", "unknown"]
    for dtype in ("str", "category", "object"):
        statuses_column = pd.Series([*statuses, *ended], dtype=dtype)
        assert analysis.is_open(statuses_column).tolist() == [True] * 7 + [False] * 3
    assert analysis.is_open(pd.Series([], dtype="str")).tolist() == []
    with pytest.raises(InvalidArgument, match=r"such as records\['status'\], not a table"):
        analysis.is_open(pd.DataFrame({"status": statuses}))


@pytest.mark.parametrize("name", analysis.__all__)
def test_every_question_has_an_example(name):
    value = getattr(analysis, name)
    assert not inspect.isfunction(value) or ">>>" in inspect.getdoc(value)
