"""What stands in the way: one line for each thing that has to be well, and what to do where it is not. Changes nothing."""

import os
import platform
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output
from exposurekit.cli.options import history_option, json_option, local_option
from exposurekit.errors import ConnectionFailed, ExposureError, NotFound, Unauthorized
from exposurekit.text.sanitize import plain

OK, WARN, FAIL = "ok", "warn", "fail"
CLOCK_MAX_S = 60  # further apart, instants of webhooks and of histories mean something else
LOOKED_MAX_DAYS = 2
DEVIATIONS_MAX = 5
_PACKAGES = ("pandas", "plotly", "ipywidgets", "anywidget", "httpx", "pydantic", "duckdb", "deltalake")
_NOTEBOOKS = ("jupyterlab", "notebook")
_WIDGETS = ("ipywidgets", "jupyterlab_widgets", "anywidget")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing that was looked at.

    Attributes:
        what: Which.
        state: ``well``, ``mind`` (it works, and may not do so for long) or ``ill``.
        said: How it is.
        do: What to do; empty where it is well.
    """

    what: str
    state: str
    said: str
    do: str = ""


@click.command()
@history_option
@json_option
def doctor(*, history: str, as_json: bool) -> None:
    """Check the installation and suggest fixes.

    Checks versions, notebook, browser, service, clock, history and watch; exits with 1 if one fails. It changes nothing,
    and sends the service a few short requests.

    Example: exposurekit doctor --history ./exposure-history
    """
    found = [one for examine in _EXAMINED for one in examine(history)]
    if as_json:
        output.print_json([asdict(one) for one in found])
    else:
        for one in found:
            click.echo(
                f"{one.state:<4}  {one.what}: {plain(one.said)}{f' -> {plain(one.do)}' if one.do else ''}"
            )
    if any(one.state == FAIL for one in found):
        sys.exit(1)


def _versions(_history: str) -> Iterator[CheckResult]:
    told = ", ".join(f"{name} {_version(name)}" for name in ("exposurekit", *_PACKAGES))
    yield CheckResult("versions", OK, f"Python {platform.python_version()}, {told}")
    from exposurekit.charts.embedding import VENDORED, speaks_vendored

    if not speaks_vendored():
        yield CheckResult(
            "reports", WARN, f"the installed Plotly draws for another plotly.js than {VENDORED}",
            "nothing: reports carry Plotly's own, and are 4 MB larger",
        )  # fmt: skip


def _notebook(_history: str) -> Iterator[CheckResult]:
    there = [f"{name} {_version(name)}" for name in _NOTEBOOKS if _version(name) != MISSING]
    if not there:
        yield CheckResult(
            "notebook", WARN, "there is no Jupyter here", "pip install jupyterlab, if you want notebooks"
        )
        return
    missing = [name for name in _WIDGETS if _version(name) == MISSING]
    if missing:
        yield CheckResult(
            "notebook", FAIL, f"{', '.join(missing)} is missing", f"pip install {' '.join(missing)}"
        )
    else:
        yield CheckResult("notebook", OK, f"{', '.join(there)}, with widgets")


def _browser(_history: str) -> Iterator[CheckResult]:
    from exposurekit.reports import pdf

    try:
        yield CheckResult("browser", OK, f"pages open with {webbrowser.get().__class__.__name__}")
    except webbrowser.Error:
        yield CheckResult(
            "browser", WARN, "none opens from here", "open reports where there is one; open and --open cannot"
        )
    if prints := pdf.find_browser():
        yield CheckResult("print", OK, f"{Path(prints).name} prints reports as PDF")
    else:
        yield CheckResult(
            "print", WARN, "no Chromium, Chrome or Edge", "install one, if you want reports as PDF"
        )


def _service(_history: str) -> Iterator[CheckResult]:
    from exposurekit.client import Client, RetryPolicy
    from exposurekit.client.config import environment_settings

    try:
        found = environment_settings()
    except (OSError, UnicodeDecodeError) as error:
        yield CheckResult(
            "credentials", FAIL, f".env cannot be read: {type(error).__name__}", "save it as UTF-8 text"
        )
        return
    if missing := [f"EXPOSUREKIT_{name.upper()}" for name, value in found.items() if not value]:
        said = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
        yield CheckResult(
            "credentials", WARN, said, "set them here or in .env, or try `exposurekit demo`, which needs none"
        )
        return
    try:
        with Client(retries=RetryPolicy(max_retries=0, initial_delay=0)) as client:
            yield from _request_check(client)
    except ExposureError as error:
        yield CheckResult("credentials", FAIL, str(error), "mend the setting that it names")


def _request_check(client: Any) -> Iterator[CheckResult]:
    from exposurekit.client import calls, protocol
    from exposurekit.client.retry import Response

    call, began = calls.list_users(limit=1), time.monotonic()
    outcome = client.send(call)
    took_ms = (time.monotonic() - began) * 1000
    try:
        protocol.plain_values(call, client.config, outcome)
    except ConnectionFailed as error:
        yield CheckResult(
            "service", FAIL, str(error), "is it running, and is EXPOSUREKIT_BASE_URL what precedes /api/?"
        )
        return
    except Unauthorized as error:
        yield CheckResult("service", OK, f"answers in {took_ms:.0f} ms")
        yield CheckResult(
            "credentials", FAIL, str(error), "set the integration's name, key and secret as they were given"
        )
        return
    except ExposureError as error:
        yield CheckResult(
            "service", FAIL, str(error), "ask its operator; `exposurekit.Client.probe()` shows how it answers"
        )
        return
    yield CheckResult("service", OK, f"answers in {took_ms:.0f} ms, and accepts the credentials")
    if isinstance(outcome, Response):
        yield from _clock(outcome.headers.get("date"))
    yield from _deviations(client)


def _deviations(client: Any) -> Iterator[CheckResult]:
    from exposurekit.client import probe

    try:
        found = list(map(probe.describe, probe.deviations(client)))
    except ExposureError as error:
        yield CheckResult("answers", FAIL, str(error), "ask the service's operator")
        return
    if found:
        more = f", and {len(found) - DEVIATIONS_MAX:,} more" if len(found) > DEVIATIONS_MAX else ""
        yield CheckResult(
            "answers", WARN, f"they deviate from the specification: {'; '.join(found[:DEVIATIONS_MAX])}{more}",
            "nothing: they are read all the same; `exposure.deviations()` counts them",
        )  # fmt: skip
    else:
        yield CheckResult("answers", OK, "as the specification describes them")


def _clock(told: str | None) -> Iterator[CheckResult]:
    with suppress(TypeError, ValueError):
        apart = abs((parsedate_to_datetime(told or "") - datetime.now(UTC)).total_seconds())
        if apart > CLOCK_MAX_S:
            said = f"this machine's and the service's are {apart:,.0f} s apart"
            yield CheckResult("clock", FAIL, said, "set it by NTP: what is seen would be dated wrongly")
        else:
            yield CheckResult("clock", OK, "goes as the service's does")


def _history(history: str) -> Iterator[CheckResult]:
    from exposurekit.history import History

    place = local_option(history)
    if place is not None and not place.is_dir():
        yield CheckResult("history", WARN, "there is none yet", "exposurekit collect")
        return
    try:
        with History(history) as kept:
            yield from _history_check(kept)
    except NotFound:
        yield CheckResult("history", WARN, "nothing was collected yet", "exposurekit collect")
    except ExposureError as error:
        yield CheckResult("history", FAIL, str(error), "exposurekit history verify, or another --history")
    except OSError as error:
        yield CheckResult("history", FAIL, f"it cannot be read: {error.strerror}", "another --history")


def _history_check(kept: Any) -> Iterator[CheckResult]:
    broken, last = kept.verify(), kept.last_run()
    if broken:
        yield CheckResult(
            "history", FAIL, f"broken promises: {', '.join(broken)}", "put it back from a backup"
        )
    days = (datetime.now(UTC) - (last.finished_at or last.started_at)).total_seconds() / 86_400
    said = f"{last.seq:,} runs, the last {days:,.1f} days ago"
    if days > LOOKED_MAX_DAYS:
        yield CheckResult("history", WARN, said, "exposurekit watch install has it looked at by itself")
    elif not broken:
        yield CheckResult("history", OK, f"{said}; every promise holds")
    if waiting := kept.pending_runs():
        yield CheckResult(
            "runs",
            WARN,
            f"{len(waiting):,} wait for a shard",
            "collect it, or exposurekit history finish RUN",
        )
    stale = len(kept.stale())
    if stale:
        yield CheckResult(
            "people",
            WARN,
            f"{stale:,} were not seen well by the last look",
            "exposurekit export stale --out stale.csv",
        )
    else:
        yield CheckResult("people", OK, "everybody was seen well by the last look")


def _watch(history: str) -> Iterator[CheckResult]:
    from exposurekit.cli.watch import STATUS_FILE
    from exposurekit.monitor.status import read

    place = local_option(history)
    if place is None or not place.is_dir():
        return
    try:
        problem = read(place / STATUS_FILE)["problem"]
    except NotFound:
        yield CheckResult(
            "watch", WARN, "none was begun here", "exposurekit watch install, unless cron collects"
        )
        return
    except ExposureError as error:
        yield CheckResult("watch", FAIL, str(error), "see what the line says")
        return
    if problem:
        yield CheckResult("watch", FAIL, problem, "exposurekit watch status tells more")
    else:
        yield CheckResult("watch", OK, "it is well")


def _files(_history: str) -> Iterator[CheckResult]:
    from exposurekit.system import paths

    for file in sorted(paths.config_dir().glob("*.key")) if paths.config_dir().is_dir() else ():
        if not file.is_file():
            yield CheckResult("keys", FAIL, f"{file.name} leads nowhere", "put it back from a backup")
        elif os.name == "posix" and file.stat().st_mode & 0o077:
            yield CheckResult("keys", FAIL, f"{file.name} can be read by others", f"chmod 600 {file}")
    if Path(".env").is_file() and os.name == "posix" and Path(".env").stat().st_mode & 0o077:
        yield CheckResult("keys", WARN, ".env can be read by others", "chmod 600 .env")


MISSING = "missing"
_EXAMINED: tuple[Callable[[str], Iterator[CheckResult]], ...] = (
    *(_versions, _notebook, _browser, _service, _history, _watch, _files),
)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return MISSING
