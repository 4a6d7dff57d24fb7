"""The integrators' webhook endpoints: they succeed, fail, delay or drop, and record every body."""

import asyncio
import random
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from support.small_web import raw_site

from exposurekit.service.webhooks.delivery import build_headers
from exposurekit.service.webhooks.endpoints import Callback, new_secret

RELIABLE, FAILING = "/reliable", "/failing"  # mostly succeeds; always fails
DELAY_S = (0.2, 2.0)  # sometimes longer than the sender waits


@dataclass(slots=True)
class Attempt:
    """A received attempt; `status` is of the response, None without one."""

    body: bytes = field(repr=False)
    status: int | None = None


class Receiver:
    """Attempts by webhook id, and how many had a wrong signature."""

    def __init__(self, seed):
        self.secret = new_secret()
        self.attempts = defaultdict(list)
        self.badly_signed = 0
        self._random = random.Random(f"receiver {seed}")  # noqa: S311

    @asynccontextmanager
    async def listening(self):
        async with raw_site(self._answer) as self._site:
            yield

    def callback(self, path):
        return Callback(self._site.url(path), self.secret)

    async def _answer(self, request):
        attempt = Attempt(request.body)
        self.attempts[request.headers["webhook-id"]].append(attempt)
        self.badly_signed += not self._is_signed(request.headers, request.body)
        status = 500 if request.path == FAILING else await self._status()
        if status is not None:
            yield b"HTTP/1.1 %d It\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % status
            attempt.status = status  # it has been sent

    async def _status(self):
        """Mostly 204; or 500, or 204 after a delay, or none."""
        drawn = self._random.random()
        if drawn < 0.1:
            return 500
        if drawn < 0.2:
            await asyncio.sleep(self._random.uniform(*DELAY_S))
        return None if 0.2 <= drawn < 0.3 else 204

    def _is_signed(self, headers, body):
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        expected = build_headers(Callback("", self.secret), headers["webhook-id"], at, body)
        return all(headers.get(name) == value for name, value in expected.items())
