"""`exposurekit watch`: collect at intervals, receive webhooks, notify; and show or install a watch."""

import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, systemd
from exposurekit.cli.help_groups import Group
from exposurekit.cli.history import open_history
from exposurekit.cli.inbox import create_receiver, inbox_options, receiving
from exposurekit.cli.notifications import open_notifier, rules_option
from exposurekit.cli.options import (
    Span,
    auto_compact_option,
    history_option,
    json_option,
    local_option,
    record_key_option,
)
from exposurekit.errors import APIStatusError, ConfigurationError, InvalidResponse, Unauthorized
from exposurekit.text.sanitize import plain
from exposurekit.text.times import interval

STATUS_FILE = "watch.json"
_STATUS_LINES = {
    "State": "state",
    "Started": "started_at",
    "Next run": "next_run_at",
    "Deliveries ingested": "ingested",
    "Deliveries quarantined": "quarantined",
    "Notifications not sent yet": "unsent_notifications",
}


@dataclass(frozen=True, slots=True)
class _Settings:
    """The options that a running and an installed watch share."""

    history: str
    record_key: str | None
    auto_compact: str
    every: timedelta
    port: int | None
    rules: Path | None
    host: str
    inbox: Path | None
    path_secret: str | None = field(repr=False)
    signing_secrets: tuple[str, ...] = field(repr=False)

    def command_line(self) -> list[str]:
        """Return the options for a unit file, without the history, the interval and the secrets."""
        values = {
            "--record-key": self.record_key,
            "--auto-compact": None if self.auto_compact == "on" else self.auto_compact,
            "--receive": self.port,
            "--host": None if self.port is None else self.host,
            "--inbox": self.inbox and self.inbox.resolve(),
            "--rules": self.rules and self.rules.resolve(),
        }
        return [
            word for option, value in values.items() if value is not None for word in (option, str(value))
        ]


def _watch_options(command: Callable[[_Settings], None]) -> Callable[..., None]:
    @history_option
    @record_key_option
    @auto_compact_option
    @click.option("--every", default="6h", type=Span(), help="The time between two collections.")
    @click.option(
        "--receive",
        "port",
        metavar="PORT",
        type=click.IntRange(0, 65535),
        help="Also receive webhooks on this port.",
    )
    @inbox_options
    @rules_option
    @wraps(command)
    def run(**values: Any) -> None:
        command(_Settings(**values))

    return run


@click.group(cls=Group)
def watch() -> None:
    """Collect at intervals, receive webhooks and send notifications."""


@watch.command("run")
@_watch_options
def watch_run(settings: _Settings) -> None:
    """Run the watch until Ctrl-C or SIGTERM.

    The connection comes from EXPOSUREKIT_BASE_URL, _INTEGRATION_NAME, _API_KEY and _API_SECRET, or a .env file. Failures
    are retried, except when it first connects, and a restart continues where it stopped. With --receive, users named in a
    webhook are reloaded minutes later; with --rules, notifications are sent and weekly reports are written.

    Example: exposurekit watch run --every 6h --receive 8787 --rules rules.yaml
    """
    status_file = _status_file(settings.history)
    from exposurekit.exposure import connect
    from exposurekit.monitor.status import WatchStatus
    from exposurekit.monitor.watch import Watch
    from exposurekit.service import log_setup

    with ExitStack() as stack:
        exposure = connect(progress=False)
        stack.enter_context(exposure.client)  # its connections are closed, however the watch ends
        opened = stack.enter_context(
            open_history(settings.history, settings.record_key, settings.auto_compact)
        )
        log_setup.to_stderr()
        notifier, write_reports = None, None
        if settings.rules is not None:
            from exposurekit.monitor.notifications.outbox import NotificationOutbox, outbox_file
            from exposurekit.reports.weekly import WeeklyReports

            outbox = stack.enter_context(closing(NotificationOutbox(outbox_file(status_file.parent))))
            notifier = open_notifier(settings.rules, outbox)
            write_reports = WeeklyReports(
                notifier.rules, outbox, opened, lambda: connect(client=exposure.client, progress=False)
            ).write_due
        messages, receiver_running = None, None
        if settings.port is not None:
            receiver = create_receiver(
                settings.history,
                inbox=settings.inbox,
                path_secret=settings.path_secret,
                signing_secrets=settings.signing_secrets,
            )
            messages = stack.enter_context(closing(receiver.messages))
            receiver_running = receiving(receiver, settings.host, settings.port)
        if settings.port is None and not status_file.parent.exists():
            _check_connection(exposure.client)
        status = WatchStatus(status_file)
        running = Watch(opened, exposure, settings.every, status, messages, notifier, write_reports)
        _stop_on_signals(running)
        running.run(receiver_running)
    click.echo("Stopped. Everything collected so far is stored.", err=True)


@watch.command("status")
@history_option
@json_option
def watch_status(*, history: str, as_json: bool) -> None:
    """Show the state of the watch; exit with 1 if it has a problem.

    Example: exposurekit watch status --history ./exposure-history
    """
    from exposurekit.monitor.status import read

    status = read(_status_file(history))
    if as_json:
        output.print_json(status)
    else:
        _print_status(status)
    if status["problem"]:
        sys.exit(1)


@watch.command("install")
@_watch_options
def watch_install(settings: _Settings) -> None:
    """Print a systemd unit and a cron line that run this watch.

    It changes nothing on the machine. Secrets are not printed: put them into the file that the unit names.

    Example: exposurekit watch install --every 6h --receive 8787 >exposurekit-watch.txt
    """
    click.echo(systemd.install_instructions(settings.history, settings.every, settings.command_line()))


def _print_status(status: dict[str, Any]) -> None:
    click.echo(f"Problem: {status['problem']}." if status["problem"] else "ok: the watch is running.")
    if status.get("every_s"):
        click.echo(f"Interval: {interval(timedelta(seconds=status['every_s']))}")
    for label, name in _STATUS_LINES.items():
        if status.get(name) is not None:
            click.echo(f"{label}: {status[name]}")
    if run := status.get("last_run"):
        click.echo(
            f"Last run: {run['finished_at']}, {run['whole']} users loaded completely, {run['failed']} failed"
        )
    if error := status.get("last_error"):
        click.echo(f"Last error: {error['at']}, {plain(error['reason'])}")


def _check_connection(client: Any) -> None:
    """Raise the error of a service that cannot be reached or refuses the secret; the watch retries after others."""
    try:
        client.list_users(limit=1)
    except Unauthorized:
        raise
    except (APIStatusError, InvalidResponse):
        pass


def _stop_on_signals(watch: Any) -> None:
    def stop(*_: object) -> None:
        if watch.stop():
            raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _status_file(history: str) -> Path:
    directory = local_option(history)
    if directory is None:
        raise ConfigurationError(
            "--history: a watch needs a directory on this machine, because it keeps its state there"
        )
    return directory / STATUS_FILE
