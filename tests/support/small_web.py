"""Small sites on loopback, and a service that scans them, or the sandbox's sites."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from sqlalchemy import delete, select
from support.services import START, Service, a_database, json_body, opened

from exposurekit.client.transports.httpx import certificates
from exposurekit.sandbox.world.asgi import HTML, AsgiTransport, Request, Response, html
from exposurekit.service.accounts import integrators
from exposurekit.service.api.app import create_app
from exposurekit.service.api.server import running
from exposurekit.service.audit import Action, append
from exposurekit.service.clock import FrozenClock
from exposurekit.service.http.client import HttpClient
from exposurekit.service.mail.dkim_signature import ResolveTxt, system_txt
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.scanning import saved_pages
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.scan import ScanContext
from exposurekit.service.scanning.scan_warnings import ScanWarnings
from exposurekit.service.scanning.websearch import Engine
from exposurekit.service.sites import statistics
from exposurekit.service.sites.definition import Definition, Politeness
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.worker import Worker, WorkerConfig
from exposurekit.text.sanitize import escaped

KEY = Vault.generate_key()
LOOPBACK = ("127.0.0.0/8",)
NO_RESULTS, BLOCKED = "Nobody of that name", "Prove that you are human"
ACCEPTED, REFUSED = "It will be gone", "We must decline"
QUICK = WorkerConfig(idle_s=0.02)
JUNIPER = {
    "first_name": "Juniper",
    "last_name": "Quillfeather",
    "birth_date": 420_000_000,  # in April 1983
    "emails": [{"address": "juniper@example.com"}],
    "phone_numbers": [{"number": "6095550123"}],
    "addresses": [{"address1": "12 Acorn Street", "city": "Oakmere", "state": "CA", "zip": "95999"}],
}
OAKMERE = ("12 Acorn Street, Oakmere, CA",)


@dataclass(frozen=True)
class RawRequest:
    """A request as it came over the wire; header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def payload(self) -> Any:
        return json.loads(self.body)


async def read_request(reader: asyncio.StreamReader) -> RawRequest:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
    method, path, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return RawRequest(method, path, headers, body)


@dataclass
class RawSite:
    """A server; `answer` returns bytes, or an asynchronous iterator of them."""

    answer: Any
    host: str = "127.0.0.1"
    port: int = 0
    got: list[RawRequest] = field(default_factory=list)
    connections: int = 0
    sent: int = 0

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.port}{path}"

    async def resolve(self, _host: str, _port: int) -> list[tuple[str, int]]:
        return [(self.host, self.port)]

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            request = await read_request(reader)
            self.got.append(request)
            async for piece in pieces(self.answer(request)):
                self.sent += len(piece)
                writer.write(piece)
                await writer.drain()
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.transport.abort()


async def pieces(answer: Any) -> AsyncIterator[bytes]:
    if isinstance(answer, bytes):
        yield answer
    else:
        async for piece in answer:
            yield piece


@asynccontextmanager
async def raw_site(answer: Any, host: str = "127.0.0.1", tls: Any = None) -> AsyncIterator[RawSite]:
    site = RawSite(answer, host)
    tasks, writers = set(), []

    def begin(reader, writer):
        writers.append(writer)
        tasks.add(asyncio.get_running_loop().create_task(site.take(reader, writer)))

    server = await asyncio.start_server(begin, host, 0, ssl=tls)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        for _ in range(10):  # asyncio leaks a connection that is being accepted when the server closes
            await asyncio.sleep(0)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:  # also of a task that had not begun
            writer.transport.abort()


