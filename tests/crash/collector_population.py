"""Invented people whose listings change from run to run, repeatably; and what each run observes."""

import random
from dataclasses import dataclass, field

from support.histories import Person, Service, a_link, a_record, an_alert
from support.history_reference import ObservedUser

STATUSES = ("discovered", "discovered", "pending removal", "removed", "on hold")
SITES = ("PeepFinder", "Namesake", "Kinfolk")


@dataclass
class Population:
    """Who is registered with a service, run by run.

    Attributes:
        service: The script of `faults.running`.
        snapshots: What each run observes, by its name and by person.
    """

    seed: int
    people: int
    service: Service = field(default_factory=Service)
    snapshots: dict[str, dict[int, ObservedUser]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._drawn = random.Random(f"people {self.seed}")  # noqa: S311  a draw that can be repeated
        self._next = 1
        for _ in range(self.people):
            self._register()

    def advance(self) -> str:
        """Change the people; return the name of the next run."""
        for person in self.service.people.values() if self.snapshots else ():
            self._move(person)
        self._come_and_go()
        self.service.broken = dict.fromkeys(self._some(0.02), "no user")
        name = f"run-{len(self.snapshots) + 1}"
        self.snapshots[name] = {
            user_id: self.service.observed(user_id, "id") for user_id in self.service.people
        }
        return name

    def _some(self, share: float) -> list[int]:
        return [user_id for user_id in self.service.people if self._drawn.random() < share]

    def _register(self) -> None:
        user_id, self._next = self._next, self._next + 1
        sites = self._drawn.sample(SITES, self._drawn.randint(0, 3))
        records = [
            a_record(10 * user_id + number, self._drawn.choice(STATUSES), site)
            for number, site in enumerate(sites)
        ]
        links = [
            a_link(f"https://page.example/{user_id}/{number}") for number in range(self._drawn.randint(0, 2))
        ]
        alerts = [an_alert("Look at this", record) for record in records[:1]]
        self.service.people[user_id] = Person(records, links, alerts)

    def _move(self, person: Person) -> None:
        person.scanning = self._drawn.random() < 0.03
        person.records = [
            record | ({"status": self._drawn.choice(STATUSES)} if self._drawn.random() < 0.15 else {})
            for record in person.records
            if self._drawn.random() > 0.01
        ]
        person.links = [link for link in person.links if self._drawn.random() > 0.02]

    def _come_and_go(self) -> None:
        if self.snapshots:
            for user_id in self._some(0.01):
                del self.service.people[user_id]
            for _ in range(self._drawn.randint(0, 3)):
                self._register()
