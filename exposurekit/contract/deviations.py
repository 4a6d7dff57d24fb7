"""How an answer deviates from the specification, in words that hold no value of it."""

import re
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pydantic import ValidationError

from exposurekit.contract.models import BARE, WRAPPED

NULL, MISSING, OUT_OF_RANGE, UNWRAPPED = "null", "missing", "out of range", "not wrapped"
UNREADABLE, ITEM_LOST = ", unreadable", ", item lost"  # what follows a kind where nothing could be read
ABSENT: Any = object()  # stands for a field that is not there
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "text", list: "list", dict: "object"}


@dataclass(frozen=True, slots=True)
class Deviation:
    """One way in which an answer deviates from the specification.

    Attributes:
        operation: The operation's title.
        field: The field's path without positions, such as ``records.age``.
        kind: ``null``, ``missing``, or what came for what, such as ``text for integer``.
        example: The type and size of a value that came; never the value.
        costs_item: Whether an item, or a whole list, is missing from what was read.
    """

    operation: str
    field: str
    kind: str
    example: str
    costs_item: bool = False


def json_type(value: Any) -> str:
    """What JSON calls a value's type.

    >>> json_type("x"), json_type(None)
    ('text', 'null')
    """
    return NULL if value is None else _TYPES.get(type(value), type(value).__name__)


def is_number(value: Any) -> bool:
    """Whether a value is a number that text may be made of."""
    return type(value) is int or (type(value) is float and isfinite(value))


def example(value: Any) -> str:
    """The type and size of a value: nothing of what it says.

    >>> example("Jane"), example(["a"])
    ('text of 4 characters', 'list of 1 item')
    """
    match value:
        case bool():
            return "boolean"
        case int():
            return _sized("integer", len(str(abs(value))), "digit")
        case str():
            digits = re.fullmatch(r"\s*[+-]?\d+\s*", value, re.ASCII)
            return _sized("text", len(value), "digit" if digits else "character")
        case list():
            return _sized("list", len(value), "item")
        case dict():
            return _sized("object", len(value), "field")
    return "nothing" if value is ABSENT else json_type(value)


def _sized(what: str, size: int, unit: str) -> str:
    return f"{what} of {size:,} {unit}{'' if size == 1 else 's'}"


def problem_of(error: ValidationError) -> str:
    """Where a body is not as described, and how; a place is made of field names and positions alone.

    A record may come bare or wrapped: only what is wrong with the form that came is told.
    """
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    bare = {one["loc"][:-2] for one in errors if one["loc"][-2:] == (WRAPPED, "record")}
    apart = [one for one in errors if not _is_of_other_form(one["loc"], bare)]
    first = (apart or errors)[0]
    if first["type"] == "json_invalid":
        return "it is not JSON"
    parts = [part for part in first["loc"] if part not in {BARE, WRAPPED}]
    fields = [str(part) for part in parts if isinstance(part, int) or str(part).isidentifier()]
    how = "is missing" if first["type"] == "missing" else "is not as described"
    return f"{'.'.join(fields) or 'the whole'} {how}"


def _is_of_other_form(loc: tuple[int | str, ...], bare: set[tuple[int | str, ...]]) -> bool:
    for index, part in enumerate(loc):
        if part in {BARE, WRAPPED}:
            return (part == WRAPPED) == (loc[:index] in bare)
    return False
