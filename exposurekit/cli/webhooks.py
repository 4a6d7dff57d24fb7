"""`exposurekit webhooks`: list and replay deliveries, without their content or address."""

from dataclasses import asdict
from typing import Any

import click

from exposurekit.cli import output
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import json_option, limit_option
from exposurekit.cli.session import ServiceDatabase, action, service_options
from exposurekit.errors import ConfigurationError
from exposurekit.service.webhooks.states import STATES
from exposurekit.text.plurals import pluralize


@click.group(cls=Group)
def webhooks() -> None:
    """List and replay webhook deliveries to integrators."""


@webhooks.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only those in this state.")
@limit_option
@service_options
@json_option
def webhooks_list(*, state: str | None, limit: int, database: ServiceDatabase, as_json: bool) -> None:
    """List the newest deliveries.

    Their state is open (events are still added), pending (being sent), delivered, or dead (every attempt failed).

    Example: exposurekit webhooks list --state dead
    """
    from exposurekit.service.webhooks import outbox

    deliveries = database.read(lambda db: outbox.all(db, state=state, limit=limit))
    rows = [{name: value for name, value in asdict(one).items() if name != "id"} for one in deliveries]
    output.print_rows(rows, as_json=as_json, none="No deliveries.")


@webhooks.command("replay")
@click.argument("webhook_ids", metavar="[WEBHOOK_ID]...", nargs=-1)
@click.option(
    "--all", "replay_all", is_flag=True, help="Replay every dead delivery whose integrator has a callback."
)
@service_options
def webhooks_replay(*, webhook_ids: tuple[str, ...], replay_all: bool, database: ServiceDatabase) -> None:
    """Send dead deliveries again.

    They keep their ids and bytes. If one of them cannot be replayed, none is.

    Example: exposurekit webhooks replay --all
    """
    from exposurekit.service.webhooks import outbox

    if bool(webhook_ids) is replay_all:
        raise click.UsageError("name the deliveries, or use --all")

    ids = tuple(dict.fromkeys(webhook_ids))

    async def replay(db: Any) -> None:
        for webhook_id in ids:
            try:
                await outbox.replay(db, webhook_id)
            except ConfigurationError as error:
                raise ConfigurationError(f"{webhook_id}: {error}") from None

    count = len(ids)
    if replay_all:
        count = database.write(outbox.replay_all, lambda count: action("webhooks replay", deliveries=count))
    else:
        database.write(replay, lambda _: action("webhooks replay", webhook_ids=ids))
    click.echo(f"{pluralize(count, 'delivery', 'deliveries')} will be sent again.")
