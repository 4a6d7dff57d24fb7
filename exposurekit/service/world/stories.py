"""What has happened to an invented person on the make-believe web so far. Tells it, and changes nothing."""

import random
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from exposurekit.service.world.people import DAY, EPOCH, Address, Person, chance, slug
from exposurekit.service.world.sites import PAGES, SITES, Removal, WorldPage, WorldSite

Move = Literal["discover", "submit", "still listed", "gone", "refuse"]
Moves = tuple[Move, ...]
Status = Literal["discovered", "pending removal", "removed"]
Fate = Literal["discovered", "pending removal", "removed", "listed again", "refused"]

TOLD_ON = date(2026, 1, 1)  # ages are as of this day
UNFOUND = 0.06  # the share of people of whom nothing is found
LISTED_TWICE = 0.12  # the share of listings that come with an older one of the same person
LINKS = ((0, 1, 2, 3, 4, 5), (16, 22, 24, 20, 12, 6))  # how many, and how often

# Where each move leads from where a listing stands. It takes two looks in a row to be removed.
_STEPS: dict[tuple[str, Move], str] = {
    ("unknown", "discover"): "discovered",
    ("discovered", "submit"): "pending removal",
    ("pending removal", "refuse"): "discovered",
    ("pending removal", "still listed"): "pending removal",
    ("pending removal", "gone"): "gone once",
    ("gone once", "still listed"): "pending removal",
    ("gone once", "gone"): "removed",
    ("removed", "discover"): "discovered",
}
_FOUND: Moves = ("discover",)
_ASKED: Moves = ("discover", "submit")
_ONE_LOOK: Moves = (*_ASKED, "gone")
_GONE: Moves = (*_ASKED, "gone", "gone")
_PATHS: dict[Removal, tuple[tuple[Moves, int], ...]] = {
    "at once": ((_GONE, 76), (_ONE_LOOK, 14), (_FOUND, 10)),
    "after days": (
        (_GONE, 46),
        ((*_ASKED, "still listed", "gone", "gone"), 8),
        (_ASKED, 20),
        ((*_ASKED, "still listed"), 12),
        (_ONE_LOOK, 4),
        (_FOUND, 10),
    ),
    "never": (((*_ASKED, "refuse"), 45), ((*_ASKED, "still listed", "still listed"), 40), (_FOUND, 15)),
    "human": ((_FOUND, 72), (_ASKED, 14), (_GONE, 14)),  # where somebody has done a human's job
    "relists": (
        ((*_GONE, "discover"), 48),
        ((*_GONE, "discover", "submit"), 14),
        ((*_GONE, "discover", "submit", "gone", "gone"), 4),
        (_GONE, 18),
        (_ASKED, 10),
        (_FOUND, 6),
    ),
}


@dataclass(frozen=True)
class Finding:
    """A listing as its site shows it, and the moves that brought it where it stands."""

    site: WorldSite
    name: str = field(repr=False)
    age: int | None = field(repr=False)
    href: str | None = field(repr=False)
    relations: tuple[str, ...] = field(repr=False)
    aliases: tuple[str, ...] = field(repr=False)
    locations: tuple[str, ...] = field(repr=False)
    reference_id: str = field(repr=False)
    moves: Moves

    def __repr__(self) -> str:
        return f"Finding(site={self.site.name!r}, moves={self.moves})"

    @property
    def status(self) -> Status:
        """The record's status after all moves."""
        return status_after(self.moves)

    @property
    def fate(self) -> Fate:
        """The status, or what lies behind a `discovered` that is not the first."""
        return fate_after(self.moves)


@dataclass(frozen=True)
class LinkFinding:
    """An ordinary page that holds somebody's data."""

    url: str = field(repr=False)
    title: str = field(repr=False)
    contains: tuple[str, ...]


@dataclass(frozen=True)
class Story:
    """Everything found about one person, in the order in which it was found."""

    findings: tuple[Finding, ...]
    links: tuple[LinkFinding, ...]

    def __repr__(self) -> str:
        return f"Story(findings={len(self.findings)}, links={len(self.links)})"


def status_after(moves: Moves) -> Status:
    """The status of a listing after these moves.

    Raises:
        ValueError: a move is not possible where the listing stands, or there was none.

    >>> status_after(("discover", "submit", "gone")), status_after(("discover", "submit", "gone", "gone"))
    ('pending removal', 'removed')
    """
    standing = "unknown"
    for move in moves:
        if (standing, move) not in _STEPS:
            raise ValueError(f"no {move!r} from {standing!r}")
        standing = _STEPS[standing, move]
    statuses: dict[str, Status] = {
        "discovered": "discovered",
        "pending removal": "pending removal",
        "gone once": "pending removal",
        "removed": "removed",
    }
    if standing not in statuses:
        raise ValueError("no move was made")
    return statuses[standing]


def fate_after(moves: Moves) -> Fate:
    """What became of a listing after these moves.

    >>> fate_after(("discover",)), fate_after(("discover", "submit", "refuse"))
    ('discovered', 'refused')
    >>> fate_after(("discover", "submit", "gone", "gone", "discover"))
    'listed again'
    """
    status = status_after(moves)
    if status != "discovered" or moves == _FOUND:
        return status
    return "refused" if moves[-1] == "refuse" else "listed again"


