"""`exposurekit collect` and `exposurekit history`: add runs, show and maintain a history."""

import csv
import io
import json
import shlex
import signal
import sys
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import browser, output
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import (
    ID,
    auto_compact_option,
    history_option,
    json_option,
    local_option,
    record_key_option,
)
from exposurekit.errors import ConfigurationError, LoadStopped, NotFound
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain

DEMO_MARKER = ".exposurekit-demo"  # another demo may replace a history that has this file
EXIT_INCOMPLETE = 3
_INCOMPLETE = ("failed", "partial", "missed")  # how people of a run were loaded
_SITES_MAX = 5  # named in a message
_RUN_COLUMNS = (
    *("seq", "run", "origin", "finished_at", "listed", "whole", "partial", "failed"),
    *("new", "entered_scope", "changed", "removed", "vanished", "relisted"),
)


@click.command()
@history_option
@record_key_option
@click.option(
    "--run",
    help="The name of the run, such as 2026-11-21; collecting the same name again adds nothing. Default: a new one.",
)
@click.option("--shard", metavar="K/N", help="Collect one of N parts of a named run, such as 2/8.")
@click.option("--user", "users", type=ID, multiple=True, help="Load only this person; repeat for several.")
@click.option(
    "--fail-on-errors", is_flag=True, help="Exit with 3 if somebody could not be loaded completely."
)
@click.option(
    "--moved",
    is_flag=True,
    help="The service or the integrator has another name or address than in the last run; the people are the same.",
)
@auto_compact_option
@json_option
def collect(
    *,
    history: str,
    record_key: str | None,
    run: str | None,
    shard: str | None,
    users: tuple[int, ...],
    fail_on_errors: bool,
    moved: bool,
    auto_compact: str,
    as_json: bool,
) -> None:
    """Load everyone once and add a run to the history; for cron.

    The connection comes from EXPOSUREKIT_BASE_URL, _INTEGRATION_NAME, _API_KEY and _API_SECRET, or a .env file. A
    collection of everyone that is stopped or killed continues at the next call.

    Exits with 0 if the run was stored, also if some people could not be loaded; with 3 in that case, if
    --fail-on-errors is set; with 1 if the service cannot list the people, or nobody named by --user is registered.

    Example: exposurekit collect --history ./exposure-history
    """
    from exposurekit.exposure import connect

    if shard is not None and run is None:
        raise ConfigurationError("--shard needs a run with a name: add --run NAME")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    exposure = connect()
    with open_history(history, record_key, auto_compact) as opened:
        try:
            collected = opened.collect(exposure, run=run, shard=shard, only=users or None, moved=moved)
        except LoadStopped as stopped:
            click.echo(f"{str(stopped).capitalize()}.", err=True)
            raise
        unknown = _unknown_users(opened, collected, users)
    if as_json:
        fields = output.fields(collected, "run", "seq", "started_at", "finished_at")
        fields |= {**collected.people, **collected.counts, "waits_for": collected.waits_for}
        output.print_json(fields | {"was_there": collected.was_there, "not_registered": unknown})
    elif collected.was_there:
        click.echo(f"{collected} (it was there already; nothing was added)")
    else:
        click.echo(str(collected))
    for user in unknown:
        click.echo(f"{user} is not registered", err=True)
    if incomplete := sum(collected.people.get(name, 0) for name in _INCOMPLETE):
        people = pluralize(incomplete, "person was", "people were")
        click.echo(
            f"{people} not loaded completely. exposurekit history issues --history DIR lists them, and why",
            err=True,
        )
    if unknown and len(unknown) == len(set(users)):
        sys.exit(1)
    if incomplete and fail_on_errors:
        sys.exit(EXIT_INCOMPLETE)


@click.group(cls=Group)
def history() -> None:
    """Show and maintain a history."""


