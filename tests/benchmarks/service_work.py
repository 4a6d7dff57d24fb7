"""Webhooks delivered a second and people scanned a second, each beside what the bare requests would take.

    .venv/bin/python tests/benchmarks/service_work.py [--deliveries 1000] [--people 60] [--rounds 3]

Both sides go to the same loopback servers in one run, in turns. The bare side sends the same number of requests from
one aiohttp session, as a script would: no database, no vetting, no robots.txt, nothing read or judged.
"""

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from exposurekit.contract.webhooks import GROUPING_WINDOW
from exposurekit.sandbox.world.world import World
from exposurekit.service.accounts import integrators, users
from exposurekit.service.accounts.user_items import KINDS
from exposurekit.service.api.server import running
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings.findings import discover_record
from exposurekit.service.http.client import HttpClient
from exposurekit.service.models import Listing, Site
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.scan import ScanContext
from exposurekit.service.scanning.websearch import Engine
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import endpoints
from exposurekit.service.worker import Worker, WorkerConfig

LOOPBACK = ("127.0.0.0/8",)
AT_ONCE = 32
START = datetime(2026, 1, 2, tzinfo=UTC)


async def timed(do: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await do()
    return time.perf_counter() - began


async def all_of(requests: list[Callable[[], Awaitable[object]]]) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(request: Callable[[], Awaitable[object]]) -> None:
        async with gate:
            await request()

    await asyncio.gather(*(one(request) for request in requests))


def database_in(directory: Path, clock: FrozenClock) -> Database:
    return Database(f"sqlite:///{directory / 'service.db'}", vault=Vault(Vault.generate_key()), clock=clock)


async def deliveries(count: int, url: str) -> tuple[float, float]:
    """Seconds for so many deliveries: by the worker, and bare."""
    clock = FrozenClock(START)
    with tempfile.TemporaryDirectory() as directory:
        database = await database_in(Path(directory), clock).open()
        async with database.writing() as work:
            await integrators.add(work, "acme")
            await endpoints.set_callback(work, "acme", endpoints.Callback(url, endpoints.new_secret()))
            [acme] = await integrators.all(work)
            for number in range(count):
                account = await users.create(
                    work, acme.id, {"first_name": "Juniper", "last_name": str(number)}
                )
                await discover_record(work, account.id, Listing(name="J", reference_id="1"), Site(name="S"))
        clock.advance(GROUPING_WINDOW)
        config = WorkerConfig(deliveries=AT_ONCE)
        worker = Worker(
            ScanContext(database, {}, PoliteFetcher(HttpClient(), database)),
            HttpClient(allowed_networks=LOOPBACK),
            config=config,
        )
        ours = await timed(worker.run_until_idle)
        await database.close()
    body = b"{" + b" " * 1500 + b"}"
    async with aiohttp.ClientSession() as session:

        async def post() -> None:
            async with session.post(url, data=body) as response:
                await response.read()

        bare = await timed(lambda: all_of([post] * count))
    return ours, bare


async def scans(people: int) -> tuple[float, float, int]:
    """Seconds for a scan of so many people: by the worker, and for as many bare requests; how many those were."""
    clock = FrozenClock(START)
    with tempfile.TemporaryDirectory() as directory, World(people, seed=7, clock=clock).running() as world:
        database = await database_in(Path(directory), clock).open()
        async with database.writing() as work:
            await integrators.add(work, "acme", attested_by="nobody")
            [acme] = await integrators.all(work)
            for person in world.people:
                await users.create(work, acme.id, fields_of(person.request()))
        http = HttpClient(allowed_networks=LOOPBACK, resolve=world.resolve)
        web = ScanContext(
            database, world.definitions, PoliteFetcher(http, database), Engine(world.search_engine)
        )
        worker = Worker(web, http, config=WorkerConfig(scans=AT_ONCE, removals=1))
        before = world.requests.total()
        ours = await timed(lambda: scan_all(worker, people))
        request_count = world.requests.total() - before
        await database.close()
        [(address, port)] = await world.resolve("seekfolk.example", 80)
        search = world.definitions["Seekfolk"].search
        async with aiohttp.ClientSession(headers={"host": "seekfolk.example"}) as session:

            async def get() -> None:
                path = search.url.removeprefix("http://seekfolk.example")
                async with session.get(
                    f"http://{address}:{port}{path}", params=dict.fromkeys(search.fields, "Wren")
                ) as response:
                    await response.read()

            bare = await timed(lambda: all_of([get] * request_count))
    return ours, bare, request_count


async def scan_all(worker: Worker, people: int) -> None:
    from exposurekit.service.storage import leases, tables

    async with worker.context.database.writing() as work:
        taken = await leases.acquire(work, tables.users, limit=people, duration=timedelta(hours=1))
    await all_of([lambda lease=lease: worker.scan(lease) for lease in taken])


def fields_of(request: dict[str, object]) -> dict[str, object]:
    """A request as the front hands it to the domain."""
    lists = ("aliases", "emails", "phone_numbers", "addresses")
    return {
        name: [KINDS[name].request(**item) for item in value] if name in lists else value
        for name, value in request.items()
    }


async def hook(_: object) -> Response:
    return Response(status_code=204)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--deliveries", type=int, default=1000)
    parser.add_argument("--people", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with running(Starlette(routes=[Route("/", hook, methods=["POST"])])) as receiver:
        rounds = [asyncio.run(deliveries(options.deliveries, f"{receiver}/")) for _ in range(options.rounds)]
    ours, bare = (statistics.median(side) for side in zip(*rounds, strict=True))
    print(
        f"webhooks: {options.deliveries / ours:7.0f} a second, bare {options.deliveries / bare:7.0f}, ratio {bare / ours:.2f}"
    )
    scanned = [asyncio.run(scans(options.people)) for _ in range(options.rounds)]
    ours, bare, requests = (statistics.median(side) for side in zip(*scanned, strict=True))
    print(
        f"scans:    {options.people / ours:7.1f} a second ({requests / ours:.0f} requests a second), "
        f"bare requests {requests / bare:.0f} a second, ratio {bare / ours:.2f}"
    )


if __name__ == "__main__":
    main()
