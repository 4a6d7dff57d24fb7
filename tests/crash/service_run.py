"""The crash test, a command: kill processes, and the database's server, under load; and nothing is lost.

    python tests/crash/service_run.py --database sqlite|postgresql [--kills 20] [--server-stops 4] [--seed 1] [--people 60]

Prints figures and a verdict, rule by rule; 0 if every rule holds, else 1.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent.parent))

from crash.processes import Fleet, Process, until_ready
from crash.service_data import collect_evidence, count_scanning, unfinished_work
from crash.service_load import Load
from crash.service_settings import WORLD_SPEED, FastClock, Settings
from crash.service_verdict import ATTEMPTS, Run, print_verdict, verdict
from crash.webhook_receiver import FAILING, RELIABLE, Receiver
from support import postgres
from support.hostile_pages import HostileWorld
from support.ports import free_port
from support.services import opened

from exposurekit.contract.webhooks import GROUPS
from exposurekit.service.accounts import integrators
from exposurekit.service.api.server import running
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.webhooks import endpoints
from exposurekit.service.webhooks.states import DEAD, DELIVERED

KILL_EVERY_S = (0.3, 2.5)
SERVER_DOWN_S = (0.2, 1.0)
PEOPLE_MIN, PEOPLE_WITHIN_S = 5, 120
FINISHED_WITHIN_S = 180
POLL_S = 0.1
FINISHED_POLL_S = 0.5  # it counts the rows of seven conditions
CALLBACKS = {"reliable": RELIABLE, "failing": FAILING, "silent": None, "second": RELIABLE}
PROCESS = Path(__file__).with_name("service_process.py")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # clean up: end every process of the run
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--server-stops", type=int, default=0, help="immediate stops of PostgreSQL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--people", type=int, default=60, help="invented people who can be registered")
    plan = parser.parse_args()
    if plan.server_stops and plan.database != "postgresql":
        parser.error("--server-stops is for postgresql")
    started = time.monotonic()
    on_postgresql = plan.database == "postgresql"
    with (
        tempfile.TemporaryDirectory(prefix="exposurekit-crash-") as directory,
        postgres.a_server() if on_postgresql else nullcontext() as server,
    ):
        evidence, run = run_once(plan, Path(directory), server)
    figures = figures_of(evidence, run) | {"seconds": round(time.monotonic() - started)}
    return print_verdict(figures, verdict(evidence, run))


def figures_of(evidence, run):
    states = Counter(one.state for one in evidence.deliveries)
    groups = Counter(event.kind for event in evidence.events)
    dead = [one for one in evidence.deliveries if one.state == DEAD]
    repeated = sum(len(run.attempts.get(one.webhook_id, ())) > ATTEMPTS for one in dead)
    return {
        "users": len(evidence.users),
        "  updated": len(run.updated),
        "events": len(evidence.events),
        **{f"  {group}": groups[group] for group in GROUPS},
        "deliveries": len(evidence.deliveries),
        "  delivered": states[DELIVERED],
        "  dead": len(dead),
        "attempts recorded": sum(len(one.attempts) for one in evidence.deliveries),
        "attempts received": sum(map(len, run.attempts.values())),
        f"dead ones received more than {ATTEMPTS} times": repeated,
        "kills": run.kills[0],
        "server stops": run.server_stops[0],
        "answers": ", ".join(f"{count} of {status}" for status, count in sorted(run.answers.items())),
        **{f"logged {fault}": count for fault, count in sorted(run.faults.items())},
    }


def run_once(plan, directory, server):
    epoch = time.time()
    world = HostileWorld(plan.people, seed=plan.seed, clock=FastClock(epoch, WORLD_SPEED))
    with running(world.app) as base_url:
        url = server.get_uri() if server else f"sqlite:///{directory / 'service.db'}"
        url = url.replace("postgresql://", "postgresql+psycopg://")
        settings = Settings(url, Vault.generate_key().hex(), epoch, urlsplit(base_url).port)
        settings.save(directory / "settings.json")
        return asyncio.run(run_in(plan, settings, directory, world, server))


async def run_in(plan, settings, directory, world, server):
    receiver = Receiver(plan.seed)
    async with opened(settings.open()) as database, receiver.listening():
        credentials = await add_integrators(database, receiver)
        fleet = Fleet(create_processes(plan, directory), plan.seed)
        waiting = partial(count_scanning, database)
        load = Load(fleet.base_urls, world.people, credentials, plan.seed, waiting)
        with fleet.running():
            server_stops = await kill_under_load(plan, database, fleet, load, server)
        evidence = await collect_evidence(database)
    return evidence, Run(
        attempts=receiver.attempts,
        registered=load.registered,
        updated=load.updated,
        answers=load.answers,
        deaths=fleet.deaths,
        kills=(fleet.kills, plan.kills),
        server_stops=(server_stops, plan.server_stops),
        badly_signed=receiver.badly_signed,
        faults=fleet.faults(),
    )


async def add_integrators(database, receiver):
    credentials = []
    async with database.writing() as work:
        for name, path in CALLBACKS.items():
            credentials.append(
                await integrators.add(work, name, attested_by="nobody: the people are invented")
            )
            await endpoints.set_callback(work, name, receiver.callback(path) if path else None)
    return credentials


def create_processes(plan, directory):
    """SQLite: a service with a worker inside, and a worker. PostgreSQL: two services and two workers."""
    count, options = (1, ()) if plan.database == "sqlite" else (2, ("--no-worker",))
    command, file = (sys.executable, PROCESS), directory / "settings.json"
    processes = []
    for number in range(count):
        port = free_port()
        serve = (*command, "serve", file, "--port", str(port), *options)
        work = (*command, "worker", file)
        processes.append(Process(f"serve{number}", serve, directory, port=port))
        processes.append(Process(f"worker{number}", work, directory, ready_text="worker=running"))
    return processes


async def kill_under_load(plan, database, fleet, load, server):
    """Load and kills; then no more kills until all work is finished. Returns how often the server was stopped."""
    restarts, requests = asyncio.create_task(fleet.restart_ended()), asyncio.create_task(load.run())
    try:
        await until_ready(fleet.processes)
        server_stops = await kill(plan, fleet, server)
        for _ in range(int(PEOPLE_WITHIN_S / POLL_S)):  # after few kills
            await asyncio.sleep(POLL_S * (len(load.registered) < PEOPLE_MIN))
        await cancelled(requests)
        await wait_until_finished(database)
    finally:
        await cancelled(requests)
        await cancelled(restarts)
    return server_stops


async def kill(plan, fleet, server):
    chosen = random.Random(f"kills {plan.seed}")  # noqa: S311
    steps = ["kill"] * plan.kills + ["stop"] * plan.server_stops
    chosen.shuffle(steps)
    server_stops = 0
    for step in steps:
        await asyncio.sleep(chosen.uniform(*KILL_EVERY_S))
        if step == "kill":
            fleet.kill_one()
        else:
            await until_ready(fleet.processes)  # a process does not start without its database
            await asyncio.to_thread(postgres.stop_at_once, server)
            await asyncio.sleep(chosen.uniform(*SERVER_DOWN_S))
            await asyncio.to_thread(postgres.start_again, server)
            server_stops += 1
    return server_stops


async def wait_until_finished(database):
    """After the time limit, the verdict lists what is unfinished."""
    until = time.monotonic() + FINISHED_WITHIN_S
    while time.monotonic() < until:
        async with database.reading() as work:
            if not await unfinished_work(work):
                return
        await asyncio.sleep(FINISHED_POLL_S)


async def cancelled(task):
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    sys.exit(main())
