"""`exposurekit export`: write tables and the manual work to files."""

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from exposurekit.cli.history import existing_history, missing_names_hint
from exposurekit.cli.options import ID, When, check_writable, history_option
from exposurekit.cli.output import label_of
from exposurekit.errors import ConfigurationError
from exposurekit.questions import QUESTIONS
from exposurekit.text.words import suggestion

QUEUE = "queue"
_QUEUE_ONLY = (".md", ".ics")  # formats of the queue alone
_STORED = ("records", "links", "alerts", "steps", "runs", "people")  # tables of a history
_LOADED = (
    "users",
    "aliases",
    "emails",
    "phone_numbers",
    "addresses",
    "on_file",
    "service_history",
    "failures",
)


class _TableName(click.ParamType[str]):
    """The name of a table or a question, or ``queue``."""

    name = "table"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        value = value.replace("-", "_")
        if value not in _names():
            close = suggestion(value, _names()) or f"; the tables are {', '.join(_names())}."
            self.fail(f"there is no table {value!r}{close}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        return [CompletionItem(name) for name in _names() if name.startswith(incomplete)]


def _names() -> list[str]:
    return [*_STORED, *QUESTIONS, *_LOADED, QUEUE]


def _listed(*, live: bool) -> str:
    """The names of the tables that come from the history, or from the service."""
    questions = (name for name, question in QUESTIONS.items() if question.needs_exposure == live)
    return ", ".join([*(_LOADED if live else _STORED), *questions])


_HELP = f"""Write a table or the manual work to a file for other programs.

    A table becomes .csv, .xlsx or .parquet; "queue", the manual work as a list, becomes .md, .ics, .xlsx or .csv.

    Tables from the history: {_listed(live=False)}. Loaded from the service now: {_listed(live=True)}.

    Without --personal only columns without personal data are written, and only those steps of the queue that at least
    five people share word for word; the result is then searched for personal data. In CSV and Excel no text is a formula.

    Example: exposurekit export queue --personal --live --out queue.xlsx
    """


@click.command("export", help=_HELP)
@click.argument("table", type=_TableName(), metavar="TABLE")
@history_option
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write; its extension selects the format.",
)
@click.option("--user", type=ID, help="With queue: only the work for this person.")
@click.option("--since", type=When(), help="For questions about changes: the start, such as 14d.")
@click.option("--personal", "include_personal", is_flag=True, help="Include personal data.")
@click.option(
    "--live", is_flag=True, help="With queue: load everyone now, which adds names and what to enter."
)
def export(
    *,
    table: str,
    history: str,
    out: Path,
    user: int | None,
    since: str | None,
    include_personal: bool,
    live: bool,
) -> None:
    """Write a table, the answer of a question, or the manual work to a file."""
    import exposurekit
    from exposurekit import exports

    if (user is not None or live) and table != QUEUE:
        option, words = ("--live", "--live") if live else ("--user", "--user ID")
        raise click.UsageError(f"{option} works only with queue: exposurekit export queue {words}")
    if table == "work_queue" and out.suffix.lower() in _QUEUE_ONLY:
        raise ConfigurationError(
            "work_queue is a table (.csv, .xlsx or .parquet). For the manual work as a list use "
            "exposurekit export queue (.md, .ics, .xlsx or .csv)"
        )
    question = QUESTIONS.get(table)
    options = _history_options(table, since)
    check_writable(out)
    empty = ""
    if table in _LOADED or (question is not None and question.needs_exposure):
        exposure = exposurekit.connect()
        content: Any = exposure[table] if question is None else question.answer(exposure.__getitem__)
        exports.write_table(content, out, name=table, include_personal=include_personal, source=exposure)
        lacks_names = False
    else:
        with existing_history(history) as opened:
            source: Any = exposurekit.connect() if live else opened
            if table == QUEUE:
                written = exports.write_queue(
                    opened, out, user=user, include_personal=include_personal, source=source
                )
                empty = written.why_empty("add --personal")
            else:
                content = opened[table] if question is None else question.ask(opened, **options)
                exports.write_table(
                    content, out, name=table, include_personal=include_personal, source=source
                )
            lacks_names = table == QUEUE and include_personal and not live and _has_work(opened, user)
    note = "" if include_personal else " Nothing personal is in it; --personal writes everything."
    click.echo(f"Wrote {label_of(out)}, {out.stat().st_size:,} bytes.{f' {empty}' if empty else note}")
    if lacks_names:
        click.echo(missing_names_hint(history), err=True)


def _history_options(table: str, since: str | None) -> dict[str, str]:
    """Return the options of a question; --since must be there if the table requires it, and only if it takes it."""
    question = QUESTIONS.get(table)
    if since is None:
        if question is not None and question.required:
            raise click.UsageError(f"{table} needs --since, such as --since 14d")
        return {}
    if question is None or "since" not in question.options:
        raise click.UsageError(f"{table} does not take --since")
    return {"since": since}


def _has_work(history: Any, user: int | None) -> bool:
    """Return whether manual work is open, for everyone or for one person."""
    from exposurekit.reports.manual_steps import removals

    return any(user in (None, task.user_id) for one in removals(history.work_queue()) for task in one.tasks)
