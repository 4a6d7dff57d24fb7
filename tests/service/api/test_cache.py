"""What is remembered is never told when it is no longer so, and never to anybody whom the gate does not let in."""

import asyncio
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import insert, select, update
from support.services import LISTING, PAGE, SITE, a_service, at_work, json_body

from exposurekit.errors import ExposureError
from exposurekit.service.accounts import consent as accounts_consent
from exposurekit.service.accounts import integrators
from exposurekit.service.api.app import create_app
from exposurekit.service.api.cache import AGE_MAX_S, ResponseCache
from exposurekit.service.api.server import running
from exposurekit.service.findings import removals
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database

ENCODINGS = ("json", "xml")
KIB = 1024


@contextmanager
def beside(service, **options):
    """Another web process on the same database."""
    url = service.database._url.render_as_string(hide_password=False)
    database = Database(url, vault=service.database.vault, clock=service.clock)
    with running(create_app(database, **options)) as base_url:
        yield replace(service, base_url=base_url, database=database)


@pytest.fixture(scope="module")
def second_process(service):
    with beside(service) as process:
        yield process


@pytest.fixture(scope="module")
def forgetful(service):
    with beside(service, cache=ResponseCache(0)) as forgetful:
        yield forgetful


def response_of(service, user, path="", **params):
    """One answer, as it came."""
    answer = service.call("GET", f"/users/{user['id']}{path}", user, params=params)
    return answer.status_code, answer.headers["content-type"], answer.content


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


def test_each_encoding_is_remembered_apart(service, forgetful):
    user = service.create()
    for encoding in ENCODINGS * 2:
        assert response_of(service, user, f".{encoding}") == response_of(forgetful, user, f".{encoding}")
        assert listed(service, f".{encoding}") == listed(forgetful, f".{encoding}")


class Life:
    """One integrator's people, and what may happen to them; each step in any of the processes."""

    def __init__(self, rng, processes):
        self.rng = rng
        self.processes = processes
        self.people = [processes[0].create() for _ in range(2)]
        self.gone = []

    @property
    def process(self):
        return self.rng.choice(self.processes)

    @property
    def someone(self):
        return self.rng.choice(self.people)

    def work(self, function):
        try:
            self.process.work(function)
        except ExposureError:
            return  # a step that this record is not at

    def of_a_record(self, function):
        user_id = self.someone["id"]

        async def stepped(work):
            of = select(tables.records.c.id).where(tables.records.c.user_id == user_id)
            ids = sorted(row.id for row in await work.all(of))
            if ids:
                await function(work, self.rng.choice(ids))

        self.work(stepped)

    def flag(self, **flags):
        """As the end of a scan does: the version stays."""
        user_id = self.someone["id"]
        row = update(tables.users).where(tables.users.c.id == user_id).values(**flags)
        self.process.work(lambda work: work.run(row))

    def rename(self):
        self.process.update(self.someone, first_name=self.rng.choice(("Ann", "Bea", "Cleo")))

    def append(self):
        self.process.update(self.someone, emails=f"{self.rng.randrange(10**6)}@x.example", birth_date=1)

    def clear(self):
        self.process.update(self.someone, emails="", middle_name=self.rng.choice(("", "Q.")))

    def find(self):
        user_id = self.someone["id"]
        listing = replace(LISTING, reference_id=str(self.rng.randrange(3)), age=self.rng.randrange(20, 90))
        self.work(lambda work: discover_record(work, user_id, listing, SITE))

    def link(self):
        user_id = self.someone["id"]
        page = replace(PAGE, url=f"https://{self.rng.randrange(2)}.example", title=str(self.rng.random()))
        self.work(lambda work: discover_link(work, user_id, page))

    def submit(self):
        self.of_a_record(lambda work, record_id: removals.submit_removal(work, record_id, SITE))

    def verify(self):
        self.of_a_record(lambda work, record_id: removals.verify_removal(work, record_id, SITE, absent=True))

    def refuse(self):
        self.of_a_record(lambda work, record_id: removals.refuse_removal(work, record_id, SITE))

    def activate(self):
        user_id = self.someone["id"]
        self.work(lambda work: accounts_consent.activate(work, user_id))

    def deactivate(self):
        user_id = self.someone["id"]
        self.work(lambda work: accounts_consent.deactivate(work, user_id))

    def consent(self):
        user_id = self.someone["id"]
        self.work(lambda work: accounts_consent.consent(work, user_id, granted_by="themselves"))

    def withdraw(self):
        user_id = self.someone["id"]
        self.work(lambda work: accounts_consent.withdraw(work, user_id, withdrawn_by="themselves"))

    def scan(self):
        self.flag(is_scanning=self.rng.random() < 0.5)

    def identify(self):
        self.flag(identification_on_file=self.rng.random() < 0.5)

    def register(self):
        self.people.append(self.process.create())

    def purge(self):
        gone = self.someone
        self.work(lambda work: accounts_consent.purge(work, gone["id"]))
        self.people.remove(gone)
        self.gone.append(gone)
        self.register()

    STEPS = (
        *(rename, append, clear, find, find, link, submit, verify, verify, refuse, activate, deactivate),
        *(consent, withdraw, scan, identify, register, purge),
    )


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_is_shown_at_once_by_every_process(service, second_process, forgetful, seed):
    """A service that remembers answers, byte for byte, as one that does not."""
    rng = random.Random(seed)  # noqa: S311
    life = Life(rng, [service, second_process])
    for _ in range(40):
        rng.choice(Life.STEPS)(life)
        for user in [*life.people[-3:], *life.gone[-1:]]:
            suffix = rng.choice(("", ".json", ".xml"))
            responses = {
                process.base_url: response_of(process, user, suffix)
                for process in (service, second_process, forgetful)
            }
            assert len(set(responses.values())) == 1
            assert responses[service.base_url][0] == (401 if user in life.gone else 200)
        bounds = {"limit": rng.choice((1, 3, 1000)), "offset": rng.choice((0, 1, 10**6))}
        assert len({listed(process, **bounds) for process in (service, second_process, forgetful)}) == 1


