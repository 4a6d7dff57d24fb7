"""`exposurekit watch`: collect at intervals, receive webhooks, notify; and show or install a watch."""

import signal
import sys
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, systemd
from exposurekit.cli.history import open_history
from exposurekit.cli.inbox import create_receiver, inbox_options, receiving
from exposurekit.cli.notifications import open_notifier, rules_option
from exposurekit.cli.options import Span, history_option, json_option, local_option, record_key_option
from exposurekit.cli.sections import Group
from exposurekit.errors import ConfigurationError
from exposurekit.text.sanitize import plain

STATUS_FILE = "watch.json"
_STATUS_LINES = {
    "State": "state",
    "Started": "started_at",
    "Next run": "next_run_at",
    "Deliveries ingested": "ingested",
    "Deliveries quarantined": "quarantined",
}


def _watch_options(command: Any) -> Any:
    """The options that a running and an installed watch share."""
    for option in reversed(
        (
            history_option,
            record_key_option,
            click.option("--every", default="6h", type=Span(), help="The time between two collections."),
            click.option(
                "--receive",
                "port",
                metavar="PORT",
                type=click.IntRange(0, 65535),
                help="Also receive webhooks on this port.",
            ),
            inbox_options,
            rules_option,
        )
    ):
        command = option(command)
    return command


@click.group(cls=Group)
def watch() -> None:
    """Collect at intervals, receive webhooks and send notifications."""


@watch.command("run")
@_watch_options
def watch_run(
    *,
    history: str,
    record_key: str | None,
    every: timedelta,
    port: int | None,
    rules: Path | None,
    **inbox: Any,
) -> None:
    """Run the watch until Ctrl-C or SIGTERM.

    The connection comes from EXPOSUREKIT_BASE_URL, _INTEGRATION_NAME, _API_KEY and _API_SECRET, or a .env file. Failures
    are retried, and a restart continues where it stopped. With --receive, users named in a webhook are reloaded
    minutes later; with --rules, notifications are sent.

    Example: exposurekit watch run --every 6h --receive 8787 --rules rules.yaml
    """
    status_file = _status_file(history)
    from exposurekit.exposure import connect
    from exposurekit.monitor.status import WatchStatus
    from exposurekit.monitor.watch import Watch
    from exposurekit.service import log_setup

    with ExitStack() as stack:
        exposure = connect(progress=False)
        opened = stack.enter_context(open_history(history, record_key))
        log_setup.to_stderr()
        notifier = None
        if rules is not None:
            notifier = open_notifier(rules, stack.enter_context(closing(_outbox(status_file))))
        messages, receiver_running = None, None
        if port is not None:
            receiver = create_receiver(history, **inbox)
            messages = stack.enter_context(closing(receiver.messages))
            receiver_running = receiving(receiver, inbox["host"], port)
        running = Watch(opened, exposure, every, WatchStatus(status_file), messages, notifier)
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
def watch_install(
    *,
    history: str,
    record_key: str | None,
    every: timedelta,
    port: int | None,
    rules: Path | None,
    **inbox: Any,
) -> None:
    """Print a systemd unit and a cron line that run this watch.

    It changes nothing on the machine. Secrets are not printed: put them into the file that the unit names.

    Example: exposurekit watch install --every 6h --receive 8787 >exposurekit-watch.txt
    """
    values = {
        "--record-key": record_key,
        "--receive": port,
        "--host": None if port is None else inbox["host"],
        "--inbox": inbox["inbox"] and inbox["inbox"].resolve(),
        "--rules": rules and rules.resolve(),
    }
    options = [word for option, value in values.items() if value is not None for word in (option, str(value))]
    click.echo(systemd.install_instructions(history, every, options))


def _print_status(status: dict[str, Any]) -> None:
    click.echo(f"Problem: {status['problem']}." if status["problem"] else "ok: the watch is running.")
    if status.get("every_s"):
        click.echo(f"Interval: {Span.format(timedelta(seconds=status['every_s']))}")
    for label, name in _STATUS_LINES.items():
        if status.get(name) is not None:
            click.echo(f"{label}: {status[name]}")
    if run := status.get("last_run"):
        click.echo(
            f"Last run: {run['finished_at']}, {run['whole']} users loaded completely, {run['failed']} failed"
        )
    if error := status.get("last_error"):
        click.echo(f"Last error: {error['at']}, {plain(error['reason'])}")


def _outbox(status_file: Path) -> Any:
    from exposurekit.monitor.notifications.outbox import FILE, NotificationOutbox

    return NotificationOutbox(status_file.with_name(FILE))


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
