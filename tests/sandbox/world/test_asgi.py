"""The transport of the invented web: a response ends with its connection."""

import logging
import socket
import struct
import threading

from exposurekit.sandbox.world.asgi import AsgiTransport, Response
from exposurekit.system.asgi_server import running

PARTS = 200
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the connection is reset when it is closed


def test_nothing_is_written_to_a_closed_connection(caplog):
    """Asyncio logs a warning for each write to a connection that is gone, from the fifth on."""
    closed, sent = threading.Event(), []

    async def parts():
        yield b"begin"
        closed.wait(10)  # the server does not learn of it meanwhile
        for number in range(PARTS):
            sent.append(number)
            yield b"more"

    application = AsgiTransport(lambda _request: Response(parts=parts))
    with caplog.at_level(logging.WARNING, "asyncio"), running(application) as url:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: tarpit.example\r\n\r\n")
            connection.recv(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        closed.set()
    assert caplog.messages == []
    assert len(sent) < PARTS