# --- sites ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """A listing on a site."""

    reference_id: str
    name: str = "Juniper Quillfeather"
    age: int | None = 42
    locations: tuple[str, ...] = OAKMERE
    aliases: tuple[str, ...] = ()
    town: str = ""  # the town field of the search, if the site has one

    def html(self) -> str:
        age = "" if self.age is None else f"<i class=age>{self.age}</i>"
        places = "".join(f"<u class=place>{escaped(location)}</u>" for location in self.locations)
        others = "".join(f"<u class=aka>{escaped(name)}</u>" for name in self.aliases)
        return f'<li id="{self.reference_id}"><b>{escaped(self.name)}</b>{age}{places}{others}</li>'

    def fits(self, request: Request) -> bool:
        parameters = request.parameters()
        name = f"{parameters.get('first', '')} {parameters.get('last', '')}"
        return name in {self.name, *self.aliases} and self.town in {"", parameters.get("town", self.town)}


def results_page(*cards: Card, following: str | None = None, beside: str = "") -> Response:
    link = "" if following is None else f'<a class=next href="{escaped(following)}">more</a>'
    return html(f"<ul>{''.join(card.html() for card in cards)}</ul>{link}{beside}")


def html_page(number: int) -> Response:
    """One page of many, with a link to another."""
    return results_page(Card(f"r{number}", "Somebody Otherwick"), following=f"?page={number}")


def nobody() -> Response:
    return html(f"<p>{NO_RESULTS}</p>")


@dataclass
class Folk:
    """A people-search site; a test may change its listings and responses at any time."""

    cards: list[Card] = field(default_factory=list)
    search: Callable[[Request], Response] | None = None
    opt_out: Callable[[Request], Response] = lambda _: html(f"<p>{ACCEPTED}</p>")
    robots: Response = field(default_factory=lambda: Response(b"nothing", 404))
    others: dict[str, Callable[[Request], Response]] = field(default_factory=dict)

    def __call__(self, request: Request) -> Response:
        if request.path == "/robots.txt":
            return self.robots
        if request.path == "/search":
            return (self.search or self.matching_cards)(request)
        if request.path == "/opt-out" and request.method == "POST":
            return self.opt_out(request)
        return self.others.get(request.path, lambda _: html("<p>There is no such page.</p>", 404))(request)

    def matching_cards(self, request: Request) -> Response:
        cards = [card for card in self.cards if card.fits(request)]
        return results_page(*cards) if cards else nobody()


