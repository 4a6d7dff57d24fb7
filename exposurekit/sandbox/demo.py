"""Start a demo, newly simulated or copied from the cache, and use it."""

import atexit
import os
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from exposurekit.client import Client
from exposurekit.client.progress import progress_bar
from exposurekit.errors import NEEDS_SERVICE, ConfigurationError, InvalidArgument
from exposurekit.exposure import Exposure, connect
from exposurekit.history import History
from exposurekit.sandbox.backend import DATABASE, ENDED, Backend
from exposurekit.sandbox.cache import CachedDemo, cache_for, today
from exposurekit.sandbox.daily_collection import DailyCollector, DailySource
from exposurekit.system.atomic_files import write_output
from exposurekit.text.html_cards import html_card
from exposurekit.text.times import parse_duration

if TYPE_CHECKING:  # these need the extra ``service``
    from exposurekit.sandbox.evaluation import Agreement, ReportedRecord
    from exposurekit.sandbox.simulated_person import SimulatedPerson
    from exposurekit.sandbox.world.webhook_receiver import Integrator
    from exposurekit.sandbox.world.world import Web, World

PEOPLE, SEED = 25, 7
DAYS = 15  # so that everyone was registered two weeks ago, for `History.diff("14d")`
WEBS = ("open", "guarded")
HISTORY_DIRECTORY = "history"
DECLARED_SOURCE = "the sites' own pages"  # of the declared days of a demo
_DAY = timedelta(days=1)


