"""A history from a shell: one look at everyone, what was seen, and its upkeep. Reads no key but the connection's."""

import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import browser, output
from exposurekit.cli.options import ID, history_option, json_option, local_option, record_key_option
from exposurekit.cli.sections import Group
from exposurekit.errors import ConfigurationError, NotFound
from exposurekit.text.sanitize import plain

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
@json_option
def collect(
    *,
    history: str,
    record_key: str | None,
    run: str | None,
    shard: str | None,
    users: tuple[int, ...],
    as_json: bool,
) -> None:
    """Load everyone once and add a run to the history; for cron.

    The connection comes from EXPOSUREKIT_BASE_URL, _INTEGRATION_NAME, _API_KEY and _API_SECRET, or a .env file. A
    collection that is stopped, or killed, goes on where it stood at the next call. Where nobody of those named by
    --user is registered it ends with 1.

    Example: exposurekit collect --history ./exposure-history
    """
    from exposurekit.exposure import connect

    if shard is not None and run is None:
        raise ConfigurationError("the shards of a run share its name: give the run a name, too: --run NAME")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    exposure = connect()
    with open_history(history, record_key) as kept:
        try:
            found = kept.collect(exposure, run=run, shard=shard, only=users or None)
        except KeyboardInterrupt:
            click.echo("What was seen is kept; the next collect goes on from there.", err=True)
            raise
        strangers = _unknown_users(kept, found, users)
    if as_json:
        told = {
            "run": found.run,
            "seq": found.seq,
            "started_at": found.started_at,
            "finished_at": found.finished_at,
        }
        told |= dict(found.people) | dict(found.counts) | {"waits_for": found.waits_for}
        output.print_json(told | {"was_there": found.was_there, "not_registered": strangers})
    elif found.was_there:
        click.echo(f"{found} (it was there already; nothing was added)")
    else:
        click.echo(str(found))
    for user in strangers:
        click.echo(f"{user} is not registered", err=True)
    if strangers and len(strangers) == len(set(users)):
        sys.exit(1)


@click.group(cls=Group)
def history() -> None:
    """Show and maintain a history."""


@history.command("show")
@history_option
@click.option(
    "--every", default="day", type=click.Choice(("run", "day", "week", "month")), help="One row for each."
)
@click.option("--group-by", type=click.Choice(("site", "user_id")), help="Count separately by this column.")
@click.option(
    "--kind", default="record", type=click.Choice(("record", "link", "alert")), help="What is counted."
)
@json_option
def show(*, history: str, every: str, group_by: str | None, kind: str, as_json: bool) -> None:
    """Show how many records had each status over time.

    Example: exposurekit history show --every week
    """
    with existing_history(history) as kept:
        table = kept.status_over_time(by=group_by, every=every, kind=kind)
    output.print_rows(_rows(table), as_json=as_json, none="Nothing was collected yet.")


@history.command("runs")
@history_option
@json_option
def runs(*, history: str, as_json: bool) -> None:
    """List the runs, and those that wait for a shard.

    Example: exposurekit history runs
    """
    with existing_history(history) as kept:
        table, waiting = kept.runs(), kept.pending_runs()
    shown = table.drop(columns="source") if as_json else table[list(_RUN_COLUMNS)]  # a URL
    output.print_rows(_rows(shown), as_json=as_json, none="Nothing was collected yet.")
    for run in waiting:
        click.echo(str(run), err=True)


@history.command("finish")
@history_option
@click.argument("run")
def finish(*, history: str, run: str) -> None:
    """Add a run whose remaining shards will not come.

    Whoever those shards would have loaded counts as unknown, not as gone.

    Example: exposurekit history finish 2026-11-21
    """
    with existing_history(history) as kept:
        click.echo(str(kept.finalize(run)))


@history.command("erase")
@history_option
@click.argument("user", type=ID)
@click.option(
    "--inbox", type=click.Path(path_type=Path, dir_okay=False), help="The inbox, if it is not in the history."
)
def erase(*, history: str, user: int, inbox: Path | None) -> None:
    """Erase one person from the history and everything beside it.

    Nothing of USER is left in any file of the history, its webhook inbox, waiting notifications, or the page last opened.

    Deliveries that do not say whose they are go where they hold the id as a number, or something of 6 characters or
    more that the history knows of USER: a shorter text is in other people's too. The next collect, or a watch that
    runs, brings USER back unless the service lists them no longer: unregister them there first.

    Example: exposurekit history erase 12
    """
    place = _inbox_of(history, inbox)
    is_there = inbox is not None or place is None or is_begun(history)  # else an inbox is all there is
    with existing_history(history) if is_there else open_history(history) as kept:
        values = kept.personal_values(user) if is_there else set()
        # The letters first: where that fails and is done again, the history still tells what to look for.
        letters = _erase_inbox(place, user, values)
        rows = kept.erase(user) if is_there else 0
    if rows:
        click.echo(f"{rows} rows are gone from every file of the history {plain(history)}.")
    else:
        click.echo(f"The history {plain(history)} holds nothing of user {user}.")
    click.echo(letters)
    if told := _erase_notifications(history, user):
        click.echo(f"Notices about them that waited to be sent, and are gone: {told}.")
    if browser.remove_page():
        click.echo("The page that exposurekit open left in your cache is gone, whoever it was about.")
    if rows:
        click.echo(
            "The next collect, or a watch that runs, brings them back unless the service lists them no longer."
        )


