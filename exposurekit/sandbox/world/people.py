"""Invented people with fictional names, phone numbers and e-mail addresses; the same seed gives the same people."""

import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

EPOCH = date(1970, 1, 1)
DAY = 86_400
OLDEST, YOUNGEST = 1931, 2004  # years of birth
TRIES = 100  # draws for an unused number; after that, two people share one

# first name, and its nickname after a colon
FIRST_NAMES = """
Juniper:June Marigold:Goldie Bartholomew:Bart Clementine:Clem Peregrine:Perry Wilhelmina:Billie Thaddeus:Tad
Philomena:Mena Ignatius:Iggy Rosalind:Roz Montgomery:Monty Henrietta:Etta Augustin:Gus Cordelia:Delia
Leopold:Leo Evangeline:Evie Barnaby:Barney Josephina:Jo Cornelius:Neil Theodora:Teddy Sebastian:Bas
Araminta:Minty Ferdinand:Ferdy Millicent:Millie Algernon:Algie Winifred:Winnie Maximilian:Max Octavia:Tavi
Nathaniel:Nat Seraphina:Fina Alistair:Al Florentine:Flo Reginald:Reg Isadora:Izzy Lysander:Sandy Beatrix:Bea
Humphrey:Hum Georgiana:Georgie Emmanuel:Manny Valentina:Val Zebediah:Zeb Antonella:Nella Desmond:Des
Magnolia:Nolia Rutherford:Ford Penelope:Nell Ezekiel:Zeke Columbine:Collie Archibald:Archie Susannah:Sukey Zoë
Maëlle José Björn Inès Anaïs Linnet Wren Hazel Bracken Tansy Sorrel Cricket Fable Larkin Tamsin Orson Alder
Quill Sable Merritt Hollis Ludo Vesper Isolde Caspian Briar Opaline Phineas Oberon Calla Dashiell Eulalie
Fennimore Ginevra Hyacinth Ione Jocasta Kestrel Lavender Mirabel Nerys Ottoline Primrose Quentin Rafferty
Saffron Tobias Ulysses Verity Walden Xanthe Yarrow Zinnia Ambrose Bellamy Cosmo Damaris Elowen Finch Galen
Hesper Indigo Jasper Keturah Lorcan Maris Niall Osric Posy Rowan Severin Thorne Una Vivian
"""
LAST_BEGINNINGS = """
Quill Thistle Bramble Marsh Otter Larks Penny Moss Copper Willow Thimble Candle Foxglove Heron Juniper Apple
Barley Clover Dapple Elder Feather Ginger Hazel Ivory Jasper Kettle Lantern Mallow Nettle Oaken Pepper Quarry
Raven Saffron Tansy Umber Velvet Wander Yarrow Zephyr Amber Briar Cinder Drift Ember Fern Gossamer Hollow
Acorn Bellows Cobble Damson Eider Flint Goose Honey Ink Jelly Plum Silver Tumble Winter
"""
LAST_ENDINGS = """
feather wick spindle whistle worth combe stead brook mantle thatch meadow barrow lock field grove holt croft
water stone wood bury dale gate ridge shaw hurst mere ley moor den burrow well garth by stock bridge fold
"""
LAST_ODDITIES = ("O'Thimble", "D'Umberlane", "St. Quillon", "Nettle-Moor", "Pérelarque", "Fennoñez")

