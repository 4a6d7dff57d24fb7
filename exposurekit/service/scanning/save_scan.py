"""Persist the result of a site scan: records, candidates, absences, evidence and the site's statistics."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Row, Select, bindparam, select, update

from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.service.accounts import users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.findings import candidates, evidence, findings, removals
from exposurekit.service.findings.alerts import Event
from exposurekit.service.findings.candidates import POSSIBLE, QUARANTINED, Assessment
from exposurekit.service.mail import opt_out_requests
from exposurekit.service.matching import scoring
from exposurekit.service.matching.scoring import Match
from exposurekit.service.models import Listing, Page
from exposurekit.service.scanning.schedule import next_verification_at
from exposurekit.service.scanning.site_scan import SiteResult
from exposurekit.service.sites import statistics
from exposurekit.service.sites.definition import Definition
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.leases import Lease
from exposurekit.service.storage.tables import records
from exposurekit.text.urls import page_key, site_host

MATCHED_AT_ONCE = 60  # comparisons of a listing with a person's value, in a few milliseconds
_log = logging.getLogger("exposurekit.service")
RECORDS_MAX = 50  # of one person on one site, ever; further listings become candidates


_of_user = records.c.user_id == bindparam("user_id")
_LISTED = select(records.c.site, records.c.ciphertext).where(_of_user, records.c.status != REMOVED)
_OF_SITE = select(records, evidence.is_recorded(records.c.id).label("has_evidence")).where(
    _of_user, records.c.site == bindparam("site")
)


_WITH_ID = select(records.c.id, records.c.ciphertext).where(_of_user)
_SEARCHED = update(records).where(records.c.id == bindparam("record_id"), records.c.searched_at.is_(None))


async def known_listings(
    session: Session, user_id: int, *, with_candidates: bool = False
) -> dict[str, list[Listing]]:
    """Return the listings of a person by site, without the removed ones; with those of open candidates if asked to."""
    listings: dict[str, list[Listing]] = {}
    for row, stored in await _readable(session, _LISTED, {"user_id": user_id}):
        listings.setdefault(row.site, []).append(Listing.from_stored(stored))
    for site, listing in await candidates.open_listings(session, user_id) if with_candidates else ():
        listings.setdefault(site, []).append(listing)
    return listings


async def _readable(
    session: Session, query: Select[Any], values: Mapping[str, Any]
) -> list[tuple[Row[Any], Any]]:
    """Return a user's readable rows with their content. Damaged ones are skipped; a scan that matches the listing restores them."""
    rows = await session.all(query, values)
    contents = session.decrypt_readable([("records", values["user_id"], row.ciphertext) for row in rows])
    return [(row, stored) for row, stored in zip(rows, contents, strict=True) if stored is not DAMAGED]


async def match_listings(subject: Subject, result: SiteResult, on: date) -> dict[str, Match]:
    """Match the listings of a scan with a person, by reference; in a thread if it may take long."""

    def matches() -> dict[str, Match]:
        return {listing.reference_id: scoring.match(subject, listing, on) for listing in result.listings}

    is_quick = len(result.listings) * subject.size <= MATCHED_AT_ONCE
    return matches() if is_quick else await asyncio.to_thread(matches)


async def save_result(
    session: Session,
    user_id: int,
    site: Definition,
    result: SiteResult,
    matches: Mapping[str, Match],
    *,
    scan_id: str,
    lease: Lease | None = None,
) -> None:
    """Save the result of one site scan for one person, whose row the caller has locked.

    A listing becomes a record if it matches, or is one already. A possible match becomes a candidate, and so does
    every listing of a site that is not trusted; one that is no longer possible, or listed, is deleted. Only a complete and trusted scan counts as an absence, and only for
    listings whose query was repeated. The person's current data decides. A scan for one record has that record's lease.
    What a listing looked like when it was discovered, and the page on which it no longer was when its removal was
    verified, are recorded as evidence.
    """
    subject = await users.get_subject(session, user_id)
    if subject is None:
        return
    scan = evidence.Scan(scan_id, site.name, result.source, session.clock.now())
    rows = [row for row, _ in await _readable(session, _OF_SITE, {"user_id": user_id, "site": site.name})]
    absent, added = {bytes(row.reference_digest): row for row in rows}, 0
    for listing in result.listings:
        digest = findings.reference_digest(session, user_id, site.name, listing.reference_id)
        row, match = absent.get(digest), matches[listing.reference_id]
        if row is None:
            trusted = result.trusted and len(rows) + added < RECORDS_MAX
            added += await _save_new(
                session, user_id, site, listing, match, subject=subject, trusted=trusted, scan=scan
            )
        elif result.trusted and _is_same(session, user_id, row, listing, match):
            del absent[digest]
            await findings.discover_record(session, user_id, listing, site.site_of(listing, subject))
            if row.status == REMOVED or not row.has_evidence:
                await evidence.append(session, user_id, row.id, evidence.before(listing, scan))
            await _record_presence(session, row, site, lease)
    await _discard_absent(session, user_id, site, result)
    for row in absent.values():
        listing = _listing(session, user_id, row)
        if result.confirms_absence_of(listing) and await _record_absence(session, row, site, lease):
            pages = result.pages_without(listing)
            await evidence.append(session, user_id, row.id, evidence.after(listing, pages, scan))
    if result.inconclusive is None and result.trusted:  # `ScanWarnings` has the others
        left_out = f" queries_left_out={result.left_out}" if result.left_out else ""
        log = partial(_log.info, "scan=%r listings=%d%s", site.name, len(result.listings), left_out)
        session.after_commit(log)
    await statistics.record_scan(
        session,
        site.name,
        reason=result.inconclusive,
        trusted=result.trusted,
        reads_listings=bool(result.listings) or result.reads_control,
    )


