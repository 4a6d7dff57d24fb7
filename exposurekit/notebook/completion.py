"""Tab completion for ``%exposure``, from values that are already loaded."""

import re
import shlex
import warnings
from collections.abc import Iterable

import pandas as pd

from exposurekit.analysis.statuses import OPEN
from exposurekit.notebook.commands import verbs
from exposurekit.notebook.namespace import NotebookContext
from exposurekit.notebook.parser import OPTIONS

COMPLETIONS_MAX = 200
_LINE = re.compile(r"\s*(?:[^%=]+=\s*)?%exposure(?P<rest>\s.*)", re.DOTALL)
_QUOTES = "'\""
# Names from outside become part of a line that runs: these characters have no meaning in IPython, or in quotes.
_HARMLESS = re.compile(r"\w[\w .,&()+/'\u2019-]{0,79}")
_COLUMNS = ("site", "status")
_VALUES_MAX = 2_000


class CompletionValues:
    """The sites, statuses, and ids and names of users that need no request: those loaded, and those of tables in results."""

    def __init__(self, context: NotebookContext) -> None:
        self.context = context
        self._values: dict[str, set[str]] = {name: set() for name in _COLUMNS}

    def remember(self, result: object) -> None:
        """Remember the sites and statuses of a result, if it is a table."""
        if not isinstance(result, pd.DataFrame):
            return
        for name in _COLUMNS:
            if name in result and not pd.api.types.is_numeric_dtype(result[name].dtype):
                self._values[name].update(result[name].dropna().astype("str").unique()[:_VALUES_MAX])

    def harmless(self, option: str) -> list[str]:
        """Return the values of an option that are safe in a line."""
        exposure, values = self.context.loaded_exposure(), self._values.get(option, set())
        if exposure is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # tables warn about users that are not loaded
                self.remember(exposure.records())
                if option == "user":
                    users = exposure.users()
                    names = (users["first_name"].str.strip() + " " + users["last_name"].str.strip()).dropna()
                    values = {*map(str, users["user_id"]), *names}
        if option == "status" and values:
            values = values | {OPEN}
        return sorted(filter(_HARMLESS.fullmatch, values))


def completions(before: str, values: CompletionValues) -> tuple[str, list[str]]:
    """Return the last word of a line up to the cursor, and its completions; none if it is not a line of ``%exposure``."""
    line = _LINE.fullmatch(before)
    if line is None:
        return "", []
    words, last = _split(line["rest"])
    prefix = last.strip(_QUOTES).casefold()
    if not words:
        prefix = prefix.replace("_", "-")  # as a verb may be typed
    matches = [word for word in _candidates(words, last, values) if word.casefold().startswith(prefix)]
    return last, [_quote(word) for word in matches[:COMPLETIONS_MAX]]


def _quote(word: str) -> str:
    """Quote a word as people do: one with an apostrophe in double quotation marks, which no harmless word contains."""
    return f'"{word}"' if "'" in word else shlex.quote(word)


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


def _candidates(words: list[str], last: str, values: CompletionValues) -> Iterable[str]:
    if not words:
        return [*verbs(), "--help"]
    verb, before = words[0].replace("_", "-"), words[-1].removeprefix("--")
    if verb not in verbs():
        return []
    if before in OPTIONS and words[-1].startswith("--") and OPTIONS[before].value:
        return OPTIONS[before].choices or values.harmless(before)
    if verb == "use" and len(words) == 1 and not last.startswith("-"):
        return values.context.usable()
    return _options(verb, words)


def _options(verb: str, words: list[str]) -> list[str]:
    names = (*verbs()[verb].options, "help")
    return [f"--{name}" for name in names if OPTIONS[name].multiple or f"--{name}" not in words]
