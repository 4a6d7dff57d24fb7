"""Normalization of streets and phone numbers; phonenumbers parses the formats of all countries."""

import re
from dataclasses import dataclass

import phonenumbers

from exposurekit.text.us_addresses import SHORT
from exposurekit.text.words import words

_NUMBER_MAX = 40
_DOT_IN_ABBREVIATION = re.compile(r"(?<=\b[^\W\d_])\.(?:(?=[^\W\d_]\b)| (?=[^\W\d_]\.))")
_POST_OFFICE_BOX = re.compile(r"\b(?:p\.? ?o\.?|post office) ?box\b", re.IGNORECASE)
# Units that are also words of streets and towns (Publication 28, C2): Space Center Boulevard, FL.
_UNITS = frozenset(
    ["bldg", "building", "fl", "floor", "lot", "ph", "penthouse", "space", "spc", "trailer", "trlr"]
)
_LAST_UNITS = frozenset({"rear", "ph", "penthouse"})  # without a number
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_UNIT_AND_NUMBER = re.compile(
    r"\b(apt|bldg|fl|lot|ph|room|rm|spc|ste|suite|trlr|unit)(?=\d+[a-z]?\b)", re.IGNORECASE
)


def location_words(text: str) -> list[str]:
    """Split a part of a location into words.

    >>> location_words("12-A Acorn St. N.W., D. C., #4")
    ['12', 'a', 'acorn', 'st', 'nw', 'dc', 'unit', '4']
    """
    text = _POST_OFFICE_BOX.sub("po box", text.replace("#", " unit "))
    return words(_UNIT_AND_NUMBER.sub(r"\1 ", _DOT_IN_ABBREVIATION.sub("", text)))


def address_words(text: str) -> list[str]:
    """Split an address into words, each abbreviated if it has an abbreviation.

    >>> address_words("12 North Acorn Street, #4")
    ['12', 'n', 'acorn', 'st', 'unit', '4']
    """
    return [SHORT.get(word, word) for word in location_words(text)]


def street(line: str) -> str | None:
    """Normalize a street line, without the apartment; None without a house or box number.

    >>> street("12 Acorn Street, 2nd Floor"), street("Apt. 4, 12 Acorn Street"), street("Acorn Cottage")
    ('12 acorn st', '12 acorn st', None)
    """
    parts = address_words(line)
    if parts[:1] == ["unit"]:
        if not _is_number(parts[1:2]):
            return None
        parts = parts[2:]
    parts = _without_unit(parts)
    numbered = any(any(char.isdigit() for char in word) for word in parts)
    named = any(word.isalpha() and len(word) > 1 for word in parts)
    return " ".join(parts) if numbered and named else None


def _without_unit(parts: list[str]) -> list[str]:
    if "unit" in parts[1:]:
        parts = parts[: parts.index("unit", 1)]
    units = (number for number in range(2, len(parts)) if is_unit(parts[number:]))
    return parts[: next(units, None)]


def is_unit(parts: list[str]) -> bool:
    """Return whether a part of an address, as `address_words`, is a unit: an apartment, a building or a floor."""
    first, following = parts[0], parts[1:]
    return (
        first == "unit"
        or (first in _UNITS and _is_number(following[:1]))
        or (_ORDINAL.fullmatch(first) is not None and following[:1] in (["fl"], ["floor"]))
        or (first in _LAST_UNITS and not following)
    )


def _is_number(part: list[str]) -> bool:
    return any(len(word) == 1 or any(char.isdigit() for char in word) for word in part)


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone number: country code and national number."""

    country: str
    national: str


def phone(text: str) -> Phone | None:
    """Parse a phone number in any format; one of the United States unless it is valid in another country alone.

    >>> phone("+1 (609) 555-0123") == phone("609.555.0123"), phone("442079460123") == phone("+44 20 7946 0123")
    (True, True)
    """
    number = _parse_phone(text[:_NUMBER_MAX])
    if number is None:
        return None
    if "+" not in text and not phonenumbers.is_valid_number(number):
        # The API stores digits alone, also of a number with its country code.
        other = _parse_phone("+" + "".join(char for char in text[:_NUMBER_MAX] if char.isdigit()))
        if other is not None and phonenumbers.is_valid_number(other):
            number = other
    return Phone(str(number.country_code), phonenumbers.national_significant_number(number))


def _parse_phone(text: str) -> phonenumbers.PhoneNumber | None:
    try:
        return phonenumbers.parse(text, "US")
    except phonenumbers.NumberParseException:
        return None
