"""The verbs of ``%exposure``: each question of an exposure or a history."""

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
from exposurekit.notebook.parser import OPTIONS, ParsedLine, parse_line

_FILTERS = ("site", "status")
_USER, _USER_SITE, _ALL_FILTERS = ("user",), ("user", "site"), ("user", "site", "status")
_FROM_HISTORY = ("history", "as-of")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A value and its provenance."""

    value: Any
    provenance: str = ""


Handler: TypeAlias = Callable[[NotebookContext, ParsedLine], CommandResult]


@dataclass(frozen=True, slots=True)
class Command:
    """A verb: its help, its handler and its options."""

    help: str
    handler: Handler
    options: tuple[str, ...] = ()


def run_command(context: NotebookContext, text: str) -> Any:
    """Run a line and return its result, a table or a chart; after printing help, None.

    Raises:
        ExposureError: The line is invalid or failed; the message says what to do.
    """
    line = parse_line(text, {name: accepted_options(name) for name in VERBS}, with_name=("use",))
    if line["help"]:
        print(describe_command(line.verb))  # noqa: T201  the user line for help
        return None
    result = VERBS[line.verb].handler(context, line)
    if isinstance(result.value, pd.DataFrame):
        context.remember(result.value)
    return _draw_chart(line.verb, result) if line["chart"] else result.value


def accepted_options(verb: str) -> tuple[str, ...]:
    """Return the options of a verb, with ``chart`` if it has one."""
    return (*VERBS[verb].options, *(("chart",) if _chart_of(verb) else ()))


def describe_command(verb: str = "") -> str:
    """Return the help of one verb, or of all.

    >>> from exposurekit.notebook.commands import describe_command
    >>> "--site NAME" in describe_command("records")
    True
    """
    if not verb:
        verbs = "\n".join(f"  {name:<18}{command.help}" for name, command in VERBS.items())
        return f"{_HEAD}\n\n{verbs}\n\n%exposure VERB --help shows its options. {_FOOT}"
    lines = []
    for name in accepted_options(verb):
        option = OPTIONS[name]
        value = "|".join(option.choices) or option.value
        lines.append(f"  {f'--{name} {value}':<34}{option.help}")
    argument = " NAME" if verb == "use" else ""
    return "\n".join([f"%exposure {verb}{argument} [options]: {VERBS[verb].help}", *lines])


_HEAD = "table = %exposure VERB [options]: answer a question with a table."
_FOOT = """
Tables come from a variable named exposure or demo, from what `connect` or `use` chose, or from the service that the
environment (EXPOSUREKIT_BASE_URL, ...) or a .env file names. Never put a key on the line.
Histories come from a variable named history or demo, or from --history DIR."""


def _chart_of(verb: str) -> Callable[..., Any] | None:
    name = verb.replace("-", "_")
    return getattr(charts, name, None) if name in analysis.__all__ else None


def _draw_chart(verb: str, result: CommandResult) -> Any:
    draw = _chart_of(verb)
    assert draw is not None  # noqa: S101  the parser accepts --chart only for verbs with a chart
    return draw(result.value, provenance=result.provenance)


def _table(name: str) -> Handler:
    """Handle a verb that returns a table of an exposure or a history."""

    def handler(context: NotebookContext, line: ParsedLine) -> CommandResult:
        with context.source(line) as source:
            return CommandResult(_filtered(_read_table(source, name, line), line), _provenance(source, line))

    return handler


def _exposure_table(name: str) -> Handler:
    """Handle a verb that returns a table of an exposure."""

    def handler(context: NotebookContext, line: ParsedLine) -> CommandResult:
        return CommandResult(_filtered(context.exposure()[name], line))

    return handler


def _question(question: Callable[[pd.DataFrame], pd.DataFrame], name: str) -> Handler:
    """Handle a question about one of those tables."""

    def handler(context: NotebookContext, line: ParsedLine) -> CommandResult:
        table = _table(name)(context, line)
        return CommandResult(question(table.value), table.provenance)

    return handler


def _missing_fields(question: Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]) -> Handler:
    def handler(context: NotebookContext, line: ParsedLine) -> CommandResult:
        exposure = context.exposure()
        records = _filtered(_read_table(exposure, "records", line), line)
        return CommandResult(question(records, exposure.on_file()), _provenance(exposure, line))

    return handler


def _work_queue(context: NotebookContext, line: ParsedLine) -> CommandResult:
    with context.source(line) as source:
        steps = _filtered(_read_table(source, "steps", line), line)
        ticked = steps if "tick" in steps else context.with_ticks(steps)
        return CommandResult(analysis.work_queue(ticked), _provenance(source, line))


def _history_table(query: Callable[[History, ParsedLine], pd.DataFrame]) -> Handler:
    """Handle a question about a history."""

    def handler(context: NotebookContext, line: ParsedLine) -> CommandResult:
        with context.history(line) as history:
            return CommandResult(_filtered(query(history, line), line), _provenance(history, line))

    return handler


def _over_time(history: History, line: ParsedLine) -> pd.DataFrame:
    if line["site"] and line["by"] != "site":
        raise InvalidArgument("--site needs --by site")
    return history.status_over_time(
        by=line["by"],
        every=line["every"] or "day",
        kind=line["kind"] or "record",
        user=line["user"] or None,
        since=line["since"],
        until=line["until"],
    )


def _diff(history: History, line: ParsedLine) -> Any:
    if line["since"] is None:
        raise InvalidArgument(f"{line.verb} needs --since TIME, such as --since 14d or --since 2026-11-13")
    return history.diff(line["since"], line["until"], kind=line["kind"] or "record")


def _time_to_removal(history: History, line: ParsedLine) -> pd.DataFrame:
    return history.time_to_removal(as_of=line["as-of"])


def _collect(context: NotebookContext, line: ParsedLine) -> CommandResult:
    with context.history(line, create=True) as history:
        return CommandResult(history.collect(context.exposure(), run=line["run"], only=line["user"] or None))


def _read_table(source: Source, name: str, line: ParsedLine) -> pd.DataFrame:
    """Read a table of an exposure, or of a history at a time, for some users or all."""
    users = line["user"]
    if isinstance(source, Exposure):
        table: pd.DataFrame = getattr(source, name)(users or None)
        return table
    if users and (unknown := {*users} - {*source.people()["user_id"]}):
        raise NotFound(f"the history has no data about these users: {sorted(unknown)}")
    past: pd.DataFrame = getattr(source, name)(line["as-of"])
    return past


def _filtered(table: pd.DataFrame, line: ParsedLine) -> pd.DataFrame:
    """Filter a table by the line's users, sites and statuses; upper and lower case are equal."""
    rows = table
    if line["user"] and "user_id" in table:
        rows = table[table["user_id"].isin(line["user"])].reset_index(drop=True)
    choices = {name: line[name] for name in _FILTERS if line[name] and name in table}
    if not choices:
        return rows
    _, warnings = select(table, choices)
    for warning in warnings:
        print(warning, file=sys.stderr)  # noqa: T201  explains an empty table
    return select(rows, choices)[0]


