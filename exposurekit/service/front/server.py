"""The service on a socket: in the foreground for an operator, or in a thread for whoever needs one for a while."""

from exposurekit import serving
from exposurekit.service import logs
from exposurekit.service.database import Database
from exposurekit.service.front.app import create_app
from exposurekit.service.front.limits import Limits
from exposurekit.service.worker import Worker
from exposurekit.serving import LOOPBACK, running

__all__ = ["running", "serve"]


def serve(
    database: Database,
    host: str = LOOPBACK,
    port: int = 8642,
    *,
    worker: Worker | None = None,
    limits: Limits | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; requests that have begun are answered first.

    Args:
        database: Where everything is.
        host: The address to listen on.
        port: The port; 0: any that is free.
        worker: Works inside; without it, another process must.
        limits: How much a key may ask; without, as much as it likes.

    Raises:
        Misconfigured: Nothing can listen there, or the database cannot be opened.
        WorkerEnded: The worker ended by itself.
    """
    logs.to_stderr()
    serving.serve(create_app(database, worker=worker, limits=limits), host, port)
