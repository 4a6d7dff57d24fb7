"""Server processes that share one listening socket: started, replaced and ended by the process that has started them.

Each is a new interpreter, not a fork: threads, event loops and connections to databases do not survive a fork. All of them
accept from the socket that the parent has bound, so an address that is in use is noticed, what waits to be accepted when a
process is killed goes to another one, and a busy process accepts less than an idle one.
"""

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from exposurekit.errors import ConfigurationError, ExposureError

FIRST_DELAY_S, DELAY_MAX_S = 0.25, 30.0  # before a process is replaced; doubled while they end soon
SOON_S = 60.0  # a process that has served for longer did not end soon
LOG_EVERY_S = 60.0
STOP_S = 45.0  # for requests and jobs to end; more than either takes
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FAILED = 1
_log = logging.getLogger("exposurekit.service")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One server process, in itself.

    Attributes:
        number: From 0; a process that replaces another one has its number.
        is_first: Whether no process of the service has served yet.
        on_started: To be called once it serves.
    """

    number: int
    is_first: bool
    on_started: Callable[[], object]


class ServerProcesses:
    """The server processes of one service.

    Args:
        main: Called in each process with a `ServerProcess` and the arguments; serves until SIGINT or SIGTERM. A function
            of a module.
        count: The number of processes.
        arguments: Pickled for each process.
    """

    def __init__(self, main: Callable[..., None], count: int, arguments: Sequence[Any]) -> None:
        self._main, self._arguments = main, arguments
        self._slots = [_Slot(number) for number in range(count)]
        self._ended = 0  # since the last line of the log
        self._log_at = 0.0  # when the next one is due
        self._exit_code: int | None = None  # of the last one that ended
        self._problem: str | None = None

    @property
    def pids(self) -> dict[str, int]:
        """The ids of the running processes, by their labels; this one is the parent."""
        # Read in another thread: a process may end meanwhile.
        pids = {one.label: process.pid for one in self._slots if (process := one.process) is not None}
        return {"parent": os.getpid()} | {label: pid for label, pid in pids.items() if pid is not None}

    def run(self, serving: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        """Run until SIGINT or SIGTERM, replacing each process that ends; then end them.

        The first one starts alone, since it may have to create the database. Once all of them serve for the first time,
        the context `serving` is entered. Raises `ConfigurationError` if one of them does not get that far.
        """
        with _received_signals() as signals:
            try:
                self._run_until(signals, lambda: self._slots[0].has_served, self._slots[:1])
                self._run_until(signals, lambda: all(one.has_served for one in self._slots), self._slots)
                if not signals.numbers:
                    with serving():
                        self._run_until(signals, lambda: False, self._slots)
            finally:
                self._stop(signals)

    def _run_until(self, signals: "_Signals", is_over: Callable[[], bool], slots: "Sequence[_Slot]") -> None:
        """Run the processes of some slots until a signal arrives or a condition is true."""
        while not signals.numbers and not is_over():
            now = time.monotonic()
            for one in slots:
                if one.process is None and one.starts_at <= now:
                    self._start(one)
            times = [one.starts_at for one in slots if one.process is None]
            times += [self._log_at] if self._ended else []
            timeout = max(0, min(times) - now) if times else None
            ready = wait([signals.reader, *(source for one in slots for source in one.sources)], timeout)
            for one in slots:
                if one.channel in ready:
                    one.receive()
                if one.process is not None and one.process.sentinel in ready:
                    self._end(one)
            self._log_ended()

    def _start(self, slot: "_Slot") -> None:
        is_first = not any(one.has_served for one in self._slots)
        try:
            slot.start(self._main, self._arguments, is_first=is_first)
        except OSError as error:  # no memory, or no process may be started
            slot.problem = f"cannot start a process: {error.strerror}"
            self._end(slot)

    def _end(self, slot: "_Slot") -> None:
        """Note that a process has ended; it is replaced later, unless the service has not started yet."""
        code = slot.end()
        if not slot.has_served:
            raise ConfigurationError(
                slot.problem or f"a server process ended while starting: exit code {code}"
            )
        self._ended += 1
        self._exit_code, self._problem = code, slot.problem

    def _log_ended(self) -> None:
        """Log how many processes have ended, once in a while."""
        now = time.monotonic()
        if self._ended and now >= self._log_at:
            reason = self._problem or _reason(self._exit_code)
            _log.error(
                "server_processes_ended=%d exit_code=%s: %s; replaced", self._ended, self._exit_code, reason
            )
            self._ended, self._log_at = 0, now + LOG_EVERY_S

    def _stop(self, signals: "_Signals") -> None:
        """End all processes: ask them to, and kill those that do not. A second SIGINT ends their requests, too."""
        for one in self._slots:
            one.send(signal.SIGTERM)
        until = time.monotonic() + STOP_S
        while (
            running := [one for one in self._slots if one.process is not None]
        ) and time.monotonic() < until:
            sources = [source for one in running for source in one.sources]
            ready = wait([signals.reader, *sources], max(0, until - time.monotonic()))
            signals.clear()
            for one in running:
                if one.process is not None and one.process.sentinel in ready:
                    one.end()
                elif one.channel in ready:
                    one.receive()
                elif signals.numbers.count(signal.SIGINT) > 1:
                    one.send(signal.SIGINT)
        for one in running:
            one.send(signal.SIGKILL)
            one.end()
        if running:
            raise ExposureError(f"{len(running)} server processes did not end within {STOP_S:.0f} s: killed")


@dataclass(slots=True)
class _Slot:
    """The process with one number, and the one that replaces it."""

    number: int
    process: SpawnProcess | None = None
    channel: Connection | None = None  # on which it reports
    has_served: bool = False
    problem: str | None = None  # why it ended
    started_at: float = 0.0
    starts_at: float = 0.0
    delay_s: float = FIRST_DELAY_S

    @property
    def label(self) -> str:
        return str(self.number + 1)

    @property
    def sources(self) -> list[Any]:
        """What to wait for."""
        sentinels = [] if self.process is None else [self.process.sentinel]
        return sentinels if self.channel is None else [*sentinels, self.channel]

    def start(self, main: Callable[..., None], arguments: Sequence[Any], *, is_first: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.problem, self.started_at = None, time.monotonic()
        self.channel, reports = context.Pipe(duplex=False)
        self.process = context.Process(
            target=_run,
            args=(main, reports, *arguments),
            kwargs={"number": self.number, "is_first": is_first},
        )
        # A signal waits until the process can handle it. The tracker that starts with the first one would unblock it.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            reports.close()

    def receive(self) -> None:
        """Receive what the process reports: None once it serves, or why it ends."""
        if self.channel is None:
            return
        try:
            problem = self.channel.recv()
        except (EOFError, OSError):
            self.channel.close()
            self.channel = None
            return
        self.problem = problem
        self.has_served |= problem is None

    def end(self) -> int | None:
        """Collect a process that has ended and return its exit code; the next one starts after a while."""
        while self.channel is not None:
            self.receive()
        code = None
        if self.process is not None:
            with suppress(AssertionError):  # it was not started
                self.process.join()
            code = self.process.exitcode
        self.process = None
        now = time.monotonic()
        if now - self.started_at >= SOON_S:
            self.delay_s = FIRST_DELAY_S
        self.starts_at, self.delay_s = now + self.delay_s, min(DELAY_MAX_S, self.delay_s * 2)
        return code

    def send(self, number: int) -> None:
        if self.process is not None and self.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


class _Signals:
    """The signals received, and a file that can be read once there is one."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        os.set_blocking(self.reader, False)

    def add(self, number: int, _: object) -> None:
        self.numbers.append(number)
        with suppress(BlockingIOError):
            os.write(self._writer, b"s")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.reader, 1024)

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


