"""Clients that hold connections: they lose theirs, and nobody else waits."""

import asyncio
import contextlib
import gc
import logging
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
from support.shell import eventually
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from exposurekit.system.asgi_server import running
from exposurekit.system.connection_limits import (
    HEAD_MAX,
    PIPELINED_MAX,
    WHOLE_RESPONSE,
    Connections,
    Repeated,
    _Bounded,
    _LingeringTransport,
)

TIMEOUT_S = 20
LARGE = 8 << 20  # more than the sockets of both sides hold
LARGE_BODY = b"x" * LARGE


async def app(scope, receive, send):
    """Responds with the method and the body; `/large` with a large one, `/early` and `/last` before it reads anything.

    After `/last` it closes the connection.
    """
    if scope["type"] == "lifespan":
        for part in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{part}.complete"})
        return
    body = LARGE_BODY if scope["path"] == "/large" else scope["method"].encode()
    more = scope["path"] not in {"/early", "/last"}
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = [(b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] * (scope["path"] == "/last")
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def whole_app(scope, receive, send):
    """Responds as `app` does, with whole responses where the server offers to write them at once."""
    start = {}

    async def sending(message):
        if message["type"] == "http.response.start":
            start.update(message)
            return
        respond = scope.get("extensions", {}).get(WHOLE_RESPONSE)
        if start and respond and respond(start["status"], start["headers"], message["body"]):
            return
        for one in [start, message] if start else [message]:
            await send(one)

    await app(scope, receive, sending)


@pytest.fixture(
    params=[(True, app), (True, whole_app), (False, app)], ids=["httptools", "whole responses", "h11"]
)
def served(request):
    """A server with either parser of uvicorn."""
    is_fast, responding = request.param

    class Chosen(Connections):
        def protocol(self):
            return super().protocol(is_fast=is_fast)

    return partial(serving, Chosen, responding=responding)


@contextlib.contextmanager
def serving(kind, most=None, *, responding=app, **seconds):
    connections = kind(most, **seconds)
    with running(responding, connections=connections) as base_url, contextlib.ExitStack() as stack:
        yield base_url, Clients(httpx.URL(base_url).port, connections, stack)


@dataclass
class Clients:
    """Connects to a server, and waits until that has closed connections, which a client that does not read cannot see."""

    port: int
    connections: Connections
    stack: contextlib.ExitStack

    def __call__(self, *sent):
        wire = self.stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S))
        for part in sent:
            wire.sendall(part)
        return wire

    def wait_until_open(self, most):
        eventually(lambda: len(self.connections._open) <= most)


def ends_with(wire, end):
    """Whether what the server sends ends with this; it may arrive in parts."""
    received = b""
    while not received.endswith(end) and (part := wire.recv(1_000)):
        received += part
    return received.endswith(end)


def closed(wire):
    """Whether the server closes a connection without a response."""
    with contextlib.suppress(ConnectionError):
        return wire.recv(1_000) == b""
    return True


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: a.example\r\nx-slow: "])
def test_a_request_that_does_not_begin_is_closed(served, sent):
    with served(head_s=0.3) as (_, connected):
        assert closed(connected(sent))


def test_headers_that_trickle_are_closed(served):
    with served(head_s=0.5) as (_, connected):
        wire, lines = connected(b"GET / HTTP/1.1\r\n"), 0
        with contextlib.suppress(ConnectionError):
            while lines < 100:
                wire.sendall(b"x: y\r\n")
                lines += 1
                time.sleep(0.05)  # the client's own pace
        assert lines < 100


