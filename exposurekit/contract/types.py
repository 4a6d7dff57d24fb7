"""Types of the specification's single values: steps, dates, ids, statuses."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from operator import or_
from types import NoneType
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from exposurekit.contract.opt_out_steps import split_steps

INT64_MAX = 2**63 - 1
EPOCH_MIN, EPOCH_MAX = -62_135_596_800, 253_402_300_799  # the years 1 to 9999

DISCOVERED, PENDING_REMOVAL, REMOVED = "discovered", "pending removal", "removed"
STATUSES = (DISCOVERED, PENDING_REMOVAL, REMOVED)  # not shown: the complete set; others are kept as text

INSTANT_TEXT_MAX = 64  # a longer text is not an instant
_INSTANT = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)(?:[ T](\d\d:\d\d:\d\d(?:\.\d{1,9})?))?\s?(\S*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Described:
    """Marks a field that the specification always gives a value.

    Validation rejects null. Lenient reading (`contract.lenient`) sets null, so the type includes None; a list of
    objects is then empty.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        bare = without_none(source)
        schema = handler(bare)
        if bare is not source:
            schema["serialization"] = core_schema.wrap_serializer_function_ser_schema(_or_none)  # type: ignore[index]
        return schema


def without_none(annotation: Any) -> Any:
    """Remove None from a type."""
    options = get_args(annotation)
    if NoneType not in options:
        return annotation
    return reduce(or_, (option for option in options if option is not NoneType))


def _or_none(value: Any, serialize: Any) -> Any:
    return None if value is None else serialize(value)


def epoch_seconds(value: Any) -> Any:
    """Convert a date or an instant, also as text, to epoch seconds (the published pages show both)."""
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
    """Parse a service history timestamp: ``YYYY/MM/DD HH:MM:SS +0000``, any ISO 8601 instant, or epoch seconds."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,18}\s*", value):
        return int(value)
    return _instant(value) if isinstance(value, str) else value


def _instant(text: str) -> datetime:
    match = _INSTANT.fullmatch(text.strip()) if len(text) <= INSTANT_TEXT_MAX else None
    if not match:
        raise ValueError("not an instant")
    year, month, day, clock, zone = match.groups()
    zone = {"": "+00:00", "Z": "+00:00", "UTC": "+00:00"}.get(zone, zone)
    try:
        return datetime.fromisoformat(f"{year}-{month}-{day}T{clock or '00:00:00'}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):  # its message would contain the text
        problem = "not an instant between the years 1 and 9999"
    raise ValueError(problem)


Id = Annotated[int, Field(ge=0, le=INT64_MAX)]
Secret = int | str
Age = Annotated[int, Field(ge=0, le=32_767)]
EpochSeconds = Annotated[int, Field(ge=EPOCH_MIN, le=EPOCH_MAX)]
BirthDate = Annotated[
    EpochSeconds | None, BeforeValidator(epoch_seconds, json_schema_input_type=EpochSeconds | None)
]
Steps = Annotated[list[str] | str | None, AfterValidator(split_steps)]
Instant = Annotated[datetime, BeforeValidator(service_instant)]

DESCRIBED = Described()
Text = Annotated[str | None, DESCRIBED]
Texts = Annotated[list[str] | None, DESCRIBED]
Flag = Annotated[bool | None, DESCRIBED]
Number = Annotated[Id | None, DESCRIBED]
