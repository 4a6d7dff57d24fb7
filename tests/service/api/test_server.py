"""The server: start, stop, and errors at the start and of its worker."""

import asyncio
import base64
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import httpx
import pytest
from support.services import a_database, url_of
from support.shell import Shell

from exposurekit.errors import ConfigurationError
from exposurekit.service import log_setup
from exposurekit.service.api.app import create_app
from exposurekit.service.api.server import running, serve
from exposurekit.service.http.client import HttpClient
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.scan import ScanContext
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.worker import Worker, WorkerCrashed
from exposurekit.system.asgi_server import bound_socket

PROGRAM = """
import sys
from exposurekit.service.clock import Clock
from exposurekit.service.storage.database import Database
from exposurekit.service.api.server import serve
from exposurekit.service.storage.encryption import Vault
serve(Database(sys.argv[1], vault=Vault(bytes(32)), clock=Clock()), sys.argv[2], 0)
"""


def test_the_server_responds_only_while_its_block_runs(tmp_path):
    with running(create_app(a_database(tmp_path))) as base_url:
        assert httpx.get(f"{base_url}/openapi.json").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base_url}/openapi.json")


def test_a_failed_start_raises_its_cause(tmp_path):
    with (
        pytest.raises(ConfigurationError, match="cannot be opened"),
        running(create_app(a_database(tmp_path / "no"))),
    ):
        pytest.fail("it did not start")


def serving_threads():
    """The threads that serve; a demo that other tests of this process share has one, too."""
    return {thread for thread in threading.enumerate() if thread.name == "exposurekit-serving"}


def test_an_exception_in_the_block_stops_the_server(tmp_path):
    before = serving_threads()
    with pytest.raises(ZeroDivisionError), running(create_app(a_database(tmp_path))):
        raise ZeroDivisionError
    assert serving_threads() == before


def test_an_unavailable_address_is_a_one_line_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        elsewhere = ".+: name an address of this machine$"
        reasons = {("127.0.0.1", port): "it is in use"} | dict.fromkeys(
            [("192.0.2.1", 8642), ("300.0.0.1", 8642)], elsewhere
        )
        for (host, number), reason in reasons.items():
            message = f"^cannot listen on {host} port {number}: {reason}"
            with pytest.raises(ConfigurationError, match=message) as error:
                serve(a_database(tmp_path), host, number)
            assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("number", "host", "warned"),
    [(signal.SIGINT, "127.0.0.1", False), (signal.SIGTERM, "0.0.0.0", True)],  # noqa: S104  briefly
)
def test_a_signal_ends_the_server_with_exit_code_0(tmp_path, number, host, warned):
    command = [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path / 'service.db'}", host]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert "created=" in server.stderr.readline()
            if warned:
                assert "put a proxy with TLS in front" in server.stderr.readline()
            line = server.stderr.readline()
            port = re.fullmatch(r"at=\S+ \S+ level=INFO listening=http://[\d.]+:(\d+)\n", line)[1]
            address = f"http://127.0.0.1:{port}/api/a/s3cretkey/v2/users?api_secret=x"
            assert httpx.get(address).status_code == 401
            os.kill(server.pid, number)
            rest = server.stderr.read()
        except BaseException:
            server.kill()
            raise
    assert server.returncode == 0
    served, stopped = (line.partition(" level=INFO ")[2] for line in rest.splitlines())
    assert re.fullmatch(r"operation=list_users status=401 ms=[\d.]+", served)
    assert stopped == f"stopped=http://{host}:{port}"
    assert "s3cretkey" not in rest


class Failing(Worker):
    """A worker that fails once its event is set."""

    def __init__(self, database):
        super().__init__(ScanContext(database, {}, PoliteFetcher(HttpClient(), database)), HttpClient())
        self.fails = threading.Event()

    async def run(self):
        async def fail():
            await asyncio.to_thread(self.fails.wait)
            raise ZeroDivisionError("of Jane Doe")

        async with asyncio.TaskGroup() as loops:
            loops.create_task(fail())


def serve_until_the_worker_fails(directory, *, then=lambda _: None):
    database = a_database(directory)
    worker = Failing(database)
    with running(create_app(database, worker=worker)) as base_url:
        assert httpx.get(f"{base_url}/openapi.json").status_code == 200
        worker.fails.set()
        with suppress(httpx.TransportError):
            while True:
                httpx.get(f"{base_url}/openapi.json")
        then(base_url)


def test_a_crashed_worker_ends_the_service_with_its_error(tmp_path, caplog):
    """A service without a worker would respond and never scan."""
    before = serving_threads()
    message = r"^the worker ended \(ZeroDivisionError\), and the service with it: "
    with pytest.raises(WorkerCrashed, match=message):
        serve_until_the_worker_fails(tmp_path)
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert errors == ["worker=ended fault=ZeroDivisionError"]
    assert serving_threads() == before


def test_an_exception_does_not_hide_a_crashed_worker(tmp_path):
    with pytest.raises(WorkerCrashed):
        serve_until_the_worker_fails(tmp_path, then=httpx.get)


@pytest.fixture
def restored_logging():
    """Undo the logging setup of a service process."""
    logs = [logging.getLogger(name) for name in log_setup._LEVELS]
    before = [(log.level, log.handlers, log.propagate) for log in logs]
    yield
    for log, (level, handlers, propagate) in zip(logs, before, strict=True):
        log.setLevel(level)
        log.handlers, log.propagate = handlers, propagate
    logging.captureWarnings(False)


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["worker"]], ids=["serve", "worker"])
def test_a_command_whose_worker_crashes_exits_with_1(tmp_path, monkeypatch, command):
    async def fail(_):
        raise ZeroDivisionError("of Jane Doe")

    # No fault from outside ends a worker, which logs them all and goes on: only an error of its own does.
    monkeypatch.setattr(Worker, "run", fail)
    key = Vault.generate_key()

    async def create_schema():
        await (await a_database(tmp_path, key=key).open()).close()

    asyncio.run(create_schema())
    service_key = base64.urlsafe_b64encode(key).decode()
    shell = Shell(tmp_path, EXPOSUREKIT_DATABASE=url_of(tmp_path), EXPOSUREKIT_SERVICE_KEY=service_key)
    run = shell.here(*command)
    lines = run.stderr.splitlines()
    assert run.returncode == 1
    assert lines[-1] == (
        "Error: the worker ended (ZeroDivisionError), and the service with it: restart the service"
    )
    assert [line for line in lines if line.endswith("level=ERROR worker=ended fault=ZeroDivisionError")]
    assert "Traceback" not in run.stderr
    assert "Jane" not in run.stderr


def test_responses_are_sent_without_nagles_algorithm():
    """Asyncio turns it off for sockets that name their protocol; with it, a response takes 40 ms."""
    with bound_socket("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
