"""One run: a world, integrators, a database and processes; kills under load, then rest. Judges nothing."""

import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crash.clock import FastClock
from crash.evidence import Evidence, gathered, scans_waiting, unrest
from crash.fleet import Fleet, Member, free_port
from crash.load import Load
from crash.receiver import DEAF, FAIR, Receiver
from crash.settings import WORLD_SPEED, Settings
from crash.verdict import Run
from support import postgres
from support.hostile_pages import hostile_pages

from exposurekit.sandbox.world.world import World
from exposurekit.service.accounts import integrators
from exposurekit.service.accounts.integrators import Credentials
from exposurekit.service.api.server import running
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import endpoints

KILL_EVERY_S = (0.3, 2.5)
DOWN_S = (0.2, 1.0)  # the database's server
ENOUGH, ENOUGH_WITHIN_S = 8, 20  # people
REST_WITHIN_S = 180
REST_LOOK_S = 0.25
TOLD_AT = {"fair": FAIR, "deaf": DEAF, "silent": None, "just": FAIR}


@dataclass(frozen=True)
class Plan:
    """What is asked of one run."""

    database: str = "sqlite"
    kills: int = 20
    server_stops: int = 0
    seed: int = 1
    people: int = 60


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    evidence: Evidence
    run: Run
    seconds: float


@dataclass
class _Stage:
    plan: Plan
    database: Database
    fleet: Fleet
    load: Load
    receiver: Receiver
    server: Any = None
    server_stops: int = 0


def played(plan: Plan) -> Outcome:
    """One run from its beginning to its end; every process of it is gone then."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="exposurekit-crash-") as name, _server(plan) as server:
        directory = Path(name)
        epoch = time.time()
        clock, extra_pages = FastClock(epoch, WORLD_SPEED), hostile_pages(plan.people, plan.seed)
        world = World(plan.people, seed=plan.seed, clock=clock, extra_pages=extra_pages)
        with running(world.app) as base_url:
            url = server.get_uri() if server else f"sqlite:///{directory / 'service.db'}"
            settings = Settings(
                database=url.replace("postgresql://", "postgresql+psycopg://"),
                key=Vault.generate_key().hex(),
                epoch=epoch,
                world_port=urlsplit(base_url).port or 0,
            )
            settings.save(directory / "settings.json")
            evidence, stage = asyncio.run(_play(plan, settings, directory, world, server))
            faults = stage.fleet.faults()
    run = Run(
        attempts=stage.receiver.attempts,
        registered=stage.load.registered,
        told_more=stage.load.told_more,
        answers=stage.load.answers,
        deaths=stage.fleet.deaths,
        kills=(stage.fleet.kills, plan.kills),
        server_stops=(stage.server_stops, plan.server_stops),
        badly_signed=stage.receiver.badly_signed,
        faults=faults,
    )
    return Outcome(evidence, run, time.monotonic() - began)


@contextmanager
def _server(plan: Plan) -> Iterator[Any]:
    if plan.database == "sqlite":
        yield None
        return
    with postgres.a_server() as server:
        yield server


async def _play(
    plan: Plan, settings: Settings, directory: Path, world: World, server: Any
) -> tuple[Evidence, _Stage]:
    async with _opened(settings) as database:
        receiver = Receiver(plan.seed)
        async with receiver.listening():
            credentials = await _integrators(database, receiver)
            fleet = Fleet(_members(plan, directory), plan.seed)
            waiting = partial(scans_waiting, database)
            load = Load(fleet.fronts, world.people, credentials, plan.seed, waiting)
            stage = _Stage(plan, database, fleet, load, receiver, server)
            with fleet.running():
                await _act(stage)
            return await gathered(database), stage


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Database]:
    database = await settings.open().open()
    try:
        yield database
    finally:
        await database.close()


async def _integrators(database: Database, receiver: Receiver) -> list[Credentials]:
    credentials = []
    async with database.writing() as work:
        for name, path in TOLD_AT.items():
            credentials.append(
                await integrators.add(work, name, attested_by="nobody: these people are invented")
            )
            await endpoints.set_callback(work, name, receiver.callback(path) if path else None)
    return credentials


def _members(plan: Plan, directory: Path) -> list[Member]:
    """SQLite: a service with a worker inside, and one beside it. PostgreSQL: two services and two workers."""
    file = str(directory / "settings.json")
    fronts, workers, exclusive = (1, 1, ()) if plan.database == "sqlite" else (2, 2, ("--no-worker",))
    ports = [free_port() for _ in range(fronts)]
    serving = [
        Member(f"serve{port}", ("serve", file, "--port", str(port), *exclusive), directory, port)
        for port in ports
    ]
    working = [Member(f"worker{number}", ("worker", file), directory) for number in range(workers)]
    return [*serving, *working]


async def _act(stage: _Stage) -> None:
    """Load and kills; then nobody is killed, and it comes to rest."""
    watch = asyncio.create_task(stage.fleet.watch())
    load = asyncio.create_task(stage.load.run())
    try:
        await stage.fleet.ready()
        await _kill(stage)
        await _enough(stage.load)
        await _ended(load)
        await _rest(stage)
    finally:
        await _ended(load)
        await _ended(watch)


async def _enough(load: Load) -> None:
    """After few kills, until there is something to lose."""
    for _ in range(int(ENOUGH_WITHIN_S / REST_LOOK_S)):
        if len(load.registered) >= ENOUGH:
            return
        await asyncio.sleep(REST_LOOK_S)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _kill(stage: _Stage) -> None:
    chosen = random.Random(f"kills {stage.plan.seed}")  # noqa: S311  a draw that can be repeated, not a secret
    steps = ["kill"] * stage.plan.kills + ["stop"] * stage.plan.server_stops
    chosen.shuffle(steps)
    for step in steps:
        await asyncio.sleep(chosen.uniform(*KILL_EVERY_S))
        if step == "kill":
            stage.fleet.kill_one()
        else:
            await _stop_server(stage, chosen.uniform(*DOWN_S))


async def _stop_server(stage: _Stage, down_s: float) -> None:
    """While every process runs: one that is only starting may refuse to, without its database."""
    await stage.fleet.ready()
    await asyncio.to_thread(postgres.stop_at_once, stage.server)
    await asyncio.sleep(down_s)
    await asyncio.to_thread(postgres.start_again, stage.server)
    stage.server_stops += 1


async def _rest(stage: _Stage) -> None:
    """Until nothing is left to do, or so long that it never will be; the verdict then says what is left."""
    until = time.monotonic() + REST_WITHIN_S
    while time.monotonic() < until:
        async with stage.database.reading() as work:
            left = await unrest(work)
        if not left:
            return
        await asyncio.sleep(REST_LOOK_S)
