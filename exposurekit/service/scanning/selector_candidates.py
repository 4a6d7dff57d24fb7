"""Candidates for the selectors of a page's elements, with costs: the more a selector takes for granted, the more it costs.

They name classes and attributes that look as if a person wrote them, then labels and tags, then positions.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from urllib.parse import urldefrag, urljoin, urlsplit

from exposurekit.service.scanning.generated_names import is_generated
from exposurekit.service.scanning.page_tree import PageTree
from exposurekit.service.scanning.page_words import LABELS
from exposurekit.text.words import words

Candidates = Iterator[tuple[float, str]]

OWN_COST, LABEL_COST = 2.0, 3.6  # below: by a name of its own; by that or a label. A tag alone costs more
_TAG_COST, _SPECIAL_TAG_COST, _COLUMN_COST = 4.0, 2.5, 6.0
_SCOPES_MAX, _CLASSES_BESIDE_MAX = 24, 4
_LABEL_WORDS, _LABEL_MAX = 4, 30
_VALUE_MAX = 40  # characters of an attribute's value that a selector may name
_REFERENCE_MIN = 4  # characters: a shorter value is a position on the page
_STABLE_VALUES = ("itemprop", "itemtype", "role", "data-testid", "data-test", "data-qa", "data-field", "rel")
_ITEM_TAGS = frozenset({"li", "tr", "article"})
_LIST_TAGS = frozenset({"main", "section", "table", "tbody", "ul", "ol", "nav", "article", "aside"})
_FIELD_TAGS = frozenset(
    {"h1", "h2", "h3", "h4", "h5", "h6", "address", "time", "figcaption", "strong", "code", "dfn"}
)
_LABEL_TAGS = frozenset(
    {"dt", "th", "b", "strong", "span", "label", "h3", "h4", "h5", "h6", "em", "small", "i", "div", "p", "td"}
)
OUTER_TAGS = frozenset({"html", "body"})
_LABEL = re.compile(r"[^\W\d_][^\d\"'\\,;()]*")


def _simple(page: PageTree, at: int, *, tags: frozenset[str]) -> Candidates:
    """Yield selectors of an element by its own stable names, with costs: the more it takes for granted, the more."""
    tag, attributes = page.tag(at), page.attributes[at]
    for name in page.classes[at]:
        yield 1.0, f".{name}"
        yield 1.1, f"{tag}.{name}"
    for name in _STABLE_VALUES:
        value = attributes.get(name, "")
        if value and _is_stable_value(value):
            yield 1.2, f'[{name}="{value}"]'
    for one, other in pairwise(page.classes[at]):
        yield 1.5, f".{one}.{other}"
    for name in attributes:
        if re.fullmatch(r"data-[a-z][a-z-]*", name) and name not in _STABLE_VALUES and not is_generated(name):
            yield 1.6, f"{tag}[{name}]"
            yield from ((1.7, f".{one}[{name}]") for one in page.classes[at])
    cost = _SPECIAL_TAG_COST if tag in tags else _TAG_COST
    yield cost, tag
    if "class" not in attributes:
        yield cost + 0.4, f"{tag}:not([class])"


def _is_stable_value(value: str) -> bool:
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z _:/.-]*", value) is not None
    return is_plain and len(value) <= _VALUE_MAX and not any(map(is_generated, value.split()))


def _scopes(page: PageTree, at: int) -> Iterator[tuple[float, int, str]]:
    """Yield selectors of the elements around an element, the closest first."""
    for distance, outer in enumerate(page.ancestors(at)):
        if page.tag(outer) in OUTER_TAGS:
            return
        identifier = page.attributes[outer].get("id", "")
        if re.fullmatch(r"[A-Za-z][A-Za-z-]*", identifier) and not is_generated(identifier):
            yield distance / 10, outer, f"#{identifier}"
        for cost, selector in _simple(page, outer, tags=_LIST_TAGS):
            if cost < OWN_COST or page.tag(outer) in _LIST_TAGS:
                yield cost / 2 + distance / 10, outer, selector


def item_candidates(page: PageTree, at: int) -> Candidates:
    """Yield selectors of a listing on its page, or of another element that is not inside one."""
    parts = [*_simple(page, at, tags=_ITEM_TAGS)]
    names = _classes_beside(page, at)
    parts += [(cost + 0.8, f"{part}:not(.{name})") for name in names for cost, part in parts]
    yield from ((cost, part) for cost, part in parts if cost < _SPECIAL_TAG_COST or page.tag(at) == "article")
    for scope_cost, outer, scope in islice(_scopes(page, at), _SCOPES_MAX):
        is_parent = page.parents[at] == outer
        yield from (
            (cost + scope_cost + 0.5, f"{scope}{' > ' if is_parent else ' '}{part}")
            for cost, part in parts
            if is_parent or cost < _TAG_COST
        )


def _classes_beside(page: PageTree, at: int) -> list[str]:
    """Return classes of elements beside an element that it does not have, such as that of an advertisement."""
    parent = page.parents[at]
    beside = [] if parent is None else [one for one in page.children(parent) if page.tag(one) == page.tag(at)]
    names = dict.fromkeys(name for one in beside for name in page.classes[one])
    return [name for name in names if name not in page.classes[at]][:_CLASSES_BESIDE_MAX]


def field_candidates(page: PageTree, item: int, at: int) -> Candidates:
    """Yield selectors of an element inside a listing."""
    parts = [*_simple(page, at, tags=_FIELD_TAGS)]
    yield from parts
    outers = [outer for outer in page.ancestors(at) if page.contains(item, outer) and outer != item]
    for outer in outers:
        combinator = " > " if page.parents[at] == outer else " "
        yield from (
            (cost / 2 + outer_cost + 0.3, f"{outer_part}{combinator}{part}")
            for outer_cost, outer_part in _simple(page, outer, tags=_FIELD_TAGS)
            for cost, part in parts
            if outer_cost <= _SPECIAL_TAG_COST
        )
    for around in (at, *outers):
        rest = "" if around == at else f"{' > ' if page.parents[at] == around else ' '}{page.tag(at)}"
        yield from ((cost, f"{selector}{rest}") for cost, selector in _labelled(page, item, around))
    child = next((one for one in (at, *outers) if page.parents[one] == item), at)
    alike = [one for one in page.children(item) if page.tag(one) == page.tag(child)]
    column = f"{page.tag(child)}:nth-of-type({alike.index(child) + 1})"
    for cost, anchor in _simple(page, item, tags=_ITEM_TAGS):
        if cost <= _SPECIAL_TAG_COST:
            if child == at:
                yield from ((2.8 + more / 2, f"{anchor} > {part}") for more, part in parts)
            yield _COLUMN_COST + cost, f"{anchor} > {column}" + ("" if child == at else f" {page.tag(at)}")


def _labelled(page: PageTree, item: int, at: int) -> Candidates:
    """Yield selectors of an element by its label: the beginning of its own text, or the closest element before it."""
    tag = page.tag(at)
    if label := _label(page.own_text(at)):
        yield 3.5, f'{tag}:lexbor-contains("{label}")'
    before = [one for one in page.children(page.parents[at] or 0) if item < one < at]
    for one in reversed(before):
        other = page.tag(one)
        label = _label(page.short.get(one, ""), whole=True) if page.own_text(one) else ""
        if other in _LABEL_TAGS and other != tag and label:
            css = f'{other}:lexbor-contains("{label}")'
            if one == before[-1]:
                yield 3.4, f"{css} + {tag}"
            if tag == "dd":  # all of this label, and none of the next one
                yield 3.45, f"{css} ~ dd:not({css} ~ {other} ~ dd)"
        if tag != "dd" or other != "dd":
            return


def _label(text: str, *, whole: bool = False) -> str:
    """Return the label at the start of a text, such as ``Age``; blank if there is none."""
    match = _LABEL.match(text)
    label = (match[0] if match else "").strip().rstrip(":").strip()
    is_label = 0 < len(label) <= _LABEL_MAX and len(label.split()) <= _LABEL_WORDS
    return label if is_label and (not whole or label == text.strip().rstrip(":").strip()) else ""


def reference_candidates(page: PageTree, item: int, values: Sequence[str]) -> Candidates:
    """Yield selectors of attributes with the reference; without a value, with what may be one."""
    for at in range(item, page.ends[item]):
        for name, value in page.attributes[at].items():
            if not re.fullmatch(r"[a-z][a-z-]*", name) or name in {"class", "style", "src"}:
                continue
            cost = (
                0.0
                if value.strip() in values
                else None
                if values
                else _reference_cost(page, item, name, value)
            )
            if cost is None:
                continue
            if at == item:
                yield cost, f"@{name}"
                continue
            if name != "href":
                yield cost + 2.0, f"{page.tag(at)}[{name}]@{name}"
            yield from ((cost + more, f"{css}@{name}") for more, css in field_candidates(page, item, at))


def _reference_cost(page: PageTree, item: int, name: str, value: str) -> float | None:
    """Return how doubtful it is that an attribute is a listing's reference; None if it is not."""
    if name == "href":
        return 2.0 if _is_listing_url(page, value) else None
    is_reference = len(value) >= _REFERENCE_MIN and any(map(str.isdigit, value))
    if not is_reference or not (name == "id" or name.startswith("data-")):
        return None
    urls = [page.attributes[at].get("href", "") for at in range(item, page.ends[item])]
    return 1.0 if any(value in url for url in urls) else _COLUMN_COST  # perhaps of this page view alone


