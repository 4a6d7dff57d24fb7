"""Rules: when to notify which addresses, and when to write a report; read from a YAML file and validated."""

import contextlib
import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    ValidationError,
    model_validator,
)

from exposurekit.errors import ConfigurationError, suggestion
from exposurekit.text import plain_yaml
from exposurekit.text.formatting import enumerate_words

CONDITIONS = {
    "new": "new listings",
    "relisted": "relisted listings",
    "removed": "removed listings",
    "refused": "refused removals (manual work needed)",
    "stuck": "listings with the same status for {days} days",
    "not_seen": "users not loaded completely for {days} days",
    "score": "score increases of {points} points or more",
    "collection_failed": "{times} failed collections in a row",
    "site_broken": "sites that may be unreadable",
}
THRESHOLDS = {"stuck": "days", "not_seen": "days", "score": "points"}
_ONLY_FOR = {"days": ("stuck", "not_seen"), "points": ("score",), "times": ("collection_failed",)}
_PLURAL = re.compile(r"\b(listing|removal|user|site|increase)s\b")
_ONE = re.compile(r"\b1 (day|point)s\b")
_WITHOUT_USERS = ("score", "collection_failed", "site_broken")
_WITHOUT_SITES = ("score", "collection_failed", "not_seen")
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS = get_args(Weekday)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"\w[\w -]{0,39}")  # no characters that an address needs
_RULES_MAX, _NAMES_MAX, _KEEP_MAX = 200, 10_000, 10_000  # each run queries the history for each rule
_PROBLEMS_MAX = 20
BYTES_MAX = 1 << 18
# O_NONBLOCK: do not wait for a pipe that nobody writes to. Windows lacks it and needs O_BINARY.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MESSAGES = {
    "extra_forbidden": "unknown key",
    "missing": "required",
    "tuple_type": "must be a list, such as [one, two]",
    "dict_type": "write keys and values, such as name: value",
    "string_type": "must be text",
    **dict.fromkeys(("model_type", "model_attributes_type"), "must have keys and values, in lines or in { }"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
}
_MESSAGES_AT = {
    ("rules", "tuple_type"): "must be a list: begin each rule with '- '",
    ("send_to", "dict_type"): "write name: address, such as me: mailtos://user:password@example.com",
}
_QUOTED = re.compile(r"'([^']*)'")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


def _parse_time(value: str) -> time:
    with contextlib.suppress(TypeError, ValueError):
        if (parsed := time.fromisoformat(value)).tzinfo is None:
            return parsed
    raise ValueError(
        'a time of day must look like "22:00", in quotes and without a zone: set time_zone instead'
    )


def _check_names(addresses: dict[str, SecretStr]) -> dict[str, SecretStr]:
    # The name is not quoted: it may be an address with its password, in the wrong place.
    if not all(_NAME.fullmatch(name) for name in addresses):
        raise ValueError('each address needs a name of at most 40 letters, digits, spaces, "-" and "_"')
    return addresses


TimeOfDay = Annotated[time, BeforeValidator(_parse_time)]
Names = Annotated[tuple[str, ...], Field(max_length=_NAMES_MAX), BeforeValidator(_as_list)]
Ids = Annotated[tuple[int, ...], Field(max_length=_NAMES_MAX), BeforeValidator(_as_list)]
Addresses = Annotated[dict[str, SecretStr], Field(max_length=_RULES_MAX), AfterValidator(_check_names)]


class _RulesModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Rule(_RulesModel):
    """One rule: a condition and the addresses to notify.

    ``sites`` and ``users`` narrow it; empty, they mean all.
    """

    when: Literal[
        "new",
        "relisted",
        "removed",
        "refused",
        "stuck",
        "not_seen",
        "score",
        "collection_failed",
        "site_broken",
    ]
    send: Annotated[Names, Field(min_length=1)]  # names from send_to
    days: Annotated[float, Field(gt=0, lt=36_500)] | None = None  # the minimum duration
    points: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None  # between complete runs
    times: Annotated[int, Field(ge=1)] = 1  # failures in a row
    sites: Names = ()
    users: Ids = ()
    personal: bool = False  # the message contains ids, names and addresses of listings
    digest: bool = False  # it waits for the next digest
    urgent: bool = False  # it is also sent in quiet hours

    @model_validator(mode="after")
    def _check_condition(self) -> Self:
        if (required := THRESHOLDS.get(self.when)) and getattr(self, required) is None:
            raise ValueError(f"{self.when} needs {required}")
        for name, conditions in _ONLY_FOR.items():
            if name in self.model_fields_set and self.when not in conditions:
                raise ValueError(f"{self.when} takes no {name}: it is for {enumerate_words(conditions)}")
        for name, conditions in (("users", _WITHOUT_USERS), ("sites", _WITHOUT_SITES)):
            if getattr(self, name) and self.when in conditions:
                raise ValueError(f"{self.when} cannot be narrowed by {name}")
        if self.digest and self.urgent:
            raise ValueError("a rule cannot be both urgent and part of a digest")
        return self

    @property
    def threshold(self) -> float | None:
        """The condition's days or points; None: it has no threshold."""
        return getattr(self, THRESHOLDS[self.when]) if self.when in THRESHOLDS else None

    @property
    def title(self) -> str:
        """The condition in words, without a count."""
        if self.when == "collection_failed" and self.times == 1:
            return "a failed collection"
        text = CONDITIONS[self.when].format(
            days=f"{self.days or 0:g}", points=f"{self.points or 0:g}", times=self.times
        )
        return _ONE.sub(r"1 \1", text)


