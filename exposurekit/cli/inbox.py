"""`exposurekit inbox`: receive webhooks, list what waits and what could not be parsed."""

import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import ID, WholeNumber, history_option, json_option, local_option
from exposurekit.cli.output import fields, print_rows
from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.system.atomic_files import write_file
from exposurekit.text.sanitize import plain

_IN_CLEAR = "Other users of this machine can see a command line: prefer the variable or a .env file."


INBOX_FILE = "inbox.db"  # in a history's directory
_inbox_option = click.option(
    "--inbox",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The inbox file. Default: inbox.db in the history's directory.",
)


def inbox_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where the inbox is and who may post to it."""
    for option in (
        click.option(
            "--signing-secret",
            "signing_secrets",
            multiple=True,
            envvar="EXPOSUREKIT_WEBHOOK_SIGNING_SECRET",
            show_envvar=True,
            help="Accept only deliveries signed with this secret (Standard Webhooks). Repeat it while secrets change; in "
            f"the variable separate them by spaces. {_IN_CLEAR}",
        ),
        click.option(
            "--path-secret",
            envvar="EXPOSUREKIT_WEBHOOK_PATH_SECRET",
            show_envvar=True,
            help="The secret path that senders post to: 16 letters or more. Default, without a signing secret: generated "
            f"once and stored beside the inbox. {_IN_CLEAR}",
        ),
        click.option("--host", default="127.0.0.1", help="The address to listen on."),
        _inbox_option,
    ):
        command = option(command)
    return command


@click.group(cls=Group)
def inbox() -> None:
    """Receive webhooks; list received deliveries."""


@inbox.command("run")
@history_option
@click.option("--port", default=8787, type=WholeNumber(0, 65535), help="The port; 0: any free one.")
@inbox_options
def inbox_run(
    *,
    history: str,
    inbox: Path | None,
    host: str,
    port: int,
    path_secret: str | None,
    signing_secrets: tuple[str, ...],
) -> None:
    """Receive webhook deliveries until Ctrl-C or SIGTERM.

    Each delivery is on disk before it is acknowledged, and waits in the inbox until exposurekit watch run adds it to the
    history. Send callbacks to http://HOST:PORT/ followed by the path secret, if there is one. Put a TLS proxy in front
    unless senders are on this machine.

    Example: exposurekit inbox run --history ./exposure-history
    """
    from exposurekit.service import log_setup

    receiver = create_receiver(history, inbox=inbox, path_secret=path_secret, signing_secrets=signing_secrets)
    log_setup.to_stderr()
    with closing(receiver.messages), _signalled() as wait, receiving(receiver, host, port):
        wait()


@inbox.command("list")
@history_option
@_inbox_option
@json_option
def inbox_list(*, history: str, inbox: Path | None, as_json: bool) -> None:
    """List deliveries that wait to be processed.

    Their content is not shown: it is about people.

    Example: exposurekit inbox list --history ./exposure-history
    """
    with closing(_existing_inbox(history, inbox)) as messages:
        rows = [
            fields(message, "number", "received_at", "webhook_id") | {"size": len(message.body)}
            for message in messages.unprocessed()
        ]
    print_rows(rows, as_json=as_json, none="Nothing is waiting.")


@inbox.command("quarantine")
@click.argument("number", required=False, type=ID)
@click.option("--discard", is_flag=True, help="Delete the body of delivery NUMBER.")
@click.option(
    "--retry", is_flag=True, help="Process delivery NUMBER again, such as after an upgrade of exposurekit."
)
@history_option
@_inbox_option
@json_option
def inbox_quarantine(
    *, number: int | None, discard: bool, retry: bool, history: str, inbox: Path | None, as_json: bool
) -> None:
    """List, print, discard or retry unreadable deliveries.

    With NUMBER it prints the body of that delivery, with control characters escaped. It may hold personal data.

    Example: exposurekit inbox quarantine 3 --history ./exposure-history
    """
    if (discard or retry) and (number is None or (discard and retry)):
        raise click.UsageError("use --discard or --retry, with the NUMBER of one delivery")
    with closing(_existing_inbox(history, inbox)) as messages:
        if number is None:
            rows = [asdict(delivery) for delivery in messages.quarantined()]
            print_rows(rows, as_json=as_json, none="Nothing is quarantined.")
        elif number not in {delivery.number for delivery in messages.quarantined()}:
            raise ConfigurationError(
                "no such delivery in quarantine: exposurekit inbox quarantine --history DIR lists those there are, exposurekit "
                "inbox list --history DIR those that wait"
            )
        elif discard:
            messages.discard_quarantined(number)
            click.echo(f"Discarded delivery {number}.")
        elif retry:
            messages.retry_quarantined(number)
            click.echo(f"Delivery {number} waits to be processed again, after those that wait already.")
        else:
            _print_body(messages.body(number) or b"")


@dataclass(slots=True)
class Receiver:
    """The ASGI application of an inbox; opens its file once the server has its port."""

    messages: Any
    path_secret: str | None = field(repr=False)
    signing_secrets: tuple[str, ...] = field(repr=False)
    _path_file: Path | None = None
    _is_new: bool = False
    _app: Any = field(default=None, repr=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one ASGI connection."""
        if scope["type"] == "lifespan":
            try:
                self.open()
            except ExposureError:
                await receive()
                await send({"type": "lifespan.startup.failed"})
                raise
        await self._app(scope, receive, send)

    def check(self) -> None:
        """Validate the secrets before any file is created."""
        if self.path_secret is not None or self.signing_secrets:
            self._create_app()

    def open(self) -> None:
        """Create the inbox, and a secret path if there is no secret."""
        try:
            self.messages.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot create the inbox's directory: {error.strerror}") from None
        self.messages.counts()  # an inbox that cannot be used needs no path
        if self.path_secret is None and not self.signing_secrets:
            self._path_file = self.messages.path.with_suffix(".path")
            self.path_secret, self._is_new = _stored_path(self._path_file)
        self._create_app()

    def address(self, base_url: str) -> str:
        """A sentence that says where to send callbacks."""
        if self._path_file is None:
            path = "/" if self.path_secret is None else ", at the path you configured"
            return f"Webhooks are received at {base_url}{path}"
        # Not at every start: a service manager's log has more readers than the file.
        if self._is_new or sys.stdout.isatty():
            return (
                f"Send callbacks to this address, and treat it like a password: {base_url}/{self.path_secret}"
            )
        return f"Webhooks are received at {base_url} and the path stored in {plain(str(self._path_file))}"

    def _create_app(self) -> None:
        from exposurekit.monitor.webhooks.receiver import create_app

        self._app = create_app(
            self.messages, path_secret=self.path_secret, signing_secrets=self.signing_secrets
        )


