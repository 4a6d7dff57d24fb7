"""The requests of several integrators: they register people, and supply some of their fields later."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import httpx

from exposurekit.sandbox.world.people import Person
from exposurekit.service.accounts.integrators import Credentials

PATIENCE_S = 8
PAUSE_S = (0.2, 1.0)  # before each registration
UPDATE_AFTER_S = (0.5, 3.0)
RETRY_S = 0.2
WAITING_MAX = 8  # unfinished scans; further ones would only queue
OMITTED = {"birth_date": "birth_date", "addresses": "address1"}  # and the user field that it supplies


@dataclass
class Load:
    """Continues while the service is unavailable.

    Attributes:
        waiting: Returns the number of unfinished scans.
        registered: The ids with which the service responded.
        updated: By user id, the user field that the service confirmed as updated.
        answers: How often each status came.
    """

    base_urls: Sequence[str]
    people: Sequence[Person]
    integrators: Sequence[Credentials]
    seed: int
    waiting: Callable[[], Awaitable[int]]
    registered: list[int] = field(default_factory=list)
    updated: dict[int, str] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)

    def __post_init__(self):
        self._random = random.Random(f"load {self.seed}")  # noqa: S311
        self._updates = set()
        self._next = 0

    async def run(self):
        """Until cancelled."""
        async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
            try:
                await asyncio.gather(*(self._register_all(http) for _ in range(3)))
            finally:
                for task in self._updates:
                    task.cancel()
                await asyncio.gather(*self._updates, return_exceptions=True)

    async def _register_all(self, http):
        while True:
            await asyncio.sleep(self._random.uniform(*PAUSE_S))
            if await self.waiting() < WAITING_MAX:
                await self._register(http)

    async def _register(self, http):
        person = self.people[self._next % len(self.people)].request()
        integrator = self.integrators[self._next % len(self.integrators)]
        self._next += 1
        omitted = self._random.choice((*OMITTED, None))
        fields = _without(person, omitted) | {"async": self._random.random() < 0.7}
        user = await self._request(http, integrator, "POST", "/users", fields)
        if user is not None:
            self.registered.append(user["id"])
            if omitted in person:
                self._updates.add(asyncio.create_task(self._update(http, integrator, user, person, omitted)))

    async def _update(self, http, integrator, user, person, omitted):
        fields = {omitted: person[omitted]}
        if omitted == "addresses":  # complete the addresses that the user has
            pairs = zip(user["addresses"], person["addresses"], strict=True)
            fields = {"addresses": [{"id": stored["id"], **address} for stored, address in pairs]}
        answer = None
        while answer is None:
            await asyncio.sleep(self._random.uniform(*UPDATE_AFTER_S))
            path = f"/users/{user['id']}"
            answer = await self._request(http, integrator, "PUT", path, fields, secret=user["secret"])
        self.updated[user["id"]] = OMITTED[omitted]

    async def _request(self, http, integrator, method, path, fields, **query):
        """The user in the response; None without a response, or with an error."""
        root = (
            f"{self._random.choice(self.base_urls)}/api/{integrator.integration_name}/{integrator.api_key}/v2"
        )
        query |= {"api_secret": integrator.api_secret}
        try:
            answer = await http.request(method, root + path, params=query, json=fields)
        except httpx.HTTPError:
            await asyncio.sleep(RETRY_S)
            return None
        self.answers[answer.status_code] += 1
        return answer.json()["user"] if answer.status_code == httpx.codes.OK else None


def _without(person, omitted):
    """The person's fields without one; addresses are reduced to city and state."""
    fields = {name: value for name, value in person.items() if name != omitted}
    if omitted == "addresses":
        fields["addresses"] = [{name: one[name] for name in ("city", "state")} for one in person["addresses"]]
    return fields
