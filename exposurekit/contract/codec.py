"""Bytes to plain values and back: JSON here, XML and forms next door. Gives them no meaning."""

import re
from math import isfinite
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from exposurekit.contract import xml
from exposurekit.contract.shapes import Shape
from exposurekit.errors import Unreadable

_MAY_OVERFLOW = re.compile(rb"\d[eE]|\d{300}")
MEDIA_TYPES = {"json": "application/json", "xml": "application/xml"}


def decode(body: bytes, format: str, shape: Shape | None = None) -> Any:  # noqa: A002  the specification's word
    """A body as plain values.

    Args:
        body: The bytes; the caller has bounded their number.
        format: ``"json"`` or ``"xml"``.
        shape: What is expected; XML has no types of its own and is read after it.

    Raises:
        Unreadable: The body is not well formed, nests too deep, or holds a number no machine can keep.

    >>> decode(b'{"id": 7}', "json")
    {'id': 7}
    """
    return xml.read(body, shape) if format == "xml" else _read_json(body)


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
    raise Unreadable(problem)


def _read_json(body: bytes) -> Any:
    try:
        # jiter nests 200 deep at most, reads integers of 4,300 digits at most, and takes no NaN here.
        value = from_json(body, allow_inf_nan=False)
        if not _MAY_OVERFLOW.search(body) or _finite(value):
            return value
        problem = "number out of range"  # 1e999 is well formed, and would be read as infinity
    except ValueError as error:
        problem = str(error)  # says what and where, and never holds the text itself
    raise Unreadable(f"not JSON: {problem}")


def _finite(value: Any) -> bool:
    match value:
        case float():
            return isfinite(value)
        case dict():
            return all(map(_finite, value.values()))
        case list():
            return all(map(_finite, value))
    return True
