"""Open pages in the browser, and the cached page of `exposurekit open`."""

import webbrowser
from pathlib import Path

import click

from exposurekit.cli.output import label_of
from exposurekit.errors import ConfigurationError
from exposurekit.system import paths
from exposurekit.text.sanitize import plain


def page_file() -> Path:
    """Return the path of the page that `exposurekit open` writes."""
    return paths.cache_dir() / "opened.html"


def show_page(page: Path) -> None:
    """Open a page in the browser; raises `ConfigurationError` with the page's path if none can be started."""
    try:
        is_open = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        is_open = False
    if not is_open:
        raise ConfigurationError(
            f"no browser can be started here. Open {plain(page)} on a machine that has one"
        )
    click.echo(f"Opened {label_of(page)} in the browser.", err=True)


def remove_page() -> bool:
    """Remove the page of `exposurekit open`; return whether there was one. Raises `ConfigurationError` if it stays."""
    try:
        page = page_file()
        is_there = page.is_file()
        page.unlink(missing_ok=True)
    except RuntimeError:  # no home directory, so no cache
        return False
    except OSError as error:
        raise ConfigurationError(
            f"cannot remove {plain(page)}, which may be about this person: {error.strerror}"
        ) from None
    return is_there
