"""A real service on a real socket and a real database.

A test that uses the fixture ``store``, or ``service``, runs on SQLite and on PostgreSQL.
"""

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import create_engine
from support import postgres
from support.shell import eventually

from exposurekit.client.transports.httpx import certificates
from exposurekit.service.accounts import integrators
from exposurekit.service.accounts.integrators import Credentials
from exposurekit.service.api.app import create_app
from exposurekit.service.api.server import running
from exposurekit.service.clock import FrozenClock
from exposurekit.service.findings.findings import Listing, Page, Site
from exposurekit.service.storage import migrations
from exposurekit.service.storage.database import Database, Session
from exposurekit.service.storage.encryption import Vault

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JANE = {"first_name": "Jane", "last_name": "Doe", "addresses": [{"city": "Oakmere", "state": "CA"}]}
SITE = Site(
    name="People & Places",
    guide="Lists people by name.",
    opt_out_procedure=("Open the form.", "Press Remove."),
    opt_out_url="https://places.example/opt-out",
    user_fields_required_for_removal=("first_name", "address1"),
    opt_out_fields=("first_name", "address1"),
)
LISTING = Listing(
    name="Jane Q. Doe",
    reference_id="000560228488",
    age=41,
    href="https://places.example/jane",
    relations=("John Doe",),
    aliases=("Janie Doe",),
    locations=("Oakmere, CA",),
)
PAGE = Page(url="https://club.example/members", title="Members", contains=("email", "phone"))


@dataclass(frozen=True)
class Service:
    base_url: str
    database: Database
    credentials: Credentials
    http: httpx.Client
    clock: FrozenClock

    @property
    def root(self) -> str:
        return f"{self.base_url}/api/{self.credentials.integration_name}/{self.credentials.api_key}/v2"

    def call(self, method: str, path: str, user: Any = None, **options: Any) -> httpx.Response:
        """One request with the integrator's secret, and the user's if there is one, in the query."""
        query = {"api_secret": self.credentials.api_secret, **options.pop("params", {})}
        if user is not None:
            query["secret"] = user["secret"]
        return self.http.request(method, self.root + path, params=query, **options)

    def create(self, **fields: Any) -> dict[str, Any]:
        return json_body(self.call("POST", "/users", json=JANE | fields))["user"]

    def update(self, user: dict[str, Any], **fields: Any) -> dict[str, Any]:
        return json_body(self.call("PUT", f"/users/{user['id']}", user, json=fields))["user"]

    def get(self, user: dict[str, Any], path: str = "") -> Any:
        return json_body(self.call("GET", f"/users/{user['id']}{path}", user))

    def becomes_unavailable(self) -> None:
        """Wait until the service has noticed that its database is gone: reads check it a few times a second."""
        eventually(lambda: self.http.get(f"{self.base_url}/health").status_code == 503)

    def work(self, function: Callable[[Session], Awaitable[Any]]) -> Any:
        """Run a function in one transaction, as a scan would."""
        return at_work(self.database, function)


def at_work(database: Database, function: Callable[[Session], Awaitable[Any]]) -> Any:
    async def work() -> Any:
        async with database.writing() as work:
            return await function(work)

    return asyncio.run(work())


@asynccontextmanager
async def opened(database: Database) -> AsyncIterator[Database]:
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def in_event_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an asynchronous test in an event loop of its own."""

    @wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(test(**arguments))

    return run


async def tasks_rest() -> None:
    """Let every task run until it waits: by turns of the event loop, however long each takes."""
    for _ in range(50):
        await asyncio.sleep(0)


def json_body(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


STORES = ("sqlite", "postgresql")
_stored_in = "sqlite"
_on_postgresql: dict[Path, str] = {}


@contextmanager
def stored_in(store: str) -> Iterator[None]:
    """The databases of this block are of one kind; each directory has one."""
    global _stored_in  # noqa: PLW0603  one fixture sets it, for the tests of one module
    before, _stored_in = _stored_in, store
    earlier = set(_on_postgresql)
    try:
        yield
    finally:
        _stored_in = before
        for directory in _on_postgresql.keys() - earlier:
            postgres.drop(_on_postgresql.pop(directory))


def url_of(directory: Path, *, template: str | None = None) -> str:
    if _stored_in == "sqlite":
        return f"sqlite:///{directory / 'service.db'}"
    if directory not in _on_postgresql:
        _on_postgresql[directory] = postgres.new_database(template)
    return _on_postgresql[directory]


@cache
def _template(store: str) -> str:
    """A migrated database without a key: the name of PostgreSQL's, or the file. To copy it is faster than to migrate."""
    if store == "sqlite":
        directory = tempfile.mkdtemp(prefix="exposurekit-template-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        name = f"{directory}/template.db"
        url = f"sqlite:///{name}"
    else:
        url = postgres.new_database()
        name = postgres.name_of(url)
    engine = create_engine(url)
    with engine.begin() as connection:
        migrations.migrate(connection)
    engine.dispose()
    return name


def a_database(
    directory: Path, *, key: bytes | None = None, clock: FrozenClock | None = None, **options: Any
) -> Database:
    """The database of a directory; a new one is already migrated."""
    url = url_of(directory, template=None if _stored_in == "sqlite" else _template("postgresql"))
    file = directory / "service.db"
    if _stored_in == "sqlite" and directory.is_dir() and not file.exists():
        file.touch(mode=0o600)
        shutil.copyfile(_template("sqlite"), file)
    vault = Vault(key or Vault.generate_key())
    return Database(url, vault=vault, clock=clock or FrozenClock(START), **options)


@contextmanager
def a_service(directory: Path, *, store: dict[str, Any] | None = None, **options: Any) -> Iterator[Service]:
    """A service with one integrator, for as long as the block lasts."""
    clock = FrozenClock(START)
    database = a_database(directory, clock=clock, **(store or {}))

    async def prepare() -> Credentials:
        await database.open()
        async with database.writing() as work:
            return await integrators.add(work, "acme")

    credentials = asyncio.run(prepare())
    with (
        running(create_app(database, **options)) as base_url,
        httpx.Client(timeout=30, verify=certificates()) as http,
    ):
        yield Service(base_url, database, credentials, http, clock)
