"""Parse a line after ``%exposure``. Errors never quote the line, which may contain a secret by mistake."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from exposurekit.contract.types import INT64_MAX
from exposurekit.errors import InvalidArgument, suggestion
from exposurekit.text.times import DAY, EPOCH, parse_time

_SECRET = re.compile(r"secret|key|token|passw|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its help, the name of its value in the help, and how the value is parsed."""

    help: str
    value: str = ""  # empty: a flag
    choices: tuple[str, ...] = ()
    multiple: bool = False
    parse: Callable[[str], Any] = str


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A parsed line: a verb, its name argument, and options by name."""

    verb: str = ""
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, option: str) -> Any:
        """Return the value of an option; if absent, None, or an empty list for a repeatable one."""
        return self.options.get(option, [] if OPTIONS[option].multiple else None)


def _minutes(text: str) -> float:
    with suppress(ValueError):
        return float(text)
    raise InvalidArgument("--minutes is a number, such as 30")


def _person(text: str) -> int | str:
    """A user id, or a name as it is."""
    if not (text.isascii() and text.isdecimal()):
        return text
    if int(text) > INT64_MAX:
        raise InvalidArgument("--user must be a user id or a name; repeat it for several users")
    return int(text)


_TIMES = "14d, 3mo, 36h, yesterday, a date (its end) or a time"
_LIMITS = ("--limit", "--head", "--top", "-n")  # as other commands have them
_OTHER_SPELLINGS = {"-h": "help", "--by": "group-by"}  # the latter as in Python
OPTIONS = {
    "user": Option("only this user; repeatable", "ID|NAME", multiple=True, parse=_person),
    "site": Option("only this site; repeatable", "NAME", multiple=True),
    "status": Option("only this status; repeatable", "STATUS", multiple=True),
    "kind": Option("what to count", "KIND", ("record", "link", "alert")),
    "group-by": Option("group by this column", "COLUMN", ("site", "user_id")),
    "every": Option("one row per period", "PERIOD", ("run", "day", "week", "month")),
    "since": Option(f"start: {_TIMES}", "TIME"),
    "until": Option(f"end: {_TIMES}", "TIME"),
    "as-of": Option(f"the state at this time: {_TIMES}; needs a history", "TIME"),
    "history": Option("the directory of the history", "DIR"),
    "minutes": Option("the time there is, in minutes; default: 30", "MINUTES", parse=_minutes),
    "run": Option("the run's name; collecting it again adds nothing", "NAME"),
    "base-url": Option("the URL before /api/; default: EXPOSUREKIT_BASE_URL", "URL"),
    "chart": Option("return the chart instead of the table"),
    "help": Option("show this help"),
}


def parse_line(line: str, verbs: Mapping[str, Iterable[str]], *, with_name: Iterable[str] = ()) -> ParsedLine:
    """Parse the text after ``%exposure``, by the options of each verb; some verbs take a name.

    Verbs and options may have underscores, as the same names in Python.
    """
    words = _words(line)
    _check_secrets(words)
    if not words or words[0] in ("--help", "-h"):
        return ParsedLine(options={"help": True})
    verb, rest = words[0].replace("_", "-"), words[1:]
    if verb not in verbs:
        raise InvalidArgument(f"unknown verb: %exposure lists them all{suggestion(verb, verbs)}")
    name = rest.pop(0) if verb in with_name and rest and not rest[0].startswith("-") else ""
    options: dict[str, Any] = {}
    while rest:
        _parse_option(rest, options, verb, (*verbs[verb], "help"))
    return ParsedLine(verb, name, options)


def _meant(word: str, flags: list[str]) -> str:
    """The end of the error about a word that is not an option: of a time, which option takes it."""
    if word.partition("=")[0] in _LIMITS:
        return "; it returns the whole table, whose first rows are table.head(3)"
    option = next((one for one in ("--since", "--as-of") if one in flags), None)
    with suppress(InvalidArgument):
        if option is not None and parse_time(word, now=EPOCH + 400 * 365 * DAY):
            return f"; did you mean {option} TIME?"
    return suggestion(word, flags)


def _words(line: str) -> list[str]:
    """Split as a shell does, but keep backslashes, as in a Windows path."""
    split = shlex.shlex(line.strip().removesuffix(";"), posix=True, punctuation_chars="")
    split.whitespace_split, split.escape, split.commenters = True, "", ""
    try:
        return [*split]
    except ValueError:
        raise InvalidArgument("a quotation mark is not closed") from None


def _check_secrets(words: list[str]) -> None:
    for word in words:
        option, _, _ = word.partition("=")
        if _SECRET.search(option) and (option.startswith("-") or "=" in word):
            raise InvalidArgument(
                "keys and secrets do not belong in a line, because the notebook stores it: revoke this one, and set "
                "EXPOSUREKIT_API_KEY and EXPOSUREKIT_API_SECRET in the environment or a .env file"
            )


def _parse_option(rest: list[str], options: dict[str, Any], verb: str, accepted: Iterable[str]) -> None:
    word, equals, value = rest.pop(0).partition("=")
    name = word.removeprefix("--").replace("_", "-")
    name = _OTHER_SPELLINGS.get(word, name)
    flags = [f"--{option}" for option in accepted]
    if not word.startswith("-") or name not in accepted:
        raise InvalidArgument(f"{verb} takes {', '.join(flags)}{_meant(word, flags)}")
    option = OPTIONS[name]
    if not option.value:
        options[name] = True
        return
    if not equals:
        value = rest.pop(0) if rest and not rest[0].startswith("--") else ""
    if not value:
        raise InvalidArgument(f"--{name} needs a value: {' or '.join(option.choices) or option.value}")
    if option.choices and value not in option.choices:
        raise InvalidArgument(f"--{name} must be one of: {', '.join(option.choices)}")
    if option.multiple:
        options.setdefault(name, []).append(option.parse(value))
    else:
        options[name] = option.parse(value)
