"""Everyone at once: as many at a time as was asked for, in the service's order, and each failure one person's own."""

import asyncio
import threading

import faults
import pytest
from client_kit import AT_ONCE, many, told
from faults import LoseReply

from exposurekit.client import AsyncClient, bulk
from exposurekit.errors import Unauthorized


def load(server, **options):
    """Run one load with the async client: its batches, and the load itself."""
    batches, loads = [], []

    async def run():
        settings = {"integration_name": "acme", "api_key": "key", "api_secret": "secret", "retries": AT_ONCE}
        async with AsyncClient(server.base_url, **settings) as client:
            client.connections = options.get("concurrency", bulk.CONCURRENCY)
            loads.append(bulk.BulkLoad(client, **options))
            async for batch in loads[0]:
                batches.append(batch)  # noqa: PERF401  what came before an error stays

    asyncio.run(run())
    return batches, loads[0]


class Crowd:
    """Holds each call about a person until as many are under way as it waits for, and counts the most at once."""

    def __init__(self, waits_for):
        self.now = self.most = 0
        self._waits_for = waits_for
        self._changed = threading.Condition()

    def __call__(self, _request, number):
        if number is None:
            return
        with self._changed:
            self.now += 1
            self.most = max(self.most, self.now)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self._waits_for, timeout=20)
        with self._changed:
            self.now -= 1


@pytest.mark.parametrize("concurrency", [1, 3, 8, 20])
def test_as_many_people_as_asked_for_are_asked_about_at_once(concurrency):
    crowd = Crowd(waits_for=concurrency)
    with faults.running(many(range(1, 41), crowd)) as server:
        load(server, concurrency=concurrency)
    assert crowd.most == concurrency


def test_everyone_is_given_once_in_the_order_of_the_list():
    ids = [5, 3, 200, 1, *range(300, 420)]
    with faults.running(many(ids)) as server:
        batches, finished = load(server, prefetch=50)
    assert [key.id for batch in batches for key in batch.keys] == ids
    assert [user["id"] for batch in batches for user in batch.users] == ids
    assert [alerts["user_id"] for batch in batches for alerts in batch.alerts] == ids
    assert (finished.done, finished.total) == (len(ids), len(ids))
    assert finished.listing == bulk.UserListing(len(ids), len(ids))
    assert [request.operation for request in server.requests].count("get_user") == len(ids)
    assert [request.operation for request in server.requests].count("get_user_alerts") == len(ids)


def test_nobody_is_asked_about_before_the_window_is_full_or_after_the_list_ends():
    with faults.running(many([])) as server:
        batches, finished = load(server)
    assert [batch for batch in batches if batch.keys] == []
    assert finished.done == 0
    assert {request.operation for request in server.requests} == {"list_users"}


def test_a_person_without_an_answer_is_not_asked_about_alerts():
    def refuse(request, number):
        return faults.refused(401) if request.operation == "get_user" and number == 2 else None

    with faults.running(many([1, 2, 3], refuse)) as server:
        [batch] = load(server)[0]
    assert [user["id"] for user in batch.users] == [1, 3]
    assert [(failure.user_id, failure.operation, failure.status) for failure in batch.failures] == [
        (2, "Get user", 401)
    ]
    assert not any(request.path.endswith("/2/alerts.json") for request in server.requests)


def test_a_list_that_is_refused_raises_as_it_is():
    with faults.running(faults.always(faults.refused(401))) as server, pytest.raises(Unauthorized):
        load(server)
    assert len(server.requests) == 1


def test_an_answer_about_somebody_else_is_a_failure():
    """A cache or a proxy that mixes answers up must not put one person's records under another's id."""

    def mix_up(request, number):
        if request.operation == "get_user" and number == 2:
            return told(faults.BODIES["get_user"])
        return None

    with faults.running(many([1, 2], mix_up)) as server:
        [batch] = load(server)[0]
    [failure] = batch.failures
    assert (failure.user_id, failure.error, failure.reason) == (
        2,
        "InvalidResponse",
        "the response is about another user",
    )


def test_a_fault_that_passes_costs_nobody():
    met = set()

    def once(request, number):
        if number is None or request.path in met:
            return None
        met.add(request.path)
        return LoseReply() if number % 2 else faults.unavailable(0)

    with faults.running(many(range(1, 31), once)) as server:
        batches = load(server)[0]
    assert [user["id"] for batch in batches for user in batch.users] == list(range(1, 31))
    assert not any(batch.failures for batch in batches)


def test_a_batch_shows_no_person_and_no_secret():
    with faults.running(many([1])) as server:
        [batch] = load(server)[0]
    assert repr(batch) == "Batch(failures=[])"


def test_only_those_who_are_chosen_are_asked_about():
    asked = set()

    def meddle(_request, number):
        asked.add(number)

    with faults.running(many(range(1, 31), meddle)) as server:
        batches, finished = load(server, only=lambda user_id: user_id % 10 == 3)
    assert asked - {None} == {3, 13, 23}
    assert [user["id"] for batch in batches for user in batch.users] == [3, 13, 23]
    assert (finished.done, finished.total) == (30, 30)


@pytest.mark.parametrize(("told_count", "is_complete"), [(2, True), (None, True), (3, False)])
def test_a_list_is_complete_where_it_has_as_many_as_it_counts(told_count, is_complete):
    assert bulk.UserListing(2, told_count).is_complete is is_complete
