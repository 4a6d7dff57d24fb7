"""Parse an inbox message's bytes, JSON or XML: the delivery, or at least the user it is about.

Errors name the position of a problem, never a value.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal
from urllib.parse import unquote_plus

from pydantic_core import ValidationError

from exposurekit.contract import codec, lenient
from exposurekit.contract.schema import shape_of_model
from exposurekit.contract.webhooks import Delivery
from exposurekit.errors import InvalidResponse
from exposurekit.text.us_addresses import address_words

# The shortest personal value that identifies a user in a message without a user_id. A shorter one, such as a first
# name or the title "a", occurs in other users' messages too, which would be erased with it.
VALUE_MIN = 6
# The digits of the shortest id that identifies a user wherever it stands: a shorter number may be an age or a count.
ID_DIGITS_MIN = 7
_AFTER_ID = (
    r"""(?:(?:\busers?|(?<![^\W_])ids?)["'\\]{0,2}(?:\s[^<>]{0,80}>|[\s:=#>"'\\\[(/])[\s:=#>"'\\\[(/]{0,8}"""
    r"""|\buserids?["'\\]{0,2}\s{0,9}[:=]\s{0,9}["'\\]{0,2})"""
)

_ESCAPED = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NAMED_REFERENCES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|lt|gt|quot|apos|amp);")
_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "latin-1")


def parse_delivery(body: bytes) -> Delivery:
    """Parse a delivery; raises `InvalidResponse` with the name of the field, never its value."""
    values = _values(body)
    if not isinstance(values, dict):
        raise InvalidResponse("not a delivery: it is not an object")
    try:
        reading = lenient.as_model(Delivery, values, typed=body.lstrip()[:1] != b"<")
    except InvalidResponse as error:
        problem = str(error)
    else:
        delivery: Delivery = reading.value
        if not reading.lost_items:
            return delivery
        # A delivery arrives once: if part of it cannot be parsed, the caller quarantines all of it.
        lost = next(one.field for one in reading.deviations if one.costs_item)
        problem = f"{lost} does not match the specification"
    raise InvalidResponse(f"not a delivery: {problem}")


def parse_user_id(body: bytes) -> int | None:
    """Parse only the user_id, even if the rest of the message is invalid; None: it has none."""
    try:
        values = _values(body)
        return Delivery.model_validate({"user_id": values["user_id"], "events": []}).user_id
    except (InvalidResponse, ValidationError, KeyError, TypeError):
        return None


def mentions(
    body: bytes, user_id: int, values: Sequence[str], addresses: Collection[tuple[str, str]] = ()
) -> Literal["id", "value", "number"] | None:
    """Whether a message is about a user, by its id, or by a value or address, or may be, by a number; None: it is not.

    A message with a user_id is about that user alone. Any other message is about the user if its bytes contain the id
    after a key such as ``user_id``, ``id`` or ``user``, or one of the values in upper or lower case: plain, JSON-escaped,
    percent-encoded or with XML references, in UTF-8, UTF-16 or Latin-1. Values shorter than `VALUE_MIN` are ignored: see
    `searchable_values`. An id of `ID_DIGITS_MIN` digits counts as a separate number anywhere; a shorter one may be an age.
    It also is if it contains both the street and the town of an address, as `street_and_town` returns them, as whole words.
    """
    message_user_id = parse_user_id(body)
    if message_user_id is not None:
        return "id" if message_user_id == user_id else None
    number = re.compile(rf"(?<!\d){user_id}(?!\d)", re.ASCII)
    is_long = len(str(user_id)) >= ID_DIGITS_MIN
    after_id = number if is_long else re.compile(rf"{_AFTER_ID}{user_id}(?!\d)", re.ASCII)
    search_values = searchable_values(values)
    by_value = by_number = False
    for text in map(str.casefold, _texts(body)):
        if after_id.search(text):
            return "id"
        by_number = by_number or number.search(text) is not None
        by_value = by_value or any(value in text for value in search_values) or _has_address(text, addresses)
    if by_value:
        return "value"
    return "number" if by_number else None


def _has_address(text: str, addresses: Collection[tuple[str, str]]) -> bool:
    words = f" {' '.join(address_words(text))} " if addresses else ""
    return any(f" {street} " in words and f" {town} " in words for street, town in addresses)


def searchable_values(values: Iterable[str]) -> list[str]:
    """Return the values that are long enough to identify a user, case-folded for comparison."""
    stripped = (value.strip() for value in values)
    return sorted({value.casefold() for value in stripped if len(value) >= VALUE_MIN})


def _values(body: bytes) -> Any:
    # spec does not show an XML delivery; it is read with the shape of a JSON one
    stripped = body.lstrip()
    if stripped[:1] == b"<":
        return codec.decode(stripped, "xml", shape_of_model(Delivery))
    return codec.decode(body, "json")


def _texts(body: bytes) -> Iterator[str]:
    """Decode a body in every way in which it may spell a value."""
    for encoding in _ENCODINGS:
        for offset in range(2 if encoding.startswith("utf-16") else 1):
            text = body[offset:].decode(encoding, "replace")
            yield text
            plain = _join_surrogates(_ESCAPED.sub(_unescape, text))
            references = _REFERENCE.sub(_resolve_reference, text)
            for decoded in (plain, unquote_plus(text), unquote_plus(plain), references):
                if decoded != text:
                    yield decoded


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _SHORT_ESCAPES.get(match[2], match[2])


def _join_surrogates(text: str) -> str:
    """JSON escapes characters beyond 16 bits as two surrogates."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _resolve_reference(match: re.Match[str]) -> str:
    if match[0] in _NAMED_REFERENCES:
        return _NAMED_REFERENCES[match[0]]
    code = int(match[1]) if match[1] else int(match[2], 16)
    return chr(code) if code <= sys.maxunicode else match[0]
