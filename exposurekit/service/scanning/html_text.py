"""What a web page holds: its markup read without harm, its text, and what of a person's own data stands in it.

Follows no link, runs no script, and keeps nothing of the person.

Markup from outside can make a parser work for minutes or fill the memory: elements nested a hundred thousand deep, a
hundred thousand attributes, a few hundred formatting elements left open that are made anew in each paragraph. So the
text is taken apart first and put together again from the tags alone that are counted, without comments and scripts;
`tree` parses that, or nothing.
"""

import re
import unicodedata

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from exposurekit.service.accounts.subject import Name, Subject
from exposurekit.service.scanning.normalize import Phone, address_words, phone, street, words

MARKUP_MAX, TEXT_MAX, TITLE_MAX = 2_000_000, 500_000, 300  # characters
TAGS_MAX = 20_000  # the parser's work grows with the square of the depth, which is at most this
ATTRIBUTES_MAX = 100  # of one element; the rest is left out
REMADE_MAX = 600_000  # elements that open formatting can be made into

_DROPPED = (
    "script|style|xmp|iframe|noembed|noframes|plaintext|template"  # their content is no markup, or not shown
)
# Possessive throughout: no text makes it try twice.
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
_PLAIN = re.compile(r"[\w:.@-]+")
_FORMATTING = frozenset({"b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"})
_ROOTS = frozenset({"html", "body"})  # there is one of each: what later ones bear is added to it
_HIDDEN = (
    'head, noscript, [hidden], [aria-hidden="true"], [style*="display:none" i], [style*="display: none" i], '
    '[style*="visibility:hidden" i], [style*="visibility: hidden" i]'
)


class _Rewriting:
    """Markup put together again, with what it will cost to parse."""

    def __init__(self) -> None:
        self.tags = 0
        self.formatting: set[str] = set()
        self.roots: set[str] = set()

    def piece(self, found: re.Match[str]) -> str:
        _, title, content, closing, name, attributes = found.groups()
        if title:
            self.tags += 1
            return f"<{title}>{content.replace('<', '&lt;')}</{title}>"
        if not name:
            return "&lt;" if found[0] == "<" else ""
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

    def bearable(self) -> bool:
        # The parser keeps at most three of the same formatting element open, and makes them anew at any tag.
        return self.tags <= TAGS_MAX and 3 * len(self.formatting) * self.tags <= REMADE_MAX


def _attributes(told: str) -> str:
    kept: list[str] = []
    for found in _ATTRIBUTE.finditer(told):
        if _PLAIN.fullmatch(found[1]):
            value = found[2] or found[3] or found[4] or ""
            kept.append(f' {found[1]}="{value.replace(chr(34), "&quot;")}"')
        if len(kept) == ATTRIBUTES_MAX:
            break
    return "".join(kept)


def tree(markup: str) -> LexborHTMLParser | None:
    """The elements of a page, without scripts, styles and comments; None where reading it would take too much.

    >>> tree("<p>Juniper<script>nobody()</script>").body.html
    '<body><p>Juniper</p></body>'
    >>> tree("<div>" * 100_000) is None
    True
    """
    if len(markup) > MARKUP_MAX:
        return None
    rewriting = _Rewriting()
    markup = _TAG.sub(rewriting.piece, markup.replace("\0", ""))
    if not rewriting.bearable():
        return None
    # Events would copy options about, at a cost that grows with their square.
    return LexborHTMLParser(
        markup.encode("utf-8", "replace").decode(), options=LexborDocumentOptions.WO_EVENTS
    )


def text_of(html: str) -> tuple[str, str]:
    """A page's title and its visible text, each on one line; both blank where the page cannot be read.

    >>> text_of("<title>Staff</title><h1>Juniper</h1><p hidden>not seen</p><p>Oakmere")
    ('Staff', 'Juniper Oakmere')
    """
    page = tree(html)
    return ("", "") if page is None else shown_in(page)


