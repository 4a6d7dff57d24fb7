"""`exposurekit notifications`: test the addresses of a rules file."""

import sys
from pathlib import Path
from typing import Any

import click

from exposurekit.cli.help_groups import Group
from exposurekit.text.sanitize import plain

_RULES_TYPE: Any = click.Path(path_type=Path, dir_okay=False)
rules_option = click.option(
    "--rules",
    metavar="FILE",
    type=_RULES_TYPE,
    help="Notification rules: a YAML file that only its owner may read (exposurekit/monitor/README.md has an example).",
)


@click.group(cls=Group)
def notifications() -> None:
    """Test notifications."""


@notifications.command("test")
@click.option(
    "--rules", metavar="FILE", required=True, type=_RULES_TYPE, help="The rules whose addresses are tested."
)
def notifications_test(*, rules: Path) -> None:
    """Send a test message to each address; exit with 1 if one failed.

    Example: exposurekit notifications test --rules rules.yaml
    """
    failures = open_notifier(rules, None).send_test()
    for address, reason in failures.items():
        click.echo(f"{plain(address)}: {f'failed: {reason}' if reason else 'sent'}")
    if any(failures.values()):
        sys.exit(1)


def open_notifier(rules_file: Path, outbox: Any) -> Any:
    """A notifier for the rules of a file, which are checked with their addresses."""
    from exposurekit.monitor.notifications import notifier
    from exposurekit.monitor.notifications.rules import load_rules

    rules = load_rules(rules_file)
    notifier.check_addresses(rules)
    return notifier.Notifier(rules, outbox)
