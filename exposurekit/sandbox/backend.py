"""Backend of a demo: the embedded service with its operator, worker, clock and invented web."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import wait
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from exposurekit.client import Client
from exposurekit.client.progress import progress_bar
from exposurekit.errors import ConnectionFailed, NotFound

if TYPE_CHECKING:  # these need the extra ``service``
    from exposurekit.service.mail.settings import MailSettings
    from exposurekit.service.sites.definition import Definition
    from exposurekit.service.storage.database import Session

NAME = "demo"
ATTESTED_BY = "nobody: these people are invented"
_SERVICE_NAME = "simulated service with invented people"
DATABASE = "service.db"
ENDED = "This demo has ended: ek.demo() starts another"
LOOPBACK = ("127.0.0.0/8",)
POLL_S = 0.1
BUSY_TIMEOUT_S = 300  # a busy machine makes a demo slower, and not different
REQUESTS_AT_ONCE = 8  # so that a site's responses come in time on a busy machine, too
_ALL = 1_000_000  # deliveries: more than any demo has
T = TypeVar("T")


class Backend:
    """What a demo runs on: a new service, or one whose `saved_state` and database file an earlier backend left."""

    def __init__(
        self,
        directory: Path,
        world: Any,
        *,
        saved_state: Mapping[str, Any] | None = None,
        mail: "MailSettings | None" = None,
    ) -> None:
        from exposurekit.sandbox.world.webhook_receiver import Integrator
        from exposurekit.service.storage.database import Database
        from exposurekit.service.storage.encryption import Vault
        from exposurekit.service.webhooks import endpoints

        self.person_index: dict[int, int] = {}  # of the person in the invented web, by user id
        self.has_ended = False
        self._world = world
        self._began = world.clock.now()
        if saved_state:
            self._key = base64.b64decode(saved_state["key"])
            self._credentials: dict[str, str] = dict(saved_state["credentials"])
            self.integrator = Integrator.from_state(saved_state["integrator"])
            self.person_index |= {int(user_id): at for user_id, at in saved_state["person_index"].items()}
            world.restore(saved_state["world"])
        else:
            self._key = Vault.generate_key()
            self._credentials = {}
            self.integrator = Integrator(endpoints.new_secret())
        url, vault = f"sqlite:///{directory / DATABASE}", Vault(self._key)
        # Not durable: the directory is deleted with the demo.
        self._database = Database(
            url, vault=vault, clock=world.clock, busy_timeout_s=BUSY_TIMEOUT_S, durable=False
        )
        self.mail = mail
        self.definitions = _without_delay(world.definitions)
        self._worker = _create_worker(self._database, world, self.definitions, mail)

    def start(self, stack: ExitStack) -> dict[str, str]:
        """Start the service with its worker and the integrator; return the connection settings."""
        from exposurekit.sandbox.world.webhook_receiver import PATH
        from exposurekit.service.api.app import create_app
        from exposurekit.service.api.server import running
        from exposurekit.service.webhooks import endpoints

        integrator_url = stack.enter_context(running(self.integrator.app))
        callback = endpoints.Callback(integrator_url + PATH, self.integrator.secret)
        base_url = stack.enter_context(running(create_app(self._database, worker=self._worker)))
        self._in_service(self._set_up_integrator(callback))
        return {"base_url": base_url} | self._credentials | {"service_name": _SERVICE_NAME}

    async def _set_up_integrator(self, callback: Any) -> None:
        from exposurekit.service.accounts import integrators
        from exposurekit.service.webhooks import endpoints

        async with self._database.writing() as session:
            if not self._credentials:
                keys = await integrators.add(session, NAME, attested_by=ATTESTED_BY)
                self._credentials |= {"integration_name": NAME, "api_key": keys.api_key}
                self._credentials |= {"api_secret": keys.api_secret}
            await endpoints.set_callback(session, NAME, callback)

    def register(self, client: Client, progress: bool | None) -> None:  # noqa: FBT001
        """Register everyone over HTTP, as an integrator does."""
        with progress_bar("people registered", progress) as bar:
            for index, person in enumerate(self._world.people):
                user = client.create_user(**person.request(), asynchronous=True)
                self.person_index[user.id] = index
                bar(index + 1, len(self._world.people))

    def work(self, task: "Callable[[Session], Awaitable[T]]") -> T:
        """Run a task in a write transaction of the service's database, as an operator's command does."""

        async def run() -> T:
            async with self._database.writing() as session:
                return await task(session)

        return self._in_service(run())

    def now(self) -> datetime:
        """Return the demo's current time."""
        now: datetime = self._world.clock.now()
        return now

    def advance_to(self, until: datetime) -> None:
        """Move the clock forward, and run each background job at the time when it is due."""
        self._in_service(self._advance_to(until))

    async def _advance_to(self, until: datetime) -> None:
        clock = self._world.clock
        await self._worker.wait_idle()
        while (due := await self._worker.next_due()) is not None and due <= until:
            clock.advance(max(due - clock.now(), timedelta()))
            await self._worker.wait_idle()
        clock.advance(until - clock.now())

    def scanned_at(self) -> list[datetime]:
        """Return when everyone was scanned: at registration and every week after."""
        from exposurekit.service.scanning.schedule import SCAN_EVERY

        scans = (self.now() - self._began) // SCAN_EVERY
        return [self._began + SCAN_EVERY * number for number in range(scans + 1)]

    def pending_events(self) -> int:
        """Return the number of events in deliveries that are not sent yet."""
        return self._in_service(self._pending_events())

    async def _pending_events(self) -> int:
        from exposurekit.service.webhooks import outbox, states

        async with self._database.reading() as session:
            pending = [
                await outbox.all(session, state=state, limit=_ALL) for state in (states.OPEN, states.PENDING)
            ]
        return sum(delivery.events for deliveries in pending for delivery in deliveries)

    def export_evidence(self, user_id: int) -> bytes:
        """Return a person's bundle of evidence; raises `NotFound` if no user has the id."""
        return self._in_service(self._export_evidence(user_id))

    async def _export_evidence(self, user_id: int) -> bytes:
        from exposurekit.service.accounts import consent
        from exposurekit.service.findings import evidence

        async with self._database.writing() as session:
            try:
                await consent.lock_user(session, user_id, changes=False)
            except consent.NoSuchUser as error:
                raise NotFound(str(error)) from None
            return (await evidence.export(session, user_id)).content

    def evidence_key(self) -> bytes:
        """Return the public key of the service, in PEM."""
        return self._database.vault.public_key.pem

    def saved_state(self) -> dict[str, Any] | None:
        """Return what another backend resumes from, beside the database file; None while the database is in use.

        Plain JSON. It includes the key and the secrets of a service that runs on loopback for invented people.
        """
        if not self._in_service(self._database.scrub()):
            return None
        return {
            "began": self._began.isoformat(),
            "key": base64.b64encode(self._key).decode(),
            "credentials": self._credentials,
            "person_index": self.person_index,
            "integrator": self.integrator.saved_state(),
            "world": self._world.saved_state(),
        }

    def _in_service(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the service's event loop and wait for it; Ctrl-C cancels it."""
        if self.has_ended:
            coro.close()
            raise ConnectionFailed(ENDED, operation="demo", maybe_received=False)
        future = asyncio.run_coroutine_threadsafe(coro, self._worker.loop)
        try:
            while not wait([future], timeout=POLL_S).done:
                pass
        except BaseException:
            future.cancel()
            raise
        return future.result()


def _without_delay(definitions: "Mapping[str, Definition]") -> "dict[str, Definition]":
    """Return definitions without a delay: the clock does not move during a scan, so it would only reserve instants."""
    from exposurekit.service.sites.definition import Politeness

    no_delay = {"politeness": Politeness(delay_s=0, concurrency=16)}
    return {name: site.model_copy(update=no_delay) for name, site in definitions.items()}


def _create_worker(
    database: Any, world: Any, definitions: "Mapping[str, Definition]", mail: "MailSettings | None"
) -> Any:
    from exposurekit.service.http.client import HttpClient
    from exposurekit.service.scanning.politeness import PoliteFetcher
    from exposurekit.service.scanning.scan import ScanContext
    from exposurekit.service.scanning.websearch import Engine
    from exposurekit.service.sites.definition import Politeness
    from exposurekit.service.worker import Worker, WorkerConfig

    http = HttpClient(allowed_networks=LOOPBACK, resolve=world.resolve, concurrency=REQUESTS_AT_ONCE)
    unlimited = Politeness(delay_s=0, concurrency=16, robots_txt=False)
    engine = Engine(world.search_engine, politeness=unlimited, timeout_s=BUSY_TIMEOUT_S)
    answers = {} if world.guards is None else {"resolve_txt": world.guards.mail.resolve_txt}
    context = ScanContext(database, definitions, PoliteFetcher(http, database), engine, mail=mail, **answers)
    # More concurrency than real sites would tolerate.
    config = WorkerConfig(scans=25, removals=50, idle_s=0.2)
    return Worker(context, HttpClient(allowed_networks=LOOPBACK), config=config)
