"""Values: sites, listings and pages, and the API's representation of a record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REMOVAL_FIELDS = "user_fields_required_for_removal"
OPT_OUT_FIELDS = "opt_out_fields"  # in a record's ciphertext alone
VERDICTS = "possible", "quarantined", "rejected"  # of a candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A people-search site, and what removal from it requires."""

    name: str
    guide: str | None = None
    opt_out_procedure: tuple[str, ...] = ()
    opt_out_url: str | None = None
    user_fields_required_for_removal: tuple[str, ...] = ()
    opt_out_fields: tuple[str, ...] = ()  # the user fields that an opt-out contains or requires
    removed_by_us: bool = False  # the service can send this listing's opt-out itself
    # A person sends it; before, the service has to issue an address, or to follow up an earlier one by email.
    prepared_by_us: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text of a page, or of a listing on it, as evidence keeps it."""

    address: str | None = field(repr=False)  # None: a saved page that does not contain it
    status: int  # of HTTP
    text: str = field(repr=False)
    sha256: str  # of the text, of its first 500,000 characters if it is longer
    is_cut: bool


_VALUES, _LISTS = ("name", "reference_id", "age", "href"), ("relations", "aliases", "locations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a people-search site shows about somebody. ``reference_id`` is the site's own id of it.

    Email addresses, phone numbers and streets are used for matching, and not stored with the record.
    """

    name: str = field(repr=False)
    reference_id: str = field(repr=False)
    age: int | None = field(default=None, repr=False)
    href: str | None = field(default=None, repr=False)
    relations: tuple[str, ...] = field(default=(), repr=False)
    aliases: tuple[str, ...] = field(default=(), repr=False)
    locations: tuple[str, ...] = field(default=(), repr=False)
    emails: tuple[str, ...] = field(default=(), repr=False)
    phone_numbers: tuple[str, ...] = field(default=(), repr=False)
    query: Mapping[str, str] | None = field(default=None, repr=False)  # the query that found it
    excerpt: Excerpt | None = field(default=None, repr=False, compare=False)  # how the page showed it

    def stored(self, site: Site) -> dict[str, Any]:
        """Return the listing as stored in a record's ciphertext, with the fields that the site requires."""
        return {
            **{name: getattr(self, name) for name in _VALUES},
            **{name: list(getattr(self, name)) for name in _LISTS},
            "query": None if self.query is None else dict(self.query),
            REMOVAL_FIELDS: list(site.user_fields_required_for_removal),
            OPT_OUT_FIELDS: list(site.opt_out_fields),
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> "Listing":
        """Return the listing in a record's plaintext."""
        values: dict[str, Any] = {name: stored[name] for name in _VALUES}
        values |= {name: tuple(stored[name]) for name in _LISTS}
        # "found_by" in the ciphertexts of earlier versions; the first one stored no query
        return cls(**values, query=stored.get("query", stored.get("found_by")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A web page where a person's data was found; ``contains`` names the kinds of data: email, address, phone."""

    url: str = field(repr=False)
    title: str = field(repr=False)
    contains: tuple[str, ...] = ()

    def resource(self) -> dict[str, Any]:
        """Return the link as the specification describes one."""
        return {"url": self.url, "title": self.title, "contains": list(self.contains)}


def record_resource(
    record_id: int, site: str, status: str, stored: Mapping[str, Any], *, with_removal_fields: bool = False
) -> dict[str, Any]:
    """Return a record as the specification describes one."""
    record = {"id": record_id, "name": stored["name"], "site": site, "status": status}
    record |= {name: stored[name] for name in ("age", "href", *_LISTS, "reference_id")}
    if with_removal_fields:
        record[REMOVAL_FIELDS] = stored[REMOVAL_FIELDS]
    return record
