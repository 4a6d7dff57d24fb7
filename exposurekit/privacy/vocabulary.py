"""Common words that identify nobody: words of our texts and of opt-out instructions."""

from functools import cache
from importlib.resources import files


@cache
def common_words() -> frozenset[str]:
    """The common words, in lower case: `common_words.txt`, one a line."""
    return frozenset(files("exposurekit.privacy").joinpath("common_words.txt").read_text("utf-8").split())


def is_common(word: str) -> bool:
    """Whether a word is common: in the vocabulary, a single Latin letter, or a number of up to four digits."""
    if word in common_words() or (word.endswith("s") and word[:-1] in common_words()):
        return True
    return (len(word) == 1 and word.isascii()) or (word.isdecimal() and len(word) <= 4)  # noqa: PLR2004  a year
