"""Requests in turn: who has been charged least is next, and a large request is no obstacle for a small one."""

import asyncio
import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest
from support.services import JANE, a_database, in_event_loop, opened, tasks_rest

from exposurekit.service.accounts import integrators
from exposurekit.service.api.app import create_app
from exposurekit.service.api.turns import Turns
from exposurekit.service.clock import FrozenClock
from exposurekit.service.errors import ApiError

COSTLY, CHEAP = timedelta(seconds=0.02), timedelta(seconds=0.0001)
LONG = "x" * 200
LARGE = {
    "aliases": [{"first_name": LONG, "last_name": LONG} for _ in range(99)],
    "addresses": [{"address1": LONG, "city": "Oak", "state": "CA"} for _ in range(99)],
}

ALTERED = {"aliases": "last_name", "addresses": "address1"}


@pytest.fixture
def done():
    """The names of the requests, in the order in which they ended."""
    return []


@pytest.fixture
def clock():
    """Advanced by a request as far as it occupies the event loop."""
    return FrozenClock(datetime(2026, 3, 1, tzinfo=UTC))


@pytest.fixture
def timer(clock):
    return lambda: clock.now().timestamp()


def request(turns, done, client, name, *, work=lambda: None, body_bytes=0):
    async def handle(_):
        work()
        await asyncio.sleep(0)
        done.append(name)
        return name

    return asyncio.create_task(turns.take(client, handle, body_bytes=body_bytes))


@in_event_loop
async def test_the_client_charged_least_is_next(done, clock, timer):
    turns = Turns(slots=1, timer=timer)
    costly = [request(turns, done, "acme", f"a{n}", work=partial(clock.advance, COSTLY)) for n in range(3)]
    cheap = [request(turns, done, "beta", f"b{n}", work=partial(clock.advance, CHEAP)) for n in range(3)]
    assert await asyncio.gather(*costly, *cheap) == ["a0", "a1", "a2", "b0", "b1", "b2"]
    assert done == ["a0", "b0", "b1", "b2", "a1", "a2"]


@in_event_loop
async def test_time_without_requests_is_not_saved_up(done, clock, timer):
    turns, work = Turns(slots=1, timer=timer), partial(clock.advance, COSTLY)
    costly = [request(turns, done, "acme", f"a{n}", work=work) for n in range(6)]
    await costly[2]
    newer = [request(turns, done, "beta", f"b{n}", work=work) for n in range(2)]
    await asyncio.gather(*costly, *newer)
    assert done[:3] == ["a0", "a1", "a2"]
    assert done.index("b1") > done.index("a4")  # in turn, though beta had been charged nothing before


@pytest.mark.parametrize("names", ["other clients", "new names"])
@in_event_loop
async def test_nobody_starves_whoever_else_returns(names, clock, timer):
    """Clients without requests in between, and a name that is another one in each request."""
    turns, counts, is_over = Turns(slots=4, timer=timer), Counter(), asyncio.Event()

    async def work(_):
        clock.advance(CHEAP)
        await asyncio.sleep(0)

    async def repeat(client):
        for number in itertools.count():
            if counts.total() > 2_000:
                is_over.set()
                return
            name = client if client == "acme" or names == "other clients" else f"{client} {number}"
            await turns.take(name, work)
            counts[client] += 1

    clients = [asyncio.create_task(repeat(name)) for name in (*["acme"] * 4, *map(str, range(24)))]
    await is_over.wait()
    await asyncio.gather(*clients)
    assert counts["acme"] > sum(counts.values()) / 50  # its share is 1/25


@in_event_loop
async def test_a_client_has_only_its_slots(done):
    turns, gate = Turns(slots=4, slots_per_client=2), asyncio.Event()
    running = set()

    def waits(name):
        async def handle(_):
            running.add(name)
            await gate.wait()

        return asyncio.create_task(turns.take(name[0], handle))

    tasks = [waits(name) for name in ("a0", "a1", "a2", "b0")]
    await tasks_rest()
    assert running == {"a0", "a1", "b0"}
    gate.set()
    await asyncio.gather(*tasks)
    assert running == {"a0", "a1", "a2", "b0"}


@in_event_loop
async def test_a_client_writes_alone_and_then_another_does(done):
    turns, database = Turns(), asyncio.Lock()

    def write(name):
        async def handle(turn):
            async with turn.alone(), database:
                await asyncio.sleep(0)
            done.append(name)

        return asyncio.create_task(turns.take(name[0], handle))

    await asyncio.gather(*map(write, ("a0", "a1", "b0", "b1")))
    assert done == ["a0", "b0", "a1", "b1"]


