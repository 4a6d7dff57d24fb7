"""Tables: every accepted payload gives the declared columns and dtypes, without secrets."""

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
    "users": {"user_id": "int64"}
    | dict.fromkeys(["first_name", "middle_name", "last_name"], "str")
    | {"birth_date": TIME, "is_scanning": "boolean", "identification_on_file": "boolean"},
    "records": {"site": "category", "status": "category", "user_id": "int64", "name": "str", "href": "str"}
    | dict.fromkeys(["relations", "aliases", "locations", "user_fields_required_for_removal"], TEXTS)
    | {"reference_id": "str", "age": "Int16", "record_id": "int64"},
    "links": {"user_id": "int64", "url": "str", "title": "str", "contains": TEXTS},
    "alerts": {"user_id": "int64", "alert_number": "int64", "source_type": "category"}
    | dict.fromkeys(["text", "html", "url", "guide"], "str")
    | {"opt_out_procedure": TEXTS, "record_id": "Int64", "site": "category", "status": "category"}
    | dict.fromkeys(["href", "link_url", "link_title"], "str"),
    "steps": {"user_id": "int64", "alert_number": "int64", "step_number": "int64", "step": "str"}
    | {"source_type": "category", "record_id": "Int64", "site": "category", "status": "category"}
    | {"url": "str"},
    "aliases": {"user_id": "int64", "alias_id": "Int64", "first_name": "str", "last_name": "str"}
    | {"alias_type": "category"},
    "emails": {"user_id": "int64", "email_id": "Int64", "address": "str"},
    "phone_numbers": {"user_id": "int64", "phone_number_id": "Int64", "number": "str"},
    "addresses": {"user_id": "int64", "address_id": "Int64"}
    | dict.fromkeys(["address1", "address2", "city", "state", "zip", "country"], "str"),
    "service_history": {"user_id": "int64", "event": "category", "occurred_at": TIME},
    "failures": {"user_id": "int64", "operation": "str", "error": "category"}
    | {"status": "Int16", "reason": "str"},
    "deviations": {"operation": "str", "field": "str", "kind": "str", "users": "Int64", "example": "str"},
}


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


def test_every_table_is_declared():
    assert {name: [column.name for column in columns] for name, columns in frames.TABLES.items()} == {
        name: list(columns) for name, columns in DECLARED.items()
    }


@pytest.mark.parametrize("name", DECLARED)
def test_empty_table_has_its_columns_dtypes_and_no_categories(name):
    table = frames.frame(name, [])
    assert_as_declared(name, table)
    assert len(table) == 0
    for column in table.select_dtypes("category"):
        assert table[column].cat.categories.tolist() == []


@pytest.mark.parametrize(
    ("users", "alerts"),
    [
        ([], []),
        ([USER | {name: [] for name in frames.OF_USER} | {"service_history": []}], []),
        ([], [(1, ALERT | {"source": {}})]),
    ],
)
def test_tables_without_rows_have_their_columns_and_dtypes(users, alerts):
    tables = tables_of(users, alerts)
    for name, table in tables.items():
        assert_as_declared(name, table)
    assert {name: len(table) for name, table in tables.items() if len(table)} == (
        {"users": 1} if users else {"alerts": 1, "steps": 2} if alerts else {}
    )


