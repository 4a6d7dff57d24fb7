"""`exposurekit users`: consent, activation, candidates and deletion of one person."""

from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.options import (
    ID,
    by_option,
    database_option,
    json_option,
    key_option,
    limit_option,
    on_a_terminal,
    sites_option,
)
from exposurekit.cli.sections import Group
from exposurekit.service.constants import VERDICTS
from exposurekit.text.sanitize import plain


@click.group(cls=Group)
def users() -> None:
    """Manage one person: consent, activation, candidates, purge."""


@users.command("consent")
@click.argument("user_id", metavar="ID", type=ID)
@by_option
@database_option
@key_option
def users_consent(*, user_id: int, who: str, database: str, key_file: Path | None) -> None:
    """Record a person's consent to scans and removals.

    A scan is due immediately.

    Example: exposurekit users consent 7 --by "the person, by letter"
    """
    from exposurekit.service.accounts import consent as accounts_consent

    async def consent(db: Any) -> bool:
        await accounts_consent.consent(db, user_id, given_by=who)
        return await accounts_consent.may_scan(db, user_id)

    may_scan = session.transaction(database, key_file, consent)
    click.echo(
        f"Consent is recorded for {user_id}. {_scan_note(may_scan, 'the service is not activated for them')}"
    )


@users.command("withdraw")
@click.argument("user_id", metavar="ID", type=ID)
@by_option
@database_option
@key_option
def users_withdraw(*, user_id: int, who: str, database: str, key_file: Path | None) -> None:
    """Record that a person has withdrawn consent.

    Scans and removals stop. Existing records remain.

    Example: exposurekit users withdraw 7 --by "the person, by phone"
    """
    from exposurekit.service.accounts import consent as accounts_consent

    withdrawn = session.transaction(
        database, key_file, lambda db: accounts_consent.withdraw(db, user_id, withdrawn_by=who)
    )
    outcome = "is withdrawn" if withdrawn else "was not recorded"
    click.echo(f"Consent {outcome} for {user_id}. Scans and removals have stopped.")


@users.command("activate")
@click.argument("user_id", metavar="ID", type=ID)
@database_option
@key_option
def users_activate(*, user_id: int, database: str, key_file: Path | None) -> None:
    """Activate the service for a person.

    A scan is due immediately if consent is recorded.

    Example: exposurekit users activate 7
    """
    from exposurekit.service.accounts import consent as accounts_consent

    async def activate(db: Any) -> bool:
        await accounts_consent.activate(db, user_id)
        return await accounts_consent.may_scan(db, user_id)

    may_scan = session.transaction(database, key_file, activate)
    click.echo(
        f"The service is activated for {user_id}. {_scan_note(may_scan, 'their consent is not recorded')}"
    )


@users.command("deactivate")
@click.argument("user_id", metavar="ID", type=ID)
@database_option
@key_option
def users_deactivate(*, user_id: int, database: str, key_file: Path | None) -> None:
    """Deactivate the service for a person.

    Scans and removals stop. Existing records remain.

    Example: exposurekit users deactivate 7
    """
    from exposurekit.service.accounts import consent as accounts_consent

    session.transaction(database, key_file, lambda db: accounts_consent.deactivate(db, user_id))
    click.echo(f"The service is deactivated for {user_id}. Scans and removals have stopped.")


@users.command("purge")
@click.argument("user_id", metavar="ID", type=ID)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@database_option
@key_option
def users_purge(*, user_id: int, yes: bool, database: str, key_file: Path | None) -> None:
    """Delete a person and everything found about them.

    Nothing about them remains in any table. This cannot be undone.

    It does not change backups, or data that integrators received.

    Example: exposurekit users purge 7 --yes
    """
    from exposurekit.service.accounts import consent as accounts_consent

    if not yes:
        if not on_a_terminal():
            raise click.UsageError("cannot prompt for confirmation here: use --yes")
        if not click.confirm(f"Delete person {user_id} and everything found about them", err=True):
            raise click.ClickException("nothing was deleted")
    scrubbed = session.erase_with(database, key_file, lambda db: accounts_consent.purge(db, user_id))
    click.echo(f"Deleted {user_id} from every table.")
    if not scrubbed:
        click.echo(
            "The database's log may still contain the encrypted data: on SQLite while other processes read, on "
            "PostgreSQL until the next VACUUM.",
            err=True,
        )


@users.command("candidates")
@click.argument("user_id", metavar="[ID]", type=ID, required=False)
@click.option("--verdict", type=click.Choice(VERDICTS), help="Only those with this verdict.")
@limit_option
@database_option
@key_option
@json_option
def users_candidates(
    *,
    user_id: int | None,
    verdict: str | None,
    limit: int,
    database: str,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """List possible matches that need a decision.

    For one person or everyone. The output contains personal data: names, ages, places.

    possible: the evidence is not sufficient. quarantined: the site also listed an invented person.

    Example: exposurekit users candidates 7 --verdict possible
    """
    from exposurekit.service.findings import candidates

    matches = session.read_session(
        database,
        key_file,
        lambda db: candidates.all(db, user_id=user_id, verdict=verdict, limit=limit),
    )
    rows = [
        {
            "id": one.id,
            "user_id": one.user_id,
            "site": one.site,
            "verdict": one.verdict,
            "score": one.score,
            "seen_at": one.seen_at,
            "name": one.listing.name,
            "age": one.listing.age,
            "places": one.listing.locations,
            "reasons": one.reasons,
            "href": one.listing.href,
        }
        for one in matches
    ]
    output.print_rows(rows, as_json=as_json, none="No candidates.")


@users.command("accept")
@click.argument("candidate_id", type=ID)
@sites_option
@database_option
@key_option
def users_accept(
    *, candidate_id: int, sites_directory: Path | None, database: str, key_file: Path | None
) -> None:
    """Accept a candidate: it becomes a record.

    The record gets an alert and is removed like any other.

    Example: exposurekit users accept 12 --sites ./sites
    """
    from exposurekit.service.accounts import users as people
    from exposurekit.service.findings import candidates
    from exposurekit.service.models import Site

    definitions = session.definitions(sites_directory)

    async def accept(db: Any) -> tuple[int, str, bool]:
        candidate = await candidates.find(db, candidate_id)
        definition = definitions.get(candidate.site)
        subject = await people.get_subject(db, candidate.user_id)
        site = definition.site(subject) if definition and subject else Site(name=candidate.site)
        return await candidates.accept(db, candidate_id, site), candidate.site, definition is not None

    record_id, site, has_definition = session.transaction(database, key_file, accept)
    click.echo(f"Candidate {candidate_id} is now record {record_id}.")
    if not has_definition:
        click.echo(
            f"There is no definition of {plain(site)}, so the alert does not say how to opt out: name the directory "
            "with --sites",
            err=True,
        )


@users.command("reject")
@click.argument("candidate_id", type=ID)
@database_option
@key_option
def users_reject(*, candidate_id: int, database: str, key_file: Path | None) -> None:
    """Reject a candidate: it is about somebody else.

    It is not listed again; --verdict rejected shows rejected candidates.

    Example: exposurekit users reject 12
    """
    from exposurekit.service.findings import candidates

    session.transaction(database, key_file, lambda db: candidates.reject(db, candidate_id))
    click.echo(f"Candidate {candidate_id} is rejected.")


def _scan_note(may_scan: bool, reason: str) -> str:  # noqa: FBT001
    return "A scan is due." if may_scan else f"No scan is due: {reason}."