@pytest.mark.parametrize("step", [step for step in dict.fromkeys(Life.STEPS) if step is not Life.register])
def test_each_thing_that_happens_is_shown_at_once(service, second_process, forgetful, step):
    """The same, of one step after another for one person, whom both processes remember."""
    life = Life(random.Random(7), [service])  # noqa: S311
    user = life.people[0]
    life.people = [user]
    life.find()
    for _ in range(3):
        for process in (service, second_process):
            assert response_of(process, user) == response_of(process, user)
        step(life)
        for process in (service, second_process):
            assert response_of(process, user) == response_of(forgetful, user)
        if life.gone:
            return


def test_a_purged_person_is_refused_and_unlisted_at_once(service, second_process):
    user = service.create()
    for process in (service, second_process):
        assert response_of(process, user)[0] == 200
        assert user["secret"].encode() in listed(process, limit=1000)
    service.work(lambda work: accounts_consent.purge(work, user["id"]))
    for process in (service, second_process):
        assert response_of(process, user)[0] == 401
        assert user["secret"].encode() not in listed(process, limit=1000)


def test_a_remembered_person_is_shown_to_nobody_with_other_credentials(service):
    other = at_work(service.database, lambda work: integrators.add(work, "another"))
    user = service.create()
    assert response_of(service, user)[0] == 200
    assert response_of(service, user | {"secret": "1" * 18})[0] == 401
    assert response_of(replace(service, credentials=other), user)[0] == 401
    wrong = replace(service, credentials=replace(service.credentials, api_secret="wrong"))
    assert response_of(wrong, user)[0] == 401
    assert wrong.call("GET", "/users").status_code == 401
    assert json_body(replace(service, credentials=other).call("GET", "/users"))["users"] == []
    assert response_of(service, user)[0] == 200


def test_rotated_credentials_are_refused_at_once(store, tmp_path):
    with a_service(tmp_path) as service:
        user = service.create()
        assert response_of(service, user)[0] == 200
        page = listed(service)
        new = service.work(lambda work: integrators.rotate(work, "acme"))
        assert response_of(service, user)[0] == 401
        assert service.call("GET", "/users").status_code == 401
        renewed = replace(service, credentials=new)
        assert response_of(renewed, user)[0] == 200
        assert listed(renewed) == page


