"""One process of the service under test, as an operator's would be but for its clock: `serve`, or `worker`.

    python tests/crash/process.py serve|worker SETTINGS [--port N] [--no-worker]

Runs until it is killed. A worker that fails ends its process at once, inside a service too, so that it is counted.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

WORKER_FAILED = 70


def main(words: Sequence[str]) -> None:
    """Run it."""
    from crash.settings import Settings

    from exposurekit.service import log_setup
    from exposurekit.service.api.server import serve

    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["serve", "worker"])
    parser.add_argument("settings", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--no-worker", action="store_true")
    options = parser.parse_args(words)
    settings = Settings.load(options.settings)
    database = settings.open()
    if options.kind == "serve":
        inside = None if options.no_worker else _worker(settings, database)
        serve(database, port=options.port, worker=inside)
    else:
        log_setup.to_stderr()
        asyncio.run(_work(settings, database))


async def _work(settings, database):
    await database.open()
    await _worker(settings, database).run()


def _worker(settings, database):
    from crash import settings as run

    from exposurekit.sandbox.world.world import World
    from exposurekit.service import worker
    from exposurekit.service.http.client import HttpClient
    from exposurekit.service.scanning import removal_job
    from exposurekit.service.scanning.politeness import PoliteFetcher
    from exposurekit.service.scanning.scan import ScanContext
    from exposurekit.service.scanning.websearch import Engine
    from exposurekit.service.webhooks import delivery

    # These are the package's own and no setting: a run would last for hours.
    delivery.ATTEMPT_S = run.ATTEMPT_S
    removal_job.RETRY_AFTER = tuple(settings.passing(seconds) for seconds in run.OPT_OUT_AGAIN_S)

    async def resolve(_host, _port):
        return [("127.0.0.1", settings.world_port)]

    class Counted(worker.Worker):
        async def run(self):
            try:
                await super().run()
            except Exception:
                logging.getLogger("exposurekit.service").exception("worker=failed")
                os._exit(WORKER_FAILED)

    networks = ("127.0.0.0/8",)
    http = HttpClient(allowed_networks=networks, resolve=resolve)
    engine = Engine(World.search_engine, timeout_s=run.PAGE_S)
    web = ScanContext(database, settings.definitions(), PoliteFetcher(http, database), engine)
    return Counted(web, HttpClient(allowed_networks=networks), config=settings.pace)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)
    main(sys.argv[1:])
