"""Reports: one self-contained HTML file, or a PDF, for people without a notebook.

`report` is the entry point; behind it::

    data          the tables that sections declare, from an exposure, a history or both
    sections      the sections, and those of each kind: fleet, person, changes, sites
    manual_steps  the manual work, grouped by steps
    share_safe    what a share-safe report may contain
    leak_check    search a share-safe page for personal data
    model         a report as typed values
    html, pdf     render it
"""

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pandas as pd

from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.frames.arrow import system_memory
from exposurekit.history import History
from exposurekit.privacy import pseudonyms
from exposurekit.reports import leak_check, pdf
from exposurekit.reports.data import ReportSource
from exposurekit.reports.kinds import KINDS, build_report, needed_tables
from exposurekit.reports.model import Action, Fact, Removal, Report, Section
from exposurekit.system.atomic_files import output_path, write_output
from exposurekit.text.sanitize import plain

_SUFFIXES = (".html", ".htm", ".pdf")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
_LOGO_MAX = 500_000  # bytes
_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",  # an image runs no script
}

__all__ = ["KINDS", "Action", "Fact", "Removal", "Report", "Section", "report"]


def report(
    source: Exposure | History,
    path: str | os.PathLike[str] | None = None,
    *,
    kind: str | None = None,
    user: int | str | None = None,
    since: str | date | datetime | None = None,
    exposure: Exposure | None = None,
    share_safe: bool = False,
    rows: bool = False,
    sections: Sequence[str | Section] = (),
    title: str = "",
    logo: str | os.PathLike[str] | None = None,
    accent: str = "",
    evidence: pd.DataFrame | None = None,
) -> Report:
    """Make a report on an exposure or a history, and write it to a file if you name one.

    Args:
        source: A `History`, or an `Exposure`, which has no past.
        path: The file, written whole or not at all: ``.html``, or ``.pdf``, which an installed Chromium, Chrome or Edge
            prints. None to write none.
        kind: ``fleet``, ``person`` (with ``user``), ``changes`` (with ``since``) or ``sites``; None: as the other
            arguments imply.
        user: The id of one person, for a report on that person alone; with an exposure also the name, as in
            `Exposure.users`.
        since: The start of a report on changes: any time that `History.diff` takes, such as ``"14d"``,
            ``"yesterday"`` or a date.
        exposure: The current tables, next to a history: adds the names and values on file that manual steps need.
        share_safe: Make a report for readers who must not learn whom it is about. People have pseudonyms, the same in
            every report from this machine; ages are rounded to ten years, places to the state and instants to the day;
            a site or host is named only if at least five people in the data are or were found there, and a missing field
            only if at least five lack it; the figures beside a name may count fewer. What comes from data is then searched
            for all known personal values. A history alone does not know names and addresses on file: pass ``exposure`` to
            search for them too.
        rows: Whether a share-safe report on everyone has tables with one row per listing or person. Such tables are
            pseudonymised and not anonymous: a reader who knows a person's listings can find that person's row.
        sections: The sections, if not those of its kind: names of questions such as ``by_state`` and ``survival``, and
            sections of your own, as `ek.Section`.
        title: Another title.
        logo: An image for the head of the page: a PNG, JPEG, GIF, WebP or SVG file of at most 500 kB.
        accent: A colour for the line above the title, such as ``"#7a1f5c"``.
        evidence: A table of `read_evidence`: the section ``records``, which a report on one person has, then shows when
            each removed listing was seen, and when it was gone. Not in a share-safe report.

    Returns:
        The report as typed values: ``.finding``, ``.facts``, ``.sections``, ``.data``, ``.to_html()``.

    Raises:
        InvalidArgument: The arguments do not go together, or ``exposure`` is not an `Exposure` beside a `History`.
        ConfigurationError: The file cannot be written.
        DiskFull: No space is left for the file.
        NotFound: The history is empty, or does not contain the user.
        Leak: A share-safe report contains personal data; nothing is written.

    >>> report = ek.report(history)
    >>> report.kind, [section.key for section in report.sections][:2]
    ('fleet', ['by_site', 'score'])
    """
    kind = _kind(kind, user, since)
    if isinstance(sections, str | Section):
        raise InvalidArgument("sections must be a list: sections=['by_site', 'survival']")
    _check_path(path)
    if accent and not _COLOUR.fullmatch(accent):
        raise InvalidArgument("accent is a colour of six hexadecimal digits, such as '#7a1f5c'")
    if evidence is not None and share_safe:
        raise InvalidArgument("evidence is about a person's listings: a share-safe report cannot have it")
    if evidence is not None and "records" not in (sections or KINDS[kind].sections):
        raise InvalidArgument(
            "evidence is for the section records, which reports on one person have: pass user, or name it in sections"
        )
    image = "" if logo is None else _data_url(Path(logo))
    origin = ReportSource(
        source,
        exposure=exposure,
        user=user,
        since=since,
        pseudonyms=pseudonyms.load_pseudonyms() if share_safe else None,
        has_rows=rows,
        evidence=evidence,
    )
    with system_memory():  # half a second less for a million records
        data = origin.load(needed_tables(kind, sections))
        result = replace(build_report(kind, data, sections, plain(title).strip()), logo=image, accent=accent)
    if share_safe:
        result = replace(result, is_share_safe=True)
        assert data.sharing is not None  # noqa: S101  share-safe data has it
        leak_check.assert_shareable(result, data.sharing, origin.exposure, origin.history)
    if path is not None:
        is_pdf = Path(path).suffix.lower() == ".pdf"
        write_output(Path(path), pdf.print_pdf(result.to_html()) if is_pdf else result.to_html().encode())
    return result


def _data_url(path: Path) -> str:
    """An image as a ``data:`` address."""
    if path.suffix.lower() not in _IMAGES:
        raise InvalidArgument(
            f"logo is an image file that ends in {', '.join(_IMAGES)}: {plain(path)} does not"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"logo: {plain(path)} cannot be read: {error.strerror}") from None
    if len(content) > _LOGO_MAX:
        raise InvalidArgument(f"logo: {plain(path)} has {len(content):,} bytes; at most {_LOGO_MAX:,}")
    return f"data:{_IMAGES[path.suffix.lower()]};base64,{base64.b64encode(content).decode()}"


def _check_path(path: str | os.PathLike[str] | None) -> None:
    """Raise early if a file has another suffix, or no directory."""
    if path is None:
        return
    if output_path(path).suffix.lower() not in _SUFFIXES:
        raise InvalidArgument(
            f"The name of a report must end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}: {plain(path)} does not"
        )
    if not Path(path).parent.is_dir():
        raise ConfigurationError(
            f"{plain(path)} cannot be written: the directory {plain(Path(path).parent)} does not exist"
        )


def _kind(kind: str | None, user: int | str | None, since: str | date | datetime | None) -> str:
    implied = "person" if user is not None else "changes" if since is not None else "fleet"
    kind = kind or implied
    InvalidArgument.check("kind", kind, KINDS)
    if (kind == "changes") != (since is not None):
        raise InvalidArgument("kind='changes' and since go together: since='14d'")
    if (kind == "person") != (user is not None):
        raise InvalidArgument("kind='person' and user go together: user=12")
    return kind
