"""A page in the browser, and the one that is kept for it. Makes no page."""

import webbrowser
from pathlib import Path

import click

from exposurekit.cli.output import named
from exposurekit.errors import Misconfigured
from exposurekit.system import paths
from exposurekit.text.sanitize import plain


def kept() -> Path:
    """Where the page lies that is opened without a name of its own."""
    return paths.cached() / "opened.html"


def shown(page: Path) -> None:
    """Open a page in the browser.

    Raises:
        Misconfigured: No browser can be started; the message says where the page lies.
    """
    try:
        is_open = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        is_open = False
    if not is_open:
        raise Misconfigured(
            f"No browser can be started here. The page is {plain(page)}: open it where there is one"
        )
    click.echo(f"Opened {named(page)} in the browser.", err=True)


def forgotten() -> bool:
    """Remove the page that was opened last; whether there was one.

    Raises:
        Misconfigured: It cannot be removed.
    """
    try:
        page = kept()
        is_there = page.is_file()
        page.unlink(missing_ok=True)
    except RuntimeError:  # nobody's home, and nobody's cache
        return False
    except OSError as error:
        raise Misconfigured(
            f"{plain(page)} cannot be removed, and may be about them: {error.strerror}"
        ) from None
    return is_there
