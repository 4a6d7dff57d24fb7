"""Saved pages: results of a site's search that a person saved in a browser, scanned like those of a live scan.

A file is HTML, or MHTML as Chromium writes it. It is hostile text: bounded, decoded without its other parts, and nothing
that it names is requested. Its search is known by the address in the file or, without one, by the words of the page.
"""

import email
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.message import Message
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urldefrag, urlencode, urlsplit

from sqlalchemy import Row, select

from exposurekit.contract.types import PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.findings import candidates, evidence, findings
from exposurekit.service.http.client import Response
from exposurekit.service.models import Excerpt, Listing
from exposurekit.service.scanning import extraction
from exposurekit.service.scanning.extraction import PageResult
from exposurekit.service.scanning.html_text import text_of, tree
from exposurekit.service.scanning.save_scan import known_listings, match_listings, save_result
from exposurekit.service.scanning.site_scan import LISTINGS_MAX, Query, SiteResult, search_queries
from exposurekit.service.sites.definition import Definition
from exposurekit.service.sites.statistics import CHANGED_LAYOUT
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import audit_entries, records
from exposurekit.text.words import words

FILE_BYTES_MAX = 10 * 2**20
SCAN_COMMAND = "users scan"  # in the audit log, which says when a page was last saved
_HEADERS_MAX = 16_384  # bytes of the headers of a file or a part
_MARK_BYTES = 4096  # at the start of a file, where a browser writes the page's address
_ADDRESS = re.compile(rb"<!--\s*saved from url=\(\d{4,5}\)(\S{1,4000})\s*-->")
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_HTML_END = re.compile(rb"</html\s*>(?:\s|<!--[^>]*-->)*\Z", re.IGNORECASE)
_OPEN_AGAIN = "Open the address that `exposurekit users queue` lists, and save that page"
_SAVE_AGAIN = "Save the page again"
# Why a page cannot be used, by the reason of the extraction, and what to do.
_REFUSALS = {
    "blocked": "is the site's bot check and not its results. Pass it in your browser, then save the results",
    CHANGED_LAYOUT: "has neither listings nor the text of search.no_results. Save the page of results; if it is that page, "
    "correct listings.item or search.no_results in the definition",
    "too much": "is too large to be read. Save it as HTML only",
}


class UnusablePage(InvalidArgument):
    """A saved page cannot be used; nothing was changed."""


@dataclass(frozen=True, slots=True)
class SavedPage:
    """A page of results: its address if the file has one, its text in words, and the listings on it."""

    address: str | None = field(repr=False)
    text: str = field(repr=False)  # words, separated and surrounded by blanks
    result: PageResult = field(repr=False)


@dataclass(frozen=True, slots=True)
class SavedScan:
    """What a scan of saved pages changed; ``incomplete`` says why no absence counts, None that they count.

    ``counts_from`` is when the absence of a missing record may first count, if it is too early now; else None.
    """

    listings: int  # on the pages, of anybody
    discovered: int  # records, new or listed again
    candidates: int  # possible matches on the site that await a decision
    confirmed: int  # earlier records that are on the pages
    missing: int  # earlier records that are not
    absences: int  # that count: one a day, from complete results of the search that found the record
    removed: int
    incomplete: str | None
    counts_from: datetime | None


def read(site: Definition, content: bytes) -> SavedPage:
    """Read a saved page.

    Raises:
        UnusablePage: The file is too large, incomplete, or not a page of the site's results.
    """
    page = document(content)
    address = page.url or None
    if address and _host(urlsplit(address)) != _host(urlsplit(site.search.url)):
        raise UnusablePage(f"the page is of another site than {site.name}. {_OPEN_AGAIN}")
    if site.search.answer == "json":
        raise UnusablePage("the site's search answers JSON, which no browser saves as a page")
    result = extraction.read(site, status=200, url=address or site.search.base, text=page.text)
    if result.outcome == "inconclusive":
        raise UnusablePage(f"the page {_REFUSALS[result.reason or CHANGED_LAYOUT]}")
    return SavedPage(address, _words(page.text), _with_address(result, address))


