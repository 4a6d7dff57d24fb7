"""Search texts for personal values in any spelling. Reports the kind and the text of a match, never the value."""

import itertools
import re
import string
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from exposurekit.privacy.normalize import (
    Word,
    abbreviated,
    ascii_digits,
    canonical,
    decoded,
    readings,
    spans,
    with_state_codes,
    words,
)
from exposurekit.privacy.vocabulary import is_common
from exposurekit.text.us_addresses import street_words
from exposurekit.text.words import GENERATIONS, TITLES, without_umlauts

MIN_CHARACTERS = 6  # shorter values occur in any text
MIN_EMAIL_CHARACTERS = 4
MIN_DIGITS = 8
MIN_JOINED = 8  # characters of a name without its space
MIN_LAST_NAME = 3  # characters of a last name after an initial or a title
PHONE_DIGITS = 10

_EMAIL_TAG = re.compile(r"\+[\w.-]*@")
_DIGITS = re.compile(r"\d[\d\s().+/_*~|\u00b7\u2010-\u2015\u2022\u2027\u2212\u2219-]{5,24}\d")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d(?::?\d\d)*(?:\.\d+)?)?")
_LOCAL_PHONE = re.compile(
    r"(?<!\d)(?<!\d[\s.\u2010-\u2015)-])(?<!\)\s)(\d{3})[\s.\u2010-\u2015-](\d{4})(?!\d)"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
# Two digits after a hyphen, an apostrophe or the month: 29-FEB-80 is a database's format, and "Feb 29, 80 people" no date.
_YEAR = r"(?:,?[- ]?(?=\d{4}\b)|(?:-|,? ?['\u2019]|(?<=[a-z]))(?=\d\d\b))(\d{4}|\d\d)\b"
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]*\.?"
_DAYS = (  # with the order of their parts
    (re.compile(r"(?<!\d)(\d{4})[-./ ](\d{1,2})[-./ ](\d{1,2})(?=t00|[^\dt]|$)"), "ymd"),
    (re.compile(r"(?<!\d)((?:18|19|20)\d\d)(\d\d)(\d\d)(?!\d)"), "ymd"),
    (re.compile(r"(?<!\d)(\d{1,2})([./ -])(\d{1,2})\2(\d{4}|\d\d)(?!\d)"), "d-my"),
    (re.compile(r"(?<!\d)(\d{1,2})([./ -])(\d{1,2})\2(\d{4}|\d\d)(?!\d)"), "m-dy"),
    (re.compile(r"(?<!\d)(\d\d)()(\d\d)((?:18|19|20)\d\d)(?!\d)"), "d-my"),
    (re.compile(r"(?<!\d)(\d\d)()(\d\d)((?:18|19|20)\d\d)(?!\d)"), "m-dy"),
    (re.compile(rf"\b{_MONTH}[- ]?(\d{{1,2}})(?:st|nd|rd|th)?{_YEAR}"), "Mdy"),
    (re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th|\.)?[- ]?(?:of )?{_MONTH}{_YEAR}"), "dMy"),
)
_NAME_GAP = re.compile(r",? |-")
_INITIAL_GAP = re.compile(r"\.\s?|\s")
_WORDS_OF_ONE_CHARACTER = frozenset("ai")
_ENDINGS = re.compile(  # of a full name: suffixes and degrees
    rf"(?: (?:{'|'.join(GENERATIONS)}|md|m d|phd|ph d|esq|dds|d d s|dvm|rn|cpa|jd))+$"
)
_RUN_ON_SCRIPTS = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR")
_RUN_ON_MAX = 12  # characters of a name in them, where a syllable of Hangul counts as up to three
_Tokens = tuple[str, ...]


