"""Invented people with fictional names, phone numbers and email addresses; the same seed gives the same people."""

import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from exposurekit.sandbox.world import data_files

EPOCH = date(1970, 1, 1)
DAY = 86_400
OLDEST, YOUNGEST = 1931, 2004  # years of birth
TRIES = 100  # draws for an unused number; after that, two people share one


@dataclass(frozen=True)
class Alias:
    """Another present or former name of a person."""

    first_name: str = field(repr=False)
    last_name: str = field(repr=False)
    alias_type: str | None = None


@dataclass(frozen=True)
class Address:
    """A postal address in an invented town of a real state."""

    address1: str = field(repr=False)
    address2: str | None = field(repr=False)
    city: str = field(repr=False)
    state: str = field(repr=False)
    zip: str = field(repr=False)


@dataclass(frozen=True, repr=False)
class Person:
    """An invented person with the data they register. The first address is the current one."""

    first_name: str
    middle_name: str | None
    last_name: str
    birth_date: int | None
    aliases: tuple[Alias, ...]
    emails: tuple[str, ...]
    phone_numbers: tuple[str, ...]
    addresses: tuple[Address, ...]
    relatives: tuple[str, ...]

    def __repr__(self) -> str:
        lists = ("aliases", "emails", "phone_numbers", "addresses", "relatives")
        return f"Person({', '.join(f'{name}={len(getattr(self, name))}' for name in lists)})"

    def fields(self) -> frozenset[str]:
        """Return the user fields, as in `user_fields_required_for_removal`, that this person has values for."""
        always = {"first_name", "last_name", "address1", "city", "state", "zip"}
        others = {"middle_name": self.middle_name, "birth_date": self.birth_date}
        lists = {"email": self.emails, "phone_number": self.phone_numbers}
        return frozenset(always | _present(others).keys() | {name for name, items in lists.items() if items})

    def request(self) -> dict[str, Any]:
        """Return the keyword arguments of Create user, without the missing values."""
        request = {
            "first_name": self.first_name,
            "middle_name": self.middle_name,
            "last_name": self.last_name,
            "birth_date": self.birth_date,
            "aliases": [_present(vars(alias)) for alias in self.aliases],
            "emails": [{"address": address} for address in self.emails],
            "phone_numbers": [{"number": number} for number in self.phone_numbers],
            "addresses": [_present(vars(address)) for address in self.addresses],
        }
        return _present(request)


def invent(count: int, seed: int) -> list[Person]:
    """Invent people, grouped in households; a larger count only adds people at the end."""
    rng = random.Random(f"people {seed}")  # noqa: S311  invented data, not a secret; text, for -1 seeds as 1 does
    taken: set[str] = set()
    people: list[Person] = []
    while len(people) < count:
        people += _household(rng, taken, people)
    return people[: max(count, 0)]


def slug(text: str) -> str:
    """Convert a name to its form in a URL.

    >>> slug("Zoë O'Thimble")
    'zoe-o-thimble'
    """
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")


def chance(rng: random.Random, probability: float) -> bool:
    """Draw whether an event of this probability happens."""
    return rng.random() < probability


@dataclass(frozen=True, repr=False)
class _Sketch:
    """The outline of a person: name, maiden name and year of birth."""

    first: str
    last: str
    maiden: str | None
    year: int


_DATA = data_files.read("people", dict[str, Any])
_NAMED: list[tuple[str, str, str]] = [entry.partition(":") for entry in _DATA["first_names"].split()]
_FIRST = tuple(first for first, _, _ in _NAMED)
NICKNAMES = {first: short for first, _, short in _NAMED if short}
_BEGINNINGS, _ENDINGS = _DATA["last_beginnings"].split(), _DATA["last_endings"].split()
_TOWNS = [tuple(town.rsplit(maxsplit=2)) for town in _DATA["towns"].split("; ")]
_CODES = {state: codes.split() for state, codes in _DATA["area_codes"].items()}
_ALL_CODES: list[str] = [code for codes in _CODES.values() for code in codes]


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _fresh(taken: set[str], draw: Callable[[], str]) -> str:
    """Draw a value that is not taken yet, so that a phone number or an email address identifies one person."""
    for _ in range(TRIES):
        if (drawn := draw()) not in taken:
            break
    taken.add(drawn)
    return drawn


def _household(rng: random.Random, taken: set[str], earlier: list[Person]) -> list[Person]:
    town = rng.choice(_TOWNS)
    home = _address(rng, town)
    sketches = [_namesake(rng, rng.choice(earlier))] if earlier and chance(rng, 0.02) else _family(rng)
    names = [f"{sketch.first} {sketch.last}" for sketch in sketches]
    names += [f"{rng.choice(_FIRST)} {sketches[0].last}" for _ in range(rng.choice((0, 1, 1, 2)))]
    people = []
    for sketch in sketches:
        relatives = dict.fromkeys(name for name in names if name != f"{sketch.first} {sketch.last}")
        lives_at = home if chance(rng, 0.7) else _address(rng, town)
        people.append(_person(rng, taken, sketch, lives_at, tuple(relatives)))
    return people


