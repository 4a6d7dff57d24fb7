"""`exposurekit demo`: run the sandbox, print its tables, write a report and save a history for the other commands."""

import logging
import math
import os
import secrets
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from exposurekit.cli.history import DEMO_MARKER
from exposurekit.cli.options import WholeNumber, check_writable
from exposurekit.cli.output import label_of, print_json
from exposurekit.errors import ConfigurationError, ExposureError, NotFound
from exposurekit.system.paths import HISTORY_VARIABLE
from exposurekit.system.stop_signal import StopSignal
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain

if TYPE_CHECKING:
    import pandas as pd

DAYS_MAX = 20
TABLES = {  # with their most useful columns
    "users": ("user_id", "first_name", "last_name", "birth_date"),
    "records": ("user_id", "site", "status", "name", "age"),
    "links": ("user_id", "title", "contains", "url"),
    "alerts": ("user_id", "site", "status", "text"),
    "steps": ("user_id", "site", "step_number", "step"),
}
_LEGEND = (
    "listed  open records that are still on their site",
    "gone    removed records that are gone from their site",
    "late    records that matched their site in the two weeks before that day",
    "wrong   records that did not match their site in those two weeks",
)
LONG_DAYS = 30  # announce the duration of a longer demo
_CELL_MAX, _CELL_MIN = 48, 8


@click.command()
@click.option("--people", default=25, type=WholeNumber(0, 5000), help="The number of invented people.")
@click.option("--days", default=15, type=WholeNumber(0, 3650), help="The number of simulated days.")
@click.option("--seed", default=7, help="The same seed gives the same people and listings.")
@click.option(
    "--web",
    default="open",
    type=click.Choice(["open", "guarded"]),
    help="The invented sites. open: 15 that a program may mostly use; guarded: 45 with bot checks, puzzles and "
    "confirmation mail, and a simulated person who works an hour a day.",
)
@click.option("--no-cache", is_flag=True, help="Do not use the cache of an earlier demo.")
@click.option(
    "--history",
    metavar="DIR",
    default="demo-history",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory to save the history in. An earlier demo's history there is replaced, unless it has labels, ticks, "
    "notes, renamed sites or declared days.",
)
@click.option(
    "--out",
    default="exposure.html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The report to write.",
)
@click.option("--serve", is_flag=True, help="Keep the service running until Ctrl-C.")
@click.option(
    "--json", "as_json", is_flag=True, help="End with one line of JSON: connection, files and results."
)
def demo(
    *,
    people: int,
    days: int,
    seed: int,
    web: Literal["open", "guarded"],
    no_cache: bool,
    history: Path,
    out: Path,
    serve: bool,
    as_json: bool,
) -> None:
    """Start a sandbox: the service, invented people and sites.

    It runs on your machine only. The demo registers the people and simulates the days: the service finds listings, removes
    them, scans again and sends webhooks. It then prints the tables, compares them with the invented sites, writes a
    report, saves the history, and prints commands to try on it.

    The first time a simulated day takes about two seconds; later the same days come from the cache.

    Example: exposurekit demo --days 90 --history ./demo-history
    """
    from exposurekit.reports import report
    from exposurekit.sandbox.demo import demo as running_demo

    check_writable(out)
    _check_history(history)
    if days >= LONG_DAYS:
        minutes, less = (days * 2 / 60, ", less with a cache") if web == "open" else (days * 5 / 60, "")
        click.echo(
            f"Simulating {days} days for {pluralize(people, 'person', 'people')}: up to {minutes:.0f} minutes{less}.",
            err=True,
        )
    with (
        _retries_in_words(),
        running_demo(people, days=days, seed=seed, web=web, cache=not no_cache) as sandbox,
    ):
        number = pluralize(people, "invented person", "invented people")
        _print_text(
            f"The service runs at {sandbox.connection['base_url']} with {number}, after {pluralize(days, 'simulated day')}. "
            "The sites are invented, too: addresses that end in .example do not open in a browser."
        )
        stopping = _stop_signal() if serve else None  # before the output says how to connect
        saved = _save_history(Path(sandbox.history.path), history)
        _print_tables(sandbox.exposure)
        _print_agreement(sandbox)
        _print_history(sandbox)
        try:
            report(sandbox.history, out, exposure=sandbox.exposure)
        except ConfigurationError as error:
            raise ConfigurationError(f"--out: {error}") from None
        click.echo(f"\nWrote {label_of(out)}, a report on everyone. Open it in any browser.")
        _print_next(sandbox, saved, serve=serve)
        _print_environment(sandbox, saved, serve=serve)
        if as_json:
            files = {"people": people, "days": days, "out": str(out), "history": str(saved)}
            results = {
                "webhook_items": dict(sandbox.integrator.items),
                "agreement": sandbox.agreement(),
            }
            print_json({**sandbox.connection, **files, **results})
        if stopping is not None:
            click.echo("Press Ctrl-C to stop.", err=True)
            stopping.wait(math.inf)


