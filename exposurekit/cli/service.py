"""What an operator asks first: what waits, what is due, how the sites behave. Shows no personal data."""

from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.options import database_option, json_option, key_option
from exposurekit.cli.sections import Group

NO_LOOKS = "No site was looked at yet."


@click.group(cls=Group)
def service() -> None:
    """Show the state of the service."""


@service.command("status")
@database_option
@key_option
@json_option
def service_status(*, database: str, key_file: Path | None, as_json: bool) -> None:
    """Show people, due work, deliveries and the health of sites.

    Example: exposurekit service status --json
    """
    found = session.read_session(database, key_file, _status)
    if as_json:
        output.print_json(found)
        return
    click.echo(
        "People: {registered} registered, {active} active, {with_consent} with consent, "
        "{may_be_scanned} may be scanned.".format_map(found["people"])
    )
    click.echo(
        "Deliveries: " + ", ".join(f"{many} {state}" for state, many in found["deliveries"].items()) + ".\n"
    )
    output.print_columns([{"work": kind, **counts} for kind, counts in found["work"].items()])
    click.echo()
    output.print_rows(found["sites"], as_json=False, none=NO_LOOKS)


async def _status(work: Any) -> dict[str, Any]:
    from exposurekit.service.accounts import consent
    from exposurekit.service.storage import leases, tables
    from exposurekit.service.webhooks import outbox

    kinds = {"scans": tables.users, "removals": tables.records, "deliveries": tables.deliveries}
    return {
        "people": await consent.counts(work),
        "work": {
            kind: {**await leases.counts(work, table), "oldest_due_at": await leases.oldest_due(work, table)}
            for kind, table in kinds.items()
        },
        "deliveries": await outbox.counts(work),
        "sites": await site_health(work),
    }


async def site_health(work: Any) -> list[dict[str, Any]]:
    """How each site behaved that was ever looked at."""
    from exposurekit.service.sites import statistics

    return [
        {
            "site": one.site,
            "scans": one.scans,
            "inconclusive_scans": one.inconclusive_scans,
            "inconclusive_rate": None if one.inconclusive_rate is None else round(one.inconclusive_rate, 3),
            "untrusted_scans": one.untrusted_scans,
            "last_scan_at": one.last_scan_at,
            "last_good_scan_at": one.last_good_scan_at,
            "last_reason": one.last_reason,
        }
        for one in await statistics.all(work)
        if one.scans
    ]
