"""Listings of the invented sites, with their dates of appearance: the ground truth."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from exposurekit.sandbox.world.formats import (
    age_on,
    born_on,
    folded,
    misspell,
    name_as,
    phone_as,
    place_as,
    sample_values,
)
from exposurekit.sandbox.world.people import NICKNAMES, Address, Person, chance, slug
from exposurekit.sandbox.world.sites import WorldSite

UNLISTED = 0.06  # share of people without a listing
LISTED_TWICE = 0.12  # share of listings that come with an older one of the same person
OUTDATED = 0.08  # share that shows former towns only
LISTED_LATER, LAST_DAY = 0.12, 75
EXPIRES = 0.03
LATE_REMOVALS = 0.08  # share of removals that take nearly twice the announced time
LIES = (3.0, 5.0)  # how many times the announced time a site needs that lies about it
RELISTED = (0.75, 0.35, 0.2)  # on sites that relist: share after the first removal, the second, the third


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Entry:
    """One listing on one site, with its life cycle. `keys` are the normalized names under which the site finds it."""

    site: WorldSite
    reference_id: str
    holder: tuple[str, int]  # "people", "strangers" or "control", and which of them
    owner: Person | None = None
    name: str
    born: date | None
    age_off: int = 0
    relations: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    locations: tuple[str, ...]
    emails: tuple[str, ...] = ()
    phone_numbers: tuple[str, ...] = ()
    keys: frozenset[str]
    places: frozenset[tuple[str, str]]
    path: str
    since: datetime
    until: datetime | None = None
    removal_delay: timedelta | None = None
    relisting_delays: tuple[timedelta | None, ...] = ()
    quirks: tuple[str, ...] = ()

    @property
    def href(self) -> str | None:
        """Its URL; None if the site has no detail pages."""
        return f"http://{self.site.host}{self.path}" if self.site.shows_href else None

    @property
    def person(self) -> int | None:
        """The index of the registered person it is about; None for anybody else."""
        return self.holder[1] if self.holder[0] == "people" else None

    def age(self, day: date) -> int | None:
        """Return the age it shows on a day, which may be a year off."""
        return None if self.born is None else age_on(self.born, day) + self.age_off


class Listings:
    """All listings of all sites, indexed by site and name and by site and reference."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = sorted(entries, key=lambda entry: (entry.site.name, entry.reference_id))
        self._by_name: dict[tuple[str, str], list[Entry]] = {}
        self._by_reference: dict[tuple[str, str], Entry] = {}
        for entry in self.entries:
            self._by_reference[entry.site.name, entry.reference_id] = entry
            for key in entry.keys:
                self._by_name.setdefault((entry.site.name, key), []).append(entry)

    def named(self, site: WorldSite, name: str) -> Sequence[Entry]:
        """Return the listings under a name, visible or not, in a fixed order."""
        return self._by_name.get((site.name, folded(name)), ())

    def at(self, site: str, reference_id: str) -> Entry | None:
        """Return the listing with this reference."""
        return self._by_reference.get((site, reference_id))


def build_listings(
    people: Sequence[Person],
    strangers: Sequence[Person],
    sites: Sequence[WorldSite],
    *,
    seed: int,
    start: datetime,
) -> Listings:
    """Build every present and future listing of a world that begins at `start`."""
    taken: set[tuple[str, str]] = set()
    with_control = [(at, site) for at, site in enumerate(sites) if site.trait != "lists anybody"]
    entries = [_control(site, at, start, taken) for at, site in with_control]
    for kind, crowd in (("people", people), ("strangers", strangers)):
        for index, person in enumerate(crowd):
            rng = random.Random(f"listings {seed} {kind} {index}")  # noqa: S311  invented data, not a secret
            entries += _person_entries(person, (kind, index), sites, start=start, taken=taken, rng=rng)
    return Listings(entries)


def _person_entries(
    person: Person,
    holder: tuple[str, int],
    sites: Sequence[WorldSite],
    *,
    start: datetime,
    taken: set[tuple[str, str]],
    rng: random.Random,
) -> Iterator[Entry]:
    if chance(rng, UNLISTED):
        return
    for site in sites:
        if not chance(rng, site.listing_probability):
            continue
        for homes in _sets_of_homes(site, person, rng):
            yield _entry(site, person, holder, homes, start=start, taken=taken, rng=rng)


def _sets_of_homes(site: WorldSite, person: Person, rng: random.Random) -> Iterator[tuple[Address, ...]]:
    """Yield the addresses of each listing that a site has of a person: mostly one listing, sometimes outdated."""
    former = person.addresses[1:]
    for _ in range(rng.randint(1, site.listings_max)):
        yield former if former and chance(rng, OUTDATED) else person.addresses
    if former and chance(rng, LISTED_TWICE):
        yield former