def create_receiver(
    history: str, *, inbox: Path | None, path_secret: str | None, signing_secrets: tuple[str, ...]
) -> Receiver:
    """The receiver of a history's inbox; secrets that are not given come from the environment or ``.env``."""
    from exposurekit.client.config import webhook_secrets
    from exposurekit.monitor.webhooks.store import InboxStore

    path, signing = webhook_secrets()
    receiver = Receiver(InboxStore(_file(history, inbox)), path_secret or path, signing_secrets or signing)
    receiver.check()
    return receiver


@contextmanager
def receiving(receiver: Receiver, host: str, port: int) -> Iterator[None]:
    """Receive deliveries while the block runs; prints the address."""
    from exposurekit.monitor.webhooks.receiver import CONNECTIONS_MAX
    from exposurekit.system.asgi_server import running
    from exposurekit.system.connection_limits import Connections, limit_repeats, raise_files_max

    raise_files_max()
    limit_repeats()
    with running(receiver, host, port, connections=Connections(CONNECTIONS_MAX)) as base_url:
        click.echo(receiver.address(base_url))
        yield


@contextmanager
def _signalled() -> Iterator[Callable[[], object]]:
    """Yield a function that waits for Ctrl-C or SIGTERM. A signal before the wait counts; one after it ends the process."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # threads started from now on inherit it

    def wait() -> None:
        signal.sigwait(numbers)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield wait
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _file(history: str, inbox: Path | None) -> Path:
    if inbox is not None:
        return inbox
    directory = local_option(history)
    if directory is None:
        raise ConfigurationError("an inbox must be on a disk of this machine: name its file with --inbox")
    return directory / INBOX_FILE


def _stored_path(file: Path) -> tuple[str, bool]:
    """The generated path of this inbox, and whether it is new; two processes that start together agree on one."""
    from exposurekit.monitor.webhooks.receiver import PATH_SECRET

    path, is_new = "", False
    with suppress(OSError, UnicodeError):
        if not file.exists():
            is_new = write_file(
                file, f"{secrets.token_urlsafe(32)}\n".encode(), overwrite=False, durable=True
            )
        path = file.read_text(encoding="ascii").strip()
    if PATH_SECRET.fullmatch(path):
        return path, is_new
    raise ConfigurationError(
        "the secret path stored beside the inbox is unreadable or damaged: remove its file to generate another, or use "
        "--path-secret"
    )


def _existing_inbox(history: str, inbox: Path | None) -> Any:
    from exposurekit.monitor.webhooks.store import InboxStore

    file = _file(history, inbox)
    if not file.is_file():
        raise ConfigurationError(f"no inbox in {plain(str(file))}: exposurekit inbox run creates one")
    return InboxStore(file)


def _print_body(body: bytes) -> None:
    text = body.decode("utf-8", "backslashreplace")
    escaped = "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode("ascii")
        for one in text
    )
    click.echo(escaped, nl=not escaped.endswith("\n"))
