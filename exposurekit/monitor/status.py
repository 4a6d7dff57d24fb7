"""How a watch is doing, in one small file that its owner may read while it runs. Holds nothing about a person."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from exposurekit.errors import ConfigurationError, ExposureError, NotFound
from exposurekit.history import Run
from exposurekit.system.atomic_files import write_file

SILENT_S = 300  # a watch that lives writes at least each minute, but for the length of a look


@dataclass(slots=True)
class WatchStatus:
    """Written by a watch as it goes; each time whole.

    >>> WatchStatus(Path("watch.json"))
    WatchStatus(path=PosixPath('watch.json'))
    """

    path: Path
    _value: dict[str, Any] = field(default_factory=dict, repr=False)

    def begin(self, pid: int, at: datetime, every: timedelta) -> None:
        """The watch begins; drafts of one that was killed go. Its last look and its last error are those of the one before."""
        for draft in self.path.parent.glob(f".{self.path.name}.*"):
            with suppress(OSError):
                draft.unlink()
        self._value = {"failures_in_a_row": 0, "last_error": None, "inbox_error": None, "look_ahead_at": None}
        self._value |= {"taken_in": 0, "quarantined": 0}
        with suppress(ExposureError):  # none was begun before, or its file is spoiled
            before = read(self.path)
            self._value |= {name: before[name] for name in ("last_run", "last_error") if before.get(name)}
        self._put(
            at, state="waiting", pid=pid, born=_born(pid), started_at=_text(at), every_s=every.total_seconds()
        )

    def looks(self, at: datetime, *, everyone: bool) -> None:
        """It looks, at everyone or at some."""
        self._put(at, state="looking", looks_at="everyone" if everyone else "some")

    def looked(self, at: datetime, run: Run) -> None:
        """It looked, and this is what came of it."""
        told = {"run": run.run, "finished_at": _text(run.finished_at or at), **run.people, **run.counts}
        self._put(at, state="waiting", last_run=told, failures_in_a_row=0)

    def failed(self, at: datetime, reason: str, in_a_row: int) -> None:
        """Something went wrong; it will try again."""
        error = {"at": _text(at), "reason": reason}
        self._put(at, state="waiting", last_error=error, failures_in_a_row=in_a_row)

    def drained(self, at: datetime, taken: int, quarantined: int) -> None:
        """It drained the inbox."""
        if taken or quarantined or self._value.get("inbox_error"):
            self._value["taken_in"] = self._value.get("taken_in", 0) + taken
            self._value["quarantined"] = self._value.get("quarantined", 0) + quarantined
            self._put(at, inbox_error=None)

    def ingest_failed(self, at: datetime, reason: str) -> bool:
        """The inbox could not be drained; it will try again. True: that is news."""
        before = self._value.get("inbox_error")
        self._put(at, inbox_error=reason)
        return before != reason

    def clock(self, at: datetime, ahead_at: datetime | None) -> bool:
        """The history has a look of a time that is to come; None: it has none. True: it has one now, and that is news."""
        before, now = self._value.get("look_ahead_at"), ahead_at and _text(ahead_at)
        if before != now:
            self._put(at, look_ahead_at=now)
        return bool(now) and before != now

    def waits(self, until: datetime, inbox: dict[str, Any] | None) -> None:
        """Nothing is due until then."""
        self._put(None, state="waiting", next_look_at=_text(until), inbox=inbox)

    def end(self, at: datetime) -> None:
        """The watch ended in peace."""
        self._put(at, state="stopped")

    def _put(self, at: datetime | None, **what: Any) -> None:
        self._value |= what | {"told_at": _text(datetime.now(UTC))}
        if at is not None:
            self._value["at"] = _text(at)
        with suppress(OSError):  # a full disk is no reason to stop; whoever reads it sees the watch silent
            write_file(self.path, json.dumps(self._value, default=_stated).encode())


def read(path: Path) -> dict[str, Any]:
    """What a watch told last, and whether it lives: ``alive``, with ``problem`` where it does not do well.

    Raises:
        NotFound: No watch was ever begun there.
        ConfigurationError: The file is not what a watch wrote, or cannot be read.

    >>> read(Path("nowhere.json"))
    Traceback (most recent call last):
    exposurekit.errors.NotFound: No watch was begun with this history: exposurekit watch run starts one
    """
    try:
        value: dict[str, Any] = json.loads(path.read_text())
        value["alive"] = value["state"] != "stopped" and _runs(int(value["pid"]), value.get("born"))
        return value | {"problem": _problem(value)}
    except FileNotFoundError:
        raise NotFound("No watch was begun with this history: exposurekit watch run starts one") from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}. Ask as its owner"
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        # Emptied when the machine lost its power, perhaps.
        problem = "is not what a watch wrote. Remove it: a watch that runs writes it anew within a minute"
    raise ConfigurationError(f"{path.name} {problem}")


def _problem(value: dict[str, Any]) -> str | None:
    return _silence(value) or _trouble(value)


def _silence(value: dict[str, Any]) -> str | None:
    """Why nothing more is to be heard of it."""
    if value["state"] == "stopped":
        return "it was stopped"
    if not value["alive"]:
        return "its process is gone"
    silent = (datetime.now(UTC) - datetime.fromisoformat(value["told_at"])).total_seconds()
    if value["state"] == "waiting" and silent > SILENT_S:
        return f"it has been silent for {silent:.0f} s"
    if silent < -SILENT_S:
        return f"the clock went back: what it told last, it told at {value['told_at']}"
    return None


def _trouble(value: dict[str, Any]) -> str | None:
    """What it tells of itself that is not well."""
    if value["failures_in_a_row"]:
        many = value["failures_in_a_row"]
        often = "once" if many == 1 else f"{many} times in a row"
        return f"it failed {often}: {value['last_error']['reason']}"
    if ahead_at := value.get("look_ahead_at"):
        # The history goes by time: of two looks at somebody, the earlier one changes nothing.
        return (
            f"the clock went back: the history has a look of {ahead_at}, and of those whom it saw nothing is news "
            "until then. If that time was wrong, go on with a copy of the history from before it, or with a new one"
        )
    if value.get("inbox_error"):
        return f"the inbox could not be drained: {value['inbox_error']}"
    return None


def _runs(pid: int, born: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _born(pid) == born  # else the number is another process's by now


def _born(pid: int) -> str | None:
    """When a process began, as the system counts; None: it is gone, or the system does not tell."""
    with suppress(OSError, IndexError):
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if told[0] in "ZX" else told[19]
    return None


def _stated(value: object) -> str:
    return _text(value) if isinstance(value, datetime) else str(value)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
