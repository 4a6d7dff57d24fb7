"""Server processes that share a socket: what holds for all of them together, how they are replaced, and how they end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.services import JANE, url_of
from support.shell import Operator, eventually, read_until

pytestmark = pytest.mark.long  # processes of their own
N, TIMEOUT_S = 2, 20
PER_SECOND, WINDOW_S, FAILURES = 10, 10, 20  # the rate limits
QUOTA = 5


@contextmanager
def stopped(*pids):
    """Processes do nothing for the duration of the block."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            eventually(lambda pid=pid: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T")
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


class Group:
    """A service of several processes, and what it logs."""

    def __init__(self, operator, process, log):
        self.operator, self.process, self._log = operator, process, log
        self.base_url, self.metrics_url = (
            self.logged(name)["fields"][name] for name in ("listening", "metrics")
        )

    @property
    def log(self):
        return self._log.read_text().splitlines()

    def logged(self, name):
        """The line that has a field of this name, once it is there."""
        [line] = eventually(lambda: [line for line in self.log if f'"{name}": ' in line])
        return json.loads(line)

    @property
    def pids(self):
        """The ids of the server processes, sorted."""
        return sorted(
            int(pid)
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )

    @contextmanager
    def connected(self):
        """A client for each process: a stopped one accepts no connection, so the other one does."""
        with ExitStack() as stack:
            clients = []
            for pid in self.pids:
                client = stack.enter_context(httpx.Client(base_url=self.base_url, timeout=TIMEOUT_S))
                with stopped(*(one for one in self.pids if one != pid)):
                    client.get("/openapi.json").raise_for_status()
                clients.append(client)
            yield clients

    def integrator(self, name, *words):
        run = self.operator.here("integrator", "add", name, "--no-attestation", "--json", *words)
        assert run.returncode == 0, run.stderr
        credentials = json.loads(run.stdout)
        return f"/api/{name}/{credentials['api_key']}/v2/users", {"api_secret": credentials["api_secret"]}

    def counted(self, name, **labels):
        text = httpx.get(self.metrics_url, timeout=TIMEOUT_S).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


@pytest.fixture(scope="module")
def group(store, tmp_path_factory):
    operator = Operator(directory := tmp_path_factory.mktemp("processes"), url_of(directory))
    assert operator.here("integrator", "add", "first", "--no-attestation").returncode == 0
    options = ("--processes", str(N), "--port", "0", "--metrics-port", "0", "--log-format", "json")
    log = directory / "log"  # not a pipe, which nobody would read
    with (
        log.open("w") as stderr,
        operator.started(
            "serve", *options, "--requests-per-second", str(PER_SECOND), stderr=stderr
        ) as process,
    ):
        yield Group(operator, process, log)


def created(client, path, query, **fields):
    response = client.post(path, params=query, json=JANE | {"async": True} | fields)
    assert response.status_code == 200, response.text
    return response.json()["user"]


def test_each_process_alone_answers_requests(group):
    """A process that does not run keeps no request of another one's connection waiting."""
    with group.connected() as clients:
        for pid, client in zip(group.pids, clients, strict=True):
            with stopped(pid):
                for other in clients:
                    if other is not client:
                        assert other.get("/health").status_code == 200