def _namesake(rng: random.Random, other: Person) -> _Sketch:
    """A stranger with the same name, or the same but for one letter."""
    last = other.last_name
    if chance(rng, 0.4):
        at = rng.randrange(2, len(last))
        last = last[:at] + last[at + 1 :]
    return _Sketch(other.first_name, last, None, rng.randint(OLDEST, YOUNGEST))


def _family(rng: random.Random) -> list[_Sketch]:
    last, year = _last_name(rng), rng.randint(OLDEST, YOUNGEST)
    size = rng.choices((1, 2, 3, 4), (55, 25, 12, 8))[0]
    generation = 1 if year < (OLDEST + YOUNGEST) // 2 else -1  # grown children, or parents
    years = [year, year + rng.randint(-6, 6), *(year + generation * rng.randint(20, 35) for _ in range(2))]
    maidens = (None, _last_name(rng) if chance(rng, 0.6) else None, None, None)
    drawn = zip(rng.sample(_FIRST, size), maidens, years, strict=False)
    return [_Sketch(first, last, maiden, min(max(born, OLDEST), YOUNGEST)) for first, maiden, born in drawn]


def _last_name(rng: random.Random) -> str:
    if chance(rng, 0.01):
        return str(rng.choice(_DATA["last_oddities"]))
    return str(rng.choice(_BEGINNINGS) + rng.choice(_ENDINGS))


def _other(rng: random.Random, first: str) -> str:
    return _FIRST[(_FIRST.index(first) + rng.randrange(1, len(_FIRST))) % len(_FIRST)]


def _person(
    rng: random.Random, taken: set[str], sketch: _Sketch, home: Address, relatives: tuple[str, ...]
) -> Person:
    born = date(sketch.year, rng.randint(1, 12), rng.randint(1, 28))
    mailboxes, phones = rng.choices((0, 1, 2, 3), (8, 52, 30, 10))[0], rng.choices((0, 1, 2), (8, 62, 30))[0]
    former = rng.choices((0, 1, 2), (50, 35, 15))[0]
    return Person(
        first_name=sketch.first,
        middle_name=_other(rng, sketch.first) if chance(rng, 0.8) else None,
        last_name=sketch.last,
        birth_date=(born - EPOCH).days * DAY if chance(rng, 0.9) else None,
        aliases=_aliases(rng, sketch),
        emails=tuple(_fresh(taken, lambda: _email(rng, sketch)) for _ in range(mailboxes)),
        phone_numbers=tuple(_fresh(taken, lambda: _phone(rng, home.state)) for _ in range(phones)),
        addresses=(home, *(_address(rng, rng.choice(_TOWNS)) for _ in range(former))),
        relatives=relatives,
    )


def _aliases(rng: random.Random, sketch: _Sketch) -> tuple[Alias, ...]:
    aliases = []
    if sketch.first in NICKNAMES and chance(rng, 0.5):
        aliases.append(Alias(NICKNAMES[sketch.first], sketch.last, "nickname"))
    if sketch.maiden:
        aliases.append(Alias(sketch.first, sketch.maiden, "maiden"))
    if chance(rng, 0.06):
        aliases.append(Alias(_other(rng, sketch.first), sketch.last))  # a name of no declared kind
    return tuple(aliases)


def _email(rng: random.Random, sketch: _Sketch) -> str:
    first, last = slug(sketch.first).replace("-", ""), slug(sketch.last).replace("-", "")
    local = rng.choice((f"{first}.{last}", f"{first[0]}{last}", f"{last}.{first}", f"{first}{last[0]}"))
    number = rng.choice(("", str(sketch.year % 100).zfill(2), str(rng.randrange(1000))))
    return f"{local}{number}@{rng.choice(_DATA['mail_domains'])}"


def _phone(rng: random.Random, state: str) -> str:
    """A number of the range reserved for fiction: 555-0100 to 555-0199."""
    codes: list[str] = _CODES[state] if chance(rng, 0.6) else _ALL_CODES
    return f"{rng.choice(codes)}55501{rng.randrange(100):02d}"


def _address(rng: random.Random, town: tuple[str, ...]) -> Address:
    city, state, code = town
    street = (
        f"{rng.randint(1, 2999)} {rng.choice(_DATA['streets'].split())} {rng.choice(_DATA['street_kinds'])}"
    )
    flats = (f"Apt {rng.randint(1, 40)}", f"Unit {rng.choice('ABCDEF')}", *[None] * 6)
    return Address(street, rng.choice(flats), city, state, code)
