"""The status file of a watch: what it does, its last run and its problems. It holds no personal data."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from exposurekit.errors import ConfigurationError, ExposureError, NotFound
from exposurekit.history import Run
from exposurekit.system.atomic_files import write_file

SILENT_S = 300  # a running watch writes at least once a minute, except during a collection


@dataclass(slots=True)
class WatchStatus:
    """Writes the status file of a watch; each write replaces the whole file."""

    path: Path
    _fields: dict[str, Any] = field(default_factory=dict, repr=False)

    def start(
        self, pid: int, at: datetime, every: timedelta, *, sends: bool = False, inbox: Path | None = None
    ) -> None:
        """Record the start of a watch, whether it sends notifications, and the file of its inbox.

        Its predecessor's runs, errors and ingested deliveries count, its drafts are removed.
        """
        for draft in self.path.parent.glob(f".{self.path.name}.*"):
            with suppress(OSError):
                draft.unlink()
        self._fields = {"failures_in_a_row": 0, "ingested": 0}
        self._fields |= dict.fromkeys(("last_error", "inbox_error", "run_ahead_at"))
        with suppress(ExposureError):  # there is no file, or it is damaged
            previous = read(self.path)
            self._fields |= {
                name: previous[name]
                for name in ("last_run", "last_reload", "last_error", "ingested")
                if previous.get(name)
            }
        process = {"pid": pid, "process_start": _process_start(pid), "started_at": _text(at)}
        options = {
            "every_s": every.total_seconds(),
            "sends": sends,
            "inbox_file": inbox and str(inbox.absolute()),
        }
        self._write(at, state="waiting", **process, **options)

    def record_collecting(self, at: datetime, *, everyone: bool) -> None:
        """Record that a collection began, of everyone or of some users."""
        self._write(at, state="collecting", collecting="everyone" if everyone else "some")

    def record_run(self, at: datetime, run: Run, *, everyone: bool = True) -> None:
        """Record a finished run of everyone, or a reload of some users."""
        finished = {"run": run.run, "finished_at": _text(run.finished_at or at), **run.people, **run.counts}
        name = "last_run" if everyone else "last_reload"
        self._write(at, state="waiting", failures_in_a_row=0, **{name: finished})

    def record_failure(self, at: datetime, reason: str, in_a_row: int) -> None:
        """Record a failure; the watch will retry."""
        error = {"at": _text(at), "reason": reason}
        self._write(at, state="waiting", last_error=error, failures_in_a_row=in_a_row)

    def record_ingest(self, at: datetime, ingested: int) -> None:
        """Record that the inbox was processed."""
        if ingested or self._fields.get("inbox_error"):
            total = self._fields.get("ingested", 0) + ingested
            self._write(at, inbox_error=None, ingested=total)

    def record_ingest_failure(self, at: datetime, reason: str) -> bool:
        """Record that the inbox could not be processed; return whether the reason is new."""
        previous = self._fields.get("inbox_error")
        self._write(at, inbox_error=reason)
        return previous != reason

    def record_run_ahead(self, at: datetime, ahead_at: datetime | None) -> bool:
        """Record whether the history has a run from the future, None: it has none; return whether that is new."""
        previous, current = self._fields.get("run_ahead_at"), ahead_at and _text(ahead_at)
        if previous != current:
            self._write(at, run_ahead_at=current)
        return bool(current) and previous != current

    def record_wait(
        self,
        until: datetime,
        inbox: dict[str, Any] | None,
        unsent_notifications: int | None = None,
        unsent_reasons: Mapping[str, int] | None = None,
    ) -> None:
        """Record when the next run is due, what is in the inbox, and how many notifications wait to be sent, and why."""
        unsent: dict[str, Any] = {}
        if unsent_notifications is not None:
            unsent = {"unsent_notifications": unsent_notifications, "unsent_reasons": unsent_reasons or {}}
        self._write(None, state="waiting", next_run_at=_text(until), inbox=inbox, **unsent)

    def stop(self, at: datetime) -> None:
        """Record that the watch ended normally."""
        self._write(at, state="stopped")

    def _write(self, at: datetime | None, **fields: Any) -> None:
        self._fields |= fields | {"written_at": _text(datetime.now(UTC))}
        if at is not None:
            self._fields["at"] = _text(at)
        with suppress(OSError):  # a full disk must not stop the watch; `read` then reports it as silent
            write_file(self.path, json.dumps(self._fields, default=_as_json).encode())


def read(path: Path) -> dict[str, Any]:
    """Read a status file; add ``alive``, whether the watch runs, and ``problem``, None if there is none.

    Raises `NotFound` if no watch was ever started there, and `ConfigurationError` if the file is damaged or unreadable.
    """
    try:
        status: dict[str, Any] = json.loads(path.read_text())
        is_stopped = status["state"] == "stopped"
        status["alive"] = not is_stopped and _is_running(int(status["pid"]), status.get("process_start"))
        return status | {"problem": _silence(status) or _trouble(status)}
    except FileNotFoundError:
        raise NotFound("No watch was started with this history: exposurekit watch run starts one") from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}. Run the command as its owner"
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        # perhaps truncated by a power failure
        problem = "is not a status file. Remove it: a running watch writes it again within a minute"
    raise ConfigurationError(f"{path.name} {problem}")


def _silence(status: dict[str, Any]) -> str | None:
    if status["state"] == "stopped":
        return "it was stopped"
    if not status["alive"]:
        return "its process ended"
    silent = (datetime.now(UTC) - datetime.fromisoformat(status["written_at"])).total_seconds()
    if status["state"] == "waiting" and silent > SILENT_S:
        return f"it has not updated its status for {silent:.0f} s"
    if silent < -SILENT_S:
        return f"the clock went back: its last status is from {status['written_at']}"
    return None


def _trouble(status: dict[str, Any]) -> str | None:
    if failures := status["failures_in_a_row"]:
        what = "the last collection" if failures == 1 else f"the last {failures} collections"
        return f"{what} failed: {status['last_error']['reason'].rstrip('.')}"
    if ahead_at := status.get("run_ahead_at"):
        # The history is ordered by time: an observation that is older than the newest one changes nothing.
        return (
            f"the clock went back: the history has a run of {ahead_at}, and shows no changes until then. If that time "
            "was wrong, continue with a copy of the history from before that run, or with a new history"
        )
    if status.get("inbox_error"):
        return f"the inbox could not be processed: {status['inbox_error']}"
    return None


def _is_running(pid: int, start: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _process_start(pid) == start  # else the pid belongs to another process now


def _process_start(pid: int) -> str | None:
    """Return a process' start time in the system's clock ticks; None: it ended, or the system does not say."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    return None


def _as_json(value: object) -> str:
    return _text(value) if isinstance(value, datetime) else str(value)


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
