"""The threshold: whatever the contract accepts gives the declared columns and dtypes, and no secret."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from support.payloads import ALERT, LINK, RECORD, USER, Payloads

from exposurekit import frames
from exposurekit.contract.models import Alert, AlertsReply, User, UserReply
from exposurekit.contract.schema import row_type

# Written out by hand: these are what an analyst's code relies on.
TEXTS, TIME = "list<item: string>[pyarrow]", "datetime64[us, UTC]"
DECLARED = {
    "users": {
        "user_id": "int64",
        "first_name": "str",
        "middle_name": "str",
        "last_name": "str",
        "birth_date": TIME,
        "is_scanning": "boolean",
        "identification_on_file": "boolean",
    },
    "records": {
        "site": "category",
        "status": "category",
        "user_id": "int64",
        "name": "str",
        "href": "str",
        "relations": TEXTS,
        "aliases": TEXTS,
        "locations": TEXTS,
        "user_fields_required_for_removal": TEXTS,
        "reference_id": "str",
        "age": "Int16",
        "record_id": "int64",
    },
    "links": {"user_id": "int64", "url": "str", "title": "str", "contains": TEXTS},
    "alerts": {
        "user_id": "int64",
        "alert_number": "int64",
        "source_type": "category",
        "text": "str",
        "html": "str",
        "url": "str",
        "guide": "str",
        "opt_out_procedure": TEXTS,
        "record_id": "Int64",
        "site": "category",
        "status": "category",
        "href": "str",
        "link_url": "str",
        "link_title": "str",
    },
    "steps": {
        "user_id": "int64",
        "alert_number": "int64",
        "step_number": "int64",
        "step": "str",
        "source_type": "category",
        "record_id": "Int64",
        "site": "category",
        "status": "category",
        "url": "str",
    },
    "aliases": {
        "user_id": "int64",
        "alias_id": "Int64",
        "first_name": "str",
        "last_name": "str",
        "alias_type": "category",
    },
    "emails": {"user_id": "int64", "email_id": "Int64", "address": "str"},
    "phone_numbers": {"user_id": "int64", "phone_number_id": "Int64", "number": "str"},
    "addresses": {"user_id": "int64", "address_id": "Int64"}
    | dict.fromkeys(["address1", "address2", "city", "state", "zip", "country"], "str"),
    "service_history": {"user_id": "int64", "event": "category", "occurred_at": TIME},
    "failures": {
        "user_id": "int64",
        "operation": "str",
        "error": "category",
        "status": "Int16",
        "reason": "str",
    },
    "deviations": {"operation": "str", "field": "str", "kind": "str", "users": "Int64", "example": "str"},
}
CATEGORIES = [
    (name, column)
    for name, columns in DECLARED.items()
    for column, dtype in columns.items()
    if dtype == "category"
]


def user(**fields):
    return User.model_validate(USER | fields)


def alert(**fields):
    return Alert.model_validate(ALERT | fields)


def tables_of(users=(), alerts=()):
    """All tables, by way of the models; alerts as (user, payload)."""
    alerts_by_user = {}
    for person, payload in alerts:
        alerts_by_user.setdefault(person, []).append(Alert.model_validate(payload))
    return frames.from_users(map(User.model_validate, users)) | frames.from_alerts(alerts_by_user)


def assert_as_declared(name, table):
    assert {column: str(dtype) for column, dtype in table.dtypes.items()} == DECLARED[name]
    assert table.columns.tolist() == list(DECLARED[name])
    assert table.index.equals(pd.RangeIndex(len(table)))
    for column in table.select_dtypes("category"):
        assert str(table[column].cat.categories.dtype) == "str"
        assert table[column].cat.categories.is_monotonic_increasing


# Columns and dtypes


def test_every_table_is_declared():
    assert {name: [column.name for column in columns] for name, columns in frames.TABLES.items()} == {
        name: list(columns) for name, columns in DECLARED.items()
    }


@pytest.mark.parametrize("name", DECLARED)
def test_a_table_of_nothing_has_its_columns_and_dtypes(name):
    table = frames.frame(name, [])
    assert_as_declared(name, table)
    assert len(table) == 0


@pytest.mark.parametrize(
    ("users", "alerts"),
    [
        ([], []),
        ([USER | {name: [] for name in frames.OF_USER} | {"service_history": []}], []),
        ([], [(1, ALERT | {"source": {}})]),
    ],
)
def test_tables_with_nothing_in_them_have_their_columns_and_dtypes(users, alerts):
    tables = tables_of(users, alerts)
    for name, table in tables.items():
        assert_as_declared(name, table)
    assert {name: len(table) for name, table in tables.items() if len(table)} == (
        {"users": 1} if users else {"alerts": 1, "steps": 2} if alerts else {}
    )


MADE = Payloads()
PEOPLE = st.lists(MADE.user, max_size=3)
ALERT_ROWS = st.lists(st.tuples(st.integers(0, 3), MADE.alert), max_size=4)
SLOW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@SLOW
@given(PEOPLE, ALERT_ROWS)
def test_any_payload_gives_the_declared_columns_and_loses_no_row(users, alerts):
    tables = tables_of(users, alerts)
    for name, table in tables.items():
        assert_as_declared(name, table)
    for name in (*frames.OF_USER, "service_history"):
        assert len(tables[name]) == sum(len(one[name]) for one in users)
    assert len(tables["users"]) == len(users)
    assert len(tables["alerts"]) == len(alerts)


@SLOW
@given(PEOPLE, ALERT_ROWS)
def test_batched_rows_and_models_give_the_same_tables(users, alerts):
    """What a load does: validated straight from the wire, packed and unpacked a few people at a time."""
    expected = tables_of(users, sorted(alerts, key=lambda pair: pair[0]))
    one, many = (TypeAdapter(row_type(reply)) for reply in (UserReply, AlertsReply))
    batches = {name: [] for name in expected}
    people = [
        frames.pack_users([one.validate_json(json.dumps({"user": packed_alerts}))["user"]])
        for packed_alerts in users
    ]
    packed_alerts = [
        frames.pack_alerts(
            [
                {"user_id": person}
                | many.validate_json(
                    json.dumps({"alerts": [payload for who, payload in alerts if who == person]})
                )
            ]
        )
        for person in sorted({who for who, _ in alerts})
    ]
    for packed in ((people[:1], packed_alerts[:1]), (people[1:], packed_alerts[1:]), ([], [])):
        for name, table in frames.flatten(*packed).items():
            batches[name].append(table)
    for name in expected:
        actual = frames.frame(name, batches[name])
        assert_as_declared(name, actual)
        pd.testing.assert_frame_equal(actual, expected[name])


@SLOW
@given(PEOPLE)
def test_any_value_stands_in_its_cell_as_it_came(users):
    tables = tables_of(users)
    for name, key in (
        ("emails", "email_id"),
        ("phone_numbers", "phone_number_id"),
        ("addresses", "address_id"),
    ):
        came = [
            (one["id"], item["id"], item.get("zip", item.get("number", item.get("address"))))
            for one in users
            for item in one[name]
        ]
        text = {"emails": "address", "phone_numbers": "number", "addresses": "zip"}[name]
        assert (
            list(zip(*(tables[name][column].tolist() for column in ("user_id", key, text)), strict=True))
            == came
        )
    bare = [(one["id"], record.get("record", record)) for one in users for record in one["records"]]
    table = tables["records"]
    assert table["site"].tolist() == [record["site"] for _, record in bare]
    assert table["status"].tolist() == [record["status"] for _, record in bare]
    assert table["reference_id"].tolist() == [record["reference_id"] for _, record in bare]
    assert table["user_id"].tolist() == [owner for owner, _ in bare]
    assert [None if pd.isna(age) else age for age in table["age"]] == [
        record.get("age") for _, record in bare
    ]
    for column in ("relations", "user_fields_required_for_removal"):
        assert table[column].array.__arrow_array__().to_pylist() == [record.get(column) for _, record in bare]
    seconds = [one.get("birth_date") for one in users]
    assert [None if pd.isna(at) else at.timestamp() for at in tables["users"]["birth_date"]] == seconds


def test_many_batches_agree_on_their_categories():
    batches = [
        frames.flatten([frames.pack_users([user(id=n, records=[RECORD | {"site": site}]).model_dump()])], [])[
            "records"
        ]
        for n, site in enumerate("bab")
    ]
    table = frames.frame("records", batches)
    assert table["site"].tolist() == ["b", "a", "b"]
    assert table["site"].cat.categories.tolist() == ["a", "b"]


@pytest.mark.parametrize(("name", "column"), CATEGORIES)
def test_a_table_of_nothing_has_no_categories(name, column):
    assert frames.frame(name, [])[column].cat.categories.tolist() == []


# Right by construction


@pytest.mark.parametrize("number", [0, 2**31, 2**53 + 1, 2**63 - 1])
def test_an_id_is_exact_to_64_bits(number):
    tables = tables_of(
        [
            USER
            | {"id": number, "records": [RECORD | {"id": number}], "emails": [{"id": number, "address": "a"}]}
        ],
        [
            (number, ALERT | {"source": {"record": RECORD | {"id": number}}}),
            (number, ALERT | {"source": {"link": LINK}}),
        ],
    )
    assert tables["users"]["user_id"].tolist() == [number]
    assert tables["records"][["user_id", "record_id"]].to_numpy().tolist() == [[number, number]]
    assert tables["emails"]["email_id"].tolist() == [number]
    assert tables["alerts"]["record_id"].tolist() == [number, pd.NA]
    assert tables["steps"]["user_id"].unique().tolist() == [number]


@pytest.mark.parametrize("text", ["000560228488", "0", "007", "1e5", "NaN", "None", "", " "])
def test_what_looks_like_a_number_stays_text(text):
    """Not in the specification: leading zeros are real."""
    tables = tables_of(
        [
            USER
            | {
                "records": [RECORD | {"reference_id": text}],
                "phone_numbers": [{"id": 1, "number": text}],
                "addresses": [USER["addresses"][0] | {"zip": text}],
            }
        ]
    )
    assert tables["records"].loc[0, "reference_id"] == text
    assert tables["phone_numbers"].loc[0, "number"] == text
    assert tables["addresses"].loc[0, "zip"] == text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (-1, "1969-12-31T23:59:59+00:00"),
        (-86_400, "1969-12-31T00:00:00+00:00"),
        (320_630_400, "1980-02-29T00:00:00+00:00"),
        (-2_208_988_801, "1899-12-31T23:59:59+00:00"),
        (-62_135_596_800, "0001-01-01T00:00:00+00:00"),
        (253_402_300_799, "9999-12-31T23:59:59+00:00"),
        ("1969-12-31", "1969-12-31T00:00:00+00:00"),
    ],
)
def test_a_birth_date_is_an_instant_also_before_1970(seconds, expected):
    """Specification, "User": unix epoch seconds, UTC."""
    table = tables_of([USER | {"birth_date": seconds}])["users"]
    assert table["birth_date"].iloc[0].isoformat() == expected
    assert expected[:10] in table.to_string()


def test_a_birth_date_that_is_unset_is_missing():
    absent = {name: value for name, value in USER.items() if name != "birth_date"}
    assert tables_of([USER | {"birth_date": None}, absent])["users"]["birth_date"].isna().all()


def test_an_unknown_status_is_a_category_beside_the_known_ones():
    tables = tables_of(
        [USER | {"records": [RECORD | {"status": status} for status in ("verifying", "removed", "")]}]
    )
    assert tables["records"]["status"].tolist() == ["verifying", "removed", ""]
    assert tables["records"]["status"].cat.categories.tolist() == ["", "removed", "verifying"]


@pytest.mark.parametrize(
    ("fields", "listed"),
    [({"contains": None}, None), ({}, None), ({"contains": []}, []), ({"contains": ["email"]}, ["email"])],
)
def test_an_absent_list_is_missing_and_an_empty_one_empty(fields, listed):
    """Specification, "Link": in webhook items only url and title appear."""
    table = tables_of([USER | {"links": [{"title": "t"} | fields]}])["links"]
    assert table["contains"].isna().tolist() == [listed is None]
    if listed is not None:
        assert list(table["contains"].iloc[0]) == listed


@pytest.mark.parametrize(
    ("fields", "age"), [({"age": None}, pd.NA), ({"age": 0}, 0), ({"age": 32_767}, 32_767)]
)
def test_an_age_that_is_not_known_is_missing(fields, age):
    age_cell = tables_of([USER | {"records": [RECORD | fields]}])["records"]["age"].iloc[0]
    assert age_cell is pd.NA if age is pd.NA else age_cell == age


def test_text_that_is_missing_is_not_an_empty_text():
    bare = {name: value for name, value in RECORD.items() if name != "href"}
    table = tables_of([USER | {"records": [bare, RECORD | {"href": ""}]}])["records"]
    assert table["href"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("source_type", "source", "expected"),
    [
        ("record", {"record": RECORD}, (7, "Lookup", "discovered", RECORD["href"], None, None)),
        ("record", {"record": {"record": RECORD}}, (7, "Lookup", "discovered", RECORD["href"], None, None)),
        ("link", {"link": LINK}, (None, None, None, None, LINK["url"], LINK["title"])),
        ("breach", {"breach": {"id": 3, "site": "B"}}, (None,) * 6),
        ("record", {}, (None,) * 6),
        ("record", {"record": None, "link": LINK}, (None, None, None, None, LINK["url"], LINK["title"])),
    ],
)
def test_an_alert_names_its_source_of_whatever_type(source_type, source, expected):
    """Specification, "Alert": exactly one key; Not in the specification: open sets."""
    tables = tables_of(alerts=[(5, ALERT | {"source_type": source_type, "source": source})])
    columns = ["record_id", "site", "status", "href", "link_url", "link_title"]
    [row] = tables["alerts"][columns].itertuples(index=False)
    assert tuple(None if pd.isna(value) else value for value in row) == expected
    assert tables["alerts"]["source_type"].tolist() == [source_type]
    assert tables["steps"]["source_type"].tolist() == [source_type] * 2


def test_alerts_are_numbered_from_0_and_steps_from_1():
    procedures = [["a", "b"], None, "one step", [], "1. c 2. d"]
    alert_rows = [
        (person, ALERT | {"opt_out_procedure": procedure}) for person in (9, 4) for procedure in procedures
    ]
    tables = tables_of(alerts=alert_rows)
    assert tables["alerts"][["user_id", "alert_number"]].to_numpy().tolist() == [
        [n, i] for n in (9, 4) for i in range(5)
    ]
    steps = [(0, 1, "a"), (0, 2, "b"), (2, 1, "one step"), (4, 1, "c"), (4, 2, "d")]
    rows = tables["steps"][["user_id", "alert_number", "step_number", "step"]].itertuples(index=False)
    assert [tuple(row) for row in rows] == [(person, *step) for person in (9, 4) for step in steps]


def test_a_step_has_its_alerts_address_and_record():
    alert_rows = [(1, ALERT), (1, ALERT | {"url": None, "source_type": "link", "source": {"link": LINK}})]
    steps = tables_of(alerts=alert_rows)["steps"]
    assert steps["url"].tolist() == [ALERT["url"]] * 2 + [np.nan] * 2
    assert steps["record_id"].tolist() == [7, 7, pd.NA, pd.NA]
    assert steps["site"].isna().tolist() == [False, False, True, True]


# Service history


def history_of(*entries):
    table = tables_of([USER | {"id": 1, "service_history": list(entries)}])["service_history"]
    return list(zip(table["event"], table["occurred_at"].dt.strftime("%Y %H:%M"), strict=True))


def on(kind, year, clock="00:00"):
    return {f"{kind}_service_on": f"{year}/01/01 {clock}:00 +0000"}


def test_service_history_is_in_order_of_time():
    """Not in the specification: order not promised: sort by time."""
    history = history_of(on("activated", 2026), on("deactivated", 2025), on("activated", 2024))
    assert history == [
        ("activated", "2024 00:00"),
        ("deactivated", "2025 00:00"),
        ("activated", "2026 00:00"),
    ]


@pytest.mark.parametrize(
    "kinds",
    [("activated", "deactivated"), ("deactivated", "activated"), ("deactivated", "activated", "deactivated")],
)
def test_entries_of_one_instant_stay_in_order(kinds):
    assert [event for event, _ in history_of(*(on(kind, 2026) for kind in kinds))] == list(kinds)


def test_each_user_has_their_history_in_order():
    people = [
        USER | {"id": n, "service_history": [on("deactivated", 2020 + n), on("activated", 2010 + n)]}
        for n in (9, 3)
    ]
    table = tables_of(people)["service_history"]
    assert table["user_id"].tolist() == [9, 9, 3, 3]
    assert table["occurred_at"].dt.year.tolist() == [2019, 2029, 2013, 2023]


def test_an_entry_that_tells_both_instants_gives_both():
    assert history_of(on("activated", 2024) | on("deactivated", 2025)) == [
        ("activated", "2024 00:00"),
        ("deactivated", "2025 00:00"),
    ]


def test_an_entry_of_neither_kind_is_not_called_a_deactivation():
    """Unknown fields are ignored: what is not known is not made up."""
    assert history_of({"paused_service_on": "2026/01/01 00:00:00 +0000"}, on("activated", 2024)) == [
        ("activated", "2024 00:00")
    ]


# What no table holds


def test_no_secret_is_in_any_table():
    """Not in the specification, "secret": never in a frame."""
    canaries = {"secret": "canary-1", "api_secret": "canary-2", "api_key": "canary-3"}
    for secret in ("canary-1", 11335577991133557799):
        people = [
            USER | canaries | {"secret": secret, "emails": [{"id": 1, "address": "a", "secret": "canary-4"}]}
        ]
        tables = tables_of(people, [(1, ALERT | canaries | {"source": {"record": RECORD | canaries}})])
        for table in tables.values():
            assert not table.columns.str.contains("secret|key").any()
            assert "canary" not in table.to_csv() + table.to_json(date_format="iso")
            assert "11335577991133557799" not in table.to_csv()


@pytest.mark.parametrize(
    "name", [name for name in DECLARED if "user_id" in DECLARED[name] and name != "failures"]
)
def test_an_analyst_may_write_into_a_table(name):
    table = tables_of([USER, USER | {"id": 2}], [(1, ALERT), (2, ALERT)])[name]
    for column, dtype in DECLARED[name].items():
        if dtype != TEXTS:
            table.loc[0, column] = table.loc[1, column]
    assert table.loc[0, "user_id"] == table.loc[1, "user_id"]
    assert_as_declared(name, table)


def test_failures_are_a_table_of_their_own():
    row = {
        "user_id": 2**63 - 1,
        "operation": "Get user",
        "error": "Unauthorized",
        "status": 401,
        "reason": "r",
    }
    table = frames.frame(
        "failures",
        [frames.of_rows("failures", [row, row | {"status": None}]), frames.of_rows("failures", [])],
    )
    assert_as_declared("failures", table)
    assert table["status"].tolist() == [401, pd.NA]
    assert table["user_id"].tolist() == [2**63 - 1] * 2
