"""Processes are killed and nothing is lost: a short run on each database; and the verdict notices what is wrong.

The long run is a command: python tests/crash/run.py --database postgresql --kills 20 --server-stops 4
"""

import asyncio
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from crash.evidence import gathered
from crash.receiver import Attempt
from crash.verdict import ATTEMPTS, Run, verdict
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from support.services import LISTING, PAGE, SITE, START

from exposurekit.contract import codec
from exposurekit.contract.webhooks import GROUPING_WINDOW, RETRY_DELAYS
from exposurekit.service.accounts import integrators, users
from exposurekit.service.api.middleware import RequestMiddleware
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import removals
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.storage import leases
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.storage.tables import attempts, deliveries, events, records
from exposurekit.service.webhooks import delivery, endpoints, outbox
from exposurekit.service.webhooks.endpoints import Callback

COMMAND = (sys.executable, str(Path(__file__).with_name("run.py")))
SHORT = {
    "sqlite": ("--kills", "3"),
    "postgresql": ("--kills", "3", "--server-stops", "1"),
}
PATIENCE_S = 300
DEAF = "http://127.0.0.1:9/deaf"


@pytest.fixture(scope="module")
def short_runs():
    """Both at once: most of the time each of them waits."""
    runs = {
        database: subprocess.Popen(
            [*COMMAND, "--database", database, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for database, words in SHORT.items()
    }
    yield runs
    for run in runs.values():
        if run.poll() is None:
            run.terminate()
        run.communicate()


@pytest.mark.long
@pytest.mark.parametrize("database", SHORT)
def test_under_kills_every_event_is_delivered_once(short_runs, database):
    output, _ = short_runs[database].communicate(timeout=PATIENCE_S)
    assert short_runs[database].returncode == 0, output
    assert "BROKEN" not in output


class Aftermath:
    """A small database as a run leaves one: three people; one integrator is told, one is deaf, one has no callback."""

    def __init__(self, directory, clock=None):
        self.clock = clock or FrozenClock(START)
        url = f"sqlite:///{directory / 'service.db'}"
        self.database = Database(url, vault=Vault(Vault.generate_key()), clock=self.clock)
        self.attempts = defaultdict(list)
        self.run = Run(attempts=self.attempts, registered=(1, 2, 3), answers={200: 3, 503: 1}, kills=(3, 3))

    async def happen(self, attempts=ATTEMPTS):
        await self.database.open()
        async with self.database.writing() as work:
            for number, path in enumerate(("http://127.0.0.1:9/fair", DEAF, None), 1):
                await integrators.add(work, f"acme{number}")
                await endpoints.set_callback(work, f"acme{number}", path and Callback(path))
                await self._meet(work, (await users.create(work, number, {"first_name": "Jane"})).id)
        for delay in (GROUPING_WINDOW, *RETRY_DELAYS)[:attempts]:
            self.clock.advance(delay)
            async with self.database.writing() as work:
                for lease in await leases.acquire(work, deliveries, limit=9, duration=timedelta(minutes=1)):
                    await self._attempt(work, lease)

    async def _meet(self, work, user_id):
        record_id = await discover_record(work, user_id, LISTING, SITE)
        await removals.submit_removal(work, record_id, SITE)
        for _ in range(removals.CONFIRMING_ABSENCES):
            await removals.verify_removal(work, record_id, SITE, absent=True)
        await discover_link(work, user_id, PAGE)

    async def _attempt(self, work, lease):
        parcel = await outbox.prepare(work, lease)
        attempts = self.attempts[parcel.webhook_id]
        attempts.append(Attempt(parcel.body, 204 if attempts and parcel.callback.url != DEAF else 500))
        await delivery.record_attempt(work, lease, status=attempts[-1].status, outcome="told")

    def change(self, statement):
        """Do something to the database that the service never does."""

        async def work():
            async with self.database.writing() as work:
                await work.run(statement)

        asyncio.run(work())

    def rewrite(self, changed):
        """Give the first delivery another body, in the database and on the wire."""

        async def work():
            async with self.database.writing() as work:
                row = await work.first(select(deliveries).order_by(deliveries.c.id))
                body = codec.decode(
                    work.decrypt("deliveries", row.user_id, row.body_ciphertext).encode(), "json"
                )
                changed(body)
                text = codec.encode(body, "json").decode()
                ciphertext = work.encrypt("deliveries", row.user_id, text)
                await work.run(
                    update(deliveries).where(deliveries.c.id == row.id).values(body_ciphertext=ciphertext)
                )
                for attempt in self.attempts[row.webhook_id]:
                    attempt.body = text.encode()

        asyncio.run(work())

    def broken(self):
        """The rules that do not hold."""
        evidence = asyncio.run(gathered(self.database))
        return {rule.name for rule in verdict(evidence, self.run) if rule.broken}


@pytest.fixture
def aftermath(tmp_path):
    scene = Aftermath(tmp_path)
    asyncio.run(scene.happen())
    yield scene
    asyncio.run(scene.database.close())


def test_every_rule_holds_where_nothing_went_wrong(aftermath):
    assert aftermath.broken() == set()


LOST, TWICE = "events lost", "events told twice, or in two windows"
UNLIKE, DIFFERENT = "bodies that are not their events", "different bodies for one webhook id"
LATE = "events outside their window of 10 minutes"
ALERT = {"text": "New record", "source_type": "record", "source": {"record": {"id": 1}}}
FIRST_EVENT = events.c.id == select(func.min(events.c.id)).scalar_subquery()
FIRST = deliveries.c.id == 1
UNTOLD = {"user_id": 1, "site": "X", "reference_digest": b"", "status": "discovered", "ciphertext": b""}
IN_CHANGES = {
    "an event is deleted": (delete(events).where(FIRST_EVENT), UNLIKE),
    "a delivery is deleted": (delete(deliveries).where(FIRST), LOST),
    "a record was never told": (insert(records).values(**UNTOLD, created_at=START, changed_at=START), LOST),
    "an event belongs to another window": (update(events).where(FIRST_EVENT).values(delivery_id=2), UNLIKE),
    "an event is late": (
        update(events).where(FIRST_EVENT).values(created_at=START + timedelta(minutes=10, seconds=1)),
        LATE,
    ),
    "a delivery is still open": (
        update(deliveries).where(FIRST).values(state="open"),
        "deliveries neither delivered nor dead",
    ),
    "an attempt of a dead one is missing": (
        delete(attempts).where(attempts.c.delivery_id == 2, attempts.c.at > START + timedelta(minutes=20)),
        "dead with other than 4 attempts",
    ),
    "an attempt was made too early": (
        update(attempts).where(attempts.c.id == 1).values(at=START + timedelta(minutes=9)),
        "attempts before their time",
    ),
    "a lease is held": (
        update(deliveries).where(FIRST).values(lease="x", lease_until=START + timedelta(days=1)),
        "work left over",
    ),
}


@pytest.mark.parametrize("name", IN_CHANGES)
def test_what_is_wrong_in_the_database_is_noticed(aftermath, name):
    statement, rule = IN_CHANGES[name]
    aftermath.change(statement)
    assert rule in aftermath.broken()


def test_an_alert_that_no_body_tells_is_noticed(aftermath):
    aftermath.rewrite(lambda body: body["new_alerts"].pop())
    assert aftermath.broken() == {LOST, UNLIKE}


def test_an_alert_that_is_told_twice_is_noticed(aftermath):
    aftermath.rewrite(lambda body: body["new_alerts"].append(body["new_alerts"][0]))
    assert aftermath.broken() == {TWICE, UNLIKE}


def test_one_byte_that_came_otherwise_is_noticed(aftermath):
    [attempt, *_] = next(iter(aftermath.attempts.values()))
    attempt.body += b" "
    assert aftermath.broken() == {DIFFERENT}


def test_a_webhook_id_that_nobody_knows_is_noticed(aftermath):
    aftermath.attempts["msg_0"].append(Attempt(b"{}", 204))
    assert aftermath.broken() == {DIFFERENT}


def test_a_success_that_was_never_answered_is_noticed(aftermath):
    for attempt in next(iter(aftermath.attempts.values())):
        attempt.status = None
    assert aftermath.broken() == {"delivered, and never answered with 2xx"}


def test_a_dead_one_that_never_came_is_noticed(aftermath):
    *_, dead = aftermath.attempts
    aftermath.attempts[dead].pop()
    assert aftermath.broken() == {"dead with other than 4 attempts"}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"deaths": ("worker0 ended with 1",)}, "processes that died by themselves"),
        ({"answers": {200: 3, 500: 1}}, "answers other than 200 and 503"),
        ({"registered": (1, 2, 3, 4)}, "registrations confirmed, and lost"),
        ({"told_more": {1: "first_name", 2: "birth_date"}}, "changes confirmed, and lost"),
        ({"badly_signed": 1}, "signatures that are wrong"),
        ({"faults": {"worker=scan fault=TypeError": 1}}, "faults that no crash explains"),
        ({"kills": (2, 3)}, "what had to happen, and did not"),
        ({"server_stops": (0, 1)}, "what had to happen, and did not"),
    ],
)
def test_what_is_wrong_beside_the_database_is_noticed(aftermath, wrong, rule):
    aftermath.run = replace(aftermath.run, **wrong)
    assert aftermath.broken() == {rule}


