"""Logging of a service process to stderr. Log lines hold no keys, secrets or personal data."""

import logging
import time

_LEVELS = {
    "exposurekit": logging.INFO,
    "uvicorn.error": logging.WARNING,
    "python_multipart": logging.CRITICAL,  # it quotes malformed bodies
}


class _InUTC(logging.Formatter):
    """Formats times as RFC 3339 in UTC."""

    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"


def to_stderr() -> None:
    """Send the log to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_InUTC("at=%(asctime)s level=%(levelname)s %(message)s"))
    for name, level in _LEVELS.items():
        log = logging.getLogger(name)
        log.setLevel(level)
        log.handlers = [handler]
        log.propagate = False
    logging.getLogger("uvicorn.error").addFilter(_not_startup_failure)


def _not_startup_failure(record: logging.LogRecord) -> bool:
    """Drop uvicorn's line about a failed start, which is also raised, with the reason."""
    return not record.getMessage().startswith("Application startup failed")
