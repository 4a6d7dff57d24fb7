"""Translate Apprise's log into a reason why an address failed.

Apprise's own words are never passed on: they contain addresses, and those contain passwords.
"""

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_REASONS = (
    (re.compile(r"error=(3\d\d)\b"), "it redirects ({}): use the address it redirects to"),
    (re.compile(r"error=(\d{3})\b"), "it responded with {}"),
    (re.compile(r"\((\d{3}), b?['\"]"), "its mail server responded with {}"),
    # Phrases of Python and urllib3 that a host or path would not contain.
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|SSLError|\[SSL"),
        "its certificate is not trusted, or it does not support TLS",
    ),
    (
        re.compile(r"Name or service not known|[Nn]ame resolution|Failed to resolve|getaddrinfo failed"),
        "its host is unknown",
    ),
    (re.compile(r"Connection refused"), "its host refused the connection"),
    (re.compile(r"timed out"), "it timed out"),
    (re.compile(r"Connection error|Socket Exception"), "it could not be reached"),
)
_HINTS = {
    "401": "check user, password or token",
    "403": "check user, password or token",
    "404": "check the address",
    "535": "check user and password",
}
_CAPTURE_LOCK = threading.Lock()  # the process has one Apprise log
NO_REASON = "it failed without a reason"


class _LogCapture(logging.Handler):
    """Collects the log lines that explain a failure, but not the message, which Apprise logs too."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  a malformed log line must not stop a message
            return
        if record.levelno >= logging.WARNING or text.startswith("Socket Exception"):
            self.lines.append(text)


@contextmanager
def capture_apprise_log() -> Iterator[list[str]]:
    """Collect what Apprise logs within the block, for `failure_reason`; none of it reaches another log."""
    log, handler = logging.getLogger("apprise"), _LogCapture()
    with _CAPTURE_LOCK:
        before = log.level, log.propagate, log.handlers
        log.propagate, log.handlers = False, [handler]
        log.setLevel(logging.DEBUG)
        try:
            yield handler.lines
        finally:
            log.propagate, log.handlers = before[1:]
            log.setLevel(before[0])


def failure_reason(lines: list[str]) -> str:
    """Return the reason of a failure in one line.

    >>> failure_reason(["Failed to send JSON notification: Not Found (404)., error=404."])
    'it responded with 404: check the address'
    """
    log = "\n".join(lines)
    for pattern, template in _REASONS:
        if match := pattern.search(log):
            code = match[1] if match.groups() else ""
            return template.format(code) + (f": {_HINTS[code]}" if code in _HINTS else "")
    return NO_REASON


def silence_apprise() -> None:
    """Keep Apprise's log lines out of every other log."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
