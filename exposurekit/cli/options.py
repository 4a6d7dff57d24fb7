"""Options and parameter types that several commands share."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.system.paths import HISTORY_VARIABLE
from exposurekit.text.sanitize import plain
from exposurekit.text.times import UNITS

ID_MAX = 2**63 - 1


def parse_name(text: str) -> str:
    """Parse a name or role, without surrounding spaces."""
    from exposurekit.service.accounts.integrators import PERSON_NAME_MAX

    name = text.strip()
    if not 1 <= len(name) <= PERSON_NAME_MAX or not name.isprintable():
        raise click.BadParameter(
            f"a name or a role has 1 to {PERSON_NAME_MAX} printable characters, in UTF-8"
        )
    return name


class WholeNumber(click.IntRange):
    """A whole number within bounds, which errors and the help state in words."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        with suppress(click.BadParameter):
            return super().convert(value, param, ctx)
        return self.fail(f"{plain(value)!r} is not a whole number {self._describe_range()}", param, ctx)

    def _describe_range(self) -> str:
        return f"from {self.min:,} to {self.max:,}"


class IdType(click.ParamType[int]):
    """An id of a person, candidate and so on: a whole number from 1."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the number."""
        with suppress(click.BadParameter):
            return WholeNumber(1, ID_MAX).convert(value, param, ctx)
        return self.fail(
            f"{plain(value)!r} is not an id: pass a whole number, as the list commands print it", param, ctx
        )


ID = IdType()

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
sites_option = click.option(
    "--sites",
    "sites_directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="EXPOSUREKIT_SITES",
    show_envvar=True,
    help="The directory of the site definitions, one YAML file each. Default: exposurekit/sites in the "
    "configuration directory, if it exists; else no sites.",
)
mail_option = click.option(
    "--mail",
    "mail_file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False, resolve_path=True),
    envvar="EXPOSUREKIT_MAIL",
    show_envvar=True,
    help="The settings of the mailbox for messages of sites. Default: exposurekit/mail.yaml in the configuration "
    "directory, if it exists; else no mailbox.",
)
search_engine_option = click.option(
    "--search-engine",
    metavar="URL",
    envvar="EXPOSUREKIT_SEARCH_ENGINE",
    show_envvar=True,
    help="The search URL of a SearXNG with JSON output, such as http://127.0.0.1:8888/search. Without it no "
    "links are found.",
)
callback_network_option = click.option(
    "--callback-network",
    "callback_networks",
    metavar="CIDR",
    multiple=True,
    envvar="EXPOSUREKIT_CALLBACK_NETWORKS",
    show_envvar=True,
    help="Allow callbacks into this network though it is not public, such as 10.0.0.0/8; repeat for several, or "
    "separate them by spaces in the variable.",
)
site_network_option = click.option(
    "--site-network",
    "site_networks",
    metavar="CIDR",
    multiple=True,
    envvar="EXPOSUREKIT_SITE_NETWORKS",
    show_envvar=True,
    help="Allow requests to defined sites in this network though it is not public, such as 127.0.0.0/8: for sites in a test "
    "network; repeat for several, or separate them by spaces in the variable.",
)
limit_option = click.option(
    "--limit", default=100, type=WholeNumber(1, 100_000), help="The maximum number of rows."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
by_option = click.option(
    "--by", "who", metavar="WHO", type=parse_name, required=True, help="Who decided: a name or a role."
)


def on_a_terminal() -> bool:
    """Whether the command can prompt."""
    return sys.stdin.isatty()


def confirm_deletion(question: str) -> None:
    """Ask before something is deleted; raises an exception unless the answer is yes."""
    if not on_a_terminal():
        raise click.UsageError("cannot prompt for confirmation here: use --yes")
    if not click.confirm(question, err=True):
        raise click.ClickException("nothing was deleted")


def local_option(history: str) -> Path | None:
    """Return the directory of a history on this machine; None: the history is elsewhere."""
    if "://" in history:
        return None
    with suppress(RuntimeError):
        return Path(history).expanduser()
    raise ConfigurationError(f"--history: no such user in path '{plain(history)}'")


class Span(click.ParamType[timedelta]):
    """A duration: a number and its unit, such as 90s, 30m, 6h or 1d."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Parse a positive duration."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhd])", str(value).strip())
        seconds = float(match[1]) * UNITS[match[2]] if match else 0
        if seconds < 1:
            self.fail("use a number and its unit, such as 90s, 30m, 6h or 1d", param, ctx)
        return timedelta(seconds=seconds)


class When(click.ParamType[str]):
    """A time: 14d, 3mo, 36h, yesterday, a date or a timestamp."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text and return it."""
        from exposurekit.text.times import parse_time

        try:
            parse_time(value, now=datetime.now(UTC))
        except InvalidArgument as error:
            self.fail(str(error), param, ctx)
        return str(value)


def since_option(text: str) -> Callable[[Any], Any]:
    """Return the --since option with a command's own help."""
    return click.option("--since", type=When(), help=text)


record_key_option = click.option(
    "--record-key",
    type=click.Choice(("id", "reference")),
    help="What identifies a record: its id; or its site and reference_id, for a service that gives a listing another id at "
    "each scan. Default: as the history was created; id for a new one.",
)
auto_compact_option = click.option(
    "--auto-compact",
    type=click.Choice(("on", "off")),
    default="on",
    show_default=True,
    help="Whether runs merge small files and delete old ones. If off, call exposurekit history compact now and then.",
)
history_option = click.option(
    "--history",
    metavar="DIR",
    default="exposure-history",
    show_default=True,
    envvar=HISTORY_VARIABLE,
    show_envvar=True,
    help="The directory of the history, or an s3:// address; collect, watch run and inbox run create it.",
)


def check_one_kind(user: int | None, since: str | None) -> None:
    """Check that a report is on one person or on what changed, not both."""
    if user is not None and since is not None:
        raise click.UsageError("use --user (one person) or --since (everyone), not both")


def check_writable(out: Path) -> None:
    """Check, before any work is done, that a file can be written."""
    try:
        is_directory = out.is_dir()
    except OSError as error:
        raise ConfigurationError(f"--out: {error.strerror}") from None
    if is_directory or not out.name:
        raise ConfigurationError(f"--out: {plain(out)} is a directory: name a file")
    if not out.parent.is_dir():
        raise ConfigurationError(f"--out: no such directory: {plain(out.parent)}")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ConfigurationError(f"--out: {plain(out)} cannot be written")
