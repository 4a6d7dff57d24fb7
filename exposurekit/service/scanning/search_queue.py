"""The searches for a person to open and save, those that do most first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import case, func, or_, select

from exposurekit.contract.types import PENDING_REMOVAL, REMOVED
from exposurekit.service.accounts import consent, users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.models import Listing
from exposurekit.service.scanning import assisted_opt_outs, saved_pages
from exposurekit.service.scanning.save_scan import known_listings
from exposurekit.service.scanning.site_scan import search_queries
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import records


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A search for a person to open, and when a page of that person and site was last scanned.

    ``waiting`` counts the listings on the owner's other sites whose opt-out waits for it, to remove what it shows, too.
    ``to_verify`` counts the listings whose removal is due for verification: those that the page may show to be gone.
    ``next_due_at`` is when the next other one will be.
    """

    user_id: int
    site: str
    address: str = field(repr=False)
    last_saved_at: datetime | None = None
    waiting: int = 0
    to_verify: int = 0
    next_due_at: datetime | None = None


async def queue(
    session: Session, definitions: Mapping[str, Definition], *, user_id: int | None = None, limit: int
) -> list[QueueEntry]:
    """List the searches that a person has to open.

    Those that opt-outs wait for come first, then those never saved, those that verify removals, and the longest ago. The
    addresses contain personal data.
    """
    sites = [site for site in definitions.values() if site.search.method == "person"]
    saved_at = await saved_pages.last_saved(session)
    waiting = await assisted_opt_outs.awaited_searches(session, definitions, user_id=user_id)
    to_verify = await _to_verify(session)
    searches = [
        (one, site) for one in await consent.scannable(session) if user_id in (None, one) for site in sites
    ]

    def order(search: tuple[int, Definition]) -> tuple[bool, bool, bool, float, int, str]:
        key = one, name = search[0], search[1].name
        at = saved_at.get(key)
        return (
            key not in waiting,
            at is not None,
            not to_verify[key].due,
            at.timestamp() if at else 0,
            one,
            name,
        )

    subjects: dict[int, tuple[Subject | None, Mapping[str, Sequence[Listing]]]] = {}
    entries: list[QueueEntry] = []
    for one, site in sorted(searches, key=order):
        if len(entries) >= limit:
            break
        if one not in subjects:
            subjects[one] = await users.get_subject(session, one), await known_listings(session, one)
        subject, listings = subjects[one]
        if subject is not None:
            key = one, site.name
            entries += [
                QueueEntry(
                    user_id=one,
                    site=site.name,
                    address=saved_pages.search_address(site, query),
                    last_saved_at=saved_at.get(key),
                    waiting=waiting.get(key, 0),
                    to_verify=to_verify[key].due,
                    next_due_at=to_verify[key].next_due_at,
                )
                for query in search_queries(site, subject, listings.get(site.name, ()))
            ]
    return entries[:limit]


class _ToVerify(NamedTuple):
    """The removals of a user on a site to verify: how many are due, and when the next other one will be."""

    due: int = 0
    next_due_at: datetime | None = None


async def _to_verify(session: Session) -> Mapping[tuple[int, str], _ToVerify]:
    """Return the removals to verify, by user and site."""
    is_later = records.c.due_at > session.clock.now()
    is_on_its_way = or_(records.c.status == PENDING_REMOVAL, records.c.absences > 0)
    counting = select(
        records.c.user_id,
        records.c.site,
        func.count(case((is_later, None), else_=1)).label("due"),
        func.min(case((is_later, records.c.due_at))).label("next_due_at"),
    ).where(records.c.status != REMOVED, is_on_its_way)
    rows = await session.all(counting.group_by(records.c.user_id, records.c.site))
    removals = {(row.user_id, row.site): _ToVerify(row.due, row.next_due_at) for row in rows}
    return defaultdict(_ToVerify, removals)
