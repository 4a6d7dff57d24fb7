"""What ``%exposure`` answers: the questions of an exposure and of a history, each a verb. Works nothing out itself."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from exposurekit import analysis, charts
from exposurekit.analysis.selection import select
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.notebook.namespace import NotebookContext, Source
from exposurekit.notebook.parser import OPTIONS, ParsedLine, parsed

_CHOSEN = ("site", "status")
_WHO, _WHERE, _WHOLE = ("user",), ("user", "site"), ("user", "site", "status")
_LATER = ("history", "as-of")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A value, and where it comes from."""

    value: Any
    provenance: str = ""


Way: TypeAlias = Callable[[NotebookContext, ParsedLine], CommandResult]


@dataclass(frozen=True, slots=True)
class Command:
    """What a verb says of itself, how it is answered, and the options that it takes."""

    says: str
    way: Way
    options: tuple[str, ...] = ()


def run_command(desk: NotebookContext, line: str) -> Any:
    """What a line asks for: a table, a chart, or what else its verb gives; None after the help is printed.

    Raises:
        ExposureError: It cannot be had; the message says what to do.
    """
    asked = parsed(line, {name: accepted_options(name) for name in VERBS}, named=("use",))
    if asked["help"]:
        print(describe_command(asked.verb))  # noqa: T201  help is there to be read
        return None
    answer = VERBS[asked.verb].way(desk, asked)
    if isinstance(answer.value, pd.DataFrame):
        desk.remember(answer.value)
    return _with_chart(asked.verb, answer) if asked["chart"] else answer.value


def accepted_options(verb: str) -> tuple[str, ...]:
    """The options that a verb takes; ``chart`` where there is one."""
    return (*VERBS[verb].options, *(("chart",) if _chart_of(verb) else ()))


def describe_command(verb: str = "") -> str:
    """The help: of one verb, or of all.

    >>> from exposurekit.notebook.commands import describe_command
    >>> "--site NAME" in describe_command("records")
    True
    """
    if not verb:
        verbs = "\n".join(f"  {name:<18}{one.says}" for name, one in VERBS.items())
        return f"{_HEAD}\n\n{verbs}\n\n%exposure VERB --help tells the options of one. {_FOOT}"
    lines = []
    for name in accepted_options(verb):
        option = OPTIONS[name]
        shape = "|".join(option.choices) or option.value
        lines.append(f"  {f'--{name} {shape}':<34}{option.says}")
    named = " NAME" if verb == "use" else ""
    return "\n".join([f"%exposure {verb}{named} [options]: {VERBS[verb].says}", *lines])


_HEAD = "table = %exposure VERB [options]: a question, and its answer as a table."
_FOOT = """
Whose tables: a variable called exposure or demo, what `connect` or `use` chose, or else whatever the environment says
(EXPOSUREKIT_BASE_URL, ... or a .env file). No key is ever given on the line.
Whose past: a variable called history or demo, or --history DIR."""


def _chart_of(verb: str) -> Callable[..., Any] | None:
    name = verb.replace("-", "_")
    return getattr(charts, name, None) if name in analysis.__all__ else None


def _with_chart(verb: str, answer: CommandResult) -> Any:
    draw = _chart_of(verb)
    assert draw is not None  # noqa: S101  else the option was not taken
    return draw(answer.value, provenance=answer.provenance)


def _things(name: str) -> Way:
    """A table that both an exposure and a history have."""

    def way(desk: NotebookContext, asked: ParsedLine) -> CommandResult:
        with desk.seen(asked) as source:
            return CommandResult(_narrowed(_of(source, name, asked), asked), _provenance(source, asked))

    return way


def _people(name: str) -> Way:
    """A table that an exposure alone has."""

    def way(desk: NotebookContext, asked: ParsedLine) -> CommandResult:
        return CommandResult(_narrowed(desk.exposure()[name], asked))

    return way


