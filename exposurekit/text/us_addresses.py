"""US addresses: spellings of letters, streets and states, and the state of a location."""

import re

# Letters that Unicode does not decompose, in lower case.
LATIN_TO_ASCII = {
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i", "ħ": "h",
}  # fmt: skip

# Words of an address by their abbreviation (USPS Publication 28, Appendix C).
ADDRESS_WORDS = {
    "st": "street saint str", "ave": "avenue av", "ln": "lane", "rd": "road", "ct": "court", "dr": "drive",
    "blvd": "boulevard", "pl": "place", "ter": "terrace terr", "cir": "circle", "hwy": "highway", "pkwy": "parkway",
    "sq": "square", "trl": "trail", "ft": "fort", "mt": "mount", "n": "north", "s": "south", "e": "east", "w": "west",
    "ne": "northeast", "nw": "northwest", "se": "southeast", "sw": "southwest",
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
_ZIP = re.compile(r" [0-9]{5}(-[0-9]{4})?$")
_WORD = re.compile(r"[^\W_]+")
_STREET = re.compile(r"\d[\w/-]*\s+.*[^\W\d_]{2}")  # a house number and a name
_UNIT = re.compile(r"unit\b|[\W\d]*$")
_STATE_END = re.compile(rf"(?:(?:^|(?<=\s))(?:{'|'.join(STATES)}))?[\s\d-]*$")


def state_code(state: str) -> str:
    """Return the two-letter code of a state for its name or code in any case; other text as it is.

    >>> state_code("california"), state_code("ca"), state_code("Ontario")
    ('CA', 'CA', 'Ontario')
    """
    text = " ".join(state.split())
    return _CODES.get(text.upper(), text)


def state_of(location: str) -> str | None:
    """Return the two-letter code of the state at the end of a location, ignoring ZIP code and country.

    Behind the last comma, it may be a code or a name in any case. Without a comma, it is a code in capitals behind another
    word: "in" is a word, and Port Washington is a town.

    >>> state_of("Oakmere, ca 01234, USA"), state_of("Oakmere CA"), state_of("Port Washington"), state_of("come in")
    ('CA', 'CA', None, None)
    """
    text = " ".join(["", *location.replace(".", "").replace(",", " , ").split()])
    for country in _COUNTRIES:
        if text[-len(country) :].upper() == country:
            text = text[: -len(country)]
    text = _ZIP.sub("", text.rstrip(" ,")).rstrip(" ,")
    _, comma, end = text.rpartition(" , ")
    if comma and end.upper() in _CODES:
        return _CODES[end.upper()]
    start, _, code = end.rpartition(" ")
    return code if start.strip() and code in STATES else None


def address_words(text: str) -> str:
    """Return the words of a text in lower case, with those of addresses abbreviated and no punctuation.

    >>> address_words("12 Kite Lane, Apartment 4")
    '12 kite ln unit 4'
    """
    return " ".join(SHORT.get(word, word) for word in _WORD.findall(text.casefold()))


def street_and_town(location: str) -> tuple[str, str] | None:
    """Return a street with its house number and the town, as `address_words`; None: the location does not name both.

    >>> street_and_town("12 Kite Lane, Apt. 4, Mothgate, CT 06099"), street_and_town("Mothgate, CT")
    (('12 kite ln', 'mothgate'), None)
    """
    street, *others = (part.strip() for part in re.split(r"[,;\n]", location))
    parts = [part for part in others if not _UNIT.match(address_words(part))]
    if parts and f" {parts[-1].upper()}" in _COUNTRIES:
        parts.pop()
    if parts and parts[-1].upper() in _CODES:  # once: New York and Washington are towns, too
        parts.pop()
    town = _STATE_END.sub("", parts[0]) if parts else ""
    if not town or not _STREET.match(street):
        return None
    return address_words(street), address_words(town)
