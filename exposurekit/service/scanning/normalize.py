"""Normalization and comparison of names, streets and phone numbers.

nameparser splits off titles, suffixes and quoted nicknames and reads `Last, First`; nicknames knows Bart for
Bartholomew; rapidfuzz measures spelling differences; phonenumbers parses the formats of all countries. Nothing is
cached, because the values are personal.
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
from exposurekit.text.us_addresses import LATIN_TO_ASCII, SHORT

NAME_MAX = 120  # characters of a listed name
_WORDS_MAX = 10
_FIRST_MIN, _LAST_MIN = 6, 7  # a letter's difference makes a shorter name another name
_PART_MIN = 4  # letters of half a double name that is specific enough
_NUMBER_MAX = 40

_TRANSLITERATION = str.maketrans(LATIN_TO_ASCII)
_APOSTROPHES = re.compile("(?<=\\w)['`\u00b4\u02b9\u02bb\u02bc\u2018\u2019](?=\\w)")
_NON_WORD = re.compile(r"[\W_]+")
_NICKNAMES = NickNamer()


def fold_case(text: str) -> str:
    """Lower the case and remove accents; punctuation stays.

    >>> fold_case("Zoë O'Thimble-MØRE")
    "zoe o'thimble-more"
    """
    # Twice: case folding can add accents, as for the dotted capital I.
    for _ in range(2):
        decomposed = unicodedata.normalize("NFKD", text).casefold()
        text = "".join(char for char in decomposed if not unicodedata.combining(char))
    return text.translate(_TRANSLITERATION)


def words(text: str) -> list[str]:
    """Split a text into words: lower case, no accents, no punctuation.

    >>> words("St. Quillon, Zoë  D'Umberlane-Moor")
    ['st', 'quillon', 'zoe', 'dumberlane', 'moor']
    """
    return _NON_WORD.sub(" ", _APOSTROPHES.sub("", fold_case(text))).split()


def address_words(text: str) -> list[str]:
    """Split an address into words, each abbreviated if it has an abbreviation.

    >>> address_words("12 North Acorn Street, #4")
    ['12', 'n', 'acorn', 'st', 'unit', '4']
    """
    return [SHORT.get(word, word) for word in words(text.replace("#", " unit "))]


def street(line: str) -> str | None:
    """Normalize a street line, without the apartment; None without a house or box number.

    >>> street("12 Acorn Street, Apt. 4"), street("Acorn Cottage")
    ('12 acorn st', None)
    """
    parts = address_words(line)
    if "unit" in parts[1:]:
        parts = parts[: parts.index("unit", 1)]
    if parts[:1] == ["unit"]:  # an apartment without a house
        return None
    numbered = any(any(char.isdigit() for char in word) for word in parts)
    named = any(word.isalpha() and len(word) > 1 for word in parts)
    return " ".join(parts) if numbered and named else None


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone number: country code and national number."""

    country: str
    national: str


