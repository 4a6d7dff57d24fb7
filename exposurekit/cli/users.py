"""`exposurekit users`: registration, consent, records, saved pages, assisted opt-outs and deletion of one person."""

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from exposurekit.cli import output, session
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import (
    ID,
    by_option,
    check_writable,
    confirm_deletion,
    json_option,
    limit_option,
    mail_option,
    on_a_terminal,
    sites_option,
    yes_option,
)
from exposurekit.cli.session import ServiceDatabase, action, service_options
from exposurekit.errors import ConfigurationError
from exposurekit.service.models import VERDICTS
from exposurekit.system.named_files import read_bytes
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain

if TYPE_CHECKING:
    from exposurekit.service.audit import Action

T = TypeVar("T")
_COMPLETE = "Save every page of the search as MHTML, which contains its address, and give all of them."
_user_argument = click.argument("user_id", metavar="ID", type=ID)


@click.group(cls=Group)
def users() -> None:
    """Manage people: add, list, consent, scans, opt-outs, purge."""


@users.command("add")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--integrator",
    "integrator_name",
    metavar="NAME",
    help="The integrator that registers the person. Default: the only one.",
)
@service_options
@json_option
def users_add(*, file: Path, integrator_name: str | None, database: ServiceDatabase, as_json: bool) -> None:
    """Register a person whose data is in a file.

    The file is YAML or JSON. It has first_name, last_name and addresses, of which one has city and state; it may have
    middle_name, birth_date, aliases, emails and phone_numbers. Put values made of digits, such as ZIP codes, in
    quotes. A hyphen instead of a file reads stdin. The person belongs to the integrator, as if it had called Create user.

    Example: exposurekit users add mara.yaml
    """
    from exposurekit.contract.operations import CREATE_USER
    from exposurekit.service.accounts import person_file
    from exposurekit.service.accounts import users as people
    from exposurekit.service.api import parameters

    values = person_file.read(_content_of(file, person_file.SIZE_MAX), _FILE)

    async def add(db: Any) -> tuple[Any, int]:
        integrator = await _integrator(db, integrator_name)
        parsed = await parameters.validated(CREATE_USER, values)
        return await people.create(db, integrator.id, parsed), integrator.id

    account, _ = database.write(
        add, lambda added: action("users add", f"user {added[0].id}", integrator=added[1])
    )
    if as_json:
        output.print_json({"user_id": account.id, "scan_is_due": account.is_scanning})
    elif account.is_scanning:
        click.echo(f"Registered person {account.id}. A scan is due.")
    else:
        click.echo(
            f"Registered person {account.id}. No scan is due before their consent is recorded: exposurekit users consent"
        )


_FILE = "FILE"  # in errors: its name may be the person's


def _content_of(file: Path, most: int) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read(most + 1)
    return read_bytes(file, most, label=_FILE)


async def _integrator(db: Any, name: str | None) -> Any:
    """Return the integrator of a name, or the only one."""
    from exposurekit.service.accounts import integrators

    if name is not None:
        return await integrators.find(db, name)
    registered = await integrators.all(db)
    if not registered:
        raise ConfigurationError("no integrator is registered: exposurekit integrator add NAME")
    if len(registered) != 1:
        raise click.UsageError(
            "name the integrator with --integrator: exposurekit integrator list shows them"
        )
    return registered[0]


@users.command("list")
@limit_option
@service_options
@json_option
def users_list(*, limit: int, database: ServiceDatabase, as_json: bool) -> None:
    """List the newest people: consent, records and scans.

    The output has ids and no personal data. Last scan at is the end of the last complete scan.

    Example: exposurekit users list --limit 20
    """
    from exposurekit.service.accounts import consent

    people = database.read(lambda db: consent.registrations(db, limit=limit))
    columns = "user_id", "integrator", "registered_at", "is_active", "has_consent", "records"
    rows = [output.fields(one, *columns, "last_scan_at", "next_scan_at") for one in people]
    output.print_rows(rows, as_json=as_json, none="Nobody is registered.")


