"""What the dying collectors look at: a few invented people, as they are in each run. Kills nobody."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from support.faults import BODIES
from support.histories import Person, a_delivery, a_link, a_record, an_alert

from exposurekit.client.bulk import Batch, Failure, UserListing
from exposurekit.contract.models import Alert, User, UserKey
from exposurekit.history import History
from exposurekit.history.deliveries import ReceivedDelivery
from exposurekit.history.storage.delta import Store

DAWN = datetime(2026, 3, 1, 20, 0, tzinfo=UTC)
LASTS = timedelta(hours=1)
INBOX = "invented"
People = Mapping[int, Person]


def at(number: int) -> datetime:
    """When the run of this number is."""
    return DAWN + timedelta(days=number)


@dataclass(frozen=True)
class Canned:
    """A source whose answers are ready."""

    people: People
    failing: frozenset[int] = frozenset()
    origin: str = "service.example · acme"

    def iter_batches(
        self,
        *,
        only: Callable[[int], bool] | None = None,
        progress: bool | None = None,  # noqa: ARG002
    ) -> Iterator[Batch]:
        """Two people at a time."""
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
                Failure(user_id, "get_user", "APIStatusError", 500, "no answer")
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


def opened(path: Path, number: int, store: Store | None = None) -> History:
    """A history at the time of a run, which lasts an hour."""
    instants = itertools.chain([at(number)], itertools.repeat(at(number) + LASTS))
    history = History(path, clock=lambda: next(instants))
    if store is not None:
        history._store, history._runs = store, replace(history._runs, store=store)
    return history


def based(path: Path) -> None:
    """The history that all of them begin with: two runs."""
    with opened(path, 1) as history:
        history.collect(Canned(BEFORE), run="run-1", progress=False)
    with opened(path, 2) as history:
        history.collect(Canned(BEFORE), run="run-2", progress=False)


@dataclass(frozen=True)
class Scene:
    """What the one does who dies, and whoever goes on.

    Attributes:
        source: Whom it looks at.
        named: Whether its run has a name.
        told: Whether it takes in webhooks instead.
        first_step: The step with which the dying begins.
        tidies: Whether it dies in the middle of tidying, too.
        people_a_part: How many people a part of what is staged holds.
        lowered: Constants of `upkeep`, where upkeep is to be due.
    """

    source: Canned
    named: bool = True
    has_deliveries: bool = False
    first_step: str = "put ended"
    tidies: bool = False
    people_a_part: int = 1_000
    lowered: Mapping[str, object] = field(default_factory=dict)

    def act(self, path: Path, store: Store | None = None) -> None:
        """Collect the third run, or take in what was told."""
        with opened(path, 3, store) as history:
            if self.has_deliveries:
                history.ingest_deliveries(DELIVERIES, INBOX)
            else:
                history.collect(self.source, run="run-3" if self.named else None, progress=False)

    def go_on(self, path: Path) -> None:
        """The same again, as whoever was killed is asked again; then the next run."""
        self.act(path)
        with opened(path, 4) as history:
            history.collect(Canned(_NEXT), run="run-4" if self.named else None, progress=False)


_DUE = {"MERGE_EVERY": 1, "MAX_FILES": {True: 1, False: 1}, "CHECKPOINT_ROWS": 0, "CHECKPOINT_SHARE": 0.0}
SCENES = {
    "much happens": Scene(Canned(_BUSY, frozenset({4})), first_step="", people_a_part=4),
    "little happens": Scene(Canned(_QUIET), tidies=True, lowered=_DUE),
    "without a name": Scene(Canned(_QUIET), named=False, tidies=True),
    "webhooks": Scene(Canned({}), has_deliveries=True, first_step=""),
}
