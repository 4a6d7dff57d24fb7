"""The processes of a service: serve, worker, both at once, and how they end."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from support import postgres
from support.full_disk import run_on_small_disk
from support.services import PAGE
from support.shell import (
    Operator,
    ended,
    error_of,
    eventually,
    line_with,
    listening,
    read_only,
    read_until,
    run_unprivileged,
)
from support.site_definitions import site_definition

import exposurekit as ek
from exposurekit.service.api.server import running
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings import findings
from exposurekit.service.storage import tables

pytestmark = pytest.mark.long  # processes of their own
MANUAL = (Path(ek.__file__).parent / "service" / "README.md").read_text()
NETWORK = ("--callback-network", "127.0.0.0/8")
JUNIPER = {"first_name": "Juniper", "last_name": "Quill", "addresses": [{"city": "Oak", "state": "CA"}]}
# On loopback, where scans are forbidden: each is inconclusive and states the reason.
DEFINITION = site_definition("http://127.0.0.1:9", politeness="{delay_s: 0, robots_txt: false}")


class Inbox:
    """An integrator that receives webhooks; a slow one responds only after `goes_on` is set."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.ids: list[str] = []
        self.goes_on = asyncio.Event()
        if not is_slow:
            self.goes_on.set()
        self.app = Starlette(routes=[Route("/hook", self.receive, methods=["POST"])])

    async def receive(self, request):
        self.ids.append(request.headers["webhook-id"])
        await self.goes_on.wait()
        return Response(status_code=204)


class Neighbourhood:
    """A people-search site that lists nobody, a search engine and another page, all on loopback."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.port = ""
        self.app = Starlette(routes=[Route("/{path:path}", self.answer)])

    async def answer(self, request):
        self.paths.append(request.url.path)
        if request.url.path == "/engine":
            results = [{"url": f"http://localhost:{self.port}/other"}]
            return Response(json.dumps({"results": results}), media_type="application/json")
        return Response("Nobody of that name", media_type="text/html")


def added(operator, *words):
    run = operator.here("integrator", "add", "acme", "--json", *(words or ("--attested-by", "Jo Doe")))
    return json.loads(run.stdout)


def json_output(operator, *words):
    run = operator.here(*words, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def checked_worker(operator):
    [worker] = [
        one for one in json_output(operator, "service", "status")["checks"] if one["check"] == "worker"
    ]
    return worker["message"]


def register(base_url, credentials):
    with ek.Client(base_url, **credentials) as client:
        return client.create_user(**JUNIPER)


def due_delivery(operator, base_url, user_id):
    """An event whose window closed a while ago."""
    ok = operator.here("integrator", "set-callback", "acme", f"{base_url}/hook", *NETWORK)
    assert ok.returncode == 0, ok.stderr
    clock = FrozenClock(datetime.now(UTC) - timedelta(minutes=11))
    operator.work(lambda work: findings.discover_link(work, user_id, PAGE), clock=clock)


def scanned(operator):
    """Return the person's row once no scan is running."""

    async def ask(work):
        row = await work.first(select(tables.users.c.scanned_at, tables.users.c.is_scanning))
        return None if row is None or row.is_scanning else row

    return operator.work(ask)


