"""Resources: strict where the specification is definite, tolerant where it is silent, without personal data in reprs."""

from datetime import UTC, date, datetime, timedelta, timezone
from pprint import pformat
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from support.payloads import ALERT, LINK, RECORD, USER

from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, Item, PhoneNumberItem
from exposurekit.contract.models import (
    Address,
    Alert,
    AlertsReply,
    Alias,
    Email,
    Link,
    LinksReply,
    PhoneNumber,
    Record,
    RecordReply,
    RecordsReply,
    ServiceHistoryEntry,
    User,
    UserKey,
    UserPage,
    UserReply,
)
from exposurekit.contract.opt_out_steps import split_steps
from exposurekit.contract.types import BirthDate, Instant

KEY = {"id": 12345, "secret": "ab12"}
ADDRESS = USER["addresses"][0]
# The specification's tables: a whole payload, and the fields that may be null; all others are required.
TABLES: dict[type[BaseModel], tuple[dict[str, Any], set[str]]] = {
    UserKey: (KEY, set()),
    User: (USER, {"birth_date"}),
    Alias: (USER["aliases"][0], set()),
    Email: (USER["emails"][0], set()),
    PhoneNumber: (USER["phone_numbers"][0], set()),
    Address: (ADDRESS, {"address2"}),
    Record: (RECORD, {"age", "href", "user_fields_required_for_removal"}),
    Link: (LINK, {"url", "contains"}),
    Alert: (ALERT, {"url", "guide", "opt_out_procedure"}),
}
REQUEST_ONLY = {Alias: {"alias_type"}, Address: {"country"}}
FIELDS = [(model, name) for model, (payload, _) in TABLES.items() for name in payload]
REQUIRED = [(model, name) for model, name in FIELDS if name not in TABLES[model][1]]
NULLABLE = [(model, name) for model, name in FIELDS if name in TABLES[model][1]]


def without(payload, name):
    return {key: value for key, value in payload.items() if key != name}


def refusal_of(model, payload):
    with pytest.raises(ValidationError) as refusal:
        model.model_validate(payload)
    return refusal.value


def error_fields(error):
    return {problem["loc"][0] for problem in error.errors()}


@pytest.mark.parametrize("model", TABLES)
def test_resource_has_exactly_the_fields_of_its_table(model):
    """Specification, "Resources and their fields"."""
    payload, _ = TABLES[model]
    assert set(model.model_fields) == payload.keys() | REQUEST_ONLY.get(model, set())
    read = model.model_validate(payload).model_dump(exclude_unset=True)
    if model is User:
        payload = USER | {
            "service_history": [{"activated_service_on": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}]
        }
    assert read == payload


@pytest.mark.parametrize(("model", "name"), REQUIRED)
def test_required_field_must_be_present_and_not_null(model, name):
    payload, _ = TABLES[model]
    [absent] = refusal_of(model, without(payload, name)).errors()
    assert (absent["loc"], absent["type"]) == ((name,), "missing")
    assert error_fields(refusal_of(model, payload | {name: None})) == {name}


@pytest.mark.parametrize(("model", "name"), NULLABLE)
def test_nullable_field_may_also_be_absent(model, name):
    """Specification, "?"; Where the specification is silent: "may be null or absent"."""
    payload, _ = TABLES[model]
    nothing = [] if name == "opt_out_procedure" else None
    for variant in (without(payload, name), payload | {name: None}):
        assert getattr(model.model_validate(variant), name) == nothing


@pytest.mark.parametrize(("model", "name"), [(Alias, "alias_type"), (Address, "country")])
def test_request_field_in_a_response_is_read(model, name):
    """Not in the specification: alias_type and country read where a response carries them."""
    payload, _ = TABLES[model]
    assert getattr(model.model_validate(payload | {name: "XX"}), name) == "XX"
    assert getattr(model.model_validate(payload), name) is None