def href_candidates(page: PageTree, item: int, values: Sequence[str]) -> Candidates:
    """Yield selectors of the link to a listing; without a value, of the only one that may be it."""
    wanted = {absolute(page.url, value) for value in values}
    links = [
        at
        for at in range(item, page.ends[item])
        if (url := page.attributes[at].get("href"))
        and (absolute(page.url, url) in wanted if wanted else _is_listing_url(page, url))
    ]
    if not wanted and len({absolute(page.url, page.attributes[at]["href"]) for at in links}) > 1:
        return
    for at in links:
        if at == item:
            yield 0.0, "@href"
        else:
            yield from ((cost, f"{css}@href") for cost, css in field_candidates(page, item, at))


def _is_listing_url(page: PageTree, url: str) -> bool:
    """Return whether a link may lead to a listing: on the same host, and not to the page itself or the home page."""
    try:
        parts, here = urlsplit(absolute(page.url, url)), urlsplit(page.url)
    except ValueError:
        return False
    same_host = (parts.hostname or "").removeprefix("www.") == (here.hostname or "").removeprefix("www.")
    return same_host and parts.scheme in {"http", "https"} and parts.path not in {"", "/", here.path}


def link_candidates(page: PageTree, at: int) -> Iterator[str]:
    """Yield selectors of a link beside the listings, the most stable first."""
    candidates = [*item_candidates(page, at)]
    if label := _label(page.own_text(at)):
        candidates.append((LABEL_COST, f'a:lexbor-contains("{label}")'))
    yield from (f"{css}@href" for _, css in sorted(candidates))


def absolute(page_url: str, url: str) -> str:
    """Return the absolute address of a link; blank if it has none."""
    try:
        return urldefrag(urljoin(page_url, url.strip())).url
    except ValueError:
        return ""


def has_unusual_label(selector: str) -> bool:
    """Return whether a selector names a label that may be a listing's own text.

    >>> has_unusual_label('dt:lexbor-contains("Also known as") + dd'), has_unusual_label('p:lexbor-contains("Widowed")')
    (False, True)
    """
    label = re.search(r':lexbor-contains\("([^"]*)"\)', selector)
    return label is not None and not LABELS.issuperset(words(label[1]))
