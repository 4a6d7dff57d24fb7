"""Waiting until a command is told to stop."""

import queue
from contextlib import suppress


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
        """Wait until it is set, at most some seconds; return whether it is set."""
        if not self.is_set:
            with suppress(queue.Empty):
                self._queue.get(timeout=seconds)
        return self.is_set