# an invented town, its state and its ZIP code
TOWNS = """
Quillmarsh NJ 07099; Otterwick Landing NJ 08099; Thimbleford MA 01099; Candlewharf MA 02599
Mothgate CT 06099; Larkspindle RI 02899; Bramblecombe NH 03099; Pinemantle ME 04099; Mapleshatter VT 05099
Dapplewater NY 12999; Fort Whistle NY 14099; Coppermint PA 15999; Nettlebarrow PA 18099; Applethorn OH 43999
Jasperholt OH 45099; Ketteringale IL 60999; Prairie Lantern IL 62099; Herons Elbow MI 48999
Cinderholm WI 53999; Loonwhistle MN 56099; Barleyskip IA 52999; Gooseberry Fork MO 64999
Peachlantern GA 30999; Flamingo Stead FL 33999; Palmettle FL 32999; Armadillo Rest TX 75999
Dustywhistle TX 79099; Tumblecreek TX 77999; Aspenglim CO 81999; Saguaro Spindle AZ 85999
Juniper Elbow NM 87999; Marmot Hollow MT 59999; Spudlantern ID 83999; Rainthimble WA 98999
Mossbottom OR 97999; Poppyquill CA 95999; Fogmantle CA 94999; Sunspindle CA 92999; Tarheelia Moor NC 28999
Dogwoodle VA 24199; Banjobrook TN 37999
"""
AREA_CODES = """
NJ 201 609 732 856 908 973; MA 413 508 617 781 978; CT 203 860; RI 401; NH 603; ME 207; VT 802
NY 315 518 585 607 716 845 914; PA 215 412 570 610 717 814; OH 216 330 419 513 614 740 937
IL 217 309 312 618 815; MI 231 269 313 517 616 734 906; WI 262 414 608 715 920; MN 218 320 507 612 651 763
IA 319 515 563 641 712; MO 314 417 573 636 660 816; GA 229 404 478 706 770 912
FL 239 305 321 352 407 561 727 813 850 904; TX 210 214 254 281 325 361 409 432 512 713 806 817 830 903 915 936
CO 303 719 970; AZ 480 520 602 623 928; NM 505 575; MT 406; ID 208; WA 206 253 360 425 509; OR 503 541
CA 209 213 310 323 408 415 510 530 559 619 626 650 661 707 714 760 805 818 831 858 909 916 925 949 951
NC 252 336 704 828 910 919; VA 276 434 540 571 703 757 804; TN 423 615 731 865 901 931
"""
STREETS = "Acorn Butterchurn Cartwheel Dandelion Elderberry Fiddlehead Gooseneck Hopscotch Inkwell Jackdaw Kite Lilypad"
STREET_KINDS = ("Street", "Avenue", "Lane", "Road", "Court", "Way")
MAIL_DOMAINS = ("example.com", "example.org", "example.net")


@dataclass(frozen=True)
class Alias:
    """Another present or former name of a person."""

    first_name: str = field(repr=False)
    last_name: str = field(repr=False)
    alias_type: str | None = None


@dataclass(frozen=True)
class Address:
    """A postal address in an invented town of a real state."""

    address1: str = field(repr=False)
    address2: str | None = field(repr=False)
    city: str = field(repr=False)
    state: str = field(repr=False)
    zip: str = field(repr=False)


@dataclass(frozen=True, repr=False)
class Person:
    """An invented person with the data they register. The first address is the current one."""

    first_name: str
    middle_name: str | None
    last_name: str
    birth_date: int | None
    aliases: tuple[Alias, ...]
    emails: tuple[str, ...]
    phone_numbers: tuple[str, ...]
    addresses: tuple[Address, ...]
    relatives: tuple[str, ...]

    def __repr__(self) -> str:
        lists = ("aliases", "emails", "phone_numbers", "addresses", "relatives")
        return f"Person({', '.join(f'{name}={len(getattr(self, name))}' for name in lists)})"

    def fields(self) -> frozenset[str]:
        """Return the user fields, as in `user_fields_required_for_removal`, that this person has values for.

        >>> sorted(invent(1, seed=7)[0].fields() & {"address1", "first_name"})
        ['address1', 'first_name']
        """
        always = {"first_name", "last_name", "address1", "city", "state", "zip"}
        others = {"middle_name": self.middle_name, "birth_date": self.birth_date}
        lists = {"email": self.emails, "phone_number": self.phone_numbers}
        return frozenset(always | _present(others).keys() | {name for name, items in lists.items() if items})

    def request(self) -> dict[str, Any]:
        """Return the keyword arguments of Create user, without the missing values.

        >>> request = invent(1, seed=7)[0].request()
        >>> list(request)[-4:], list(request["addresses"][0])[-2:]
        (['aliases', 'emails', 'phone_numbers', 'addresses'], ['state', 'zip'])
        """
        request = {
            "first_name": self.first_name,
            "middle_name": self.middle_name,
            "last_name": self.last_name,
            "birth_date": self.birth_date,
            "aliases": [_present(vars(alias)) for alias in self.aliases],
            "emails": [{"address": address} for address in self.emails],
            "phone_numbers": [{"number": number} for number in self.phone_numbers],
            "addresses": [_present(vars(address)) for address in self.addresses],
        }
        return _present(request)


