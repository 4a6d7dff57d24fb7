"""Matching: scores whether a listing is about a person, with reasons that contain no personal values.

The name must fit. In addition, two identifiers (age, place) or a strong one (phone, email, street) make a match; with
less, the listing is possible and the operator decides. A household shares its street and phone, and father and son may
share their name as well, so only an email address makes a match if the age contradicts, or if only the beginning of the first name
is listed: Paul may be Paula.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from exposurekit.service.accounts.subject import Subject
from exposurekit.service.matching.location_matching import (
    Location,
    has_state,
    parse_location,
    place_state,
    same_city,
    same_street,
    same_zip,
)
from exposurekit.service.matching.name_matching import Fit, best_fit, names_fit
from exposurekit.service.matching.phone_numbers import phone
from exposurekit.service.models import Listing

Verdict = Literal["match", "possible", "other"]

# An identifier counts 1. A middle name (at most .5) must not replace a second one, and a misspelling (-.25) must not
# outweigh it.
MATCH_AT, POSSIBLE_AT = 1.75, 0.0
STRONG, EMAIL = 2.0, 5.0
# Years by which the person may be older than listed (pages are outdated), younger than listed, and differ at most.
AGE_BEHIND, AGE_AHEAD, AGE_CONTRADICTS = 2, 1, 3
_VALUES_MAX = 50  # of each list of a listing


@dataclass(frozen=True, slots=True)
class Match:
    """Whether a listing is about a person: verdict, score from 0 to 1, and reasons."""

    verdict: Verdict
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Evidence:
    points: float
    reason: str
    strong: bool = False
    own: bool = False  # nobody else in the household has it


def match(subject: Subject, listing: Listing, on: date) -> Match:
    """Match a listing with a person, as old as they are on a day."""
    name = _name(subject, listing)
    if name is None:
        return Match("other", 0.0, ("name: another one",))
    evidence = [*_contacts(subject, listing), *_age(subject, listing, on), *_places(subject, listing)]
    strong = any(item.strong for item in evidence)
    if strong:  # the person may have moved
        evidence = [item for item in evidence if item.reason != _ELSEWHERE]
    points = name.points + sum(item.points for item in evidence)
    reasons = (*name.reasons, *(item.reason for item in evidence))
    verdict = _verdict(points, strong=strong)
    if verdict == "match" and name.is_partial and not any(item.own for item in evidence):
        verdict = "possible"
    return Match(verdict, _score(points), reasons)


def name_fits(subject: Subject, listing: Listing) -> bool:
    """Return whether a listing has one of the person's names."""
    return _name(subject, listing) is not None


def _verdict(points: float, *, strong: bool) -> Verdict:
    if points >= MATCH_AT:
        return "match"
    return "possible" if strong or points >= POSSIBLE_AT else "other"


def _score(points: float) -> float:
    return round(1 / (1 + math.exp(1 - points)), 3)


def _name(subject: Subject, listing: Listing) -> Fit | None:
    """The best fit of the listed name and aliases; the reasons mention an alias."""
    by_name = names_fit(subject.names, listing.name)
    by_alias = [names_fit(subject.names, alias) for alias in listing.aliases[:_VALUES_MAX]]
    aliases = [replace(fit, reasons=(*fit.reasons, "name: shown as an alias")) for fit in by_alias if fit]
    return best_fit([by_name, *aliases] if by_name else aliases)


def _age(subject: Subject, listing: Listing, on: date) -> Iterator[_Evidence]:
    age = subject.age_on(on)
    if age is None or listing.age is None:
        return
    years = age - listing.age
    if -AGE_AHEAD <= years <= AGE_BEHIND:
        yield _Evidence(1, "age agrees")
    elif abs(years) > AGE_CONTRADICTS:
        yield _Evidence(-3, "age differs by more than three years")


def _contacts(subject: Subject, listing: Listing) -> Iterator[_Evidence]:
    emails = {address.strip().casefold() for address in subject.emails}
    if emails & {address.strip().casefold() for address in listing.emails[:_VALUES_MAX]}:
        yield _Evidence(EMAIL, "email address", strong=True, own=True)
    numbers = {phone(number) for number in subject.phone_numbers} - {None}
    if numbers & {phone(number) for number in listing.phone_numbers[:_VALUES_MAX]}:
        yield _Evidence(STRONG, "phone number", strong=True)


_ELSEWHERE = "lives in another state"


def _places(subject: Subject, listing: Listing) -> Iterator[_Evidence]:
    """The strongest evidence of the locations: a street includes the city, and a state alone does not count."""
    locations = [parse_location(text) for text in listing.locations[:_VALUES_MAX]]
    pairs = [(place, location) for place in subject.places for location in locations]
    if any(same_street(place, location) for place, location in pairs):
        yield _Evidence(STRONG, "street", strong=True)
    elif any(same_city(place, location) and has_state(place, location) for place, location in pairs):
        yield _Evidence(1, "city and state")
    elif any(same_zip(place, location) for place, location in pairs):
        yield _Evidence(1, "ZIP code")
    elif any(same_city(place, location) for place, location in pairs):
        yield _Evidence(1, "city")
    elif _is_elsewhere(subject, locations):
        yield _Evidence(-0.5, _ELSEWHERE)


def _is_elsewhere(subject: Subject, locations: list[Location]) -> bool:
    listed = {location.state for location in locations}
    states = {place_state(place) for place in subject.places}
    return bool(listed and states) and None not in listed | states and not listed & states
