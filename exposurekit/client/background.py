"""Iterate over an async iterator from blocking code, inside a running event loop too; Ctrl-C cancels it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

TICK_S = 0.1
_END: Any = object()


def iterate(source: AsyncIterator[T], on_tick: Callable[[], None]) -> Iterator[T]:
    """Yield the items of an async iterator, which runs in a thread of its own.

    The calling thread only waits, so Ctrl-C interrupts it immediately; the iterator is then cancelled and awaited,
    so no request starts after the cell has stopped. ``on_tick`` is called in the calling thread ten times a second while
    it waits, and after each item.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
    thread = threading.Thread(target=_run, args=(started,), name="exposurekit", daemon=True)
    thread.start()
    try:
        loop, _ = started.result()
        while True:
            step = asyncio.run_coroutine_threadsafe(_next(source), loop)
            while not wait([step], timeout=TICK_S).done:
                on_tick()
            on_tick()
            if (item := step.result()) is _END:
                return
            yield item
    finally:
        if not started.exception():
            loop, stopped = started.result()
            loop.call_soon_threadsafe(stopped.set)
        thread.join()


def _run(started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
    try:
        asyncio.run(_until_stopped(started))
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)  # no loop, such as without file descriptors


async def _until_stopped(started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
    """Run the loop; `asyncio.run` then cancels what it still runs, and closes async generators."""
    stopped = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), stopped))
    await stopped.wait()


async def _next(source: AsyncIterator[T]) -> T:
    return await anext(source, _END)
