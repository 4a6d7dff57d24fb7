"""Pressure test: the response times of two integrators while a third abuses the service in one way after another.

    python tests/load/run.py --people 5000 --seconds 60

Loopback only. Prints a line for each kind of abuse: the requests, response times and errors of the two others, the ratio of
their 95th percentile to that without abuse, the same of the CPU time that the service used meanwhile (the machine may be
busy otherwise), and the service's memory above idle. Beside it, /metrics is scraped every second: the time of the slowest
scrape, those that failed, and the requests that the service says it answered, by class of status. `--postgresql` uses a PostgreSQL
server of its own.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.services import JANE

from exposurekit.contract.inputs import AddressItem
from exposurekit.service.accounts import integrators, users
from exposurekit.service.clock import Clock
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault

KEY = bytes(32)
SEED = 5
LARGE = {
    "aliases": [{"first_name": "A" * 200, "last_name": "B" * 200} for _ in range(99)],
    "addresses": [{"address1": "C" * 200, "city": "Oak", "state": "CA"} for _ in range(99)],
}
ALTERED = {"aliases": "last_name", "addresses": "address1"}
CONNECTIONS = 2_000
ANSWERED = re.compile(r'^exposurekit_requests_total\{.*status="(\dxx)"\} (\S+)$', re.MULTILINE)


@dataclass
class Integrator:
    """What a client needs to know of an integrator."""

    name: str
    path: str
    secret: str
    people: list[tuple[int, str]] = field(repr=False)

    def query(self, **parameters: object) -> dict[str, object]:
        return {"api_secret": self.secret, **parameters}


@dataclass
class Measured:
    """Response times and the service's CPU times meanwhile, in milliseconds, and what failed."""

    times: list[float] = field(default_factory=list)
    cpu_times: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def percentile(self, share: float) -> float:
        return percentile(self.times, share)


@dataclass
class Scrapes:
    """What /metrics says, once a second for as long as something else is measured."""

    address: str
    times: list[float] = field(default_factory=list)
    failed: int = 0
    answered: Counter[str] = field(default_factory=Counter)

    async def beside(self, measuring) -> "Measured":
        """Scrape until a coroutine has ended; what it returns."""
        self.times, self.failed = [], 0
        async with httpx.AsyncClient(timeout=5) as client:
            before = await self._scrape(client)
            task = asyncio.ensure_future(measuring)
            while not task.done():
                await asyncio.wait([task], timeout=1)
                after = await self._scrape(client)
        self.answered = after - before
        return task.result()

    async def _scrape(self, client: httpx.AsyncClient) -> Counter[str]:
        began, counts = time.perf_counter(), Counter()
        try:
            text = (await client.get(self.address)).raise_for_status().text
        except httpx.HTTPError:
            self.failed += 1
            return counts
        self.times.append(1000 * (time.perf_counter() - began))
        for status, count in ANSWERED.findall(text):
            counts[status] += int(float(count))
        return counts

    def __str__(self) -> str:
        two, four, five = (self.answered[status] for status in ("2xx", "4xx", "5xx"))
        return f"{max(self.times, default=0):6.0f} {self.failed:6} {two:13} {four:6} {five:6}"


def percentile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=1000)[round(share * 1000) - 1]


def cpu_s(process: subprocess.Popen) -> float:
    return time.clock_gettime(~process.pid << 3 | 2)  # Linux: the clock of that process's CPU time


