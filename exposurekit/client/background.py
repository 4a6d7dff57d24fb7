"""Run a coroutine from blocking code, inside a running event loop too, and cancel it on Ctrl-C."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any

TICK_S = 0.1


def run_in_background(coro: Coroutine[Any, Any, None], on_tick: Callable[[], None]) -> None:
    """Run a coroutine to its end in a thread of its own.

    The calling thread only waits, so Ctrl-C interrupts it immediately; the coroutine is then cancelled and awaited,
    so no request starts after the cell has stopped.

    Args:
        coro: The coroutine.
        on_tick: Called in the calling thread ten times a second, and once more at the end.
    """
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    finished: Future[None] = Future()
    thread = threading.Thread(target=_run, args=(coro, started, finished), name="exposurekit", daemon=True)
    thread.start()
    try:
        while not wait([finished], timeout=TICK_S).done:
            on_tick()
        on_tick()
    except BaseException:
        loop, task = started.result()
        with contextlib.suppress(RuntimeError):  # the loop has just closed
            loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
    finished.result()


def _run(
    coro: Coroutine[Any, Any, None],
    started: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]]",
    finished: "Future[None]",
) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a running coroutine has a task
        started.set_result((asyncio.get_running_loop(), task))
        await coro

    try:
        asyncio.run(main())
    except BaseException as error:  # noqa: BLE001  carried over to the waiting thread
        finished.set_exception(error)
    else:
        finished.set_result(None)
