"""Tab completion for ``%exposure``, from values that are already loaded."""

import re
import shlex
from collections.abc import Iterable

from exposurekit.notebook.commands import VERBS, accepted_options
from exposurekit.notebook.namespace import NotebookContext
from exposurekit.notebook.parser import OPTIONS

COMPLETIONS_MAX = 200
_LINE = re.compile(r"\s*(?:[^%=]+=\s*)?%exposure(?P<rest>\s.*)", re.DOTALL)
_QUOTES = "'\""
# Site names from outside become part of a line that runs: these characters have no meaning in IPython.
_HARMLESS = re.compile(r"\w[\w .,&()+/-]{0,79}")


def completions(before: str, context: NotebookContext) -> tuple[str, list[str]]:
    """Complete the last word of a line.

    Args:
        before: The line up to the cursor.
        context: Provides sites, statuses and user ids.

    Returns:
        The last word and its completions; none if the line is not an ``%exposure`` line.

    >>> from exposurekit.notebook.completion import completions
    >>> from exposurekit.notebook.namespace import NotebookContext
    >>> completions("table = %exposure by-s", NotebookContext(dict))
    ('by-s', ['by-site', 'by-state'])
    """
    line = _LINE.fullmatch(before)
    if line is None:
        return "", []
    words, last = _split(line["rest"])
    prefix = last.strip(_QUOTES).casefold()
    matches = [word for word in _candidates(words, last, context) if word.casefold().startswith(prefix)]
    return last, [shlex.quote(word) for word in matches[:COMPLETIONS_MAX]]


def _split(text: str) -> tuple[list[str], str]:
    """Split into complete words and the word being typed, which may have an open quotation mark."""
    words, start, quote = [], 0, ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character.isspace():
            words.append(text[start:position].strip(_QUOTES))
            start = position + 1
    return [*filter(None, words)], text[start:]


def _candidates(words: list[str], last: str, context: NotebookContext) -> Iterable[str]:
    if not words:
        return [*VERBS, "--help"]
    verb, before = words[0], words[-1].removeprefix("--")
    if verb not in VERBS:
        return []
    if before in OPTIONS and words[-1].startswith("--") and OPTIONS[before].value:
        return _values(before, context)
    if verb == "use" and len(words) == 1 and not last.startswith("-"):
        return context.usable()
    return _options(verb, words)


def _options(verb: str, words: list[str]) -> list[str]:
    """Return the options that can still be added."""
    names = (*accepted_options(verb), "help")
    return [f"--{name}" for name in names if OPTIONS[name].multiple or f"--{name}" not in words]


def _values(option: str, context: NotebookContext) -> Iterable[str]:
    if OPTIONS[option].choices:
        return OPTIONS[option].choices
    return [value for value in context.values(option) if _HARMLESS.fullmatch(value)]
