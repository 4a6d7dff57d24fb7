"""Counts by kind of data and by state: each link or listing counts once in each, and missing values apart."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import TEXT
from support.tables import rows, shape

from exposurekit.analysis import NOT_STATED, by_kind, by_state
from exposurekit.text.us_addresses import STATES

LISTS = pd.ArrowDtype(pa.list_(pa.string()))
HOSTILE = ["<script>alert(1)</script>", "nan", "None", "\u202eevil", "a\x00", "kind", "0", "email "]


def links(*pages, presence=None):
    """Pages as (user, kinds), with the ``presence`` of each if it is from a history."""
    table = pd.DataFrame(
        {
            "user_id": pd.Series([user for user, _ in pages], dtype="int64"),
            "contains": pd.Series([kinds for _, kinds in pages], dtype=LISTS),
        }
    )
    return table if presence is None else table.assign(presence=pd.Categorical(presence))


def records(*listings, status="discovered"):
    """Listings as (user, locations), or (user, locations, status)."""
    rows = [(*listing, status)[:3] for listing in listings]
    return pd.DataFrame(
        {
            "user_id": pd.Series([user for user, _, _ in rows], dtype="int64"),
            "locations": pd.Series([places for _, places, _ in rows], dtype=LISTS),
            "status": pd.Categorical([row_status for _, _, row_status in rows]),
        }
    )


def test_a_link_that_holds_several_kinds_counts_in_each():
    """Specification, "Link"."""
    table = by_kind(links((1, ["email", "phone"]), (1, ["email"]), (2, ["address"])))
    assert shape(table) == {"kind": "str", "links": "int64", "people": "int64"}
    assert rows(table) == [("email", 2, 1), ("address", 1, 1), ("phone", 1, 1)]


@pytest.mark.parametrize("nothing", [None, [], [None], [""], [" ", None]], ids=repr)
def test_links_without_kinds_are_listed_last(nothing):
    table = by_kind(links((1, nothing), (2, nothing), (3, nothing), (3, ["email"])))
    assert rows(table) == [("email", 1, 1), (NOT_STATED, 3, 3)]


def test_blank_kinds_beside_another_are_ignored():
    assert rows(by_kind(links((1, ["email", "email", None, ""])))) == [("email", 1, 1)]


def test_vanished_links_do_not_count():
    pages = [(1, ["email"]), (2, ["email"]), (3, ["phone"]), (4, None)]
    table = links(*pages, presence=["listed", "vanished", "unknown", "vanished"])
    assert rows(by_kind(table)) == [("email", 1, 1)]
    assert rows(by_kind(links(*pages))) == [("email", 2, 2), ("phone", 1, 1), (NOT_STATED, 1, 1)]


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_kind_may_have_any_name(kind):
    assert rows(by_kind(links((1, [kind, "email"]), (2, [kind])))) == [(kind, 2, 2), ("email", 1, 1)]


KINDS = st.none() | st.lists(st.none() | TEXT | st.sampled_from(["email", "phone", "", *HOSTILE]), max_size=3)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([1, 2**53, 2**53 + 1]), KINDS), max_size=8))
def test_kinds_are_counted_as_by_hand(pages):
    kinds_by_user = [(user, {kind for kind in kinds or () if kind and kind.strip()}) for user, kinds in pages]
    kinds_by_user = [(user, kinds - {NOT_STATED} or {NOT_STATED}) for user, kinds in kinds_by_user]
    expected = [
        (
            kind,
            sum(kind in kinds for _, kinds in kinds_by_user),
            len({user for user, kinds in kinds_by_user if kind in kinds}),
        )
        for kind in {kind for _, kinds in kinds_by_user for kind in kinds}
    ]
    table = by_kind(links(*pages))
    assert rows(table) == sorted(expected, key=lambda row: (row[0] == NOT_STATED, -row[1], row[0]))


@pytest.mark.parametrize(
    ("location", "state"),
    [
        ("Oakmere, CA", "CA"),
        ("Oakmere,CA", "CA"),
        ("oakmere, ca ", "CA"),
        ("Oakmere, California", "CA"),
        ("Oakmere, north  carolina", "NC"),
        ("Oakmere, CA 01234", "CA"),
        ("Oakmere, CA 01234-5678", "CA"),
        ("Oakmere, CA, 01234", "CA"),
        ("Oakmere, CA USA", "CA"),
        ("Oakmere, CA 01234, United States", "CA"),
        ("Oakmere, Ca., U.S.A.", "CA"),
        ("Washington, D.C.", "DC"),
        ("1 Fern Row, Springfield, IL", "IL"),
        ("\u00a0Oakmere,\u2003TX\n", "TX"),
        ("Oakmere", NOT_STATED),
        ("CA", NOT_STATED),  # may be a country
        ("New York", NOT_STATED),  # a town
        ("Saguaro Spindle AZ", "AZ"),
        ("SAGUARO SPINDLE AZ", "AZ"),
        ("Saguaro Spindle AZ 01234-5678", "AZ"),
        ("12 Elm St, Saguaro Spindle AZ", "AZ"),
        ("Port Washington", NOT_STATED),  # a town, too
        ("Oakmere West Virginia, USA", NOT_STATED),
        ("West Virginia", NOT_STATED),
        ("Come in", NOT_STATED),
        ("Oakmere or", NOT_STATED),
        ("Oakmere Me", NOT_STATED),
        ("AZ", NOT_STATED),
        ("Oakmere AZ old", NOT_STATED),
        ("Oakmere, Calif", NOT_STATED),
        ("Oakmere, XX", NOT_STATED),
        ("Toronto, ON, Canada", NOT_STATED),
        ("CA, Oakmere", NOT_STATED),
        ("Oakmere, CA1", NOT_STATED),
        ("Oakmere, CA 012", NOT_STATED),
        ("Oakmere, US", NOT_STATED),
        (",", NOT_STATED),
        ("", NOT_STATED),
        (" ", NOT_STATED),
        ("<b>Oakmere</b>, <b>CA</b>", NOT_STATED),
        ("Oakmere, CA\u202e", NOT_STATED),
        ("nan", NOT_STATED),
    ],
)
def test_a_state_is_read_at_the_end(location, state):
    assert rows(by_state(records((1, [location])))) == [(state, 1, 1)]


def test_every_state_is_read_by_code_and_name():
    """USPS Publication 28, Appendix B: 50 states, the District of Columbia, and five territories."""
    assert len(STATES) == 56
    spellings = [[f"Oakmere, {code}", f"Elmere, {name}"] for code, name in STATES.items()]
    assert rows(by_state(records(*((1, places) for places in spellings)))) == [
        (code, 1, 1) for code in sorted(STATES)
    ]


def test_a_listing_counts_once_in_each_state_that_it_names():
    table = by_state(records((1, ["A, CA", "B, CA", "C, TX"]), (1, ["A, CA"]), (2, ["A, CA"])))
    assert shape(table) == {"state": "str", "listings": "int64", "people": "int64"}
    assert rows(table) == [("CA", 3, 2), ("TX", 1, 1)]


@pytest.mark.parametrize("places", [None, [], [None], ["Paris"], ["Paris", None, ""]], ids=repr)
def test_listings_without_a_state_are_listed_last(places):
    table = by_state(records((1, places), (2, places), (2, ["Oakmere, TX", "Paris"])))
    assert rows(table) == [("TX", 1, 1), (NOT_STATED, 2, 2)]


@pytest.mark.parametrize("status", ["removed", "vanished", "unknown"])
def test_removed_and_vanished_listings_count_in_no_state(status):
    assert rows(by_state(records((1, ["A, CA"], status), (2, ["A, TX"], "verifying")))) == [("TX", 1, 1)]


def test_a_location_of_any_length_is_read_in_linear_time():
    """A service's texts have no maximum length."""
    n = 200_000
    long = [
        "x, " + "a " * n + "!",
        "," * n,
        "x, " + "." * n,
        ", 12345" * n,
        "x, CA" + " " * n,
        "x, " + "USA " * n,
    ]
    assert rows(by_state(records(*((1, [location]) for location in long)))) == [
        ("CA", 1, 1),
        (NOT_STATED, 5, 1),
    ]


