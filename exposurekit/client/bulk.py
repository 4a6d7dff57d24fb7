"""Bulk load: all users, with concurrent requests, as an iterator of parsed batches.

The requests run in the event loop of a background thread, and the responses wait as bytes; the thread of the caller
parses them. So Ctrl-C loses nothing: it cancels the requests, and what was received by then is still parsed and
yielded. An async iterator that parsed in the loop would be cancelled with them, between a response and its batch.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from exposurekit.client import background, calls, protocol
from exposurekit.client.client import AsyncClient, Client
from exposurekit.client.progress import progress_bar
from exposurekit.client.retry import Result, TransportFailure
from exposurekit.contract.deviations import REPEATED, Deviation
from exposurekit.contract.models import UserKey
from exposurekit.contract.operations import GET_USER, LIST_USERS
from exposurekit.errors import APIStatusError, ExposureError

CONCURRENCY = 8
PREFETCH = 200  # users whose responses are held as bytes
PARSE_CHUNK = 25  # users who are parsed together
STOPPED = "stopped before the end"
WITHOUT_KEY = "its item in List users has no secret, or none that can be read"
_FINDINGS = ("records", "links", "alerts")

UserFilter = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class UserListing:
    """What List users returned, over all pages."""

    returned: int  # users
    reported_total: int | None  # the service's own count of users; None if it reports none
    unreadable: int = 0  # further users whose id or secret could not be read
    unidentified: int = 0  # those of them whose id could not be read; each of the others has a `Failure`
    deviations: Mapping[Deviation, int] = field(default_factory=dict)  # with the number of users affected

    @property
    def is_complete(self) -> bool:
        """Whether no user was missed. Pages shift if a user is deleted while they are fetched."""
        return not self.unreadable and self.reported_total in {None, self.returned}


@dataclass(frozen=True, slots=True)
class Failure:
    """A user who could not be loaded, and why. The reason holds no personal data."""

    user_id: int
    operation: str
    error: str
    status: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Some users: user objects and alerts as plain dicts, and a failure for each user who could not be loaded.

    ``deviations`` are by user id. Only the last batch of a complete load has the ``listing``: what List users returned.
    Only the last batch of a stopped load has those ``not_requested``: users who were listed, and were still to be loaded.
    """

    keys: Sequence[UserKey] = field(default=(), repr=False)
    users: Sequence[dict[str, Any]] = field(default=(), repr=False)
    alerts: Sequence[dict[str, Any]] = field(default=(), repr=False)
    failures: Sequence[Failure] = ()
    deviations: Mapping[int, Sequence[Deviation]] = field(default_factory=dict, repr=False)
    total: int | None = field(default=None, repr=False)
    listing: UserListing | None = field(default=None, repr=False)
    not_requested: Sequence[Failure] = field(default=(), repr=False)

    @property
    def incomplete(self) -> dict[int, list[str]]:
        """What could not be read of users' records, links and alerts, such as ``alerts (null)``; the items may still exist."""
        lost = {
            user_id: sorted({f"{one.field} ({one.kind})" for one in deviations if _costs_finding(one)})
            for user_id, deviations in self.deviations.items()
        }
        return {user_id: fields for user_id, fields in lost.items() if fields}

    @property
    def repeating(self) -> set[int]:
        """Users with several records of one id, of which the first was read."""
        return {
            user_id
            for user_id, deviations in self.deviations.items()
            if any((deviation.field, deviation.kind) == ("records", REPEATED) for deviation in deviations)
        }

    def counted_deviations(self) -> Iterator[tuple[Deviation, int]]:
        """Yield the deviations, each with its number of users; the last batch also has those of List users."""
        for deviation in chain(*self.deviations.values()):
            yield deviation, 1
        for deviation, users in self.listing.deviations.items() if self.listing else ():
            yield deviation, users if deviation.is_of_item else 0

    def filtered(self, only: UserFilter) -> "Batch":
        """Return the part of the batch about the selected users."""
        return replace(
            self,
            keys=[key for key in self.keys if only(key.id)],
            users=[user for user in self.users if only(user["id"])],
            alerts=[alerts for alerts in self.alerts if only(alerts["user_id"])],
            failures=[failure for failure in self.failures if only(failure.user_id)],
            deviations={key: value for key, value in self.deviations.items() if only(key)},
        )


def _costs_finding(deviation: Deviation) -> bool:
    return deviation.costs_item and deviation.field.partition(".")[0] in _FINDINGS


def iter_batches(
    client: Client,
    *,
    concurrency: int = CONCURRENCY,
    prefetch: int = PREFETCH,
    only: UserFilter | None = None,
    progress: bool | None = False,
) -> Iterator[Batch]:
    """Load all users with concurrent requests, and yield them as parsed batches, in the service's order.

    A user who cannot be loaded becomes a `Failure` in a batch, and the load continues. If Ctrl-C or an error ends the
    load, the users who were fetched already are yielded before the exception is raised. The requests have connections of
    their own.

    Args:
        client: The client.
        concurrency: Number of concurrent requests.
        prefetch: Number of users fetched before their responses are parsed; bounds the memory.
        only: Whether to load a user, by id; None: load all users.
        progress: Whether to show a progress bar; None: in a notebook or a terminal.
    """
    load = _Load(client.as_async(concurrency), concurrency, prefetch, only)
    try:
        with progress_bar("people", progress) as bar:
            for _ in background.iterate(load.windows(), lambda: bar(load.done, load.total)):
                yield from load.parse()
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from load.parse()
        if not_requested := load.not_requested(error):
            yield Batch(not_requested=not_requested, total=load.total)
        raise
    yield Batch(failures=load.without_secret, total=load.total, listing=load.listing)


