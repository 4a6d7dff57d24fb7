"""One scan of one person: a look at every site, and a search of the web. Submits nothing.

Each look is kept in a transaction of its own, which first makes sure that the person is still ours to look for: who
consents no longer, is deactivated or purged has taken the lease away. A site that fails costs its own look alone.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Table, bindparam, select

from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.findings import findings
from exposurekit.service.models import Listing
from exposurekit.service.scanning import websearch
from exposurekit.service.scanning.persist import known_listings, match_listings, save_result
from exposurekit.service.scanning.politeness import CancelCheck, PoliteFetcher
from exposurekit.service.scanning.site_scan import SiteResult, scan_site
from exposurekit.service.scanning.websearch import ENGINE, Engine, SearchHit
from exposurekit.service.sites import statistics
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.leases import Lease, LeaseLost
from exposurekit.service.storage.tables import records
from exposurekit.service.storage.tables import users as USERS  # noqa: N812  the table, beside the room

SCAN_EVERY = timedelta(weeks=1)  # not shown: how often a person is scanned
LOOK_AGAIN = timedelta(hours=1)  # where nothing could be looked at
SITES_AT_ONCE = 8  # in one scan
LOOKS_S = 480  # for all looks of one scan; a site that was not reached by then is for next week
_log = logging.getLogger("exposurekit.service")


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What there is to look at, and the way there.

    Attributes:
        database: Where people and findings are.
        definitions: The people-search sites, by name.
        manners: The way out.
        engine: Who searches the web for pages; None: nobody, and no links are found.
        engine_manners: The way to the engine, where it is another.
    """

    database: Database
    definitions: Mapping[str, Definition]
    manners: PoliteFetcher
    engine: Engine | None = None
    engine_manners: PoliteFetcher | None = None

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts of the people-search sites."""
        return frozenset(urlsplit(site.search.url).hostname or "" for site in self.definitions.values())


_OURS = {
    table.name: select(table.c.id).where(
        table.c.id == bindparam("row_id"), table.c.lease == bindparam("token")
    )
    for table in (USERS, records)
}


def still_ours(database: Database, table: Table, lease: Lease) -> CancelCheck:
    """A look whether a lease is ours: whoever must not be looked for any more is not asked for once more."""
    question, ours = _OURS[table.name], {"row_id": lease.row_id, "token": lease.token}

    async def check() -> None:
        async with database.reading() as work:
            if not await work.rows(question, ours):
                raise LeaseLost("somebody else has it, or the person must not be looked for any more")

    return check


async def scan(web: ScanContext, lease: Lease) -> None:
    """Look for the person whom the lease is about; the next scan is due in a week.

    Raises:
        LeaseLost: It took too long, or the person must not be looked for any more.
    """
    user_id = lease.row_id
    async with web.database.reading() as work:
        subject = await users.get_subject(work, user_id) if await consent.may_scan(work, user_id) else None
        known = await known_listings(work, user_id)
    if subject is not None:
        one = _Scan(web, lease, subject, known, asyncio.get_running_loop().time() + LOOKS_S)
        await _all_of(*(one.look_at(site) for site in web.definitions.values()), one.search())
    async with web.database.writing() as work:
        now = work.clock.now()
        # A worker that knows no site has looked nowhere; another may know some.
        looked = subject is not None and (bool(web.definitions) or web.engine is not None)
        again = (
            now + (SCAN_EVERY if looked else LOOK_AGAIN) if await consent.may_scan(work, user_id) else None
        )
        done = {"scanned_at": now} if looked else {}
        await leases.complete(work, USERS, lease, due_at=again, is_scanning=False, **done)


@dataclass(frozen=True, slots=True)
class _Scan:
    web: ScanContext
    lease: Lease
    subject: Subject
    known: Mapping[str, Sequence[Listing]]
    deadline: float
    site_slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SITES_AT_ONCE))

    async def still(self) -> None:
        """Make sure, before each request, that the person is still ours to look for."""
        await still_ours(self.web.database, USERS, self.lease)()

    async def look_at(self, site: Definition) -> None:
        """Look at one site, and keep what it told."""
        async with self.site_slots:
            told = await self._look_in_time(site)
        judged = await match_listings(self.subject, told, self.web.database.clock.now().date())
        async with self.web.database.writing() as work:
            await leases.assert_held(work, USERS, self.lease)
            await save_result(work, self.lease.row_id, site, told, judged)

    async def search(self) -> None:
        """Search the web, and keep the pages that hold something."""
        if self.web.engine is None:
            return
        found = await self._searched(self.web.engine)
        async with self.web.database.writing() as work:
            await leases.assert_held(work, USERS, self.lease)
            for page in found.pages:
                await findings.discover_link(work, self.lease.row_id, page)
            await statistics.record_scan(work, ENGINE, reason=found.inconclusive, trusted=True)

    async def _look_in_time(self, site: Definition) -> SiteResult:
        known = self.known.get(site.name, ())
        try:
            async with asyncio.timeout_at(self.deadline):
                return await scan_site(site, self.subject, self.web.manners, known=known, still=self.still)
        except TimeoutError:
            return SiteResult(inconclusive="out of time")
        except LeaseLost:
            raise
        except Exception as fault:  # noqa: BLE001  whatever a site does, it costs its own look alone
            return SiteResult(inconclusive=_fault(site.name, fault))

    async def _searched(self, engine: Engine) -> SearchHit:
        try:
            async with asyncio.timeout_at(self.deadline):
                return await websearch.search(
                    engine,
                    self.subject,
                    self.web.manners,
                    besides=self.web.hosts,
                    engine_manners=self.web.engine_manners or self.web.manners,
                    still=self.still,
                )
        except TimeoutError:
            return SearchHit(inconclusive="out of time")
        except LeaseLost:
            raise
        except Exception as fault:  # noqa: BLE001  the same
            return SearchHit(inconclusive=_fault(ENGINE, fault))


def _fault(where: str, fault: Exception) -> str:
    _log.error("look=%r fault=%s", where, type(fault).__name__)
    return "a fault of ours"


async def _all_of(*parts: Coroutine[Any, Any, None]) -> None:
    """Every part to its end; then, if any failed, the failure of the first."""
    results = await asyncio.gather(*parts, return_exceptions=True)
    if failures := [result for result in results if isinstance(result, BaseException)]:
        raise failures[0]