def _entry(
    site: WorldSite,
    person: Person,
    holder: tuple[str, int],
    homes: tuple[Address, ...],
    *,
    start: datetime,
    taken: set[tuple[str, str]],
    rng: random.Random,
) -> Entry:
    first, last, quirk = _listed_name(person, rng)
    middle = person.middle_name or ""
    homes = homes[: rng.randint(1, len(homes))]
    born = None if person.birth_date is None or chance(rng, 0.08) else born_on(person.birth_date)
    age_off = rng.choice((-1, 1)) if chance(rng, 0.1) else 0
    former_names = (f"{alias.first_name} {alias.last_name}" for alias in person.aliases)
    others = (f"{person.first_name} {person.last_name}", *former_names)
    aliases = sample_values(tuple(other for other in others if other != f"{first} {last}"), rng)
    aliases = aliases if site.shows_aliases else ()
    reference_id = _reference(site, taken, rng)
    quirks = (
        quirk,
        "no age" if site.shows_age and born is None else "",
        "age off by one" if site.shows_age and born is not None and age_off else "",
        "former town" if person.addresses[0] not in homes else "",
    )
    since = start + _day(rng, 1, LAST_DAY) if chance(rng, LISTED_LATER) else start
    return Entry(
        site=site,
        reference_id=reference_id,
        holder=holder,
        owner=person,
        name=name_as(site.name_format, first, "" if chance(rng, 0.2) else middle, last),
        born=born if site.shows_age else None,
        age_off=age_off,
        relations=sample_values(person.relatives, rng) if site.shows_relations else (),
        aliases=aliases,
        locations=tuple(dict.fromkeys(place_as(site.location_format, home) for home in homes)),
        emails=sample_values(person.emails, rng) if site.shows_contacts else (),
        phone_numbers=_phones(person, rng) if site.shows_contacts else (),
        keys=_keys(person, f"{first} {last}", aliases, quirk),
        places=frozenset((folded(home.city), home.state) for home in homes),
        path=f"/people/{slug(f'{first} {last}')}/{reference_id}",
        since=since,
        until=since + _day(rng, 10, 80) if chance(rng, EXPIRES) else None,
        removal_delay=_removal_delay(site, rng),
        relisting_delays=_relisting_delays(site, rng),
        quirks=tuple(filter(None, quirks)),
    )


def _listed_name(person: Person, rng: random.Random) -> tuple[str, str, str]:
    """The first and last name that a site lists, and their quirk."""
    called = {alias.alias_type: alias for alias in reversed(person.aliases)}
    nickname = called["nickname"].first_name if "nickname" in called else NICKNAMES.get(person.first_name)
    draw = rng.random()
    if nickname and draw < 0.12:  # noqa: PLR2004  one share a line
        return nickname, person.last_name, "nickname"
    if "maiden" in called and draw < 0.3:  # noqa: PLR2004
        return person.first_name, called["maiden"].last_name, "maiden name"
    if draw > 0.97 and len(person.last_name) > 5:  # noqa: PLR2004
        return person.first_name, misspell(person.last_name, rng), "misspelt"
    return person.first_name, person.last_name, ""


def _keys(person: Person, name: str, aliases: tuple[str, ...], quirk: str) -> frozenset[str]:
    """Normalized names that find a listing: nicknames and misspellings find the full name too, former names do not."""
    names = {name, *aliases}
    if quirk in {"nickname", "misspelt"}:
        names.add(f"{person.first_name} {person.last_name}")
    return frozenset(folded(each) for each in names)


def _phones(person: Person, rng: random.Random) -> tuple[str, ...]:
    style = rng.randrange(100)
    return tuple(phone_as(number, style) for number in sample_values(person.phone_numbers, rng))


def _reference(site: WorldSite, taken: set[tuple[str, str]], rng: random.Random) -> str:
    while True:
        reference_id = site.reference_format.format(rng.randrange(10 ** rng.choice((9, 11, 12, 12))))
        if (site.name, reference_id) not in taken:
            taken.add((site.name, reference_id))
            return reference_id


def _day(rng: random.Random, first: int, last: int) -> timedelta:
    return timedelta(days=rng.randint(first, last), minutes=rng.randrange(24 * 60))


def _removal_delay(site: WorldSite, rng: random.Random) -> timedelta | None:
    if site.removal == "never":
        return None
    if site.removal == "lies":
        pace = rng.uniform(*LIES)
    else:
        pace = 1.8 if chance(rng, LATE_REMOVALS) else rng.uniform(0.6, 1.0)
    return timedelta(hours=round(24 * pace * site.definition.removal.processing_days))


def _relisting_delays(site: WorldSite, rng: random.Random) -> tuple[timedelta | None, ...]:
    if site.removal != "relists":
        return ()
    return tuple(timedelta(days=rng.randint(30, 60)) if chance(rng, share) else None for share in RELISTED)


def _control(site: WorldSite, number: int, start: datetime, taken: set[tuple[str, str]]) -> Entry:
    """The listing of the site's control, which is never removed."""
    resident = site.definition.controls.listed
    assert resident is not None  # noqa: S101  a test checks that every shipped definition has one
    name = f"{resident.first_name} {resident.last_name}"
    home = Address(f"{number + 1} Control Lane", None, resident.city, resident.state, "00000")
    reference_id = site.reference_format.format(number + 1)
    taken.add((site.name, reference_id))
    return Entry(
        site=site,
        reference_id=reference_id,
        holder=("control", number),
        name=name_as(site.name_format, resident.first_name, "", resident.last_name),
        born=date(1970, 1, 1) if site.shows_age else None,
        locations=(place_as(site.location_format, home),),
        keys=frozenset({folded(name)}),
        places=frozenset({(folded(home.city), home.state)}),
        path=f"/people/{slug(name)}/{reference_id}",
        since=start,
    )
