"""The ways in which a value is written: words, of names, addresses, e-mail addresses and days. Looks for nothing."""

import itertools
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import date, datetime

from exposurekit.privacy.normalize import words
from exposurekit.text.us_addresses import ADDRESS_WORDS, SHORT, STATES

LETTERS_JOINED = 8  # of a name without its space
SPELLINGS_MAX = 64  # of one address

_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
Words = tuple[str, ...]


def of_email(address: str) -> Iterator[Words]:
    """As it stands, or its signs in words; with what it has behind a plus, or without.

    >>> from exposurekit.privacy.variants import of_email
    >>> ("ada", "at", "mail", "dot", "example") in {*of_email("ada+shop@mail.example")}
    True
    """
    local, _, domain = address.rpartition("@")
    for one in {local, local.partition("+")[0]}:
        name, host = words(one), words(domain)
        spelled_out = _between(host, "dot")
        yield from ((*name, *host), (*name, "at", *host), (*name, "at", *spelled_out))
        yield (*_between(name, "dot"), "at", *spelled_out)


def of_address(address: str) -> Iterator[Words]:
    """Each word long or short: St and Street, CA and California.

    >>> from exposurekit.privacy.variants import of_address
    >>> ("12", "acorn", "street") in {*of_address("12 Acorn St")}
    True
    """
    ways = itertools.product(*map(_spellings, words(address)))
    for way in itertools.islice(ways, SPELLINGS_MAX):
        yield tuple(itertools.chain.from_iterable(way))


def of_name(first: Words, family: Words) -> Iterator[Words]:
    """In one word, or in more than two: two are a pair, which may have something between."""
    for way in (first + family, family + first):
        if len(way) > 2:  # noqa: PLR2004  as said
            yield way
        if len("".join(way)) >= LETTERS_JOINED:
            yield ("".join(way),)
    for last in {family[0], family[-1], "".join(family)}:
        if len(last) + 1 >= LETTERS_JOINED and is_latin(last):
            yield from ((first[0][0] + last,), (last + first[0][0],))


def of_day(born: date) -> Iterator[Words]:
    """As it is written here and there, and as the service writes it."""
    year, month, day = f"{born:%Y}", f"{born:%m}", f"{born:%d}"
    yield (f"{year}{month}{day}",)
    yield (year, month, f"{day}t00")  # and its midnight
    for one, other in ((month, day), (str(born.month), str(born.day))):
        yield from ((year, one, other), (one, other, year), (other, one, year))
    name = _MONTHS[born.month - 1]
    ordinals = (f"{born.day}{ending}" for ending in ("st", "nd", "rd", "th"))
    for spelled, one in itertools.product((name, name[:3]), (day, str(born.day), *ordinals)):
        yield from ((spelled, one, year), (one, spelled, year), (one, "of", spelled, year))
    seconds = int((datetime(born.year, born.month, born.day) - datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001
    yield (str(abs(seconds)),)


def without_umlauts(name: str) -> str:
    """As those write it whose keyboard has none; in lower case.

    >>> from exposurekit.privacy.variants import without_umlauts
    >>> without_umlauts("Träumer")
    'traeumer'
    """
    return name.casefold().translate(_UMLAUTS)


def is_latin(word: str) -> bool:
    """Whether it is of a script that puts spaces between words."""
    return all(one.isascii() or "LATIN" in unicodedata.name(one, "") for one in word)


def _spellings(word: str) -> Iterable[Words]:
    longs = ADDRESS_WORDS.get(SHORT.get(word, word), "").split()
    state = words(STATES.get(word.upper(), ""))
    return dict.fromkeys([(word,), (SHORT.get(word, word),), *((one,) for one in longs), state or (word,)])


def _between(parts: Words, word: str) -> Words:
    return tuple(itertools.chain.from_iterable((word, part) for part in parts))[1:]
