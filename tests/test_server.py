"""The server: up when it says so, down when it is told, and clear about why it could not start."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest
from service_kit import a_database

from exposurekit.errors import Misconfigured
from exposurekit.service.front.app import create_app
from exposurekit.service.front.server import _listening, running, serve

PROGRAM = """
import sys
from exposurekit.service.clock import Clock
from exposurekit.service.database import Database
from exposurekit.service.front.server import serve
from exposurekit.service.vault import Vault
serve(Database(sys.argv[1], vault=Vault(bytes(32)), clock=Clock()), sys.argv[2], 0)
"""


def test_it_answers_as_soon_as_the_block_begins_and_no_more_when_it_ends(tmp_path):
    with running(create_app(a_database(tmp_path))) as base_url:
        assert httpx.get(f"{base_url}/openapi.json").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{base_url}/openapi.json")


def test_a_start_that_fails_raises_what_made_it_fail(tmp_path):
    with (
        pytest.raises(Misconfigured, match="cannot be opened"),
        running(create_app(a_database(tmp_path / "no"))),
    ):
        pytest.fail("it did not start")


def test_an_exception_in_the_block_stops_the_server_and_goes_on(tmp_path):
    with pytest.raises(ZeroDivisionError), running(create_app(a_database(tmp_path))):
        raise ZeroDivisionError
    assert not [thread for thread in threading.enumerate() if thread.name == "exposurekit-service"]


def test_a_port_in_use_is_told_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            Misconfigured, match=f"^cannot listen on 127.0.0.1 port {port}: it is in use"
        ) as refusal:
            serve(a_database(tmp_path), "127.0.0.1", port)
    assert "\n" not in str(refusal.value)


def test_a_host_that_is_not_here_is_told_in_one_line(tmp_path):
    with pytest.raises(Misconfigured, match=r"^cannot listen on 192\.0\.2\.1 port 8642: "):
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


def test_answers_do_not_wait_for_an_acknowledgement():
    """asyncio turns Nagle's algorithm off where a socket names its protocol; with it on, an answer takes 40 ms."""
    with _listening("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
