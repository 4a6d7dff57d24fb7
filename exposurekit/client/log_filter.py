"""What the network's libraries log, without what nobody else may see. Logs nothing itself."""

import logging
import re

_LOGS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
_CREDENTIALS = re.compile(r"(/api/[^/\s]+/)[^/\s]+|((?:api_)?secret=)[^&\s\"']+")
_CAME = re.compile(r"(^receive_\S+|^\w+\.failed|\bHTTP/\S+ \d+) .*", re.DOTALL)


class _Masked(logging.Filter):
    """httpx writes whole URLs to its log: the key is in their path and the secrets in their query.

    httpcore writes what came: a redirect repeats the URL, and what is no HTTP may hold anything.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = _CAME.sub(r"\1", _CREDENTIALS.sub(r"\1\2***", record.getMessage()))
        record.args = None
        return True


_MASKED = _Masked()


def mask() -> None:
    """Keep keys, secrets and bodies out of those logs, for this whole process; the second time nothing."""
    for name in _LOGS:
        logging.getLogger(name).addFilter(_MASKED)
