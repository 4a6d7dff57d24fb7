"""`exposurekit doctor`: check the installation, service, history and watch, and suggest fixes."""

import asyncio
import os
import platform
import shutil
import sys
import time
import webbrowser
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output
from exposurekit.cli.check_results import FAIL, CheckResult, fail, first, no_permission, ok, warn
from exposurekit.cli.options import history_option, json_option, local_option
from exposurekit.cli.service import definitions_check, scans_check, site_health, webhooks_check, worker_check
from exposurekit.cli.session import ServiceDatabase, mail_settings, no_database
from exposurekit.errors import (
    NEEDS_SERVICE,
    ConfigurationError,
    ConnectionFailed,
    ExposureError,
    NotFound,
    Unauthorized,
)

CLOCK_MAX_S = 60  # with a larger difference, times of webhooks and histories are wrong
RUN_AGE_MAX_DAYS = 2
DISK_FREE_MIN = 100_000_000  # bytes
OWN_SERVICE = ("DATABASE", "SITES", "MAIL", "SERVICE_KEY_FILE", "SERVICE_KEY")  # variables that configure one
_PACKAGES = ("pandas", "plotly", "ipywidgets", "anywidget", "httpx", "pydantic", "duckdb", "deltalake")
_FRONT_ENDS = {"jupyterlab": ("JupyterLab", 4), "notebook": ("Notebook", 7)}  # the first that run the widgets
_ELSEWHERE = (
    "others, such as VS Code, are not tested; where widgets do not run, their content is displayed as HTML"
)
_WIDGETS = ("ipywidgets", "jupyterlab_widgets", "anywidget")


@click.command()
@history_option
@json_option
def doctor(*, history: str, as_json: bool) -> None:
    """Check the installation and suggest fixes.

    Checks versions, notebook, browser, service, clock, history and watch; exits with 1 if one fails. It changes nothing,
    and sends the service a few short requests. If the environment configures a service of your own
    (EXPOSUREKIT_DATABASE, _SITES, _MAIL or _SERVICE_KEY_FILE), it also checks the key, the database and its disk, the site
    definitions and their scans, the mailbox's settings and whether a worker runs.

    Example: exposurekit doctor --history ./exposure-history
    """
    results = []
    for result in (result for check in _CHECKS for result in _permitted(check, history)):
        results.append(result)
        if not as_json:  # each as it ends: a slow service takes a while
            click.echo(str(result))
    if as_json:
        output.print_json(results)
    if any(result.state == FAIL for result in results):
        sys.exit(1)


def _permitted(check: Callable[[str], Iterator[CheckResult]], history: str) -> Iterator[CheckResult]:
    """Run a check; if it may not read a file, that is a result, and the other checks run."""
    try:
        yield from check(history)
    except PermissionError as error:
        yield fail(check.__name__.strip("_").replace("_", " "), *no_permission(error))


def _versions(_history: str) -> Iterator[CheckResult]:
    packages = ", ".join(f"{name} {_version(name)}" for name in ("exposurekit", *_PACKAGES))
    yield ok("versions", f"Python {platform.python_version()}, {packages}")
    from exposurekit.charts.embedding import VENDORED_VERSION, is_vendored_compatible

    if not is_vendored_compatible():
        yield warn(
            "reports",
            f"the installed Plotly needs another plotly.js than {VENDORED_VERSION}",
            "nothing: reports include Plotly's own, which makes them 4 MB larger",
        )


def _notebook(_history: str) -> Iterator[CheckResult]:
    installed = {name: _version(name) for name in _FRONT_ENDS if _version(name) != MISSING}
    if not installed and _version("ipykernel") == MISSING:
        yield warn("notebook", "Jupyter is not installed", "pip install jupyterlab, if you want notebooks")
        return
    if missing := [name for name in _WIDGETS if _version(name) == MISSING]:
        yield fail("notebook", f"{', '.join(missing)} is missing", f"pip install {' '.join(missing)}")
        return
    for package, number in installed.items():
        name, needed = _FRONT_ENDS[package]
        if int(number.partition(".")[0]) < needed:
            yield warn(name, f"{number} shows widgets as HTML only", f"pip install --upgrade {package}")
        else:
            yield ok(name, f"{number} runs the widgets")
    if not installed:
        yield ok("notebook", f"ipykernel {_version('ipykernel')}, without JupyterLab or Notebook")
    yield ok("front ends", _ELSEWHERE)


