"""The outbox: what is delivered to an integrator, when and how often; nothing is lost or delivered twice.

A real receiver on loopback, a real worker, a clock that the tests advance.
"""

import asyncio
import gzip
import logging
import random
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest
from sqlalchemy import func, select, text
from standardwebhooks import Webhook, WebhookVerificationError
from support.services import LISTING, PAGE, SITE, START, a_database, opened
from support.small_web import LOOPBACK, raw_site

from exposurekit.contract.webhooks import GROUPING_WINDOW, Delivery
from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent, integrators, users
from exposurekit.service.api import openapi
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.findings.removals import submit_removal, verify_removal
from exposurekit.service.http.client import HttpClient
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.scan import ScanContext
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.storage.leases import LeaseLost
from exposurekit.service.webhooks import delivery, endpoints, outbox
from exposurekit.service.webhooks.delivery import ATTEMPT_S
from exposurekit.service.webhooks.endpoints import Callback, new_secret, validate_secret
from exposurekit.service.worker import Worker, WorkerConfig

WINDOW_S = 600
ATTEMPTS_AFTER_S = (WINDOW_S, 60, 300, 1800)
HANG, CLOSE = "hang", "close"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAILED = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
SECRET = "whsec_" + "cGxhaW5seSBpbnZlbnRlZCwgb2YgMzIgYnl0ZXMuLi4="


def status(code, *headers, body=b""):
    lines = (f"HTTP/1.1 {code} So", *headers, *(() if code == 204 else (f"Content-Length: {len(body)}",)))
    return "\r\n".join((*lines, "", "")).encode() + body


class Receiver:
    """An integrator's endpoint: responds with `answers` in order, then always with `always`."""

    def __init__(self):
        self.answers, self.always, self.on_request = [], OK, None
        self.together = 0  # no response before so many requests
        self._enough = asyncio.Event()

    @asynccontextmanager
    async def listening(self):
        async with raw_site(self._answer) as self._site:
            yield

    @property
    def got(self):
        return self._site.got

    def url(self, path="/hook"):
        return self._site.url(path)

    async def _answer(self, _request):
        if self.on_request:
            self.on_request()
        if len(self.got) >= self.together:
            self._enough.set()
        await self._enough.wait()
        answer = self.answers.pop(0) if self.answers else self.always
        if answer == HANG:
            await asyncio.Event().wait()
        if answer != CLOSE:
            yield answer


class Post:
    """A service without its HTTP API: a database, a clock, a worker, an integrator and its receiver."""

    def __init__(self, runner, directory, clock):
        self.runner, self.directory, self.clock = runner, directory, clock
        self.key = Vault.generate_key()
        self.receiver = Receiver()
        self._stack = AsyncExitStack()
        self._enter(self.receiver.listening())
        self.database = self.another_database()
        self.worker = self.another_worker()
        self.integrator("acme", Callback(self.receiver.url(), SECRET))

    def run(self, work):
        return self.runner.run(work)

    def _enter(self, context):
        return self.run(self._stack.enter_async_context(context))

    def close(self):
        self.run(self._stack.aclose())

    def another_database(self):
        return self._enter(opened(a_database(self.directory, key=self.key, clock=self.clock)))

    def another_worker(self, *, database=None, http=None, config=None):
        database = database or self.database
        context = ScanContext(database, {}, PoliteFetcher(HttpClient(), database))
        return Worker(context, http or HttpClient(allowed_networks=LOOPBACK), config=config)

    def write(self, function, *arguments, **named):
        async def write():
            async with self.database.writing() as work:
                return await function(work, *arguments, **named)

        return self.run(write())

    def rows(self, statement):
        async def rows(work):
            return await work.all(statement)

        return self.write(rows)

    def integrator(self, name, callback=None):
        self.write(integrators.add, name)
        self.call_back(callback, name)

    def call_back(self, callback, name="acme"):
        self.write(endpoints.set_callback, name, callback)

    def person(self, integrator="acme"):
        [owner] = self.rows(select(tables.integrators.c.id).where(tables.integrators.c.name == integrator))
        return self.write(users.create, owner.id, {"first_name": "Jane", "last_name": "Doe"}).id

    def find(self, user_id, reference="1", **fields):
        return self.write(discover_record, user_id, replace(LISTING, reference_id=reference, **fields), SITE)

    def remove(self, record_id):
        self.write(submit_removal, record_id, SITE)
        self.verify_removal(record_id)

    def verify_removal(self, record_id):
        for _ in range(2):
            self.write(verify_removal, record_id, SITE, absent=True)

    def link(self, user_id, **fields):
        return self.write(discover_link, user_id, replace(PAGE, **fields))

    def later(self, seconds):
        self.clock.advance(timedelta(seconds=seconds))

    def work(self, worker=None):
        """Do what is due. Return the number of new requests."""
        before = len(self.receiver.got)
        self.run((worker or self.worker).run_until_idle())
        return len(self.receiver.got) - before

    def close_windows(self):
        """Let the open windows end, and do what is due. Return the number of new requests."""
        self.later(WINDOW_S)
        return self.work()

    def make_all_attempts(self):
        for seconds in ATTEMPTS_AFTER_S:
            self.later(seconds)
            self.work()

    def lease(self, seconds=30):
        """Lease the only delivery, whose window has just ended."""
        self.later(WINDOW_S)
        [lease] = self.write(leases.acquire, tables.deliveries, limit=1, duration=timedelta(seconds=seconds))
        return lease

    def interrupt(self, coroutine):
        """Cancel it as soon as the receiver, which never responds, has the request."""
        arrived = asyncio.Event()
        self.receiver.answers = [HANG]
        self.receiver.on_request = arrived.set

        async def interrupted():
            task = asyncio.create_task(coroutine)
            await arrived.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.run(interrupted())

    def deliveries(self, **options):
        return self.write(outbox.all, **options)

    def die(self):
        """Let the only delivery fail until it is dead."""
        self.receiver.always = FAILED
        self.make_all_attempts()
        self.receiver.always = OK
        [dead] = self.deliveries(state="dead")
        return dead


