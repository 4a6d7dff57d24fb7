"""Metrics: what is counted, what is read from the database, and what no label contains."""

import asyncio
import re
import sqlite3
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete, event, update
from support import postgres
from support.services import JANE, LISTING, PAGE, SITE, START, a_database, a_service, at_work, opened
from support.shell import eventually

from exposurekit.contract.operations import OPERATIONS
from exposurekit.service import jobs, workers
from exposurekit.service.accounts import integrators
from exposurekit.service.api.metrics import READ_S, Metrics, _families
from exposurekit.service.api.rate_limits import Limits
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.scanning.schedule import SCAN_EVERY
from exposurekit.service.sites import statistics
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import endpoints

KEY = Vault.generate_key()
SOON = timedelta(minutes=1)
on_sqlite = pytest.mark.parametrize("store", ["sqlite"], indirect=True)


@contextmanager
def a_measured_service(directory, **options):
    """A service, and the URL of its metrics."""
    metrics = Metrics(a_database(directory, key=KEY))
    with (
        a_service(directory, store={"key": KEY}, registry=metrics.registry, **options) as service,
        metrics.serving(0) as url,
    ):
        yield service, url


@pytest.fixture
def measured(store, tmp_path):
    with a_measured_service(tmp_path) as both:
        yield both


def families(url):
    response = httpx.get(url)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return list(text_string_to_metric_families(response.text))


def samples(url):
    """The values that are not 0, by name and labels."""
    return {
        (one.name.removeprefix("exposurekit_"), *one.labels.values()): one.value
        for family in families(url)
        for one in family.samples
        if one.value
    }


def test_requests_are_counted_by_operation_status_and_reason(measured):
    service, url = measured
    user = service.create()
    service.get(user)
    service.get(user)
    service.call("GET", f"/users/{user['id']}", {"secret": "1"})
    service.call("GET", "/users", params={"limit": "none"})
    service.http.get(f"{service.base_url}/nowhere")
    service.work(lambda work: integrators.set_quota(work, "acme", 1))
    assert service.call("POST", "/users", json=JANE).status_code == 400
    counted = samples(url)
    assert counted["requests_total", "create_user", "2xx"] == 1
    assert counted["requests_total", "create_user", "4xx"] == 1
    assert counted["requests_total", "get_user", "2xx"] == 2
    assert counted["requests_total", "get_user", "4xx"] == 1
    assert counted["requests_total", "none", "4xx"] == 1
    assert counted["request_duration_seconds_count", "get_user"] == 3
    assert counted["request_duration_seconds_bucket", "+Inf", "get_user"] == 3
    assert 0 < counted["request_duration_seconds_sum", "get_user"] < 60
    refused = {
        labels[0]: value for (name, *labels), value in counted.items() if name == "refused_requests_total"
    }
    assert refused == {"unauthorized": 1, "invalid": 1, "not_found": 1, "quota": 1}


@on_sqlite
def test_refusals_of_limits_and_faults_are_told_apart(store, tmp_path):
    with a_measured_service(tmp_path, limits=Limits(refusals_per_minute=1)) as (service, url):
        user = service.create()
        for _ in range(2):
            service.call("GET", "/users", params={"api_secret": "wrong"})
        at_work(service.database, lambda work: work.run(delete(tables.user_documents)))
        at_work(service.database, lambda work: work.run(update(tables.users), {"ciphertext": b"damaged"}))
        assert service.call("GET", f"/users/{user['id']}", user).status_code == 500
        (tmp_path / "service.db").rename(tmp_path / "moved.db")
        assert service.call("POST", "/users", json=JANE).status_code == 503
        counted = samples(url)
    refused = {
        labels[0]: value for (name, *labels), value in counted.items() if name == "refused_requests_total"
    }
    assert refused == {"unauthorized": 1, "rate_limited": 1, "internal_error": 1, "database_unavailable": 1}
    assert counted["requests_total", "create_user", "5xx"] == 1


