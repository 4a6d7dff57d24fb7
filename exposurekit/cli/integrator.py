"""Who may use the service, who answers for its people's consent, and where it is told. Shows a secret once."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.options import (
    callback_network_option,
    database_option,
    json_option,
    key_option,
    on_a_terminal,
)
from exposurekit.cli.options import user_option as is_who
from exposurekit.cli.sections import Group
from exposurekit.text.sanitize import plain

FROM_STDIN = "-"
UNATTESTED = (
    "Nobody whom {name} registers is scanned until a consent is recorded for each: exposurekit users consent"
)


@click.group(cls=Group)
def integrator() -> None:
    """Manage integrators: API keys, consent, webhook callback."""


@integrator.command("add")
@click.argument("name")
@click.option(
    "--attested-by",
    metavar="WHO",
    type=is_who,
    help="Who answers for the consent of everyone that it registers: a name, a role.",
)
@click.option(
    "--no-attestation",
    is_flag=True,
    help="Nobody does: each person is scanned only once a consent is recorded for them.",
)
@database_option
@key_option
@json_option
def integrator_add(
    *,
    name: str,
    attested_by: str | None,
    no_attestation: bool,
    database: str,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Register an integrator and show its credentials.

    Its secret is shown this once, and stored nowhere.

    Example: exposurekit integrator add acme --attested-by "Jo Doe, DPO"
    """
    from exposurekit.service.accounts import integrators

    who = _attesting(name, attested_by, nobody=no_attestation)
    made = session.transaction(
        database, key_file, lambda work: integrators.add(work, name, attested_by=who), makes=True
    )
    _print_credentials(made, as_json=as_json)
    if who is None:
        click.echo(UNATTESTED.format(name=name), err=True)


@integrator.command("attest")
@click.argument("name")
@click.option("--by", "who", metavar="WHO", type=is_who, help="Who answers from now on: a name, a role.")
@click.option("--nobody", is_flag=True, help="Nobody does from now on.")
@database_option
@key_option
def integrator_attest(
    *, name: str, who: str | None, nobody: bool, database: str, key_file: Path | None
) -> None:
    """Set who attests the consent of the people it registers.

    What is recorded for people whom it registered before stays.

    Example: exposurekit integrator attest acme --by "Jo Doe, DPO"
    """
    from exposurekit.service.accounts import integrators

    if (who is None) is not nobody:
        raise click.UsageError("say who answers with --by WHO, or that nobody does with --nobody")
    session.transaction(database, key_file, lambda work: integrators.attest(work, name, attested_by=who))
    if who is None:
        click.echo(UNATTESTED.format(name=name), err=True)
    else:
        click.echo(f"The consent of everyone that {name} registers from now on is attested.")


@integrator.command("list")
@database_option
@key_option
@json_option
def integrator_list(*, database: str, key_file: Path | None, as_json: bool) -> None:
    """List integrators and how many people each has.

    Example: exposurekit integrator list --json
    """
    from exposurekit.service.accounts import integrators

    found = session.read_session(database, key_file, integrators.all)
    if as_json:
        output.print_json(
            [
                {
                    "integration_name": one.name,
                    "users": one.users,
                    "since": one.created_at,
                    "attested_by": one.attested_by,
                    "has_callback": one.has_callback,
                }
                for one in found
            ]
        )
        return
    for one in found:
        attested = f"attested by {plain(one.attested_by)}" if one.attested_by else "nobody attests"
        callback = "has a callback" if one.has_callback else "no callback"
        click.echo(f"{one.name}  {one.users} users  since {one.created_at:%Y-%m-%d}  {attested}  {callback}")
    if not found:
        click.echo("No integrator yet: exposurekit integrator add NAME", err=True)


@integrator.command("rotate")
@click.argument("name")
@database_option
@key_option
@json_option
def integrator_rotate(*, name: str, database: str, key_file: Path | None, as_json: bool) -> None:
    """Replace an integrator's key and secret.

    The old ones are refused from now on.

    Example: exposurekit integrator rotate acme
    """
    from exposurekit.service.accounts import integrators

    made = session.transaction(database, key_file, lambda work: integrators.rotate(work, name))
    _print_credentials(made, as_json=as_json)


