"""The same verbs from a shell. Decides nothing that a notebook could not; prints no traceback unless asked."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from exposurekit import __version__
from exposurekit.errors import NEEDS_SERVICE, ExposureError, Misconfigured
from exposurekit.markup import plain

T = TypeVar("T")

SERVICE_PACKAGES = ("starlette", "uvicorn", "sqlalchemy", "cryptography", "python_multipart")
TABLES = ("users", "records", "links", "alerts", "steps")

database_option = click.option(
    "--database",
    default="sqlite:///service.db",
    show_default=True,
    envvar="EXPOSUREKIT_DATABASE",
    show_envvar=True,
    help="Where the service keeps everything: sqlite:///FILE or postgresql+psycopg://...",
)
key_option = click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="EXPOSUREKIT_SERVICE_KEY_FILE",
    show_envvar=True,
    help="The key that seals personal data; made at first use. Default: exposurekit/service.key in the "
    "configuration directory. Keep a copy: without it the data cannot be read.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of prose.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="exposurekit")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; stands before the command.")
def cli(*, debug: bool) -> None:
    """See where people's data is exposed, and work it down.

    Exit codes: 0 done, 1 an error that the message explains, 2 a wrong call, 130 stopped by Ctrl-C.
    """


@cli.command()
@click.option("--people", default=25, type=click.IntRange(0, 5000), help="How many people to invent.")
@click.option("--seed", default=7, help="The same seed gives the same people and listings.")
@click.option(
    "--out",
    default="exposure.html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The page to write.",
)
@click.option("--serve", is_flag=True, help="Leave the service running until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="End with one line of JSON: the connection, and what was made."
)
def demo(*, people: int, seed: int, out: Path, serve: bool, as_json: bool) -> None:
    """A whole service with invented people, looked at as an analyst would. Needs no account.

    Starts the service on loopback, registers PEOPLE, loads them through the client into tables, prints those,
    and writes a page with the chart of exposure by site.
    """
    from exposurekit.demonstration import demo as running_demo

    _check_writable(out)
    with running_demo(people, seed=seed) as shown:
        click.echo(
            f"A service runs at {shown.connection['base_url']}: {people} invented people are registered."
        )
        _print_tables(shown.exposure)
        _write_page(shown.exposure, out)
        click.echo(f"\nWrote {out}: exposure by site and status. Open it in any browser.")
        if serve:
            click.echo("\nConnect from a notebook, while this runs:\n\n    import exposurekit as ek")
            click.echo(f"    exposure = ek.connect({_arguments(shown.connection)})\n")
        else:
            click.echo(
                "Next: exposurekit demo --serve leaves the service running and prints how to connect to it."
            )
        if as_json:
            click.echo(json.dumps({**shown.connection, "people": people, "out": str(out)}))
        if serve:
            click.echo("Ctrl-C ends it.", err=True)
            _until_told()


@cli.command()
@database_option
@key_option
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option("--port", default=8642, type=click.IntRange(0, 65535), help="The port; 0: any that is free.")
def serve(*, database: str, key_file: Path | None, host: str, port: int) -> None:
    """Run the service, until Ctrl-C or SIGTERM.

    Register an integrator first: exposurekit integrator add NAME.
    """
    from exposurekit.service.front.server import serve as serve_database

    serve_database(_database(database, key_file), host, port)


@cli.group()
def integrator() -> None:
    """Who may use the service: add, list, rotate, remove."""


@integrator.command("add")
@click.argument("name")
@database_option
@key_option
@json_option
def integrator_add(*, name: str, database: str, key_file: Path | None, as_json: bool) -> None:
    """Register an integrator. Its secret is shown this once, and kept nowhere."""
    from exposurekit.service import integrators

    _print_credentials(
        _worked(database, key_file, lambda work: integrators.add(work, name), makes=True), as_json=as_json
    )


@integrator.command("list")
@database_option
@key_option
@json_option
def integrator_list(*, database: str, key_file: Path | None, as_json: bool) -> None:
    """The integrators, with how many people each has registered."""
    from exposurekit.service import integrators

    found = _worked(database, key_file, integrators.all)
    if as_json:
        rows = [
            {"integration_name": one.name, "users": one.users, "since": one.created_at.isoformat()}
            for one in found
        ]
        click.echo(json.dumps(rows))
        return
    for one in found:
        click.echo(f"{one.name}  {one.users} users  since {one.created_at:%Y-%m-%d}")
    if not found:
        click.echo("No integrator yet: exposurekit integrator add NAME", err=True)


@integrator.command("rotate")
@click.argument("name")
@database_option
@key_option
@json_option
def integrator_rotate(*, name: str, database: str, key_file: Path | None, as_json: bool) -> None:
    """A new key and secret; the old ones are refused from now on."""
    from exposurekit.service import integrators

    _print_credentials(
        _worked(database, key_file, lambda work: integrators.rotate(work, name)), as_json=as_json
    )


@integrator.command("remove")
@click.argument("name")
@click.option(
    "--with-users", is_flag=True, help="Remove the people it registered, and all found about them, too."
)
@database_option
@key_option
def integrator_remove(*, name: str, with_users: bool, database: str, key_file: Path | None) -> None:
    """Remove an integrator. People whom it registered go only with --with-users."""
    from exposurekit.service import integrators

    gone = _worked(database, key_file, lambda work: integrators.remove(work, name, with_users=with_users))
    click.echo(f"Removed {name} and {gone} users.")


def main() -> None:
    """The console script: errors in one line, and the documented exit codes."""
    debug = "--debug" in sys.argv
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except ExposureError as error:
        if debug:
            raise
        click.echo(f"Error: {plain(error)}", err=True)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if debug or error.name not in SERVICE_PACKAGES:
            raise
        click.echo(f"Error: {NEEDS_SERVICE}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read has had enough
        sys.exit(1)


def _database(url: str, key_file: Path | None, *, makes: bool = True) -> Any:
    """The service's database; only a new one is given a new key."""
    from exposurekit.service.clock import Clock
    from exposurekit.service.database import Database, is_there
    from exposurekit.service.vault import Vault, load_key

    there = is_there(url)
    if there is False and not makes:
        raise Misconfigured("there is no such database yet: exposurekit integrator add NAME makes one")
    return Database(url, vault=Vault(load_key(key_file, make=there is not True)), clock=Clock())


