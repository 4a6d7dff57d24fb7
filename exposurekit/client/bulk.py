"""Everyone at once: list, then Get user and Get user alerts for each, a few people at a time. Remembers nothing.

A failure costs the person it happened to, and that person alone: it becomes a row, and the load goes on.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exposurekit.client import calls, protocol
from exposurekit.client.client import AsyncClient
from exposurekit.client.retry import Result, TransportFailure
from exposurekit.contract.deviations import Deviation
from exposurekit.contract.models import UserKey
from exposurekit.errors import APIStatusError, ExposureError

CONCURRENCY = 8
PREFETCH = 200  # people whose answers wait at once, as bytes
_THINGS = ("records", "links", "alerts")
PARSE_CHUNK = 25  # people whose dicts live at once

Progress = Callable[[int, int | None], None]
Choose = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class UserListing:
    """What List users returned, over all pages.

    Attributes:
        returned: Number of users returned.
        reported_total: The service's own count of users; None if it reports none.
        unreadable: Number of further users whose id or secret could not be read.
        deviations: Deviations from the specification, each with the number of users it affects.
    """

    returned: int
    reported_total: int | None
    unreadable: int = 0
    deviations: Mapping[Deviation, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether no user was missed. Pages shift if a user is deleted while they are fetched."""
        return not self.unreadable and self.reported_total in {None, self.returned}


@dataclass(frozen=True, slots=True)
class Failure:
    """One person who could not be loaded, and why; the reason holds no value of theirs."""

    user_id: int
    operation: str
    error: str
    status: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Some people, loaded whole: user objects and alerts as plain dicts, or a failure for each who could not be.

    ``deviations`` has, by user id, how the answers about that person deviate from the specification.
    """

    keys: Sequence[UserKey] = field(repr=False)
    users: Sequence[dict[str, Any]] = field(repr=False)
    alerts: Sequence[dict[str, Any]] = field(repr=False)
    failures: Sequence[Failure]
    deviations: Mapping[int, Sequence[Deviation]] = field(default_factory=dict, repr=False)

    @property
    def incomplete(self) -> set[int]:
        """Who has a record, link or alert that could not be read: what is missing there is not known to be gone."""
        return {user_id for user_id, found in self.deviations.items() if any(map(_costs_thing, found))}


def _costs_thing(deviation: Deviation) -> bool:
    return deviation.costs_item and deviation.field.partition(".")[0] in _THINGS


async def load(
    client: AsyncClient,
    take: Callable[[Batch], None],
    *,
    concurrency: int = CONCURRENCY,
    window: int = PREFETCH,
    progress: Progress | None = None,
    choose: Choose | None = None,
) -> UserListing:
    """Load everyone, batch after batch, in the order in which the service lists them.

    Args:
        client: With as many connections as people at once.
        take: Is given each batch as it is done; also the last, unfinished one where the load is cancelled.
        concurrency: People asked about at the same time.
        window: People asked about before their answers are read; memory grows with this, not with how many there are.
        progress: Called with people done and people in all (None where the service does not count them).
        choose: Whether to ask about somebody who is listed; None: about everyone.

    Raises:
        ExposureError: The list of users itself could not be had.
    """
    waiting: list[UserKey] = []
    done = listed = unreadable = 0
    notes: protocol.Notes = Counter()

    async def load_batch(keys: list[UserKey], total: int | None) -> None:
        def one_more() -> None:
            nonlocal done
            done += 1
            if progress:
                progress(done, total)

        await _batch(client, keys, concurrency, take, one_more)

    total = None
    async for page in client.iter_pages(notes=notes):
        total = page.count
        listed += len(page.users)
        unreadable += page.unreadable
        chosen = [key for key in page.users if choose is None or choose(key.id)]
        done += len(page.users) - len(chosen)
        waiting += chosen
        while len(waiting) >= window:
            await load_batch(waiting[:window], total)
            del waiting[:window]
    await load_batch(waiting, total)
    return UserListing(listed, total, unreadable, notes)


async def _batch(
    client: AsyncClient,
    keys: list[UserKey],
    concurrency: int,
    take: Callable[[Batch], None],
    one_more: Callable[[], None],
) -> None:
    answers: list[_UserResponses | None] = [None] * len(keys)
    upcoming = iter(enumerate(keys))

    async def work() -> None:
        for place, key in upcoming:
            answers[place] = await _fetch(client, key)
            one_more()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(keys))):
                group.create_task(work())
    finally:
        # Read only now, a few people at a time: bytes wait cheaply, and the dicts of a few die young, before the
        # garbage collector walks over them again and again.
        got = [answer for answer in answers if answer]
        for start in range(0, len(got), PARSE_CHUNK):
            take(_read(client, got[start : start + PARSE_CHUNK]))


@dataclass(frozen=True, slots=True)
class _UserResponses:
    """The two calls about one person and what they came to; the second is not made where the first was no answer."""

    key: UserKey
    user: tuple[calls.Call[Any, Any], Result]
    alerts: tuple[calls.Call[Any, Any], Result] | None


async def _fetch(client: AsyncClient, key: UserKey) -> _UserResponses:
    call: calls.Call[Any, Any] = calls.get_user(key)
    outcome = await client.send(call)
    user = (call, outcome)
    if not protocol.is_success(outcome):
        return _UserResponses(key, user, None)
    call = calls.get_user_alerts(key)
    return _UserResponses(key, user, (call, await client.send(call)))


def _read(client: AsyncClient, answers: Sequence[_UserResponses]) -> Batch:
    deviations: dict[int, list[Deviation]] = {}
    read = [_person(client, answer, deviations) for answer in answers]
    loaded = [pair for pair in read if isinstance(pair, tuple)]
    failures = [failure for failure in read if isinstance(failure, Failure)]
    keys = [answer.key for answer in answers]
    return Batch(keys, [user for user, _ in loaded], [alerts for _, alerts in loaded], failures, deviations)


def _person(
    client: AsyncClient, got: _UserResponses, deviations: dict[int, list[Deviation]]
) -> tuple[dict[str, Any], dict[str, Any]] | Failure:
    """Get user and Get user alerts: both, or neither, so that no table shows half a person as a whole one."""
    call, outcome = got.user
    notes: protocol.Notes = Counter()
    try:
        user = protocol.row(call, client.access, outcome, notes)["user"]
        if user["id"] != got.key.id:
            return Failure(
                got.key.id, call.operation.title, "InvalidResponse", None, "the answer is about another user"
            )
        call, outcome = got.alerts or (call, TransportFailure("it was not asked"))
        alerts = protocol.row(call, client.access, outcome, notes)["alerts"]
    except ExposureError as error:
        status = error.status if isinstance(error, APIStatusError) else None
        return Failure(got.key.id, call.operation.title, type(error).__name__, status, str(error))
    if notes:
        deviations[got.key.id] = list(notes)
    return user, {"user_id": got.key.id, "alerts": alerts}
