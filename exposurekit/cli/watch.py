"""`exposurekit watch`: collect at intervals, receive webhooks, notify; and show or install a watch."""

import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, systemd
from exposurekit.cli.help_groups import Group
from exposurekit.cli.history import open_history
from exposurekit.cli.inbox import INBOX_FILE, create_receiver, inbox_options, receiving
from exposurekit.cli.notifications import open_notifier, rules_option, warn_of_unknown_choices
from exposurekit.cli.options import (
    Span,
    WholeNumber,
    auto_compact_option,
    history_option,
    json_option,
    local_option,
    record_key_option,
)
from exposurekit.errors import (
    APIStatusError,
    ConfigurationError,
    ExposureError,
    InvalidResponse,
    NotFound,
    Unauthorized,
)
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain
from exposurekit.text.times import format_time, interval

STATUS_FILE = "watch.json"
_STATUS_LINES = {
    "State": "state",
    "Started": "started_at",
    "Next run": "next_run_at",
    "Deliveries ingested": "ingested",
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

    def collect_options(self) -> list[str]:
        """Return the options that `collect` takes, too, without the history."""
        auto_compact = None if self.auto_compact == "on" else self.auto_compact
        return _words({"--record-key": self.record_key, "--auto-compact": auto_compact})

    def watch_options(self) -> list[str]:
        """Return the other options for a unit file, without the interval and the secrets."""
        values = {
            "--receive": self.port,
            "--host": None if self.port is None else self.host,
            "--inbox": self.inbox and self.inbox.resolve(),
            "--rules": self.rules and self.rules.resolve(),
        }
        return _words(values)


def _words(values: dict[str, Any]) -> list[str]:
    return [word for option, value in values.items() if value is not None for word in (option, str(value))]


def _watch_options(command: Callable[[_Settings], None]) -> Callable[..., None]:
    @history_option
    @record_key_option
    @auto_compact_option
    @click.option("--every", default="6h", type=Span(), help="The time between two collections.")
    @click.option(
        "--receive",
        "port",
        metavar="PORT",
        type=WholeNumber(0, 65535),
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
    are retried, except when it first connects, or if the history is of another service. A restart continues where the
    watch stopped. With --receive, users named in a webhook are reloaded minutes later; with --rules, notifications are
    sent and weekly reports are written.

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
            warn_of_unknown_choices(notifier.rules, opened)
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

    file = _status_file(history)
    try:
        status = read(file)
    except NotFound:
        raise NotFound(
            f"No watch was started with this history, {plain(history)}: exposurekit watch run starts one"
        ) from None
    status |= _stored_counts(file.parent, status)
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

    It changes nothing on the machine. Cron collects only, and at intervals that divide an hour or a day. Secrets are not
    printed: put them into the file that the unit names.

    Example: exposurekit watch install --every 6h --receive 8787 >exposurekit-watch.txt
    """
    if settings.rules is not None and not settings.rules.is_file():
        raise ConfigurationError(f"--rules: no such file: {plain(settings.rules)}")
    click.echo(
        systemd.install_instructions(
            settings.history, settings.every, settings.collect_options(), settings.watch_options()
        )
    )


def _stored_counts(directory: Path, status: dict[str, Any]) -> dict[str, Any]:
    """Count what the watch's inbox and the outbox have; without an inbox of its own, the one in the directory.

    What a running watch says of its notifications stays, because it has the reasons to it.
    """
    from exposurekit.monitor.notifications.outbox import NotificationOutbox, outbox_file
    from exposurekit.monitor.webhooks.store import InboxStore

    counts: dict[str, Any] = {}
    inbox, outbox = Path(status.get("inbox_file") or directory / INBOX_FILE), outbox_file(directory)
    if inbox.is_file():
        with suppress(ExposureError), closing(InboxStore(inbox)) as messages:
            counts["inbox"] = asdict(messages.counts())
    if outbox.is_file() and not (status["alive"] and "unsent_reasons" in status):
        with suppress(ExposureError), closing(NotificationOutbox(outbox)) as notifications:
            counts["unsent_notifications"] = notifications.waiting()
    return counts


def _print_status(status: dict[str, Any]) -> None:
    inbox = status.get("inbox") or {}
    quarantined = inbox.get("quarantined", 0)
    advice = f" {pluralize(quarantined, 'delivery', 'deliveries')} in quarantine: exposurekit inbox quarantine --history DIR lists them."
    head = f"Problem: {status['problem']}." if status["problem"] else "ok: the watch is running."
    click.echo(f"{head}{advice if quarantined else ''}")
    if status.get("every_s"):
        click.echo(f"Interval: {interval(timedelta(seconds=status['every_s']))}")
    for label, name in _STATUS_LINES.items():
        if (value := status.get(name)) is not None:
            click.echo(f"{label}: {_minute(value) if name.endswith('_at') else value}")
    for name in ("waiting", "quarantined") if inbox else ():
        click.echo(f"Deliveries {name}: {inbox[name]}")
    if unsent := status.get("unsent_notifications"):
        click.echo(f"Notifications not sent yet: {unsent}{_why_unsent(status)}")
    for label, name in {"Last run": "last_run", "Last reload after a webhook": "last_reload"}.items():
        if run := status.get(name):
            whole = pluralize(run["whole"], "user")
            click.echo(
                f"{label}: {_minute(run['finished_at'])}, {whole} loaded completely, {run['failed']} failed"
            )
    if error := status.get("last_error"):
        click.echo(f"Last error: {_minute(error['at'])}, {plain(error['reason'])}")


def _why_unsent(status: dict[str, Any]) -> str:
    """Why notifications wait, and until when, in brackets."""
    if not status["alive"]:
        return ""
    if status.get("sends") is False:
        return " (this watch sends none: it runs without --rules)"
    reasons = "; ".join(
        f"{count}: {plain(reason)}" for reason, count in status.get("unsent_reasons", {}).items()
    )
    return f" ({reasons})" if reasons else ""


def _minute(at: str) -> str:
    return format_time(datetime.fromisoformat(at))


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
