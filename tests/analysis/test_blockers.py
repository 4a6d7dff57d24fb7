"""What removals wait for, beside a count by hand; and whom to ask, beside a search through every ask there is."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import TEXT, USER

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
    """What is on file of people, each with their id and what they have beyond nothing."""
    users = [User.model_validate(USER | NOBODY | {"id": user} | fields) for user, fields in people]
    tables = frames.from_users(users)
    return on_file(tables["users"], **{name: tables[name] for name in OF_PERSON})


OF_PERSON = ("addresses", "emails", "phone_numbers", "aliases")


def listings(*entries, status="discovered"):
    """Listings as (user, what is required), or with site and status, as the frames give them."""
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
    """A table of what is on file: (user, field)."""
    return pd.DataFrame(fields, columns=["user_id", "field"]).astype({"user_id": "int64", "field": "str"})


def rows(table):
    return [tuple(row) for row in table.itertuples(index=False)]


def shape(table):
    return {name: str(dtype) for name, dtype in table.dtypes.items()}


# --- what is on file --------------------------------------------------------------------------------------


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


@settings(max_examples=20, deadline=None)
@given(st.lists(TEXT | st.just("Quillfeather"), min_size=3, max_size=3))
def test_no_value_of_a_field_is_in_the_table(texts):
    names = dict(zip(("first_name", "middle_name", "last_name"), texts, strict=True))
    table = filled((1, names))
    assert set(table["field"]) == {name for name, text in names.items() if text.strip()}
    assert table.columns.tolist() == ["user_id", "field"]


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        ("users", "birth_date", "on_file needs the columns birth_date,"),
        ("users", "identification_on_file", "on_file needs the columns identification_on_file,"),
        ("addresses", "zip", "on_file, field zip, needs the columns zip,"),
        ("emails", "address", "on_file, field email, needs the columns address,"),
        ("phone_numbers", "user_id", "on_file, field phone_number, needs the columns user_id,"),
        ("aliases", "last_name", "on_file, field alias, needs the columns last_name,"),
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


# --- what blocks ------------------------------------------------------------------------------------------


def test_each_missing_field_says_what_it_would_unlock():
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


def test_what_one_person_has_helps_no_other():
    table = blockers(listings((2**53, ["zip"]), (2**53 + 1, ["zip"])), have((2**53 + 1, "zip")))
    assert rows(table) == [(2**53, "zip", 1, 1, 1, True)]


@pytest.mark.parametrize("status", ["removed", "pending removal", "vanished", "unknown"])
def test_what_is_closed_or_under_way_waits_for_nothing(status):
    assert rows(blockers(listings((1, ["zip"], "A", status)), have())) == []
    assert rows(best_next_fields(listings((1, ["zip"], "A", status)), have())) == []


@pytest.mark.parametrize("required", [None, [], [None]], ids=repr)
def test_where_nobody_told_nothing_is_known_to_be_missing(required):
    assert rows(blockers(listings((1, required)), have())) == []
    assert rows(best_next_fields(listings((1, required), (1, ["zip"])), have())) == [(1, 1, "zip", 1, 1)]


@pytest.mark.parametrize(("called", "field"), [*FIELD_ALIASES.items()])
def test_an_alias_of_a_field_counts_under_its_name(called, field):
    assert field in FIELDS
    records = listings((1, [called]), (1, [called, field]))
    assert rows(blockers(records, have())) == [(1, field, 2, 2, 1, True)]
    assert rows(blockers(records, have((1, field)))) == []


@pytest.mark.parametrize(
    "field", ["favourite_colour", "", " ", "nan", "None", "<b>zip</b>", "ZIP", "field", "a, b"]
)
def test_a_field_that_no_table_shows_may_be_on_file(field):
    assert rows(blockers(listings((1, [field])), have())) == [(1, field, 1, 1, 1, False)]
    assert rows(best_next_fields(listings((1, [field])), have())) == [(1, 1, field, 1, 1)]


def test_a_field_that_a_record_requires_twice_is_missing_once():
    records = listings((1, ["zip", "zip", "zip_code"]))
    assert rows(blockers(records, have())) == [(1, "zip", 1, 1, 1, True)]
    assert rows(best_next_fields(records, have())) == [(1, 1, "zip", 1, 1)]


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
    """Who lacks what for which record, record by record: (user, site, fields)."""
    for user, required, site, status in entries:
        if status not in ("removed", "pending removal", "vanished", "unknown"):
            fields = {FIELD_ALIASES.get(field, field) for field in required or ()}
            yield user, site, frozenset(fields - {field for owner, field in filed if owner == user})


@settings(max_examples=60, deadline=None)
@given(LISTINGS, FILED)
def test_blockers_are_those_of_each_record_looked_at_for_itself(entries, filed):
    missing = [*lacking(entries, filed)]
    expected = []
    for user, field in {(user, field) for user, _, fields in missing for field in fields}:
        of = [(site, fields) for owner, site, fields in missing if owner == user and field in fields]
        unlocks = sum(len(fields) == 1 for _, fields in of)
        expected.append((user, field, len(of), unlocks, len({site for site, _ in of}), field in FIELDS))
    table = blockers(listings(*entries), have(*filed))
    assert shape(table) == BLOCKERS
    assert rows(table) == sorted(expected, key=lambda row: (-row[3], -row[2], row[0], row[1]))


# --- whom to ask ------------------------------------------------------------------------------------------


def every_ask(entries, filed):
    """The greedy way, by trying out every ask of everybody each time: (user, fields, how many it frees)."""
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


@settings(max_examples=60, deadline=None)
@given(LISTINGS, FILED)
def test_the_asks_are_those_of_a_search_through_all(entries, filed):
    expected, together = [], 0
    for rank, (user, ask, freed) in enumerate(every_ask(entries, filed), 1):
        together += freed
        expected.append((rank, user, ", ".join(sorted(ask)), freed, together))
    table = best_next_fields(listings(*entries), have(*filed), asks=100)
    assert shape(table) == ASKS
    assert rows(table) == expected
    assert table["removals"].sum() == sum(bool(fields) for _, _, fields in lacking(entries, filed))


def test_two_birth_dates_start_31_removals():
    entries = [(1, ["birth_date"])] * 20 + [(2, ["first_name", "dob"])] * 11 + [(3, ["email", "zip"])] * 2
    table = best_next_fields(listings(*entries), have((2, "first_name")), asks=2)
    assert rows(table) == [(1, 1, "birth_date", 20, 20), (2, 2, "birth_date", 11, 31)]


def test_what_frees_more_for_each_question_comes_first():
    entries = [(1, ["email", "zip"])] * 3 + [(2, ["zip"])] * 2 + [(3, ["city"])]
    table = best_next_fields(listings(*entries), have())
    assert [row[1:4] for row in rows(table)] == [(2, "zip", 2), (1, "email, zip", 3), (3, "city", 1)]


def test_an_ask_frees_also_what_lacks_less():
    entries = [(1, ["zip"]), (1, ["email"]), (1, ["zip", "city"]), (1, ["city", "zip"])]
    asks = best_next_fields(listings(*entries), have())
    assert [row[1:4] for row in rows(asks)] == [(1, "city, zip", 3), (1, "email", 1)]


def test_what_was_asked_for_already_is_not_asked_for_again():
    entries = [(1, ["email"])] * 3 + [(1, ["email", "zip"])] * 2 + [(1, ["email", "zip", "city"])]
    asks = best_next_fields(listings(*entries), have())
    assert [row[1:4] for row in rows(asks)] == [(1, "email", 3), (1, "zip", 2), (1, "city", 1)]
    assert rows(best_next_fields(listings(*entries), have(), asks=2)) == rows(asks)[:2]


def test_equal_requests_sort_by_records_freed_then_name_then_id():
    entries = [(9, ["zip"]), (4, ["zip"]), (4, ["city"]), (7, ["city"])]
    entries += [(5, ["city", "email"])] * 2  # two for two questions, before the ones for one
    table = best_next_fields(listings(*entries), have())
    assert [row[1:4] for row in rows(table)] == [
        (5, "city, email", 2),
        (4, "city", 1),
        (7, "city", 1),
        (4, "zip", 1),
        (9, "zip", 1),
    ]


@pytest.mark.parametrize("asks", [0, -1])
def test_somebody_has_to_be_asked_for_something(asks):
    with pytest.raises(InvalidArgument, match="asks: it must be at least 1"):
        best_next_fields(listings(), have(), asks=asks)


# --- both -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [blockers, best_next_fields], ids=lambda question: question.__name__)
def test_nothing_gives_the_same_columns(question):
    columns = BLOCKERS if question is blockers else ASKS
    for none in (frames.frame("records", []), pd.DataFrame(columns=listings().columns, dtype="object")):
        for filed in (have(), pd.DataFrame(columns=["user_id", "field"], dtype="object")):
            table = question(none, filed)
            assert (shape(table), len(table)) == (columns, 0)


@pytest.mark.parametrize("question", [blockers, best_next_fields], ids=lambda question: question.__name__)
def test_a_table_that_lacks_columns_is_told_which(question):
    name = question.__name__
    with pytest.raises(MissingColumns, match=f"^{name} needs the columns site, {REQUIRED}, and"):
        question(listings().drop(columns=["site", REQUIRED]), have())
    with pytest.raises(MissingColumns, match=f"^{name}, table on_file, needs the columns field, and"):
        question(listings(), have().drop(columns="field"))


@pytest.mark.parametrize("question", [blockers, best_next_fields], ids=lambda question: question.__name__)
def test_the_index_is_ignored_and_the_tables_stay_unchanged(question):
    records, filed = listings((2, ["zip"], "A"), (1, None, "B"), (1, ["dob", "zip"], "A")), have((2, "email"))
    before, filed_before = records.copy(deep=True), filed.copy(deep=True)
    expected = rows(question(records, filed))
    assert rows(question(records[::-1], filed)) == expected
    assert rows(question(records.set_index(pd.Index([7, 7, 7])), pd.concat([filed, filed]))) == expected
    plain = pd.Series([["zip"], None, ["dob", "zip"]], dtype="object")
    recast = records.assign(**{REQUIRED: plain}).astype({"site": "str", "status": "object"})
    assert rows(question(recast, filed.astype({"field": "category"}))) == expected
    pd.testing.assert_frame_equal(records, before)
    pd.testing.assert_frame_equal(filed, filed_before)


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