PAYLOADS = Payloads()
PEOPLE = st.lists(PAYLOADS.user, max_size=3)
ALERT_ROWS = st.lists(st.tuples(st.integers(0, 3), PAYLOADS.alert), max_size=4)
SLOW = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@SLOW
@given(PEOPLE, ALERT_ROWS)
def test_any_payload_gives_declared_tables_without_losing_rows(users, alerts):
    """From models, and as a load does: validated from JSON, packed and unpacked a few people at a time."""
    expected = tables_of(users, sorted(alerts, key=lambda pair: pair[0]))
    for name in (*frames.OF_USER, "service_history"):
        assert len(expected[name]) == sum(len(one[name]) for one in users)
    assert (len(expected["users"]), len(expected["alerts"])) == (len(users), len(alerts))
    one, many = (TypeAdapter(row_type(reply)) for reply in (UserReply, AlertsReply))
    people = [
        frames.pack_users([one.validate_json(json.dumps({"user": payload}))["user"]]) for payload in users
    ]
    packed_alerts = []
    for person in sorted({who for who, _ in alerts}):
        body = json.dumps({"alerts": [payload for who, payload in alerts if who == person]})
        packed_alerts.append(frames.pack_alerts([{"user_id": person} | many.validate_json(body)]))
    batches = {name: [] for name in expected}
    for packed in ((people[:1], packed_alerts[:1]), (people[1:], packed_alerts[1:]), ([], [])):
        for name, table in frames.flatten(*packed).items():
            batches[name].append(table)
    for name in expected:
        actual = frames.frame(name, batches[name])
        assert_as_declared(name, actual)
        pd.testing.assert_frame_equal(actual, expected[name])


@SLOW
@given(PEOPLE)
def test_any_value_is_unchanged_in_its_cell(users):
    tables = tables_of(users)
    for name, *columns in (
        ("emails", "email_id", "address"),
        ("phone_numbers", "phone_number_id", "number"),
        ("addresses", "address_id", "zip"),
    ):
        expected = [(one["id"], item["id"], item[columns[1]]) for one in users for item in one[name]]
        assert [*tables[name][["user_id", *columns]].itertuples(index=False, name=None)] == expected
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


def test_batches_share_their_categories():
    people = [User.model_validate(USER | {"records": [RECORD | {"site": site}]}) for site in "bab"]
    batches = [frames.flatten([frames.pack_users([one.model_dump()])], [])["records"] for one in people]
    table = frames.frame("records", batches)
    assert table["site"].tolist() == ["b", "a", "b"]
    assert table["site"].cat.categories.tolist() == ["a", "b"]


@pytest.mark.parametrize("number", [0, 2**31, 2**53 + 1, 2**63 - 1])
def test_ids_are_exact_to_64_bits(number):
    record = RECORD | {"id": number}
    person = USER | {"id": number, "records": [record], "emails": [{"id": number, "address": "a"}]}
    sources = ({"record": record}, {"link": LINK})
    tables = tables_of([person], [(number, ALERT | {"source": source}) for source in sources])
    assert tables["users"]["user_id"].tolist() == [number]
    assert tables["records"][["user_id", "record_id"]].to_numpy().tolist() == [[number, number]]
    assert tables["emails"]["email_id"].tolist() == [number]
    assert tables["alerts"]["record_id"].tolist() == [number, pd.NA]
    assert tables["steps"]["user_id"].unique().tolist() == [number]


@pytest.mark.parametrize("text", ["000560228488", "0", "007", "1e5", "NaN", "None", "", " "])
def test_numeric_text_remains_text(text):
    """Not in the specification: leading zeros are real."""
    person = USER | {
        "records": [RECORD | {"reference_id": text}],
        "phone_numbers": [{"id": 1, "number": text}],
        "addresses": [USER["addresses"][0] | {"zip": text}],
    }
    tables = tables_of([person])
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
def test_birth_date_is_an_instant_also_before_1970(seconds, expected):
    """Specification, "User": unix epoch seconds, UTC."""
    table = tables_of([USER | {"birth_date": seconds}])["users"]
    assert table["birth_date"].iloc[0].isoformat() == expected
    assert expected[:10] in table.to_string()


def test_missing_values_are_not_empty_values():
    """Specification, "Link": in webhook items only url and title appear."""
    absent = {name: value for name, value in USER.items() if name != "birth_date"}
    assert tables_of([USER | {"birth_date": None}, absent])["users"]["birth_date"].isna().all()
    ages = tables_of([USER | {"records": [RECORD | {"age": age} for age in (None, 0, 32_767)]}])["records"]
    assert ages["age"].tolist() == [pd.NA, 0, 32_767]
    bare = {name: value for name, value in RECORD.items() if name != "href"}
    records = tables_of([USER | {"records": [bare, RECORD | {"href": ""}]}])["records"]
    assert records["href"].isna().tolist() == [True, False]
    contains = [{"contains": None}, {}, {"contains": []}, {"contains": ["email"]}]
    links = tables_of([USER | {"links": [{"title": "t"} | one for one in contains]}])["links"]
    assert links["contains"].isna().tolist() == [True, True, False, False]
    assert [list(one) for one in links["contains"].iloc[2:]] == [[], ["email"]]