def invent(count: int, seed: int) -> list[Person]:
    """Invent people, grouped in households; a larger count only adds people at the end.

    >>> invent(2, seed=7) == invent(5, seed=7)[:2]
    True
    >>> invent(1, seed=7)
    [Person(aliases=0, emails=1, phone_numbers=1, addresses=1, relatives=2)]
    """
    rng = random.Random(f"people {seed}")  # noqa: S311  invented data, not a secret; text, for -1 seeds as 1 does
    taken: set[str] = set()
    people: list[Person] = []
    while len(people) < count:
        people += _household(rng, taken, people)
    return people[: max(count, 0)]


def slug(text: str) -> str:
    """Convert a name to its form in a URL.

    >>> slug("Zoë O'Thimble")
    'zoe-o-thimble'
    """
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")


def chance(rng: random.Random, probability: float) -> bool:
    """Draw whether an event of this probability happens.

    >>> chance(random.Random(1), 1.0), chance(random.Random(1), 0.0)
    (True, False)
    """
    return rng.random() < probability


@dataclass(frozen=True, repr=False)
class _Sketch:
    """The outline of a person: name, maiden name and year of birth."""

    first: str
    last: str
    maiden: str | None
    year: int


_NAMED = [entry.partition(":") for entry in FIRST_NAMES.split()]
_FIRST = tuple(first for first, _, _ in _NAMED)
NICKNAMES = {first: short for first, _, short in _NAMED if short}
_BEGINNINGS, _ENDINGS = LAST_BEGINNINGS.split(), LAST_ENDINGS.split()
_TOWNS = [tuple(town.rsplit(maxsplit=2)) for town in re.split(r"[;\n]\s*", TOWNS.strip())]
_CODES = {codes[:2]: codes.split()[1:] for codes in re.split(r"[;\n]\s*", AREA_CODES.strip())}
_ALL_CODES = [code for codes in _CODES.values() for code in codes]


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _fresh(taken: set[str], draw: Callable[[], str]) -> str:
    """Draw a value that is not taken yet, so that a phone number or an e-mail address identifies one person."""
    for _ in range(TRIES):
        if (drawn := draw()) not in taken:
            break
    taken.add(drawn)
    return drawn


def _household(rng: random.Random, taken: set[str], earlier: list[Person]) -> list[Person]:
    town = rng.choice(_TOWNS)
    home = _address(rng, town)
    sketches = [_namesake(rng, rng.choice(earlier))] if earlier and chance(rng, 0.02) else _family(rng)
    names = [f"{sketch.first} {sketch.last}" for sketch in sketches]
    names += [f"{rng.choice(_FIRST)} {sketches[0].last}" for _ in range(rng.choice((0, 1, 1, 2)))]
    people = []
    for sketch in sketches:
        relatives = dict.fromkeys(name for name in names if name != f"{sketch.first} {sketch.last}")
        lives_at = home if chance(rng, 0.7) else _address(rng, town)
        people.append(_person(rng, taken, sketch, lives_at, tuple(relatives)))
    return people


def _namesake(rng: random.Random, other: Person) -> _Sketch:
    """A stranger with the same name, or the same but for one letter."""
    last = other.last_name
    if chance(rng, 0.4):
        at = rng.randrange(2, len(last))
        last = last[:at] + last[at + 1 :]
    return _Sketch(other.first_name, last, None, rng.randint(OLDEST, YOUNGEST))