class PersonalDataSearch:
    """Search a fixed set of texts for personal values; never reveals a value.

    A match needs at least one uncommon word (`privacy.vocabulary`). A name that consists of common words matches only
    where it is capitalised and its words are adjacent. A text that is a public name never matches as a whole, and the
    words of a public name do not count as uncommon in other texts.

    Args:
        texts: The texts to search.
        public_names: Names that many people share, such as those of sites.

    >>> search = PersonalDataSearch(["the listing of quill, ada", "ada%20QUILL", "a quill"])
    >>> search.add_name("Ada", "Quill")
    >>> search.kinds
    Counter({'name': 2})
    """

    def __init__(self, texts: Iterable[str], *, public_names: Iterable[str] = ()) -> None:
        self._texts = tuple(dict.fromkeys(texts))
        self._public = {words(name) for name in public_names} - {()}
        self._public_starts = defaultdict(list)
        for name in self._public:
            self._public_starts[name[0]].append(name)
        self._matches: dict[str, set[int]] = defaultdict(set)
        self._index, self._canonical = _Index(), _Lines()
        self._numbers = _Numbers()
        for position, text in enumerate(self._texts):
            for reading in readings(text):
                self._add_reading(position, reading)

    def __repr__(self) -> str:
        return f"PersonalDataSearch({len(self._texts):,} texts)"

    @property
    def kinds(self) -> "Counter[str]":
        """The number of matching texts per kind of value."""
        return Counter({kind: len(positions) for kind, positions in self._matches.items()})

    @property
    def matching_texts(self) -> set[str]:
        """The texts that contain a personal value."""
        return {self._texts[position] for positions in self._matches.values() for position in positions}

    def add(self, kind: str, value: object) -> None:
        """Search for a value verbatim: a reference, a URL, a title. Values under 6 characters are ignored."""
        tokens = words(decoded(str(value)))
        if self._index.may_contain(tokens) and len("".join(tokens)) >= MIN_CHARACTERS:
            self._match(kind, self._index.sequence(tokens))

    def add_key(self, key: object) -> None:
        """Search for a key or a secret. One with a digit needs no uncommon word if its punctuation matches as well."""
        parts = spans(str(key))
        tokens = tuple(part.text for part in parts)
        if len("".join(tokens)) < MIN_CHARACTERS or not self._index.has_words(tokens):
            return
        gaps = tuple(part.gap for part in parts[1:]) if any(map(str.isdecimal, "".join(tokens))) else None
        self._match("key", self._index.sequence(tokens, gaps))

    def add_email(self, address: object) -> None:
        """Search for an email address, also spelled with "at" and "dot", with or without a plus tag."""
        plain = decoded(_text(address))
        for way in {plain, _EMAIL_TAG.sub("@", plain)}:
            self._add_canonical("email", way, MIN_EMAIL_CHARACTERS)

    def add_address(self, kind: str, address: object) -> None:
        """Search for a street or a place; abbreviations match long forms (St and Street, CA and California).

        A street is also found without its apartment.
        """
        whole = decoded(_text(address))
        bare = " ".join(street_words(whole)) if kind == "street" else ""
        for line in {whole, bare or whole}:
            self._add_canonical(kind, line, MIN_CHARACTERS)

    def add_name(self, first: object, last: object) -> None:
        """Search for a name: in either order, with or without a middle word, joined, with an initial or a title."""
        first, last = _text(first), _text(last)
        ways = {(first, last), (without_umlauts(first), without_umlauts(last))}
        for first_names, last_names in (tuple(map(words, way)) for way in ways):
            if first_names and last_names:
                self._add_name(first_names, last_names)

    def add_full_name(self, name: object) -> None:
        """Search for a full name, and for its first word together with its last; without a title, suffix or degree."""
        for way in {_text(name), without_umlauts(_text(name))}:
            parts = _without_titles(words(way))
            if len(parts) > 1:
                self._add_name(parts[:1], parts[-1:])
                if len(parts) > 2:  # noqa: PLR2004  two are a pair
                    self.add("name", way)
            elif parts and len(parts[0]) > 1 and not parts[0].isascii():
                self._match("name", self._index.run_on.get(parts[0], ()))

    def add_phone(self, number: object) -> None:
        """Search for a phone number, with or without country code, with any separators."""
        self._match("phone", self._numbers.phone(ascii_digits(_text(number))))

    def add_birth_date(self, born: date) -> None:
        """Search for a birth date in the usual formats, and as seconds since 1970, which the API uses."""
        self._match("birth date", self._numbers.day(born))

    def _match(self, kind: str, positions: Iterable[int]) -> None:
        if positions := set(positions):
            self._matches[kind] |= positions

    def _add_name(self, first: _Tokens, last: _Tokens) -> None:
        index, joined = self._index, "".join(first + last)
        for one, other in itertools.product({first[0], first[-1]}, {last[0], last[-1]}):
            self._match("name", index.pairs.get((one, other), ()))
            self._match("name", index.pairs.get((other, one), ()))
        for way in (first + last, last + first):
            if len(way) > 2 and index.may_contain(way):  # noqa: PLR2004  two are a pair
                self._match("name", index.sequence(way))
            if len(joined) >= MIN_JOINED:
                self._match("name", index.singles.get("".join(way), ()))
            if not joined.isascii():
                self._match("name", index.run_on.get("".join(way), ()))
        for family in {last[0], last[-1], "".join(last)}:
            initial = first[0][0]
            if len(family) >= MIN_LAST_NAME:
                self._match("name", index.initials.get((initial, family), ()))
                self._match("name", index.titled.get(family, ()))
            if len(family) + 1 >= MIN_JOINED:
                self._match("name", index.singles.get(initial + family, ()))
                self._match("name", index.singles.get(family + initial, ()))

    def _add_canonical(self, kind: str, value: str, min_characters: int) -> None:
        spelled = with_state_codes(words(value))
        tokens = abbreviated(spelled)
        # Measured as spelled: 9 Lake Rd is long enough. States have their codes, because one alone identifies nobody.
        if self._canonical.may_contain(tokens) and len("".join(spelled)) >= min_characters:
            self._match(kind, self._canonical.sequence(tokens))

    def _add_reading(self, position: int, reading: str) -> None:
        self._index.add(self._line(position, spans(reading)))
        short = canonical(words(_EMAIL_TAG.sub("@", reading)))
        self._canonical.append(self._line(position, tuple(Word(token, False, " ") for token in short)))
        self._numbers.add(position, ascii_digits(reading))

    def _line(self, position: int, line_words: tuple[Word, ...]) -> "_Line":
        tokens = tuple(word.text for word in line_words)
        evidence = [not is_common(token) for token in tokens]
        if tokens in self._public:
            return _Line(position, line_words, tokens, tuple(evidence), is_public=True)
        for start, token in enumerate(tokens):
            for name in self._public_starts.get(token, ()):
                if tokens[start : start + len(name)] == name:
                    evidence[start : start + len(name)] = [False] * len(name)
        return _Line(position, line_words, tokens, tuple(evidence), is_public=False)