def _provenance(source: Source, line: ParsedLine) -> str:
    """Return the provenance of a chart's figures, with the filters; empty for a table."""
    if not line["chart"]:
        return ""
    filters = [f"{name} {value}" for name in ("user", *_FILTERS) for value in line[name]]
    return " · ".join([source.provenance, *filters])


VERBS = {
    "users": Command("users, one row each", _exposure_table("users"), _USER),
    "records": Command("listings on people-search sites", _table("records"), (*_ALL_FILTERS, *_FROM_HISTORY)),
    "links": Command("web pages with personal data", _table("links"), (*_USER, *_FROM_HISTORY)),
    "alerts": Command(
        "alerts with guide and opt-out procedure", _table("alerts"), (*_ALL_FILTERS, *_FROM_HISTORY)
    ),
    "steps": Command("manual opt-out steps", _table("steps"), (*_ALL_FILTERS, *_FROM_HISTORY)),
    "failures": Command("users that could not be loaded, and why", _exposure_table("failures"), _USER),
    "by-site": Command(
        "listings per site", _question(analysis.by_site, "records"), (*_ALL_FILTERS, *_FROM_HISTORY)
    ),
    "by-user": Command(
        "listings per user", _question(analysis.by_user, "records"), (*_ALL_FILTERS, *_FROM_HISTORY)
    ),
    "user-by-site": Command(
        "open listings per user and site",
        _question(analysis.user_by_site, "records"),
        (*_ALL_FILTERS, *_FROM_HISTORY),
    ),
    "by-kind": Command(
        "kinds of data on web pages", _question(analysis.by_kind, "links"), (*_USER, *_FROM_HISTORY)
    ),
    "by-state": Command(
        "open listings per US state", _question(analysis.by_state, "records"), (*_ALL_FILTERS, *_FROM_HISTORY)
    ),
    "blockers": Command("missing fields that block removals", _missing_fields(analysis.blockers), _USER_SITE),
    "best-next-fields": Command(
        "which user to ask for which field next", _missing_fields(analysis.best_next_fields), _USER_SITE
    ),
    "work-queue": Command(
        "manual removals, most effective first", _work_queue, (*_ALL_FILTERS, *_FROM_HISTORY)
    ),
    "status-over-time": Command(
        "listings per status over time",
        _history_table(_over_time),
        ("by", "every", "kind", "since", "until", *_USER_SITE, "history"),
    ),
    "diff": Command(
        "changes since a time, one row each",
        _history_table(lambda history, line: _diff(history, line).things),
        ("since", "until", "kind", *_USER_SITE, "history"),
    ),
    "changes": Command(
        "why the number of open listings changed",
        _history_table(lambda history, line: _diff(history, line).why),
        ("since", "until", "kind", "history"),
    ),
    "time-to-removal": Command(
        "time to removal per site", _history_table(_time_to_removal), ("site", *_FROM_HISTORY)
    ),
    "survival": Command(
        "share still open after a number of days",
        _history_table(lambda history, line: history.survival(line["by"], as_of=line["as-of"])),
        ("by", *_FROM_HISTORY),
    ),
    "relistings": Command(
        "listings that came back",
        _history_table(lambda history, _: history.relistings()),
        (*_USER_SITE, "history"),
    ),
    "stale": Command(
        "users not loaded completely lately",
        _history_table(lambda history, line: history.stale(line["since"])),
        ("since", "user", "history"),
    ),
    "coverage": Command(
        "time since each user was loaded completely",
        _history_table(lambda history, _: history.coverage()),
        ("history",),
    ),
    "precision": Command(
        "share of findings that are about the user",
        _history_table(lambda history, _: history.precision()),
        ("site", "history"),
    ),
    "forecast": Command(
        "open listings expected in 30, 60 and 90 days",
        _history_table(lambda history, _: history.forecast()),
        ("history",),
    ),
    "site-health": Command(
        "sites that may be unreadable",
        _history_table(lambda history, _: history.site_health()),
        ("site", "history"),
    ),
    "runs": Command(
        "all runs of the history", _history_table(lambda history, _: history.runs()), ("history",)
    ),
    "collect": Command("collect everyone into a history", _collect, ("run", "user", "history")),
    "connect": Command(
        "connect with the environment's settings",
        lambda context, line: CommandResult(context.connect(line["base-url"])),
        ("base-url",),
    ),
    "use": Command("use a variable from now on", lambda context, line: CommandResult(context.use(line.name))),
    "refresh": Command("load everyone again", lambda context, _: CommandResult(context.exposure().refresh())),
}