def _browser(_history: str) -> Iterator[CheckResult]:
    from exposurekit.reports import pdf

    try:
        yield ok("browser", f"reports open with {webbrowser.get().__class__.__name__}")
    except webbrowser.Error:
        yield warn("browser", "no browser can be started", "open report files on a machine with a browser")
    if path := pdf.find_browser():
        yield ok("print", f"{Path(path).name} prints reports as PDF")
    else:
        yield warn(
            "print", "Chromium, Chrome or Edge is not installed", "install one, if you want reports as PDF"
        )


def _service(_history: str) -> Iterator[CheckResult]:
    from exposurekit.client import Client, RetryPolicy
    from exposurekit.client.config import environment_settings

    try:
        settings = environment_settings()
    except ConfigurationError as error:
        yield fail("credentials", str(error), "correct the file, or set the variables in the environment")
        return
    if missing := [f"EXPOSUREKIT_{name.upper()}" for name, value in settings.items() if not value]:
        message = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set"
        yield warn(
            "credentials",
            message,
            "set them in the environment or .env, or try `exposurekit demo`, which needs none",
        )
        return
    try:
        with Client(retries=RetryPolicy(max_retries=0, initial_delay=0)) as client:
            yield from _request_check(client)
    except ExposureError as error:
        yield fail("credentials", str(error), "correct this setting")


def _request_check(client: Any) -> Iterator[CheckResult]:
    from exposurekit.client import calls, protocol
    from exposurekit.client.retry import Response

    call, started = calls.list_users(limit=1), time.monotonic()
    result = client.send(call)
    duration_ms = (time.monotonic() - started) * 1000
    try:
        protocol.plain_values(call, client.config, result)
    except ConnectionFailed as error:
        yield fail(
            "service",
            str(error).partition(". ")[0],  # the fix says the rest
            "check that it runs, and that EXPOSUREKIT_BASE_URL is the part before /api/",
        )
        return
    except Unauthorized as error:
        yield ok("service", f"responds in {duration_ms:.0f} ms")
        yield fail("credentials", str(error), "check integration name, key and secret")
        return
    except ExposureError as error:
        yield fail(
            "service", str(error), "ask its operator; `exposurekit.Client.probe()` shows its responses"
        )
        return
    yield ok("service", f"responds in {duration_ms:.0f} ms and accepts the credentials")
    if isinstance(result, Response):
        yield from _clock(result.headers.get("date"))
    yield from _deviations(client)


def _deviations(client: Any) -> Iterator[CheckResult]:
    from exposurekit.client import probe

    try:
        deviations = probe.deviations(client)
    except ExposureError as error:
        yield fail("responses", str(error), "ask the service's operator")
        return
    if deviations:
        yield warn(
            "responses",
            f"they deviate from the specification: {first(deviations)}",
            "no action needed: they are read all the same; `exposure.deviations()` counts them",
        )
    else:
        yield ok("responses", "match the specification")


def _clock(date: str | None) -> Iterator[CheckResult]:
    with suppress(TypeError, ValueError):
        apart = abs((parsedate_to_datetime(date or "") - datetime.now(UTC)).total_seconds())
        if apart > CLOCK_MAX_S:
            message = f"this machine's clock and the service's are {apart:,.0f} s apart"
            yield fail("clock", message, "set it by NTP: the history would get wrong times")
        else:
            yield ok("clock", "agrees with the service's")


