"""Helpers for tests of the toolkit: both clients behind one face, a big service, and tables as plain rows."""

import asyncio
import contextlib
import inspect
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
from support import deviating_server, faults

import exposurekit as ek
from exposurekit.client import AsyncClient, Client, RetryPolicy

# No test needs certificate authorities, and each client would take 30 ms to load them: this folder has none.
os.environ.setdefault("SSL_CERT_DIR", str(Path(__file__).parent))
FACES = ("blocking", "awaiting")
AT_ONCE = RetryPolicy(initial_delay=0)  # retries, and no sleep between


class Awaited:
    """An AsyncClient with the methods of a Client: each call runs to its end in a loop of its own."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client
        self._runner = asyncio.Runner()

    def __repr__(self) -> str:
        return repr(self.client)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)
        if not callable(method):
            return method

        async def completed(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            return [item async for item in result] if inspect.isasyncgen(result) else await result

        return lambda *args, **kwargs: self._runner.run(completed(*args, **kwargs))

    def close(self) -> None:
        self._runner.run(self.client.aclose())
        self._runner.close()


def create_client(face: str, base_url: str, **settings: Any) -> Any:
    """One of the two clients, for the server of these tests; the caller closes it."""
    defaults = {
        "integration_name": deviating_server.INTEGRATION_NAME,
        "api_key": deviating_server.API_KEY,
        "api_secret": deviating_server.API_SECRET,
        "retries": AT_ONCE,
    }
    if face == "blocking":
        return Client(str(base_url), **(defaults | settings))
    return Awaited(AsyncClient(str(base_url), **(defaults | settings)))


@contextmanager
def connected(face: str, base_url: str, **settings: Any) -> Iterator[Any]:
    """One of the two clients, for as long as the block lasts."""
    client = create_client(face, base_url, **settings)
    try:
        yield client
    finally:
        client.close()


def many(
    ids: Any, meddle: Callable[[faults.Request, int | None], faults.Fault | None] = lambda _request, _id: None
) -> Callable[[faults.Request], faults.Fault | None]:
    """A script for `faults.running`: a service of many people, each the one person under another id.

    ``meddle`` gets each request with its user id, and may return another response.
    """
    keys = [{"id": number, "secret": f"secret-{number}"} for number in ids]

    def script(request: faults.Request) -> faults.Fault | None:
        match = re.search(r"/users/(\d+)", request.path)
        number = int(match[1]) if match else None
        if (fault := meddle(request, number)) is not None:
            return fault
        if request.operation == "list_users":
            start, limit = int(request.query.get("offset", 0)), int(request.query.get("limit", 100))
            return json_response({"count": len(keys), "users": keys[start : start + limit]})
        if request.operation == "get_user":
            user = faults.BODIES["get_user"]["user"]
            return json_response({"user": user | {"id": number, "secret": f"secret-{number}"}})
        return None

    return script


@contextmanager
def stopping(n_loaded: int, n_people: int) -> Iterator[ek.Exposure]:
    """An exposure whose first load is stopped by Ctrl-C when this many of its people were fetched."""
    waiting, over = threading.Event(), threading.Event()

    def blocked(_request: faults.Request, number: int | None) -> None:
        if number is not None and number > n_loaded:
            waiting.set()
            over.wait(60)

    def stop() -> None:
        waiting.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=stop)
    with faults.running(many(range(1, n_people + 1), blocked)) as server:
        interrupter.start()
        try:
            with create_client("blocking", server.base_url) as client:
                yield ek.connect(client=client, concurrency=1, progress=False)
        finally:
            over.set()
            interrupter.join()


@contextmanager
def stopped(n_loaded: int, n_people: int) -> Iterator[ek.Exposure]:
    """An exposure whose load was stopped by Ctrl-C when this many of its people were fetched."""
    with stopping(n_loaded, n_people) as exposure:
        with contextlib.suppress(KeyboardInterrupt):
            exposure.refresh()
        yield exposure


def with_fields(
    fields_of: Callable[[int], dict[str, Any]],
) -> Callable[[faults.Request, int | None], faults.Fault | None]:
    """For `many`: Get user returns the person with these fields of the user id."""

    def meddle(request: faults.Request, number: int | None) -> faults.Fault | None:
        if number is None or request.operation != "get_user":
            return None
        person = faults.BODIES["get_user"]["user"] | {"id": number, "secret": f"secret-{number}"}
        return json_response({"user": person | fields_of(number)})

    return meddle


def json_response(body: Any) -> faults.Answer:
    """A 200 with this body."""
    return faults.Answer(body=json.dumps(body).encode())


def rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A table as plain rows: None for what is missing, lists for lists, epoch seconds for instants."""
    return [{name: _plain(value) for name, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, pd.Timestamp):
        return int(value.timestamp())
    if isinstance(value, str | bool | int):
        return value
    if hasattr(value, "__len__"):
        return list(value)
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def respond(request: httpx.Request) -> httpx.Response:
    """A service without a socket: two people, one of them with a record."""
    path = request.url.path
    if path.endswith("/users.json"):
        users = [{"id": person["id"], "secret": person["secret"]} for person in deviating_server.PEOPLE[:2]]
        return httpx.Response(200, json={"count": 2, "users": users})
    person = next(person for person in deviating_server.PEOPLE if f"/users/{person['id']}" in path)
    if path.endswith("/alerts.json"):
        return httpx.Response(200, json={"alerts": person["alerts"]})
    return httpx.Response(200, json={"user": {name: person[name] for name in person if name != "alerts"}})
