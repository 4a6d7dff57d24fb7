"""The processes of one run: started, killed, started again, and watched for those that end by themselves."""

import asyncio
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PROCESS = Path(__file__).with_name("process.py")
PORTS = range(
    15_000, 30_000
)  # below those that connections are given: one could take a killed service's port
READY_WITHIN_S = 60
LOOK_S = 0.05
TAIL = 600


@dataclass
class Member:
    """One process and those that came before it in the same place."""

    name: str
    words: tuple[str, ...]
    directory: Path
    port: int | None = None
    starts: int = 0
    deaths: list[str] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the present process says."""
        return self.directory / f"{self.name}-{self.starts}.log"

    @property
    def is_ready(self) -> bool:
        """Whether it does its work by now."""
        log_text = self.log.read_bytes()
        return b"listening=" in log_text if self.port else b"worker=running" in log_text

    def start(self) -> None:
        """Begin, and after an end again."""
        self.starts += 1
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(PROCESS), *self.words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def check_running(self) -> bool:
        """Whether it runs; if it has ended by itself, that is noted."""
        if self._process is None:
            return False
        if (code := self._process.poll()) is None:
            return True
        self._ended_by_itself(code)
        return False

    def kill(self) -> bool:
        """SIGKILL; whether it was that which ended it."""
        if not self.check_running() or self._process is None:
            return False
        self._process.kill()
        if (code := self._process.wait()) != -signal.SIGKILL:
            self._ended_by_itself(code)
            return False
        self._process = None
        return True

    def _ended_by_itself(self, code: int) -> None:
        self._process = None
        tail = self.log.read_text(errors="replace")[-TAIL:]
        self.deaths.append(f"{self.name} ended with {code}: {tail}")


class Fleet:
    """All of them.

    Attributes:
        kills: How many were killed.
    """

    def __init__(self, members: list[Member], seed: int) -> None:
        self.kills = 0
        self._members = members
        self._random = random.Random(f"fleet {seed}")  # noqa: S311  a draw that can be repeated, not a secret

    @property
    def fronts(self) -> list[str]:
        """The base URLs, of those that are down too."""
        return [f"http://127.0.0.1:{member.port}" for member in self._members if member.port]

    @property
    def deaths(self) -> list[str]:
        """Those that ended by themselves, and what they said last."""
        return [death for member in self._members for death in member.deaths]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start them all; at the end, none is left."""
        try:
            for member in self._members:
                member.start()
            yield
        finally:
            for member in self._members:
                member.kill()

    async def watch(self) -> None:
        """Start again whatever ends by itself; until cancelled."""
        while True:
            for member in self._members:
                if not member.check_running():
                    member.start()
            await asyncio.sleep(LOOK_S)

    async def ready(self) -> None:
        """Until every process does its work.

        Raises:
            TimeoutError: One does not.
        """
        until = time.monotonic() + READY_WITHIN_S
        while not all(member.is_ready for member in self._members):
            if time.monotonic() > until:
                raise TimeoutError(f"a process does not get ready: {self.deaths[-1:]}")
            await asyncio.sleep(LOOK_S)

    def kill_one(self) -> None:
        """Kill one of them, and start it again at once; one that has ended by itself is not killed."""
        running = [member for member in self._members if member.check_running()]
        if running:
            member = self._random.choice(running)
            self.kills += member.kill()
            member.start()

    def faults(self) -> dict[str, int]:
        """What the processes logged as faults: how often each. They lived on."""
        fault_counts: dict[str, int] = {}
        for member in self._members:
            for log in member.directory.glob(f"{member.name}-*.log"):
                for line in log.read_text(errors="replace").splitlines():
                    if " fault=" in line:
                        fault = line.partition(" level=ERROR ")[2].partition(" at=")[0]
                        words = [word for word in fault.split() if not word.startswith("row=")]
                        fault_counts[" ".join(words)] = fault_counts.get(" ".join(words), 0) + 1
        return fault_counts


def free_port() -> int:
    """A port that nothing listens on, and that no connection is given."""
    chosen = random.SystemRandom()  # another for each run: two may run at once
    while True:
        with socket.socket() as tried:
            port = chosen.choice(PORTS)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