def test_a_worker_scans_for_a_service_without_one(file_operator):
    operator = file_operator
    credentials = added(operator)
    (operator.directory / "sites").mkdir()
    (operator.directory / "sites" / "seekfolk.yaml").write_text(DEFINITION)
    with operator.started("serve", "--port", "0", "--no-worker") as front:
        register(listening(front), credentials)
        assert json_output(operator, "service", "status")["work"]["scans"]["due"] == 1
        with operator.started("worker", "--sites", "sites") as worker:
            assert "sites=1 search_engine=no" in line_with(worker, "worker=running")
            eventually(lambda: scanned(operator))
            assert scanned(operator).scanned_at is not None
            rest = ended(worker, signal.SIGINT)
        assert "no site definitions" not in rest
        assert "worker=" not in ended(front, signal.SIGTERM)
    status = json_output(operator, "service", "status")
    assert status["work"]["scans"] == {"waiting": 1, "due": 0, "leased": 0, "oldest_due_at": None}
    [seekfolk] = status["sites"]
    assert (seekfolk["site"], seekfolk["inconclusive_rate"]) == ("Seekfolk", 1.0)
    assert "the address is forbidden" in seekfolk["last_reason"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", [["serve"], ["serve", "--processes", "2"], ["worker"]], ids=" ".join)
def test_a_process_that_was_asked_to_stop_says_so(file_operator, words, number):
    added(file_operator)
    port = ["--port", "0"] if words[0] == "serve" else []
    with file_operator.started(*words, *port) as process:
        started = listening(process) if port else line_with(process, "worker=running")
        rest = ended(process, number)
    assert "level=INFO worker=stopped\n" in rest
    assert (rest.splitlines()[-1].endswith(f"level=INFO stopped={started}")) == bool(port)


@pytest.mark.parametrize("words", [["serve"], ["serve", "--processes", "2"], ["worker"]], ids=" ".join)
def test_an_allowed_network_is_for_defined_sites_only(file_operator, words):
    """A page that the search engine lists is on no defined site."""
    operator = file_operator
    credentials = added(operator)
    (operator.directory / "sites").mkdir()
    neighbourhood = Neighbourhood()
    with (
        running(neighbourhood.app) as base_url,
        operator.started("serve", "--port", "0", "--no-worker") as api,
    ):
        neighbourhood.port = base_url.rpartition(":")[2]
        definition = DEFINITION.replace("http://127.0.0.1:9", base_url)
        (operator.directory / "sites" / "seekfolk.yaml").write_text(definition)
        engine = ("--search-engine", f"{base_url}/engine")
        port = [] if words == ["worker"] else ["--port", "0"]
        register(listening(api), credentials)
        with operator.started(
            *words,
            *port,
            "--sites",
            "sites",
            *engine,
            "--site-network",
            "127.0.0.0/8",
            "--site-network",
            "::1/128",
        ) as process:
            eventually(lambda: scanned(operator))
            assert "Traceback" not in ended(process, signal.SIGTERM)
    scans = {
        one["site"]: one["inconclusive_scans"] for one in json_output(operator, "service", "status")["sites"]
    }
    assert scans["Seekfolk"] == 0
    assert {"/search", "/engine"} <= {*neighbourhood.paths}
    assert "/other" not in neighbourhood.paths


def test_serve_includes_a_worker_and_reports_missing_sites(file_operator):
    operator = file_operator
    credentials = added(operator)
    with operator.started("serve", "--port", "0") as front:
        assert "--sites DIRECTORY" in line_with(front, "no site definitions")
        register(listening(front), credentials)
        eventually(lambda: scanned(operator))
        assert scanned(operator).scanned_at is None  # there was no site to scan
        assert "no sites" not in ended(front, signal.SIGTERM)
    (operator.directory / "empty").mkdir()
    with operator.started("serve", "--port", "0", "--sites", "empty") as front:
        assert line_with(front, "no site definitions").endswith("; no file in empty ends in .yaml\n")


def test_a_service_and_a_worker_together_deliver_each_event_once(operator):
    credentials = added(operator)
    inbox = Inbox()
    with (
        running(inbox.app) as hook,
        operator.started("serve", "--port", "0", *NETWORK) as front,
        operator.started("worker", *NETWORK) as worker,
    ):
        line_with(worker, "worker=running")
        base_url = listening(front)
        eventually(lambda: checked_worker(operator).startswith("2 workers run"))
        for _ in range(5):
            user = register(base_url, credentials)
            due_delivery(operator, hook, user.id)
        eventually(lambda: json_output(operator, "service", "status")["deliveries"]["delivered"] == 5)
        for process in (worker, front):
            log = ended(process, signal.SIGTERM)
            assert checked_worker(operator).startswith("1 worker runs" if process is worker else "none runs")
            assert "fault" not in log
            assert not [word for word in ("Quill", credentials["api_key"], hook, PAGE.url) if word in log]
    sent = json_output(operator, "webhooks", "list")
    assert sorted(inbox.ids) == sorted(one["webhook_id"] for one in sent)
    assert [one["attempts"] for one in sent] == [1] * 5


def test_a_callback_in_a_closed_network_is_not_visited(file_operator):
    operator = file_operator
    credentials = added(operator)
    inbox = Inbox()
    with running(inbox.app) as hook, operator.started("serve", "--port", "0", "--no-worker") as front:
        due_delivery(operator, hook, register(listening(front), credentials).id)
        with operator.started("worker") as worker:
            assert "state=pending" in line_with(worker, "address refused")
    assert inbox.ids == []


def test_a_stopped_worker_releases_its_leases(file_operator):
    """The lease would keep others away for longer than this test waits."""
    operator = file_operator
    credentials = added(operator)
    inbox = Inbox(is_slow=True)
    with running(inbox.app) as hook, operator.started("serve", "--port", "0", "--no-worker") as front:
        due_delivery(operator, hook, register(listening(front), credentials).id)
        with operator.started("worker", *NETWORK) as worker:
            eventually(lambda: inbox.ids)
            assert json_output(operator, "service", "status")["work"]["deliveries"]["leased"] == 1
            ended(worker, signal.SIGTERM)
        counts = json_output(operator, "service", "status")["work"]["deliveries"]
        assert (counts["due"], counts["leased"]) == (1, 0)
        inbox.goes_on.set()
        with operator.started("worker", *NETWORK):
            eventually(lambda: json_output(operator, "service", "status")["deliveries"]["delivered"] == 1)
    assert len(set(inbox.ids)) == 1


def test_serve_creates_a_database_only_on_request(file_operator):
    operator = file_operator
    run = operator.here("serve", "--port", "0")
    assert (
        run.returncode,
        "exposurekit integrator add NAME --attested-by WHO creates one" in run.stderr,
    ) == (1, True)
    assert not (operator.directory / "service.db").exists()
    database = ("--database", f"sqlite:///{operator.directory}/service.db")
    with operator.started("serve", "--port", "0", "--create", *database) as front:
        assert "created=service.db\n" in line_with(front, "created=")
        assert httpx.get(f"{listening(front)}/openapi.json").status_code == 200
        ended(front, signal.SIGTERM)
    assert (operator.directory / "service.db").exists()
    wrong = operator.here("serve", "--port", "8642", "--metrics-port", "8642")
    assert (wrong.returncode, "--metrics-port and --port must differ" in wrong.stderr) == (2, True)
    wrong = operator.here("serve", "--trusted-proxy", "nginx")
    assert (wrong.returncode, "an address or a network" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    "words", [["serve", "--port", "0"], ["serve", "--port", "0", "--no-worker"], ["worker"]], ids=" ".join
)
@pytest.mark.parametrize(
    ("protected", "named"), [("service.db", "service.db"), (".", "the directory of service.db")]
)
def test_a_database_that_can_only_be_read_is_refused(file_operator, words, protected, named):
    operator = file_operator
    added(operator)
    options = ("--database", operator.url, "--key-file", operator.key_file)
    with read_only(operator.directory / protected):
        run = run_unprivileged(
            "import sys; from exposurekit import cli; cli.run(sys.argv[1:])", *words, *options
        )
    assert run.returncode == 1
    assert "cannot be opened: this user cannot write " in error_of(run)
    assert named in error_of(run)
    assert "change the owner or the permissions" in error_of(run)


def test_a_database_that_cannot_be_read_is_named(file_operator):
    operator = file_operator
    added(operator)
    (operator.directory / "service.db").chmod(0)
    code = "import sys; from exposurekit import cli; cli.run(sys.argv[1:])"
    options = ("--database", operator.url, "--key-file", operator.key_file)
    run = run_unprivileged(code, "users", "list", *options)
    assert run.returncode == 1
    assert error_of(run).endswith(
        "cannot be opened: this user cannot read service.db: change the owner or the permissions"
    )


ON_A_FULL_DISK = """
import json, sqlite3, sys
from pathlib import Path
from tempfile import TemporaryDirectory
from support.full_disk import fill
from support.shell import Operator

directory, outputs = Path(sys.argv[1]), []
operator = Operator(directory, f"sqlite:///{directory / 'service.db'}")
operator.here("integrator", "add", "acme", "--no-attestation")
outputs.append(operator.here("doctor").stdout)
fill(directory)
for words in (["serve", "--port", "0"], ["worker"], ["users", "list"]):
    outputs.append(operator(*words).stderr)
outputs.append(operator.here("doctor").stdout)
(directory / "filler").unlink()
with sqlite3.connect(directory / "service.db") as reader:  # has the log and its index in place
    reader.execute("SELECT * FROM integrators").fetchall()
    fill(directory)
    for words in (["serve", "--port", "0"], ["worker"]):
        outputs.append(operator(*words).stderr)
    outputs.append(operator.here("doctor").stdout)
    with TemporaryDirectory(dir=directory.parent) as other:  # on another disk, with a link to the database
        link = Path(other, "service.db")
        link.symlink_to(directory / "service.db")
        outputs.append(Operator(directory, f"sqlite:///{link}").here("doctor").stdout)
print(json.dumps(outputs))
"""


def test_on_a_full_disk_nothing_starts_and_doctor_says_why(tmp_path):
    outputs = json.loads(run_on_small_disk(ON_A_FULL_DISK, tmp_path))
    before, *starts, unread, serve, worker, read, linked = outputs
    assert re.search(
        r"^warn  disk: [23] MB free on the disk of service\.db -> free some space$", before, re.MULTILINE
    )
    full = "service.db cannot be opened: no space is left on the disk of service.db: free some space\n"
    assert [full in output for output in (*starts, serve, worker)] == [True] * 5
    checked = "fail  disk: the disk of service.db is full: the service cannot write -> free some space\n"
    assert (checked in unread, checked in read) == (True, True)
    assert (
        "fail  database: cannot be read: no space is left on the disk of service.db: free some space\n"
        in unread
    )
    assert "ok    database: is up to date" in read
    assert checked in linked


def test_a_restored_backup_has_all_that_was_acknowledged(file_operator):
    """People are registered until the service is killed; a backup is made meanwhile and restored as the manual says."""
    operator = file_operator
    credentials = added(operator)
    acknowledged = []
    with (
        operator.started("serve", "--port", "0") as front,
        ek.Client(listening(front), **credentials, retries=0) as client,
        ThreadPoolExecutor() as threads,
    ):

        def register_people():
            with contextlib.suppress(ek.ConnectionFailed):
                while True:
                    acknowledged.append(client.create_user(**JUNIPER))

        threads.submit(front.stderr.read)  # a full pipe would stop the service
        writing = threads.submit(register_people)
        eventually(lambda: len(acknowledged) > 20 or writing.done())
        before = list(acknowledged)
        run = operator.here("service", "backup", "copy.db")
        assert (run.returncode, run.stdout.startswith("Wrote copy.db: ")) == (0, True), run.stderr
        eventually(lambda: len(acknowledged) > len(before) + 20 or writing.done())
        front.kill()
        writing.result()
    assert len(acknowledged) > len(before) + 20
    for path in operator.directory.glob("service.db*"):
        path.unlink()
    (operator.directory / "copy.db").rename(operator.directory / "service.db")
    assert "None is damaged" in operator.here("service", "check").stdout
    with (
        operator.started("serve", "--port", "0") as front,
        ek.Client(listening(front), **credentials) as client,
    ):
        for user in before:
            assert client.get_user(user.key).first_name == "Juniper"
        client.create_user(**JUNIPER)
        ended(front)


SECTION = MANUAL.partition("To restore:")[2].partition("\n## ")[0]
RESTORE = re.findall(r"^    ((?:psql|create|pg_restore).*)$", SECTION, re.MULTILINE)


def operator_of(server, directory):
    """An operator of the manual's database and role on a server of their own."""
    url = server.get_uri("exposure").replace("postgresql://postgres:", "postgresql+psycopg://exposure:")
    directory.mkdir(exist_ok=True)
    host = re.search(r"host=([^&]+)", url)[1]
    operator = Operator(directory, url)
    path = f"{server.bin_path}:{os.environ['PATH']}"
    operator.environment |= {"PGHOST": host, "PGUSER": "postgres", "PATH": path}
    return operator


def typed(operator, line):
    streams = {"capture_output": True, "text": True, "cwd": operator.directory}
    return subprocess.run(line, shell=True, check=False, env=operator.environment, **streams)  # noqa: S602


def test_a_postgresql_backup_is_restored_as_the_manual_says(tmp_path):
    """On the same server, where the database still is, and on a new one, which lacks the role."""
    rename, create_role, *restore = RESTORE

    def names(operator):
        return [one["integration_name"] for one in json_output(operator, "integrator", "list")]

    with postgres.a_server() as old_server, postgres.a_server() as new_server:
        operator, another = (
            operator_of(old_server, tmp_path / "old"),
            operator_of(new_server, tmp_path / "new"),
        )
        for line in (create_role, restore[0]):
            assert typed(operator, line).returncode == 0
        added(operator)
        dump = operator.here("service", "backup", "copy.dump").stderr.partition("runs: ")[2]
        assert typed(operator, dump).returncode == 0
        assert operator.here("integrator", "add", "later", "--no-attestation").returncode == 0
        again = typed(operator, restore[1])
        assert (again.returncode, "already exists" in again.stderr) == (1, True)
        assert names(operator) == ["acme", "later"]
        shutil.copy(operator.directory / "copy.dump", another.directory)
        shutil.copy(operator.key_file, another.key_file)
        for one, lines in ((operator, (rename, *restore)), (another, (create_role, *restore))):
            for line in lines:
                assert (run := typed(one, line)).returncode == 0, run.stderr
            assert one.here("service", "check").returncode == 0
            assert names(one) == ["acme"]


def test_postgresql_has_a_backup_command_of_its_own(file_operator):
    url = "postgresql+psycopg://exposure:s3cret@db/exposure"
    run = file_operator.here("service", "backup", "copy.db", "--database", url)
    assert (run.returncode, "s3cret" in run.stderr) == (1, False)
    assert "pg_dump --format=custom --file=copy.db --dbname=postgresql://exposure@db/exposure\n" in run.stderr


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["worker"]], ids=" ".join)
def test_metrics_are_served_on_a_loopback_port(file_operator, words):
    operator = file_operator
    added(operator)
    with operator.started(*words, "--metrics-port", "0") as process:
        url = re.findall(r"http://\S+", line_with(process, "metrics="))[0]
        if words[0] == "serve":
            httpx.get(f"{listening(process)}/health").raise_for_status()
        text = httpx.get(url).text
        assert "\nexposurekit_database_up 1.0\n" in text
        assert ('exposurekit_requests_total{operation="none",status="2xx"} 1.0' in text) == (
            words[0] == "serve"
        )
        run = operator.here(*words, "--metrics-port", url.split(":")[2].partition("/")[0])
        assert run.returncode == 1
        assert "it is in use" in run.stderr
        assert "level=ERROR" not in run.stderr
        assert "fault" not in ended(process, signal.SIGTERM)


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["worker"]], ids=" ".join)
def test_a_signal_ends_a_process_that_has_just_started(file_operator, words):
    added(file_operator)
    with file_operator.started(*words, "--metrics-port", "0") as process:
        read_until(process, "metrics=")
        ended(process, signal.SIGTERM)