class ReportRule(_RulesModel):
    """A report of each week, written to a directory or bucket; addresses get a summary of it.

    It is share-safe, unless ``personal`` is set: then it has the names and values on file.
    """

    report: Literal["weekly"]
    directory: Annotated[
        str, Field(min_length=1, max_length=_NAMES_MAX)
    ]  # or an address: s3://bucket/reports
    send: Names = ()  # names from send_to
    weekday: Weekday = "monday"
    at: TimeOfDay = time(8)
    personal: bool = False
    attach: bool = False  # the summary has the file with it
    keep: Annotated[int, Field(ge=1, le=_KEEP_MAX)] | None = None  # how many of the newest files remain; all

    @property
    def title(self) -> str:
        """What is sent, in words."""
        return "weekly report"


def _kind_of_rule(value: Any) -> str:
    return (
        "report"
        if isinstance(value, ReportRule) or (isinstance(value, dict) and "report" in value)
        else "when"
    )


AnyRule = Annotated[
    Annotated[Rule, Tag("when")] | Annotated[ReportRule, Tag("report")], Discriminator(_kind_of_rule)
]


def _unknown_address(number: int, rule: Any, send_to: Any) -> str:
    """What is wrong if a rule, as a file has it, sends to a name that ``send_to`` lacks; empty: nothing."""
    names = _as_list(rule.get("send")) if isinstance(rule, dict) else None
    if not isinstance(names, list | tuple) or not isinstance(send_to, dict):
        return ""  # another problem says so
    unknown = [
        (position, name)
        for position, name in enumerate(names, 1)
        if isinstance(name, str) and name not in send_to
    ]
    if not unknown:
        return ""
    when = rule.get("when", "report")
    kind = f" ({when})" if when in (*CONDITIONS, "report") else ""
    position, name = unknown[0]
    meant = suggestion(name, map(str, send_to)) if _NAME.fullmatch(name) else ""
    # A word that is like no name may be an address or a password.
    which = f"{name}{meant}" if meant else f"name {position} of it"
    return f"rule {number}{kind}: send names an address that send_to does not have: {which}"


def _shared_directory(rules: Sequence[AnyRule]) -> str:
    """What is wrong if two rules write reports of the same sensitivity to one directory; empty: nothing."""
    numbers: dict[tuple[str, bool], int] = {}
    for number, rule in enumerate(rules, 1):
        if isinstance(rule, ReportRule):
            first = numbers.setdefault((_normal(rule.directory), rule.personal), number)
            if first != number:
                return f"rule {number} (report): rule {first} writes to its directory, too: give each its own"
    return ""


def _normal(directory: str) -> str:
    """A directory or address as all its spellings have it."""
    if "://" in directory:
        return directory.rstrip("/")
    return os.path.normpath(os.path.expanduser(directory))  # noqa: PTH111  a Path has no normal form


class QuietHours(_RulesModel):
    """Hours of each day in which nothing is sent, which may include midnight, and days on which nothing is sent at all."""

    since: Annotated[TimeOfDay | None, Field(alias="from")] = None
    until: TimeOfDay | None = None
    all_day: Annotated[tuple[Weekday, ...], BeforeValidator(_as_list)] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.since is None) != (self.until is None):
            raise ValueError("from and until go together")
        if self.since is None and not self.all_day:
            raise ValueError("needs from and until, or all_day with days of the week")
        if {*self.all_day} == {*WEEKDAYS}:
            raise ValueError("all_day must leave a day on which something is sent")
        return self

    def ends_at(self, now: datetime) -> time | None:
        """Return the time of day at which the quiet around a local time ends; None: it is not quiet."""
        if WEEKDAYS[now.weekday()] in self.all_day:
            return time()
        if self.since is None or self.until is None:
            return None
        since, until, at = self.since, self.until, now.time()
        is_quiet = since <= at < until if since <= until else (at >= since or at < until)
        return until if is_quiet else None


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        close = suggestion(name, available_timezones())
        raise ValueError(f"unknown time zone: use a name such as Europe/Berlin or UTC{close}") from None
    return name