class GatedAnswer:
    """A response that waits for `go`; `reached` is set by the first request."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self._answer = answer
        self.reached, self.go = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> Response:
        self.reached.set()
        answer = self._answer(request)

        async def parts():
            while not self.go.is_set():
                yield b""
                await asyncio.sleep(0.002)
            yield answer.body

        return Response(status=answer.status, kind=HTML, parts=parts)

    async def is_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 10), "no request came"


class Town:
    """Hosts on loopback, each a function from request to response; and the requests, in order."""

    def __init__(self) -> None:
        self.hosts: dict[str, Callable[[Request], Response]] = {}
        self.requests: list[Request] = []
        self.port = 0

    def clear(self) -> None:
        self.hosts.clear()
        self.requests.clear()

    def answer(self, request: Request) -> Response:
        self.requests.append(request)
        return self.hosts[request.host](request)

    def of(self, name: str, path: str = "/search") -> list[Request]:
        """A site's requests to a path."""
        return [request for request in self.requests if request.host == host(name) and request.path == path]

    def names(self, name: str) -> list[str]:
        """The names that a site was searched for."""
        return [
            f"{request.parameters().get('first')} {request.parameters().get('last')}"
            for request in self.of(name)
        ]

    def opens(self, name: str, site: Callable[[Request], Response]) -> Any:
        self.hosts[host(name)] = site
        return site

    async def resolve(self, host: str, _port: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", self.port if host in self.hosts else 9)]


@contextmanager
def running_town() -> Iterator[Town]:
    town = Town()
    wire = AsgiTransport(town.answer)
    with running(wire) as base_url:
        town.port = urlsplit(base_url).port or 0
        try:
            yield town
        finally:
            wire.close()


def host(name: str) -> str:
    return f"{name.lower().replace(' ', '-')}.example"


def definition(name: str = "Seekfolk", **changed: Mapping[str, Any]) -> Definition:
    """The definition of a `Folk` with manual removals, with changes."""
    at = f"http://{host(name)}"
    parts: dict[str, dict[str, Any]] = {
        "search": {
            "url": f"{at}/search",
            "fields": {"first": "{first_name}", "last": "{last_name}"},
            "no_results": NO_RESULTS,
            "blocked": BLOCKED,
            "next": "a.next@href",
            "pages_max": 3,
            "timeout_s": 5,
        },
        "listings": {
            "item": "li",
            "name": "b",
            "reference_id": "@id",
            "age": ".age",
            "locations": ".place",
            "aliases": ".aka",
        },
        "removal": {"method": "manual"},
        "politeness": {"delay_s": 0, "concurrency": 8},
    }
    for part, values in changed.items():
        parts[part] = parts.get(part, {}) | dict(values)
    fields = {
        "name": name,
        "guide": f"{name} lists people.",
        "opt_out_procedure": ["Open the form.", "Press Remove."],
        "opt_out_url": f"{at}/opt-out",
    }
    return Definition.model_validate(fields | parts)


def by_form(name: str = "Seekfolk", **changed: Any) -> dict[str, Any]:
    """The removal of a site with a form."""
    form = {
        "method": "form",
        "url": f"http://{host(name)}/opt-out",
        "fields": {"reference": "{reference_id}", "first": "{first_name}", "last": "{last_name}"},
        "user_fields_required": ["first_name", "last_name"],
        "accepted": ACCEPTED,
        "refused": REFUSED,
        "processing_days": 2,
    }
    return form | changed


# --- a service --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class House(Service):
    """A service over HTTP, with direct access to its database, a worker and the clock."""

    directory: Path
    resolve: Any
    definitions: dict[str, Definition]
    engine: Engine | None = None
    mail: MailSettings | None = None
    resolve_txt: ResolveTxt = system_txt

    def clear(self) -> None:
        """Delete all users and sites."""
        self.definitions.clear()

        async def delete_all(work):
            await work.run(delete(tables.users))
            await work.run(delete(tables.sites))

        self.work(delete_all)

    def has(self, *definitions: Definition) -> None:
        self.definitions.clear()
        self.definitions.update({site.name: site for site in definitions})

    def another_database(self) -> Database:
        """Another connection, as of another process."""
        return a_database(self.directory, key=KEY, clock=self.clock)

    @cached_property
    def _behind(self) -> Database:
        return self.another_database()

    def behind(self, do: Callable[[Database], Awaitable[Any]]) -> Any:
        """Use another connection; statements are compiled for all of them together, which takes longer than to run them."""

        async def done():
            async with opened(self._behind) as database:
                return await do(database)

        return asyncio.run(done())

    def work(self, function: Callable[[Session], Awaitable[Any]]) -> Any:
        async def worked(database):
            async with database.writing() as work:
                return await function(work)

        return self.behind(worked)

    def worker(self, database: Database, *, config: WorkerConfig | None = None) -> Worker:
        mail = {"mail": self.mail, "resolve_txt": self.resolve_txt}
        return a_worker(database, self.resolve, self.definitions, engine=self.engine, config=config, **mail)

    def save_page(self, user: Mapping[str, Any], name: str, *cards: Card) -> None:
        """Scan a saved page of a site's results, as `users scan` does."""
        site, page = self.definitions[name], results_page(*cards).body
        page = saved_pages.read(site, b"<!DOCTYPE html><html><body>" + page + b"</body></html>")

        async def scan(work: Session) -> None:
            await saved_pages.scan_saved(work, user["id"], site, [page])
            action = Action(saved_pages.SCAN_COMMAND, f"user {user['id']}", {"site": name})
            await append(work, action, actor="jo")

        self.work(scan)

    def idle(self) -> int:
        """Do all work that is due now."""
        return self.behind(lambda database: self.worker(database).run_until_idle())

    def advance(self, days: float = 0, **by: float) -> None:
        """Let time pass, and do what becomes due at its time."""
        until = self.clock.now() + timedelta(days=days, **by)

        async def pass_by(database):
            worker = self.worker(database)
            await worker.run_until_idle()
            while (due := await worker.next_due()) is not None and due <= until:
                self.clock.advance(max(due - self.clock.now(), timedelta()))
                await worker.run_until_idle()
            self.clock.advance(until - self.clock.now())

        self.behind(pass_by)

    def juniper(self, **changed: Any) -> dict[str, Any]:
        """A new user, not yet scanned."""
        response = self.call("POST", "/users", json=JUNIPER | {"async": True} | changed)
        return json_body(response)["user"]

    def scanned_juniper(self, **changed: Any) -> dict[str, Any]:
        user = self.juniper(**changed)
        self.idle()
        return user

    def records(self, user: dict[str, Any]) -> list[dict[str, Any]]:
        return [item["record"] for item in self.get(user, "/records")["records"]]

    def statuses(self, user: dict[str, Any]) -> dict[str, str]:
        return {record["reference_id"]: record["status"] for record in self.records(user)}

    def alerts(self, user: dict[str, Any]) -> list[dict[str, Any]]:
        return self.get(user, "/alerts")["alerts"]

    def alert_titles(self, user: dict[str, Any]) -> list[str]:
        return [alert["text"].partition(":")[0] for alert in self.alerts(user)]

    def rows(self, table: Any = tables.records) -> list[Any]:
        return self.work(lambda work: work.all(select(table).order_by(*table.primary_key)))

    def health(self) -> dict[str, statistics.Health]:
        return {one.site: one for one in self.work(statistics.all)}


def a_worker(
    database: Database,
    resolve: Any,
    definitions: Mapping[str, Definition],
    *,
    engine: Engine | None = None,
    config: WorkerConfig | None = None,
    mail: MailSettings | None = None,
    resolve_txt: ResolveTxt = system_txt,
) -> Worker:
    http = HttpClient(allowed_networks=LOOPBACK, resolve=resolve)
    fetcher = PoliteFetcher(http, database)
    warnings = ScanWarnings()
    web = ScanContext(
        database, definitions, fetcher, engine, mail=mail, resolve_txt=resolve_txt, warnings=warnings
    )
    return Worker(web, HttpClient(allowed_networks=LOOPBACK), config=config)


@contextmanager
def a_house(
    directory: Path,
    resolve: Any,
    *definitions: Definition,
    clock: FrozenClock | None = None,
    engine: str | None = None,
    attested_by: str | None = "the operator",
    works: bool = False,
    config: WorkerConfig = QUICK,
    mail: MailSettings | None = None,
    resolve_txt: ResolveTxt = system_txt,
    **options: Any,
) -> Iterator[House]:
    """A service with one integrator, who attests every consent; with `works`, a worker inside."""
    clock = clock or FrozenClock(START)
    database = a_database(directory, key=KEY, clock=clock)
    sites = {site.name: site for site in definitions}
    unthrottled = Politeness(delay_s=0, concurrency=16, robots_txt=False)
    searched = None if engine is None else Engine(engine, politeness=unthrottled, timeout_s=3)

    async def prepare():
        async with opened(a_database(directory, key=KEY, clock=clock)) as behind, behind.writing() as work:
            return await integrators.add(work, "acme", attested_by=attested_by)

    credentials = asyncio.run(prepare())
    if works:
        options["worker"] = a_worker(database, resolve, sites, engine=searched, config=config)
    with (
        running(create_app(database, **options)) as base_url,
        httpx.Client(timeout=30, verify=certificates()) as http,
    ):
        house = House(
            base_url, database, credentials, http, clock, directory, resolve, sites, engine=searched
        )
        yield replace(house, mail=mail, resolve_txt=resolve_txt)


def without_delay(site: Definition) -> Definition:
    """The same site without a delay between requests."""
    return site.model_copy(update={"politeness": site.politeness.model_copy(update={"delay_s": 0})})


def query(request: Request, **changed: str) -> str:
    """The request's query with changes."""
    return f"?{urlencode(dict(request.query) | changed)}"