async def _fill(work, user_id):
    """A due removal, a leased scan, a delivery of each state, and scans of two sites."""
    await endpoints.set_callback(work, "acme", endpoints.Callback("https://globex.example/hook"))
    record_id = await discover_record(work, user_id, LISTING, SITE)
    await work.run(update(tables.records).values(due_at=work.clock.now() - 3 * SOON))
    await discover_link(work, user_id, PAGE)  # opens a window
    await leases.acquire(work, tables.users, limit=1, duration=SOON)
    for n, state in enumerate(("dead", "dead", "delivered", "pending")):
        row = {"user_id": user_id, "webhook_id": f"msg_{n}", "state": state, "opened_at": work.clock.now()}
        due = work.clock.now() - SOON if state == "pending" else None
        await work.run(tables.deliveries.insert(), row | {"due_at": due})
    await jobs.record_correction(work, tables.users, leases.Correction(3, SOON), since=work.clock.now())
    for reason, trusted in ((None, True), ("blocked", True), (None, False)):
        await statistics.record_scan(work, "Seekfolk", reason=reason, trusted=trusted)
    await statistics.record_scan(work, "Peoplemap", reason="timeout", trusted=True)
    return record_id


def test_jobs_deliveries_and_scans_are_read_from_the_database(measured):
    service, url = measured
    user = service.create()
    at_work(service.database, lambda work: work.run(update(tables.users).values(due_at=work.clock.now())))
    at_work(service.database, lambda work: _fill(work, user["id"]))
    counted = samples(url)
    jobs = {key[1:]: value for key, value in counted.items() if key[0] == "jobs"}
    assert jobs == {
        ("scans", "leased"): 1,
        ("removals", "due"): 1,
        ("deliveries", "due"): 1,
        ("deliveries", "waiting"): 1,
    }
    ages = {key[1]: value for key, value in counted.items() if key[0] == "oldest_due_job_age_seconds"}
    assert ages == {"removals": 180, "deliveries": 60}
    deliveries = {key[1]: value for key, value in counted.items() if key[0] == "webhook_deliveries"}
    assert deliveries == {"open": 1, "pending": 1, "dead": 2, "delivered": 1}
    assert counted["clock_correction_timestamp_seconds", "scans"] == service.clock.now().timestamp()
    sites = {key: value for key, value in counted.items() if key[0].startswith("site_")}
    last_good = sites.pop(("site_last_good_scan_timestamp_seconds", "Seekfolk"))
    assert last_good == service.clock.now().timestamp()
    assert sites == {
        ("site_scans_total", "Seekfolk"): 3,
        ("site_scans_total", "Peoplemap"): 1,
        ("site_scans_inconclusive_total", "Seekfolk"): 1,
        ("site_scans_inconclusive_total", "Peoplemap"): 1,
        ("site_scans_untrusted_total", "Seekfolk"): 1,
    }
    assert counted["database_up",] == 1
    assert ("workers",) not in counted
    at_work(service.database, lambda work: workers.note(work, "a"))
    assert samples(url)["workers",] == 1


def test_no_label_names_anybody(measured):
    service, url = measured
    user = service.create(**JANE | {"first_name": "Canaria", "emails": "canary@mine.example"})
    at_work(service.database, lambda work: _fill(work, user["id"]))
    service.http.get(f"{service.root}/users/{user['id']}.json?secret={user['secret']}")
    service.http.get(f"{service.base_url}/Canaria/{user['id']}")
    labels = {
        (name, value)
        for family in families(url)
        for one in family.samples
        for name, value in one.labels.items()
    }
    operations = {one.name for one in OPERATIONS} | {"none"}
    expected = {
        "operation": operations,
        "status": {"2xx", "4xx", "5xx"},
        "kind": {"scans", "removals", "deliveries", "mailboxes", "messages"},
        "state": {"waiting", "due", "leased", "open", "pending", "delivered", "dead"},
        "site": {"Seekfolk", "Peoplemap"},
    }
    for name, values in expected.items():
        assert {value for label, value in labels if label == name} == values
    assert {name for name, _ in labels} == {*expected, "reason", "le"}
    assert all(value.replace("_", "").isalpha() for name, value in labels if name == "reason")