@pytest.fixture
def post(store, tmp_path):
    with asyncio.Runner() as runner:
        post = Post(runner, tmp_path, FrozenClock(START))
        yield post
        post.close()


@pytest.fixture
def jane(post):
    return post.person()


def records_in(got):
    return [item["record"]["reference_id"] for item in got.payload.get("discovered_records", [])]


@pytest.mark.parametrize("worker_first", [True, False])
def test_a_window_closes_ten_minutes_after_its_first_event(post, jane, worker_first):
    """Specification, "Delivery"; Not in the specification, "webhook grouping": the first event opens it."""
    post.find(jane, "1")
    assert post.run(post.worker.next_due()) == START + GROUPING_WINDOW
    post.later(599.999)
    post.find(jane, "2")
    assert post.work() == 0
    post.later(0.001)
    if worker_first:
        assert post.work() == 1
    post.find(jane, "3")
    post.work()
    assert [records_in(got) for got in post.receiver.got] == [["1", "2"]]
    post.later(599.999)
    assert post.work() == 0
    post.later(0.001)
    assert post.work() == 1
    assert records_in(post.receiver.got[1]) == ["3"]
    first, second = (got.headers["webhook-id"] for got in post.receiver.got)
    assert first != second
    assert post.run(post.worker.next_due()) is None


def test_an_event_closes_an_overdue_window_and_freezes_its_body(post, jane):
    record_id = post.find(jane, name="Jane Doe")
    post.later(3600)
    post.find(jane, "2")
    newer, older = post.deliveries()
    assert (older.state, older.opened_at) == ("pending", START)
    assert (newer.state, newer.opened_at) == ("open", START + timedelta(hours=1))
    post.find(jane, name="Janet Doe-Smith")
    post.remove(record_id)
    assert post.work() == 1
    assert post.close_windows() == 1
    first, second = post.receiver.got
    assert first.payload["events"] == ["discovered_records", "new_alerts"]
    assert first.payload["discovered_records"][0]["record"]["name"] == "Jane Doe"
    assert records_in(second) == ["2"]


def test_concurrent_events_of_two_connections_are_in_one_window(post, jane):
    other = post.another_database()

    async def find(database, reference):
        async with database.writing() as work:
            await discover_record(work, jane, replace(LISTING, reference_id=reference), SITE)

    async def at_once():
        await asyncio.gather(*(find((post.database, other)[n % 2], str(n)) for n in range(8)))

    post.run(at_once())
    assert [delivery.state for delivery in post.deliveries()] == ["open"]
    post.close_windows()
    [got] = post.receiver.got
    assert sorted(records_in(got)) == [str(n) for n in range(8)]


def windows_of(times):
    """An event ten minutes or more after the first of a window opens the next."""
    windows = []
    for at in times:
        if not windows or at - windows[-1][0] >= WINDOW_S:
            windows.append([])
        windows[-1].append(at)
    return windows


