"""The invented people-search sites and the templates of ordinary pages, as data.

`definitions/<file>.yaml` holds what a scanner knows about a site: name, guide, opt-out, marks. This module holds how the
site behaves, which a scanner has to find out.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from exposurekit.service.sites.definition import Definition
from exposurekit.service.sites.loader import read

Removal = Literal["at once", "after days", "never", "manual", "relists"]
Trait = Literal["slow", "unsteady", "lists anybody", "blocks"]
DEFINITIONS = Path(__file__).with_name("definitions")


@dataclass(frozen=True, kw_only=True)
class WorldSite:
    """A people-search site: what it shows and how it behaves.

    `name_format` and `location_format` are templates of `str.format`. Sites of one `sister_group` share their
    opt-out: one request removes the listings of all. `name_parameters` are the search parameters that make up the
    name; city and state have one each. `page_size` limits the listings per page.
    """

    file: str
    removal: Removal
    listing_probability: float
    name_parameters: tuple[str, ...]
    city_parameter: str | None = None
    state_parameter: str | None = None
    page_size: int | None = None
    listings_max: int = 1  # of one person, besides an older one
    shows_age: bool = True
    shows_relations: bool = True
    shows_aliases: bool = True
    shows_href: bool = True
    shows_contacts: bool = False
    name_format: str = "{first} {last}"
    location_format: str = "{city}, {state}"
    reference_format: str = "{:012d}"
    sister_group: str | None = None
    trait: Trait | None = None
    robots: str | None = None
    encoding: str = "utf-8"

    @cached_property
    def definition(self) -> Definition:
        """Its definition, as a scanner reads it."""
        return definition(self.file)

    @cached_property
    def name(self) -> str:
        """Its name."""
        return self.definition.name

    @cached_property
    def host(self) -> str:
        """Its host."""
        return urlsplit(self.definition.search.url).hostname or ""

    @property
    def guide(self) -> str:
        """A description of the site."""
        return self.definition.guide

    @property
    def opt_out_procedure(self) -> tuple[str, ...]:
        """The steps of an opt-out."""
        return self.definition.opt_out_procedure

    @property
    def opt_out_url(self) -> str:
        """The URL where an opt-out begins.

        >>> SITES[0].opt_out_url
        'http://seekfolk.example/opt-out'
        """
        return self.definition.opt_out_url

    @property
    def user_fields_required_for_removal(self) -> tuple[str, ...]:
        """The user fields that an opt-out requires."""
        return self.definition.removal.user_fields_required

    @property
    def reachable(self) -> bool:
        """Whether a polite scanner can read the site and trust its answers.

        >>> [site.name for site in SITES if not site.reachable]
        ['Everyname Index', 'Gatekeep Records', 'Hushledger']
        """
        return self.trait not in {"lists anybody", "blocks"} and self.robots != FORBIDDEN


@cache
def definition(file: str) -> Definition:
    """Load a definition that the package ships, by its file name.

    >>> definition("seekfolk").name
    'Seekfolk'
    """
    return read(DEFINITIONS / f"{file}.yaml")


@dataclass(frozen=True)
class PageTemplate:
    """A template of ordinary pages that mention people; `path` and `title` are for `str.format`.

    People with the same path are mentioned on the same page.
    """

    host: str
    path: str
    title: str
    contains: tuple[str, ...]
    opening: str = ""


FORBIDDEN = "User-agent: *\nDisallow: /\n"
_PARTLY_FORBIDDEN = "User-agent: *\nDisallow: /admin\nDisallow: /cart\n"

SITES = (
    WorldSite(file="seekfolk", removal="at once", listing_probability=0.88, name_parameters=("name",)),
    WorldSite(
        file="whomsoever",
        removal="after days",
        listing_probability=0.78,
        name_parameters=("first", "last"),
        state_parameter="state",
        shows_age=False,
        name_format="{last}, {first}",
        location_format="{address1}, {city}, {state} {zip}",
        robots=_PARTLY_FORBIDDEN,
    ),
    WorldSite(
        file="lanternpost",
        removal="after days",
        listing_probability=0.72,
        name_parameters=("first", "last"),
        page_size=2,
        listings_max=4,
        shows_relations=False,
        name_format="{first} {initial} {last}",
        robots="User-agent: *\nDisallow: /clerks\nCrawl-delay: 0.01\n",
    ),
    WorldSite(
        file="nosyheron",
        removal="manual",
        listing_probability=0.75,
        name_parameters=("q",),
        location_format="{city} {state}",
        reference_format="heron-{:x}",
    ),
    WorldSite(
        file="doorbellalmanac",
        removal="after days",
        listing_probability=0.68,
        name_parameters=("name",),
        city_parameter="town",
        state_parameter="state",
        shows_age=False,
        shows_aliases=False,
        location_format="{address1}, {city}, {state} {zip}",
        robots=_PARTLY_FORBIDDEN,
    ),
    WorldSite(
        file="tattleberry",
        removal="relists",
        listing_probability=0.74,
        name_parameters=("who",),
        state_parameter="state",
    ),
    WorldSite(
        file="crumbtrail",
        removal="never",
        listing_probability=0.55,
        name_parameters=("forename", "surname"),
        name_format="{LAST} {FIRST} {INITIAL}",
        location_format="{CITY} {state}",
        encoding="iso-8859-1",
    ),
    WorldSite(
        file="pigeonloft",
        removal="at once",
        listing_probability=0.6,
        name_parameters=("first_name", "last_name"),
        shows_relations=False,
        shows_aliases=False,
        shows_href=False,
        location_format="{city}, {state} {zip}",
        trait="unsteady",
    ),
    WorldSite(
        file="mothlightfinder",
        removal="after days",
        listing_probability=0.62,
        name_parameters=("first", "last"),
        page_size=1,
        name_format="{first} {middle} {last}",
        sister_group="Mothlight",
    ),
    WorldSite(
        file="mothlightneighbors",
        removal="after days",
        listing_probability=0.5,
        name_parameters=("name",),
        state_parameter="state",
        shows_age=False,
        shows_aliases=False,
        location_format="{address1}, {city}, {state}",
        sister_group="Mothlight",
    ),
    WorldSite(
        file="brambledex",
        removal="manual",
        listing_probability=0.45,
        name_parameters=("name",),
        shows_age=False,
        shows_relations=False,
        shows_contacts=True,
        name_format="{first} {initial} {last}",
    ),
    WorldSite(
        file="umbrellakin",
        removal="relists",
        listing_probability=0.55,
        name_parameters=("first", "last"),
        name_format="{first} {middle} {last}",
        trait="slow",
    ),
    WorldSite(
        file="everyname",
        removal="never",
        listing_probability=0,
        name_parameters=("name",),
        city_parameter="city",
        state_parameter="state",
        trait="lists anybody",
    ),
    WorldSite(
        file="gatekeep", removal="manual", listing_probability=0.5, name_parameters=("name",), trait="blocks"
    ),
    WorldSite(
        file="hushledger",
        removal="after days",
        listing_probability=0.5,
        name_parameters=("name",),
        shows_relations=False,
        shows_aliases=False,
        robots=FORBIDDEN,
    ),
)

PAGES = (
    PageTemplate(
        "quillmarsh-gazette.example",
        "/archive/{town}/{slug}",
        "Letters to the editor: {first} {last} of {city}",
        ("address",),
        "The editor thanks everybody who wrote in about the weathercock, and prints what fits.",
    ),
    PageTemplate(
        "kite-club.example",
        "/members/{slug}",
        "Kite club members, {last} and others",
        ("email", "phone"),
        "The club meets on windy Saturdays. Bring string; ask any of these members for a spare reel.",
    ),
    PageTemplate(
        "harvest-fair.example",
        "/stalls/{slug}",
        "{first} {last} at the harvest fair",
        ("phone",),
        "Stalls open at nine, pumpkins are weighed at noon, and the brass band plays whether asked or not.",
    ),
    PageTemplate(
        "bell-ringers.example",
        "/{state}/{town}",
        "Bell ringers of {city}: who to ask",
        ("email",),
        "Ropes are handed out by seniority. Whoever wants to ring should ask one of the people below.",
    ),
    PageTemplate(
        "town-minutes.example",
        "/{state}/{town}/minutes",
        "Minutes of the {city} planning board",
        ("address",),
        "The board met, heard the following residents on the matter of the hedge, and adjourned.",
    ),
    PageTemplate(
        "choir-of-moths.example",
        "/programme/{slug}",
        "Spring concert: {first} {last}, alto",
        ("email",),
        "The programme of the spring concert, with those who sing in it and how to reach them.",
    ),
    PageTemplate(
        "lost-umbrellas.example",
        "/notices/{number}",
        "Lost: one umbrella. Please tell {first}",
        ("email", "phone"),
        "An umbrella with a heron's head was left on the tram. Honest finders please get in touch.",
    ),
    PageTemplate(
        "fun-run.example",
        "/results/{number}",
        "Fun run results: {last}, {first}",
        ("address",),
        "Results of the run around the marsh, by age group, with the addresses for the medals.",
    ),
    PageTemplate(
        "old-resumes.example",
        "/cv/{slug}",
        "Résumé of {first} {last}",
        ("email", "address", "phone"),
        "This résumé was uploaded long ago by somebody who has since forgotten about it.",
    ),
    PageTemplate(
        "pie-contest.example",
        "/{state}/{town}/winners",
        "Pie contest winners from {city}",
        ("address", "phone"),
        "The judges tasted forty pies. The winners, and where their neighbours may ring for a slice.",
    ),
)
