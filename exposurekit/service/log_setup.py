"""The log of a service process, on stderr. Lines hold no key, no secret and no personal value; see `front.watch`."""

import logging
import time

_LEVELS = {
    "exposurekit": logging.INFO,
    "uvicorn.error": logging.WARNING,
    "python_multipart": logging.CRITICAL,  # it quotes the bodies that it cannot read
}


class _InUTC(logging.Formatter):
    """Instants as RFC 3339 writes them."""

    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"


def to_stderr() -> None:
    """Log on stderr from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(_InUTC("at=%(asctime)s level=%(levelname)s %(message)s"))
    for name, level in _LEVELS.items():
        log = logging.getLogger(name)
        log.setLevel(level)
        log.handlers = [handler]
        log.propagate = False
    logging.getLogger("uvicorn.error").addFilter(_not_twice)


def _not_twice(record: logging.LogRecord) -> bool:
    """A start that fails is raised, with its reason; uvicorn says so too, without it."""
    return not record.getMessage().startswith("Application startup failed")
