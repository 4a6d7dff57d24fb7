"""What removals wait for, compared with a count by hand; and requests, compared with an exhaustive search."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import TEXT, USER
from support.tables import rows, shape

from exposurekit import frames
from exposurekit.analysis import best_next_fields, blockers, on_file
from exposurekit.analysis.blockers import FIELD_ALIASES, FIELDS
from exposurekit.contract.models import User
from exposurekit.errors import InvalidArgument, MissingColumns

LISTS = pd.ArrowDtype(pa.list_(pa.string()))
REQUIRED = "user_fields_required_for_removal"
BLOCKERS = {
    "user_id": "int64",
    "field": "str",
    **dict.fromkeys(["records", "unlocks", "sites"], "int64"),
    "is_profile_field": "bool",
}
ASKS = {
    **dict.fromkeys(["rank", "user_id"], "int64"),
    "fields": "str",
    **dict.fromkeys(["removals", "together"], "int64"),
}
NOBODY = {
    "birth_date": None,
    **dict.fromkeys(["first_name", "middle_name", "last_name"], ""),
    **{name: [] for name in ("aliases", "emails", "phone_numbers", "addresses")},
    "identification_on_file": False,
}
ADDRESS = {"id": 4, **dict.fromkeys(["address1", "city", "state", "zip"], "")}


def filled(*people):
    """Return what is on file of people: (id, the fields that are filled)."""
    users = [User.model_validate(USER | NOBODY | {"id": user} | fields) for user, fields in people]
    tables = frames.from_users(users)
    return on_file(tables["users"], **{name: tables[name] for name in OF_PERSON})


OF_PERSON = ("addresses", "emails", "phone_numbers", "aliases")


def listings(*entries, status="discovered"):
    """Listings as (user, required fields), or with site and status."""
    rows = [(*one, *("Seekfolk", status)[len(one) - 2 :]) for one in entries]
    return pd.DataFrame(
        {
            "user_id": pd.Series([user for user, *_ in rows], dtype="int64"),
            "site": pd.Categorical([site for *_, site, _ in rows]),
            "status": pd.Categorical([row_status for *_, row_status in rows]),
            REQUIRED: pd.Series([required for _, required, *_ in rows], dtype=LISTS),
        }
    )


def have(*fields):
    """What is on file, as (user, field)."""
    return pd.DataFrame(fields, columns=["user_id", "field"]).astype({"user_id": "int64", "field": "str"})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"birth_date": -86_400}, ["birth_date"]),
        ({"birth_date": 0}, ["birth_date"]),
        ({"first_name": "Juniper", "last_name": "Quillfeather"}, ["first_name", "last_name"]),
        ({"first_name": " \t\u00a0", "middle_name": "0"}, ["middle_name"]),
        ({"identification_on_file": True}, ["identification"]),
        ({"emails": [{"id": 1, "address": "j@mail.example"}]}, ["email"]),
        ({"emails": [{"id": 1, "address": " "}]}, []),
        ({"phone_numbers": [{"id": 1, "number": "0155512345"}]}, ["phone_number"]),
        ({"aliases": [{"id": 1, "first_name": "", "last_name": "Doe"}]}, ["alias"]),
        ({"aliases": [{"id": 1, "first_name": "Janie", "last_name": ""}]}, ["alias"]),
        ({"aliases": [{"id": 1, "first_name": "", "last_name": " "}]}, []),
        ({"addresses": [ADDRESS | {"city": "Oakmere"}, ADDRESS | {"zip": "01234"}]}, ["city", "zip"]),
        ({"addresses": [ADDRESS | {"address2": "Flat 1", "country": "US"}]}, ["address2", "country"]),
    ],
)
def test_a_blank_field_is_not_on_file(fields, expected):
    """Specification, "User"."""
    assert rows(filled((2**53 + 1, fields))) == [(2**53 + 1, field) for field in expected]


def test_every_field_of_a_person_has_a_name():
    address = dict.fromkeys(["address1", "address2", "city", "state", "zip", "country"], "x") | {"id": 1}
    everything = {
        **dict.fromkeys(["first_name", "middle_name", "last_name"], "x"),
        "birth_date": 1,
        "identification_on_file": True,
        "emails": [{"id": 1, "address": "x"}, {"id": 2, "address": "y"}],
        "phone_numbers": [{"id": 1, "number": "1"}],
        "aliases": [{"id": 1, "first_name": "x", "last_name": "x"}],
        "addresses": [address, address],
    }
    table = filled((9, everything), (3, {"first_name": "x"}))
    assert shape(table) == {"user_id": "int64", "field": "str"}
    assert rows(table) == [(3, "first_name"), *((9, field) for field in sorted(FIELDS))]


@settings(max_examples=10)
@given(st.lists(TEXT | st.just("Quillfeather"), min_size=3, max_size=3))
def test_the_table_has_field_names_and_no_values(texts):
    names = dict(zip(("first_name", "middle_name", "last_name"), texts, strict=True))
    table = filled((1, names))
    assert set(table["field"]) == {name for name, text in names.items() if text.strip()}
    assert table.columns.tolist() == ["user_id", "field"]


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        ("users", "birth_date", "on_file needs the column birth_date,"),
        ("users", "identification_on_file", "on_file needs the column identification_on_file,"),
        ("addresses", "zip", "on_file, field zip, needs the column zip,"),
        ("emails", "address", "on_file, field email, needs the column address,"),
        ("phone_numbers", "user_id", "on_file, field phone_number, needs the column user_id,"),
        ("aliases", "last_name", "on_file, field alias, needs the column last_name,"),
    ],
)
def test_a_people_table_that_lacks_a_column_names_it(table, column, expected):
    tables = {name: frames.frame(name, []) for name in ("users", *OF_PERSON)}
    tables[table] = tables[table].drop(columns=column)
    with pytest.raises(MissingColumns, match=f"^{expected}"):
        on_file(tables.pop("users"), **tables)


def test_nobody_has_nothing_on_file():
    for dtype in (None, "object"):
        none = {name: frames.frame(name, []) for name in ("users", *OF_PERSON)}
        tables = {name: table.astype(dtype) if dtype else table for name, table in none.items()}
        table = on_file(tables.pop("users"), **tables)
        assert (shape(table), len(table)) == ({"user_id": "int64", "field": "str"}, 0)


def test_each_missing_field_has_the_removals_it_unlocks():
    """Specification, "Record", ``user_fields_required_for_removal``."""
    records = listings(
        (1, ["birth_date"], "A"),
        (1, ["birth_date", "zip"], "B"),
        (1, ["birth_date"], "A"),
        (2, ["email"], "A"),
    )
    table = blockers(records, have((2, "phone_number"), (1, "email")))
    assert shape(table) == BLOCKERS
    assert rows(table) == [
        (1, "birth_date", 3, 2, 2, True),
        (2, "email", 1, 1, 1, True),
        (1, "zip", 1, 0, 1, True),
    ]
    assert rows(blockers(records, have((1, "birth_date"), (2, "email")))) == [(1, "zip", 1, 1, 1, True)]


def test_a_field_of_one_person_helps_no_other():
    table = blockers(listings((2**53, ["zip"]), (2**53 + 1, ["zip"])), have((2**53 + 1, "zip")))
    assert rows(table) == [(2**53, "zip", 1, 1, 1, True)]


@pytest.mark.parametrize("status", ["removed", "pending removal", "vanished", "unknown"])
def test_closed_and_pending_records_wait_for_nothing(status):
    waiting = listings((1, ["zip"], "A", status))
    assert rows(blockers(waiting, have())) == rows(best_next_fields(waiting, have())) == []


@pytest.mark.parametrize("required", [None, [], [None]], ids=repr)
def test_unknown_requirements_block_nothing(required):
    assert rows(blockers(listings((1, required)), have())) == []
    assert rows(best_next_fields(listings((1, required), (1, ["zip"])), have())) == [(1, 1, "zip", 1, 1)]


ODD = ["favourite_colour", "", " ", "nan", "None", "<b>zip</b>", "ZIP", "field", "a, b"]


def test_any_field_counts_once_under_its_usual_name():
    aliases = [([alias, field], field) for alias, field in FIELD_ALIASES.items()]
    cases = [(["zip", "zip", "zip_code"], "zip"), *aliases, *(([field], field) for field in ODD)]
    records = listings(*((user, required) for user, (required, _) in enumerate(cases)))
    expected = {(user, field, 1, 1, 1, field not in ODD) for user, (_, field) in enumerate(cases)}
    assert {*rows(blockers(records, have()))} == expected
    asks = {row[1:4] for row in rows(best_next_fields(records, have(), asks=100))}
    assert asks == {row[:3] for row in expected}
    assert rows(blockers(records, have(*((user, field) for user, (_, field) in enumerate(cases))))) == []
    assert {*FIELD_ALIASES.values()} <= {*FIELDS}


NAMES = st.sampled_from(["zip", "birth_date", "email", "dob", "zip_code"] * 3 + ["", "<b>", "a, b", "nan"])
LISTINGS = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 2**63 - 1]),
        st.none() | st.lists(NAMES, max_size=3),
        st.sampled_from(["A", "B", "<i>C</i>"]),
        st.sampled_from(["discovered"] * 4 + ["verifying", "", "removed", "pending removal", "unknown"]),
    ),
    max_size=9,
)
FILED = st.lists(st.tuples(st.sampled_from([1, 2, 5]), NAMES), max_size=4)


def lacking(entries, filed):
    """Yield the missing fields of each open record: (user, site, fields)."""
    for user, required, site, status in entries:
        if status not in ("removed", "pending removal", "vanished", "unknown"):
            fields = {FIELD_ALIASES.get(field, field) for field in required or ()}
            yield user, site, frozenset(fields - {field for owner, field in filed if owner == user})


@settings(max_examples=25)
@given(LISTINGS, FILED)
def test_blockers_equal_a_count_record_by_record(entries, filed):
    missing = [*lacking(entries, filed)]
    expected = []
    for user, field in {(user, field) for user, _, fields in missing for field in fields}:
        of = [(site, fields) for owner, site, fields in missing if owner == user and field in fields]
        unlocks = sum(len(fields) == 1 for _, fields in of)
        expected.append((user, field, len(of), unlocks, len({site for site, _ in of}), field in FIELDS))
    table = blockers(listings(*entries), have(*filed))
    assert shape(table) == BLOCKERS
    assert rows(table) == sorted(expected, key=lambda row: (-row[3], -row[2], row[0], row[1]))


def every_ask(entries, filed):
    """Yield the best request of all, again and again: (user, fields, how many removals it frees)."""
    left = [(user, fields) for user, _, fields in lacking(entries, filed) if fields]
    while left:
        asks = {}
        for user, ask in left:
            freed = sum(owner == user and fields <= ask for owner, fields in left)
            asks[-Fraction(freed, len(ask)), -freed, tuple(sorted(ask)), user] = ask
        best = min(asks)
        user, ask = best[3], asks[best]
        yield user, ask, -best[1]
        left = [(owner, fields - ask if owner == user else fields) for owner, fields in left]
        left = [(owner, fields) for owner, fields in left if fields]


@settings(max_examples=25)
@given(LISTINGS, FILED)
def test_requests_equal_an_exhaustive_greedy_search(entries, filed):
    expected, together = [], 0
    for rank, (user, ask, freed) in enumerate(every_ask(entries, filed), 1):
        together += freed
        expected.append((rank, user, ", ".join(sorted(ask)), freed, together))
    table = best_next_fields(listings(*entries), have(*filed), asks=100)
    assert shape(table) == ASKS
    assert rows(table) == expected
    assert table["removals"].sum() == sum(bool(fields) for _, _, fields in lacking(entries, filed))


def test_equal_requests_sort_by_removals_then_name_then_id():
    entries = [(9, ["zip"]), (4, ["zip"]), (4, ["city"]), (7, ["city"]), *[(5, ["city", "email"])] * 2]
    table = rows(best_next_fields(listings(*entries), have()))
    order = [(5, "city, email", 2), (4, "city", 1), (7, "city", 1), (4, "zip", 1), (9, "zip", 1)]
    assert [row[1:4] for row in table] == order
    assert rows(best_next_fields(listings(*entries), have(), asks=2)) == table[:2]


def test_two_birth_dates_start_31_removals():
    entries = [(1, ["birth_date"])] * 20 + [(2, ["first_name", "dob"])] * 11 + [(3, ["email", "zip"])] * 2
    table = best_next_fields(listings(*entries), have((2, "first_name")), asks=2)
    assert rows(table) == [(1, 1, "birth_date", 20, 20), (2, 2, "birth_date", 11, 31)]


@pytest.mark.parametrize("asks", [0, -1])
def test_fewer_than_one_request_is_an_error(asks):
    with pytest.raises(InvalidArgument, match="asks: it must be at least 1"):
        best_next_fields(listings(), have(), asks=asks)


def test_a_hundred_thousand_records_are_weighed():
    n, chance = 100_000, np.random.default_rng(7)
    of_site = [sorted({*chance.choice(FIELDS, size=size)}) for size in chance.integers(0, 5, 300)]
    site = chance.integers(0, 300, n)
    records = pd.DataFrame(
        {
            "user_id": chance.integers(0, 50, n),
            "site": pd.Categorical.from_codes(site, [f"Site {k}" for k in range(300)]),
            "status": "discovered",
            REQUIRED: pd.Series(pa.array([of_site[k] for k in site]), dtype=LISTS),
        }
    )
    filed = have(*((user, "email") for user in range(25)))
    table, asks = blockers(records, filed), best_next_fields(records, filed, asks=10_000)
    waits = [
        bool({*of_site[k]} - ({"email"} if user < 25 else set()))
        for user, k in zip(records["user_id"], site, strict=True)
    ]
    assert asks["together"].iloc[-1] == sum(waits)
    assert table["unlocks"].iloc[0] == asks["removals"].iloc[0]
    assert table.duplicated(["user_id", "field"]).sum() == 0
