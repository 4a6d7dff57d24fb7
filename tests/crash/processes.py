"""Processes that are killed and started again, and watched for those that end by themselves."""

import asyncio
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

READY_WITHIN_S, SIGTERM_GRACE_S, POLL_S = 120, 30, 0.02
TAIL = 600


@dataclass
class Process:
    """A program that may be started several times; each start has its own log."""

    name: str
    command: Sequence[str | Path]
    directory: Path
    ready_text: str = "listening="
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    port: int | None = None
    starts: int = 0
    deaths: list[str] = field(default_factory=list)
    _process: subprocess.Popen | None = None

    @property
    def log(self):
        return self.directory / f"{self.name}-{self.starts}.log"

    @property
    def is_ready(self):
        return self.ready_text in self.log.read_text(errors="replace")

    def start(self):
        self.starts += 1
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def check_running(self):
        """Whether it runs; if it has ended by itself, its death is recorded."""
        if self._process is not None and (code := self._process.poll()) is not None:
            self._record_death(code)
        return self._process is not None

    def stop(self, number=signal.SIGKILL):
        """Send a signal and wait; whether the process ended because of it."""
        if not self.check_running():
            return False
        self._process.send_signal(number)
        code = self._process.wait(SIGTERM_GRACE_S)
        if code != (-number if number == signal.SIGKILL else 0):
            self._record_death(code)
            return False
        self._process = None
        return True

    def _record_death(self, code):
        self._process = None
        self.deaths.append(f"{self.name} ended with {code}: {self.log.read_text(errors='replace')[-TAIL:]}")


async def until_ready(processes):
    until = time.monotonic() + READY_WITHIN_S
    while not all(process.is_ready for process in processes):
        if time.monotonic() > until:
            raise TimeoutError(f"not ready: {[process.deaths[-1:] for process in processes]}")
        await asyncio.sleep(POLL_S)


class Fleet:
    """All processes of a run."""

    def __init__(self, processes, seed):
        self.processes = processes
        self.kills = 0
        self._random = random.Random(f"fleet {seed}")  # noqa: S311

    @property
    def base_urls(self):
        return [f"http://127.0.0.1:{process.port}" for process in self.processes if process.port]

    @property
    def deaths(self):
        return [death for process in self.processes for death in process.deaths]

    @contextmanager
    def running(self):
        try:
            for process in self.processes:
                process.start()
            yield
        finally:
            for process in self.processes:
                process.stop()

    async def restart_ended(self):
        """Start again whatever ends by itself; until cancelled."""
        while True:
            for process in self.processes:
                if not process.check_running():
                    process.start()
            await asyncio.sleep(POLL_S)

    def kill_one(self):
        """Kill a running process, and start it again."""
        running = [process for process in self.processes if process.check_running()]
        if running:
            process = self._random.choice(running)
            self.kills += process.stop()
            process.start()

    def faults(self):
        """How often the processes logged each fault and continued."""
        counts = Counter()
        for process in self.processes:
            for log in process.directory.glob(f"{process.name}-*.log"):
                for line in log.read_text(errors="replace").splitlines():
                    if " fault=" in line:
                        fault = line.partition(" level=ERROR ")[2].partition(" at=")[0]
                        counts[" ".join(word for word in fault.split() if not word.startswith("row="))] += 1
        return counts
