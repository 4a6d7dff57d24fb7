"""What a run left behind in the database, opened with its key. Reads; judges nothing."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from exposurekit.contract.webhooks import (
    DISCOVERED_LINKS,
    DISCOVERED_RECORDS,
    GROUPS,
    NEW_ALERTS,
    REMOVED_RECORDS,
)
from exposurekit.service.accounts import users as people
from exposurekit.service.findings.alerts import Event
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.webhooks import outbox, states

Happening = tuple[int, str, str]  # to whom, the group it is told in, and what tells it from others


@dataclass(frozen=True)
class CollectedEvent:
    """An event as its row keeps it."""

    delivery_id: int
    user_id: int
    group: str
    item: Any = field(repr=False)
    at: datetime


@dataclass(frozen=True)
class Sent:
    """A delivery as its row keeps it, and its attempts."""

    id: int
    user_id: int
    webhook_id: str
    state: str
    opened_at: datetime
    body: str | None = field(repr=False)
    attempts: tuple[tuple[datetime, int | None], ...]


@dataclass(frozen=True)
class Evidence:
    """Everything that the rules ask for.

    Attributes:
        users: Everybody who is registered; whether their integrator is told.
        known: The user fields that are known of each.
        caused: What the tables of the domain say must have been told.
        events: What was put in line.
        deliveries: What was sent.
        unrest: What is not over, by what it is; empty, if nothing is left to do.
    """

    users: Mapping[int, bool]
    known_names: Mapping[int, frozenset[str]]
    caused: Counter[Happening] = field(repr=False)
    events: tuple[CollectedEvent, ...] = field(repr=False)
    deliveries: tuple[Sent, ...] = field(repr=False)
    unrest: Mapping[str, int]

    def bodies(self) -> Counter[Happening]:
        """What the bodies tell, each as often as it is told."""
        items: Counter[Happening] = Counter()
        for delivery in self.deliveries:
            body = json.loads(delivery.body or "{}")
            for group in GROUPS:
                items.update((delivery.user_id, group, key_of(group, item)) for item in body.get(group, ()))
        return items


def key_of(group: str, item: Any) -> str:
    """What tells an item of a body from the others of its group: what does not change while it waits."""
    if group in {DISCOVERED_RECORDS, REMOVED_RECORDS}:
        return str(item["record"]["id"])
    if group == DISCOVERED_LINKS:
        return str(item["url"])
    words = {name: value for name, value in item.items() if name not in {"source_type", "source"}}
    source = item["source"].get("record", {}).get("id") or item["source"]["link"]["url"]
    return _alert_key(words, source)


async def gathered(database: Database) -> Evidence:
    """All of it, of one moment."""
    async with database.reading() as work:
        users = await _users(work)
        return Evidence(
            users=users,
            known_names={user_id: await _known(work, user_id) for user_id in users},
            caused=await _caused(work, {user for user, is_told in users.items() if is_told}),
            events=await _events(work),
            deliveries=await _deliveries(work),
            unrest=await unrest(work),
        )


async def unrest(work: Session) -> dict[str, int]:
    """What is not over yet: how many of each kind, of those that there are."""
    now = work.clock.now()
    conditions_by_name = {
        "leased": [table.c.lease_until > now for table in (tables.users, tables.records, tables.deliveries)],
        "scans due": [tables.users.c.due_at <= now],
        "scans running": [tables.users.c.is_scanning.is_(True)],
        "removals under way": [tables.records.c.due_at.is_not(None)],
        "deliveries open or frozen": [tables.deliveries.c.state.in_([states.OPEN, states.PENDING])],
    }
    counts: Counter[str] = Counter()
    for name, conditions in conditions_by_name.items():
        for condition in conditions:
            [(many,)] = await work.all(select(func.count()).where(condition))
            counts[name] += many
    return {name: many for name, many in counts.items() if many}


async def scans_waiting(database: Database) -> int:
    """How many people are being scanned, or wait for it; as far as is known, while the server is away."""
    try:
        async with database.reading() as work:
            scanning = select(func.count()).where(tables.users.c.is_scanning.is_(True))
            [(many,)] = await work.all(scanning)
    except DBAPIError:
        return 0
    return int(many)


def _alert_key(words: Mapping[str, Any], source: Any) -> str:
    return json.dumps([dict(words), source], sort_keys=True)


async def _users(work: Session) -> dict[int, bool]:
    has_callback = tables.integrators.c.callback_ciphertext.is_not(None)
    rows = await work.all(
        select(tables.users.c.id, has_callback).select_from(tables.users.join(tables.integrators))
    )
    return {row[0]: bool(row[1]) for row in rows}


async def _known(work: Session, user_id: int) -> frozenset[str]:
    subject = await people.get_subject(work, user_id)
    values = {} if subject is None else subject.values()
    return frozenset(name for name, value in values.items() if value)


async def _caused(work: Session, users: set[int]) -> Counter[Happening]:
    """Each record and link once, as new; each alert; each removal that was verified."""
    caused: Counter[Happening] = Counter()
    for row in await work.all(select(tables.records.c.user_id, tables.records.c.id)):
        caused[row.user_id, DISCOVERED_RECORDS, str(row.id)] += 1
    urls = {}
    for row in await work.all(select(tables.links)):
        urls[row.id] = work.decrypt("links", row.user_id, row.ciphertext)["url"]
        caused[row.user_id, DISCOVERED_LINKS, urls[row.id]] += 1
    for row in await work.all(select(tables.alerts)):
        words = work.decrypt("alerts", row.user_id, row.ciphertext)
        del words["url"]  # specification, "Alert": absent in alerts inside webhooks
        caused[row.user_id, NEW_ALERTS, _alert_key(words, row.record_id or urls[row.link_id])] += 1
        if row.kind == Event.REMOVAL_VERIFIED:
            caused[row.user_id, REMOVED_RECORDS, str(row.record_id)] += 1
    return Counter({happening: many for happening, many in caused.items() if happening[0] in users})


async def _events(work: Session) -> tuple[CollectedEvent, ...]:
    rows = await work.all(select(tables.events).order_by(tables.events.c.id))
    return tuple(
        CollectedEvent(
            row.delivery_id,
            row.user_id,
            row.kind,
            work.decrypt(outbox.EVENT, row.user_id, row.ciphertext),
            row.created_at,
        )
        for row in rows
    )


async def _deliveries(work: Session) -> tuple[Sent, ...]:
    attempts: dict[int, list[tuple[datetime, int | None]]] = defaultdict(list)
    for row in await work.all(select(tables.attempts).order_by(tables.attempts.c.id)):
        attempts[row.delivery_id].append((row.at, row.status))
    rows = await work.all(select(tables.deliveries).order_by(tables.deliveries.c.id))
    return tuple(
        Sent(
            row.id,
            row.user_id,
            row.webhook_id,
            row.state,
            row.opened_at,
            work.decrypt(outbox.BODY, row.user_id, row.body_ciphertext) if row.body_ciphertext else None,
            tuple(attempts[row.id]),
        )
        for row in rows
    )
