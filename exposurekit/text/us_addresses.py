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
