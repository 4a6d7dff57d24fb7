"""HTML templates of the invented sites: one or two listing layouts per site."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

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
        f'<footer><a href="{escaped(site.opt_out_url)}">Privacy</a> &middot; all people are invented</footer></body></html>'
    )


def results(site: WorldSite, entries: Sequence[Entry], day: date, *, next_page: str | None = None) -> str:
    """Return a page of listings; `next_page` is the URL of the next one."""
    theme = THEMES[site.file]
    next_link = theme.next.format(escaped(next_page)) if next_page else ""
    listings = "".join(card(entry, day) for entry in entries)
    return document(site, theme.page.format(listings=listings, next=next_link))


def card(entry: Entry, day: date) -> str:
    """Return one listing in its layout."""
    cards = THEMES[entry.site.file].cards
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


_LIST = "<li>{}</li>"
THEMES = {
    "seekfolk": Theme(
        '<main><h1>People</h1><ul class="results">{listings}</ul></main>',
        (
            Card(
                '<li class="person" data-reference="{reference}"><h2><a href="{href}">{name}</a></h2>{age}{aliases}'
                "{locations}{relations}</li>",
                age='<p class="age">Age {}</p>',
                aliases=("<p>Also known as: {}</p>", '<span class="aka">{}</span> '),
                locations=('<ul class="towns">{}</ul>', _LIST),
                relations=('<h3>May be related to</h3><ul class="relatives">{}</ul>', _LIST),
            ),
        ),
    ),
    "whomsoever": Theme(
        '<table class="book"><thead><tr><th>Name</th><th>Address</th><th>Also</th><th>Household</th><th>Number</th></tr>'
        "</thead><tbody>{listings}</tbody></table>",
        (
            Card(
                '<tr class="entry"><td class="who"><a href="{href}">{name}</a></td><td class="where">{locations}</td>'
                '<td class="also">{aliases}</td><td class="household">{relations}</td><td class="number">{reference}</td></tr>',
                aliases=("{}", "<span>{}</span>, "),
                locations=("{}", "<div>{}</div>"),
                relations=("{}", "<span>{}</span>; "),
            ),
        ),
    ),
    "lanternpost": Theme(
        "<main>{listings}</main><nav>{next}</nav>",
        (
            Card(
                '<section class="notice"><h3>{name}</h3><dl>{age}{aliases}{locations}</dl>'
                '<a class="open" data-reference="{reference}" href="{path}">Open</a></section>',
                age='<dt>Age</dt><dd class="age">{}</dd>',
                aliases=("<dt>Other names</dt>{}", '<dd class="alias">{}</dd>'),
                locations=("<dt>Towns</dt>{}", '<dd class="town">{}</dd>'),
            ),
        ),
        next='<a class="next" href="{}">Older notices</a>',
    ),
    "nosyheron": Theme(
        '<main class="nest">{listings}</main>',
        (
            Card(
                '<article class="summary" data-id="{reference}"><h3 class="title"><a href="{href}">{name}</a></h3>'
                "{age}{aliases}{locations}{relations}</article>",
                age='<span class="age">{}</span>',
                aliases=('<ul class="other-names">{}</ul>', _LIST),
                locations=('<ul class="places">{}</ul>', _LIST),
                relations=('<ul class="kin">{}</ul>', _LIST),
            ),
            Card(
                '<div class="sponsored"><b class="full-name">{name}</b><table>{age}{locations}{aliases}{relations}</table>'
                '<a class="report" href="{href}" data-report="{reference}">Full report, only 9.99</a></div>',
                age='<tr><th>Age</th><td class="years">{} years</td></tr>',
                aliases=(
                    '<tr><th>Was also</th><td class="other-names">{}</td></tr>',
                    "<i>{}</i>, ",
                ),
                locations=('<tr><th>Lived in</th><td class="places">{}</td></tr>', "<i>{}</i>; "),
                relations=('<tr><th>Related to</th><td class="kin">{}</td></tr>', "<i>{}</i>, "),
            ),
        ),
    ),
    "doorbellalmanac": Theme(
        '<div class="street">{listings}</div>',
        (
            Card(
                '<div class="house" id="{reference}"><a class="resident" href="{href}">{name}</a>{locations}{relations}</div>',
                locations=("{}", "<address>{}</address>"),
                relations=('<p class="others">With {}</p>', "<em>{}</em> "),
            ),
        ),
    ),
    "tattleberry": Theme(
        '<div class="bush">{listings}</div>',
        (
            Card(
                '<div class="berry" data-berry="{reference}"><strong>{name}</strong> {age}<p>{locations}</p>{aliases}'
                '{relations}<a class="more" href="{href}">More</a></div>',
                age='<small class="age">{} y/o</small>',
                aliases=('<p class="aka">aka {}</p>', "<span>{}</span> "),
                locations=("{}", '<span class="town">{}</span> '),
                relations=('<p class="kin">Kin: {}</p>', "<span>{}</span> "),
            ),
        ),
    ),
    "crumbtrail": Theme(
        '<div class="archive">{listings}</div>',
        (
            Card(
                '<div class="file"><h4>{name}</h4><code>{reference}</code> {age}{aliases}{locations}{relations}'
                '<a href="{href}">file</a></div>',
                age='<p class="born">AGE <b>{}</b></p>',
                aliases=('<p class="alias">ALSO {}</p>', "<q>{}</q> "),
                locations=('<p class="seen">SEEN IN {}</p>', "<q>{}</q> "),
                relations=('<p class="kin">KIN {}</p>', "<q>{}</q> "),
            ),
        ),
    ),
    "pigeonloft": Theme(
        "<table><tr><th>Name</th><th>Age</th><th>Town</th></tr>{listings}</table>",
        (
            Card(
                '<tr data-row="{reference}"><td>{name}</td><td>{age}</td><td>{locations}</td></tr>',
                locations=("{}", "<span>{}</span> "),
            ),
        ),
    ),
    "mothlightfinder": Theme(
        "{listings}", (Card("<p>{name}</p><p>{reference}</p>{locations}", locations=("{}", "<p>{}</p>")),)
    ),
    "mothlightneighbors": Theme(
        '<div class="street-at-night">{listings}</div>',
        (
            Card(
                '<figure class="window" data-window="{reference}"><figcaption>{name}</figcaption>{locations}{relations}'
                '<a class="look" href="{href}">Look in</a></figure>',
                locations=("{}", '<p class="street">{}</p>'),
                relations=('<ul class="next-door">{}</ul>', _LIST),
            ),
        ),
    ),
    "brambledex": Theme(
        '<div class="hedge">{listings}</div>',
        (
            Card(
                '<div class="bramble"><h5><a href="{href}">{name}</a></h5><span class="thorn">{reference}</span>{phones}'
                "{emails}{aliases}{locations}</div>",
                aliases=("<p>aka {}</p>", '<span class="aka">{}</span> '),
                locations=("{}", '<p class="place">{}</p>'),
                emails=("{}", '<p class="mail">{}</p>'),
                phones=("{}", '<p class="phone">{}</p>'),
            ),
        ),
    ),
    "umbrellakin": Theme(
        '<ul class="tree"><li class="trunk"><ul>{listings}</ul></li></ul>',
        (
            Card(
                '<li class="leaf" data-leaf="{reference}"><a class="branch" href="{href}"><span class="name">{name}</span></a>'
                "{age}{aliases}{locations}{relations}</li>",
                age=' <span class="years">({})</span>',
                aliases=("<p>once {}</p>", '<span class="once">{}</span> '),
                locations=("{}", '<p class="ground">{}</p>'),
                relations=('<ul class="twigs">{}</ul>', _LIST),
            ),
        ),
    ),
    "hushledger": Theme(
        "<main>{listings}</main>",
        (
            Card(
                '<p class="line" data-line="{reference}"><b>{name}</b> {age} {locations} <a href="{href}">line</a></p>',
                age='<span class="age">{}</span>',
                locations=("{}", '<span class="town">{}</span> '),
            ),
        ),
    ),
}
