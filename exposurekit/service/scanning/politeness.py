"""How a site is asked: one door to the web that obeys robots.txt, waits its turn, and asks few things at once.

A site's turn is a row in the database, so that several workers together keep its distance; how many conversations it
bears at once is counted by each worker for itself. Judges no answer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit
from weakref import WeakValueDictionary

from protego import Protego

from exposurekit.errors import ExposureError
from exposurekit.service.http.client import FetchError, ForbiddenAddress, HttpSession, Outbound, Response
from exposurekit.service.sites import statistics
from exposurekit.service.sites.definition import Politeness
from exposurekit.service.storage.database import Database

AGENT = "exposurekit"  # what robots.txt may call us
ROBOTS_LAST, ROBOTS_RETRY = timedelta(days=1), timedelta(minutes=10)
ROBOTS_MAX = 1000  # files that are remembered
ROBOTS_BYTES_MAX = 500_000  # RFC 9309: at least 500 KiB are read
ROBOTS_PATIENCE_S = 10
REDIRECTS_MAX = 5
_REDIRECTS = {301, 302, 303, 307, 308}
_ALL_IS_ALLOWED = Protego.parse("")


# Raises what ends a conversation that may not go on.
CancelCheck = Callable[[], Awaitable[None]]


class RobotsDisallowed(ExposureError):
    """The site's robots.txt forbids it, or cannot be read."""


@dataclass(frozen=True, slots=True)
class _RobotsRules:
    rules: Protego | None
    until: datetime


class PoliteFetcher:
    """The way out, politely. Belongs to one event loop.

    Args:
        outbound: The vetted way out.
        database: Where the turns are kept.
    """

    def __init__(self, outbound: Outbound, database: Database) -> None:
        self._outbound = outbound
        self._database = database
        self._robots: dict[str, _RobotsRules] = {}
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._gates: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def calling(
        self, site: str, politeness: Politeness, *, still: CancelCheck | None = None
    ) -> AsyncIterator["SiteSession"]:
        """A conversation with one site; as many at once as it bears.

        Args:
            site: Its name.
            politeness: Towards it.
            still: Asked before each request whether there may be one more.
        """
        gate = self._gates.setdefault(site, asyncio.Semaphore(politeness.concurrency))
        async with gate, self._outbound.visit() as visit:
            yield SiteSession(self, site, politeness, visit, still=still)

    async def turn(self, site: str, delay: timedelta) -> datetime:
        """The next moment at which the site may be asked; it is ours."""
        async with self._database.writing() as work:
            return await statistics.reserve(work, site, delay=delay)

    def now(self) -> datetime:
        """This instant, by the database's clock."""
        return self._database.clock.now()

    async def wait_until(self, moment: datetime) -> None:
        """Until then, or not at all."""
        if (seconds := (moment - self.now()).total_seconds()) > 0:
            await self._database.clock.sleep(seconds)

    async def is_welcome(self, visit: HttpSession, url: str) -> bool:
        """Whether robots.txt allows us an address.

        Raises:
            RobotsDisallowed: It cannot be read, which forbids everything until it can.
            ForbiddenAddress: The address is none.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            raise ForbiddenAddress("the address may not be visited: it is none") from None
        rules = await self._rules(visit, f"{parts.scheme}://{parts.netloc}")
        if rules is None:
            raise RobotsDisallowed("the site's robots.txt cannot be read")
        return bool(rules.can_fetch(url, AGENT))

    async def _rules(self, visit: HttpSession, origin: str) -> Protego | None:
        """What is remembered of an origin, or read: by one conversation, while the others wait for it."""
        async with self._reading.setdefault(origin, asyncio.Lock()):
            known = self._robots.get(origin)
            if known is None or known.until <= self.now():
                if len(self._robots) >= ROBOTS_MAX:
                    self._robots.clear()
                rules = await _read(visit, origin)
                lasts = ROBOTS_LAST if rules else ROBOTS_RETRY
                known = self._robots[origin] = _RobotsRules(rules, self.now() + lasts)
            return known.rules


class SiteSession:
    """One conversation with a site: its cookies, its turns."""

    def __init__(
        self,
        manners: PoliteFetcher,
        site: str,
        politeness: Politeness,
        visit: HttpSession,
        *,
        still: CancelCheck | None,
    ) -> None:
        self._manners = manners
        self._site = site
        self._politeness = politeness
        self._visit = visit
        self._still = still
        self._not_before = manners.now()

    async def fetch(self, url: str, *, params: Mapping[str, str] | None = None, **options: Any) -> Response:
        """As `Outbound.fetch`, once it is allowed and the site's turn has come; so is each hop of a redirect.

        Raises:
            Unwelcome: robots.txt forbids it, or cannot be read.
            ForbiddenAddress: The address may not be visited.
            FetchError: No whole answer came.
        """
        whole = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}" if params else url
        if options.get("method", "GET") != "GET":  # where a form leads is the site's own affair
            return await self._asked(whole, **options)
        for _ in range(REDIRECTS_MAX + 1):
            answer = await self._asked(whole, redirects_max=0, **options)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            whole = _joined(answer.url, location)
        raise FetchError("too many redirects")

    async def _asked(self, url: str, **options: Any) -> Response:
        if self._politeness.robots_txt and not await self._manners.is_welcome(self._visit, url):
            raise RobotsDisallowed("the site's robots.txt forbids it")
        if self._politeness.delay_s:
            await self._wait_for_turn()
        return await self._visit.fetch(url, before=self._go_on, **options)

    async def _go_on(self) -> None:
        if self._still is not None:
            await self._still()

    async def _wait_for_turn(self) -> None:
        delay = timedelta(seconds=self._politeness.delay_s)
        # A turn that has passed, as while the site was slow, is no reason to ask twice at once.
        await self._manners.wait_until(max(await self._manners.turn(self._site, delay), self._not_before))
        self._not_before = self._manners.now() + delay


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise ForbiddenAddress("the answer leads to an address that is none") from None


async def _read(visit: HttpSession, origin: str) -> Protego | None:
    """RFC 9309: no such file allows everything; a file that cannot be reached (None) nothing."""
    try:
        answer = await visit.fetch(
            f"{origin}/robots.txt", timeout_s=ROBOTS_PATIENCE_S, bytes_max=ROBOTS_BYTES_MAX
        )
    except FetchError:
        return None
    if 400 <= answer.status < 500:  # noqa: PLR2004
        return _ALL_IS_ALLOWED
    return Protego.parse(answer.text) if answer.status == 200 else None  # noqa: PLR2004