@users.command("rescan")
@click.argument("user_ids", metavar="[ID]...", nargs=-1, type=ID)
@click.option("--all", "everyone", is_flag=True, help="Everybody who may be scanned.")
@service_options
def users_rescan(*, user_ids: tuple[int, ...], everyone: bool, database: ServiceDatabase) -> None:
    """Make people's next scan due now, instead of weekly.

    Use it after you have corrected a definition, and restarted serve and worker. The worker scans one person after another,
    at each site's pace; a scan that is under way is not repeated. If one ID is invalid, no scan becomes due.

    Example: exposurekit users rescan 7 8
    """
    from exposurekit.service.accounts import consent

    if bool(user_ids) == everyone:
        raise click.UsageError("name people by id, as users list shows them, or use --all")
    ids = [*dict.fromkeys(user_ids)]
    due = database.write(
        lambda db: consent.rescan(db, None if everyone else ids),
        lambda due: action("users rescan", user_ids=ids, everyone=everyone, due=due),
    )
    click.echo(f"Scans that are due: {due:,}.")
    if due < len(ids):
        click.echo(
            f"Without activation or consent, nobody is scanned: {len(ids) - due:,} of these people. "
            "exposurekit users list shows who.",
            err=True,
        )


@users.command("consent")
@_user_argument
@by_option
@service_options
def users_consent(*, user_id: int, who: str, database: ServiceDatabase) -> None:
    """Record a person's consent to scans and removals.

    A scan is due immediately.

    Example: exposurekit users consent 7 --by "the person, by letter"
    """
    from exposurekit.service.accounts import consent

    scan = _scan_after(database, "consent", user_id, lambda db: consent.consent(db, user_id, granted_by=who))
    click.echo(
        f"Consent is recorded for {user_id}. {scan or 'No scan is due: the service is not activated for them.'}"
    )


@users.command("withdraw")
@_user_argument
@by_option
@service_options
def users_withdraw(*, user_id: int, who: str, database: ServiceDatabase) -> None:
    """Record that a person has withdrawn consent.

    Scans and removals stop. Existing records remain.

    Example: exposurekit users withdraw 7 --by "the person, by phone"
    """
    from exposurekit.service.accounts import consent

    withdrawn = database.write(
        lambda db: consent.withdraw(db, user_id, withdrawn_by=who),
        lambda withdrawn: action("users withdraw", f"user {user_id}", withdrawn=withdrawn),
    )
    if withdrawn:
        click.echo(f"Consent is withdrawn for {user_id}. Scans and removals have stopped.")
    else:
        click.echo(f"Person {user_id} had no consent on record; nothing changed.")


@users.command("activate")
@_user_argument
@service_options
def users_activate(*, user_id: int, database: ServiceDatabase) -> None:
    """Activate the service for a person.

    A scan is due immediately if consent is recorded.

    Example: exposurekit users activate 7
    """
    from exposurekit.service.accounts import consent

    scan = _scan_after(database, "activate", user_id, lambda db: consent.activate(db, user_id))
    click.echo(
        f"The service is activated for {user_id}. {scan or 'No scan is due: their consent is not recorded.'}"
    )


@users.command("deactivate")
@_user_argument
@service_options
def users_deactivate(*, user_id: int, database: ServiceDatabase) -> None:
    """Deactivate the service for a person.

    Scans and removals stop. Existing records remain.

    Example: exposurekit users deactivate 7
    """
    from exposurekit.service.accounts import consent

    database.write(
        lambda db: consent.deactivate(db, user_id), lambda _: action("users deactivate", f"user {user_id}")
    )
    click.echo(f"The service is deactivated for {user_id}. Scans and removals have stopped.")


