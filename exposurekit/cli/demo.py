"""The sandbox from a shell: prints tables, writes a report, and keeps a history that the other commands work on."""

import json
import os
import secrets
import shlex
import shutil
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exposurekit.cli.options import check_writable
from exposurekit.cli.output import label_of
from exposurekit.errors import ConfigurationError
from exposurekit.text.sanitize import plain

if TYPE_CHECKING:
    import pandas as pd

DAYS_SHOWN = 20
TABLES = {  # and the columns that say most
    "users": ("user_id", "first_name", "last_name", "birth_date"),
    "records": ("user_id", "site", "status", "name", "age"),
    "links": ("user_id", "title", "contains", "url"),
    "alerts": ("user_id", "site", "status", "text"),
    "steps": ("user_id", "site", "step_number", "step"),
}
MARKER = ".exposurekit-demo"  # a history with this file may be replaced by another demo's
_CELL_MAX, _CELL_MIN = 48, 8


@click.command()
@click.option("--people", default=25, type=click.IntRange(0, 5000), help="How many people to invent.")
@click.option("--days", default=14, type=click.IntRange(0, 3650), help="How many days pass.")
@click.option("--seed", default=7, help="The same seed gives the same people and listings.")
@click.option("--no-cache", is_flag=True, help="Do not use the cache of an earlier demo.")
@click.option(
    "--history",
    metavar="DIR",
    default="demo-history",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory to keep the history in; a demo's history that is there is replaced.",
)
@click.option(
    "--out",
    default="exposure.html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to write.",
)
@click.option("--serve", is_flag=True, help="Leave the service running until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="End with one line of JSON: the connection, and what was made."
)
def demo(
    *, people: int, days: int, seed: int, no_cache: bool, history: Path, out: Path, serve: bool, as_json: bool
) -> None:
    """Start a sandbox: the service, invented people and sites.

    Both run on loopback. The people are registered, and the days pass: listings are found, removed and searched for
    again, and webhooks are sent. The demo then prints the tables and how far they agree with the invented sites, writes
    a report, keeps the history, and prints the lines that make the other commands work on it. Nothing leaves your machine.

    The first time a day takes about two seconds; later the same days come from the cache.

    Example: exposurekit demo --days 90 --history ./demo-history
    """
    from exposurekit.sandbox.demo import demo as running_demo

    check_writable(out)
    _check_history(history)
    with running_demo(people, days=days, seed=seed, cache=not no_cache) as shown:
        _print_text(
            f"The service runs at {shown.connection['base_url']}. {people} invented people are registered, "
            f"and {days} days have passed."
        )
        _print_tables(shown.exposure)
        _print_agreement(shown)
        _print_history(shown)
        _write_page(shown, out)
        click.echo(f"\nWrote {label_of(out)}, a report of everyone. Open it in any browser.")
        kept = _keep_history(Path(shown.history.path), history)
        ended = _wait_for_end() if serve else None  # before anybody is told how to reach it
        _print_next(shown, kept, serve=serve)
        if as_json:
            made = {"people": people, "days": days, "out": str(out), "history": str(kept)}
            told = {"told": dict(shown.integrator.items), "agreement": asdict(shown.agreement())}
            click.echo(json.dumps({**shown.connection, **made, **told}))
        if ended is not None:
            click.echo("Press Ctrl-C to end.", err=True)
            while not ended.wait(0.5):
                pass


def _check_history(directory: Path) -> None:
    """Say so before any work is done, where a history cannot be kept.

    Raises:
        ConfigurationError: The directory holds something else than a demo's history, or cannot be written.
    """
    try:
        if directory.is_dir() and any(directory.iterdir()) and not (directory / MARKER).is_file():
            raise ConfigurationError(
                f"--history: {plain(directory)} is not empty, and no demo made it: name another directory"
            )
        parent = directory.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise ConfigurationError(
                f"--history: {plain(directory)} cannot be made: {plain(parent)} is no directory"
            )
    except OSError as error:
        raise ConfigurationError(f"--history: {error.strerror}") from None


