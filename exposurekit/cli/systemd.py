"""A systemd unit and a cron line that run a watch."""

import getpass
import shlex
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from exposurekit.text.times import interval

_HOURS = (1, 2, 3, 4, 6, 8, 12, 24)
_SYSTEMD = """# 1. systemd: /etc/systemd/system/exposurekit-watch.service
[Unit]
Description=exposurekit watch: collects exposure data at intervals
Wants=network-online.target
After=network-online.target

[Service]
User={user}
WorkingDirectory={directory}
# EXPOSUREKIT_BASE_URL, _INTEGRATION_NAME, _API_KEY and _API_SECRET, and the variables of rules and webhooks, one per
# line; chmod 600.
EnvironmentFile={environment}
ExecStart={command} watch run --history {history} {options}
Restart=always
RestartSec=60
# Time to finish writing; an interrupted collection continues after a restart.
TimeoutStopSec=300
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ReadWritePaths={writable}
UMask=0077

[Install]
WantedBy=multi-user.target

# then: systemctl daemon-reload && systemctl enable --now exposurekit-watch
# and:  {command} watch status --history {history}

# 2. or cron, without webhooks: crontab -e
SHELL=/bin/sh
17 {hours} * * * cd {directory} && set -a && . {environment} && {command} collect --history {history} >>collect.log 2>&1
"""


def install_instructions(
    history: str, every: timedelta = timedelta(hours=6), options: Sequence[str] = ()
) -> str:
    """Return a unit file and a cron line with the paths of this installation.

    Cron uses the nearest interval that divides a day.
    """
    directory = Path(history).resolve() if "://" not in history else None
    environment = next(
        (name for name in (".env", "exposurekit.env") if Path(name).is_file()), "exposurekit.env"
    )
    hours = max(one for one in _HOURS if one == 1 or timedelta(hours=one) <= every)
    return _SYSTEMD.format(
        user=getpass.getuser(),
        directory=shlex.quote(str(Path.cwd())),
        command=shlex.quote(str(program())),
        history=shlex.quote(str(directory or history)),
        environment=shlex.quote(str(Path.cwd() / environment)),
        options=shlex.join(["--every", interval(every), *options]),
        hours="*" if hours == 1 else f"*/{hours}" if hours < _HOURS[-1] else "3",
        writable=shlex.quote(str(directory.parent if directory else Path.cwd())),
    )


def program() -> Path:
    """Return the path of the command of this installation."""
    command = Path(sys.argv[0]).resolve()
    # Otherwise it is called from Python.
    return command if command.name == "exposurekit" else Path(sys.executable).with_name("exposurekit")
