"""The invented people-search sites and the templates of ordinary pages.

`definitions/<file>.yaml` holds what a scanner knows about a site: name, guide, opt-out, marks. `data/sites.yaml`
holds how the site behaves, which a scanner has to find out.
"""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from exposurekit.sandbox.world import data_files
from exposurekit.service.sites.definition import Definition
from exposurekit.service.sites.loader import read

Removal = Literal["at once", "after days", "never", "manual", "relists", "lies"]
Trait = Literal["slow", "unsteady", "lists anybody", "blocks"]
DEFINITIONS = Path(__file__).with_name("definitions")


@dataclass(frozen=True, kw_only=True)
class WorldSite:
    """A people-search site: what it shows and how it behaves.

    `name_format` and `location_format` are templates of `str.format`. Sites of one `sister_group` share their
    opt-out: one request removes the person's listings on all of them; on its own site, with `one_request_per` ``listing``,
    only the one that it names. `name_parameters` are the search parameters that make up the
    name; city and state have one each. `page_size` limits the listings per page. `declared_days` are those within which it
    says that it removes a listing, as its guide or its steps have it.
    """

    file: str
    removal: Removal
    listing_probability: float
    name_parameters: tuple[str, ...]
    declared_days: int | None = None
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
    one_request_per: Literal["listing", "person"] = "person"
    trait: Trait | None = None
    robots: str | None = None
    encoding: str = "utf-8"

    @cached_property
    def definition(self) -> Definition:
        """Its definition, as a scanner reads it."""
        return read(DEFINITIONS / f"{self.file}.yaml")

    @cached_property
    def name(self) -> str:
        """Its name."""
        return self.definition.name

    @cached_property
    def host(self) -> str:
        """Its host."""
        return urlsplit(self.definition.search.url).hostname or ""

    @property
    def search_method(self) -> str:
        """The HTTP method of its search: ``get`` or ``post``."""
        method = self.definition.search.method
        return "get" if method == "person" else method

    def layout_on(self, day: date) -> str:  # noqa: ARG002  the layouts of these sites stay
        """Return the name of its layout on a day."""
        return self.file

    @property
    def reachable(self) -> bool:
        """Whether a polite scanner can read the site and trust its answers.

        >>> [site.name for site in SITES if not site.reachable]
        ['Everyname Index', 'Gatekeep Records', 'Hushledger']
        """
        return self.trait not in {"lists anybody", "blocks"} and self.robots != FORBIDDEN


@dataclass(frozen=True)
class PageTemplate:
    """A template of ordinary pages that mention people; `path` and `title` are for `str.format`.

    People with the same path are mentioned on the same page. A page that contains no data mentions nobody.
    """

    host: str
    path: str
    title: str
    opening: str
    contains: tuple[str, ...] = ()


FORBIDDEN = "User-agent: *\nDisallow: /\n"
SITES = data_files.read("sites", tuple[WorldSite, ...])
PAGES = data_files.read("pages", tuple[PageTemplate, ...])