@users.command("find")
@service_options
@json_option
def users_find(*, database: ServiceDatabase, as_json: bool) -> None:
    """Find people by name or email address, for an erasure.

    Asks for it at a prompt, or reads the first line of stdin, so that it is in no history of commands. The output has ids and
    no personal data. A similar name matches, too: compare with users records ID. The audit log says that somebody searched,
    and which ids were found.

    Example: exposurekit users find
    """
    from exposurekit.service.scanning import person_search

    terms = person_search.SearchTerms.of(_entered("Name or email address"))
    if not (terms.addresses or terms.name):
        raise click.UsageError("enter an email address, or a name with a word of at least two letters")
    result = database.read(lambda db: person_search.find(db, terms))
    ids = [one.user_id for one in result.people]
    database.record(action("users find", user_ids=ids))
    columns = "user_id", "integrator", "registered_at", "records"
    rows = [output.fields(one, *columns) for one in result.people]
    output.print_rows(rows, as_json=as_json, none="Nobody registered has this name or email address.")
    if result.unreadable:
        click.echo(
            f"People whose damaged data could not be compared: {result.unreadable:,}. See exposurekit service check.",
            err=True,
        )


def _entered(label: str) -> str:
    """Return what is typed at a prompt, or the first line of stdin."""
    if on_a_terminal():
        line = click.prompt(label, err=True).encode(errors="surrogateescape")
    else:
        line = sys.stdin.buffer.readline()
    try:
        return str(line.decode("utf-8-sig"))  # an editor may begin a file with a byte order mark
    except UnicodeDecodeError:
        pass  # the error holds the text, which is personal
    raise click.UsageError("the text is not UTF-8: convert it, then search again")


@users.command("export")
@_user_argument
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write, such as person-7.json; it must not exist.",
)
@service_options
def users_export(*, user_id: int, out: Path, database: ServiceDatabase) -> None:
    """Write what is stored about a person to a JSON file.

    Use it when a person asks what you hold about them. The file contains what the database stores about them: what is on
    file, who consented and when, records, links, alerts, candidates, opt-outs, mail, evidence, and the webhooks sent about
    them. Only your account can read it, and a file that exists is not overwritten. The audit log records the export.

    It does not contain secrets, what integrators store in their own systems, histories, reports, backups, the audit log,
    rejected candidates' listings, or mail that no request's address identifies.

    Undecided candidates may be listings of namesakes; listings, mail and evidence may name relatives and others. Mail whose
    link was not followed may contain a confirmation link that still works.

    Example: exposurekit users export 7 --out person-7.json
    """
    from exposurekit.service import person_export
    from exposurekit.system.atomic_files import write_output

    check_writable(out)
    if os.path.lexists(out):
        raise ConfigurationError("--out: that file exists: name another file")  # it may name the person

    exported = database.read(lambda db: person_export.export(db, user_id))
    write_output(out, output.json_document(exported.content), overwrite=False)
    try:
        numbers = output.fields(exported, "rows", "damaged")
        database.record(action("users export", f"user {user_id}", **numbers))
    except BaseException:  # what is not recorded is not exported
        out.unlink(missing_ok=True)
        raise
    click.echo(f"Wrote {output.label_of(out)}: {pluralize(exported.rows, 'row')} about person {user_id}.")
    click.echo(
        "It contains personal data, perhaps also of others: read it before you hand it over.", err=True
    )
    if exported.damaged:
        click.echo(
            f"Not in it: damaged values ({exported.damaged:,}). Run exposurekit service check.", err=True
        )


@users.command("purge")
@_user_argument
@yes_option
@service_options
def users_purge(*, user_id: int, yes: bool, database: ServiceDatabase) -> None:
    """Delete a person and everything found about them.

    Nothing about them remains in any table; the audit log keeps their id. This cannot be undone.

    It does not change backups, or data that integrators received.

    Example: exposurekit users purge 7 --yes
    """
    from exposurekit.service.accounts import consent, users

    if not yes:
        if not database.read(lambda db: users.is_registered(db, user_id)):
            raise consent.NoSuchUser(user_id)
        confirm_deletion(f"Delete person {user_id} and everything found about them? This cannot be undone.")

    _, left = database.erase(
        lambda db: consent.purge(db, user_id), lambda _: action("users purge", f"user {user_id}")
    )
    click.echo(f"Deleted person {user_id} from every table.")
    if left:
        click.echo(left, err=True)


