"""A person with every field, and a row of theirs in every table about people."""

import dataclasses
from datetime import timedelta
from pathlib import Path

from sqlalchemy import select
from support.services import LISTING, PAGE, SITE

from exposurekit.service.accounts import consent
from exposurekit.service.findings import candidates, evidence
from exposurekit.service.findings.candidates import Assessment
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.mail import message_store, opt_out_requests
from exposurekit.service.mail.mailboxes import RawMessage
from exposurekit.service.mail.message_store import Arrival
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Session
from exposurekit.service.webhooks import delivery, endpoints, outbox
from exposurekit.service.webhooks.endpoints import Callback

LASTS = timedelta(minutes=5)
FULL = {
    "aliases": [{"first_name": "Janie", "last_name": "Doe"}],
    "emails": [{"address": "jane@doe.example"}],
    "phone_numbers": [{"number": "2025550123"}],
}
# Every table with rows about people.
PERSONAL = {
    *("users", "user_items", "records", "links", "alerts", "service_history", "consents", "candidates"),
    *("deliveries", "events", "attempts", "user_documents"),
    *("mail_requests", "mail_messages", "evidence"),
}


async def fill(work: Session, user_id: int, integration_name: str) -> int:
    """Add rows to every table about people; return the id of a record."""
    await endpoints.set_callback(work, integration_name, Callback("https://acme.example/hook"))
    await consent.consent(work, user_id, granted_by="Jane Doe, in writing")
    record_id = await discover_record(work, user_id, LISTING, SITE)
    await discover_link(work, user_id, PAGE)
    listing = dataclasses.replace(LISTING, reference_id="2")
    await candidates.save(work, user_id, SITE.name, listing, Assessment("possible", 0.5, ("the name",)))
    row = await work.first(select(tables.deliveries.c.id).where(tables.deliveries.c.user_id == user_id))
    lease = await leases.acquire_one(work, tables.deliveries, row.id, duration=LASTS)
    await outbox.prepare(work, lease)
    scan = evidence.Scan(evidence.new_scan_id(), SITE.name, "scan", work.clock.now())
    await evidence.append(work, user_id, record_id, evidence.before(LISTING, scan))
    await delivery.record_attempt(work, lease, status=500, outcome="status 500")
    await discover_record(work, user_id, dataclasses.replace(listing, reference_id="3"), SITE)
    request = await opt_out_requests.issue(work, user_id, record_id, SITE.name, within=LASTS)
    mailbox = MailSettings(address="optout@privacy.example", directory=Path())
    address = mailbox.request_address(request.token)
    raw = RawMessage(
        "key", f"To: {address}\r\n\r\n{request.token[:9]}=\r\n{request.token[9:].upper()}\r\nHello".encode()
    )
    await message_store.store(work, Arrival(raw, [address]), mailbox)
    await consent.deactivate(work, user_id)
    return record_id