PLACES = st.sampled_from(
    [("A, CA", "CA"), ("B, California", "CA"), ("C, TX 01234", "TX"), ("D", None), (None, None)]
)
STATUSES = st.sampled_from(["discovered", "pending removal", "removed", "vanished", "unknown"]) | TEXT


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2**53, 2**53 + 1]), st.lists(PLACES, max_size=3), STATUSES), max_size=8
    )
)
def test_states_are_counted_as_by_hand(listings):
    still = [
        (user, {state for _, state in places if state} or {NOT_STATED})
        for user, places, status in listings
        if status not in ("removed", "vanished", "unknown")
    ]
    expected = [
        (state, sum(state in of for _, of in still), len({user for user, of in still if state in of}))
        for state in {state for _, of in still for state in of}
    ]
    table = by_state(
        records(*((user, [text for text, _ in places], row_status) for user, places, row_status in listings))
    )
    assert rows(table) == sorted(expected, key=lambda row: (row[0] == NOT_STATED, -row[1], row[0]))


def test_a_hundred_thousand_listings_are_counted_by_state():
    n = 100_000
    states = np.array(sorted(STATES))[np.arange(n) % len(STATES)]
    places = pd.Series(
        pa.array([[f"Town {k % 999}, {state}", "Elsewhere"] for k, state in enumerate(states)]), dtype=LISTS
    )
    table = by_state(
        pd.DataFrame({"user_id": np.arange(n) // 4, "locations": places, "status": "discovered"})
    )
    assert int(table["listings"].sum()) == n
    assert table.set_index("state")["listings"].to_dict() == pd.Series(states).value_counts().to_dict()
