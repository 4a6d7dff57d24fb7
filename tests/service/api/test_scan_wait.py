"""Create user and its scan over HTTP: before the response, in the background, or by another process."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import update
from support.services import json_body
from support.shell import eventually
from support.small_web import JUNIPER, QUICK, Card, Folk, GatedAnswer, a_house, by_form, definition, nobody

from exposurekit.service.storage import leases, tables

HERS = Card("r1")


@pytest.fixture
def served(store, town, tmp_path):
    """A service that scans one site, `Seekfolk`, with its own worker by default."""

    def served(**options):
        options = {"works": True, **options}
        return a_house(tmp_path, town.resolve, definition(removal=by_form()), **options)

    return served


def create(house, **changed):
    return json_body(house.call("POST", "/users", json=JUNIPER | changed))["user"]


def until(house, user, condition):
    """The user as soon as a condition is true."""

    def current():
        user_now = house.get(user)["user"]
        return user_now if condition(user_now) else None

    return eventually(current)


def is_scanned(user):
    return not user["is_scanning"]


@pytest.fixture
def gated(town):
    """The site, with responses that wait for its gate."""
    site = town.opens("Seekfolk", Folk([HERS]))
    site.search = GatedAnswer(site.matching_cards)
    return site


def records(user):
    return [record["reference_id"] for record in user["records"]]


def test_async_true_responds_at_once_and_scans_in_the_background(served, gated):
    """Specification, "Create user": with async the call returns while the scan runs."""
    with served() as house:
        user = create(house, **{"async": True})
        assert (user["is_scanning"], user["records"]) == (True, [])
        assert house.get(user)["user"]["is_scanning"]
        gated.search.go.set()
        assert records(until(house, user, is_scanned)) == ["r1"]


@pytest.mark.parametrize("parameters", [{}, {"async": False}], ids=["default", "false"])
def test_async_false_responds_with_the_discovered_records(served, town, parameters):
    """Specification, "Create user": the scan ends before the response."""
    town.opens("Seekfolk", Folk([HERS]))
    with served() as house:
        user = create(house, **parameters)
        assert (user["is_scanning"], records(user)) == (False, ["r1"])
        pending = until(house, user, lambda one: one["records"][0]["status"] == "pending removal")
        assert is_scanned(pending)
        assert len(house.alerts(user)) == 2


def test_a_scan_longer_than_the_wait_runs_to_its_end(served, town, gated):
    with served(scan_wait_s=0.2) as house:
        user = create(house)
        assert (user["is_scanning"], user["records"]) == (True, [])
        gated.search.go.set()
        assert records(until(house, user, is_scanned)) == ["r1"]
        assert len(town.of("Seekfolk")) == 2  # its worker has not begun another scan


def reached(town, n):
    """Wait until the site was asked so many times."""
    eventually(lambda: len(town.of("Seekfolk")) >= n)


def test_a_registration_waits_for_its_scan_however_many_run(served, town, gated):
    gate = gated.search
    gated.search = lambda request: gate(request) if HERS.fits(request) else nobody()
    with served(config=replace(QUICK, scans=3), scan_wait_s=25) as house, ThreadPoolExecutor(5) as callers:
        waiting = [callers.submit(create, house) for _ in range(5)]
        reached(town, 3)  # one for the invented person
        assert len(house.rows(tables.users)) == 2  # the others are registered when their scan can begin
        assert not any(one.done() for one in waiting)
        gate.go.set()
        users = [one.result(20) for one in waiting]
        assert [(user["is_scanning"], records(user)) for user in users] == [(False, ["r1"])] * 5


def test_nobody_is_registered_if_no_scan_can_begin_in_time(served, town, gated):
    with served(config=replace(QUICK, scans=1), scan_wait_s=0.3) as house:
        first = create(house)
        assert first["is_scanning"]
        response = house.call("POST", "/users", json=JUNIPER)
        assert (response.status_code, response.headers["retry-after"]) == (503, "30")
        assert response.json()["error"].startswith("no scan could start, so nobody was registered")
        assert len(house.rows(tables.users)) == 1
        second = create(house, **{"async": True})
        assert second["is_scanning"]  # registered, and scanned by the worker
        gated.search.go.set()
        for user in (first, second):
            until(house, user, is_scanned)
        assert records(until(house, create(house), is_scanned)) == ["r1"]


def test_a_registration_that_waits_leaves_memory_to_others(served, gated):
    """The bodies share 4 kB, and the one that waits for its scan has 3."""
    padding = {"unknown": "x" * 3_000}
    with served(body_memory_max=4_000) as house, ThreadPoolExecutor(1) as waiting:
        first = waiting.submit(create, house, **padding)
        asyncio.run(gated.search.is_reached())
        try:
            second = create(house, **padding, **{"async": True})
        finally:
            gated.search.go.set()
        assert {first.result()["id"], second["id"]} == {1, 2}


def test_without_recorded_consent_nothing_is_scanned(served, town):
    town.opens("Seekfolk", Folk([HERS]))
    with served(attested_by=None) as house:
        users = [create(house, **{"async": value}) for value in (True, False)]
        assert [(user["is_scanning"], user["records"]) for user in users] == [(False, [])] * 2
        house.idle()
        assert not any(house.get(user)["user"]["is_scanning"] for user in users)
    assert town.requests == []


@contextmanager
def working(house):
    """A worker in a thread and an event loop of its own, as in another process."""
    ended = threading.Event()

    async def work(database):
        running = asyncio.create_task(house.worker(database, config=QUICK).run())
        await asyncio.to_thread(ended.wait)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    thread = threading.Thread(target=house.behind, args=[work])
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_service_waits_for_the_worker_of_another_process(served, town):
    town.opens("Seekfolk", Folk([HERS]))
    with served(works=False) as house, working(house):
        user = create(house)
        assert (user["is_scanning"], records(user)) == (False, ["r1"])


def test_a_worker_scans_whom_a_wrong_clock_put_off(served, town):
    town.opens("Seekfolk", Folk([HERS]))
    with served(works=False) as house:
        user = create(house, **{"async": True})
        in_400_days = house.clock.now() + timedelta(days=400)
        put_off = update(tables.users).values(due_at=in_400_days, lease="x", lease_until=in_400_days)
        house.work(lambda work: work.run(put_off))
        house.idle()
        assert town.requests == []
        with working(house):
            assert records(until(house, user, is_scanned)) == ["r1"]


def test_without_any_worker_nobody_is_registered(served, town):
    town.opens("Seekfolk", Folk([HERS]))
    with served(works=False, scan_wait_s=0.1) as house:
        response = house.call("POST", "/users", json=JUNIPER)
        assert (response.status_code, response.headers["retry-after"]) == (503, "30")
        assert house.rows(tables.users) == []
        user = create(house, **{"async": True})
        house.idle()
        assert records(house.get(user)["user"]) == ["r1"]


def test_a_client_that_is_gone_is_not_registered(served, town, gated):
    """It may have asked again."""
    with served(config=replace(QUICK, scans=1), scan_wait_s=25) as house, ThreadPoolExecutor(1) as callers:
        first = callers.submit(create, house)
        reached(town, 1)
        with pytest.raises(httpx.ReadTimeout):
            house.call("POST", "/users", json=JUNIPER, timeout=0.3)
        gated.search.go.set()
        assert records(first.result(20)) == ["r1"]
        assert records(create(house)) == ["r1"]
        assert len(house.rows(tables.users)) == 2


@pytest.mark.parametrize("async_value", [True, False], ids=["in the background", "during a request"])
def test_a_service_stopped_during_a_scan_releases_its_lease(served, gated, async_value):
    gate = gated.search
    with served(scan_wait_s=0.1) as house:
        user = create(house, **{"async": async_value})
        asyncio.run(gate.is_reached())
        [row] = house.rows(tables.users)
        assert row.lease is not None
    gate.go.set()
    gated.search = None
    [row] = house.rows(tables.users)
    assert (row.id, row.lease, row.lease_until) == (user["id"], None, None)
    assert row.due_at == house.clock.now()
    house.idle()
    assert [one.status for one in house.rows()] == ["pending removal"]


def test_the_lease_of_a_killed_service_expires(served, town):
    town.opens("Seekfolk", Folk([HERS]))
    with served(works=False) as house:
        create(house, **{"async": True})
        house.work(lambda work: leases.acquire(work, tables.users, limit=1, duration=timedelta(seconds=630)))
        house.idle()
        assert town.requests == []
        house.advance(seconds=629)
        assert town.requests == []
        house.advance(seconds=1)
        assert len(town.of("Seekfolk")) == 2
