"""What must hold after a run, rule by rule."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from crash.webhook_receiver import Attempt

from exposurekit.contract.webhooks import GROUPING_WINDOW, GROUPS, RETRY_DELAYS
from exposurekit.service.webhooks.states import DEAD, DELIVERED

ATTEMPTS = 1 + len(RETRY_DELAYS)
EXPLAINED = ("fault=OperationalError", "fault=TimeoutError")  # a database that is away, or a busy machine


@dataclass(frozen=True)
class Run:
    """What happened outside the database.

    Attributes:
        attempts: Every attempt that the receiver got, by webhook id.
        registered: The user ids in the responses to integrators.
        updated: By user id, the user field that the service confirmed as updated.
        answers: How often each status came.
        deaths: Processes that ended by themselves, each with the end of its log.
        kills: How many were killed, and of how many planned.
        server_stops: The same of the database's server.
        faults: How often the processes logged each fault and continued.
    """

    attempts: Mapping[str, Sequence[Attempt]] = field(repr=False)
    registered: Sequence[int] = ()
    updated: Mapping[int, str] = field(default_factory=dict)
    answers: Mapping[int, int] = field(default_factory=dict)
    deaths: Sequence[str] = ()
    kills: tuple[int, int] = (0, 0)
    server_stops: tuple[int, int] = (0, 0)
    badly_signed: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)


def verdict(evidence, run):
    """The violations of every rule."""
    events_of = defaultdict(list)
    for event in evidence.events:
        events_of[event.delivery_id].append(event)
    expected, delivered, deliveries = evidence.expected, evidence.delivered(), evidence.deliveries
    rules = {
        "events lost": (f"user {user}: {group}" for user, group, _ in (expected - delivered).elements()),
        "events delivered twice, or in two windows": (
            f"user {user}: {group}" for user, group, _ in (delivered - expected).elements()
        ),
        "events outside their window of 10 minutes": _outside_window(deliveries, events_of),
        "bodies that differ from their events": _different_from_events(deliveries, events_of),
        "deliveries neither delivered nor dead": (
            f"delivery {one.id}: {one.state}" for one in deliveries if one.state not in {DELIVERED, DEAD}
        ),
        "different bodies for one webhook id": _different_bodies(deliveries, run.attempts),
        "delivered without a 2xx response": _delivered_without_success(deliveries, run.attempts),
        f"dead with other than {ATTEMPTS} attempts": _wrong_number_of_attempts(deliveries, run.attempts),
        "attempts before their time": _early(deliveries),
        "wrong signatures": ["an attempt"] * run.badly_signed,
        "registrations confirmed, and lost": (
            f"user {user}" for user in run.registered if user not in evidence.users
        ),
        "changes confirmed, and lost": (
            f"user {user}: {name}"
            for user, name in run.updated.items()
            if name not in evidence.fields.get(user, ())
        ),
        "answers other than 200 and 503": (
            f"{count} of {status}" for status, count in run.answers.items() if status not in {200, 503}
        ),
        "processes that ended by themselves": run.deaths,
        "faults that no crash explains": (
            f"{count} times {fault}"
            for fault, count in run.faults.items()
            if not fault.partition(": ")[0].endswith(EXPLAINED)
        ),
        "unfinished work": (f"{count} {name}" for name, count in evidence.unfinished.items()),
        "missing preconditions": _missing(evidence, run),
    }
    return {name: list(violations) for name, violations in rules.items()}


def print_verdict(figures, rules):
    """Print all; the exit code of a command: 0 if every rule holds, else 1."""
    for name, value in figures.items():
        print(f"{name:34} {value}")  # noqa: T201
    for name, violations in rules.items():
        examples = "".join(f"\n{'':15}{example}" for example in violations[:3])
        print(f"{'BROKEN' if violations else 'ok':7} {len(violations):5}  {name}{examples}")  # noqa: T201
    return 1 if any(rules.values()) else 0


def _outside_window(deliveries, events_of):
    for one in deliveries:
        for event in events_of[one.id]:
            after = event.created_at - one.opened_at
            if not timedelta() <= after < GROUPING_WINDOW:
                yield f"delivery {one.id}: {after} after it opened"


def _different_from_events(deliveries, events_of):
    for one in deliveries:
        events = events_of[one.id]
        if any(event.user_id != one.user_id for event in events):
            yield f"delivery {one.id}: another user's events"
        groups = {group: [event.item for event in events if event.kind == group] for group in GROUPS}
        groups = {group: items for group, items in groups.items() if items}
        expected = {"user_id": one.user_id, "events": list(groups)} | groups
        if one.body is None or json.loads(one.body) != expected:
            yield f"delivery {one.id}: {len(events)} events"
    yield from (f"delivery {orphan}: missing" for orphan in events_of.keys() - {one.id for one in deliveries})


def _different_bodies(deliveries, attempts_by_id):
    frozen = {one.webhook_id: one.body for one in deliveries}
    for webhook_id, attempts in attempts_by_id.items():
        bodies = {attempt.body for attempt in attempts}
        body = frozen.get(webhook_id)
        if body is None or bodies != {body.encode()}:
            yield f"{webhook_id}: {len(bodies)} bodies, {'not ' * (body is None)}in the database"


def _delivered_without_success(deliveries, attempts_by_id):
    for one in deliveries:
        statuses = [status for _, status in one.attempts]
        successes = [status for status in statuses if _is_success(status)]
        is_confirmed = any(_is_success(attempt.status) for attempt in attempts_by_id.get(one.webhook_id, ()))
        if one.state == DELIVERED and not (is_confirmed and successes == statuses[-1:]):
            yield f"delivery {one.id}: recorded {statuses}, received a success: {is_confirmed}"


def _wrong_number_of_attempts(deliveries, attempts_by_id):
    """A dead delivery has exactly four failed attempts; those with a response have reached the receiver."""
    for one in deliveries:
        statuses = [status for _, status in one.attempts]
        responses = sum(status is not None for status in statuses)
        received = len(attempts_by_id.get(one.webhook_id, ()))
        is_complete = len(statuses) == ATTEMPTS and not any(map(_is_success, statuses))
        if one.state == DEAD and not (is_complete and received >= responses):
            yield f"delivery {one.id}: recorded {statuses}, {received} received"
        if one.state == DELIVERED and len(statuses) > ATTEMPTS:
            yield f"delivery {one.id}: delivered after {len(statuses)}"


def _early(deliveries):
    """The first attempt comes when the window has closed, the others after each delay."""
    for one in deliveries:
        times = [one.opened_at, *(at for at, _ in one.attempts)]
        for delay, before, after in zip((GROUPING_WINDOW, *RETRY_DELAYS), times, times[1:], strict=False):
            if after - before < delay:
                yield f"delivery {one.id}: {after - before} instead of {delay}"


def _missing(evidence, run):
    """A run in which nothing happened proves nothing."""
    groups = {group for _, group, _ in evidence.expected}
    states = {one.state for one in evidence.deliveries}
    yield from (f"nothing in {group}" for group in GROUPS if group not in groups)
    yield from (f"nothing {state}" for state in (DELIVERED, DEAD) if state not in states)
    if set(evidence.users.values()) != {True, False}:
        yield "integrators with a callback and without"
    for name, (done, planned) in (("kills", run.kills), ("server stops", run.server_stops)):
        if done < planned:
            yield f"{done} of {planned} {name}"


def _is_success(status):
    return status is not None and 200 <= status < 300
