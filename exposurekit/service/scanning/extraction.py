"""Extraction of listings from a page of a people-search site, by the site's definition.

It raises for no input: a page that cannot be read is inconclusive, and neither confirms nor removes a listing.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Literal
from urllib.parse import SplitResult, urldefrag, urljoin, urlsplit

import jmespath
from selectolax.lexbor import LexborNode

from exposurekit.service.models import Excerpt, Listing
from exposurekit.service.scanning.html_text import (
    MARKUP_MAX,
    contains_mark,
    one_line,
    squeezed,
    title_and_text,
    tree,
)
from exposurekit.service.scanning.html_text import TEXT_MAX as HTML_TEXT_MAX
from exposurekit.service.sites.definition import Definition
from exposurekit.service.sites.selectors import selector_parts
from exposurekit.service.sites.statistics import CHANGED_LAYOUT

PageOutcome = Literal["listings", "no results", "inconclusive"]

TEXT_MAX, ADDRESS_MAX = 300, 2_000  # characters
EXCERPT_MAX = 12_000  # characters of a page or a listing, for evidence
LISTINGS_MAX, VALUES_MAX = 500, 20
AGE_MAX = 125
_NUMBER_MAX = 10**18  # of a number that is used as text
_NODE_COST = 50  # of selecting an element, in characters
LISTS = ("relations", "aliases", "locations", "emails", "phone_numbers")
_BLOCKED_STATUSES = {403, 429}
# Not part of a date or of a decimal number.
_WHOLE_NUMBERS = re.compile(r"(?<![\d.,/])(?<!\d-)\d{1,3}(?![\d.,/]*\d)(?!-\d{4}|-\d\d?-\d)", re.ASCII)
_AGE_BEFORE = re.compile(r"\bage[ds]?\W{0,3}$", re.IGNORECASE)
_YEARS_AFTER = re.compile(r"\s*-?(?:years?|yrs?|y\.?/?o)\b", re.IGNORECASE)
# A number that a decade, a range or a bound is made of: 40s, 45-49, 65+, over 65.
_NOT_EXACT_BEFORE = re.compile(
    r"(?:(?<!\d)\d{1,3}\s?[-\u2010-\u2014]\s?|\d to |\b(?:over|under|above|below|older than|younger than|at least)\s)$",
    re.IGNORECASE,
)
_NOT_EXACT_AFTER = re.compile(
    r"['\u2019]?s\b|\s?\+|[-\u2010-\u2014]\d\d\b|\s[-\u2010-\u2014]\s\d\d\b(?!\s+(?!y)\w)"
    r"|\s(?:to \d|(?:and|or) (?:over|up|above|older|under|younger)\b)",
    re.IGNORECASE,
)
_MONTHS = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_MONTH_BEFORE = re.compile(rf"\b{_MONTHS}\.?\s*$", re.IGNORECASE)
_MONTH_AFTER = re.compile(rf"(?:st|nd|rd|th)?\.?\s*(?:of\s+)?{_MONTHS}\b", re.IGNORECASE)
_BESIDE_MAX = 16  # characters beside a number that say what it is

# The data does not have the shape that a JMESPath expression expects.
_SHAPE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

_WHOLE = ""  # selects the whole visible text of a listing
# Returns the texts that a selector matches in a listing or a page, up to a maximum.
_Extract = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class PageResult:
    """The listings on a page, in its order, or why there are none."""

    outcome: PageOutcome
    listings: tuple[Listing, ...] = ()
    next: str | None = field(default=None, repr=False)  # the URL of the next page
    reason: str | None = None  # "blocked", "not found", "status 503", CHANGED_LAYOUT or "too much"
    # Listings without a name or a reference, or beyond the maximum: an absence from the others proves nothing.
    unreadable: int = 0
    has_no_results_mark: bool = False  # also beside listings, as with suggestions of similar people
    excerpt: Excerpt | None = field(
        default=None, repr=False, compare=False
    )  # of the page; None: inconclusive


@dataclass(frozen=True, slots=True)
class _Page:
    """A parsed page: an extractor for each listing and for the whole page, and the text that may contain marks."""

    items: Sequence[_Extract]
    document: _Extract
    text: str  # that can be seen
    visible_text: str  # the same, to search for marks


def read(site: Definition, *, status: int, url: str, text: str) -> PageResult:
    """Extract the listings from one page of a site's answer; `url` is that after redirects.

    Listings beside a "no results" mark are returned, with ``has_no_results_mark``: the person may be among them, and
    the match decides.
    """
    is_json = site.search.answer == "json"
    page = None if len(text) > MARKUP_MAX else (_json_page if is_json else _html_page)(site, text)
    # A block is often visible in the source only. "No results" in a script, though, may be on every page of a site.
    source = squeezed(text[:MARKUP_MAX]) + (page.visible_text if page else "")
    if contains_mark(source, site.search.blocked):
        return PageResult("inconclusive", reason="blocked")
    if status != 200:  # noqa: PLR2004
        return PageResult("inconclusive", reason=_status_reason(status))
    if page is None:
        return PageResult("inconclusive", reason=CHANGED_LAYOUT if is_json else "too much")
    return _layout_result(site, page, url)


def _status_reason(status: int) -> str:
    if status in _BLOCKED_STATUSES:
        return "blocked"
    return "not found" if status == 404 else f"status {status}"  # noqa: PLR2004


def _layout_result(site: Definition, page: _Page, url: str) -> PageResult:
    has_no_results_mark = contains_mark(page.visible_text, site.search.no_results)
    if not page.items:
        if has_no_results_mark:
            return PageResult("no results", has_no_results_mark=True, excerpt=_excerpt(page.text, url))
        return PageResult("inconclusive", reason=CHANGED_LAYOUT)
    candidates = [_listing(site, extract, url) for extract in page.items[:LISTINGS_MAX]]
    listings = tuple(listing for listing in candidates if listing)
    if not listings:
        return PageResult("inconclusive", reason=CHANGED_LAYOUT, unreadable=len(page.items))
    next_url = _url(page.document, site.search.next, url)
    return PageResult(
        "listings",
        listings,
        next=None if next_url == urldefrag(url).url else next_url,
        unreadable=len(page.items) - len(listings),
        has_no_results_mark=has_no_results_mark,
        excerpt=_excerpt(page.text, url),
    )


def _excerpt(text: str, url: str) -> Excerpt:
    whole = one_line(text, HTML_TEXT_MAX)
    return Excerpt(
        address=url,
        status=200,
        text=whole[:EXCERPT_MAX],
        sha256=hashlib.sha256(whole.encode()).hexdigest(),
        is_cut=len(whole) > EXCERPT_MAX,
    )


def _listing(site: Definition, extract: _Extract, url: str) -> Listing | None:
    fields = site.listings
    name = _first(extract, fields.name)
    reference_id = _first(extract, fields.reference_id, TEXT_MAX + 1)
    if not name or not reference_id or len(reference_id) > TEXT_MAX:  # a truncated reference may be another's
        return None
    lists: dict[str, Any] = {
        kind: tuple(dict.fromkeys(_values(extract, getattr(fields, kind)))) for kind in LISTS
    }
    age, href = first_age(_values(extract, fields.age)), _url(extract, fields.href, url)
    excerpt = _excerpt(" ".join(extract(_WHOLE)), url)
    return Listing(name=name, reference_id=reference_id, age=age, href=href, excerpt=excerpt, **lists)


def _values(extract: _Extract, selectors: Sequence[str], max_length: int = TEXT_MAX) -> list[str]:
    """Return the texts of the first selector that matches."""
    for selector in selectors:
        texts = [text for raw in extract(selector) if (text := one_line(raw, max_length))]
        if texts:
            return texts
    return []


def _first(extract: _Extract, selectors: Sequence[str], max_length: int = TEXT_MAX) -> str | None:
    return next(iter(_values(extract, selectors, max_length)), None)


def first_age(texts: Sequence[str]) -> int | None:
    """Return the first whole number in texts that may be an age, if none is called one; None without one.

    A decade, a range or a bound is no age: it would contradict most people whom it means.

    >>> first_age(["Born Feb 29, 1980 (46)"]), first_age(["2 addresses, age 46"]), first_age(["Born Feb 29, 1980"])
    (46, 46, None)
    >>> first_age(["Age 40s"]), first_age(["45-49"]), first_age(["65+"])
    (None, None, None)
    """
    matches = [match for text in texts for match in _WHOLE_NUMBERS.finditer(text)]
    ages = [(rank, match) for match in matches if int(match[0]) <= AGE_MAX and (rank := _age_rank(match))]
    return int(min(ages, key=lambda age: age[0])[1][0]) if ages else None


def _age_rank(match: re.Match[str]) -> int:
    """How clearly a number is an age, from 1 (it is called one); 0: it is the day of a date, or not exact."""
    before = match.string[max(0, match.start() - _BESIDE_MAX) : match.start()]
    after = match.string[match.end() : match.end() + _BESIDE_MAX]
    if _NOT_EXACT_BEFORE.search(before) or _NOT_EXACT_AFTER.match(after):
        return 0
    if _AGE_BEFORE.search(before):
        return 1
    if _YEARS_AFTER.match(after):
        return 2
    if before.endswith("(") and after.startswith(")"):
        return 3
    return 0 if _MONTH_BEFORE.search(before) or _MONTH_AFTER.match(after) else 4


def _url(extract: _Extract, selectors: Sequence[str], page_url: str) -> str | None:
    """Extract an absolute URL on the page's host; None for any other."""
    reference = _first(extract, selectors, ADDRESS_MAX + 1)
    if reference is None or len(reference) > ADDRESS_MAX or " " in reference:
        return None
    try:
        url = urldefrag(urljoin(page_url, reference)).url
        parts = urlsplit(url)
        same_host = _host(parts) == _host(urlsplit(page_url))
    except ValueError:
        return None
    return url if same_host and parts.scheme in {"http", "https"} and not parts.username else None


