"""Exceptions. Their messages never hold a URL, a key, a secret or personal data.

::

    ExposureError
    ├── ConfigurationError   a setting is missing or invalid
    ├── InvalidArgument      a wrong argument; also a ValueError
    ├── APIStatusError       the service answered with an error status
    │   ├── BadRequest       400: fields missing or invalid
    │   └── Unauthorized     401: key, secret or user secret not accepted
    ├── ConnectionFailed     no complete response
    ├── InvalidResponse      a body that does not match the specification
    ├── ScanTimeout          a scan did not finish in time
    ├── NotFound             a user who is not loaded, a run that does not exist
    ├── Leak                 personal data in what is to be shared
    └── MissingColumns       a table lacks columns that a question needs
"""

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

NEEDS_SERVICE = "This needs the service: pip install 'exposurekit[service]'"


class ExposureError(Exception):
    """The root: catch this one to catch everything that exposurekit raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent between processes as they are, whatever they are made with."""
        return _again, (type(self), self.args), self.__dict__


class ConfigurationError(ExposureError):
    """A setting is missing or makes no sense; the message says which, and what to set."""


class InvalidArgument(ExposureError, ValueError):
    """An argument has a value that the function does not accept; the message says which values it accepts."""


class APIStatusError(ExposureError):
    """The service answered, and the answer was no.

    Attributes:
        status: The HTTP status.
        operation: The operation's title in the specification, such as ``"Get user"``.
        retry_after_s: Seconds the service asked to wait before the next try, or None.
    """

    def __init__(
        self, message: str, *, status: int, operation: str, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.operation = operation
        self.retry_after_s = retry_after_s


class BadRequest(APIStatusError):
    """400: fields missing or invalid."""


class Unauthorized(APIStatusError):
    """401: the api_key, the api_secret, or the user's id and secret were not accepted."""


class ConnectionFailed(ExposureError):
    """No whole answer came: nothing listens, the connection was cut, or time ran out.

    Attributes:
        operation: The operation's title in the specification.
        maybe_received: Whether the service may have received the request all the same.
    """

    def __init__(self, message: str, *, operation: str, maybe_received: bool) -> None:
        super().__init__(message)
        self.operation = operation
        self.maybe_received = maybe_received


class InvalidResponse(ExposureError):
    """A body is not what the specification describes; the message says where, never what it held.

    Attributes:
        user_key: After Create user, the id and secret (a `UserKey`) where the answer held them: the person is
            registered, and nothing else gives access to them. None: the answer held none. No repr shows the secret.
    """

    def __init__(self, message: str = "", *, user_key: Any = None) -> None:
        super().__init__(message)
        self.user_key = user_key


class ScanTimeout(ExposureError):
    """A scan did not end within the time given."""


class NotFound(ExposureError):
    """A person whose data is asked for is not among those loaded: unknown is not empty."""


class Leak(ExposureError):
    """What is to be shared holds a person's data, and was not written; the message says which kind, never what."""


class MissingColumns(ExposureError):
    """A table lacks columns that a question needs."""

    def __init__(self, question: str, missing: Iterable[str], *, advice: str = "") -> None:
        self.missing = tuple(missing)
        problem = f"{question} needs the columns {', '.join(self.missing)}, and the table lacks them"
        super().__init__(f"{problem}: {advice}" if advice else problem)

    @classmethod
    def check(cls, question: str, present: Iterable[str], needed: Iterable[str]) -> None:
        """Say which columns a question lacks, before it fails on them."""
        there = set(present)
        if missing := [column for column in needed if column not in there]:
            raise cls(question, missing)


def _again(kind: type[ExposureError], args: tuple[Any, ...]) -> ExposureError:
    error = kind.__new__(kind)
    error.args = args
    return error


def warn(message: str) -> None:
    """Warn, and point at the first line outside the house: the one that somebody can change."""
    level, frame = 2, inspect.currentframe()
    frame = frame.f_back if frame else None
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