async def save_pages(
    session: Session, user_id: int, pages: Sequence[Page], *, inconclusive_hosts: Collection[str] = ()
) -> None:
    """Save pages of a web search that contain a person's data: each is a link, unless it is the page of a record.

    That the search returned a record's page is noted there: so the two ways of finding listings can be compared. On the
    hosts of sites whose scan was inconclusive no page becomes a link: it may be the page of a record that a later scan
    finds.
    """
    rows = await _readable(session, _WITH_ID, {"user_id": user_id}) if pages else []
    record_ids = {page_key(stored["href"]): row.id for row, stored in rows if stored["href"]}
    now = session.clock.now()
    for page in pages:
        record_id = record_ids.get(page_key(page.url))
        if record_id is not None:
            await session.run(_SEARCHED, {"record_id": record_id, "searched_at": now})
        elif site_host(page.url) not in inconclusive_hosts:
            await findings.discover_link(session, user_id, page)


def _listing(session: Session, user_id: int, row: Row[Any]) -> Listing:
    return Listing.from_stored(session.decrypt("records", user_id, row.ciphertext))


async def _save_new(
    session: Session,
    user_id: int,
    site: Definition,
    listing: Listing,
    match: Match,
    *,
    subject: Subject,
    trusted: bool,
    scan: evidence.Scan,
) -> bool:
    """Save a listing without a record; return whether it became one."""
    if match.verdict == "other":
        if trusted:  # the person's data or the listing has changed
            await candidates.discard(session, user_id, site.name, listing)
        return False
    if await candidates.is_rejected(session, user_id, site.name, listing):
        return False
    if match.verdict == "match" and trusted:
        record_id = await findings.discover_record(session, user_id, listing, site.site_of(listing, subject))
        await evidence.append(session, user_id, record_id, evidence.before(listing, scan))
        await candidates.discard(session, user_id, site.name, listing)
        return True
    judged = Assessment(POSSIBLE if trusted else QUARANTINED, match.score, match.reasons)
    await candidates.save(
        session, user_id, site.name, listing, judged, evidence=evidence.before(listing, scan)
    )
    return False


async def _discard_absent(session: Session, user_id: int, site: Definition, result: SiteResult) -> None:
    """Delete the candidates that are no longer on the site: an opt-out for one would be for nothing."""
    if not result.trusted or result.inconclusive is not None:
        return
    listed = {listing.reference_id for listing in result.listings}
    for _, listing in await candidates.open_listings(session, user_id, site.name):
        if listing.reference_id not in listed and result.confirms_absence_of(listing):
            await candidates.discard(session, user_id, site.name, listing)


def _is_same(session: Session, user_id: int, row: Row[Any], listing: Listing, match: Match) -> bool:
    """Return whether a record's reference still means the same person: sites reuse references."""
    before = _listing(session, user_id, row)
    return match.verdict != "other" or listing.name.casefold() == before.name.casefold()


async def _record_presence(session: Session, row: Row[Any], site: Definition, lease: Lease | None) -> None:
    if row.status != PENDING_REMOVAL or not _counts(session, row, lease):
        return
    now, description = session.clock.now(), site.site()
    if row.changed_at + timedelta(days=site.removal.give_up_days) <= now:
        await removals.refuse_removal(session, row.id, description, event=Event.OPT_OUT_IGNORED)
    else:
        next_scan_at = next_verification_at(now, site)
        await removals.verify_removal(session, row.id, description, absent=False, next_scan_at=next_scan_at)


async def _record_absence(session: Session, row: Row[Any], site: Definition, lease: Lease | None) -> bool:
    """Record an absence, if it counts; return whether it verifies the removal."""
    if row.status == REMOVED or not _counts(session, row, lease):
        return False
    status = await removals.verify_removal(
        session,
        row.id,
        site.site(),
        absent=True,
        confirmations=site.verification.confirmations,
        next_scan_at=next_verification_at(session.clock.now(), site),
    )
    if status == REMOVED:
        await opt_out_requests.end(session, row.id, unsent=True)
    return status == REMOVED


def _counts(session: Session, row: Row[Any], lease: Lease | None) -> bool:
    """Return whether this scan counts for a record: it was due, and no other worker is scanning for the record."""
    now = session.clock.now()
    is_due = row.due_at is None or row.due_at <= now
    waits_for_opt_out = row.status == DISCOVERED and row.due_at is not None and not row.absences
    is_leased = (
        row.lease is not None and row.lease_until > now and (lease is None or row.lease != lease.token)
    )
    return is_due and not is_leased and not waits_for_opt_out
