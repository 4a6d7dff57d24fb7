"""Loads: limited concurrency, in the order of the service, and each failure is of one person."""

import gc
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


def connected(server):
    return Client(server.base_url, **CONNECTION, retries=AT_ONCE)


def load(server, **options):
    """Load everyone: the batches with people, and the last one, which has the listing."""
    with connected(server) as client:
        *batches, last = bulk.iter_batches(client, **options)
    return batches, last


class Crowd:
    """Delays each call about a person until enough are under way, and counts the most at once."""

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
def test_number_of_concurrent_users_is_limited(concurrency):
    crowd = Crowd(waits_for=concurrency)
    with faults.running(many(range(1, 41), crowd)) as server:
        load(server, concurrency=concurrency)
    assert crowd.most == concurrency


def test_everyone_is_loaded_once_in_list_order():
    ids = [5, 3, 200, 1, *range(300, 380)]
    with faults.running(many(ids)) as server:
        batches, last = load(server, prefetch=50)
    assert [key.id for batch in batches for key in batch.keys] == ids
    assert [user["id"] for batch in batches for user in batch.users] == ids
    assert [alerts["user_id"] for batch in batches for alerts in batch.alerts] == ids
    assert {batch.total for batch in batches} == {len(ids)}
    assert {repr(batch) for batch in batches} == {"Batch(failures=[])"}
    assert last.listing == bulk.UserListing(len(ids), len(ids))
    assert [request.operation for request in server.requests].count("get_user") == len(ids)
    assert [request.operation for request in server.requests].count("get_user_alerts") == len(ids)


def test_empty_list_needs_no_further_request():
    with faults.running(many([])) as server:
        assert load(server)[0] == []
    assert {request.operation for request in server.requests} == {"list_users"}


def test_failed_user_is_a_failure_without_alerts():
    """A response about another user, as of a confused cache, is a failure too."""

    def meddle(request, number):
        if request.operation != "get_user" or number == 1:
            return None
        return faults.refused(401) if number == 2 else json_response(faults.BODIES["get_user"])

    with faults.running(many([1, 2, 3], meddle)) as server:
        [batch] = load(server)[0]
    assert [user["id"] for user in batch.users] == [1]
    refused, mixed_up = batch.failures
    assert (refused.user_id, refused.operation, refused.status) == (2, "Get user", 401)
    assert (mixed_up.user_id, mixed_up.error) == (3, "InvalidResponse")
    assert mixed_up.reason == "the response is about another user"
    assert not any(request.path.endswith("/2/alerts.json") for request in server.requests)


def test_refused_list_raises_its_error():
    with faults.running(faults.always(faults.refused(401))) as server, pytest.raises(Unauthorized):
        load(server)
    assert len(server.requests) == 1


def test_passing_faults_lose_nobody():
    failed = set()

    def once(request, number):
        if number is None or request.path in failed:
            return None
        failed.add(request.path)
        return LoseReply() if number % 2 else faults.unavailable(0)

    with faults.running(many(range(1, 31), once)) as server:
        batches = load(server)[0]
    assert [user["id"] for batch in batches for user in batch.users] == list(range(1, 31))
    assert not any(batch.failures for batch in batches)


def test_only_selected_users_are_requested():
    requested_ids = set()

    def meddle(_request, number):
        requested_ids.add(number)

    with faults.running(many(range(1, 31), meddle)) as server:
        batches, last = load(server, only=lambda user_id: user_id % 10 == 3)
    assert requested_ids - {None} == {3, 13, 23}
    assert [user["id"] for batch in batches for user in batch.users] == [3, 13, 23]
    assert last.listing.returned == last.total == 30


def test_users_fetched_before_an_error_are_loaded():
    def fail_second_page(request, number):
        return faults.refused(401) if number is None and request.query.get("offset", "0") != "0" else None

    loaded = []
    with faults.running(many(range(1, 200), fail_second_page)) as server, connected(server) as client:
        batches = bulk.iter_batches(client, prefetch=60)
        with pytest.raises(Unauthorized):
            loaded.extend(user["id"] for batch in batches for user in batch.users)
    assert loaded == list(range(1, 61))


def test_closed_load_sends_no_further_request():
    with faults.running(many(range(1, 300))) as server, connected(server) as client:
        batches = bulk.iter_batches(client, prefetch=30)
        next(batches)
        batches.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "exposurekit"]
    assert sum(request.operation == "get_user" for request in server.requests) == 30


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_collector_is_left_as_it_was(is_enabled):
    enabled = set()
    with faults.running(many(range(1, 60))) as server, connected(server) as client:
        try:
            if not is_enabled:
                gc.disable()
            for _ in bulk.iter_batches(client, prefetch=30):
                enabled.add(gc.isenabled())
            enabled.add(gc.isenabled())
        finally:
            gc.enable()
    assert enabled == {is_enabled}


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


def test_load_without_file_descriptors_fails_immediately():
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_FILES], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.stdout == "Too many open files\n"


@pytest.mark.parametrize(("count", "is_complete"), [(2, True), (None, True), (3, False)])
def test_list_is_complete_if_it_matches_its_count(count, is_complete):
    assert bulk.UserListing(2, count).is_complete is is_complete
