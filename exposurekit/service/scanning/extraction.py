"""One page of a people-search site's answer, read by the site's definition. Never raises over what a site sends.

What cannot be read is inconclusive: it clears nobody and accuses nobody.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Literal
from urllib.parse import SplitResult, urldefrag, urljoin, urlsplit

import jmespath
from jmespath.exceptions import JMESPathError
from selectolax.lexbor import LexborNode

from exposurekit.service.models import Listing
from exposurekit.service.scanning.html_text import MARKUP_MAX, one_line, shown_in, tree
from exposurekit.service.sites.definition import Definition
from exposurekit.service.sites.selectors import selector_parts

Outcome = Literal["listings", "no results", "inconclusive"]

TEXT_MAX, ADDRESS_MAX = 300, 2_000  # characters
LISTINGS_MAX, VALUES_MAX = 500, 20
AGE_MAX = 125
_NUMBER_MAX = 10**18  # of a number that stands for a text
_NODE_PRICE = 50  # what finding an element costs, in characters read
LISTS = ("relations", "aliases", "locations", "emails", "phone_numbers")
_CLOSED = {403, 429}  # how a site says that it will not answer this one
# Not a part of a date, nor of a number with a point.
_WHOLE_NUMBERS = re.compile(r"(?<![\d.,/])(?<!\d-)\d{1,3}(?![\d.,/]*\d)(?!-\d{4}|-\d\d?-\d)", re.ASCII)

# A listing's values by a selector, as texts; the first few of them.
_Look = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class PageResult:
    """What a page says.

    Attributes:
        outcome: "listings", "no results", or "inconclusive".
        listings: In the page's order; empty unless the outcome is "listings".
        next: The address of the next page, or None.
        reason: Why it is inconclusive ("blocked", "not found", "status 503", "changed layout", "too much").
        unreadable: Listings there that lack a name or a reference, or were too many. With any, that somebody is not
            among the rest proves nothing.
        said_none: Listings stand beside a "no results" mark: people the site thinks may be meant.
    """

    outcome: Outcome
    listings: tuple[Listing, ...] = ()
    next: str | None = field(default=None, repr=False)
    reason: str | None = None
    unreadable: int = 0
    said_none: bool = False


@dataclass(frozen=True, slots=True)
class _Page:
    """A page taken apart: a look into each listing, one at the whole, and the texts in which marks are looked for."""

    each: Sequence[_Look]
    whole: _Look
    seen: str  # what a visitor sees


def read(site: Definition, *, status: int, url: str, text: str) -> PageResult:
    """Read one page of a site's answer.

    Where listings stand beside a "no results" mark, they are told, with ``said_none``: to pass over what a site shows
    would clear somebody who is listed, and whether they are the person is decided by the match.

    Args:
        site: How to read it.
        status: The HTTP status.
        url: Where the page came from, after redirects; addresses on it are relative to this one.
        text: The body.

    >>> from exposurekit.service.sites.loader import parsed
    >>> site = parsed('''
    ... name: Seekfolk
    ... guide: A free directory.
    ... opt_out_procedure: [Open the form.]
    ... opt_out_url: http://seekfolk.example/opt-out
    ... search: {url: "http://seekfolk.example/search", no_results: Nobody of that name}
    ... listings: {item: li, name: h2, reference_id: "@id", age: .age}
    ... removal: {method: manual}
    ... ''')
    >>> page = "<ul><li id=r7><h2>Juniper Quillfeather</h2><i class=age>41 years</i></ul>"
    >>> found = read(site, status=200, url=site.search.url, text=page).listings[0]
    >>> found.name, found.reference_id, found.age
    ('Juniper Quillfeather', 'r7', 41)
    >>> read(site, status=200, url=site.search.url, text="<p>Welcome!").reason
    'changed layout'
    """
    json_told = site.search.answer == "json"
    page = None if len(text) > MARKUP_MAX else (_json_page if json_told else _html_page)(site, text)
    # A block often shows in the source alone. "No results" in a script, though, stands on every page of a site.
    source = _folded(text[:MARKUP_MAX]) + (page.seen if page else "")
    if _says(source, site.search.blocked):
        return PageResult("inconclusive", reason="blocked")
    if status != 200:  # noqa: PLR2004
        return PageResult("inconclusive", reason=_refusal(status))
    if page is None:
        return PageResult("inconclusive", reason="changed layout" if json_told else "too much")
    return _layout_result(site, page, url)


def _refusal(status: int) -> str:
    if status in _CLOSED:
        return "blocked"
    return "not found" if status == 404 else f"status {status}"  # noqa: PLR2004


def _layout_result(site: Definition, page: _Page, url: str) -> PageResult:
    said_none = _says(page.seen, site.search.no_results)
    if not page.each:
        if said_none:
            return PageResult("no results", said_none=True)
        return PageResult("inconclusive", reason="changed layout")
    read_ones = [_listing(site, look, url) for look in page.each[:LISTINGS_MAX]]
    whole = tuple(listing for listing in read_ones if listing)
    if not whole:
        return PageResult("inconclusive", reason="changed layout", unreadable=len(page.each))
    follow = _address(page.whole, site.search.next, url)
    return PageResult(
        "listings",
        whole,
        next=None if follow == urldefrag(url).url else follow,
        unreadable=len(page.each) - len(whole),
        said_none=said_none,
    )


def _listing(site: Definition, look: _Look, url: str) -> Listing | None:
    """One listing; None where it has no name or no reference."""
    fields = site.listings
    name = _first(look, fields.name)
    reference_id = _first(look, fields.reference_id, TEXT_MAX + 1)
    if not name or not reference_id or len(reference_id) > TEXT_MAX:  # half a reference may be another's
        return None
    lists: dict[str, Any] = {
        kind: tuple(dict.fromkeys(_values(look, getattr(fields, kind)))) for kind in LISTS
    }
    age, href = _age(_values(look, fields.age)), _address(look, fields.href, url)
    return Listing(name=name, reference_id=reference_id, age=age, href=href, **lists)


def _values(look: _Look, selectors: Sequence[str], longest: int = TEXT_MAX) -> list[str]:
    """The texts of the first selector that finds any."""
    for selector in selectors:
        found = [text for raw in look(selector) if (text := one_line(raw, longest))]
        if found:
            return found
    return []


def _first(look: _Look, selectors: Sequence[str], longest: int = TEXT_MAX) -> str | None:
    return next(iter(_values(look, selectors, longest)), None)


def _age(texts: Sequence[str]) -> int | None:
    numbers = (int(found[0]) for text in texts for found in _WHOLE_NUMBERS.finditer(text))
    return next((number for number in numbers if number <= AGE_MAX), None)


def _address(look: _Look, selectors: Sequence[str], url: str) -> str | None:
    """An address of the same host, whole; what leads elsewhere is dropped."""
    told = _first(look, selectors, ADDRESS_MAX + 1)
    if told is None or len(told) > ADDRESS_MAX or " " in told:
        return None
    try:
        whole = urldefrag(urljoin(url, told)).url
        parts = urlsplit(whole)
        same = _host(parts) == _host(urlsplit(url))
    except ValueError:
        return None
    return whole if same and parts.scheme in {"http", "https"} and not parts.username else None


def _host(parts: SplitResult) -> tuple[str, int | None]:
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return (parts.hostname or "").removeprefix("www."), None if parts.port == usual else parts.port


def _html_page(site: Definition, text: str) -> _Page | None:
    page = tree(text)
    if page is None or page.root is None:
        return None
    nodes = next((found for selector in site.listings.item if (found := page.css(selector))), [])
    purse = _TextBudget()
    wanted = {
        name: getattr(site.listings, name) for name in type(site.listings).model_fields if name != "item"
    }
    # Read now: afterwards what is hidden is taken out of the page, and with it perhaps a listing.
    looks = [
        _remembered(node, tuple(chain.from_iterable(wanted.values())), purse) for node in nodes[:LISTINGS_MAX]
    ]
    whole = _remembered(page.root, site.search.next, purse)
    looks += [_nothing] * (len(nodes) - len(looks))
    return None if purse.empty else _Page(looks, whole, _folded(" ".join(shown_in(page))))


def _nothing(_selector: str) -> Sequence[str]:
    return ()


class _TextBudget:
    """How much of a page may still be read: listings inside one another hold the same text many times over."""

    def __init__(self) -> None:
        self.left = 10 * MARKUP_MAX

    def pay(self, price: int) -> None:
        self.left -= price

    @property
    def empty(self) -> bool:
        return self.left < 0


def _remembered(node: LexborNode, selectors: Sequence[str], purse: _TextBudget) -> _Look:
    found = {selector: _in_node(node, selector, purse) for selector in selectors}
    return lambda selector: found.get(selector, ())


def _in_node(node: LexborNode, selector: str, purse: _TextBudget) -> Sequence[str]:
    css, attribute = selector_parts(selector)
    texts: list[str] = []
    if purse.empty:
        return texts
    nodes = node.css(css) if css else [node]
    purse.pay(_NODE_PRICE * len(nodes))
    for found in nodes[:VALUES_MAX]:
        text = found.attributes.get(attribute) if attribute else found.text(separator=" ")
        purse.pay(len(text or ""))
        texts.append((text or "")[: 2 * ADDRESS_MAX])
        if purse.empty:
            break
    return texts


def _json_page(site: Definition, text: str) -> _Page | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    each = next((found for selector in site.listings.item if (found := _things(selector, data))), [])
    return _Page([_in_value(item) for item in each], _in_value(data), _folded(text))


def _in_value(value: Any) -> _Look:
    return lambda selector: list(islice(_texts(_searched(selector, value)), VALUES_MAX))


def _things(selector: str, data: Any) -> list[Any]:
    found = _searched(selector, data)
    if isinstance(found, dict):
        return [found]
    return found if isinstance(found, list) else []


def _searched(selector: str, value: Any) -> Any:
    try:
        return jmespath.search(selector, value)
    except (
        JMESPathError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ):
        return None  # data of another shape than the expression was written for


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value or a list of values; whole numbers are told as text."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item
        elif isinstance(item, int) and not isinstance(item, bool) and abs(item) < _NUMBER_MAX:
            yield str(item)


def _says(text: str, marks: Sequence[str]) -> bool:
    """Whether one of the marks stands in a folded text; a blank one says nothing."""
    return any(mark in text for mark in map(_folded, marks) if mark)


def _folded(text: str) -> str:
    """Lower case and without blanks: how a site spaces its marks is no matter, in JSON least of all."""
    return "".join(text.split()).casefold()
