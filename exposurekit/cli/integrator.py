"""`exposurekit integrator`: manage API keys, consent attestation and webhook callbacks."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from exposurekit.cli import output
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import (
    WholeNumber,
    callback_network_option,
    confirm_deletion,
    json_option,
    on_a_terminal,
    parse_name,
    yes_option,
)
from exposurekit.cli.session import ServiceDatabase, Task, action, service_options
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain

if TYPE_CHECKING:
    from exposurekit.service.audit import Action

T = TypeVar("T")
FROM_STDIN = "-"
UNATTESTED = (
    "People whom {name} registers are scanned only after their consent is recorded: exposurekit users consent"
)


def _attested_by_option(text: str) -> Callable[[Any], Any]:
    return click.option("--attested-by", metavar="WHO", type=parse_name, help=text)


@click.group(cls=Group)
def integrator() -> None:
    """Manage integrators: API keys, consent, webhook callback."""


@integrator.command("add")
@click.argument("name")
@_attested_by_option("Who attests the consent of everyone that it registers: a name or a role.")
@click.option(
    "--no-attestation",
    is_flag=True,
    help="No attestation: each person is scanned only after their consent is recorded.",
)
@service_options
@json_option
def integrator_add(
    *, name: str, attested_by: str | None, no_attestation: bool, database: ServiceDatabase, as_json: bool
) -> None:
    """Register an integrator and show its credentials.

    The secret is shown once and not stored.

    Example: exposurekit integrator add acme --attested-by "Jo Doe, DPO"
    """
    from exposurekit.service.accounts import integrators

    integrators.check_name(name)  # before there is a database
    who = _attester(name, attested_by, no_attestation=no_attestation)

    async def add(db: Any) -> tuple[Any, int]:
        credentials = await integrators.add(db, name, attested_by=who)
        return credentials, (await integrators.find(db, name)).id

    credentials, _ = database.write(
        add,
        lambda added: action("integrator add", f"integrator {added[1]}", attested=who is not None),
        create=True,
    )
    _print_credentials(credentials, as_json=as_json)
    if who is None:
        click.echo(UNATTESTED.format(name=name), err=True)


@integrator.command("attest")
@click.argument("name")
@_attested_by_option("Who attests the consent of everyone that it registers from now on: a name or a role.")
@click.option("--revoke", is_flag=True, help="Remove the consent attestation.")
@service_options
def integrator_attest(*, name: str, attested_by: str | None, revoke: bool, database: ServiceDatabase) -> None:
    """Set or remove an integrator's consent attestation.

    It applies to people registered from now on; recorded consents do not change.

    Example: exposurekit integrator attest acme --attested-by "Jo Doe, DPO"
    """
    from exposurekit.service.accounts import integrators

    if (attested_by is None) is not revoke:
        raise click.UsageError("use either --attested-by WHO or --revoke")
    _change(
        database,
        "attest",
        name,
        lambda db: integrators.attest(db, name, attested_by=attested_by),
        details=lambda _: {"attested": not revoke},
    )
    if revoke:
        click.echo(UNATTESTED.format(name=name), err=True)
    else:
        click.echo(f"The consent of everyone whom {name} registers from now on is attested.")


@integrator.command("list")
@service_options
@json_option
def integrator_list(*, database: ServiceDatabase, as_json: bool) -> None:
    """List integrators and how many people each has.

    Logs name an integrator by its id.

    Example: exposurekit integrator list --json
    """
    from exposurekit.service.accounts import integrators

    registered = database.read(integrators.all)
    if as_json:
        output.print_json(
            [
                {"id": one.id, "integration_name": one.name, "users": one.users, "since": one.created_at}
                | output.fields(one, "attested_by", "quota", "has_callback")
                for one in registered
            ]
        )
        return
    for one in registered:
        attested = f"attested by {plain(one.attested_by)}" if one.attested_by else "no attestation"
        callback = "has a callback" if one.has_callback else "no callback"
        users = f"users {one.users}" if one.quota is None else f"users {one.users} of at most {one.quota}"
        click.echo(
            f"{one.name}  id {one.id}  {users}  since {one.created_at:%Y-%m-%d}  {attested}  {callback}"
        )
    if not registered:
        click.echo(
            "No integrators. exposurekit integrator add NAME --attested-by WHO registers one.", err=True
        )


@integrator.command("set-quota")
@click.argument("name")
@click.argument("people", type=WholeNumber(0, 2**31 - 1), required=False)
@click.option("--no-quota", is_flag=True, help="Any number of people.")
@service_options
def integrator_set_quota(*, name: str, people: int | None, no_quota: bool, database: ServiceDatabase) -> None:
    """Set how many people an integrator may register.

    People who are purged no longer count. People beyond a new quota stay; only new ones are refused.

    Example: exposurekit integrator set-quota acme 500
    """
    from exposurekit.service.accounts import integrators

    if (people is None) is not no_quota:
        raise click.UsageError("use either a number of PEOPLE or --no-quota")
    before = _change(
        database,
        "set-quota",
        name,
        lambda db: integrators.set_quota(db, name, people),
        details=lambda before: {"quota": people, "before": before.quota},
    )
    quota = "any number of people" if people is None else f"at most {pluralize(people, 'person', 'people')}"
    click.echo(f"{name} may have {quota}; it has {before.users:,}.")


@integrator.command("rotate")
@click.argument("name")
@service_options
@json_option
def integrator_rotate(*, name: str, database: ServiceDatabase, as_json: bool) -> None:
    """Replace an integrator's key and secret.

    The old ones stop working now.

    Example: exposurekit integrator rotate acme
    """
    from exposurekit.service.accounts import integrators

    credentials = _change(database, "rotate", name, lambda db: integrators.rotate(db, name))
    _print_credentials(credentials, as_json=as_json)


@integrator.command("remove")
@click.argument("name")
@click.option(
    "--with-users", is_flag=True, help="Also delete the people it registered and everything found about them."
)
@yes_option
@service_options
def integrator_remove(*, name: str, with_users: bool, yes: bool, database: ServiceDatabase) -> None:
    """Remove an integrator.

    The people whom it registered are deleted only with --with-users, after confirmation. This cannot be undone.

    Example: exposurekit integrator remove acme --with-users --yes
    """
    from exposurekit.service.accounts import integrators

    if with_users and not yes:
        people = database.read(lambda db: integrators.find(db, name)).users
        if people:
            number = pluralize(people, "person", "people")
            confirm_deletion(f"Delete {name} and {number}? This cannot be undone.")

    change, describe = _audited(
        "remove",
        name,
        lambda db: integrators.remove(db, name, with_users=with_users),
        details=lambda users: {"users": users},
    )
    (_, removed), left = database.erase(change, describe)
    click.echo(f"Removed {name} and {pluralize(removed, 'user')}.")
    if removed and left:
        click.echo(left, err=True)


@integrator.command("set-callback")
@click.argument("name")
@click.argument("url")
@click.option("--secret", help="The signing secret: whsec_ and base64. A hyphen reads it from stdin.")
@click.option("--new-secret", is_flag=True, help="Generate a signing secret and show it once.")
@callback_network_option
@service_options
@json_option
def integrator_set_callback(
    *,
    name: str,
    url: str,
    secret: str | None,
    new_secret: bool,
    callback_networks: tuple[str, ...],
    database: ServiceDatabase,
    as_json: bool,
) -> None:
    """Set the https address for an integrator's webhooks.

    The address must be public, or in a network that --callback-network allows here and for serve and worker; there it
    may be http. Without --secret and --new-secret the current secret remains.

    Example: exposurekit integrator set-callback acme https://acme.example/hook
    """
    from exposurekit.service.webhooks import endpoints

    if secret is not None and new_secret:
        raise click.UsageError("use either --secret or --new-secret")
    database.read(lambda db: endpoints.get_callback(db, name))  # fails if there is no such integrator
    chosen = endpoints.new_secret() if new_secret else _read_secret(secret)
    asyncio.run(endpoints.vet(url, callback_networks=callback_networks))

    async def put(db: Any) -> bool:
        current = await endpoints.get_callback(db, name)
        signing_secret = chosen or (current.secret if current else None)
        await endpoints.set_callback(db, name, endpoints.Callback(url, signing_secret))
        return signing_secret is not None

    signed = _change(database, "set-callback", name, put, details=lambda signed: {"signed": signed})
    generated = chosen if new_secret else None
    if as_json:
        output.print_json({"integration_name": name, "signed": signed, "webhook_secret": generated})
    elif generated:
        click.echo(f"EXPOSUREKIT_WEBHOOK_SIGNING_SECRET={generated}")
        click.echo(
            "The secret is shown once. Put this line into the environment or a .env file, so that exposurekit inbox run "
            "and watch run verify signatures with it.",
            err=True,
        )
    else:
        click.echo(f"{name} receives webhooks from now on, {'signed' if signed else 'not signed'}.")


@integrator.command("clear-callback")
@click.argument("name")
@service_options
def integrator_clear_callback(*, name: str, database: ServiceDatabase) -> None:
    """Stop sending webhooks to an integrator.

    Pending deliveries become dead.

    Example: exposurekit integrator clear-callback acme
    """
    from exposurekit.service.webhooks import endpoints

    _change(database, "clear-callback", name, lambda db: endpoints.set_callback(db, name, None))
    click.echo(f"{name} receives no more webhooks.")


def _change(
    database: ServiceDatabase,
    verb: str,
    name: str,
    task: Task[T],
    *,
    details: Callable[[T], Mapping[str, Any]] = lambda _: {},
) -> T:
    """Change an integrator; the audit log gets its id, and details of the result."""
    return database.write(*_audited(verb, name, task, details=details))[1]


def _audited(
    verb: str, name: str, task: Task[T], *, details: Callable[[T], Mapping[str, Any]]
) -> tuple[Task[tuple[int, T]], Callable[[tuple[int, T]], "Action"]]:
    """Return a change of an integrator whose result has its id first, and what the audit log says of it."""
    from exposurekit.service.accounts import integrators

    async def change(db: Any) -> tuple[int, T]:
        return (await integrators.find(db, name)).id, await task(db)

    def describe(changed: tuple[int, T]) -> "Action":
        integrator_id, result = changed
        return action(f"integrator {verb}", f"integrator {integrator_id}", **details(result))

    return change, describe


def _attester(name: str, attested_by: str | None, *, no_attestation: bool) -> str | None:
    if attested_by is not None and no_attestation:
        raise click.UsageError("use either --attested-by or --no-attestation")
    if attested_by is not None or no_attestation:
        return attested_by
    if not on_a_terminal():
        raise click.UsageError(
            "use --attested-by WHO to attest the consent of everyone that it registers, or --no-attestation to scan each "
            "person only after their consent is recorded"
        )
    question = f"Who attests the consent of everyone that {name} registers (a name or a role)"
    return str(click.prompt(question, value_proc=parse_name, err=True))


def _read_secret(secret: str | None) -> str | None:
    from exposurekit.service.webhooks import endpoints

    if secret == FROM_STDIN:
        secret = sys.stdin.readline().strip()
    return None if secret is None else endpoints.validate_secret(secret)


def _print_credentials(credentials: Any, *, as_json: bool) -> None:
    fields = output.fields(credentials, "integration_name", "api_key", "api_secret")
    if as_json:
        output.print_json(fields)
        return
    for name, value in fields.items():
        click.echo(f"EXPOSUREKIT_{name.upper()}={value}")
    click.echo("The secret is shown once. You can put these lines into a .env file.", err=True)
