"""A worker that ends though nobody asked it to: told, never passed over. Starts none again; a process manager does."""

import logging

from exposurekit.errors import ExposureError
from exposurekit.service.worker import Worker

_log = logging.getLogger("exposurekit.service")


class WorkerCrashed(ExposureError):
    """A worker ended by an error: what is due would not be done any more."""


async def supervise(worker: Worker) -> None:
    """Run a worker, until cancelled.

    Raises:
        WorkerCrashed: It ended by itself; what ended it is in the log, by its kind.
    """
    try:
        await worker.run()
    except Exception as error:  # noqa: BLE001  its text may hold anything
        fault = _kind(error)
    else:
        fault = "none"
    _log.error("worker=ended fault=%s", fault)
    raise WorkerCrashed(f"the worker ended ({fault}), and the service with it: start it again")


def _kind(error: BaseException) -> str:
    """Of a group, the kind of its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return type(error).__name__
