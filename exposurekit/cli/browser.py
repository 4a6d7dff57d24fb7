"""A page in the browser, and the one that is kept for it. Makes no page."""

import webbrowser
from pathlib import Path

import click

from exposurekit.cli.output import label_of
from exposurekit.errors import ConfigurationError
from exposurekit.system import paths
from exposurekit.text.sanitize import plain


def page_file() -> Path:
    """Where the page lies that is opened without a name of its own."""
    return paths.cache_dir() / "opened.html"


def show_page(page: Path) -> None:
    """Open a page in the browser.

    Raises:
        ConfigurationError: No browser can be started; the message says where the page lies.
    """
    try:
        is_open = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        is_open = False
    if not is_open:
        raise ConfigurationError(
            f"No browser can be started here. The page is {plain(page)}: open it where there is one"
        )
    click.echo(f"Opened {label_of(page)} in the browser.", err=True)


def remove_page() -> bool:
    """Remove the page that was opened last; whether there was one.

    Raises:
        ConfigurationError: It cannot be removed.
    """
    try:
        page = page_file()
        is_there = page.is_file()
        page.unlink(missing_ok=True)
    except RuntimeError:  # nobody's home, and nobody's cache
        return False
    except OSError as error:
        raise ConfigurationError(
            f"{plain(page)} cannot be removed, and may be about them: {error.strerror}"
        ) from None
    return is_there