@pytest.mark.parametrize("seed", range(2))
def test_every_event_is_in_the_delivery_of_its_window(post, seed):
    """Where the specification is silent: "webhook grouping", with random events and random work."""
    chance = random.Random(seed)  # noqa: S311
    people = [post.person(), post.person()]
    happened = {user_id: {} for user_id in people}
    at = 0.0
    for number in range(40):
        seconds = chance.choice([0, 0.001, 59.999, 120, 299.5, 599.999, 600, 600.001, chance.uniform(0, 900)])
        post.later(seconds)
        at = (post.clock.now() - START).total_seconds()
        user_id = chance.choice(people)
        post.find(user_id, str(number))
        happened[user_id][str(number)] = at
        if chance.random() < 0.3:
            post.work()
    post.close_windows()
    for user_id, times in happened.items():
        posts = [got for got in post.receiver.got if got.payload["user_id"] == user_id]
        windows = [[times[one] for one in records_in(got)] for got in posts]
        assert sorted(windows) == windows_of(times.values())  # simultaneous ones come in any order
        assert [len(got.payload["new_alerts"]) for got in posts] == [len(window) for window in windows]
    columns = (tables.events.c.created_at, tables.deliveries.c.opened_at)
    rows = post.rows(select(*columns).select_from(tables.events.join(tables.deliveries)))
    assert len(rows) == 80
    assert all(row.opened_at <= row.created_at < row.opened_at + GROUPING_WINDOW for row in rows)


def test_a_delivery_is_dead_after_four_failed_attempts(post, jane):
    """Specification, "Delivery": after 60 seconds; if that fails, after 5 minutes; if that fails, after 30 minutes.

    Not in the specification, "webhook retries" and "webhook signature": one id and body, signed with each time.
    """
    post.receiver.always = FAILED
    post.find(jane)
    for seconds in ATTEMPTS_AFTER_S:
        post.later(seconds - 0.001)
        assert post.work() == 0
        post.later(0.001)
        assert post.work() == 1
    [dead] = post.deliveries(state="dead")
    assert (dead.integrator, dead.user_id, dead.attempts, dead.events) == ("acme", jane, 4, 2)
    assert (dead.due_at, dead.last_outcome, dead.opened_at) == (None, "status 500", START)
    post.later(86400 * 365)
    assert post.work() == 0
    attempts = post.rows(select(tables.attempts).order_by(tables.attempts.c.id))
    closed = START + GROUPING_WINDOW
    assert [(row.at - closed).total_seconds() for row in attempts] == [0, 60, 360, 2160]
    assert {(row.status, row.outcome) for row in attempts} == {(500, "status 500")}
    got = post.receiver.got
    assert len({one.body for one in got}) == 1
    assert {one.headers["webhook-id"] for one in got} == {dead.webhook_id}
    times = [int(one.headers["webhook-timestamp"]) - int(closed.timestamp()) for one in got]
    assert times == [0, 60, 360, 2160]
    signatures = [one.headers["webhook-signature"] for one in got]
    assert signatures == [signed(SECRET, one) for one in got]
    assert len({*signatures}) == 4


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_delivery_is_not_attempted_again_after_success(post, jane, failures):
    post.receiver.answers = [FAILED] * failures
    post.find(jane)
    post.make_all_attempts()
    post.later(86400)
    assert post.work() == 0
    assert len(post.receiver.got) == failures + 1
    [delivery] = post.deliveries(state="delivered")
    assert (delivery.attempts, delivery.due_at, delivery.last_outcome) == (failures + 1, None, "status 200")


def test_the_delay_counts_from_the_end_of_the_failed_attempt(post, jane):
    """Not in the specification, "webhook retries": from the failed attempt."""
    post.receiver.answers = [FAILED]
    post.receiver.on_request = lambda: post.later(7)
    post.find(jane)
    assert post.close_windows() == 1
    assert post.deliveries()[0].due_at == START + timedelta(seconds=WINDOW_S + 7 + 60)
    post.later(59.999)
    assert post.work() == 0
    post.later(0.001)
    assert post.work() == 1


@pytest.mark.parametrize("fails_again", [True, False])
def test_a_replayed_delivery_has_the_same_id_and_bytes(post, jane, fails_again):
    """Not in the specification, "webhook retries": replayable."""
    post.find(jane)
    dead = post.die()
    post.later(86400)
    post.write(outbox.replay, dead.webhook_id)
    post.receiver.always = FAILED if fails_again else OK
    assert post.work() == 1
    for seconds in (60, 300, 1800):
        post.later(seconds - 0.001)
        assert post.work() == 0
        post.later(0.001)
        assert post.work() == int(fails_again)
    [delivery] = post.deliveries()
    assert (delivery.state, delivery.attempts) == (("dead", 8) if fails_again else ("delivered", 5))
    assert len({(got.body, got.headers["webhook-id"]) for got in post.receiver.got}) == 1


def test_replay_all_replays_every_dead_delivery_and_no_other(post):
    people = [post.person() for _ in range(3)]
    post.receiver.always = FAILED
    for user_id in people[:2]:
        post.find(user_id)
    post.make_all_attempts()
    post.find(people[2])
    assert post.write(outbox.counts) == {"open": 1, "pending": 0, "delivered": 0, "dead": 2}
    post.receiver.always = OK
    assert post.write(outbox.replay_all) == 2
    assert post.work() == 2
    assert post.write(outbox.counts) == {"open": 1, "pending": 0, "delivered": 2, "dead": 0}
    assert post.write(outbox.replay_all) == 0


