"""One scan of one person: all sites and the web.

Each site's result is saved in its own transaction, which first asserts the lease: without consent, or after
deactivation or a purge, the lease is gone. A site that fails does not affect the others.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import Table

from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import SEARCH_FIELDS, Subject, changed_fields
from exposurekit.service.findings import evidence
from exposurekit.service.mail.dkim_signature import ResolveTxt, system_txt
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.models import Listing, Page
from exposurekit.service.scanning import websearch
from exposurekit.service.scanning.control_person import SharedControls
from exposurekit.service.scanning.politeness import CancelCheck, PoliteFetcher
from exposurekit.service.scanning.save_scan import known_listings, match_listings, save_pages, save_result
from exposurekit.service.scanning.scan_warnings import ScanWarnings
from exposurekit.service.scanning.schedule import next_scan_at
from exposurekit.service.scanning.site_scan import SiteResult, scan_site
from exposurekit.service.scanning.websearch import ENGINE, Engine, SearchResult
from exposurekit.service.sites import statistics
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.leases import Lease, LeaseLost
from exposurekit.service.storage.tables import users as USERS  # noqa: N812  the table, not the module
from exposurekit.text.urls import site_host

SITE_CONCURRENCY = 8  # in one scan
SCAN_TIMEOUT_S = 480  # for all sites of one scan; the others wait for the next scan
_log = logging.getLogger("exposurekit.service")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What a scan or a removal needs: the database, the sites by name, the search engine, and the mailbox."""

    database: Database
    definitions: Mapping[str, Definition]
    fetcher: PoliteFetcher  # for sites
    engine: Engine | None = None  # None: no links are found
    engine_fetcher: PoliteFetcher | None = None  # None: the same fetcher
    page_fetcher: PoliteFetcher | None = None  # for pages of other hosts than sites; None: the same fetcher
    mail: MailSettings | None = None  # None: no opt-out is confirmed by mail
    resolve_txt: ResolveTxt = system_txt
    controls: SharedControls = field(default_factory=SharedControls)
    warnings: ScanWarnings | None = None  # None: inconclusive scans are not logged
    # Held while a site is scanned for records of a user that are pending removal.
    verifications: WeakValueDictionary[tuple[int, str], asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )


def lease_check(database: Database, table: Table, lease: Lease) -> CancelCheck:
    """Return a check that raises `LeaseLost` once the lease is gone, so that no further request is sent."""

    async def check() -> None:
        async with database.reading() as session:
            if not await leases.is_current(session, table, lease):
                raise LeaseLost("another worker holds the lease, or the person may not be scanned any more")

    return check


@asynccontextmanager
async def writing_with_lease(
    context: ScanContext, table: Table, lease: Lease, user_id: int
) -> AsyncIterator[Session]:
    """Open a write session in which the user is locked; raises `LeaseLost` if the lease is lost, or the user purged."""
    async with context.database.writing() as session:
        await lock_person(session, user_id)
        await leases.assert_held(session, table, lease)
        yield session


async def lock_person(session: Session, user_id: int) -> None:
    """Lock a user for a job; raises `LeaseLost` if they were purged. Before a change, lock again."""
    try:
        await consent.lock_user(session, user_id, changes=False)
    except consent.NoSuchUser:
        raise LeaseLost("the person was purged") from None


async def scan(context: ScanContext, lease: Lease) -> None:
    """Scan for the person of the lease, and schedule the next scan in a week.

    Raises:
        LeaseLost: The scan took too long, or the person may not be scanned any more.
    """
    user_id = lease.row_id
    async with context.database.reading() as session:
        allowed = await consent.may_scan(session, user_id)
        subject = await users.get_subject(session, user_id) if allowed else None
        listings = await known_listings(session, user_id, with_candidates=True)
    if subject is not None:
        deadline = asyncio.get_running_loop().time() + SCAN_TIMEOUT_S
        job = _Scan(context, lease, subject, listings, deadline, lease_check(context.database, USERS, lease))
        await _gather(*(job.scan_site(site) for site in context.definitions.values()), job.search_web())
        await job.save_pages()
    async with context.database.writing() as session:
        now = session.clock.now()
        scanned = subject is not None and (bool(context.definitions) or context.engine is not None)
        allowed = await consent.may_scan(session, user_id)
        due_at = next_scan_at(now, scanned=scanned) if allowed else None
        changes = {"scanned_at": now} if scanned else {}
        current = await users.get_subject(session, user_id) if scanned and allowed else None
        # An update during the scan came too late for it.
        is_outdated = bool(subject and current and changed_fields(subject, current) & SEARCH_FIELDS)
        due_at = now + consent.EARLY_SCAN_DELAY if is_outdated else due_at
        await leases.complete(session, USERS, lease, due_at=due_at, is_scanning=False, **changes)


