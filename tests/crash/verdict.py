"""What must hold after a run, rule by rule. Judges plain values; asks nobody."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from crash.evidence import CollectedEvent, Evidence, Sent
from crash.receiver import Attempt

from exposurekit.contract.webhooks import GROUPING_WINDOW, GROUPS, RETRY_DELAYS
from exposurekit.service.webhooks.states import DEAD, DELIVERED

ATTEMPTS = 1 + len(RETRY_DELAYS)
EXAMPLES = 3
EXPLAINED = ("OperationalError", "TimeoutError")


@dataclass(frozen=True)
class Run:
    """What happened beside the database.

    Attributes:
        seen: Every attempt that the receiver saw, by webhook id.
        registered: The ids that integrators were answered with.
        told_more: What the service has confirmed that it was told later, a user field for each person.
        answers: How often each status came.
        deaths: Processes that ended by themselves, each with what it said last.
        kills: How many were killed, and of how many.
        server_stops: How often the database's server was stopped, and of how often.
        badly_signed: Attempts whose signature was wrong.
        faults: What the processes logged as faults, and lived on: how often each.
    """

    attempts: Mapping[str, Sequence[Attempt]] = field(repr=False)
    registered: Sequence[int] = ()
    told_more: Mapping[int, str] = field(default_factory=dict)
    answers: Mapping[int, int] = field(default_factory=dict)
    deaths: Sequence[str] = ()
    kills: tuple[int, int] = (0, 0)
    server_stops: tuple[int, int] = (0, 0)
    badly_signed: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """One rule: how often it was broken, and by what."""

    name: str
    broken: int
    examples: tuple[str, ...] = ()


def verdict(evidence: Evidence, run: Run) -> list[Rule]:
    """Every rule, held or broken."""
    caused, delivered_items = evidence.caused, evidence.bodies()
    events_of = defaultdict(list)
    for event in evidence.events:
        events_of[event.delivery_id].append(event)
    sent = evidence.deliveries
    return [
        _rule("events lost", (_named(one) for one in (caused - delivered_items).elements())),
        _rule(
            "events told twice, or in two windows",
            (_named(one) for one in (delivered_items - caused).elements()),
        ),
        _rule("events outside their window of 10 minutes", _outside(sent, events_of)),
        _rule("bodies that are not their events", _unlike(sent, events_of)),
        _rule("deliveries neither delivered nor dead", _unended(sent)),
        _rule("different bodies for one webhook id", _different(sent, run.attempts)),
        _rule("delivered, and never answered with 2xx", _unanswered(sent, run.attempts)),
        _rule(f"dead with other than {ATTEMPTS} attempts", _not_four(sent, run.attempts)),
        _rule("attempts before their time", _early(sent)),
        _rule("signatures that are wrong", ["an attempt"] * run.badly_signed),
        _rule("registrations confirmed, and lost", _forgotten(evidence, run)),
        _rule("changes confirmed, and lost", _undone(evidence, run)),
        _rule("answers other than 200 and 503", _odd(run.answers)),
        _rule("processes that died by themselves", run.deaths),
        _rule("faults that no crash explains", _unexplained(run.faults)),
        _rule("work left over", (f"{many} {name}" for name, many in evidence.unrest.items())),
        _rule("what had to happen, and did not", _missing(evidence, run)),
    ]


def _rule(name: str, offences: Iterable[str]) -> Rule:
    broken = list(offences)
    return Rule(name, len(broken), tuple(broken[:EXAMPLES]))


def _named(happening: tuple[int, str, str]) -> str:
    user_id, group, _ = happening
    return f"user {user_id}: {group}"


def _outside(sent: Iterable[Sent], events_of: Mapping[int, Sequence[CollectedEvent]]) -> Iterator[str]:
    for delivery in sent:
        for event in events_of[delivery.id]:
            after = event.at - delivery.opened_at
            if not timedelta() <= after < GROUPING_WINDOW:
                yield f"delivery {delivery.id}: {after} after it opened"


def _unlike(sent: Iterable[Sent], events_of: Mapping[int, Sequence[CollectedEvent]]) -> Iterator[str]:
    delivery_ids = set()
    for delivery in sent:
        delivery_ids.add(delivery.id)
        events = events_of[delivery.id]
        if any(event.user_id != delivery.user_id for event in events):
            yield f"delivery {delivery.id}: another person's events"
        if delivery.body is None or json.loads(delivery.body) != _body_of(delivery.user_id, events):
            yield f"delivery {delivery.id}: {len(events)} events"
    yield from (f"delivery {orphan}: not there" for orphan in events_of.keys() - delivery_ids)


def _body_of(user_id: int, events: Sequence[CollectedEvent]) -> Any:
    groups = {group: [event.item for event in events if event.group == group] for group in GROUPS}
    group_items = {group: items for group, items in groups.items() if items}
    return {"user_id": user_id, "events": list(group_items)} | group_items


def _unended(sent: Iterable[Sent]) -> Iterator[str]:
    return (f"delivery {one.id}: {one.state}" for one in sent if one.state not in {DELIVERED, DEAD})


def _different(sent: Iterable[Sent], attempts_by_id: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    frozen = {one.webhook_id: one.body for one in sent}
    for webhook_id, attempts in attempts_by_id.items():
        bodies = {attempt.body for attempt in attempts}
        body = frozen.get(webhook_id)
        if body is None or bodies != {body.encode()}:
            yield f"{webhook_id}: {len(bodies)} bodies, {'not ' * (body is None)}in the database"


def _unanswered(sent: Iterable[Sent], attempts_by_id: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    for one in sent:
        statuses = [status for _, status in one.attempts]
        succeeded = [status for status in statuses if _is_success(status)]
        has_success = any(_is_success(attempt.status) for attempt in attempts_by_id.get(one.webhook_id, ()))
        if one.state == DELIVERED and not (
            has_success and len(succeeded) == 1 and statuses[-1] == succeeded[0]
        ):
            yield f"delivery {one.id}: recorded {statuses}, answered with success: {has_success}"


def _not_four(sent: Iterable[Sent], attempts_by_id: Mapping[str, Sequence[Attempt]]) -> Iterator[str]:
    """Exactly four were recorded, none of them a success, and those that were answered the receiver has seen."""
    for one in sent:
        statuses = [status for _, status in one.attempts]
        response_count = len([status for status in statuses if status is not None])
        came = len(attempts_by_id.get(one.webhook_id, ()))
        if one.state == DEAD and (
            len(statuses) != ATTEMPTS or any(map(_is_success, statuses)) or came < response_count
        ):
            yield f"delivery {one.id}: recorded {statuses}, {came} came"
        if one.state == DELIVERED and len(statuses) > ATTEMPTS:
            yield f"delivery {one.id}: delivered after {len(statuses)}"


def _early(sent: Iterable[Sent]) -> Iterator[str]:
    """The first when the window has closed, the others after each delay."""
    for one in sent:
        moments = [one.opened_at, *(at for at, _ in one.attempts)]
        delays = (GROUPING_WINDOW, *RETRY_DELAYS)
        for delay, before, after in zip(delays, moments, moments[1:], strict=False):
            if after - before < delay:
                yield f"delivery {one.id}: {after - before} instead of {delay}"


def _forgotten(evidence: Evidence, run: Run) -> Iterator[str]:
    return (f"user {user_id}" for user_id in run.registered if user_id not in evidence.users)


def _undone(evidence: Evidence, run: Run) -> Iterator[str]:
    for user_id, name in run.told_more.items():
        if name not in evidence.known_names.get(user_id, ()):
            yield f"user {user_id}: {name}"


def _odd(answers: Mapping[int, int]) -> list[str]:
    return [f"{many} of {status}" for status, many in sorted(answers.items()) if status not in {200, 503}]


def _unexplained(faults: Mapping[str, int]) -> list[str]:
    """A database that was away, or work that took too long on a busy machine, is what this is about; a bug is not."""
    explained = tuple(f"fault={name}" for name in EXPLAINED)
    return [
        f"{many} times {fault}" for fault, many in sorted(faults.items()) if not fault.endswith(explained)
    ]


def _missing(evidence: Evidence, run: Run) -> Iterator[str]:
    """A run in which nothing happened proves nothing."""
    groups = {group for _, group, _ in evidence.caused}
    states = {one.state for one in evidence.deliveries}
    yield from (f"nothing in {group}" for group in GROUPS if group not in groups)
    yield from (f"nothing {state}" for state in (DELIVERED, DEAD) if state not in states)
    if set(evidence.users.values()) != {True, False}:
        yield "integrators with a callback and without"
    for what, (done, wanted) in (("kills", run.kills), ("server stops", run.server_stops)):
        if done < wanted:
            yield f"{done} of {wanted} {what}"


def _is_success(status: int | None) -> bool:
    return status is not None and 200 <= status < 300
