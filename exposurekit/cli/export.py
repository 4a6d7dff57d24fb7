"""`exposurekit export`: write tables and the manual work to files."""

from pathlib import Path
from typing import Any

import click

from exposurekit.cli.history import existing_history, missing_names_hint
from exposurekit.cli.options import ID, check_writable, history_option
from exposurekit.cli.output import label_of
from exposurekit.errors import ConfigurationError

QUEUE = "queue"
_QUEUE_ONLY = (".md", ".ics")  # formats of the queue alone
TABLES = (
    *(
        "records",
        "links",
        "alerts",
        "steps",
        "runs",
        "people",
        "by_site",
        "status_over_time",
        "time_to_removal",
    ),
    *("relistings", "stale", "coverage", "site_health", "precision", "work_queue", "score"),
)
LIVE = ("users", "aliases", "emails", "phone_numbers", "addresses", "on_file", "service_history", "failures")


@click.command("export")
@click.argument("table", type=click.Choice((*TABLES, *LIVE, QUEUE)), metavar="TABLE")
@history_option
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write; its extension selects the format.",
)
@click.option("--user", type=ID, help="With queue: only the work for this person.")
@click.option("--personal", is_flag=True, help="Include personal data.")
@click.option(
    "--live",
    is_flag=True,
    help="With queue: load everyone now, which adds names and what to enter.",
)
def export(*, table: str, history: str, out: Path, user: int | None, personal: bool, live: bool) -> None:
    """Write a table or the manual work to a file for other programs.

    A table becomes .csv, .xlsx or .parquet; "queue", the manual work as a list, becomes .md, .ics or .xlsx.

    Tables from the history: records, links, alerts, steps, runs, people, by_site, status_over_time, time_to_removal,
    relistings, stale, coverage, site_health, precision, work_queue, score. Loaded from the service now: users, aliases,
    emails, phone_numbers, addresses, on_file, service_history, failures.

    Without --personal only columns without personal data are written, and only those steps of the queue that at least
    five people share word for word; the result is then searched for personal data. In CSV and Excel no text is a formula.

    Example: exposurekit export queue --personal --live --out queue.xlsx
    """
    import exposurekit

    if (user is not None or live) and table != QUEUE:
        option, words = ("--live", "--live") if live else ("--user", "--user ID")
        raise click.UsageError(f"{option} works only with queue: exposurekit export queue {words}")
    if table == "work_queue" and out.suffix.lower() in _QUEUE_ONLY:
        raise ConfigurationError(
            "work_queue is a table (.csv, .xlsx or .parquet). For the manual work as a list use "
            "exposurekit export queue (.md, .ics or .xlsx)"
        )
    check_writable(out)
    if table in LIVE:
        exposure = exposurekit.connect()
        file = exposurekit.export(exposure[table], out, include_personal=personal, source=exposure)
        lacks_names = False
    else:
        with existing_history(history) as opened:
            content: Any = opened if table == QUEUE else getattr(opened, table)()
            source: Any = exposurekit.connect() if live else opened
            file = exposurekit.export(content, out, user=user, include_personal=personal, source=source)
            lacks_names = table == QUEUE and personal and not live and _has_work(opened, user)
    note = "" if personal else " Nothing personal is in it; --personal writes everything."
    click.echo(f"Wrote {label_of(file)}, {file.stat().st_size:,} bytes.{note}")
    if lacks_names:
        click.echo(missing_names_hint(history), err=True)


def _has_work(history: Any, user: int | None) -> bool:
    """Whether there is manual work, for everyone or for one person."""
    from exposurekit.reports.manual_steps import removals

    return any(user in (None, task.user_id) for one in removals(history.work_queue()) for task in one.tasks)
