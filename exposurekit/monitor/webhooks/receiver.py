"""Webhooks in: a request whose sender is known -> its bytes, durable -> 204. Reads no body and logs no value.

Bare ASGI: what is not read cannot be misread. A request is answered

========  =============================================================================
204       it is on the disk, now or since an earlier attempt
401       not signed as it should be, or signed more than five minutes ago
404       any path but the inbox's
405       not POST
408, 413  its body is slow, or larger than the bound; counted as it comes
503       it could not be kept: come again, with ``Retry-After``
========  =============================================================================

Nothing but 204 keeps a sender from trying again.
"""

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from exposurekit.errors import ConfigurationError, ExposureError
from exposurekit.monitor.sqlite import NotKept
from exposurekit.monitor.webhooks.signatures import Signed, is_signed, keys_of
from exposurekit.monitor.webhooks.store import InboxStore, utc_now
from exposurekit.monitor.webhooks.writer import Writer
from exposurekit.system.asgi_server import App, Receive, Scope, Send

BODY_MAX = 10 * 2**20  # not shown: the largest delivery; 10 MB hold some 10,000 records
BODY_TIMEOUT_S = 10.0  # a sender waits for 15 s in all
HELD_MAX = 8 * BODY_MAX  # of bodies that are coming in or wait for the disk, together
RETRY_AFTER_S = 5
CONNECTIONS_MAX = 500
PATH_SECRET = re.compile(r"[A-Za-z0-9._~-]{16,200}")

_DRAINED = 4  # times the bound is read and dropped, that a sender can read why it was refused
_log = logging.getLogger("exposurekit.monitor")

Headers = dict[bytes, bytes]


def create_app(
    letters: InboxStore,
    *,
    path_secret: str | None = None,
    signing_secrets: str | Iterable[str] = (),
    body_max: int = BODY_MAX,
    body_timeout_s: float = BODY_TIMEOUT_S,
    held_max: int = HELD_MAX,
    clock: Callable[[], datetime] = utc_now,
) -> App:
    """The inbox as an ASGI application. Whoever made the letters closes them.

    Args:
        letters: Where they are kept.
        path_secret: The path that senders post to, without its slash: 16 to 200 letters, digits and ``._~-``, which
            nobody can guess. Without it they post to ``/``.
        signing_secrets: Of Standard Webhooks; one, or several while one takes the other's place. Where there is one,
            every request must be signed, at a secret path too.
        body_max: The largest body, in bytes.
        body_timeout_s: How long a body may take.
        held_max: How many bytes of bodies may be held at once; past it the answer is 503.
        clock: Tells the instant that timestamps are compared with.

    Raises:
        ConfigurationError: There is neither secret, so that anybody could post; or one is none.

    >>> create_app(InboxStore("inbox.db"))
    Traceback (most recent call last):
    exposurekit.errors.ConfigurationError: anybody could post to this inbox: give it a path_secret or a signing secret
    """
    secrets = [signing_secrets] if isinstance(signing_secrets, str) else signing_secrets
    keys = keys_of(secrets)
    if path_secret is None and not keys:
        raise ConfigurationError(
            "anybody could post to this inbox: give it a path_secret or a signing secret"
        )
    if path_secret is not None and not PATH_SECRET.fullmatch(path_secret):
        raise ConfigurationError("a path secret has 16 to 200 letters, digits and ._~-, and no slash")
    door = _RequestAuth(_digest(f"/{path_secret or ''}"), keys, clock)
    return _Inbox(letters, door, _MemoryBudget(held_max), body_max, body_timeout_s)


