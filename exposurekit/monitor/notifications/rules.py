"""What somebody wants to be told, and where: a small YAML file, checked before anything begins. Tells nobody."""

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from exposurekit.errors import ConfigurationError
from exposurekit.monitor.notifications import rules_file

WHEN = {
    "new": "listings are new",
    "relisted": "listings are listed again",
    "removed": "listings are removed",
    "refused": "removals were refused, and wait for somebody",
    "stuck": "listings stand as they did for {days} days",
    "not_seen": "people were not seen well for {days} days",
    "score": "the score rose by {points} points",
    "collection_failed": "collections failed, {times} in a row",
    "site_broken": "sites look as if they could not be read",
}
NEEDS = {"stuck": "days", "not_seen": "days", "score": "points"}
_OF_NOBODY = ("score", "collection_failed", "site_broken")
_OF_NO_SITE = ("score", "collection_failed", "not_seen")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME = re.compile(r"\w[\w -]{0,39}")  # nothing that an address could be written with
_RULES_MAX, _NAMES_MAX = 200, 10_000  # each look asks the history for each rule
_PROBLEMS_MAX = 20
_OURS = {"extra_forbidden": "there is no such key", "missing": "this is wanted, and not there"}


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


def _clock(value: str) -> time:
    with contextlib.suppress(TypeError, ValueError):
        if (found := time.fromisoformat(value)).tzinfo is None:
            return found
    raise ValueError('a time of day is written "22:00", in quotes, without a zone: time_zone has that')


def _named(addresses: dict[str, SecretStr]) -> dict[str, SecretStr]:
    # Which one is not told: somebody may have written the address first, with its password.
    if not all(_NAME.fullmatch(name) for name in addresses):
        raise ValueError(
            'each address stands after a name of letters, digits, blanks, "-" and "_", at most 40'
        )
    return addresses


