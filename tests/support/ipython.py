"""A real IPython, given cells as a notebook gives them, beside a real service on loopback. Judges nothing."""

from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

NAMES = (
    "EXPOSUREKIT_BASE_URL",
    "EXPOSUREKIT_INTEGRATION_NAME",
    "EXPOSUREKIT_API_KEY",
    "EXPOSUREKIT_API_SECRET",
)


class Notebook:
    """A shell that is given cells, as a notebook gives them."""

    def __init__(self, **names):
        self.shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
        self.names = self.shell.user_ns
        self.names.update(names)
        self("%load_ext exposurekit")

    def __call__(self, cell):
        """What a cell gives."""
        done = self.shell.run_cell(cell, store_history=False)
        done.raise_error()
        return done.result

    def table(self, line):
        """What a line gives to the variable before it."""
        self(f"found = %exposure {line}")
        return self.names["found"]

    def completed(self, line):
        """What IPython makes of a line when Tab is pressed at its end."""
        with provisionalcompleter():
            completions = list(self.shell.Completer.completions(line, len(line)))
        return [line[: one.start] + one.text + line[one.end :] for one in completions]


def bare(directory, monkeypatch):
    """Stand in a directory without settings, so that no connection comes from where the tests run."""
    monkeypatch.chdir(directory)
    monkeypatch.setenv("IPYTHONDIR", str(directory / "ipython"))
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return directory
