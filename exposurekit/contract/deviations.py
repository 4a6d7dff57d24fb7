"""How a response deviates from the specification; no text here contains a value of it."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from pydantic import ValidationError

from exposurekit.contract import models
from exposurekit.contract.codec import MalformedText
from exposurekit.errors import warn

NULL, MISSING, OUT_OF_RANGE, UNWRAPPED = "null", "missing", "out of range", "not wrapped"
REPEATED, WRAPPED = "repeated", "wrapped"
UNREADABLE, ITEM_LOST = ", unreadable", ", item lost"  # suffixes of a kind if nothing could be read
ABSENT: Any = object()  # stands for a field that is absent
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "text", list: "list", dict: "object"}
_TYPES[MalformedText] = "malformed text"


@dataclass(frozen=True, slots=True)
class Deviation:
    """One way in which a response deviates from the specification."""

    operation: str  # its title
    field: str  # its path without positions, such as ``records.age``
    kind: str  # ``null``, ``missing``, or the actual and the expected type, such as ``text for integer``
    example: str  # the type and size of an actual value; never the value
    costs_item: bool = False  # an item, or a whole list, could not be read

    @property
    def is_of_item(self) -> bool:
        """Whether it is one of an item of the outermost list, such as a user of List users, not of the list itself."""
        return "." in self.field or self.kind.endswith((WRAPPED, ITEM_LOST))


@dataclass(slots=True)
class Deviations:
    """The deviations of one load's responses from the specification, and the number of users of each."""

    users: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def update(self, counted: Iterable[tuple[Deviation, int]]) -> None:
        """Count deviations, each given with its number of users."""
        for deviation, users in counted:
            key = (deviation.operation, deviation.field, deviation.kind)
            self.users[key] += users
            self.examples.setdefault(key, deviation.example)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per operation, field and kind; ``users`` is None for a page of List users."""
        names = ("operation", "field", "kind", "users", "example")
        rows = ((*key, self.users[key] or None, self.examples[key]) for key in sorted(self.users))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def warn(self) -> None:
        """Warn in one line if there are any."""
        if self.users:
            fields = len({(operation, name) for operation, name, _ in self.users})
            warn(
                f"responses deviate from the specification in {fields:,} field{'' if fields == 1 else 's'};"
                " exposure.deviations() lists them"
            )


def json_type(value: Any) -> str:
    """Return JSON's name of a value's type."""
    return NULL if value is None else _TYPES.get(type(value), type(value).__name__)


def is_number(value: Any) -> bool:
    """Return whether a value is a number that can be read as text."""
    return type(value) is int or (type(value) is float and isfinite(value))


def example(value: Any) -> str:
    """Describe a value by its type and size alone."""
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
    """Describe the first problem of a body by its location: field names and positions alone.

    A record may be bare or wrapped: only problems of the actual form are reported.
    """
    errors = error.errors(include_url=False, include_context=False)
    bare = {one["loc"][:-2] for one in errors if one["loc"][-2:] == (models.WRAPPED, "record")}
    apart = [one for one in errors if not _is_of_other_form(one["loc"], bare)]
    first = (apart or errors)[0]
    parts = [part for part in first["loc"] if part not in {models.BARE, models.WRAPPED}]
    fields = [str(part) for part in parts if isinstance(part, int) or str(part).isidentifier()]
    kind = MISSING if first["type"] == "missing" else json_type(first["input"])
    return f"{'.'.join(fields) or 'the whole'} {problem_in_words(kind)}"


def problem_in_words(kind: str) -> str:
    """Say what is wrong with a field, by the kind of its deviation.

    >>> problem_in_words("null for object")
    'is null'
    """
    kind = kind.partition(" ")[0]
    return f"is {kind}" if kind in {MISSING, NULL} else "is not as described"


def _is_of_other_form(loc: tuple[int | str, ...], bare: set[tuple[int | str, ...]]) -> bool:
    for index, part in enumerate(loc):
        if part in {models.BARE, models.WRAPPED}:
            return (part == models.WRAPPED) == (loc[:index] in bare)
    return False
