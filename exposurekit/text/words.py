"""Split text into words for comparison: lower case, without accents and punctuation."""

import re
import unicodedata
from collections.abc import Mapping

# Letters that Unicode does not decompose, in lower case.
LATIN_TO_ASCII = {
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "\u0131": "i", "ħ": "h",
}  # fmt: skip
TITLES = frozenset(("dr", "miss", "mr", "mrs", "ms", "mx", "prof"))  # before a name
# Behind a name. Not "senior", which is a last name, too, nor "v", which is an initial.
GENERATIONS: Mapping[str, int] = {
    "sr": 1,
    "jr": 2,
    "junior": 2,
    "ii": 2,
    "iii": 3,
    "iv": 4,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
}
_GENERATION = re.compile(rf"(?<=\S)[\s,]+(?:{'|'.join(GENERATIONS)})\.?\s*$", re.IGNORECASE)
# Words in lower case with which a last name begins.
_PARTICLES = re.compile(r" (?:d[aeiou]s?|del|della|den|der|la|le|ten|ter|v[ao]n|zu[mr]?) (?=\S)")
_UMLAUTS = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "å": "aa",
        "ø": "oe",
        "Ä": "Ae",
        "Ö": "Oe",
        "Ü": "Ue",
        "Å": "Aa",
        "Ø": "Oe",
    }
)
_TRANSLITERATION = str.maketrans(LATIN_TO_ASCII)
_APOSTROPHES = re.compile("(?<=\\w)['`\u00b4\u02b9\u02bb\u02bc\u2018\u2019](?=\\w)")
_NON_WORD = re.compile(r"[\W_]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def fold_case(text: str) -> str:
    """Lower the case and remove accents; punctuation stays."""
    if text.isascii():
        return text.lower()
    # Twice: case folding can add accents, as for the dotted capital I.
    for _ in range(2):
        text = _NOT_ASCII.sub(_without_marks, unicodedata.normalize("NFKD", text).casefold())
    return text.translate(_TRANSLITERATION)


def _without_marks(match: re.Match[str]) -> str:
    return "".join(char for char in match[0] if not unicodedata.combining(char))


def without_umlauts(name: str) -> str:
    r"""Return a name as it is spelled without umlauts, such as Mueller for Müller; without accents it is also Muller.

    >>> without_umlauts("M\u00fcller"), without_umlauts("Mu\u0308ller")
    ('Mueller', 'Mueller')
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name).translate(_UMLAUTS)


def without_generation(name: str) -> str:
    """Return a name without the generation at its end.

    >>> without_generation("Otterwick, Jr."), without_generation("Ii")
    ('Otterwick', 'Ii')
    """
    return _GENERATION.sub("", name)


def split_full_name(text: str) -> tuple[str, str]:
    """Split a full name into first and last name, which has particles such as van der and a generation such as Jr.

    >>> split_full_name("Ann Lee van der Moor Jr."), split_full_name("Ann")
    (('Ann Lee', 'van der Moor Jr.'), ('Ann', ''))
    """
    full = " ".join(text.split())
    match, name = _PARTICLES.search(full), without_generation(full)
    at = match.start() if match else name.rfind(" ") if " " in name else full.rfind(" ")
    return (full, "") if at < 0 else (full[:at], full[at + 1 :])


def words(text: str) -> list[str]:
    """Split a text into words: lower case, no accents, no punctuation."""
    return _NON_WORD.sub(" ", without_apostrophes(fold_case(text))).split()


def without_apostrophes(text: str) -> str:
    """Join what an apostrophe separates."""
    return _APOSTROPHES.sub("", text)
