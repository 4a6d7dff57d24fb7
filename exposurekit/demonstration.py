"""The service, a make-believe population and the toolkit, tied together on loopback. Keeps nothing when it ends."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from exposurekit.client import Client, behind
from exposurekit.client.progress import progress_bar
from exposurekit.errors import Misconfigured
from exposurekit.exposure import Exposure, connect

try:
    from exposurekit.service import integrators
    from exposurekit.service.app import create_app
    from exposurekit.service.clock import Clock
    from exposurekit.service.database import Database
    from exposurekit.service.server import running
    from exposurekit.service.vault import Vault
    from exposurekit.service.world.people import Person, invent
    from exposurekit.service.world.stories import story_of
    from exposurekit.service.world.telling import tell
except ModuleNotFoundError as missing:
    raise Misconfigured(
        f"This needs the service, and {missing.name} is missing: pip install 'exposurekit[service]'"
    ) from None

PEOPLE, SEED = 25, 7
NAME = "demo"


@dataclass(frozen=True, slots=True)
class Demo:
    """A service that runs, and the ways to look at it.

    Attributes:
        exposure: Everyone registered there, as tables; loaded on first use.
        client: The eight operations.
        connection: What `connect` and `Client` need to connect to it once more.
    """

    exposure: Exposure
    client: Client
    connection: dict[str, str] = field(repr=False)


@contextmanager
def demo(people: int = PEOPLE, *, seed: int = SEED, progress: bool | None = None) -> Iterator[Demo]:
    """A service of its own for as long as the block lasts, with invented people found on invented sites.

    Real HTTP on a loopback socket, a real database in a temporary directory; nothing leaves the machine.

    Args:
        people: How many people are registered; 0 or more.
        seed: The same seed gives the same people, listings and links.
        progress: Whether to show a progress bar; None: in a notebook and in a terminal.

    Raises:
        Misconfigured: The extra ``service`` is not installed, or ``people`` is negative.

    >>> with ek.demo(people=3) as small:
    ...     len(small.exposure.users())
    3
    """
    if people < 0:
        raise Misconfigured("people is zero or more")
    with tempfile.TemporaryDirectory(prefix="exposurekit-demo-") as directory:
        url, vault = f"sqlite:///{Path(directory) / 'service.db'}", Vault(Vault.generate_key())
        with running(create_app(Database(url, vault=vault, clock=Clock()))) as base_url:
            connection = {"base_url": base_url} | _add_integrator(url, vault)
            with _client(connection) as client:
                registered = _register(client, invent(people, seed), progress)
                _let_happen(registered, seed, progress, url, vault)
                yield Demo(connect(client=client, progress=progress), client, connection)


def _add_integrator(url: str, vault: Vault) -> dict[str, str]:
    found: dict[str, str] = {}

    async def add() -> None:
        database = await Database(url, vault=vault, clock=Clock()).open()
        async with database.writing() as work:
            made = await integrators.add(work, NAME)
        await database.close()
        found.update(integration_name=NAME, api_key=made.api_key, api_secret=made.api_secret)

    behind.run(add, _nothing)
    return found


def _client(connection: dict[str, str]) -> Client:
    return Client(
        connection["base_url"],
        integration_name=connection["integration_name"],
        api_key=connection["api_key"],
        api_secret=connection["api_secret"],
    )


def _register(client: Client, population: list[Person], progress: bool | None) -> dict[int, Person]:  # noqa: FBT001
    registered: dict[int, Person] = {}
    with progress_bar("people registered", progress) as bar:
        for person in population:
            user = client.create_user(**person.request(), asynchronous=False)
            registered[user.id] = person
            bar(len(registered), len(population))
    return registered


def _let_happen(
    registered: dict[int, Person],
    seed: int,
    progress: bool | None,  # noqa: FBT001
    url: str,
    vault: Vault,
) -> None:
    """What each person's story says, through the same functions that a scan calls."""
    told = 0

    async def tell_all() -> None:
        nonlocal told
        database = await Database(url, vault=vault, clock=Clock()).open()
        try:
            for user_id, person in registered.items():
                async with database.writing() as work:
                    await tell(work, user_id, story_of(person, seed))
                told += 1
        finally:
            await database.close()

    with progress_bar("people looked for", progress) as bar:
        behind.run(tell_all, lambda: bar(told, len(registered)))


def _nothing() -> None:
    """Nobody is looking."""
