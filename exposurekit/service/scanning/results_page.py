"""Marks of a page of results: the text that says that nobody is listed, and the link to the next page."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from urllib.parse import parse_qsl, urljoin, urlsplit

from exposurekit.service.scanning.field_selectors import is_personal
from exposurekit.service.scanning.html_text import squeezed
from exposurekit.service.scanning.page_tree import PageTree
from exposurekit.service.scanning.page_words import COMMON, NEGATIONS, RESULTS
from exposurekit.service.scanning.selector_candidates import link_candidates
from exposurekit.service.sites.selectors import selector_parts
from exposurekit.text.words import words

_MARK_MIN, _MARK_WORDS_MAX = 8, 12  # letters and words of a text that says that nobody is listed
_SENTENCE = re.compile(r"[^.!?;:\u2026|\u2022]+")
_NEXT = re.compile(
    r"(?i)(?:(?:next|older|more|show more)(?: (?:page|results|notices|listings|records))?)?[\s>\u203a\u00bb\u2192]*"
)


# --- nobody of that name ----------------------------------------------------------------------------------


def no_results_mark(
    present: Iterable[str],
    listed_texts: Sequence[str],
    absent_texts: Sequence[str],
    pages: Sequence[PageTree],
    personal: frozenset[str],
) -> str | None:
    """Return the text that says that nobody is listed: the present one if it still does; None if there is none.

    Args:
        present: The definition's texts.
        listed_texts: The visible texts of pages with listings.
        absent_texts: Those of pages without one.
        pages: The pages without a listing.
        personal: The words of the listed people's values, which the text does not contain.
    """
    listed, absent = [*map(squeezed, listed_texts)], [*map(squeezed, absent_texts)]

    def is_telling(mark: str) -> bool:
        mark = squeezed(mark)
        return all(mark in text for text in absent) and not any(mark in text for text in listed)

    if (current := next(filter(is_telling, present), None)) is not None:
        return current
    query_words = {word for page in pages for word in _query_words(page)}
    specific = personal.union(query_words) - COMMON - NEGATIONS
    page = pages[0]
    texts = dict.fromkeys(text for at in page.short for text in (page.own_text(at), page.short[at]) if text)
    marks = dict.fromkeys(mark for text in texts for mark in _marks(text, specific) if is_telling(mark))
    return min(marks, key=lambda mark: (RESULTS.isdisjoint(words(mark)), len(mark)), default=None)


def _query_words(page: PageTree) -> Iterator[str]:
    """Yield the words of what was searched for: in the page's address and in its search fields."""
    parts = urlsplit(page.url)
    with suppress(ValueError):  # too many
        for _, value in parse_qsl(parts.query, max_num_fields=100):
            yield from words(value)
    yield from words(parts.path)
    for at in page.css("input"):
        if page.attributes[at].get("type", "text").lower() in {"text", "search"}:
            yield from words(page.attributes[at].get("value", ""))


def _marks(text: str, specific: frozenset[str]) -> Iterator[str]:
    """Yield the parts of a text that say that nobody is listed, without the searched name, numbers and quotations."""
    for sentence in _SENTENCE.findall(text):
        run: list[str] = []
        for at, word in enumerate([*sentence.split(), None]):
            if word is not None and not _is_specific(word, specific, is_first=at == 0):
                run.append(word)
                continue
            mark = " ".join(run).strip(" ,-\u2013\u2014")
            run = []
            if _is_mark(mark):
                yield mark


def _is_specific(word: str, specific: frozenset[str], *, is_first: bool) -> bool:
    """Return whether a word is of this search alone: of its name, a number, or a name in the middle of a sentence."""
    parts = words(word)
    is_name = word[:1].isupper() and not is_first and not COMMON.union(NEGATIONS).issuperset(parts)
    is_quoted = bool(re.search('["\u201c\u201d\u00ab\u00bb]', word))
    return is_name or is_quoted or any(map(str.isdigit, word)) or not specific.isdisjoint(parts)


def _is_mark(text: str) -> bool:
    parts = words(text)
    return (
        len(squeezed(text)) >= _MARK_MIN
        and 2 <= len(parts) <= _MARK_WORDS_MAX  # noqa: PLR2004  a sentence
        and not NEGATIONS.isdisjoint(parts)
    )


# --- the next page ----------------------------------------------------------------------------------------


def next_links(page: PageTree, items: Iterable[str]) -> list[int]:
    """Return the links of a page that say that they lead to the next one; a link in a listing does not count."""
    listings = [item for one in items for item in page.css(one)]
    return [
        at
        for at in page.css("a")
        if _is_next(page, at) and not any(page.contains(item, at) for item in listings)
    ]


def next_selector(links: Mapping[PageTree, Sequence[int]], personal: frozenset[str]) -> str | None:
    """Return the selector of exactly these links, by page, perhaps none of a page, without personal words; or None."""
    page, at = next((page, numbers[0]) for page, numbers in links.items() if numbers)
    hrefs = {one: {one.attributes[number]["href"] for number in numbers} for one, numbers in links.items()}
    return next(
        (
            selector
            for selector in link_candidates(page, at)
            if not is_personal(selector, personal)
            and all({*extracted(one, selector)} == wanted for one, wanted in hrefs.items())
        ),
        None,
    )


def extracted(page: PageTree, selector: str) -> list[str]:
    """Return what a selector with an attribute extracts from a page."""
    css, attribute = selector_parts(selector)
    return [value for at in page.css(css) if (value := page.attributes[at].get(attribute or "", ""))]


def _is_next(page: PageTree, at: int) -> bool:
    href = page.attributes[at].get("href", "")
    try:
        target, here = urlsplit(urljoin(page.url, href)), urlsplit(page.url)
    except ValueError:
        return False
    is_beside = target.netloc == here.netloc and target.path.startswith(here.path.rstrip("/"))
    if not href or not is_beside or target.geturl() == here.geturl():
        return False
    text = (page.short.get(at) or page.attributes[at].get("aria-label", "")).strip()
    return "next" in page.attributes[at].get("rel", "").split() or bool(text and _NEXT.fullmatch(text))
