"""A line after ``%exposure`` -> what is asked. Never repeats what was typed: it may be a secret in the wrong place."""

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exposurekit.errors import InvalidArgument

_SECRET = re.compile(r"secret|key|token|passw|credential", re.IGNORECASE)
_ID_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it is called in the help, what it means, and how its value is read."""

    says: str
    value: str = ""  # empty: it takes none
    choices: tuple[str, ...] = ()
    several: bool = False
    read: Callable[[str], Any] = str


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """What a line asks: a verb, the name behind it, and options by name."""

    verb: str = ""
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, option: str) -> Any:
        """The value of an option: of one that may be given several times a list, else None where it is not given."""
        return self.options.get(option, [] if OPTIONS[option].several else None)


def _id(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > _ID_MAX:
        raise InvalidArgument("--user is the id of a person, a whole number; several times for several")
    return int(text)


OPTIONS = {
    "user": Option("this person alone; several times for several", "ID", several=True, read=_id),
    "site": Option("this site alone; likewise", "NAME", several=True),
    "status": Option("this status alone; likewise", "STATUS", several=True),
    "kind": Option("of what things", "KIND", ("record", "link", "alert")),
    "by": Option("apart by this", "COLUMN", ("site", "user_id")),
    "every": Option("a row for each", "PERIOD", ("run", "day", "week", "month")),
    "since": Option("from then on: 14d, 36h, yesterday, the end of a day, an instant", "TIME"),
    "until": Option("until then, likewise", "TIME"),
    "as-of": Option("as last seen by then, likewise; from a history", "TIME"),
    "history": Option("from the history in this directory", "DIR"),
    "run": Option("the name of the run; who collects it again adds nothing", "NAME"),
    "base-url": Option("what precedes /api/; else EXPOSUREKIT_BASE_URL", "URL"),
    "chart": Option("the chart instead of the table"),
    "help": Option("this text"),
}


def parsed(line: str, takes: Mapping[str, Iterable[str]], *, named: Iterable[str] = ()) -> ParsedLine:
    """What a line asks.

    Args:
        line: What stands after ``%exposure``.
        takes: The options of each verb.
        named: The verbs that a name stands behind.

    Raises:
        InvalidArgument: The line makes no sense; the message says what would.

    >>> from exposurekit.notebook.parser import parsed
    >>> parsed("records --site 'Some Site' --chart", {"records": ("site", "chart")}).options
    {'site': ['Some Site'], 'chart': True}
    """
    words = _words(line)
    _check_secrets(words)
    if not words or words[0] in ("--help", "-h"):
        return ParsedLine(options={"help": True})
    verb, rest = words[0], words[1:]
    if verb not in takes:
        raise InvalidArgument(f"no such verb: %exposure alone lists them{_near(verb, takes)}")
    name = rest.pop(0) if verb in named and rest and not rest[0].startswith("-") else ""
    options: dict[str, Any] = {}
    while rest:
        _take(rest, options, verb, (*takes[verb], "help"))
    return ParsedLine(verb, name, options)


def _words(line: str) -> list[str]:
    """As a shell has them; a backslash is itself, as in a path of Windows."""
    split = shlex.shlex(line.strip().removesuffix(";"), posix=True, punctuation_chars="")
    split.whitespace_split, split.escape, split.commenters = True, "", ""
    try:
        return [*split]
    except ValueError:
        raise InvalidArgument("a quotation mark has no second one") from None


def _check_secrets(words: list[str]) -> None:
    for word in words:
        called, _, _ = word.partition("=")
        if _SECRET.search(called) and (called.startswith("-") or "=" in word):
            raise InvalidArgument(
                "no key and no secret on a line, which is kept with the notebook: change this one, and set "
                "EXPOSUREKIT_API_KEY and EXPOSUREKIT_API_SECRET in the environment or a .env file"
            )


def _take(rest: list[str], options: dict[str, Any], verb: str, takes: Iterable[str]) -> None:
    """The next option, and its value where it takes one."""
    called, given, value = rest.pop(0).partition("=")
    name = "help" if called == "-h" else called.removeprefix("--")
    known = [f"--{one}" for one in takes]
    if not called.startswith("-") or name not in takes:
        raise InvalidArgument(f"{verb} takes {', '.join(known)}{_near(called, known)}")
    option = OPTIONS[name]
    if not option.value:
        options[name] = True
        return
    if not given:
        value = rest.pop(0) if rest and not rest[0].startswith("--") else ""
    if not value:
        raise InvalidArgument(f"--{name} needs a value: {' or '.join(option.choices) or option.value}")
    if option.choices and value not in option.choices:
        raise InvalidArgument(f"--{name} is one of: {', '.join(option.choices)}")
    if option.several:
        options.setdefault(name, []).append(option.read(value))
    else:
        options[name] = option.read(value)


def _near(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, [*known], 1)
    return f"; did you mean {found[0]}?" if found else ""