def phone(text: str) -> Phone | None:
    """Parse a phone number in any format; without a country code it is a United States number.

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
    """How well a listed name fits: points added to (or taken from) the evidence, and the reasons."""

    points: float
    reasons: tuple[str, ...]


def names_fit(names: Sequence[Name], text: str) -> Fit | None:
    """Compare a listed name with a person's names and return the best fit; None if it is another name.

    Args:
        names: The person's names, the registered one first; its middle name is used for all.
        text: The listed name, in any order and case.

    >>> names_fit([Name("Bartholomew", "Nettle-Moor", "Quentin")], "NETTLE MOOR, BART Q")
    Fit(points=0.25, reasons=('name: nickname of the registered first name', 'middle initial'))
    >>> names_fit([Name("Bartholomew", "Nettle-Moor")], "Bartholomew Otterwick") is None
    True
    """
    middle = words(names[0].middle) if names else []
    last_names = {_key(name.last) for name in names}
    best: Fit | None = None
    for first_names, last in _parse(text):
        for at, name in enumerate(names):
            fit = _compare(name, first_names, last, middle, last_names)
            if fit and at:
                fit = Fit(fit.points, (*fit.reasons, "name: one of the person's other names"))
            if fit and (best is None or fit.points > best.points):
                best = fit
    return best


def _compare(
    name: Name, first_names: list[str], last: str, middle: list[str], last_names: set[str]
) -> Fit | None:
    first_key, last_key = _key(name.first), _key(name.last)
    by_last = _compare_last(name.last, last_key, last)
    if not by_last or not first_key:
        return None
    best: Fit | None = None
    for count in (1, 2):  # Mary Ann, Mary-Ann and Maryann
        by_first = _compare_first(first_key, first_names[:count]) if len(first_names) >= count else None
        if not by_first or (by_first[0] < 0 and by_last[0] < 0):
            continue
        points, *reasons = _compare_middle(middle, first_names[count:], last_names)
        name_reasons = [reason for _, reason in (by_last, by_first) if reason] or ["name: the same"]
        fit = Fit(by_first[0] + by_last[0] + points, (*name_reasons, *reasons))
        if best is None or fit.points > best.points:
            best = fit
    return best


def _parse(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the possible readings of a listed name: first and middle names, and last name."""
    plain = _APOSTROPHES.sub("", fold_case(text[:NAME_MAX]))
    # In title case, because the parser distinguishes initials and particles by their capitals.
    name = HumanName(plain.title())
    nicknames = words(name.nickname)
    if "," in plain and name.first and name.last:
        first_names = words(f"{name.first} {name.middle}")[:_WORDS_MAX]
        yield first_names, name.last.lower()
        if nicknames:
            yield nicknames, name.last.lower()
        return
    full = f"{name.first} {name.middle} {name.last}"
    yield from _orders(full.lower().split()[:_WORDS_MAX], nicknames)
    if name.title:  # perhaps a name: Judge Otterwick, St Quillon Ann
        yield from _orders(f"{name.title} {full}".lower().split()[:_WORDS_MAX], nicknames)


def _orders(parts: list[str], nicknames: list[str]) -> Iterator[tuple[list[str], str]]:
    for count in range(1, min(4, len(parts))):
        yield words(" ".join(parts[:-count])), " ".join(parts[-count:])
        yield words(" ".join(parts[count:])), " ".join(parts[:count])
        if nicknames:
            yield nicknames, " ".join(parts[-count:])


def _key(name: str) -> str:
    return "".join(words(name))


def _compare_last(registered: str, registered_key: str, listed: str) -> tuple[float, str] | None:
    listed_key = _key(listed)
    if not registered_key or not listed_key:
        return None
    if registered_key == listed_key:
        return 0, ""
    # Only with the same number of words: a middle initial is not a misspelling.
    if len(words(registered)) == len(words(listed)) and _is_similar(registered_key, listed_key, _LAST_MIN):
        return -0.25, "name: nearly the same spelling"
    whole, halves = (
        (listed_key, words(registered))
        if "-" in registered or " " in registered.strip()
        else (registered_key, [])
    )
    if not halves and "-" in listed:
        halves = words(listed)
    if len(whole) >= _PART_MIN and whole in halves:
        return -0.25, "name: one half of a double last name"
    return None


def _compare_first(registered: str, listed_words: list[str]) -> tuple[float, str] | None:
    listed = "".join(listed_words)
    if registered == listed:
        return 0, ""
    if len(listed_words) > 1:
        return None
    if 1 in (len(registered), len(listed)):
        return (-1, "name: the initial alone") if registered[:1] == listed[:1] else None
    if listed in _NICKNAMES.nicknames_of(registered) or registered in _NICKNAMES.nicknames_of(listed):
        return 0, "name: nickname of the registered first name"
    if _is_similar(registered, listed, _FIRST_MIN):
        return -0.25, "name: nearly the same spelling"
    return None


def _compare_middle(
    registered: list[str], listed: list[str], last_names: set[str]
) -> tuple[float, *tuple[str, ...]]:
    # A maiden name is often used as a middle name; it does not contradict the registered one.
    listed = [word for word in listed if word not in last_names]
    if not registered or not listed:
        return (0,)
    if set(registered) & {word for word in listed if len(word) > 1} or "".join(registered) == "".join(listed):
        return 0.5, "middle name"
    alike = {(one, other) for one in registered for other in listed if one[0] == other[0]}
    if any(1 in (len(one), len(other)) for one, other in alike):
        return 0.25, "middle initial"
    if any(_is_similar(one, other, _PART_MIN) for one, other in alike):
        return 0.25, "middle name, nearly"
    return -1, "middle name differs"


def _is_similar(one: str, other: str, min_length: int) -> bool:
    return min(len(one), len(other)) >= min_length and OSA.distance(one, other, score_cutoff=1) <= 1
