"""An IPython shell that runs cells as a notebook does."""

import atexit

from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

NAMES = (
    "EXPOSUREKIT_BASE_URL",
    "EXPOSUREKIT_INTEGRATION_NAME",
    "EXPOSUREKIT_API_KEY",
    "EXPOSUREKIT_API_SECRET",
    "EXPOSUREKIT_HISTORY",
)


class Notebook:
    def __init__(self, **names):
        self.shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
        # At the end of the process each shell would look for garbage among all objects of all tests.
        atexit.unregister(self.shell.atexit_operations)
        self.names = self.shell.user_ns
        self.names.update(names)
        self("%load_ext exposurekit")

    def __call__(self, cell):
        """Run a cell and return its value."""
        done = self.shell.run_cell(cell, store_history=False)
        done.raise_error()
        return done.result

    def table(self, line):
        """Return what a line of the magic assigns to a variable."""
        self(f"table = %exposure {line}")
        return self.names["table"]

    def completed(self, line):
        """Return the completions of a line when Tab is pressed at its end."""
        with provisionalcompleter():
            completions = list(self.shell.Completer.completions(line, len(line)))
        return [line[: one.start] + one.text + line[one.end :] for one in completions]


def bare(directory, monkeypatch):
    """Change to a directory without settings, so that no connection is read from the environment of the tests."""
    monkeypatch.chdir(directory)
    monkeypatch.setenv("IPYTHONDIR", str(directory / "ipython"))
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return directory
