"""The ASGI application: paths, built from the operations table."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope

from exposurekit.contract import codec
from exposurekit.service.accounts.integrators import API_KEY
from exposurekit.service.api import middleware, openapi, requests, responses, targets
from exposurekit.service.api.handlers import ApiContext, handle
from exposurekit.service.api.rate_limits import Limits, RateLimiter, SharedCounts
from exposurekit.service.api.requests import BODY_TIMEOUT_S, MEMORY_MAX, ApiRequest
from exposurekit.service.api.responses import Response
from exposurekit.service.api.scan_wait import WAIT_S, ScanWaiter
from exposurekit.service.api.turns import Turn, Turns
from exposurekit.service.errors import ApiError
from exposurekit.service.storage.database import DATABASE_ERRORS, Database
from exposurekit.service.storage.tables import users
from exposurekit.service.worker import Worker, supervise
from exposurekit.system.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_ANY_USER = select(users.c.id).limit(1)


def create_app(
    database: Database,
    *,
    worker: Worker | None = None,
    limits: Limits | None = None,
    body_timeout_s: float = BODY_TIMEOUT_S,
    body_memory_max: int = MEMORY_MAX,
    scan_wait_s: float = WAIT_S,
    counts: SharedCounts | None = None,
    registry: "CollectorRegistry | None" = None,
) -> ASGIApp:
    """Create the service's ASGI application, which opens the database at startup and closes it at shutdown.

    A worker runs inside it; without one, another process must run it. Without limits, there are no rate limits; with
    shared counts, they are those of several processes. With a registry of metrics, requests are counted in it.
    """
    scans = ScanWaiter(database, worker, wait_s=scan_wait_s)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        await database.open(writable=True)
        try:
            async with _running_worker(worker):
                try:
                    yield
                finally:
                    with suppress(*DATABASE_ERRORS):  # the leases expire by themselves
                        await scans.close()
        finally:
            await database.close()

    middleware.mask_access_log()
    rate_limiter = None if limits is None else RateLimiter(limits, counts)
    api = _Api(
        ApiContext(database, scans),
        rate_limiter,
        body_timeout_s,
        MemoryBudget(body_memory_max),
        Turns(),
    )
    count = None
    if registry is not None:
        from exposurekit.service.api.metrics import RequestMetrics

        count = RequestMetrics(registry).count
    return middleware.RequestMiddleware(
        _Service(api).respond, Router(lifespan=lifespan).lifespan, count, explain=database.explain
    )


@asynccontextmanager
async def _running_worker(worker: Worker | None) -> AsyncIterator[None]:
    """Run a worker for the duration of the block; if it crashes, cancel the block and raise its `WorkerCrashed`."""
    if worker is None:
        yield
        return
    block = asyncio.current_task()
    task = asyncio.create_task(supervise(worker))

    def end_the_block(_: asyncio.Task[None]) -> None:
        if block is not None:
            block.cancel()

    task.add_done_callback(end_the_block)
    try:
        yield
    finally:
        task.remove_done_callback(end_the_block)
        if task.done():
            task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Api:
    context: ApiContext
    rate_limiter: RateLimiter | None
    body_timeout_s: float
    memory: MemoryBudget
    turns: Turns


async def _describe(_: Database) -> Response:
    return Response(_document(), "json")


async def _check_health(database: Database) -> Response:
    """Answer 200 if the database can be read; otherwise the middleware answers 503."""
    async with database.reading() as session:
        await session.first(_ANY_USER)
    return Response(b'{"status":"ok"}', "json")


# Paths that are of no operation; their method is GET.
_OTHER_PATHS: dict[str, Callable[[Database], Awaitable[Response]]] = {
    "/openapi.json": _describe,
    "/health": _check_health,
}
_GET_METHODS = ("GET", "HEAD")


@cache
def _document() -> bytes:
    return codec.encode(openapi.document(), "json")


class _Service:
    """What responds to requests, without the routes and objects of Starlette, which cost each some microseconds."""

    def __init__(self, api: _Api) -> None:
        self._api = api

    async def respond(self, scope: Scope, receive: Receive) -> Response:
        """Return the response to one request."""
        target = targets.find(scope)
        if target is None:
            return await self._other(scope)
        if target.operation is None:
            return responses.wrong_method(scope, target.methods)
        scope[middleware.OPERATION] = target.operation.name
        api, encoding = self._api, responses.format_of(scope)
        key_digest = api.context.database.vault.fingerprint(target.api_key, API_KEY)
        client = scope.get("client")
        address = str(client[0]) if client else ""
        client_key = f"{key_digest.hex()} {address}"
        request = ApiRequest(target, target.operation, key_digest, scope, receive)

        def process(turn: Turn) -> Coroutine[Any, Any, bytes]:
            return handle(api.context, request, turn, encoding)

        try:
            if api.rate_limiter:
                api.rate_limiter.check(client_key)
            if not requests.announces_body(scope):
                return Response(await api.turns.take(client_key, process), encoding)
            with ExitStack() as reserved:
                await requests.receive_body(
                    request, memory=api.memory, reserved=reserved, timeout_s=api.body_timeout_s
                )
                body = await api.turns.take(client_key, process, body_bytes=len(request.body))
                return Response(body, encoding)
        except ApiError as refusal:
            error = self._counted(refusal, client_key, address)
            scope[middleware.REASON] = error.reason
            return responses.api_error(scope, error)

    def _counted(self, refusal: ApiError, client_key: str, address: str) -> ApiError:
        """Count a refusal if there are limits; return it, or the one of a limit that it exceeds."""
        try:
            if self._api.rate_limiter:
                self._api.rate_limiter.count_error(client_key, address, refusal.status)
        except ApiError as exceeded:
            return exceeded
        return refusal

    async def _other(self, scope: Scope) -> Response:
        respond = _OTHER_PATHS.get(scope["path"])
        if respond is None:
            return responses.unknown_path(scope)
        if scope["method"] not in _GET_METHODS:
            return responses.wrong_method(scope, _GET_METHODS)
        return await respond(self._api.context.database)
