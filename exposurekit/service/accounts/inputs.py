"""Parsers of single request values: text, integers, booleans and birth dates, from any encoding.

spec does not say: length limits and the format of fields. Here: at most `TEXT_MAX` characters, no control characters.
"""

import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from exposurekit.contract.types import INT64_MAX, BirthDate

TEXT_MAX = 1_000
# Control characters other than tab and new line, lone surrogates, and what XML cannot represent.
_FORBIDDEN = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
ALLOWED_TEXT = f"^[^{_FORBIDDEN}]*$"
_CONTROL_CHARACTERS = re.compile(f"[{_FORBIDDEN}]")
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_TRUE, _FALSE = {"true", "1", "yes", "on", "t", "y"}, {"false", "0", "no", "off", "f", "n"}
_BIRTH_DATE: TypeAdapter[int | None] = TypeAdapter(BirthDate)


class InvalidValue(Exception):
    """A value is invalid; ``paths`` says where in it, such as ``[0][city]``."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths or ("",)
        super().__init__(*self.paths)


def is_blank(value: Any) -> bool:
    """Return whether the value is a blank string.

    >>> is_blank(" "), is_blank(None)
    (True, False)
    """
    return isinstance(value, str) and not value.strip(" \t\r\n")  # other control characters are not blank


def fits(text: str) -> bool:
    """Return whether a text is short enough and has no forbidden characters."""
    return len(text) <= TEXT_MAX and not _CONTROL_CHARACTERS.search(text)


def text(value: Any) -> str:
    """Parse a text; white space alone becomes the empty string."""
    if not isinstance(value, str) or not fits(value):
        raise InvalidValue
    return "" if is_blank(value) else value


def boolean(value: Any) -> bool | None:
    """Parse a boolean; None for a blank."""
    normalized = str(value).strip().lower() if isinstance(value, (bool, int, str)) else None
    if normalized == "":
        return None
    if normalized in _TRUE:
        return True
    if normalized in _FALSE:
        return False
    raise InvalidValue


def whole_number(value: Any, low: int = 0, high: int = INT64_MAX) -> int | None:
    """Parse an integer within bounds, by default those of an id; None for a blank."""
    if is_blank(value):
        return None
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidValue
    return value


def birth_date(value: Any) -> int | None:
    """Parse a birth date in epoch seconds; None for a blank."""
    if isinstance(value, (bool, float)):  # pydantic would read True as 1 and 2.0 as 2
        raise InvalidValue
    try:
        return _BIRTH_DATE.validate_python(value)
    except ValidationError:
        raise InvalidValue from None
