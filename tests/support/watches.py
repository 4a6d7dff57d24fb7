"""A watch with a clock that the test advances, over a service on loopback that may fail."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support import faults
from support.clients import many

from exposurekit.client import Client, RetryPolicy
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.monitor.status import WatchStatus, read
from exposurekit.monitor.watch import Watch
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.service.clock import FrozenClock

START = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
EVERY = timedelta(hours=6)
KEY, SECRET = "key-canary-1a2b", "secret-canary-3c4d"
CREDENTIALS = {"integration_name": "acme", "api_key": KEY, "api_secret": SECRET}
PEOPLE = range(1, 6)

Step = timedelta | Callable[[], object]


class Fleet:
    """A service of a few people, as a script of `faults.running`.

    Attributes:
        fault: The fault of every response; None: no fault.
        user_faults: The fault of responses about one user.
        listed_at: When List users was called, by the test's clock.
        user_ids: The users for whom Get user was called, in order.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.fault: faults.Fault | None = None
        self.user_faults: dict[int, faults.Fault] = {}
        self.listed_at: list[datetime] = []
        self.user_ids: list[int] = []
        self._clock = clock
        self._respond = many(PEOPLE, self._record)

    def __call__(self, request: faults.Request) -> faults.Fault | None:
        return self._respond(request)

    def _record(self, request: faults.Request, user_id: int | None) -> faults.Fault | None:
        if request.operation == "list_users" and request.query.get("offset", "0") == "0":
            self.listed_at.append(self._clock())
        elif request.operation == "get_user" and user_id is not None:
            self.user_ids.append(user_id)
        return self.fault if user_id is None else self.user_faults.get(user_id, self.fault)

    def hours(self) -> list[float]:
        """When List users was called, in hours since the start."""
        return [(at - START) / timedelta(hours=1) for at in self.listed_at]


@dataclass
class Scene:
    """One directory, one service, one clock."""

    directory: Path
    fleet: Fleet
    exposure: Exposure
    history: History
    clock: FrozenClock
    base_url: str
    waited: list[float] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)

    @property
    def inbox(self) -> Path:
        return self.directory / "inbox.db"

    def open_inbox(self) -> InboxStore:
        return InboxStore(self.inbox, clock=self.clock.now)

    def status(self) -> dict[str, Any]:
        return read(self.directory / "watch.json")

    def report(self) -> None:
        """Add the current status to `statuses`."""
        self.statuses.append(self.status())

    def watch(self, *steps: Step, every: timedelta = EVERY, **more: Any) -> Watch:
        """A watch that takes a step at each wait, advances or calls, and is stopped after the last."""
        left = list(steps)

        def wait(seconds: float) -> bool:
            self.waited.append(seconds)
            while left:
                step = left.pop(0)
                if isinstance(step, timedelta):
                    self.clock.advance(step)
                    return False
                step()
            return True

        status_file, clock = WatchStatus(self.directory / "watch.json"), more.pop("clock", self.clock.now)
        return Watch(self.history, self.exposure, every, status_file, clock=clock, wait=wait, **more)


@contextmanager
def a_scene(directory: Path, integration_name: str = "acme") -> Iterator[Scene]:
    """A service of five people and an empty history; the client never retries."""
    directory.mkdir()
    clock = FrozenClock(START)
    fleet = Fleet(clock.now)
    no_delay = RetryPolicy(max_retries=0, initial_delay=0)
    with (
        faults.running(fleet) as server,
        Client(
            server.base_url, retries=no_delay, **CREDENTIALS | {"integration_name": integration_name}
        ) as client,
        History(directory, clock=clock.now) as history,
    ):
        exposure = Exposure(client, progress=False)
        yield Scene(directory, fleet, exposure, history, clock, server.base_url)