def _question(question: Callable[[pd.DataFrame], pd.DataFrame], of: str) -> Way:
    """A question on one of those tables."""

    def way(desk: NotebookContext, asked: ParsedLine) -> CommandResult:
        things = _things(of)(desk, asked)
        return CommandResult(question(things.value), things.provenance)

    return way


def _unblocking(question: Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]) -> Way:
    def way(desk: NotebookContext, asked: ParsedLine) -> CommandResult:
        exposure = desk.exposure()
        records = _narrowed(_of(exposure, "records", asked), asked)
        return CommandResult(question(records, exposure.on_file()), _provenance(exposure, asked))

    return way


def _work_queue(desk: NotebookContext, asked: ParsedLine) -> CommandResult:
    with desk.seen(asked) as source:
        steps = _narrowed(_of(source, "steps", asked), asked)
        ticked = steps if "tick" in steps else desk.with_ticks(steps)
        return CommandResult(analysis.work_queue(ticked), _provenance(source, asked))


def _history_table(ask: Callable[[History, ParsedLine], pd.DataFrame]) -> Way:
    """A question that a history alone answers."""

    def way(desk: NotebookContext, asked: ParsedLine) -> CommandResult:
        with desk.history(asked) as history:
            return CommandResult(_narrowed(ask(history, asked), asked), _provenance(history, asked))

    return way


def _over_time(history: History, asked: ParsedLine) -> pd.DataFrame:
    if asked["site"] and asked["by"] != "site":
        raise InvalidArgument("--site needs --by site: the others are not told apart")
    return history.status_over_time(
        by=asked["by"],
        every=asked["every"] or "day",
        kind=asked["kind"] or "record",
        user=asked["user"] or None,
        since=asked["since"],
        until=asked["until"],
    )


def _diff(history: History, asked: ParsedLine) -> Any:
    if asked["since"] is None:
        raise InvalidArgument(f"{asked.verb} needs --since TIME, such as --since 14d or --since 2026-11-13")
    return history.diff(asked["since"], asked["until"], kind=asked["kind"] or "record")


def _time_to_removal(history: History, asked: ParsedLine) -> pd.DataFrame:
    return history.time_to_removal(as_of=asked["as-of"])


def _collect(desk: NotebookContext, asked: ParsedLine) -> CommandResult:
    with desk.history(asked, makes=True) as history:
        return CommandResult(history.collect(desk.exposure(), run=asked["run"], only=asked["user"] or None))


def _of(source: Source, name: str, asked: ParsedLine) -> pd.DataFrame:
    """A table of an exposure, or of a history as of a day; of some people, if they are known there."""
    users = asked["user"]
    if isinstance(source, Exposure):
        table: pd.DataFrame = getattr(source, name)(users or None)
        return table
    if users and (unknown := {*users} - {*source.people()["user_id"]}):
        raise NotFound(f"of these people nothing was ever seen: {sorted(unknown)}")
    past: pd.DataFrame = getattr(source, name)(asked["as-of"])
    return past


def _narrowed(table: pd.DataFrame, asked: ParsedLine) -> pd.DataFrame:
    """The rows that a line asks for; letters are told apart by what they are, not by their case."""
    kept = table
    if asked["user"] and "user_id" in table:
        kept = table[table["user_id"].isin(asked["user"])].reset_index(drop=True)
    choices = {name: asked[name] for name in _CHOSEN if asked[name] and name in table}
    if not choices:
        return kept
    _, doubts = select(table, choices)
    for doubt in doubts:
        print(doubt, file=sys.stderr)  # noqa: T201  beside the empty table
    return select(kept, choices)[0]


def _provenance(source: Source, asked: ParsedLine) -> str:
    """Where a chart's figures come from, and what was left out; nobody needs it of a table."""
    if not asked["chart"]:
        return ""
    narrowed = [f"{name} {one}" for name in ("user", *_CHOSEN) for one in asked[name]]
    return " · ".join([source.provenance, *narrowed])