Clock = Annotated[time, BeforeValidator(_clock)]
Names = Annotated[tuple[str, ...], Field(max_length=_NAMES_MAX), BeforeValidator(_listed)]
Ids = Annotated[tuple[int, ...], Field(max_length=_NAMES_MAX), BeforeValidator(_listed)]
Addresses = Annotated[dict[str, SecretStr], Field(max_length=_RULES_MAX), AfterValidator(_named)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Rule(_Part):
    """One thing to be told of.

    Attributes:
        when: What has to happen: a key of `WHEN`.
        send: Names of ``send_to``.
        days: Of ``stuck`` and ``not_seen``: longer than this.
        points: Of ``score``: how far it has to rise from one look at everyone to the next.
        times: Of ``collection_failed``: this often in a row.
        sites: Of these alone; none: of all. Not of ``score``, ``collection_failed``, ``not_seen``.
        users: Of these people alone; none: of all. Not of ``score``, ``collection_failed``, ``site_broken``.
        personal: Whether ids, names and addresses of listings are told.
        digest: Whether it waits for the next digest.
        urgent: Whether it is sent in quiet hours, too.
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
    send: Annotated[Names, Field(min_length=1)]
    days: Annotated[float, Field(gt=0, lt=36_500)] | None = None
    points: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    times: Annotated[int, Field(ge=1)] = 1
    sites: Names = ()
    users: Ids = ()
    personal: bool = False
    digest: bool = False
    urgent: bool = False

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (needs := NEEDS.get(self.when)) and getattr(self, needs) is None:
            raise ValueError(f"{self.when} needs {needs}")
        for narrowed, among in (("users", _OF_NOBODY), ("sites", _OF_NO_SITE)):
            if getattr(self, narrowed) and self.when in among:
                raise ValueError(f"{narrowed} cannot narrow {self.when}")
        if self.digest and self.urgent:
            raise ValueError("what is urgent waits for no digest")
        return self

    @property
    def number(self) -> float | None:
        """What its condition needs beside its name: days or points; None: nothing."""
        return getattr(self, NEEDS[self.when]) if self.when in NEEDS else None

    @property
    def title(self) -> str:
        """What happened, without a number."""
        return WHEN[self.when].format(
            days=f"{self.days or 0:g}", points=f"{self.points or 0:g}", times=self.times
        )


class Quiet(_Part):
    """Hours in which nothing is sent; over midnight, too."""

    since: Annotated[Clock, Field(alias="from")]
    until: Clock


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("a time zone is called as in Europe/Berlin, or UTC") from None
    return name


class Rules(_Part):
    """All that somebody wants to be told.

    Attributes:
        send_to: By a name, an address as Apprise reads it: ``mailto://...``, ``slack://...``, ``ntfy://...``.
        rules: Of what.
        digest_at: When digests are sent, each day.
        quiet_hours: When nothing is sent; None: at any time.
        time_zone: Of these times.
    """

    send_to: Addresses
    rules: Annotated[tuple[Rule, ...], Field(max_length=_RULES_MAX)]
    digest_at: Clock = time(8)
    quiet_hours: Quiet | None = None
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if not self.rules:
            raise ValueError("there is no rule")
        for number, rule in enumerate(self.rules, 1):
            # Which is not told: it may be an address, with its password.
            if any(name not in self.send_to for name in rule.send):
                raise ValueError(
                    f"rule {number}: a rule about {rule.when} sends to a name that send_to does not have"
                )
        return self

    def due_at(self, rule: Rule, at: datetime) -> datetime:
        """When what happened at an instant may be sent.

        >>> from datetime import UTC
        >>> from exposurekit.monitor.notifications.rules import of_text
        >>> some = of_text("{send_to: {me: 'json://x'}, rules: [{when: new, send: me, digest: true}]}")
        >>> some.due_at(some.rules[0], datetime(2026, 3, 1, 20, tzinfo=UTC)).isoformat()
        '2026-03-02T08:00:00+00:00'
        """
        due = self._next(self.digest_at, at) if rule.digest else at
        return due if rule.urgent else self.after_quiet(due)

    def after_quiet(self, at: datetime) -> datetime:
        """The instant itself, or the end of the quiet hours that it lies in."""
        if self.quiet_hours is None:
            return at
        since, until, now = (
            self.quiet_hours.since,
            self.quiet_hours.until,
            at.astimezone(ZoneInfo(self.time_zone)).time(),
        )
        quiet = since <= now < until if since <= until else (now >= since or now < until)
        return self._next(until, at) if quiet else at

    def _next(self, of_day: time, at: datetime) -> datetime:
        """The next time that a clock on the wall shows that; on the day that has the hour twice, it may show it twice."""
        zone = ZoneInfo(self.time_zone)
        today = at.astimezone(zone).date()
        shown = (
            datetime.combine(today + timedelta(days=days), of_day.replace(fold=fold), tzinfo=zone).astimezone(
                UTC
            )
            for days, fold in itertools.product((0, 1), (0, 1))
        )
        return next(then for then in shown if then > at).astimezone(at.tzinfo)


def of_file(path: Path, environment: Mapping[str, str] = os.environ) -> Rules:
    """The rules of a file.

    Args:
        path: A YAML file, for its owner alone: addresses hold passwords.
        environment: Where ``${NAME}`` in an address is looked up.

    Raises:
        ConfigurationError: It cannot be read, others may read it, or something in it is not as it should be; the message says
            where, and tells nothing of what stands there.
    """
    return of_text(rules_file.read(path), environment, str(path))


def of_text(text: str, environment: Mapping[str, str] = os.environ, called: str = "the rules") -> Rules:
    """The same, from a text.

    Raises:
        ConfigurationError: As of `of_file`.

    >>> from exposurekit.monitor.notifications.rules import of_text
    >>> of_text("{send_to: {me: 'json://x'}, rules: [{when: stuck, send: me}]}")
    Traceback (most recent call last):
    exposurekit.errors.ConfigurationError: the rules, rule 1: stuck needs days
    """
    said = rules_file.values(text, called)
    if not isinstance(said, dict):
        raise ConfigurationError(
            f"{called}: it needs send_to, with addresses, and rules; the README has an example"
        )
    try:
        return Rules.model_validate(_filled(said, environment, called))
    except ValidationError as error:
        problems = [_problem(called, one) for one in error.errors(include_input=False)]
        more = [f"{called}: {len(problems) - _PROBLEMS_MAX} more"] if len(problems) > _PROBLEMS_MAX else []
        raise ConfigurationError("\n".join(problems[:_PROBLEMS_MAX] + more)) from None


def _filled(said: Any, environment: Mapping[str, str], called: str) -> Any:
    """With what the environment holds in the addresses."""
    if not isinstance(said.get("send_to"), dict):
        return said

    def held(found: "re.Match[str]") -> str:
        if found[1] not in environment:
            raise ConfigurationError(f"{called}, send_to: the environment has no {found[1]}")
        return environment[found[1]]

    filled = {
        name: _VARIABLE.sub(held, value) if isinstance(value, str) else value
        for name, value in said["send_to"].items()
    }
    return said | {"send_to": filled}


def _problem(called: str, error: Any) -> str:
    where = ", ".join(_parts(error["loc"]))
    told = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "it should be")
    what = _OURS.get(error["type"], told)
    return f"{called}{', ' if where else ''}{where}: {what}"


def _parts(place: Sequence[str | int]) -> Iterator[str]:
    """A place in words: ``rule 1, when``."""
    told = list(place)
    if told[:1] == ["rules"] and len(told) > 1 and isinstance(told[1], int):
        yield f"rule {told[1] + 1}"
        told = told[2:]
    for part in told:
        # A key that is none may be an address, with its password.
        yield str(part) if isinstance(part, int) or _NAME.fullmatch(part) else "a key"