class _Refused(Exception):
    def __init__(self, status: int, reason: str, *, rest_unread: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.rest_unread = rest_unread


class _ClientDisconnected(Exception):
    """The sender has hung up: nobody is left to answer."""


@dataclass(frozen=True, slots=True)
class _RequestAuth:
    """Who is let in."""

    path_digest: bytes = field(repr=False)
    keys: tuple[bytes, ...] = field(repr=False)
    clock: Callable[[], datetime]

    def place(self, scope: Scope) -> None:
        """The path first: who does not know it learns nothing else."""
        if not hmac.compare_digest(_digest(scope["path"]), self.path_digest):
            raise _Refused(404, "path", rest_unread=True)
        if scope["method"] != "POST":
            raise _Refused(405, "method", rest_unread=True)

    def announced(self, headers: Headers) -> Signed | None:
        """What the headers promise of the body, before it is read; None: no signature is asked for."""
        if not self.keys:
            return None
        try:
            signed = Signed(*(headers[b"webhook-" + name] for name in (b"id", b"timestamp", b"signature")))
        except KeyError:
            raise _Refused(401, "not signed", rest_unread=True) from None
        if not signed.is_fresh(self.clock()):
            raise _Refused(401, "signed at another time", rest_unread=True)
        return signed

    def check(self, signed: Signed | None, body: bytes) -> None:
        """Whether the bytes are what was signed."""
        if signed is not None and not is_signed(signed, body, self.keys):
            raise _Refused(401, "signature")


class _MemoryBudget:
    """How much is held in memory, over all requests."""

    def __init__(self, size: int) -> None:
        self._left = size

    @contextmanager
    def taken(self) -> Iterator[Callable[[int], None]]:
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            if size > self._left:
                raise _Refused(503, "no room", rest_unread=True)
            self._left -= size
            mine += size

        try:
            yield take
        finally:
            self._left += mine


class _Inbox:
    def __init__(
        self,
        letters: InboxStore,
        door: _RequestAuth,
        room: _MemoryBudget,
        body_max: int,
        body_timeout_s: float,
    ) -> None:
        self._writer = Writer(letters)
        self._door = door
        self._room = room
        self._body_max = body_max
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        try:
            await self._keep(scope, receive)
        except _ClientDisconnected:
            _log.info("delivery=cut")
        except _Refused as refused:
            _log.info("delivery=refused status=%d reason=%s", refused.status, refused)
            await _answer(send, refused.status, closes=refused.rest_unread)
        except ExposureError as fault:  # of our own: it holds no value
            _log.error("delivery=not kept: %s", fault)
            await _answer(send, 503)
        except Exception as fault:  # noqa: BLE001  the server would log its text
            _log.error("delivery=not kept: fault=%s", type(fault).__name__)
            await _answer(send, 503)
        else:
            await _answer(send, 204)

    async def _keep(self, scope: Scope, receive: Receive) -> None:
        self._door.place(scope)
        headers: Headers = dict(reversed(scope["headers"]))  # the first of each name
        signed = self._door.announced(headers)
        with self._room.taken() as take:
            body = await self._body(headers, receive, take)
            self._door.check(signed, body)
            name = headers.get(b"webhook-id", b"").decode("latin-1") or None
            new = await self._writer.put(name, body)
        _log.info("delivery=%s bytes=%d", "new" if new else "known", len(body))

    async def _body(self, headers: Headers, receive: Receive, take: Callable[[int], None]) -> bytes:
        announced = headers.get(b"content-length", b"0")
        most = _DRAINED * self._body_max
        if not announced.isdigit() or len(announced) > len(str(most)) or int(announced) > most:
            raise _Refused(413, "size", rest_unread=True)
        kept, size = bytearray(), 0
        try:
            async with asyncio.timeout(self._body_timeout_s):
                async for chunk in _chunks(receive):
                    size += len(chunk)
                    if size > most:
                        raise _Refused(413, "size", rest_unread=True)
                    if size <= self._body_max:
                        take(len(chunk))
                        kept += chunk
        except TimeoutError:
            raise _Refused(408, "slow body", rest_unread=True) from None
        if size > self._body_max:
            raise _Refused(413, "size")
        return bytes(kept)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._writer.open()
        except (NotKept, ConfigurationError):
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


async def _answer(send: Send, status: int, *, closes: bool = False) -> None:
    headers = [(b"cache-control", b"no-store")]
    if status != 204:  # noqa: PLR2004  which has no body to have a length
        headers.append((b"content-length", b"0"))
    if status == 405:  # noqa: PLR2004
        headers.append((b"allow", b"POST"))
    if status == 503:  # noqa: PLR2004
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    if closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def _digest(path: str) -> bytes:
    """Of the same length whatever was asked for, so that a comparison tells nothing of it."""
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).digest()