@in_event_loop
async def test_while_a_client_writes_its_other_requests_rest(done):
    """If others have requests: one of those may wait for the write."""
    turns, gate = Turns(slots_per_client=4), asyncio.Event()

    async def write(turn):
        async with turn.alone():
            await gate.wait()
        done.append("write")

    def reads(name):
        async def read(_):
            try:
                await asyncio.sleep(0)
                done.append(name)
            finally:
                done.append(f"end of {name}")

        return asyncio.create_task(turns.take(name[0], read))

    writing = asyncio.create_task(turns.take("a", write))
    await asyncio.sleep(0)
    await reads("a0")  # nobody else has a request
    resting, given_up, following = reads("a1"), reads("a2"), reads("b0")
    await following
    other = asyncio.create_task(turns.take("b", lambda _: gate.wait()))
    await asyncio.sleep(0)
    never_begun = reads("a3")
    await asyncio.sleep(0)
    for one in (given_up, never_begun):
        one.cancel()
    await asyncio.wait([given_up, never_begun])
    assert done == ["a0", "end of a0", "b0", "end of b0", "end of a2"]
    gate.set()
    await asyncio.gather(writing, resting, other)
    assert done[5:] == ["write", "a1", "end of a1"]


@in_event_loop
async def test_a_request_set_aside_leaves_its_slot(done):
    turns, gate = Turns(slots=1), asyncio.Event()

    async def waits_for_its_scan(turn):
        async with turn.set_aside():
            await gate.wait()
        done.append("scanned")

    scanned = asyncio.create_task(turns.take("acme", waits_for_its_scan))
    await request(turns, done, "acme", "other")
    gate.set()
    await scanned
    await request(turns, done, "acme", "last")
    assert done == ["other", "scanned", "last"]


@pytest.mark.parametrize("is_started", [True, False])
@in_event_loop
async def test_a_cancelled_request_leaves_its_slot(done, is_started):
    turns, gate = Turns(slots=1), asyncio.Event()

    async def wait(_):
        await gate.wait()

    first = asyncio.create_task(turns.take("acme", wait))
    second = request(turns, done, "acme", "second")
    await asyncio.sleep(0)
    gone = first if is_started else second
    gone.cancel()
    gate.set()
    await asyncio.gather(first, second, return_exceptions=True)
    assert gone.cancelled()
    assert await request(turns, done, "beta", "third") == "third"


@in_event_loop
async def test_the_bodies_of_one_client_are_limited(done):
    turns = Turns(slots=1, bodies_max=1_000)
    tasks = [request(turns, done, "acme", f"a{n}", body_bytes=400) for n in range(3)]
    tasks.append(request(turns, done, "beta", "b0", body_bytes=2_000))  # one alone is never too large
    *answers, refusal = await asyncio.gather(*tasks[:2], tasks[3], tasks[2], return_exceptions=True)
    assert answers == ["a0", "a1", "b0"]
    assert isinstance(refusal, ApiError)
    assert (refusal.status, refusal.retry_after_s) == (503, 5)
    assert await request(turns, done, "acme", "again", body_bytes=900) == "again"


@in_event_loop
async def test_small_requests_pass_many_large_ones(tmp_path):
    """A large person is written twenty times when another integrator asks for its users."""
    database = a_database(tmp_path)
    app = create_app(database)
    async with opened(database):
        async with database.writing() as session:
            acme, beta = [await integrators.add(session, name) for name in ("acme", "beta")]
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service.example") as http:
            ended = []

            async def call(credentials, method, path, **options):
                root = f"/api/{credentials.integration_name}/{credentials.api_key}/v2"
                query = {"api_secret": credentials.api_secret, **options.pop("params", {})}
                response = await http.request(method, root + path, params=query, **options)
                assert response.status_code == 200, response.text
                ended.append(credentials.integration_name)
                return response.json()

            user = (await call(acme, "POST", "/users", json=JANE))["user"]
            path, secret = f"/users/{user['id']}", {"secret": user["secret"]}
            large = (await call(acme, "PUT", path, params=secret, json=LARGE))["user"]
            ended.clear()
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    lists = {
                        name: [item | {ALTERED[name]: f"{number}"} for item in large[name]] for name in LARGE
                    }
                    group.create_task(call(acme, "PUT", path, params=secret, json=lists))
                await asyncio.sleep(0.01)
                group.create_task(call(beta, "GET", "/users"))
            assert ended.index("beta") <= 3
