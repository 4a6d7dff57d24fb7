"""The verbs of ``%exposure``: each question of an exposure or a history."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd

from exposurekit.analysis.selection import select
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.notebook.namespace import NotebookContext, Source
from exposurekit.notebook.parser import OPTIONS, ParsedLine, parse_line
from exposurekit.questions import QUESTIONS, Question

_FILTERS = ("site", "status")
_TABLES = {  # verbs that return a table of an exposure or a history: their help, and the filters of the table
    "records": ("Listings on people-search sites", ("user", *_FILTERS)),
    "links": ("Web pages with personal data", ("user",)),
    "alerts": ("Alerts with guide and opt-out procedure", ("user", *_FILTERS)),
    "steps": ("Manual opt-out steps", ("user", *_FILTERS)),
}


Handler: TypeAlias = Callable[[NotebookContext, ParsedLine], Any]


@dataclass(frozen=True, slots=True)
class Command:
    """A verb: its help, its handler and its options."""

    help: str
    handler: Handler
    options: tuple[str, ...] = ()


def run_command(context: NotebookContext, text: str) -> Any:
    """Run a line and return its result, a table or a chart; after printing help, None."""
    all_verbs = verbs()
    line = parse_line(text, {name: one.options for name, one in all_verbs.items()}, with_name=("use",))
    if line["help"]:
        print(describe_command(line.verb))  # noqa: T201  the user line for help
        return None
    return all_verbs[line.verb].handler(context, context.with_ids(line))


def verbs() -> dict[str, Command]:
    """Return the verbs by name: tables, questions, and what changes the notebook's context."""
    tables = {
        name: Command(text, _table(name), (*filters, "history", "as-of"))
        for name, (text, filters) in _TABLES.items()
    }
    questions = {name.replace("_", "-"): _command(question) for name, question in QUESTIONS.items()}
    return tables | _EXPOSURE_TABLES | questions | _ACTIONS


def describe_command(verb: str = "") -> str:
    """Return the help of one verb, or of all."""
    if not verb:
        width = max(map(len, verbs())) + 2
        lines = "\n".join(f"  {name:<{width}}{command.help}" for name, command in verbs().items())
        return f"{_HEAD}\n\n{lines}\n\n%exposure VERB --help shows its options. {_FOOT}"
    command, options = verbs()[verb], []
    for name in command.options:
        option = OPTIONS[name]
        value = "|".join(option.choices) or option.value
        options.append(f"  {f'--{name} {value}':<34}{option.help}")
    argument = " NAME" if verb == "use" else ""
    return "\n".join([f"%exposure {verb}{argument} [options]: {command.help}", *options])


_HEAD = "table = %exposure VERB [options]: answer a question with a table."
_FOOT = """
Tables come from what `connect` or `use` chose, from a variable named exposure or demo, from the only Exposure among the
variables, or from the service that the environment (EXPOSUREKIT_BASE_URL, ...) or a .env file names. Never put a key on
the line.
Names of users are looked up among the users of the exposure. Underscores and hyphens are interchangeable; --by means --group-by.
Histories come from --history DIR, from a variable named history or demo, from the only History among the variables, or
from the environment (EXPOSUREKIT_HISTORY)."""


def _command(question: Question) -> Command:
    if question.inputs:
        options = (
            *_TABLES[question.inputs[0]][1],
            *(() if question.needs_exposure else ("history", "as-of")),
        )
    else:
        own = map(_flag, question.options)
        options = (*dict.fromkeys((*own, *question.filters, "history")),)
    handler = _from_tables(question) if question.inputs else _from_history(question)
    return Command(question.title, handler, (*options, *(("chart",) if question.has_chart else ())))


def _flag(option: str) -> str:
    """The flag of a question's option: ``by`` of a method is ``--group-by``, as on the command line."""
    return "group-by" if option == "by" else option.replace("_", "-")


def _table(name: str) -> Handler:
    def handler(context: NotebookContext, line: ParsedLine) -> pd.DataFrame:
        with context.source(line) as source:
            return _filtered(_read_table(source, name, line), line)

    return handler


def _exposure_table(name: str) -> Handler:
    return lambda context, line: _filtered(context.exposure()[name], line)


def _from_tables(question: Question) -> Handler:
    def handler(context: NotebookContext, line: ParsedLine) -> Any:
        with nullcontext(context.exposure()) if question.needs_exposure else context.source(line) as source:

            def read(name: str) -> pd.DataFrame:
                table = _filtered(_read_table(source, name, line), line)
                return context.with_ticks(table) if name == "steps" and "tick" not in table else table

            return _result(question, question.answer(read), source, line)

    return handler


def _from_history(question: Question) -> Handler:
    def handler(context: NotebookContext, line: ParsedLine) -> Any:
        for name in question.required:
            if line[name] is None:
                raise InvalidArgument(
                    f"{line.verb} needs --{name} TIME, such as --{name} 14d or --{name} 2026-11-13"
                )
        values = {name: line[_flag(name)] for name in question.options}
        if question.takes_exposure:
            values["exposure"] = context.loaded_exposure()
        with context.history(line) as history:
            answer = question.ask(
                history, **{name: value for name, value in values.items() if value not in (None, [])}
            )
            rows = _filtered(answer, line) if question.filters else answer
            return _result(question, rows, history, line)

    return handler


def _result(question: Question, answer: pd.DataFrame, source: Source, line: ParsedLine) -> Any:
    """Return the answer, or its chart with the source and the filters as provenance."""
    if not line["chart"]:
        return answer
    filters = [
        f"{name} {value}"
        for name in ("user", *_FILTERS)
        for value in line[name]
        if f"{name}s" not in answer.attrs  # the chart names those itself
    ]
    return question.draw(answer, provenance=" · ".join([source.provenance, *filters]))


def _collect(context: NotebookContext, line: ParsedLine) -> Any:
    with context.history(line, create=True) as history:
        return history.collect(context.exposure(), run=line["run"], only=line["user"] or None)


def _read_table(source: Source, name: str, line: ParsedLine) -> pd.DataFrame:
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


_EXPOSURE_TABLES = {
    "users": Command("Users, one row each", _exposure_table("users"), ("user",)),
    "failures": Command("Users who could not be loaded, and why", _exposure_table("failures"), ("user",)),
}
_ACTIONS = {
    "runs": Command(
        "All runs of the history",
        _from_history(Question("runs", "All runs of the history", group="")),
        ("history",),
    ),
    "collect": Command("Collect everyone into a history", _collect, ("run", "user", "history")),
    "connect": Command(
        "Connect with the environment's settings",
        lambda context, line: context.connect(line["base-url"]),
        ("base-url",),
    ),
    "use": Command("Use a variable from now on", lambda context, line: context.use(line.name)),
    "refresh": Command("Load everyone again", lambda context, _: context.exposure().refresh()),
}
