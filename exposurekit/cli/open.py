"""`exposurekit open`: open a report of a history in the browser."""

import click

from exposurekit.cli import browser
from exposurekit.cli.history import existing_history
from exposurekit.cli.options import ID, check_one_kind, history_option, since_option
from exposurekit.errors import ConfigurationError
from exposurekit.text.sanitize import plain


@click.command("open")
@history_option
@click.option("--user", type=ID, help="Report on this person only.")
@since_option("Report what changed since then: 14d, 3mo, yesterday, a day such as 2026-11-13, or an instant.")
def open_page(*, history: str, user: int | None, since: str | None) -> None:
    """Open a report of the history in the browser.

    The file is in your cache, readable by you alone, until the next one replaces it or `exposurekit history erase` removes
    it; `exposurekit report` writes one to keep.

    Example: exposurekit open --history ./exposure-history
    """
    from exposurekit.reports import report

    check_one_kind(user, since)
    page = browser.page_file()
    try:
        page.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create {plain(page.parent)}: {error.strerror}. Set XDG_CACHE_HOME to another directory"
        ) from None
    with existing_history(history) as opened:
        written = report(opened, page, user=user, since=since)
    click.echo(f"{written.finding} People: {written.provenance['people']}.")
    browser.show_page(page)
