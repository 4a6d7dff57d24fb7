"""The service, a make-believe web and the toolkit, tied together on loopback. Keeps nothing when it ends."""

import asyncio
import atexit
import tempfile
from collections.abc import Coroutine
from concurrent.futures import wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pandas as pd

from exposurekit.client import Client
from exposurekit.client.progress import progress_bar
from exposurekit.errors import NEEDS_SERVICE, Misconfigured
from exposurekit.exposure import Exposure, connect
from exposurekit.history import History

PEOPLE, SEED, DAYS = 25, 7, 14
NAME = "demo"
ATTESTED_BY = "nobody: these people are invented"
LOOPBACK = ("127.0.0.0/8",)
LOOK_S = 0.1
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Demo:
    """A service that runs, and the ways to look at it. Ends with its ``with`` block, `close`, or the process.

    Attributes:
        exposure: Everyone registered there, as tables; loaded on first use, and anew when time has passed.
        history: What was seen of everyone: one run before anybody was registered, and one at the end of each day.
        client: The eight operations.
        connection: What `connect` and `Client` need to connect to it once more.
        world: The make-believe web: its people, its sites, and what is really so there.
        told: What its integrator was told by webhook: ``deliveries``, and ``told``, the items by group.
    """

    exposure: Exposure
    history: History
    client: Client
    connection: dict[str, str] = field(repr=False)
    world: Any = field(repr=False)
    told: Any = field(repr=False)
    _works: "_Works" = field(repr=False)
    _running: ExitStack = field(repr=False)

    def advance(self, days: float = 0, *, progress: bool | None = None) -> None:
        """Let time pass: what becomes due is done when it is due, `history` collects each day, `exposure` looks anew.

        Args:
            days: How many.
            progress: Whether to show a progress bar; None: in a notebook and in a terminal.

        Raises:
            Misconfigured: Time does not go back.

        >>> with ek.demo(people=2, days=0) as young:
        ...     young.advance(days=1)
        """
        if days < 0:
            raise Misconfigured("days is zero or more: time does not go back")
        self._works.advance(timedelta(days=days), self.exposure, self.history, progress)
        self.exposure.refresh()

    def agreement(self) -> Any:
        """How far the records agree with what is really so: precision, recall, and whether the removed are gone.

        >>> with ek.demo(people=2, days=0) as young:
        ...     young.agreement().nobodys
        0
        """
        from exposurekit.service.world.agreement import Said, agreement

        records = self.exposure.records()
        columns = records[["user_id", "site", "reference_id", "status"]].itertuples(index=False)
        said = [Said(self._works.registered[row[0]], *map(str, row[1:])) for row in columns]
        return agreement(self.world, said, scanned_at=self._works.scanned_at())

    def agreement_by_day(self) -> pd.DataFrame:
        """What `history` remembers of each day, beside what was really so in the world then.

        Returns:
            One row a day: ``at`` (when the history looked, UTC), ``open`` and of these ``listed`` at that moment,
            ``removed`` and of these ``gone``, ``late`` (otherwise at that moment, but so within two weeks before: a
            service looks weekly, and twice), ``wrong`` (never so in that time); int64, records.

        >>> with ek.demo(people=2, days=1) as young:
        ...     int(young.agreement_by_day()["wrong"].sum())
        0
        """
        from exposurekit.service.world.agreement import Said, on_day

        days = []
        for at in self.history.runs()["finished_at"].unique():
            records = self.history.records(as_of=at)[["user_id", "site", "reference_id", "status"]]
            rows = records.itertuples(index=False)
            said = [Said(self._works.registered[row[0]], *map(str, row[1:])) for row in rows]
            days.append(asdict(on_day(self.world, said, at.to_pydatetime())))
        return pd.DataFrame(days).astype({"at": "datetime64[us, UTC]"})

    def close(self) -> None:
        """End the service; its people and its database go with it. The second time nothing."""
        self._running.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def demo(people: int = PEOPLE, *, days: float = DAYS, seed: int = SEED, progress: bool | None = None) -> Demo:
    """A service of its own, with invented people on an invented web; a value, and a context manager.

    Real HTTP on loopback sockets, a real database in a temporary directory; nothing leaves the machine. The people
    are registered, scanned, and so many days pass: listings are found, taken down, verified, listed again, and the
    integrator is told by webhook. The last of the days is today.

    Args:
        people: How many people are registered; 0 or more.
        days: How many days pass; 0 or more.
        seed: The same seed gives the same people, listings and pages.
        progress: Whether to show a progress bar; None: in a notebook and in a terminal.

    Raises:
        Misconfigured: The extra ``service`` is not installed, or ``people`` or ``days`` is negative.

    >>> with ek.demo(people=3, days=0) as small:
    ...     len(small.exposure.users())
    3
    """
    if people < 0 or days < 0:
        raise Misconfigured("people and days are zero or more")
    try:
        from exposurekit.service.clock import FrozenClock
        from exposurekit.service.world.web import running_world
    except ModuleNotFoundError:
        raise Misconfigured(NEEDS_SERVICE) from None
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    clock = FrozenClock(today - timedelta(days=days))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="exposurekit-demo-")))
        world = stack.enter_context(running_world(people, seed=seed, clock=clock))
        works = _Works(directory, world)
        connection, told = works.begin(stack)
        client = stack.enter_context(_client(connection))
        exposure = connect(client=client, progress=progress)
        history = stack.enter_context(History(directory / "history", clock=clock.now))
        history.collect(exposure, progress=False)
        works.register(client, progress)
        works.advance(timedelta(days=days), exposure, history, progress)
        made = Demo(exposure, history, client, connection, world, told, works, stack.pop_all())
    atexit.register(made.close)
    return made


