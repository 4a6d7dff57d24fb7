"""Whose tables ``%exposure`` gives: what is connected, named, or found in the notebook. Holds no key of its own."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from exposurekit.errors import ConfigurationError, InvalidArgument, NotFound
from exposurekit.exposure import Exposure, connect
from exposurekit.history import History
from exposurekit.notebook.parser import ParsedLine

Source: TypeAlias = Exposure | History

USUAL = {Exposure: ("exposure", "demo"), History: ("history", "demo")}
_REMEMBERED = ("site", "status")
_REMEMBERED_MAX = 2_000


class NotebookContext:
    """What the lines of one notebook speak of."""

    def __init__(self, names: Callable[[], Mapping[str, Any]]) -> None:
        """Speak of the variables that this gives, by name."""
        self._names = names
        self._named: dict[type, str] = {}
        self._connected: Exposure | None = None
        self._otherwise: Exposure | None = None
        self._words: dict[str, set[str]] = {name: set() for name in _REMEMBERED}

    def connect(self, base_url: str | None) -> Exposure:
        """Connect by the environment, and speak of that from now on."""
        self._connected = connect(base_url)
        self._named.pop(Exposure, None)
        return self._connected

    def use(self, name: str) -> Any:
        """Speak of a variable from now on; of what it is then, if it is given another value.

        Raises:
            InvalidArgument: It is no `Exposure`, `History` or demo.
        """
        value = self._names().get(name)
        found = [kind for kind in USUAL if _of(kind, value) is not None]
        if not found:
            usable = ", ".join(self.usable()) or "none yet; exposure = ek.connect() makes one"
            raise InvalidArgument(
                f"use NAME takes a variable that is an Exposure, a History or a demo: {usable}"
            )
        for kind in found:
            self._named[kind] = name
        return value

    def usable(self) -> list[str]:
        """The variables that `use` takes."""
        names = self._names().items()
        return sorted(
            name
            for name, value in names
            if name[0] != "_" and any(_of(kind, value) is not None for kind in USUAL)
        )

    def exposure(self) -> Exposure:
        """The exposure that is spoken of; where there is none, one by the environment.

        Raises:
            ConfigurationError: The environment does not say where the service is.
        """
        found: Exposure | None = self._found(Exposure)
        if found is None:
            found = self._otherwise = self._otherwise or connect()
        return found

    @contextlib.contextmanager
    def history(self, asked: ParsedLine, *, makes: bool = False) -> Iterator[History]:
        """The history that a line names, or that is spoken of.

        Raises:
            ConfigurationError: There is none.
            NotFound: There is none in that directory, and none is made.
        """
        path = asked["history"]
        if path is None:
            found = self._found(History)
            if found is None:
                raise ConfigurationError(
                    f"{asked.verb} needs a history: --history DIR, or history = ek.History(DIR)"
                )
            yield found
        else:
            _check_there(path, makes=makes)
            with History(path) as opened:
                yield opened

    @contextlib.contextmanager
    def seen(self, asked: ParsedLine) -> Iterator[Source]:
        """Where a table comes from that both have: the history where a line says so, else what there is."""
        from_history = asked["history"] is not None or asked["as-of"] is not None
        if from_history or (self._found(Exposure) is None and self._found(History) is not None):
            with self.history(asked) as history:
                yield history
        else:
            yield self.exposure()

    def with_ticks(self, steps: pd.DataFrame) -> pd.DataFrame:
        """Steps, and what was ticked of them where a history is spoken of."""
        history = self._found(History)
        return steps if history is None else history.with_ticks(steps)

    def remember(self, table: pd.DataFrame) -> None:
        """Keep the sites and statuses of a table for completion."""
        for name in _REMEMBERED:
            if name in table and not pd.api.types.is_numeric_dtype(table[name].dtype):
                found = table[name].dropna().astype("str").unique()[:_REMEMBERED_MAX]
                self._words[name] = self._words[name].union(found)

    def words(self, column: str) -> list[str]:
        """The sites, statuses or ids that are known without asking anybody."""
        exposure = self._found(Exposure)
        if exposure is not None and exposure.is_loaded:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that not all are loaded is told where tables are
                self.remember(exposure.records())
                ids = exposure.users()["user_id"]
            if column == "user":
                return [*map(str, ids)]
        return sorted(self._words.get(column, ()))

    def _found(self, kind: type) -> Any:
        """The exposure, or the history, that is spoken of; None: there is none."""
        names = self._names()
        if (name := self._named.get(kind)) is not None:
            found = _of(kind, names.get(name))
            if found is None:
                raise ConfigurationError(
                    "what `use` named is no longer there: %exposure use NAME names another"
                )
            return found
        if kind is Exposure and self._connected is not None:
            return self._connected
        usual = (_of(kind, names.get(name)) for name in USUAL[kind])
        return next((value for value in usual if value is not None), None)


def _of(kind: type, value: Any) -> Any:
    """The value, or that part of a demo; None: it is of another kind."""
    if isinstance(value, kind):
        return value
    # Told by its type, so that nothing of a stranger's is run.
    parts = getattr(type(value), "__dataclass_fields__", {})
    if {"exposure", "history"} <= {*parts}:
        part = getattr(value, kind.__name__.lower())
        return part if isinstance(part, kind) else None
    return None


def _check_there(path: str, *, makes: bool) -> None:
    begun = "://" in path or (Path(path).expanduser() / "history.json").is_file()
    if not begun and not makes:
        raise NotFound("there is no history in that directory: %exposure collect --history DIR begins one")