@dataclass(slots=True)
class _Load:
    """A load in progress: the requests run in a thread of their own, the responses are parsed in the caller's."""

    client: AsyncClient
    concurrency: int
    prefetch: int
    only: UserFilter | None
    done: int = 0
    total: int | None = None
    listing: UserListing | None = None
    without_secret: list[Failure] = field(default_factory=list)
    received: "list[_UserResponses]" = field(default_factory=list)
    pending: dict[int, None] = field(default_factory=dict)  # listed, and not parsed yet

    async def windows(self) -> AsyncIterator[None]:
        """Fetch users into `received`; pause while as many as allowed wait to be parsed.

        The items are None: the responses stay in `received` when this iterator is cancelled.
        """
        queued: list[UserKey] = []
        returned_ids, without_secret = set[int](), dict[int, None]()
        unreadable = unidentified = 0
        notes: protocol.Notes = Counter()
        async with self.client:
            async for page in self.client.iter_pages(notes=notes):
                self.total = page.count
                returned_ids |= {key.id for key in page.users}
                unreadable += page.unreadable
                unidentified += page.unreadable - len(page.without_secret)
                without_secret |= dict.fromkeys(page.without_secret)
                selected = [key for key in page.users if self.only is None or self.only(key.id)]
                self.done += len(page.users) - len(selected)
                queued += selected
                self.pending |= dict.fromkeys(key.id for key in selected)
                while len(queued) >= self.prefetch:
                    await self._fetch(queued[: self.prefetch])
                    yield
                    del queued[: self.prefetch]
            await self._fetch(queued)
            yield
        self.without_secret = [
            Failure(user_id, LIST_USERS.title, "InvalidResponse", None, WITHOUT_KEY)
            for user_id in without_secret
            if user_id not in returned_ids and (self.only is None or self.only(user_id))
        ]
        self.listing = UserListing(len(returned_ids), self.total, unreadable, unidentified, notes)

    async def _fetch(self, keys: Sequence[UserKey]) -> None:
        responses: list[_UserResponses | None] = [None] * len(keys)
        remaining = iter(enumerate(keys))

        async def fetch() -> None:
            for index, key in remaining:
                responses[index] = await _fetch(self.client, key)
                self.done += 1

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.concurrency, len(keys))):
                    group.create_task(fetch())
        finally:
            self.received += [response for response in responses if response]

    def parse(self) -> Iterator[Batch]:
        """Parse what was received, a few users at a time.

        Waiting as bytes is cheap. The garbage collector is paused while a few users' dicts are made: they have no cycles
        and are freed soon, and it would traverse everything again and again.
        """
        while self.received:
            is_collecting = gc.isenabled()
            gc.disable()
            try:
                batch = _parse(self.client, self.received[:PARSE_CHUNK], self.total)
            finally:
                if is_collecting:
                    gc.enable()
            del self.received[:PARSE_CHUNK]  # after parsing: Ctrl-C must not lose it
            for key in batch.keys:
                self.pending.pop(key.id, None)
            yield batch

    def not_requested(self, error: BaseException) -> list[Failure]:
        """The users who were still to be loaded when this error stopped the load."""
        kind = type(error).__name__
        return [Failure(user_id, GET_USER.title, kind, None, STOPPED) for user_id in self.pending]


@dataclass(frozen=True, slots=True)
class _UserResponses:
    """The responses to the two calls about one user; without a user there is no second call."""

    key: UserKey
    user: tuple[calls.Call[Any, Any], Result]
    alerts: tuple[calls.Call[Any, Any], Result] | None


async def _fetch(client: AsyncClient, key: UserKey) -> _UserResponses:
    call: calls.Call[Any, Any] = calls.get_user(key)
    result = await client.send(call)
    user = (call, result)
    if not protocol.is_success(result):
        return _UserResponses(key, user, None)
    call = calls.get_user_alerts(key)
    return _UserResponses(key, user, (call, await client.send(call)))


def _parse(client: AsyncClient, responses: Sequence[_UserResponses], total: int | None) -> Batch:
    deviations: dict[int, list[Deviation]] = {}
    parsed = [_parse_user(client, response, deviations) for response in responses]
    loaded = [pair for pair in parsed if isinstance(pair, tuple)]
    failures = [failure for failure in parsed if isinstance(failure, Failure)]
    keys = [response.key for response in responses]
    users, alerts = [user for user, _ in loaded], [alerts for _, alerts in loaded]
    return Batch(keys, users, alerts, failures, deviations=deviations, total=total)


def _parse_user(
    client: AsyncClient, responses: _UserResponses, deviations: dict[int, list[Deviation]]
) -> tuple[dict[str, Any], dict[str, Any]] | Failure:
    """Get user and Get user alerts: both or neither, so that no table shows half of a user as complete."""
    user_id = responses.key.id
    call, result = responses.user
    notes: protocol.Notes = Counter()
    try:
        user = protocol.row(call, client.config, result, notes)["user"]
        if user["id"] != user_id:
            reason = "the response is about another user"
            return Failure(user_id, call.operation.title, "InvalidResponse", None, reason)
        call, result = responses.alerts or (call, TransportFailure("not requested"))
        alerts = protocol.row(call, client.config, result, notes)["alerts"]
    except ExposureError as error:
        status = error.status if isinstance(error, APIStatusError) else None
        return Failure(user_id, call.operation.title, type(error).__name__, status, str(error))
    if notes:
        deviations[user_id] = list(notes)
    return user, {"user_id": user_id, "alerts": alerts}