def _with_address(result: PageResult, address: str | None) -> PageResult:
    """Return a page's result with excerpts that have the address in the file, not that of the search."""

    def corrected(excerpt: Excerpt | None) -> Excerpt | None:
        return excerpt and replace(excerpt, address=address)

    listings = tuple(replace(one, excerpt=corrected(one.excerpt)) for one in result.listings)
    return replace(result, listings=listings, excerpt=corrected(result.excerpt))


def site_result(
    site: Definition, subject: Subject, pages: Sequence[SavedPage], previous: Sequence[Listing] = ()
) -> SiteResult:
    """Return the pages' listings as the result of a scan, each with its query.

    Absences count if the pages of every search that was saved are complete.

    Raises:
        UnusablePage: A page is the result of a search for somebody else, or does not show which search it is of.
    """
    queries = search_queries(site, subject, previous)
    listings: dict[str, Listing] = {}
    groups: dict[int, list[SavedPage]] = {}
    for number, page in enumerate(pages, 1):
        index = _query_index(site, queries, page)
        if index is None:
            differing = min((_differing(query, page) for query in queries), key=len, default=[])
            fields = dict.fromkeys(field for key in differing for field in site.search.user_fields(key))
            lacking = f": it lacks the person's {', '.join(fields)}" if fields else ""
            raise UnusablePage(
                f"page {number}: it does not show the results of a search for this person{lacking}. {_OPEN_AGAIN}"
            )
        groups.setdefault(index, []).append(page)
        for listing in page.result.listings:
            listings.setdefault(listing.reference_id, replace(listing, query=queries[index]))
    if len(listings) > LISTINGS_MAX:
        inconclusive: str | None = "too many listings"
    elif any(page.result.unreadable for page in pages):
        inconclusive = "unreadable listings"
    elif all(_is_complete(site, queries[index], group) for index, group in groups.items()):
        inconclusive = None
    else:
        inconclusive = "pages are missing"
    return SiteResult(
        tuple(listings.values())[:LISTINGS_MAX],
        inconclusive,
        queries=tuple(queries[index] for index in groups),
        pages=tuple(
            tuple(page.result.excerpt for page in group if page.result.excerpt) for group in groups.values()
        ),
        source="saved page",
    )


async def scan_saved(
    session: Session, user_id: int, site: Definition, pages: Sequence[SavedPage]
) -> SavedScan:
    """Save what pages of a site's results say about a person, as a scan of the site does.

    Raises:
        NoSuchUser: No user has the id.
        UnusablePage: A page is not about this person, or they may not be scanned; nothing is changed.
    """
    await consent.lock_user(session, user_id, changes=False)  # before a change, lock again
    subject = await users.get_subject(session, user_id)
    if subject is None or not await consent.may_scan(session, user_id):
        raise UnusablePage(
            "the person may not be scanned: their consent is not recorded, or the service is not activated for them"
        )
    previous = (await known_listings(session, user_id)).get(site.name, ())
    result = site_result(site, subject, pages, previous)
    matches = await match_listings(subject, result, session.clock.now().date())
    before = await _records(session, user_id, site)
    await save_result(session, user_id, site, result, matches, scan_id=evidence.new_scan_id())
    after = await _records(session, user_id, site)
    reference_ids = {listing.reference_id for listing in result.listings}
    listed = {findings.reference_digest(session, user_id, site.name, one) for one in reference_ids}
    too_early = [
        row.due_at
        for row in before.values()
        if bytes(row.reference_digest) not in listed
        and (row.status == PENDING_REMOVAL or (row.absences and row.status != REMOVED))
        and row.due_at is not None
        and row.due_at > session.clock.now()
    ]
    confirmed = sum(listing.reference_id in reference_ids for listing in previous)
    listed_again = sum(row.status == REMOVED != after[one].status for one, row in before.items())
    return SavedScan(
        listings=len(result.listings),
        discovered=len(after.keys() - before.keys()) + listed_again,
        candidates=await candidates.count_open(session, user_id, site.name),
        confirmed=confirmed,
        missing=len(previous) - confirmed,
        absences=sum(after[one].absences > row.absences for one, row in before.items()),
        removed=sum(row.status != REMOVED == after[one].status for one, row in before.items()),
        incomplete=result.inconclusive,
        counts_from=min(too_early, default=None),
    )


