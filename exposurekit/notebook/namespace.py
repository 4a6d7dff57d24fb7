"""Which exposure or history ``%exposure`` reads: connected, chosen with `use`, or a variable of the notebook."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from exposurekit.errors import ConfigurationError, ExposureError, InvalidArgument, NotFound, warn
from exposurekit.exposure import Exposure, connect
from exposurekit.history import History
from exposurekit.notebook.parser import ParsedLine
from exposurekit.system import paths

Source: TypeAlias = Exposure | History

# Taken before other variables; without one of them, the only variable of its type is.
DEFAULT_NAMES = {Exposure: ("exposure", "demo"), History: ("history", "demo")}
_NAMES_MAX = 8  # in an error


class NotebookContext:
    """The exposure and the history that the lines of one notebook refer to."""

    def __init__(self, variables: Callable[[], Mapping[str, Any]]) -> None:
        """Create a context over the notebook's variables, by name."""
        self._variables = variables
        self._chosen: dict[type, str] = {}
        self._connected: Exposure | None = None
        self._default: Exposure | None = None

    def connect(self, base_url: str | None) -> Exposure:
        """Connect with the settings of the environment, and use that exposure from now on."""
        self._connected = connect(base_url)
        self._chosen.pop(Exposure, None)
        return self._connected

    def use(self, name: str) -> Any:
        """Use a variable, an `Exposure`, a `History` or a demo, from now on, with its current value at each line."""
        value = self._variables().get(name)
        kinds = [kind for kind in DEFAULT_NAMES if _as_kind(kind, value) is not None]
        if not kinds:
            usable = ", ".join(self.usable()) or "none yet; exposure = ek.connect() creates one"
            raise InvalidArgument(
                f"use NAME needs a variable that is an Exposure, a History or a demo: {usable}"
            )
        for kind in kinds:
            self._chosen[kind] = name
        return value

    def usable(self) -> list[str]:
        """List the variables that `use` accepts."""
        return sorted(
            name
            for name, value in self._variables().items()
            if name[0] != "_" and any(_as_kind(kind, value) is not None for kind in DEFAULT_NAMES)
        )

    def exposure(self) -> Exposure:
        """Return the current exposure; default: one connected with the settings of the environment."""
        exposure: Exposure | None = self._current(Exposure)
        if exposure is None:
            exposure = self._default = self._default or connect()
        return exposure

    def with_ids(self, line: ParsedLine) -> ParsedLine:
        """Return a line with the ids of the users that it names; a history does not know names."""
        if all(isinstance(user, int) for user in line["user"]):
            return line
        ids = self.exposure().user_ids(line["user"])
        return replace(line, options={**line.options, "user": ids})

    @contextlib.contextmanager
    def history(self, line: ParsedLine, *, create: bool = False) -> Iterator[History]:
        """Open the history that a line names, or return the current one; else open the one that the environment names."""
        path = line["history"]
        history = self._current(History) if path is None else None
        if history is not None:
            yield history
            return
        path = path or paths.history_path()
        if path is None:
            raise ConfigurationError(
                f"{line.verb} needs a history: --history DIR, history = ek.History(DIR), or the variable "
                f"{paths.HISTORY_VARIABLE}"
            )
        if not create and not _exists(path):
            raise NotFound(
                "there is no history in that directory: %exposure collect --history DIR creates one"
            )
        with History(path) as opened:
            yield opened

    @contextlib.contextmanager
    def source(self, line: ParsedLine) -> Iterator[Source]:
        """Return the source of a table that both have: the history if the line asks for it, else whichever exists."""
        from_history = line["history"] is not None or line["as-of"] is not None
        is_fallback = (
            not from_history and self._current(Exposure) is None and self._current(History) is not None
        )
        if from_history or is_fallback:
            with self.history(line) as history:
                if is_fallback:
                    print(f"Source: {history.provenance}", file=sys.stderr)  # noqa: T201  nobody chose it
                yield history
        else:
            yield self.exposure()

    def with_ticks(self, steps: pd.DataFrame) -> pd.DataFrame:
        """Add the ticks of the current history, or of the one that the environment names, to a table of steps."""
        try:
            history: History | None = self._current(History)
            if history is not None:
                return history.with_ticks(steps)
            path = paths.history_path()
            if path is None or not _exists(path):
                return steps
            with History(path) as opened:
                return opened.with_ticks(steps)
        except ExposureError as error:
            warn(f"Without ticks: {error}")
            return steps

    def loaded_exposure(self) -> Exposure | None:
        """Return the current exposure if its tables need no request."""
        try:
            exposure: Exposure | None = self._current(Exposure)
        except ConfigurationError:  # none, or none of several, is chosen
            return None
        return exposure if exposure is not None and exposure.is_loaded else None

    def _current(self, kind: type) -> Any:
        """Return the current exposure or history; None: there is none."""
        variables = self._variables()
        if (name := self._chosen.get(kind)) is not None:
            value = _as_kind(kind, variables.get(name))
            if value is None:
                raise ConfigurationError(
                    "the variable chosen with `use` no longer exists: choose another with %exposure use NAME"
                )
            return value
        if kind is Exposure and self._connected is not None:
            return self._connected
        defaults = (_as_kind(kind, variables.get(name)) for name in DEFAULT_NAMES[kind])
        default = next((value for value in defaults if value is not None), None)
        return self._only(kind) if default is None else default

    def _only(self, kind: type) -> Any:
        """Return the only exposure or history among the variables; None: there is none."""
        variables = self._variables()
        values = {name: _as_kind(kind, variables[name]) for name in self.usable()}
        names = {id(value): name for name, value in values.items() if value is not None}
        if len(names) > 1:
            listed = ", ".join(sorted(names.values())[:_NAMES_MAX])
            raise ConfigurationError(
                f"there are several variables of type {kind.__name__} ({listed}): choose one with %exposure use NAME"
            )
        return values[next(iter(names.values()))] if names else None


def _exists(path: str) -> bool:
    """Whether a history exists; for one that is not on this machine the answer is True without a check."""
    return "://" in path or (Path(path).expanduser() / "history.json").is_file()


def _as_kind(kind: type, value: Any) -> Any:
    """Return the value, or that part of a demo; None: it is of another kind."""
    if isinstance(value, kind):
        return value
    # Check the type only: reading attributes of a foreign object could run its code.
    parts = getattr(type(value), "__dataclass_fields__", {})
    if {"exposure", "history"} <= {*parts}:
        part = getattr(value, kind.__name__.lower())
        return part if isinstance(part, kind) else None
    return None
