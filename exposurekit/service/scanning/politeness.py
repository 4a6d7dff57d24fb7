"""Polite fetching: robots.txt with its Crawl-delay, delay and concurrency per site, and Retry-After.

The time of a site's next request is a row in the database, so that all workers together keep the delay. Each worker
limits its own concurrency, and knows by itself until when a site has asked it to wait.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit
from weakref import WeakValueDictionary

from cachetools import TLRUCache
from protego import Protego

from exposurekit.errors import ExposureError
from exposurekit.service.http.client import (
    REDIRECT_STATUSES,
    FetchError,
    ForbiddenAddress,
    HttpClient,
    HttpSession,
    Response,
)
from exposurekit.service.sites import statistics
from exposurekit.service.sites.definition import Politeness
from exposurekit.service.storage.database import Database

AGENT = "exposurekit"  # the user agent in robots.txt
ROBOTS_TTL, ROBOTS_RETRY = timedelta(days=1), timedelta(minutes=10)
ROBOTS_MAX = 1000  # files in memory
ROBOTS_BYTES_MAX = 500_000  # RFC 9309: at least 500 KiB
ROBOTS_TIMEOUT_S = 10
REDIRECTS_MAX = 5
CRAWL_DELAY_MAX_S = 60  # the longest delay that a definition may have, too
RETRY_AFTER_MAX = timedelta(days=1)
RETRY_WAIT_MAX_S = 60  # a scan does not wait longer for a site
_TOO_MANY_REQUESTS = 429
_RETRY_STATUSES = {_TOO_MANY_REQUESTS, 503}
FETCHERS = 2  # of a worker that may fetch a site's pages: for scans, and for what a web search found
_ALLOW_ALL = Protego.parse("")


# Raises an exception if the scan must stop.
CancelCheck = Callable[[], Awaitable[None]]


class RobotsDisallowed(ExposureError):
    """The site's robots.txt disallows the request, or cannot be read."""


class RetryLater(ExposureError):
    """The site has asked, by Retry-After, for no requests now."""


FETCH_FAILURES = (FetchError, RobotsDisallowed, ForbiddenAddress, RetryLater)


def failure_reason(error: ExposureError) -> str:
    """Return why a fetch failed, without its URL."""
    return error.reason if isinstance(error, FetchError) else str(error)


