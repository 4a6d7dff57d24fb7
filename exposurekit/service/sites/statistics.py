"""How each site behaves: what looks told, and when it may be asked again. Judges no person and no listing."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, select, text, update

from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import sites

REASON_MAX = 80


@dataclass(frozen=True, slots=True)
class Health:
    """What is known about a site's behaviour. Counts are looks, since the beginning."""

    site: str
    scans: int
    inconclusive_scans: int
    untrusted_scans: int
    last_scan_at: datetime | None
    last_good_scan_at: datetime | None
    last_reason: str | None

    @property
    def inconclusive_rate(self) -> float | None:
        """The share of looks that told nothing; None where there was none.

        >>> Health("Seekfolk", 8, 2, 0, None, None, None).inconclusive_rate
        0.25
        """
        return self.inconclusive_scans / self.scans if self.scans else None


async def record_scan(work: Session, site: str, *, reason: str | None, trusted: bool) -> None:
    """A look was taken; ``reason`` says why it told nothing, None that it told something."""
    row = await _held(work, site)
    now = work.clock.now()
    good = reason is None and trusted
    changed = {
        "scans": row.scans + 1,
        "inconclusive_scans": row.inconclusive_scans + (reason is not None),
        "untrusted_scans": row.untrusted_scans + (not trusted),
        "last_scan_at": now,
        "last_good_scan_at": now if good else row.last_good_scan_at,
        "last_reason": None if reason is None else reason[:REASON_MAX],
    }
    await work.run(_CHANGE.values(**changed), {"site": site})


async def reserve(work: Session, site: str, *, delay: timedelta) -> datetime:
    """The next moment at which a site may be asked; it is ours, and nobody else may ask for so long after it."""
    row = await _held(work, site)
    now = work.clock.now()
    at = max(now, row.next_request_at or now)
    await work.run(_CHANGE.values(next_request_at=at + delay), {"site": site})
    return at


async def all(work: Session) -> list[Health]:  # noqa: A001  read as health.all
    """Every site that was ever looked at, by name."""
    return [Health(*tuple(row)) for row in await work.all(_ALL)]


# Both databases know these words; SQLAlchemy would spell them for each apart.
_INSERT_MISSING = text(
    "INSERT INTO sites (name, scans, inconclusive_scans, untrusted_scans) VALUES (:site, 0, 0, 0) "
    "ON CONFLICT DO NOTHING"
)
_CHANGE = update(sites).where(sites.c.name == bindparam("site"))
_HELD = select(sites).where(sites.c.name == bindparam("site")).with_for_update()
_ALL = select(
    sites.c.name,
    sites.c.scans,
    sites.c.inconclusive_scans,
    sites.c.untrusted_scans,
    sites.c.last_scan_at,
    sites.c.last_good_scan_at,
    sites.c.last_reason,
).order_by(sites.c.name)


async def _held(work: Session, site: str) -> Any:
    row = await work.first(_HELD, {"site": site})
    if row is None:
        await work.run(_INSERT_MISSING, {"site": site})
        [row] = await work.all(_HELD, {"site": site})
    return row
