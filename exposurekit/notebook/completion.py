"""What a line that begins with ``%exposure`` may go on with. Asks no service, and offers nothing that a line could run."""

import re
import shlex
from collections.abc import Iterable

from exposurekit.notebook.commands import VERBS, accepted_options
from exposurekit.notebook.namespace import NotebookContext
from exposurekit.notebook.parser import OPTIONS

MOST = 200
_LINE = re.compile(r"\s*(?:[^%=]+=\s*)?%exposure(?P<rest>\s.*)", re.DOTALL)
_QUOTES = "'\""
# Names from outside become part of a line that is run: these letters mean nothing to a notebook.
_HARMLESS = re.compile(r"\w[\w .,&()+/-]{0,79}")


def completions(before: str, desk: NotebookContext) -> tuple[str, list[str]]:
    """What the last word of a line may become.

    Args:
        before: The line up to the cursor.
        desk: Whose sites, statuses and people are offered, as far as they are known without asking.

    Returns:
        The last word as it stands, and what to put in its place; none where the line is not about ``%exposure``.

    >>> from exposurekit.notebook.completion import completions
    >>> from exposurekit.notebook.namespace import NotebookContext
    >>> completions("table = %exposure by-s", NotebookContext(dict))
    ('by-s', ['by-site', 'by-state'])
    """
    line = _LINE.fullmatch(before)
    if line is None:
        return "", []
    words, last = _split(line["rest"])
    bare = last.strip(_QUOTES).casefold()
    fitting = [one for one in _offered(words, last, desk) if one.casefold().startswith(bare)]
    return last, [shlex.quote(one) for one in fitting[:MOST]]


def _split(text: str) -> tuple[list[str], str]:
    """The words that stand, and the one that is being typed, as it is: perhaps with a quotation mark still open."""
    words, start, quote = [], 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in _QUOTES:
            quote = letter
        elif letter.isspace():
            words.append(text[start:place].strip(_QUOTES))
            start = place + 1
    return [*filter(None, words)], text[start:]


def _offered(words: list[str], last: str, desk: NotebookContext) -> Iterable[str]:
    if not words:
        return [*VERBS, "--help"]
    verb, before = words[0], words[-1].removeprefix("--")
    if verb not in VERBS:
        return []
    if before in OPTIONS and words[-1].startswith("--") and OPTIONS[before].value:
        return _values(before, desk)
    if verb == "use" and len(words) == 1 and not last.startswith("-"):
        return desk.usable()
    return _options(verb, words)


def _options(verb: str, words: list[str]) -> list[str]:
    """Those that may still be given."""
    names = (*accepted_options(verb), "help")
    return [f"--{name}" for name in names if OPTIONS[name].several or f"--{name}" not in words]


def _values(option: str, desk: NotebookContext) -> Iterable[str]:
    if OPTIONS[option].choices:
        return OPTIONS[option].choices
    return [word for word in desk.words(option) if _HARMLESS.fullmatch(word)]
