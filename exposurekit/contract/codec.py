"""Decode and encode bodies: JSON here, XML in `xml`, forms in `forms`."""

import codecs
import json
import re
from contextlib import suppress
from math import inf, isfinite
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from exposurekit.contract import xml
from exposurekit.contract.schema import Shape
from exposurekit.errors import InvalidResponse

VALUES_MAX = 10_000  # of JSON in a request, or commas and brackets in its texts; four full lists have 2,300
_BEFORE_VALUES = b",", b"[", b"{"
_DIGITS_MAX = 4_300  # Python's own limit
_DEPTH_MAX = 64  # ten times the depth of any field
_OBJECTS_MAX = 100  # attempts to find an object in a body that is not JSON
_SURROGATE = re.compile("[\ud800-\udfff]")
MEDIA_TYPES = {"json": "application/json", "xml": "application/xml"}
_BOMS = {  # longer ones first: the UTF-32 mark starts with the UTF-16 mark
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}


class MalformedText(float):
    """Placeholder for text with a lone surrogate or an invalid UTF-8 byte; no field accepts it."""


def decode(
    body: bytes,
    format: str,  # noqa: A002  the specification's word
    shape: Shape | None = None,
    *,
    tolerant: bool = False,
    is_request: bool = False,
) -> Any:
    """Decode a body, whose size the caller limits, to plain values.

    XML has no types of its own and is read by the expected ``shape``. If ``tolerant``, JSON with half a surrogate pair, a
    byte that is not UTF-8, a number out of range or deep nesting is decoded, else it is an `InvalidResponse`. Readers reject
    such a value: the text is a `MalformedText`, the number infinite; what is nested too deeply for any field is null. With
    ``is_request``, JSON that gives a name two values, or has more than `VALUES_MAX`, is an `InvalidResponse`.
    """
    if format == "xml":
        return xml.read(body, shape)
    text = utf8(body)
    if is_request and sum(map(text.count, _BEFORE_VALUES)) > VALUES_MAX:
        raise InvalidResponse("not JSON that can be read: it has too many values")
    value = _read_json(text, tolerant=tolerant)
    if is_request:
        json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
    return value


def encode(value: Any, format: str) -> bytes:  # noqa: A002  the specification's word
    """Encode plain values as a body."""
    if format == "xml":
        return xml.write(value)
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        problem = "the value cannot be written as JSON"
    raise InvalidResponse(problem)


def utf8(body: bytes) -> bytes:
    """Convert JSON to UTF-8 without a byte order mark; the mark names the encoding."""
    for mark, encoding in _BOMS.items() if body[:1] in {b"\xef", b"\xff", b"\xfe", b"\x00"} else ():
        if body.startswith(mark):
            try:
                return body.decode(encoding).encode()
            except UnicodeError:
                break
    else:
        return body
    raise InvalidResponse(
        f"not JSON: it is not {encoding.removesuffix('-sig').upper()}, as its first bytes say"
    )


def objects_in(body: bytes) -> list[Any]:
    """Decode the objects in a body that is not JSON as a whole; a truncated one as far as its values are complete."""
    text = utf8(body).decode(errors="surrogateescape")
    decoder, end, objects = json.JSONDecoder(parse_int=_integer, strict=False), 0, []
    for _ in range(_OBJECTS_MAX):
        if (start := text.find("{", end)) < 0:
            break
        try:
            value, end = decoder.raw_decode(text, start)
            objects.append(_readable(value))
        except (ValueError, RecursionError):
            end = start + 1
            with suppress(ValueError):
                partial = text[start:].rpartition(",")[0].encode(errors="replace")
                objects.append(from_json(partial, allow_partial=True))
                break
    return objects


def _read_json(body: bytes, *, tolerant: bool) -> Any:
    try:
        # jiter allows a depth of 200 and integers of 4,300 digits, and no NaN here.
        value = from_json(body, allow_inf_nan=tolerant)
        if tolerant or _finite(value):
            return value
        problem = "number out of range"  # 1e999 is valid JSON, and would be read as infinity
    except ValueError as error:
        problem = str(error)  # names the problem and the position, and never contains the text
        if tolerant:
            with suppress(ValueError, RecursionError):
                text = body.decode(errors="surrogateescape")
                return _readable(json.loads(text, parse_int=_integer))
    raise InvalidResponse(f"not JSON: {problem}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs) and any(values[name] != value for name, value in pairs):
        raise InvalidResponse("not JSON that can be read: one name is given two values")
    return values


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _DIGITS_MAX else inf


def _readable(value: Any, depth: int = 0) -> Any:
    """Replace what no reader can process: lone surrogates, deep nesting."""
    match value:
        case str():
            return MalformedText("nan") if _SURROGATE.search(value) else value
        case dict() | list() if depth == _DEPTH_MAX:
            return None
        case dict():
            fields = value.items()
            return {
                name: _readable(inner, depth + 1) for name, inner in fields if not _SURROGATE.search(name)
            }
        case list():
            return [_readable(inner, depth + 1) for inner in value]
    return value


def _finite(value: Any) -> bool:
    if isinstance(value, str):  # most values: checked first
        return True
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, float) or isfinite(value)