def _own_service(_history: str) -> Iterator[CheckResult]:
    """The service that is run on this machine, as far as the environment configures it."""
    settings = {name: os.environ.get(f"EXPOSUREKIT_{name}", "") for name in OWN_SERVICE}
    if not any(settings.values()):
        return
    try:
        health = yield from _database(settings)
        yield from _definitions_and_mail(settings, health)
    except ImportError:
        why, _, fix = NEEDS_SERVICE.partition(": ")
        yield fail("own service", why, fix)


def _database(settings: Mapping[str, str]) -> Generator[CheckResult, None, list[dict[str, Any]]]:
    """Check the database; return the health of its sites, none if it cannot be read."""
    from exposurekit.service.clock import Clock
    from exposurekit.service.storage.database import DATABASE_ERRORS, Database, exists
    from exposurekit.service.storage.encryption import Vault, key_source, load_key

    url = settings["DATABASE"] or "sqlite:///service.db"
    try:
        is_there = exists(url)
    except ConfigurationError as error:
        yield fail("database", error.problem, error.fix or "correct EXPOSUREKIT_DATABASE")
        return []
    if is_there is False:
        if settings["DATABASE"]:
            yield fail("database", *no_database(url))
        return []
    try:
        key = load_key(create=False)
    except ConfigurationError as error:
        fix = "set EXPOSUREKIT_SERVICE_KEY_FILE to the key of the database"
        yield fail("key", error.problem, error.fix or fix)
        return []
    yield ok("key", "can be read")
    if (file := ServiceDatabase(url, None).sqlite_file()) is not None:
        yield _disk(file)
    database = Database(url, vault=Vault(key, source=key_source()), clock=Clock())
    health: list[dict[str, Any]] = []
    try:
        results, health = asyncio.run(_database_checks(database))
        yield from results
    except ConfigurationError as error:
        fix = "check EXPOSUREKIT_DATABASE, the key file and the installed version"
        yield fail("database", error.problem, error.fix or fix)
    except DATABASE_ERRORS as error:
        yield fail("database", f"cannot be read: {database.explain(error)}")  # which says what to do
    return health


def _disk(database: Path) -> CheckResult:
    """The space that is left for an SQLite database."""
    from exposurekit.service.storage.database_faults import is_full

    name = database.name
    if is_full(database):
        return fail("disk", f"the disk of {name} is full: the service cannot write", "free some space")
    free = shutil.disk_usage(database.resolve().parent).free
    message = f"{free / 1e6:,.0f} MB free on the disk of {name}"
    return warn("disk", message, "free some space") if free < DISK_FREE_MIN else ok("disk", message)


async def _database_checks(database: Any) -> tuple[list[CheckResult], list[dict[str, Any]]]:
    from exposurekit.service.mail import message_store

    try:
        if not await database.is_ready():
            upgrade = "back it up, then run any command on it, such as exposurekit service status"
            return [warn("database", "was created by an older version", upgrade)], []
        async with database.reading() as session:
            checks = [await worker_check(session), *await webhooks_check(session)]
            mailboxes = await message_store.mailboxes(session)
            health = await site_health(session)
    finally:
        await database.close()
    results = [ok("database", "is up to date and matches the key"), *checks]
    results += [
        warn(
            "mailbox", f"the last check failed: {one.problem}", "exposurekit mail list, and the worker's log"
        )
        for one in mailboxes
        if one.problem
    ]
    return results, health


def _definitions_and_mail(
    settings: Mapping[str, str], health: Iterable[Mapping[str, Any]]
) -> Iterator[CheckResult]:
    from exposurekit.service.mail.settings import supports

    mail, file = None, settings["MAIL"]
    sites, result = definitions_check(Path(settings["SITES"]) if settings["SITES"] else None)
    yield result
    yield from scans_check(sites, health)
    try:
        mail = mail_settings(Path(file) if file else None)
        if mail is not None:
            yield _mailbox(mail)
    except ConfigurationError as error:
        first_problem, *more = str(error).splitlines()
        yield fail("mailbox", first_problem, "correct the file that EXPOSUREKIT_MAIL names", more)
        return
    if waiting := sum(not supports(mail, site) for site in sites.values()):
        message = f"definitions whose removals stay manual without a mailbox or mail server: {waiting:,}"
        yield warn("mailbox", message, "set EXPOSUREKIT_MAIL to the settings file")


