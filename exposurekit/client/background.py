"""Awaiting work run behind a waiting caller: works inside a notebook's running loop, and stops when the cell stops."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any

LOOK_S = 0.1


def run_in_background(work: Callable[[], Coroutine[Any, Any, None]], watch: Callable[[], None]) -> None:
    """Run to the end, calling ``watch`` ten times a second and once more at the end.

    The caller's thread only waits, so Ctrl-C reaches it at once; the work is cancelled then and waited for:
    no further call begins, and nothing goes on behind the stopped cell.
    """
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()
    ended: Future[None] = Future()
    thread = threading.Thread(target=_live, args=(work, begun, ended), name="exposurekit", daemon=True)
    thread.start()
    try:
        while not wait([ended], timeout=LOOK_S).done:
            watch()
        watch()
    except BaseException:
        loop, task = begun.result()
        with contextlib.suppress(RuntimeError):  # it ended by itself just now
            loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
    ended.result()


def _live(
    work: Callable[[], Coroutine[Any, Any, None]],
    begun: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]]",
    ended: "Future[None]",
) -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a running coroutine has a task
        begun.set_result((asyncio.get_running_loop(), task))
        await work()

    try:
        asyncio.run(main())
    except BaseException as error:  # noqa: BLE001  carried over to the waiting thread
        ended.set_exception(error)
    else:
        ended.set_result(None)