@dataclass(frozen=True)  # with slots, help() would show how they are pickled
class Demo:
    """A running service with invented people, and the objects to explore it with.

    It ends with its ``with`` block, with `close`, or with the process.

    Attributes:
        exposure: Everyone registered there, as tables; loaded on first use, and again after time has passed.
        history: One run before anyone was registered, and one at the end of each day; and the days within which sites say
            that they remove a listing.
        client: The client, with the eight operations.
        connection: The arguments of `connect` and `Client` that open another connection.
        world: The invented web: its people, its sites, and the true state of every listing.
        integrator: What its integrator received by webhook: ``deliveries``, and ``items``, their contents by group.
        simulated_person: The simulated person who does what the guarded web leaves to a person, and their minutes; None in the
            open web.
    """

    exposure: Exposure
    history: History
    client: Client
    connection: dict[str, str] = field(repr=False)
    world: "World" = field(repr=False)
    integrator: "Integrator" = field(repr=False)
    _backend: Backend = field(repr=False)
    _collector: DailyCollector = field(repr=False)
    simulated_person: "SimulatedPerson | None" = field(default=None, repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def _repr_html_(self) -> str:
        return html_card(
            "Demo",
            {"exposure": self.exposure, "history": self.history},
            note=f"Demo clock: {self._backend.now():%Y-%m-%d %H:%M} UTC; all people are invented",
            figures={"people": len(self._backend.person_index)},
            calls={
                "demo.exposure.records()": "list the listings, as a DataFrame",
                "ek.widgets.Dashboard(demo.exposure, demo.history)": "explore them in charts",
                "demo.advance(days=7)": "let a week pass: scans, removals, new listings",
            },
        )

    def advance(self, days: float | str = 0, *, progress: bool | None = None) -> None:
        """Simulate time: jobs run when they are due, `history` collects each day, and `exposure` is refreshed.

        Args:
            days: How many days, or a duration such as ``"7d"``, ``"2 weeks"``, ``"3mo"`` or ``"36h"``.
            progress: Whether to show a progress bar; None: in a notebook and in a terminal.

        Raises:
            InvalidArgument: ``days`` is negative or no duration.
            ConnectionFailed: The demo has ended.

        >>> with ek.demo(people=2, days=0) as demo:
        ...     demo.advance(days=1)
        """
        duration = parse_duration(days, now=self._backend.now())
        if duration < timedelta():
            raise InvalidArgument("days is negative: time does not go back. Pass zero or more.")
        self._simulate(duration, progress)
        self.exposure.refresh()

    def agreement(self) -> "Agreement":
        """Compare the records with the true listings: precision, recall, and whether removed listings are gone.

        >>> demo.agreement().nonexistent
        0
        """
        from exposurekit.sandbox.evaluation import agreement

        reported = self._reported(self.exposure.records())
        return agreement(self.world, reported, scanned_at=self._backend.scanned_at())

    def agreement_by_day(self) -> pd.DataFrame:
        """Compare each day of `history` with the true listings at that time.

        Returns:
            One row per day: ``at`` (when the history collected, UTC); ``open`` records and how many of these were
            ``listed`` at that moment; ``removed`` records and how many of these were ``gone``; ``late``: wrong at that
            moment, but right within the two weeks before, which a weekly scan needs to verify a removal; ``wrong``:
            not right at any moment of that time. Counts are int64.

        >>> int(demo.agreement_by_day()["wrong"].sum())
        0
        """
        from exposurekit.sandbox.evaluation import agreement_on

        days = []
        for at in self.history.runs()["finished_at"].unique():
            reported = self._reported(self.history.records(as_of=at))
            days.append(asdict(agreement_on(self.world, reported, at.to_pydatetime())))
        return pd.DataFrame(days).astype({"at": "datetime64[us, UTC]"})

    def _reported(self, records: pd.DataFrame) -> list["ReportedRecord"]:
        from exposurekit.sandbox.evaluation import ReportedRecord

        rows = records[["user_id", "site", "reference_id", "status"]].itertuples(index=False)
        return [ReportedRecord(self._backend.person_index[row[0]], *map(str, row[1:])) for row in rows]

    def pending_events(self) -> int:
        """Return the number of events that no webhook has carried yet; a delivery groups ten minutes of events.

        >>> with ek.demo(people=1, days=0) as demo:
        ...     demo.pending_events() > 0
        True
        """
        return self._backend.pending_events()

    def export_evidence(self, user_id: int, path: str | os.PathLike[str]) -> None:
        """Write a person's evidence to a bundle, as ``exposurekit evidence export`` does; without that of today.

        Raises:
            NotFound: The demo has no such user.
            ConfigurationError: The file cannot be written.

        >>> demo.export_evidence(1, "bundle.zip")
        >>> ek.read_evidence("bundle.zip")["user_id"].unique().tolist()
        [1]
        """
        write_output(Path(path), self._backend.export_evidence(user_id))

    def evidence_key(self) -> bytes:
        """Return the public key that verifies the demo's bundles, in PEM.

        >>> demo.evidence_key()[:26]
        b'-----BEGIN PUBLIC KEY-----'
        """
        return self._backend.evidence_key()

    def close(self) -> None:
        """Stop the service and delete its data: what needs them raises an error then. Calling it again does nothing."""
        self._stack.close()
        self._backend.has_ended = True
        self._collector.history.end(ENDED)
        self.client.config = replace(self.client.config, ended=ENDED)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _simulate(self, duration: timedelta, progress: bool | None) -> None:  # noqa: FBT001
        """Simulate day after day and load everyone at the end of each; the history is written meanwhile."""
        until, day = self._backend.now() + duration, 0
        with self._collector.collecting() as enqueue, progress_bar("days", progress) as bar:
            while True:
                self._backend.advance_to(min(until, self._backend.now() + _DAY))
                if self.simulated_person is not None:
                    self.simulated_person.work()
                enqueue(DailySource.load(self.exposure, self._backend.now()))
                day += 1
                bar(min(day, duration.days), duration.days)
                if self._backend.now() >= until:
                    break

    def _run_first_days(self, duration: timedelta, progress: bool | None) -> None:  # noqa: FBT001
        """Collect once before anyone is registered, note what sites declare, register everyone, and simulate the days."""
        self.history.collect(self.exposure, progress=False)
        # A table, as in a registry: no listing was seen on any site yet.
        declared = pd.DataFrame(self.world.declared_days.items(), columns=["site", "declared_days"])
        self.history.declare_days(declared, source=DECLARED_SOURCE)
        self._backend.register(self.client, progress)
        self._simulate(duration, progress)


def demo(
    people: int = PEOPLE,
    *,
    days: float | str = DAYS,
    seed: int = SEED,
    web: "Web" = "open",
    cache: bool = True,
    progress: bool | None = None,
) -> Demo:
    """Start a sandbox: the service with invented people on an invented web.

    It uses real HTTP on loopback sockets and a database in a temporary directory; nothing leaves the machine. The
    people are registered and scanned, and the days are simulated: listings are found, removed, verified and listed
    again, and the integrator receives webhooks. The last day ends today. Use the result as a value or in a ``with``
    block.

    A new demo takes about a second per day. One that takes longer than a few seconds is stored in the user's cache
    (``$XDG_CACHE_HOME/exposurekit/demos``, else in ``~/.cache``), and the next call with the same people, days, seed
    and version of this package starts from a copy. A cached demo is used for a week and keeps its own time: its last
    day is the day on which it was made, and its service, history and invented web share that clock until
    `Demo.advance`. The cache holds invented people only.

    Args:
        people: How many people are registered; 0 or more.
        days: How many days are simulated, 0 or more; or a duration such as ``"2w"``.
        seed: The same seed gives the same people, listings and pages.
        web: ``open``: fifteen sites, most of which a program may search and ask. ``guarded``: 45 sites, as the real web
            is, with bot checks, puzzles and messages that confirm; a simulated person works an hour a day for everybody.
            It is not cached.
        cache: Whether to start from a cached demo and to store a new one.
        progress: Whether to show a progress bar; None: in a notebook and in a terminal.

    Raises:
        ConfigurationError: The extra ``service`` is not installed.
        InvalidArgument: ``people`` or ``days`` is negative or no number, or there is no such ``web``.

    >>> with ek.demo(people=3, days=0) as demo:
    ...     len(demo.exposure.users())
    3
    """
    duration = parse_duration(days, now=today())
    _check(people, duration, web)
    ends = today()
    demos = cache_for(people=people, days=duration / _DAY, seed=seed) if cache and web == "open" else None
    for cached in demos.entries(ends.date()) if demos else ():
        if (resumed := _resume(cached, people, seed, progress)) is not None:
            return resumed
    with ExitStack() as stack:
        directory = _directory(stack)
        new = _start(stack, directory, people, seed, progress, began=ends - duration, web=web)
        new._run_first_days(duration, progress)  # noqa: SLF001  this is its factory
        if demos and (state := new._backend.saved_state()):  # noqa: SLF001
            demos.put([directory / DATABASE, directory / HISTORY_DIRECTORY], state, ends.date())
        return _hand_over(new, stack)


def _check(people: int, duration: timedelta, web: str) -> None:
    if not isinstance(people, Integral):
        raise InvalidArgument("people is a whole number, such as 25")
    if people < 0 or duration < timedelta():
        raise InvalidArgument("people or days is negative. Pass zero or more.")
    if web not in WEBS:
        raise InvalidArgument(f"there is no such web. Pass one of: {', '.join(WEBS)}.")
    try:
        import exposurekit.sandbox.world.world  # noqa: F401  imports everything that the service needs
    except ModuleNotFoundError:
        raise ConfigurationError(NEEDS_SERVICE) from None


def _resume(cached: CachedDemo, people: int, seed: int, progress: bool | None) -> Demo | None:  # noqa: FBT001
    """Start from a cached demo; if that fails, delete it from the cache and return None."""
    try:
        with ExitStack() as stack:
            directory = _directory(stack)
            state = cached.unpack(directory)
            began = datetime.fromisoformat(state["began"])
            resumed = _start(stack, directory, people, seed, progress, began=began, saved_state=state)
            return _hand_over(resumed, stack)
    except Exception:  # noqa: BLE001  a demo that cannot resume is made new, whatever the reason
        cached.discard()
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
    web: "Web" = "open",
    saved_state: dict[str, Any] | None = None,
) -> Demo:
    from exposurekit.sandbox.simulated_person import SimulatedPerson
    from exposurekit.sandbox.world.site_mail import DropDirectory
    from exposurekit.sandbox.world.world import World
    from exposurekit.service.clock import FrozenClock

    mailbox, clock = DropDirectory(directory / "mail"), FrozenClock(began)
    world = World(people, seed=seed, clock=clock, web=web, post=mailbox.deliver)
    stack.enter_context(world.running())
    mail = None if world.guards is None else mailbox.settings
    backend = Backend(directory, world, saved_state=saved_state, mail=mail)
    connection = backend.start(stack)
    settings: dict[str, Any] = {**connection}
    client = stack.enter_context(Client(**settings))
    exposure = connect(client=client, progress=progress)
    exposure.clock = backend.now
    collector = DailyCollector(directory / HISTORY_DIRECTORY, backend.now)
    stack.enter_context(collector.history)
    simulated_person = None if world.guards is None else SimulatedPerson(backend, world)
    return Demo(
        exposure,
        collector.history,
        client,
        connection,
        world,
        backend.integrator,
        backend,
        collector,
        simulated_person,
    )


def _hand_over(demo: Demo, stack: ExitStack) -> Demo:
    """Give the demo its resources, which it releases when its caller closes it."""
    demo._stack.push(stack.pop_all())  # noqa: SLF001  this is its factory
    atexit.register(demo.close)
    return demo
