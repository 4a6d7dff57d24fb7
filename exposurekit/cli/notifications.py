"""`exposurekit notifications`: test the addresses of a rules file."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from exposurekit.cli.help_groups import Group
from exposurekit.cli.history import is_begun, open_history
from exposurekit.cli.options import history_option
from exposurekit.errors import ExposureError
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
@history_option
def notifications_test(*, rules: Path, history: str) -> None:
    """Send a test message to each address; exit with 1 if one failed.

    If there is a history, sites and users of the rules that it never observed are named.

    Example: exposurekit notifications test --rules rules.yaml
    """
    notifier = open_notifier(rules, None)
    if is_begun(history):
        with suppress(ExposureError), open_history(history) as opened:
            warn_of_unknown_choices(notifier.rules, opened)
    failures = notifier.send_test()
    for address, reason in failures.items():
        click.echo(f"{plain(address)}: {f'failed: {reason}' if reason else 'sent'}")
    if any(failures.values()):
        sys.exit(1)


def warn_of_unknown_choices(rules: Any, history: Any) -> None:
    """Warn of sites and users in the rules that the history never observed."""
    from exposurekit.monitor.notifications.evaluate import unknown_choices

    for problem in unknown_choices(rules, history):
        click.echo(f"Warning: {problem}", err=True)


def open_notifier(rules_file: Path, outbox: Any) -> Any:
    """A notifier for the rules of a file, which are checked with their addresses."""
    from exposurekit.monitor.notifications import notifier
    from exposurekit.monitor.notifications.rules import load_rules

    rules = load_rules(rules_file)
    notifier.check_addresses(rules)
    return notifier.Notifier(rules, outbox)
