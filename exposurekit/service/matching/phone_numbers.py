"""Phone numbers in any format; phonenumbers parses those of all countries."""

import re
from dataclasses import dataclass

import phonenumbers

_NUMBER_MAX = 40
_DIGITS_MIN = 7
# A number without the words beside it, which phonenumbers would read as digits: "Wireless" is 94737377.
_NUMBER = re.compile(r"[+\uff0b(]*\d[\d\s().+/\u00b7\u2010-\u2015\u2212-]*")


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone number: country code and national number."""

    country: str
    national: str


def phone(text: str) -> Phone | None:
    """Parse a phone number in any format; one of the United States unless it is valid in another country alone.

    >>> phone("+1 (609) 555-0123") == phone("609.555.0123"), phone("442079460123") == phone("+44 20 7946 0123")
    (True, True)
    >>> phone("(609) 555-0123 - Wireless") == phone("6095550123")
    True
    """
    text = next(filter(_has_digits, _NUMBER.findall(text)), text)
    number = _parse_phone(text[:_NUMBER_MAX])
    if number is None:
        return None
    if "+" not in text and not phonenumbers.is_valid_number(number):
        # The API stores digits alone, also of a number with its country code.
        other = _parse_phone("+" + "".join(char for char in text[:_NUMBER_MAX] if char.isdigit()))
        if other is not None and phonenumbers.is_valid_number(other):
            number = other
    return Phone(str(number.country_code), phonenumbers.national_significant_number(number))


def _has_digits(text: str) -> bool:
    return sum(map(str.isdecimal, text)) >= _DIGITS_MIN


def _parse_phone(text: str) -> phonenumbers.PhoneNumber | None:
    try:
        return phonenumbers.parse(text, "US")
    except phonenumbers.NumberParseException:
        return None
