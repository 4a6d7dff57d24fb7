"""The integrators' end of the webhooks: answers well, badly, late or not at all, and remembers every body it saw.

Speaks HTTP by hand, because a connection that closes without an answer is one of its answers.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from exposurekit.service.webhooks.delivery import build_headers
from exposurekit.service.webhooks.endpoints import Callback, new_secret

FAIR, DEAF = (
    "/fair",
    "/deaf",
)  # the addresses of an integrator that mostly answers, and of one that never takes anything
LATE_S = (0.2, 2.0)  # past the sender's patience now and then


@dataclass(slots=True)
class Attempt:
    """One attempt as the receiver saw it."""

    body: bytes = field(repr=False)
    status: int | None = None  # of the answer that went out; None: none did


class Receiver:
    """What integrators saw.

    Attributes:
        seen: Every attempt whose body came whole, by webhook id.
        badly_signed: How many were not signed as they should be.
    """

    def __init__(self, seed: int) -> None:
        self.secret = new_secret()
        self.attempts: dict[str, list[Attempt]] = defaultdict(list)
        self.badly_signed = 0
        self._random = random.Random(f"receiver {seed}")  # noqa: S311  a draw that can be repeated, not a secret
        self._port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Take what comes, for as long as the block lasts."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    def callback(self, path: str) -> Callback:
        """Where an integrator is told."""
        return Callback(f"http://127.0.0.1:{self._port}{path}", self.secret)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):  # the sender was killed
            path, headers, body = await _request(reader)
            attempt = Attempt(body)
            webhook_id = headers["webhook-id"]
            self.attempts[webhook_id].append(attempt)
            self.badly_signed += not self._is_signed(webhook_id, headers, body)
            status = 500 if path == DEAF else await self._status()
            if status is not None:
                writer.write(b"HTTP/1.1 %d It\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status)
                await writer.drain()
                attempt.status = status
        writer.close()

    async def _status(self) -> int | None:
        """Mostly 204; or 500, or 204 after a while, or none."""
        drawn = self._random.random()
        if drawn < 0.1:
            return 500
        if drawn < 0.2:
            await asyncio.sleep(self._random.uniform(*LATE_S))
        return None if 0.2 <= drawn < 0.3 else 204

    def _is_signed(self, webhook_id: str, headers: dict[str, str], body: bytes) -> bool:
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        wanted = build_headers(Callback("", self.secret), webhook_id, at, body)
        return all(headers.get(name) == value for name, value in wanted.items())


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    return head[0].split()[1], headers, await reader.readexactly(int(headers["content-length"]))
