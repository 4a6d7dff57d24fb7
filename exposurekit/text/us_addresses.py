"""US addresses: spellings of streets and states, and the street, town and state of a location."""

import re

from exposurekit.text.words import words

# Words of an address by their abbreviation (USPS Publication 28, Appendix C).
ADDRESS_WORDS = {
    "st": "street saint str", "ave": "avenue av", "ln": "lane", "rd": "road", "ct": "court", "dr": "drive",
    "blvd": "boulevard", "pl": "place", "ter": "terrace terr", "cir": "circle", "hwy": "highway", "pkwy": "parkway",
    "sq": "square", "trl": "trail", "ft": "fort", "mt": "mount", "n": "north", "s": "south", "e": "east", "w": "west",
    "ne": "northeast", "nw": "northwest", "se": "southeast", "sw": "southwest",
    "aly": "alley", "bch": "beach", "blf": "bluff", "bnd": "bend", "brg": "bridge", "brk": "brook", "byp": "bypass",
    "cres": "crescent", "crk": "creek", "cswy": "causeway", "ctr": "center centre cntr", "cv": "cove", "cyn": "canyon",
    "est": "estate", "ests": "estates", "expy": "expressway", "ext": "extension", "fld": "field", "flds": "fields",
    "fls": "falls", "frst": "forest", "fwy": "freeway", "gdn": "garden", "gdns": "gardens", "gln": "glen", "grn": "green",
    "grv": "grove", "gtwy": "gateway", "hbr": "harbor", "hl": "hill", "hls": "hills", "holw": "hollow", "hts": "heights",
    "hvn": "haven", "jct": "junction", "knl": "knoll", "knls": "knolls", "lk": "lake", "lks": "lakes", "lndg": "landing",
    "mdw": "meadow", "mdws": "meadows", "ml": "mill", "mls": "mills", "mnr": "manor", "mtn": "mountain", "orch": "orchard",
    "plz": "plaza", "pne": "pine", "pnes": "pines", "psge": "passage", "pt": "point", "pts": "points", "rdg": "ridge",
    "riv": "river", "rnch": "ranch", "rte": "route rt", "shr": "shore", "shrs": "shores", "smt": "summit", "spg": "spring",
    "spgs": "springs", "sta": "station", "tpke": "turnpike", "trce": "trace", "vis": "vista", "vlg": "village",
    "vly": "valley", "vw": "view", "way": "wy", "xing": "crossing",
    "1st": "first", "2nd": "second", "3rd": "third", "4th": "fourth", "5th": "fifth", "6th": "sixth", "7th": "seventh",
    "8th": "eighth", "9th": "ninth", "10th": "tenth", "11th": "eleventh", "12th": "twelfth",
    "unit": "apt apartment suite ste flat room rm",
}  # fmt: skip
SHORT = {long: short for short, longs in ADDRESS_WORDS.items() for long in longs.split()}

# The two letters of the United States Postal Service, and the names that they stand for (Appendix B).
STATES = {
    "AL": "Alabama", "AK": "Alaska", "AS": "American Samoa", "AZ": "Arizona", "AR": "Arkansas", "CA": "California",
    "CO": "Colorado", "CT": "Connecticut", "DE": "Delaware", "DC": "District of Columbia", "FL": "Florida",
    "GA": "Georgia", "GU": "Guam", "HI": "Hawaii", "ID": "Idaho", "IL": "Illinois", "IN": "Indiana", "IA": "Iowa",
    "KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland", "MA": "Massachusetts",
    "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi", "MO": "Missouri", "MP": "Northern Mariana Islands",
    "MT": "Montana", "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey", "NM": "New Mexico",
    "NY": "New York", "NC": "North Carolina", "ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon",
    "PA": "Pennsylvania", "PR": "Puerto Rico", "RI": "Rhode Island", "SC": "South Carolina", "SD": "South Dakota",
    "TN": "Tennessee", "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia", "VI": "Virgin Islands",
    "WA": "Washington", "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming",
}  # fmt: skip

