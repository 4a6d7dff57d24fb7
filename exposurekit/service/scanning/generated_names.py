"""Generated names: classes and ids that a build tool made up, such as ``css-1x2y3z``. The site's next release changes them."""

import re
from itertools import pairwise

_SEGMENTS = re.compile(r"[-_]+")
_GENERATED = re.compile(
    r"(?i)(?:css|sc|jss|jsx|emotion|svelte|styled)-[a-z0-9]+(?:-\d+)?|_?ng(?:content|host)-.*"
)
_SEGMENT_MIN = 4  # characters of a segment that mixes letters and digits
_UNSPOKEN = re.compile(r"(?i)[^aeiouy]{5,}")  # no word of a language
_CASE_CHANGES = 3  # of one segment: a word has two at most, as in fullName


def is_generated(name: str) -> bool:
    """Return whether a class or an id looks as if a program made it up.

    >>> [name for name in ("person", "css-1x2y3z", "card__3xYz9", "full-name", "kJhGfD", "h-card") if is_generated(name)]
    ['css-1x2y3z', 'card__3xYz9', 'kJhGfD']
    """
    return bool(_GENERATED.fullmatch(name)) or any(map(_is_random, _SEGMENTS.split(name)))


def _is_random(segment: str) -> bool:
    has_digit = any(character.isdigit() for character in segment)
    changes = sum(one.isupper() != other.isupper() for one, other in pairwise(segment))
    mixed = has_digit and (len(segment) >= _SEGMENT_MIN or segment.isdecimal())
    return mixed or bool(_UNSPOKEN.search(segment)) or changes >= _CASE_CHANGES
