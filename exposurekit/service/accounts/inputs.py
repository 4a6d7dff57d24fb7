"""Single values: text, whole numbers, booleans and birth dates as any encoding may tell them. Never echoes one.

not shown: length limits and the format of fields. Ours: `TEXT_MAX` characters a text, no control characters.
"""

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from exposurekit.contract.types import INT64_MAX, BirthDate

TEXT_MAX = 1_000
# No control characters but tab and new line, no halves of surrogate pairs, nothing that XML cannot carry.
_UNFIT = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
FIT = f"^[^{_UNFIT}]*$"
_ODD = re.compile(f"[{_UNFIT}]")
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_TRUE, _FALSE = {"true", "1", "yes", "on", "t", "y"}, {"false", "0", "no", "off", "f", "n"}
_BIRTH_DATE: TypeAdapter[int | None] = TypeAdapter(BirthDate)


class Invalid(Exception):
    """A value is not what its parameter takes; ``places`` says where in it, as ``[0][city]``."""

    def __init__(self, *places: str) -> None:
        self.places = places or ("",)
        super().__init__(*self.places)


def is_blank(value: Any) -> bool:
    """Whether this is a text with nothing in it.

    >>> is_blank(" "), is_blank(None)
    (True, False)
    """
    return isinstance(value, str) and not value.strip(" \t\r\n")  # a control character is no blank


def fits(text: str) -> bool:
    """Whether a text is short enough and holds no character that some answer could not carry."""
    return len(text) <= TEXT_MAX and not _ODD.search(text)


def text(value: Any) -> str:
    """A text; one of spaces alone is blank."""
    if not isinstance(value, str) or not fits(value):
        raise Invalid
    return "" if is_blank(value) else value


def boolean(value: Any) -> bool | None:
    """True or false; a blank is as good as nothing."""
    told = str(value).strip().lower() if isinstance(value, (bool, int, str)) else None
    if told == "":
        return None
    if told in _TRUE:
        return True
    if told in _FALSE:
        return False
    raise Invalid


def whole_number(value: Any, low: int = 0, high: int = INT64_MAX) -> int | None:
    """A whole number within bounds, by default those of an id; a blank is as good as nothing."""
    if is_blank(value):
        return None
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Invalid
    return value


def birth_date(value: Any) -> int | None:
    """Epoch seconds; a blank is null."""
    if isinstance(value, (bool, float)):  # pydantic would read True as 1 and 2.0 as 2
        raise Invalid
    try:
        return _BIRTH_DATE.validate_python(value)
    except ValidationError:
        raise Invalid from None
