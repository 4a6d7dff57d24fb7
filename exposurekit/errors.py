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
    ├── InvalidSignature     a webhook that is not signed with this secret, or not now
    ├── InvalidEvidence      a file is not a bundle of evidence, or was changed
    ├── ScanTimeout          a scan did not finish in time
    ├── NotFound             a user who is not loaded, a run that does not exist
    │   └── EmptyHistory     a history without a run
    ├── DiskFull             no space for a history, a file, or temporary files
    ├── Leak                 personal data in what is to be shared
    └── MissingColumns       a table lacks columns that a question needs

    LoadStopped (a KeyboardInterrupt)   Ctrl-C stopped a load
"""

import difflib
import re
import sys
import traceback
import warnings
import weakref
from collections.abc import Collection, Iterable
from types import FrameType, TracebackType
from typing import Any

_SUGGESTED_MAX = 100  # characters: a longer word is not a misspelling
_PROMPTS = ("<stdin>", "<console>")  # the file of every statement there
NEEDS_SERVICE = "This needs the service: pip install 'exposurekit[service]'"


class ExposureError(Exception):
    """The base class of all exceptions that exposurekit raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle an exception whatever arguments its constructor takes."""
        return _again, (type(self), self.args), self.__dict__

    def _render_traceback_(self) -> list[str]:
        """Display the message, the line of the caller and notes in IPython; `traceback.print_last` prints all frames."""
        return [
            f"{type(self).__name__}{_caller(self.__traceback__)}: {self}",
            *getattr(self, "__notes__", ()),
        ]


class ConfigurationError(ExposureError):
    """A setting is missing or invalid; the message says which one and what to set.

    Attributes:
        problem: The message without what to do.
        fix: What to do, which the message ends with; empty: the problem says it.
    """

    def __init__(self, problem: str, *, fix: str = "") -> None:
        super().__init__(f"{problem}: {fix}" if fix else problem)
        self.problem = problem
        self.fix = fix


class InvalidArgument(ExposureError, ValueError):
    """An argument has a value that the function does not accept; the message says which values it accepts."""

    @classmethod
    def check(cls, name: str, value: object, allowed: Collection[object]) -> None:
        """Raise if an argument is not one of the allowed values; the value may be personal and is not repeated."""
        if value not in allowed:
            choices = [*map(str, allowed)]
            raise cls(f"{name} is one of: {', '.join(choices)}{suggestion(str(value), choices)}")


class APIStatusError(ExposureError):
    """The service responded with an error status.

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
    """No complete response: connection refused, connection lost, or timeout.

    Attributes:
        operation: The operation's title in the specification.
        maybe_received: Whether the service may have received the request.
    """

    def __init__(self, message: str, *, operation: str, maybe_received: bool) -> None:
        super().__init__(message)
        self.operation = operation
        self.maybe_received = maybe_received


class InvalidResponse(ExposureError):
    """A body does not match the specification; the message says where, never what it contained.

    Attributes:
        user_key: After Create user, the id and secret (a `UserKey`) if the response contained them: the person is
            registered, and only this key gives access. None: the response contained none. No repr shows the secret.
    """

    def __init__(self, message: str = "", *, user_key: Any = None) -> None:
        super().__init__(message)
        self.user_key = user_key


class InvalidSignature(ExposureError):
    """A webhook is not signed, not with this secret, or not within five minutes; the message says which."""


class InvalidEvidence(ExposureError):
    """A bundle of evidence does not verify; the message says which member and what is wrong."""


class LoadStopped(KeyboardInterrupt):
    """Ctrl-C stopped a load; the message says what was kept. In IPython it is displayed without the frames."""

    def _render_traceback_(self) -> list[str]:
        return [f"Stopped: {self}"]


class ScanTimeout(ExposureError):
    """A scan did not finish in time."""


class NotFound(ExposureError):
    """A user is not among those loaded, or a run does not exist: unknown is not empty."""


class EmptyHistory(NotFound):
    """A history has no run yet: `History.collect` adds one."""


class DiskFull(ExposureError):
    """No space is left on the disk; data that was stored before is complete."""


class Leak(ExposureError):
    """A file to be shared contains personal data and was not written; the message names the kind, never the value."""


_USER_ID = "user_id"