def test_names_units_and_help_follow_the_rules(measured):
    service, url = measured
    user = service.create()
    at_work(service.database, lambda work: _fill(work, user["id"]))
    for family in families(url):
        assert family.name.startswith(("exposurekit_", "process_"))
        assert family.documentation
        assert family.documentation.endswith(".") or family.name.startswith("process_")
        assert not family.name.endswith(("_ms", "_s", "_count", "_milliseconds"))
        if family.type == "counter":
            assert {one.name for one in family.samples} <= {f"{family.name}_total"}


def test_the_alert_on_a_site_outlasts_a_scan_interval():
    """Else it would fire each week for a site that works, with a single user."""
    manual = Path(jobs.__file__).with_name("README.md").read_text()
    [days] = re.findall(r"site_last_good_scan_timestamp_seconds\) > (\d+) \* 86400`", manual)
    assert timedelta(days=int(days)) >= SCAN_EVERY + timedelta(days=1)


@on_sqlite
def test_a_scrape_answers_without_the_database(store, tmp_path):
    file = tmp_path / "service.db"
    with a_measured_service(tmp_path) as (service, url):
        service.create()
        file.rename(tmp_path / "moved.db")
        eventually(lambda: ("database_up",) not in samples(url))
        counted = samples(url)
        assert not [name for name, *_ in counted if name == "jobs"]
        assert counted["requests_total", "create_user", "2xx"] == 1
        assert not file.exists()
        (tmp_path / "moved.db").rename(file)
        assert samples(url)["database_up",] == 1


@on_sqlite
def test_a_scrape_does_not_wait_for_a_writer(store, tmp_path):
    with (
        a_measured_service(tmp_path) as (_, url),
        closing(sqlite3.connect(tmp_path / "service.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN EXCLUSIVE")
        assert samples(url)["database_up",] == 1


@pytest.mark.long  # stops a server
def test_a_scrape_outlives_a_stopped_postgresql():
    with postgres.a_server() as server:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        metrics = Metrics(Database(url, vault=Vault(KEY), clock=FrozenClock(START)))
        with metrics.serving(0) as address:
            assert samples(address)["database_up",] == 1
            postgres.stop_at_once(server)
            assert httpx.get(address, timeout=READ_S + 5).status_code == 200
            assert ("database_up",) not in samples(address)
            postgres.start_again(server)
            eventually(lambda: samples(address).get(("database_up",)))


@on_sqlite
def test_only_get_metrics_is_served(store, tmp_path):
    with a_measured_service(tmp_path) as (_, url):
        assert url.startswith("http://127.0.0.1:")
        assert httpx.post(url).status_code == 405
        assert httpx.get(url.removesuffix("metrics")).status_code == 404
        openmetrics = httpx.get(url, headers={"accept": "application/openmetrics-text; version=1.0.0"})
        assert openmetrics.text.endswith("# EOF\n")


@on_sqlite
def test_a_scrape_reads_no_whole_table(store, tmp_path):
    """Tables that grow with people are searched by an index, or counted in one that covers the query."""
    database = a_database(tmp_path)
    statements = []

    def explain(connection, _, statement, parameters, *rest):
        if statement.startswith("SELECT"):
            rows = connection.connection.driver_connection.execute(
                f"EXPLAIN QUERY PLAN {statement}", parameters
            )
            statements.extend(row[3] for row in rows)

    event.listen(database._backend._engine, "before_cursor_execute", explain)

    async def scrape():
        async with opened(database), database.reading() as session:
            await _families(session)

    asyncio.run(scrape())
    assert any("users_due" in line for line in statements)
    grow = ("users", "records", "deliveries", "attempts", "events")
    scans = [line for line in statements if line.startswith("SCAN") and line.split()[1] in grow]
    assert [line for line in scans if "USING COVERING INDEX" not in line] == []
