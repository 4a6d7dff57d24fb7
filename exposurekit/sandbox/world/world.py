"""The make-believe web: invented people, sites, pages and an engine, on loopback. Never asks for, or shows, the real one."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from exposurekit.sandbox.world import opt_out_forms, search
from exposurekit.sandbox.world import search_engine as world_search_engine
from exposurekit.sandbox.world.asgi import Application, AsgiTransport, Request, Response, html, text
from exposurekit.sandbox.world.formats import roll
from exposurekit.sandbox.world.hostile import HOST as TARPIT
from exposurekit.sandbox.world.hostile import HostilePage, build_hostile_pages
from exposurekit.sandbox.world.listings import Entry, build_listings
from exposurekit.sandbox.world.namesakes import strangers_to
from exposurekit.sandbox.world.opt_outs import OptOut, OptOutLedger
from exposurekit.sandbox.world.pages import PageTruth, WebPage, build_pages
from exposurekit.sandbox.world.people import invent
from exposurekit.sandbox.world.sites import SITES, WorldSite
from exposurekit.sandbox.world.state import Mail, WorldState
from exposurekit.sandbox.world.templates import document
from exposurekit.service.api.server import running
from exposurekit.service.clock import Clock, FrozenClock
from exposurekit.service.sites.definition import Definition

_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8ffff3f0005fe02fea72d"
    "99170000000049454e44ae426082"
)


@dataclass(frozen=True, slots=True)
class Truth:
    """One listing as it really is. `person` says who of the registered it is about; None: somebody else."""

    site: str
    reference_id: str = field(repr=False)
    person: int | None
    visible: bool
    href: str | None = field(repr=False)
    name: str = field(repr=False)
    quirks: tuple[str, ...] = ()  # what makes it hard to know: nickname, maiden name, misspelt, no age, ...


class World:
    """A seeded world: the same for the same seed, clock and requests to be taken off.

    Attributes:
        people: Those whom a demo registers; `Truth.person` and `PageTruth.person` are places in this list.
        strangers: Those whom nobody registers, the namesakes of people first.
        requests: How often each host was asked.
        reachable: The names of the sites that a polite scanner can read and believe.
        definitions: What a scanner is told of each site.
    """

    search_engine = f"http://{world_search_engine.HOST}{world_search_engine.PATH}"

    def __init__(self, people: int, *, seed: int, clock: Clock, hostile: bool = True) -> None:
        self.clock = clock
        self.people = invent(people, seed)
        self.strangers = strangers_to(self.people, seed)
        self.requests: Counter[str] = Counter()
        self.reachable = frozenset(site.name for site in SITES if site.reachable)
        self.definitions: dict[str, Definition] = {site.name: site.definition for site in SITES}
        shelves = build_listings(self.people, self.strangers, seed=seed, start=clock.now())
        self._ground = WorldState(seed, clock, shelves, OptOutLedger(shelves))
        self._sites = {site.host: site for site in SITES}
        self._build_pages(seed, hostile=hostile)
        self._wire = AsgiTransport(self.answer)
        self._port: int | None = None

    @property
    def app(self) -> Application:
        """The whole web as one ASGI application, told apart by the Host header."""
        return self._wire

    @property
    def opt_outs(self) -> list[OptOut]:
        """Every request to be taken off that reached a site, in order."""
        return self._ground.ledger.opt_outs

    @property
    def mailbox(self) -> list[Mail]:
        """Every e-mail that a site has sent; a human opens its link."""
        return self._ground.mailbox

    def advance(self, *, days: float = 0, minutes: float = 0) -> None:
        """Let time pass.

        Raises:
            TypeError: The clock is not one that can be told to.
        """
        if not isinstance(self.clock, FrozenClock):
            raise TypeError("only a world with a FrozenClock can be told that time passes")
        self.clock.advance(timedelta(days=days, minutes=minutes))

    def past(self) -> dict[str, Any]:
        """What has happened since it began, as plain JSON: another world of the same making goes on from it."""
        now, told = self.clock.now().isoformat(), {"requests": dict(self.requests)}
        return told | {"now": now, "mailbox": self.mailbox} | self._ground.ledger.past()

    def take_up(self, past: Mapping[str, Any]) -> None:
        """Go on from where another of the same people, seed and beginning stood.

        Raises:
            LookupError: It is not the past of such a world.
            TypeError: The clock is not one that can be told to.
        """
        self._ground.ledger.take_up(past, self._ground.shelves)
        self.requests.update(past["requests"])
        self.mailbox[:] = [Mail(*mail) for mail in past["mailbox"]]
        gone_by = datetime.fromisoformat(past["now"]) - self.clock.now()
        self.advance(days=gone_by / timedelta(days=1))

    def listings(self, at: datetime | None = None) -> list[Truth]:
        """Every listing that is there, was or will be; `visible` at an instant, or now."""
        at = at or self.clock.now()
        return [self._truth(entry, at) for entry in self._ground.shelves.entries]

    def is_listed(self, site: str, reference_id: str, at: datetime | None = None) -> bool:
        """Whether a site shows a listing at an instant, or now."""
        entry = self._ground.shelves.at(site, reference_id)
        return entry is not None and self._ground.ledger.visible(entry, at or self.clock.now())

    def was_listed(
        self, site: str, reference_id: str, *, since: datetime, until: datetime, listed: bool = True
    ) -> bool:
        """Whether a site showed a listing at any moment between two instants; with ``listed`` false, did not show it."""
        entry = self._ground.shelves.at(site, reference_id)
        if entry is None:
            return not listed
        return self._ground.ledger.was(entry, visible=listed, since=since, until=until)

    def pages(self) -> list[PageTruth]:
        """What stands on every page: one row for each who is mentioned there."""
        ordinary = [truth for page in self._pages.values() for truth in page.truths()]
        return ordinary + [trap.truth() for trap in self._traps]

    def by_hand(self, site: str, reference_id: str) -> bool:
        """What a human does at a site that lets no machine ask: letters, puzzles, links. True if it was granted."""
        entry = self._ground.there(site, reference_id)
        granted = entry is not None and entry.owner is not None
        if entry is not None and granted:
            self._ground.ledger.leave(entry, self.clock.now())
        else:
            self._ground.ledger.note(site, reference_id, self.clock.now(), accepted=False)
        return granted

    def captcha(self, site: str) -> str:
        """What a human reads in a site's picture today."""
        return opt_out_forms.captcha(self._ground, next(each for each in SITES if each.name == site))

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:  # noqa: ARG002  a resolver's signature
        """Where a host of this world is really served.

        Raises:
            OSError: It is not a host of this world, or the world is not being served.
        """
        await asyncio.sleep(0)
        if self._port is None or not host.lower().endswith(".example"):
            raise OSError("no such host in the make-believe web")
        return [("127.0.0.1", self._port)]

    def answer(self, asked: Request) -> Response:
        """What the host that was asked says."""
        self.requests[asked.host] += 1
        if site := self._sites.get(asked.host):
            return self._of_site(site, asked)
        if asked.host == world_search_engine.HOST:
            return self._engine.answer(asked)
        if asked.host == TARPIT:
            return self._trapped(asked.path)
        if asked.host in self._hosts:
            page = self._pages.get((asked.host, asked.path))
            return Response(page.body) if page else html("<p>There is no such page.</p>", 404)
        return text("no such host in the make-believe web", 502)

    def _build_pages(self, seed: int, *, hostile: bool) -> None:
        pages = build_pages(self.people, self.strangers, seed)
        self._pages: dict[tuple[str, str], WebPage] = {(page.host, page.path): page for page in pages}
        self._hosts = {page.host for page in pages}
        self._traps: list[HostilePage] = build_hostile_pages(self.people, seed) if hostile else []
        self._engine = world_search_engine.Engine(pages, self._traps)

    def _of_site(self, site: WorldSite, asked: Request) -> Response:  # noqa: PLR0911  one line for each of its addresses
        if asked.path == "/robots.txt":
            return text(site.robots) if site.robots else html(document(site, "<p>404</p>"), 404)
        if site.trait == "blocks":
            return self._blocked(site, asked)
        match asked.path:
            case "/":
                return search.home(site)
            case path if path == urlsplit(site.definition.search.url).path:
                return search.search(self._ground, site, asked)
            case path if path == urlsplit(opt_out_forms.sent_to(site)).path and asked.method == "POST":
                return opt_out_forms.submit(self._ground, site, asked)
            case path if path == urlsplit(site.opt_out_url).path:
                return opt_out_forms.form(self._ground, site)
            case opt_out_forms.CONFIRM:
                return opt_out_forms.confirm(self._ground, site, asked)
            case "/captcha.png":
                return Response(_PIXEL, kind="image/png")
            case path:
                return search.detail(self._ground, site, path)

    def _blocked(self, site: WorldSite, asked: Request) -> Response:
        """Half of what is asked is forbidden outright; the other half gets a puzzle that looks like success."""
        puzzle, forbidden = site.definition.search.blocked
        if roll(self._ground.seed, "blocks", sorted(asked.told().items())) < 0.5:  # noqa: PLR2004
            return html(document(site, f"<p>{forbidden}.</p>"), 403)
        return html(document(site, f'<h1>{puzzle}</h1><img src="/captcha.png" alt="">'))

    def _trapped(self, path: str) -> Response:
        for trap in self._traps:
            if path == trap.path or path.startswith(f"{trap.path}/"):
                return trap.answer(path)
        return html("<p>There is no such page.</p>", 404)

    def _truth(self, entry: Entry, at: datetime) -> Truth:
        return Truth(
            site=entry.site.name,
            reference_id=entry.reference_id,
            person=entry.person,
            visible=self._ground.ledger.visible(entry, at),
            href=entry.href,
            name=entry.name,
            quirks=entry.quirks,
        )


@contextmanager
def running_world(people: int, *, seed: int, clock: Clock, hostile: bool = True) -> Iterator[World]:
    """A world that is served on a free loopback port for as long as the block lasts.

    >>> from datetime import UTC
    >>> with running_world(2, seed=7, clock=FrozenClock(datetime(2026, 1, 1, tzinfo=UTC))) as world:
    ...     [(host, port)] = asyncio.run(world.resolve("seekfolk.example", 80))
    ...     world.advance(days=30)
    ...     host, len(world.definitions), all(truth.visible for truth in world.listings())
    ('127.0.0.1', 15, False)
    """
    world = World(people, seed=seed, clock=clock, hostile=hostile)
    with running(world.app) as base_url:
        world._port = urlsplit(base_url).port  # noqa: SLF001  its own maker
        try:
            yield world
        finally:
            world._port = None  # noqa: SLF001
            world._wire.close()  # noqa: SLF001
