"""Findings: records, links and their alerts.

A scan calls `discover_record` and `discover_link` for everything that it finds, each time; both raise `NoSuchUser` if
no user has the id.
"""

import logging
from functools import partial
from typing import Any

from sqlalchemy import Row, Select, bindparam, insert, select, update

from exposurekit.contract.types import DISCOVERED, REMOVED
from exposurekit.service.accounts import consent
from exposurekit.service.findings import alerts
from exposurekit.service.findings.alerts import Event
from exposurekit.service.models import Listing, Page, Site, record_resource
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.text.urls import page_key

__all__ = ["Listing", "Page", "Site", "discover_link", "discover_record"]

_log = logging.getLogger("exposurekit.service")
_records, _links, _alerts = tables.records.c, tables.links.c, tables.alerts.c


async def discover_record(session: Session, user_id: int, listing: Listing, site: Site) -> int:
    """Save a listing as a record. Return the record's id.

    A new record gets an alert. An existing one is updated, and its count of absences is reset. A removed one becomes
    ``discovered`` again, with an alert. If the service can send the opt-out itself, or has to prepare it, that is due at once.
    """
    await consent.lock_user(session, user_id)
    digest = reference_digest(session, user_id, site.name, listing.reference_id)
    key = {"user_id": user_id, "site": site.name, "reference_digest": digest}
    existing = await session.first(_EXISTING_RECORD, key)
    if existing is None:
        return await _add_record(session, user_id, digest, listing, site)
    now, ciphertext = session.clock.now(), session.encrypt("records", user_id, listing.stored(site))
    changes: dict[str, Any] = {"ciphertext": ciphertext, "absences": 0}
    if existing.status == REMOVED:
        changes |= {"status": DISCOVERED, "changed_at": now, "refused_at": None, "opt_out_attempts": 0}
    if _opt_out_is_due(existing, site):
        changes |= {"due_at": now}
    await session.run(_CHANGE_RECORD, changes | {"record_id": existing.id})
    if existing.status == REMOVED:
        _log_discovered(session, existing.id)
        record = _discovered(existing.id, listing, site)
        await alerts.add_record_alert(session, Event.LISTED_AGAIN, user_id, record, site)
    return int(existing.id)


async def discover_link(session: Session, user_id: int, page: Page) -> int:
    """Save a web page as a link. Return the link's id. A new link gets an alert; an existing one is updated.

    Other URLs of the same page are the same link, which has the first one.
    """
    await consent.lock_user(session, user_id)
    digest = session.vault.fingerprint(f"{user_id}\0{page_key(page.url)}", "url")
    # Earlier versions stored the digest of the URL itself.
    earlier = session.vault.fingerprint(f"{user_id}\0{page.url}", "url")
    rows = await session.all(_EXISTING_LINKS, {"user_id": user_id, "digests": [digest, earlier]})
    if rows:
        existing = next((row for row in rows if bytes(row.url_digest) == digest), rows[0])
        [stored] = session.decrypt_readable([("links", user_id, existing.ciphertext)])
        url = page.url if stored is DAMAGED else stored["url"]
        ciphertext = session.encrypt("links", user_id, page.resource() | {"url": url})
        values = {"ciphertext": ciphertext, "url_digest": digest, "link_id": existing.id}
        await session.run(_CHANGE_LINK, values)
        return int(existing.id)
    row = {"user_id": user_id, "url_digest": digest, "created_at": session.clock.now()}
    row["ciphertext"] = session.encrypt("links", user_id, page.resource())
    link_id = await session.add(_ADD_LINK, row)
    await alerts.add_link_alert(session, user_id, link_id, page)
    return link_id


def reference_digest(session: Session, user_id: int, site: str, reference_id: str) -> bytes:
    """Return the digest by which a listing is recognised."""
    # The user id is included, so that equal digests do not reveal who shares a listing.
    return session.vault.fingerprint(f"{user_id}\0{site}\0{reference_id}", "reference_id")


async def list_records(session: Session, user_id: int) -> list[dict[str, Any]]:
    """List a user's records, oldest first, each in an object with the single key ``record``."""
    rows = await session.all(_RECORDS, {"user_id": user_id})
    values = session.decrypt_readable([("records", user_id, row.ciphertext) for row in rows])
    return [
        {"record": record_resource(row.id, row.site, row.status, stored)}
        for row, stored in zip(rows, values, strict=True)
        if stored is not DAMAGED
    ]