def _mailbox(mail: Any) -> CheckResult:
    """The settings of the mailbox, without a connection; raises `ConfigurationError` if a file is missing."""
    for login in (mail.imap, mail.smtp):
        if login is not None:
            login.password()
            login.tls_context()
    if mail.directory is not None and not os.access(mail.directory, os.R_OK | os.W_OK | os.X_OK):
        message = "its directory does not exist, or you cannot read and write it"
        return fail("mailbox", message, "create it, or run exposurekit doctor as the service's user")
    return ok("mailbox", "its settings and passwords can be read; no connection was tried")


def _history(history: str) -> Iterator[CheckResult]:
    from exposurekit.history import History

    directory = local_option(history)
    if directory is not None and not directory.exists():
        yield warn("history", "does not exist yet", "exposurekit collect")
        return
    try:
        with History(history) as opened:
            yield from _history_check(opened)
    except NotFound:
        yield warn("history", "has no runs yet", "exposurekit collect")
    except ExposureError as error:
        yield fail(
            "history", str(error), "exposurekit history verify, or name another directory with --history"
        )
    except OSError as error:
        yield fail("history", f"cannot be read: {error.strerror}", "name another directory with --history")


def _history_check(history: Any) -> Iterator[CheckResult]:
    from exposurekit.history.maintenance import REMEDY

    damage, last = history.verify(), history.last_run()
    if damage:
        yield fail("history", f"damaged: {first(damage)}", REMEDY)
    days = (datetime.now(UTC) - (last.finished_at or last.started_at)).total_seconds() / 86_400
    message = f"{last.seq:,} runs, the last {days:,.1f} days ago"
    if days > RUN_AGE_MAX_DAYS:
        yield warn("history", message, "exposurekit watch install prints how to collect automatically")
    elif not damage:
        yield ok("history", f"{message}; not damaged")
    if pending := history.pending_runs():
        yield warn(
            "runs",
            f"{len(pending):,} wait for a shard",
            "collect the shard, or run exposurekit history finish RUN",
        )
    if stale := len(history.stale()):
        yield warn(
            "people",
            f"{stale:,} were not loaded completely in the last run",
            "exposurekit export stale --out stale.csv",
        )
    else:
        yield ok("people", "everyone was loaded completely in the last run")


def _watch(history: str) -> Iterator[CheckResult]:
    from exposurekit.cli.watch import STATUS_FILE
    from exposurekit.monitor.status import read

    directory = local_option(history)
    if directory is None or not directory.is_dir():
        return
    try:
        problem = read(directory / STATUS_FILE)["problem"]
    except NotFound:
        yield warn("watch", "none was started here", "exposurekit watch install, unless cron collects")
        return
    except ExposureError as error:
        yield fail("watch", str(error), "exposurekit watch run")
        return
    if problem:
        yield fail("watch", problem, "exposurekit watch status")
    else:
        yield ok("watch", "runs without problems")


def _files(_history: str) -> Iterator[CheckResult]:
    from exposurekit.system import paths

    for file in sorted(paths.config_dir().glob("*.key")) if paths.config_dir().is_dir() else ():
        if not file.is_file():
            yield fail("keys", f"{file.name} is a broken link", "restore it from a backup")
        elif os.name == "posix" and file.stat().st_mode & 0o077:
            yield fail("keys", f"{file.name} can be read by others", f"chmod 600 {file}")
    if Path(".env").is_file() and os.name == "posix" and Path(".env").stat().st_mode & 0o077:
        yield warn("keys", ".env can be read by others", "chmod 600 .env")


MISSING = "missing"
_CHECKS = (_versions, _notebook, _browser, _service, _own_service, _history, _watch, _files)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return MISSING
