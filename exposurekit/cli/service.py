"""`exposurekit service`: users, due jobs, deliveries and site health, without personal data."""

from dataclasses import asdict
from typing import Any

import click

from exposurekit.cli import output
from exposurekit.cli.options import json_option
from exposurekit.cli.sections import Group
from exposurekit.cli.session import ServiceDatabase, service_options
from exposurekit.errors import ExposureError

NO_SCANS = "No site was scanned yet."


@click.group(cls=Group)
def service() -> None:
    """Show the state of the service, and check its database."""


@service.command("status")
@service_options
@json_option
def service_status(*, database: ServiceDatabase, as_json: bool) -> None:
    """Show people, due jobs, deliveries and the health of sites.

    Example: exposurekit service status --json
    """
    status = database.read(_status)
    if as_json:
        output.print_json(status)
        return
    click.echo(
        "People: {registered} registered, {active} active, {with_consent} with consent, "
        "{may_be_scanned} may be scanned.".format_map(status["people"])
    )
    click.echo(
        "Deliveries: "
        + ", ".join(f"{count} {state}" for state, count in status["deliveries"].items())
        + ".\n"
    )
    output.print_columns([{"job": kind, **counts} for kind, counts in status["work"].items()])
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
    from exposurekit.service.check import check

    checked, damage = database.read(check)
    if as_json:
        output.print_json({"checked": checked, "damaged": [asdict(one) for one in damage]})
    else:
        click.echo(f"Checked {checked:,} stored values.")
        if damage:
            output.print_columns([asdict(one) for one in damage])
    if damage:
        raise DamagedDatabase(
            f"{len(damage):,} {'problem' if len(damage) == 1 else 'problems'} found: restore a backup. If every problem has a user id, you can purge those "
            "users instead: exposurekit users purge ID"
        )


class DamagedDatabase(ExposureError):
    """Rows of the database cannot be read."""


async def _status(db: Any) -> dict[str, Any]:
    from exposurekit.service import jobs
    from exposurekit.service.accounts import consent
    from exposurekit.service.webhooks import outbox

    return {
        "people": await consent.counts(db),
        "work": {kind: queue.as_dict() for kind, queue in (await jobs.queues(db)).items()},
        "deliveries": await outbox.counts(db),
        "sites": await site_health(db),
    }


async def site_health(db: Any) -> list[dict[str, Any]]:
    """Return the scan statistics of each site that was scanned."""
    from exposurekit.service.sites import statistics

    return [
        output.fields(one, "site", "scans", "inconclusive_scans")
        | {"inconclusive_rate": None if one.inconclusive_rate is None else round(one.inconclusive_rate, 3)}
        | output.fields(one, "untrusted_scans", "last_scan_at", "last_good_scan_at", "last_reason")
        for one in await statistics.all(db)
        if one.scans
    ]
