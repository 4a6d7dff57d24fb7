"""`exposurekit serve` and `exposurekit worker`: the processes of a service."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exposurekit.cli import session
from exposurekit.cli.deployment_files import install_help_option, install_instructions
from exposurekit.cli.options import (
    WholeNumber,
    callback_network_option,
    mail_option,
    search_engine_option,
    site_network_option,
    sites_option,
)
from exposurekit.cli.session import ServiceDatabase, service_options
from exposurekit.errors import ConfigurationError
from exposurekit.service.api.rate_limits import REQUESTS_PER_SECOND

if TYPE_CHECKING:
    from exposurekit.cli.server_processes import ServerProcess


def _parse_network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise click.BadParameter(
            "it must be an address or a network, such as 127.0.0.1 or 10.0.0.0/8"
        ) from None


metrics_port_option = click.option(
    "--metrics-port",
    type=WholeNumber(0, 65535),
    help="Serve metrics for Prometheus at http://127.0.0.1:PORT/metrics; 0: any free port. Default: no metrics.",
)

log_format_option = click.option(
    "--log-format",
    default="text",
    type=click.Choice(("text", "json")),
    help="The form of the log on stderr: lines of text, or one JSON object a line.",
)


@click.command()
@service_options
@click.option("--host", default="127.0.0.1", help="The address to listen on.")
@click.option("--port", default=8642, type=WholeNumber(0, 65535), help="The port; 0: any free one.")
@sites_option
@search_engine_option
@callback_network_option
@site_network_option
@mail_option
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    metavar="CIDR",
    multiple=True,
    type=_parse_network,
    envvar="EXPOSUREKIT_TRUSTED_PROXIES",
    show_envvar=True,
    help="The address or network of a proxy whose X-Forwarded-For names the client, such as 127.0.0.1; repeat for several, "
    "or separate them by spaces in the variable.",
)
@click.option(
    "--create",
    is_flag=True,
    help="Create the SQLite file and its key if there is no file; on PostgreSQL, create a missing key.",
)
@click.option(
    "--no-worker", is_flag=True, help="Serve the API only; run the background jobs with exposurekit worker."
)
@click.option(
    "--requests-per-second",
    default=REQUESTS_PER_SECOND,
    type=WholeNumber(0, 1_000_000),
    help="Requests per key and address, averaged over ten seconds; beyond it the response is 429. 0: no limit, not even "
    "for rejected keys.",
)
@click.option(
    "--processes",
    default=1,
    type=WholeNumber(1, 64),
    help="Number of server processes; they share the port and the rate limits. One runs the worker; any that ends is "
    "replaced.",
)
@metrics_port_option
@log_format_option
@install_help_option
def serve(
    *,
    database: ServiceDatabase,
    host: str,
    port: int,
    sites_directory: Path | None,
    search_engine: str | None,
    callback_networks: tuple[str, ...],
    site_networks: tuple[str, ...],
    mail_file: Path | None,
    trusted_proxies: tuple[str, ...],
    create: bool,
    no_worker: bool,
    requests_per_second: int,
    processes: int,
    metrics_port: int | None,
    log_format: Any,
    install_help: bool,
) -> None:
    """Run the service: the API and its background jobs.

    Runs until Ctrl-C or SIGTERM. Register an integrator first: exposurekit integrator add NAME --attested-by WHO. With
    --no-worker the background jobs (scans, removals, webhook deliveries) are left to exposurekit worker.

    Example: exposurekit serve --sites ./sites
    """
    if install_help:
        click.echo(install_instructions(click.get_current_context()))
        return
    if port and port == metrics_port:
        raise click.UsageError("--metrics-port and --port must differ")
    settings = _Settings(
        database,
        None
        if no_worker
        else _WorkerOptions(sites_directory, search_engine, callback_networks, site_networks, mail_file),
        requests_per_second,
        trusted_proxies,
        create,
        log_format,
    )
    if processes > 1:
        _serve_with(processes, settings, host, port, metrics_port)
        return
    from exposurekit.service.api.server import serve as serve_database

    opened = database.unopened(create=create)
    serve_database(
        opened,
        host,
        port,
        worker=settings.worker(opened),
        limits=settings.limits,
        trusted_proxies=trusted_proxies,
        metrics=_metrics(database, metrics_port, create=create),
        metrics_port=metrics_port or 0,
        log_format=log_format,
    )


@dataclass(frozen=True, slots=True)
class _Settings:
    """What each server process is started with."""

    database: ServiceDatabase
    worker_options: "_WorkerOptions | None"
    requests_per_second: int
    trusted_proxies: tuple[str, ...]
    create: bool
    log_format: Any

    @property
    def limits(self) -> Any:
        """The rate limits, if there are any."""
        from exposurekit.service.api.rate_limits import Limits

        return Limits(requests_per_second=self.requests_per_second) if self.requests_per_second else None

    def worker(self, opened: Any) -> Any:
        """Return a worker for a database, if the service includes one."""
        return None if self.worker_options is None else self.worker_options.worker(opened)


@dataclass(frozen=True, slots=True)
class _WorkerOptions:
    """What a worker is started with."""

    sites_directory: Path | None
    search_engine: str | None
    callback_networks: tuple[str, ...]
    site_networks: tuple[str, ...]
    mail_file: Path | None

    def worker(self, opened: Any) -> Any:
        """Return a worker for a database."""
        from exposurekit.service.worker import create_worker

        if self.search_engine and not self.search_engine.startswith(("http://", "https://")):
            raise ConfigurationError(
                "--search-engine must be an http or https URL, such as http://127.0.0.1:8888/search"
            )
        return create_worker(
            opened,
            definitions=session.definitions(self.sites_directory),
            search_engine=self.search_engine,
            callback_networks=self.callback_networks,
            site_networks=self.site_networks,
            mail=session.mail_settings(self.mail_file),
            sites_directory=self.sites_directory,
        )


def _serve_with(processes: int, settings: _Settings, host: str, port: int, metrics_port: int | None) -> None:
    """Run several server processes until a signal arrives; their metrics are served in this process."""
    from exposurekit.cli.server_processes import ServerProcesses, shared_memory
    from exposurekit.service import log_setup
    from exposurekit.service.api.rate_limits import SharedCounts
    from exposurekit.system.asgi_server import address_of, announce, announce_end, bound_socket

    if os.name != "posix":
        raise ConfigurationError("--processes needs Linux or macOS: serve with one process")
    log_setup.to_stderr(settings.log_format)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bound_socket(host, port))
        directory = None
        if metrics_port is not None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="exposurekit-metrics-")))
        memory = (shared_memory(SharedCounts.words(processes)), shared_memory(processes))
        arguments = (settings, listener, memory, directory)
        group, address = ServerProcesses(_serve_share, processes, arguments), address_of(listener)

        @contextlib.contextmanager
        def serving() -> Iterator[None]:
            metrics = _metrics(settings.database, metrics_port, (directory, lambda: group.pids))
            with contextlib.nullcontext() if metrics is None else metrics.serving(metrics_port or 0):
                announce(listener)
                yield
            listener.close()  # as the processes do now: nobody waits to be accepted

        group.run(serving)
        announce_end(address)


def _serve_share(
    process: "ServerProcess",
    settings: _Settings,
    listener: Any,
    memory: tuple[Any, Any],
    metrics: Path | None,
) -> None:
    """Run one server process; the one with number 0 has the worker, and the first of all may create the database."""
    from exposurekit.service.api.server import Share, serve_share

    opened = settings.database.unopened(create=settings.create and process.is_first)
    counts, connections = (memoryview(one).cast("B").cast("Q") for one in memory)
    serve_share(
        opened,
        Share(process.number, listener, counts, connections, metrics, process.on_started),
        worker=None if process.number else settings.worker(opened),
        limits=settings.limits,
        trusted_proxies=settings.trusted_proxies,
        log_format=settings.log_format,
    )


@click.command()
@service_options
@sites_option
@search_engine_option
@callback_network_option
@site_network_option
@mail_option
@metrics_port_option
@log_format_option
@install_help_option
def worker(
    *,
    database: ServiceDatabase,
    sites_directory: Path | None,
    search_engine: str | None,
    callback_networks: tuple[str, ...],
    site_networks: tuple[str, ...],
    mail_file: Path | None,
    metrics_port: int | None,
    log_format: Any,
    install_help: bool,
) -> None:
    """Run background jobs: scans, removals and webhook deliveries.

    Runs until Ctrl-C or SIGTERM.

    Several workers may share one PostgreSQL database, with or without a service. When a worker stops, the others take
    over its jobs immediately. On SQLite the worker of serve is enough: a second one is safe, but gains little.

    Example: exposurekit worker --database postgresql+psycopg://db/exposure
    """
    if install_help:
        click.echo(install_instructions(click.get_current_context()))
        return
    from exposurekit.service import log_setup

    opened = database.unopened()
    options = _WorkerOptions(sites_directory, search_engine, callback_networks, site_networks, mail_file)
    background_worker = options.worker(opened)
    log_setup.to_stderr(log_format)
    metrics = _metrics(database, metrics_port)
    serving = contextlib.nullcontext() if metrics is None else metrics.serving(metrics_port or 0)
    asyncio.run(_run_until_signal(opened, background_worker, serving))


def _metrics(
    database: ServiceDatabase,
    port: int | None,
    shared: tuple[Any, Any] | None = None,
    *,
    create: bool = False,
) -> Any:
    """Return the metrics of this process or of several, with a connection of their own; None: there is no port for them."""
    if port is None:
        return None
    from exposurekit.service.api.metrics import Metrics, SharedRegistries

    return Metrics(database.unopened(create=create), shared and SharedRegistries(*shared))


async def _run_until_signal(
    database: Any, worker: Any, serving_metrics: contextlib.AbstractContextManager[Any]
) -> None:
    """Run a worker until a signal arrives, or it crashes; then release its jobs."""
    from exposurekit.service.worker import supervise

    await database.open(writable=True)
    stopping = asyncio.Event()
    try:
        with _on_signals(stopping.set), serving_metrics:
            tasks = [asyncio.create_task(supervise(worker)), asyncio.create_task(stopping.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(tasks[1], return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):
                await tasks[0]
    finally:
        await database.close()


@contextlib.contextmanager
def _on_signals(callback: Callable[[], object]) -> Iterator[None]:
    """Call back on the first SIGINT or SIGTERM; the second has its usual effect."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def on_signal(*_: object) -> None:
        restore()
        loop.call_soon_threadsafe(callback)

    for number in numbers:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