def _host(parts: SplitResult) -> tuple[str, int | None]:
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return (parts.hostname or "").removeprefix("www."), None if parts.port == default else parts.port


def _html_page(site: Definition, text: str) -> _Page | None:
    page = tree(text)
    if page is None or page.root is None:
        return None
    nodes = next((matches for selector in site.listings.item if (matches := page.css(selector))), [])
    budget = _TextBudget()
    fields = [name for name in type(site.listings).model_fields if name != "item"]
    selectors = [*chain.from_iterable(getattr(site.listings, name) for name in fields)]
    # Before `title_and_text`, which deletes hidden elements, perhaps with a listing inside.
    items = [_texts_by_selector(node, selectors, budget) for node in nodes[:LISTINGS_MAX]]
    document = _texts_by_selector(page.root, site.search.next, budget)
    if budget.remaining < 0:
        return None
    text = " ".join(title_and_text(page))
    for node, texts in zip(nodes, items, strict=False):
        texts[_WHOLE] = _node_texts(node, _WHOLE, budget)  # what can be seen of it
    if budget.remaining < 0:
        return None
    extracts = [_extractor(texts) for texts in items] + [_extractor({})] * (len(nodes) - len(items))
    return _Page(extracts, _extractor(document), text, squeezed(text))


@dataclass(slots=True)
class _TextBudget:
    """Limits the text extracted from a page: nested listings contain the same text many times."""

    remaining: int = 10 * MARKUP_MAX