def refuses(address):
    try:
        socket.create_connection(address, timeout=1).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


@pytest.mark.parametrize("words", [[], ["--processes", "2"]], ids=["one process", "two processes"])
def test_a_second_ctrl_c_ends_serve_without_a_traceback(file_operator, words):
    """Ctrl-C reaches every process of a terminal; after the first one, an unfinished request keeps them running."""
    added(file_operator)
    with file_operator.started("serve", "--port", "0", *words, start_new_session=True) as process:
        host, port = listening(process).removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(
                b"POST /api/acme/key/v2/users.json HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
            )
            os.killpg(process.pid, signal.SIGINT)
            eventually(lambda: refuses((host, int(port))))
            assert process.poll() is None
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(60) == 0
            rest = process.stderr.read()
    assert "Traceback" not in rest
    assert "CancelledError" not in rest


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["worker"]], ids=" ".join)
def test_a_json_log_has_one_object_a_line(file_operator, words):
    operator = file_operator
    added(operator)
    with operator.started(*words, "--log-format", "json") as process:
        lines = read_until(process, "no site definitions")
        if words[0] == "serve":
            lines += read_until(process, "listening=")
            httpx.get(f"{json.loads(lines[-1])['fields']['listening']}/health").raise_for_status()
        lines += ended(process, signal.SIGTERM).splitlines()
    logged = [json.loads(line) for line in lines]
    assert all({"time", "level", "logger", "message"} <= one.keys() for one in logged)
    assert {one["pid"] for one in logged} == {process.pid}
    assert any(one.get("fields", {}).get("worker") == "running" for one in logged)
    assert not any("another worker runs" in one["message"] for one in logged)  # it is the only one
    served = [one["fields"] for one in logged if one["message"].startswith("operation=")]
    assert [(one["operation"], one["status"]) for one in served] == [("none", 200)] * (words[0] == "serve")


