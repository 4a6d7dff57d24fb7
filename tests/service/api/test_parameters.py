"""Parameters: every format that clients send is read, and everything else is a 400 in Grape's words."""

import asyncio
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from support.services import JANE

from exposurekit.contract.inputs import PhoneNumberItem
from exposurekit.contract.operations import CREATE_USER, LIST_USERS, UPDATE_USER
from exposurekit.service.api import parameters
from exposurekit.service.errors import ApiError


def validated(operation, values):
    return asyncio.run(parameters.validated(operation, values))


def refusal_of(operation, **values):
    with pytest.raises(ApiError) as refusal:
        validated(operation, values)
    assert refusal.value.status == 400
    return str(refusal.value)


def fields_of(name, value):
    return [dict(entry.fields) for entry in validated(UPDATE_USER, {name: value})[name]]


def test_all_missing_parameters_are_named():
    assert refusal_of(CREATE_USER) == "first_name is missing, last_name is missing, addresses is missing"


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [
        ([], "addresses is missing"),
        ("", "addresses is missing"),
        ([{"city": "Oakmere"}], "addresses[0][state] is missing"),
        ([{"city": " ", "state": "CA"}], "addresses[0][city] is missing"),
        ([{"zip": "01234"}], "addresses[0][city] is missing, addresses[0][state] is missing"),
        ([{}], "addresses[0] is invalid: it must have a known field"),
        ([{"city": "Oakmere", "state": "CA", "_destroy": True}], "addresses is missing"),
        ("Oakmere, CA", "addresses is invalid: it must be a list"),
        ({"city": "Oakmere"}, "addresses is invalid: it must be a list"),
    ],
)
def test_a_user_requires_an_address_with_city_and_state(addresses, problem):
    """Where the specification is silent: "required on create"."""
    assert refusal_of(CREATE_USER, **JANE | {"addresses": addresses}) == problem


def test_one_complete_address_is_enough():
    addresses = [{"zip": "01234"}, {"city": "Oakmere", "state": "CA"}]
    assert len(validated(CREATE_USER, JANE | {"addresses": addresses})["addresses"]) == 2


@pytest.mark.parametrize("name", ["first_name", "last_name"])
def test_a_user_requires_names_that_are_not_blank(name):
    assert refusal_of(CREATE_USER, **JANE | {name: "  "}) == f"{name} is empty"


EMAILS = [{"address": "a@x.example"}, {"address": "b@x.example"}]
EMAIL_LISTS = (
    *(EMAILS, json.dumps(EMAILS), ["a@x.example", "b@x.example"]),
    *("a@x.example,b@x.example", " a@x.example , b@x.example, "),
)
FULL_NAMES = {
    "Janie Doe": ("Janie", "Doe"),
    "Mary Ann  Doe": ("Mary Ann", "Doe"),
    "Cher": ("Cher", ""),
    "Zeb Otterwick Jr.": ("Zeb", "Otterwick Jr."),
    "Zeb Ii": ("Zeb", "Ii"),
    "Ludwig Otto van der Moor III": ("Ludwig Otto", "van der Moor III"),
    "Ana de la Moor": ("Ana", "de la Moor"),
    "Van Moor": ("Van", "Moor"),
    "Anh Van Moor": ("Anh Van", "Moor"),
}
NUMBERS = {
    "+1 (555) 123-4567": "15551234567",
    "555.123.4567": "5551234567",
    "555\u2011123\u20134567": "5551234567",
    "\u202a+1 555 123 4567\u202c": "15551234567",
    "\u200e555\u200b123\u20604567\u200e": "5551234567",
    5551234567: "5551234567",
}
DATES = (-86_400, "-86400", "1969-12-31", "1969/12/31 00:00:00 +0000")
UNUSUAL_TEXTS = ("a\tb\nc", "x" * 255, "Zoë 李 🎈", "<b>&", "O'Neil")


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        *(("emails", value, EMAILS) for value in EMAIL_LISTS),
        *(
            ("aliases", name, [{"first_name": first, "last_name": last}])
            for name, (first, last) in FULL_NAMES.items()
        ),
        *(("phone_numbers", [{"number": value}], [{"number": NUMBERS[value]}]) for value in NUMBERS),
        *(("birth_date", value, -86_400) for value in DATES),
        *(("async", value, True) for value in ("true", "True", True, 1, "1", "yes")),
        *(("first_name", text, text) for text in UNUSUAL_TEXTS),
    ],
)
def test_every_format_of_a_value_is_accepted(name, value, stored):
    """Not in the specification: list formats; an alias string is a full name; dates, negative before 1970."""
    accepted = validated(CREATE_USER, JANE | {name: value})[name]
    if isinstance(stored, list):
        accepted = [dict(entry.fields) for entry in accepted]
    assert accepted == stored


