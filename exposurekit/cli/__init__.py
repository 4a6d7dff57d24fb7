"""The `exposurekit` command."""

import atexit
import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

__all__ = ["run"]

STOPPED = 130


def run(words: Sequence[str] | None = None) -> None:
    """Run the console script; print errors as one line each and exit with the documented codes."""
    if words is None:
        _open_closed_streams()
        # During interpreter shutdown nothing can handle Ctrl-C: the signal would kill the process.
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        # Modules are a million objects that stay. To search them for garbage, above all at the exit, costs more than
        # a tenth of a short command.
        gc.set_threshold(50_000)
        atexit.register(gc.freeze)
    try:
        from exposurekit.cli import main  # slow, and Ctrl-C may come meanwhile

        if words is None:
            warnings.formatwarning = main.format_warning
        code = main.run(sys.argv[1:] if words is None else words)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        # If Ctrl-C came while an import executed code, python -m would still die by the signal. Executing other code
        # resets that.
        eval("0")  # noqa: S307
        code = STOPPED
    if code:
        sys.exit(code)


def _open_closed_streams() -> None:
    """Open what the caller has closed, as a stream without content; the next file that is opened would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  until the process ends
