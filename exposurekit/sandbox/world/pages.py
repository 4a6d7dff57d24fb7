"""Ordinary pages of the invented web that mention people, and the truth about what they contain."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from exposurekit.sandbox.world.formats import folded, phone_as
from exposurekit.sandbox.world.namesakes import names_of
from exposurekit.sandbox.world.people import Address, Person, chance, slug
from exposurekit.sandbox.world.sites import PAGES, PageTemplate
from exposurekit.text.sanitize import escaped

PAGE_COUNTS = ((0, 1, 2, 3, 4, 5), (16, 22, 24, 20, 12, 6))  # pages per person, and their weights
NAME_ONLY = 0.2  # share of mentions that give nothing but the name
FORMER = 0.15  # share of addresses that are former ones
MENTION_RATE = {True: 0.6, False: 0.12}  # share with a page of their own: of namesakes, of other strangers
STRANGERS = (0, 0, 1, 2)  # how many strangers share a page
KINDS = ("email", "address", "phone")


@dataclass(frozen=True)
class PageTruth:
    """What a page really contains about one person; `person` is None for anybody who is not registered."""

    url: str = field(repr=False)
    person: int | None
    contains: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Mention:
    """A person on a page, with the data it shows."""

    holder: tuple[str, int]
    person: Person
    email: str | None = None
    home: Address | None = None
    phone: str | None = None
    style: int = 0

    @property
    def name(self) -> str:
        """The name on the page."""
        return f"{self.person.first_name} {self.person.last_name}"


@dataclass(frozen=True, repr=False)
class WebPage:
    """A page: its URL, its text and the people it mentions."""

    host: str
    path: str
    title: str
    opening: str
    mentions: tuple[Mention, ...]

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://{self.host}{self.path}"

    @cached_property
    def body(self) -> bytes:
        """Its HTML."""
        around, each = _STYLES[len(self.host) % len(_STYLES)]
        rows = "".join(each.format(name=escaped(m.name), data=_data(m)) for m in self.mentions)
        title = escaped(self.title)
        page = (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
            f"<h1>{title}</h1><p>{escaped(self.opening)}</p>{around.format(rows)}<p>Page 1 of 1.</p></body></html>"
        )
        return page.encode()

    def truths(self) -> list[PageTruth]:
        """Return one value per person mentioned, with all of their data that is anywhere on the page."""
        holders = {mention.holder: mention.person for mention in self.mentions}
        return [
            PageTruth(self.url, holder[1] if holder[0] == "people" else None, self._contains(person))
            for holder, person in holders.items()
        ] or [PageTruth(self.url, None, ())]

    def _contains(self, person: Person) -> tuple[str, ...]:
        homes = {(home.address1, home.city) for home in person.addresses}
        contained = {
            "email": any(mention.email in person.emails for mention in self.mentions),
            "address": any(
                m.home is not None and (m.home.address1, m.home.city) in homes for m in self.mentions
            ),
            "phone": any(mention.phone in person.phone_numbers for mention in self.mentions),
        }
        return tuple(kind for kind in KINDS if contained[kind])


_STYLES = (
    ("{}", "<p>{name} was kind enough to write to us. {data}</p>"),
    ("<table><tr><th>Who</th><th>Where</th></tr>{}</table>", "<tr><td>{name}</td><td>{data}</td></tr>"),
    ("<dl>{}</dl>", "<dt>{name}</dt><dd>{data}</dd>"),
    ("<ul>{}</ul>", "<li><b>{name}</b>: {data}</li>"),
)
_HOMES = (
    "{street}, {city}, {state} {zip}",
    "{street}, {city}",
    "{street}<br>{city}, {state}",
    "{street} in {city}",
)


_MENTIONING = [page for page in PAGES if page.contains]
# A search engine also returns pages that have nothing to do with the query.
_IRRELEVANT = [page for page in PAGES if not page.contains]


def build_pages(people: Sequence[Person], strangers: Sequence[Person], seed: int) -> list[WebPage]:
    """Build all ordinary pages."""
    names = {name for person in people for name in names_of(person)}
    pages: dict[tuple[str, str], WebPage] = {}
    for kind, crowd in (("people", people), ("strangers", strangers)):
        for index, person in enumerate(crowd):
            rng = random.Random(f"pages {seed} {kind} {index}")  # noqa: S311  invented data, not a secret
            is_namesake = not names.isdisjoint(names_of(person))
            if kind == "people" or chance(rng, MENTION_RATE[is_namesake]):
                _add_mentions(pages, person, (kind, index), strangers, rng)
    return [
        *pages.values(),
        *(WebPage(one.host, one.path, one.title, one.opening, ()) for one in _IRRELEVANT),
    ]


def _add_mentions(
    pages: dict[tuple[str, str], WebPage],
    person: Person,
    holder: tuple[str, int],
    strangers: Sequence[Person],
    rng: random.Random,
) -> None:
    count = rng.choices(*PAGE_COUNTS)[0]
    for template in rng.sample(_MENTIONING, count):
        mention = _mention(template, person, holder, rng)
        others = rng.sample(range(len(strangers)), min(rng.choice(STRANGERS), len(strangers)))
        strangers_on_page = [
            _mention(template, strangers[other], ("strangers", other), rng) for other in others
        ]
        _add_mention(pages, template, mention, strangers_on_page, rng)


def _add_mention(
    pages: dict[tuple[str, str], WebPage],
    template: PageTemplate,
    mention: Mention,
    strangers_on_page: Iterable[Mention],
    rng: random.Random,
) -> None:
    person, home = mention.person, mention.person.addresses[0]
    path = template.path.format(
        slug=slug(mention.name),
        state=home.state.lower(),
        town=slug(home.city),
        number=rng.randrange(10**7, 10**8),
    )
    page = pages.get((template.host, path))
    if page and "{slug}" not in template.path:
        pages[template.host, path] = replace(page, mentions=(*page.mentions, mention))
        return
    path = path if page is None else f"{path}-{rng.randrange(10**7, 10**8)}"
    title = template.title.format(first=person.first_name, last=person.last_name, city=home.city)
    mentions = sorted((mention, *strangers_on_page), key=lambda each: folded(each.person.last_name))
    pages[template.host, path] = WebPage(template.host, path, title, template.opening, tuple(mentions))


def _mention(template: PageTemplate, person: Person, holder: tuple[str, int], rng: random.Random) -> Mention:
    contains = () if chance(rng, NAME_ONLY) else template.contains
    home = person.addresses[-1 if chance(rng, FORMER) else 0]
    return Mention(
        holder=holder,
        person=person,
        email=rng.choice(person.emails) if "email" in contains and person.emails else None,
        home=home if "address" in contains else None,
        phone=rng.choice(person.phone_numbers) if "phone" in contains and person.phone_numbers else None,
        style=rng.randrange(1000),
    )


def _data(mention: Mention) -> str:
    """The data shown about a person; the town only if there is no street."""
    parts = []
    if home := mention.home:
        street = home.address1 if home.address2 is None else f"{home.address1}, {home.address2}"
        parts.append(
            _HOMES[mention.style % len(_HOMES)].format(
                street=escaped(street), city=escaped(home.city), state=home.state, zip=home.zip
            )
        )
    else:
        parts.append(f"of {escaped(mention.person.addresses[0].city)}")
    if mention.phone:
        parts.append(f"tel. {phone_as(mention.phone, mention.style)}")
    if mention.email:
        parts.append(f'<a href="mailto:{escaped(mention.email)}">{escaped(mention.email)}</a>')
    return " &middot; ".join(parts)
