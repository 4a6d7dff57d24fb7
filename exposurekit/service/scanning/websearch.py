"""Web search: find pages that mention a person, fetch them, and check which personal data they contain.

The search engine is the operator's own, with SearXNG's JSON interface (docs.searxng.org, "Search API").
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice, zip_longest
from typing import Any

from sqlalchemy import func, select, true

from exposurekit.contract import codec
from exposurekit.contract.types import REMOVED
from exposurekit.errors import InvalidResponse
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.http.client import FetchError, Response
from exposurekit.service.models import Page
from exposurekit.service.scanning import html_text
from exposurekit.service.scanning.politeness import FETCH_FAILURES, CancelCheck, PoliteFetcher
from exposurekit.service.scanning.site_scan import search_pairs
from exposurekit.service.sites.definition import Definition, Politeness
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encryption import DecryptionError
from exposurekit.service.storage.tables import links, records
from exposurekit.service.storage.tables import users as USERS  # noqa: N812  the table, not the module
from exposurekit.text.urls import page_key, site_host
from exposurekit.text.words import without_generation

QUERIES_MAX = 3  # for the names and places of a person
ENGINE = "search engine"  # its name in the site statistics
RESULTS_MAX = 20  # that are read, of people-search sites and of others
SITE_RESULTS_MAX = 3  # of one people-search site: each takes a turn from its scans
PAGES_TIMEOUT_S = 120  # for the pages of one search; those that are read by then count
URL_MAX, TITLE_MAX = 2000, 300
PAGE_BYTES_MAX = 1_000_000
READ_AT_ONCE = 100_000  # bytes times the person's values, in a few milliseconds; more is read in a thread
ADDRESS = "address"  # the kind of data
_OK = 200


@dataclass(frozen=True, slots=True)
class Engine:
    """A search engine and the limits of requests to it and to each host of its results."""

    url: str  # of a search, such as http://127.0.0.1:8888/search
    politeness: Politeness = field(
        default_factory=lambda: Politeness(delay_s=1, concurrency=2, robots_txt=False)
    )
    page_politeness: Politeness = field(default_factory=lambda: Politeness(delay_s=0, concurrency=2))
    timeout_s: float = 10  # of the engine and of each page


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The pages with personal data, and why the search was inconclusive, if it was."""

    pages: tuple[Page, ...] = field(default=(), repr=False)
    inconclusive: str | None = None


async def search(
    engine: Engine,
    subject: Subject,
    fetcher: PoliteFetcher,
    *,
    sites: Collection[Definition] = (),
    engine_fetcher: PoliteFetcher,
    page_fetcher: PoliteFetcher,
    pages: list[Page],
    cancel_check: CancelCheck | None = None,
) -> SearchResult:
    """Find the pages that mention a person and contain some of their data: `fetcher` reads those on sites.

    Each is appended to `pages` once it is read, so that they are not lost if the search is cancelled.

    Pages on the hosts of people-search sites are read as politely as the site is scanned; there are none of sites whose
    searches only a person can open.
    """
    by_host = {site_host(site.search.url): site for site in sites}
    try:
        answers = [await _results(engine, query, engine_fetcher, cancel_check) for query in _queries(subject)]
    except (*FETCH_FAILURES, InvalidResponse) as error:
        reason = error.reason if isinstance(error, FetchError) else type(error).__name__.lower()
        return SearchResult(inconclusive=reason)
    by_page: dict[str, str] = {}
    for url in chain.from_iterable(zip_longest(*answers)):  # the best of each query first
        if url is not None:
            by_page.setdefault(page_key(url), url)
    results = [*by_page.values()]
    elsewhere = [url for url in results if site_host(url) not in by_host][:RESULTS_MAX]
    urls = [*elsewhere, *_on_sites(results, by_host)]

    async def read(url: str) -> None:
        reader = fetcher if site_host(url) in by_host else page_fetcher
        page = await _read_page(engine, url, subject, reader, cancel_check=cancel_check, sites=by_host)
        if page is not None:
            pages.append(page)

    with suppress(TimeoutError):
        async with asyncio.timeout(PAGES_TIMEOUT_S):
            # All of them end before the first exception is raised.
            for failure in await asyncio.gather(*map(read, urls), return_exceptions=True):
                if failure is not None:
                    raise failure
    return SearchResult(tuple(pages))


def _on_sites(urls: Collection[str], by_host: Mapping[str, Definition]) -> list[str]:
    """Return the first URLs on each people-search site whose searches need no person."""
    counts: Counter[str] = Counter()
    chosen = []
    for url in urls:
        site = by_host.get(site_host(url))
        if site is not None and site.search.method != "person" and counts[site.name] < SITE_RESULTS_MAX:
            counts[site.name] += 1
            chosen.append(url)
    return chosen[:RESULTS_MAX]


