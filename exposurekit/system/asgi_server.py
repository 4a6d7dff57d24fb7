"""Serve an ASGI application with uvicorn, in the foreground or in a thread. No TLS; paths are not logged."""

import asyncio
import errno
import gc
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence, Sized
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import uvicorn

from exposurekit.errors import ConfigurationError
from exposurekit.system.connection_limits import Connections, limit_repeats, raise_files_max

LOOPBACK = "127.0.0.1"
KEEP_ALIVE_S, GRACE_S = 75, 10
STARTS_MAX = 8  # requests that begin in one iteration of the event loop; a refused one takes 0.1 ms
# uvloop accepts one connection of a listener in an iteration, so that a client behind a thousand others waits for a
# thousand iterations: each listener is duplicated.
ACCEPTS_MAX = 4
_NO_OWN_ADDRESS = ": name an address of this machine"
_LISTEN_ADVICE = {
    errno.EADDRNOTAVAIL: _NO_OWN_ADDRESS,
    socket.EAI_NONAME: _NO_OWN_ADDRESS,
    errno.EACCES: ": use a port above 1023",
}
YIELD_S, FAILED_S = 0.01, 1.0  # in which other processes may accept; after an accept that failed
_log = logging.getLogger("exposurekit.system.asgi_server")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def serve(
    app: App,
    host: str,
    port: int,
    *,
    connections: Connections | None = None,
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve until SIGINT or SIGTERM; finish running requests first. Port 0: any free one.

    In requests from a trusted proxy (an address or network), X-Forwarded-For names the client; from anybody else it is
    ignored. Connections are bounded as `Connections` says; the process may open as many files as they need. Raises
    `ConfigurationError` if the address cannot be bound, or the application does not start.
    """
    with bound_socket(host, port) as listener:
        address = address_of(listener)
        serve_on(
            listener,
            app,
            connections=connections,
            trusted_proxies=trusted_proxies,
            on_started=partial(announce, listener),
        )
        announce_end(address)


def serve_on(
    listener: socket.socket,
    app: App,
    *,
    connections: Connections | None = None,
    trusted_proxies: Sequence[str] = (),
    on_started: Callable[[], object],
    accepting: "SharedAccept | None" = None,
) -> None:
    """Serve on a bound socket as `serve` does, and call back once the application has started.

    Several processes may serve on one socket, with a `SharedAccept` each. SIGINT and SIGTERM may be blocked before.
    """
    raise_files_max()
    limit_repeats()
    limit_repeats([_log.name])
    # Its duplicates are then, too: another process may accept the connection for which this one was woken.
    listener.setblocking(False)
    with _duplicated(listener, 1 if accepting else ACCEPTS_MAX) as listeners:
        server = _Server(app, connections, trusted_proxies, on_started=on_started, accepting=accepting)
        server.run(listeners)
        if server.failure is not None:
            raise server.failure


@contextmanager
def running(
    app: App,
    host: str = LOOPBACK,
    port: int = 0,
    *,
    connections: Connections | None = None,
    trusted_proxies: Sequence[str] = (),
    is_announced: bool = True,
) -> Iterator[str]:
    """Serve in a thread for the duration of the block, as `serve` does; yields the base URL.

    Unless `is_announced`, the log does not say where it listens.
    """
    with bound_socket(host, port) as listener, _duplicated(listener) as listeners:
        on_started = partial(announce, listener) if is_announced else None
        server = _Server(app, connections, trusted_proxies, on_started=on_started)
        thread = threading.Thread(
            target=server.run_quietly, args=(listeners,), name="exposurekit-serving", daemon=True
        )
        try:
            thread.start()
            server.ready.wait()
            if server.failure is None:
                yield address_of(listener)
        finally:
            server.should_exit = True
            thread.join()
            if server.failure is not None:  # rather than the error that it caused in the block
                raise server.failure


class FairStart:
    """Requests begin a few in each iteration of the event loop, and those of each address in turn.

    So that thousands that arrive at once, as many as connections may send, do not keep another's waiting, even if each
    of them only takes the time to be refused.

    >>> asyncio.run(FairStart().wait("192.0.2.1"))
    """

    def __init__(self, starts_max: int = STARTS_MAX) -> None:
        self._starts_max = starts_max
        self._left = starts_max  # in this iteration
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def wait(self, address: str) -> None:
        """Return when a request of this address may begin."""
        loop = asyncio.get_running_loop()
        if self._left == self._starts_max:
            loop.call_soon(self._renew, loop)
        if self._left and address not in self._waiting:
            self._left -= 1
            return
        turn = loop.create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        await turn

    def _renew(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let as many begin in the next iteration; half of them may be of addresses without a waiting request."""
        self._left = self._starts_max
        while self._left > self._starts_max // 2 and self._waiting:
            address = next(iter(self._waiting))
            turns = self._waiting.pop(address)
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns  # behind the other addresses
            if not turn.done():  # otherwise it was cancelled
                self._left -= 1
                turn.set_result(None)
        if self._left < self._starts_max:
            loop.call_soon(self._renew, loop)


class SharedAccept:
    """How one of several processes accepts the connections of their socket, so that each has about as many.

    Whoever is awake could accept a hundred before another wakes up, and would serve them as long as they last. So a process
    that has more open connections than another lets it go first for a moment.

    Args:
        counts: In memory that the processes share, the number of open connections of each.
        process: The number of this one, from 0.
    """

    def __init__(self, counts: "memoryview[int]", process: int) -> None:
        self._counts = counts
        self._process = process
        self._starting: set[asyncio.Task[Any]] = set()  # accepted connections, until they have a protocol
        self._has_yielded = False

    def start(
        self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol], connections: Sized
    ) -> None:
        """Accept connections of a listener from now on; `connections` are those that are open."""
        self._listener, self._protocol, self._connections = listener, protocol, connections
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener, self._accept)

    def stop(self) -> None:
        """Accept no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listener)

    def _accept(self) -> None:
        """Accept a connection, unless it is another process's turn; a few, if that has not used it."""
        count = len(self._connections) + len(self._starting)
        self._counts[self._process] = count
        others = [one for process, one in enumerate(self._counts) if process != self._process]
        has_yielded, self._has_yielded = self._has_yielded, False
        if not has_yielded and count > min(others, default=count):
            self._pause(YIELD_S)
            return
        for _ in range(ACCEPTS_MAX if has_yielded else 1):
            try:
                connection, _address_of_client = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # such as no file descriptor
                _log.warning("cannot accept a connection: %s", error.strerror)
                self._pause(FAILED_S)
                return
            connection.setblocking(False)
            starting = self._loop.create_task(self._loop.connect_accepted_socket(self._protocol, connection))
            self._starting.add(starting)
            starting.add_done_callback(self._start_ended)
            self._counts[self._process] += 1

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._timer = self._loop.call_later(seconds, self._continue)

    def _continue(self) -> None:
        self._has_yielded = True
        self._loop.add_reader(self._listener, self._accept)
        self._accept()  # what still waits; a connection that comes later is the other process's again

    def _start_ended(self, starting: asyncio.Task[Any]) -> None:
        self._starting.discard(starting)
        if not starting.cancelled():
            starting.exception()  # the client is gone