@pytest.mark.parametrize("value", ["555-CALL", "\N{ARABIC-INDIC DIGIT FIVE}", "+", "1;2"])
def test_an_invalid_phone_number_is_rejected(value):
    refusal = refusal_of(UPDATE_USER, phone_numbers=[{"number": value}])
    assert (
        refusal
        == "phone_numbers[0][number] is invalid: it must be digits with only spaces and ()+./- between them"
    )


@pytest.mark.parametrize(
    ("number", "is_accepted"),
    [
        *(
            (number, True)
            for number in ("555 123-4567", "+1 (555) 123/45.67", "555\u2011123\u00b74567", "5", "", " ")
        ),
        *((number, False) for number in ("555-CALL", "+", "1;2", "5\x00", "5" * 256)),
    ],
)
def test_a_phone_number_is_accepted_as_its_schema_says(number, is_accepted):
    [schema, _] = PhoneNumberItem.model_json_schema()["properties"]["number"]["anyOf"]
    fits = re.search(schema["pattern"], number) is not None and len(number) <= schema["maxLength"]
    assert fits is is_accepted
    if is_accepted:
        assert validated(UPDATE_USER, {"phone_numbers": [{"number": number}]})
    else:
        assert "[number] is invalid" in refusal_of(UPDATE_USER, phone_numbers=[{"number": number}])


A_DATE = "it must be epoch seconds or a date such as 1980-02-29"


@pytest.mark.parametrize(("limit", "beyond"), [("minimum", -1), ("maximum", 1)])
def test_a_birth_date_is_accepted_as_its_schema_says(limit, beyond):
    [parameter] = [one for one in UPDATE_USER.parameters if one.name == "birth_date"]
    [schema, _] = TypeAdapter(parameter.type).json_schema()["anyOf"]
    assert validated(UPDATE_USER, {"birth_date": schema[limit]}) == {"birth_date": schema[limit]}
    assert refusal_of(UPDATE_USER, birth_date=schema[limit] + beyond) == f"birth_date is invalid: {A_DATE}"


def test_a_blank_clears_a_list_a_text_and_a_date():
    """Update user, rules 4 and 5: a missing input is ignored, and a blank string truncates the field."""
    assert validated(UPDATE_USER, {}) == {}
    blank = {"emails": "", "middle_name": " ", "birth_date": ""}
    assert validated(UPDATE_USER, blank) == {"emails": None, "middle_name": "", "birth_date": None}


@pytest.mark.parametrize(
    "value", [[{"id": "", "_destroy": "", "address": "a"}], [{"id": None, "_destroy": None, "address": "a"}]]
)
def test_a_blank_id_or_destroy_flag_is_none(value):
    [entry] = validated(UPDATE_USER, {"emails": value})["emails"]
    assert (entry.id, entry.destroy, entry.fields) == (None, None, {"address": "a"})


