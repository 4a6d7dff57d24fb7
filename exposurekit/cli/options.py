"""The options that several commands share, under one name and with one meaning. Reads nothing but the command line."""

import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.service.constants import PERSON_NAME_MAX
from exposurekit.text.sanitize import plain

ID_MAX = 2**63 - 1
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def user_option(text: str) -> str:
    """The type of somebody who answers for something: a name or a role, without the blanks around it."""
    bare = text.strip()
    if not 1 <= len(bare) <= PERSON_NAME_MAX or not bare.isprintable():
        raise click.BadParameter(f"a name or a role has 1 to {PERSON_NAME_MAX} letters")
    return bare


class IdType(click.ParamType[int]):
    """The id of a person, a candidate or the like: a whole number from 1."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, if it is one."""
        number: int = click.IntRange(1, ID_MAX).convert(value, param, ctx)
        return number


ID = IdType()

database_option = click.option(
    "--database",
    default="sqlite:///service.db",
    show_default=True,
    envvar="EXPOSUREKIT_DATABASE",
    show_envvar=True,
    help="The service's database: sqlite:///FILE, or postgresql+psycopg:// and its address.",
)
key_option = click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="EXPOSUREKIT_SERVICE_KEY_FILE",
    show_envvar=True,
    help="The key that encrypts personal data; created at first use. Default: exposurekit/service.key in the "
    "configuration directory. Keep a copy: without it the data cannot be read.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
sites_option = click.option(
    "--sites",
    "sites_directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="EXPOSUREKIT_SITES",
    show_envvar=True,
    help="The directory of the site definitions, one YAML file each. Default: exposurekit/sites in the "
    "configuration directory, where there is one; else no sites.",
)
search_engine_option = click.option(
    "--search-engine",
    metavar="URL",
    envvar="EXPOSUREKIT_SEARCH_ENGINE",
    show_envvar=True,
    help="The search address of a SearXNG that answers JSON, such as http://127.0.0.1:8888/search. Without it no "
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
    "separate them by blanks in the variable.",
)
limit_option = click.option(
    "--limit", default=100, type=click.IntRange(1, 100_000), help="The largest number of rows."
)
by_option = click.option(
    "--by", "who", metavar="WHO", type=user_option, required=True, help="Who decided: a name or a role."
)


def on_a_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty()


def local_option(history: str) -> Path | None:
    """The directory of a history on this machine; None: it is none."""
    if "://" in history:
        return None
    with suppress(RuntimeError):
        return Path(history).expanduser()
    raise ConfigurationError("--history begins with ~ and somebody's name: there is nobody of it")


class Span(click.ParamType[timedelta]):
    """How long: a number and its unit, such as 90s, 30m, 6h or 1d."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """A positive span of time."""
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)([smhd])", str(value).strip())
        seconds = float(found[1]) * _SECONDS[found[2]] if found else 0
        if seconds < 1:
            self.fail("a span of time is a number and its unit, such as 90s, 30m, 6h or 1d", param, ctx)
        return timedelta(seconds=seconds)

    @staticmethod
    def format(span: timedelta) -> str:
        """A duration as the option takes it, in the largest unit that fits.

        >>> from exposurekit.cli.options import Span
        >>> Span.format(timedelta(hours=6)), Span.format(timedelta(minutes=90))
        ('6h', '90m')
        """
        seconds = span.total_seconds()
        unit = next(unit for unit in "dhms" if seconds % _SECONDS[unit] == 0 or unit == "s")
        return f"{seconds / _SECONDS[unit]:g}{unit}"


class When(click.ParamType[str]):
    """A time, as a history takes it: 14d, 36h, yesterday, a day or an instant."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself, if it is one."""
        from exposurekit.history.times import parse_time

        try:
            parse_time(value, now=datetime.now(UTC))
        except InvalidArgument as error:
            self.fail(str(error), param, ctx)
        return str(value)


record_key_option = click.option(
    "--record-key",
    type=click.Choice(("id", "reference")),
    help="What identifies a record: its id; or its site and reference_id, for a service that gives a listing another id at "
    "each scan. Default: as the history was created; id for a new one.",
)
history_option = click.option(
    "--history",
    metavar="DIR",
    default="exposure-history",
    show_default=True,
    envvar="EXPOSUREKIT_HISTORY",
    show_envvar=True,
    help="The directory of the history, or an s3:// address; collect, watch and receive create it.",
)


def check_writable(out: Path) -> None:
    """Say so before any work is done, where a file cannot be written.

    Raises:
        ConfigurationError: It cannot.
    """
    try:
        is_directory = out.is_dir()
    except OSError as error:
        raise ConfigurationError(f"--out: {error.strerror}") from None
    if is_directory or not out.name:
        raise ConfigurationError(f"--out: {plain(out)} is a directory, and a file is wanted")
    if not out.parent.is_dir():
        raise ConfigurationError(f"--out: there is no directory {plain(out.parent)}")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ConfigurationError(f"--out: {plain(out)} cannot be written")
