"""The inbox's crash test, a command: `exposurekit inbox run` killed under load; what it answered well is kept, once.

    python tests/crash/receiver_run.py [--kills 30] [--seed 1] [--senders 6]

Senders post signed deliveries without a pause and try again as long as no 2xx came, with the same id and bytes. Prints
figures and a verdict, rule by rule; 0 if every rule held, else 1.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

COMMAND = Path(sys.executable).parent / "exposurekit"
READY_WITHIN_S, PATIENCE_S, AGAIN_S, LOOK_S = 60, 15, 0.05, 0.01
BETWEEN_KILLS_S = (0.05, 0.8)
LARGE = 40_000  # bytes of padding in some bodies: a write of several pages
SIGTERM_GRACE_S = 30


@dataclass
class Receiver:
    """The process, and those before it on the same port."""

    directory: Path
    port: int
    secret: str = field(repr=False)
    kills: int = 0
    deaths: list[str] = field(default_factory=list)
    _starts: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def inbox(self) -> Path:
        """Its file."""
        return self.directory / "history" / "inbox.db"

    @property
    def log(self) -> Path:
        """What the present process says."""
        return self.directory / f"receive-{self._starts}.log"

    def start(self) -> None:
        """Begin, and after an end again."""
        self._starts += 1
        words = ["inbox", "run", "--history", self.inbox.parent, "--port", str(self.port)]
        environment = {**os.environ, "EXPOSUREKIT_WEBHOOK_SIGNING_SECRET": self.secret}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [COMMAND, *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    async def ready(self) -> None:
        """Until it listens.

        Raises:
            TimeoutError: It does not.
        """
        until = time.monotonic() + READY_WITHIN_S
        while b"listening=" not in self.log.read_bytes():
            if time.monotonic() > until or self._process.poll() is not None:
                raise TimeoutError(f"it does not get ready: {self.log.read_text()[-600:]}")
            await asyncio.sleep(LOOK_S)

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it; that it was ended by this, and by nothing before, is noted."""
        self._process.send_signal(number)
        code = self._process.wait(SIGTERM_GRACE_S)
        if code != (-number if number == signal.SIGKILL else 0):
            self.deaths.append(f"ended with {code}: {self.log.read_text(errors='replace')[-600:]}")
        self.kills += code == -signal.SIGKILL


@dataclass
class Load:
    """The senders, and what they were answered.

    Attributes:
        acknowledged: The body's digest of each webhook-id that was answered 2xx.
        answers: How many attempts ended how; ``none``: without an answer.
        under_way: How many attempts wait for an answer now.
    """

    url: str
    secret: str = field(repr=False)
    seed: int
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    under_way: int = 0
    ends: bool = False

    async def send(self, number: int) -> None:
        """One sender, until the load ends; its last delivery, too, is answered well at last."""
        drawn = random.Random(f"sender {self.seed} {number}")  # noqa: S311  a draw that can be repeated
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            count = 0
            while not self.ends:
                count += 1
                padding = "x" * drawn.choice([0, 200, LARGE])
                body = json.dumps({"user_id": number, "events": [], "number": count, "padding": padding})
                await self._deliver(http, f"msg_{number}_{count}", body)

    async def _deliver(self, http: httpx.AsyncClient, webhook_id: str, body: str) -> None:
        while True:
            answer = await self._attempt(http, webhook_id, body)
            self.answers[answer] += 1
            if answer.startswith("2"):
                self.acknowledged[webhook_id] = hashlib.sha256(body.encode()).digest()
                return
            await asyncio.sleep(AGAIN_S)

    async def _attempt(self, http: httpx.AsyncClient, webhook_id: str, body: str) -> str:
        from exposurekit.service.webhooks.delivery import build_headers
        from exposurekit.service.webhooks.endpoints import Callback

        headers = build_headers(Callback(self.url, self.secret), webhook_id, datetime.now(UTC), body.encode())
        self.under_way += 1
        try:
            return str((await http.post(self.url, content=body, headers=headers)).status_code)
        except httpx.HTTPError:
            return "none"
        finally:
            self.under_way -= 1