AN_ID = f"it must be an integer from 0 to {2**63 - 1}"
INVALID = {  # by the parameter and the reason
    ("birth_date", A_DATE): (
        *(10**30, "9" * 5000, [], {}, "\N{FULLWIDTH DIGIT ONE}", True, 1.5, 2.0, "soon", "1_000"),
        "0001-01-01T00:00:00+23:59",
    ),
    ("async", "it must be true or false"): ("maybe", 2, [], 1.0, "\ud800"),
    ("limit", "it must be an integer from 1 to 1000"): (
        *(0, -1, 1001, "1001", "ten", 1.0, True, "1_0", "0x1", [1], str(2**63)),
    ),
    ("offset", AN_ID): (-1, 2**63, "x"),
    ("first_name", "it must be text"): (5, ["a"], {"a": 1}),
    ("first_name", "it must have no control characters"): (
        "a\x00b",
        "a\x1bb",
        "a\x7fb",
        "a\x85b",
        "\ud800",
        "a\ufffeb",
    ),
    ("first_name", "it must have at most 255 characters"): ("x" * 256,),
}


@pytest.mark.parametrize(
    ("name", "reason", "value"),
    [(*parameter, value) for parameter in INVALID for value in INVALID[parameter]],
)
def test_an_invalid_value_is_rejected_with_the_reason(name, reason, value):
    """Not in the specification, "List users": limit 1..1000."""
    operation = LIST_USERS if name in LIST_USERS.names else CREATE_USER
    others = {} if operation is LIST_USERS else JANE
    assert refusal_of(operation, **others | {name: value}) == f"{name} is invalid: {reason}"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([{"address": "a\x00"}], "emails[0][address] is invalid: it must have no control characters"),
        ([{"address": "a"}, {"address": []}], "emails[1][address] is invalid: it must be text"),
        ([{"id": "seven"}], f"emails[0][id] is invalid: {AN_ID}"),
        ([{"id": str(2**63)}], f"emails[0][id] is invalid: {AN_ID}"),
        ([{"id": "1" * 5000}], "emails[0][id] is invalid: it must have at most 255 characters"),
        ([{"_destroy": "perhaps"}], "emails[0][_destroy] is invalid: it must be true or false"),
        ([5], "emails[0] is invalid: it must be an object"),
        ([{"address": "a"}] * 101, "emails is invalid: it must have at most 100 items"),
        ("[{]", "emails is invalid: it must be JSON"),
        (7, "emails is invalid: it must be a list"),
    ],
)
def test_an_invalid_item_is_named_by_its_index(value, problem):
    assert refusal_of(UPDATE_USER, emails=value) == problem


def test_an_alias_is_a_nickname_a_maiden_name_or_nothing():
    """Specification, "Alias": one of nickname, maiden."""
    refusal = refusal_of(UPDATE_USER, aliases=[{"alias_type": "pen name"}])
    assert refusal == "aliases[0][alias_type] is invalid: it must be nickname or maiden"
    aliases = [{"alias_type": "maiden"}, {"alias_type": ""}]
    assert fields_of("aliases", aliases) == aliases


def test_unknown_parameters_are_ignored():
    values = {"nickname": "J", "emails": [{"address": "a", "kind": ["home"]}]}
    assert validated(UPDATE_USER, values).keys() == {"emails"}


KEYS = st.text() | st.sampled_from(["id", "_destroy", "address", "city", "number"])
TEXTS = st.text() | st.sampled_from(["", " ", "1", "[]", '[{"id":1}]'])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


PROBLEM = re.compile(r"(\w+)((\[(\d+|[a-z0-9_]+)\])*) is (missing|invalid)(: [a-zA-Z0-9()+./\- ]+)?")


# The first draw builds tables of all characters.
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(UPDATE_USER.names), ANYTHING))
def test_any_input_is_typed_or_rejected_in_known_words(values):
    try:
        assert validated(UPDATE_USER, values).keys() <= values.keys()
    except ApiError as refusal:
        problems = [PROBLEM.fullmatch(problem) for problem in str(refusal).split(", ")]
        assert {problem and problem[1] for problem in problems} <= set(UPDATE_USER.names)
