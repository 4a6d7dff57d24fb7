"""Requests that arrive at once begin in turn."""

import asyncio
import socket
import threading
from contextlib import ExitStack

import httpx
from support.services import in_event_loop

from exposurekit.system.asgi_server import LOOPBACK, STARTS_MAX, YIELD_S, FairStart, SharedAccept, running

TIMEOUT_S = 20


def beginning(starts, began, address):
    async def begin():
        await starts.wait(address)
        began.append(address)

    return asyncio.create_task(begin())


@in_event_loop
async def test_a_few_requests_begin_in_each_iteration():
    starts, began = FairStart(2), []
    tasks = [beginning(starts, began, "192.0.2.1") for _ in range(5)]
    counts = []
    while len(began) < len(tasks):
        await asyncio.sleep(0)
        counts.append(len(began))
    assert {after - before for before, after in zip([0, *counts], counts, strict=False)} <= {0, 1, 2}


@in_event_loop
async def test_addresses_begin_requests_in_turn():
    starts, began = FairStart(1), []
    addresses = ["192.0.2.1"] * 9 + ["192.0.2.2"] * 2
    await asyncio.gather(*(beginning(starts, began, address) for address in addresses))
    assert began[:5] == ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"]
    assert len(began) == len(addresses)


@in_event_loop
async def test_a_request_that_is_cancelled_begins_nothing():
    starts, began = FairStart(1), []
    first, second, third = (beginning(starts, began, "192.0.2.1") for _ in range(3))
    await first
    second.cancel()
    await third
    assert began == ["192.0.2.1"] * 2
    assert second.cancelled()
    await asyncio.gather(*(beginning(starts, began, "192.0.2.2") for _ in range(3)))


def test_a_request_does_not_wait_for_all_of_another_address():
    """All arrive while the event loop is occupied; the one that comes last is among the first to begin."""
    clients, is_occupied, all_sent = [], threading.Event(), threading.Event()

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for part in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{part}.complete"})
            return
        if scope["path"] == "/occupy":
            is_occupied.set()
            all_sent.wait(TIMEOUT_S)
        clients.append(scope["client"][0])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    with running(app, trusted_proxies=[LOOPBACK]) as base_url, ExitStack() as stack:
        port = httpx.URL(base_url).port

        def connected(path, address):
            wire = stack.enter_context(socket.create_connection((LOOPBACK, port), timeout=TIMEOUT_S))
            head = f"GET {path} HTTP/1.1\r\nhost: a.example\r\nx-forwarded-for: {address}\r\n\r\n"
            wire.sendall(head.encode())
            return wire

        ready = [connected("/", "192.0.2.9") for _ in range(41)]
        for wire in ready:
            assert wire.recv(100).startswith(b"HTTP/1.1 200")
        clients.clear()
        occupying = connected("/occupy", "192.0.2.9")
        assert is_occupied.wait(TIMEOUT_S)
        for wire, address in zip(ready, ["192.0.2.1"] * 40 + ["192.0.2.2"], strict=True):
            head = f"GET / HTTP/1.1\r\nhost: a.example\r\nx-forwarded-for: {address}\r\n\r\n"
            wire.sendall(head.encode())
        all_sent.set()
        for wire in (*ready, occupying):
            assert wire.recv(100).startswith(b"HTTP/1.1 200")
    assert len(clients) == 42
    assert clients.index("192.0.2.2") <= 2 * STARTS_MAX


class Accepted(asyncio.Protocol):
    """Notes its connection among those of a process."""

    def __init__(self, connections):
        self.connections = connections

    def connection_made(self, transport):
        self.connections.add(transport)


@in_event_loop
async def test_the_process_with_fewer_connections_accepts():
    """Each time: also after the other process let it go first. What it does not accept, the other one does."""
    counts, count = memoryview(bytearray(16)).cast("Q"), 8
    busy, idle = {*range(count)}, set()
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((LOOPBACK, 0)))
        listener.setblocking(False)
        processes = [SharedAccept(counts, process) for process in range(2)]
        for process, connections in zip(processes, (busy, idle), strict=True):
            own = stack.enter_context(listener.dup())
            process.start(own, lambda connections=connections: Accepted(connections), connections)

        async def connect(expected):
            stack.enter_context(socket.create_connection(listener.getsockname()))
            while len(busy) + len(idle) < expected:  # noqa: ASYNC110
                await asyncio.sleep(YIELD_S)
            await asyncio.sleep(2 * YIELD_S)  # whoever let the other go first is back

        for number in range(1, count + 1):
            await connect(count + number)
            assert (len(busy), len(idle)) == (count, number)
        processes[1].stop()
        for number in range(1, 4):
            await connect(2 * count + number)
        assert (len(busy), len(idle)) == (count + 3, count)
        processes[0].stop()
        for transport in (*busy, *idle):
            if not isinstance(transport, int):
                transport.close()
        await asyncio.sleep(0)