def _family(rng: random.Random) -> list[_Sketch]:
    last, year = _last_name(rng), rng.randint(OLDEST, YOUNGEST)
    size = rng.choices((1, 2, 3, 4), (55, 25, 12, 8))[0]
    generation = 1 if year < (OLDEST + YOUNGEST) // 2 else -1  # grown children, or parents
    years = [year, year + rng.randint(-6, 6), *(year + generation * rng.randint(20, 35) for _ in range(2))]
    maidens = (None, _last_name(rng) if chance(rng, 0.6) else None, None, None)
    drawn = zip(rng.sample(_FIRST, size), maidens, years, strict=False)
    return [_Sketch(first, last, maiden, min(max(born, OLDEST), YOUNGEST)) for first, maiden, born in drawn]


def _last_name(rng: random.Random) -> str:
    if chance(rng, 0.01):
        return rng.choice(LAST_ODDITIES)
    return rng.choice(_BEGINNINGS) + rng.choice(_ENDINGS)


def _other(rng: random.Random, first: str) -> str:
    """Another first name."""
    return _FIRST[(_FIRST.index(first) + rng.randrange(1, len(_FIRST))) % len(_FIRST)]


def _person(
    rng: random.Random, taken: set[str], sketch: _Sketch, home: Address, relatives: tuple[str, ...]
) -> Person:
    born = date(sketch.year, rng.randint(1, 12), rng.randint(1, 28))
    mailboxes, phones = rng.choices((0, 1, 2, 3), (8, 52, 30, 10))[0], rng.choices((0, 1, 2), (8, 62, 30))[0]
    former = rng.choices((0, 1, 2), (50, 35, 15))[0]
    return Person(
        first_name=sketch.first,
        middle_name=_other(rng, sketch.first) if chance(rng, 0.8) else None,
        last_name=sketch.last,
        birth_date=(born - EPOCH).days * DAY if chance(rng, 0.9) else None,
        aliases=_aliases(rng, sketch),
        emails=tuple(_fresh(taken, lambda: _email(rng, sketch)) for _ in range(mailboxes)),
        phone_numbers=tuple(_fresh(taken, lambda: _phone(rng, home.state)) for _ in range(phones)),
        addresses=(home, *(_address(rng, rng.choice(_TOWNS)) for _ in range(former))),
        relatives=relatives,
    )


def _aliases(rng: random.Random, sketch: _Sketch) -> tuple[Alias, ...]:
    aliases = []
    if sketch.first in NICKNAMES and chance(rng, 0.5):
        aliases.append(Alias(NICKNAMES[sketch.first], sketch.last, "nickname"))
    if sketch.maiden:
        aliases.append(Alias(sketch.first, sketch.maiden, "maiden"))
    if chance(rng, 0.06):
        aliases.append(Alias(_other(rng, sketch.first), sketch.last))  # a name of no declared kind
    return tuple(aliases)


def _email(rng: random.Random, sketch: _Sketch) -> str:
    first, last = slug(sketch.first).replace("-", ""), slug(sketch.last).replace("-", "")
    local = rng.choice((f"{first}.{last}", f"{first[0]}{last}", f"{last}.{first}", f"{first}{last[0]}"))
    number = rng.choice(("", str(sketch.year % 100).zfill(2), str(rng.randrange(1000))))
    return f"{local}{number}@{rng.choice(MAIL_DOMAINS)}"


def _phone(rng: random.Random, state: str) -> str:
    """A number of the range reserved for fiction: 555-0100 to 555-0199."""
    codes = _CODES[state] if chance(rng, 0.6) else _ALL_CODES
    return f"{rng.choice(codes)}55501{rng.randrange(100):02d}"


def _address(rng: random.Random, town: tuple[str, ...]) -> Address:
    city, state, code = town
    street = f"{rng.randint(1, 2999)} {rng.choice(STREETS.split())} {rng.choice(STREET_KINDS)}"
    flats = (f"Apt {rng.randint(1, 40)}", f"Unit {rng.choice('ABCDEF')}", *[None] * 6)
    return Address(street, rng.choice(flats), city, state, code)
