"""A slow, plain reference of a history: dicts and lists, one person and one thing after the other.

It is written from the meaning of a history and shares no code with it.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

CLOSED, OUT_OF_SCOPE = ("removed", "vanished"), "unknown"
OURS = ("vanished", "unknown")
EPOCH = date(1970, 1, 1)
CHANGES = (  # columns that are compared
    *("seq", "seen_at", "day", "kind", "user_id", "key", "site", "status", "prev_status", "episode"),
    *("episode_at", "open_s", "not_before", "left_censored"),
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Thing:
    """A record, link or alert as a service lists it."""

    kind: str
    key: int
    site: str
    status: str

    @property
    def stored_status(self) -> str:
        """Its status; one that reads like ours is marked as the service's."""
        return f"{self.status} (as told)" if self.status in OURS else self.status


@dataclass(frozen=True)
class ObservedUser:
    """One person of a run: loaded wholly, partially or not."""

    outcome: str
    things: tuple[Thing, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """A run of everyone or of some, or one of its shards."""

    started_at: datetime
    finished_at: datetime
    people: dict[int, ObservedUser]
    complete: bool = True  # as many were listed as the service counts
    scope: str = "everyone"


@dataclass(frozen=True)
class Statement:
    """One delivery of an inbox: things of one person, in its order."""

    number: int
    received_at: datetime
    user_id: int
    things: tuple[Thing, ...]


@dataclass
class Person:
    listed: bool = False
    last_complete_at: datetime | None = None
    observed_until: datetime | None = None
    first_registered_after: datetime | None = None
    outcome: str = ""


@dataclass
class Reference:
    changes: list[Row] = field(default_factory=list)
    load_issues: set[tuple[int, int, str]] = field(default_factory=set)
    people: dict[int, Person] = field(default_factory=dict)
    runs: list[Row] = field(default_factory=list)
    things: dict[tuple[str, int, int], list[Row]] = field(default_factory=dict)
    ingested: dict[str, int] = field(default_factory=dict)
    _parts: dict[str, dict[str, Snapshot]] = field(default_factory=dict)

    def ingest_run(self, snapshot: Snapshot, name: str | None = None, shard: str = "1/1") -> int | None:
        """Ingest a run if this is its last shard; returns its seq, or None while shards are missing."""
        if (seq := self._seq(name)) is not None:
            return seq
        parts = self._parts.setdefault(name, {}) if name is not None else {}
        parts.setdefault(shard, snapshot)
        if len(parts) < int(shard.split("/")[1]):
            return None
        return self._ingest_snapshot(_joined(parts.values()), name)

    def awaits(self, name: str | None, shard: str) -> bool:
        return self._seq(name) is None and (name is None or shard not in self._parts.get(name, {}))

    def _seq(self, name: str | None) -> int | None:
        return next((run["seq"] for run in self.runs if name is not None and run["run"] == name), None)

    def _ingest_snapshot(self, snapshot: Snapshot, name: str | None) -> int:
        seq = len(self.runs) + 1
        gone = [
            one
            for one, person in self.people.items()
            if (person.listed or person.outcome == "reported") and one not in snapshot.people
        ]
        for user_id, observed in snapshot.people.items():
            self._list(seq, snapshot, user_id)
            self._observe(seq, snapshot, user_id, observed)
        for user_id in gone:
            if snapshot.scope == "everyone":
                self._miss(seq, snapshot, user_id)
        span = {"started_at": snapshot.started_at, "finished_at": snapshot.finished_at}
        self._run(seq, name, "collect", snapshot.scope, complete=snapshot.complete, **span)
        return seq

    def _run(self, seq: int, name: str | None, origin: str, scope: str, **more: Any) -> None:
        self.runs.append({"seq": seq, "run": name, "origin": origin, "scope": scope} | more)

    def _list(self, seq: int, snapshot: Snapshot, user_id: int) -> None:
        person = self.people.setdefault(user_id, Person())
        if person.listed:
            return
        before = [
            run["started_at"]
            for run in self.runs
            if run["scope"] == "everyone" and run["complete"] and run["finished_at"] <= snapshot.started_at
        ]
        person.listed, person.first_registered_after = True, max(before, default=None)
        self.load_issues.add((seq, user_id, "registered"))

    def _observe(self, seq: int, snapshot: Snapshot, user_id: int, observed: ObservedUser) -> None:
        person = self.people[user_id]
        outcome = observed.outcome
        if outcome != "failed" and _later(person.observed_until, snapshot.started_at):
            outcome = "late"
        person.outcome = outcome
        if outcome != "whole" or snapshot.scope == "some":
            self.load_issues.add((seq, user_id, outcome))
        if outcome in ("failed", "late"):
            return
        present = _first_of_each(observed.things)
        records = [thing.key for thing in observed.things if thing.kind == "record"]
        if len(records) > len({*records}):
            self.load_issues.add((seq, user_id, "duplicate"))
        for thing in present.values():
            if not self._is_newer(user_id, thing.kind, thing.key, snapshot.started_at):
                self._present(seq, snapshot.finished_at, user_id, thing)
        if outcome == "whole":
            self._absent(seq, snapshot, user_id, present)
            person.last_complete_at = snapshot.started_at
        person.observed_until = snapshot.finished_at

    def _absent(self, seq: int, snapshot: Snapshot, user_id: int, present: Iterable[tuple[str, int]]) -> None:
        for (kind, whose, key), rows in self.things.items():
            if whose != user_id or (kind, key) in present or rows[-1]["seen_at"] > snapshot.started_at:
                continue
            status_before = status_in_scope(rows)
            if is_open(status_before):
                self._close(seq, snapshot.finished_at, rows, "vanished")
            elif rows[-1]["status"] == OUT_OF_SCOPE:
                self._change(seq, snapshot.finished_at, rows, status_before)

    def _miss(self, seq: int, snapshot: Snapshot, user_id: int) -> None:
        person = self.people[user_id]
        what = "missed"
        if snapshot.complete:
            # Pages of a list shift: a person is out of scope when two lists in a row lack them.
            what = "absent" if person.listed and person.outcome != "absent" else "unlisted"
            if _later(person.observed_until, snapshot.started_at):
                what = "late"
        person.outcome = what
        self.load_issues.add((seq, user_id, what))
        if what != "unlisted":
            return
        person.listed, person.observed_until = False, snapshot.finished_at
        for (_, whose, _), rows in self.things.items():
            is_newer = rows[-1]["seen_at"] > snapshot.started_at
            if whose == user_id and not is_newer and rows[-1]["status"] not in OURS:
                self._close(seq, snapshot.finished_at, rows, "unknown")

    def ingest_deliveries(self, statements: Iterable[Statement], inbox: str) -> None:
        """Ingest deliveries of an inbox, in segments: each has at most one of a person."""
        segments: list[list[Statement]] = []
        people: set[int] = set()
        for statement in statements:
            if statement.number <= self.ingested.get(inbox, 0):
                continue
            self.ingested[inbox] = statement.number
            if not segments or statement.user_id in people:
                segments.append([])
                people = set()
            segments[-1].append(statement)
            people.add(statement.user_id)
        for segment in segments:
            self._ingest_segment(segment)

    def _ingest_segment(self, together: list[Statement]) -> None:
        seq = len(self.runs) + 1
        for statement in together:
            self._ingest_delivery(seq, statement)
        instants = [statement.received_at for statement in together]
        span = {"started_at": min(instants), "finished_at": max(instants)}
        self._run(seq, None, "webhook", "some", complete=False, **span)

    def _ingest_delivery(self, seq: int, statement: Statement) -> None:
        if _later(self.people.get(statement.user_id, Person()).observed_until, statement.received_at):
            self.load_issues.add((seq, statement.user_id, "late"))
            return
        person = self.people.setdefault(statement.user_id, Person())
        if not person.listed:
            person.outcome = "reported"
        for thing in _first_of_each(statement.things).values():
            if not self._is_newer(statement.user_id, thing.kind, thing.key, statement.received_at):
                self._present(seq, statement.received_at, statement.user_id, thing)

    def _is_newer(self, user_id: int, kind: str, key: int, at: datetime) -> bool:
        rows = self.things.get((kind, user_id, key))
        return rows is not None and rows[-1]["seen_at"] > at

    def _present(self, seq: int, seen_at: datetime, user_id: int, thing: Thing) -> None:
        status = thing.stored_status
        rows = self.things.setdefault((thing.kind, user_id, thing.key), [])
        if not rows:
            opened = is_open(status)
            lower = self._lower(user_id, rows)
            self._add(
                rows,
                {"seq": seq, "seen_at": seen_at, "kind": thing.kind, "user_id": user_id, "key": thing.key}
                | {"site": thing.site, "status": status, "prev_status": None, "episode": int(opened)}
                | {"episode_at": seen_at if opened else None, "open_s": None}
                | {"left_censored": lower is None},
            )
        elif status != rows[-1]["status"]:
            self._change(seq, seen_at, rows, status)

    def _change(self, seq: int, seen_at: datetime, rows: list[Row], status: str) -> None:
        last = rows[-1]
        if is_open(last["status"]):
            self._close(seq, seen_at, rows, status)
            return
        before = status_in_scope(rows)
        again = before in CLOSED and is_open(status)
        anew = {"episode": last["episode"] + 1, "episode_at": seen_at, "left_censored": False}
        self._follow(seq, seen_at, rows, status, open_s=None, **(anew if again else {}))

    def _close(self, seq: int, seen_at: datetime, rows: list[Row], status: str) -> None:
        """Add a row that ends the open state, or the scope, in the same episode."""
        open_s = None
        if is_open(rows[-1]["status"]):
            open_s = int((seen_at - rows[-1]["episode_at"]).total_seconds())
        self._follow(seq, seen_at, rows, status, open_s=open_s)

    def _follow(self, seq: int, seen_at: datetime, rows: list[Row], status: str, **anew: Any) -> None:
        of_now = {"seq": seq, "seen_at": seen_at, "status": status, "prev_status": rows[-1]["status"]}
        self._add(rows, rows[-1] | of_now | anew)

    def _add(self, rows: list[Row], row: Row) -> None:
        day = (row["seen_at"].astimezone(UTC).date() - EPOCH).days
        full = row | {"day": day, "not_before": self._lower(row["user_id"], rows)}
        rows.append(full)
        self.changes.append(full)

    def _lower(self, user_id: int, rows: list[Row]) -> datetime | None:
        person = self.people.get(user_id, Person())
        bounds = [
            person.last_complete_at or person.first_registered_after,
            rows[-1]["seen_at"] if rows else None,
        ]
        return max((one for one in bounds if one is not None), default=None)

    def as_of(self, kind: str, at: datetime) -> dict[tuple[int, int], Row]:
        """The row of each thing that is the newest at an instant."""
        latest_rows = {}
        for (of_kind, user_id, key), rows in self.things.items():
            past = [row for row in rows if row["seen_at"] <= at]
            if past and of_kind == kind:
                latest_rows[user_id, key] = max(past, key=lambda row: (row["seen_at"], row["seq"]))
        return latest_rows

    def moved(
        self, kind: str, a: datetime, b: datetime
    ) -> list[tuple[int, int, str, str | None, str, str, datetime]]:
        """The changes between two instants: of which thing, on which site, from what to what, its name, and when."""
        moves = []
        for (of_kind, user_id, key), rows in self.things.items():
            for row in rows:
                if of_kind == kind and a < row["seen_at"] <= b:
                    was, now = row["prev_status"], row["status"]
                    called = _called(was, now, row["left_censored"])
                    moves += [(user_id, key, row["site"], was, now, what, row["seen_at"]) for what in called]
        return moves

    def instants(self, kind: str) -> list[tuple[datetime, datetime]]:
        """When a run of everyone ended or something changed: each as the beginning and the end of itself."""
        ended = {run["finished_at"] for run in self.runs if run["scope"] == "everyone"}
        changed = {row["seen_at"] for row in self.changes if row["kind"] == kind}
        return [(at, at) for at in sorted(ended | changed)]

    def days(self, kind: str) -> list[tuple[datetime, datetime]]:
        """The days on which a run ended or something changed: their beginnings and ends."""
        ended = [run["finished_at"] for run in self.runs if run["scope"] == "everyone"]
        changed = [row["seen_at"] for row in self.changes if row["kind"] == kind]
        starts = {at.replace(hour=0, minute=0, second=0, microsecond=0) for at in (*ended, *changed)}
        return [(start, start + timedelta(days=1, microseconds=-1)) for start in sorted(starts)]

    def relistings(self) -> list[Row]:
        """The rows with which something closed was open again."""
        returns = []
        for rows in self.things.values():
            for before, row in itertools.pairwise(rows):
                was = before["prev_status"] if before["status"] == OUT_OF_SCOPE else before["status"]
                if was in CLOSED and is_open(row["status"]):
                    returns.append(row)
        return returns


def _joined(parts: Iterable[Snapshot]) -> Snapshot:
    parts_joined = list(parts)
    return Snapshot(
        started_at=min(snapshot.started_at for snapshot in parts_joined),
        finished_at=max(snapshot.finished_at for snapshot in parts_joined),
        people={
            user_id: observed for snapshot in parts_joined for user_id, observed in snapshot.people.items()
        },
        complete=all(snapshot.complete for snapshot in parts_joined),
        scope=parts_joined[0].scope,
    )


def _first_of_each(things: Iterable[Thing]) -> dict[tuple[str, int], Thing]:
    first: dict[tuple[str, int], Thing] = {}
    for thing in things:
        first.setdefault((thing.kind, thing.key), thing)
    return first


def _later(instant: datetime | None, at: datetime) -> bool:
    return instant is not None and instant > at


def status_in_scope(rows: list[Row]) -> str:
    """The status of a thing when it was last in scope."""
    last = rows[-1]
    return last["prev_status"] if last["status"] == OUT_OF_SCOPE else last["status"]


def is_open(status: str) -> bool:
    """Whether it is still listed, as far as can be observed."""
    return status not in (*CLOSED, OUT_OF_SCOPE)


def _called(was: str | None, now: str, baseline: bool) -> list[str]:  # noqa: FBT001
    if was is None and not baseline:
        return ["new", now] if now in CLOSED else ["new"]
    if is_open(now) and (was is None or was == OUT_OF_SCOPE):
        return ["entered scope"]
    if is_open(now) and was in CLOSED:
        return ["listed again"]
    if was is None or not is_open(was):
        return ["removed"] if (was, now) == ("vanished", "removed") else []
    if not is_open(now):
        return ["left scope" if now == OUT_OF_SCOPE else now]
    return ["removal failed" if (was, now) == ("pending removal", "discovered") else "status changed"]
