"""Bounds on the connections of a server, so that nobody can hold them all, or hold one for ever.

uvicorn has no time-outs but between two requests, and accepts until no file descriptor is left. Here a request must begin
within a time, a client must read its response within another, and when there are too many connections, one that waits
for its client is closed: the oldest of the address that has most waiting for the same thing. So an address with many
connections loses its own.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ImportError:  # a platform for which httptools is not built
    HttpToolsProtocol = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    import uvicorn

HEAD_S, WRITE_S = 10.0, 30.0
HEAD_MAX = 64 << 10  # bytes of a request line with its headers
DRAINED_MAX = 8 << 20  # bytes of a request that are read and discarded after the response
READ_LEAST = 64 << 10  # bytes that a client must read in each `WRITE_S`
CONNECTIONS_MAX = 2_000
PIPELINED_MAX = 8  # requests that may wait for the response before them; each takes memory
UNREAD_MAX = 64 << 20  # bytes of all responses that clients do not read
RESERVED_FILES = 80  # of the files a process may open: databases, logs, requests to other hosts
# The ASGI extension that writes a whole response at once: two writes and their checks take 8 us more. It is called with
# the status, the headers and the body, and returns whether it has responded; otherwise the messages have to be sent.
WHOLE_RESPONSE = "exposurekit.whole_response"
_LEAST = 8
_SWEEP_S = 1.0
_log = logging.getLogger("exposurekit.system.connection_limits")

REQUEST, BODY, READER = "a request", "a body", "a reader"  # what a connection waits for
Header = tuple[bytes, bytes]
_Group = dict["_Bounded", None]  # in the order in which they began to wait


class Connections:
    """The open connections of one server.

    Args:
        most: The number of connections; fewer if the process may not open so many files.
        head_s: The seconds from the connection, or the first byte of a request, until its headers are complete.
        write_s: The seconds in which a client must read `READ_LEAST` of what is buffered for it, or all of it.
        unread_max: The bytes of all responses of which clients read less than `READ_LEAST` in a second; beyond it the
            largest of the address with most are closed.
    """

    def __init__(
        self,
        most: int | None = None,
        *,
        head_s: float = HEAD_S,
        write_s: float = WRITE_S,
        unread_max: int = UNREAD_MAX,
    ) -> None:
        self.most = max(_LEAST, min(most or CONNECTIONS_MAX, _files_max() - RESERVED_FILES))
        self.head_s, self.write_s, self._unread_max = head_s, write_s, unread_max
        self._open: set[_Bounded] = set()
        self._waiting: dict[tuple[str, str], _Group] = {}

    def protocol(self, *, is_fast: bool = HttpToolsProtocol is not None) -> type[asyncio.Protocol]:
        """Return uvicorn's protocol with these bounds, a class of its own for this server."""
        return type("BoundedProtocol", (_Fast, HttpToolsProtocol), {"all": self}) if is_fast else self.h11

    @cached_property
    def h11(self) -> type[asyncio.Protocol]:
        """The protocol that reads everything, more slowly."""
        return type("BoundedProtocol", (_Bounded, H11Protocol), {"all": self})

    def add(self, connection: "_Bounded") -> None:
        """Count a new connection; if there are too many, close one that waits for its client."""
        self._open.add(connection)
        self.wait(connection, REQUEST)
        if len(self._open) > self.most:
            self._close_one()

    def remove(self, connection: "_Bounded") -> None:
        """Forget a closed connection."""
        self._open.discard(connection)
        self.wait(connection, None)

    def wait(self, connection: "_Bounded", what: str | None) -> None:
        """Note what a connection waits for; None: nothing, it is being served."""
        if what == connection.waits_for:
            return
        before, connection.waits_for = (connection.address, connection.waits_for or ""), what
        if (group := self._waiting.get(before)) is not None:
            group.pop(connection, None)
            if not group:
                del self._waiting[before]
        if what is not None:
            self._waiting.setdefault((connection.address, what), {})[connection] = None

    def __contains__(self, connection: "_Bounded") -> bool:
        return connection in self._open

    async def sweep(self) -> None:
        """Close connections that are out of time, every second."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            now = time.monotonic()
            for connection in [one for one in self._open if one.deadline is not None and one.deadline < now]:
                if not connection.is_read():
                    connection.end()
            self._close_unread()

    def _close_unread(self) -> None:
        """If unread responses exceed the limit, close the largest of the address with most."""
        unread: dict[str, list[tuple[int, int, _Bounded]]] = {}
        for one in self._open:
            if one.waits_for == READER and (size := one.unread()):
                unread.setdefault(one.address, []).append((size, id(one), one))
        totals = {address: sum(size for size, *_ in clients) for address, clients in unread.items()}
        excess = sum(totals.values()) - self._unread_max
        for clients in unread.values():
            clients.sort()
        while excess > 0:
            address = max(totals, key=totals.__getitem__)
            size, _, largest = unread[address].pop()
            totals[address] -= size
            excess -= size
            _log.warning("unread responses exceed the limit: closed a slow reader")
            largest.end()

    def _close_one(self) -> None:
        (_, what), group = max(self._waiting.items(), key=lambda item: len(item[1]))
        connection = next(iter(group))
        _log.warning(f"connections=%d: closed one that waits for {what}", self.most)
        connection.end()
        self.remove(connection)


class _LingeringTransport:
    """A transport that closes in two steps if the client still sends: closed at once, it would reset the connection.

    First only the writing ends. The client reads the response while what it sends is discarded, within bounds.
    """

    def __init__(self, transport: asyncio.Transport, connection: "_Bounded") -> None:
        self.transport = transport
        self.connection: _Bounded | None = connection  # until it is lost: they refer to each other
        self.is_lingering = False
        self.write, self.abort, self.close_now = transport.write, transport.abort, transport.close
        self.resume_reading = transport.resume_reading
        self.get_write_buffer_size = transport.get_write_buffer_size

    def is_closing(self) -> bool:
        return self.is_lingering or self.transport.is_closing()

    def close(self) -> None:
        if self.connection is None or self.is_closing() or not self.connection.is_receiving():
            self.close_now()
            return
        try:
            self.transport.write_eof()
        except (OSError, RuntimeError):  # the client has reset the connection
            self.close_now()
            return
        self.is_lingering = True
        self.transport.resume_reading()
        self.connection.begin_to_drain()


class _Bounded:
    """What a protocol of uvicorn is combined with."""

    all: Connections
    address = ""
    deadline: float | None = None  # by `time.monotonic`, for the head of a request or for reading a response
    head = b""  # what has arrived of the head of a request
    waits_for: str | None = None
    _buffered = 0  # bytes for the client when it was last given time to read
    _unread = 0  # bytes for the client a second ago
    is_draining = False  # the response is complete, but not the request's body
    _drained, _drain_until = 0, 0.0
    if TYPE_CHECKING:
        client: tuple[str, int] | None
        conn: Any
        loop: asyncio.AbstractEventLoop
        timeout_keep_alive: float
        timeout_keep_alive_task: asyncio.TimerHandle | None
        cycle: Any
        flow: Any
        transport: _LingeringTransport
        send_400_response: Callable[[str], None]

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self.transport = _LingeringTransport(transport, self)
        self.address = self.client[0] if self.client else ""
        self.deadline = time.monotonic() + self.all.head_s
        self.all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.all.remove(self)
        super().connection_lost(exc)  # type: ignore[misc]
        self.transport.connection = None

    @property
    def is_serving(self) -> bool:
        """Whether a request has arrived whose response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        if self.is_draining:
            self._drain(data)
            return
        was_serving = self.is_serving
        if not was_serving:
            self.head = self.head + data if self.head else data
            if self.deadline is None:
                self.deadline = time.monotonic() + self.all.head_s
        super().data_received(data)  # type: ignore[misc]
        self._note()
        if self.is_serving and not was_serving:
            self.deadline, self.head = None, b""
        elif len(self.head) > HEAD_MAX and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")
            self._await_reader()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        if self.is_serving or self.is_draining:
            return  # another request was sent without waiting, or the connection ends
        self._await_reader()
        if self.cycle.more_body and not self.transport.is_closing():
            self.begin_to_drain()
        self._note()

    def is_receiving(self) -> bool:
        """Whether the client may still be sending a request."""
        return bool(self.head) or self.cycle is None or self._has_rest()

    def begin_to_drain(self) -> None:
        """Discard from now on what the client still sends: if the connection closed now, it might lose the response."""
        self.is_draining, self._drained, self.head = True, 0, b""
        self._drain_until = self.deadline = time.monotonic() + self.all.head_s
        self._note()

    def _drain(self, data: bytes) -> None:
        self._drained += len(data)
        if self._drained > DRAINED_MAX:
            self.end()
            return
        if self.transport.is_lingering:
            return
        super().data_received(data)  # type: ignore[misc]
        if not self._has_rest():
            self.is_draining, self.deadline = False, None
            if not self.is_serving:  # as after a response without a rest
                again = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
                self.timeout_keep_alive_task = again
            self._note()

    def _has_rest(self) -> bool:
        """Whether more of a request's body is to come."""
        return self.conn.their_state is h11.SEND_BODY

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()  # type: ignore[misc]
        self._await_reader()

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._await_reader()
        self._note()

    def resume_writing(self) -> None:
        super().resume_writing()  # type: ignore[misc]
        self._unread = 0
        self._await_reader()
        self._note()

    def _note(self) -> None:
        if self in self.all:
            self.all.wait(self, self._what())

    def _what(self) -> str | None:
        if self.flow.write_paused:
            return READER
        if self.is_draining:
            return BODY
        if not self.is_serving:
            return REQUEST
        return BODY if self.cycle.more_body else None

    def _await_reader(self) -> None:
        """Give the client the time to read some of what is buffered for it, if anything is."""
        if self.transport.is_lingering:
            return
        self._buffered = self.transport.get_write_buffer_size()
        self.deadline = time.monotonic() + self.all.write_s if self._buffered else None

    def unread(self) -> int:
        """Return the bytes for the client, if it has read less than `READ_LEAST` in a second; otherwise 0."""
        before, self._unread = self._unread, self.transport.get_write_buffer_size()
        return self._unread if before and before - self._unread < READ_LEAST else 0

    def is_read(self) -> bool:
        """Return whether the client has read enough since it was last given time; it then has as much again."""
        left = self.transport.get_write_buffer_size()
        if self.is_draining and time.monotonic() > self._drain_until:
            return False
        if not self._buffered or (left and self._buffered - left < READ_LEAST):
            return False
        self._await_reader()
        if self.head and not left:  # the next request has begun
            self.deadline = time.monotonic() + self.all.head_s
        return True

    def end(self) -> None:
        """Close the connection at once, whatever is still buffered."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close_now()

    def shutdown(self) -> None:
        """End the connection for the server's sake: after a request that is being served, and whatever is still sent."""
        if self.is_serving:
            super().shutdown()  # type: ignore[misc]
        else:
            self.transport.close_now()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the response is what it would be without the offer."""


class _Fast(_Bounded):
    """With httptools, which reads a request that offers an upgrade without its body: h11 takes over the connection."""

    if TYPE_CHECKING:
        config: uvicorn.Config
        server_state: Any
        app_state: dict[str, Any]
        parser: Any
        pipeline: deque[Any]
    _is_complete = True  # whether the last request has arrived with its body

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        # A weak reference: otherwise the request would refer to itself, and only a garbage collection would free it.
        cycle.scope["extensions"] = {WHOLE_RESPONSE: partial(_respond, ref(cycle))}
        super()._start_asgi_task(cycle, app)  # type: ignore[misc]

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() or self.transport.is_closing():
            return
        self._is_complete = False
        super().on_headers_complete()  # type: ignore[misc]
        if len(self.pipeline) > PIPELINED_MAX:
            self.pipeline.clear()
            self.end()

    def on_body(self, body: bytes) -> None:
        if not self.parser.should_upgrade():
            super().on_body(body)  # type: ignore[misc]

    def on_message_complete(self) -> None:
        self._is_complete = True
        if not self.parser.should_upgrade():
            super().on_message_complete()  # type: ignore[misc]

    def _has_rest(self) -> bool:
        return not self._is_complete

    def _unsupported_upgrade_warning(self) -> None:
        if self.is_serving or not self.head:  # sent without waiting for the response before: nobody does
            self.transport.close()
            return
        protocol: Any = self.all.h11
        other = protocol(config=self.config, server_state=self.server_state, app_state=self.app_state)
        self.server_state.connections.discard(self)
        self.all.remove(self)
        head, self.head = self.head, b""
        self.transport.transport.set_protocol(other)
        other.connection_made(self.transport.transport)
        other.data_received(head)


def _respond(request: "ref[Any]", status: int, headers: Sequence[Header], body: bytes) -> bool:
    """Write a whole response at once, as uvicorn does in two parts; return whether that was possible.

    The headers have the body's length, and nothing of a request.
    """
    cycle = request()
    if cycle is None or cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
        return False
    lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)]
    if (b"connection", b"close") in headers:
        cycle.keep_alive = False
    elif not cycle.keep_alive:
        lines.append(b"connection: close\r\n")
    content = b"" if cycle.scope["method"] == "HEAD" else body
    cycle.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", content)))
    cycle.waiting_for_100_continue = False
    cycle.response_started = cycle.response_complete = True
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def raise_files_max() -> None:
    """Let this process open as many files as its connections need, as far as the system allows it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + RESERVED_FILES
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))


def _files_max() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return CONNECTIONS_MAX + RESERVED_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MAX + RESERVED_FILES if soft < 0 else soft


class Repeated(logging.Filter):
    """Lets a message through once a minute, with the number of those like it in between."""

    def __init__(self, every_s: float = 60, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s, self._clock = every_s, clock
        self._since: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write it; the kind of a message is its template."""
        kind, now = str(record.msg), self._clock()
        at, dropped = self._since.get(kind, (-self._every_s, 0))
        if now - at < self._every_s:
            self._since[kind] = (at, dropped + 1)
            return False
        self._since[kind] = (now, 0)
        if dropped:
            record.msg = f"{record.getMessage()} (and {dropped:,} more like it)"
            record.args = ()
        return True


def limit_repeats(names: Iterable[str] = ("uvicorn.error", "asyncio", _log.name)) -> None:
    """Write messages of one kind once a minute, in the logs that a client can fill."""
    for name in names:
        log = logging.getLogger(name)
        if not any(isinstance(existing, Repeated) for existing in log.filters):
            log.addFilter(Repeated())