@users.command("queue")
@click.argument("user_id", metavar="[ID]", type=ID, required=False)
@limit_option
@sites_option
@service_options
@json_option
def users_queue(
    *,
    user_id: int | None,
    limit: int,
    sites_directory: Path | None,
    database: ServiceDatabase,
    as_json: bool,
) -> None:
    """List the searches to open in a browser and save.

    For one person or everyone, on sites whose search.method is person. First come those that opt-outs of the owner's other
    sites wait for: "waiting" counts their listings. Then come those never saved, then those that can verify removals: "to
    verify" counts the removals whose pages may be checked now, and "next due at" is when the next one may be: save the page
    again then. The output contains personal data: names and places in the addresses.

    Example: exposurekit users queue --sites ./sites
    """
    from exposurekit.service.scanning import search_queue

    definitions = session.needed_definitions(sites_directory)
    entries = _read_of(
        database, user_id, lambda db: search_queue.queue(db, definitions, user_id=user_id, limit=limit)
    )
    columns = "user_id", "site", "waiting", "to_verify", "next_due_at", "last_saved_at", "address"
    rows = [output.fields(one, *columns) for one in entries]
    output.print_rows(rows, as_json=as_json, none="No search waits for a person.")


@users.command("scan")
@_user_argument
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--site", "site_name", metavar="NAME", required=True, help="The site whose results these are.")
@sites_option
@service_options
@json_option
def users_scan(
    *,
    user_id: int,
    files: tuple[Path, ...],
    site_name: str,
    sites_directory: Path | None,
    database: ServiceDatabase,
    as_json: bool,
) -> None:
    """Scan saved pages of a site's results for a person.

    The files are HTML, or MHTML as Chromium saves a page. Give all pages of a search: otherwise no absence counts. No
    request is sent.

    Example: exposurekit users scan 12 --site Seekfolk one.mhtml two.mhtml
    """
    from exposurekit.errors import suggestion
    from exposurekit.service.scanning import saved_pages

    definitions = session.needed_definitions(sites_directory)
    by_name = {name.casefold(): one for name, one in definitions.items()}
    if (site := by_name.get(site_name.casefold())) is None:
        hint = suggestion(site_name, definitions) or ": check --site, and name its directory with --sites"
        raise click.UsageError(f"there is no definition of this site{hint}")
    pages = session.saved_pages(site, files)

    def describe(result: Any) -> "Action":
        counts = {"pages": len(pages), **output.fields(result, "discovered", "removed")}
        return action(saved_pages.SCAN_COMMAND, f"user {user_id}", site=site.name, **counts)

    result = database.write(lambda db: saved_pages.scan_saved(db, user_id, site, pages), describe)
    if as_json:
        output.print_json(result)
        return
    click.echo(
        f"{plain(site.name)}, person {user_id}: listings {result.listings}, records discovered {result.discovered}, "
        f"confirmed {result.confirmed}, missing {result.missing}, absences counted {result.absences}, "
        f"removed {result.removed}."
    )
    if result.candidates:
        are = "match needs" if result.candidates == 1 else "matches need"
        click.echo(
            f"{result.candidates} possible {are} a decision: exposurekit users candidates {user_id}", err=True
        )
    if result.incomplete:
        click.echo(f"No absence counts: {result.incomplete}. {_COMPLETE}", err=True)
    elif result.counts_from:
        click.echo(
            f"An absence counts from {result.counts_from:%Y-%m-%d %H:%M} UTC: processing_days after the opt-out, then once "
            "in verification.every_days. Save and scan the pages again then.",
            err=True,
        )


