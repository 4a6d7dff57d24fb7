"""The service of a demo from behind: its operator, its worker, its clock and its web. Looks at nobody."""

import asyncio
import base64
from collections.abc import Coroutine, Mapping
from concurrent.futures import wait
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from exposurekit.client import Client
from exposurekit.client.progress import progress_bar

NAME = "demo"
ATTESTED_BY = "nobody: these people are invented"
DATABASE = "service.db"
LOOPBACK = ("127.0.0.0/8",)
LOOK_S = 0.1
_ALL = 1_000_000  # deliveries: more than any demo has
T = TypeVar("T")


class Backend:
    """What a demo runs on.

    Args:
        directory: Where its database is, or will be.
        world: The make-believe web, at its beginning.
        past: What another one's `past` gave, to go on from; its database is in the directory. None: a new one.

    Attributes:
        registered: By the id of a user, which of the world's people that is.
        told: The integrator that the service tells.
    """

    def __init__(self, directory: Path, world: Any, *, past: Mapping[str, Any] | None = None) -> None:
        from exposurekit.sandbox.world.webhook_receiver import Integrator
        from exposurekit.service.storage.database import Database
        from exposurekit.service.storage.encryption import Vault
        from exposurekit.service.webhooks import endpoints

        self.registered: dict[int, int] = {}
        self._world = world
        self._began = world.clock.now()
        self._key = base64.b64decode(past["key"]) if past else Vault.generate_key()
        self._credentials: dict[str, str] = dict(past["credentials"]) if past else {}
        self.told = Integrator.with_past(past["told"]) if past else Integrator(endpoints.new_secret())
        if past:
            self.registered |= {int(user_id): index for user_id, index in past["registered"].items()}
            world.take_up(past["world"])
        url, vault = f"sqlite:///{directory / DATABASE}", Vault(self._key)
        self._database = Database(url, vault=vault, clock=world.clock)
        self._worker = _worker(self._database, world)

    def begin(self, stack: ExitStack) -> dict[str, str]:
        """Start the service, its worker inside, and the integrator that it tells; how to connect to it."""
        from exposurekit.sandbox.world.webhook_receiver import PATH
        from exposurekit.service.api.app import create_app
        from exposurekit.service.api.server import running
        from exposurekit.service.webhooks import endpoints

        callback = endpoints.Callback(stack.enter_context(running(self.told.app)) + PATH, self.told.secret)
        base_url = stack.enter_context(running(create_app(self._database, worker=self._worker)))
        self._in_service(self._let_in(callback))
        return {"base_url": base_url} | self._credentials

    async def _let_in(self, callback: Any) -> None:
        from exposurekit.service.accounts import integrators
        from exposurekit.service.webhooks import endpoints

        async with self._database.writing() as work:
            if not self._credentials:
                made = await integrators.add(work, NAME, attested_by=ATTESTED_BY)
                self._credentials |= {"integration_name": NAME, "api_key": made.api_key}
                self._credentials |= {"api_secret": made.api_secret}
            await endpoints.put(work, NAME, callback)

    def register(self, client: Client, progress: bool | None) -> None:  # noqa: FBT001
        """Everyone, over HTTP, as an integrator does it."""
        with progress_bar("people registered", progress) as bar:
            for index, person in enumerate(self._world.people):
                user = client.create_user(**person.request(), asynchronous=True)
                self.registered[user.id] = index
                bar(index + 1, len(self._world.people))

    def now(self) -> datetime:
        """What time it is there."""
        now: datetime = self._world.clock.now()
        return now

    def pass_by(self, until: datetime) -> None:
        """Let time pass: what is due is done, each thing at its time."""
        self._in_service(self._pass_by(until))

    async def _pass_by(self, until: datetime) -> None:
        clock = self._world.clock
        await self._worker.settle()
        while (due := await self._worker.next_due()) is not None and due <= until:
            clock.advance(max(due - clock.now(), timedelta()))
            await self._worker.settle()
        clock.advance(until - clock.now())

    def scanned_at(self) -> list[datetime]:
        """When everybody was scanned: at registration, and every week."""
        from exposurekit.service.scanning.scan import SCAN_EVERY

        scans = (self.now() - self._began) // SCAN_EVERY
        return [self._began + SCAN_EVERY * number for number in range(scans + 1)]

    def pending_events(self) -> int:
        """How many events are in deliveries that are not sent yet."""
        return self._in_service(self._pending_events())

    async def _pending_events(self) -> int:
        from exposurekit.service.webhooks import outbox

        async with self._database.reading() as work:
            deliveries = [
                await outbox.all(work, state=state, limit=_ALL) for state in (outbox.OPEN, outbox.PENDING)
            ]
        return sum(delivery.events for some in deliveries for delivery in some)

    def past(self) -> dict[str, Any] | None:
        """What another one goes on from, beside the database as it lies there now; None: that is in use.

        Plain JSON. It holds the key and the secrets of a service that runs on loopback for invented people.
        """
        if not self._in_service(self._database.scrub()):
            return None
        return {
            "began": self._began.isoformat(),
            "key": base64.b64encode(self._key).decode(),
            "credentials": self._credentials,
            "registered": self.registered,
            "told": self.told.past(),
            "world": self._world.past(),
        }

    def _in_service(self, do: Coroutine[Any, Any, T]) -> T:
        """Do it in the service's own loop, and wait; Ctrl-C stops the waiting and what is waited for."""
        doing = asyncio.run_coroutine_threadsafe(do, self._worker.loop)
        try:
            while not wait([doing], timeout=LOOK_S).done:
                pass
        except BaseException:
            doing.cancel()
            raise
        return doing.result()


def _worker(database: Any, world: Any) -> Any:
    from exposurekit.service.http.client import Outbound
    from exposurekit.service.scanning.politeness import PoliteFetcher
    from exposurekit.service.scanning.scan import ScanContext
    from exposurekit.service.scanning.websearch import Engine
    from exposurekit.service.sites.definition import Politeness
    from exposurekit.service.worker import Worker, WorkerConfig

    outbound = Outbound(opened=LOOPBACK, resolve=world.resolve)
    gently = Politeness(delay_s=0, concurrency=16, robots_txt=False)
    engine = Engine(world.search_engine, politeness=gently, timeout_s=1.5)
    # Time stands still while its people are asked: to keep a distance would only reserve moments.
    unthrottled = {"politeness": Politeness(delay_s=0, concurrency=16)}
    definitions = {name: site.model_copy(update=unthrottled) for name, site in world.definitions.items()}
    web = ScanContext(database, definitions, PoliteFetcher(outbound, database), engine)
    pace = WorkerConfig(
        scans=25, removals=50, idle_s=0.2
    )  # more at once than anybody would ask of the real web
    return Worker(web, Outbound(opened=LOOPBACK), pace=pace)