VERBS = {
    "users": Command("the people: one row a person", _people("users"), _WHO),
    "records": Command("the listings on people-search sites", _things("records"), (*_WHOLE, *_LATER)),
    "links": Command("the web pages that hold data", _things("links"), (*_WHO, *_LATER)),
    "alerts": Command("the alerts, each with its guide and procedure", _things("alerts"), (*_WHOLE, *_LATER)),
    "steps": Command("the steps that a human must take", _things("steps"), (*_WHOLE, *_LATER)),
    "failures": Command("who could not be loaded, and why", _people("failures"), _WHO),
    "by-site": Command("listings on each site", _question(analysis.by_site, "records"), (*_WHOLE, *_LATER)),
    "by-user": Command("listings of each person", _question(analysis.by_user, "records"), (*_WHOLE, *_LATER)),
    "user-by-site": Command(
        "open listings of each person on each site",
        _question(analysis.user_by_site, "records"),
        (*_WHOLE, *_LATER),
    ),
    "by-kind": Command("what data the pages hold", _question(analysis.by_kind, "links"), (*_WHO, *_LATER)),
    "by-state": Command(
        "where the listings place people", _question(analysis.by_state, "records"), (*_WHOLE, *_LATER)
    ),
    "blockers": Command("which fields removals wait for", _unblocking(analysis.blockers), _WHERE),
    "best-next-fields": Command("whom to ask for what", _unblocking(analysis.best_next_fields), _WHERE),
    "work-queue": Command("what to do by hand, in which order", _work_queue, (*_WHOLE, *_LATER)),
    "status-over-time": Command(
        "how many had each status, over time",
        _history_table(_over_time),
        ("by", "every", "kind", "since", "until", *_WHERE, "history"),
    ),
    "diff": Command(
        "what changed since a day, thing by thing",
        _history_table(lambda history, asked: _diff(history, asked).things),
        ("since", "until", "kind", *_WHERE, "history"),
    ),
    "changes": Command(
        "why the number of open things moved",
        _history_table(lambda history, asked: _diff(history, asked).why),
        ("since", "until", "kind", "history"),
    ),
    "time-to-removal": Command(
        "how long removal takes, by site", _history_table(_time_to_removal), ("site", *_LATER)
    ),
    "survival": Command(
        "what share is open after so many days",
        _history_table(lambda history, asked: history.survival(asked["by"], as_of=asked["as-of"])),
        ("by", *_LATER),
    ),
    "relistings": Command(
        "what came back", _history_table(lambda history, _: history.relistings()), (*_WHERE, "history")
    ),
    "stale": Command(
        "who was not seen well lately",
        _history_table(lambda history, asked: history.stale(asked["since"])),
        ("since", "user", "history"),
    ),
    "coverage": Command(
        "how long ago everybody was seen well",
        _history_table(lambda history, _: history.coverage()),
        ("history",),
    ),
    "precision": Command(
        "which findings are about the person",
        _history_table(lambda history, _: history.precision()),
        ("site", "history"),
    ),
    "forecast": Command(
        "how many will be open in 30, 60, 90 days",
        _history_table(lambda history, _: history.forecast()),
        ("history",),
    ),
    "site-health": Command(
        "which sites look broken",
        _history_table(lambda history, _: history.site_health()),
        ("site", "history"),
    ),
    "runs": Command(
        "every look that was kept", _history_table(lambda history, _: history.runs()), ("history",)
    ),
    "collect": Command("one look at everyone, kept in a history", _collect, ("run", "user", "history")),
    "connect": Command(
        "connect by the environment",
        lambda desk, asked: CommandResult(desk.connect(asked["base-url"])),
        ("base-url",),
    ),
    "use": Command(
        "speak of a variable from now on", lambda desk, asked: CommandResult(desk.use(asked.name))
    ),
    "refresh": Command("look at everyone anew", lambda desk, _: CommandResult(desk.exposure().refresh())),
}
