"""What integrators ask meanwhile: people registered, and told more about. Goes on when the service is away."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from exposurekit.sandbox.world.people import Person
from exposurekit.service.accounts.integrators import Credentials

PATIENCE_S = 8
PAUSE_S = (0.2, 1.0)  # of one who registers people
LATER_S = (0.5, 4.0)  # until somebody is told more about
WAITING_MAX = 8  # scans that are not done yet: more would only wait
AGAIN_S = 0.2
HELD_BACK = {"birth_date": "birth_date", "addresses": "address1"}  # and the user field that it tells


@dataclass
class Load:
    """Several integrators at once.

    Attributes:
        waiting: Tells how many scans are not done yet.
        registered: The ids that the service answered with.
        told_more: What the service has confirmed that it was told later, a user field for each person.
        answers: How often each status came.
        unreached: How often none came.
    """

    fronts: Sequence[str]
    people: Sequence[Person]
    integrators: Sequence[Credentials]
    seed: int
    waiting: Callable[[], Awaitable[int]]
    hands: int = 3
    registered: list[int] = field(default_factory=list)
    told_more: dict[int, str] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)
    unreached: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(f"load {self.seed}")  # noqa: S311  a draw that can be repeated, not a secret
        self._later: set[asyncio.Task[None]] = set()
        self._next = 0

    async def run(self) -> None:
        """Until cancelled; what is under way then is not waited for."""
        async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
            try:
                await asyncio.gather(*(self._register(http) for _ in range(self.hands)))
            finally:
                for task in self._later:
                    task.cancel()
                await asyncio.gather(*self._later, return_exceptions=True)

    async def _register(self, http: httpx.AsyncClient) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(*PAUSE_S))
            if await self.waiting() >= WAITING_MAX:
                continue
            person = self.people[self._next % len(self.people)].request()
            integrator = self.integrators[self._next % len(self.integrators)]
            self._next += 1
            held_back = self._random.choice((*HELD_BACK, None))
            fields = _without(person, held_back) | {"async": self._random.random() < 0.7}
            user = await self._ask(http, _Question("POST", integrator, "/users", fields))
            if user is None:
                continue
            self.registered.append(user["id"])
            if held_back in person:
                supplied = _supplied(person, held_back, user)
                more = _Question("PUT", integrator, f"/users/{user['id']}", supplied, user["secret"])
                self._soon(self._tell_more(http, more))

    async def _tell_more(self, http: httpx.AsyncClient, question: "_Question") -> None:
        answer = None
        while answer is None:
            await asyncio.sleep(self._random.uniform(*LATER_S))
            answer = await self._ask(http, question)
        self.told_more[answer["id"]] = question.tells

    async def _ask(self, http: httpx.AsyncClient, question: "_Question") -> dict[str, Any] | None:
        """The user who is answered with; None: nobody answered, or not with one."""
        try:
            answer = await http.request(
                question.method,
                self._random.choice(self.fronts) + question.path,
                params=question.query,
                json=question.fields,
            )
        except httpx.HTTPError:
            self.unreached += 1
            await asyncio.sleep(AGAIN_S)
            return None
        self.answers[answer.status_code] += 1
        return answer.json()["user"] if answer.status_code == httpx.codes.OK else None

    def _soon(self, doing: Any) -> None:
        task = asyncio.create_task(doing)
        self._later.add(task)
        task.add_done_callback(self._later.discard)


@dataclass(frozen=True)
class _Question:
    method: str
    integrator: Credentials = field(repr=False)
    resource_path: str
    fields: dict[str, Any] = field(repr=False)
    secret: str | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        return f"/api/{self.integrator.integration_name}/{self.integrator.api_key}/v2{self.resource_path}"

    @property
    def query(self) -> dict[str, str]:
        query = {"api_secret": self.integrator.api_secret}
        return query if self.secret is None else query | {"secret": self.secret}

    @property
    def tells(self) -> str:
        return next(HELD_BACK[name] for name in self.fields)


def _supplied(person: dict[str, Any], held_back: str, user: dict[str, Any]) -> dict[str, Any]:
    """What was held back; the addresses that are there already are made whole."""
    if held_back != "addresses":
        return {held_back: person[held_back]}
    pairs = zip(user["addresses"], person["addresses"], strict=True)
    return {"addresses": [{"id": had["id"], **home} for had, home in pairs]}


def _without(person: dict[str, Any], held_back: str | None) -> dict[str, Any]:
    """A registration that leaves something out: of addresses, all but town and state."""
    fields = {name: value for name, value in person.items() if name != held_back}
    if held_back == "addresses":
        fields["addresses"] = [{"city": home["city"], "state": home["state"]} for home in person["addresses"]]
    return fields