def test_without_a_callback_no_dead_delivery_is_replayed(post, jane):
    """It would fail again, and be called sent meanwhile."""
    post.find(jane)
    dead = post.die()
    post.call_back(None)
    assert post.write(outbox.replay_all) == 0
    with pytest.raises(ConfigurationError, match="has no callback: set one with exposurekit integrator"):
        post.write(outbox.replay, dead.webhook_id)
    assert post.write(outbox.counts)["dead"] == 1
    post.call_back(Callback(post.receiver.url("/back")))
    assert post.write(outbox.replay_all) == 1


@pytest.mark.parametrize("state", ["unknown", "open", "pending", "delivered", "replayed"])
def test_only_a_dead_delivery_is_replayed(post, jane, state):
    post.find(jane)
    webhook_id = post.deliveries()[0].webhook_id
    if state == "replayed":
        post.die()
        post.write(outbox.replay, webhook_id)
    elif state in {"pending", "delivered"}:
        post.receiver.answers = [FAILED] if state == "pending" else []
        post.close_windows()
    before = post.deliveries()
    with pytest.raises(ConfigurationError, match=r"^no dead delivery has this id[^\n]+$"):
        post.write(outbox.replay, "msg_0" if state == "unknown" else webhook_id)
    assert post.deliveries() == before


def test_events_after_the_window_change_no_retry(post, jane):
    """Not in the specification, "webhook grouping": every attempt sends the same bytes, whatever became of the events."""
    post.receiver.always = FAILED
    record_id = post.find(jane, name="Jane Doe")
    link = post.link(jane)
    post.close_windows()
    post.write(lambda work: work.run(tables.events.delete()))
    post.find(jane, name="Janet Doe-Smith", age=99)
    assert post.link(jane, title="Another title") == link
    post.remove(record_id)
    post.later(60)
    post.work()
    first, second = post.receiver.got
    assert second.body == first.body
    assert b"Janet" not in second.body
    post.receiver.always = OK
    post.close_windows()
    later = [got for got in post.receiver.got if got.headers["webhook-id"] != first.headers["webhook-id"]]
    assert [got.payload["events"] for got in later] == [["removed_records", "new_alerts"]]


SUCCESSES = {
    "status 200": status(200),
    "status 201": status(201, body=b"<html>created"),
    "status 204": status(204),
    "status 299": status(299),
    "status 202": status(202, "Connection: close"),
    "status 200, long": status(200, "Content-Type: text/html", body=b"<p>Thank you.</p>" * 10_000),
    "status 200, brotli": status(200, "Content-Encoding: br", body=b"\x0b\x02\x80ok\x03"),
    "status 200, truncated": status(200, "Content-Encoding: gzip", body=gzip.compress(b"ok", mtime=0)[:-1]),
}
FAILURES = {
    "status 300": status(300),
    **{f"status {code}": status(code, "Location: /elsewhere") for code in (301, 302, 303, 307, 308)},
    "status 400": status(400),
    "status 404": status(404, body=b"no such hook"),
    "status 410": status(410),
    "status 429": status(429, "Retry-After: 1"),
    "status 500": FAILED,
    "status 503": status(503, "Retry-After: 1"),
    "unreachable": CLOSE,
    "unreachable, truncated": b"HTTP/1.1 200 O",
    "unreadable": b"\x00\xff\x16\x03 garbage\r\n\r\n",
}


@pytest.mark.parametrize(
    ("outcome", "answer"), [*SUCCESSES.items(), *FAILURES.items()], ids=[*SUCCESSES, *FAILURES]
)
def test_any_2xx_is_success_and_any_other_response_fails(post, jane, outcome, answer):
    """Not in the specification, "webhook success": redirects not followed, bodies not read."""
    post.receiver.answers = [answer]
    post.find(jane)
    assert post.close_windows() == 1
    [delivery] = post.deliveries()
    assert delivery.last_outcome == outcome.partition(",")[0]
    retry_at = post.clock.now() + timedelta(seconds=60)
    expected = ("delivered", None) if outcome in SUCCESSES else ("pending", retry_at)
    assert (delivery.state, delivery.due_at) == expected
    assert {got.path for got in post.receiver.got} == {"/hook"}


class ImpatientClient(HttpClient):
    """Gives up after a tenth of a second; `timeout_s` is what the caller wanted."""

    timeout_s = 0.0

    async def fetch(self, url, **options):
        self.timeout_s = options["timeout_s"]
        return await super().fetch(url, **options | {"timeout_s": 0.1})


