"""The demo that a caller holds, and how it comes to be: made, or copied from one that was. Changes no copy in the cache."""

import atexit
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from exposurekit.client import Client
from exposurekit.client.progress import progress_bar
from exposurekit.errors import NEEDS_SERVICE, ConfigurationError, InvalidArgument
from exposurekit.exposure import Exposure, connect
from exposurekit.history import History
from exposurekit.sandbox.backend import DATABASE, Backend
from exposurekit.sandbox.cache import CachedDemo, cache_for, today
from exposurekit.sandbox.collector import DailyCollector, DailySource
from exposurekit.text.html_cards import html_card

if TYPE_CHECKING:  # these need the extra ``service``
    from exposurekit.sandbox.evaluation import Agreement
    from exposurekit.sandbox.world.webhook_receiver import Integrator
    from exposurekit.sandbox.world.world import World

PEOPLE, SEED, DAYS = 25, 7, 14
REMEMBERED = "history"
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
    world: "World" = field(repr=False)
    told: "Integrator" = field(repr=False)
    _works: Backend = field(repr=False)
    _memory: DailyCollector = field(repr=False)
    _running: ExitStack = field(default_factory=ExitStack, repr=False)

    def _repr_html_(self) -> str:
        facts = {
            "people": len(self._works.registered),
            "its time": self._works.now(),
            "exposure": self.exposure,
            "history": self.history,
        }
        return html_card("Demo", facts)

    def advance(self, days: float = 0, *, progress: bool | None = None) -> None:
        """Let time pass: what becomes due is done when it is due, `history` collects each day, `exposure` looks anew.

        Args:
            days: How many.
            progress: Whether to show a progress bar; None: in a notebook and in a terminal.

        Raises:
            InvalidArgument: Time does not go back.

        >>> with ek.demo(people=2, days=0) as young:
        ...     young.advance(days=1)
        """
        if days < 0:
            raise InvalidArgument("days is zero or more: time does not go back")
        self._pass(timedelta(days=days), progress)
        self.exposure.refresh()

    def agreement(self) -> "Agreement":
        """How far the records agree with what is really so: precision, recall, and whether the removed are gone.

        >>> with ek.demo(people=2, days=0) as young:
        ...     young.agreement().nobodys
        0
        """
        from exposurekit.sandbox.evaluation import Observed, agreement

        records = self.exposure.records()
        columns = records[["user_id", "site", "reference_id", "status"]].itertuples(index=False)
        said = [Observed(self._works.registered[row[0]], *map(str, row[1:])) for row in columns]
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
        from exposurekit.sandbox.evaluation import Observed, agreement_on

        days = []
        for at in self.history.runs()["finished_at"].unique():
            records = self.history.records(as_of=at)[["user_id", "site", "reference_id", "status"]]
            rows = records.itertuples(index=False)
            said = [Observed(self._works.registered[row[0]], *map(str, row[1:])) for row in rows]
            days.append(asdict(agreement_on(self.world, said, at.to_pydatetime())))
        return pd.DataFrame(days).astype({"at": "datetime64[us, UTC]"})

    def pending_events(self) -> int:
        """How many events no webhook has carried yet: a delivery collects them for ten minutes before it is sent.

        >>> with ek.demo(people=1, days=0) as young:
        ...     young.pending_events() > 0
        True
        """
        return self._works.pending_events()

    def close(self) -> None:
        """End the service; its people and its database go with it. The second time nothing."""
        self._running.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pass(self, by: timedelta, progress: bool | None) -> None:  # noqa: FBT001
        """Day after day; at the end of each, look at everyone. The service goes on while the history takes that in."""
        until, passed = self._works.now() + by, 0
        with self._memory.taking() as take, progress_bar("days", progress) as bar:
            while True:
                self._works.pass_by(min(until, self._works.now() + _DAY))
                take(DailySource.of(self.exposure, self._works.now()))
                passed += 1
                bar(min(passed, by.days), by.days)
                if self._works.now() >= until:
                    break

    def _begin(self, by: timedelta, progress: bool | None) -> None:  # noqa: FBT001
        """Its first days: nobody is there, and then everyone."""
        self.history.collect(self.exposure, progress=False)
        self._works.register(self.client, progress)
        self._pass(by, progress)