async def _records(session: Session, user_id: int, site: Definition) -> dict[int, Row[Any]]:
    columns = (
        records.c.id,
        records.c.status,
        records.c.absences,
        records.c.due_at,
        records.c.reference_digest,
    )
    of_site = select(*columns).filter_by(user_id=user_id, site=site.name)
    return {row.id: row for row in await session.all(of_site)}


def search_address(site: Definition, query: Query) -> str:
    """Return the address of a search, for a person to open."""
    parts = urlsplit(site.search.address(query))
    parameters = {**_parameters(site.search.url), **site.search.parameters(query)}
    return parts._replace(query=urlencode(parameters)).geturl()


async def last_saved(session: Session) -> dict[tuple[int, str], datetime]:
    """Return the time of the last saved search by user and site, from the audit log."""
    entries = select(audit_entries.c.at, audit_entries.c.target, audit_entries.c.details).where(
        audit_entries.c.command == SCAN_COMMAND
    )
    return {
        (int(row.target.removeprefix("user ")), json.loads(row.details)["site"]): datetime.fromisoformat(
            row.at
        )
        for row in await session.all(entries.order_by(audit_entries.c.id))
    }


# --- files ------------------------------------------------------------------------------------------------


def document(content: bytes) -> Response:
    """Return a file's page as a response; its URL is blank if the file has none."""
    if len(content) > FILE_BYTES_MAX:
        raise UnusablePage(f"the file is larger than {FILE_BYTES_MAX // 2**20} MiB. Save it as HTML only")
    if content.lstrip()[:1] != b"<" and (separator := _BLANK_LINE.search(content, 0, _HEADERS_MAX)):
        headers = _headers(content[: separator.start()])
        if headers.get_content_type() == "multipart/related":
            return _main_part(headers, content[separator.start() :])
    if not _HTML_END.search(content[-_MARK_BYTES:]):
        raise UnusablePage(f"the file is not a whole page of HTML or MHTML. {_SAVE_AGAIN}")
    match = _ADDRESS.search(content, 0, _MARK_BYTES)
    return Response(200, _address(match[1].decode("latin-1")) if match else "", {}, content)


def _main_part(headers: Message, body: bytes) -> Response:
    """Return the first part, which is the page itself; the others are what it shows, and are not decoded."""
    boundary = str(headers.get_boundary("")).encode("ascii", "ignore")
    marks = re.finditer(rb"\r?\n--" + re.escape(boundary) + rb"(?:--)?[ \t]*(?=\r?\n|\Z)", body)
    begin, end = next(marks, None), next(marks, None)
    if not (boundary and begin and end and body.rstrip().endswith(b"--" + boundary + b"--")):
        raise UnusablePage(f"the file is an incomplete MHTML file. {_SAVE_AGAIN}")
    part = body[begin.end() : end.start()].lstrip(b"\r\n")
    separator = _BLANK_LINE.search(part, 0, _HEADERS_MAX)
    message = _headers(part[: separator.start()]) if separator else Message()
    if separator is None or message.get_content_type() != "text/html":
        raise UnusablePage(f"the file is an MHTML file whose first part is not HTML. {_SAVE_AGAIN}")
    message.set_payload(part[separator.end() :].decode("ascii", "surrogateescape"))
    decoded = message.get_payload(decode=True)
    address = str(headers.get("Snapshot-Content-Location") or message.get("Content-Location") or "")
    content_type = str(message.get("Content-Type", ""))
    return Response(
        200, _address(address), {"content-type": content_type}, decoded if isinstance(decoded, bytes) else b""
    )


