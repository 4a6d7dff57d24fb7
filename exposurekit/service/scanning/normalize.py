"""One spelling for the many that names, streets and phone numbers come in. Judges no listing, keeps nothing.

The door of four libraries: nameparser takes titles, suffixes, nicknames in quotes and `Last, First` apart, nicknames
knows Bart for Bartholomew, rapidfuzz counts slips of the pen, phonenumbers knows every country's way to write one.
Nothing here is cached: what is compared is personal.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import phonenumbers
from nameparser import HumanName
from nicknames import NickNamer
from rapidfuzz.distance import OSA

from exposurekit.service.accounts.subject import Name
from exposurekit.text.us_addresses import LETTERS, SHORT

NAME_MAX = 120  # characters of a shown name that are read
_WORDS_MAX = 10
_LONG_FIRST, _LONG_LAST = 6, 7  # shorter names are other names when a letter differs
_PART_MIN = 4  # letters that make one half of a double name tell something
_NUMBER_MAX = 40

_LETTERS = str.maketrans(LETTERS)
_APOSTROPHES = re.compile("(?<=\\w)['`\u00b4\u02b9\u02bb\u02bc\u2018\u2019](?=\\w)")
_NO_WORD = re.compile(r"[\W_]+")
_NICKNAMES = NickNamer()


def bare(text: str) -> str:
    """Lower case without accents; punctuation stays.

    >>> bare("Zoë O'Thimble-MØRE")
    "zoe o'thimble-more"
    """
    # Twice: lower case can bring new accents, as of the dotted capital I.
    for _ in range(2):
        taken_apart = unicodedata.normalize("NFKD", text).casefold()
        text = "".join(sign for sign in taken_apart if not unicodedata.combining(sign))
    return text.translate(_LETTERS)


def words(text: str) -> list[str]:
    """The words of a text: lower case, no accents, no punctuation.

    >>> words("St. Quillon, Zoë  D'Umberlane-Moor")
    ['st', 'quillon', 'zoe', 'dumberlane', 'moor']
    """
    return _NO_WORD.sub(" ", _APOSTROPHES.sub("", bare(text))).split()


def address_words(text: str) -> list[str]:
    """The words of an address, each in its short spelling.

    >>> address_words("12 North Acorn Street, #4")
    ['12', 'n', 'acorn', 'st', 'unit', '4']
    """
    return [SHORT.get(word, word) for word in words(text.replace("#", " unit "))]


def street(line: str) -> str | None:
    """A street line in one spelling, without the flat; None where no house or box is named.

    >>> street("12 Acorn Street, Apt. 4"), street("Acorn Cottage")
    ('12 acorn st', None)
    """
    spelled = address_words(line)
    if "unit" in spelled[1:]:
        spelled = spelled[: spelled.index("unit", 1)]
    if spelled[:1] == ["unit"]:  # a flat, and no house
        return None
    numbered = any(any(sign.isdigit() for sign in word) for word in spelled)
    named = any(word.isalpha() and len(word) > 1 for word in spelled)
    return " ".join(spelled) if numbered and named else None


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone number as it is dialled: the country's code and the digits behind it."""

    country: str
    national: str


