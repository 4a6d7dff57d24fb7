"""Everyone at once: as many at a time as was asked for, in the service's order, and each failure one person's own."""

import subprocess
import sys
import threading

import pytest
from support import faults
from support.clients import AT_ONCE, json_response, many
from support.faults import LoseReply

from exposurekit.client import Client, bulk
from exposurekit.errors import Unauthorized

CONNECTION = {"integration_name": "acme", "api_key": "key", "api_secret": "secret"}


def load(server, **options):
    """Load everyone: the batches with people, and the last one, which has the listing."""
    with Client(server.base_url, **CONNECTION, retries=AT_ONCE) as client:
        *batches, last = bulk.iter_batches(client, **options)
    return batches, last


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
def test_at_most_the_given_number_of_users_load_at_once(concurrency):
    crowd = Crowd(waits_for=concurrency)
    with faults.running(many(range(1, 41), crowd)) as server:
        load(server, concurrency=concurrency)
    assert crowd.most == concurrency


def test_everyone_is_given_once_in_the_order_of_the_list():
    ids = [5, 3, 200, 1, *range(300, 420)]
    with faults.running(many(ids)) as server:
        batches, last = load(server, prefetch=50)
    assert [key.id for batch in batches for key in batch.keys] == ids
    assert [user["id"] for batch in batches for user in batch.users] == ids
    assert [alerts["user_id"] for batch in batches for alerts in batch.alerts] == ids
    assert {batch.total for batch in batches} == {len(ids)}
    assert last.listing == bulk.UserListing(len(ids), len(ids))
    assert [request.operation for request in server.requests].count("get_user") == len(ids)
    assert [request.operation for request in server.requests].count("get_user_alerts") == len(ids)


def test_loading_fills_a_window_first_and_ends_with_the_list():
    with faults.running(many([])) as server:
        batches, _ = load(server)
    assert batches == []
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
            return json_response(faults.BODIES["get_user"])
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
    requested_ids = set()

    def meddle(_request, number):
        requested_ids.add(number)

    with faults.running(many(range(1, 31), meddle)) as server:
        batches, last = load(server, only=lambda user_id: user_id % 10 == 3)
    assert requested_ids - {None} == {3, 13, 23}
    assert [user["id"] for batch in batches for user in batch.users] == [3, 13, 23]
    assert last.listing.returned == last.total == 30


def connected(server):
    return Client(server.base_url, **CONNECTION)


def test_who_was_fetched_before_an_error_is_loaded():
    def fail_second_page(request, number):
        return faults.refused(401) if number is None and request.query.get("offset", "0") != "0" else None

    loaded = []
    with faults.running(many(range(1, 200), fail_second_page)) as server, connected(server) as client:
        batches = bulk.iter_batches(client, prefetch=60)
        with pytest.raises(Unauthorized):
            loaded.extend(user["id"] for batch in batches for user in batch.users)
    assert loaded == list(range(1, 61))


def test_a_closed_load_sends_no_further_request():
    with faults.running(many(range(1, 300))) as server, connected(server) as client:
        batches = bulk.iter_batches(client, prefetch=30)
        next(batches)
        batches.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "exposurekit"]
    assert sum(request.operation == "get_user" for request in server.requests) == 30


WITHOUT_FILES = """
import os, resource
from exposurekit.client import background

async def source():
    yield 1

resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, 1000))
try:
    list(background.iterate(source(), lambda: None))
except OSError as error:
    print(error.strerror)
"""


def test_a_load_without_file_descriptors_fails_instead_of_waiting():
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_FILES], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.stdout == "Too many open files\n"


@pytest.mark.parametrize(("told_count", "is_complete"), [(2, True), (None, True), (3, False)])
def test_a_list_is_complete_where_it_matches_its_count(told_count, is_complete):
    assert bulk.UserListing(2, told_count).is_complete is is_complete