@history.command("show")
@history_option
@click.option(
    "--every", default="day", type=click.Choice(("run", "day", "week", "month")), help="One row per period."
)
@click.option("--group-by", type=click.Choice(("site", "user_id")), help="Count separately by this column.")
@click.option(
    "--kind", default="record", type=click.Choice(("record", "link", "alert")), help="What to count."
)
@json_option
def show(*, history: str, every: str, group_by: str | None, kind: str, as_json: bool) -> None:
    """Show how many records had each status over time.

    It begins with the first run that observed anybody.

    Example: exposurekit history show --every week
    """
    from exposurekit.analysis.status_over_time import since_observed

    with existing_history(history) as opened:
        table = opened.status_over_time(by=group_by, every=every, kind=kind)
    table = table if group_by else since_observed(table)
    output.print_rows(_rows(table), as_json=as_json, none="The history has no runs yet.")


@history.command("runs")
@history_option
@json_option
def runs(*, history: str, as_json: bool) -> None:
    """List the runs, and those that wait for a shard.

    Example: exposurekit history runs
    """
    with existing_history(history) as opened:
        table, pending = opened.runs(), opened.pending_runs()
    columns = table.drop(columns="source") if as_json else table[list(_RUN_COLUMNS)]  # a URL
    output.print_rows(_rows(columns), as_json=as_json, none="The history has no runs yet.")
    for run in pending:
        click.echo(str(run), err=True)


@history.command("issues")
@history_option
@json_option
def issues(*, history: str, as_json: bool) -> None:
    """List who was not loaded completely in the last run, and why.

    Example: exposurekit history issues
    """
    with existing_history(history) as opened:
        opened.last_run()  # raises an error if there is none
        table, runs = opened.load_issues(), opened.runs()
    collected = runs[runs["origin"] == "collect"]
    if collected.empty:
        raise NotFound("Nobody was loaded yet: this history has only webhook deliveries")
    last = collected.iloc[-1]
    people = "Everyone" if last["scope"] == "everyone" else "Each of the chosen people"
    rows = table[(table["seq"] == last["seq"]) & table["what"].isin(_INCOMPLETE)]
    columns = ["user_id", "what", "operation", "error", "status", "reason"]
    output.print_rows(
        _rows(rows[columns]), as_json=as_json, none=f"{people} was loaded completely in run {last['run']}."
    )


@history.command("finish")
@history_option
@click.argument("run")
def finish(*, history: str, run: str) -> None:
    """Add a run although some of its shards are missing.

    Users of the missing shards count as not loaded, not as gone.

    Example: exposurekit history finish 2026-11-21
    """
    with existing_history(history) as opened:
        click.echo(str(opened.finalize(run)))


@history.command("declare")
@history_option
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--source",
    default="",
    show_default=False,
    help="Where the days are declared, such as a registry of brokers.",
)
def declare(*, history: str, file: Path, source: str) -> None:
    """Record how many days each site says a removal takes.

    FILE is CSV with the headings site and declared_days, or JSON as exposurekit sites list --json prints it. Reports and
    exposurekit export declared_vs_observed compare them with the days that removals take.

    Example: exposurekit history declare days.csv --source "the sites' terms"
    """
    from exposurekit.analysis.selection import NoMatch

    days = _declared_days(file)
    with existing_history(history) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore", NoMatch)  # a file may be a whole registry
        count = opened.declare_days(days, source=source)
        observed = {site.casefold() for site in opened.removal_requests()["site"]}
    unobserved = [site for site in days if site.casefold() not in observed]
    click.echo(f"Recorded the declared days of {count} {'site' if count == 1 else 'sites'}.")
    if unobserved:
        names = ", ".join(plain(site) for site in unobserved[:_SITES_MAX])
        more = f" and {len(unobserved) - _SITES_MAX} more" if len(unobserved) > _SITES_MAX else ""
        click.echo(f"No removal requests seen for: {names}{more}", err=True)


@history.command("import-ticks")
@history_option
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def import_ticks(*, history: str, file: Path) -> None:
    """Mark the steps as done that somebody ticked in a report.

    FILE is what Save ticks, below the manual work of a report, wrote. The same file again changes nothing, and steps that
    were marked later than in the report stay as they are.

    Example: exposurekit history import-ticks ticks.json
    """
    with existing_history(history) as opened:
        click.echo(f"{opened.import_ticks(file)}.")


