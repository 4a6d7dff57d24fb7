"""How a watch is made to run for good: what to put where. Changes nothing on the machine."""

import getpass
import shlex
import sys
from pathlib import Path

_SYSTEMD = """# 1. systemd: /etc/systemd/system/exposurekit-watch.service
[Unit]
Description=exposurekit looks at exposed people, and remembers
Wants=network-online.target
After=network-online.target

[Service]
User={user}
WorkingDirectory={directory}
# EXPOSUREKIT_BASE_URL, _INTEGRATION_NAME, _API_KEY and _API_SECRET, one a line; chmod 600.
EnvironmentFile={directory}/exposurekit.env
ExecStart={command} watch --history {history} --every 6h
Restart=always
RestartSec=60
# A look that is stopped is kept, and goes on; writing what was seen may take a while.
TimeoutStopSec=300
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ReadWritePaths={kept_in}
UMask=0077

[Install]
WantedBy=multi-user.target

# then: systemctl daemon-reload && systemctl enable --now exposurekit-watch
# and:  {command} watch --history {history} --status

# 2. or cron, without webhooks: crontab -e
SHELL=/bin/sh
17 */6 * * * cd {directory} && set -a && . ./exposurekit.env && {command} collect --history {history} >>collect.log 2>&1
"""


def told(history: str) -> str:
    """Unit file and cron line, with the places of this installation filled in.

    >>> from exposurekit.cli.installing import told
    >>> "ExecStart=" in told("exposure-history")
    True
    """
    command = Path(sys.argv[0]).resolve()
    if command.name != "exposurekit":  # asked from Python
        command = Path(sys.executable).with_name("exposurekit")
    place = Path(history).resolve() if "://" not in history else None
    return _SYSTEMD.format(
        user=getpass.getuser(),
        directory=shlex.quote(str(Path.cwd())),
        command=shlex.quote(str(command)),
        history=shlex.quote(str(place or history)),
        kept_in=shlex.quote(str(place.parent if place else Path.cwd())),
    )
