"""Cached responses are never out of date, and never sent without authentication."""

import asyncio
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import insert, select, update
from support.services import LISTING, PAGE, SITE, a_service, at_work, json_body

from exposurekit.errors import ExposureError
from exposurekit.service.accounts import consent, integrators
from exposurekit.service.api.app import create_app
from exposurekit.service.api.cache import AGE_MAX_S, ResponseCache
from exposurekit.service.api.server import running
from exposurekit.service.findings import removals
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database

KIB = 1024


@contextmanager
def beside(service, **options):
    """Another web process with the same database."""
    url = service.database._url.render_as_string(hide_password=False)
    database = Database(url, vault=service.database.vault, clock=service.clock)
    with running(create_app(database, **options)) as base_url:
        yield replace(service, base_url=base_url, database=database)


@pytest.fixture(scope="module")
def second_process(service):
    with beside(service) as process:
        yield process


@pytest.fixture(scope="module")
def uncached(service):
    with beside(service, cache=ResponseCache(0)) as uncached:
        yield uncached


def response_of(service, user, path="", **params):
    response = service.call("GET", f"/users/{user['id']}{path}", user, params=params)
    return response.status_code, response.headers["content-type"], response.content


def status_of(service, user):
    return response_of(service, user)[0]


def listed(service, suffix="", **params):
    return service.call("GET", f"/users{suffix}", params=params).content


def test_an_unchanged_body_comes_from_the_cache(service):
    cache = ResponseCache()
    with beside(service, cache=cache) as cached:
        user = cached.create()
        for size in (1, 1):
            assert response_of(cached, user) == response_of(cached, user, ".json")
            assert len(cache) == size
        [key] = cache._bodies
        cache.put(key, b"from the cache")
        assert response_of(cached, user)[2] == b"from the cache"
        listed(cached, limit=3)
        assert len(cache) == 2


class Life:
    """One integrator's people and the events that happen to them, each in any of the processes."""

    def __init__(self, rng, processes):
        self.rng = rng
        self.processes = processes
        self.people = [processes[0].create() for _ in range(2)]
        self.purged = []

    @property
    def process(self):
        return self.rng.choice(self.processes)

    def step(self, event):
        """Let one event happen to someone."""
        EVENTS[event](self, self.rng.choice(self.people))

    def work(self, function, user, **options):
        with suppress(ExposureError):  # not possible in this state
            self.process.work(lambda work: function(work, user["id"], **options))

    def discover(self, user):
        listing = replace(LISTING, reference_id=str(self.rng.randrange(3)), age=self.rng.randrange(20, 90))
        self.work(discover_record, user, listing=listing, site=SITE)

    def link(self, user):
        page = replace(PAGE, url=f"https://{self.rng.randrange(2)}.example", title=str(self.rng.random()))
        self.work(discover_link, user, page=page)

    def purge(self, user):
        self.work(consent.purge, user)
        self.people.remove(user)
        self.purged.append(user)
        self.people.append(self.process.create())


def of_user(function, **options):
    return lambda life, user: life.work(function, user, **options)


def of_record(function, **options):
    def event(life, user):
        async def change(work, user_id):
            of_user = select(tables.records.c.id).where(tables.records.c.user_id == user_id)
            if ids := sorted(row.id for row in await work.all(of_user)):
                await function(work, life.rng.choice(ids), SITE, **options)

        life.work(change, user)

    return event


def flag(name):
    """As a scan does at its end: the version of the row is unchanged."""

    def event(life, user):
        row = update(tables.users).where(tables.users.c.id == user["id"])
        life.process.work(lambda work: work.run(row.values({name: life.rng.random() < 0.5})))

    return event


def change(**fields):
    def event(life, user):
        values = {name: value(life.rng) if callable(value) else value for name, value in fields.items()}
        life.process.update(user, **values)

    return event