def test_behind_a_trusted_proxy_each_client_has_its_own_limit(file_operator):
    operator = file_operator
    credentials = added(operator, "--no-attestation")
    path = f"/api/acme/{credentials['api_key']}/v2/users?api_secret={credentials['api_secret']}"
    options = ("--port", "0", "--requests-per-second", "1", "--trusted-proxy", "127.0.0.1")
    with operator.started("serve", *options) as front, httpx.Client(base_url=listening(front)) as http:

        def statuses(address, n):
            return [http.get(path, headers={"x-forwarded-for": address}).status_code for _ in range(n)]

        assert statuses("192.0.2.1", 11) == [200] * 10 + [429]
        assert statuses("192.0.2.2", 1) == [200]


def test_the_limit_of_requests_can_be_turned_off(file_operator):
    operator = file_operator
    credentials = added(operator, "--no-attestation")
    path = f"/api/acme/{credentials['api_key']}/v2/users?api_secret={credentials['api_secret']}"
    with operator.started("serve", "--port", "0", "--requests-per-second", "0") as front:
        base_url = listening(front)
        with httpx.Client() as http:
            assert {http.get(base_url + path).status_code for _ in range(12)} == {200}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["worker"], "exposurekit integrator add NAME --attested-by WHO creates one"),
        (["worker", "--search-engine", "127.0.0.1:8888"], "--search-engine must be an http or https URL"),
        (["worker", "--callback-network", "10.0.0.1/8"], "10.0.0.0/8"),
        (["worker", "--site-network", "10.0.0.1/8"], "10.0.0.0/8"),
        (["serve", "--search-engine", "searx"], "--search-engine must be an http or https URL"),
        (["serve", "--callback-network", "here"], "10.0.0.0/8"),
        (["serve", "--sites", "nowhere"], "nowhere is not a directory"),
    ],
)
def test_a_wrong_worker_option_is_a_one_line_error(file_operator, words, message):
    operator = file_operator
    if words != ["worker"]:
        added(operator)
    run = operator.here(*words)
    assert run.returncode == 1
    [line] = run.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line