class Rules(_RulesModel):
    """All rules of a file, with the addresses they use."""

    send_to: Addresses  # Apprise addresses by name: mailtos://..., slack://..., ntfy://...
    rules: Annotated[tuple[AnyRule, ...], Field(max_length=_RULES_MAX)]
    digest_at: TimeOfDay = time(8)
    quiet_hours: QuietHours | None = None
    time_zone: Annotated[str, AfterValidator(_check_zone)] = "UTC"  # of these times

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        if not self.rules:
            raise ValueError("no rules: add at least one")
        for number, rule in enumerate(self.rules, 1):
            if problem := _unknown_address(number, rule.model_dump(), self.send_to):
                raise ValueError(problem)
            if isinstance(rule, ReportRule) and rule.attach and not rule.send:
                raise ValueError(f"rule {number} (report): attach needs send")
        return self

    @model_validator(mode="after")
    def _check_directories(self) -> Self:
        if problem := _shared_directory(self.rules):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _check_quiet_hours(self) -> Self:
        quiet = self.quiet_hours
        if quiet is not None and quiet.since is not None and quiet.since == quiet.until:
            raise ValueError(
                'quiet_hours: from and until are the same time. Write {from: "00:00", until: "23:59"} '
                "for a quiet day: what is not urgent is then sent at 23:59"
            )
        return self

    @property
    def notifications(self) -> tuple[Rule, ...]:
        """The rules with a condition."""
        return tuple(rule for rule in self.rules if isinstance(rule, Rule))

    @property
    def reports(self) -> tuple[ReportRule, ...]:
        """The rules that write a report."""
        return tuple(rule for rule in self.rules if isinstance(rule, ReportRule))

    def report_due_at(self, rule: ReportRule, at: datetime) -> datetime:
        """Return when the newest report of a rule became due: a time of day on its weekday, at most a week ago."""
        zone = ZoneInfo(self.time_zone)
        today = at.astimezone(zone).date()
        since_weekday = (today.weekday() - WEEKDAYS.index(rule.weekday)) % len(WEEKDAYS)
        weekdays = (today - timedelta(days=since_weekday + 7 * weeks) for weeks in (0, 1))
        due = (datetime.combine(day, rule.at, tzinfo=zone) for day in weekdays)
        return next(candidate for candidate in due if candidate.astimezone(UTC) <= at)

    def due_at(self, rule: Rule, at: datetime) -> datetime:
        """Return when a notification triggered at a time may be sent, apart from quiet hours."""
        return self._next(self.digest_at, at) if rule.digest else at

    def after_quiet(self, at: datetime) -> datetime:
        """Return the time itself, or the end of the quiet hours and days that it falls into."""
        zone, quiet = ZoneInfo(self.time_zone), self.quiet_hours
        # A quiet night may lead to a quiet day, and that to a quiet night.
        while quiet is not None and (end := quiet.ends_at(at.astimezone(zone))) is not None:
            at = self._next(end, at)
        return at

    def _next(self, time_of_day: time, at: datetime) -> datetime:
        """Return the next time that a wall clock shows `time_of_day`; when clocks go back, it may show it twice."""
        zone = ZoneInfo(self.time_zone)
        today = at.astimezone(zone).date()
        candidates = (
            datetime.combine(
                today + timedelta(days=days), time_of_day.replace(fold=fold), tzinfo=zone
            ).astimezone(UTC)
            for days, fold in itertools.product((0, 1), (0, 1))
        )
        return next(candidate for candidate in candidates if candidate > at).astimezone(at.tzinfo)


def counted_title(title: str, count: int) -> str:
    """Put a count before a rule's title, if it names something countable.

    >>> counted_title("new listings", 1), counted_title("3 failed collections in a row", 1)
    ('1 new listing', '3 failed collections in a row')
    """
    if not _PLURAL.search(title):
        return title
    singular = _PLURAL.sub(r"\1", title, count=1)
    return f"{count:,} {singular if count == 1 else title}"


def load_rules(path: Path, environment: Mapping[str, str] = os.environ) -> Rules:
    """Load rules from a YAML file that only its owner may read, since addresses contain passwords.

    ``${NAME}`` in an address is replaced from the environment, and a relative directory is taken from that of the file. Raises `ConfigurationError` with the position of a
    problem, never a value.
    """
    parsed = parse_rules(_read_text(path), environment, str(path))
    rules = tuple(_from_directory(rule, path.parent) for rule in parsed.rules)
    if problem := _shared_directory(rules):  # relative in one rule, and absolute in another
        raise ConfigurationError(f"{path}: {problem}")
    return parsed.model_copy(update={"rules": rules})


