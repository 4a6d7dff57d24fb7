"""A systemd unit and a cron line that run a watch."""

import getpass
import shlex
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from exposurekit.cli.file_templates import fill
from exposurekit.text.times import interval

_NO_CRON = """# 2. Cron cannot collect every {every}: it can at intervals that divide an hour or a day, such as 30m, 6h or 1d.
"""


def install_instructions(
    history: str,
    every: timedelta = timedelta(hours=6),
    collect_options: Sequence[str] = (),
    watch_options: Sequence[str] = (),
) -> str:
    """Return a unit file and, if cron has such an interval, a cron line with the paths of this installation."""
    directory = Path(history).resolve() if "://" not in history else None
    environment = next(
        (name for name in (".env", "exposurekit.env") if Path(name).is_file()), "exposurekit.env"
    )
    schedule = _cron_schedule(every)
    values = {
        "user": getpass.getuser(),
        "directory": shlex.quote(str(Path.cwd())),
        "command": shlex.quote(str(program())),
        "history": shlex.quote(str(directory or history)),
        "environment": shlex.quote(str(Path.cwd() / environment)),
        "options": shlex.join(["--every", interval(every), *collect_options, *watch_options]),
        "collect": "".join(f" {shlex.quote(word)}" for word in collect_options),
        "schedule": schedule or "",
        "writable": shlex.quote(str(directory.parent if directory else Path.cwd())),
    }
    cron = fill("exposurekit-watch.cron", values) if schedule else _NO_CRON.format(every=interval(every))
    return fill("exposurekit-watch.service", values) + cron


def _cron_schedule(every: timedelta) -> str | None:
    """Return the times of a cron line; None: cron has no such interval."""
    minutes = {timedelta(minutes=n): f"*/{n} * * * *" for n in range(1, 60) if 60 % n == 0}
    hours = {timedelta(hours=n): f"17 */{n} * * *" for n in range(1, 24) if 24 % n == 0}
    return (minutes | hours | {timedelta(days=1): "17 3 * * *"}).get(every)


def program() -> Path:
    """Return the path of the command of this installation."""
    command = Path(sys.argv[0]).resolve()
    # Otherwise it is called from Python.
    return command if command.name == "exposurekit" else Path(sys.executable).with_name("exposurekit")
