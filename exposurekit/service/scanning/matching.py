"""Is this listing this person? Weighs what both tell, and says why without a personal value. Stores nothing.

The name must fit at all. Beside it, two identifiers (age, place) or a strong one (phone, e-mail, street) make a
match; less is possible, and for the operator to judge. A household shares its street and its phone, and a father and
a son may share the name as well: against an age that contradicts, only an e-mail address makes a match.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Literal

from exposurekit.service.accounts.subject import Place, Subject
from exposurekit.service.models import Listing
from exposurekit.service.scanning.normalize import Fit, address_words, names_fit, phone, street, words
from exposurekit.text.us_addresses import STATES

Verdict = Literal["match", "possible", "other"]

# An identifier counts 1. A middle name, at most .5, must not make a second one; a slip of the pen, -.25, may not
# break two.
MATCH_AT, POSSIBLE_AT = 1.75, 0.0
STRONG, EMAIL = 2.0, 5.0
# Years that the person may be older than shown (pages grow old), younger than shown, and off at all.
AGE_BEHIND, AGE_AHEAD, AGE_CONTRADICTS = 2, 1, 3
ZIP_DIGITS = 5
_SHOWN_MAX = 50  # of each list of a listing

_STATES = {name.casefold(): code.casefold() for code, name in STATES.items()}
_CODES = frozenset(_STATES.values())
_SEGMENTS = re.compile(r"[,;|\n\u00b7\u2022()]+")


@dataclass(frozen=True, slots=True)
class Match:
    """Whether a listing is of a person: the verdict, how sure it is (0 to 1), and why."""

    verdict: Verdict
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Sign:
    points: float
    reason: str
    strong: bool = False


def match(subject: Subject, listing: Listing, on: date) -> Match:
    """Weigh a listing against a person.

    Args:
        subject: Who is looked for.
        listing: What a site shows.
        on: The day of the look, for the age.

    Returns:
        The reasons name kinds of evidence, never a value of the person or of the listing.

    >>> from exposurekit.service.accounts.subject import Name
    >>> juniper = Subject(
    ...     names=(Name("Juniper", "Quillfeather"),), birth_date=date(1984, 5, 1),
    ...     places=(Place(city="Oakmere", state="CA"),),
    ... )
    >>> shown = Listing(name="QUILLFEATHER, JUNIPER", reference_id="7", age=41, locations=("Oakmere, CA",))
    >>> match(juniper, shown, date(2026, 1, 1))
    Match(verdict='match', score=0.731, reasons=('name: the same', 'age agrees', 'city and state'))
    """
    name = _name(subject, listing)
    if name is None:
        return Match("other", 0.0, ("name: another one",))
    signs = [*_contacts(subject, listing), *_age(subject, listing, on), *_places(subject, listing)]
    strong = any(sign.strong for sign in signs)
    if strong:  # who has moved is still the same
        signs = [sign for sign in signs if sign.reason != _ELSEWHERE]
    points = name.points + sum(sign.points for sign in signs)
    reasons = (*name.reasons, *(sign.reason for sign in signs))
    return Match(_verdict(points, strong=strong), _score(points), reasons)


def name_fits(subject: Subject, listing: Listing) -> bool:
    """Whether a listing bears one of the person's names, whoever it is of."""
    return _name(subject, listing) is not None


def _verdict(points: float, *, strong: bool) -> Verdict:
    if points >= MATCH_AT:
        return "match"
    return "possible" if strong or points >= POSSIBLE_AT else "other"


def _score(points: float) -> float:
    """From 0 to 1; a half lies midway between one identifier and two."""
    return round(1 / (1 + math.exp(1 - points)), 3)


def _name(subject: Subject, listing: Listing) -> Fit | None:
    """The best fit of the names shown; one shown as an alias is as good, and said to be one."""
    best = names_fit(subject.names, listing.name)
    for alias in listing.aliases[:_SHOWN_MAX]:
        fit = names_fit(subject.names, alias)
        if fit and (best is None or fit.points > best.points):
            best = Fit(fit.points, (*fit.reasons, "name: shown as an alias"))
    return best


def _age(subject: Subject, listing: Listing, on: date) -> Iterator[_Sign]:
    age = subject.age_on(on)
    if age is None or listing.age is None:
        return
    years = age - listing.age
    if -AGE_AHEAD <= years <= AGE_BEHIND:
        yield _Sign(1, "age agrees")
    elif abs(years) > AGE_CONTRADICTS:
        yield _Sign(-3, "age differs by more than three years")