def main(words: Sequence[str]) -> int:
    """Run, print, and say by the exit code whether every rule held."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in order: no process of the run is left behind
    parser = argparse.ArgumentParser(
        description="Kill the receiver under load; nothing acknowledged is lost."
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--senders", type=int, default=6)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as directory:
        receiver, load, amid, seconds = asyncio.run(_played(Path(directory), options))
        figures, rules = _judged(receiver, load, options.kills)
        logs = b"".join(log.read_bytes() for log in Path(directory).glob("receive-*.log"))
    figures["kept, killed before the answer"] = logs.count(b" delivery=duplicate ")
    figures |= {"kills amid requests": amid, "seconds": round(seconds)}
    for name, value in figures.items():
        print(f"{name:34} {value}")  # noqa: T201  a command prints its verdict
    for name, broken in rules.items():
        print(f"{'BROKEN' if broken else 'held':7} {len(broken):5}  {name}  {broken[:3] or ''}")  # noqa: T201
    return 1 if any(rules.values()) else 0


async def _played(directory: Path, options: argparse.Namespace) -> tuple[Receiver, Load, int, float]:
    from crash.fleet import free_port

    from exposurekit.service.webhooks.endpoints import new_secret

    began, amid = time.monotonic(), 0
    drawn = random.Random(f"kills {options.seed}")  # noqa: S311  a draw that can be repeated
    receiver = Receiver(directory, free_port(), new_secret())
    load = Load(f"http://127.0.0.1:{receiver.port}/", receiver.secret, options.seed)
    receiver.start()
    try:
        await receiver.ready()
        senders = [asyncio.create_task(load.send(number)) for number in range(1, options.senders + 1)]
        for _ in range(options.kills):
            await asyncio.sleep(drawn.uniform(*BETWEEN_KILLS_S))
            amid += load.under_way > 0
            receiver.end()
            receiver.start()
            await receiver.ready()
        load.ends = True
        await asyncio.gather(*senders)
        receiver.end(signal.SIGTERM)
    finally:
        with contextlib.suppress(ProcessLookupError):
            receiver._process.kill()
        receiver._process.wait()
    return receiver, load, amid, time.monotonic() - began


def _judged(receiver: Receiver, load: Load, kills: int) -> tuple[dict[str, object], dict[str, list[object]]]:
    inbox = sqlite3.connect(receiver.inbox)
    try:
        rows = inbox.execute("SELECT webhook_id, digest, body FROM messages").fetchall()
        integrity = [row[0] for row in inbox.execute("PRAGMA integrity_check")]
    finally:
        inbox.close()
    stored = Counter(webhook_id for webhook_id, _, _ in rows)
    digests = {webhook_id: hashlib.sha256(body).digest() for webhook_id, _, body in rows}
    figures = {
        "deliveries acknowledged": len(load.acknowledged),
        "letters kept": len(rows),
        "attempts": ", ".join(f"{many} of {answer}" for answer, many in sorted(load.answers.items())),
        "kills": receiver.kills,
    }
    rules: dict[str, list[object]] = {
        "acknowledged, and lost": sorted(load.acknowledged.keys() - stored.keys()),
        "kept, and never acknowledged": sorted(stored.keys() - load.acknowledged.keys()),
        "kept more than once": [name for name, many in stored.items() if many > 1],
        "kept with other bytes": [
            name for name, digest in load.acknowledged.items() if digests.get(name, digest) != digest
        ],
        "digests that are not their bodies'": [name for name, digest, _ in rows if digests[name] != digest],
        "integrity_check": [result_line for result_line in integrity if result_line != "ok"],
        "ended by itself, or not in peace": list(receiver.deaths),
        "answers other than 204": [answer for answer in load.answers if answer not in {"204", "none"}],
        "what had to happen, and did not": [
            name
            for name, happened in {
                f"{kills} kills": receiver.kills == kills,
                "an attempt without an answer": load.answers["none"] > 0,
                "deliveries": len(load.acknowledged) > kills,
            }.items()
            if not happened
        ],
    }
    return figures, rules


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)
    sys.exit(main(sys.argv[1:]))