def _worked(url: str, key_file: Path | None, do: Callable[[Any], Awaitable[T]], *, makes: bool = False) -> T:
    """One transaction on the service's database."""

    async def work() -> T:
        database = _database(url, key_file, makes=makes)
        await database.open()
        try:
            async with database.writing() as one:
                return await do(one)
        finally:
            await database.close()

    return asyncio.run(work())


def _print_credentials(made: Any, *, as_json: bool) -> None:
    shown = {name: getattr(made, name) for name in ("integration_name", "api_key", "api_secret")}
    if as_json:
        click.echo(json.dumps(shown))
        return
    for name, value in shown.items():
        click.echo(f"EXPOSUREKIT_{name.upper()}={value}")
    click.echo("The secret is shown this once. These lines can stand in a .env file.", err=True)


def _print_tables(exposure: Any) -> None:
    import pandas as pd

    from exposurekit import analysis

    with pd.option_context(
        "display.width",
        110,
        "display.max_columns",
        9,
        "display.max_colwidth",
        24,
        "display.expand_frame_repr",
        False,
    ):
        for name in TABLES:
            table = getattr(exposure, name)()
            click.echo(f"\nexposure.{name}()  {len(table)} rows x {table.shape[1]} columns")
            _print_lines(str(table.head(3)))
        click.echo("\nanalysis.by_site(exposure.records())")
        _print_lines(analysis.by_site(exposure.records()).to_string(index=False))
    failed = exposure.failures()
    click.echo(
        f"\n{len(failed)} people could not be loaded." + (" See exposure.failures()." if len(failed) else "")
    )


def _print_lines(text: str) -> None:
    for line in text.splitlines():
        click.echo(plain(line))


def _write_page(exposure: Any, out: Path) -> None:
    from exposurekit import analysis, charts
    from exposurekit.report.page import Section, page

    table = analysis.by_site(exposure.records())
    figure = charts.by_site(table, provenance=exposure.provenance)
    html = page("Exposure", [Section("By site", figure, table)], provenance=exposure.provenance)
    try:
        out.write_text(html, "utf-8")
    except OSError as error:
        raise Misconfigured(f"--out: {out} cannot be written: {error.strerror}") from None


def _check_writable(out: Path) -> None:
    if out.is_dir() or not out.name:
        raise Misconfigured(f"--out: {out} is a directory, and a file is wanted")
    if not out.parent.is_dir():
        raise Misconfigured(f"--out: there is no directory {out.parent}")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise Misconfigured(f"--out: {out} cannot be written")


def _arguments(connection: dict[str, str]) -> str:
    rest = ", ".join(f"{name}={value!r}" for name, value in connection.items() if name != "base_url")
    return f"{connection['base_url']!r}, {rest}"


def _until_told() -> None:
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    signal.signal(signal.SIGINT, lambda *_: told.set())
    while not told.wait(0.5):
        pass


if __name__ == "__main__":
    main()
