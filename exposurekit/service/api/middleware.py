"""What every request goes through: error responses, the access log and metrics.

A log line has the operation, the status, the duration and the integrator's id, and no values. An error is logged by type
and location, because its text and traceback may hold personal data.
"""

import logging
import re
import time
from collections.abc import Awaitable, Callable
from traceback import walk_tb
from types import TracebackType

from sqlalchemy.exc import InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection  # the connection pool is exhausted
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from exposurekit.service.api import responses
from exposurekit.service.api.responses import Response

RETRY_AFTER_S = 5
# Locked, full or unreachable, or a server that has become read-only, which the driver calls internal: usually temporary.
UNAVAILABLE = (OperationalError, InternalError, NoConnection, TimeoutError)
# The keys of the operation's name and of the integrator's id in the scope; the latter is there if name and key are valid.
OPERATION, INTEGRATOR = "exposurekit.operation", "exposurekit.integrator"
REASON = "exposurekit.reason"  # the key of why a request was refused, unless its status says so
# The key's position in a path, and anything else that looks like a key, such as in a mistyped URL.
_KEY_IN_PATH = re.compile(r"(/api/[^/?]*/)[^/?\s]*|(?<=/)[A-Za-z0-9]{32,}")
_log = logging.getLogger("exposurekit.service")
Respond = Callable[[Scope, Receive], Awaitable[Response]]
Count = Callable[[str, int | None, Exception | str | None, float], object]


def _type_name(error: Exception) -> str:
    return type(error).__name__


class RequestMiddleware:
    """The ASGI application around what responds to requests; no exception escapes.

    Args:
        respond: Returns the response to a request.
        lifespan: Starts and ends the service.
        count: Called with each request's operation, its status (None: the client was gone before the response), the
            exception or the reason in the scope that made the response an error, and the seconds that it took.
        explain: Returns why the database is not available, for the log.
    """

    def __init__(
        self,
        respond: Respond,
        lifespan: ASGIApp,
        count: Count | None = None,
        *,
        explain: Callable[[Exception], str] = _type_name,
    ) -> None:
        self._respond = respond
        self._lifespan = lifespan
        self._explain = explain
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the start and the end of the server."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        started = time.perf_counter()
        response: Response | None = None
        failure: Exception | None = None
        try:
            response = await self._respond(scope, receive)
            await response.send(scope, send)
        except ClientDisconnect:
            pass  # the client is gone
        except Exception as fault:  # noqa: BLE001  the server would log its text
            reason = f": {self._explain(fault)}" if isinstance(fault, UNAVAILABLE) else ""
            _log.error("fault=%s at=%s%s", type(fault).__name__, _location(fault.__traceback__), reason)
            if response is None:
                failure, response = fault, _server_error(scope, fault)
                await response.send(scope, send)
        took_s = time.perf_counter() - started
        operation = scope.get(OPERATION, "none")
        if self._count is not None:
            cause = failure or scope.get(REASON)
            self._count(operation, None if response is None else response.status, cause, took_s)
        values = operation, 0 if response is None else response.status, took_s * 1000
        if INTEGRATOR in scope:
            _log.info("operation=%s status=%d ms=%.1f integrator=%d", *values, scope[INTEGRATOR])
        else:
            _log.info("operation=%s status=%d ms=%.1f", *values)


def _server_error(scope: Scope, fault: Exception) -> Response:
    if isinstance(fault, UNAVAILABLE):
        headers = [responses.retry_after(RETRY_AFTER_S)]
        return responses.error(scope, 503, "the database is not available", headers)
    return responses.error(scope, 500, "the service failed")


def _location(trace: TracebackType | None) -> str:
    """Return the innermost frame of this package, and the innermost of all."""
    frames = [
        (frame.f_globals.get("__name__", "?"), frame.f_code.co_name, line) for frame, line in walk_tb(trace)
    ]
    ours = [frame for frame in frames if frame[0].startswith("exposurekit.")]
    return " <- ".join(
        f"{module}.{name}:{line}" for module, name, line in dict.fromkeys([*frames[-1:], *ours[-1:]])
    )


class _Masked(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(masked(value) if isinstance(value, str) else value for value in record.args)
        record.msg = masked(record.msg) if isinstance(record.msg, str) else record.msg
        return True


def masked(text: str) -> str:
    """Mask the key and the query of a path.

    >>> masked("/api/acme/k3y/v2/users/7.json?api_secret=s3cret")
    '/api/acme/***/v2/users/7.json?***'
    """
    path, query, _ = _KEY_IN_PATH.sub(r"\g<1>***", text).partition("?")
    return f"{path}?***" if query else path


def mask_access_log() -> None:
    """Mask keys and secrets in uvicorn's access log, in case it is enabled."""
    log = logging.getLogger("uvicorn.access")
    if not any(isinstance(existing, _Masked) for existing in log.filters):
        log.addFilter(_Masked())
