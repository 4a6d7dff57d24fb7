"""Letters onto the disk, beside the event loop: nobody else waits for a write. Answers nobody."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from exposurekit.monitor.webhooks.store import InboxStore

_TOGETHER = 64  # letters at most in one transaction


class Writer:
    """One thread that keeps letters; those that wait share one transaction, and each is answered after it."""

    def __init__(self, letters: InboxStore) -> None:
        self._letters = letters
        self._waiting: list[tuple[tuple[str | None, bytes], asyncio.Future[bool]]] = []
        self._thread = ThreadPoolExecutor(1, "exposurekit-inbox")
        self._work: asyncio.Task[None] | None = None

    async def put(self, webhook_id: str | None, body: bytes) -> bool:
        """Keep one; whether it was new, once it is on the disk.

        Raises:
            NotKept: It is not.
        """
        kept: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(((webhook_id, body), kept))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._keep())
        return await kept

    async def open(self) -> None:
        """Make sure that the file is there and can be used.

        Raises:
            NotKept, ConfigurationError: It cannot.
        """
        await self._in_thread(self._letters.counts)

    async def close(self) -> None:
        """What is under way is kept first."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _keep(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
            try:
                news = await self._in_thread(self._letters.put_all, [received for received, _ in batch])
            except Exception as fault:  # noqa: BLE001  told to each that waits
                for _, kept in batch:
                    if not kept.done():
                        kept.set_exception(fault)
                continue
            for (_, kept), new in zip(batch, news, strict=True):
                if not kept.done():  # who waited is gone, and the letter is kept all the same
                    kept.set_result(new)

    async def _in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)