@dataclass(frozen=True, slots=True)
class _Line:
    """One decoding of a text: its words, and which of them are uncommon enough to be evidence."""

    position: int
    words: tuple[Word, ...]
    tokens: _Tokens
    evidence: tuple[bool, ...]
    is_public: bool

    def is_match(self, start: int, stop: int) -> bool:
        """Whether words equal to those of a value count as a match."""
        is_whole = self.is_public and stop - start == len(self.tokens)
        return any(self.evidence[start:stop]) and not is_whole

    def is_pair(self, start: int, stop: int) -> bool:
        """Whether words equal to a first and a last name, perhaps with one between, count as a match."""
        if self.is_public and stop - start == len(self.tokens):
            return False
        if self.evidence[start] or self.evidence[stop - 1]:
            return True
        one, other = self.words[start], self.words[stop - 1]
        if self.is_public or stop - start > 2 or not _NAME_GAP.fullmatch(other.gap):  # noqa: PLR2004
            return False
        return all(word.is_capital and is_common(word.text) for word in (one, other))


def _without_titles(name: _Tokens) -> _Tokens:
    """Leave out titles at the beginning of a full name, and suffixes and degrees at its end; two words stay."""
    while len(name) > 2 and name[0] in TITLES:  # noqa: PLR2004  a first and a last name
        name = name[1:]
    rest = _ENDINGS.sub("", " ".join(name)).split()
    return tuple(rest) if len(rest) > 1 else name


class _Lines:
    def __init__(self) -> None:
        self._lines: list[_Line] = []
        self._words: set[str] = set()
        self._evidence: set[str] = set()

    def append(self, line: _Line) -> None:
        self._lines.append(line)
        self._words.update(line.tokens)
        self._evidence.update(itertools.compress(line.tokens, line.evidence))

    def may_contain(self, tokens: _Tokens) -> bool:
        """Cheap pre-check: can these tokens occur at all? Called for every value."""
        return self.has_words(tokens) and not self._evidence.isdisjoint(tokens)

    def has_words(self, tokens: _Tokens) -> bool:
        """Whether all tokens occur somewhere, in any order."""
        return all(map(self._words.__contains__, tokens))

    @cached_property
    def _text(self) -> str:
        return "\n".join(f" {' '.join(line.tokens)} " for line in self._lines)

    def sequence(self, tokens: _Tokens, gaps: _Tokens | None = None) -> set[int]:
        """Return the positions of texts that contain the tokens in sequence, as a match or with exactly these gaps."""
        if f" {' '.join(tokens)} " not in self._text:
            return set()
        return {
            line.position
            for line in self._lines
            for start in range(len(line.tokens) - len(tokens) + 1)
            if line.tokens[start : start + len(tokens)] == tokens
            and (
                line.is_match(start, start + len(tokens))
                or gaps == tuple(word.gap for word in line.words[start + 1 : start + len(tokens)])
            )
        }


