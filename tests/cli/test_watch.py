"""The watch as a process: what it receives and reports, and how it ends."""

import json
import os
import re
import signal
import socket
from contextlib import closing
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx
import pytest
from support import faults
from support.inbox import BODY, PATH, signed_headers
from support.inbox import SECRET as SIGNING_SECRET
from support.ports import free_port
from support.shell import TIMEOUT_S, Shell, connection, error_of, eventually, line_with
from support.watches import KEY, PEOPLE, SECRET, Fleet

from exposurekit.monitor.notifications.outbox import Notification, NotificationOutbox
from exposurekit.monitor.status import WatchStatus
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.system.clock import utc_now

pytestmark = pytest.mark.long  # processes of their own

WATCH = ("watch", "run", "--every", "1h")
EVERYONE_LOADED = f"{len(PEOPLE)} people loaded in full"


@pytest.fixture
def fleet():
    return Fleet(utc_now)


@pytest.fixture
def shell(fleet, tmp_path):
    with faults.running(fleet) as server:
        variables = connection(server.base_url, "acme", KEY, SECRET)
        yield Shell(tmp_path, EXPOSUREKIT_HISTORY="history", **variables)


def status(shell):
    run = shell.here("watch", "status", "--json")
    return run.returncode, json.loads(run.stdout)


def inbox_of(process):
    return re.search(r"http://\S+", process.stdout.readline()).group()


def ended(process, number=signal.SIGTERM):
    """Stop it; return its exit code and the rest of its output."""
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert err.endswith("Stopped. Everything collected so far is stored.\n")
    assert "Traceback" not in err
    return process.returncode, out + err


def is_silent_about(shell, *outputs):
    service = shell.environment["EXPOSUREKIT_BASE_URL"].split("//")[1]
    for secret in (KEY, SECRET, SIGNING_SECRET, PATH, service, "secret-"):
        assert secret not in "".join(outputs)


def verifies(shell):
    return shell.here("history", "verify").stdout == "ok: the history is not damaged.\n"


def test_watch_collects_receives_signed_deliveries_and_stops_while_idle(shell, fleet):
    shell.environment["EXPOSUREKIT_WEBHOOK_SIGNING_SECRET"] = SIGNING_SECRET
    body = BODY.replace("12", "3")
    headers = signed_headers(at=utc_now(), body=body)
    with shell.started(*WATCH, "--receive", "0") as process:
        inbox = inbox_of(process)
        begun = line_with(process, "watching ")
        assert begun.endswith(f"watching {shell.directory}/history every 1h; first run now\n")
        loaded = line_with(process, EVERYONE_LOADED)
        assert httpx.post(inbox, content=body).status_code == 401
        assert httpx.post(inbox, content=body, headers=headers).status_code == 204
        eventually(lambda: status(shell)[1]["ingested"])
        assert line_with(process, "deliveries: ").endswith("deliveries: 1 ingested, 0 quarantined\n")
        second = shell.here(*WATCH, "--receive", "0")
        assert "watch status shows" in error_of(second)
        assert second.returncode == 1
        prose = shell.here("watch", "status")
        assert (prose.returncode, prose.stdout.splitlines()[0]) == (0, "ok: the watch is running.")
        code, watch_status = status(shell)
        assert code == 0
        figures = [watch_status[name] for name in ("alive", "ingested", "failures_in_a_row")]
        assert figures == [True, 1, 0]
        code, rest = ended(process)
    assert code == 0
    code, watch_status = status(shell)
    assert (code, watch_status["state"], watch_status["problem"]) == (1, "stopped", "it was stopped")
    assert sorted(fleet.user_ids) == list(PEOPLE)
    assert verifies(shell)
    is_silent_about(shell, loaded, rest, second.stderr, prose.stdout, json.dumps(watch_status))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watch_receives_during_a_slow_run_and_stops_within_it(shell, fleet, number):
    fleet.fault = faults.BlackHole()
    with shell.started(*WATCH, "--receive", "0") as process:
        address = urlsplit(inbox_of(process))
        path, inbox = address.path, f"http://{address.netloc}"
        eventually(lambda: fleet.listed_at)
        assert httpx.post(inbox + path, content=BODY).status_code == 204
        assert httpx.post(inbox, content=BODY).status_code == 404
        assert status(shell)[1]["state"] == "collecting"
        code, rest = ended(process, number)
    assert code == 0
    assert status(shell)[1]["state"] == "stopped"
    assert verifies(shell)
    is_silent_about(shell, rest)
    assert path not in rest
    if number == signal.SIGTERM:
        fleet.fault = None
        with shell.started(*WATCH, "--receive", "0") as process:
            assert httpx.post(inbox_of(process) + path, content=BODY).status_code == 204
            line_with(process, EVERYONE_LOADED)
            assert ended(process)[0] == 0
        assert status(shell)[1]["ingested"] == 1
        assert verifies(shell)


def test_the_status_of_a_killed_watch_is_gone(shell, fleet):
    fleet.fault = faults.server_error()
    with shell.started(*WATCH) as process:
        line_with(process, "a collection failed: List users failed (500")
        eventually(lambda: status(shell)[1]["failures_in_a_row"])
        code, watch_status = status(shell)
        assert code == 1
        assert watch_status["problem"].startswith("the last collection failed: List users failed")
        process.kill()
        process.wait()
    prose = shell.here("watch", "status")
    assert prose.returncode == 1
    assert prose.stdout.splitlines()[0] == "Problem: its process ended."
    fleet.fault = None
    with shell.started(*WATCH) as process:
        loaded = line_with(process, EVERYONE_LOADED)
        assert status(shell)[0] == 0
        assert ended(process)[0] == 0
    assert verifies(shell)
    is_silent_about(shell, prose.stdout, loaded, json.dumps(watch_status))


