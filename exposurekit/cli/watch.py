"""A watch from a shell: looks on a clock, takes webhooks in, and tells how it is doing. Ends in peace on a signal."""

import signal
import sys
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, systemd
from exposurekit.cli.history import open_history
from exposurekit.cli.options import Span, history_option, json_option, local_option, records_by_option
from exposurekit.cli.receive import create_receiver, inbox_options, receiving
from exposurekit.errors import ConfigurationError
from exposurekit.text.sanitize import plain

STATE = "watch.json"


@click.command()
@history_option
@records_by_option
@click.option("--every", default="6h", type=Span(), help="The time between two collections.")
@click.option(
    "--receive",
    "port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Also receive webhooks on this port.",
)
@inbox_options
@click.option(
    "--rules",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Notification rules: a YAML file readable by its owner alone. The README has an example.",
)
@click.option("--send-test", is_flag=True, help="Send a test message to each address of --rules, and exit.")
@click.option("--install-help", is_flag=True, help="Print a unit for systemd and a line for cron.")
@click.option(
    "--status", is_flag=True, help="Show the state of the watch, and exit: with 1 if it has a problem."
)
@json_option
def watch(
    *,
    history: str,
    records_by: str | None,
    every: timedelta,
    port: int | None,
    rules: Path | None,
    send_test: bool,
    install_help: bool,
    status: bool,
    as_json: bool,
    **inbox: Any,
) -> None:
    """Collect at intervals, receive webhooks and send notifications.

    Runs until Ctrl-C or SIGTERM. The connection comes from EXPOSUREKIT_BASE_URL, _INTEGRATION_NAME, _API_KEY and
    _API_SECRET, or a .env file. Failures are retried, and a restart continues where it stopped. With --receive, people
    named in a webhook are loaded minutes later; with --rules, notifications are sent.

    Example: exposurekit watch --every 6h --receive 8787 --rules rules.yaml
    """
    if install_help:
        click.echo(
            systemd.install_instructions(history, every, _receiver_beside(records_by, port, rules, inbox))
        )
        return
    if send_test:
        _test(rules)
        return
    place = _state_of(history)
    if status:
        _notify(place, as_json=as_json)
        return
    from exposurekit.exposure import connect
    from exposurekit.monitor.status import WatchStatus
    from exposurekit.monitor.watch import Watch
    from exposurekit.service import log_setup

    with ExitStack() as stack:
        exposure = connect(progress=False)
        kept = stack.enter_context(open_history(history, records_by))
        log_setup.to_stderr()
        teller = None if rules is None else _notifier(rules, stack.enter_context(closing(_outbox(place))))
        letters, beside = None, None
        if port is not None:
            door = create_receiver(history, **inbox)
            letters = stack.enter_context(closing(door.letters))
            beside = receiving(door, inbox["host"], port)
        made = Watch(kept, exposure, every, WatchStatus(place), letters, teller)
        _stop_on_signals(made)
        made.run(beside)
    click.echo("Stopped; what was seen is kept.", err=True)


def _receiver_beside(
    records_by: str | None, port: int | None, rules: Path | None, inbox: dict[str, Any]
) -> list[str]:
    """What a watch that is installed is told besides; no secret: these are for its environment."""
    given = {
        "--records-by": records_by,
        "--receive": port,
        "--host": None if port is None else inbox["host"],
        "--inbox": inbox["inbox"] and inbox["inbox"].resolve(),
        "--rules": rules and rules.resolve(),
    }
    return [word for option, value in given.items() if value is not None for word in (option, str(value))]


def _outbox(place: Path) -> Any:
    from exposurekit.monitor.notifications.outbox import FILE, NotificationOutbox

    return NotificationOutbox(place.with_name(FILE))


def _notifier(rules: Path, notices: Any) -> Any:
    from exposurekit.monitor.notifications import notifier
    from exposurekit.monitor.notifications.rules import of_file

    wanted = of_file(rules)
    notifier.check(wanted)
    return notifier.Notifier(wanted, notices)


def _test(rules: Path | None) -> None:
    if rules is None:
        raise ConfigurationError(
            "--send-test sends to the addresses of a file of rules: give it, --rules FILE"
        )
    refused = _notifier(rules, None).test()
    for target, why in refused.items():
        click.echo(f"{plain(target)}: {f'could not be told: {why}' if why else 'told'}")
    if any(refused.values()):
        sys.exit(1)


def _stop_on_signals(watch: Any) -> None:
    def told(*_: object) -> None:
        if watch.stop():
            raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, told)


def _state_of(history: str) -> Path:
    directory = local_option(history)
    if directory is None:
        raise ConfigurationError(
            "a watch tells its state in a directory of this machine: keep its history in one"
        )
    return directory / STATE


def _notify(place: Path, *, as_json: bool) -> None:
    from exposurekit.monitor.status import read

    told = read(place)
    if as_json:
        output.print_json(told)
    else:
        click.echo(f"The watch is {'well' if not told['problem'] else 'not well: ' + told['problem']}.")
        if told.get("every_s"):
            click.echo(f"  every: {Span.told(timedelta(seconds=told['every_s']))}")
        for name in ("state", "started_at", "next_look_at", "taken_in", "quarantined"):
            if told.get(name) is not None:
                click.echo(f"  {name.replace('_', ' ')}: {told[name]}")
        if run := told.get("last_run"):
            click.echo(
                f"  last look: {run['finished_at']}, {run['whole']} people seen well, {run['failed']} failed"
            )
        if error := told.get("last_error"):
            click.echo(f"  last error: {error['at']}, {plain(error['reason'])}")
    if told["problem"]:
        sys.exit(1)
