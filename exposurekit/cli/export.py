"""`exposurekit export`: write tables and the manual work to files."""

import io
import warnings
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from exposurekit.cli.history import existing_history, missing_names_hint
from exposurekit.cli.options import ID, When, check_writable, history_option
from exposurekit.cli.output import label_of
from exposurekit.errors import ConfigurationError, suggestion
from exposurekit.questions import QUESTIONS
from exposurekit.text.sanitize import printable

QUEUE = "queue"
_SYNONYMS = {"listings": "records", "pages": "links"}  # words of the manuals
_STDOUT = "-"
_QUEUE_ONLY = (".md", ".ics")  # formats of the queue alone
_WITH_FORM_VALUES = ("work_queue", "plan", "steps")  # whose order or texts depend on what people have on file
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
            close = (
                suggestion(_SYNONYMS.get(value, value), _names())
                or f"; the tables are {', '.join(_names())}."
            )
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

    A table becomes .csv, .xlsx or .parquet, or CSV on standard output with --out -; "queue", the manual work as a list, becomes .md, .ics, .xlsx or .csv.

    Tables from the history: {_listed(live=False)}. Loaded from the service now: {_listed(live=True)}.

    Without --personal only columns without personal data are written, and only those steps of the queue that at least
    five people share word for word; the result is then searched for personal data. A site that the rows do not have, or a
    word that is not a status, is an error, and nothing is written. In CSV and Excel no text is a formula.

    Example: exposurekit export records --status open --personal --live --out open.csv
    """


@click.command("export", help=_HELP)
@click.argument("table", type=_TableName(), metavar="TABLE")
@history_option
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write; its extension selects the format. - writes CSV to standard output.",
)
@click.option("--user", type=ID, help="With queue: only the work for this person.")
@click.option("--site", "sites", multiple=True, help="Only rows of this site; repeat for several.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    help="Only rows with this status, such as removed; open is every open one. Repeat for several.",
)
@click.option("--since", type=When(), help="For questions about changes: the start, such as 14d or 3mo.")
@click.option("--personal", "include_personal", is_flag=True, help="Include personal data.")
@click.option(
    "--live",
    is_flag=True,
    help="Load everyone now, which adds the names on file; to queue, work_queue, steps and alerts also what to enter.",
)
def export(
    *,
    table: str,
    history: str,
    out: Path,
    user: int | None,
    sites: tuple[str, ...],
    statuses: tuple[str, ...],
    since: str | None,
    include_personal: bool,
    live: bool,
) -> None:
    """Write a table, the answer of a question, or the manual work to a file."""
    import exposurekit
    from exposurekit import exports

    is_filtered = bool(sites or statuses)
    _check_usage(
        table, out, has_user=user is not None, is_filtered=is_filtered, is_bare=live and not include_personal
    )
    question = QUESTIONS.get(table)
    options: dict[str, Any] = _history_options(table, since)
    if sites and question is not None and "site" in question.options:
        options["site"], sites = sites, ()
    stream = io.BytesIO() if str(out) == _STDOUT else None
    if stream is None:
        check_writable(out)
    file, omission = (out if stream is None else Path("stdout.csv")), ""
    if table in _LOADED or (question is not None and question.needs_exposure):
        exposure = exposurekit.connect()
        content: Any = exposure[table] if question is None else question.answer(exposure.__getitem__)
        content = _selected(table, content, site=sites, status=statuses)
        content = _with_people(table, content, exposure) if live else content
        exports.write_table(
            content, file, name=table, include_personal=include_personal, source=exposure, stream=stream
        )
        lacks_names = False
    else:
        with existing_history(history) as opened:
            source: Any = exposurekit.connect() if live else None
            if table == QUEUE:
                written = exports.write_queue(
                    opened,
                    file,
                    user=user,
                    include_personal=include_personal,
                    exposure=source,
                    stream=stream,
                )
                omission = written.omission("add --personal")
            else:
                if live and table in _WITH_FORM_VALUES:
                    options["exposure"] = source
                content = _answer(table, opened, options)
                content = _selected(table, content, site=sites, status=statuses)
                if live and table not in _WITH_FORM_VALUES:
                    content = _with_people(table, content, source)
                exports.write_table(
                    content,
                    file,
                    name=table,
                    include_personal=include_personal,
                    source=opened,
                    stream=stream,
                )
            lacks_names = table == QUEUE and include_personal and not live and _has_work(opened, user)
    note = "" if include_personal else " Nothing personal is in it; --personal writes everything."
    if stream is None:
        size = f"{out.stat().st_size:,} bytes"
        click.echo(f"Wrote {label_of(out)}, {size}.{f' {omission}' if omission else note}")
    else:
        click.echo(printable(stream.getvalue().decode()), nl=False)
        if omission:
            click.echo(omission, err=True)
    if lacks_names:
        click.echo(missing_names_hint(history), err=True)


def _check_usage(table: str, out: Path, *, has_user: bool, is_filtered: bool, is_bare: bool) -> None:
    """Check the options against each other, before any work is done; `is_bare`: --live without --personal."""
    if table == QUEUE:
        if is_filtered:
            raise click.UsageError(
                "queue takes no --site and no --status, as all of it is open; work_queue is a table that takes --site"
            )
        return
    if has_user:
        raise click.UsageError("--user works only with queue: exposurekit export queue --user ID")
    if is_bare:
        raise click.UsageError("--live adds names, which are personal data: add --personal")
    if table == "work_queue" and out.suffix.lower() in _QUEUE_ONLY:
        raise ConfigurationError(
            "work_queue is a table (.csv, .xlsx or .parquet). For the manual work as a list use "
            "exposurekit export queue (.md, .ics, .xlsx or .csv)"
        )


def _answer(table: str, history: Any, options: dict[str, Any]) -> Any:
    from exposurekit.analysis.selection import NoMatch

    question = QUESTIONS.get(table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)  # ours; others are for developers
        answer = getattr(history, table)(**options) if question is None else question.ask(history, **options)
    for one in caught:
        if issubclass(one.category, NoMatch):
            raise ConfigurationError(str(one.message))
        click.echo(str(one.message), err=True)
    return answer


def _selected(table: str, content: Any, **choices: tuple[str, ...]) -> Any:
    """Return the rows with some values; one that does not occur is an error, and nothing is written."""
    from exposurekit.analysis.selection import select

    chosen = {column: values for column, values in choices.items() if values}
    for column in chosen:
        if column not in content:
            raise click.UsageError(f"{table} has no {column} in its rows, so it does not take --{column}")
    if not chosen:
        return content
    rows, doubts = select(content, chosen)
    if doubts:
        raise ConfigurationError(" ".join(doubts))
    return rows


def _with_people(table: str, content: Any, exposure: Any) -> Any:
    if "user_id" not in (*content, content.index.name):
        raise click.UsageError(f"{table} has no people in its rows, so it does not take --live")
    return exposure.with_people(content)


def _history_options(table: str, since: str | None) -> dict[str, Any]:
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
