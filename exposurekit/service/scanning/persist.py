"""What a look told, kept: records, candidates, removals verified, the site's health. Looks nowhere itself."""

import asyncio
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import Row, bindparam, select

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.service.accounts import users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.findings import candidates, findings, removals
from exposurekit.service.findings.alerts import Event
from exposurekit.service.findings.candidates import POSSIBLE, QUARANTINED, Judged
from exposurekit.service.models import Listing, Site
from exposurekit.service.scanning import matching
from exposurekit.service.scanning.matching import Match
from exposurekit.service.scanning.site_scan import SiteResult
from exposurekit.service.sites import statistics
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import records

RECORDS_MAX = 50  # of one person on one site, ever; what goes beyond is for the operator


async def known_listings(work: Session, user_id: int) -> dict[str, list[Listing]]:
    """What each site lists of a person, as far as is known; what was removed is not among it."""
    known: dict[str, list[Listing]] = {}
    for row in await work.all(_LISTED, {"user_id": user_id}):
        known.setdefault(row.site, []).append(
            Listing.of_stored(work.decrypt("records", user_id, row.ciphertext))
        )
    return known


async def match_listings(subject: Subject, told: SiteResult, on: date) -> dict[str, Match]:
    """Whose each listing of a look is, by reference; in a thread, since a page may hold many, and before a transaction."""

    def matches() -> dict[str, Match]:
        return {listing.reference_id: matching.match(subject, listing, on) for listing in told.listings}

    return await asyncio.to_thread(matches)


async def save_result(
    work: Session,
    user_id: int,
    site: Definition,
    told: SiteResult,
    judged: Mapping[str, Match],
    *,
    about: Lease | None = None,
) -> None:
    """Keep what one look at one site told about one person. Their row must be held.

    A listing is the person's if it was a record already or if it matches; what may be theirs is a candidate, and so
    is everything that a site tells which lists anybody. Only a look that saw everything and is trusted tells
    that something is gone, and of that only what it asked for. Judged by what the person has on file now.

    Args:
        work: A transaction.
        user_id: Whom it was taken for.
        site: Where.
        told: What the look told.
        judged: Whose its listings are.
        about: The record that it was taken for, if it was for one.
    """
    subject = await users.get_subject(work, user_id)
    if subject is None:
        return
    rows = await work.all(_KNOWN, {"user_id": user_id, "site": site.name})
    unseen, new = {bytes(row.reference_digest): row for row in rows}, 0
    for listing in told.listings:
        digest = findings.reference_digest(work, user_id, site.name, listing.reference_id)
        row, match = unseen.get(digest), judged[listing.reference_id]
        if row is None:
            full = len(rows) + new >= RECORDS_MAX
            new += await _find(
                work, user_id, site.site(subject), listing, match, believed=told.trusted and not full
            )
        elif told.trusted and _is_same(work, user_id, row, listing, match):
            del unseen[digest]
            await findings.discover_record(work, user_id, listing, site.site(subject))
            await _still_listed(work, row, site, subject, about)
    for row in unseen.values():
        if told.tells_absence_of(Listing.of_stored(work.decrypt("records", user_id, row.ciphertext))):
            await _not_listed(work, row, site, subject, about)
    await statistics.record_scan(work, site.name, reason=told.inconclusive, trusted=told.trusted)


async def _find(
    work: Session, user_id: int, site: Site, listing: Listing, match: Match, *, believed: bool
) -> bool:
    """A listing that is no record yet; whether it is one now."""
    if match.verdict == "other" or await candidates.is_rejected(work, user_id, site.name, listing):
        return False
    if match.verdict == "match" and believed:
        await findings.discover_record(work, user_id, listing, site)
        await candidates.drop(work, user_id, site.name, listing)
        return True
    found = Judged(POSSIBLE if believed else QUARANTINED, match.score, match.reasons)
    await candidates.keep(work, user_id, site.name, listing, found)
    return False


def _is_same(work: Session, user_id: int, row: Row[Any], listing: Listing, match: Match) -> bool:
    """Whether what stands under a record's reference is still the same; sites give references to others again."""
    before = Listing.of_stored(work.decrypt("records", user_id, row.ciphertext))
    return match.verdict != "other" or listing.name.casefold() == before.name.casefold()


async def _still_listed(
    work: Session, row: Row[Any], site: Definition, subject: Subject, about: Lease | None
) -> None:
    if row.status != PENDING_REMOVAL or not _counts(work, row, about):
        return
    now, told = work.clock.now(), site.site(subject)
    if row.changed_at + timedelta(days=site.removal.give_up_days) <= now:
        await removals.refuse_removal(work, row.id, told, because=Event.OPT_OUT_IGNORED)
    else:
        await removals.verify_removal(work, row.id, told, gone=False, look_at=_next_scan(now, site))


async def _not_listed(
    work: Session, row: Row[Any], site: Definition, subject: Subject, about: Lease | None
) -> None:
    if row.status == REMOVED or not _counts(work, row, about):
        return
    await removals.verify_removal(
        work,
        row.id,
        site.site(subject),
        gone=True,
        confirmations=site.verification.confirmations,
        look_at=_next_scan(work.clock.now(), site),
    )


def _counts(work: Session, row: Row[Any], about: Lease | None) -> bool:
    """Whether this look is one of those in a row: it was due, and nobody else is taking it at this moment."""
    now = work.clock.now()
    is_due = row.due_at is None or row.due_at <= now
    waits_for_opt_out = row.status == DISCOVERED and row.due_at is not None and not row.absences
    others = row.lease is not None and row.lease_until > now and (about is None or row.lease != about.token)
    return is_due and not others and not waits_for_opt_out


def _next_scan(now: datetime, site: Definition) -> datetime:
    return now + timedelta(days=site.verification.every_days)


_LISTED = select(records.c.site, records.c.ciphertext).where(
    records.c.user_id == bindparam("user_id"), records.c.status != REMOVED
)
_KNOWN = select(
    records.c.id,
    records.c.reference_digest,
    records.c.status,
    records.c.absences,
    records.c.changed_at,
    records.c.due_at,
    records.c.lease,
    records.c.lease_until,
    records.c.ciphertext,
).where(records.c.user_id == bindparam("user_id"), records.c.site == bindparam("site"))
