"""Why an address could not be told: of what Apprise says to its log, in words of ours. Never passes on a word of that.

What it says holds addresses, and they hold passwords.
"""

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_REASONS = (
    (re.compile(r"error=(3\d\d)\b"), "it redirects ({}): give the address it leads to"),
    (re.compile(r"error=(\d{3})\b"), "it answered with {}"),
    (re.compile(r"\((\d{3}), b?['\"]"), "its mail server answered with {}"),
    # In the words of Python and of urllib3: a host or a path does not read like them.
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|SSLError|\[SSL"),
        "its certificate is not trusted, or it does not speak TLS",
    ),
    (
        re.compile(r"Name or service not known|[Nn]ame resolution|Failed to resolve|getaddrinfo failed"),
        "no such host is known",
    ),
    (re.compile(r"Connection refused"), "nobody listens at its host and port"),
    (re.compile(r"timed out"), "it did not answer in time"),
    (re.compile(r"Connection error|Socket Exception"), "it could not be reached"),
)
_HINTS = {
    "401": "see that user, password or token are right",
    "403": "see that user, password or token are right",
    "404": "see that the address is right",
    "535": "see that user and password are right",
}
_ONE_AT_A_TIME = threading.Lock()  # there is one such log in a process
NOT_SAID = "it was not taken, and no reason was given"


class _LogCapture(logging.Handler):
    """Keeps why a message was not taken; not the message, which is in the log as well."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  a log line that cannot be put together stops no message
            return
        if record.levelno >= logging.WARNING or text.startswith("Socket Exception"):
            self.said.append(text)


@contextmanager
def apprise_log() -> Iterator[list[str]]:
    """What Apprise says within the block, for `reason` alone: nothing of it reaches any log.

    >>> from exposurekit.monitor.notifications.apprise_errors import apprise_log
    >>> with apprise_log() as said:
    ...     logging.getLogger("apprise").warning("Failed to send, error=404.")
    >>> said
    ['Failed to send, error=404.']
    """
    log, handler = logging.getLogger("apprise"), _LogCapture()
    with _ONE_AT_A_TIME:
        before = log.level, log.propagate, log.handlers
        log.propagate, log.handlers = False, [handler]
        log.setLevel(logging.DEBUG)
        try:
            yield handler.said
        finally:
            log.propagate, log.handlers = before[1:]
            log.setLevel(before[0])


def reason(said: list[str]) -> str:
    """Why, in one line.

    >>> from exposurekit.monitor.notifications.apprise_errors import reason
    >>> reason(["Failed to send JSON notification: Not Found (404)., error=404."])
    'it answered with 404: see that the address is right'
    """
    told = "\n".join(said)
    for pattern, words in _REASONS:
        if found := pattern.search(told):
            code = found[1] if found.groups() else ""
            return words.format(code) + (f": {_HINTS[code]}" if code in _HINTS else "")
    return NOT_SAID


def quiet() -> None:
    """Keep what Apprise says from every other log."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
