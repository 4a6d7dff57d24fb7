"""The processes of a service: its front with a worker inside, and workers beside it. Ends in peace on a signal."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import session
from exposurekit.cli.options import (
    callback_network_option,
    database_option,
    key_option,
    search_engine_option,
    sites_option,
)
from exposurekit.errors import ConfigurationError
from exposurekit.service.constants import REQUESTS_PER_SECOND


@click.command()
@database_option
@key_option
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option("--port", default=8642, type=click.IntRange(0, 65535), help="The port; 0: any free one.")
@sites_option
@search_engine_option
@callback_network_option
@click.option(
    "--no-worker",
    is_flag=True,
    help="Serve the API only; run the background jobs with exposurekit worker.",
)
@click.option(
    "--requests-per-second",
    default=REQUESTS_PER_SECOND,
    type=click.IntRange(0, 1_000_000),
    help="Requests per key and address, averaged over ten seconds; beyond, the answer is 429. 0: no limit, nor one for "
    "refused keys.",
)
def serve(
    *,
    database: str,
    key_file: Path | None,
    host: str,
    port: int,
    sites_directory: Path | None,
    search_engine: str | None,
    callback_networks: tuple[str, ...],
    no_worker: bool,
    requests_per_second: int,
) -> None:
    """Run the service: the API and its background jobs.

    Runs until Ctrl-C or SIGTERM. Register an integrator first: exposurekit integrator add NAME. With --no-worker the
    background jobs (scans, removals, webhook deliveries) are left to exposurekit worker.

    Example: exposurekit serve --sites ./sites
    """
    from exposurekit.service.api.rate_limits import Limits
    from exposurekit.service.api.server import serve as serve_database

    opened = session.database(database, key_file, makes=True)
    inside = None if no_worker else _worker(opened, sites_directory, search_engine, callback_networks)
    limits = Limits(requests_per_second=requests_per_second) if requests_per_second else None
    serve_database(opened, host, port, worker=inside, limits=limits)


@click.command()
@database_option
@key_option
@sites_option
@search_engine_option
@callback_network_option
def worker(
    *,
    database: str,
    key_file: Path | None,
    sites_directory: Path | None,
    search_engine: str | None,
    callback_networks: tuple[str, ...],
) -> None:
    """Run background jobs: scans, removals and webhook deliveries.

    Runs until Ctrl-C or SIGTERM.

    Several may run on one PostgreSQL, beside a service or without one. What a stopped worker had begun is at once
    for the others.

    Example: exposurekit worker --database postgresql+psycopg://db/exposure
    """
    from exposurekit.service import log_setup

    opened = session.database(database, key_file)
    made = _worker(opened, sites_directory, search_engine, callback_networks)
    log_setup.to_stderr()
    if database.startswith("sqlite"):
        click.echo(
            "On SQLite serve has a worker inside already; this one and that take turns at writing.", err=True
        )
    asyncio.run(_run_until_signal(opened, made))


def _worker(database: Any, sites: Path | None, search_engine: str | None, networks: tuple[str, ...]) -> Any:
    from exposurekit.service.worker import create_worker

    _check_address(search_engine)
    return create_worker(
        database,
        definitions=session.definitions(sites),
        search_engine=search_engine,
        callback_networks=networks,
    )


def _check_address(search_engine: str | None) -> None:
    if search_engine and not search_engine.startswith(("http://", "https://")):
        raise ConfigurationError(
            "--search-engine is an http or https address, such as http://127.0.0.1:8888/search"
        )


async def _run_until_signal(database: Any, worker: Any) -> None:
    """Work until a signal comes; then what was begun is given back.

    Raises:
        WorkerCrashed: The worker ended by itself.
    """
    from exposurekit.service.vigil import supervise

    await database.open()
    told = asyncio.Event()
    try:
        with _on_signals(told.set):
            tasks = [asyncio.create_task(supervise(worker)), asyncio.create_task(told.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(tasks[1], return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):
                await tasks[0]
    finally:
        await database.close()


@contextlib.contextmanager
def _on_signals(tell: Callable[[], object]) -> Iterator[None]:
    """SIGINT and SIGTERM are told once; the second has the effect that it always has."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def told(*_: object) -> None:
        put_back()
        loop.call_soon_threadsafe(tell)

    for number in numbers:
        signal.signal(number, told)
    try:
        yield
    finally:
        put_back()