@history.command("verify")
@history_option
@json_option
def verify(*, history: str, as_json: bool) -> None:
    """Check the integrity of the history; exit with 1 if it is damaged.

    Example: exposurekit history verify
    """
    with existing_history(history) as kept:
        broken = kept.verify()
    if as_json:
        output.print_json(broken)
    elif broken:
        for promise, rows in broken.items():
            click.echo(f"Not so: {promise} ({rows} row{'' if rows == 1 else 's'})", err=True)
    else:
        click.echo("Every promise holds.")
    if broken:
        sys.exit(1)


@history.command("compact")
@history_option
def compact(*, history: str) -> None:
    """Merge many small files into few.

    A collection does so by itself now and then.

    Example: exposurekit history compact
    """
    with existing_history(history) as kept:
        kept.compact()
    click.echo("Done. The old files stay for a day, for whoever reads them.")


def open_history(path: str, record_key: str | None = None) -> Any:
    """A history, made where there is none."""
    from exposurekit.history import History

    return History(path, records_by=record_key)


def existing_history(path: str) -> Any:
    """A history that is there.

    Raises:
        NotFound: There is none.
    """
    kept = open_history(path)
    if not is_begun(path):
        raise NotFound(
            f"There is no history in {plain(path)}: exposurekit collect --history {plain(shlex.quote(path))} begins one, "
            "--history DIR names another"
        )
    return kept


def is_begun(path: str) -> bool:
    """Whether there is a history; of one that is elsewhere it is the first question that tells."""
    directory = local_option(path)
    return directory is None or (directory / "history.json").is_file()


def _unknown_users(kept: Any, run: Any, users: tuple[int, ...]) -> list[int]:
    """Whom of those asked for the service does not list: a look at some has a row of each whom it does."""
    if run.was_there or run.seq is None:
        return []
    told = kept.load_issues()
    listed = set(told.loc[told["seq"] == run.seq, "user_id"])
    return [user for user in dict.fromkeys(users) if user not in listed]


def _inbox_of(history: str, named: Path | None) -> Path | None:
    if named is not None:
        if not named.is_file():
            raise ConfigurationError("--inbox names no file: nothing was erased")
        return named
    directory = local_option(history)
    beside = None if directory is None else directory / "inbox.db"
    return beside if beside is not None and beside.is_file() else None


def _erase_notifications(history: str, user: int) -> int:
    """Forgets what a watch beside the history was still to tell of them; how many lines that were."""
    from exposurekit.monitor.notifications.outbox import FILE, NotificationOutbox

    directory = local_option(history)
    file = None if directory is None else directory / FILE
    if file is None or not file.is_file():
        return 0

    notices = NotificationOutbox(file)
    try:
        return notices.erase(user)
    finally:
        notices.close()


def _erase_inbox(inbox: Path | None, user: int, values: set[str]) -> str:
    """Erases them; what there is to tell of it."""
    if inbox is None:
        return "No inbox was searched: there is none beside it. Name one that lies elsewhere with --inbox."
    from exposurekit.monitor.webhooks.parsing import VALUE_MIN, searchable_values
    from exposurekit.monitor.webhooks.store import InboxStore

    letters = InboxStore(inbox)
    try:
        gone = letters.erase(user, values)
    finally:
        letters.close()
    return (
        f"{gone.total} deliveries are gone from the inbox {plain(str(inbox))}, {gone.quarantined} of them quarantined; "
        f"{gone.by_value} of them did not say whose they were and went for holding one of {len(searchable_values(values))} values "
        f"of {VALUE_MIN} characters or more."
    )


def _rows(table: Any) -> list[dict[str, Any]]:
    """A table as rows of plain values; what is missing is None."""
    plain = table.astype(object).where(table.notna(), None)
    return [{name: _plain(value) for name, value in row.items()} for row in plain.to_dict("records")]


def _plain(value: Any) -> Any:
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()
    return value.item() if hasattr(value, "item") else value
