"""The subject of an opt-out: a person under the name and at the address that the listing shows.

The site compares an opt-out with its listing. It gets no other name and no other address of the person.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.matching.location_matching import (
    Location,
    has_state,
    parse_location,
    same_city,
    same_street,
    same_zip,
)
from exposurekit.service.matching.name_matching import names_fit, with_middle_names
from exposurekit.text.us_addresses import listed_address


def as_listed(subject: Subject, record: Mapping[str, Any]) -> Subject:
    """Return a person whose first name and first place are those that an opt-out of a listing states.

    That is the name on file that fits best, and the address that agrees best. If none agrees, it is what the listing
    shows; if the listing shows no address, the current one.
    """
    name, place = _listed_name(subject, record), _listed_place(subject, record["locations"])
    return replace(
        subject,
        names=subject.names if name is None else (name, *subject.names),
        places=subject.places if place is None else (place, *subject.places),
    )


def _listed_name(subject: Subject, record: Mapping[str, Any]) -> Name | None:
    names = with_middle_names(subject.names)
    for text in (record["name"], *record["aliases"]):
        if names_fit(names, text) is None:  # all at once: a record has many aliases
            continue
        fits = [(fit.points, name) for name in names if (fit := names_fit([name], text))]
        if fits:
            return max(fits, key=lambda fit: fit[0])[1]
    return None


def _listed_place(subject: Subject, texts: Sequence[str]) -> Place | None:
    locations = [parse_location(text) for text in texts]
    agreements = [max((_agreement(place, one) for one in locations), default=0) for place in subject.places]
    if any(agreements):
        return subject.places[agreements.index(max(agreements))]
    listed = next((fields for text in texts if (fields := listed_address(text))), None)
    return None if listed is None else Place(**listed)


def _agreement(place: Place, location: Location) -> int:
    if same_street(place, location):
        return 5
    has_zip = same_zip(place, location)
    if same_city(place, location):
        return (3 if has_state(place, location) else 1) + has_zip
    return 2 if has_zip else 0
