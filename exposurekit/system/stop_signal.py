"""Waiting until a command is told to stop."""

import queue
import time

_TICK_S = 0.5


class StopSignal:
    """A stop flag. A signal handler can set it at any time; a `threading.Event` could deadlock."""

    def __init__(self) -> None:
        self.is_set = False
        self._queue: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Set it; waiting ends."""
        self.is_set = True
        self._queue.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, at most some seconds; return whether it is set.

        It waits in short steps: Python runs signal handlers only between steps, and a signal that arrives just before
        a step begins, or in another thread, does not end that step.
        """
        until = time.monotonic() + seconds
        while not self.is_set and (left := until - time.monotonic()) > 0:
            try:
                self._queue.get(timeout=min(left, _TICK_S))
            except queue.Empty:
                continue
        return self.is_set