def shown_in(page: LexborHTMLParser) -> tuple[str, str]:
    """The title and the visible text of a page that is parsed; what is hidden is taken out of it."""
    title = page.css_first("title")
    told = title.text() if title else ""
    for node in reversed(page.css(_HIDDEN)):  # the inner ones first: a node taken out takes them with it
        node.decompose()
    text = page.body.text(separator=" ") if page.body else ""
    return one_line(told, TITLE_MAX), one_line(text, TEXT_MAX)


def one_line(text: str, longest: int) -> str:
    r"""Text with its spaces collapsed and without control characters, no longer than this.

    >>> one_line(" Juniper\x00\n\u202e Quillfeather", 20)
    'Juniper Quillfeather'
    """
    # Twice as much is read as is wanted: blanks fall away.
    text = "".join(_shown(sign) for sign in text[: 2 * longest])
    return " ".join(text.split())[:longest].rstrip()


def _shown(sign: str) -> str:
    if sign.isascii():
        return sign if sign.isprintable() or sign in "\t\n\r\f" else ""
    # Controls, directions and halves of surrogate pairs; soft hyphens too.
    return "" if unicodedata.category(sign) in {"Cc", "Cf", "Cs"} else sign


def kinds_in(subject: Subject, text: str) -> tuple[str, ...]:
    """The kinds of the person's own data in a text, by the specification's names: email, address, phone.

    A town alone is no address.

    >>> from exposurekit.service.accounts.subject import Place
    >>> juniper = Subject(names=(), phone_numbers=("6095550123",), places=(Place("12 Acorn Street"),))
    >>> kinds_in(juniper, "Call (609) 555-0123, or come to 12 ACORN ST.")
    ('address', 'phone')
    """
    text = _in_plain_letters(text)
    found = {
        "email": _email_in(subject, text),
        "address": _street_in(subject, text),
        "phone": any(_number(number).search(text) for raw in subject.phone_numbers if (number := phone(raw))),
    }
    return tuple(kind for kind, there in found.items() if there)


def _in_plain_letters(text: str) -> str:
    """Wide digits and ligatures as plain ones; one sign can stand for eighteen, so it is cut once more."""
    return unicodedata.normalize("NFKC", text[:TEXT_MAX])[:TEXT_MAX]


def _email_in(subject: Subject, text: str) -> bool:
    text = text.casefold()
    addresses = [address.strip().casefold() for address in subject.emails]
    return any(
        re.search(rf"(?<![\w.+-]){re.escape(address)}(?![\w-]|\.\w)", text)
        for address in addresses
        if address
    )


def _street_in(subject: Subject, text: str) -> bool:
    spelled = f" {' '.join(address_words(text))} "
    lines = [street(place.address1) for place in subject.places]
    return any(f" {line} " in spelled for line in lines if line)


def _number(number: Phone) -> re.Pattern[str]:
    gap = r"[\s().\u2010-\u2015/-]{0,3}"
    digits = gap.join(number.national)
    return re.compile(rf"(?<!\d)(?:(?:\+|00)?{number.country}{gap}(?:\(?0\)?{gap})?|0)?\(?{digits}(?!\d)")


def mentions(subject: Subject, text: str) -> bool:
    """Whether one of the person's names stands in a text: first and last name with at most two words between.

    >>> juniper = Subject(names=(Name("Juniper", "Quillfeather"),))
    >>> mentions(juniper, "QUILLFEATHER, Juniper M."), mentions(juniper, "Juniper trees drop a quillfeather")
    (True, False)
    """
    told = re.sub("['\u2019]s\\b", "", _in_plain_letters(text), flags=re.IGNORECASE)
    spelled = f" {' '.join(words(told))} "
    return any(
        _name(name).search(spelled) for name in subject.names if words(name.first) and words(name.last)
    )


def _name(name: Name) -> re.Pattern[str]:
    first, last = re.escape(" ".join(words(name.first))), re.escape(" ".join(words(name.last)))
    return re.compile(rf" {first} (?:\S+ ){{0,2}}{last} | {last} {first} ")
