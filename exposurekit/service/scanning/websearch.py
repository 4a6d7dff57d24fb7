"""Web pages that hold a person's data: found by a search engine, fetched, and read for it. Stores nothing.

The engine is one with SearXNG's JSON interface (docs.searxng.org, "Search API"), run by the operator.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from exposurekit.contract import codec
from exposurekit.errors import InvalidResponse
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.http.client import FetchError, ForbiddenAddress, Response
from exposurekit.service.models import Page
from exposurekit.service.scanning import html_text
from exposurekit.service.scanning.politeness import CancelCheck, PoliteFetcher, RobotsDisallowed
from exposurekit.service.sites.definition import Politeness

ENGINE = "search engine"  # its name among the sites
RESULTS_MAX = 20
URL_MAX, TITLE_MAX = 2000, 300
PAGE_BYTES_MAX = 1_000_000
_OK = 200


@dataclass(frozen=True, slots=True)
class Engine:
    """Where the web is searched, and how gently.

    Attributes:
        url: Of the search itself, such as ``http://127.0.0.1:8888/search``.
        politeness: Towards the engine.
        page_politeness: Towards each host that a result lies on.
        timeout_s: How long the engine, and each page, is waited for.
    """

    url: str
    politeness: Politeness = field(
        default_factory=lambda: Politeness(delay_s=1, concurrency=2, robots_txt=False)
    )
    page_politeness: Politeness = field(default_factory=lambda: Politeness(delay_s=0, concurrency=2))
    timeout_s: float = 10


@dataclass(frozen=True, slots=True)
class SearchHit:
    """The pages that hold something, and why the engine told nothing, if so."""

    pages: tuple[Page, ...] = field(default=(), repr=False)
    inconclusive: str | None = None


async def search(
    engine: Engine,
    subject: Subject,
    manners: PoliteFetcher,
    *,
    besides: Collection[str],
    engine_manners: PoliteFetcher,
    still: CancelCheck | None = None,
) -> SearchHit:
    """The pages that mention a person and hold some of their data.

    Args:
        engine: Whom to ask.
        subject: Whom to look for.
        manners: The way to the pages.
        besides: Hosts that are not looked at: people-search sites have records.
        engine_manners: The way to the engine.
        still: Says before each request whether to go on.
    """
    try:
        results = await _results(engine, _query(subject), engine_manners, still)
    except (FetchError, RobotsDisallowed, ForbiddenAddress, InvalidResponse) as error:
        return SearchHit(
            inconclusive=error.reason if isinstance(error, FetchError) else type(error).__name__.lower()
        )
    asked = [url for url in results if _host(url) not in besides][:RESULTS_MAX]
    looks = (_page(engine, url, subject, manners, still) for url in asked)
    read = await asyncio.gather(*looks, return_exceptions=True)  # each to its end, then the first failure
    for failure in read:
        if isinstance(failure, BaseException):
            raise failure
    return SearchHit(tuple(page for page in read if isinstance(page, Page)))


async def _results(
    engine: Engine, query: str, manners: PoliteFetcher, still: CancelCheck | None
) -> list[str]:
    async with manners.calling(ENGINE, engine.politeness, still=still) as caller:
        answer = await caller.fetch(
            engine.url, params={"q": query, "format": "json"}, timeout_s=engine.timeout_s
        )
    if answer.status != _OK:
        raise InvalidResponse(f"the search engine answered {answer.status}")
    told = codec.decode(answer.body, "json")
    results = told.get("results") if isinstance(told, dict) else None
    if not isinstance(results, list):
        raise InvalidResponse("the search engine's answer has no results")
    return list(dict.fromkeys(url for result in results if (url := _url(result))))


def _url(result: Any) -> str | None:
    url = result.get("url") if isinstance(result, dict) else None
    return url if isinstance(url, str) and len(url) <= URL_MAX else None


def _query(subject: Subject) -> str:
    known = subject.values()
    return f'"{known["first_name"]} {known["last_name"]}" {known["city"]}'.strip()


async def _page(
    engine: Engine, url: str, subject: Subject, manners: PoliteFetcher, still: CancelCheck | None
) -> Page | None:
    """What the page holds of the person; None: nothing, or it cannot be read."""
    try:
        async with manners.calling(f"page {_host(url)}", engine.page_politeness, still=still) as caller:
            answer = await caller.fetch(url, timeout_s=engine.timeout_s, bytes_max=PAGE_BYTES_MAX)
    except (FetchError, RobotsDisallowed, ForbiddenAddress):
        return None
    if answer.status != _OK:
        return None
    return await asyncio.to_thread(_read, answer, url, subject)


def _read(answer: Response, url: str, subject: Subject) -> Page | None:
    title, text = html_text.text_of(answer.text)
    if not html_text.mentions(subject, text):
        return None
    kinds = html_text.kinds_in(subject, text)
    return Page(url=url, title=title[:TITLE_MAX] or _host(url), contains=kinds) if kinds else None


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
