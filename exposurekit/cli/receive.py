"""The webhook inbox as a process, and a look at what it could not read. Ends in peace on a signal."""

import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from exposurekit.cli.options import history_option, json_option, local_option
from exposurekit.cli.output import print_rows
from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.text.sanitize import plain

_IN_CLEAR = (
    "Whoever may list this machine's processes sees a command line: rather set the variable, or a .env file."
)


def inbox_options(command: Any) -> Any:
    """What says where an inbox lies, and whom it lets in."""
    for option in reversed(_INBOX_OPTIONS):
        command = option(command)
    return command


_INBOX_OPTIONS = (
    click.option(
        "--inbox",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The inbox, where it is not inbox.db of the history: for one that is no directory of this machine.",
    ),
    click.option("--host", default="127.0.0.1", help="The address to listen on."),
    click.option(
        "--path-secret",
        envvar="EXPOSUREKIT_WEBHOOK_PATH_SECRET",
        show_envvar=True,
        help="The path that senders post to, which nobody can guess: 16 letters or more. Default, where there is no "
        f"signing secret either: made once, and kept beside the inbox. {_IN_CLEAR}",
    ),
    click.option(
        "--signing-secret",
        "signing_secrets",
        multiple=True,
        envvar="EXPOSUREKIT_WEBHOOK_SIGNING_SECRET",
        show_envvar=True,
        help="Take only what is signed with it after Standard Webhooks; several times while one takes the other's "
        f"place, in the variable separated by blanks. {_IN_CLEAR}",
    ),
)


@click.command()
@history_option
@click.option("--port", default=8787, type=click.IntRange(0, 65535), help="The port; 0: any free one.")
@inbox_options
@click.option("--quarantined", is_flag=True, help="List the deliveries that could not be read, and exit.")
@click.option(
    "--show",
    metavar="NUMBER",
    type=click.IntRange(1, 2**63 - 1),
    help="Print the body of one of them, with control characters escaped, and exit.",
)
@json_option
def receive(
    *,
    history: str,
    inbox: Path | None,
    host: str,
    port: int,
    path_secret: str | None,
    signing_secrets: tuple[str, ...],
    quarantined: bool,
    show: int | None,
    as_json: bool,
) -> None:
    """Receive webhook deliveries into the inbox of a history.

    Runs until Ctrl-C or SIGTERM. Each delivery is on disk before it is acknowledged.

    They wait in the inbox until the history takes them in: exposurekit watch does. Callbacks go to http://HOST:PORT/
    and the path secret, or to / alone where there is none; a proxy with TLS stands in front of anything but loopback.

    Example: exposurekit receive --history ./history
    """
    if quarantined or show is not None:
        _poll(_file(history, inbox), show, as_json=as_json)
        return
    from exposurekit.service import log_setup

    door = create_receiver(history, inbox=inbox, path_secret=path_secret, signing_secrets=signing_secrets)
    log_setup.to_stderr()
    with closing(door.letters), _signalled() as wait, receiving(door, host, port):
        wait()


