"""A service that misbehaves by a script: HTTP/1.1 by hand over raw sockets, on the loopback only.

It has one person (`PERSON_ID`, `SECRET`), responds well unless the script says otherwise, and checks no credentials.

    with running([LoseReply(), Well()]) as server:          # the nth request meets the nth fault
    with running(on("create_user", too_many(1))) as server: # only requests of that operation
    with running(lambda request: Cut(9) if request.number == 3 else None) as server:
        ...
        assert server.created == 1
"""

import gzip
import json
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

PERSON_ID = 12
SECRET = "ab12"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one request. `processed`: whether a create still makes a person."""

    processed: bool = True


@dataclass(frozen=True, kw_only=True)
class Well(Fault):
    """The right response."""


@dataclass(frozen=True, kw_only=True)
class LoseReply(Fault):
    """The request is processed, then the connection closes without a response."""


@dataclass(frozen=True)
class Cut(Fault):
    """The right response, of which the body stops after so many bytes; Content-Length promises all."""

    after: int = 20


@dataclass(frozen=True)
class Reset(Fault):
    """TCP RST: before the request is read (a callable script needs it read), after it, or within the response body."""

    when: Literal["before", "after", "amid"] = "after"


@dataclass(frozen=True, kw_only=True)
class BlackHole(Fault):
    """Read, without any response; the connection stays open until the client or the server goes."""


@dataclass(frozen=True, kw_only=True)
class Answer(Fault):
    """Any response, well framed. A body of None is the right body."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    close: bool = False


@dataclass(frozen=True)
class Garbage(Fault):
    """Bytes that are no HTTP, then the connection closes."""

    content: bytes = b"\x16\x03\x01\x00\xffnot http at all\x00\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class Drip(Fault):
    """A 200 whose chunked body never ends: `piece` every `every_s` seconds; 0 is a flood."""

    piece: bytes = b" "
    every_s: float = 0.01


@dataclass(frozen=True)
class OversizedHeaders(Fault):
    """The right response behind so many bytes of headers, in one line or in many of 1,000."""

    size: int = 1 << 20
    lines: Literal["one", "many"] = "one"


@dataclass(frozen=True)
class GzipBomb(Fault):
    """A 200 of about a megabyte that unpacks to `size` zero bytes."""

    size: int = 1 << 30


def _busy(status: int, body: bytes, retry_after: float | str | None) -> Answer:
    headers = () if retry_after is None else (("Retry-After", str(retry_after)),)
    return Answer(status=status, headers=headers, body=body, processed=False)


def too_many(retry_after: float | str | None = 1) -> Answer:
    """429, not processed; a Retry-After of None is not sent."""
    return _busy(429, b'{"error":"slow"}', retry_after)


def unavailable(retry_after: float | str | None = 1) -> Answer:
    """503, not processed."""
    return _busy(503, b"", retry_after)


def server_error(status: int = 500, *, processed: bool = True) -> Answer:
    """A failure after which the request may have taken effect; here it did."""
    return Answer(status=status, body=b"<h1>oops</h1>", content_type="text/html", processed=processed)


def refused(status: int, body: bytes = b'{"error":"no"}') -> Answer:
    """400, 401 and their like, not processed."""
    return Answer(status=status, body=body, processed=False)


def html_page() -> Answer:
    """A 200 that is a page for people, as a captive portal's is."""
    page = b"<!doctype html><title>Sign in</title><p>Please sign in to the network."
    return Answer(body=page, content_type="text/html; charset=utf-8")


def empty() -> Answer:
    """A 200 without a body."""
    return Answer(body=b"")


def redirect(location: str = "http://elsewhere.invalid/", status: int = 302) -> Answer:
    """To another host, not processed."""
    return Answer(status=status, headers=(("Location", location),), body=b"", processed=False)