def test_a_slow_response_is_a_time_out(post, jane):
    """Not in the specification, "webhook success": within 15 s."""
    post.receiver.answers = [HANG]
    http_client = ImpatientClient(allowed_networks=LOOPBACK)
    post.find(jane)
    post.later(WINDOW_S)
    post.work(post.another_worker(http=http_client))
    [delivery] = post.deliveries()
    assert (delivery.state, delivery.last_outcome) == ("pending", "time-out")
    assert delivery.due_at == post.clock.now() + timedelta(seconds=60)
    assert http_client.timeout_s == ATTEMPT_S == 15


def test_a_forbidden_address_is_refused_without_a_connection(post, jane):
    """Not in the specification, "callback URL": global addresses only unless the operator opens a network."""
    post.find(jane)
    post.later(WINDOW_S)
    assert post.work(post.another_worker(http=HttpClient())) == 0
    [delivery] = post.deliveries()
    assert (delivery.state, delivery.last_outcome, delivery.attempts) == (
        "pending",
        "address refused: no --callback-network",
        1,
    )
    post.later(60)
    assert post.work() == 1
    assert post.deliveries()[0].state == "delivered"


def test_a_closed_port_is_unreachable(post, jane):
    post.call_back(Callback("http://127.0.0.1:1/nobody"))
    post.find(jane)
    post.close_windows()
    assert post.deliveries()[0].last_outcome == "unreachable"


def test_a_failing_integrator_delays_no_other(post, jane):
    post.integrator("zeta", Callback(post.receiver.url("/zeta")))
    other = post.person("zeta")
    post.call_back(Callback("http://127.0.0.1:1/nobody"))
    post.find(jane)
    post.find(other)
    assert post.close_windows() == 1
    assert post.receiver.got[0].payload["user_id"] == other


def test_an_interrupted_attempt_is_repeated_and_counts_once(post, jane):
    """When the lease of a worker that died ends, the same bytes are sent again."""
    post.find(jane)
    lease = post.lease(seconds=50)
    post.interrupt(delivery.deliver(post.database, HttpClient(allowed_networks=LOOPBACK), lease))
    [one] = post.deliveries()
    assert (one.state, one.attempts) == ("pending", 0)
    post.later(49.999)
    assert post.work() == 0
    post.later(0.001)
    assert post.work() == 1
    [one] = post.deliveries()
    assert (one.state, one.attempts) == ("delivered", 1)
    assert len({(got.body, got.headers["webhook-id"]) for got in post.receiver.got}) == 1


def test_a_stopped_worker_releases_its_delivery(post, jane):
    post.find(jane)
    post.later(WINDOW_S)
    post.interrupt(post.worker.run())
    assert post.work() == 1
    assert (post.deliveries()[0].state, post.deliveries()[0].attempts) == ("delivered", 1)


def test_a_worker_with_an_expired_lease_changes_nothing(post, jane):
    post.find(jane)
    late = post.lease()
    sent = post.write(outbox.prepare, late)
    post.later(30)
    post.work()
    before = post.deliveries()
    with pytest.raises(LeaseLost):
        post.write(outbox.prepare, late)
    with pytest.raises(LeaseLost):
        post.write(delivery.record_attempt, late, status=None, outcome="time-out")
    assert post.deliveries() == before
    assert (before[0].state, before[0].attempts) == ("delivered", 1)
    assert sent.body == post.receiver.got[0].body


def test_two_workers_on_one_database_deliver_each_webhook_once(post):
    people = [post.person() for _ in range(12)]
    for user_id in people:
        post.find(user_id)
    post.later(WINDOW_S)
    post.receiver.together = 4  # more than one worker delivers at once
    workers = [
        post.another_worker(database=post.another_database(), config=WorkerConfig(deliveries=3)) for _ in "12"
    ]

    async def at_once():
        return await asyncio.gather(*(worker.run_until_idle() for worker in workers))

    done = post.run(at_once())
    assert sum(done) == 12
    assert Counter(got.payload["user_id"] for got in post.receiver.got) == dict.fromkeys(people, 1)
    assert all(count > 0 for count in done)
    assert {(delivery.state, delivery.attempts) for delivery in post.deliveries()} == {("delivered", 1)}


