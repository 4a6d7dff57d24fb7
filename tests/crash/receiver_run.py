"""The inbox's crash test, a command: kill `exposurekit inbox run` under load; what it acknowledged is stored, once.

    python tests/crash/receiver_run.py [--kills 30] [--seed 1] [--senders 6]

Senders post signed deliveries continuously, and repeat each with the same id and bytes until a 2xx comes. Prints
figures and a verdict, rule by rule; 0 if every rule holds, else 1.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from crash.processes import Process, until_ready
from crash.service_verdict import print_verdict
from support.ports import free_port

from exposurekit.service.webhooks.delivery import build_headers
from exposurekit.service.webhooks.endpoints import Callback, new_secret

COMMAND = Path(sys.executable).parent / "exposurekit"
PATIENCE_S, RETRY_S = 15, 0.05
BETWEEN_KILLS_S = (0.05, 0.8)
LARGE = 40_000  # bytes of padding in some bodies: a write of several pages


@dataclass
class Load:
    """The senders, and the responses.

    Attributes:
        acknowledged: The body's digest of each webhook-id that got a 2xx.
        answers: How many attempts ended how; ``none``: without a response.
        in_progress: How many attempts wait for a response now.
    """

    url: str
    secret: str = field(repr=False)
    seed: int
    acknowledged: dict[str, bytes] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    in_progress: int = 0
    ends: bool = False

    async def send(self, number):
        """One sender, until the load ends and its last delivery is acknowledged."""
        drawn = random.Random(f"sender {self.seed} {number}")  # noqa: S311
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            count = 0
            while not self.ends:
                count += 1
                padding = "x" * drawn.choice([0, 200, LARGE])
                body = json.dumps({"user_id": number, "events": [], "number": count, "padding": padding})
                await self._deliver(http, f"msg_{number}_{count}", body.encode())

    async def _deliver(self, http, webhook_id, body):
        answer = await self._attempt(http, webhook_id, body)
        while not answer.startswith("2"):
            await asyncio.sleep(RETRY_S)
            answer = await self._attempt(http, webhook_id, body)
        self.acknowledged[webhook_id] = hashlib.sha256(body).digest()

    async def _attempt(self, http, webhook_id, body):
        headers = build_headers(Callback(self.url, self.secret), webhook_id, datetime.now(UTC), body)
        self.in_progress += 1
        try:
            answer = str((await http.post(self.url, content=body, headers=headers)).status_code)
        except httpx.HTTPError:
            answer = "none"
        self.in_progress -= 1
        self.answers[answer] += 1
        return answer


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # clean up: end every process of the run
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--senders", type=int, default=6)
    plan = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        directory, secret = Path(name), new_secret()
        inbox, port = directory / "history" / "inbox.db", free_port()
        command = [COMMAND, "inbox", "run", "--history", inbox.parent, "--port", str(port)]
        environment = {**os.environ, "EXPOSUREKIT_WEBHOOK_SIGNING_SECRET": secret}
        receiver = Process("receiver", command, directory, environment=environment)
        load = Load(f"http://127.0.0.1:{port}/", secret, plan.seed)
        kills, during_requests = asyncio.run(kill_under_load(plan, receiver, load))
        figures, rules = judge(inbox, load, receiver.deaths, (kills, plan.kills))
        logs = b"".join(log.read_bytes() for log in directory.glob("receiver-*.log"))
    figures["stored, killed before the response"] = logs.count(b" delivery=duplicate ")
    figures |= {"kills during requests": during_requests, "seconds": round(time.monotonic() - started)}
    return print_verdict(figures, rules)


async def kill_under_load(plan, receiver, load):
    """How many kills, and how many of them during requests."""
    drawn = random.Random(f"kills {plan.seed}")  # noqa: S311
    kills = during_requests = 0
    receiver.start()
    try:
        await until_ready([receiver])
        senders = [asyncio.create_task(load.send(number)) for number in range(1, plan.senders + 1)]
        for _ in range(plan.kills):
            await asyncio.sleep(drawn.uniform(*BETWEEN_KILLS_S))
            during_requests += load.in_progress > 0
            kills += receiver.stop()
            receiver.start()
            await until_ready([receiver])
        load.ends = True
        await asyncio.gather(*senders)
        receiver.stop(signal.SIGTERM)
    finally:
        receiver.stop()
    return kills, during_requests


def judge(file, load, deaths, kills):
    """The figures, and the violations of each rule; `kills`: done and planned."""
    inbox = sqlite3.connect(file)
    try:
        rows = inbox.execute("SELECT webhook_id, digest, body FROM messages").fetchall()
        integrity = [row[0] for row in inbox.execute("PRAGMA integrity_check")]
    finally:
        inbox.close()
    stored = Counter(webhook_id for webhook_id, _, _ in rows)
    digests = {webhook_id: hashlib.sha256(body).digest() for webhook_id, _, body in rows}
    figures = {
        "deliveries acknowledged": len(load.acknowledged),
        "deliveries stored": len(rows),
        "attempts": ", ".join(f"{count} of {answer}" for answer, count in sorted(load.answers.items())),
        "kills": kills[0],
    }
    preconditions = {
        f"{kills[1]} kills": kills[0] == kills[1],
        "an attempt without a response": load.answers["none"] > 0,
        "deliveries": len(load.acknowledged) > kills[1],
    }
    return figures, {
        "acknowledged, and lost": sorted(load.acknowledged.keys() - stored.keys()),
        "stored, and never acknowledged": sorted(stored.keys() - load.acknowledged.keys()),
        "stored more than once": [name for name, count in stored.items() if count > 1],
        "stored with different bytes": [
            name for name, digest in load.acknowledged.items() if digests.get(name, digest) != digest
        ],
        "digests that differ from their bodies": [
            name for name, digest, _ in rows if digests[name] != digest
        ],
        "integrity_check": [line for line in integrity if line != "ok"],
        "ended by itself, or not cleanly": deaths,
        "answers other than 204": [answer for answer in load.answers if answer not in {"204", "none"}],
        "missing preconditions": [name for name, holds in preconditions.items() if not holds],
    }


if __name__ == "__main__":
    sys.exit(main())
