"""The invented web as a whole: people, sites, pages and a search engine, served on loopback."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from exposurekit.sandbox.world import opt_out_forms, search_pages
from exposurekit.sandbox.world import search_engine as world_search_engine
from exposurekit.sandbox.world.asgi import AsgiTransport, Request, Response, html, text
from exposurekit.sandbox.world.formats import roll
from exposurekit.sandbox.world.guarded_sites import guarded_sites
from exposurekit.sandbox.world.guards import Guards
from exposurekit.sandbox.world.listings import Entry, build_listings
from exposurekit.sandbox.world.namesakes import invent_bearers, invent_strangers
from exposurekit.sandbox.world.opt_outs import OptOutLedger
from exposurekit.sandbox.world.pages import PageTruth, WebPage, build_pages
from exposurekit.sandbox.world.people import invent
from exposurekit.sandbox.world.sites import SITES, WorldSite
from exposurekit.sandbox.world.state import Mail, WorldState
from exposurekit.sandbox.world.templates import document
from exposurekit.service.api.server import running
from exposurekit.service.clock import Clock, FrozenClock
from exposurekit.service.sites.definition import Definition

Web = Literal["open", "guarded"]
BEARERS = 40  # of the common name
_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8ffff3f0005fe02fea72d"
    "99170000000049454e44ae426082"
)


@dataclass(frozen=True, slots=True)
class Truth:
    """The true state of one listing. `person` is the index of the registered person it is about; None: somebody else."""

    site: str
    reference_id: str = field(repr=False)
    person: int | None
    visible: bool
    href: str | None = field(repr=False)
    name: str = field(repr=False)
    quirks: tuple[str, ...] = ()  # what makes it hard to match: nickname, maiden name, misspelt, no age, ...

    @property
    def key(self) -> tuple[str, str]:
        """What identifies it."""
        return self.site, self.reference_id


class World:
    """A seeded web: the same for the same seed, clock and opt-out requests.

    Args:
        people: The number of people that a demo registers.
        seed: What everything is drawn from.
        clock: The clock of all sites.
        web: ``open``, fifteen sites that a program may mostly use; or ``guarded``, 45 whose searches and opt-outs need a
            person.
        post: Takes the messages of a guarded web; None: they are lost.

    Attributes:
        people: The people that a demo registers; `Truth.person` and `PageTruth.person` are indexes into this list.
        strangers: People who are not registered, namesakes first.
        requests: Number of requests to each host.
        reachable: Names of the sites that a polite scanner can read and trust.
        declared_days: The days within which sites say that they remove a listing, by name.
        definitions: The site definitions, by name.
        guards: The bot checks, puzzles and messages of the guarded web; None in the open web.
        opt_outs: Every opt-out request that reached a site, in order.
        mailbox: Every email that a site has sent; its link confirms an opt-out.
        app: All hosts as one ASGI application, which routes by the Host header.
    """

    search_engine = f"http://{world_search_engine.HOST}{world_search_engine.PATH}"

    def __init__(
        self,
        people: int,
        *,
        seed: int,
        clock: Clock,
        web: Web = "open",
        post: Callable[[bytes], None] | None = None,
    ) -> None:
        self.clock = clock
        guarded = guarded_sites(clock.now()) if web == "guarded" else ()
        sites: Sequence[WorldSite] = guarded or SITES
        self.people = invent(people, seed)
        self.strangers = invent_strangers(self.people, seed)
        self.requests: Counter[str] = Counter()
        self.reachable = frozenset(site.name for site in sites if site.reachable)
        self.definitions: dict[str, Definition] = {site.name: site.definition for site in sites}
        self.declared_days = {
            site.name: site.declared_days for site in sites if site.declared_days is not None
        }
        # In the guarded web a common name is listed often, as on any site: an operator's example of a page.
        others = [*self.strangers, *(invent_bearers(BEARERS, seed) if guarded else ())]
        listings = build_listings(self.people, others, sites, seed=seed, start=clock.now())
        self._state = WorldState(seed, clock, listings, OptOutLedger(listings))
        self._sites = {site.host: site for site in sites}
        self.guards = Guards(self._state, guarded, post or _lose) if guarded else None
        pages = build_pages(self.people, self.strangers, seed)
        self._pages: dict[tuple[str, str], WebPage] = {(page.host, page.path): page for page in pages}
        self._hosts = {page.host for page in pages}
        self._engine = world_search_engine.Engine(pages)
        self.opt_outs, self.mailbox = self._state.ledger.opt_outs, self._state.mailbox
        self.app = AsgiTransport(self.respond)
        self._port: int | None = None

    def advance(self, *, days: float = 0, minutes: float = 0) -> None:
        """Move the clock forward, if it is a `FrozenClock`."""
        if not isinstance(self.clock, FrozenClock):
            raise TypeError("only a world with a FrozenClock can advance")
        self.clock.advance(timedelta(days=days, minutes=minutes))

    def saved_state(self) -> dict[str, Any]:
        """Return everything that has happened, as plain JSON, for `restore`."""
        return {
            "now": self.clock.now().isoformat(),
            "requests": dict(self.requests),
            "mailbox": self.mailbox,
            **self._state.ledger.saved_state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state of a world with the same people, seed and start, or raise `LookupError`."""
        self._state.ledger.restore(state, self._state.listings)
        self.requests.update(state["requests"])
        self.mailbox[:] = [Mail(*mail) for mail in state["mailbox"]]
        elapsed = datetime.fromisoformat(state["now"]) - self.clock.now()
        self.advance(days=elapsed / timedelta(days=1))

    def listings(self, at: datetime | None = None) -> list[Truth]:
        """Return every past, present and future listing; `visible` refers to an instant, by default now."""
        at = at or self.clock.now()
        return [self._truth(entry, at) for entry in self._state.listings.entries]

    def person_of(self, site: str, reference_id: str) -> int | None:
        """Return the index of the registered person whom a listing is about; None: somebody else, or no listing."""
        entry = self._state.listings.at(site, reference_id)
        return None if entry is None else entry.person

    def is_removable(self, site: str, reference_id: str) -> bool:
        """Return whether a site of the guarded web removes a listing if its person asks."""
        entry = self._state.listings.at(site, reference_id)
        return entry is not None and self.guards is not None and self.guards.removes(entry)

    def is_listed(self, site: str, reference_id: str, at: datetime | None = None) -> bool:
        """Return whether a site shows a listing at an instant, by default now."""
        entry = self._state.listings.at(site, reference_id)
        return entry is not None and self._state.ledger.is_visible(entry, at or self.clock.now())

    def was_listed(
        self, site: str, reference_id: str, *, since: datetime, until: datetime, listed: bool = True
    ) -> bool:
        """Return whether a site showed a listing at any moment between two instants; with ``listed=False``: hid it."""
        entry = self._state.listings.at(site, reference_id)
        if entry is None:
            return not listed
        return self._state.ledger.was_ever(entry, visible=listed, since=since, until=until)

    def pages(self) -> list[PageTruth]:
        """Return what every page contains: one value per person mentioned on it."""
        return [truth for page in self._pages.values() for truth in page.truths()]

    def opt_out_manually(self, site: str, reference_id: str) -> bool:
        """Opt out as a person does: by post, with a captcha or a mailed link. Return whether it was granted."""
        entry = self._state.visible_listing(site, reference_id)
        if entry is None or entry.owner is None:
            self._state.ledger.log(site, reference_id, self.clock.now(), accepted=False)
            return False
        self._state.ledger.remove(entry, self.clock.now())
        return True

    def receive_email(self, to: str, message: bytes) -> None:
        """Take a message that a mail server has for an address of the guarded web."""
        if self.guards is not None:
            self.guards.receive(to, message)

    def captcha(self, site: str) -> str:
        """Return the solution of a site's captcha today."""
        return opt_out_forms.captcha(self._state, site)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serve the web on a free loopback port until the block ends.

        >>> from datetime import UTC
        >>> with World(2, seed=7, clock=FrozenClock(datetime(2026, 1, 1, tzinfo=UTC))).running() as world:
        ...     world.advance(days=30)
        ...     len(world.definitions), all(truth.visible for truth in world.listings())
        (15, False)
        """
        with running(self.app) as base_url:
            self._port = urlsplit(base_url).port
            try:
                yield self
            finally:
                self._port = None
                self.app.close()

    @property
    def port(self) -> int:
        """The loopback port that serves every host; raises `LookupError` unless it is running."""
        if self._port is None:
            raise LookupError("the world is not running")
        return self._port

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:  # noqa: ARG002  a resolver's signature
        """Resolve a host to the loopback address that serves it; raises `OSError` if there is none."""
        await asyncio.sleep(0)
        if self._port is None or not host.lower().endswith(".example"):
            raise OSError("no such host in the invented web")
        return [("127.0.0.1", self._port)]

    def respond(self, request: Request) -> Response:
        """Answer a request to any host."""
        self.requests[request.host] += 1
        if self.guards is not None and (response := self.guards.respond(request)):
            return response
        if site := self._sites.get(request.host):
            return self._site_response(site, request)
        if request.host == world_search_engine.HOST:
            return self._engine.respond(request)
        if request.host in self._hosts:
            return self._page_response(request)
        return text("no such host in the invented web", 502)

    def _site_response(self, site: WorldSite, request: Request) -> Response:  # noqa: PLR0911  one line per route
        if request.path == "/robots.txt":
            return text(site.robots) if site.robots else html(document(site, "<p>404</p>"), 404)
        if site.trait == "blocks":
            return self._blocked_response(site, request)
        match request.path:
            case "/":
                return search_pages.home(site)
            case path if path == urlsplit(site.definition.search.url).path:
                return search_pages.search(self._state, site, request)
            case path if path == urlsplit(opt_out_forms.form_url(site)).path and request.method == "POST":
                return opt_out_forms.submit(self._state, site, request)
            case path if path == urlsplit(site.definition.opt_out_url).path:
                return opt_out_forms.form(self._state, site)
            case opt_out_forms.CONFIRM:
                return opt_out_forms.confirm(self._state, site, request)
            case "/captcha.png":
                return Response(_PIXEL, kind="image/png")
            case path:
                return search_pages.detail(self._state, site, path)

    def _blocked_response(self, site: WorldSite, request: Request) -> Response:
        """Half of the requests are forbidden; the others get a captcha with status 200."""
        puzzle, forbidden = site.definition.search.blocked
        if roll(self._state.seed, "blocks", sorted(request.parameters().items())) < 0.5:  # noqa: PLR2004
            return html(document(site, f"<p>{forbidden}.</p>"), 403)
        return html(document(site, f'<h1>{puzzle}</h1><img src="/captcha.png" alt="">'))

    def _page_response(self, request: Request) -> Response:
        if page := self._pages.get((request.host, request.path)):
            return Response(page.body)
        return html("<p>There is no such page.</p>", 404)

    def _truth(self, entry: Entry, at: datetime) -> Truth:
        return Truth(
            site=entry.site.name,
            reference_id=entry.reference_id,
            person=entry.person,
            visible=self._state.ledger.is_visible(entry, at),
            href=entry.href,
            name=entry.name,
            quirks=entry.quirks,
        )


def _lose(_message: bytes) -> None:
    """Lose a message, where there is no mailbox."""