def test_a_body_has_every_group_of_the_specification(post, jane):
    """Specification, "Body"."""
    removed = post.find(jane, "1", href=None)
    post.remove(removed)
    record_id = post.find(jane, "2")
    post.link(jane)
    post.close_windows()
    [got] = post.receiver.got
    assert (got.method, got.path, got.headers["content-type"]) == ("POST", "/hook", "application/json")
    payload = got.payload
    groups = ["discovered_records", "removed_records", "discovered_links", "new_alerts"]
    assert list(payload) == ["user_id", "events", *groups]
    assert (payload["user_id"], payload["events"]) == (jane, groups)
    shape = {"name": "Jane Q. Doe", "site": "People & Places", "age": 41, "reference_id": "2"}
    new = payload["discovered_records"][1]
    assert list(new) == ["record"]
    assert new["record"].items() >= (shape | {"id": record_id, "status": "discovered"}).items()
    assert "user_fields_required_for_removal" not in new["record"]
    [gone] = payload["removed_records"]
    assert list(gone) == ["record"]
    assert (gone["record"]["id"], gone["record"]["status"]) == (removed, "removed")
    assert payload["discovered_links"] == [{"url": "https://club.example/members", "title": "Members"}]
    for alert in payload["new_alerts"]:
        assert alert.keys() == {"text", "html", "guide", "opt_out_procedure", "source_type", "source"}
        assert list(alert["source"]) == [alert["source_type"]]
    assert [alert["text"].partition(":")[0] for alert in payload["new_alerts"]] == [
        *("New record", "Opt-out submitted", "Removal verified", "New record", "Exposure found")
    ]
    assert "user_fields_required_for_removal" not in got.body.decode()
    Delivery.model_validate_json(got.body)
    described = openapi.document()
    [webhook] = described["webhooks"].values()
    schema = webhook["post"]["requestBody"]["content"]["application/json"]["schema"]
    jsonschema.validate(payload, schema | {"components": described["components"]})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            payload | {"new_alerts": [{"text": ""}]}, schema | {"components": described["components"]}
        )


def find_again(post, user_id, record_id):
    post.remove(record_id)
    post.close_windows()
    post.find(user_id)


@pytest.mark.parametrize(
    ("happen", "groups"),
    [
        (lambda post, user_id, _: post.link(user_id), ["discovered_links", "new_alerts"]),
        (lambda post, user_id, _: post.find(user_id, "2"), ["discovered_records", "new_alerts"]),
        (lambda post, _, record_id: post.write(submit_removal, record_id, SITE), ["new_alerts"]),
        (lambda post, _, record_id: post.verify_removal(record_id), ["removed_records", "new_alerts"]),
        (find_again, ["new_alerts"]),
    ],
    ids=["link", "record", "submission", "removal", "relisting"],
)
def test_events_lists_exactly_the_groups_of_the_body(post, jane, happen, groups):
    """Specification, "Body": events names the groups present."""
    record_id = post.find(jane)
    post.close_windows()
    happen(post, jane, record_id)
    post.close_windows()
    payload = post.receiver.got[-1].payload
    assert payload["events"] == groups
    assert payload.keys() == {"user_id", "events", *groups}
    assert all(payload[group] for group in groups)
    assert [name for name, _, _ in Delivery.model_validate(payload).groups()] == groups


def test_finding_a_listing_or_page_again_is_no_event(post, jane):
    for _ in range(3):
        post.find(jane)
        post.link(jane)
    post.close_windows()
    payload = post.receiver.got[0].payload
    counts = {name: len(payload[name]) for name in payload["events"]}
    assert counts == {"discovered_records": 1, "discovered_links": 1, "new_alerts": 2}


HOSTILE = '</script><b onclick="x()">\x00\x1b[31m\u202e\U0001f4a5 \u2028\ufffe'


def test_a_sites_text_is_delivered_unchanged(post, jane):
    post.find(jane, HOSTILE, name=HOSTILE, relations=(HOSTILE,))
    post.close_windows()
    [item] = post.receiver.got[0].payload["discovered_records"]
    record = item["record"]
    assert (record["name"], record["reference_id"], record["relations"]) == (HOSTILE, HOSTILE, [HOSTILE])


def test_each_delivery_is_of_one_user_to_their_integrator(post, jane):
    """Specification, "Body": user_id, the user concerned."""
    post.integrator("zeta", Callback(post.receiver.url("/zeta")))
    john, other = post.person(), post.person("zeta")
    for number, user_id in enumerate((jane, john, other, jane)):
        post.find(user_id, str(number))
    assert post.close_windows() == 3
    assert {(got.path, got.payload["user_id"], *records_in(got)) for got in post.receiver.got} == {
        ("/hook", jane, "0", "3"),
        ("/hook", john, "1"),
        ("/zeta", other, "2"),
    }


def counts(post):
    names = ("deliveries", "events", "attempts")
    return [post.rows(select(func.count()).select_from(tables.metadata.tables[name]))[0][0] for name in names]


