"""Reports: one self-contained HTML file, or a PDF, for people without a notebook.

`report` is the entry point; behind it::

    data          what a report is made of, from an exposure, a history or both
    sections      the sections of each kind: fleet, person, changes, sites
    manual_steps  the manual work, site by site
    share_safe    what a share-safe report may contain
    leak_check    search a share-safe page for personal data
    model         a report as typed values
    html, pdf     render it
"""

import os
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.privacy import pseudonyms
from exposurekit.reports import leak_check, pdf, sections
from exposurekit.reports.data import report_data
from exposurekit.reports.model import Fact, Removal, Report, Section
from exposurekit.system.atomic_files import write_file
from exposurekit.text.sanitize import plain

KINDS = ("fleet", "person", "changes", "sites")
_SUFFIXES = (".html", ".htm", ".pdf")

__all__ = ["KINDS", "Fact", "Removal", "Report", "Section", "report"]


def report(
    source: Exposure | History,
    path: str | os.PathLike[str] | None = None,
    *,
    kind: str | None = None,
    user: int | None = None,
    since: str | date | datetime | None = None,
    exposure: Exposure | None = None,
    share_safe: bool = False,
) -> Report:
    """A report of what a service and a memory tell; written to a file where one is named.

    Args:
        source: A `History`, or an `Exposure`: that knows one moment, and nothing over time.
        path: Where the page goes, an ``.html``; it is written whole or not at all. A ``.pdf`` is printed by a Chromium, Chrome or Edge
            of the machine. None: nowhere.
        kind: ``fleet``, ``person`` (with ``user``), ``changes`` (with ``since``) or ``sites``; None: what the rest implies.
        user: The id of a person: about them alone.
        since: What moved since then: any time that `History.diff` takes, such as ``"14d"``, ``"yesterday"``, a date.
        exposure: Beside a history: what people have on file now, which tells what can be unblocked.
        share_safe: For people who may not know whom it is about. People have pseudonyms, the same in every report that
            this machine makes; ages are told to ten years, places by their state, instants to the day; where fewer than
            five people are, or what fewer are told, does not stand there. Then the finished page is searched for all
            that is known of everyone, and is refused if any of it is found. What a history alone does not know, names
            and addresses on file, is looked for only with ``exposure``.

    Returns:
        What it says, as typed values: ``.finding``, ``.facts``, ``.sections``, ``.data``, ``.to_html()``.

    Raises:
        InvalidArgument: The arguments do not go together.
        ConfigurationError: The file cannot be written.
        NotFound: Nothing was seen yet, or not of that person.
        Leak: What is to be shared would tell a person's data; nothing is written.

    >>> report = ek.report(history)
    >>> report.kind, [section.key for section in report.sections][:2]
    ('fleet', ['by_site', 'score'])
    """
    asked = _kind(kind, user, since)
    _check(path)
    of = report_data(
        source, exposure=exposure, user=user, pseudonyms=pseudonyms.load_pseudonyms() if share_safe else None
    )
    if asked == "changes":
        assert since is not None  # noqa: S101  `_kind` saw to it
        made = sections.changes(of, since)
    else:
        made = {"fleet": sections.fleet, "person": sections.person, "sites": sections.sites}[asked](of)
    if share_safe:
        made = replace(made, is_share_safe=True)
        leak_check.assert_shareable(made, leak_check.matcher_for(of.exposure, of.history))
    if path is not None:
        is_pdf = Path(path).suffix.lower() == ".pdf"
        write(Path(path), pdf.print_pdf(made.to_html()) if is_pdf else made.to_html().encode())
    return made


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, for its owner alone.

    Raises:
        ConfigurationError: It cannot be written.
    """
    try:
        write_file(path, content)
    except OSError as error:
        raise ConfigurationError(f"{plain(path)} cannot be written: {error.strerror}") from None


def _check(path: str | os.PathLike[str] | None) -> None:
    """Say so before any work is done, where a file cannot be what its name says, or has no place."""
    if path is None:
        return
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise InvalidArgument(
            f"A report is a page, or a PDF: {plain(path)} ends with none of {', '.join(_SUFFIXES)}"
        )
    if not Path(path).parent.is_dir():
        raise ConfigurationError(
            f"{plain(path)} cannot be written: there is no directory {plain(Path(path).parent)}"
        )


def _kind(kind: str | None, user: int | None, since: str | date | datetime | None) -> str:
    implied = "person" if user is not None else "changes" if since is not None else "fleet"
    asked = kind or implied
    if asked not in KINDS:
        raise InvalidArgument(f"kind is one of: {', '.join(KINDS)}")
    if (asked == "changes") != (since is not None):
        raise InvalidArgument("What changed is asked with since, and since of what changed: since='14d'")
    if (asked == "person") != (user is not None):
        raise InvalidArgument("A report of a person names them, and names nobody else: user=12")
    return asked