@dataclass(slots=True)
class _Scan:
    context: ScanContext
    lease: Lease
    subject: Subject
    listings: Mapping[str, Sequence[Listing]]
    deadline: float
    cancel_check: CancelCheck
    scan_id: str = field(default_factory=evidence.new_scan_id)
    site_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SITE_CONCURRENCY))
    searched: SearchResult | None = None
    inconclusive_hosts: set[str] = field(default_factory=set)  # of sites whose listings may be records later

    async def scan_site(self, site: Definition) -> None:
        """Scan one site and save the result."""
        async with self.site_slots:
            result = await self._site_result(site)
        if self.context.warnings is not None:
            self.context.warnings.add(site.name, result, self.context.database.clock.now())
        if result.inconclusive is not None:
            self.inconclusive_hosts.add(site_host(site.search.url))
        matches = await match_listings(self.subject, result, self.context.database.clock.now().date())
        async with self.context.database.writing() as session:
            await leases.assert_held(session, USERS, self.lease)
            await save_result(session, self.lease.row_id, site, result, matches, scan_id=self.scan_id)

    async def search_web(self) -> None:
        """Search the web for pages with personal data."""
        if self.context.engine is not None:
            self.searched = await self._search_result(self.context.engine)

    async def save_pages(self) -> None:
        """Save the pages of the web search. The sites are scanned by then, so that a listing's page is known as a record's."""
        if (result := self.searched) is None:
            return
        async with self.context.database.writing() as session:
            await leases.assert_held(session, USERS, self.lease)
            hosts = self.inconclusive_hosts
            await save_pages(session, self.lease.row_id, result.pages, inconclusive_hosts=hosts)
            await statistics.record_scan(session, ENGINE, reason=result.inconclusive, trusted=True)

    async def _site_result(self, site: Definition) -> SiteResult:
        previous = self.listings.get(site.name, ())
        scanning = scan_site(
            site,
            self.subject,
            self.context.fetcher,
            previous=previous,
            controls=self.context.controls,
            cancel_check=self.cancel_check,
        )
        return await self._in_time(site.name, scanning, lambda reason: SiteResult(inconclusive=reason))

    async def _search_result(self, engine: Engine) -> SearchResult:
        pages: list[Page] = []
        searching = websearch.search(
            engine,
            self.subject,
            self.context.fetcher,
            sites=self.context.definitions.values(),
            page_fetcher=self.context.page_fetcher or self.context.fetcher,
            engine_fetcher=self.context.engine_fetcher or self.context.fetcher,
            pages=pages,
            cancel_check=self.cancel_check,
        )
        return await self._in_time(ENGINE, searching, lambda reason: SearchResult(tuple(pages), reason))

    async def _in_time(self, site: str, part: Coroutine[Any, Any, T], inconclusive: Callable[[str], T]) -> T:
        try:
            async with asyncio.timeout_at(self.deadline):
                return await part
        except TimeoutError:
            return inconclusive("out of time")
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001  a site's failure must not end the scan of the others
            _log.error("site_scan=%r error=%s", site, type(error).__name__)
            return inconclusive("internal error")


async def _gather(*parts: Coroutine[Any, Any, None]) -> None:
    """Run every part to its end, then raise the first exception, if any."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    if errors := [result for result in results if isinstance(result, BaseException)]:
        raise errors[0]
