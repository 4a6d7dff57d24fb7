"""The webhook receiver: verifies the sender of a request, stores the body durably and responds with 204.

Plain ASGI; it neither parses bodies nor logs values. It responds with

========  =============================================================================
200       GET of `HEALTH_PATH`, for a load balancer: the process listens
204       the delivery is on disk, now or since an earlier attempt
401       no valid signature, or one that is more than five minutes old
404       any other path but the inbox's
405       not POST
408, 413  the body is too slow or too large; its size is counted as it arrives
503       the delivery could not be stored; the sender should retry (``Retry-After``)
========  =============================================================================

Senders retry after everything but 204.
"""

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from exposurekit.errors import ConfigurationError, ExposureError, InvalidSignature
from exposurekit.monitor.sqlite import DatabaseUnavailable
from exposurekit.monitor.webhooks.signatures import SignatureHeaders, decode_secrets
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.monitor.webhooks.writer import Writer
from exposurekit.system.asgi_server import App, Receive, Scope, Send
from exposurekit.system.clock import utc_now
from exposurekit.system.memory_budget import MemoryBudget, MemoryBudgetExceeded, Reservation

BODY_MAX = 10 * 2**20  # spec does not say: the largest delivery; 10 MB hold about 10,000 records
BODY_TIMEOUT_S = 10.0  # a sender's timeout is 15 s in all
MEMORY_MAX = 8 * BODY_MAX  # of all bodies that are arriving or wait for the disk
RETRY_AFTER_S = 5
CONNECTIONS_MAX = 500
HEALTH_PATH = "/health"  # shorter than any path secret
PATH_SECRET = re.compile(r"[A-Za-z0-9._~-]{16,200}")

_READ_FACTOR = 4  # a body up to this many times too large is read, so that its sender receives the 413
_HEADERS = {405: [(b"allow", b"POST")], 503: [(b"retry-after", str(RETRY_AFTER_S).encode())]}
_log = logging.getLogger("exposurekit.monitor")

Headers = dict[bytes, bytes]


def create_app(
    store: InboxStore,
    *,
    path_secret: str | None = None,
    signing_secrets: str | Iterable[str] = (),
    body_max: int = BODY_MAX,
    body_timeout_s: float = BODY_TIMEOUT_S,
    memory_max: int = MEMORY_MAX,
    clock: Callable[[], datetime] = utc_now,
) -> App:
    """Create the receiver as an ASGI application. The caller closes the store.

    Senders post to an unguessable path, the path secret (16 to 200 letters, digits and ``._~-``), else to ``/``. If
    there is a Standard Webhooks signing secret, or several during a rotation, every request must be signed, also on a
    secret path. Raises `ConfigurationError` without any secret, since anybody could post. If the bodies in memory
    exceed `memory_max`, the oldest that is arriving from the address with most makes way, with 503.
    """
    secrets = [signing_secrets] if isinstance(signing_secrets, str) else signing_secrets
    keys = decode_secrets(secrets)
    if path_secret is None and not keys:
        raise ConfigurationError("anybody could post to this inbox: set a path secret or a signing secret")
    if path_secret is not None and not PATH_SECRET.fullmatch(path_secret):
        raise ConfigurationError("a path secret must have 16 to 200 letters, digits or ._~-, and no slash")
    auth = _RequestAuth(_digest(f"/{path_secret or ''}"), keys, clock)
    return _Receiver(Writer(store), auth, MemoryBudget(memory_max), body_max, body_timeout_s)


