"""Negative control: a random invented person, whom no working site should list.

Whether a site lists them is the same for everybody, so for ten minutes the scans of a worker share that it does not.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.sites.definition import Definition

SHARED_FOR = timedelta(minutes=10)
# Common syllables, so that the names look plausible; long ones, so that nobody has this name.
_ONSETS = "b br c ch d dr f g gr h j k l m n p pr qu r s sh st t th tr v w z".split()  # noqa: SIM905
_VOWELS = "a e i o u ai ea ie o a e".split()  # noqa: SIM905
_CODAS = "l n r s t m rd ck nd ss x lt".split()  # noqa: SIM905
_SYLLABLES = (3, 4)
_Key: TypeAlias = tuple[str, frozenset[frozenset[tuple[str, str]]]]


class SharedControls:
    """The sites that listed no invented person, and who is searched for on each. For one event loop."""

    def __init__(self) -> None:
        self._decoys: dict[str, tuple[Name, datetime]] = {}  # by site
        self._passed: dict[_Key, tuple[Definition, datetime]] = {}  # in the last minutes
        self._running: dict[_Key, asyncio.Event] = {}

    def decoy(self, site: str, *places: Place, now: datetime) -> Subject:
        """Return the person at places who is searched for on a site: another one every ten minutes."""
        name, since = self._decoys.get(site) or (_name(), now)
        if not _is_recent(since, now):
            name, since = _name(), now
        self._decoys[site] = name, since
        return Subject(names=(name,), places=places)

    async def problem(
        self,
        site: Definition,
        queries: Sequence[Mapping[str, str]],
        run: Callable[[], Awaitable[str | None]],
        *,
        now: datetime,
    ) -> str | None:
        """Return why a site fails the control, or None; `run` sends the queries, unless the site passed just now.

        While one scan runs it, others wait: if the site passes, they need not run it themselves.
        """
        key = site.name, frozenset(frozenset(query.items()) for query in queries)
        if (running := self._running.get(key)) is not None:
            await running.wait()
        definition, since = self._passed.get(key) or (None, now)
        if definition is site and _is_recent(since, now):
            return None
        running = self._running[key] = asyncio.Event()
        try:
            problem = await run()
        finally:
            running.set()
            if self._running.get(key) is running:
                del self._running[key]
        if problem is None:
            self._passed = {one: passed for one, passed in self._passed.items() if _is_recent(passed[1], now)}
            self._passed[key] = site, now
        return problem


def decoy_subject(*places: Place) -> Subject:
    """Invent a person at places."""
    return Subject(names=(_name(),), places=places)


def _is_recent(since: datetime, now: datetime) -> bool:
    return timedelta() <= now - since < SHARED_FOR  # a clock may be set back


def _name() -> Name:
    return Name(_word(), _word())


def _word() -> str:
    syllables = [secrets.choice(_ONSETS) + secrets.choice(_VOWELS) for _ in range(secrets.choice(_SYLLABLES))]
    return ("".join(syllables) + secrets.choice(_CODAS)).capitalize()
