"""Name matching: how well a listed name fits a person's names, with points and reasons.

nameparser splits off titles, suffixes and quoted nicknames and reads `Last, First`; nicknames, with our own diminutives,
knows Bart for Bartholomew; rapidfuzz measures spelling differences. Nothing is cached, because the values are personal.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nameparser import HumanName
from nicknames import NickNamer
from rapidfuzz.distance import OSA

from exposurekit.service.accounts.subject import Name
from exposurekit.service.matching.diminutives import DIMINUTIVES
from exposurekit.text.words import GENERATIONS, fold_case, without_apostrophes, without_umlauts, words

NAME_MAX = 120  # characters of a listed name
_WORDS_MAX = 10
_FIRST_MIN, _LAST_MIN = 6, 7  # a letter's difference makes a shorter name another name
_BEGINNING_MIN = 3  # letters of a shortened first name: Zeb for Zebediah
_PARTIAL = -1  # points of an initial, or of the beginning of a first name
_PART_MIN = 4  # letters of half a double name that is specific enough
_GENERATION = re.compile(rf"(?<=[\w.])[\s,]+({'|'.join(GENERATIONS)})\b\.?(?=\s*(?:,|$))")


def _nicknames() -> NickNamer:
    lookup = NickNamer.default_lookup()
    for name, diminutives in DIMINUTIVES.items():
        lookup[name] = lookup.get(name, set()) | diminutives
    return NickNamer(nickname_lookup=lookup)


_NICKNAMES = _nicknames()


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a listed name fits: points added to (or taken from) the evidence, and the reasons.

    ``is_partial``: only the beginning of the first name is listed, which somebody else in the household may share.
    """

    points: float
    reasons: tuple[str, ...]
    is_partial: bool = False


def names_fit(names: Sequence[Name], text: str) -> Fit | None:
    """Compare a listed name, in any order and case, with a person's names; None if it is another name.

    The registered name comes first; its middle name is that of all names with the same first name. Jr. and Sr. are
    different people.
    """
    listed, listed_generation = text[:NAME_MAX], None
    if not any(_key(name.last) in GENERATIONS for name in names):  # Ii and Junior are last names, too
        listed, listed_generation = _split_generation(listed, words_min=2)
    split = [_split_generation(name.last, words_min=1) for name in names]
    generations = {generation for _, generation in split if generation}
    if listed_generation and generations and listed_generation not in generations:
        return None
    registered = with_middle_names(
        [replace(name, last=last) for name, (last, _) in zip(names, split, strict=True)]
    )
    last_names = {_key(name.last) for name in registered}
    if not listed.isascii() and len(listed.split()) == 1:
        listed = _spaced(listed, registered)
    readings = [
        reading for text in dict.fromkeys((listed, without_umlauts(listed))) for reading in _parse(text)
    ]
    return best_fit(
        fit if at == 0 else replace(fit, reasons=(*fit.reasons, "name: one of the person's other names"))
        for first_names, last in readings
        for at, name in enumerate(registered)
        for spelled in dict.fromkeys(
            (name, replace(name, first=without_umlauts(name.first), last=without_umlauts(name.last)))
        )
        for fit in _compare(spelled, first_names, last, last_names)
    )


def with_middle_names(names: Sequence[Name]) -> list[Name]:
    """Return a person's names; those with the registered first name, or a form of it, have the registered middle name."""
    if not names:
        return []
    registered = names[0]
    key = _key(registered.first)
    return [
        replace(name, middle=registered.middle)
        if not name.middle and key and _compare_first(key, words(name.first))
        else name
        for name in names
    ]


def best_fit(fits: Iterable[Fit]) -> Fit | None:
    """Return the first of the best fits; None without any."""
    return max(fits, key=lambda fit: fit.points, default=None)


def _compare(name: Name, first_names: list[str], last: str, last_names: set[str]) -> Iterator[Fit]:
    first_key, last_key = _key(name.first), _key(name.last)
    by_last = _compare_last(name.last, last_key, last)
    if not by_last or not first_key:
        return
    for count in (1, 2):  # Mary Ann, Mary-Ann and Maryann
        by_first = _compare_first(first_key, first_names[:count]) if len(first_names) >= count else None
        if by_first and (by_first[0] >= 0 or by_last[0] >= 0):
            points, *reasons = _compare_middle(words(name.middle), first_names[count:], last_names)
            name_reasons = [reason for _, reason in (by_last, by_first) if reason] or ["name: the same"]
            is_partial = by_first[0] == _PARTIAL
            yield Fit(by_first[0] + by_last[0] + points, (*name_reasons, *reasons), is_partial)


def _spaced(listed: str, names: Sequence[Name]) -> str:
    """Separate the last name from the first if the whole is one of the names, as Chinese and Korean write them."""
    key = _key(listed)
    return next(
        (f"{name.first} {name.last}" for name in names if _key(name.last + name.first) == key), listed
    )


def _split_generation(name: str, *, words_min: int) -> tuple[str, int | None]:
    """Split off the generation, such as 2 of Otterwick Jr.; None if none is stated, or too few words are left."""
    plain = fold_case(name)
    match = _GENERATION.search(plain)
    rest = name if match is None else plain[: match.start()] + plain[match.end() :]
    if match is None or len(words(rest)) < words_min:
        return name, None
    return rest, GENERATIONS[match[1]]


def _parse(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the possible readings of a listed name: first and middle names, and last name."""
    plain = without_apostrophes(fold_case(text))
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
    if name.suffix:  # perhaps a name: Anna Vi, Naosuke Ii
        with_suffix = f"{full} {name.suffix.replace(',', ' ')}"
        yield from _orders(with_suffix.lower().split()[:_WORDS_MAX], nicknames)
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
    if listed in _NICKNAMES.nicknames_of(registered) or registered in _NICKNAMES.nicknames_of(listed):
        return 0, "name: nickname of the registered first name"
    if _is_similar(registered, listed, _FIRST_MIN):
        return -0.25, "name: nearly the same spelling"
    shorter, longer = sorted((registered, listed), key=len)
    if longer.startswith(shorter) and (len(shorter) == 1 or len(shorter) >= _BEGINNING_MIN):
        part = "initial" if len(shorter) == 1 else "beginning of the first name"
        return _PARTIAL, f"name: the {part} alone"
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
