"""Bytes to plain values and back: any body is read completely or refused."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.payloads import RECORD, TEXT, USER, Peak

from exposurekit.contract import codec
from exposurekit.contract.models import User, UserReply
from exposurekit.contract.schema import shape_of_model
from exposurekit.errors import InvalidResponse

FIXTURE = Path(__file__).parent.parent / "support" / "data" / "user.xml"
DEEP = 100_000
MEGABYTE = 1_000_000
CANARY = "canary"

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

JANE = USER | {
    "birth_date": None,
    "last_name": "O'Neil & <Co>",
    "emails": [],
    "phone_numbers": [{"id": 2, "number": "5551234567"}],
    "addresses": [USER["addresses"][0] | {"id": 3, "city": "X"}],
    "records": [
        RECORD
        | {"site": "S", "status": "pending removal", "href": None, "reference_id": "r-1"}
        | {"relations": ["A B", "C D"], "locations": ["X, CA"]}
    ],
    "links": [{"url": "http://e/?a=1&b=2", "title": "t", "contains": ["email", "phone"]}],
}


def refusal_of(body, encoding="json", shape=None):
    with pytest.raises(InvalidResponse) as refusal:
        codec.decode(body, encoding, shape)
    assert refusal.value.__context__ is None
    return str(refusal.value)


@given(PLAIN)
@example({"id": 2**63 - 1, "secret": 123456789012345678})
def test_json_is_read_as_it_was_written(value):
    indented = json.dumps(value, ensure_ascii=False, indent=2).encode()
    for body in (codec.encode(value, "json"), json.dumps(value).encode(), indented):
        assert codec.decode(body, "json") == value


def test_rails_user_is_written_exactly():
    """Not in the specification, "XML": fixtures/user.xml is one such response."""
    assert codec.encode({"user": JANE}, "xml") == FIXTURE.read_bytes()


def test_rails_user_is_read_exactly():
    """Without a shape, lists, integers, booleans and nulls are as declared, and all else is text."""
    for shape in (None, shape_of_model(UserReply)):
        read = codec.decode(FIXTURE.read_bytes(), "xml", shape)
        assert read == {"user": JANE}
    assert UserReply.model_validate(read).user == User.model_validate(JANE)


def test_media_types_are_as_specified():
    assert codec.MEDIA_TYPES == {"json": "application/json", "xml": "application/xml"}


HOSTILE = {
    "arrays": b"[" * DEEP,
    "closed arrays": b"[" * DEEP + b"]" * DEEP,
    "objects": b'{"canary":' * DEEP + b"1" + b"}" * DEEP,
    "an integer of a megabyte": b'{"canary":' + b"9" * MEGABYTE + b"}",
    "a negative integer of a megabyte": b'{"canary":-' + b"9" * MEGABYTE + b"}",
    "not a number": b'["canary", NaN]',
    "infinity": b'["canary", Infinity]',
    "minus infinity": b'["canary", -Infinity]',
    "a number beyond all floats": b'{"canary": [1e999]}',
    "one below all floats": b'{"canary": {"of": -1e999}}',
    "a number of 400 digits with a point": b"[" + b"9" * 400 + b".0]",
    "half a surrogate pair": b'["canary", "\\ud800"]',
    "the other half": b'{"canary\\udc00": 1}',
    "a control character": b'["canary\x01"]',
    "a null byte": b'["canary\x00"]',
    "a bad escape": b'["canary\\x"]',
    "not UTF-8": b'["canary\xff"]',
    "UTF-16 by its mark alone": b"\xff\xfe" + b'["canary"]',
    "UTF-32 by its mark alone": b"\xff\xfe\x00\x00" + b'["canary"]',
    "nothing": b"",
    "blanks": b" \n",
    "a web page": b"<!DOCTYPE html><html>canary</html>",
    "a text": b"canary",
    "half a body": b'{"canary": "canary',
    "two bodies": b'{"a": 1} {"canary": 1}',
    "a trailing comma": b'["canary",]',
    "single quotes": b"{'canary': 1}",
    "a comment": b'["canary" /* canary */]',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_unreadable_json_is_refused_in_little_memory(body):
    with Peak() as peak:
        message = refusal_of(body)
    assert message.startswith("not JSON: ")
    assert CANARY not in message
    assert len(message) < 120
    assert peak.bytes < 20 * len(body) + 100_000


@given(st.binary() | st.text(st.sampled_from('[]{}",:0123456789eE+-.tfnNaI\\u \n')).map(str.encode))
def test_any_bytes_are_read_or_refused(body):
    value, message = None, ""
    try:
        value = codec.decode(body, "json")
    except InvalidResponse as refusal:
        message = str(refusal)
    assert message.startswith("not JSON: ") if message else value == json.loads(body)


def test_large_integers_are_exact():
    assert codec.decode(b"[123456789012345678901234567890]", "json") == [123456789012345678901234567890]


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, [object()]])
def test_value_without_a_json_form_is_refused(value):
    with pytest.raises(InvalidResponse, match="cannot be written as JSON"):
        codec.encode(value, "json")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_are_written_as_null(value):
    assert codec.encode([value], "json") == b"[null]"


@pytest.mark.parametrize("value", [1.5, b"bytes", object()])
def test_value_without_an_xml_form_is_refused(value):
    with pytest.raises(InvalidResponse, match="XML cannot express"):
        codec.encode({"age": value}, "xml")
