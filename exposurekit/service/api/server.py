"""Serve the API: in the foreground for an operator, alone or as one of several processes, or in a thread."""

import socket
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from exposurekit.service import log_setup
from exposurekit.service.api.app import create_app
from exposurekit.service.api.rate_limits import Limits, SharedCounts
from exposurekit.service.log_setup import LogFormat
from exposurekit.service.storage.database import Database
from exposurekit.service.worker import Worker
from exposurekit.system import asgi_server
from exposurekit.system.asgi_server import LOOPBACK, SharedAccept, running

if TYPE_CHECKING:
    from exposurekit.service.api.metrics import Metrics

__all__ = ["running", "serve"]


@dataclass(frozen=True, slots=True)
class Share:
    """What one of several server processes shares with the others.

    Attributes:
        process: The number of this process, from 0.
        listener: The socket, bound to the service's address.
        counts: The memory of the rate limits, as `SharedCounts` describes it.
        connections: The number of open connections of each process.
        metrics: The directory in which requests are counted; None: they are not.
        on_started: Called once this process serves.
    """

    process: int
    listener: socket.socket
    counts: "memoryview[int]" = field(repr=False)
    connections: "memoryview[int]" = field(repr=False)
    metrics: Path | None
    on_started: Callable[[], object]


def serve(
    database: Database,
    host: str = LOOPBACK,
    port: int = 8642,
    *,
    worker: Worker | None = None,
    limits: Limits | None = None,
    trusted_proxies: Sequence[str] = (),
    metrics: "Metrics | None" = None,
    metrics_port: int = 0,
    log_format: LogFormat = "text",
) -> None:
    """Serve until SIGINT or SIGTERM; finish running requests first. Port 0: any free one.

    A worker runs inside the service; without one, another process must run it. Without limits, there are none. Trusted
    proxies are as in `asgi_server.serve`. Metrics are served on a loopback port of their own.
    """
    log_setup.to_stderr(log_format)
    registry = None if metrics is None else metrics.registry
    app = create_app(database, worker=worker, limits=limits, registry=registry)
    measured = app if metrics is None else _serving_metrics(app, metrics, metrics_port)
    asgi_server.serve(measured, host, port, trusted_proxies=trusted_proxies)


def serve_share(
    database: Database,
    share: Share,
    *,
    worker: Worker | None = None,
    limits: Limits | None = None,
    trusted_proxies: Sequence[str] = (),
    log_format: LogFormat = "text",
) -> None:
    """Serve as one of several processes until SIGINT or SIGTERM, as `serve` does; one of them may have the worker.

    The process that started them says where they listen, and serves their metrics.
    """
    log_setup.to_stderr(log_format)
    registry = None
    if share.metrics is not None:
        from exposurekit.service.api.metrics import shared_registry

        registry = shared_registry(share.metrics, share.process)
    counts = SharedCounts(share.counts, share.process)
    app = create_app(database, worker=worker, limits=limits, counts=counts, registry=registry)
    asgi_server.serve_on(
        share.listener,
        app,
        trusted_proxies=trusted_proxies,
        on_started=share.on_started,
        accepting=SharedAccept(share.connections, share.process),
    )


def _serving_metrics(app: ASGIApp, metrics: "Metrics", port: int) -> ASGIApp:
    """Serve metrics while the application runs; from when signals are handled."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        with metrics.serving(port) if scope["type"] == "lifespan" else nullcontext():
            await app(scope, receive, send)

    return run