def _contacts(subject: Subject, listing: Listing) -> Iterator[_Sign]:
    ours = {address.strip().casefold() for address in subject.emails}
    if ours & {address.strip().casefold() for address in listing.emails[:_SHOWN_MAX]}:
        yield _Sign(EMAIL, "e-mail address", strong=True)
    numbers = {phone(number) for number in subject.phone_numbers} - {None}
    if numbers & {phone(number) for number in listing.phone_numbers[:_SHOWN_MAX]}:
        yield _Sign(STRONG, "phone number", strong=True)


_ELSEWHERE = "lives in another state"


def _places(subject: Subject, listing: Listing) -> Iterator[_Sign]:
    """The best that the places tell: a street says the city, and a state alone says nothing."""
    locations = [_location(text) for text in listing.locations[:_SHOWN_MAX]]
    pairs = [(place, location) for place in subject.places for location in locations]
    if any(_same_street(place, location) for place, location in pairs):
        yield _Sign(STRONG, "street", strong=True)
    elif any(_same_city(place, location) and location.state for place, location in pairs):
        yield _Sign(1, "city and state")
    elif any(_same_zip(place, location) for place, location in pairs):
        yield _Sign(1, "ZIP code")
    elif any(_same_city(place, location) for place, location in pairs):
        yield _Sign(1, "city")
    elif _elsewhere(subject, locations):
        yield _Sign(-0.5, _ELSEWHERE)


@dataclass(frozen=True, slots=True)
class _Location:
    """A shown location: the words of each part of it, their spellings as an address, and its state's code."""

    parts: tuple[list[str], ...]
    state: str | None

    @property
    def spelled(self) -> list[list[str]]:
        return [address_words(" ".join(part)) for part in self.parts]


def _location(text: str) -> _Location:
    parts = tuple(words(part) for part in _SEGMENTS.split(text.replace("#", " unit ")[:300]))
    parts = tuple(part for part in parts if part)
    # The state stands last, before the ZIP code and the country.
    for part in reversed(parts):
        named = [word for word in part if not word.isdigit()]
        for count in (3, 2, 1):
            if state := _state(" ".join(named[-count:])):
                return _Location(parts, state)
    return _Location(parts, None)


def _state(text: str) -> str | None:
    told = text if text in _CODES else _STATES.get(text)
    return told or None


def _same_zip(place: Place, location: _Location) -> bool:
    ours = place.zip.strip()[:ZIP_DIGITS]
    told = [word for part in location.parts for word in part][-2:]  # a house number stands further ahead
    return len(ours) == ZIP_DIGITS and ours in told


def _same_state(place: Place, location: _Location) -> bool:
    ours = _state(" ".join(words(place.state)))
    return ours is None or location.state is None or ours == location.state


def _same_city(place: Place, location: _Location) -> bool:
    city = address_words(place.city)
    return (
        bool(city)
        and _same_state(place, location)
        and any(
            _ends_in(part, spelled, city)
            for part, spelled in zip(location.parts, location.spelled, strict=True)
        )
    )


def _ends_in(part: list[str], spelled: list[str], city: list[str]) -> bool:
    """Whether a part of a location is this city, or a street and this city, with at most the state and ZIP behind."""
    for at in range(len(spelled) - len(city) + 1):
        whole = at == 0 or part[0][0].isdigit()  # not the end of another city's name
        behind = " ".join(word for word in part[at + len(city) :] if not word.isdigit())
        if whole and spelled[at : at + len(city)] == city and (not behind or _state(behind)):
            return True
    return False


def _same_street(place: Place, location: _Location) -> bool:
    line = street(place.address1)
    if line is None or f" {line} " not in f" {' '.join(chain.from_iterable(location.spelled))} ":
        return False
    # Every town has its Main Street: what else is shown must not be another town.
    told = sum(spelled[0] != "unit" for spelled in location.spelled) > 1 or location.state is not None
    return not told or not place.city or _same_city(place, location) or _same_zip(place, location)


def _elsewhere(subject: Subject, locations: list[_Location]) -> bool:
    theirs = {location.state for location in locations}
    ours = {_state(" ".join(words(place.state))) for place in subject.places}
    return bool(theirs and ours) and None not in theirs | ours and not theirs & ours
