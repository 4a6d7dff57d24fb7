"""Location matching: whether a listed location is a person's street, city or ZIP code."""

import re
from dataclasses import dataclass
from itertools import chain

from exposurekit.service.accounts.subject import Place
from exposurekit.text.us_addresses import STATES, address_words, is_unit, location_words, street

ZIP_DIGITS = 5
_STATES = {name.casefold(): code.casefold() for code, name in STATES.items()}
_CODES = frozenset(_STATES.values())
_SEGMENTS = re.compile(r"[,;|\n\u00b7\u2022()]+")


@dataclass(frozen=True, slots=True)
class Location:
    """A listed location: the words of each part, also abbreviated, and the state's code, with the part that names it."""

    parts: tuple[list[str], ...]
    normalized: tuple[list[str], ...]
    state: str | None = None
    state_part: int = -1


def parse_location(text: str) -> Location:
    """Split a listed location into its parts, and find its state."""
    parts = tuple(location_words(part) for part in _SEGMENTS.split(text[:300]))
    parts = tuple(part for part in parts if part)
    normalized = tuple(address_words(" ".join(part)) for part in parts)
    # The state comes last, before the ZIP code and the country.
    for number, part in reversed([*enumerate(parts)]):
        named = _without_numbers(part)
        for count in (3, 2, 1):
            if state := _state(" ".join(named[-count:])):
                return Location(parts, normalized, state, number)
    return Location(parts, normalized)


def _without_numbers(part: list[str]) -> list[str]:
    return [word for word in part if not word.isdigit()]


def place_state(place: Place) -> str | None:
    """Return the code of a place's state in lower case; None if it has no state of the United States."""
    return _state(" ".join(location_words(place.state)))


def _state(text: str) -> str | None:
    code = text if text in _CODES else _STATES.get(text)
    return code or None


def same_zip(place: Place, location: Location) -> bool:
    """Return whether a location ends in the ZIP code of a place."""
    zip_code = place.zip.strip()[:ZIP_DIGITS]
    last_words = [word for part in location.parts for word in part][-2:]  # a house number comes before these
    return len(zip_code) == ZIP_DIGITS and zip_code in last_words


def has_state(place: Place, location: Location) -> bool:
    """Return whether a location names a state, and not only the city of a place: Washington and Port Washington are cities."""
    if location.state is None:
        return False
    named = _without_numbers(location.normalized[location.state_part])
    return named != address_words(place.city) or _is_state_alone(location, location.state_part)


def _same_state(place: Place, location: Location) -> bool:
    state = place_state(place)
    return state is None or not has_state(place, location) or state == location.state


def same_city(place: Place, location: Location) -> bool:
    """Return whether a location is in the city of a place, and in no other state."""
    city = address_words(place.city)
    return (
        bool(city)
        and _same_state(place, location)
        and any(
            _ends_in(part, normalized, city)
            for number, (part, normalized) in enumerate(zip(location.parts, location.normalized, strict=True))
            if not _is_state_alone(location, number)
        )
    )


def _is_state_alone(location: Location, number: int) -> bool:
    """Return whether a part is the state of a city before it: Buffalo, New York is not in the city of New York."""
    named = " ".join(_without_numbers(location.parts[number]))
    return (
        number == location.state_part
        and _state(named) is not None
        and any(
            not is_unit(normalized) and normalized == _without_numbers(normalized)
            for normalized in location.normalized[:number]
        )
    )


def _ends_in(part: list[str], normalized: list[str], city: list[str]) -> bool:
    """Return whether a part of a location is this city, or a street and this city, followed by state and ZIP at most."""
    for at in range(len(normalized) - len(city) + 1):
        is_whole = at == 0 or part[0][0].isdigit()  # not the end of another city's name
        rest = " ".join(word for word in part[at + len(city) :] if not word.isdigit())
        if is_whole and normalized[at : at + len(city)] == city and (not rest or _state(rest)):
            return True
    return False


def same_street(place: Place, location: Location) -> bool:
    """Return whether a location has the street line of a place, and no other town."""
    line = street(place.address1)
    if line is None or f" {line} " not in f" {' '.join(chain.from_iterable(location.normalized))} ":
        return False
    # Every town has a Main Street: a listed town must be the same.
    parts = sum(not is_unit(normalized) for normalized in location.normalized)
    has_town = parts > 1 or location.state is not None
    return not has_town or not place.city or same_city(place, location) or same_zip(place, location)
