"""HTML of the invented sites; `data/layouts.yaml` has one or two listing layouts per site."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from exposurekit.sandbox.world import data_files
from exposurekit.sandbox.world.listings import Entry
from exposurekit.sandbox.world.sites import WorldSite
from exposurekit.text.sanitize import escaped

Lines = tuple[str, str]  # template around all values, and around each


@dataclass(frozen=True)
class Card:
    """Markup of one listing; the part of a field without a value is left out."""

    markup: str  # {name} {href} {path} {reference} {age} {relations} {aliases} {locations} {emails} {phones}
    age: str = "{}"
    relations: Lines = ("{}", "{}")
    aliases: Lines = ("{}", "{}")
    locations: Lines = ("{}", "{}")
    emails: Lines = ("{}", "{}")
    phones: Lines = ("{}", "{}")


@dataclass(frozen=True)
class Theme:
    """Markup of a site's results page."""

    page: str  # {listings} {next}
    cards: tuple[Card, ...]
    next: str = ""


def document(site: WorldSite, body: str) -> str:
    """Return a complete page with the site's header and footer."""
    name = escaped(site.name)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="{site.encoding}"><title>{name}</title></head>'
        f'<body><header><a href="/">{name}</a></header>{body}'
        f'<footer><a href="{escaped(site.definition.opt_out_url)}">Privacy</a> &middot; all people are invented</footer></body></html>'
    )


def results(
    site: WorldSite,
    entries: Sequence[Entry],
    day: date,
    *,
    next_page: str | None = None,
    theme: Theme | None = None,
) -> str:
    """Return a page of listings, in the site's own markup or another; `next_page` is the URL of the next one."""
    theme = theme or THEMES[site.layout_on(day)]
    next_link = theme.next.format(escaped(next_page)) if next_page else ""
    listings = "".join(card(entry, day, theme) for entry in entries)
    return document(site, theme.page.format(listings=listings, next=next_link))


def card(entry: Entry, day: date, theme: Theme | None = None) -> str:
    """Return one listing in its layout."""
    cards = (theme or THEMES[entry.site.layout_on(day)]).cards
    # A checksum and not the position on the page, so that a listing keeps its layout.
    chosen = cards[zlib.crc32(entry.reference_id.encode()) % len(cards)]
    age = entry.age(day)
    return chosen.markup.format(
        name=escaped(entry.name),
        href=escaped(entry.href or ""),
        path=escaped(entry.path),
        reference=escaped(entry.reference_id),
        age="" if age is None else chosen.age.format(age),
        relations=_lines(chosen.relations, entry.relations),
        aliases=_lines(chosen.aliases, entry.aliases),
        locations=_lines(chosen.locations, entry.locations),
        emails=_lines(chosen.emails, entry.emails),
        phones=_lines(chosen.phones, entry.phone_numbers),
    )


def _lines(lines: Lines, values: Sequence[str]) -> str:
    around, each = lines
    return around.format("".join(each.format(escaped(value)) for value in values)) if values else ""


THEMES = data_files.read("layouts", dict[str, Theme])
