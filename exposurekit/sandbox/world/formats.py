"""Formats in which the invented web prints names, locations and phone numbers, and its typing errors."""

import hashlib
import random
from datetime import date, timedelta
from functools import lru_cache

from exposurekit.sandbox.world.people import DAY, EPOCH, Address, chance, slug

PHONES = ("({}) {}-{}", "{}.{}.{}", "{}-{}-{}", "+1 {} {} {}", "{} {} {}", "1-{}-{}-{}", "{}{}{}")


def name_as(template: str, first: str, middle: str, last: str) -> str:
    """Format a name as a site prints it; missing parts leave no gap.

    >>> name_as("{LAST} {FIRST} {INITIAL}", "Juniper", "Wren", "Otterwick")
    'OTTERWICK JUNIPER W'
    """
    parts = {"first": first, "middle": middle, "initial": middle[:1], "last": last}
    return " ".join(template.format(**_with_capitals(parts)).split())


def place_as(template: str, address: Address) -> str:
    """Format an address as a site prints it.

    >>> place_as("{CITY} {state}", Address("1 Kite Lane", None, "Mothgate", "CT", "06099"))
    'MOTHGATE CT'
    """
    parts = {"address1": address.address1, "city": address.city, "state": address.state, "zip": address.zip}
    return template.format(**_with_capitals(parts))


def phone_as(number: str, style: int) -> str:
    """Format a phone number in one of the usual styles.

    >>> phone_as("2015550142", 0), phone_as("2015550142", 1)
    ('(201) 555-0142', '201.555.0142')
    """
    return PHONES[style % len(PHONES)].format(number[:3], number[3:6], number[6:])


def born_on(birth_date: int) -> date:
    """Convert a user's `birth_date` to a date."""
    return EPOCH + timedelta(days=birth_date // DAY)


def age_on(born: date, day: date) -> int:
    """Return the age in full years on a day."""
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


def sample_values(values: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    """Return about three in four values, in order: sites are rarely complete."""
    return tuple(value for value in values if chance(rng, 0.75))


def misspell(name: str, rng: random.Random) -> str:
    """Return the name with a typing error after its first letters: one lost or doubled, or two swapped."""
    at = rng.randrange(2, len(name) - 1)
    errors = (
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    )
    return rng.choice([error for error in errors if error != name])


@lru_cache(maxsize=100_000)
def folded(text: str) -> str:
    """Normalize a name for lookup: ignore case, accents and punctuation."""
    return slug(text)


def digest(*parts: object) -> str:
    """Return sixteen hexadecimal digits derived from the parts."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def roll(*parts: object) -> float:
    """Return a pseudo-random number from 0 up to 1 derived from the parts, without a generator's state."""
    return int(digest(*parts), 16) / 2**64


def _with_capitals(parts: dict[str, str]) -> dict[str, str]:
    return parts | {name.upper(): value.upper() for name, value in parts.items()}
