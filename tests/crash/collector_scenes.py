"""The scenes of the kills at each step: a few invented people, as they are in each run."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.faults import BODIES
from support.histories import Person, a_delivery, a_link, a_record, an_alert

from exposurekit.client.bulk import Batch, Failure, UserListing
from exposurekit.contract.models import Alert, User, UserKey
from exposurekit.history import History
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.maintenance import Schedule
from exposurekit.history.storage.delta import Store

DAWN = datetime(2026, 3, 1, 20, 0, tzinfo=UTC)
LASTS = timedelta(hours=1)
INBOX = "invented"
People = Mapping[int, Person]


def at(number: int) -> datetime:
    return DAWN + timedelta(days=number)


@dataclass(frozen=True)
class Canned:
    people: People
    failing: frozenset[int] = frozenset()
    origin: str = "service.example · acme"

    def iter_batches(
        self,
        *,
        only: Callable[[int], bool] | None = None,
        progress: bool | None = None,  # noqa: ARG002
    ) -> Iterator[Batch]:
        chosen = [user_id for user_id in self.people if only is None or only(user_id)]
        for start in range(0, len(chosen), 2):
            yield self._batch(chosen[start : start + 2])
        yield Batch(listing=UserListing(len(self.people), len(self.people)))

    def _batch(self, ids: Sequence[int]) -> Batch:
        well = [user_id for user_id in ids if user_id not in self.failing]
        return Batch(
            keys=[UserKey(id=user_id, secret="secret") for user_id in ids],
            users=[_user(user_id, self.people[user_id]) for user_id in well],
            alerts=[_alerts(user_id, self.people[user_id]) for user_id in well],
            failures=[
                Failure(user_id, "get_user", "APIStatusError", 500, "no response")
                for user_id in ids
                if user_id in self.failing
            ],
        )


def _user(user_id: int, person: Person) -> dict[str, object]:
    fields = {"records": person.records, "links": person.links, "is_scanning": person.scanning}
    return User.model_validate(BODIES["get_user"]["user"] | fields | {"id": user_id}).model_dump()


def _alerts(user_id: int, person: Person) -> dict[str, object]:
    return {
        "user_id": user_id,
        "alerts": [Alert.model_validate(alert).model_dump() for alert in person.alerts],
    }


def _person(user_id: int, status: str = "discovered", *, links: int = 1, alerts: int = 1) -> Person:
    records = [a_record(10 * user_id, status), a_record(10 * user_id + 1)]
    pages = [a_link(f"https://page-{number}.example/{user_id}") for number in range(links)]
    alert_items = [an_alert(f"Look at this, {number}", records[0]) for number in range(alerts)]
    return Person(records, pages, alert_items)


BEFORE = {user_id: _person(user_id) for user_id in range(1, 7)}
_BUSY = {
    1: _person(1, "removed"),
    2: _person(2, "pending removal", links=2, alerts=2),
    3: Person(),
    4: _person(4),
    5: Person([a_record(50, "removed")], scanning=True),
    7: _person(7),
}
_QUIET = {**BEFORE, 1: _person(1, "pending removal")}
_NEXT = {**_QUIET, 2: Person(), 8: _person(8)}
DELIVERIES = [
    ReceivedDelivery(number, at(3) + number * LASTS, f"msg_{number}", a_delivery(user_id, groups))
    for number, (user_id, groups) in enumerate(
        [
            (1, {"removed_records": [{"record": a_record(10)}]}),
            (2, {"discovered_records": [{"record": a_record(29)}], "weather": ["fair"]}),
            (1, {"discovered_records": [{"record": a_record(10)}]}),
        ],
        1,
    )
]


def opened(path: Path, number: int, store: Store | None = None, **settings: Any) -> History:
    """Open a history at the time of a run, which takes an hour; settings are those of its `RunManager`."""
    instants = itertools.chain([at(number)], itertools.repeat(at(number) + LASTS))
    history = History(path, clock=lambda: next(instants))
    if store is not None:
        history._store = store
    history._runs = replace(history._runs, store=history._store, **settings)
    return history


def create_base(path: Path) -> None:
    """Create the history with which all scenes begin: two runs."""
    for number in (1, 2):
        with opened(path, number) as history:
            history.collect(Canned(BEFORE), run=f"run-{number}", progress=False)


@dataclass(frozen=True)
class Scene:
    """What the collector does that is killed, and how the history goes on.

    Attributes:
        source: What it collects from.
        run: The name of its run; None: it has none.
        deliveries: The webhooks that it ingests instead.
        first_step: The step with which the kills begin.
        copies_deletions: Whether it is also killed while it deletes a directory.
        settings: Settings of the `RunManager` that is killed.
    """

    name: str
    source: Canned = field(default_factory=lambda: Canned({}))
    run: str | None = "run"
    deliveries: Sequence[ReceivedDelivery] = ()
    first_step: str = "put ended"
    copies_deletions: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def act(self, path: Path, store: Store | None = None) -> None:
        """Collect the third run, or ingest the deliveries."""
        with opened(path, 3, store, **(self.settings if store else {})) as history:
            if self.deliveries:
                history.ingest_deliveries(self.deliveries, INBOX)
            else:
                history.collect(self.source, run=self.run and f"{self.run}-3", progress=False)

    def collect_next(self, path: Path) -> None:
        with opened(path, 4) as history:
            history.collect(Canned(_NEXT), run=self.run and f"{self.run}-4", progress=False)


_ALWAYS = Schedule(checkpoint_share=0, checkpoint_rows=0, vacuum_every=1, max_files=1, files_per_bucket=0)
SCENES = (
    Scene("many changes", Canned(_BUSY, frozenset({4})), first_step="", settings={"users_per_part": 4}),
    Scene("maintenance is due", Canned(_QUIET), first_step="vacuum", settings={"schedule": _ALWAYS}),
    Scene("unnamed run", Canned(_QUIET), run=None, copies_deletions=True),
    Scene("deliveries", deliveries=DELIVERIES, first_step=""),
)
