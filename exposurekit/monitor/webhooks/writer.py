"""Writes deliveries to the inbox store in a thread, so that the event loop never waits for the disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from exposurekit.monitor.webhooks.store import InboxStore

_BATCH_MAX = 64  # messages in one transaction


class Writer:
    """One writer thread; concurrent deliveries share a transaction, and each is acknowledged after its commit."""

    def __init__(self, store: InboxStore) -> None:
        self._store = store
        self._pending: list[tuple[tuple[str | None, bytes], asyncio.Future[bool]]] = []
        self._thread = ThreadPoolExecutor(1, "exposurekit-inbox")
        self._task: asyncio.Task[None] | None = None

    async def put(self, webhook_id: str | None, body: bytes) -> bool:
        """Store a delivery and wait until it is on disk; return whether it is new."""
        is_new: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pending.append(((webhook_id, body), is_new))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_pending())
        return await is_new

    async def open(self) -> None:
        """Open the store's file, to fail early."""
        await self._in_thread(self._store.counts)

    async def close(self) -> None:
        """Finish the current write and stop the thread."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _write_pending(self) -> None:
        while self._pending:
            batch, self._pending = self._pending[:_BATCH_MAX], self._pending[_BATCH_MAX:]
            try:
                results = await self._in_thread(self._store.put_all, [received for received, _ in batch])
            except Exception as error:  # noqa: BLE001  passed on to each caller
                for _, is_new in batch:
                    if not is_new.done():
                        is_new.set_exception(error)
                continue
            for (_, is_new), result in zip(batch, results, strict=True):
                if not is_new.done():  # a caller that disconnected cancelled it; the message is stored anyway
                    is_new.set_result(result)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