def test_the_second_request_of_a_connection_has_its_own_time(served):
    with served(head_s=0.5) as (_, connected):
        wire = connected(b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n")
        assert ends_with(wire, b"GET")
        time.sleep(1.8)  # between requests a connection may be silent for longer
        wire.sendall(b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n")
        assert ends_with(wire, b"GET")
        wire.sendall(b"GET /")
        assert closed(wire)


def test_large_headers_are_rejected(served):
    with served() as (_, connected):
        wire = connected(b"GET / HTTP/1.1\r\nhost: a.example\r\n")
        for _ in range(2 * HEAD_MAX // 1_000):
            wire.sendall(b"x: " + b"y" * 995 + b"\r\n")
        assert wire.recv(1_000).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
        assert closed(wire)


def test_a_client_that_does_not_read_is_closed(served):
    with served(write_s=0.5) as (_, connected):
        wire = connected(b"GET /large HTTP/1.1\r\nhost: a.example\r\n\r\n")
        select.select([wire], [], [])
        connected.wait_until_open(0)
        size = 0
        with contextlib.suppress(ConnectionError):
            while part := wire.recv(1 << 20):
                size += len(part)
        assert size < LARGE


def test_too_much_unread_data_is_closed_before_its_time(served):
    with served(write_s=60, unread_max=2 * LARGE) as (_, connected):
        wires = [connected(b"GET /large HTTP/1.1\r\nhost: a.example\r\n\r\n") for _ in range(8)]
        select.select(wires[-1:], [], [])
        connected.wait_until_open(5)
        whole = 0
        for wire in wires:
            size = 0
            with contextlib.suppress(ConnectionError, TimeoutError):
                while size < LARGE and (part := wire.recv(1 << 20)):
                    size += len(part)
            whole += size >= LARGE
    assert 2 <= whole <= 5


def test_a_trusted_proxy_names_the_client():
    async def echo(scope, receive, send):
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        body = scope["client"][0].encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    forwarded = {"x-forwarded-for": "192.0.2.7, 198.51.100.9"}  # the proxy adds the last
    for trusted, client in (
        ((), "127.0.0.1"),
        (("127.0.0.0/8",), "198.51.100.9"),
        (("10.0.0.0/8",), "127.0.0.1"),
    ):
        with running(echo, trusted_proxies=trusted) as base_url:
            assert httpx.get(base_url, headers=forwarded).text == client


def test_too_many_requests_without_reading_end_the_connection():
    request = b"GET / HTTP/1.1\r\nhost: a.example\r\n\r\n"
    with serving(Connections) as (_, connected):
        for n in (PIPELINED_MAX, 100):
            received, wire = b"", connected(n * request)
            with contextlib.suppress(ConnectionError, TimeoutError):
                while received.count(b"HTTP/1.1 200") < n and (part := wire.recv(1 << 16)):
                    received += part
            assert (received.count(b"HTTP/1.1 200") == n) is (n <= PIPELINED_MAX)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/", "/last"])
@pytest.mark.parametrize(
    "end", ["HTTP/1.1\r\nhost: a.example", "HTTP/1.0", "HTTP/1.0\r\nconnection: keep-alive"]
)
def test_a_whole_response_is_the_same_bytes(method, path, end):
    received = []
    for responding in (app, whole_app):
        with serving(Connections, responding=responding) as (_, connected):
            last = "GET / HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n"
            wire = connected(f"{method} {path} {end}\r\n\r\n{last}".encode())
            content = b"".join(iter(partial(wire.recv, 1_000), b""))
        received.append(re.sub(rb"date: [^\r]*", b"date", content))
    assert received[0] == received[1]
    assert received[0].startswith(b"HTTP/1.1 200 OK\r\ndate\r\ncontent-length: ")


@pytest.mark.parametrize("responding", [app, whole_app])
def test_a_request_is_freed_with_its_response(responding):
    """It may hold secrets, which would otherwise stay until the next garbage collection."""

    def requests():
        return sum(type(one) is RequestResponseCycle for one in gc.get_objects())

    with serving(Connections, responding=responding) as (base_url, _), httpx.Client() as client:
        gc.collect()
        gc.disable()
        try:
            before = requests()
            for _ in range(9):
                assert client.get(base_url).text == "GET"
            eventually(lambda: requests() <= before + 1)  # the connection has its latest
        finally:
            gc.enable()


def test_a_slow_client_that_reads_receives_everything(served):
    with served(write_s=1.5) as (base_url, _), httpx.stream("GET", f"{base_url}/large") as response:
        size = 0
        for part in response.iter_raw(1 << 20):
            size += len(part)
            time.sleep(0.4)  # 2.6 MB a second: the whole takes longer than the server waits
        assert size == LARGE


def test_a_response_before_the_body_waits_for_the_body(served):
    """Otherwise the client could lose the response, or the connection on which it sends the next request."""
    head = b"POST /early HTTP/1.1\r\nhost: a.example\r\ncontent-length: 900000\r\n\r\n"
    with served() as (_, connected):
        wire = connected(head)
        for _ in range(3):
            assert ends_with(wire, b"POST")
            wire.sendall(b"x" * 900_000 + head)
        assert ends_with(wire, b"POST")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /last HTTP/1.1\r\nhost: a.example\r\ncontent-length: 5000000\r\n\r\n", b"200"),
        (
            b"POST /early HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\ncontent-length: 5000000\r\n\r\n",
            b"200",
        ),
        (b"POST /early HTTP/1.0\r\ncontent-length: 5000000\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nhost: a.example\r\nx: ", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
    ],
    ids=["response closes", "request closes", "HTTP/1.0", "large headers", "nonsense"],
)
def test_a_last_response_is_read_by_who_still_sends(served, sent, status):
    with served() as (base_url, connected):
        wire = connected(sent)
        wire.sendall(b"x" * 5_000_000)
        response = b"".join(iter(lambda: wire.recv(1_000), b""))
        assert response.startswith(b"HTTP/1.1 " + status)
        wire.sendall(b"x" * 1_000)
        assert httpx.get(base_url).text == "GET"


def trickle(wire):
    for _ in range(200):
        wire.sendall(b"x")
        time.sleep(0.05)


def test_a_last_response_is_not_waited_for_too_long(served):
    with served(head_s=0.3) as (_, connected):
        silent = connected(b"POST /last HTTP/1.1\r\nhost: a.example\r\ncontent-length: 9\r\n\r\n")
        assert b"".join(iter(lambda: silent.recv(1_000), b"")).endswith(b"POST")
        with pytest.raises(ConnectionError):
            trickle(silent)
        much = connected(b"POST /last HTTP/1.1\r\nhost: a.example\r\ncontent-length: 90000000\r\n\r\n")
        with pytest.raises(ConnectionError):
            much.sendall(b"x" * 90_000_000)


def test_a_connection_that_the_client_has_reset_closes_at_once():
    """asyncio may not have noticed the reset yet."""

    async def close():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            served, _ = listener.accept()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, served)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        connection = _Bounded()
        connection.cycle = None  # nothing has arrived yet
        lingering = _LingeringTransport(transport, connection)
        lingering.close()
        return lingering.is_lingering, transport.is_closing()

    assert asyncio.run(close()) == (False, True)


def test_an_upgrade_after_a_drained_body_is_closed():
    """It must not stop the server."""
    early = b"POST /early HTTP/1.1\r\nhost: a.example\r\ncontent-length: 5\r\n\r\n"
    upgrade = b"GET / HTTP/1.1\r\nhost: a.example\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    with serving(Connections) as (base_url, connected):
        wire = connected(early)
        assert ends_with(wire, b"POST")
        wire.sendall(b"hello" + upgrade)
        assert closed(wire)
        assert httpx.get(base_url).text == "GET"


def test_a_body_that_does_not_end_is_closed(served):
    with served(head_s=0.3) as (_, connected):
        wire = connected(b"POST /early HTTP/1.1\r\nhost: a.example\r\ncontent-length: 900\r\n\r\nbegun")
        assert ends_with(wire, b"POST")
        assert closed(wire)


def test_length_and_chunks_together_end_the_connection():
    both = b"POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    with serving(Connections) as (_, connected):
        wire = connected(both + b"GET /smuggled HTTP/1.1\r\nhost: a.example\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := wire.recv(1_000):
                answer += part
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1


def test_an_offered_upgrade_is_ignored(served):
    """Java's client offers one with every request."""
    offer = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
    with served() as (_, connected):
        wire = connected(b"POST / HTTP/1.1\r\nhost: a.example\r\n" + offer + b"content-length: 4\r\n\r\nbody")
        assert ends_with(wire, b"POSTbody")


def test_beyond_the_maximum_the_oldest_waiting_connection_is_closed(served):
    with served(10) as (base_url, connected):
        begun = b"POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 4\r\n\r\nbo"
        busy = [connected(begun) for _ in range(5)]
        silent = [connected() for _ in range(20)]
        for _ in range(3):
            assert httpx.get(base_url, timeout=TIMEOUT_S).text == "GET"
        for wire in busy:
            wire.sendall(b"dy")
            assert ends_with(wire, b"POSTbody")
        assert closed(silent[0])


@pytest.mark.parametrize(
    "sent",
    [
        b"POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 9\r\n\r\nbegun",
        b"GET /large HTTP/1.1\r\nhost: a.example\r\n\r\n" * 3,
    ],
    ids=["slow bodies", "slow readers"],
)
def test_connections_that_wait_for_their_client_make_way(served, sent):
    with served(10) as (base_url, connected):
        for _ in range(15):
            connected(sent)
            assert httpx.get(base_url, timeout=TIMEOUT_S).text == "GET"


PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
sys.path[:0] = sys.argv[1:]
from test_connection_limits import app
from exposurekit.service import log_setup
from exposurekit.system.asgi_server import serve
log_setup.to_stderr()
serve(app, "127.0.0.1", 0)
"""


def test_silent_connections_do_not_stop_a_server_of_256_files(tmp_path):
    log = tmp_path / "log"
    here = Path(__file__).parent
    command = [sys.executable, "-c", PROGRAM, here, here.parent]

    def listens():
        assert server.poll() is None
        return re.search(r"listening=http://\S+:(\d+)\s", log.read_text())

    with (
        log.open("wb") as err,
        subprocess.Popen(command, stderr=err) as server,
        contextlib.ExitStack() as stack,
    ):
        try:
            port = int(eventually(listens)[1])
            for _ in range(400):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S))
            for _ in range(5):
                assert httpx.get(f"http://127.0.0.1:{port}", timeout=TIMEOUT_S).text == "GET"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(TIMEOUT_S)
    assert server.returncode == 0
    assert len(log.read_bytes()) < 2_000


def test_repeated_messages_are_counted(caplog):
    log = logging.getLogger("exposurekit.test")
    seconds = iter([0, 1, 2, 3, 60, 61])
    often = Repeated(every_s=60, clock=lambda: next(seconds))
    log.addFilter(often)
    try:
        for _ in range(3):
            log.warning("connections=%d", 5)
        log.warning("another")
        log.warning("connections=%d", 6)
        log.warning("connections=%d", 7)
    finally:
        log.removeFilter(often)
    assert caplog.messages == ["connections=5", "another", "connections=6 (and 2 more like it)"]
