"""The service, a make-believe population and the toolkit, tied together on loopback. Keeps nothing when it ends."""

import atexit
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from exposurekit.client import Client, behind
from exposurekit.client.progress import progress_bar
from exposurekit.errors import NEEDS_SERVICE, Misconfigured
from exposurekit.exposure import Exposure, connect

PEOPLE, SEED = 25, 7
NAME = "demo"


@dataclass(frozen=True, slots=True)
class Demo:
    """A service that runs, and the ways to look at it. Ends with its ``with`` block, `close`, or the process.

    Attributes:
        exposure: Everyone registered there, as tables; loaded on first use.
        client: The eight operations.
        connection: What `connect` and `Client` need to connect to it once more.
    """

    exposure: Exposure
    client: Client
    connection: dict[str, str] = field(repr=False)
    _running: ExitStack = field(repr=False)

    def close(self) -> None:
        """End the service; its people and its database go with it. The second time nothing."""
        self._running.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def demo(people: int = PEOPLE, *, seed: int = SEED, progress: bool | None = None) -> Demo:
    """A service of its own, with invented people found on invented sites; a value, and a context manager.

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
    try:
        from exposurekit.service.front.app import create_app
        from exposurekit.service.front.server import running
        from exposurekit.service.vault import Vault
        from exposurekit.service.world.people import invent
    except ModuleNotFoundError:
        raise Misconfigured(NEEDS_SERVICE) from None
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="exposurekit-demo-"))
        store = _Store(f"sqlite:///{Path(directory) / 'service.db'}", Vault(Vault.generate_key()))
        base_url = stack.enter_context(running(create_app(store.database())))
        connection = {"base_url": base_url} | store.add_integrator()
        client = stack.enter_context(_client(connection))
        registered = _register(client, invent(people, seed), progress)
        store.let_happen(registered, seed, progress)
        made = Demo(connect(client=client, progress=progress), client, connection, stack.pop_all())
    atexit.register(made.close)
    return made


@dataclass(frozen=True, slots=True)
class _Store:
    """The service's database, from behind: what an operator and a scan would do."""

    url: str
    vault: Any = field(repr=False)

    def database(self) -> Any:
        from exposurekit.service.clock import Clock
        from exposurekit.service.database import Database

        return Database(self.url, vault=self.vault, clock=Clock())

    def add_integrator(self) -> dict[str, str]:
        from exposurekit.service import integrators

        found: dict[str, str] = {}

        async def add() -> None:
            database = await self.database().open()
            async with database.writing() as work:
                made = await integrators.add(work, NAME)
            await database.close()
            found.update(integration_name=NAME, api_key=made.api_key, api_secret=made.api_secret)

        behind.run(add, _nothing)
        return found

    def let_happen(self, registered: dict[int, Any], seed: int, progress: bool | None) -> None:  # noqa: FBT001
        """What each person's story says, through the same functions that a scan calls."""
        from exposurekit.service.world.stories import story_of
        from exposurekit.service.world.telling import tell

        told = 0

        async def tell_all() -> None:
            nonlocal told
            database = await self.database().open()
            try:
                for user_id, person in registered.items():
                    async with database.writing() as work:
                        await tell(work, user_id, story_of(person, seed))
                    told += 1
            finally:
                await database.close()

        with progress_bar("people looked up", progress) as bar:
            behind.run(tell_all, lambda: bar(told, len(registered)))


def _client(connection: dict[str, str]) -> Client:
    return Client(
        connection["base_url"],
        integration_name=connection["integration_name"],
        api_key=connection["api_key"],
        api_secret=connection["api_secret"],
    )


def _register(client: Client, population: list[Any], progress: bool | None) -> dict[int, Any]:  # noqa: FBT001
    registered: dict[int, Any] = {}
    with progress_bar("people registered", progress) as bar:
        for person in population:
            user = client.create_user(**person.request(), asynchronous=False)
            registered[user.id] = person
            bar(len(registered), len(population))
    return registered


def _nothing() -> None:
    """Nobody is looking."""
