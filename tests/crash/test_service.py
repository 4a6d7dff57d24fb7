"""A short crash test on each database: nothing is lost; and the verdict detects every violation.

The long run is a command: python tests/crash/service_run.py --database postgresql --kills 20 --server-stops 4
"""

import asyncio
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from crash.service_data import collect_evidence
from crash.service_verdict import ATTEMPTS, Run, verdict
from crash.webhook_receiver import Attempt
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

COMMAND = (sys.executable, str(Path(__file__).with_name("service_run.py")))
# About a dozen users are registered; the more people the sites list, the more a scan reads.
SHORT = {
    "sqlite": ("--people", "12", "--kills", "2"),
    "postgresql": ("--people", "12", "--kills", "2", "--server-stops", "1"),
}
FAILING = "http://127.0.0.1:9/failing"


@pytest.fixture(scope="module")
def short_runs():
    """Both in parallel: most of the time each of them waits."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    runs = {
        database: subprocess.Popen([*COMMAND, "--database", database, *words], **pipes)
        for database, words in SHORT.items()
    }
    yield runs
    for run in runs.values():
        if run.poll() is None:
            run.terminate()
        run.communicate()


@pytest.mark.long
@pytest.mark.parametrize("database", SHORT)
def test_every_event_is_delivered_once_despite_kills(short_runs, database):
    output, _ = short_runs[database].communicate(timeout=300)
    assert short_runs[database].returncode == 0, output
    assert "BROKEN" not in output


class Aftermath:
    """A small database as a run leaves it: three users, whose callbacks succeed, fail, and are missing."""

    def __init__(self, directory, clock):
        self.clock = clock
        url = f"sqlite:///{directory / 'service.db'}"
        self.database = Database(url, vault=Vault(Vault.generate_key()), clock=clock)
        self.attempts = defaultdict(list)
        self.run = Run(attempts=self.attempts, registered=(1, 2, 3), answers={200: 3, 503: 1}, kills=(3, 3))

    async def fill(self, attempts=ATTEMPTS):
        await self.database.open()
        async with self.database.writing() as work:
            for number, url in enumerate(("http://127.0.0.1:9/reliable", FAILING, None), 1):
                await integrators.add(work, f"acme{number}")
                await endpoints.set_callback(work, f"acme{number}", url and Callback(url))
                user_id = (await users.create(work, number, {"first_name": "Jane"})).id
                record_id = await discover_record(work, user_id, LISTING, SITE)
                await removals.submit_removal(work, record_id, SITE)
                for _ in range(removals.CONFIRMING_ABSENCES):
                    await removals.verify_removal(work, record_id, SITE, absent=True)
                await discover_link(work, user_id, PAGE)
        for delay in (GROUPING_WINDOW, *RETRY_DELAYS)[:attempts]:
            self.clock.advance(delay)
            async with self.database.writing() as work:
                for lease in await leases.acquire(work, deliveries, limit=9, duration=timedelta(minutes=1)):
                    sent = await outbox.prepare(work, lease)
                    attempts = self.attempts[sent.webhook_id]
                    status = 204 if attempts and sent.callback.url != FAILING else 500
                    attempts.append(Attempt(sent.body, status))
                    await delivery.record_attempt(work, lease, status=status, outcome="sent")

    def write(self, function):
        async def write():
            async with self.database.writing() as work:
                await function(work)

        asyncio.run(write())

    def rewrite(self, changed):
        """Change the first delivery's body, in the database and as received."""

        async def rewrite(work):
            row = await work.first(select(deliveries).order_by(deliveries.c.id))
            body = codec.decode(work.decrypt("deliveries", row.user_id, row.body_ciphertext).encode(), "json")
            changed(body)
            text = codec.encode(body, "json").decode()
            ciphertext = work.encrypt("deliveries", row.user_id, text)
            await work.run(
                update(deliveries).where(deliveries.c.id == row.id).values(body_ciphertext=ciphertext)
            )
            for attempt in self.attempts[row.webhook_id]:
                attempt.body = text.encode()

        self.write(rewrite)

    def broken(self):
        rules = verdict(asyncio.run(collect_evidence(self.database)), self.run)
        return {name for name, violations in rules.items() if violations}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The database, the clock and the attempts of each test are copies of these."""
    directory = tmp_path_factory.mktemp("filled")
    aftermath = Aftermath(directory, FrozenClock(START))
    asyncio.run(aftermath.fill())
    asyncio.run(aftermath.database.close())
    return aftermath


@pytest.fixture
def aftermath(filled, tmp_path):
    url = filled.database._url.database
    shutil.copy(url, tmp_path)
    copy = Aftermath(tmp_path, FrozenClock(filled.clock.now()))
    copy.database = Database(
        f"sqlite:///{tmp_path / 'service.db'}", vault=filled.database.vault, clock=copy.clock
    )
    for webhook_id, received in filled.attempts.items():
        copy.attempts[webhook_id] = [replace(attempt) for attempt in received]
    asyncio.run(copy.database.open())
    yield copy
    asyncio.run(copy.database.close())


def test_every_rule_holds_without_violations(aftermath):
    """Operational errors and time-outs are expected of crashes."""
    faults = {"worker=scan fault=OperationalError": 9, "worker=scan fault=TimeoutError": 1}
    aftermath.run = replace(aftermath.run, faults=faults)
    assert aftermath.broken() == set()


LOST, TWICE = "events lost", "events delivered twice, or in two windows"
UNLIKE, DIFFERENT = "bodies that differ from their events", "different bodies for one webhook id"
LATE, MISSING = "events outside their window of 10 minutes", "missing preconditions"
WRONG_NUMBER = "dead with other than 4 attempts"
ALERT = {"text": "New record", "source_type": "record", "source": {"record": {"id": 1}}}
FIRST_EVENT = events.c.id == select(func.min(events.c.id)).scalar_subquery()
FIRST = deliveries.c.id == 1
RECORD = {"user_id": 1, "site": "X", "reference_digest": b"", "status": "discovered", "ciphertext": b""}
CHANGES = {
    "event deleted": (delete(events).where(FIRST_EVENT), UNLIKE),
    "delivery deleted": (delete(deliveries).where(FIRST), LOST),
    "record without event": (insert(records).values(**RECORD, created_at=START, changed_at=START), LOST),
    "event of another window": (update(events).where(FIRST_EVENT).values(delivery_id=2), UNLIKE),
    "event late": (
        update(events).where(FIRST_EVENT).values(created_at=START + timedelta(minutes=10, seconds=1)),
        LATE,
    ),
    "delivery still open": (
        update(deliveries).where(FIRST).values(state="open"),
        "deliveries neither delivered nor dead",
    ),
    "attempt of a dead delivery missing": (
        delete(attempts).where(attempts.c.delivery_id == 2, attempts.c.at > START + timedelta(minutes=20)),
        WRONG_NUMBER,
    ),
    "attempt too early": (
        update(attempts).where(attempts.c.id == 1).values(at=START + timedelta(minutes=9)),
        "attempts before their time",
    ),
    "row leased": (
        update(deliveries).where(FIRST).values(lease="x", lease_until=START + timedelta(days=1)),
        "unfinished work",
    ),
}


@pytest.mark.parametrize(("statement", "rule"), CHANGES.values(), ids=CHANGES)
def test_verdict_detects_each_violation_in_the_database(aftermath, statement, rule):
    aftermath.write(lambda work: work.run(statement))
    assert rule in aftermath.broken()


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (lambda alerts: alerts.pop(), {LOST, UNLIKE}),
        (lambda alerts: alerts.append(alerts[0]), {TWICE, UNLIKE}),
    ],
)
def test_verdict_detects_missing_and_repeated_alerts(aftermath, change, rules):
    aftermath.rewrite(lambda body: change(body["new_alerts"]))
    assert aftermath.broken() == rules


def change_a_byte(attempts):
    next(iter(attempts.values()))[0].body += b" "


def receive_an_unknown_id(attempts):
    attempts["msg_0"].append(Attempt(b"{}", 204))


def never_succeed(attempts):
    for attempt in next(iter(attempts.values())):
        attempt.status = None


def lose_the_last_attempt(attempts):
    [*attempts.values()][-1].pop()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (change_a_byte, DIFFERENT),
        (receive_an_unknown_id, DIFFERENT),
        (never_succeed, "delivered without a 2xx response"),
        (lose_the_last_attempt, WRONG_NUMBER),
    ],
)
def test_verdict_detects_violations_at_the_receiver(aftermath, change, rule):
    change(aftermath.attempts)
    assert aftermath.broken() == {rule}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"deaths": ("worker0 ended with 1",)}, "processes that ended by themselves"),
        ({"answers": {200: 3, 500: 1}}, "answers other than 200 and 503"),
        ({"registered": (1, 2, 3, 4)}, "registrations confirmed, and lost"),
        ({"updated": {1: "first_name", 2: "birth_date"}}, "changes confirmed, and lost"),
        ({"badly_signed": 1}, "wrong signatures"),
        ({"faults": {"worker=scan fault=TypeError": 1}}, "faults that no crash explains"),
        ({"kills": (2, 3)}, MISSING),
        ({"server_stops": (0, 1)}, MISSING),
    ],
)
def test_verdict_detects_violations_outside_the_database(aftermath, wrong, rule):
    aftermath.run = replace(aftermath.run, **wrong)
    assert aftermath.broken() == {rule}


def test_a_run_without_deliveries_breaks_rules(aftermath):
    aftermath.write(lambda work: work.run(delete(deliveries)))
    aftermath.attempts.clear()
    assert {LOST, MISSING} <= aftermath.broken()


class TickingClock(FrozenClock):
    """Each call advances it by half a second."""

    def now(self):
        self.advance(timedelta(seconds=0.5))
        return super().now()


@pytest.mark.parametrize("before_s", [30, 30.5])  # one of the two reaches the very end of the window
def test_an_event_is_never_later_than_its_window(tmp_path, before_s):
    """The window is chosen by the instant of the event."""
    aftermath = Aftermath(tmp_path, TickingClock(START))

    async def fill():
        await aftermath.fill(attempts=0)
        async with aftermath.database.writing() as work:
            aftermath.clock.advance(GROUPING_WINDOW - timedelta(seconds=before_s))
            for _ in range(60):
                await outbox.enqueue_event(work, 1, "new_alerts", ALERT)
        evidence = await collect_evidence(aftermath.database)
        await aftermath.database.close()
        return evidence

    evidence = asyncio.run(fill())
    assert len({event.delivery_id for event in evidence.events if event.user_id == 1}) == 2
    assert verdict(evidence, aftermath.run)[LATE] == []


@pytest.mark.parametrize("fault", [NoConnection(), OperationalError("", None, OSError()), TimeoutError()])
def test_an_unavailable_database_is_a_503(fault):
    """Also when every connection of the pool is in use, which is another kind of error."""

    async def respond(scope, receive):
        raise fault

    async def request():
        app = RequestMiddleware(respond, lifespan=None)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
            return await http.get("http://service.example/api/acme/key/v2/users")

    answer = asyncio.run(request())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