@users.command("opt-outs")
@click.argument("user_id", metavar="[ID]", type=ID, required=False)
@click.option(
    "--all",
    "all_listings",
    is_flag=True,
    help="Include new listings that wait for others of the same site owner.",
)
@limit_option
@sites_option
@mail_option
@service_options
@json_option
def users_opt_outs(
    *,
    user_id: int | None,
    all_listings: bool,
    limit: int,
    sites_directory: Path | None,
    mail_file: Path | None,
    database: ServiceDatabase,
    as_json: bool,
) -> None:
    """List the opt-outs to send in a browser: what to open and to type.

    For one person or everyone, on sites whose removal.method is assisted. Forms that clear most listings per minute come
    first. Later come opt-outs that failed before, then sites that have removed few listings on request, then forms for which
    a value is not on file. A new listing waits if one form may soon remove it with others of the same site owner. Report
    each form with users sent or users failed. The output contains personal data.

    Example: exposurekit users opt-outs --sites ./sites --mail mail.yaml
    """
    from exposurekit.service.scanning import assisted_opt_outs

    definitions, settings = session.needed_definitions(sites_directory), session.mail_settings(mail_file)
    queue = _read_of(
        database,
        user_id,
        lambda db: assisted_opt_outs.queue(
            db, definitions, mail=settings, user_id=user_id, limit=limit, is_patient=not all_listings
        ),
    )
    if as_json:
        output.print_json(queue.opt_outs)
    else:
        for one in queue.opt_outs:
            _print_opt_out(one)
        if not queue.opt_outs:
            click.echo("No opt-out waits for a person.", err=True)
    if queue.covered:
        are, them = ("listing is", "it") if queue.covered == 1 else ("listings are", "them")
        click.echo(
            f"{queue.covered:,} {are} not in this list: an opt-out that is on its way removes {them}, too, or the service asks "
            "by email.",
            err=True,
        )
    if queue.unprepared:
        why = (
            "name the mailbox with --mail"
            if settings is None
            else "a worker with the mailbox must prepare them first"
        )
        are = "listing is" if queue.unprepared == 1 else "listings are"
        click.echo(f"{queue.unprepared:,} {are} not in this list yet: {why}.", err=True)
    if queue.waiting:
        wait = "listing waits" if queue.waiting == 1 else "listings wait"
        click.echo(f"{queue.waiting:,} new {wait}: {_WAITING}", err=True)


_WAITING = (
    "scan saved pages of the owner's other sites (users queue), or wait for an earlier opt-out, so that one form removes "
    "them all. Add --all to list them now."
)


def _print_opt_out(opt_out: Any) -> None:
    also = f", also from {', '.join(map(plain, opt_out.also_removes))}" if opt_out.also_removes else ""
    click.echo(
        f"{opt_out.id}  {plain(opt_out.site)}: person {opt_out.user_id}, listings {opt_out.listings}{also}, "
        f"about {opt_out.minutes:g} {'minute' if opt_out.minutes == 1 else 'minutes'}"
    )
    reasons = [opt_out.reason] if opt_out.reason else []
    reasons += ["the site has removed few listings on request so far"] if opt_out.unresponsive else []
    for reason in (*reasons, *(f"{plain(name)} is not on file" for name in opt_out.missing)):
        click.echo(f"    Note: {reason}")
    click.echo(f"    Listing: {plain(opt_out.listing)}")
    click.echo(f"    Open: {plain(opt_out.url)}")
    for label, value in opt_out.values.items():
        click.echo(f"    Type: {plain(label)} = {plain(value)}")
    for number, step in enumerate(opt_out.steps, 1):
        click.echo(f"    {number}. {plain(step)}")


_records_argument = click.argument("record_ids", metavar="ID...", nargs=-1, required=True, type=ID)


@users.command("sent")
@_records_argument
@sites_option
@service_options
def users_sent(
    *, record_ids: tuple[int, ...], sites_directory: Path | None, database: ServiceDatabase
) -> None:
    """Report opt-outs that you sent in a browser.

    The IDs are those that users opt-outs lists. The service then waits for the site's message, if the definition has
    confirm, and scans until the removal is verified or give_up_days have passed. If one ID is invalid, none is reported.

    Example: exposurekit users sent 31 --sites ./sites
    """
    from exposurekit.service.scanning import assisted_opt_outs

    definitions, ids = session.needed_definitions(sites_directory), [*dict.fromkeys(record_ids)]

    async def report(db: Any) -> int:
        await assisted_opt_outs.lock_people(db, ids)
        return sum([await assisted_opt_outs.report_sent(db, one, definitions) for one in ids])

    pending = database.write(report, lambda _: action("users sent", record_ids=ids))
    click.echo(f"Listings pending removal: {pending:,}.")
    due = database.read(lambda db: assisted_opt_outs.due(db, record_ids, definitions)) if pending else ()
    for name, at, has_message in due:
        click.echo(f"{plain(name)}: {_next_step(definitions[name], at, has_message=has_message)}.")
    if not pending:
        click.echo(
            "Nothing changed: they were reported before, or confirmed by the site's message.", err=True
        )


