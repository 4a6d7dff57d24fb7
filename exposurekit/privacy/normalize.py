"""Normalise text for comparison: decode it, and fold case, accents, invisible and look-alike characters."""

import binascii
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from exposurekit.text.sanitize import unescaped
from exposurekit.text.us_addresses import SHORT, STATES
from exposurekit.text.words import LATIN_TO_ASCII

_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"<[^<>]*>")
_ESCAPE = re.compile(
    r"(?:\\|%)u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\u\{([0-9a-fA-F]{1,6})\}|\\([/\"'\\bfnrt])"
)
_NESTED = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")  # a URL within a URL is encoded twice, or more often
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}
_BASE64 = re.compile(r"[A-Za-z0-9+/]{12,}={0,2}|[A-Za-z0-9_-]{12,}={0,2}")
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_INVISIBLE = frozenset("\u115f\u1160")  # blank letters of Hangul; normalization maps the others to these
# Letters of Cyrillic and Greek that look like Latin ones.
_LOOKALIKES = dict(zip("авекмнорстухѕіјԁһԛԝαενικορτυχγ", "abekmhopctyxsijdhqwaevikoptuxy", strict=True))
_TO_ASCII = str.maketrans(LATIN_TO_ASCII | _LOOKALIKES)
_STATES = {tuple(name.casefold().split()): short.casefold() for short, name in STATES.items()}


@dataclass(frozen=True, slots=True)
class Word:
    """A normalised word, whether it is capitalised, and the text between it and the word before."""

    text: str
    is_capital: bool
    gap: str


def readings(text: str) -> Iterator[str]:
    """Yield the decodings of a text: plain, of URLs within URLs, with tags replaced or removed, and of base64 inside it."""
    plain = decoded(text)
    nested = unquote(_NESTED.sub("%", plain)) if "%" in plain else plain
    for reading in dict.fromkeys((plain, nested)):
        yield reading
        if "<" in reading:
            yield from (_TAG.sub(" ", reading), _TAG.sub("", reading))
    yield from _base64_texts(text)


def decoded(text: str) -> str:
    """Decode HTML entities, JSON and JavaScript escapes, and URL encoding."""
    if "&" in text:
        text = unescaped(text)
    if "\\" in text or "%u" in text:
        text = _ESCAPE.sub(_unescape, text)
    return unquote(text) if "%" in text else text


def words(text: str) -> tuple[str, ...]:
    """Split a text into normalised words."""
    if text.isascii():
        return tuple(_WORD.findall(text.lower()))
    return tuple(map(_folded, _WORD.findall(_visible(text))))


def spans(text: str) -> tuple[Word, ...]:
    """Split a text into normalised words, with capitalisation and gaps."""
    visible, end, spanned = _visible(text), 0, []
    for match in _WORD.finditer(visible):
        is_capital = match[0][0].isupper() or not (match[0][0].islower() or match[0].isdecimal())
        spanned.append(Word(_folded(match[0]), is_capital, visible[end : match.start()]))
        end = match.end()
    return tuple(spanned)


def canonical(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Abbreviate the words of addresses, and drop the "at" and "dot" of spelled-out email addresses."""
    return abbreviated(with_state_codes(tokens))


def abbreviated(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Abbreviate the words of streets and towns; states have their codes already."""
    return tuple(SHORT.get(token, token) for token in tokens)


def with_state_codes(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the names of states by their codes, and drop "at" and "dot"."""
    short: list[str] = []
    for token in tokens:
        if token in ("at", "dot"):
            continue
        short.append(token)
        for length in (3, 2, 1):
            if state := _STATES.get(tuple(short[-length:])):
                short[-length:] = [state]
                break
    return tuple(short)


def ascii_digits(text: str) -> str:
    """Convert digits to ASCII and remove invisible characters."""
    return text if text.isascii() else _NON_ASCII.sub(lambda match: _in_ascii_digits(match[0]), text)


def _unescape(escape: "re.Match[str]") -> str:
    *codes, control = escape.groups()
    if control:
        return _CONTROLS.get(control, control)
    code = int(next(filter(None, codes)), 16)
    return chr(code) if code <= 0x10FFFF else ""  # noqa: PLR2004  the last code point


def _base64_texts(text: str) -> Iterator[str]:
    for run in _BASE64.findall(text):
        bare = run.rstrip("=").replace("-", "+").replace("_", "/")
        # A URL path before it consists of the same characters.
        for part in {bare, bare.rpartition("/")[2]}:
            try:
                plain = binascii.a2b_base64(part + "=" * (-len(part) % 4)).decode()
            except ValueError:
                continue
            if plain.isprintable():  # excludes the binary numbers of a chart
                yield plain


def _visible(text: str) -> str:
    return text if text.isascii() else _NON_ASCII.sub(lambda match: _without_marks(match[0]), text)


def _without_marks(text: str) -> str:
    parts = (sign for sign in unicodedata.normalize("NFKD", text) if sign not in _INVISIBLE)
    return "".join(sign for sign in parts if unicodedata.category(sign) not in ("Mn", "Mc", "Cf"))


def _folded(word: str) -> str:
    return word.lower() if word.isascii() else word.casefold().translate(_TO_ASCII)


def _in_ascii_digits(text: str) -> str:
    parts = (sign for sign in unicodedata.normalize("NFKC", text) if unicodedata.category(sign) != "Cf")
    return "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in parts)