@history.command("erase")
@history_option
@click.argument("user", type=ID)
@click.option(
    "--inbox", type=click.Path(path_type=Path, dir_okay=False), help="The inbox, if it is not in the history."
)
@click.option(
    "--also-numbers",
    is_flag=True,
    help="Also erase deliveries without a user_id that contain USER as any other number, such as an age.",
)
def erase(*, history: str, user: int, inbox: Path | None, also_numbers: bool) -> None:
    """Erase one person from the history and everything beside it.

    Nothing about USER remains in any file of the history, its webhook inbox, unsent notifications, or the page that
    exposurekit open wrote. Confidential reports that wait to be sent are no longer attached; delete their files yourself.

    A delivery without a user_id is erased if it contains the id after a name such as user_id or id, a value of 6
    characters or more that the history has of USER, or both the street with house number and the town of an address on a
    listing. Unregister USER at the service first: otherwise the next collect, or a running watch, loads
    them again.

    Example: exposurekit history erase 12
    """
    inbox_file = _find_inbox(history, inbox)
    is_there = inbox is not None or inbox_file is None or is_begun(history)  # else there is only an inbox
    with existing_history(history) if is_there else open_history(history) as opened:
        values = opened.personal_values(user) if is_there else set()
        addresses = opened.personal_addresses(user) if is_there else set()
        # The inbox first: if that fails and is repeated, the history still has the values to search for.
        inbox_summary = _erase_inbox(inbox_file, user, values, addresses, also_numbers=also_numbers)
        rows = opened.erase(user) if is_there else 0
    if rows:
        click.echo(f"Erased {pluralize(rows, 'row')} from the history {plain(history)}.")
    else:
        click.echo(f"The history {plain(history)} has no data about user {user}.")
    click.echo(inbox_summary)
    erased, detached = _erase_notifications(history, user)
    if erased:
        click.echo(f"Erased {pluralize(erased, 'unsent notification')} about them.")
    if detached:
        notifications = pluralize(detached, "unsent notification")
        click.echo(f"Removed the confidential report, which may name them, from {notifications}.")
    if browser.remove_page():
        click.echo("Removed the page that exposurekit open wrote to your cache.")
    if rows:
        click.echo(
            "The next collect, or a running watch, loads them again unless they are unregistered at the service."
        )


@history.command("verify")
@history_option
@json_option
def verify(*, history: str, as_json: bool) -> None:
    """Check that the history is not damaged; exit with 1 if it is.

    Example: exposurekit history verify
    """
    from exposurekit.history.maintenance import REMEDY

    with existing_history(history) as opened:
        damage = opened.verify()
    if as_json:
        output.print_json(damage)
    elif damage:
        for problem, rows in damage.items():
            click.echo(f"Damaged: {problem}{f' ({rows:,} rows)' if rows > 1 else ''}.", err=True)
        click.echo(f"{REMEDY.capitalize()}.", err=True)
    else:
        click.echo("ok: the history is not damaged.")
    if damage:
        sys.exit(1)


@history.command("compact")
@history_option
def compact(*, history: str) -> None:
    """Merge many small files into few.

    Runs do so by themselves if there are too many, unless --auto-compact is off.

    Example: exposurekit history compact
    """
    with existing_history(history) as opened:
        opened.compact()
    click.echo("Done. The old files remain for a day, for processes that still read them.")


def open_history(path: str, record_key: str | None = None, auto_compact: str = "on") -> Any:
    """Open a history, or create one."""
    from exposurekit.history import History

    return History(path, records_by=record_key, auto_compact=auto_compact == "on")


def existing_history(path: str) -> Any:
    """Open a history; raises `NotFound` if there is none."""
    opened = open_history(path)
    if not is_begun(path):
        raise NotFound(
            f"There is no history in {plain(path)}: exposurekit collect --history {plain(shlex.quote(path))} creates one. "
            "--history DIR selects another"
        )
    return opened


def missing_names_hint(path: str) -> str:
    """Say why a report or a list of manual work lacks names, and how to add them."""
    from exposurekit.client.config import environment_settings

    directory = local_option(path)
    is_demo = directory is not None and (directory / DEMO_MARKER).is_file()
    if is_demo and not environment_settings()["base_url"]:
        way = "This history is from a demo: run exposurekit demo --serve, set the variables that it prints, and add --live"
    else:
        way = "Add --live"
    return (
        "Names and what to enter are missing, because a history does not store what users have on file. "
        f"{way} to load them from the service."
    )