class MissingColumns(ExposureError):
    """A table lacks columns that a question needs."""

    def __init__(
        self, question: str, missing: Iterable[str], *, advice: str = "", columns: Iterable[object] = ()
    ) -> None:
        """Create the error, which names those of the table's own `columns` that differ only in case."""
        self.missing = tuple(missing)
        noun, pronoun = ("column", "it") if len(self.missing) == 1 else ("columns", "them")
        folded = {name.casefold() for name in self.missing}
        similar = [repr(str(column)) for column in columns if str(column).casefold() in folded]
        similarly = f" (it has {', '.join(similar)})" if similar else ""
        problem = (
            f"{question} needs the {noun} {', '.join(self.missing)}, and the table lacks {pronoun}{similarly}"
        )
        super().__init__(f"{problem}: {advice}" if advice else problem)

    @classmethod
    def check(cls, question: str, table: object, needed: Iterable[str]) -> None:
        """Raise if a table, or a list of columns, lacks some that a question needs; `InvalidArgument` if it is neither.

        Ids of users that are text, fractions or missing would match no others, and count as nothing: they are refused, too.
        """
        columns = getattr(table, "columns", table)
        if not isinstance(columns, Iterable):
            kind = type(table).__name__
            advice = "one of its tables, such as records()" if hasattr(table, "records") else "a DataFrame"
            raise InvalidArgument(f"{question} needs a table, not {kind}: pass {advice}")
        if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "iloc"):  # of Polars or DuckDB
            raise InvalidArgument(f"{question} needs a pandas DataFrame: pass ek.frames.from_arrow(table)")
        there, wanted = set(columns), [*needed]
        if missing := [column for column in wanted if column not in there]:
            raise cls(question, missing, columns=there)
        if _USER_ID not in wanted or not hasattr(table, "dtypes") or not len(table):  # type: ignore[arg-type]
            return
        ids = table[_USER_ID]  # type: ignore[index]
        is_integer = getattr(ids.dtype, "kind", "i") in "iu"
        is_missing = bool(ids.isna().any())
        if is_missing or not is_integer:
            dropped = f".dropna(subset='{_USER_ID}')" if is_missing else ""
            converted = "" if is_integer else f".astype({{'{_USER_ID}': 'int64'}})"
            raise InvalidArgument(
                f"{question}: {_USER_ID} must be an integer in each row: table{dropped}{converted}"
            )


def _caller(trace: TracebackType | None) -> str:
    """The line that called the package: of the cell, or of another file."""
    where = ""
    for frame, line in traceback.walk_tb(trace):
        module = frame.f_globals.get("__name__", "")
        if _is_own(module):
            break
        where = f" (line {line})" if module == "__main__" else f" ({module}, line {line})"
    return where


def _is_own(module: str) -> bool:
    return _root(module) == _root(__name__)


def _root(module: str) -> str:
    return module.partition(".")[0]


def _again(kind: type[ExposureError], args: tuple[Any, ...]) -> ExposureError:
    error = kind.__new__(kind)
    error.args = args
    return error


def suggestion(word: str, accepted: Iterable[str]) -> str:
    """Return the accepted word that is closest to another one, as the end of an error; empty if none is close.

    >>> suggestion("recrods", ["records", "links"])
    '; did you mean records?'
    """
    close = difflib.get_close_matches(word[:_SUGGESTED_MAX], [*accepted], 1)
    return f"; did you mean {close[0]}?" if close else ""


def argument_hint(error: TypeError, accepted: Iterable[str]) -> str:
    """Return what helps after arguments that a function does not take, as the end of the error; empty if nothing does.

    >>> argument_hint(TypeError("f() got an unexpected keyword argument 'apikey'"), ["api_key"])
    '; did you mean api_key?'
    """
    if "positional argument" in str(error):
        return f"; pass them by name: {', '.join(f'{name}=' for name in accepted)}"
    unknown = re.search(
        r"unexpected keyword argument '(\w+)'$", str(error)
    )  # Python 3.13 suggests one itself
    return suggestion(unknown[1], accepted) if unknown else ""


def safe_reason(error: Exception) -> str:
    """Return the message of one of our errors; of any other, which may hold addresses or values, only the type."""
    return str(error) if isinstance(error, ExposureError) else type(error).__name__


def warn(message: str, category: type[Warning] = UserWarning, *, warned: set[object] | None = None) -> None:
    """Warn, and attribute the warning to the line outside the package that led to it.

    Args:
        message: The warning.
        category: Its class.
        warned: The files, cells and statements at a prompt that were warned before: they are not warned again.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  documented
    while frame:
        frames.append(frame)
        frame = frame.f_back
    roots = [_root(frame.f_globals.get("__name__", "")) for frame in frames]
    own = _root(__name__)
    position = len(roots) - roots[::-1].index(own) if own in roots else 0  # functools may call some of ours
    while roots[position : position + 1] == ["IPython"]:  # it calls the magic
        position += 1
    if warned is None:
        warnings.warn(message, category, stacklevel=position + 2)
    elif (calling := _calling_code(callers := frames[position:] or frames[-1:])) not in warned:
        # Python itself would warn of all statements at a prompt once: each is on line 1 of one file.
        warnings.warn_explicit(message, category, callers[0].f_code.co_filename, callers[0].f_lineno)
        warned.add(calling)


def _calling_code(callers: list[FrameType]) -> object:
    """The file or cell that called; at a prompt, where all have one name, the statement, as long as it runs."""
    codes = [frame.f_code for frame in callers]
    file = codes[0].co_filename
    if file not in _PROMPTS:
        return file
    return weakref.ref([code for code in codes if code.co_filename == file][-1])