_RECORD: dict[str, Any] = {
    "id": 120,
    "name": "Odalys Fennimoor",
    "site": "PeepFinder",
    "status": "discovered",
    "age": 47,
    "href": "https://peepfinder.example/p/120",
    "relations": ["Bram Fennimoor"],
    "aliases": ["Oda Fennimoor"],
    "locations": ["Tall Pines, OR"],
    "reference_id": "000560228488",
}
_LINK = {"url": "https://pages.example/12", "title": "A page", "contains": ["email", "address"]}
_ADDRESS = {"id": 4, "address1": "1 Fir Way", "address2": None}
_ADDRESS |= {"city": "Tall Pines", "state": "OR", "zip": "01234"}
_USER: dict[str, Any] = {
    "id": PERSON_ID,
    "secret": SECRET,
    "birth_date": 299_116_800,
    "first_name": "Odalys",
    "middle_name": "Wren",
    "last_name": "Fennimoor",
    "aliases": [{"id": 1, "first_name": "Oda", "last_name": "Fennimoor"}],
    "emails": [{"id": 2, "address": "odalys@example.com"}],
    "phone_numbers": [{"id": 3, "number": "5035550112"}],
    "addresses": [_ADDRESS],
    "records": [_RECORD],
    "links": [_LINK],
    "service_history": [{"activated_service_on": "2026/01/05 08:00:00 +0000"}],
    "is_scanning": False,
    "identification_on_file": False,
}
_REQUIRED = {"user_fields_required_for_removal": ["first_name", "address1"]}
_STEPS = ["Open the listing.", "Choose remove."]


def _alert(kind: str, source: dict[str, Any], steps: list[str] | str) -> dict[str, Any]:
    return {
        "text": f"A {kind} shows you",
        "html": f"<p>A <b>{kind}</b> shows you</p>",
        "url": "https://alerts.example/12",
        "guide": "An invented site.",
        "opt_out_procedure": steps,
        "source_type": kind,
        "source": {kind: source},
    }


# The right bodies by operation, in the specification's JSON shapes; one person, one record, one link.
BODIES: dict[str, dict[str, Any]] = {
    "create_user": {"user": _USER},
    "list_users": {"count": 1, "users": [{"id": PERSON_ID, "secret": SECRET}]},
    "get_user": {"user": {**_USER, "records": [{**_RECORD, **_REQUIRED}]}},
    "update_user": {"user": _USER},
    "list_user_records": {"records": [{"record": _RECORD}]},
    "get_record": {"record": _RECORD},
    "list_user_links": {"links": [_LINK]},
    "get_user_alerts": {
        "alerts": [_alert("record", _RECORD, _STEPS), _alert("link", _LINK, "Write to them.")]
    },
}
_PREBUILT = {name: json.dumps(body).encode() for name, body in BODIES.items()}
_BEYOND = json.dumps({"count": 1, "users": []}).encode()

_OPERATIONS = (
    ("POST", "create_user", ""),
    ("GET", "list_users", ""),
    ("GET", "get_user", r"/\d+"),
    ("PUT", "update_user", r"/\d+"),
    ("GET", "list_user_records", r"/\d+/records"),
    ("GET", "get_record", r"/\d+/records/\d+"),
    ("GET", "list_user_links", r"/\d+/links"),
    ("GET", "get_user_alerts", r"/\d+/alerts"),
)


def _operation(method: str, path: str) -> str | None:
    for verb, name, tail in _OPERATIONS:
        if verb == method and re.fullmatch(rf"/api/[^/]+/[^/]+/v2/users{tail}(\.\w+)?", path):
            return name
    return None


@dataclass(frozen=True)
class Request:
    """One request, fully received. `number` counts from 0 in the order of arrival."""

    number: int
    method: str
    path: str  # without the query
    query: dict[str, str]
    headers: dict[str, str]  # names in lower case
    body: bytes = field(repr=False)
    operation: str | None  # "create_user" and so on; None for a path the service does not have


Script = Sequence[Fault | None] | Callable[[Request], Fault | None]


def on(operation: str, *faults: Fault | None) -> Callable[[Request], Fault | None]:
    """A script: the nth request of that operation meets the nth fault, all else gets its right response."""
    left = list(faults)
    lock = threading.Lock()

    def script(request: Request) -> Fault | None:
        with lock:
            return left.pop(0) if left and request.operation == operation else None

    return script