def _texts_by_selector(
    node: LexborNode, selectors: Sequence[str], budget: _TextBudget
) -> dict[str, Sequence[str]]:
    return {selector: _node_texts(node, selector, budget) for selector in selectors}


def _extractor(texts: Mapping[str, Sequence[str]]) -> _Extract:
    return lambda selector: texts.get(selector, ())


def _node_texts(node: LexborNode, selector: str, budget: _TextBudget) -> Sequence[str]:
    css, attribute = selector_parts(selector)
    texts: list[str] = []
    if budget.remaining < 0:
        return texts
    if selector == _WHOLE:
        whole = node.text(separator=" ")
        budget.remaining -= len(whole)
        return [whole]
    nodes = node.css(css) if css else [node]
    budget.remaining -= _NODE_COST * len(nodes)
    for match in nodes[:VALUES_MAX]:
        text = match.attributes.get(attribute) if attribute else match.text(separator=" ")
        budget.remaining -= len(text or "")
        texts.append((text or "")[: 2 * ADDRESS_MAX])
        if budget.remaining < 0:
            break
    return texts


def _json_page(site: Definition, text: str) -> _Page | None:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    items = next((values for selector in site.listings.item if (values := _json_items(selector, data))), [])
    return _Page([_json_extract(item) for item in items], _json_extract(data), text, squeezed(text))


def _json_extract(value: Any) -> _Extract:
    def extract(selector: str) -> Sequence[str]:
        if selector == _WHOLE:
            return [_json_text(value)]
        return list(islice(_texts(_evaluate(selector, value)), VALUES_MAX))

    return extract


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


def _json_items(selector: str, data: Any) -> list[Any]:
    value = _evaluate(selector, data)
    if isinstance(value, dict):
        return [value]
    return value if isinstance(value, list) else []


def _evaluate(selector: str, value: Any) -> Any:
    try:
        return jmespath.search(selector, value)
    except _SHAPE_ERRORS:
        return None


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value or a list; integers are converted."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item
        elif isinstance(item, int) and not isinstance(item, bool) and abs(item) < _NUMBER_MAX:
            yield str(item)
