"""`exposurekit service`: users, due jobs, deliveries and site health, without personal data."""

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.check_results import CheckResult, fail, ok, warn
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import json_option, limit_option, sites_option
from exposurekit.cli.session import ServiceDatabase, action, service_options
from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain

NO_SCANS = "No site was scanned yet."
OVERDUE = timedelta(minutes=15)  # a worker that is idle starts a job within seconds
GOOD_SCAN_WITHIN = timedelta(days=8)  # each person is scanned again a week after the last scan
PROGRESS_EVERY_S = 5.0
_SINGULAR = {"deliveries": "delivery", "mailboxes": "mailbox"}
_COLUMNS = ("id", "at", "actor", "command", "target", "details")


def _parse_hash(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text.lower()):
        raise click.BadParameter("a hash has 64 hexadecimal digits, as audit show prints it")
    return text.lower()


@click.group(cls=Group)
def service() -> None:
    """Show state and audit log; check, back up, copy the database."""


@service.command("status")
@sites_option
@service_options
@json_option
def service_status(*, sites_directory: Path | None, database: ServiceDatabase, as_json: bool) -> None:
    """Show people, workers, due jobs, deliveries and the health of sites.

    It also checks, as exposurekit doctor does, that a worker runs, that no definition is invalid (serve and worker do not
    start while one is), and that scans of the defined sites are conclusive.

    Example: exposurekit service status --sites ./sites
    """
    status = database.read(_status)
    definitions, result = definitions_check(sites_directory)
    status["checks"] += [result, *scans_check(definitions, status["sites"])]
    if as_json:
        output.print_json(status)
        return
    for result in status["checks"]:
        click.echo(str(result))
    click.echo()
    click.echo(
        "People: {registered} registered, {active} active, {with_consent} with consent, "
        "{may_be_scanned} may be scanned.".format_map(status["people"])
    )
    click.echo(
        "Deliveries: "
        + ", ".join(f"{count} {state}" for state, count in status["deliveries"].items())
        + ".\n"
    )
    output.print_columns([{"job": kind, **asdict(queue)} for kind, queue in status["work"].items()])
    for one in status["clock_corrections"]:
        singular = _SINGULAR.get(one.kind, one.kind.removesuffix("s"))
        jobs = pluralize(
            one.jobs, f"{singular} that it had put off was", f"{one.kind} that it had put off were"
        )
        click.echo(
            f"{one.at:%Y-%m-%dT%H:%M:%SZ}: the clock had been ahead by at least {timedelta(seconds=one.ahead_s)}; "
            f"{jobs} made due."
        )
    if status["mailboxes"]:
        click.echo(
            "Messages: "
            + ", ".join(f"{count} {state}" for state, count in status["messages"].items())
            + ".\n"
        )
        output.print_columns(status["mailboxes"])
    click.echo()
    output.print_rows(status["sites"], as_json=False, none=NO_SCANS)


@service.command("check")
@service_options
@json_option
def service_check(*, database: ServiceDatabase, as_json: bool) -> None:
    """Check the database and list what is damaged.

    It decrypts every stored value and checks the file; safe while the service runs. Exits with 1 if anything is damaged.

    Example: exposurekit service check
    """
    from exposurekit.service.database_check import check

    checked, damage = database.read(check)
    _record_check(database, checked, len(damage))
    if as_json:
        output.print_json({"checked": checked, "damaged": damage})
    else:
        click.echo(
            f"Checked {checked:,} stored values.{'' if damage or not checked else ' None is damaged.'}"
        )
        if damage:
            output.print_columns([asdict(one) for one in damage])
    if damage:
        raise DamagedDatabase(
            f"{len(damage):,} {'problem' if len(damage) == 1 else 'problems'} found: restore a backup. If every problem has a user id, you can purge those "
            "users instead: exposurekit users purge ID"
        )


@service.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@service_options
@json_option
def service_backup(*, file: Path, database: ServiceDatabase, as_json: bool) -> None:
    """Copy the SQLite database to FILE while the service runs.

    The copy has what was committed when the command started, is checked, and is readable by your account alone. A FILE that
    exists is never overwritten.

    The copy contains everything: personal data, callbacks and mail encrypted, integrators' keys and secrets as digests; ids,
    dates, statuses, the names of sites and integrators and the audit log are readable. It does not contain the key, without
    which it is useless: keep a copy of the key elsewhere.

    Example: exposurekit service backup copy.db
    """
    from exposurekit.service.storage.backup import back_up
    from exposurekit.service.storage.database import url_for_tools

    source = database.sqlite_file()
    if source is None:
        raise ConfigurationError(
            "PostgreSQL has a command of its own, which may run while the service runs: pg_dump --format=custom --file="
            f"{shlex.quote(str(file))} --dbname={shlex.quote(url_for_tools(database.url))}"
        )
    back_up(source, file, _progress())
    size = file.stat().st_size
    if as_json:
        output.print_json({"file": str(file), "bytes": size})
        return
    click.echo(f"Wrote {output.label_of(file)}: {size:,} bytes, checked.")
    click.echo(
        "The key is not in it, and without the key it is useless: keep a copy of the key elsewhere.", err=True
    )