@pytest.mark.parametrize("model", TABLES)
def test_resource_is_frozen_and_preserves_unknown_fields(model):
    """Where the specification is silent: "unknown fields"."""
    read = model.model_validate(TABLES[model][0] | {"colour": {"of": ["anything"]}})
    assert read.model_extra == {"colour": {"of": ["anything"]}}
    name = next(iter(model.model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(read, name, getattr(read, name))


@pytest.mark.parametrize("secret", ["ab12", "000123", "123456789012345678", 123456789012345678, 0, 10**30])
def test_secret_is_preserved_exactly(secret):
    """Specification, "User": keep it exactly as returned; Not in the specification: type included."""
    user = User.model_validate(USER | {"secret": secret})
    restored = UserKey.model_validate_json(user.key.model_dump_json())
    for read in (user.secret, user.key.secret, restored.secret):
        assert (type(read), read) == (type(secret), secret)


@pytest.mark.parametrize(
    ("model", "name", "value", "expected"),
    [
        *((Email, "id", value, int(value)) for value in (0, 1, 2**53 + 1, 2**63 - 1, "12")),
        *((Record, "age", value, int(value)) for value in (0, "41", 32_767)),
        # Where the specification is silent: "strings that look like numbers"
        (Record, "reference_id", "000560228488", "000560228488"),
        (Record, "reference_id", 560228488, "560228488"),
        (Address, "zip", "01234", "01234"),
        (Address, "zip", 94301, "94301"),
        (PhoneNumber, "number", "0155512345", "0155512345"),
        (PhoneNumber, "number", 5551234567, "5551234567"),
        *((User, "is_scanning", value, True) for value in (True, "true", 1)),
        *((User, "is_scanning", value, False) for value in (False, "false", 0)),
        # Not in the specification: open sets
        *((Record, "status", value, value) for value in ("pending removal", "verifying", "", "REMOVED")),
        (Link, "contains", ["email", "passport"], ["email", "passport"]),
    ],
)
def test_value_is_read_as_the_type_of_its_field(model, name, value, expected):
    assert getattr(model.model_validate(TABLES[model][0] | {name: value}), name) == expected


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        *((Email, "id", value) for value in (-1, 2**63, 1.5, "x", "", None, [1], "9" * 5000)),
        *((Record, "age", value) for value in (-1, 32_768, 41.5, "old", 10**30)),
        *((User, "is_scanning", value) for value in ("scanning", 2, "", [])),
        *((*field, {"of": "another shape"}) for field in FIELDS if field != (Alert, "source")),
    ],
)
def test_invalid_value_is_refused(model, name, value):
    assert error_fields(refusal_of(model, TABLES[model][0] | {name: value})) == {name}


def test_identification_on_file_has_two_names():
    """Not in the specification: also identification_onfile."""
    payload_in = without(USER, "identification_on_file") | {"identification_onfile": True}
    assert User.model_validate(payload_in).identification_on_file is True


BIRTH_DATES = {
    None: [None, "", "  "],
    -86_400: [-86_400, "-86400", "1969-12-31", "1969/12/31", date(1969, 12, 31)],
    320_630_400: ["1980-02-29"],
    -62_135_596_800: [-62_135_596_800, "0001-01-01"],
    253_402_300_799: [253_402_300_799, "9999-12-31 23:59:59"],
    0: [
        *(0, "0", "1970-01-01T00:00:00Z", "1970-01-01 01:00:00 +0100", "1970-01-01T00:00:00.000Z"),
        *("1970-01-01 00:00:00 UTC", datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
        datetime(1970, 1, 1),  # noqa: DTZ001  a naive one is UTC
    ],
}


@pytest.mark.parametrize(
    ("value", "seconds"), [(value, seconds) for seconds, values in BIRTH_DATES.items() for value in values]
)
def test_birth_date_is_epoch_seconds_or_a_date(value, seconds):
    """Specification: unix epoch seconds, UTC; null when unset. Not in the specification: negative before 1970; also a date string."""
    assert TypeAdapter(BirthDate).validate_python(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        *(-62_135_596_801, 253_402_300_800, 1.5, "soon", "1980-02-30", "1980-13-01", "1980-02-29canary"),
        *("1980-02-29 25:00:00", "0001-01-01 00:00:00 +2359", "9999-12-31 23:59:59 -2359", "9" * 5000),
        *("٣" * 4 + "-01-01T", [0]),
    ],
)
def test_invalid_birth_date_is_refused_without_its_value(value):
    [problem] = refusal_of(User, USER | {"birth_date": value}).errors()
    assert problem["loc"] == ("birth_date",)
    assert str(value) not in problem["msg"]