def test_unknown_status_is_a_category():
    statuses = ["verifying", "removed", ""]
    table = tables_of([USER | {"records": [RECORD | {"status": status} for status in statuses]}])["records"]
    assert table["status"].tolist() == statuses
    assert table["status"].cat.categories.tolist() == ["", "removed", "verifying"]


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
def test_alert_row_contains_its_source_of_any_type(source_type, source, expected):
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


def test_step_has_the_address_and_record_of_its_alert():
    alert_rows = [(1, ALERT), (1, ALERT | {"url": None, "source_type": "link", "source": {"link": LINK}})]
    steps = tables_of(alerts=alert_rows)["steps"]
    assert steps["url"].tolist() == [ALERT["url"]] * 2 + [np.nan] * 2
    assert steps["record_id"].tolist() == [7, 7, pd.NA, pd.NA]
    assert steps["site"].isna().tolist() == [False, False, True, True]


def history_of(*entries):
    table = tables_of([USER | {"id": 1, "service_history": list(entries)}])["service_history"]
    return list(zip(table["event"], table["occurred_at"].dt.strftime("%Y %H:%M"), strict=True))


def on(kind, year, clock="00:00"):
    return {f"{kind}_service_on": f"{year}/01/01 {clock}:00 +0000"}


@pytest.mark.parametrize(
    "entries",
    [
        [on("activated", 2026), on("deactivated", 2025), on("activated", 2024)],
        [on("activated", 2026), on("activated", 2024) | on("deactivated", 2025)],
        [{"paused_service_on": "x"}, on("activated", 2024), on("deactivated", 2025), on("activated", 2026)],
    ],
)
def test_service_history_is_sorted_by_time(entries):
    """Not in the specification: order not promised: sort by time. One entry may have both instants, or neither."""
    assert history_of(*entries) == [
        ("activated", "2024 00:00"),
        ("deactivated", "2025 00:00"),
        ("activated", "2026 00:00"),
    ]


@pytest.mark.parametrize(
    "kinds",
    [("activated", "deactivated"), ("deactivated", "activated"), ("deactivated", "activated", "deactivated")],
)
def test_entries_of_one_instant_are_not_reordered(kinds):
    assert [event for event, _ in history_of(*(on(kind, 2026) for kind in kinds))] == list(kinds)


def test_each_users_history_is_sorted():
    people = [
        USER | {"id": n, "service_history": [on("deactivated", 2020 + n), on("activated", 2010 + n)]}
        for n in (9, 3)
    ]
    table = tables_of(people)["service_history"]
    assert table["user_id"].tolist() == [9, 9, 3, 3]
    assert table["occurred_at"].dt.year.tolist() == [2019, 2029, 2013, 2023]


def test_no_table_contains_a_secret():
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
def test_tables_are_writable(name):
    table = tables_of([USER, USER | {"id": 2}], [(1, ALERT), (2, ALERT)])[name]
    for column, dtype in DECLARED[name].items():
        if dtype != TEXTS:
            table.loc[0, column] = table.loc[1, column]
    assert table.loc[0, "user_id"] == table.loc[1, "user_id"]
    assert_as_declared(name, table)


def test_failures_have_a_table():
    row = {"user_id": 2**63 - 1, "operation": "Get user", "error": "Unauthorized", "status": 401}
    row |= {"reason": "r"}
    table = frames.frame(
        "failures",
        [frames.of_rows("failures", [row, row | {"status": None}]), frames.of_rows("failures", [])],
    )
    assert_as_declared("failures", table)
    assert table["status"].tolist() == [401, pd.NA]
    assert table["user_id"].tolist() == [2**63 - 1] * 2
