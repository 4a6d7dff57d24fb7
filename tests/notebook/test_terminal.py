"""IPython in a terminal: what an analyst types and reads."""

import os
import re
import select
import struct
import subprocess
import sys

import pytest
from support.ipython import NAMES

fcntl, pty, termios = (
    pytest.importorskip(name, reason="no terminals here") for name in ("fcntl", "pty", "termios")
)

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>()][AB0-2]?)")
OPTIONS = (
    "HistoryManager.enabled=False",
    "TerminalInteractiveShell.display_completions=readlinelike",  # Tab inserts the common prefix
    "TerminalInteractiveShell.autosuggestions_provider=None",
)
COMMAND = [
    sys.executable,
    *["-m", "IPython", "--no-banner", "--no-confirm-exit"],
    *(f"--{one}" for one in OPTIONS),
]
ROWS, COLUMNS = 60, 250
TIMEOUT_S = 90


class Terminal:
    """A terminal with IPython in it."""

    def __init__(self, directory, settings):
        terminal_settings = {
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "NO_COLOR": "1",
            "IPYTHONDIR": str(directory),
        }
        inherited = {name: value for name, value in os.environ.items() if name not in NAMES}
        self.output, self.number = "", 1
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.child = subprocess.Popen(
            COMMAND,
            cwd=directory,
            env=inherited | terminal_settings | settings,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._until_prompt()

    def __call__(self, keys):
        """Press keys and Enter; return the output until the next prompt."""
        os.write(self.ours, f"{keys}\r".encode())
        self.number += 1
        return self._until_prompt()

    def _until_prompt(self):
        """Return the output up to the prompt, without escape sequences."""
        drawn = b""
        while f"In [{self.number}]: " not in (screen := ESCAPES.sub("", drawn.decode(errors="replace"))):
            ready, _, _ = select.select([self.ours], [], [], TIMEOUT_S)
            assert ready, f"no prompt came after: {screen}"
            drawn += os.read(self.ours, 65_536)
        self.output += screen
        return screen

    def close(self):
        self.child.kill()
        self.child.wait()
        os.close(self.ours)


@pytest.fixture(scope="module")
def terminal(demo, tmp_path_factory):
    settings = {f"EXPOSUREKIT_{name.upper()}": value for name, value in demo.connection.items()}
    terminal = Terminal(tmp_path_factory.mktemp("terminal"), settings)
    terminal("%load_ext exposurekit")
    yield terminal
    terminal.close()
    assert demo.connection["api_key"] not in terminal.output
    assert demo.connection["api_secret"] not in terminal.output


def test_a_completed_line_returns_a_table(terminal):
    terminal("sites = %exposure by-si\t")
    assert "['site', 'open']" in terminal("sites.columns.tolist()[:2]")


def test_options_values_and_keys_are_completed(terminal):
    terminal("exposure = __import__('exposurekit').connect(progress=False).refresh()")
    terminal("found = %exposure records --sta\t pend\t")
    assert "True True" in terminal("print(len(found) > 0, (found['status'] == 'pending removal').all())")
    terminal('found = exposure["rec\t"]')
    assert "True" in terminal("print(found.equals(exposure.records()))")


def test_errors_and_charts_are_one_line(terminal):
    wrong, refused = terminal("%exposure recrods"), terminal("%exposure connect --api-key canary")
    for output in (wrong, refused):
        assert output.count("UsageError") == 1
        assert "Traceback" not in output
    assert "did you mean records?" in wrong
    assert "canary" not in refused.partition("UsageError")[2]
    assert terminal("%exposure by-site --chart").count("Chart('") == 1