def _keep_history(made: Path, directory: Path) -> Path:
    """Copy the history to where it stays, in place of an earlier demo's; where that is."""
    target = directory.absolute()
    draft = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        shutil.copytree(made, draft, ignore=shutil.ignore_patterns(".*"))
        draft.chmod(0o700)
        (draft / MARKER).touch()
        if target.is_dir():
            shutil.rmtree(target)
        draft.rename(target)
    except OSError as error:
        raise ConfigurationError(
            f"--history: {plain(directory)} cannot be written: {error.strerror}"
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _print_next(shown: Any, kept: Path, *, serve: bool) -> None:
    """Lines to copy into a shell, verbatim: the environment, then commands that use it."""
    command = _command()
    environment = {"EXPOSUREKIT_HISTORY": str(kept)}
    if serve:
        environment |= {f"EXPOSUREKIT_{name.upper()}": value for name, value in shown.connection.items()}
    what = "the service and the history" if serve else "the history"
    where = "In another shell" if serve else "In this shell"
    _print_text(f"{where}, these lines make every other command use {what} of this demo:", before=1)
    _print_block(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    days = shown.history.runs()["finished_at"].dt.date.drop_duplicates()
    live = " --live" if serve else ""
    commands = [
        *([f"report{live} --since {days.iloc[-min(8, len(days))]} --out week.html"] if len(days) > 1 else []),
        "check --fail-on relisted,stuck:7",
        "open",
        f"export queue --personal{live} --out queue.xlsx",
        *(["collect"] if serve else []),
    ]
    _print_text("Then try these; check exits with 3 if a condition matched:", before=1)
    _print_block(f"{command} {line}" for line in commands)
    if serve:
        _print_text("Connect from a notebook while the demo runs:", before=1)
        _print_block(["import exposurekit as ek", f"exposure = ek.connect({_arguments(shown.connection)})"])
    else:
        _print_text("The service has ended. To leave it running and connect to it from a notebook:", before=1)
        _print_block([f"{command} demo --serve"])


def _command() -> str:
    """How this command is called: by its name where the shell finds it, else as it was."""
    called = sys.argv[0]
    if Path(called).name != "exposurekit":  # as a module, or in a test
        return "exposurekit"
    found = shutil.which("exposurekit")
    return "exposurekit" if found and Path(found).samefile(called) else shlex.quote(called)


def _print_block(lines: Any) -> None:
    click.echo()
    for line in lines:
        click.echo(f"    {line}")


def _print_text(text: str, *, before: int = 0) -> None:
    click.echo("\n" * before + click.wrap_text(text, _width()))


def _width() -> int:
    """How many columns the terminal has; 80 where there is none."""
    return max(shutil.get_terminal_size().columns, 40)


def _print_tables(exposure: Any) -> None:
    from exposurekit import analysis

    for name, columns in TABLES.items():
        table = exposure[name]
        click.echo(f"\nexposure.{name}(): {len(table)} rows, {table.shape[1]} columns, such as")
        _print_table(table[[*columns]].head(3))
    click.echo("\nanalysis.by_site(exposure.records())")
    table = analysis.by_site(exposure.records())
    _print_table(table.drop(columns=["other", "total"]))
    failed = exposure.failures()
    click.echo(
        f"\n{len(failed)} people could not be loaded." + (" See exposure.failures()." if len(failed) else "")
    )


def _print_table(table: "pd.DataFrame") -> None:
    """A table as wide as the terminal at most: its texts are cut first, then its last columns."""
    if table.empty:
        click.echo("  (none)")
        return
    shown = table.map(lambda value: plain(value) if isinstance(value, str) else value)
    for last in range(shown.shape[1], 0, -1):
        for cell in range(_CELL_MAX, _CELL_MIN - 1, -4):
            lines = shown.iloc[:, :last].to_string(index=False, max_colwidth=cell).splitlines()
            if max(map(len, lines)) <= _width():
                _print_lines("\n".join(lines))
                return
    _print_lines("\n".join(lines))


def _print_agreement(shown: Any) -> None:
    """What the service says, beside what is so on the invented sites."""
    found, told = shown.agreement(), shown.integrator.items
    precision, recall = _share(found.precision), _share(found.recall)
    groups = ", ".join(f"{count} {group}" for group, count in sorted(told.items()))
    pending = shown.pending_events()
    later = (
        f"; {pending} more events are not sent yet: a delivery collects ten minutes of them"
        if pending
        else ""
    )
    lines = (
        f"{found.records} records, {found.correct} of them right (precision {precision})",
        f"{found.nonexistent} records of people whom no site ever listed",
        f"{found.matched} of {found.reachable} listings found (recall {recall})",
        f"{found.unreachable} more listings on sites that forbid or block scans, or list anybody",
        f"{found.removed} records removed, {found.verified_removed} of them gone from their sites",
        f"{shown.integrator.deliveries} webhooks: {groups}{later}",
    )
    click.echo("\nWhat the service says, compared with the invented sites:")
    for line in lines:
        click.echo(click.wrap_text(line, _width(), initial_indent="  ", subsequent_indent="    "))


def _print_history(shown: Any) -> None:
    """The history day by day, beside what was so on the invented sites."""
    import pandas as pd

    from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED

    days = shown.agreement_by_day()
    counts = shown.history.status_over_time(every="run")
    table = pd.DataFrame(
        {
            "day": counts["at"].dt.strftime("%Y-%m-%d"),
            "discovered": counts[DISCOVERED],
            "pending": counts[PENDING_REMOVAL],
            "removed": counts[REMOVED],
            "total": counts["total"],
            "listed": days["listed"],
            "gone": days["gone"],
            "late": days["late"],
            "wrong": days["wrong"],
        }
    )
    every = -(-len(table) // DAYS_SHOWN)
    click.echo()
    _print_text(
        "history.status_over_time(), one run a day. Beside it, of the open records those listed on the sites then, and of "
        "the removed ones those gone:"
    )
    _print_table(pd.concat([table.iloc[:-1:every], table.iloc[-1:]]))
    same = bool((counts["total"].to_numpy() == (days["open"] + days["removed"]).to_numpy()).all())
    wrong = int(days["wrong"].sum())
    _print_text(
        f"{len(days)} days; {wrong} records differ from what was so on the sites within two weeks"
        f"{'' if same else '; the sums do not agree with the records'}."
    )


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _print_lines(text: str) -> None:
    for line in text.splitlines():
        click.echo(plain(line))


def _write_page(shown: Any, out: Path) -> None:
    from exposurekit.reports import report

    try:
        report(shown.history, out, exposure=shown.exposure)
    except ConfigurationError as error:
        raise ConfigurationError(f"--out: {error}") from None


def _arguments(connection: dict[str, str]) -> str:
    rest = ", ".join(f"{name}={value!r}" for name, value in connection.items() if name != "base_url")
    return f"{connection['base_url']!r}, {rest}"


def _wait_for_end() -> threading.Event:
    """Set by a signal, from now on."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    return told