@service.command("copy")
@click.option(
    "--to",
    "target",
    metavar="URL",
    required=True,
    help="The database to copy to, which must be empty: postgresql+psycopg:// and its address, or sqlite:///FILE.",
)
@service_options
@json_option
def service_copy(*, target: str, database: ServiceDatabase, as_json: bool) -> None:
    """Copy the database to an empty one, such as from SQLite to PostgreSQL.

    Stop serve and every worker first: what happens later is not in the copy. It is made in one transaction, complete or not
    at all; both databases have the same key, ids stay the same, and the number of rows of each table is compared. The
    audit log of the copy records it.

    Example: exposurekit service copy --to postgresql+psycopg://exposure@db/exposure
    """
    rows = database.copy_to(target, _progress())
    if as_json:
        output.print_json({"rows": rows})
        return
    click.echo(f"Copied {pluralize(rows, 'row')} of all tables, with the same key.")
    click.echo(
        "Check the copy with exposurekit service check --database URL, and never start the service on the old one again: it "
        "would send opt-outs twice.",
        err=True,
    )


def _progress() -> Callable[[float], None]:
    """Return what prints the progress of something that takes long, every few seconds."""
    next_at = time.monotonic() + PROGRESS_EVERY_S

    def print_progress(fraction: float) -> None:
        nonlocal next_at
        if (now := time.monotonic()) >= next_at:
            next_at = now + PROGRESS_EVERY_S
            click.echo("Copied; checking the copy." if fraction >= 1 else f"Copied {fraction:.0%}.", err=True)

    return print_progress


def _record_check(database: ServiceDatabase, checked: int, damaged: int) -> None:
    """Append a check to the audit log; a damaged or locked database may not take it."""
    try:
        database.record(action("service check", checked=checked, damaged=damaged))
    except ConfigurationError as error:
        click.echo(f"This check is not in the audit log: {error}", err=True)


@service.group("audit", cls=Group)
def service_audit() -> None:
    """Show and verify the log of operators' commands."""


@service_audit.command("show")
@limit_option
@service_options
@json_option
def audit_show(*, limit: int, database: ServiceDatabase, as_json: bool) -> None:
    """Show who changed the state of the service, when and how.

    The newest entries, oldest first: the OS user, the command, and what it concerned by id. The last line is the last
    hash. Keep a copy of it elsewhere: with it, audit verify notices that entries were removed.

    Example: exposurekit service audit show --limit 20
    """
    from exposurekit.service import audit

    async def read(db: Any) -> tuple[list[audit.Entry], str]:
        return await audit.newest(db, limit), await audit.last_hash(db)

    entries, last_hash = database.read(read)
    if as_json:
        rows = [asdict(one) | {"details": _details(one.details)} for one in entries]
        output.print_json({"entries": rows, "last_hash": last_hash})
        return
    if entries:
        output.print_columns([output.fields(one, *_COLUMNS) for one in entries])
    else:
        click.echo("No entries.", err=True)
    click.echo(f"Last hash: {plain(last_hash)}")


@service_audit.command("verify")
@click.option(
    "--head",
    metavar="HASH",
    type=_parse_hash,
    help="A last hash that audit show printed before; an entry must still have it.",
)
@service_options
@json_option
def audit_verify(*, head: str | None, database: ServiceDatabase, as_json: bool) -> None:
    """Check that no entry of the log was changed, removed or added.

    Names the first entry that does not match and exits with 1. Without --head, removing the last entries goes unnoticed.

    Example: exposurekit service audit verify
    """
    from exposurekit.service import audit

    result = database.read(lambda db: audit.verify(db, head=head))
    if result.problem:
        entry = "" if result.entry is None else f"entry {result.entry} does not match: "
        click.echo(f"Error: the audit log was changed: {entry}{plain(result.problem)}", err=True)
    if as_json:
        output.print_json(result)
    else:
        entries = pluralize(result.checked, "entry matches", "entries match")
        click.echo(f"{entries}.\nLast hash: {result.last_hash}")
    if result.problem:
        sys.exit(1)