def _headers(block: bytes) -> Message:
    return email.message_from_bytes(block + b"\n\n")


def _address(text: str) -> str:
    """Return a page's address without its fragment; blank if it is not a web address."""
    try:
        parts = urlsplit("".join(text.split()))
        is_web = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        return ""
    return urldefrag(parts.geturl()).url if is_web else ""


def _words(markup: str) -> str:
    """Return the words of a page: its title, its visible text, and what its search fields contain."""
    page = tree(markup)
    inputs = [] if page is None else [node.attributes.get("value") or "" for node in page.css("input")[:100]]
    return f" {' '.join(words(' '.join((*text_of(markup), *inputs))))} "


# --- searches ---------------------------------------------------------------------------------------------


def _query_index(site: Definition, queries: Sequence[Query], page: SavedPage) -> int | None:
    """Return which of the person's queries a page is the result of; None: of none, or that is not clear."""
    parameters = _parameters(page.address)
    has_path = bool(site.search.path_fields) and page.address is not None
    is_whole = (has_path or bool(site.search.fields)) and site.search.fields.keys() <= parameters.keys()
    fits = [
        index
        for index, query in enumerate(queries)
        if _agrees(site.search.parameters(query), parameters)
        and (not has_path or _path(page.address) == _path(site.search.address(query)))
        and (is_whole or _is_in_text(query, page.text))
    ]
    return fits[0] if len(fits) == 1 or (fits and is_whole) else None


def _path(address: str | None) -> str:
    """Return the path of an address, for comparison: sites ignore the case, and browsers quote differently."""
    return unquote(urlsplit(address or "").path).rstrip("/").casefold()


def _agrees(query: Query, parameters: Mapping[str, str]) -> bool:
    return all(words(parameters[name]) == words(value) for name, value in query.items() if name in parameters)


def _is_in_text(query: Query, text: str) -> bool:
    values = [words(value) for value in query.values()]
    return any(values) and all(f" {' '.join(value)} " in text for value in values if value)


def _differing(query: Query, page: SavedPage) -> list[str]:
    """Return the fields of a query whose value differs in a page's address or, if they are not in it, is not in its text."""
    parameters = _parameters(page.address)
    return [
        name
        for name, value in query.items()
        if not (
            words(parameters[name]) == words(value)
            if name in parameters
            else f" {' '.join(words(value))} " in page.text
        )
    ]


def _is_complete(site: Definition, query: Query, pages: Sequence[SavedPage]) -> bool:
    """Return whether the pages of one search are all of them: the first one, and each that another links to."""
    if not site.search.next:
        return True
    by_address = {_comparable(page.address): page for page in pages if page.address}
    following = {_comparable(page.result.next) for page in pages if page.result.next}
    has_first = any(_is_first(site, query, page) for page in pages)
    return has_first and following <= by_address.keys() and len(following) == len(by_address) - 1


def _is_first(site: Definition, query: Query, page: SavedPage) -> bool:
    """Return whether a page's address is that of the search, without a page number."""
    if page.address is None:
        return False
    return _path(page.address) == _path(site.search.address(query)) and (
        _parameters(page.address).keys() <= site.search.fields.keys() | _parameters(site.search.url).keys()
    )


def _parameters(address: str | None) -> dict[str, str]:
    try:
        return dict(parse_qsl(urlsplit(address or "").query, keep_blank_values=True, max_num_fields=100))
    except ValueError:
        return {}


def _comparable(address: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return urlsplit(address).path, tuple(sorted(_parameters(address).items()))


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").removeprefix("www.")
