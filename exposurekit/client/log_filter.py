"""Log filter: removes keys, secrets and bodies from what httpx and httpcore log."""

import logging
import re

_LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
_CREDENTIALS = re.compile(r"(/api/[^/\s]+/)[^/\s]+|((?:api_)?secret=)[^&\s\"']+")
_RECEIVED = re.compile(r"(^receive_\S+|^\w+\.failed|\bHTTP/\S+ \d+) .*", re.DOTALL)


class _MaskingFilter(logging.Filter):
    """httpx logs whole URLs, with the key in the path and the secrets in the query.

    httpcore logs what it receives: a redirect repeats the URL, and invalid HTTP may contain anything.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = _RECEIVED.sub(r"\1", _CREDENTIALS.sub(r"\1\2***", record.getMessage()))
        record.args = None
        return True


_FILTER = _MaskingFilter()


def mask() -> None:
    """Mask keys, secrets and bodies in those logs for the whole process. Calling it again has no effect."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