EVENTS = {
    "rename": change(first_name=lambda rng: rng.choice(("Ann", "Bea", "Cleo"))),
    "append": change(emails=lambda rng: f"{rng.randrange(10**6)}@x.example", birth_date=1),
    "clear": change(emails="", middle_name=lambda rng: rng.choice(("", "Q."))),
    "discover": Life.discover,
    "link": Life.link,
    "submit": of_record(removals.submit_removal),
    "verify": of_record(removals.verify_removal, absent=True),
    "refuse": of_record(removals.refuse_removal),
    "activate": of_user(consent.activate),
    "deactivate": of_user(consent.deactivate),
    "consent": of_user(consent.consent, granted_by="themselves"),
    "withdraw": of_user(consent.withdraw, withdrawn_by="themselves"),
    "scan": flag("is_scanning"),
    "identify": flag("identification_on_file"),
    "purge": Life.purge,
}


@pytest.mark.parametrize("seed", range(2))
def test_any_change_is_in_the_next_response_of_every_process(service, second_process, uncached, seed):
    """A service that caches responds, byte for byte, as one that does not."""
    rng = random.Random(seed)  # noqa: S311
    life = Life(rng, [service, second_process])
    for _ in range(20):
        life.step(rng.choice((*EVENTS, "discover", "verify")))
        for user in [*life.people[-2:], *life.purged[-1:]]:
            suffix = rng.choice(("", ".json", ".xml"))
            responses = [response_of(one, user, suffix) for one in (service, second_process, uncached)]
            assert len(set(responses)) == 1
            assert responses[0][0] == (401 if user in life.purged else 200)
        bounds = {"limit": rng.choice((1, 3, 1000)), "offset": rng.choice((0, 1, 10**6))}
        pages = {listed(process, suffix, **bounds) for process in (service, second_process, uncached)}
        assert len(pages) == 1


@pytest.mark.parametrize("event", EVENTS)
def test_each_change_is_in_the_next_response(service, second_process, uncached, event):
    """The same for one kind of event and one person, whom both processes have cached."""
    life = Life(random.Random(7), [service])  # noqa: S311
    user = life.people[0]
    life.people = [user]
    life.step("discover")
    for _ in range(2):
        for process in (service, second_process):
            assert response_of(process, user) == response_of(process, user)
        life.step(event)
        for process in (service, second_process):
            assert response_of(process, user) == response_of(uncached, user)
        if life.purged:
            return


def test_a_purged_user_is_unauthorized_and_unlisted_at_once(service, second_process):
    user = service.create()
    for process in (service, second_process):
        assert status_of(process, user) == 200
        assert user["secret"].encode() in listed(process, limit=1000)
    service.work(lambda work: consent.purge(work, user["id"]))
    for process in (service, second_process):
        assert status_of(process, user) == 401
        assert user["secret"].encode() not in listed(process, limit=1000)


def test_a_cached_user_requires_the_right_credentials(service):
    other = at_work(service.database, lambda work: integrators.add(work, "another"))
    user = service.create()
    assert status_of(service, user) == 200
    assert status_of(service, user | {"secret": "1" * 18}) == 401
    assert status_of(replace(service, credentials=other), user) == 401
    wrong = replace(service, credentials=replace(service.credentials, api_secret="wrong"))
    assert status_of(wrong, user) == wrong.call("GET", "/users").status_code == 401
    assert json_body(replace(service, credentials=other).call("GET", "/users"))["users"] == []
    assert status_of(service, user) == 200


def test_rotated_credentials_are_rejected_at_once(store, tmp_path):
    with a_service(tmp_path) as service:
        user = service.create()
        assert status_of(service, user) == 200
        page = listed(service)
        new = service.work(lambda work: integrators.rotate(work, "acme"))
        assert status_of(service, user) == service.call("GET", "/users").status_code == 401
        renewed = replace(service, credentials=new)
        assert status_of(renewed, user) == 200
        assert listed(renewed) == page


