"""Logging of a service process to stderr, as text or JSON. Log lines hold no keys, secrets or personal data."""

import asyncio
import json
import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

LogFormat = Literal["text", "json"]
_LEVELS = {
    "exposurekit": logging.INFO,
    "uvicorn.error": logging.WARNING,
    "python_multipart": logging.CRITICAL,  # it quotes malformed bodies
    "asyncio": logging.WARNING,
    "py.warnings": logging.WARNING,
}
_OURS = "exposurekit"
# asyncio goes on with the arguments of a callback, the task, or the text of an exception.
_REST = {"asyncio": re.compile(r"[\n(<].*", re.DOTALL)}
_STARTUP_FAILURES = ("Application startup failed", "Exception in 'lifespan' protocol")
_OTHER_LINES = re.compile(r"\n.*", re.DOTALL)
_CONVERSION = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")
_FIELD = re.compile(r"\b(\w+)=(%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]|[\w.]+)")
# Of each field its name, its text or conversion, and the number of the argument that is converted.
_Fields = tuple[tuple[str, str, int | None], ...]


class _AsText(logging.Formatter):
    """Formats a record as one line, with times as RFC 3339 in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"at={_time(record, ' ')} level={record.levelname} {_message(record)}"
        exception = _exception_type(record)
        return line if exception is None else f"{line} exception={exception}"


class _AsJson(logging.Formatter):
    """Formats a record as one JSON object on one line.

    >>> record = logging.LogRecord("exposurekit.service", logging.INFO, "", 0, "operation=%s ms=%.1f", ("get_user", 2.04), None)
    >>> record.created = 0.5
    >>> print(_AsJson().format(record))
    {"time": "1970-01-01T00:00:00.500Z", "level": "INFO", "pid": ..., "logger": "exposurekit.service", "message":
    "operation=get_user ms=2.0", "fields": {"operation": "get_user", "ms": 2.0}}
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record, "T"),
            "level": record.levelname,
            "pid": os.getpid(),
            "logger": record.name,
            "message": _message(record),
        }
        if fields := dict(_fields(record)):
            line["fields"] = fields
        if (exception := _exception_type(record)) is not None:
            line["exception"] = exception
        return json.dumps(line)


def to_stderr(log_format: LogFormat = "text") -> None:
    """Send the log to stderr: lines of text, or one JSON object a line.

    An object has ``time`` (RFC 3339, UTC), ``level``, ``pid`` (of the process), ``logger``, ``message``, ``fields`` (what the message has as
    ``name=value``; numbers stay numbers) and the type of an ``exception``.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_AsJson() if log_format == "json" else _AsText())
    logging.captureWarnings(True)
    # No line has them, and to ask for them takes a tenth of the time of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    for name, level in _LEVELS.items():
        log = logging.getLogger(name)
        log.setLevel(level)
        log.handlers = [handler]
        log.propagate = False
    for one in (_not_startup_failure, _not_cancelled):
        logging.getLogger("uvicorn.error").addFilter(one)


def _not_cancelled(record: logging.LogRecord) -> bool:
    """Whether a record is not about a request that a second Ctrl-C has cancelled."""
    return _exception_type(record) != asyncio.CancelledError.__name__


def _time(record: logging.LogRecord, separator: str) -> str:
    return f"{_second(int(record.created), separator)}.{int(record.created % 1 * 1000):03}Z"


@lru_cache(maxsize=4)  # the lines of a second share it
def _second(second: int, separator: str) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(separator).removesuffix("+00:00")


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """Yield the fields of one of our messages, by its format; a value is never parsed, so it cannot add a field."""
    if not record.name.startswith(_OURS) or not isinstance(record.msg, str):
        return
    arguments = record.args if isinstance(record.args, tuple) else ()
    for name, value, number in _fields_of(record.msg):
        if number is None:
            yield name, value
        elif number < len(arguments):
            yield name, _plain(value, arguments[number])


@lru_cache(maxsize=256)  # about as many as there are messages
def _fields_of(message: str) -> _Fields:
    numbers = [match.start() for match in _CONVERSION.finditer(message) if match[0] != "%%"]
    return tuple(
        (match[1], match[2], numbers.index(match.start(2)) if match[2].startswith("%") else None)
        for match in _FIELD.finditer(message)
    )


def _plain(conversion: str, value: Any) -> Any:
    """Return a value for JSON, rounded as the text is."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return float(conversion % value) if isinstance(value, float) else conversion % (value,)


def _message(record: logging.LogRecord) -> str:
    """Return the message; of another package only the start, which holds no values."""
    message = record.getMessage()
    if record.name.startswith(_OURS):
        return message
    return _REST.get(record.name, _OTHER_LINES).sub("", message).rstrip()


def _exception_type(record: logging.LogRecord) -> str | None:
    """Name the type of the exception; its text and its traceback may hold personal data."""
    if not record.exc_info or record.exc_info[0] is None:
        return None
    return record.exc_info[0].__name__


def _not_startup_failure(record: logging.LogRecord) -> bool:
    """Drop uvicorn's lines about a failed start, which is also raised, with the reason."""
    return not record.getMessage().startswith(_STARTUP_FAILURES)