def test_a_lower_id_that_is_committed_late_is_listed(store, tmp_path):
    """Two registrations at once on PostgreSQL: count and highest id are the same, the people are not."""
    with a_service(tmp_path) as service:
        first, late, last = (service.create() for _ in range(3))

        async def unregister(work):
            row = await work.first(select(tables.users).where(tables.users.c.id == late["id"]))
            await accounts_consent.purge(work, late["id"])
            return dict(row._mapping)

        row = service.work(unregister)
        assert [user["id"] for user in json_body(service.call("GET", "/users"))["users"]] == [
            first["id"],
            last["id"],
        ]

        async def swap(work):
            await accounts_consent.purge(work, first["id"])
            await work.add(insert(tables.users), row)

        service.work(swap)
        assert json_body(service.call("GET", "/users"))["users"] == [
            {"id": user["id"], "secret": user["secret"]} for user in (late, last)
        ]


class Late(ResponseCache):
    """Something happens after the lookup and before the body is read."""

    event = None

    def get(self, key):
        body = super().get(key)
        if self.event:
            event, self.event = self.event, None
            event()
        return body


def test_a_change_during_a_request_is_in_the_next_response(service, forgetful):
    """The state that a body is cached under was read in the same transaction as the body."""
    user, cache = service.create(), Late()
    before = response_of(forgetful, user)

    async def change(work):
        await discover_record(work, user["id"], LISTING, SITE)

    def changed():
        with ThreadPoolExecutor() as pool:
            pool.submit(at_work, service.database, change).result()

    with beside(service, cache=cache) as cached:
        cache.event = changed
        assert response_of(cached, user) == before
        assert cache.event is None
        assert response_of(cached, user) == response_of(forgetful, user) != before


class Hand:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_no_more_is_kept_than_there_is_room_for():
    cache = ResponseCache(64 * KIB)
    for number in range(200):
        cache.put(number, b"x" * 3 * KIB)
        assert cache.size <= 64 * KIB
    assert cache.get(199) == b"x" * 3 * KIB
    assert cache.get(0) is None


def test_small_bodies_do_not_outgrow_the_room_by_their_keys():
    cache = ResponseCache(64 * KIB)
    for number in range(1000):
        cache.put(number, b"")
    assert len(cache) < 128


def test_what_was_asked_least_recently_goes_first():
    cache = ResponseCache(16 * KIB)
    for number in range(10):
        cache.put(number, b"x" * 400)
        cache.put("asked", b"y") if not number else cache.get("asked")
    for number in range(100):
        cache.put(("more", number), b"x" * 400)
        assert cache.get("asked") == b"y"
    assert cache.get(0) is None


def test_a_body_that_would_crowd_out_others_is_not_cached():
    cache = ResponseCache(64 * KIB)
    cache.put("small", b"x")
    cache.put("large", b"x" * 4 * KIB)
    assert cache.get("large") is None
    assert cache.get("small") == b"x"


def test_what_is_old_is_forgotten_even_if_it_is_asked():
    hand = Hand()
    cache = ResponseCache(clock=hand)
    cache.put("a", b"x")
    hand.now = AGE_MAX_S - 1
    assert cache.get("a") == b"x"
    hand.now = AGE_MAX_S + 1
    assert cache.get("a") is None


async def tidied(cache):
    task = asyncio.create_task(cache.delete_expired(every_s=0.001))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_what_is_old_is_let_go_while_nobody_asks():
    hand = Hand()
    cache = ResponseCache(clock=hand)
    body = bytes(100)
    alone = sys.getrefcount(body)
    cache.put("a", body)
    asyncio.run(tidied(cache))
    assert sys.getrefcount(body) > alone
    hand.now = AGE_MAX_S + 1
    asyncio.run(tidied(cache))
    assert sys.getrefcount(body) == alone


def test_nothing_is_kept_without_room():
    cache = ResponseCache(0)
    assert not cache.enabled
    cache.put("a", b"x")
    assert (cache.get("a"), len(cache)) == (None, 0)


def test_a_memory_shows_nothing():
    cache = ResponseCache()
    cache.put(("canary", 7), b"canary")
    assert "canary" not in f"{cache!r} {cache}"


def test_everything_is_forgotten_when_the_service_ends(store, tmp_path):
    cache = ResponseCache()
    with a_service(tmp_path, cache=cache) as service:
        response_of(service, service.create())
        assert len(cache) == 1
    assert cache.size == len(cache) == 0
