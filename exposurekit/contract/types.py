"""How the single values of the specification are read: steps, dates, ids, statuses. Knows no resource."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from operator import or_
from types import NoneType
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

INT64_MAX = 2**63 - 1
EPOCH_MIN, EPOCH_MAX = -62_135_596_800, 253_402_300_799  # the years 1 to 9999

DISCOVERED, PENDING_REMOVAL, REMOVED = "discovered", "pending removal", "removed"
STATUSES = (DISCOVERED, PENDING_REMOVAL, REMOVED)  # not shown: the complete set; others are kept as text

# Numbers that begin a line are surer than numbers anywhere: "1. Send form 7.\n2. Keep a copy."
_NUMBERED = tuple(
    re.compile(begin + r"(?:step\s+)?(\d{1,2})[.):]\s+", re.IGNORECASE | re.MULTILINE)
    for begin in (r"^\s*", r"(?:^|(?<=\s))")
)

INSTANT_TEXT_MAX = 64  # a longer text is no instant, and not worth a look
_INSTANT = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)(?:[ T](\d\d:\d\d:\d\d(?:\.\d{1,9})?))?\s?(\S*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Described:
    """Marks a field that the specification always gives a value.

    Validation refuses null in it. Lenient reading does not (`contract.lenient`): null takes its place, so its type
    admits None; a list of objects is empty then.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bare = without_none(source)
        schema = handler(bare)
        if bare is not source:
            schema["serialization"] = core_schema.wrap_serializer_function_ser_schema(_or_none)  # type: ignore[index]
        return schema


def without_none(annotation: Any) -> Any:
    """A type less None.

    >>> without_none(str | None), without_none(list[str])
    (<class 'str'>, list[str])
    """
    options = get_args(annotation)
    if NoneType not in options:
        return annotation
    return reduce(or_, (option for option in options if option is not NoneType))


def _or_none(value: Any, serialize: Any) -> Any:
    return None if value is None else serialize(value)


def steps_of(procedure: list[str] | str | None) -> list[str]:
    """The steps of an ``opt_out_procedure``: a list, a single string, null or nothing.

    A single string stays one step unless it plainly numbers its steps 1, 2, ...

    >>> steps_of("1. Open the page. 2. Press Remove.")
    ['Open the page.', 'Press Remove.']
    >>> steps_of("Write to privacy@site.example")
    ['Write to privacy@site.example']
    """
    if procedure is None:
        return []
    if isinstance(procedure, list):
        return procedure
    for numbered in _NUMBERED:
        if steps := _numbered(procedure, list(numbered.finditer(procedure))):
            return steps
    return [procedure] if procedure.strip() else []


def _numbered(procedure: str, marks: list[re.Match[str]]) -> list[str]:
    """The parts behind the marks, where these count 1, 2, ... and nothing stands before the first."""
    ends = [*(mark.start() for mark in marks[1:]), len(procedure)]
    steps = [procedure[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=False)]
    in_order = [int(mark[1]) for mark in marks] == list(range(1, len(marks) + 1))
    plain = len(marks) > 1 and in_order and all(steps) and not procedure[: marks[0].start()].strip()
    return steps if plain else []


def epoch_seconds(value: Any) -> Any:
    """Epoch seconds as they come, or from a date or instant as text (the published pages show both)."""
    if isinstance(value, datetime):
        return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp())
    if isinstance(value, date):
        return int(datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp())
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return None
    if re.fullmatch(r"[+-]?\d+", text):
        return text
    return int(_instant(text).timestamp())


def service_instant(value: Any) -> Any:
    """A service history timestamp: ``YYYY/MM/DD HH:MM:SS +0000``, or any ISO 8601 instant."""
    return _instant(value) if isinstance(value, str) else value


def _instant(text: str) -> datetime:
    match = _INSTANT.fullmatch(text.strip()) if len(text) <= INSTANT_TEXT_MAX else None
    if not match:
        raise ValueError("not an instant")
    year, month, day, clock, zone = match.groups()
    zone = {"": "+00:00", "Z": "+00:00", "UTC": "+00:00"}.get(zone, zone)
    try:
        return datetime.fromisoformat(f"{year}-{month}-{day}T{clock or '00:00:00'}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):  # whose own words would hold the text
        problem = "not an instant between the years 1 and 9999"
    raise ValueError(problem)


Id = Annotated[int, Field(ge=0, le=INT64_MAX)]
Secret = int | str
Age = Annotated[int, Field(ge=0, le=32_767)]
BirthDate = Annotated[
    Annotated[int, Field(ge=EPOCH_MIN, le=EPOCH_MAX)] | None,
    BeforeValidator(epoch_seconds, json_schema_input_type=int | None),
]
Steps = Annotated[list[str] | str | None, AfterValidator(steps_of)]
Instant = Annotated[datetime, BeforeValidator(service_instant)]

DESCRIBED = Described()
Text = Annotated[str | None, DESCRIBED]
Texts = Annotated[list[str] | None, DESCRIBED]
Flag = Annotated[bool | None, DESCRIBED]
Number = Annotated[Id | None, DESCRIBED]
