"""Forms as Rails nests them: a service reads what a client encodes, and no field is lost or doubled."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.payloads import TEXT, Peak

from exposurekit.contract import forms
from exposurekit.errors import InvalidResponse

CANARY = "canary"


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("", {}),
        ("limit=2&offset=0", {"limit": "2", "offset": "0"}),
        ("first_name=", {"first_name": ""}),
        ("first_name", {"first_name": ""}),
        ("first_name=Zo%C3%AB+Ann%26Co", {"first_name": "Zoë Ann&Co"}),
        ("limit=2&limit=2", {"limit": "2"}),
        ("emails[]=a&emails[]=b", {"emails": ["a", "b"]}),
        ("emails[]=a&emails[]=a", {"emails": ["a", "a"]}),
        ("emails[][address]=a&emails[][address]=b", {"emails": [{"address": "a"}, {"address": "b"}]}),
        ("emails%5B%5D%5Baddress%5D=a", {"emails": [{"address": "a"}]}),
        (
            "addresses[][city]=A&addresses[][state]=CA&addresses[][city]=B&addresses[][state]=NV",
            {"addresses": [{"city": "A", "state": "CA"}, {"city": "B", "state": "NV"}]},
        ),
        (
            "addresses[][city]=A&addresses[][city]=B&addresses[][state]=NV",
            {"addresses": [{"city": "A"}, {"city": "B", "state": "NV"}]},
        ),
        ("addresses[0][city]=A&addresses[1][city]=B", {"addresses": [{"city": "A"}, {"city": "B"}]}),
        ("addresses[1][city]=B&addresses[0][city]=A", {"addresses": [{"city": "A"}, {"city": "B"}]}),
        ("addresses[10][city]=B&addresses[9][city]=A", {"addresses": [{"city": "A"}, {"city": "B"}]}),
        ("addresses[7][city]=A", {"addresses": [{"city": "A"}]}),
        ("addresses[0][city]=A&addresses[0][state]=CA", {"addresses": [{"city": "A", "state": "CA"}]}),
        ("emails[0]=a&emails[1]=b", {"emails": ["a", "b"]}),
        ("emails[][id]=7&emails[][_destroy]=true", {"emails": [{"id": "7", "_destroy": "true"}]}),
        ("user[name][first]=A", {"user": {"name": {"first": "A"}}}),
        ("a[][b][]=1&a[][b][]=2", {"a": [{"b": ["1", "2"]}]}),
        ("a[x][0]=1&a[x][1]=2", {"a": {"x": ["1", "2"]}}),
        ("a[1234567]=1", {"a": {"1234567": "1"}}),
        ("addresses=%5B%7B%22city%22%3A%22A%22%7D%5D", {"addresses": '[{"city":"A"}]'}),
    ],
)
def test_form_is_nested_as_rails_nests_it(body, values):
    """Not in the specification, "list parameters": Rails brackets, index hashes, JSON strings."""
    assert forms.decode(body) == values


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("canary=1&canary=2", "one name is given two values"),
        ("a[canary]=1&a[canary]=2", "one name is given two values"),
        ("canary=1&canary[]=2", "one name is given two shapes"),
        ("canary=1&canary[a]=2", "one name is given two shapes"),
        ("canary[]=1&canary=2", "one name is given two values"),
        ("canary[a]=1&canary=2", "one name is given two values"),
        ("canary[]=1&canary[a]=2", "one name is given two shapes"),
        ("canary[a]=1&canary[]=2", "one name is given two shapes"),
        ("canary[=1", "brackets that do not match"),
        ("canary]=1", "brackets that do not match"),
        ("canary[a]b=1", "brackets that do not match"),
        ("canary[[a]]=1", "brackets that do not match"),
        ("[canary]=1", "brackets that do not match"),
        ("=canary", "brackets that do not match"),
        ("canary=%ff", "not UTF-8"),
        ("canary=%ed%a0%80", "not UTF-8"),
    ],
)
def test_contradictory_form_is_refused_without_its_values(body, problem):
    """Not in the specification: the same name with two values -> 400."""
    with pytest.raises(InvalidResponse, match=problem) as refusal:
        forms.decode(body)
    assert CANARY not in str(refusal.value)
    assert refusal.value.__context__ is None


@pytest.mark.parametrize(
    "values", [{"first_name": "\ud800"}, {"\udfff": "a"}, {"emails": [{"address": "a\udc00"}]}]
)
def test_half_a_surrogate_pair_is_refused(values):
    with pytest.raises(InvalidResponse, match="cannot be written as a form") as refusal:
        forms.encode(values)
    assert refusal.value.__context__ is None


DEEP = 100_000


@pytest.mark.parametrize(
    "body",
    [
        "canary" + "[x]" * DEEP + "=1",
        "canary" + "[]" * DEEP + "=1",
        "canary" + "[" * DEEP + "]" * DEEP + "=1",
        "canary" + "[" * DEEP + "=1",
        "canary=1&" * DEEP,
        "&".join(f"canary[{n}]=1" for n in range(DEEP)),
    ],
    ids=["names", "lists", "brackets in brackets", "open brackets", "one field", "many fields"],
)
def test_hostile_form_is_refused_in_little_memory(body):
    with Peak() as peak, pytest.raises(InvalidResponse, match="not a form: ") as refusal:
        forms.decode(body)
    assert CANARY not in str(refusal.value)
    assert peak.bytes < 20 * len(body)


def test_depth_and_number_of_fields_are_limited():
    steps = "".join(f"[{n}a]" for n in range(forms.DEPTH_MAX - 1))
    assert forms.decode(f"a{steps}=1").keys() == {"a"}
    with pytest.raises(InvalidResponse, match="deeper"):
        forms.decode(f"a[b]{steps}=1")
    fields = ["a[]=1"] * forms.FIELDS_MAX
    assert len(forms.decode("&".join(fields))["a"]) == forms.FIELDS_MAX
    with pytest.raises(InvalidResponse, match="more than 2500 fields"):
        forms.decode("&".join([*fields, "b=1"]))


def items(*names):
    """Items of a request: some of their fields, `id` and `_destroy` among them, and at least one."""
    fields = dict.fromkeys(names, TEXT) | {"id": st.integers(0, 99).map(str), "_destroy": st.booleans()}
    return st.lists(st.fixed_dictionaries({}, optional=fields).filter(bool), min_size=1, max_size=4)


REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "first_name": TEXT,
        "middle_name": st.none() | TEXT,
        "birth_date": st.integers(-(10**10), 10**10),
        "async": st.booleans(),
        "aliases": items("first_name", "last_name", "alias_type"),
        "emails": items("address"),
        "phone_numbers": items("number"),
        "addresses": items("address1", "address2", "city", "state", "zip", "country"),
        "tags": st.lists(TEXT, min_size=1, max_size=3),
    },
)


def without_nulls(value):
    """As a form expresses it: all leaves are text, without nulls."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


@settings(max_examples=50)
@given(REQUESTS)
@example({"emails": [{"id": "1"}, {"address": "a"}]})
@example({"emails": [{"address": "a"}, {"id": "1", "address": "b"}, {"address": "a"}]})
@example({"addresses": [{"zip": "0", "city": "A"}, {"city": "B", "zip": ""}]})
def test_request_is_read_as_it_was_encoded(values):
    assert forms.decode(forms.encode(values).decode("ascii")) == without_nulls(values)
    assert forms.nest(forms.flatten(values)) == without_nulls(values)  # as of multipart fields


def test_nulls_and_empty_lists_make_an_empty_form():
    assert forms.encode({"middle_name": None, "emails": [], "user": {}}) == b""


@given(st.text(st.sampled_from("ab[]=&%01+")))
def test_any_text_is_read_or_refused(body):
    values, message = None, ""
    try:
        values = forms.decode(body)
    except InvalidResponse as refusal:
        message = str(refusal)
    assert message.startswith("not a form: ") if message else isinstance(values, dict) and all(values)