class PoliteFetcher:
    """Opens sessions with sites within the limits of each. Use it in one event loop only."""

    def __init__(self, http: HttpClient, database: Database) -> None:
        self._http = http
        self._database = database
        # By origin; a text: why it cannot be read.
        self._robots: TLRUCache[str, Protego | str] = TLRUCache(
            ROBOTS_MAX, _robots_until, lambda: self.now().timestamp()
        )
        self._robots_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._retry_at: TLRUCache[str, datetime] = TLRUCache(
            ROBOTS_MAX, lambda _site, instant, _now: instant.timestamp(), lambda: self.now().timestamp()
        )
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def session(
        self, site: str, politeness: Politeness, *, cancel_check: CancelCheck | None = None
    ) -> AsyncIterator["SiteSession"]:
        """Open a session with a site; wait while it has the maximum number of sessions.

        `cancel_check` is called before each request.
        """
        slots = self._slots.setdefault(site, asyncio.Semaphore(politeness.concurrency))
        async with slots, self._http.session() as http_session:
            yield SiteSession(self, site, politeness, http_session, cancel_check, self.now())

    async def check_encrypted(self, url: str) -> None:
        """Check a URL as `HttpClient.check_encrypted` does; raises one of `FETCH_FAILURES`."""
        await self._http.check_encrypted(url)

    async def reserve(self, site: str, politeness: Politeness, *, delay_s: float | None = None) -> datetime:
        """Reserve the next time at which a request to the site may be sent; `delay_s` replaces that of `politeness`."""
        delay = timedelta(seconds=politeness.delay_s if delay_s is None else delay_s)
        concurrency = FETCHERS * politeness.concurrency
        async with self._database.writing() as session:
            return await statistics.reserve(session, site, delay=delay, concurrency=concurrency)

    def now(self) -> datetime:
        """Return the current time by the database's clock."""
        return self._database.clock.now()

    async def wait_until(self, instant: datetime) -> None:
        """Wait until an instant; return at once if it has passed."""
        if (seconds := (instant - self.now()).total_seconds()) > 0:
            await self._database.clock.sleep(seconds)

    def note_retry_after(self, site: str, response: Response) -> None:
        """Remember until when the site asks for no requests, if it does."""
        if response.status in _RETRY_STATUSES and (until := _retry_at(response, self.now())):
            self._retry_at[site] = until

    async def wait_for_site(self, site: str) -> None:
        """Wait until the site accepts requests again; raises `RetryLater` if that takes long."""
        until = self._retry_at.get(site)
        if until is None:
            return
        if until > self.now() + timedelta(seconds=RETRY_WAIT_MAX_S):
            raise RetryLater("the site asks to retry later")
        await self.wait_until(until)

    async def crawl_delay(self, http_session: HttpSession, url: str) -> float:
        """Return the delay in seconds that robots.txt asks for; 0: none.

        Raises `RobotsDisallowed` if robots.txt disallows the URL, or cannot be read, which disallows everything for now.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ForbiddenAddress("the URL is invalid") from None
        rules = await self._rules(http_session, f"{parts.scheme}://{parts.netloc}")
        if isinstance(rules, str):
            raise RobotsDisallowed(f"the site's robots.txt cannot be read: {rules}")
        if not rules.can_fetch(url, AGENT):
            raise RobotsDisallowed("the site's robots.txt disallows it")
        return min(CRAWL_DELAY_MAX_S, rules.crawl_delay(AGENT) or 0)

    async def _rules(self, http_session: HttpSession, origin: str) -> Protego | str:
        """Return the rules of an origin, cached or fetched; concurrent callers wait for one fetch."""
        async with self._robots_locks.setdefault(origin, asyncio.Lock()):
            with suppress(KeyError):
                return self._robots[origin]
            rules = self._robots[origin] = await _fetch_rules(http_session, origin)
            return rules


def _robots_until(_origin: str, rules: Protego | str, now: float) -> float:
    return now + (ROBOTS_RETRY if isinstance(rules, str) else ROBOTS_TTL).total_seconds()


@dataclass(slots=True, eq=False, repr=False)
class SiteSession:
    """A session with one site: its cookies, and the delay between its requests."""

    _fetcher: PoliteFetcher
    _site: str
    _politeness: Politeness
    _http_session: HttpSession
    _cancel_check: CancelCheck | None
    _not_before: datetime

    async def fetch(self, url: str, *, params: Mapping[str, str] | None = None, **options: Any) -> Response:
        """Fetch a URL as `HttpClient.fetch` does, within the site's limits; these apply to each redirect too.

        Raises one of `FETCH_FAILURES`.
        """
        target = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}" if params else url
        # robots.txt is about GET; the HTTP client follows the form's redirect.
        if options.get("method", "GET") != "GET":
            return await self._fetch(target, **options)
        for _ in range(REDIRECTS_MAX + 1):
            response = await self._fetch(target, redirects_max=0, **options)
            location = response.headers.get("location")
            if response.status not in REDIRECT_STATUSES or not location:
                return response
            target = _join(response.url, location)
        raise FetchError("too many redirects")

    async def _fetch(self, url: str, **options: Any) -> Response:
        delay_s = self._politeness.delay_s
        if self._politeness.robots_txt:
            delay_s = max(delay_s, await self._fetcher.crawl_delay(self._http_session, url))
        await self._fetcher.wait_for_site(self._site)
        if delay_s:
            await self._wait(delay_s)
        response = await self._http_session.fetch(url, before=self._check, **options)
        self._fetcher.note_retry_after(self._site, response)
        return response

    async def _check(self) -> None:
        if self._cancel_check is not None:
            await self._cancel_check()

    async def _wait(self, delay_s: float) -> None:
        # A slot that passed while the site was slow must not shorten the delay of this session.
        slot = await self._fetcher.reserve(self._site, self._politeness, delay_s=delay_s)
        await self._fetcher.wait_until(max(slot, self._not_before))
        self._not_before = self._fetcher.now() + timedelta(seconds=delay_s)


def _retry_at(response: Response, now: datetime) -> datetime | None:
    """RFC 9110, 10.2.3: seconds or a date."""
    text = response.headers.get("retry-after", "").strip()
    latest = now + RETRY_AFTER_MAX
    if text.isascii() and text.isdecimal():
        return now + timedelta(seconds=min(float(text), RETRY_AFTER_MAX.total_seconds()))
    with suppress(ValueError, OverflowError):
        until = parsedate_to_datetime(text)
        return min(until if until.tzinfo else until.replace(tzinfo=UTC), latest)
    return None


def _join(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise ForbiddenAddress("the site redirects to an invalid URL") from None


async def _fetch_rules(http_session: HttpSession, origin: str) -> Protego | str:
    """RFC 9309: a missing file allows everything; an unreachable file disallows everything, and the text says why.

    429 does not mean that the file is missing, so nothing is allowed yet.
    """
    try:
        response = await http_session.fetch(
            f"{origin}/robots.txt", timeout_s=ROBOTS_TIMEOUT_S, bytes_max=ROBOTS_BYTES_MAX
        )
    except FetchError as error:
        return error.detail
    if 400 <= response.status < 500 and response.status != _TOO_MANY_REQUESTS:  # noqa: PLR2004
        return _ALLOW_ALL
    return Protego.parse(response.text) if response.status == 200 else f"status {response.status}"  # noqa: PLR2004
