"""Scan statistics per site, and the time of the next request to it."""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, select, text, update

from exposurekit.service import workers
from exposurekit.service.clock import CLOCK_MARGIN
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import sites

REASON_MAX = 80
WAITS_FOR_PERSON = "waits for a person"  # who saves the page of results: not a scan
CHANGED_LAYOUT = "changed layout"  # the page has neither listings nor the text of no results
CONTROL_MISSING = "the control person is not listed"
VALUE_MISSING = "the person lacks a value that the address of the search contains"  # not a scan


@dataclass(frozen=True, slots=True)
class Health:
    """Scan statistics of a site, counted since the beginning."""

    site: str
    scans: int
    inconclusive_scans: int
    untrusted_scans: int
    last_scan_at: datetime | None
    last_good_scan_at: datetime | None
    last_reason: str | None

    @property
    def inconclusive_rate(self) -> float | None:
        """The share of scans that were inconclusive; None without scans."""
        return self.inconclusive_scans / self.scans if self.scans else None


async def record_scan(
    session: Session, site: str, *, reason: str | None, trusted: bool, reads_listings: bool = False
) -> None:
    """Count a scan, and whether it read a listing; ``reason`` says why it was inconclusive, None that it was conclusive.

    A changed layout stays the last reason until a scan has read a listing: a page of no results looks the same as before,
    and a block or a time-out says nothing of it.

    A site that waits for a person was not scanned: that is recorded as the reason, and counted as no scan.
    What a person lacks says nothing about the site, and changes nothing.
    """
    if reason == VALUE_MISSING and trusted:
        return
    row = await _lock_site(session, site)
    stays_changed = row.last_reason == CHANGED_LAYOUT and not reads_listings
    if reason == WAITS_FOR_PERSON:
        await session.run(_CHANGE, {"last_reason": reason, "site": site})
        return
    now = session.clock.now()
    good = reason is None and trusted
    last_reason = CHANGED_LAYOUT if stays_changed else reason and reason[:REASON_MAX]
    changes = {
        "scans": row.scans + 1,
        "inconclusive_scans": row.inconclusive_scans + (reason is not None),
        "untrusted_scans": row.untrusted_scans + (not trusted),
        "last_scan_at": now,
        "last_good_scan_at": now if good else row.last_good_scan_at,
        "last_reason": last_reason,
    }
    await session.run(_CHANGE, changes | {"site": site})


async def reserve(session: Session, site: str, *, delay: timedelta, concurrency: int) -> datetime:
    """Reserve the next time slot for a request to a site; no other request may follow within ``delay``.

    As many requests as ``concurrency`` may wait in each worker. If the next slot is much later than twice what all of them
    need, a clock that was ahead took it: the slots after that begin when those who wait already are through, and as many
    requests may then wait for them.
    """
    row = await _lock_site(session, site)
    now = session.clock.now()
    at = max(row.next_request_at or now, now)
    if at > now + concurrency * delay + CLOCK_MARGIN:
        longest = max((await workers.count(session)).running, 1) * concurrency * delay
        if at > now + 2 * longest + CLOCK_MARGIN:
            at = now + longest
    await session.run(_CHANGE, {"next_request_at": at + delay, "site": site})
    return at


async def all(session: Session) -> list[Health]:  # noqa: A001  read as statistics.all
    """Return the statistics of every site that was ever scanned, by name."""
    return [Health(*tuple(row)) for row in await session.all(_ALL)]


# Valid on both databases; SQLAlchemy has ON CONFLICT in each dialect only.
_INSERT_MISSING = text(
    "INSERT INTO sites (name, scans, inconclusive_scans, untrusted_scans) VALUES (:site, 0, 0, 0) "
    "ON CONFLICT DO NOTHING"
)
_CHANGE = update(sites).where(sites.c.name == bindparam("site"))
_LOCKED = select(sites).where(sites.c.name == bindparam("site")).with_for_update()
_ALL = select(sites.c.name, *(sites.c[one.name] for one in fields(Health) if one.name != "site")).order_by(
    sites.c.name
)


async def _lock_site(session: Session, site: str) -> Any:
    row = await session.first(_LOCKED, {"site": site})
    if row is None:
        await session.run(_INSERT_MISSING, {"site": site})
        [row] = await session.all(_LOCKED, {"site": site})
    return row