class _RequestRejected(Exception):
    def __init__(self, status: int, reason: str, *, body_unread: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.body_unread = body_unread


class _ClientDisconnected(Exception):
    """The sender closed the connection: there is nobody to respond to."""


@dataclass(frozen=True, slots=True)
class _RequestAuth:
    path_digest: bytes = field(repr=False)
    keys: tuple[bytes, ...] = field(repr=False)
    clock: Callable[[], datetime]

    def check_target(self, scope: Scope) -> None:
        """Check path and method; the path first, so that a stranger learns nothing else."""
        if not hmac.compare_digest(_digest(scope["path"]), self.path_digest):
            raise _RequestRejected(404, "path", body_unread=True)
        if scope["method"] != "POST":
            raise _RequestRejected(405, "method", body_unread=True)

    def check_headers(self, headers: Headers) -> SignatureHeaders | None:
        """Check the signature headers before the body is read; None: no signature is required."""
        if not self.keys:
            return None
        try:
            return SignatureHeaders.read(headers, self.clock())
        except InvalidSignature as error:
            raise _RequestRejected(401, str(error), body_unread=True) from None

    def check_signature(self, signature: SignatureHeaders | None, body: bytes) -> None:
        """Check that the body is the one that was signed."""
        try:
            if signature is not None:
                signature.check(body, self.keys)
        except InvalidSignature as error:
            raise _RequestRejected(401, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Receiver:
    _writer: Writer
    _auth: _RequestAuth
    _memory: MemoryBudget
    _body_max: int
    _body_timeout_s: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["path"] == HEALTH_PATH and scope["method"] in {"GET", "HEAD"}:
            await _respond(send, 200)  # a line in the log for each probe would hide the others
            return
        try:
            await self._store(scope, receive)
        except _ClientDisconnected:
            _log.info("delivery=disconnected")
        except _RequestRejected as rejected:
            _log.info("delivery=rejected status=%d reason=%s", rejected.status, rejected)
            await _respond(send, rejected.status, close=rejected.body_unread)
        except ExposureError as error:  # our own errors contain no value
            _log.error("delivery=not stored: %s", error)
            await _respond(send, 503)
        except Exception as error:  # noqa: BLE001  the server would log its text
            _log.error("delivery=not stored: fault=%s", type(error).__name__)
            await _respond(send, 503)
        else:
            await _respond(send, 204)

    async def _store(self, scope: Scope, receive: Receive) -> None:
        self._auth.check_target(scope)
        headers: Headers = dict(reversed(scope["headers"]))  # the first of each name
        signature = self._auth.check_headers(headers)
        client = scope.get("client")
        limit = asyncio.timeout(self._body_timeout_s)
        with self._memory.reservation(client[0] if client else "", limit) as memory:
            body = await self._read_body(headers, receive, limit, memory)
            self._auth.check_signature(signature, body)
            webhook_id = headers.get(b"webhook-id", b"").decode("latin-1") or None
            is_new = await self._writer.put(webhook_id, body)
        _log.info("delivery=%s bytes=%d", "new" if is_new else "duplicate", len(body))

    async def _read_body(
        self, headers: Headers, receive: Receive, limit: asyncio.Timeout, memory: Reservation
    ) -> bytes:
        length = headers.get(b"content-length", b"0")
        read_max = _READ_FACTOR * self._body_max
        if not length.isdigit() or len(length) > len(str(read_max)) or int(length) > read_max:
            raise _RequestRejected(413, "size", body_unread=True)
        body, size = bytearray(), 0
        try:
            async with limit:
                async for chunk in _chunks(receive):
                    size += len(chunk)
                    if size > read_max:
                        raise _RequestRejected(413, "size", body_unread=True)
                    if size <= self._body_max:
                        memory.add(len(chunk))
                        body += chunk
            memory.is_complete = True
        except (MemoryBudgetExceeded, TimeoutError):
            status, reason = (408, "slow body") if memory.is_current else (503, "memory limit")
            raise _RequestRejected(status, reason, body_unread=True) from None
        if size > self._body_max:
            raise _RequestRejected(413, "size")
        return bytes(body)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._writer.open()
        except (DatabaseUnavailable, ConfigurationError):
            await send({"type": "lifespan.startup.failed"})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._writer.close()
        await send({"type": "lifespan.shutdown.complete"})


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientDisconnected
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


async def _respond(send: Send, status: int, *, close: bool = False) -> None:
    headers = [(b"cache-control", b"no-store"), *_HEADERS.get(status, ())]
    if status != 204:  # noqa: PLR2004  a 204 has no body
        headers.append((b"content-length", b"0"))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _digest(path: str) -> bytes:
    """Hash a path: digests have one length, so the time of a comparison reveals nothing about it."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()
