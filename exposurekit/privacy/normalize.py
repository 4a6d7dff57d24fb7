"""The ways in which a text may be read: what is written inside it, and its words without disguise. Looks for nothing."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote_plus

from exposurekit.text.sanitize import unescaped
from exposurekit.text.us_addresses import LATIN_TO_ASCII

DEEP = 4  # so often is something written inside something else

_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"<[^<>]*>")
_BROKEN = re.compile(r"(?<=[^\W\d_])[-\u2010]\s*(?=[^\W\d_])")  # a word at the end of a line
_TAGGED = re.compile(r"\+[\w.-]*@")  # one+shop@mail.example is one@mail.example
_ESCAPE = re.compile(
    r"\\u\{([0-9a-fA-F]{1,6})\}|(?:\\|%)u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\x([0-9a-fA-F]{2})"
    r"|\\([0-9a-fA-F]{6})\s?|\\([0-7]{3})|\\([/\"'\\bfnrt])"
)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}
_QUOTED = re.compile(r"(?:=[0-9A-F]{2}){3,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_BASE32 = re.compile(r"[A-Z2-7]{16,}")
_HEX = re.compile(r"[0-9a-fA-F]{12,}|(?:[0-9a-fA-F]{2}[ :]){5,}[0-9a-fA-F]{2}")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")  # the rest is as it is, and by far the most
_NOT_READ = frozenset(("Mn", "Mc", "Cf"))
_UNSEEN = frozenset(
    "\u115f\u1160"
)  # letters of Hangul that are blank; others of the kind come to be one of these
# Letters of Cyrillic and Greek that pass for others.
_PASSING = dict(zip("авекмнорстухѕіјԁһԛԝαενικορτυχγ", "abekmhopctyxsijdhqwaevikoptuxy", strict=True))
_PLAIN = str.maketrans(LATIN_TO_ASCII | _PASSING)


def readings(text: str) -> Iterator[str]:
    """A text in each way: as it stands, unescaped and unpacked; with tags between words, or within; and with broken words whole.

    >>> from exposurekit.privacy.normalize import readings
    >>> "Ada Quill" in set(readings("%41da <b>Qu</b>ill"))
    True
    """
    for view in _views(text):
        apart = _TAG.sub(" ", view)
        yield from {view, apart, _TAG.sub("", view), _TAGGED.sub("@", _BROKEN.sub("", apart))}


def lines(text: str) -> list[str]:
    """A page as somebody reads it, line by line: where a tag stands, one ends.

    >>> from exposurekit.privacy.normalize import lines
    >>> lines("<h2>Open &amp; listed</h2>")[1]
    'Open & listed'
    """
    return _TAG.sub("\n", unescaped(text)).splitlines()


def words(text: str) -> tuple[str, ...]:
    """Words as they are compared: without case, accents, what cannot be seen, and letters that pass for others.

    >>> from exposurekit.privacy.normalize import words
    >>> words("Łucja_O'Quill") == words("lucja o\u2019quill")
    True
    """
    plain = text if text.isascii() else _FOREIGN.sub(lambda match: _undisguised(match[0]), text)
    return tuple(_WORD.findall(plain.casefold()))


def figures(text: str) -> str:
    """A text whose digits are ASCII's, of whatever script they are, and nothing between them unseen.

    >>> from exposurekit.privacy.normalize import figures
    >>> figures("\u0664\u0661\u0665\u200b555")
    '415555'
    """
    return text if text.isascii() else _FOREIGN.sub(lambda match: _in_ascii_digits(match[0]), text)


def _views(text: str) -> Iterator[str]:
    """The text, and what is written in it: escaped for HTML, JSON, CSS, mail or an address, in base64 or in hexadecimal."""
    visited, waiting = set(), [(text, 0)]
    while waiting:
        view, depth = waiting.pop()
        if view in visited:
            continue
        visited.add(view)
        yield view
        if depth < DEEP:
            waiting += [(inside, depth + 1) for inside in _inside(view)]


def _inside(view: str) -> Iterator[str]:
    yield unescaped(view)
    yield _ESCAPE.sub(_meant, view)
    yield unquote_plus(view)
    yield _QUOTED.sub(lambda match: bytes.fromhex(match[0].replace("=", "")).decode("utf-8", "ignore"), view)
    for match in (_base64s(view), _base32s(view), _hexes(view)):
        if texts := [plain for packed in match if (plain := _readable(packed))]:
            yield "\n".join(texts)


def _meant(escape: "re.Match[str]") -> str:
    *hexes, octal, control = escape.groups()
    if control:
        return _CONTROLS.get(control, control)
    code = int(octal, 8) if octal else int(next(filter(None, hexes)), 16)
    return chr(code) if code <= 0x10FFFF else ""  # noqa: PLR2004  the last of Unicode's


def _base64s(view: str) -> Iterator[bytes]:
    for run in _BASE64.findall(view):
        bare = run.rstrip("=").replace("-", "+").replace("_", "/")
        # What stands before it in a path is of the same letters: it may begin with any of four.
        for begin in range(4 if {"/", "+"} & {*bare} else 1):
            rest = bare[begin:]
            try:
                yield binascii.a2b_base64(rest[: len(rest) - (len(rest) % 4 == 1)] + "=" * (-len(rest) % 4))
            except (binascii.Error, ValueError):
                continue


def _base32s(view: str) -> Iterator[bytes]:
    for run in _BASE32.findall(view):
        try:
            yield base64.b32decode(run + "=" * (-len(run) % 8))
        except binascii.Error:
            continue


def _hexes(view: str) -> Iterator[bytes]:
    for run in _HEX.findall(view):
        bare = re.sub("[ :]", "", run)
        for begin in (0, 1):
            rest = bare[begin:]
            yield bytes.fromhex(rest[: len(rest) // 2 * 2])


def _readable(packed: bytes) -> str:
    """What of it is text; numbers of a chart are not."""
    text = packed.replace(b"\0", b"").decode("utf-8", "ignore")
    printable = sum(character.isprintable() or character.isspace() for character in text)
    return text if text and printable > len(packed) / 4 else ""


def _undisguised(signs: str) -> str:
    parts = (one for one in unicodedata.normalize("NFKD", signs) if one not in _UNSEEN)
    return (
        "".join(one for one in parts if unicodedata.category(one) not in _NOT_READ)
        .casefold()
        .translate(_PLAIN)
    )


def _in_ascii_digits(signs: str) -> str:
    parts = (one for one in unicodedata.normalize("NFKC", signs) if unicodedata.category(one) != "Cf")
    return "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in parts)
