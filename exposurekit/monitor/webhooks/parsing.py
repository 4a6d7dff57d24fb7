"""What a letter's bytes say: a delivery, JSON or XML as it begins; or, where they are none, whom they are about.

Problems name places, never values.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from urllib.parse import unquote_plus

from pydantic_core import ValidationError

from exposurekit.contract import codec, lenient
from exposurekit.contract.schema import shape_of_model
from exposurekit.contract.webhooks import Delivery
from exposurekit.errors import InvalidResponse

# Of a person's values, for letters that do not say whose they are. A shorter one, such as a first name or the
# title "a", is in nearly everybody's letters, and those would go too.
VALUE_MIN = 6

_ESCAPED = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NAMED = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_REFERENCE = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|lt|gt|quot|apos|amp);")
_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "latin-1")


def delivery(body: bytes) -> Delivery:
    """What a letter says.

    Raises:
        InvalidResponse: It is not a delivery; the message says where, never what it holds.

    >>> delivery(b'{"user_id": 12, "events": []}')
    Delivery(user_id=12, events=0)
    """
    values = _values(body)
    if not isinstance(values, dict):
        raise InvalidResponse("not a delivery: it is no object")
    try:
        reading = lenient.as_model(Delivery, values, typed=body.lstrip()[:1] != b"<")
    except InvalidResponse as error:
        problem = str(error)
    else:
        found: Delivery = reading.value
        if not reading.items_lost:
            return found
        # A delivery comes once: what cannot be read whole is kept as it came.
        lost = next(one.field for one in reading.deviations if one.costs_item)
        problem = f"{lost} is not as described"
    raise InvalidResponse(f"not a delivery: {problem}")


def user_id_of(body: bytes) -> int | None:
    """Whom a letter is about, whatever else is wrong with it; None: it does not tell.

    >>> user_id_of(b'{"user_id": "12"}'), user_id_of(b"<html>")
    (12, None)
    """
    try:
        values = _values(body)
        return Delivery.model_validate({"user_id": values["user_id"], "events": []}).user_id
    except (InvalidResponse, ValidationError, KeyError, TypeError):
        return None


def mentions(body: bytes, user_id: int, values: Sequence[str]) -> Literal["id", "value"] | None:
    r"""Whether a letter is about a person, and by what that is told; None: it is not.

    One that tells its user_id is about that person alone. Any other is, if its bytes hold the id as a number by itself
    or one of the values, in any case of letters: as they are, JSON-escaped, percent-encoded or with XML's references,
    in UTF-8, UTF-16 or Latin-1. Values of fewer than `VALUE_MIN` characters are passed over: see `searchable_values`.

    >>> mentions(b'{"user_id": 12}', 12, []), mentions(b'{"user_id": 13}', 12, ["Ren\u00e9 Roe"])
    ('id', None)
    >>> mentions(b'{"name": "Ren\\u00e9 Roe"', 12, ["Ren\u00e9 Roe"]), mentions(b"user=112", 12, [])
    ('value', None)
    """
    told = user_id_of(body)
    if told is not None:
        return "id" if told == user_id else None
    number = re.compile(rf"(?<!\d){user_id}(?!\d)", re.ASCII)
    wanted = searchable_values(values)
    by_value = False
    for text in map(str.casefold, _texts(body)):
        if number.search(text):
            return "id"
        by_value = by_value or any(value in text for value in wanted)
    return "value" if by_value else None


def searchable_values(values: Iterable[str]) -> list[str]:
    """Those that are long enough to tell somebody by, as they are compared.

    >>> searchable_values(["a", " Juniper Roe ", "Juniper roe"])
    ['juniper roe']
    """
    bare = (value.strip() for value in values)
    return sorted({value.casefold() for value in bare if len(value) >= VALUE_MIN})


def _values(body: bytes) -> Any:
    # not shown: an XML delivery; read after the same shape as a JSON one
    bare = body.lstrip()
    if bare[:1] == b"<":
        return codec.decode(bare, "xml", shape_of_model(Delivery))
    return codec.decode(body, "json")


def _texts(body: bytes) -> Iterator[str]:
    for encoding in _ENCODINGS:
        for offset in range(2 if encoding.startswith("utf-16") else 1):
            text = body[offset:].decode(encoding, "replace")
            yield text
            plain = _paired(_ESCAPED.sub(_unescaped, text))
            for bare in (plain, unquote_plus(text), unquote_plus(plain), _REFERENCE.sub(_referred, text)):
                if bare != text:
                    yield bare


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _SHORT.get(match[2], match[2])


def _paired(text: str) -> str:
    """JSON escapes what lies beyond 16 bits in two halves."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _referred(match: re.Match[str]) -> str:
    if match[0] in _NAMED:
        return _NAMED[match[0]]
    code = int(match[1]) if match[1] else int(match[2], 16)
    return chr(code) if code <= sys.maxunicode else match[0]