def test_nothing_is_stored_for_an_integrator_without_a_callback(post):
    post.integrator("zeta")
    other = post.person("zeta")
    post.find(other)
    post.link(other)
    assert counts(post) == [0, 0, 0]
    [alerts] = post.rows(select(func.count()).select_from(tables.alerts))
    assert alerts[0] == 2
    post.call_back(Callback(post.receiver.url("/zeta")), "zeta")
    post.find(other, "2")
    post.close_windows()
    assert [records_in(got) for got in post.receiver.got] == [["2"]]


def test_a_callback_changed_between_attempts_is_used(post, jane):
    post.receiver.answers = [FAILED]
    post.find(jane)
    post.close_windows()
    other = new_secret()
    post.call_back(Callback(post.receiver.url("/new"), other))
    post.later(60)
    post.work()
    first, second = post.receiver.got
    assert (first.path, second.path) == ("/hook", "/new")
    assert first.body == second.body
    assert second.headers["webhook-signature"] == signed(other, second)


def test_removing_a_callback_loses_no_delivery(post, jane):
    post.find(jane)
    post.call_back(None)
    assert post.close_windows() == 0
    assert (post.deliveries()[0].state, post.deliveries()[0].last_outcome) == ("pending", "no callback")
    post.call_back(Callback(post.receiver.url("/back")))
    post.later(60)
    assert post.work() == 1
    assert post.deliveries()[0].state == "delivered"


def signed(secret, got):
    """The signature by the reference package."""
    at = datetime.fromtimestamp(int(got.headers["webhook-timestamp"]), UTC)
    return Webhook(secret).sign(got.headers["webhook-id"], at, got.body.decode())


