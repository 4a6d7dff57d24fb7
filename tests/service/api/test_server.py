"""The server: up when it says so, down when it is told, and clear about why it could not start."""

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

from exposurekit.errors import ConfigurationError
from exposurekit.service.api.app import create_app
from exposurekit.service.api.server import running, serve
from exposurekit.service.http.client import HttpClient
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.scan import ScanContext
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.worker import Worker, WorkerCrashed
from exposurekit.system.asgi_server import _bound_socket

PROGRAM = """
import sys
from exposurekit.service.clock import Clock
from exposurekit.service.storage.database import Database
from exposurekit.service.api.server import serve
from exposurekit.service.storage.encryption import Vault
serve(Database(sys.argv[1], vault=Vault(bytes(32)), clock=Clock()), sys.argv[2], 0)
"""


def test_the_server_answers_exactly_while_its_block_runs(tmp_path):
    with running(create_app(a_database(tmp_path))) as base_url:
        assert httpx.get(f"{base_url}/openapi.json").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base_url}/openapi.json")


def test_a_start_that_fails_raises_what_made_it_fail(tmp_path):
    with (
        pytest.raises(ConfigurationError, match="cannot be opened"),
        running(create_app(a_database(tmp_path / "no"))),
    ):
        pytest.fail("it did not start")


def test_an_exception_in_the_block_stops_the_server(tmp_path):
    with pytest.raises(ZeroDivisionError), running(create_app(a_database(tmp_path))):
        raise ZeroDivisionError
    assert not [thread for thread in threading.enumerate() if thread.name == "exposurekit-serving"]


def test_a_port_in_use_is_told_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=f"^cannot listen on 127.0.0.1 port {port}: it is in use"
        ) as refusal:
            serve(a_database(tmp_path), "127.0.0.1", port)
    assert "\n" not in str(refusal.value)


def test_an_unknown_host_is_a_one_line_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"^cannot listen on 192\.0\.2\.1 port 8642: "):
        serve(a_database(tmp_path), "192.0.2.1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])  # noqa: S104  for as long as it takes
def test_it_serves_until_a_signal_and_then_ends_in_peace(tmp_path, number, host, warned):
    command = [sys.executable, "-c", PROGRAM, f"sqlite:///{tmp_path / 'service.db'}", host]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        if warned:
            assert "put a proxy with TLS in front" in server.stderr.readline()
        line = server.stderr.readline()
        port = re.fullmatch(r"at=\S+ \S+ level=INFO listening=http://[\d.]+:(\d+)\n", line)[1]
        assert httpx.get(f"http://127.0.0.1:{port}/api/a/s3cretkey/v2/users?api_secret=x").status_code == 401
        os.kill(server.pid, number)
        rest = server.stderr.read()
    assert server.returncode == 0
    assert re.fullmatch(r"at=\S+ \S+ level=INFO operation=list_users status=401 ms=[\d.]+\n", rest)
    assert "s3cretkey" not in rest


class Failing(Worker):
    """A worker that works until it is told to fail."""

    def __init__(self, database):
        super().__init__(ScanContext(database, {}, PoliteFetcher(HttpClient(), database)), HttpClient())
        self.fails = threading.Event()

    async def run(self):
        async def fail():
            await asyncio.to_thread(self.fails.wait)
            raise ZeroDivisionError("of Jane Doe")

        async with asyncio.TaskGroup() as loops:
            loops.create_task(fail())


def served_until_the_worker_fails(directory, *, then=lambda _: None):
    database = a_database(directory)
    worker = Failing(database)
    with running(create_app(database, worker=worker)) as base_url:
        assert httpx.get(f"{base_url}/openapi.json").status_code == 200
        worker.fails.set()
        wait_until_away(base_url)
        then(base_url)


def test_a_crashed_worker_ends_the_service_with_its_error(tmp_path, caplog):
    """Else the service goes on answering, and nobody is looked for any more."""
    with pytest.raises(
        WorkerCrashed, match=r"^the worker ended \(ZeroDivisionError\), and the service with it: "
    ):
        served_until_the_worker_fails(tmp_path)
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert errors == ["worker=ended fault=ZeroDivisionError"]
    assert not [thread for thread in threading.enumerate() if thread.name == "exposurekit-serving"]


def test_an_exception_does_not_hide_a_crashed_worker(tmp_path):
    with pytest.raises(WorkerCrashed):
        served_until_the_worker_fails(tmp_path, then=httpx.get)


def wait_until_away(base_url):
    with suppress(httpx.TransportError):
        while True:
            httpx.get(f"{base_url}/openapi.json")


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["worker"]], ids=["serve", "worker"])
def test_in_the_foreground_a_crashed_worker_exits_with_1(tmp_path, command):
    program = (
        "import sys\n"
        "from exposurekit.cli import run\n"
        "from exposurekit.service.worker import Worker\n"
        "async def fail(self):\n"
        "    raise ZeroDivisionError('of Jane Doe')\n"
        "Worker.run = fail\n"
        "run(sys.argv[1:])\n"
    )
    key = Vault.generate_key()
    asyncio.run(create_schema(a_database(tmp_path, key=key)))
    run = subprocess.run(
        [sys.executable, "-c", program, *command],
        env={
            **os.environ,
            "XDG_CONFIG_HOME": str(tmp_path),
            "EXPOSUREKIT_DATABASE": url_of(tmp_path),
            "EXPOSUREKIT_SERVICE_KEY": base64.urlsafe_b64encode(key).decode(),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = run.stderr.splitlines()
    assert run.returncode == 1
    assert lines[-1] == (
        "Error: the worker ended (ZeroDivisionError), and the service with it: restart the service"
    )
    assert [line for line in lines if line.endswith("level=ERROR worker=ended fault=ZeroDivisionError")]
    assert "Traceback" not in run.stderr
    assert "Jane" not in run.stderr


async def create_schema(database):
    await database.open()
    await database.close()


def test_answers_do_not_wait_for_an_acknowledgement():
    """asyncio turns Nagle's algorithm off where a socket names its protocol; with it on, an answer takes 40 ms."""
    with _bound_socket("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
