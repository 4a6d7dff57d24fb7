"""The scripts and styles of the widgets, in files of their own."""

from functools import cache
from importlib.resources import files

from exposurekit.text.html_cards import copy_script


def script(widget: str) -> str:
    """Return a widget's script, after the functions that scripts share: `node` and `copy`."""
    return copy_script() + _file("shared.js") + _file(f"{widget}.js")


def style(widget: str) -> str:
    """Return a widget's style sheet."""
    return _file(f"{widget}.css")


@cache
def _file(name: str) -> str:
    return files("exposurekit.widgets").joinpath("assets", name).read_text("utf-8")