def is_begun(path: str) -> bool:
    """Whether a history exists; for one that is not on this machine the answer is True without a check."""
    directory = local_option(path)
    return directory is None or (directory / "history.json").is_file()


def _declared_days(file: Path) -> dict[str, float]:
    """Read the days by site from CSV or JSON; rows without days are skipped."""
    where, needed = plain(file.name), {"site", "declared_days"}
    try:
        text = file.read_text(encoding="utf-8-sig")
        is_json = text.lstrip().startswith("[")
        rows = json.loads(text) if is_json else [*csv.DictReader(io.StringIO(text, newline=""), strict=True)]
        complete = [row for row in rows if needed <= row.keys()]
        days = {
            str(row["site"]).strip(): float(row["declared_days"])
            for row in complete
            if row["declared_days"] not in (None, "")
        }
    except (OSError, ValueError, AttributeError, TypeError, csv.Error):
        raise ConfigurationError(
            f"{where}: cannot be read: use CSV or JSON in UTF-8, with a number in each declared_days"
        ) from None
    if not complete:
        raise ConfigurationError(f"{where}: no row has both site and declared_days")
    return days


def _unknown_users(history: Any, run: Any, users: tuple[int, ...]) -> list[int]:
    """Return the requested users whom the service does not list: a run has a row for each listed one."""
    if run.was_there or run.seq is None:
        return []
    issues = history.load_issues()
    listed = set(issues.loc[issues["seq"] == run.seq, "user_id"])
    return [user for user in dict.fromkeys(users) if user not in listed]


def _find_inbox(history: str, inbox: Path | None) -> Path | None:
    if inbox is not None:
        if not inbox.is_file():
            raise ConfigurationError("--inbox: no such file. Nothing was erased")
        return inbox
    directory = local_option(history)
    default = None if directory is None else directory / "inbox.db"
    return default if default is not None and default.is_file() else None


def _erase_notifications(history: str, user: int) -> tuple[int, int]:
    """Erase notifications about a user; return how many, and how many others lose their confidential report."""
    from exposurekit.monitor.notifications.outbox import NotificationOutbox, outbox_file

    directory = local_option(history)
    file = None if directory is None else outbox_file(directory)
    if file is None or not file.is_file():
        return 0, 0
    with closing(NotificationOutbox(file)) as outbox:
        detached = outbox.detach_confidential_reports()
        return outbox.erase(user), detached


def _erase_inbox(
    inbox: Path | None, user: int, values: set[str], addresses: set[tuple[str, str]], *, also_numbers: bool
) -> str:
    """Erase the messages about a user; return a summary."""
    if inbox is None:
        return "No inbox was searched: the history has none. Name one elsewhere with --inbox."
    from exposurekit.monitor.webhooks.parsing import VALUE_MIN, searchable_values
    from exposurekit.monitor.webhooks.store import InboxStore

    with closing(InboxStore(inbox)) as store:
        erased = store.erase(user, values, addresses, also_numbers=also_numbers)
    where, searched = plain(str(inbox)), len(searchable_values(values))
    deliveries = pluralize(erased.total, "delivery", "deliveries")
    summary = f"Erased {deliveries} about them from the inbox {where}, {erased.quarantined:,} of them from its quarantine."
    if erased.by_value:
        summary += f" {erased.by_value:,} of them had no user id, but contained a name, address or reference of this person."
    if erased.unclear:
        others = pluralize(
            erased.unclear, "delivery without a user id has", "deliveries without a user id have"
        )
        summary += (
            f" {others} the number {user} elsewhere, such as an age, and stayed: --also-numbers erases them."
        )
    streets = (
        f", and {pluralize(len(addresses), 'street with its town', 'streets with their towns')}"
        if addresses
        else ""
    )
    return (
        f"{summary} Searched for: their id, and {searched:,} values of {VALUE_MIN} characters or more from their "
        f"listings{streets}."
    )


def _rows(table: Any) -> list[dict[str, Any]]:
    """Convert a table to rows of plain values; missing values are None."""
    rows: list[dict[str, Any]] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows
