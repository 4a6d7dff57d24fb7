"""The command `exposurekit`: the toolkit and the service from a shell."""

import atexit
import signal
import sys
from collections.abc import Sequence

__all__ = ["run"]

STOPPED = 130


def run(words: Sequence[str] | None = None) -> None:
    """The console script: errors in one line each, and the documented exit codes."""
    if words is None:
        # A process that is done takes itself apart, and nothing there can answer a Ctrl-C: the signal would be its end.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    try:
        from exposurekit.cli import main  # takes a while, and somebody may not wait for it

        code = main.run(sys.argv[1:] if words is None else words)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        # Where it came while a text was run as code, as imports do, python -m would die by the signal all the same: until
        # another text is run.
        eval("0")  # noqa: S307
        code = STOPPED
    if code:
        sys.exit(code)
