"""A service over real HTTP whose people a test changes between runs, and what a run of it observes."""

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support import faults
from support.clients import json_response
from support.history_reference import ObservedUser, Snapshot, Thing

from exposurekit.client import Client, RetryPolicy
from exposurekit.contract.webhooks import Delivery
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.history.record_keys import alert_key, link_key, record_key
from exposurekit.text.urls import host

DAWN = datetime(2026, 3, 1, 20, 0, tzinfo=UTC)
BROKEN = {
    "no user": ("get_user", faults.server_error()),
    "cut user": ("get_user", faults.Cut(40)),
    "lost user": ("get_user", faults.LoseReply()),
    "another user": ("get_user", json_response({"user": faults.BODIES["get_user"]["user"] | {"id": 999}})),
    "no alerts": ("get_user_alerts", faults.server_error()),
    "cut alerts": ("get_user_alerts", faults.Cut(25)),
    "odd alerts": ("get_user_alerts", faults.html_page()),
}

Item = dict[str, Any]


class Clock:
    """Returns the instants that a test sets: first the beginning of a run, then its end."""

    def __init__(self) -> None:
        self._instants = [DAWN]

    def __call__(self) -> datetime:
        return self._instants.pop(0) if len(self._instants) > 1 else self._instants[0]

    def set(self, *instants: datetime) -> None:
        """Return these, one after the other, and then always the last one."""
        self._instants = list(instants)

    def end(self) -> None:
        """Return the last instant from now on, as after a run."""
        del self._instants[:-1]

    def __repr__(self) -> str:
        return f"Clock({self._instants})"


def a_record(record_id: int, status: str = "discovered", site: str = "PeepFinder", **more: Any) -> Item:
    record = faults.BODIES["get_record"]["record"]
    return record | {"id": record_id, "status": status, "site": site, "reference_id": f"00{record_id}"} | more


def a_link(url: str | None, title: str = "A page") -> Item:
    return {"url": url, "title": title, "contains": ["email"]}


def an_alert(text: str, source: Item) -> Item:
    kind = "record" if "id" in source else "link"
    alert = faults.BODIES["get_user_alerts"]["alerts"][0]
    return alert | {"text": text, "source_type": kind, "source": {kind: source}}


@dataclass
class Person:
    records: list[Item] = field(default_factory=list)
    links: list[Item] = field(default_factory=list)
    alerts: list[Item] = field(default_factory=list)
    scanning: bool = False
    profile: Item = field(default_factory=dict)  # fields of the user


@dataclass
class Service:
    """A service as a script of `faults.running`: its people, its failures, and the users that were requested.

    Attributes:
        people: Who is registered.
        miscount: How many more people it counts than it lists; None: it does not count.
        broken: The failure of a person: a name of `BROKEN`.
        listing: Whether List users succeeds.
        requested_ids: The users of Get user; the test empties it.
    """

    people: dict[int, Person] = field(default_factory=dict)
    miscount: int | None = 0
    broken: dict[int, str] = field(default_factory=dict)
    listing: bool = True
    requested_ids: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def clear(self) -> None:
        self.people, self.miscount, self.broken, self.listing, self.requested_ids = {}, 0, {}, True, set()

    def __call__(self, request: faults.Request) -> faults.Fault:
        match = re.search(r"/users/(\d+)", request.path)
        if request.operation == "list_users":
            return self._list(int(request.query.get("offset", 0)), int(request.query.get("limit", 100)))
        assert match is not None, f"a history has no need of {request.operation}"
        user_id = int(match[1])
        if request.operation == "get_user":
            with self._lock:
                self.requested_ids.add(user_id)
        operation, fault = BROKEN.get(self.broken.get(user_id, ""), ("", faults.Well()))
        if operation == request.operation:
            return fault
        return json_response(self._of(request.operation, user_id))

    def _list(self, offset: int, limit: int) -> faults.Fault:
        if not self.listing:
            return faults.server_error()
        keys = [{"id": user_id, "secret": f"secret-{user_id}"} for user_id in self.people]
        counted = {} if self.miscount is None else {"count": max(0, len(keys) + self.miscount)}
        return json_response(counted | {"users": keys[offset : offset + limit]})

    def _of(self, operation: str | None, user_id: int) -> Item:
        person = self.people[user_id]
        if operation == "get_user_alerts":
            return {"alerts": person.alerts}
        here = {"records": person.records, "links": person.links, "is_scanning": person.scanning}
        user = faults.BODIES["get_user"]["user"]
        return {"user": user | person.profile | here | {"id": user_id, "secret": f"secret-{user_id}"}}

    @property
    def complete(self) -> bool:
        return self.miscount is None or max(0, len(self.people) + self.miscount) == len(self.people)

    def observed(self, user_id: int, by: str) -> ObservedUser:
        """What a run observes of a person; records are identified `by` id or reference."""
        person = self.people[user_id]
        if user_id in self.broken:
            return ObservedUser("failed")
        read: dict[int, Item] = {}  # by id: of several with one id, the first is read
        things = (
            *(of_record(read.setdefault(record["id"], record), by=by) for record in person.records),
            *(of_link(link) for link in person.links),
            *(of_alert(alert, by=by) for alert in person.alerts),
        )
        return ObservedUser("partial" if person.scanning else "whole", things)

    def snapshot(self, started_at: datetime, finished_at: datetime, by: str, scope: str) -> Snapshot:
        people = {user_id: self.observed(user_id, by) for user_id in self.requested_ids}
        return Snapshot(started_at, finished_at, people, self.complete, scope)


def of_record(record: Item, *, by: str, removed: bool = False) -> Thing:
    """A record as a thing; in a group of removed ones it is removed, whatever its status."""
    key = record_key(record["id"], record["site"], record["reference_id"], by=by)
    return Thing("record", key, record["site"], "removed" if removed else record["status"])


def of_link(link: Item) -> Thing:
    return Thing("link", link_key(link["url"], link["title"]), host(link["url"]), "listed")


def of_alert(alert: Item, *, by: str) -> Thing:
    """An alert as a thing, on the site of its source."""
    source = alert["source"].get("record") or alert["source"]["link"]
    link = None if "id" in source else source.get("url")
    about = (source.get("id"), source.get("site"), source.get("href"), link)
    key = alert_key(*about, alert["text"], by=by)
    return Thing("alert", key, source.get("site") or host(source.get("url")), "listed")


def a_delivery(user_id: int, groups: dict[str, Any]) -> Delivery:
    return Delivery.model_validate({"user_id": user_id, "events": list(groups), **groups})


class FirstRuns:
    """First runs of histories: those that collect the same at the same time are copies of one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._copies: dict[str, Path] = {}

    def collect(
        self, history: History, exposure: Exposure, service: Service, clock: Clock, by: str = "id"
    ) -> None:
        key = repr((by, clock, service.people, service.miscount, service.broken, service.listing))
        if key in self._copies:
            shutil.copytree(self._copies[key], history.path)
            clock.end()
        else:
            history.collect(exposure, progress=False)
            copy = self._directory / f"{len(self._copies)}"
            self._copies[key] = shutil.copytree(history.path, copy)


@contextmanager
def seen_through(service: Service) -> Iterator[Exposure]:
    """An exposure of a scripted service during the block, without retries."""
    with (
        faults.running(service) as server,
        Client(
            server.base_url,
            integration_name="acme",
            api_key="key",
            api_secret="secret",
            retries=RetryPolicy(max_retries=0, initial_delay=0),
        ) as client,
    ):
        yield Exposure(client, progress=False)