def test_a_restarted_watch_reports_the_last_run_and_error(shell, fleet):
    with shell.started(*WATCH) as process:
        line_with(process, EVERYONE_LOADED)
        ended(process)
    loaded = status(shell)[1]["last_run"]
    error = {"at": "2026-03-01T20:00:00+00:00", "reason": "no response"}
    file = shell.directory / "history" / "watch.json"
    file.write_text(json.dumps(status(shell)[1] | {"last_error": error}))
    with shell.started(*WATCH) as process:
        assert re.search(
            r"every 1h; first run at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", line_with(process, "watching ")
        )
        code, watch_status = status(shell)
        prose = shell.here("watch", "status").stdout
        ended(process)
    assert (code, watch_status["last_run"], watch_status["failures_in_a_row"]) == (0, loaded, 0)
    minute = f"{datetime.fromisoformat(loaded['finished_at']):%Y-%m-%d %H:%M} UTC"
    assert f"Last run: {minute}, {len(PEOPLE)} users loaded completely, 0 failed\n" in prose
    assert prose.endswith("Last error: 2026-03-01 20:00 UTC, no response\n")


def test_the_status_counts_what_the_inbox_and_outbox_have(shell, fleet):
    """The watch runs without --receive and --rules: another process receives, and rules were there before."""
    with shell.started(*WATCH) as process:
        line_with(process, EVERYONE_LOADED)
        directory = shell.directory / "history"
        with closing(InboxStore(directory / "inbox.db")) as inbox:
            inbox.put_all([("msg_1", b"?"), ("msg_2", b"{}")])
            inbox.quarantine(1, "not JSON")
        with closing(NotificationOutbox(directory / "notifications.db")) as outbox:
            at = utc_now()
            outbox.put([Notification("me", key, "new listings", "Seekfolk", at) for key in "ab"])
        prose = shell.here("watch", "status").stdout
        watch_status = status(shell)[1]
        ended(process)
    assert prose.startswith(
        "ok: the watch is running. 1 delivery in quarantine: exposurekit inbox quarantine --history DIR lists them.\n"
    )
    assert "Deliveries waiting: 1\nDeliveries quarantined: 1\n" in prose
    assert "Notifications not sent yet: 2 (this watch sends none: it runs without --rules)\n" in prose
    assert (watch_status["inbox"]["waiting"], watch_status["unsent_notifications"]) == (1, 2)


def test_the_status_counts_the_inbox_and_notifications_of_its_watch(shell):
    directory = shell.directory / "history"
    directory.mkdir()
    with closing(InboxStore(directory / "inbox.db")) as former:
        former.put_all([("msg_1", b"{}"), ("msg_2", b"{}")])
    elsewhere = shell.directory / "elsewhere.db"
    with closing(InboxStore(elsewhere)) as inbox:
        inbox.put("msg_1", b"{}")
    with closing(NotificationOutbox(directory / "notifications.db")) as outbox:
        outbox.put([Notification("me", "a", "new listings", "Seekfolk", utc_now())])
    running = WatchStatus(directory / "watch.json")
    running.start(os.getpid(), utc_now(), timedelta(hours=6), sends=True, inbox=elsewhere)
    assert status(shell)[1]["inbox"]["waiting"] == 1
    assert "Notifications not sent yet: 1\n" in shell.here("watch", "status").stdout
    running.record_wait(utc_now(), None, 3, {"due now": 3})
    assert "Notifications not sent yet: 3 (3: due now)\n" in shell.here("watch", "status").stdout


def test_a_watch_that_cannot_start_creates_no_webhook_path(shell):
    with shell.started(*WATCH) as process:
        line_with(process, EVERYONE_LOADED)
        second = shell.here(*WATCH, "--receive", "0")
        ended(process)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        in_use = shell.here(*WATCH, "--receive", str(taken.getsockname()[1]))
    assert "watch status shows" in error_of(second)
    assert "it is in use" in in_use.stderr
    assert "Traceback" not in in_use.stderr
    assert (second.stdout, in_use.stdout, second.returncode, in_use.returncode) == ("", "", 1, 1)
    assert not list((shell.directory / "history").glob("inbox*"))


@pytest.mark.parametrize("failure", ["no service", "wrong secret"])
def test_a_first_watch_that_cannot_connect_creates_nothing(shell, fleet, failure):
    if failure == "no service":
        shell.environment["EXPOSUREKIT_BASE_URL"] = f"http://127.0.0.1:{free_port()}"
    else:
        fleet.fault = faults.refused(401)
    rules = shell.directory / "rules.yaml"
    rules.write_text("send_to: {me: 'json://127.0.0.1:9'}\nrules: [{when: new, send: me}]")
    rules.chmod(0o600)
    run = shell.here(*WATCH, "--rules", str(rules))
    assert run.returncode == 1
    assert "List users failed" in error_of(run)
    assert not (shell.directory / "history").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["status"], 1, "No watch was started with this history, history: exposurekit watch run"),
        (["run", "--every", "0s"], 2, "use a number and its unit"),
        (["run", "--every", "soon"], 2, "use a number and its unit"),
        (["run", "--history", "s3://bucket/history"], 1, "a watch needs a directory on this machine"),
        (["run", "--receive", "0", "--path-secret", "short"], 1, "a path secret must have 16 to 200"),
    ],
)
def test_a_wrong_option_of_a_watch_is_an_error(shell, words, code, message):
    run = shell.here("watch", *words)
    assert run.returncode == code
    assert message in run.stderr
    is_silent_about(shell, run.stderr)
