"""A history in a bucket works without directories and locks."""

import subprocess
import sys
from contextlib import closing

import httpx
import pytest
from support.histories import Person, Service, a_link, a_record, seen_through
from support.notification_receivers import a_mailbox
from support.ports import free_port
from support.shell import eventually

from exposurekit.errors import ConfigurationError
from exposurekit.history import History
from exposurekit.history.storage.delta import Store
from exposurekit.monitor.notifications.notifier import Notifier
from exposurekit.monitor.notifications.outbox import NotificationOutbox
from exposurekit.monitor.notifications.rules import parse_rules
from exposurekit.reports.weekly import WeeklyReports
from exposurekit.system.file_store import FileStore

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def bucket():
    """The storage options of an S3 server on loopback."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
                eventually(lambda: server.poll() is not None or _is_ready(http))
            assert server.poll() is None
            yield {
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                "AWS_ALLOW_HTTP": "true",
            }
        finally:
            server.kill()


def _is_ready(http):
    try:
        return http.put("/bucket").is_success
    except httpx.TransportError:
        return False


def test_a_history_in_a_bucket_is_a_history(bucket):
    service = Service()
    with (
        seen_through(service) as exposure,
        History("s3://bucket/bucket=7/history", storage_options=bucket) as history,
    ):
        assert history.collect(exposure).new == 0
        for status in ("removed", "discovered"):
            service.people[1] = Person([a_record(11, status)], [a_link("https://page.example/1")])
            run = history.collect(exposure)
        assert run.counts["relisted"] == 1
        assert history.collect(exposure, run="named", shard="1/2").waits_for == (2,)
        assert history.collect(exposure, run="named", shard="2/2").seq == run.seq + 1
        assert history.records()["status"].tolist() == ["discovered"]
        assert history.relistings()["previous_status"].tolist() == ["removed"]
        history.compact()
        assert history.verify() == {}
        assert history.erase(1) > 0
        assert history.records().empty
    again = History("s3://bucket/bucket=7/history", storage_options=bucket)
    assert again.runs()["seq"].tolist() == [1, 2, 3, 4]


def test_an_old_history_in_a_bucket_is_refused_with_advice(bucket):
    store = Store("s3://bucket/old", bucket)
    store.write_json(store.path("history.json"), {"records_by": "id"})
    with pytest.raises(ConfigurationError, match="only on a local disk: copy it there, open it once"):
        History("s3://bucket/old", storage_options=bucket)


def test_weekly_reports_go_to_a_bucket(bucket, tmp_path, monkeypatch):
    for name, value in bucket.items():
        monkeypatch.setenv(name, value)
    service = Service({1: Person([a_record(11)])})
    with (
        a_mailbox() as mail,
        seen_through(service) as exposure,
        History(tmp_path / "history") as history,
        closing(NotificationOutbox(tmp_path / "notifications.db")) as outbox,
    ):
        history.collect(exposure)
        rule = "{report: weekly, directory: 's3://bucket/reports', send: me, attach: true}"
        rules = parse_rules(f"{{send_to: {{me: '{mail.url}'}}, rules: [{rule}]}}")
        reports = WeeklyReports(rules, outbox, history, lambda: exposure)
        assert [reports.write_due() for _ in range(2)] == [1, 0]
        assert Notifier(rules, outbox).send() == 1
        store = FileStore("s3://bucket/reports", what="A path", name="reports")
        [name] = mail.files
        assert mail.files[name] == store.read(store.path(name))
        assert name.encode() in store.read(store.path("index.html"))