_CODES = {name.upper(): code for code, name in STATES.items()} | {code: code for code in STATES}
_COUNTRIES = (" USA", " US", " UNITED STATES OF AMERICA", " UNITED STATES")
_ZIP = re.compile(r" ([0-9]{5})(?:-[0-9]{4})?$")
_DOT_IN_ABBREVIATION = re.compile(r"(?<=\b[^\W\d_])\.(?:(?=[^\W\d_]\b)| (?=[^\W\d_]\.))")
_POST_OFFICE_BOX = re.compile(r"\b(?:p\.? ?o\.?|post office) ?box\b", re.IGNORECASE)
# Units that are also words of streets and towns (Publication 28, C2): Space Center Boulevard, FL.
_UNITS = frozenset(
    ["bldg", "building", "fl", "floor", "lot", "ph", "penthouse", "space", "spc", "trailer", "trlr"]
)
_LAST_UNITS = frozenset({"rear", "ph", "penthouse"})  # without a number
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_UNIT_AND_NUMBER = re.compile(
    r"\b(apt|bldg|fl|lot|ph|room|rm|spc|ste|suite|trlr|unit)(?=\d+[a-z]?\b)", re.IGNORECASE
)
_STATE_END = re.compile(rf"(?:(?:^|(?<=\s))(?:{'|'.join(STATES)}))?[\s\d-]*$")


def state_code(state: str) -> str:
    """Return the two-letter code of a state for its name or code in any case; other text as it is.

    >>> state_code("california"), state_code("ca"), state_code("Ontario")
    ('CA', 'CA', 'Ontario')
    """
    text = " ".join(state.split())
    return _CODES.get(text.upper(), text)


def in_united_states(country: str) -> bool:
    """Return whether a country is the United States, or blank.

    >>> in_united_states("U.S.A."), in_united_states(""), in_united_states("Australia")
    (True, True, False)
    """
    text = " ".join(country.replace(".", "").split())
    return not text or f" {text.upper()}" in _COUNTRIES


def state_of(location: str) -> str | None:
    """Return the two-letter code of the state at the end of a location, ignoring ZIP code and country.

    Behind the last comma, it may be a code or a name in any case. Without a comma, it is a code in capitals behind another
    word: "in" is a word, and Port Washington is a town.

    >>> state_of("Oakmere, ca 01234, USA"), state_of("Oakmere CA"), state_of("Port Washington"), state_of("come in")
    ('CA', 'CA', None, None)
    """
    _, state, _ = _split_state(location)
    return state


def listed_address(location: str) -> dict[str, str] | None:
    """Return the fields of the address that a location shows; None if its state is not clear.

    >>> listed_address("9 Kite Lane, Mothgate, CT 06099")
    {'address1': '9 Kite Lane', 'city': 'Mothgate', 'state': 'CT', 'zip': '06099'}
    """
    before, state, zip_code = _split_state(location)
    if state is None:
        return None
    line, _, city = before.rpartition(" , ")
    if any(char.isdigit() for char in city):
        line, city = before, ""
    street_line = line.replace(" ,", ",") if any(char.isdigit() for char in line) else ""
    fields = {"address1": street_line, "city": city, "state": state, "zip": zip_code}
    return {name: text for name, value in fields.items() if (text := value.strip(" ,"))}


def _split_state(location: str) -> tuple[str, str | None, str]:
    """Split a location into what comes before its state, the state's code and the ZIP code."""
    text = " ".join(["", *location.replace(".", "").replace(",", " , ").split()])
    for country in _COUNTRIES:
        if text[-len(country) :].upper() == country:
            text = text[: -len(country)]
    text = text.rstrip(" ,")
    zip_code = _ZIP.search(text)
    text = _ZIP.sub("", text).rstrip(" ,")
    before, comma, end = text.rpartition(" , ")
    code = zip_code[1] if zip_code else ""
    if comma and end.upper() in _CODES:
        return before, _CODES[end.upper()], code
    start, _, last = end.rpartition(" ")
    if start.strip() and last in STATES:
        return f"{before}{comma}{start}", last, code
    return text, None, code