def always(fault: Fault) -> Callable[[Request], Fault | None]:
    """A script: every request meets this fault."""
    return lambda _: fault


@cache
def gzip_zeros(size: int) -> bytes:
    """Gzip of so many zero bytes, as one member, without compressing them all: one block, repeated."""
    block = bytes(1 << 20)
    whole, rest = divmod(size, len(block))
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    once = squeeze.compress(block) + squeeze.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    tail = last.compress(block[:rest]) + last.flush()
    check = 0
    for _ in range(whole):
        check = zlib.crc32(block, check)
    check = zlib.crc32(block[:rest], check)
    return gzip.compress(b"")[:10] + once * whole + tail + struct.pack("<II", check, size % (1 << 32))


_PHRASES = {200: "OK", 302: "Found", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}
_LONGEST_HEAD = 1 << 16
_TLS_HANDSHAKE = b"\x16"
_READING_S = 20.0  # for what is in a socket's buffer when a server ends


class _Gone(Exception):
    """The client closed its side."""


@dataclass
class Server:
    """The running server, as a test reads it."""

    base_url: str
    requests: list[Request] = field(default_factory=list)
    created: int = 0  # people made: POST /users received whole and processed
    received: int = 0  # POST /users received whole, refused ones among them
    connections: int = 0


class _Listener:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.server = Server(f"http://127.0.0.1:{self._socket.getsockname()[1]}")
        self._lock = threading.Lock()
        self._arrived = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._last: object = None  # the address of the last connection: those before it are accepted first
        self._accepting = threading.Thread(target=self._accept, name="faults")
        self._accepting.start()

    def stop(self) -> None:
        """End, after all that was sent before is read and counted, also that of clients that left."""
        with socket.socket() as last:
            last.bind(("127.0.0.1", 0))
            self._last = last.getsockname()
            last.connect(self._socket.getsockname())
            self._accepting.join()
        self._socket.close()
        self._stopping.set()
        self._shut(socket.SHUT_RD)
        until = time.monotonic() + _READING_S
        for thread in self._threads:
            thread.join(max(0, until - time.monotonic()))
        self._shut(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _shut(self, how: int) -> None:
        with self._lock:
            for connection in self._open:
                with suppress(OSError):  # gone by itself
                    connection.shutdown(how)

    def _accept(self) -> None:
        while True:
            connection, address = self._socket.accept()
            if address == self._last:
                connection.close()
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(connection,), name="faults")
            with self._lock:
                self.server.connections += 1
                self._open.add(connection)
                self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        stream = _Stream(connection)
        try:
            with suppress(OSError, _Gone):
                while self._exchange(stream):
                    pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _exchange(self, stream: "_Stream") -> bool:
        """One request and its fault. Returns whether the connection goes on."""
        stream.wait()
        with self._lock:
            number = self._arrived
            self._arrived += 1
        scripted = None if callable(self._script) else _nth(self._script, number)
        if scripted == Reset("before"):
            return stream.reset()
        request = stream.request(number)
        with self._lock:
            self.server.requests.append(request)
        fault = (self._script(request) if callable(self._script) else scripted) or Well()
        before = isinstance(fault, Reset) and fault.when == "before"
        if request.operation == "create_user":
            with self._lock:
                self.server.received += 1
                self.server.created += fault.processed and not before
        keep = self._misbehave(stream, fault, request)
        return keep and request.headers.get("connection", "").lower() != "close"

    def _misbehave(self, stream: "_Stream", fault: Fault, request: Request) -> bool:
        match fault:
            case LoseReply():
                return False
            case Reset():
                return stream.reset(_framed(request)[:-20] if fault.when == "amid" else b"")
            case BlackHole():
                return stream.swallow()
            case Drip():
                return self._drip(stream, fault)
        closes = isinstance(fault, (Cut, Garbage)) or (isinstance(fault, Answer) and fault.close)
        return stream.send(_framed(request, fault), keep=not closes)

    def _drip(self, stream: "_Stream", fault: Drip) -> bool:
        stream.send(_head(200, None, ("Transfer-Encoding", "chunked")))
        piece = b"%x\r\n%b\r\n" % (len(fault.piece), fault.piece)
        while not self._stopping.wait(fault.every_s):
            stream.send(piece)
        return False


