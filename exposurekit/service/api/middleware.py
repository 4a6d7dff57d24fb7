"""What stands around every request: headers, the last net under a fault, one line of log. Logs no value of any kind.

A line says which operation, which status and how long. A fault is told by its type and place: its text may hold
what a person told us, and so may a traceback.
"""

import logging
import re
import time
from types import TracebackType

from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection  # every one that the pool may hold is in use
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exposurekit.service.api import responses

RETRY_AFTER_S = 5
OPERATION = "exposurekit.operation"  # where a request's scope bears the operation's name
_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
# Where the key stands, and whatever else in a path looks like one: a mistyped address is no reason to show it.
_KEY_IN_PATH = re.compile(r"(/api/[^/?]*/)[^/?\s]*|(?<=/)[A-Za-z0-9]{32,}")
_log = logging.getLogger("exposurekit.service")


class RequestMiddleware:
    """Wraps the application; an exception never leaves it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            pass  # nobody is left to answer
        except Exception as fault:  # noqa: BLE001  the server would log its text
            _log.error("fault=%s at=%s", type(fault).__name__, _place(fault.__traceback__))
            if not status:
                await _failed(scope, fault)(scope, receive, sending)
        took_ms = (time.perf_counter() - started) * 1000
        _log.info("operation=%s status=%d ms=%.1f", scope.get(OPERATION, "none"), status, took_ms)


def _failed(scope: Scope, fault: Exception) -> Response:
    if isinstance(
        fault, (OperationalError, NoConnection, TimeoutError)
    ):  # locked for long, full, or not there: it may pass
        return responses.error(
            scope, 503, "the database is not available", {"retry-after": str(RETRY_AFTER_S)}
        )
    return responses.error(scope, 500, "the service failed")


def _place(trace: TracebackType | None) -> str:
    """The innermost line of ours, and the innermost of all."""
    places = []
    while trace:
        code = trace.tb_frame.f_code
        places.append((trace.tb_frame.f_globals.get("__name__", "?"), code.co_name, trace.tb_lineno))
        trace = trace.tb_next
    ours = [place for place in places if place[0].startswith("exposurekit.")]
    return " <- ".join(
        f"{module}.{name}:{line}" for module, name, line in dict.fromkeys([*places[-1:], *ours[-1:]])
    )


class _Masked(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(masked(value) if isinstance(value, str) else value for value in record.args)
        record.msg = masked(record.msg) if isinstance(record.msg, str) else record.msg
        return True


def masked(text: str) -> str:
    """A path without the key in it and without its query, where the secrets are.

    >>> masked("/api/acme/k3y/v2/users/7.json?api_secret=s3cret")
    '/api/acme/***/v2/users/7.json?***'
    """
    path, query, _ = _KEY_IN_PATH.sub(r"\g<1>***", text).partition("?")
    return f"{path}?***" if query else path


def mask_access_log() -> None:
    """Keep keys and secrets out of uvicorn's access log, should anybody turn it on."""
    log = logging.getLogger("uvicorn.access")
    if not any(isinstance(known, _Masked) for known in log.filters):
        log.addFilter(_Masked())