@pytest.mark.parametrize(
    "secret",
    [SECRET, new_secret(), validate_secret("whsec_" + "A" * 32)],
    ids=["fixed", "generated", "validated"],
)
def test_the_reference_package_accepts_only_unchanged_deliveries(store, tmp_path, secret):
    """Not in the specification, "webhook signature": Standard Webhooks, which reject deliveries older than five minutes."""
    with asyncio.Runner() as runner:
        now = datetime.now(UTC)
        post = Post(runner, tmp_path, FrozenClock(now - timedelta(seconds=WINDOW_S)))
        post.call_back(Callback(post.receiver.url(), secret))
        post.find(post.person())
        post.close_windows()
        post.close()
    [got] = post.receiver.got
    assert Webhook(secret).verify(got.body, got.headers) == got.payload
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(got.body, got.headers)
    later = str(int(now.timestamp()) + 1)
    for body, changed in (
        (got.body, {"webhook-id": "msg_0"}),
        (got.body, {"webhook-timestamp": later}),
        (got.body + b" ", {}),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(body, got.headers | changed)


def test_deliveries_are_unsigned_without_a_secret(post, jane):
    post.call_back(Callback(post.receiver.url()))
    post.find(jane)
    post.close_windows()
    [got] = post.receiver.got
    assert "webhook-signature" not in got.headers
    assert {"webhook-id", "webhook-timestamp"} <= got.headers.keys()


@pytest.mark.parametrize(
    "text",
    [
        *("", "whsec_", "whsec_AAAA", "whsec_" + "A" * 31, "whsec_" + "A" * 88, "A" * 32),
        *("WHSEC_" + "A" * 32, "whsec_" + "A" * 31 + "\n", "whsec_" + "A" * 31 + "-"),
        "whsec_" + "\u0410" * 32,
    ],
)
def test_an_invalid_signing_secret_is_rejected_without_being_quoted(text):
    message = r"^a signing secret is whsec_ followed by the base64 form of 24 to 64 bytes$"
    with pytest.raises(ConfigurationError, match=message):
        validate_secret(text)


def test_generated_signing_secrets_are_valid_and_distinct():
    secrets = {new_secret() for _ in range(20)}
    assert len(secrets) == 20
    assert {validate_secret(secret) for secret in secrets} == secrets


def test_an_unknown_integrator_has_no_callback(post):
    with pytest.raises(ConfigurationError, match="no integrator has the name "):
        post.call_back(Callback(post.receiver.url()), "nobody")


@pytest.mark.parametrize("step", ["record", "link", "removal"])
def test_alert_change_and_event_are_one_transaction(post, jane, step):
    record_id = post.find(jane)
    post.close_windows()
    post.write(submit_removal, record_id, SITE)

    def everything():
        return {
            name: post.rows(select(table))
            for name, table in tables.metadata.tables.items()
            if name != "metadata"
        }

    async def fail(work):
        if step == "record":
            await discover_record(work, jane, replace(LISTING, reference_id="2"), SITE)
        elif step == "link":
            await discover_link(work, jane, PAGE)
        else:
            for _ in range(2):
                await verify_removal(work, record_id, SITE, absent=True)
        events = await work.all(select(tables.events.c.id).where(tables.events.c.delivery_id > 1))
        assert len(events) > 1
        raise ZeroDivisionError

    before = everything()
    with pytest.raises(ZeroDivisionError):
        post.write(fail)
    assert everything() == before


def test_a_user_purged_between_attempts_is_not_delivered(post, jane):
    post.find(jane)
    lease = post.lease()
    post.write(outbox.prepare, lease)
    post.write(consent.purge, jane)
    with pytest.raises(LeaseLost):
        post.write(delivery.record_attempt, lease, status=200, outcome="status 200")
    with pytest.raises(LeaseLost):
        post.write(outbox.prepare, lease)
    assert counts(post) == [0, 0, 0]


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_a_user_purged_during_preparation_is_not_delivered(post, jane):
    """SQLite has one writer; on PostgreSQL both transactions are open at once."""
    post.find(jane)
    lease = post.lease()

    async def prepare():
        async with post.database.writing() as work:
            await outbox.prepare(work, lease)

    async def meet():
        async with post.database.writing() as work:
            await consent.purge(work, jane)
            task = asyncio.create_task(prepare())
            async with post.database.writing() as observer:
                while not (await observer.first(_WAITING))[0]:  # noqa: ASYNC110  only the server knows
                    await asyncio.sleep(0)
        with pytest.raises(LeaseLost):
            await task

    post.run(meet())


_WAITING = select(func.count()).select_from(text("pg_locks WHERE NOT granted"))


def test_old_deliveries_are_deleted_except_dead_ones(post, jane):
    post.find(jane)
    dead = post.die()
    post.find(jane, "2")
    post.close_windows()
    post.find(jane, "3")
    post.clock.advance(outbox.KEEP_DELIVERED)
    assert post.write(outbox.delete_delivered) == 0
    post.clock.advance(timedelta(microseconds=1))
    assert post.write(outbox.delete_delivered) == 1
    assert [(delivery.state, delivery.events) for delivery in post.deliveries()] == [("open", 2), ("dead", 2)]
    assert counts(post) == [2, 4, 4]
    assert post.deliveries(state="dead") == [dead]


def test_integrators_take_turns_with_their_deliveries(post):
    post.integrator("beta", Callback(post.receiver.url("/beta"), SECRET))
    for user_id in [post.person() for _ in range(8)]:
        post.find(user_id)
    post.find(post.person("beta"))
    post.later(WINDOW_S)
    assert post.work(post.another_worker(config=WorkerConfig(deliveries=1))) == 9
    assert [one.path for one in post.receiver.got].index("/beta") < 2


def test_a_dead_delivery_and_a_refused_address_are_warnings(post, jane, caplog):
    caplog.set_level(logging.INFO, "exposurekit.service")
    post.find(jane)
    post.die()
    post.find(jane, "2")
    post.close_windows()
    post.find(jane, "3")
    post.later(WINDOW_S)
    post.work(post.another_worker(http=HttpClient()))
    lines = [
        (record.levelname, record.getMessage().partition(" ")[2])
        for record in caplog.records
        if record.getMessage().startswith("webhook=")
    ]
    assert lines == [
        *[("INFO", "outcome=status 500 state=pending")] * 3,
        ("WARNING", "outcome=status 500 state=dead"),
        ("INFO", "outcome=status 200 state=delivered"),
        ("WARNING", "outcome=address refused: no --callback-network state=pending"),
    ]


def test_logs_and_database_contain_no_personal_data_and_no_secret(post, jane, caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "exposurekit")
    post.find(jane)
    post.link(jane)
    post.die()
    [dead] = post.deliveries()
    post.write(outbox.replay, dead.webhook_id)
    post.receiver.answers = [b"garbage\r\n\r\n"]
    post.work()
    post.later(60)
    post.work(post.another_worker(http=HttpClient()))
    logged = "\n".join(record.getMessage() + str(record.args) for record in caplog.records)
    messages = [record.getMessage() for record in caplog.records if record.name == "exposurekit.service"]
    lines = [message for message in messages if message.startswith("webhook=")]
    assert {*messages} - {*lines} == {"record=1 status='discovered'"}
    assert lines[0] == f"webhook={dead.webhook_id} outcome=status 500 state=pending"
    assert lines[3].endswith("state=dead")
    outcomes = [
        "outcome=unreadable state=pending",
        "outcome=address refused: no --callback-network state=pending",
    ]
    assert [line.partition(" ")[2] for line in lines[4:]] == outcomes
    stored = repr([post.rows(select(table)) for table in tables.metadata.sorted_tables])
    shown = repr([dead, Callback(post.receiver.url(), SECRET)])
    for value in ("Jane", "Doe", "club.example", "/hook", "127.0.0.1", SECRET.removeprefix("whsec_")):
        assert value not in logged + stored + shown, value
    for value in ("000560228488", "Members", "acme"):
        assert value not in logged, value
    assert "Members" not in stored