async def prepare(url: str, people: int) -> list[Integrator]:
    """Three integrators who share the people."""
    database = Database(url, vault=Vault(KEY), clock=Clock())
    await database.open()
    made = []
    person = JANE | {"addresses": [AddressItem(**one) for one in JANE["addresses"]]}
    for name in ("acme", "beta", "gamma"):
        async with database.writing() as session:
            credentials = await integrators.add(session, name)
            [integrator_id] = [one.id for one in await integrators.all(session) if one.name == name]
            created = [await users.create(session, integrator_id, person) for _ in range(people // 3)]
        path = f"/api/{name}/{credentials.api_key}/v2/users"
        made.append(Integrator(name, path, credentials.api_secret, [(one.id, one.secret) for one in created]))
    await database.close()
    return made


@contextlib.contextmanager
def served(url: str, directory: Path):
    """The command in a process of its own; yields its address, its process and scrapes of its metrics."""
    environment = os.environ | {"EXPOSUREKIT_SERVICE_KEY": "A" * 43 + "="}
    command = [sys.executable, "-m", "exposurekit", "serve", "--database", url, "--port", "0"]
    command += ["--trusted-proxy", "127.0.0.1", "--metrics-port", "0"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, env=environment)
    try:
        while not (address := re.search(r"listening=(\S+)", (directory / "log").read_text())):
            if process.poll() is not None:
                raise SystemExit((directory / "log").read_text())
            time.sleep(0.1)
        metrics = re.search(r"metrics=(\S+)", (directory / "log").read_text())[1]
        yield address[1], process, Scrapes(metrics)
    finally:
        process.terminate()
        process.wait(30)


async def honest(
    base_url: str,
    process: subprocess.Popen,
    one: Integrator,
    until: float,
    measured: Measured,
    *,
    address: str,
) -> None:
    """Fifteen requests a second: Get user, List users and Update user."""
    pick = random.Random(SEED)  # noqa: S311
    headers = {"x-forwarded-for": address}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=30) as client:
        for number in itertools.count():
            if number > 1 and time.monotonic() > until:
                return
            user_id, secret = pick.choice(one.people)
            query, path = one.query(secret=secret), f"{one.path}/{user_id}.json"
            began, cpu_began_s = time.perf_counter(), cpu_s(process)
            try:
                if number % 10 == 0:
                    response = await client.get(f"{one.path}.json", params=one.query(limit=100))
                elif number % 10 == 5:
                    response = await client.put(path, params=query, json={"middle_name": f"M{number}"})
                else:
                    response = await client.get(path, params=query)
                if response.status_code != 200:
                    measured.errors[str(response.status_code)] += 1
            except httpx.HTTPError as error:
                measured.errors[type(error).__name__] += 1
            took = time.perf_counter() - began
            measured.times.append(1000 * took)
            measured.cpu_times.append(1000 * (cpu_s(process) - cpu_began_s))
            await asyncio.sleep(max(0, 1 / 15 - took))


async def flood(base_url: str, one: Integrator, until: float, request) -> None:
    """Requests as fast as they are answered, on sixteen connections."""
    headers = {"x-forwarded-for": "192.0.2.66"}
    async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=60) as client:

        async def again() -> None:
            while time.monotonic() < until:
                with contextlib.suppress(httpx.HTTPError):
                    await request(client, one)

        await asyncio.gather(*(again() for _ in range(16)))


async def guess(client: httpx.AsyncClient, one: Integrator) -> None:
    await client.get(f"{one.path}.json", params={"api_secret": "wrong"})


async def poll(client: httpx.AsyncClient, one: Integrator) -> None:
    await client.get(f"{one.path}.json", params=one.query(limit=1000))


async def fatten(client: httpx.AsyncClient, one: Integrator) -> None:
    """Give a person as much as it may have, or write all of it again."""
    user_id, secret = random.choice(one.people[:20])  # noqa: S311
    path, query = f"{one.path}/{user_id}.json", one.query(secret=secret)
    person = (await client.get(path, params=query)).raise_for_status().json()["user"]
    text = random.choice("DEFGH") * 200  # noqa: S311
    again = {
        name: [{"id": item["id"], altered: text} for item in person[name]]
        for name, altered in ALTERED.items()
    }
    await client.put(path, params=query, json=again if person["aliases"] else LARGE)


async def register(client: httpx.AsyncClient, one: Integrator) -> None:
    await client.post(f"{one.path}.json", json=JANE | {"api_secret": one.secret, "async": False})


async def hold(base_url: str, until: float, sent: bytes, drip: bytes = b"") -> None:
    """Connections that never end their request, or read no response."""
    url, wires = httpx.URL(base_url), []
    while time.monotonic() < until:
        if len(wires) < CONNECTIONS:
            with contextlib.suppress(OSError):
                wire = socket.create_connection((url.host, url.port), timeout=5)
                wires.append(wire)
                wire.sendall(sent)
            continue
        for wire in wires if drip else ():
            with contextlib.suppress(OSError):
                wire.send(drip)
        await asyncio.sleep(0.5)
        wires = [wire for wire in wires if not is_closed(wire)]