@contextmanager
def _received_signals() -> Iterator[_Signals]:
    signals = _Signals()
    before = {number: signal.signal(number, signals.add) for number in _SIGNALS}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signals.close()


def _reason(exit_code: int | None) -> str:
    """Return why a process ended that gave no reason itself."""
    if exit_code is None or exit_code >= 0:
        return "it gave no reason"
    likely = " (out of memory?)" if -exit_code == signal.SIGKILL else ""
    return f"killed by signal {-exit_code}{likely}"


def shared_memory(words: int) -> Any:
    """Return memory that can be passed to server processes: integers of 64 bits, which are 0."""
    return multiprocessing.get_context("spawn").RawArray(ctypes.c_uint64, words)


def _run(
    main: Callable[..., None], reports: Connection, *arguments: Any, number: int, is_first: bool
) -> None:
    """Run one process; it ends when its parent does."""
    threading.Thread(target=_end_with_parent, name="exposurekit-parent", daemon=True).start()
    gc.set_threshold(50_000)  # as the command does

    def report(problem: str | None = None) -> None:
        with suppress(OSError):  # the parent has ended
            reports.send(problem)

    try:
        main(ServerProcess(number, is_first, report), *arguments)
    except KeyboardInterrupt:  # a second one, when this process has ended its requests
        return
    except ExposureError as error:
        report(str(error))
    except Exception as error:  # noqa: BLE001  its text may hold personal data
        report(f"unexpected error ({type(error).__name__})")
    else:
        return
    sys.exit(_FAILED)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_S)
    os._exit(_FAILED)