def test_a_run_in_which_nothing_happened_is_noticed(aftermath):
    aftermath.change(delete(deliveries))
    aftermath.attempts.clear()
    assert {LOST, "what had to happen, and did not"} <= aftermath.broken()


def test_busy_and_unreachable_databases_are_what_crashes_look_like(aftermath):
    faults = {"worker=scan fault=OperationalError": 9, "worker=scan fault=TimeoutError": 1}
    aftermath.run = replace(aftermath.run, faults=faults)
    assert aftermath.broken() == set()


class RestlessClock(FrozenClock):
    """Each time that it is asked, half a second has passed."""

    def now(self):
        self.advance(timedelta(seconds=0.5))
        return super().now()


@pytest.mark.parametrize("before_s", [30, 30.5])  # one of the two comes to its very end
def test_an_event_is_never_later_than_its_window(tmp_path, before_s):
    """Found by the crash test: the window was looked for at one instant, and the event dated at a later one."""
    aftermath = Aftermath(tmp_path, RestlessClock(START))

    async def happen():
        await aftermath.happen(attempts=0)
        async with aftermath.database.writing() as work:
            aftermath.clock.advance(GROUPING_WINDOW - timedelta(seconds=before_s))
            for _ in range(60):
                await outbox.enqueue_event(work, 1, "new_alerts", ALERT)
        evidence = await gathered(aftermath.database)
        await aftermath.database.close()
        return evidence

    evidence = asyncio.run(happen())
    assert len({event.delivery_id for event in evidence.events if event.user_id == 1}) == 2
    assert LATE not in {rule.name for rule in verdict(evidence, aftermath.run) if rule.broken}


@pytest.mark.parametrize("fault", [NoConnection(), OperationalError("", None, OSError()), TimeoutError()])
def test_an_unreachable_database_is_told_from_a_service_error(fault):
    """Where every connection of the pool is in use, too: that is an error of another kind."""

    async def app(scope, receive, send):
        raise fault

    async def request():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(RequestMiddleware(app))) as http:
            return await http.get("http://service.example/api/acme/key/v2/users")

    answer = asyncio.run(request())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
