"""What an operator does about one person: consent, activation, candidates, forgetting. Changes nobody's own data."""

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

    A scan is due at once.

    Example: exposurekit users consent 7 --by "the person, by letter"
    """
    from exposurekit.service.accounts import consent as accounts_consent

    async def consent(work: Any) -> bool:
        await accounts_consent.consent(work, user_id, given_by=who)
        return await accounts_consent.may_scan(work, user_id)

    scanned = session.transaction(database, key_file, consent)
    click.echo(f"Consent is recorded for {user_id}. {_user_row(scanned, 'is not activated for them')}")


@users.command("withdraw")
@click.argument("user_id", metavar="ID", type=ID)
@by_option
@database_option
@key_option
def users_withdraw(*, user_id: int, who: str, database: str, key_file: Path | None) -> None:
    """Record that a person has withdrawn consent.

    Nothing more is scanned or submitted for them. What was found stays.

    Example: exposurekit users withdraw 7 --by "the person, by phone"
    """
    from exposurekit.service.accounts import consent as accounts_consent

    many = session.transaction(
        database, key_file, lambda work: accounts_consent.withdraw(work, user_id, withdrawn_by=who)
    )
    said = "is withdrawn" if many else "was not recorded"
    click.echo(f"Consent {said} for {user_id}. Nothing is scanned or submitted for them.")


@users.command("activate")
@click.argument("user_id", metavar="ID", type=ID)
@database_option
@key_option
def users_activate(*, user_id: int, database: str, key_file: Path | None) -> None:
    """Activate the service for a person.

    A scan is due at once if a consent is recorded.

    Example: exposurekit users activate 7
    """
    from exposurekit.service.accounts import consent as accounts_consent

    async def activate(work: Any) -> bool:
        await accounts_consent.activate(work, user_id)
        return await accounts_consent.may_scan(work, user_id)

    scanned = session.transaction(database, key_file, activate)
    click.echo(f"The service is activated for {user_id}. {_user_row(scanned, 'has no consent of theirs')}")


@users.command("deactivate")
@click.argument("user_id", metavar="ID", type=ID)
@database_option
@key_option
def users_deactivate(*, user_id: int, database: str, key_file: Path | None) -> None:
    """Deactivate the service for a person.

    Nothing more is scanned or submitted. What was found stays.

    Example: exposurekit users deactivate 7
    """
    from exposurekit.service.accounts import consent as accounts_consent

    session.transaction(database, key_file, lambda work: accounts_consent.deactivate(work, user_id))
    click.echo(f"The service is deactivated for {user_id}. Nothing is scanned or submitted for them.")


@users.command("purge")
@click.argument("user_id", metavar="ID", type=ID)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@database_option
@key_option
def users_purge(*, user_id: int, yes: bool, database: str, key_file: Path | None) -> None:
    """Delete a person and everything found about them.

    Nothing of them is left in any table. This cannot be undone.

    Backups are yours to look after, and so is whatever integrators were told.

    Example: exposurekit users purge 7 --yes
    """
    from exposurekit.service.accounts import consent as accounts_consent

    if not yes:
        if not on_a_terminal():
            raise click.UsageError("nobody can be asked here: --yes says that it is meant")
        if not click.confirm(f"Forget the person {user_id} and all that was found about them", err=True):
            raise click.ClickException("nobody was purged")
    scrubbed = session.erase_with(database, key_file, lambda work: accounts_consent.purge(work, user_id))
    click.echo(f"Nothing is left of {user_id} in any table.")
    if not scrubbed:
        click.echo(
            "What was there, encrypted, may lie in the database's own log until that is overwritten: "
            "on SQLite while others read, on PostgreSQL until its next VACUUM.",
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

    Of one person, or of everyone. The output holds personal data: names, ages, places.

    possible: not enough speaks for it being the person. quarantined: the site listed somebody invented, too.

    Example: exposurekit users candidates 7 --verdict possible
    """
    from exposurekit.service.findings import candidates

    found = session.read_session(
        database,
        key_file,
        lambda work: candidates.all(work, user_id=user_id, verdict=verdict, limit=limit),
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
        for one in found
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

    It gets an alert, and is removed like any other.

    Example: exposurekit users accept 12 --sites ./sites
    """
    from exposurekit.service.accounts import users as people
    from exposurekit.service.findings import candidates
    from exposurekit.service.models import Site

    definitions = session.definitions(sites_directory)

    async def accept(work: Any) -> tuple[int, str, bool]:
        found = await candidates.find(work, candidate_id)
        definition = definitions.get(found.site)
        subject = await people.get_subject(work, found.user_id)
        site = definition.site(subject) if definition and subject else Site(name=found.site)
        return await candidates.accept(work, candidate_id, site), found.site, definition is not None

    record_id, site, known = session.transaction(database, key_file, accept)
    click.echo(f"Candidate {candidate_id} is record {record_id} now.")
    if not known:
        click.echo(
            f"No definition of {plain(site)} is here, so the alert says nothing of how to opt out: "
            "--sites names the directory",
            err=True,
        )


@users.command("reject")
@click.argument("candidate_id", type=ID)
@database_option
@key_option
def users_reject(*, candidate_id: int, database: str, key_file: Path | None) -> None:
    """Reject a candidate: it is about somebody else.

    It is not listed again; --verdict rejected shows the rejected ones.

    Example: exposurekit users reject 12
    """
    from exposurekit.service.findings import candidates

    session.transaction(database, key_file, lambda work: candidates.reject(work, candidate_id))
    click.echo(f"Candidate {candidate_id} is rejected.")


def _user_row(scanned: bool, why_not: str) -> str:  # noqa: FBT001  what it tells
    return "A scan is due." if scanned else f"No scan is due: the service {why_not}."
