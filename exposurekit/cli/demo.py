"""The demo from a shell: a service with invented people, looked at as an analyst would. Leaves the page, and the demo for the next time."""

import json
import signal
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from exposurekit.cli.options import check_writable
from exposurekit.cli.showing import named, print_columns
from exposurekit.errors import Misconfigured
from exposurekit.markup import plain

DAYS_SHOWN = 20
TABLES = ("users", "records", "links", "alerts", "steps")


@click.command()
@click.option("--people", default=25, type=click.IntRange(0, 5000), help="How many people to invent.")
@click.option("--days", default=14, type=click.IntRange(0, 3650), help="How many days pass.")
@click.option("--seed", default=7, help="The same seed gives the same people and listings.")
@click.option("--anew", is_flag=True, help="Make it anew, though one like it was made before and kept.")
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
def demo(*, people: int, days: int, seed: int, anew: bool, out: Path, serve: bool, as_json: bool) -> None:
    """Start a sandbox: the service, invented people and sites.

    Starts both on loopback, registers PEOPLE, and lets DAYS pass: listings are found, taken down, looked for again,
    and told by webhook. Then loads everyone through the client into tables, prints those, says how far they agree
    with what is really so, and writes a report. What came of the days is kept in the cache: the next time it is there at
    once. A day takes about two seconds the first time.
    """
    from exposurekit.demonstration import demo as running_demo

    check_writable(out)
    with running_demo(people, days=days, seed=seed, cache=not anew) as shown:
        click.echo(
            f"A service runs at {shown.connection['base_url']}: {people} invented people are registered, "
            f"and {days} days have passed."
        )
        _print_tables(shown.exposure)
        _print_agreement(shown)
        _print_history(shown)
        _write_page(shown, out)
        click.echo(f"\nWrote {named(out)}: a report of everyone. Open it in any browser.")
        if serve:
            told = _told_to_end()  # before anybody is told how to reach it
            click.echo("\nConnect from a notebook, while this runs:\n\n    import exposurekit as ek")
            click.echo(f"    exposure = ek.connect({_arguments(shown.connection)})\n")
        else:
            click.echo(
                "Next: exposurekit demo --serve leaves the service running and prints how to connect to it."
            )
        if as_json:
            made = {"people": people, "days": days, "out": str(out), "told": dict(shown.told.told)}
            click.echo(json.dumps({**shown.connection, **made, "agreement": asdict(shown.agreement())}))
        if serve:
            click.echo("Ctrl-C ends it.", err=True)
            while not told.wait(0.5):
                pass


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


def _print_agreement(shown: Any) -> None:
    """What the service says, beside what is so."""
    found, told = shown.agreement(), shown.told.told
    precision, recall = _share(found.precision), _share(found.recall)
    groups = ", ".join(f"{count} {group}" for group, count in sorted(told.items()))
    lines = (
        f"{found.records} records, {found.right} of them right (precision {precision})",
        f"{found.nobodys} records of somebody whom no site ever listed",
        f"{found.found} of {found.findable} listings found (recall {recall})",
        f"{found.out_of_reach} more listings stand on sites that forbid it, block, or list anybody",
        f"{found.removed} records removed, {found.really_gone} of them really gone",
        f"{shown.told.deliveries} webhooks: {groups}",
    )
    click.echo("\nWhat the service says, and what is so in its world:")
    for line in lines:
        click.echo(f"  {line}")


def _print_history(shown: Any) -> None:
    """What the history remembers, day by day, beside what was so."""
    from exposurekit.contract.values import STATUSES

    days = shown.agreement_by_day()
    counts = shown.history.status_over_time(every="run")
    columns = {
        "day": counts["at"].dt.strftime("%Y-%m-%d"),
        **{name.replace(" ", "_"): counts[name] for name in (*STATUSES, "total")},
        "really_listed": days["listed"],
        "really_gone": days["gone"],
        "late": days["late"],
        "wrong": days["wrong"],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    every = -(-len(rows) // DAYS_SHOWN)
    click.echo("\nhistory.status_over_time(), one look a day, and what was really so in its world then:")
    print_columns(rows[:-1:every] + rows[-1:])
    same = bool((counts["total"].to_numpy() == (days["open"] + days["removed"]).to_numpy()).all())
    wrong = int(days["wrong"].sum())
    click.echo(
        f"  {len(days)} days: {wrong} records are told otherwise than the world had them within two weeks"
        f"{'' if same else '; and the sums do not agree with the records'}"
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
    except Misconfigured as error:
        raise Misconfigured(f"--out: {error}") from None


def _arguments(connection: dict[str, str]) -> str:
    rest = ", ".join(f"{name}={value!r}" for name, value in connection.items() if name != "base_url")
    return f"{connection['base_url']!r}, {rest}"


def _told_to_end() -> threading.Event:
    """Set by a signal, from now on."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    return told