def _details(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # changed: audit verify says so
        return text


class DamagedDatabase(ExposureError):
    """Rows of the database cannot be read."""


async def _status(db: Any) -> dict[str, Any]:
    from exposurekit.service import jobs
    from exposurekit.service.accounts import consent
    from exposurekit.service.mail import message_store
    from exposurekit.service.webhooks import outbox

    return {
        "checks": [await worker_check(db), *await webhooks_check(db)],
        "people": await consent.counts(db),
        "work": await jobs.queues(db),
        "clock_corrections": await jobs.clock_corrections(db),
        "deliveries": await outbox.counts(db),
        "mailboxes": [
            output.fields(one, "address", "checked_at", "problem")
            for one in await message_store.mailboxes(db)
        ],
        "messages": await message_store.counts(db),
        "sites": await site_health(db),
    }


async def worker_check(db: Any) -> CheckResult:
    """Check that a worker runs, and that no job is overdue."""
    from exposurekit.service import jobs, workers
    from exposurekit.service.sites import statistics

    now, counted, queues = db.clock.now(), await workers.count(db), await jobs.queues(db)
    scans = [one.last_scan_at for one in await statistics.all(db) if one.last_scan_at]
    last = f"last scan {_ago(now, max(scans))}" if scans else "no site was scanned yet"
    needed = [queues[kind].oldest_due_at for kind in ("scans", "removals", "deliveries")]
    oldest = min((at for at in needed if at is not None), default=now)
    leased = sum(queue.leased for queue in queues.values())
    if not counted.running:
        last_note = "" if counted.seen_at is None else f"; one was last seen {_ago(now, counted.seen_at)}"
        waits = f"; a job has been due for {_age(now - oldest)}" if oldest < now else ""
        start = "start exposurekit serve; with PostgreSQL, also exposurekit worker"
        return warn(
            "worker", f"none runs, so no scan, removal or webhook begins{last_note}{waits}; {last}", start
        )
    running = pluralize(counted.running, "worker runs", "workers run")
    if not leased and now - oldest > OVERDUE:
        overdue = f"{running}, but no job, and one has been due for {_age(now - oldest)}; {last}"
        return warn("worker", overdue, "the worker's log says why")
    return ok("worker", f"{running}, and {pluralize(leased, 'job')} now; {last}")


async def webhooks_check(db: Any) -> list[CheckResult]:
    """Warn of dead deliveries that can be replayed; no result if there are none."""
    from exposurekit.service.webhooks import outbox

    if not (dead := await outbox.count_replayable(db)):
        return []
    message = f"{pluralize(dead, 'dead delivery', 'dead deliveries')}: every attempt failed"
    fix = "exposurekit webhooks list --state dead; once the receiver works, exposurekit webhooks replay --all"
    return [warn("webhooks", message, fix)]


def definitions_check(directory: Path | None) -> tuple[Mapping[str, Any], CheckResult]:
    """Load the site definitions, none if one is invalid; check that serve and worker can start with them."""
    try:
        loaded = session.definitions(directory)
    except ConfigurationError as error:
        fix = "correct the files, and run exposurekit sites check --offline DIRECTORY; or correct --sites or EXPOSUREKIT_SITES"
        return {}, fail("sites", "serve and worker do not start", fix, str(error).splitlines())
    if loaded:
        return loaded, ok("sites", f"valid definitions: {len(loaded):,}")
    if directory is not None:
        message = f"no file in {plain(directory)} ends in .yaml, so no site is scanned"
        return loaded, warn(
            "sites", message, "write a definition there, or correct --sites or EXPOSUREKIT_SITES"
        )
    name = "name their directory with --sites or EXPOSUREKIT_SITES"
    return loaded, warn("sites", "no definitions are named here; without any, no site is scanned", name)


def scans_check(definitions: Mapping[str, Any], health: Iterable[Mapping[str, Any]]) -> Iterator[CheckResult]:
    """Check that the service's scans of defined sites are conclusive; no result without a scan. Takes `site_health`."""
    from exposurekit.service.sites.statistics import CHANGED_LAYOUT, CONTROL_MISSING

    since = datetime.now(UTC) - GOOD_SCAN_WITHIN
    scanned = [
        one
        for one in health
        if one["scans"] and one["site"] in definitions and definitions[one["site"]].search.method != "person"
    ]
    failing = [
        f"{one['site']}: {one['last_reason'] or 'an invented person was listed'}"
        for one in scanned
        if one["last_reason"] in {CHANGED_LAYOUT, CONTROL_MISSING}
        or (one["last_good_scan_at"] or since) <= since
    ]
    if failing:
        fix = "exposurekit sites check FILE; after a correction, restart serve and worker, and run exposurekit users rescan --all"
        yield warn("scans", f"sites whose scans fail: {len(failing):,}", fix, failing)
    elif scanned:
        yield ok("scans", f"sites that scans can read: {len(scanned):,}")


def _ago(now: datetime, at: datetime) -> str:
    if at - now < timedelta(minutes=1):  # another machine's clock may differ by seconds
        return f"{_age(max(now - at, timedelta()))} ago"
    return f"{_age(at - now)} in the future (was the clock ahead?)"


def _age(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    return pluralize(round(hours * 60), "minute") if hours < 2 else f"{hours:,.0f} hours"  # noqa: PLR2004


async def site_health(db: Any) -> list[dict[str, Any]]:
    """Return the scan statistics of each site that was scanned."""
    from exposurekit.service.sites import statistics

    return [
        output.fields(one, "site", "scans", "inconclusive_scans")
        | {"inconclusive_rate": None if one.inconclusive_rate is None else round(one.inconclusive_rate, 3)}
        | output.fields(one, "untrusted_scans", "last_scan_at", "last_good_scan_at", "last_reason")
        for one in await statistics.all(db)
        if one.scans or one.last_reason
    ]