def test_connections_that_come_together_are_shared(group):
    """Those of a process that did not run are as many as the other one's, soon: it accepts most of the next ones."""
    url = httpx.URL(group.base_url)

    def shares():
        """How many open connections each process has."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        accepted = {
            f"socket:[{row[9]}]"
            for row in rows
            if row[1].endswith(f":{url.port:04X}") and row[3] == "01" and row[9] != "0"
        }
        return [len(accepted & links(pid)) for pid in group.pids]

    with ExitStack() as stack:

        def connect(count):
            until = sum(shares()) + count
            for _ in range(count):
                stack.enter_context(socket.create_connection((url.host, url.port)))
            eventually(lambda: sum(shares()) >= until)
            return shares()

        with stopped(group.pids[0]):
            before = connect(40)
        after = connect(40)
        idle, busy = (now - then for now, then in zip(after, before, strict=True))
        assert idle > busy


def links(pid):
    """What the open files of a process are."""
    targets = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            targets.add(str(file.readlink()))
    return targets


def test_a_write_is_visible_in_every_process_at_once(group):
    path, query = group.integrator("fresh")
    with group.connected() as clients:
        user = created(clients[0], path, query)
        own, credentials = f"{path}/{user['id']}", query | {"secret": user["secret"]}
        for number in range(12):
            writer, name = clients[number % N], f"Jane{'x' * number}"
            assert writer.put(own, params=credentials, json={"first_name": name}).status_code == 200
            for client in clients:
                response = client.get(own, params=credentials)
                assert response.json()["user"]["first_name"] == name
        for number in range(2, 5):
            created(clients[number % N], path, query)
            assert [client.get(path, params=query).json()["count"] for client in clients] == [number] * N


def test_a_quota_is_exact_among_processes(group):
    path, query = group.integrator("few")
    assert group.operator.here("integrator", "set-quota", "few", str(QUOTA)).returncode == 0
    with group.connected() as clients, ThreadPoolExecutor(2 * N) as threads:
        codes = threads.map(
            lambda number: (
                clients[number % N].post(path, params=query, json=JANE | {"async": True}).status_code
            ),
            range(2 * QUOTA * N),
        )
    assert sorted(codes) == [200] * QUOTA + [400] * (2 * QUOTA * N - QUOTA)


def test_limits_count_the_requests_of_all_processes(group):
    most = PER_SECOND * WINDOW_S
    with group.connected() as clients:

        def codes(name):
            path, query = group.integrator(name)
            return [clients[number % N].get(path, params=query).status_code for number in range(most + 5)]

        expected = [200] * most + [429] * 5
        assert expected in (codes(name) for name in ("busy", "busier"))  # one of them may be in two windows


def test_limits_count_the_failures_of_all_processes(group):
    with group.connected() as clients:

        def codes(name):
            path, _ = group.integrator(name)
            wrong = {"api_secret": "wrong"}
            return [clients[number % N].get(path, params=wrong).status_code for number in range(FAILURES + 4)]

        expected = [401] * FAILURES + [429] * 4
        assert expected in (codes(name) for name in ("guessed", "guessable"))  # as above


def test_metrics_add_up_the_requests_of_all_processes(group):
    path, query = group.integrator("counted")
    labels = {"operation": "get_record", "status": "4xx"}
    with group.connected() as clients:
        before = group.counted("exposurekit_requests_total", **labels)
        for client in clients * 2:
            assert client.get(f"{path}/1/records/1", params=query).status_code == 400
        assert group.counted("exposurekit_requests_total", **labels) - before == 2 * N
    text = httpx.get(group.metrics_url).text
    assert set(re.findall(r'process_resident_memory_bytes\{process="(\w+)"\}', text)) == {
        "parent",
        *map(str, range(1, N + 1)),
    }
    assert group.counted("exposurekit_database_up") == 1


def test_a_killed_process_is_replaced_and_nothing_acknowledged_is_lost(group):
    """Clients go on with those that are left; what a request that was cut off did is unknown."""
    path, query = group.integrator("many")
    labels = {"operation": "create_user", "status": "2xx"}
    counted, before, acknowledged = group.counted("exposurekit_requests_total", **labels), group.pids, []

    def create():
        with httpx.Client(base_url=group.base_url, timeout=TIMEOUT_S) as client:
            for _ in range(8):
                try:
                    response = client.post(path, params=query, json=JANE | {"async": True})
                except httpx.TransportError:
                    continue
                assert response.status_code == 200, response.text
                acknowledged.append(response.json()["user"]["id"])

    with ThreadPoolExecutor(4) as threads:
        creating = [threads.submit(create) for _ in range(4)]
        eventually(lambda: len(acknowledged) >= 4)
        os.kill(before[0], signal.SIGKILL)
        for one in creating:
            one.result()
    eventually(lambda: len(group.pids) == N and before[0] not in group.pids)
    line = group.logged("server_processes_ended")
    assert (line["fields"], line["level"]) == ({"server_processes_ended": 1, "exit_code": -9}, "ERROR")
    query |= {"limit": 1000}
    listed = httpx.get(group.base_url + path, params=query, timeout=60).json()["users"]
    assert {*acknowledged} <= {user["id"] for user in listed}
    assert len(acknowledged) == len({*acknowledged})
    # The counts of the killed process are continued; it may not have counted its last response.
    assert group.counted("exposurekit_requests_total", **labels) - counted >= len(acknowledged) - 1
    with group.connected() as clients:
        assert [client.get("/health").status_code for client in clients] == [200] * N


def test_processes_end_together(group, store):
    """On a signal, or, on the other database, with the process that has started them."""
    pids = group.pids
    is_killed = store != "sqlite"
    group.process.send_signal(signal.SIGKILL if is_killed else signal.SIGTERM)
    assert group.process.wait(timeout=60) == (-signal.SIGKILL if is_killed else 0)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    with pytest.raises(httpx.ConnectError):
        httpx.get(group.base_url)
    logged = [json.loads(line) for line in group.log]
    counts = {
        name: sum(name in one.get("fields", {}) for one in logged)
        for name in ("listening", "metrics", "fault")
    }
    assert counts == {"listening": 1, "metrics": 1, "fault": 0}
    assert not [line for line in group.log if "secret" in line or "Jane" in line]


# Processes that only wait, so that a test takes a moment: what each does is said by its number.
PROGRAM = """
import json, logging, os, signal, sys, time
from exposurekit.cli import server_processes
from exposurekit.cli.server_processes import ServerProcesses
from exposurekit.errors import ConfigurationError, ExposureError