def test_a_lower_id_committed_late_is_listed(store, tmp_path):
    """As with concurrent registrations on PostgreSQL: the count and highest id stay the same."""
    with a_service(tmp_path) as service:
        first, late, last = (service.create() for _ in range(3))

        async def unregister(work):
            row = await work.first(select(tables.users).where(tables.users.c.id == late["id"]))
            await consent.purge(work, late["id"])
            return dict(row._mapping)

        row = service.work(unregister)
        users = json_body(service.call("GET", "/users"))["users"]
        assert [user["id"] for user in users] == [first["id"], last["id"]]

        async def swap(work):
            await consent.purge(work, first["id"])
            await work.add(insert(tables.users), row)

        service.work(swap)
        assert json_body(service.call("GET", "/users"))["users"] == [
            {"id": user["id"], "secret": user["secret"]} for user in (late, last)
        ]


class Late(ResponseCache):
    """Calls a function after the lookup and before the body is read."""

    event = None

    def get(self, key):
        body = super().get(key)
        if self.event:
            event, self.event = self.event, None
            event()
        return body


def test_a_change_during_a_request_is_in_the_next_response(service, uncached):
    """The cache key was read in the same transaction as the body."""
    user, cache = service.create(), Late()
    before = response_of(uncached, user)

    def change():
        with ThreadPoolExecutor() as pool:
            discover = partial(discover_record, user_id=user["id"], listing=LISTING, site=SITE)
            pool.submit(at_work, service.database, discover).result()

    with beside(service, cache=cache) as cached:
        cache.event = change
        assert response_of(cached, user) == before
        assert cache.event is None
        assert response_of(cached, user) == response_of(uncached, user) != before


def test_the_cache_stays_within_its_size():
    """Small bodies count with their keys."""
    cache = ResponseCache(64 * KIB)
    for number in range(200):
        cache.put(number, b"x" * 3 * KIB)
        assert cache.size <= 64 * KIB
    assert (cache.get(199), cache.get(0)) == (b"x" * 3 * KIB, None)
    for number in range(1000):
        cache.put(number, b"")
    assert len(cache) < 128


def test_the_least_recently_used_body_is_deleted_first():
    cache = ResponseCache(16 * KIB)
    for number in range(10):
        cache.put(number, b"x" * 400)
    cache.put("used", b"y")
    for number in range(100):
        cache.put(("more", number), b"x" * 400)
        assert cache.get("used") == b"y"
    assert cache.get(0) is None


def test_a_body_that_would_displace_many_others_is_not_cached():
    cache = ResponseCache(64 * KIB)
    cache.put("small", b"x")
    cache.put("large", b"x" * 4 * KIB)
    assert (cache.get("large"), cache.get("small")) == (None, b"x")


async def delete_expired(cache):
    task = asyncio.create_task(cache.delete_expired(every_s=0))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_an_expired_body_is_deleted_even_if_unused():
    now = 0.0
    caches = [ResponseCache(clock=lambda: now) for _ in range(2)]
    body = bytes(100)
    references = sys.getrefcount(body)
    caches[0].put("a", b"x")
    caches[1].put("a", body)
    now = AGE_MAX_S - 1
    asyncio.run(delete_expired(caches[1]))
    assert sys.getrefcount(body) > references
    assert caches[0].get("a") == b"x"
    now = AGE_MAX_S + 1
    assert caches[0].get("a") is None
    asyncio.run(delete_expired(caches[1]))
    assert sys.getrefcount(body) == references


def test_a_cache_of_size_zero_is_disabled():
    cache = ResponseCache(0)
    assert not cache.enabled
    cache.put("a", b"x")
    assert (cache.get("a"), len(cache)) == (None, 0)


def test_no_repr_contains_a_cached_body():
    cache = ResponseCache()
    cache.put(("canary", 7), b"canary")
    assert "canary" not in f"{cache!r} {cache}"


def test_the_cache_is_empty_after_the_service_stops(store, tmp_path):
    cache = ResponseCache()
    with a_service(tmp_path, cache=cache) as service:
        response_of(service, service.create())
        assert len(cache) == 1
    assert cache.size == len(cache) == 0
