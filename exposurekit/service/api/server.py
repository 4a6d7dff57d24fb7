"""Serve the API: in the foreground for an operator, or in a thread."""

from exposurekit.service import log_setup
from exposurekit.service.api.app import create_app
from exposurekit.service.api.rate_limits import Limits
from exposurekit.service.storage.database import Database
from exposurekit.service.worker import Worker
from exposurekit.system import asgi_server
from exposurekit.system.asgi_server import LOOPBACK, running

__all__ = ["running", "serve"]


def serve(
    database: Database,
    host: str = LOOPBACK,
    port: int = 8642,
    *,
    worker: Worker | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; finish running requests first. Port 0: any free one.

    A worker runs inside the service; without one, another process must run it. Without limits, there are none.
    """
    log_setup.to_stderr()
    asgi_server.serve(create_app(database, worker=worker, limits=limits), host, port)
