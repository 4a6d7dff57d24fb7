"""Whether a text tells what is known of somebody, however it is written there. Tells what kind and how often, never what."""

import binascii
import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date, datetime
from urllib.parse import unquote_plus

from exposurekit.markup import unescaped

DEEP = 4  # so often is something written inside something else
LETTERS_TOLD = 6  # what is shorter stands in any text
DIGITS_TOLD = 8  # of a number alone, the same
LETTERS_OF_MAIL = 4
LETTERS_JOINED = 8  # of a name without its space
PHONE_DIGITS = 10

_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"<[^<>]*>")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([/\"'\\bfnrt]))")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){6,}")
_DIGITS = re.compile(r"\d[\d\s().+/\u2010-\u2015-]{5,24}\d")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d(?::?\d\d)*(?:\.\d+)?)?")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": " ", "f": " "}
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_LOCAL = re.compile(
    r"(?<!\d)(?<!\d[\s.\u2010-\u2015)-])(?<!\)\s)(\d{3})[\s.\u2010-\u2015-](\d{4})(?!\d)"
)  # a phone number without its area
_Words = tuple[str, ...]


class Known:
    """What is known of people, to be looked for; shows none of it.

    Args:
        within: The one short text that it will be looked for in; None: any. What cannot stand there is not kept.

    >>> from exposurekit.leaks import Known
    >>> known = Known()
    >>> known.add_name("Ada", "Quill")
    >>> known.found_in("the listing of quill, ada"), known.found_in("ada%20QUILL"), known.found_in("a quill")
    (Counter({'name': 1}), Counter({'name': 1}), Counter())
    """

    def __init__(self, within: str | None = None) -> None:
        self._within = None if within is None else {word for view in _views(within) for word in _words(view)}
        self._words: dict[str, set[_Words]] = defaultdict(set)  # by the first of them
        self._kinds: dict[_Words, str] = {}
        self._names: set[tuple[str, str]] = set()
        self._run_on: set[str] = set()  # names in scripts that put no space between words
        self._phones: set[str] = set()

    def __repr__(self) -> str:
        return f"Known({len(self):,} ways to write what is known)"

    def __len__(self) -> int:
        return len(self._kinds) + len(self._names) + len(self._run_on) + len(self._phones)

    def add(self, kind: str, value: object) -> None:
        """A value as it stands: an e-mail address, a street, a URL, a key. What is short stands anywhere, and is not looked for."""
        self._look_for(kind, _words(str(value)))

    def add_name(self, first: object, last: object) -> None:
        """A name, in both orders, with or without a word between, and run together; its parts may have several words."""
        given, family = _words(_text(first)), _words(_text(last))
        if not given or not family:
            return
        for one, other in itertools.product({given[0], given[-1]}, {family[0], family[-1]}):
            self._names |= {(one, other), (other, one)}
        for words in (given + family, family + given):
            joined = "".join(words)
            if len(words) > 2:  # noqa: PLR2004  two are a pair
                self._look_for("name", words)
            if len(joined) >= LETTERS_JOINED:
                self._look_for("name", (joined,))
            elif not _is_latin(joined):
                self._run_on.add(joined)

    def add_full_name(self, name: object) -> None:
        """A name as one text: all of it, and its first word with its last one."""
        words = _words(_text(name))
        if len(words) > 1:
            self.add_name(words[0], words[-1])
            if len(words) > 2:  # noqa: PLR2004  as above
                self._look_for("name", words)
        elif words and not _is_latin(words[0]):
            self._run_on.add(words[0])

    def add_phone(self, number: object) -> None:
        """A phone number, with or without its country, written anyhow."""
        digits = re.sub(r"\D", "", _text(number))
        if len(digits) >= PHONE_DIGITS:
            self._phones |= {digits[-PHONE_DIGITS:], digits[-7:]}

    def add_birth_date(self, born: date) -> None:
        """A day of birth, as it is written here and there, and as the service writes it."""
        year, month, day = f"{born:%Y}", f"{born:%m}", f"{born:%d}"
        short = (str(born.month), str(born.day))
        self._look_for("birth date", (f"{year}{month}{day}",))
        for one, other in ((month, day), short):
            for words in ((year, one, other), (one, other, year), (other, one, year)):
                self._look_for("birth date", words)
        name = _MONTHS[born.month - 1]
        for spelled in (name, name[:3]):
            for one in {day, short[1]}:
                for words in ((spelled, one, year), (one, spelled, year)):
                    self._look_for("birth date", words)
        seconds = int((datetime(born.year, born.month, born.day) - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001
        self._look_for("birth date", (str(abs(seconds)),))

    def forget(self, text: str) -> None:
        """Look no more for what stands in a text that is about nobody: somebody may call a page as a heading is called.

        >>> known = Known()
        >>> known.add("title of a page", "Open listings"); known.forget("<h2>Open listings</h2>"); len(known)
        0
        """
        for line in _TAG.sub("\n", unescaped(text)).splitlines():  # what stands in two lines is no name
            words = _words(line)
            for place, word in enumerate(words):
                for value in [*self._words.get(word, ())]:
                    if words[place : place + len(value)] == value:
                        self._words[word].discard(value)
                        self._kinds.pop(value, None)
            self._names -= {*itertools.pairwise(words)}

    def found_in(self, text: str) -> "Counter[str]":
        """How often each kind of value stands in a text, in any of the ways it may be written there."""
        most: Counter[str] = Counter()
        for view in _views(text):
            for reading in {view, _TAG.sub(" ", view), _TAG.sub("", view)}:
                most |= self._in_words(_words(reading)) | self._in_digits(reading)
        return most

    def _look_for(self, kind: str, words: _Words) -> None:
        letters = "".join(words)
        least = LETTERS_OF_MAIL if kind == "e-mail" and len(words) > 2 else LETTERS_TOLD  # noqa: PLR2004  a@b.c
        if len(letters) < least or (len(words) == 1 and letters.isdigit() and len(letters) < DIGITS_TOLD):
            return
        if self._within is not None and words[0] not in self._within:
            return
        self._words[words[0]].add(words)
        self._kinds[words] = kind

    def _in_words(self, words: _Words) -> "Counter[str]":
        found = Counter({"name": self._named_in(words) + self._run_on_in(words)})
        if self._words.keys().isdisjoint(words):
            return +found
        for place, word in enumerate(words):
            for value in self._words.get(word, ()):
                if words[place : place + len(value)] == value:
                    found[self._kinds[value]] += 1
        return +found

    def _named_in(self, words: _Words) -> int:
        pairs = itertools.chain(itertools.pairwise(words), zip(words, words[2:], strict=False))
        return sum(pair in self._names for pair in pairs) if self._names else 0

    def _run_on_in(self, words: _Words) -> int:
        if not self._run_on:
            return 0
        return sum(name in word for word in words if not word.isascii() for name in self._run_on)

    def _in_digits(self, text: str) -> "Counter[str]":
        if not self._phones:
            return Counter()
        plain = unicodedata.normalize("NFKC", _INSTANT.sub(" ", text))
        runs = (re.sub(r"\D", "", run) for run in _DIGITS.findall(plain))
        whole = (run[at : at + PHONE_DIGITS] for run in runs for at in range(len(run) - PHONE_DIGITS + 1))
        parts = itertools.chain(whole, map("".join, _LOCAL.findall(plain)))
        return Counter({"phone": many} if (many := sum(part in self._phones for part in parts)) else {})


def _views(text: str) -> Iterator[str]:
    """The text, and what is written in it: escaped for HTML, JSON or an address, in base64 or in hexadecimal."""
    seen, waiting = set(), [(text, 0)]
    while waiting:
        view, depth = waiting.pop()
        if view in seen:
            continue
        seen.add(view)
        yield view
        if depth < DEEP:
            waiting += [(inside, depth + 1) for inside in _inside(view)]


def _inside(view: str) -> Iterator[str]:
    yield unescaped(view)
    yield _ESCAPE.sub(_meant, view)
    yield unquote_plus(view)
    yield from _packed(view)


def _meant(escape: "re.Match[str]") -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _CONTROLS.get(escape[3], escape[3])


def _packed(view: str) -> Iterator[str]:
    """All that is packed in the view, as one text each way."""
    base64s = (_from_base64(run) for run in _BASE64.findall(view))
    hexes = (bytes.fromhex(run) for run in _HEX.findall(view))
    for packed in (base64s, hexes):
        if texts := [text for one in packed if (text := _readable(one))]:
            yield "\n".join(texts)


def _from_base64(run: str) -> bytes:
    bare = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(bare[: len(bare) - (len(bare) % 4 == 1)] + "=" * (-len(bare) % 4))
    except (binascii.Error, ValueError):
        return b""


def _readable(packed: bytes) -> str:
    """What of it is text; numbers of a chart are not."""
    text = packed.replace(b"\0", b"").decode("utf-8", "ignore")
    printable = sum(character.isprintable() or character.isspace() for character in text)
    return text if text and printable > len(packed) / 4 else ""


def _words(text: str) -> _Words:
    """Words as they are compared: without case, accents and what cannot be seen."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(one for one in parts if unicodedata.category(one) not in {"Mn", "Mc", "Cf"})
    return tuple(_WORD.findall(text.casefold()))


def _is_latin(word: str) -> bool:
    return all(one.isascii() or "LATIN" in unicodedata.name(one, "") for one in word)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