@integrator.command("remove")
@click.argument("name")
@click.option(
    "--with-users", is_flag=True, help="Remove the people it registered, and all found about them, too."
)
@database_option
@key_option
def integrator_remove(*, name: str, with_users: bool, database: str, key_file: Path | None) -> None:
    """Remove an integrator.

    The people whom it registered are removed only with --with-users.

    Example: exposurekit integrator remove acme --with-users
    """
    from exposurekit.service.accounts import integrators

    gone = session.transaction(
        database, key_file, lambda work: integrators.remove(work, name, with_users=with_users)
    )
    click.echo(f"Removed {name} and {gone} users.")


@integrator.command("set-callback")
@click.argument("name")
@click.argument("url")
@click.option("--secret", help="Sign with this one: whsec_ and base64. A hyphen: it is read from stdin.")
@click.option("--new-secret", is_flag=True, help="Sign with a new one, which is shown this once.")
@callback_network_option
@database_option
@key_option
@json_option
def integrator_set_callback(
    *,
    name: str,
    url: str,
    secret: str | None,
    new_secret: bool,
    callback_networks: tuple[str, ...],
    database: str,
    key_file: Path | None,
    as_json: bool,
) -> None:
    """Set the https address for an integrator's webhooks.

    The address must be public, or lie in a network that is opened here and for serve and worker; there it may be
    http. Without --secret and --new-secret the secret that it has is kept.

    Example: exposurekit integrator set-callback acme https://acme.example/hook
    """
    from exposurekit.service.webhooks import endpoints

    if secret is not None and new_secret:
        raise click.UsageError("--secret brings one along, --new-secret makes one: choose")
    session.read_session(
        database, key_file, lambda work: endpoints.find(work, name)
    )  # says so where there is none
    chosen = endpoints.new_secret() if new_secret else _brought(secret)
    asyncio.run(endpoints.vet(url, opened_networks=callback_networks))

    async def put(work: Any) -> bool:
        before = await endpoints.find(work, name)
        kept = chosen or (before.secret if before else None)
        await endpoints.put(work, name, endpoints.Callback(url, kept))
        return kept is not None

    signed = session.transaction(database, key_file, put)
    shown = chosen if new_secret else None
    if as_json:
        output.print_json({"integration_name": name, "signed": signed, "webhook_secret": shown})
    elif shown:
        click.echo(f"EXPOSUREKIT_WEBHOOK_SIGNING_SECRET={shown}")
        click.echo(
            "The secret is shown this once. Where the line stands in the environment or a .env file, exposurekit "
            "receive and watch check signatures with it.",
            err=True,
        )
    else:
        click.echo(f"{name} is told from now on, {'signed' if signed else 'not signed'}.")


@integrator.command("clear-callback")
@click.argument("name")
@database_option
@key_option
def integrator_clear_callback(*, name: str, database: str, key_file: Path | None) -> None:
    """Stop sending webhooks to an integrator.

    Deliveries that are still waiting become dead.

    Example: exposurekit integrator clear-callback acme
    """
    from exposurekit.service.webhooks import endpoints

    session.transaction(database, key_file, lambda work: endpoints.put(work, name, None))
    click.echo(f"{name} is told no longer.")


def _attesting(name: str, attested_by: str | None, *, nobody: bool) -> str | None:
    if attested_by is not None and nobody:
        raise click.UsageError(
            "--attested-by names somebody, and --no-attestation says that nobody is: choose"
        )
    if attested_by is not None or nobody:
        return attested_by
    if not on_a_terminal():
        raise click.UsageError(
            "say who answers for the consent of everyone that it registers with --attested-by WHO; or "
            "--no-attestation, and nobody is scanned until a consent is recorded for each"
        )
    question = f"Who answers for the consent of everyone that {name} registers (a name, a role)"
    return str(click.prompt(question, value_proc=is_who, err=True))


def _brought(secret: str | None) -> str | None:
    from exposurekit.service.webhooks import endpoints

    if secret == FROM_STDIN:
        secret = sys.stdin.readline().strip()
    return None if secret is None else endpoints.checked_secret(secret)


def _print_credentials(made: Any, *, as_json: bool) -> None:
    shown = {name: getattr(made, name) for name in ("integration_name", "api_key", "api_secret")}
    if as_json:
        output.print_json(shown)
        return
    for name, value in shown.items():
        click.echo(f"EXPOSUREKIT_{name.upper()}={value}")
    click.echo("The secret is shown this once. These lines can stand in a .env file.", err=True)
