"""How the make-believe web spells what it knows: names, places, phones, and its mistakes. Never decides who is listed."""

import hashlib
import random
from datetime import date, timedelta
from functools import lru_cache

from exposurekit.sandbox.world.people import DAY, EPOCH, Address, chance, slug

PHONES = ("({}) {}-{}", "{}.{}.{}", "{}-{}-{}", "+1 {} {} {}", "{} {} {}", "1-{}-{}-{}", "{}{}{}")


def name_as(template: str, first: str, middle: str, last: str) -> str:
    """A name as a site prints it; what is not known leaves no gap.

    >>> name_as("{LAST} {FIRST} {INITIAL}", "Juniper", "Wren", "Otterwick")
    'OTTERWICK JUNIPER W'
    """
    parts = {"first": first, "middle": middle, "initial": middle[:1], "last": last}
    return " ".join(template.format(**_loud(parts)).split())


def place_as(template: str, address: Address) -> str:
    """An address as a site prints it.

    >>> place_as("{CITY} {state}", Address("1 Kite Lane", None, "Mothgate", "CT", "06099"))
    'MOTHGATE CT'
    """
    parts = {"address1": address.address1, "city": address.city, "state": address.state, "zip": address.zip}
    return template.format(**_loud(parts))


def phone_as(number: str, style: int) -> str:
    """A phone number in one of the spellings that people use.

    >>> phone_as("2015550142", 0), phone_as("2015550142", 1)
    ('(201) 555-0142', '201.555.0142')
    """
    return PHONES[style % len(PHONES)].format(number[:3], number[3:6], number[6:])


def born_on(birth_date: int) -> date:
    """The day that a user's `birth_date` stands for.

    >>> born_on(-86_400).isoformat()
    '1969-12-31'
    """
    return EPOCH + timedelta(days=birth_date // DAY)


def age_on(born: date, day: date) -> int:
    """Full years on a day.

    >>> age_on(date(1990, 6, 1), date(2026, 5, 31))
    35
    """
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


def some(values: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    """Some of them, in their order: sites rarely know everybody."""
    return tuple(value for value in values if chance(rng, 0.75))


def misspelt(name: str, rng: random.Random) -> str:
    """The name with a slip of the fingers behind its first letters: a letter lost, doubled, or two changed round."""
    at = rng.randrange(2, len(name) - 1)
    slips = (
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + name[at + 1] + name[at] + name[at + 2 :],
    )
    return rng.choice([slip for slip in slips if slip != name])


@lru_cache(maxsize=100_000)
def folded(text: str) -> str:
    """A name as a site looks it up: neither case nor accents nor signs count.

    >>> folded("Zoë  O'THIMBLE") == folded("zoe o'thimble")
    True
    """
    return slug(text)


def digest(*parts: object) -> str:
    """Sixteen hexadecimal digits that are the same for the same parts, and look like nothing."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def roll(*parts: object) -> float:
    """A number from 0 up to 1 that is the same for the same parts, where nothing may be drawn.

    >>> 0 <= roll(7, "a host", 3) < 1
    True
    """
    return int(digest(*parts), 16) / 2**64


def _loud(parts: dict[str, str]) -> dict[str, str]:
    """The parts, and each once more in capitals, for sites that print them so."""
    return parts | {name.upper(): value.upper() for name, value in parts.items()}
