"""One process of the service under test: `serve` or `worker`, with a fast clock. Runs until it is killed.

    python tests/crash/service_process.py serve|worker SETTINGS [--port N] [--no-worker]

A worker that fails ends its process, so that the failure is counted.
"""

import argparse
import asyncio
import logging
import os
import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from crash import service_settings as run

from exposurekit.sandbox.world.world import World
from exposurekit.service import log_setup, worker
from exposurekit.service.api.server import serve
from exposurekit.service.http.client import HttpClient
from exposurekit.service.scanning import removal_job
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.scan import ScanContext
from exposurekit.service.scanning.websearch import Engine
from exposurekit.service.webhooks import delivery

WORKER_FAILED = 70


class FailingWorker(worker.Worker):
    async def run(self):
        try:
            await super().run()
        except Exception:
            logging.getLogger("exposurekit.service").exception("worker=failed")
            os._exit(WORKER_FAILED)


def create_worker(settings, database):
    # These are constants of the package: a run would last for hours.
    delivery.ATTEMPT_S = run.ATTEMPT_S
    removal_job.RETRY_AFTER = tuple(timedelta(seconds=s * run.SPEED) for s in run.OPT_OUT_RETRY_S)

    async def resolve(_host, _port):
        return [("127.0.0.1", settings.world_port)]

    networks = ("127.0.0.0/8",)
    fetcher = PoliteFetcher(HttpClient(allowed_networks=networks, resolve=resolve), database)
    engine = Engine(World.search_engine, timeout_s=run.PAGE_S)
    context = ScanContext(database, settings.definitions(), fetcher, engine)
    return FailingWorker(context, HttpClient(allowed_networks=networks), config=settings.worker_config())


async def work(settings, database):
    await database.open()
    await create_worker(settings, database).run()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["serve", "worker"])
    parser.add_argument("settings", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--no-worker", action="store_true")
    options = parser.parse_args()
    settings = run.Settings.load(options.settings)
    database = settings.open()
    if options.kind == "serve":
        inside = None if options.no_worker else create_worker(settings, database)
        serve(database, port=options.port, worker=inside)
    else:
        log_setup.to_stderr()
        asyncio.run(work(settings, database))


if __name__ == "__main__":
    main()