class _RetryNotice(logging.Handler):
    """Replaces the worker's log lines about failed jobs with one sentence: in a sandbox they are only retried."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._is_printed = False

    def emit(self, _record: logging.LogRecord) -> None:
        if not self._is_printed:
            self._is_printed = True
            click.echo("A background job timed out or failed. The service retries such jobs.", err=True)


@contextmanager
def _retries_in_words() -> Iterator[None]:
    log, notice = logging.getLogger("exposurekit.service"), _RetryNotice()
    log.addHandler(notice)
    try:
        yield
    finally:
        log.removeHandler(notice)


def _check_history(directory: Path) -> None:
    """Check, before any work is done, that the directory is new or an earlier demo's, and can be written."""
    try:
        if directory.is_dir() and any(directory.iterdir()) and not (directory / DEMO_MARKER).is_file():
            raise ConfigurationError(
                f"--history: {plain(directory)} is not empty and not from a demo: name another directory"
            )
        parent = directory.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise ConfigurationError(
                f"--history: cannot create {plain(directory)}: {plain(parent)} is not a writable directory"
            )
        if (directory / DEMO_MARKER).is_file() and _has_annotations(directory):
            raise ConfigurationError(
                f"--history: {plain(directory)} has labels, ticks, notes, renamed sites or declared days, which a new demo "
                "would replace: name another directory, or delete this one"
            )
    except OSError as error:
        raise ConfigurationError(f"--history: {error.strerror}") from None


def _has_annotations(directory: Path) -> bool:
    from exposurekit.history import History
    from exposurekit.sandbox.demo import DECLARED_SOURCE

    try:
        with History(directory) as history:
            declared = history.declared_days()
            if bool((declared["source"] != DECLARED_SOURCE).any()):
                return True
            tables = (history.labels, history.ticks, history.notes, history.site_names)
            return any(len(table()) for table in tables)
    except NotFound:
        return False
    except ExposureError as error:
        raise ConfigurationError(
            f"--history: {plain(directory)} may have labels, ticks or notes, and cannot be read ({error}): name another "
            "directory, or delete this one"
        ) from None