def _from_directory(rule: AnyRule, directory: Path) -> AnyRule:
    """A rule with its directory, if it is relative, taken from that of the file."""
    if not isinstance(rule, ReportRule) or "://" in rule.directory or rule.directory.startswith("~"):
        return rule
    return rule.model_copy(update={"directory": str(directory.absolute() / rule.directory)})


def _read_text(path: Path) -> str:
    """Read a file that only its owner may read."""
    try:
        with os.fdopen(os.open(path, _FLAGS), "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigurationError(f"{path} is not a file: name a YAML file with rules")
            if os.name == "posix" and mode & 0o077:
                raise ConfigurationError(
                    f"{path} can be read by others, and addresses contain passwords: run chmod 600 on it"
                )
            text = stream.read(BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > BYTES_MAX:
        raise ConfigurationError(f"{path} is too large: rules may have at most {BYTES_MAX:,} bytes")
    return text.decode("utf-8", "replace")


def parse_rules(text: str, environment: Mapping[str, str] = os.environ, source: str = "the rules") -> Rules:
    """Parse rules from YAML text, as `load_rules` does; `source` names it in errors."""
    try:
        content = plain_yaml.read(text).value
    except plain_yaml.InvalidYaml as error:
        problem = error.reason if error.position is None else f"a key {error.reason}"
        problem += ": check its indentation, quotes and brackets" if error.detail else ""
        raise ConfigurationError(f"{source}, line {error.line}: {problem}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{source}: send_to and rules are required; exposurekit/monitor/README.md has an example"
        )
    try:
        return Rules.model_validate(_expand_variables(content, environment, source))
    except ValidationError as error:
        details = error.errors(include_input=False)
        problems = [_problem(source, content, detail) for detail in details]
        if all(detail["loc"] for detail in details):  # no rule's addresses were checked
            rules = content.get("rules")
            every = enumerate(rules if isinstance(rules, list) else (), 1)
            unknown = (_unknown_address(number, rule, content.get("send_to")) for number, rule in every)
            problems += [f"{source}: {problem}" for problem in unknown if problem]
        more = [f"{source}: {len(problems) - _PROBLEMS_MAX} more"] if len(problems) > _PROBLEMS_MAX else []
        raise ConfigurationError("\n".join(problems[:_PROBLEMS_MAX] + more)) from None


def _expand_variables(content: Any, environment: Mapping[str, str], source: str) -> Any:
    """Replace ``${NAME}`` in the addresses."""
    if not isinstance(content.get("send_to"), dict):
        return content

    def variable(match: "re.Match[str]") -> str:
        if match[1] not in environment:
            raise ConfigurationError(f"{source}, send_to: the environment variable {match[1]} is not set")
        return environment[match[1]]

    addresses = {
        name: _VARIABLE.sub(variable, value) if isinstance(value, str) else value
        for name, value in content["send_to"].items()
    }
    return content | {"send_to": addresses}


def _problem(source: str, content: Any, error: Any) -> str:
    position = ", ".join(_position_words(error["loc"]))
    message = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "it should be")
    message = _MESSAGES_AT.get((position, error["type"])) or _MESSAGES.get(error["type"], message)
    return f"{source}{', ' if position else ''}{position}: {message}{_suggestion(content, error)}"


def _suggestion(content: Any, error: Any) -> str:
    """The key or word that was meant, if one is close; it is one of ours, and never what the file says."""
    location = [*error["loc"]]
    if location[:1] == ["rules"]:
        del location[2:3]  # the kind of rule
    if error["type"] == "extra_forbidden":
        return suggestion(str(location[-1]), _keys(error["loc"]))
    if error["type"] != "literal_error":
        return ""
    value = content
    for part in location:
        value = value[part] if isinstance(value, dict | list) else value  # a single item is a list of it
    return suggestion(str(value), _QUOTED.findall(str(error["ctx"]["expected"])))


def _keys(location: Sequence[str | int]) -> list[str]:
    """The keys of the part of the file in which an unknown one is."""
    parts: dict[str | int, type[BaseModel]] = {"when": Rule, "report": ReportRule, "quiet_hours": QuietHours}
    model = next((parts[part] for part in location[:-1] if part in parts), Rules)
    return [field.alias or name for name, field in model.model_fields.items()]


def _position_words(location: Sequence[str | int]) -> Iterator[str]:
    """Describe a location in the file: ``rule 1, when``."""
    parts = list(location)
    if parts[:1] == ["rules"] and len(parts) > 1 and isinstance(parts[1], int):
        yield f"rule {parts[1] + 1}"
        parts = parts[3:]  # the next is the kind of rule
    for part in parts:
        # An unknown key may be an address with its password.
        yield str(part) if isinstance(part, int) or _NAME.fullmatch(part) else "a key"