def _next_step(site: Any, at: datetime, *, has_message: bool) -> str:
    """What happens next after an opt-out was sent, and when; `has_message`: the site sends one to confirm it."""
    if has_message:
        return f"waits for the site's message until {at:%Y-%m-%d}"
    if site.search.method == "person":
        return f"save and scan the pages again (users queue) from {at:%Y-%m-%d %H:%M} UTC"
    return f"scans check the removal from {at:%Y-%m-%d %H:%M} UTC"


@users.command("failed")
@_records_argument
@click.option("--refused", is_flag=True, help="The site refused. Without this: the form could not be sent.")
@sites_option
@service_options
def users_failed(
    *, record_ids: tuple[int, ...], refused: bool, sites_directory: Path | None, database: ServiceDatabase
) -> None:
    """Report opt-outs that failed or were refused.

    They are listed again, after the others and with the reason. If one ID is invalid, none is reported.

    Example: exposurekit users failed 31 --refused --sites ./sites
    """
    from exposurekit.service.scanning import assisted_opt_outs

    definitions, ids = session.needed_definitions(sites_directory), [*dict.fromkeys(record_ids)]

    async def report(db: Any) -> None:
        await assisted_opt_outs.lock_people(db, ids)
        for one in ids:
            await assisted_opt_outs.report_failed(db, one, definitions, refused=refused)

    database.write(report, lambda _: action("users failed", record_ids=ids, refused=refused))
    click.echo(f"Opt-outs reported as failed: {len(ids):,}.")


_RECORD_COLUMNS = (
    *("id", "site", "status", "opt_out_sent_at", "absences", "next_check_at", "email_state"),
    *("name", "age", "locations", "href", "reference_id"),
)


@users.command("records")
@_user_argument
@sites_option
@service_options
@json_option
def users_records(
    *, user_id: int, sites_directory: Path | None, database: ServiceDatabase, as_json: bool
) -> None:
    """List a person's records and what their removal waits for.

    An absence counts at most once in verification.every_days of the site's definition, first at "next check at"; the
    definition also states how many in a row confirm the removal. "email state" is that of the newest opt-out by email that
    asks to remove the listing: a draft waits for mail approve. The output contains personal data: names, ages, places.

    Example: exposurekit users records 7 --sites ./sites
    """
    from exposurekit.service.findings import findings, removals
    from exposurekit.service.mail import follow_ups

    definitions = session.usable_definitions(sites_directory)[0]

    async def read(db: Any) -> tuple[Any, Any, Any]:
        states = await follow_ups.email_states(db, user_id, definitions)
        return await findings.list_records(db, user_id), await removals.progress(db, user_id), states

    listed, progress, email_states = _read_of(database, user_id, read)
    rows = []
    for record in (one["record"] for one in listed):
        done, site = progress[record["id"]], definitions.get(record["site"])
        needed = None if site is None else site.verification.confirmations
        details = output.fields(done, "opt_out_sent_at", "next_check_at")
        details["email_state"] = email_states.get(record["id"])
        if as_json:
            rows.append(record | details | {"absences": done.absences, "confirmations": needed})
        else:
            absences = str(done.absences) if needed is None else f"{done.absences} of {needed}"
            row = record | details | {"absences": absences}
            rows.append({name: row[name] for name in _RECORD_COLUMNS})
    output.print_rows(rows, as_json=as_json, none="No records.")