def location_words(text: str) -> list[str]:
    """Split a part of a location into words.

    >>> location_words("12-A Acorn St. N.W., D. C., #4")
    ['12', 'a', 'acorn', 'st', 'nw', 'dc', 'unit', '4']
    """
    text = _POST_OFFICE_BOX.sub("po box", text.replace("#", " unit "))
    return words(_UNIT_AND_NUMBER.sub(r"\1 ", _DOT_IN_ABBREVIATION.sub("", text)))


def address_words(text: str) -> list[str]:
    """Split an address into words, each abbreviated if it has an abbreviation.

    >>> address_words("12 North Acorn Street, #4")
    ['12', 'n', 'acorn', 'st', 'unit', '4']
    """
    return [SHORT.get(word, word) for word in location_words(text)]


def street(line: str) -> str | None:
    """Normalize a street line, without the apartment; None without a house or box number.

    >>> street("12 Acorn Street, 2nd Floor"), street("Apt. 4, 12 Acorn Street"), street("Acorn Cottage")
    ('12 acorn st', '12 acorn st', None)
    >>> street("12 Fifth Avenue"), street("Fifth Avenue")
    ('12 5th ave', None)
    """
    spelled = street_words(line)
    return " ".join(SHORT.get(word, word) for word in spelled) if spelled else None


def street_words(line: str) -> list[str]:
    """Split a street line into words as they are spelled, without the apartment; empty without a house or box number.

    >>> street_words("Apt. 4, 12 Acorn Street")
    ['12', 'acorn', 'street']
    """
    spelled = location_words(line)
    parts, start = [SHORT.get(word, word) for word in spelled], 0
    if parts[:1] == ["unit"]:
        if not _is_number(parts[1:2]):
            return []
        start = 2
    parts = _without_unit(parts[start:])
    numbered = any(any(char.isdigit() for char in word) and not _ORDINAL.fullmatch(word) for word in parts)
    named = any(word.isalpha() and len(word) > 1 for word in parts)
    return spelled[start : start + len(parts)] if numbered and named else []


def _without_unit(parts: list[str]) -> list[str]:
    if "unit" in parts[1:]:
        parts = parts[: parts.index("unit", 1)]
    units = (number for number in range(2, len(parts)) if is_unit(parts[number:]))
    return parts[: next(units, None)]


def is_unit(parts: list[str]) -> bool:
    """Return whether a part of an address, as `address_words`, is a unit: an apartment, a building or a floor."""
    first, following = parts[0], parts[1:]
    return (
        first == "unit"
        or (first in _UNITS and _is_number(following[:1]))
        or (_ORDINAL.fullmatch(first) is not None and following[:1] in (["fl"], ["floor"]))
        or (first in _LAST_UNITS and not following)
    )


def _is_number(part: list[str]) -> bool:
    return any(len(word) == 1 or any(char.isdigit() for char in word) for word in part)


def street_and_town(location: str) -> tuple[str, str] | None:
    """Return a street as `street` does and the town in `address_words`; None: the location does not name both.

    >>> street_and_town("12 Kite Lane, Floor 2, Mothgate, CT 06099"), street_and_town("Mothgate, CT")
    (('12 kite ln', 'mothgate'), None)
    """
    first, *others = (part.strip() for part in re.split(r"[,;\n]", location))
    parts = [part for part in others if (named := address_words(part)) and not is_unit(named)]
    if parts and f" {parts[-1].upper()}" in _COUNTRIES:
        parts.pop()
    if parts and parts[-1].upper() in _CODES:  # once: New York and Washington are towns, too
        parts.pop()
    town = " ".join(address_words(_STATE_END.sub("", parts[0]))) if parts else ""
    line = street(first)
    return (line, town) if town and line else None