@given(st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=0)))
def test_service_instant_is_read_to_the_second(at):
    """Specification, "Service history entry": YYYY/MM/DD HH:MM:SS +0000."""
    text = f"{at.year:04}/{at:%m/%d %H:%M:%S} +0000"
    assert ServiceHistoryEntry.model_validate({"activated_service_on": text}).activated_service_on == at


@pytest.mark.parametrize(
    "text", ["2026-01-02T03:04:05Z", "2026/01/02 05:04:05 +0200", "2026-01-02T03:04:05.000+00:00"]
)
def test_service_instant_has_other_accepted_forms(text):
    assert TypeAdapter(Instant).validate_python(text) == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026/02/30 00:00:00 +0000", "0001/01/01 00:00:00 +0100", "2026/01/02 03:04:05 canary"],
)
def test_invalid_instant_is_refused_without_its_value(text):
    [problem] = refusal_of(ServiceHistoryEntry, {"activated_service_on": text}).errors()
    assert problem["msg"].startswith("Value error, not an instant")
    assert not text or text not in problem["msg"]


@pytest.mark.parametrize("source_type", ["record", "link", "breach", ""])
def test_unknown_source_type_is_preserved_with_its_source(source_type):
    alert = Alert.model_validate(ALERT | {"source_type": source_type, "source": {"breach": {"name": "B"}}})
    assert alert.source_type == source_type
    assert (alert.source.record, alert.source.link) == (None, None)
    assert alert.source.model_extra == {"breach": {"name": "B"}}


@pytest.mark.parametrize(
    ("model", "wrap"),
    [
        (User, lambda record: USER | {"records": [record]}),
        (RecordsReply, lambda record: {"records": [record]}),
        (RecordReply, lambda record: {"record": record}),
        (Alert, lambda record: ALERT | {"source": {"record": record}}),
    ],
)
def test_record_is_read_bare_or_wrapped_everywhere(model, wrap):
    """Where the specification is silent: "records"."""
    bare, wrapped = (model.model_validate(wrap(variant)) for variant in (RECORD, {"record": RECORD}))
    assert bare == wrapped
    assert Record.model_validate(RECORD).model_dump() in nested(bare.model_dump())


def nested(value):
    """Every value inside, at any depth."""
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nested(inner)


@pytest.mark.parametrize(
    ("counts", "count"), [({"count": 3}, 3), ({"total": 3}, 3), ({}, None), ({"count": None}, None)]
)
def test_count_of_users_has_two_names_or_none(counts, count):
    """Specification, "List users": which name is returned: not shown."""
    page = UserPage.model_validate(counts | {"users": [KEY]})
    assert (page.count, page.users) == (count, [UserKey.model_validate(KEY)])


ONE_STEP = [
    *("Write to privacy@site.example", "Remove it in 1.5 days, or 2.5 at most", "1. Only one", "1. a 3. b"),
    *("2. a 3. b", "1. a 1. b", "2. b 1. a", "Do this: 1. a 2. b", "1. a 2. ", "1. 2. 3. ", "1.a 2.b"),
    "Call 555. Ask for 1. and 2. floor",
]