def is_closed(wire: socket.socket) -> bool:
    wire.setblocking(False)
    try:
        return wire.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def abuses(base_url: str, one: Integrator, until: float) -> dict[str, object]:
    """Each kind of abuse, as a function that begins it."""
    head = f"POST {one.path}.json HTTP/1.1\r\nhost: a.example\r\ncontent-type: application/json\r\n"
    get = f"GET {one.path}.json?api_secret={one.secret}&limit=1000 HTTP/1.1\r\nhost: a.example\r\n\r\n"
    return {
        "wrong secrets": lambda: flood(base_url, one, until, guess),
        "long lists": lambda: flood(base_url, one, until, poll),
        "large people": lambda: flood(base_url, one, until, fatten),
        "registrations": lambda: flood(base_url, one, until, register),
        "silent": lambda: hold(base_url, until, b""),
        "slow heads": lambda: hold(base_url, until, b"GET / HTTP/1.1\r\n", b"x: y\r\n"),
        "slow bodies": lambda: hold(
            base_url, until, head.encode() + b"content-length: 900000\r\n\r\n" + b"x" * 50_000, b"x"
        ),
        "slow readers": lambda: hold(base_url, until, 8 * get.encode()),
    }


def memory_mb(process: subprocess.Popen) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


async def measure(
    base_url: str, process: subprocess.Popen, others: list[Integrator], seconds: float
) -> Measured:
    measured, until = Measured(), time.monotonic() + seconds
    addresses = ("192.0.2.1", "192.0.2.2")
    await asyncio.gather(
        *(
            honest(base_url, process, one, until, measured, address=address)
            for one, address in zip(others, addresses, strict=True)
        )
    )
    return measured


def report(name: str, measured: Measured, base: Measured | None, memory: float, scrapes: Scrapes) -> None:
    p50, p95, p99 = (measured.percentile(share) for share in (0.5, 0.95, 0.99))
    ratio = "" if base is None else f"{p95 / base.percentile(0.95):6.1f}x"
    cpu_p95 = percentile(measured.cpu_times, 0.95)
    cpu_ratio = "" if base is None else f"{cpu_p95 / percentile(base.cpu_times, 0.95):6.1f}x"
    errors = dict(measured.errors) or "none"
    print(
        f"{name:14} {len(measured.times):6} {p50:8.1f} {p95:8.1f} {p99:8.1f} {max(measured.times):8.0f} {ratio:>7} "
        f"{cpu_p95:8.1f} {cpu_ratio:>7} {memory:7.0f} {scrapes}  {errors}",
        flush=True,
    )


def run(url: str, directory: Path, people: int, seconds: float, names: list[str]) -> None:
    acme, *others = asyncio.run(prepare(url, people))
    with served(url, directory) as (base_url, process, scrapes):
        asyncio.run(measure(base_url, process, others, 3))
        idle = memory_mb(process)
        print(
            f"{'abuse':14} {'n':>6} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'max ms':>8} {'p95':>7} "
            f"{'cpu ms':>8} {'p95':>7} {'+MB':>7} {'scrape':>6} {'failed':>6} {'answered 2xx':>13} {'4xx':>6} {'5xx':>6}  errors"
        )
        base = asyncio.run(scrapes.beside(measure(base_url, process, others, seconds)))
        report("none", base, None, memory_mb(process) - idle, scrapes)
        for name in names or abuses("", acme, 0):
            arguments = json.dumps([base_url, acme.__dict__, seconds + 2, name])
            with subprocess.Popen([sys.executable, __file__, "--abuse", arguments]) as abuser:
                time.sleep(1.5)  # it imports
                measured = asyncio.run(scrapes.beside(measure(base_url, process, others, seconds)))
                peak = memory_mb(process) - idle
                abuser.wait(60)
            report(name, measured, base, peak, scrapes)
            time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--abuse", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", help="kinds of abuse; all by default")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * CONNECTIONS), hard))
    if options.abuse:
        base_url, one, seconds, name = json.loads(options.abuse)
        asyncio.run(abuses(base_url, Integrator(**one), time.monotonic() + seconds)[name]())
        return
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        url = f"sqlite:///{directory}/service.db"
        if options.postgresql:
            from support import postgres

            server = stack.enter_context(postgres.a_server())
            url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        run(url, Path(directory), options.people, options.seconds, options.names)


if __name__ == "__main__":
    main()