def story_of(person: Person, seed: int) -> Story:
    """A person's story, told from the person and the seed alone: nobody else's changes it.

    >>> from exposurekit.service.world.people import invent
    >>> person = invent(1, seed=7)[0]
    >>> story_of(person, seed=7) == story_of(person, seed=7)
    True
    """
    known = (
        person.first_name,
        person.middle_name,
        person.last_name,
        person.birth_date,
        person.emails,
        person.phone_numbers,
    )
    streets = [address.address1 for address in person.addresses]
    return stories(person, random.Random(f"story {seed} {known} {streets}"))  # noqa: S311  make-believe, not a secret


def stories(person: Person, rng: random.Random) -> Story:
    """What happened to a person so far: listings with their fates, and pages.

    >>> from exposurekit.service.world.people import invent
    >>> stories(invent(1, seed=7)[0], random.Random(7))
    Story(findings=7, links=2)
    """
    if chance(rng, UNFOUND):
        return Story((), ())
    return Story(tuple(_findings(person, rng)), tuple(_links(person, rng)))


def _findings(person: Person, rng: random.Random) -> list[Finding]:
    findings = []
    asked_together: dict[str, Moves] = {}
    for site in SITES:
        if not chance(rng, site.listing_probability):
            continue
        moves = _moves(site, person, rng)
        if site.sister_group:
            moves = asked_together.setdefault(site.sister_group, moves)
        findings.append(_finding(site, person, person.addresses, moves, rng))
        if chance(rng, LISTED_TWICE):
            older = person.addresses[1:] or person.addresses
            findings.append(_finding(site, person, older, moves, rng))
    return findings


def _moves(site: WorldSite, person: Person, rng: random.Random) -> Moves:
    """A path of the site's temperament; none but the first step where the site asks for what is not known."""
    paths, weights = zip(*_PATHS[site.removal], strict=True)
    drawn: Moves = rng.choices(paths, weights)[0]
    return drawn if person.fields().issuperset(site.user_fields_required_for_removal) else _FOUND


def _finding(
    site: WorldSite, person: Person, addresses: tuple[Address, ...], moves: Moves, rng: random.Random
) -> Finding:
    reference_id = f"{rng.randrange(10 ** rng.choice((9, 11, 12, 12))):012d}"
    aliases = [f"{alias.first_name} {alias.last_name}" for alias in person.aliases]
    seen = addresses[: rng.randint(1, len(addresses))]
    path = f"people/{slug(person.first_name)}-{slug(person.last_name)}/{reference_id}"
    return Finding(
        site=site,
        name=_name(site.name_format, person),
        age=_age(person, rng) if site.shows_age else None,
        href=f"https://{site.host}/{path}" if site.shows_href else None,
        relations=_some(person.relatives, rng) if site.shows_relations else (),
        aliases=_some(tuple(aliases), rng) if site.shows_aliases else (),
        locations=tuple(dict.fromkeys(_location(site.location_format, address) for address in seen)),
        reference_id=reference_id,
        moves=moves,
    )


def _name(template: str, person: Person) -> str:
    middle = person.middle_name or ""
    parts = {"first": person.first_name, "middle": middle, "initial": middle[:1], "last": person.last_name}
    return " ".join(template.format(**_loud(parts)).split())


def _location(template: str, address: Address) -> str:
    parts = {"address1": address.address1, "city": address.city, "state": address.state, "zip": address.zip}
    return template.format(**_loud(parts))


def _loud(parts: dict[str, str]) -> dict[str, str]:
    """The parts, and each once more in capitals, for sites that print them so."""
    return parts | {name.upper(): value.upper() for name, value in parts.items()}


def _age(person: Person, rng: random.Random) -> int | None:
    """The age a site shows: now and then a year behind, or not known."""
    if person.birth_date is None or chance(rng, 0.08):
        return None
    born = EPOCH + timedelta(days=person.birth_date // DAY)
    age = TOLD_ON.year - born.year - ((TOLD_ON.month, TOLD_ON.day) < (born.month, born.day))
    return age - chance(rng, 0.1)


def _some(values: tuple[str, ...], rng: random.Random) -> tuple[str, ...]:
    """Some of them, in their order: sites rarely know everybody."""
    return tuple(value for value in values if chance(rng, 0.75))


def _links(person: Person, rng: random.Random) -> list[LinkFinding]:
    there = {"email": bool(person.emails), "address": True, "phone": bool(person.phone_numbers)}
    pages = [page for page in PAGES if any(there[kind] for kind in page.contains)]
    count = rng.choices(*LINKS)[0]
    return [_link(page, person, there, rng) for page in rng.sample(pages, min(count, len(pages)))]


def _link(page: WorldPage, person: Person, there: dict[str, bool], rng: random.Random) -> LinkFinding:
    home = person.addresses[0]
    parts = {"first": person.first_name, "last": person.last_name, "city": home.city}
    path = page.path.format(
        slug=slug(f"{person.first_name} {person.last_name}"),
        state=home.state.lower(),
        town=slug(home.city),
        number=rng.randrange(10**7, 10**8),
    )
    contains = tuple(kind for kind in page.contains if there[kind])
    return LinkFinding(f"https://{page.host}{path}", page.title.format(**parts), contains)
