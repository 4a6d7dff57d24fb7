"""Invented people who are not registered: strangers, and namesakes of registered people."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import cycle

from exposurekit.sandbox.world.formats import born_on, folded
from exposurekit.sandbox.world.people import (
    DAY,
    EPOCH,
    OLDEST,
    YOUNGEST,
    Address,
    Alias,
    Person,
    chance,
    invent,
    slug,
)

NAMESAKES = 1 / 3  # share of people who have one
NEIGHBOURS = 0.25  # share of namesakes who live in the same town
AGE_GAPS = range(9, 25)  # years between two people of one name
COMMON_NAME, COMMON_SHORT = ("Alexander", "Everyman"), ("Alex", "Sandy", "Lex")
_OTHER_SEED = 1_000_003


def invent_strangers(people: Sequence[Person], seed: int) -> list[Person]:
    """Invent the namesakes, followed by as many strangers as there are people.

    None of them shares a phone number, an email address or a street address with a registered person, and only the
    namesakes share a name.
    """
    pool = _pool(people, seed)
    rng = random.Random(f"strangers {seed}")  # noqa: S311  invented data, not a secret
    originals = [person for person in people if chance(rng, NAMESAKES)]
    donors = cycle(pool)
    return [_namesake(person, donors, rng) for person in originals] + pool[: len(people)]


def invent_bearers(count: int, seed: int) -> list[Person]:
    """Invent people who all have the same name, one that nobody else has."""
    first, last = COMMON_NAME
    aliases = tuple(Alias(one, last) for one in COMMON_SHORT)
    people = invent(count, seed + 2 * _OTHER_SEED)
    return [replace(one, first_name=first, last_name=last, aliases=aliases) for one in people]


def _pool(people: Sequence[Person], seed: int) -> list[Person]:
    names = {name for person in people for name in names_of(person)}
    contacts = {value for person in people for value in (*person.emails, *person.phone_numbers)}
    streets = {(home.address1, home.city) for person in people for home in person.addresses}
    pool = []
    for other in invent(2 * len(people) + 60, seed + _OTHER_SEED):
        homes = {(home.address1, home.city) for home in other.addresses}
        if names.isdisjoint(names_of(other)) and streets.isdisjoint(homes):
            pool.append(_without_contacts(other, contacts))
    return pool


def _without_contacts(other: Person, contacts: set[str]) -> Person:
    return replace(
        other,
        emails=tuple(email for email in other.emails if email not in contacts),
        phone_numbers=tuple(number for number in other.phone_numbers if number not in contacts),
    )


def names_of(person: Person) -> set[str]:
    """Return all names of a person, normalized for lookup.

    >>> names_of(invent(1, seed=7)[0]) == {folded(f"{p.first_name} {p.last_name}") for p in invent(1, seed=7)}
    True
    """
    aliases = {folded(f"{alias.first_name} {alias.last_name}") for alias in person.aliases}
    return {folded(f"{person.first_name} {person.last_name}"), *aliases}


def _namesake(person: Person, donors: Iterator[Person], rng: random.Random) -> Person:
    """A person of the same name with another age, phone, email address and street, and mostly another town."""
    towns = {home.city for home in person.addresses}
    donor = next(other for other in donors if other.addresses[0].city not in towns)
    middle = donor.middle_name
    if middle and person.middle_name and middle[0] == person.middle_name[0]:
        middle = None
    homes = tuple(home for home in donor.addresses if home.city not in towns)
    # Without a birth date, a site that shows towns and ages could not tell the two apart.
    if person.birth_date is not None and chance(rng, NEIGHBOURS):
        homes = (_moved(homes[0], person.addresses[0]), *homes[1:])
    mailbox = slug(f"{person.first_name}.{person.last_name}").replace("-", ".")
    return replace(
        donor,
        first_name=person.first_name,
        middle_name=middle,
        last_name=person.last_name,
        birth_date=_birth_date_apart(person.birth_date, rng),
        aliases=(),
        emails=(f"{mailbox}{rng.randrange(1000, 10_000)}@example.net",) if donor.emails else (),
        addresses=homes,
        relatives=tuple(name for name in donor.relatives if name not in person.relatives),
    )


def _moved(home: Address, to: Address) -> Address:
    number, _, street = home.address1.partition(" ")
    # Registered people have house numbers up to 2999.
    return Address(f"{3000 + int(number)} {street}", home.address2, to.city, to.state, to.zip)


def _birth_date_apart(birth_date: int | None, rng: random.Random) -> int:
    """A birth date many years before or after this one."""
    years = rng.choice(AGE_GAPS)
    year = born_on(birth_date).year if birth_date is not None else rng.randint(OLDEST, YOUNGEST)
    year += years if year < (OLDEST + YOUNGEST) // 2 else -years
    return (date(year, rng.randint(1, 12), rng.randint(1, 28)) - EPOCH).days * DAY
