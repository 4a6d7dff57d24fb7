"""Bytes to plain values and back: JSON here, XML and forms next door. Gives them no meaning."""

import codecs
import re
from math import isfinite
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from exposurekit.contract import xml
from exposurekit.contract.schema import Shape
from exposurekit.errors import InvalidResponse

_MAY_OVERFLOW = re.compile(rb"\d[eE]|\d{300}")
MEDIA_TYPES = {"json": "application/json", "xml": "application/xml"}
_BOMS = {  # the longer ones first: UTF-32's begins as UTF-16's does
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}


def decode(
    body: bytes,
    format: str,  # noqa: A002  the specification's word
    shape: Shape | None = None,
    *,
    finite: bool = True,
) -> Any:
    """A body as plain values.

    Args:
        body: The bytes; the caller has bounded their number.
        format: ``"json"`` or ``"xml"``.
        shape: What is expected; XML has no types of its own and is read after it.
        finite: Whether a number that no machine can keep makes the whole body unreadable.

    Raises:
        InvalidResponse: The body is not well formed, nests too deep, or holds a number no machine can keep.

    >>> decode(b'{"id": 7}', "json")
    {'id': 7}
    """
    return xml.read(body, shape) if format == "xml" else _read_json(utf8(body), finite=finite)


def encode(value: Any, format: str) -> bytes:  # noqa: A002  the specification's word
    """Plain values as a body; the other way of `decode`.

    >>> encode({"user": {"id": 7}}, "json")
    b'{"user":{"id":7}}'
    """
    if format == "xml":
        return xml.write(value)
    try:
        return to_json(value, inf_nan_mode="null")
    except PydanticSerializationError:
        problem = "the value cannot be written as JSON"
    raise InvalidResponse(problem)


def utf8(body: bytes) -> bytes:
    r"""JSON in UTF-8 without a byte order mark; the mark of any UTF encoding says what it is to be read from.

    Raises:
        InvalidResponse: It is not in the encoding that its mark names.

    >>> utf8(b"{}"), utf8(b"\xef\xbb\xbf{}"), utf8("{}".encode("utf-16"))
    (b'{}', b'{}', b'{}')
    """
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


def beginning(body: bytes) -> Any:
    """What can be read of JSON that is cut off: the values that are whole; None where there are none.

    >>> beginning(b'{"user": {"id": 12, "secret": "ab12", "first_na')
    {'user': {'id': 12, 'secret': 'ab12'}}
    """
    try:
        return from_json(utf8(body).rpartition(b",")[0], allow_partial=True)
    except (ValueError, InvalidResponse):
        return None


def _read_json(body: bytes, *, finite: bool) -> Any:
    try:
        # jiter nests 200 deep at most, reads integers of 4,300 digits at most, and takes no NaN here.
        value = from_json(body, allow_inf_nan=not finite)
        if not finite or not _MAY_OVERFLOW.search(body) or _finite(value):
            return value
        problem = "number out of range"  # 1e999 is well formed, and would be read as infinity
    except ValueError as error:
        problem = str(error)  # says what and where, and never holds the text itself
    raise InvalidResponse(f"not JSON: {problem}")


def _finite(value: Any) -> bool:
    match value:
        case float():
            return isfinite(value)
        case dict():
            return all(map(_finite, value.values()))
        case list():
            return all(map(_finite, value))
    return True