def main(process, settings, acts):
    vars(server_processes).update(settings)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM}
    text = f"process={process.number} pid={os.getpid()} first={process.is_first} blocked={len(blocked)}"
    print(text, flush=True)
    with open(__file__ + ".started", "a") as started:
        started.write(f"{process.number} ")
    act = acts[process.number]
    if act == "refuses":
        raise ConfigurationError("there is no such database")
    if act == "ends early":
        os._exit(7)
    if act == "fails":
        raise ZeroDivisionError("of Jane Doe")
    signal.signal(signal.SIGTERM, signal.SIG_IGN if act == "hangs" else lambda *_: sys.exit())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    if act == "starts last":
        while open(__file__ + ".started").read().count("0") < 2:
            time.sleep(0.01)  # until another process has been replaced
    process.on_started()
    time.sleep(0.2 if act == "ends" else 600)

if __name__ == "__main__":
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    vars(server_processes).update(settings := json.loads(sys.argv[1]))
    processes = ServerProcesses(main, len(sys.argv) - 2, (settings, sys.argv[2:]))
    try:
        processes.run(lambda: print("started", flush=True) or server_processes.nullcontext())
    except ExposureError as error:
        sys.exit(str(error))
"""


@contextmanager
def program(directory, *acts, **settings):
    """A program that runs processes, each of which acts as it is named."""
    file = directory / "program.py"
    file.write_text(PROGRAM)
    words = [sys.executable, file, json.dumps(settings), *acts]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def pids_in(lines):
    return [int(pid) for pid in re.findall(r"pid=(\d+)", "".join(lines))]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("refuses", "there is no such database"),
        ("fails", r"unexpected error (ZeroDivisionError)"),
        ("ends early", "a server process ended while starting: exit code 7"),
    ],
)
def test_a_process_that_does_not_start_ends_all_of_them(tmp_path, act, message):
    """The first one starts alone: the others would fail for the same reason."""
    with program(tmp_path, act, "serves") as parent:
        first, *rest = parent.stdout
        assert re.fullmatch(r"process=0 pid=\d+ first=True blocked=2\n", first)
        assert rest == [f"{message}\n"]
        assert parent.wait(60) == 1


def test_processes_that_end_are_logged_with_their_number(tmp_path):
    with program(tmp_path, "serves", "ends", FIRST_DELAY_S=0.05, DELAY_MAX_S=0.2, LOG_EVERY_S=1) as parent:
        lines = read_until(parent, "server_processes_ended=1 exit_code=0", "stdout")
        lines += read_until(parent, "server_processes_ended", "stdout")
        ended = 1 + int(re.search(r"ended=(\d+)", lines[-1])[1])
        starts = [line for line in lines if line.startswith("process=1")]
        assert len(starts) in {ended, ended + 1}
        assert lines.count("started\n") == 1
        rows = [line.split() for line in lines if line.startswith("process=")]
        assert [row[2] for row in rows] == ["first=True"] + ["first=False"] * len(starts)
        assert {row[3] for row in rows} == {"blocked=2"}  # a signal waits until a process can handle it
        parent.send_signal(signal.SIGINT)
        assert parent.wait(60) == 0


def test_a_process_that_served_is_replaced_while_others_start(tmp_path):
    with program(tmp_path, "ends", "starts last", FIRST_DELAY_S=0.05, DELAY_MAX_S=0.2) as parent:
        lines = read_until(parent, "started", "stdout")
        assert sum(line.startswith("process=0") for line in lines) > 1
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(60) == 0


def test_a_process_that_does_not_end_is_killed(tmp_path):
    with program(tmp_path, "serves", "hangs", STOP_S=5) as parent:
        lines = read_until(parent, "started", "stdout")
        parent.send_signal(signal.SIGTERM)
        assert [*parent.stdout] == ["1 server processes did not end within 5 s: killed\n"]
        assert parent.wait(60) == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids_in(lines))


def test_processes_end_when_their_parent_is_killed(tmp_path):
    with program(tmp_path, "serves", "hangs", STOP_S=0.3) as parent:
        lines = read_until(parent, "started", "stdout")
        parent.kill()
        eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids_in(lines)))