def _save_history(source: Path, directory: Path) -> Path:
    """Copy the history to a directory, replacing an earlier demo's; return its path."""
    target = directory.absolute()
    draft = target.parent / f".{target.name}.{secrets.token_hex(8)}"
    try:
        shutil.copytree(source, draft, ignore=shutil.ignore_patterns(".*"))
        draft.chmod(0o700)
        (draft / DEMO_MARKER).touch()
        if target.is_dir():
            shutil.rmtree(target)
        draft.rename(target)
    except OSError as error:
        raise ConfigurationError(f"--history: cannot write {plain(directory)}: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _print_environment(sandbox: Any, saved: Path, *, serve: bool) -> None:
    """Print lines to copy into a shell, with which the other commands use this demo."""
    environment = {HISTORY_VARIABLE: str(saved)}
    if serve:
        environment |= {f"EXPOSUREKIT_{name.upper()}": value for name, value in sandbox.connection.items()}
    target = "the service and the history" if serve else "the history"
    shell = "another shell" if serve else "this shell"
    _print_text(
        f"Run these lines in {shell} first, so that the commands use {target} of this demo:", before=1
    )
    _print_block(f"export {name}={shlex.quote(value)}" for name, value in environment.items())


def _print_next(sandbox: Any, saved: Path, *, serve: bool) -> None:
    """Print commands that use this demo."""
    command = _command()
    days = sandbox.history.runs()["finished_at"].dt.date.drop_duplicates()
    live = " --live" if serve else ""
    commands = [
        *([f"report{live} --since {days.iloc[-min(8, len(days))]} --out week.html"] if len(days) > 1 else []),
        "check --fail-on relisted,stuck:7",
        "open",
        f"export queue --personal{live} --out queue.xlsx",  # few people share steps, so nothing is left without it
        *(["collect"] if serve else []),
    ]
    _print_text("Commands to try (`check` exits with code 3 if a condition matched):", before=1)
    _print_block(f"{command} {line}" for line in commands)
    if serve:
        _print_text("Connect from a notebook while the demo runs:", before=1)
        connect, history = _arguments(sandbox.connection), str(saved)
        _print_block(
            [
                "import exposurekit as ek",
                f"exposure = ek.connect({connect})",
                f"history = ek.History({history!r})",
            ]
        )
    else:
        _print_text(
            "The service has stopped. To keep it running, for notebooks and for the names in the work queue, start the demo with --serve:",
            before=1,
        )
        _print_block([f"{command} demo --serve"])


def _command() -> str:
    """Return how to call this command: by name if the shell finds it, else by its path."""
    path = sys.argv[0]
    if Path(path).name != "exposurekit":  # run as a module, or in a test
        return "exposurekit"
    on_path = shutil.which("exposurekit")
    return "exposurekit" if on_path and Path(on_path).samefile(path) else shlex.quote(path)


def _print_block(lines: Any) -> None:
    click.echo()
    for line in lines:
        click.echo(f"    {line}")


def _print_text(text: str, *, before: int = 0) -> None:
    click.echo("\n" * before + click.wrap_text(text, _width()))


def _width() -> int:
    return max(shutil.get_terminal_size().columns, 40)


def _print_tables(exposure: Any) -> None:
    from exposurekit import analysis

    for name, columns in TABLES.items():
        table = exposure[name]
        click.echo(f"\nexposure.{name}(): {len(table)} rows, {table.shape[1]} columns; the first rows:")
        _print_table(table[[*columns]].head(3))
    click.echo("\nanalysis.by_site(exposure.records())")
    table = analysis.by_site(exposure.records())
    _print_table(table.drop(columns=["other", "total"]))
    failed = exposure.failures()
    number = pluralize(len(failed), "person", "people")
    click.echo(f"\n{number} could not be loaded." + (" See exposure.failures()." if len(failed) else ""))


def _print_table(table: "pd.DataFrame") -> None:
    """Print a table no wider than the terminal: truncate its texts, then drop its last columns."""
    if table.empty:
        click.echo("  (none)")
        return
    cells = table.map(lambda value: plain(value) if isinstance(value, str) else value)
    for line in _lines_within(cells, _width()):
        click.echo(plain(line))


def _lines_within(cells: "pd.DataFrame", width: int) -> list[str]:
    for last in range(cells.shape[1], 0, -1):
        for cell_max in range(_CELL_MAX, _CELL_MIN - 1, -4):
            lines = cells.iloc[:, :last].to_string(index=False, max_colwidth=cell_max).splitlines()
            if max(map(len, lines)) <= width:
                return lines
    return lines


def _print_agreement(sandbox: Any) -> None:

    evaluation, received = sandbox.agreement(), sandbox.integrator.items
    precision, recall = (
        "unknown" if value is None else f"{value:.2f}" for value in (evaluation.precision, evaluation.recall)
    )
    groups = ", ".join(f"{count} {group}" for group, count in sorted(received.items()))
    later = ""
    if pending := sandbox.pending_events():
        later = (
            f". {pluralize(pending, 'event is', 'events are')} waiting: deliveries are sent every ten minutes"
        )
    unreachable = pluralize(evaluation.unreachable, "more listing")
    lines = (
        f"{pluralize(evaluation.records, 'record')}, {evaluation.correct} of them correct (precision {precision})",
        f"{pluralize(evaluation.nonexistent, 'record')} of people whom no site ever listed",
        f"{evaluation.matched} of the {evaluation.reachable} listings that can be found were found (recall {recall})",
        f"{unreachable} cannot be found: their sites forbid or block scans, or list invented names",
        f"{evaluation.verified_removed} of the {evaluation.removed} removed records are gone from their sites",
        f"{pluralize(sandbox.integrator.deliveries, 'webhook')}: {groups}{later}",
    )
    click.echo("\nThe service's findings, compared with the invented sites:")
    for line in (*lines, *_simulated_person_lines(sandbox)):
        click.echo(click.wrap_text(line, _width(), initial_indent="  ", subsequent_indent="    "))


def _simulated_person_lines(sandbox: Any) -> Iterator[str]:
    """Yield what the simulated person of a guarded web did, and what a program there did not."""
    if (simulated_person := sandbox.simulated_person) is None:
        return
    minutes, opt_outs = sum(simulated_person.minutes.values()), sum(simulated_person.opt_outs.values())
    yield f"{minutes:.0f} minutes of the simulated person: {simulated_person.pages} pages saved, {opt_outs} opt-outs sent"
    counts = sandbox.world.guards.counts
    passed = counts["wall machine passed"] + counts["puzzle machine passed"]
    yield f"{passed} bot checks or puzzles passed by a program"
    yield f"{counts['phishing followed']} of {counts['phishing']} phishing messages followed"


def _print_history(sandbox: Any) -> None:
    """Print the history day by day, beside the state of the invented sites."""
    import pandas as pd

    from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED

    days = sandbox.agreement_by_day()
    counts = sandbox.history.status_over_time(every="run")
    statuses = counts[[DISCOVERED, PENDING_REMOVAL, REMOVED, "total"]].rename(
        columns={PENDING_REMOVAL: "pending"}
    )
    table = pd.concat([statuses, days[["listed", "gone", "late", "wrong"]]], axis=1)
    table.insert(0, "day", counts["at"].dt.strftime("%Y-%m-%d"))
    if len(table) > 1:  # without a simulated day, both runs are at one instant
        table = table.iloc[1:]  # the first run is before anyone was registered
    every = -(-len(table) // DAYS_MAX)
    click.echo()
    _print_text(
        "history.status_over_time(), one run a day. The columns on the right compare it with the invented sites:"
    )
    _print_block(_LEGEND)
    click.echo()
    _print_table(pd.concat([table.iloc[:-1:every], table.iloc[-1:]]))
    sums_agree = bool((counts["total"].to_numpy() == (days["open"] + days["removed"]).to_numpy()).all())
    wrong = int(days["wrong"].sum())
    matched = (
        f"{pluralize(wrong, 'record')} did not match their site within two weeks"
        if wrong
        else "Every record matched its site within two weeks"
    )
    _print_text(f"{matched}{'' if sums_agree else '; the sums do not agree with the records'}.")


def _arguments(connection: dict[str, str]) -> str:
    rest = ", ".join(f"{name}={value!r}" for name, value in connection.items() if name != "base_url")
    return f"{connection['base_url']!r}, {rest}"


def _stop_signal() -> StopSignal:
    stopping = StopSignal()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    return stopping
