"""Bulk load: all users, with concurrent requests, as an async iterator of parsed batches."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exposurekit.client import calls, protocol
from exposurekit.client.client import AsyncClient
from exposurekit.client.retry import Result, TransportFailure
from exposurekit.contract.deviations import Deviation
from exposurekit.contract.models import UserKey
from exposurekit.errors import APIStatusError, ExposureError

CONCURRENCY = 8
PREFETCH = 200  # users whose responses are held as bytes
PARSE_CHUNK = 25  # users who are parsed together
_FINDINGS = ("records", "links", "alerts")

UserFilter = Callable[[int], bool]


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
    """A user who could not be loaded, and why. The reason holds no personal data."""

    user_id: int
    operation: str
    error: str
    status: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Some users: user objects and alerts as plain dicts, and a failure for each user who could not be loaded.

    ``deviations`` maps user ids to the deviations from the specification in that user's responses.
    """

    keys: Sequence[UserKey] = field(repr=False)
    users: Sequence[dict[str, Any]] = field(repr=False)
    alerts: Sequence[dict[str, Any]] = field(repr=False)
    failures: Sequence[Failure]
    deviations: Mapping[int, Sequence[Deviation]] = field(default_factory=dict, repr=False)

    @property
    def incomplete(self) -> set[int]:
        """Users with a record, link or alert that could not be read. A listing missing there may still exist."""
        return {
            user_id for user_id, deviations in self.deviations.items() if any(map(_costs_finding, deviations))
        }


def _costs_finding(deviation: Deviation) -> bool:
    return deviation.costs_item and deviation.field.partition(".")[0] in _FINDINGS


class BulkLoad:
    """One load of all users: iterate over it with ``async for`` to get parsed batches, in the service's order.

    A user who cannot be loaded becomes a `Failure` in a batch, and the load continues. If the load is cancelled, the
    batches that were fetched already are still yielded before `CancelledError` is raised.

    Args:
        client: A client with as many connections as concurrent requests.
        concurrency: Number of concurrent requests.
        prefetch: Number of users fetched before their responses are parsed; bounds the memory.
        only: Whether to load a user, by id; None: load all users.

    Attributes:
        done: Number of users processed so far.
        total: Number of users the service reports; None if it reports none.
        listing: What List users returned; None until the load is complete.

    Raises:
        ExposureError: The list of users could not be fetched.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        concurrency: int = CONCURRENCY,
        prefetch: int = PREFETCH,
        only: UserFilter | None = None,
    ) -> None:
        self.done = 0
        self.total: int | None = None
        self.listing: UserListing | None = None
        self._client = client
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._only = only

    async def __aiter__(self) -> AsyncIterator[Batch]:
        queued: list[UserKey] = []
        returned = unreadable = 0
        notes: protocol.Notes = Counter()
        async for page in self._client.iter_pages(notes=notes):
            self.total = page.count
            returned += len(page.users)
            unreadable += page.unreadable
            selected = [key for key in page.users if self._only is None or self._only(key.id)]
            self.done += len(page.users) - len(selected)
            queued += selected
            while len(queued) >= self._prefetch:
                async for batch in self._load(queued[: self._prefetch]):
                    yield batch
                del queued[: self._prefetch]
        async for batch in self._load(queued):
            yield batch
        self.listing = UserListing(returned, self.total, unreadable, notes)

    async def _load(self, keys: Sequence[UserKey]) -> AsyncIterator[Batch]:
        responses: list[_UserResponses | None] = [None] * len(keys)
        remaining = iter(enumerate(keys))

        async def fetch() -> None:
            for index, key in remaining:
                responses[index] = await _fetch(self._client, key)
                self.done += 1

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._concurrency, len(keys))):
                    group.create_task(fetch())
        finally:
            # Parsed only now, a few users at a time: waiting as bytes is cheap, and a few users' dicts are freed
            # before the garbage collector has to traverse them again and again.
            received = [response for response in responses if response]
            for start in range(0, len(received), PARSE_CHUNK):
                yield _parse(self._client, received[start : start + PARSE_CHUNK])


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


def _parse(client: AsyncClient, responses: Sequence[_UserResponses]) -> Batch:
    deviations: dict[int, list[Deviation]] = {}
    parsed = [_parse_user(client, response, deviations) for response in responses]
    loaded = [pair for pair in parsed if isinstance(pair, tuple)]
    failures = [failure for failure in parsed if isinstance(failure, Failure)]
    keys = [response.key for response in responses]
    return Batch(keys, [user for user, _ in loaded], [alerts for _, alerts in loaded], failures, deviations)


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