@pytest.mark.parametrize(
    ("value", "steps"),
    [
        *((value, []) for value in (None, [], "", " \n")),
        *((value, [value]) for value in ONE_STEP),
        *((value, ["a", "b"]) for value in (["a", "b"], "1. a 2. b", "1) a 2) b", "  1. a 2. b")),
        (["1. a 2. b"], ["1. a 2. b"]),
        (["a", "", " \r", "b"], ["a", "b"]),
        ("1.Open the page\n2.Press Remove", ["Open the page", "Press Remove"]),
        ("1. a\n2. b\n3. c\n", ["a", "b", "c"]),
        ("Step 1: Open the page. Step 2: Press Remove.", ["Open the page.", "Press Remove."]),
        ("STEP 1. a step 2. b", ["a", "b"]),
        ("1. Wait in 1.5 days 2. Look again", ["Wait in 1.5 days", "Look again"]),
        ("1 - Open the form 2 - Enter your name 3 - Send", ["Open the form", "Enter your name", "Send"]),
        ("1- Open\n2- Call 1-800-555-0100", ["Open", "Call 1-800-555-0100"]),
        ("(1) Open (2) Call (555) 0100 (3) Wait", ["Open", "Call (555) 0100", "Wait"]),
        ("Step (1) Open Step (2) Send", ["Open", "Send"]),
        ("1. Send (2) copies. 2. Keep one (1) copy.", ["Send (2) copies.", "Keep one (1) copy."]),
        ("1 - Wait 2 - 3 days 2 - Send", ["Wait 2 - 3 days", "Send"]),
        *(
            (value, [value])
            for value in ("Call 1-800-555-0100 or 2-800-555-0100", "Call (555) 0100", "1 - 2 - 3")
        ),
    ],
)
def test_procedure_is_split_into_numbered_steps(value, steps):
    """Not in the specification, "opt_out_procedure": a single string stays one step unless it plainly numbers its steps."""
    assert split_steps(value) == steps
    assert Alert.model_validate(ALERT | {"opt_out_procedure": value}).opt_out_procedure == steps


WORDS = st.lists(
    st.sampled_from(["open", "the", "page,", "wait", "1.5", "days", "(555)"]), min_size=1, max_size=5
).map(" ".join)


@given(
    st.lists(WORDS, min_size=2, max_size=12),
    st.sampled_from(["{}. {}", "{}) {}", "Step {}: {}", "({}) {}"]),
    st.sampled_from([" ", "\n", "\r\n\t"]),
)
def test_joined_numbered_steps_are_split_again(steps, numbered, between):
    assert split_steps(between.join(numbered.format(n, step) for n, step in enumerate(steps, 1))) == steps


@given(st.text(st.sampled_from("123.)( -:stepa\n")))
def test_no_step_is_blank_or_invented(text):
    steps = split_steps(text)
    assert all(step.strip() and step in text for step in steps)
    assert bool(steps) == bool(text.strip())


ITEMS = {
    AliasItem: {"first_name", "last_name", "alias_type"},
    EmailItem: {"address"},
    PhoneNumberItem: {"number"},
    AddressItem: {"address1", "address2", "city", "state", "zip", "country"},
}


@pytest.mark.parametrize("model", ITEMS)
def test_item_may_be_empty_or_only_destroy(model):
    """Specification, "Request"; "Update user": rules 1 to 3."""
    assert set(model.model_fields) == ITEMS[model] | {"id", "destroy"}
    assert model.model_validate({}).model_dump(exclude_none=True) == {}
    destroyed = model.model_validate({"id": 7, "_destroy": True})
    assert destroyed.model_dump(by_alias=True, exclude_none=True) == {"id": "7", "_destroy": True}


