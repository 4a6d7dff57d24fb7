"""Normalization of streets and phone numbers; phonenumbers parses the formats of all countries."""

import re
from dataclasses import dataclass

import phonenumbers

from exposurekit.text.us_addresses import SHORT
from exposurekit.text.words import words

_NUMBER_MAX = 40
_DOT_IN_ABBREVIATION = re.compile(r"(?<=\b[^\W\d_])\.(?:(?=[^\W\d_]\b)| (?=[^\W\d_]\.))")


def location_words(text: str) -> list[str]:
    """Split a part of a location into words.

    >>> location_words("12-A Acorn St. N.W., D. C., #4")
    ['12', 'a', 'acorn', 'st', 'nw', 'dc', 'unit', '4']
    """
    return words(_DOT_IN_ABBREVIATION.sub("", text.replace("#", " unit ")))


def address_words(text: str) -> list[str]:
    """Split an address into words, each abbreviated if it has an abbreviation.

    >>> address_words("12 North Acorn Street, #4")
    ['12', 'n', 'acorn', 'st', 'unit', '4']
    """
    return [SHORT.get(word, word) for word in location_words(text)]


def street(line: str) -> str | None:
    """Normalize a street line, without the apartment; None without a house or box number.

    >>> street("12 Acorn Street, Apt. 4"), street("Acorn Cottage")
    ('12 acorn st', None)
    """
    parts = address_words(line)
    if "unit" in parts[1:]:
        parts = parts[: parts.index("unit", 1)]
    if parts[:1] == ["unit"]:  # an apartment without a house
        return None
    numbered = any(any(char.isdigit() for char in word) for word in parts)
    named = any(word.isalpha() and len(word) > 1 for word in parts)
    return " ".join(parts) if numbered and named else None


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