async def get_record(session: Session, user_id: int, record_id: int) -> dict[str, Any] | None:
    """Return one record of a user; None: the user has no such record, or it is damaged."""
    row = await session.first(_RECORDS.where(_records.id == record_id), {"user_id": user_id})
    if row is None:
        return None
    [stored] = session.decrypt_readable([("records", user_id, row.ciphertext)])
    return None if stored is DAMAGED else record_resource(row.id, row.site, row.status, stored)


async def list_links(session: Session, user_id: int) -> list[dict[str, Any]]:
    """List a user's links, oldest first."""
    rows = await session.all(_LINKS, {"user_id": user_id})
    links = session.decrypt_readable([("links", user_id, row.ciphertext) for row in rows])
    return [link for link in links if link is not DAMAGED]


async def list_alerts(session: Session, user_id: int) -> list[dict[str, Any]]:
    """List a user's alerts, oldest first, each with its record or link in its current state."""
    rows = await session.all(_ALERTS, {"user_id": user_id})
    contents = session.decrypt_readable([("alerts", user_id, row.content) for row in rows])
    sources = session.decrypt_readable(
        [
            ("records", user_id, row.ciphertext) if row.link is None else ("links", user_id, row.link)
            for row in rows
        ]
    )
    return [
        {**content, **_source(row, source)}
        for row, content, source in zip(rows, contents, sources, strict=True)
        if DAMAGED not in (content, source)
    ]


_of_user = bindparam("user_id", type_=tables.ID)
_EXISTING_RECORD = select(tables.records).where(
    _records.user_id == _of_user,
    _records.site == bindparam("site"),
    _records.reference_digest == bindparam("reference_digest"),
)
_ADD_RECORD = insert(tables.records)
_CHANGE_RECORD = update(tables.records).where(_records.id == bindparam("record_id"))
_EXISTING_LINKS = select(_links.id, _links.url_digest, _links.ciphertext).where(
    _links.user_id == _of_user, _links.url_digest.in_(bindparam("digests", expanding=True))
)
_ADD_LINK = insert(tables.links)
_CHANGE_LINK = update(tables.links).where(_links.id == bindparam("link_id"))
_RECORDS: Select[Any] = (
    select(_records.id, _records.site, _records.status, _records.ciphertext)
    .where(_records.user_id == bindparam("user_id"))
    .order_by(_records.id)
)
_LINKS = select(_links.ciphertext).where(_links.user_id == bindparam("user_id")).order_by(_links.id)
_ALERTS = (
    select(
        *(_alerts.ciphertext.label("content"), _links.ciphertext.label("link")),
        *(_records.id, _records.site, _records.status, _records.ciphertext),
    )
    .select_from(tables.alerts.outerjoin(tables.records).outerjoin(tables.links))
    .where(_alerts.user_id == bindparam("user_id"))
    .order_by(_alerts.id)
)


def _opt_out_is_due(existing: Row[Any], site: Site) -> bool:
    relisted = existing.status == REMOVED
    # One that failed is prepared again: what was due ends with the consent.
    can_be_due = existing.refused_at is None or site.prepared_by_us
    waiting = existing.status == DISCOVERED and existing.due_at is None and can_be_due
    return (site.removed_by_us or site.prepared_by_us) and (relisted or waiting)


async def _add_record(session: Session, user_id: int, digest: bytes, listing: Listing, site: Site) -> int:
    now = session.clock.now()
    row = {
        "user_id": user_id,
        "site": site.name,
        "reference_digest": digest,
        "status": DISCOVERED,
        "ciphertext": session.encrypt("records", user_id, listing.stored(site)),
        "created_at": now,
        "changed_at": now,
        "due_at": now if site.removed_by_us or site.prepared_by_us else None,
    }
    record_id = await session.add(_ADD_RECORD, row)
    _log_discovered(session, record_id)
    await alerts.add_record_alert(
        session, Event.NEW_RECORD, user_id, _discovered(record_id, listing, site), site
    )
    return record_id


def _log_discovered(session: Session, record_id: int) -> None:
    session.after_commit(partial(_log.info, "record=%d status=%r", record_id, DISCOVERED))


def _discovered(record_id: int, listing: Listing, site: Site) -> dict[str, Any]:
    return record_resource(record_id, site.name, DISCOVERED, listing.stored(site))


def _source(row: Row[Any], stored: Any) -> dict[str, Any]:
    if row.link is not None:
        return {"source_type": "link", "source": {"link": stored}}
    record = record_resource(row.id, row.site, row.status, stored)
    return {"source_type": "record", "source": {"record": record}}
