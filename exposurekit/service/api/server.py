"""Serve the API: in the foreground for an operator, or in a thread."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from exposurekit.service import log_setup
from exposurekit.service.api.app import create_app
from exposurekit.service.api.rate_limits import Limits
from exposurekit.service.log_setup import LogFormat
from exposurekit.service.storage.database import Database
from exposurekit.service.worker import Worker
from exposurekit.system import asgi_server
from exposurekit.system.asgi_server import LOOPBACK, running

if TYPE_CHECKING:
    from exposurekit.service.api.metrics import Metrics

__all__ = ["running", "serve"]


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
    app = create_app(database, worker=worker, limits=limits, metrics=metrics)
    measured = app if metrics is None else _serving_metrics(app, metrics, metrics_port)
    asgi_server.serve(measured, host, port, trusted_proxies=trusted_proxies)


def _serving_metrics(app: ASGIApp, metrics: "Metrics", port: int) -> ASGIApp:
    """Serve metrics while the application runs; from when signals are handled."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        with metrics.serving(port) if scope["type"] == "lifespan" else nullcontext():
            await app(scope, receive, send)

    return run
