"""Create user and its scan, over HTTP: at once, in the background, too long, elsewhere; and a key that storms."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from support.services import json_body
from support.small_web import (
    JUNIPER,
    QUICK,
    Card,
    Folk,
    GatedAnswer,
    a_house,
    a_worker,
    by_form,
    definition,
)

from exposurekit.service.api.rate_limits import Limits
from exposurekit.service.api.scan_wait import ScanWaiter
from exposurekit.service.storage import leases, tables

HERS = Card("r1")


@pytest.fixture
def served(store, town, tmp_path):
    """A service that looks at one site, `Seekfolk`, and has a worker inside unless told otherwise."""

    def served(**options):
        options = {"works": True, **options}
        return a_house(tmp_path, town.resolve, definition(removal=by_form()), **options)

    return served


def create(house, **changed):
    return json_body(house.call("POST", "/users", json=JUNIPER | changed))["user"]


def until(house, user, condition):
    """The user, as soon as it is so."""
    for _ in range(400):
        if condition(user_now := house.get(user)["user"]):
            return user_now
        threading.Event().wait(0.025)
    raise AssertionError("it never came to that")


def is_over(user):
    return not user["is_scanning"]


def records(user):
    return [record["reference_id"] for record in user["records"]]


def test_async_true_answers_at_once_and_scans_in_the_background(served, town):
    """Specification, "Create user": with async the call returns while the scan runs."""
    site = town.opens("Seekfolk", Folk([HERS]))
    gate = site.search = GatedAnswer(site.matching_cards)
    with served() as house:
        user = create(house, **{"async": True})
        assert (user["is_scanning"], user["records"]) == (True, [])
        assert house.get(user)["user"]["is_scanning"]
        gate.go.set()
        assert records(until(house, user, is_over)) == ["r1"]


@pytest.mark.parametrize("parameters", [{}, {"async": False}], ids=["not told", "false"])
def test_async_false_answers_with_what_was_found(served, town, parameters):
    """Specification, "Create user": the scan is over before the answer."""
    town.opens("Seekfolk", Folk([HERS]))
    with served() as house:
        user = create(house, **parameters)
        assert (user["is_scanning"], records(user)) == (False, ["r1"])
        assert user["records"][0]["status"] == "discovered" or records(user) == ["r1"]
        user_now = until(house, user, lambda one: one["records"][0]["status"] == "pending removal")
        assert is_over(user_now)
        assert len(house.alerts(user)) == 2


def test_a_scan_longer_than_the_wait_runs_to_its_end(served, town):
    """Before the answer, bounded."""
    site = town.opens("Seekfolk", Folk([HERS]))
    gate = site.search = GatedAnswer(site.matching_cards)
    with served(scan_wait_s=0.2) as house:
        user = create(house)
        assert (user["is_scanning"], user["records"]) == (True, [])
        gate.go.set()
        assert records(until(house, user, is_over)) == ["r1"]
        assert len(town.of("Seekfolk")) == 2  # the worker beside it has not begun another


def test_who_is_registered_while_enough_wait_is_answered_at_once(served, town):
    """A flood of registrations must not hold every connection until the last scan is over."""
    site = town.opens("Seekfolk", Folk([HERS]))
    gate = site.search = GatedAnswer(site.matching_cards)
    with served(config=replace(QUICK, scans=2), scan_wait_s=25) as house, ThreadPoolExecutor(2) as callers:
        waiting = [callers.submit(create, house) for _ in range(2)]
        for _ in range(400):
            if len(town.of("Seekfolk")) == 2:  # both are being scanned
                break
            threading.Event().wait(0.01)
        late = [create(house) for _ in range(2)]
        assert [(user["is_scanning"], user["records"]) for user in late] == [(True, [])] * 2
        assert not any(one.done() for one in waiting)
        gate.go.set()
        assert [records(one.result(20)) for one in waiting] == [["r1"], ["r1"]]
        assert all(records(until(house, user, is_over)) == ["r1"] for user in late)


def test_concurrent_registrations_never_exceed_the_waiting_room(served, town):
    """Each is told that there is room before any of them is in it; the others are for a worker, at once."""
    site = town.opens("Seekfolk", Folk([HERS]))
    gate = site.search = GatedAnswer(site.matching_cards)
    with served(works=False) as house:
        users = [house.juniper() for _ in range(5)]

        async def flooded(database):
            scans = ScanWaiter(database, house.worker(database, config=replace(QUICK, scans=2)), wait_s=25)
            async with database.writing() as work:
                taken = [await scans.acquire(work, user["id"]) for user in users]
            assert all(taken)
            waits = [
                asyncio.create_task(scans.wait_for(user["id"], lease))
                for user, lease in zip(users, taken, strict=True)
            ]
            await asyncio.wait_for(asyncio.gather(*waits[2:]), 10)
            assert not any(wait.done() for wait in waits[:2])
            rows = await asyncio.to_thread(house.rows, tables.users)
            assert [row.lease is None for row in rows] == [False] * 2 + [True] * 3
            assert all(row.due_at == house.clock.now() and row.is_scanning for row in rows)
            gate.go.set()
            await asyncio.gather(*waits)
            await scans.close()

        house.behind(flooded)
        assert [house.get(user)["user"]["is_scanning"] for user in users] == [False] * 2 + [True] * 3
        house.idle()
        assert all(house.statuses(user) == {"r1": "pending removal"} for user in users)


@pytest.mark.parametrize("async_value", [True, False])
def test_without_an_attestation_nothing_is_scanned(served, town, async_value):
    """Only with recorded consent."""
    town.opens("Seekfolk", Folk([HERS]))
    with served(attested_by=None) as house:
        user = create(house, **{"async": async_value})
        assert (user["is_scanning"], user["records"]) == (False, [])
        house.idle()
        assert not house.get(user)["user"]["is_scanning"]
    assert town.requests == []


@contextmanager
def working(house):
    """A worker in a thread and a loop of its own, as in another process."""
    ended = threading.Event()

    async def work():
        async def do(database):
            running = asyncio.create_task(
                a_worker(database, house.resolve, house.definitions, config=QUICK).run()
            )
            await asyncio.to_thread(ended.wait)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        await do_with_a_database(house, do)

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


async def do_with_a_database(house, do):
    database = await house.another_database().open()
    try:
        await do(database)
    finally:
        await database.close()


def test_a_service_whose_worker_is_elsewhere_waits_by_watching(served, town):
    town.opens("Seekfolk", Folk([HERS]))
    with served(works=False) as house, working(house):
        user = create(house)
        assert (user["is_scanning"], records(user)) == (False, ["r1"])


def test_a_service_whose_worker_is_nowhere_answers_all_the_same(served, town):
    town.opens("Seekfolk", Folk([HERS]))
    with served(works=False, scan_wait_s=0.1) as house:
        user = create(house)
        assert (user["is_scanning"], user["records"]) == (True, [])
        house.idle()
        assert records(house.get(user)["user"]) == ["r1"]
    assert len(town.of("Seekfolk")) == 2


@pytest.mark.parametrize("async_value", [True, False], ids=["in the background", "while somebody waits"])
def test_a_service_stopped_during_a_scan_releases_it(served, town, async_value):
    """Work that survives; who is next need not wait for the lease to run out."""
    site = town.opens("Seekfolk", Folk([HERS]))
    gate = site.search = GatedAnswer(site.matching_cards)
    with served(scan_wait_s=0.1) as house:
        user = create(house, **{"async": async_value})
        asyncio.run(gate.is_reached())
        [row] = house.rows(tables.users)
        assert row.lease is not None
    gate.go.set()
    site.search = None
    [row] = house.rows(tables.users)
    assert (row.id, row.lease, row.lease_until) == (user["id"], None, None)
    assert row.due_at == house.clock.now()
    house.idle()
    assert [one.status for one in house.rows()] == ["pending removal"]


def test_a_killed_service_leaves_a_lease_that_runs_out(served, town):
    """Who was killed gives nothing back; what it held is taken when the lease is over, and not before."""
    town.opens("Seekfolk", Folk([HERS]))
    with served(works=False, scan_wait_s=0.05) as house:
        create(house)
        house.work(lambda work: leases.acquire(work, tables.users, limit=1, duration=timedelta(seconds=630)))
        house.idle()
        assert town.requests == []
        house.advance(seconds=629)
        assert town.requests == []
        house.advance(seconds=1)
        assert len(town.of("Seekfolk")) == 2


# --- who asks too much ------------------------------------------------------------------------------------


def another_integrator(house):
    from exposurekit.service.accounts import integrators

    credentials = house.work(lambda work: integrators.add(work, "beta", attested_by="beta"))
    root = f"{house.base_url}/api/beta/{credentials.api_key}/v2"
    return lambda: house.http.get(f"{root}/users", params={"api_secret": credentials.api_secret}).status_code


def test_a_busy_key_must_wait_and_another_need_not(served):
    """429 with Retry-After for a key that storms."""
    with served(works=False, limits=Limits(requests_per_second=1)) as house:
        other = another_integrator(house)
        answers = [house.call("GET", "/users") for _ in range(14)]
        assert [answer.status_code for answer in answers] == [200] * 10 + [429] * 4
        assert all(1 <= int(answer.headers["retry-after"]) <= 10 for answer in answers[10:])
        assert "retry-after" not in answers[0].headers
        assert [other() for _ in range(3)] == [200] * 3
        assert house.call("POST", "/users", json=JUNIPER).status_code == 429


@pytest.mark.parametrize("wrong", ["the key", "the secret"])
def test_repeated_refusals_must_wait_and_another_key_need_not(served, wrong):
    """And for repeated 401s."""
    with served(works=False, limits=Limits(refusals_per_minute=3)) as house:
        other = another_integrator(house)
        key = "x" * 43 if wrong == "the key" else house.credentials.api_key
        url = f"{house.base_url}/api/acme/{key}/v2/users"
        answers = [house.http.get(url, params={"api_secret": "wrong"}) for _ in range(5)]
        assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 2
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
        assert other() == 200
        assert house.call("GET", "/users").status_code == 200  # right credentials are served


def test_a_request_that_is_told_to_wait_registers_nobody(served):
    with served(works=False, limits=Limits(requests_per_second=1)) as house:
        for _ in range(10):
            house.call("GET", "/users")
        assert house.call("POST", "/users", json=JUNIPER).status_code == 429
        assert house.rows(tables.users) == []
