"""Invented people whom nobody registers: strangers, and namesakes of those who are. Never one of the registered."""

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
    Person,
    chance,
    invent,
    slug,
)

NAMESAKES = 1 / 3  # the share of people who have one
NEIGHBOURS = 0.25  # the share of namesakes who live in the very same town
APART = range(9, 25)  # years between two of one name
_OTHER_SEED = 1_000_003


def strangers_to(people: Sequence[Person], seed: int) -> list[Person]:
    """As many strangers as there are people, and before them the namesakes.

    None of them has a phone, a mailbox or a street address of somebody registered, and none but the namesakes a name.

    >>> known = invent(30, seed=7)
    >>> strangers = strangers_to(known, seed=7)
    >>> len(strangers) > 30, strangers == strangers_to(known, seed=7)
    (True, True)
    """
    pool = _pool(people, seed)
    rng = random.Random(f"strangers {seed}")  # noqa: S311  make-believe, not a secret
    met = [person for person in people if chance(rng, NAMESAKES)]
    donors = cycle(pool)
    return [_namesake(person, donors, rng) for person in met] + pool[: len(people)]


def _pool(people: Sequence[Person], seed: int) -> list[Person]:
    """Others, with nothing that belongs to the people."""
    names = {name for person in people for name in names_of(person)}
    theirs = {value for person in people for value in (*person.emails, *person.phone_numbers)}
    streets = {(home.address1, home.city) for person in people for home in person.addresses}
    pool = []
    for other in invent(2 * len(people) + 60, seed + _OTHER_SEED):
        near = {(home.address1, home.city) for home in other.addresses}
        if names.isdisjoint(names_of(other)) and streets.isdisjoint(near):
            pool.append(_without(other, theirs))
    return pool


def _without(other: Person, theirs: set[str]) -> Person:
    return replace(
        other,
        emails=tuple(email for email in other.emails if email not in theirs),
        phone_numbers=tuple(number for number in other.phone_numbers if number not in theirs),
    )


def names_of(person: Person) -> set[str]:
    """Every name somebody goes by, as a site looks it up.

    >>> names_of(invent(1, seed=7)[0]) == {folded(f"{p.first_name} {p.last_name}") for p in invent(1, seed=7)}
    True
    """
    aliases = {folded(f"{alias.first_name} {alias.last_name}") for alias in person.aliases}
    return {folded(f"{person.first_name} {person.last_name}"), *aliases}


def _namesake(person: Person, donors: Iterator[Person], rng: random.Random) -> Person:
    """Another of the same name: another age, phone, mailbox and street, and mostly another town."""
    towns = {home.city for home in person.addresses}
    donor = next(other for other in donors if other.addresses[0].city not in towns)
    middle = donor.middle_name
    if middle and person.middle_name and middle[0] == person.middle_name[0]:
        middle = None
    homes = tuple(home for home in donor.addresses if home.city not in towns)
    # Without a birth date nothing would tell the two apart on a site that shows towns and ages.
    if person.birth_date is not None and chance(rng, NEIGHBOURS):
        homes = (_moved(homes[0], person.addresses[0]), *homes[1:])
    mailbox = slug(f"{person.first_name}.{person.last_name}").replace("-", ".")
    return replace(
        donor,
        first_name=person.first_name,
        middle_name=middle,
        last_name=person.last_name,
        birth_date=_apart(person.birth_date, rng),
        aliases=(),
        emails=(f"{mailbox}{rng.randrange(1000, 10_000)}@example.net",) if donor.emails else (),
        addresses=homes,
        relatives=tuple(name for name in donor.relatives if name not in person.relatives),
    )


def _moved(home: Address, to: Address) -> Address:
    number, _, street = home.address1.partition(" ")
    # Invented houses end at 2999, so that nobody registered lives behind it.
    return Address(f"{3000 + int(number)} {street}", home.address2, to.city, to.state, to.zip)


def _apart(birth_date: int | None, rng: random.Random) -> int:
    """A birth date many years from this one."""
    years = rng.choice(APART)
    year = born_on(birth_date).year if birth_date is not None else rng.randint(OLDEST, YOUNGEST)
    year += years if year < (OLDEST + YOUNGEST) // 2 else -years
    return (date(year, rng.randint(1, 12), rng.randint(1, 28)) - EPOCH).days * DAY
