"""Tables and the manual work from a shell, as files for other programs. Works nothing out itself."""

from pathlib import Path
from typing import Any

import click

from exposurekit.cli.history import existing
from exposurekit.cli.options import ID, check_writable, history_option
from exposurekit.cli.showing import named

QUEUE = "queue"
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
    "--out", required=True, type=click.Path(path_type=Path), help="The file; its ending says what it becomes."
)
@click.option("--user", type=ID, help="Of the queue: the work for this person alone.")
@click.option("--personal", is_flag=True, help="Write everything; without it, nothing that is personal.")
def export(*, table: str, history: str, out: Path, user: int | None, personal: bool) -> None:
    """Write TABLE to a .csv, .xlsx or .parquet; or "queue", the manual work, to a .md or an .ics.

    Tables of the history: records, links, alerts, steps, runs, people, by_site, status_over_time, time_to_removal,
    relistings, stale, coverage, site_health, precision, work_queue, score. Loaded from the service now: users, aliases,
    emails, phone_numbers, addresses, on_file, service_history, failures.

    Without --personal the columns that are known to be harmless are written, and of the queue what at least five people
    are told in the same words; then it is searched for what is known of everyone. In CSV and Excel no text is a formula.

    Example: exposurekit export work_queue --out queue.xlsx
    """
    import exposurekit

    if user is not None and table != QUEUE:
        raise click.UsageError("--user goes with the queue")
    check_writable(out)
    if table in LIVE:
        exposure = exposurekit.connect()
        file = exposurekit.export(exposure[table], out, personal=personal, of=exposure)
    else:
        with existing(history) as kept:
            what: Any = kept if table == QUEUE else getattr(kept, table)()
            file = exposurekit.export(what, out, user=user, personal=personal, of=kept)
    kept_back = "" if personal else " Nothing personal is in it; --personal writes everything."
    click.echo(f"Wrote {named(file)}, {file.stat().st_size:,} bytes.{kept_back}")