@pytest.mark.parametrize("alias_type", ["nickname", "maiden", "", None])
def test_alias_is_a_nickname_or_a_maiden_name(alias_type):
    """Specification, "Alias": one of nickname, maiden; a blank one clears it."""
    assert AliasItem.model_validate({"alias_type": alias_type}).alias_type == alias_type
    assert "canary" not in str(refusal_of(AliasItem, {"alias_type": "canary"}))


CANARY = "canary"


def planted(value):
    """The same payload with a canary in every text that is about a person."""
    if isinstance(value, dict):
        unplanted = {"site", "status", "source_type", "activated_service_on"}
        return {name: inner if name in unplanted else planted(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [planted(inner) for inner in value]
    return CANARY + value if isinstance(value, str) else value


WAYS = {
    "repr": repr,
    "str": str,
    "format": "{}".format,
    "percent": lambda value: "%s %r" % (value, value),  # noqa: UP031  the way of logging
    "pretty": pformat,
    "devtools": lambda value: "".join(map(str, value.__pretty__(repr))),
    "rich": lambda value: str(list(value.__rich_repr__())),
    "within": lambda value: str([{"a": (value,)}]),
}


REPLIES = {
    UserReply: {"user": USER},
    UserPage: {"users": [KEY]},
    RecordsReply: {"records": [RECORD]},
    RecordReply: {"record": RECORD},
    LinksReply: {"links": [LINK]},
    AlertsReply: {"alerts": [ALERT]},
}


@pytest.mark.parametrize("model", [*TABLES, *REPLIES])
def test_no_repr_contains_personal_data_or_a_secret(model):
    """Not in the specification, "secret": never in a frame, repr, log or error."""
    read = model.model_validate(planted(REPLIES.get(model) or TABLES[model][0]))
    assert CANARY in read.model_dump_json()
    assert not [name for name, way in WAYS.items() if CANARY in way(read)]


@pytest.mark.parametrize("secret", [987654321, "987654321"])
def test_no_repr_contains_a_secret_of_any_type(secret):
    for read in (UserKey(id=1, secret=secret), User.model_validate(USER | {"secret": secret})):
        assert not any("987654321" in way(read) for way in WAYS.values())


@pytest.mark.parametrize("model", ITEMS)
def test_repr_of_an_item_contains_only_its_id(model):
    names = model.model_fields.keys() - {"id", "destroy", "alias_type"}
    item = model.model_validate({"id": "7", "kind": CANARY} | dict.fromkeys(names, CANARY))
    assert isinstance(item, Item)
    assert not any(CANARY in way(item) for way in WAYS.values())
    assert repr(item) == f"{model.__name__}(id='7')"


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        *((*field, {CANARY: CANARY}) for field in FIELDS if field != (Alert, "source")),
        *((*field, [[CANARY]]) for field in FIELDS if field != (Alert, "source")),
        *((User, name, CANARY) for name in ("id", "birth_date", "is_scanning", "aliases", "records")),
        (User, "service_history", CANARY),
    ],
)
def test_no_refusal_contains_the_refused_value(model, name, value):
    refused = refusal_of(model, planted(TABLES[model][0]) | {name: value})
    assert CANARY not in str(refused) + repr(refused) + refused.json(include_input=False)


def test_repr_contains_counts_and_states():
    assert repr(User.model_validate(USER)) == "User(id=12345, records=1, links=1, is_scanning=True)"
    assert repr(Record.model_validate(RECORD)) == "Record(id=7, site='Lookup', status='discovered')"
    assert repr(UserPage.model_validate({"total": 9, "users": [KEY]})) == "UserPage(count=9, users=1)"


@settings(
    max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)  # the first draw makes tables of all characters
@given(
    st.dictionaries(
        st.sampled_from([*USER, "x"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_any_payload_is_read_or_refused(payload):
    for candidate in (payload, USER | payload):
        user, problems = None, 0
        try:
            user = User.model_validate(candidate)
        except ValidationError as refusal:
            problems = refusal.error_count()
        assert problems or user.id >= 0