@users.command("candidates")
@click.argument("user_id", metavar="[ID]", type=ID, required=False)
@click.option("--verdict", type=click.Choice(VERDICTS), help="Only those with this verdict.")
@limit_option
@service_options
@json_option
def users_candidates(
    *, user_id: int | None, verdict: str | None, limit: int, database: ServiceDatabase, as_json: bool
) -> None:
    """List possible matches that need a decision.

    For one person or everyone. The output contains personal data: names, ages, places.

    possible: the evidence is not sufficient. quarantined: the site also listed an invented person.

    Example: exposurekit users candidates 7 --verdict possible
    """
    from exposurekit.service.findings import candidates

    listed = _read_of(
        database, user_id, lambda db: candidates.all(db, user_id=user_id, verdict=verdict, limit=limit)
    )
    rows = [
        output.fields(one, "id", "user_id", "site", "verdict", "score", "observed_at")
        | {"name": one.listing.name, "age": one.listing.age, "places": one.listing.locations}
        | {"reasons": one.reasons, "href": one.listing.href}
        for one in listed
    ]
    output.print_rows(rows, as_json=as_json, none="No candidates.")


@users.command("accept")
@click.argument("candidate_id", type=ID)
@sites_option
@service_options
def users_accept(*, candidate_id: int, sites_directory: Path | None, database: ServiceDatabase) -> None:
    """Accept a candidate: it becomes a record.

    The record gets an alert and is removed like any other.

    Example: exposurekit users accept 12 --sites ./sites
    """
    from exposurekit.service.accounts import users as people
    from exposurekit.service.findings import candidates
    from exposurekit.service.models import Site

    definitions, problems = session.usable_definitions(sites_directory)

    async def accept(db: Any) -> tuple[int, Any]:
        candidate = await candidates.find(db, candidate_id)
        definition = definitions.get(candidate.site)
        if definition is None and problems and session.may_define(sites_directory, candidate.site):
            raise ConfigurationError(
                f"there is no valid definition of {plain(candidate.site)}: correct the files, then accept again"
            )
        subject = await people.get_subject(db, candidate.user_id)
        site = Site(name=candidate.site)
        if definition is not None and subject is not None:
            site = definition.site_of(candidate.listing, subject)
        return await candidates.accept(db, candidate_id, site), candidate

    def describe(accepted: tuple[int, Any]) -> "Action":
        record_id, candidate = accepted
        return action("users accept", f"user {candidate.user_id}", candidate=candidate_id, record=record_id)

    record_id, candidate = database.write(accept, describe)
    click.echo(f"Candidate {candidate_id} is now record {record_id}.")
    if candidate.site not in definitions:
        click.echo(
            f"There is no definition of {plain(candidate.site)}, so the alert does not say how to opt out: name the directory "
            "with --sites",
            err=True,
        )


@users.command("reject")
@click.argument("candidate_id", type=ID)
@service_options
def users_reject(*, candidate_id: int, database: ServiceDatabase) -> None:
    """Reject a candidate: it is about somebody else.

    It is not listed again; --verdict rejected shows rejected candidates.

    Example: exposurekit users reject 12
    """
    from exposurekit.service.findings import candidates

    async def reject(db: Any) -> int:
        user_id: int = (await candidates.find(db, candidate_id)).user_id
        await candidates.reject(db, candidate_id)
        return user_id

    database.write(reject, lambda user_id: action("users reject", f"user {user_id}", candidate=candidate_id))
    click.echo(f"Candidate {candidate_id} is rejected.")


def _read_of(database: ServiceDatabase, user_id: int | None, task: session.Task[T]) -> T:
    """Read what a list has of a person, or of everyone; raises `NoSuchUser` if the id is nobody's."""
    from exposurekit.service.accounts import consent, users

    async def read(db: Any) -> T:
        if user_id is not None and not await users.is_registered(db, user_id):
            raise consent.NoSuchUser(user_id)
        return await task(db)

    return database.read(read)


def _scan_after(database: ServiceDatabase, verb: str, user_id: int, change: session.Task[None]) -> str:
    """Change a person's state; return the sentence that a scan is due, empty if none is."""
    from exposurekit.service.accounts import consent

    async def run(db: Any) -> bool:
        await change(db)
        return await consent.may_scan(db, user_id)

    is_due = database.write(run, lambda _: action(f"users {verb}", f"user {user_id}"))
    return "A scan is due." if is_due else ""
