"""Whether a text tells what is known of somebody, however it is written there. Tells what kind and how often, never what."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date

from exposurekit.privacy import variants
from exposurekit.privacy.normalize import figures, lines, readings, words
from exposurekit.privacy.variants import LETTERS_JOINED, Words, is_latin, without_umlauts

LETTERS_TOLD = 6  # what is shorter stands in any text
DIGITS_TOLD = 8  # of a number alone, the same
LETTERS_OF_MAIL = 4
LETTERS_OF_FAMILY = 3  # of a name behind a letter or a title
PHONE_DIGITS = 10

_TITLES = frozenset(("mr", "mrs", "ms", "miss", "mx", "dr", "prof"))
_ARE_WORDS = frozenset("ai")  # letters that stand before many a word
_LETTER_AND_FAMILY = re.compile(
    r"(?<![^\W_'\u2019])([^\W\d_])(\.\s?|\s)(?:([^\W\d_])(?:\.\s?|\s))?([^\W\d_]{3,})"
)
_LETTER_BEHIND = re.compile(r"(?<=[^\W\d_]),\s?([^\W\d_])(?![^\W_])")
_FAMILY_MAX = 40  # letters
_DIGITS = re.compile(r"\d[\d\s().+/_*~|\u00b7\u2010-\u2015\u2022\u2027\u2212\u2219-]{5,24}\d")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d(?::?\d\d)*(?:\.\d+)?)?")
_LOCAL = re.compile(
    r"(?<!\d)(?<!\d[\s.\u2010-\u2015)-])(?<!\)\s)(\d{3})[\s.\u2010-\u2015-](\d{4})(?!\d)"
)  # a phone number without its area
_DAY = re.compile(r"(?<!\d)(\d{1,2})([./-])(\d{1,2})\2(\d\d)(?!\d)")


class PersonalDataMatcher:
    """What is known of people, to be looked for; shows none of it.

    Args:
        within: The one short text that it will be looked for in; None: any. What cannot stand there is not kept.

    >>> from exposurekit.privacy.detector import PersonalDataMatcher
    >>> known = PersonalDataMatcher()
    >>> known.add_name("Ada", "Quill")
    >>> known.search("the listing of quill, ada"), known.search("ada%20QUILL"), known.search("a quill")
    (Counter({'name': 1}), Counter({'name': 1}), Counter())
    """

    def __init__(self, within: str | None = None) -> None:
        self._within = None if within is None else {one for text in readings(within) for one in words(text)}
        self._words: dict[str, set[Words]] = defaultdict(set)  # by the first of them
        self._kinds: dict[Words, str] = {}
        self._names = _Names()
        self._numbers = _Numbers()

    def __repr__(self) -> str:
        return f"Known({len(self):,} ways to write what is known)"

    def __len__(self) -> int:
        return len(self._kinds) + len(self._names) + len(self._numbers)

    def add(self, kind: str, value: object) -> None:
        """A value as it stands: an e-mail address, a street, a URL, a key. What is short stands anywhere, and is not looked for."""
        self._look_for(kind, words(str(value)))

    def add_email(self, address: object) -> None:
        """An e-mail address: as it stands, or its signs in words; with what it has behind a plus, or without.

        >>> known = PersonalDataMatcher()
        >>> known.add_email("ada.quill+shop@mail.example")
        >>> known.search("ada.quill at mail dot example")
        Counter({'e-mail': 1})
        """
        for way in variants.of_email(_text(address)):
            self._look_for("e-mail", way)

    def add_address(self, kind: str, address: object) -> None:
        """A street or a place, each word of it long or short: St and Street, CA and California.

        >>> known = PersonalDataMatcher()
        >>> known.add_address("street", "12 Acorn St")
        >>> known.search("12 acorn street")
        Counter({'street': 1})
        """
        for way in variants.of_address(_text(address)):
            self._look_for(kind, way)

    def add_name(self, first: object, last: object) -> None:
        """A name, in both orders, with or without a word between, and run together; its parts may have several words.

        Of the first its letter is enough, and the last may stand behind a title.

        >>> known = PersonalDataMatcher()
        >>> known.add_name("Ada", "Quill")
        >>> known.search("Quill, A.") == known.search("Ms. Quill") == known.search("A. Quill")
        True
        """
        for way in {
            _text(first): _text(last),
            without_umlauts(_text(first)): without_umlauts(_text(last)),
        }.items():
            first_names, family = map(words, way)
            if first_names and family:
                self._names.add(first_names, family)
                for joined in variants.of_name(first_names, family):
                    self._look_for("name", joined)

    def add_full_name(self, name: object) -> None:
        """A name as one text: all of it, and its first word with its last one."""
        for way in {_text(name), without_umlauts(_text(name))}:
            parts = words(way)
            if len(parts) > 1:
                self.add_name(parts[0], parts[-1])
                if len(parts) > 2:  # noqa: PLR2004  two are a pair
                    self._look_for("name", parts)
            elif parts and not is_latin(parts[0]):
                self._names.add_run_on(parts[0])

    def add_phone(self, number: object) -> None:
        """A phone number, with or without its country, written anyhow."""
        self._numbers.add_phone(figures(_text(number)))

    def add_birth_date(self, born: date) -> None:
        """A day of birth, as it is written here and there, and as the service writes it."""
        self._numbers.add_day(born)
        for way in variants.of_day(born):
            self._look_for("birth date", way)

    def ignore(self, text: str) -> None:
        """Look no more for what stands in a text that is about nobody: somebody may call a page as a heading is called.

        >>> known = PersonalDataMatcher()
        >>> known.add("title of a page", "Open listings"); known.ignore("<h2>Open listings</h2>"); len(known)
        0
        """
        for line in lines(text):  # what stands in two of them is no name
            tokens = words(line)
            for value in {*self._matches(tokens)}:
                self._words[value[0]].discard(value)
                self._kinds.pop(value, None)
            self._names.ignore(tokens)

    def search(self, text: str) -> "Counter[str]":
        """How often each kind of value stands in a text, in any of the ways it may be written there."""
        most: Counter[str] = Counter()
        for reading in set(readings(text)):
            tokens = words(reading)
            matches = Counter(self._kinds[value] for value in self._matches(tokens))
            matches["name"] += self._names.counted(tokens, reading)
            most |= matches + self._numbers.counted(reading)
        return most

    def _look_for(self, kind: str, value: Words) -> None:
        characters = "".join(value)
        least = LETTERS_OF_MAIL if kind == "e-mail" and len(value) > 2 else LETTERS_TOLD  # noqa: PLR2004  a@b.c
        if len(characters) < least or (
            len(value) == 1 and characters.isdigit() and len(characters) < DIGITS_TOLD
        ):
            return
        if self._within is None or value[0] in self._within:
            self._words[value[0]].add(value)
            self._kinds[value] = kind

    def _matches(self, tokens: Words) -> Iterator[Words]:
        if self._words.keys().isdisjoint(tokens):
            return
        for index, word in enumerate(tokens):
            for value in self._words.get(word, ()):
                if tokens[index : index + len(value)] == value:
                    yield value


class _Names:
    """Names as two words near each other, in any order; and what stands for the first."""

    def __init__(self) -> None:
        self._pairs: set[tuple[str, str]] = set()
        self._initials: set[tuple[str, str]] = set()
        self._families: set[str] = set()
        self._run_on: set[str] = set()  # in scripts that put no space between words

    def __len__(self) -> int:
        return len(self._pairs) + len(self._run_on)

    def add(self, first_names: Words, family: Words) -> None:
        for one, other in itertools.product({first_names[0], first_names[-1]}, {family[0], family[-1]}):
            self._pairs |= {(one, other), (other, one)}
        for last in {family[0], family[-1]}:
            if len(last) >= LETTERS_OF_FAMILY and is_latin(last):
                self._families.add(last)
                self._initials.add((first_names[0][0], last))
        for joined in ("".join(first_names + family), "".join(family + first_names)):
            if len(joined) < LETTERS_JOINED and not is_latin(joined):
                self._run_on.add(joined)

    def add_run_on(self, name: str) -> None:
        self._run_on.add(name)

    def ignore(self, tokens: Words) -> None:
        self._pairs -= {*itertools.pairwise(tokens)}

    def counted(self, tokens: Words, text: str) -> int:
        near = itertools.chain(itertools.pairwise(tokens), zip(tokens, tokens[2:], strict=False))
        pairs = sum(pair in self._pairs for pair in near) if self._pairs else 0
        return pairs + self._titled(tokens) + self._initialled(text) + self._in_one_run(tokens)

    def _titled(self, tokens: Words) -> int:
        if _TITLES.isdisjoint(tokens):
            return 0
        return sum(one in _TITLES and other in self._families for one, other in itertools.pairwise(tokens))

    def _initialled(self, text: str) -> int:
        if not self._initials:
            return 0
        matches = []
        for one in _LETTER_AND_FAMILY.finditer(text):
            matches += [(one[1], one[4], one[2])] + ([(one[3], one[4], ".")] if one[3] else [])
        for one in _LETTER_BEHIND.finditer(text):
            matches += [
                (one[1], text[max(one.start() - _FAMILY_MAX, 0) : one.start()].rsplit(maxsplit=1)[-1], ".")
            ]
        return sum(
            (plain[0], plain[-1]) in self._initials and not (plain[0] in _ARE_WORDS and not between.strip())
            for initial, last, between in matches
            if (plain := words(f"{initial} {last}"))
        )

    def _in_one_run(self, tokens: Words) -> int:
        if not self._run_on:
            return 0
        return sum(name in word for word in tokens if not word.isascii() for name in self._run_on)


class _Numbers:
    """Phone numbers and days: digits, and whatever stands between them."""

    def __init__(self) -> None:
        self._phones: set[str] = set()
        self._whole: set[str] = set()  # what is shorter is one only where no other digit is beside it
        self._days: set[tuple[int, int, str]] = set()

    def __len__(self) -> int:
        return len(self._phones) + len(self._whole) + len(self._days)

    def add_phone(self, number: str) -> None:
        digits = re.sub(r"\D", "", number)
        if len(digits) >= PHONE_DIGITS:
            self._phones |= {digits[-PHONE_DIGITS:], digits[-7:]}
        is_abroad = number.strip().startswith("+") and not digits.startswith("1")
        if len(digits) >= DIGITS_TOLD and (is_abroad or not _is_north_american(digits)):
            self._whole |= {digits, digits[-8:], digits[-9:]}

    def add_day(self, born: date) -> None:
        self._days |= {(born.day, born.month, f"{born:%y}"), (born.month, born.day, f"{born:%y}")}

    def counted(self, text: str) -> "Counter[str]":
        if not (self._phones or self._whole or self._days):
            return Counter()
        plain = _INSTANT.sub(" ", figures(text))
        days = sum((int(one), int(other), year) in self._days for one, _, other, year in _DAY.findall(plain))
        return +Counter({"phone": self._phoned(plain), "birth date": days})

    def _phoned(self, plain: str) -> int:
        runs = [re.sub(r"\D", "", run) for run in _DIGITS.findall(plain)]
        parts = [run[at : at + PHONE_DIGITS] for run in runs for at in range(len(run) - PHONE_DIGITS + 1)]
        parts += map("".join, _LOCAL.findall(plain))
        return sum(part in self._phones for part in parts) + sum(run in self._whole for run in runs)


def _is_north_american(digits: str) -> bool:
    return len(digits) == PHONE_DIGITS or (len(digits) == PHONE_DIGITS + 1 and digits[0] == "1")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