Pages = list[tuple[int, str]]  # the user and the address of each


async def pages_by_way(session: Session, sites: Collection[str]) -> tuple[Pages, Pages]:
    """Return the pages of listings that site scans found, and the pages that web searches found, of everyone.

    Only records of these sites and links that show a street address of their person: the web search recognizes a page
    by such data, so it can find no other listing, and of a listing's data a record has its addresses. Removed records
    do not count, nor does a person whose data is damaged, or who was not scanned since searches note pages of records:
    a search could not find their pages, or not note them.
    """
    scanned: Pages = []
    searched: Pages = []
    [since] = await session.all(select(func.min(records.c.searched_at).label("at")))
    for user_id in await _scanned_since(session, since.at):
        try:
            subject = await users.get_subject(session, user_id)
        except DecryptionError:
            continue
        of_sites = select(records).filter_by(user_id=user_id).where(records.c.site.in_(sites))
        rows = await session.all(of_sites.where(records.c.status != REMOVED).order_by(records.c.id))
        values = session.decrypt_readable([("records", user_id, row.ciphertext) for row in rows])
        for row, listing in zip(rows, values, strict=True):
            if subject and listing is not DAMAGED and listing["href"] and _shows_street(subject, listing):
                scanned.append((user_id, listing["href"]))
                searched += [] if row.searched_at is None else [(user_id, listing["href"])]
        rows = await session.all(select(links.c.ciphertext).filter_by(user_id=user_id))
        pages = session.decrypt_readable([("links", user_id, row.ciphertext) for row in rows])
        searched += [
            (user_id, page["url"]) for page in pages if page is not DAMAGED and ADDRESS in page["contains"]
        ]
    return scanned, searched


async def _scanned_since(session: Session, instant: datetime | None) -> list[int]:
    rows = await session.all(
        select(USERS.c.id).where(true() if instant is None else USERS.c.scanned_at >= instant)
    )
    return sorted({row.id for row in rows}.intersection(await consent.scannable(session)))


def _shows_street(subject: Subject, listing: Mapping[str, Any]) -> bool:
    return ADDRESS in html_text.kinds_in(subject, "\n".join(listing["locations"]))


async def _results(
    engine: Engine, query: str, fetcher: PoliteFetcher, cancel_check: CancelCheck | None
) -> list[str]:
    async with fetcher.session(ENGINE, engine.politeness, cancel_check=cancel_check) as session:
        response = await session.fetch(
            engine.url, params={"q": query, "format": "json"}, timeout_s=engine.timeout_s
        )
    if response.status != _OK:
        raise InvalidResponse(f"the search engine returned status {response.status}")
    body = codec.decode(response.body, "json")
    results = body.get("results") if isinstance(body, dict) else None
    if not isinstance(results, list):
        raise InvalidResponse("the search engine's response has no results")
    by_page: dict[str, str] = {}
    for url in filter(None, map(_url, results)):
        by_page.setdefault(page_key(url), url)
    return list(by_page.values())


def _url(result: Any) -> str | None:
    url = result.get("url") if isinstance(result, dict) else None
    return url if isinstance(url, str) and len(url) <= URL_MAX else None


def _queries(subject: Subject) -> list[str]:
    queries = (
        f'"{name.first} {without_generation(name.last)}" {place.city}'.strip()
        for name, place in search_pairs(subject)
        if name.first and name.last
    )
    return list(islice(dict.fromkeys(queries), QUERIES_MAX))


async def _read_page(
    engine: Engine,
    url: str,
    subject: Subject,
    fetcher: PoliteFetcher,
    *,
    cancel_check: CancelCheck | None,
    sites: Mapping[str, Definition],
) -> Page | None:
    """Return the page if it contains personal data; None if it does not or cannot be read."""
    site = sites.get(site_host(url))
    name, politeness = (
        (f"page {site_host(url)}", engine.page_politeness) if site is None else (site.name, site.politeness)
    )
    try:
        async with fetcher.session(name, politeness, cancel_check=cancel_check) as session:
            response = await session.fetch(url, timeout_s=engine.timeout_s, bytes_max=PAGE_BYTES_MAX)
    except FETCH_FAILURES:
        return None
    if response.status != _OK:
        return None
    if len(response.body) * subject.size <= READ_AT_ONCE:
        return _to_page(response, url, subject)
    return await asyncio.to_thread(_to_page, response, url, subject)


def _to_page(response: Response, url: str, subject: Subject) -> Page | None:
    title, text = html_text.text_of(response.text)
    if not html_text.mentions(subject, text):
        return None
    kinds = html_text.kinds_in(subject, text)
    return Page(url=url, title=title[:TITLE_MAX] or site_host(url), contains=kinds) if kinds else None