class _Works:
    """The service from behind: its operator, its worker and its clock."""

    def __init__(self, directory: Path, world: Any) -> None:
        from exposurekit.service.database import Database
        from exposurekit.service.vault import Vault

        self.registered: dict[int, int] = {}
        self._world = world
        self._began = world.clock.now()
        url, vault = f"sqlite:///{directory / 'service.db'}", Vault(Vault.generate_key())
        self._database = Database(url, vault=vault, clock=world.clock)
        self._worker = _worker(self._database, world)

    def begin(self, stack: ExitStack) -> tuple[dict[str, str], Any]:
        """Start the service, its worker inside, and the integrator that it tells."""
        from exposurekit.service import callbacks, integrators
        from exposurekit.service.front.app import create_app
        from exposurekit.service.front.server import running
        from exposurekit.service.world.integrator import PATH, Integrator

        told = Integrator(callbacks.new_secret())
        callback = callbacks.Callback(stack.enter_context(running(told.app)) + PATH, told.secret)
        base_url = stack.enter_context(running(create_app(self._database, worker=self._worker)))
        found: dict[str, str] = {}

        async def add() -> None:
            async with self._database.writing() as work:
                made = await integrators.add(work, NAME, attested_by=ATTESTED_BY)
                await callbacks.put(work, NAME, callback)
            found.update(integration_name=NAME, api_key=made.api_key, api_secret=made.api_secret)

        self._in_service(add())
        return {"base_url": base_url} | found, told

    def register(self, client: Client, progress: bool | None) -> None:  # noqa: FBT001
        """Everyone, over HTTP, as an integrator does it."""
        with progress_bar("people registered", progress) as bar:
            for index, person in enumerate(self._world.people):
                user = client.create_user(**person.request(), asynchronous=True)
                self.registered[user.id] = index
                bar(index + 1, len(self._world.people))

    def advance(
        self,
        by: timedelta,
        exposure: Exposure,
        history: History,
        progress: bool | None,  # noqa: FBT001
    ) -> None:
        """Day after day: do what is due, each thing at its time; and at the end of each, have the history look."""
        until, passed = self._world.clock.now() + by, 0
        with progress_bar("days", progress) as bar:
            while True:
                self._in_service(self._pass_by(min(until, self._world.clock.now() + _DAY)))
                history.collect(exposure, progress=False)
                passed += 1
                bar(min(passed, by.days), by.days)
                if self._world.clock.now() >= until:
                    break

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

        scans = (self._world.clock.now() - self._began) // SCAN_EVERY
        return [self._began + SCAN_EVERY * number for number in range(scans + 1)]

    def _in_service(self, do: Coroutine[Any, Any, None]) -> None:
        """Do it in the service's own loop, and wait; Ctrl-C stops the waiting and what is waited for."""
        doing = asyncio.run_coroutine_threadsafe(do, self._worker.loop)
        try:
            while not wait([doing], timeout=LOOK_S).done:
                pass
        except BaseException:
            doing.cancel()
            raise
        doing.result()


def _worker(database: Any, world: Any) -> Any:
    from exposurekit.service.outbound import Outbound
    from exposurekit.service.scanning.manners import Manners
    from exposurekit.service.scanning.scan import Web
    from exposurekit.service.scanning.sites import Politeness
    from exposurekit.service.scanning.websearch import Engine
    from exposurekit.service.worker import Pace, Worker

    outbound = Outbound(opened=LOOPBACK, resolve=world.resolve)
    gently = Politeness(delay_s=0, concurrency=16, robots_txt=False)
    engine = Engine(world.search_engine, politeness=gently, patience_s=0.5)
    # Time stands still while its people are asked: to keep a distance would only reserve moments.
    at_once = {"politeness": Politeness(delay_s=0, concurrency=16)}
    definitions = {name: site.model_copy(update=at_once) for name, site in world.definitions.items()}
    web = Web(database, definitions, Manners(outbound, database), engine)
    pace = Pace(scans=25, removals=50, idle_s=0.2)  # more at once than anybody would ask of the real web
    return Worker(web, Outbound(opened=LOOPBACK), pace=pace)


def _client(connection: dict[str, str]) -> Client:
    return Client(
        connection["base_url"],
        integration_name=connection["integration_name"],
        api_key=connection["api_key"],
        api_secret=connection["api_secret"],
    )