def demo(
    people: int = PEOPLE,
    *,
    days: float = DAYS,
    seed: int = SEED,
    cache: bool = True,
    progress: bool | None = None,
) -> Demo:
    """A service of its own, with invented people on an invented web; a value, and a context manager.

    Real HTTP on loopback sockets, a real database in a temporary directory; nothing leaves the machine. The people
    are registered, scanned, and so many days pass: listings are found, taken down, verified, listed again, and the
    integrator is told by webhook. The last of the days is today.

    The first time that takes about a second a day. Where that is more than a few seconds, what came of it is kept in
    the user's cache (``$XDG_CACHE_HOME/exposurekit/demos``, else in ``~/.cache``), and the next demo with the same
    people, days, seed and version of this package begins with a copy of that, at once; nobody's data is in it. One
    that was made earlier in the week is given as it ended then, and its last day is that one, not today: service,
    history and world have one clock, which stands there until `Demo.advance`. One that is older is made anew.

    Args:
        people: How many people are registered; 0 or more.
        days: How many days pass; 0 or more.
        seed: The same seed gives the same people, listings and pages.
        cache: Whether to begin with a copy of one that was made before, and to keep a new one; False: neither.
        progress: Whether to show a progress bar; None: in a notebook and in a terminal.

    Raises:
        ConfigurationError: The extra ``service`` is not installed.
        InvalidArgument: ``people`` or ``days`` is negative.

    >>> with ek.demo(people=3, days=0) as small:
    ...     len(small.exposure.users())
    3
    """
    _check(people, days)
    ends = today()
    shelf = cache_for(people=people, days=days, seed=seed) if cache else None
    for kept in shelf.kept(ends.date()) if shelf else ():
        if (copied := _copied(kept, people, seed, progress)) is not None:
            return copied
    with ExitStack() as stack:
        directory = _directory(stack)
        made = _start(stack, directory, people, seed, progress, began=ends - timedelta(days=days))
        made._begin(timedelta(days=days), progress)  # noqa: SLF001  its own maker
        if shelf and (past := made._works.past()):  # noqa: SLF001
            shelf.put([directory / DATABASE, directory / REMEMBERED], past, ends.date())
        return _held(made, stack)


def _check(people: int, days: float) -> None:
    if people < 0 or days < 0:
        raise InvalidArgument("people and days are zero or more")
    try:
        import exposurekit.sandbox.world.world  # noqa: F401  and all that it stands on
    except ModuleNotFoundError:
        raise ConfigurationError(NEEDS_SERVICE) from None


def _copied(kept: CachedDemo, people: int, seed: int, progress: bool | None) -> Demo | None:  # noqa: FBT001
    """The demo that was kept, going on; None: it cannot, and is thrown away."""
    try:
        with ExitStack() as stack:
            directory = _directory(stack)
            past = kept.unpack(directory)
            began = datetime.fromisoformat(past["began"])
            return _held(_start(stack, directory, people, seed, progress, began=began, past=past), stack)
    except Exception:  # noqa: BLE001  whatever is wrong with a copy, a new one is made
        kept.discard()
        return None


def _directory(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="exposurekit-demo-")))


def _start(
    stack: ExitStack,
    directory: Path,
    people: int,
    seed: int,
    progress: bool | None,  # noqa: FBT001
    *,
    began: datetime,
    past: dict[str, Any] | None = None,
) -> Demo:
    """A demo that runs: as it was when `past` was told, or at its beginning."""
    from exposurekit.sandbox.world.world import running_world
    from exposurekit.service.clock import FrozenClock

    world = stack.enter_context(running_world(people, seed=seed, clock=FrozenClock(began)))
    works = Backend(directory, world, past=past)
    connection = works.begin(stack)
    client = stack.enter_context(_client(connection))
    exposure = connect(client=client, progress=progress)
    exposure.clock = works.now
    memory = DailyCollector(directory / REMEMBERED, works.now)
    stack.enter_context(memory.history)
    return Demo(exposure, memory.history, client, connection, world, works.told, works, memory)


def _held(made: Demo, stack: ExitStack) -> Demo:
    """The same, in the hands of its caller: it ends when they say so."""
    made._running.push(stack.pop_all())  # noqa: SLF001  its own maker
    atexit.register(made.close)
    return made


def _client(connection: dict[str, str]) -> Client:
    return Client(
        connection["base_url"],
        integration_name=connection["integration_name"],
        api_key=connection["api_key"],
        api_secret=connection["api_secret"],
    )
