"""Split text into words for comparison: lower case, without accents and punctuation."""

import re
import unicodedata

from exposurekit.text.us_addresses import LATIN_TO_ASCII

TITLES = frozenset(("dr", "miss", "mr", "mrs", "ms", "mx", "prof"))  # before a name
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


def words(text: str) -> list[str]:
    """Split a text into words: lower case, no accents, no punctuation."""
    return _NON_WORD.sub(" ", without_apostrophes(fold_case(text))).split()


def without_apostrophes(text: str) -> str:
    """Join what an apostrophe separates."""
    return _APOSTROPHES.sub("", text)
