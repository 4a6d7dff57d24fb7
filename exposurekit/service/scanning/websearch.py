"""Web search: find pages that mention a person, fetch them, and check which personal data they contain.

The search engine is the operator's own, with SearXNG's JSON interface (docs.searxng.org, "Search API").
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from exposurekit.contract import codec
from exposurekit.errors import InvalidResponse
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.http.client import FetchError, Response
from exposurekit.service.models import Page
from exposurekit.service.scanning import html_text
from exposurekit.service.scanning.politeness import FETCH_FAILURES, CancelCheck, PoliteFetcher
from exposurekit.service.sites.definition import Definition, Politeness
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.tables import links, records
from exposurekit.text.urls import host

ENGINE = "search engine"  # its name in the site statistics
RESULTS_MAX = 20  # that are read, of people-search sites and of others
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
    cancel_check: CancelCheck | None = None,
) -> SearchResult:
    """Find the pages that mention a person and contain some of their data.

    Pages on the hosts of people-search sites are read as politely as the site is scanned; there are none of sites whose
    searches only a person can open.
    """
    by_host = {_host(site.search.url): site for site in sites}
    try:
        results = await _results(engine, _query(subject), engine_fetcher, cancel_check)
    except (*FETCH_FAILURES, InvalidResponse) as error:
        reason = error.reason if isinstance(error, FetchError) else type(error).__name__.lower()
        return SearchResult(inconclusive=reason)
    elsewhere = [url for url in results if _host(url) not in by_host][:RESULTS_MAX]
    listed = [url for url in results if _host(url) in by_host][:RESULTS_MAX]
    urls = [*elsewhere, *(url for url in listed if by_host[_host(url)].search.method != "person")]
    options: dict[str, Any] = {"cancel_check": cancel_check, "sites": by_host}
    tasks = (_read_page(engine, url, subject, fetcher, **options) for url in urls)
    pages = await asyncio.gather(*tasks, return_exceptions=True)  # all end before the first one is raised
    for page in pages:
        if isinstance(page, BaseException):
            raise page
    return SearchResult(tuple(page for page in pages if isinstance(page, Page)))


Pages = list[tuple[int, str]]  # the user and the address of each


async def pages_by_way(session: Session, sites: Collection[str]) -> tuple[Pages, Pages]:
    """Return the pages of listings that site scans found, and the pages that web searches found, of everyone.

    Only records of these sites and links that show a street address of their person: the web search recognizes a page
    by such data, so it can find no other listing, and of a listing's data a record has its addresses.
    """
    scanned: Pages = []
    searched: Pages = []
    for user_id in await consent.scannable(session):
        subject = await users.get_subject(session, user_id)
        of_sites = select(records).filter_by(user_id=user_id).where(records.c.site.in_(sites))
        rows = await session.all(of_sites.order_by(records.c.id))
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
    return list(dict.fromkeys(url for result in results if (url := _url(result))))


def _url(result: Any) -> str | None:
    url = result.get("url") if isinstance(result, dict) else None
    return url if isinstance(url, str) and len(url) <= URL_MAX else None


def _query(subject: Subject) -> str:
    values = subject.values()
    return f'"{values["first_name"]} {values["last_name"]}" {values["city"]}'.strip()


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
    site = sites.get(_host(url))
    name, politeness = (
        (f"page {_host(url)}", engine.page_politeness) if site is None else (site.name, site.politeness)
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
    return Page(url=url, title=title[:TITLE_MAX] or _host(url), contains=kinds) if kinds else None


def _host(url: str) -> str:
    return host(url).removeprefix("www.")