class _Index(_Lines):
    """An index of the forms in which names are written, with the positions of their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.initials: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.titled: dict[str, set[int]] = defaultdict(set)
        self.singles: dict[str, set[int]] = defaultdict(set)
        self.run_on: dict[str, set[int]] = defaultdict(set)

    def add(self, line: _Line) -> None:
        self.append(line)
        for start, word in enumerate(line.words):
            for stop in (start + 2, start + 3):
                if stop <= len(line.words) and line.is_pair(start, stop):
                    for pair in itertools.product(_names_in(word.text), _names_in(line.tokens[stop - 1])):
                        self.pairs[pair].add(line.position)
            if line.is_match(start, start + 1):
                self._add_word(line, start)

    def _add_word(self, line: _Line, at: int) -> None:
        word, before = line.words[at], line.words[at - 1] if at else None
        for name in _names_in(word.text):
            self.singles[name].add(line.position)
            if before is not None and before.text in TITLES:
                self.titled[name].add(line.position)
            for initial in _initials(line.words, at):
                self.initials[initial, name].add(line.position)
        for part in _run_on_names(word.text):
            self.run_on[part].add(line.position)


def _names_in(word: str) -> tuple[str, ...]:
    """Return a word, and what it is without the digits around it, as in user names, unless that is a common word."""
    bare = word.strip(string.digits)
    is_name = len(bare) >= MIN_LAST_NAME and bare != word and not is_common(bare)
    return (word, bare) if is_name else (word,)


def _initials(line: tuple[Word, ...], at: int) -> Iterator[str]:
    """Yield the initials beside a word: A. Quill, A. B. Quill; Quill, A."""
    gap = line[at].gap
    for back in (1, 2):
        if at < back or len(initial := line[at - back].text) > 1:
            break
        if _INITIAL_GAP.fullmatch(gap) is None:
            break
        if "." in gap or initial not in _WORDS_OF_ONE_CHARACTER:
            yield initial
        gap = line[at - back].gap
    if at + 1 < len(line) and len(line[at + 1].text) == 1 and line[at + 1].gap.strip() == ",":
        yield line[at + 1].text


def _run_on_names(word: str) -> set[str]:
    """Return the substrings that may be names, in scripts without spaces between words; else the word."""
    if word.isascii() or not unicodedata.name(word[0], "").startswith(_RUN_ON_SCRIPTS):
        return {word}
    lengths = range(2, _RUN_ON_MAX + 1)
    return {word[start : start + length] for length in lengths for start in range(len(word) - length + 1)}


class _Numbers:
    """An index of phone numbers and days in texts, with the positions of their texts."""

    def __init__(self) -> None:
        self._phones: dict[str, set[int]] = defaultdict(set)
        self._runs: dict[str, set[int]] = defaultdict(set)
        self._days: dict[tuple[int, int, int], set[int]] = defaultdict(set)

    def add(self, position: int, text: str) -> None:
        lower = text.lower()
        for pattern, order in _DAYS:
            for match in pattern.finditer(lower):
                self._days[_day(order, match)].add(position)
        plain = _INSTANT.sub(" ", text)
        for run in map(_only_digits, _DIGITS.findall(plain)):
            self._runs[run].add(position)
            for start in range(len(run) - PHONE_DIGITS + 1):
                self._phones[run[start : start + PHONE_DIGITS]].add(position)
        for local in _LOCAL_PHONE.findall(plain):
            self._phones["".join(local)].add(position)

    def phone(self, number: str) -> set[int]:
        digits, positions = _only_digits(number), set()
        if len(digits) >= PHONE_DIGITS:
            positions |= self._phones.get(digits[-PHONE_DIGITS:], set()) | self._phones.get(
                digits[-7:], set()
            )
        is_abroad = number.strip().startswith("+") and not digits.startswith("1")
        if len(digits) >= MIN_DIGITS and (is_abroad or not _is_north_american(digits)):
            for run in (digits, digits[-8:], digits[-9:]):
                positions |= self._runs.get(run, set())
        return positions

    def day(self, born: date) -> set[int]:
        seconds = str(abs((date(born.year, born.month, born.day) - date(1970, 1, 1)).days * 86_400))
        positions = self._runs.get(seconds, set()) if len(seconds) >= MIN_DIGITS else set()
        years = (born.year, born.year % 100)
        return positions.union(*(self._days.get((year, born.month, born.day), ()) for year in years))


def _day(order: str, match: "re.Match[str]") -> tuple[int, int, int]:
    parts = dict(zip(order, match.groups(), strict=True))
    month = _MONTHS.index(parts["M"]) + 1 if "M" in parts else int(parts["m"])
    return int(parts["y"]), month, int(parts["d"])


def _only_digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _is_north_american(digits: str) -> bool:
    return len(digits) == PHONE_DIGITS or (len(digits) == PHONE_DIGITS + 1 and digits[0] == "1")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