@dataclass(slots=True)
class Receiver:
    """The application of an inbox, as `serving` takes it.

    It opens when its server has the port: before that no path is made for senders, and none is told.
    """

    letters: Any
    path_secret: str | None = field(repr=False)
    signing_secrets: tuple[str, ...] = field(repr=False)
    _kept_in: Path | None = None
    _is_new: bool = False
    _app: Any = field(default=None, repr=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As ASGI has it."""
        if scope["type"] == "lifespan":
            try:
                self.open()
            except ExposureError:
                await receive()
                await send({"type": "lifespan.startup.failed"})
                raise
        await self._app(scope, receive, send)

    def check(self) -> None:
        """Whether what was given is a secret, before anything is made."""
        if self.path_secret is not None or self.signing_secrets:
            self._make()

    def open(self) -> None:
        """Make the inbox, and a path for senders where no secret was given."""
        _make_directory(self.letters.path.parent)
        self.letters.counts()  # an inbox that cannot be used needs no path
        if self.path_secret is None and not self.signing_secrets:
            self._kept_in = self.letters.path.with_suffix(".path")
            self.path_secret, self._is_new = _kept_path(self._kept_in)
        self._make()

    def told(self, base_url: str) -> str:
        """Where callbacks are to be sent, or where that is kept."""
        if self._kept_in is None:
            given = "/" if self.path_secret is None else ", at the path that was given"
            return f"Webhooks are received at {base_url}{given}"
        # Not at each start: what a service manager reads here it keeps, for more people than the file has readers.
        if self._is_new or sys.stdout.isatty():
            return f"Have callbacks sent to this address, which is as secret as a password: {base_url}/{self.path_secret}"
        return f"Webhooks are received at {base_url} and the path that is kept in {plain(str(self._kept_in))}"

    def _make(self) -> None:
        from exposurekit.monitor.webhooks.receiver import create_app

        self._app = create_app(
            self.letters, path_secret=self.path_secret, signing_secrets=self.signing_secrets
        )


def create_receiver(
    history: str,
    *,
    inbox: Path | None,
    path_secret: str | None,
    signing_secrets: tuple[str, ...],
    **_: Any,
) -> Receiver:
    """The inbox of a history, and who is let in; what is not given comes from a ``.env`` file, where it has it."""
    from exposurekit.client.environment import webhook_secrets
    from exposurekit.monitor.webhooks.store import InboxStore

    path, signing = webhook_secrets()
    door = Receiver(InboxStore(_file(history, inbox)), path_secret or path, signing_secrets or signing)
    door.check()
    return door


@contextmanager
def receiving(door: Receiver, host: str, port: int) -> Iterator[None]:
    """Take deliveries in, for as long as the block lasts; says where."""
    from exposurekit.monitor.webhooks.receiver import CONNECTIONS_MAX
    from exposurekit.system.asgi_server import running

    with running(door, host, port, connections_max=CONNECTIONS_MAX) as base_url:
        click.echo(door.told(base_url))
        yield


@contextmanager
def _signalled() -> Iterator[Callable[[], object]]:
    """What waits for Ctrl-C or SIGTERM; one that comes before the waiting counts, one that comes after ends at once."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # of threads that begin from now on, too

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
        raise ConfigurationError("an inbox lies on a disk of this machine: name its file with --inbox")
    return directory / "inbox.db"


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        problem = error.strerror
    else:
        return
    raise ConfigurationError(f"the inbox's directory cannot be made: {problem}")


def _kept_path(file: Path) -> tuple[str, bool]:
    """The path made for this inbox, the same after a restart, and whether it was made now.

    Two processes that begin at once agree on one.
    """
    from exposurekit.monitor.webhooks.receiver import PATH_SECRET

    path, is_new = "", False
    with suppress(OSError, UnicodeError):
        if not file.exists():
            is_new = _write_once(file, secrets.token_urlsafe(32))
        path = file.read_text(encoding="ascii").strip()
    if PATH_SECRET.fullmatch(path):
        return path, is_new
    raise ConfigurationError(
        "the path kept beside the inbox cannot be read or written, or is spoiled: remove its file, for another "
        "path, or give --path-secret"
    )


def _write_once(file: Path, text: str) -> bool:
    """Whole or not at all, and never over another; whether it is this text that is there."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(f"{text}\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(draft, file)
    except FileExistsError:
        return False
    else:
        return True
    finally:
        draft.unlink(missing_ok=True)


def _poll(file: Path, number: int | None, *, as_json: bool) -> None:
    from exposurekit.monitor.webhooks.store import InboxStore

    if not file.is_file():
        raise ConfigurationError("there is no such inbox yet: exposurekit receive makes one")
    letters = InboxStore(file)
    try:
        if number is None:
            rows = [asdict(one) for one in letters.quarantined()]
            print_rows(rows, as_json=as_json, none="Nothing is quarantined.")
        else:
            _print_delivery(letters.body(number))
    finally:
        letters.close()


def _print_delivery(body: bytes | None) -> None:
    if body is None:
        raise ConfigurationError(
            "there is no such letter: it never came, or was taken in or erased; --quarantined lists those set apart"
        )
    text = body.decode("utf-8", "backslashreplace")
    shown = "".join(one if one.isprintable() or one in "\n\t" else _escaped(one) for one in text)
    click.echo(shown, nl=not shown.endswith("\n"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