def phone(text: str) -> Phone | None:
    """A phone number out of any spelling; one that names no country is of the United States.

    >>> phone("+1 (609) 555-0123") == phone("609.555.0123")
    True
    """
    try:
        number = phonenumbers.parse(text[:_NUMBER_MAX], "US")
    except phonenumbers.NumberParseException:
        return None
    national = phonenumbers.national_significant_number(number)
    return Phone(str(number.country_code), national)


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a shown name fits: what it adds to (or takes from) the evidence, and why."""

    points: float
    reasons: tuple[str, ...]


def names_fit(names: Sequence[Name], shown: str) -> Fit | None:
    """How well a shown name fits the best of a person's names; None where it is another one.

    Args:
        names: The registered name first; a middle name is taken from it.
        shown: In whatever order and case.

    >>> names_fit([Name("Bartholomew", "Nettle-Moor", "Quentin")], "NETTLE MOOR, BART Q")
    Fit(points=0.25, reasons=('name: nickname of the registered first name', 'middle initial'))
    >>> names_fit([Name("Bartholomew", "Nettle-Moor")], "Bartholomew Otterwick") is None
    True
    """
    middle = words(names[0].middle) if names else []
    last_names = {_key(name.last) for name in names}
    best: Fit | None = None
    for given, last in _readings(shown):
        for at, name in enumerate(names):
            fit = _reading_fits(name, given, last, middle, last_names)
            if fit and at:
                fit = Fit(fit.points, (*fit.reasons, "name: one of the person's other names"))
            if fit and (best is None or fit.points > best.points):
                best = fit
    return best


def _reading_fits(
    name: Name, given: list[str], last: str, middle: list[str], last_names: set[str]
) -> Fit | None:
    first_key, last_key = _key(name.first), _key(name.last)
    by_last = _last_fits(name.last, last_key, last)
    if not by_last or not first_key:
        return None
    best: Fit | None = None
    for taken in (1, 2):  # Mary Ann, Mary-Ann and Maryann
        by_first = _first_fits(first_key, given[:taken]) if len(given) >= taken else None
        if not by_first or (by_first[0] < 0 and by_last[0] < 0):
            continue
        points, *reasons = _middle_fits(middle, given[taken:], last_names)
        told = [reason for _, reason in (by_last, by_first) if reason] or ["name: the same"]
        fit = Fit(by_first[0] + by_last[0] + points, (*told, *reasons))
        if best is None or fit.points > best.points:
            best = fit
    return best


def _readings(shown: str) -> Iterator[tuple[list[str], str]]:
    """The ways to read a shown name: its given names, and its last one."""
    plain = _APOSTROPHES.sub("", bare(shown[:NAME_MAX]))
    # In one case for all: the parser tells initials from particles by their capitals.
    name = HumanName(plain.title())
    called = words(name.nickname)
    if "," in plain and name.first and name.last:
        given = words(f"{name.first} {name.middle}")[:_WORDS_MAX]
        yield given, name.last.lower()
        if called:
            yield called, name.last.lower()
        return
    told = f"{name.first} {name.middle} {name.last}"
    yield from _orders(told.lower().split()[:_WORDS_MAX], called)
    if name.title:  # or no title: Judge Otterwick, St Quillon Ann
        yield from _orders(f"{name.title} {told}".lower().split()[:_WORDS_MAX], called)


def _orders(parts: list[str], called: list[str]) -> Iterator[tuple[list[str], str]]:
    for count in range(1, min(4, len(parts))):
        yield words(" ".join(parts[:-count])), " ".join(parts[-count:])
        yield words(" ".join(parts[count:])), " ".join(parts[:count])
        if called:
            yield called, " ".join(parts[-count:])


def _key(name: str) -> str:
    return "".join(words(name))


def _last_fits(ours: str, ours_key: str, theirs: str) -> tuple[float, str] | None:
    theirs_key = _key(theirs)
    if not ours_key or not theirs_key:
        return None
    if ours_key == theirs_key:
        return 0, ""
    # As many words: a middle initial is no slip of the pen.
    if len(words(ours)) == len(words(theirs)) and _nearly(ours_key, theirs_key, _LONG_LAST):
        return -0.25, "name: nearly the same spelling"
    whole, halves = (theirs_key, words(ours)) if "-" in ours or " " in ours.strip() else (ours_key, [])
    if not halves and "-" in theirs:
        halves = words(theirs)
    if len(whole) >= _PART_MIN and whole in halves:
        return -0.25, "name: one half of a double last name"
    return None


def _first_fits(ours: str, shown: list[str]) -> tuple[float, str] | None:
    theirs = "".join(shown)
    if ours == theirs:
        return 0, ""
    if len(shown) > 1:
        return None
    if 1 in (len(ours), len(theirs)):
        return (-1, "name: the initial alone") if ours[:1] == theirs[:1] else None
    if theirs in _NICKNAMES.nicknames_of(ours) or ours in _NICKNAMES.nicknames_of(theirs):
        return 0, "name: nickname of the registered first name"
    if _nearly(ours, theirs, _LONG_FIRST):
        return -0.25, "name: nearly the same spelling"
    return None


def _middle_fits(ours: list[str], theirs: list[str], last_names: set[str]) -> tuple[float, *tuple[str, ...]]:
    # A name before marriage often stands in the middle; it says nothing against the registered one.
    theirs = [word for word in theirs if word not in last_names]
    if not ours or not theirs:
        return (0,)
    if set(ours) & {word for word in theirs if len(word) > 1} or "".join(ours) == "".join(theirs):
        return 0.5, "middle name"
    alike = {(one, other) for one in ours for other in theirs if one[0] == other[0]}
    if any(1 in (len(one), len(other)) for one, other in alike):
        return 0.25, "middle initial"
    if any(_nearly(one, other, _PART_MIN) for one, other in alike):
        return 0.25, "middle name, nearly"
    return -1, "middle name differs"


def _nearly(one: str, other: str, long: int) -> bool:
    return min(len(one), len(other)) >= long and OSA.distance(one, other, score_cutoff=1) <= 1