class _Server(uvicorn.Server):
    """uvicorn that keeps the reason of a failed start, and exits cleanly on a signal."""

    def __init__(
        self,
        app: App,
        connections: Connections | None,
        trusted_proxies: Sequence[str],
        *,
        on_started: Callable[[], object] | None = None,
        accepting: "SharedAccept | None" = None,
    ) -> None:
        self._app = app
        self._on_started = on_started
        self._accepting = accepting
        self._connections = connections or Connections()
        self._starts = FairStart()
        self.ready = threading.Event()
        self.failure: BaseException | None = None
        super().__init__(
            uvicorn.Config(
                self._record_failure,
                log_config=None,
                access_log=False,  # paths contain secrets
                server_header=False,
                interface="asgi3",
                lifespan="on",
                proxy_headers=bool(trusted_proxies),
                forwarded_allow_ips=[*trusted_proxies, *_mapped(trusted_proxies)],
                ws="none",
                http=self._connections.protocol(),
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then listen."""
        with suppress(SystemExit):  # uvicorn raises it if the application did not start
            await super().startup([] if self._accepting else sockets)
        if not self.started:
            raise self.failure or ConfigurationError("the application did not start, for an unknown reason")
        if threading.current_thread() is threading.main_thread():  # otherwise the process is somebody else's
            gc.freeze()  # what lives as long as the process: to go through it takes 60 ms, in which nobody is served
        self._sweeping = asyncio.create_task(self._connections.sweep())
        if self._accepting and sockets:
            sockets[0].listen(self.config.backlog)
            self._accepting.start(sockets[0], self._protocol, self.server_state.connections)
        if self._on_started is not None:
            self._on_started()
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish running requests, then stop."""
        if self._accepting:
            self._accepting.stop()
        await super().shutdown(sockets)
        self._sweeping.cancel()

    def _protocol(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, as uvicorn does for its own listeners."""
        config: Any = self.config
        protocol: asyncio.Protocol = config.http_protocol_class(
            config=config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    def run_quietly(self, listeners: list[socket.socket]) -> None:
        """Run in a thread; keep an exception for the caller."""
        try:
            self.run(listeners)
        except BaseException as failure:  # noqa: BLE001  raised again in the other thread
            self.failure = failure
        finally:
            self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Exit on SIGINT and SIGTERM without raising them again, as uvicorn does."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _record_failure(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            client = scope.get("client")
            await self._starts.wait(client[0] if client else "")
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            message.pop("message", None)  # a traceback, which may hold personal data
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except BaseException as failure:
            if not (self.force_exit and isinstance(failure, asyncio.CancelledError)):  # by a second Ctrl-C
                self.failure = failure
            self.should_exit = True
            raise


def _mapped(networks: Sequence[str]) -> Iterator[str]:
    """Yield IPv4 networks in the form in which an IPv6 socket names their addresses."""
    for one in map(ipaddress.ip_network, networks):
        if one.version == 4:  # noqa: PLR2004
            yield f"::ffff:{one.network_address}/{96 + one.prefixlen}"


def announce(listener: socket.socket) -> None:
    """Log the address at which a server listens, and a warning unless it is on loopback."""
    if not _is_loopback(listener.getsockname()[0]):
        _log.warning("keys and personal data are sent unencrypted: put a proxy with TLS in front")
    _log.info("listening=%s", address_of(listener))


def announce_end(address: str) -> None:
    """Log that a server has stopped, as it was asked to."""
    _log.info("stopped=%s", address)


@contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket for the duration of the block; raises `ConfigurationError` if the address cannot be bound."""
    try:
        listener = _bound(host, port)
    except OSError as error:
        problem = f"{error.strerror}{_LISTEN_ADVICE.get(error.errno or 0, '')}"
        if error.errno == errno.EADDRINUSE:
            problem = "it is in use: stop the other program, or choose another port"
    else:
        with listener:
            yield listener
        return
    raise ConfigurationError(f"cannot listen on {host} port {port}: {problem}")


@contextmanager
def _duplicated(listener: socket.socket, count: int = ACCEPTS_MAX) -> Iterator[list[socket.socket]]:
    """Yield a listener and its duplicates."""
    with ExitStack() as stack:
        yield [listener, *(stack.enter_context(listener.dup()) for _ in range(count - 1))]


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio disables Nagle's algorithm; otherwise each response waits 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # on Windows it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the URL at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
