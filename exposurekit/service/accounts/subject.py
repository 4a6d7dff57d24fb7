"""The subject of a scan: a user's own data, decrypted for the scan alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from exposurekit.text.us_addresses import in_united_states, state_code

# The ZIP codes of a state without their zeros. Elsewhere in the United States, one with fewer digits is mistyped.
_CUT_ZIP = re.compile(r"\d{4}(?:-\d{4})?", re.ASCII)
_TWICE_CUT_ZIP = re.compile(r"\d{3}(?:-\d{4})?", re.ASCII)
_CUT_ZIPS = dict.fromkeys(("CT", "MA", "ME", "NH", "NJ", "RI", "VT"), _CUT_ZIP) | dict.fromkeys(
    ("PR", "VI"), _TWICE_CUT_ZIP
)
_ZIP_DIGITS = 5

EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Name:
    """A name of the subject."""

    first: str = field(repr=False)
    last: str = field(repr=False)
    middle: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Place:
    """A postal address; unknown parts are blank."""

    address1: str = field(default="", repr=False)
    address2: str = field(default="", repr=False)
    city: str = field(default="", repr=False)
    state: str = field(default="", repr=False)
    zip: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who a scan searches for. The first name is the registered one, the first place the current one."""

    names: tuple[Name, ...]
    birth_date: date | None = field(default=None, repr=False)
    emails: tuple[str, ...] = field(default=(), repr=False)
    phone_numbers: tuple[str, ...] = field(default=(), repr=False)
    places: tuple[Place, ...] = field(default=(), repr=False)

    @property
    def size(self) -> int:
        """The number of values that a page or a listing is compared with; a comparison takes time in proportion."""
        return len(self.names) + len(self.emails) + len(self.phone_numbers) + len(self.places)

    @classmethod
    def from_profile(
        cls, person: Mapping[str, Any], lists: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> "Subject":
        """Build a subject from a user's fields and four lists; blanks around texts, and several in one, are dropped."""
        person = _without_blanks(person)
        lists = {name: [*map(_without_blanks, items)] for name, items in lists.items()}
        names = [Name(person["first_name"], person["last_name"], person["middle_name"] or "")]
        names += [Name(alias["first_name"], alias["last_name"]) for alias in lists.get("aliases", ())]
        places = [
            Place(
                **{name: address.get(name) or "" for name in Place.__dataclass_fields__} | _whole_zip(address)
            )
            for address in lists.get("addresses", ())
        ]
        seconds = person["birth_date"]
        return cls(
            names=tuple(name for name in names if name.first or name.last),
            birth_date=None if seconds is None else EPOCH + timedelta(seconds=seconds),
            emails=_nonblank(lists.get("emails", ()), "address"),
            phone_numbers=_nonblank(lists.get("phone_numbers", ()), "number"),
            places=tuple(
                place
                for place in places
                if any(getattr(place, name) for name in ("address1", "city", "state", "zip"))
            ),
        )

    @classmethod
    def from_city(cls, first_name: str, last_name: str, *, city: str = "", state: str = "") -> "Subject":
        """Create a subject with one name and one city."""
        return cls(names=(Name(first_name, last_name),), places=(Place(city=city, state=state),))

    def values(self, name: Name | None = None, place: Place | None = None) -> dict[str, str]:
        """Return what a search or a form may ask for, by user field; unknown values are blank."""
        name = name or (self.names[0] if self.names else Name("", ""))
        place = place or (self.places[0] if self.places else Place())
        return {
            "first_name": name.first,
            "middle_name": name.middle,
            "last_name": name.last,
            "birth_date": self.birth_date.isoformat() if self.birth_date else "",
            "email": self.emails[0] if self.emails else "",
            "phone_number": self.phone_numbers[0] if self.phone_numbers else "",
            "address1": place.address1,
            "address2": place.address2,
            "city": place.city,
            "state": place.state,
            "zip": place.zip,
        }

    def values_by_field(self) -> dict[str, tuple[str, frozenset[str]]]:
        """Return what a search or a form may ask for, by user field: the first value, and those of all names and places."""
        first = self.values()
        values = [
            self.values(name, place) for name in self.names or (None,) for place in self.places or (None,)
        ]
        return {key: (text, frozenset(one[key] for one in values)) for key, text in first.items()}

    def age_on(self, day: date) -> int | None:
        """Return the age in full years on a day; None without a birth date."""
        if self.birth_date is None:
            return None
        had_birthday = (day.month, day.day) >= (self.birth_date.month, self.birth_date.day)
        return day.year - self.birth_date.year - (not had_birthday)


USER_FIELDS = frozenset(Subject(names=()).values())  # what a site may ask for
# What searches are made of. Sites search by a name and a place, and hardly by anything else.
SEARCH_FIELDS = frozenset({"first_name", "last_name", "address1", "city", "state", "zip"})


def changed_fields(before: Subject, after: Subject) -> frozenset[str]:
    """Return the user fields for which a search or a form may now get another value."""
    old, new = before.values_by_field(), after.values_by_field()
    return frozenset(key for key in USER_FIELDS if old[key] != new[key])


def _without_blanks(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: " ".join(text.split()) if isinstance(text, str) else text for name, text in fields.items()}


def _whole_zip(address: Mapping[str, Any]) -> dict[str, str]:
    """Return the ZIP code of an address in the United States with the zeros that a spreadsheet or a number has dropped."""
    text = address.get("zip") or ""
    cut = _CUT_ZIPS.get(state_code(address.get("state") or ""))
    if cut is None or not cut.fullmatch(text) or not in_united_states(address.get("country") or ""):
        return {}
    digits, *extension = text.split("-")
    return {"zip": "-".join([digits.zfill(_ZIP_DIGITS), *extension])}


def _nonblank(items: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(item[name] for item in items if item[name])
