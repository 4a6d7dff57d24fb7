"""Text of a web page, and the personal data in it.

Hostile markup can keep a parser busy for minutes or fill the memory: elements nested a hundred thousand deep, a hundred
thousand attributes, hundreds of open formatting elements that are reopened in each paragraph. So the markup is first
rewritten without comments and scripts and its tags are counted; `tree` parses the result if it is small enough.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from exposurekit.service.accounts.subject import Name, Subject
from exposurekit.service.matching.phone_numbers import Phone, phone
from exposurekit.text.us_addresses import address_words, street
from exposurekit.text.words import without_generation, without_umlauts, words

MARKUP_MAX, TEXT_MAX, TITLE_MAX = 2_000_000, 500_000, 300  # characters
TAGS_MAX = 20_000  # parsing time is quadratic in the depth, which is at most this
ATTRIBUTES_MAX = 100  # of one element; the others are dropped
REOPENED_MAX = 600_000  # formatting elements that the parser may have to reopen

_DROPPED = "script|style|xmp|iframe|noembed|noframes|plaintext|template"  # their content is not markup, or not visible
# Possessive quantifiers throughout: no input causes backtracking.
_TAG = re.compile(
    rf"""
    <!--.*?(?:-->|\Z)
    | <({_DROPPED})(?=[\s/>])[^>]*+>.*?(?:</\1(?=[\s/>])[^>]*+>?|\Z)
    | <(title|textarea)(?=[\s/>])[^>]*+>(.*?)(?:</\2(?=[\s/>])[^>]*+>?|\Z)
    | <(/?)([a-z][a-z0-9:-]*+)
      ((?:[\s/]++|[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"?|'[^']*+'?|[^\s>"'][^\s>]*+)?)?)*+)>?
    | <[!?/][^>]*+>?
    | <
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"""([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"?|'([^']*+)'?|([^\s>"'][^\s>]*+))?)?""", re.DOTALL
)
_PLAIN_ATTRIBUTES = re.compile(r"""(?: [a-zA-Z-]++="[^"]*+"){0,8}+""")  # few, written as they are rewritten
_ATTRIBUTE_NAME = re.compile(r"[\w:.@-]+")
_FORMATTING = frozenset({"b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"})
# Only the first is kept: a parser would merge the attributes of later ones into it.
_ROOTS = frozenset({"html", "body"})
_UNUSUAL = re.compile(r"[^\t\n\r\f -~]")  # not plain ASCII text
_HIDDEN = (
    'head, noscript, [hidden], [aria-hidden="true"], [style*="display:none" i], [style*="display: none" i], '
    '[style*="visibility:hidden" i], [style*="visibility: hidden" i]'
)


class _Sanitizer:
    """Rewrites markup and estimates the cost of parsing it."""

    def __init__(self) -> None:
        self.tags = 0
        self.formatting: set[str] = set()
        self.roots: set[str] = set()

    def rewrite(self, match: re.Match[str]) -> str:
        _, title, content, closing, name, attributes = match.groups()
        if title:
            self.tags += 1
            return f"<{title}>{content.replace('<', '&lt;')}</{title}>"
        if not name:
            return "&lt;" if match[0] == "<" else ""
        self.tags += 1
        name = name.lower()
        if closing or self.tags > TAGS_MAX:
            return f"</{name}>"
        if name in _ROOTS and name in self.roots:
            return ""
        self.roots.add(name)
        tag = f"<{name}{_attributes(attributes)}>"
        if name in _FORMATTING:
            self.formatting.add(tag)
        return tag

    def is_affordable(self) -> bool:
        # The parser keeps at most three of the same formatting element open, and may reopen them at any tag.
        return self.tags <= TAGS_MAX and 3 * len(self.formatting) * self.tags <= REOPENED_MAX


def _attributes(source: str) -> str:
    if _PLAIN_ATTRIBUTES.fullmatch(source):
        return source
    attributes: list[str] = []
    for match in _ATTRIBUTE.finditer(source):
        if _ATTRIBUTE_NAME.fullmatch(match[1]):
            value = match[2] or match[3] or match[4] or ""
            attributes.append(f' {match[1]}="{value.replace(chr(34), "&quot;")}"')
        if len(attributes) == ATTRIBUTES_MAX:
            break
    return "".join(attributes)


def tree(markup: str) -> LexborHTMLParser | None:
    """Parse a page without scripts, styles and comments; None if that would cost too much."""
    if len(markup) > MARKUP_MAX:
        return None
    sanitizer = _Sanitizer()
    markup = _TAG.sub(sanitizer.rewrite, markup.replace("\0", ""))
    if not sanitizer.is_affordable():
        return None
    # With events, the parser copies the content of options at quadratic cost.
    return LexborHTMLParser(
        markup.encode("utf-8", "replace").decode(), options=LexborDocumentOptions.WO_EVENTS
    )


def text_of(html: str) -> tuple[str, str]:
    """Return a page's title and visible text, each on one line; both are blank if the page cannot be parsed."""
    page = tree(html)
    return ("", "") if page is None else title_and_text(page)


def title_and_text(page: LexborHTMLParser) -> tuple[str, str]:
    """Return the title and the visible text of a parsed page; this deletes its hidden elements."""
    title = page.css_first("title")
    title_text = title.text() if title else ""
    for node in reversed(page.css(_HIDDEN)):  # inner ones first: an outer one deletes them too
        node.decompose()
    text = page.body.text(separator=" ") if page.body else ""
    return one_line(title_text, TITLE_MAX), one_line(text, TEXT_MAX)


def contains_mark(text: str, marks: Sequence[str]) -> bool:
    """Return whether a text, as `squeezed`, contains one of a definition's marks."""
    return any(mark in text for mark in map(squeezed, marks) if mark)


def squeezed(text: str) -> str:
    """Lower the case and remove white space, which sites and JSON vary."""
    return "".join(text.split()).casefold()


def one_line(text: str, max_length: int) -> str:
    r"""Collapse white space, remove control characters and truncate.

    >>> one_line(" Juniper\x00\n\u202e Quillfeather", 20)
    'Juniper Quillfeather'
    """
    # Twice the length, because collapsing white space shortens the text.
    text = _UNUSUAL.sub(_printable, text[: 2 * max_length])
    return " ".join(text.split())[:max_length].rstrip()


def _printable(match: re.Match[str]) -> str:
    # Controls, text directions, soft hyphens and lone surrogates.
    return "" if unicodedata.category(match[0]) in {"Cc", "Cf", "Cs"} else match[0]


def kinds_in(subject: Subject, text: str) -> tuple[str, ...]:
    """Return which kinds of the person's data a text contains, in the specification's words: email, address, phone.

    A town alone does not count as an address.
    """
    text = _normalize(text)
    contained = {
        "email": _contains_email(subject, text),
        "address": _contains_street(subject, text),
        "phone": any(
            _phone_pattern(number).search(text) for raw in subject.phone_numbers if (number := phone(raw))
        ),
    }
    return tuple(kind for kind, is_contained in contained.items() if is_contained)


def _normalize(text: str) -> str:
    """Replace wide digits and ligatures by plain characters; one can become eighteen, hence the second limit."""
    return unicodedata.normalize("NFKC", text[:TEXT_MAX])[:TEXT_MAX]


def _contains_email(subject: Subject, text: str) -> bool:
    text = text.casefold()
    addresses = [address.strip().casefold() for address in subject.emails]
    return any(
        re.search(rf"(?<![\w.+-]){re.escape(address)}(?![\w-]|\.\w)", text)
        for address in addresses
        if address
    )


def _contains_street(subject: Subject, text: str) -> bool:
    normalized = f" {' '.join(address_words(text))} "
    lines = [street(place.address1) for place in subject.places]
    return any(f" {line} " in normalized for line in lines if line)


def _phone_pattern(number: Phone) -> re.Pattern[str]:
    gap = r"[\s().\u2010-\u2015/-]{0,3}"
    digits = gap.join(number.national)
    return re.compile(rf"(?<!\d)(?:(?:\+|00)?{number.country}{gap}(?:\(?0\)?{gap})?|0)?\(?{digits}(?!\d)")


def mentions(subject: Subject, text: str) -> bool:
    """Return whether a text contains one of the person's names: first and last name, at most two words apart.

    The generation need not be there. Umlauts may be spelled without, as Mueller for Müller.
    """
    without_genitive = re.sub("['\u2019]s\\b", "", _normalize(text), flags=re.IGNORECASE)
    texts = [
        f" {' '.join(words(way))} "
        for way in dict.fromkeys((without_genitive, without_umlauts(without_genitive)))
    ]
    return any(pattern.search(one) for pattern in _name_patterns(subject.names) for one in texts)


def _name_patterns(names: Sequence[Name]) -> Iterator[re.Pattern[str]]:
    for name in names:
        first, last = name.first, without_generation(name.last)
        for ways in dict.fromkeys(((first, last), (without_umlauts(first), without_umlauts(last)))):
            if all(map(words, ways)):
                yield _name_pattern(*ways)


def _name_pattern(first: str, last: str) -> re.Pattern[str]:
    first, last = re.escape(" ".join(words(first))), re.escape(" ".join(words(last)))
    return re.compile(rf" {first} (?:\S+ ){{0,2}}{last} | {last} {first} ")