class _Stream:
    """One connection's bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""

    def wait(self) -> None:
        """Until a request begins, without taking a byte of it; what is no plain HTTP is refused."""
        first = self._buffer[:1] or self._connection.recv(1, socket.MSG_PEEK)
        if first == _TLS_HANDSHAKE:
            self._more()
            self.send(_head(400, 0, ("Connection", "close")))
        if not first or first == _TLS_HANDSHAKE:
            raise _Gone

    def request(self, number: int) -> Request:
        head = self._until(b"\r\n\r\n").decode("latin-1")
        line, *lines = head.split("\r\n")
        method, target, _ = line.split(" ", 2)
        pairs = (entry.partition(":") for entry in lines if entry)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        address = urlsplit(target)
        query = dict(parse_qsl(address.query, keep_blank_values=True))
        operation = _operation(method, address.path)
        return Request(number, method, address.path, query, headers, self._body(headers), operation)

    def send(self, content: bytes, *, keep: bool = True) -> bool:
        self._connection.sendall(content)
        return keep

    def reset(self, first: bytes = b"") -> bool:
        self._connection.sendall(first)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()
        return False

    def swallow(self) -> bool:
        """Read on without a response until the other side goes or the server stops."""
        while self._connection.recv(1 << 16):
            pass
        return False

    def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self._exactly(int(headers.get("content-length", 0)))
        content = b""
        while size := int(self._until(b"\r\n").split(b";")[0], 16):
            content += self._exactly(size)
            self._until(b"\r\n")
        self._until(b"\r\n")
        return content

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            if len(self._buffer) > _LONGEST_HEAD:
                raise _Gone
            self._more()
        taken, _, self._buffer = self._buffer.partition(mark)
        return taken

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _more(self) -> None:
        content = self._connection.recv(1 << 16)
        if not content:
            raise _Gone
        self._buffer += content


def _nth(script: Sequence[Fault | None], number: int) -> Fault | None:
    return script[number] if number < len(script) else None


def _right(request: Request) -> tuple[int, bytes]:
    if request.operation is None:
        return 404, b'{"error":"no such path"}'
    if request.operation == "list_users" and request.query.get("offset", "0") != "0":
        return 200, _BEYOND
    return 200, _PREBUILT[request.operation]


def _framed(request: Request, fault: Fault | None = None) -> bytes:
    """A whole response, head and body, as the fault would have it."""
    status, body = _right(request)
    match fault:
        case Garbage():
            return fault.content
        case Cut():
            return _head(status, len(body)) + body[: fault.after]
        case Answer():
            body = body if fault.body is None else fault.body
            closing = (("Connection", "close"),) if fault.close else ()
            return _head(fault.status, len(body), *fault.headers, *closing, kind=fault.content_type) + body
        case OversizedHeaders():
            one = fault.lines == "one"
            count, size = (1, fault.size) if one else (-(-fault.size // 1000), 1000)
            padding = [(f"X-Padding-{number}", "a" * size) for number in range(count)]
            return _head(status, len(body), *padding) + body
        case GzipBomb():
            bomb = gzip_zeros(fault.size)
            return _head(200, len(bomb), ("Content-Encoding", "gzip")) + bomb
    return _head(status, len(body)) + body


def _head(status: int, size: int | None, *headers: tuple[str, str], kind: str = "application/json") -> bytes:
    sized = () if size is None else (("Content-Length", str(size)),)
    lines = [f"{name}: {value}" for name, value in (("Content-Type", kind), *sized, *headers)]
    return "\r\n".join([f"HTTP/1.1 {status} {_PHRASES.get(status, 'Other')}", *lines, "", ""]).encode(
        "latin-1"
    )


@contextmanager
def running(script: Script = ()) -> Iterator[Server]:
    """Serve on a free loopback port until the block ends; then every socket and thread is gone."""
    listener = _Listener(script)
    try:
        yield listener.server
    finally:
        listener.stop()
