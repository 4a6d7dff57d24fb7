"""What a run left in the database, decrypted."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
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
from exposurekit.service.accounts import users as accounts
from exposurekit.service.findings.alerts import Event
from exposurekit.service.storage import tables
from exposurekit.service.storage.encrypted_columns import BODY, EVENT
from exposurekit.service.webhooks import states

Item = tuple[int, str, str]  # user id, group of the webhook, key in the group


@dataclass(frozen=True)
class Evidence:
    """All that the verdict needs.

    Attributes:
        users: Every registered user, and whether their integrator has a callback.
        fields: The user fields that are stored of each.
        expected: What the tables of findings require to be delivered.
        events: The rows, each with its decrypted `item`.
        deliveries: The rows, each with its decrypted `body`, and `attempts`: pairs of time and status.
        unfinished: How much work is left, by kind.
    """

    users: Mapping[int, bool]
    fields: Mapping[int, frozenset[str]]
    expected: Counter[Item] = field(repr=False)
    events: list[Any] = field(repr=False)
    deliveries: list[Any] = field(repr=False)
    unfinished: Mapping[str, int]

    def delivered(self):
        """The items of all bodies, with their number."""
        items = Counter()
        for delivery in self.deliveries:
            body = json.loads(delivery.body or "{}")
            for group in GROUPS:
                items.update((delivery.user_id, group, key_of(group, item)) for item in body.get(group, ()))
        return items


def key_of(group, item):
    """Identifies an item of a body within its group, by what does not change while it waits."""
    if group in {DISCOVERED_RECORDS, REMOVED_RECORDS}:
        return str(item["record"]["id"])
    if group == DISCOVERED_LINKS:
        return str(item["url"])
    words = {name: value for name, value in item.items() if name not in {"source_type", "source"}}
    source = item["source"].get("record", {}).get("id") or item["source"]["link"]["url"]
    return _alert_key(words, source)


def _alert_key(words, source):
    return json.dumps([dict(words), source], sort_keys=True)


async def collect_evidence(database):
    async with database.reading() as work:
        has_callback = tables.integrators.c.callback_ciphertext.is_not(None)
        joined = tables.users.join(tables.integrators)
        rows = await work.all(select(tables.users.c.id, has_callback).select_from(joined))
        users = {user_id: bool(is_called) for user_id, is_called in rows}
        return Evidence(
            users=users,
            fields={user_id: await _fields(work, user_id) for user_id in users},
            expected=await _expected(work, {user_id for user_id, is_called in users.items() if is_called}),
            events=await _events(work),
            deliveries=await _deliveries(work),
            unfinished=await unfinished_work(work),
        )


async def unfinished_work(work):
    now = work.clock.now()
    conditions_by_name = {
        "leased": [table.c.lease_until > now for table in (tables.users, tables.records, tables.deliveries)],
        "scans due": [tables.users.c.due_at <= now],
        "scans running": [tables.users.c.is_scanning.is_(True)],
        "removals in progress": [tables.records.c.due_at.is_not(None)],
        "deliveries open or pending": [tables.deliveries.c.state.in_([states.OPEN, states.PENDING])],
    }
    counts = Counter()
    for name, conditions in conditions_by_name.items():
        for condition in conditions:
            counts[name] += (await work.first(select(func.count()).where(condition)))[0]
    return {name: count for name, count in counts.items() if count}


async def count_scanning(database):
    """How many scans are due or running; 0 while the server is unavailable."""
    try:
        async with database.reading() as work:
            return (await work.first(select(func.count()).where(tables.users.c.is_scanning.is_(True))))[0]
    except DBAPIError:
        return 0


async def _fields(work, user_id):
    subject = await accounts.get_subject(work, user_id)
    values = {} if subject is None else subject.values()
    return frozenset(name for name, value in values.items() if value)


async def _expected(work, users):
    """Each record and link once, as new; each alert; each verified removal."""
    expected = Counter()
    for row in await work.all(select(tables.records.c.user_id, tables.records.c.id)):
        expected[row.user_id, DISCOVERED_RECORDS, str(row.id)] += 1
    urls = {}
    for row in await work.all(select(tables.links)):
        urls[row.id] = work.decrypt("links", row.user_id, row.ciphertext)["url"]
        expected[row.user_id, DISCOVERED_LINKS, urls[row.id]] += 1
    for row in await work.all(select(tables.alerts)):
        words = work.decrypt("alerts", row.user_id, row.ciphertext)
        del words["url"]  # specification, "Alert": absent in alerts inside webhooks
        expected[row.user_id, NEW_ALERTS, _alert_key(words, row.record_id or urls[row.link_id])] += 1
        if row.kind == Event.REMOVAL_VERIFIED:
            expected[row.user_id, REMOVED_RECORDS, str(row.record_id)] += 1
    return Counter({item: count for item, count in expected.items() if item[0] in users})


async def _events(work):
    rows = await work.all(select(tables.events).order_by(tables.events.c.id))
    items = [work.decrypt(EVENT, row.user_id, row.ciphertext) for row in rows]
    return [SimpleNamespace(**row._mapping, item=item) for row, item in zip(rows, items, strict=True)]


async def _deliveries(work):
    attempts = defaultdict(list)
    for row in await work.all(select(tables.attempts).order_by(tables.attempts.c.id)):
        attempts[row.delivery_id].append((row.at, row.status))
    deliveries = []
    for row in await work.all(select(tables.deliveries).order_by(tables.deliveries.c.id)):
        ciphertext = row.body_ciphertext
        body = None if ciphertext is None else work.decrypt(BODY, row.user_id, ciphertext)
        deliveries.append(SimpleNamespace(**row._mapping, body=body, attempts=attempts[row.id]))
    return deliveries
