"""Requests in, answers out: routes read off the operations table. Decides nothing about people."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from exposurekit.contract.operations import OPERATIONS, PREFIX, Operation
from exposurekit.service.accounts.integrators import API_KEY
from exposurekit.service.api import middleware, openapi, requests, responses
from exposurekit.service.api.cache import BYTES_MAX, ResponseCache
from exposurekit.service.api.handlers import ApiContext, answer
from exposurekit.service.api.rate_limits import Limits, RateLimiter
from exposurekit.service.api.requests import BODY_TIMEOUT_S
from exposurekit.service.api.scan_wait import WAIT_S, ScanWaiter
from exposurekit.service.errors import ApiError
from exposurekit.service.storage.database import DATABASE_ERRORS, Database
from exposurekit.service.worker import Worker, supervise


def create_app(
    database: Database,
    *,
    worker: Worker | None = None,
    limits: Limits | None = None,
    body_timeout_s: float = BODY_TIMEOUT_S,
    scan_wait_s: float = WAIT_S,
    memory_bytes: int = BYTES_MAX,
) -> Starlette:
    """The service as an ASGI application; it opens the database when it starts and closes it when it ends.

    Args:
        database: Where everything is.
        worker: Works inside, for as long as the application runs; without it, another process must.
        limits: How much a key may ask; without, as much as it likes.
        body_timeout_s: How long a request's body may take.
        scan_wait_s: How long Create user waits for its scan.
        memory_bytes: How much of what was answered is remembered, see `memory`; 0: nothing.
    """
    memory = ResponseCache(memory_bytes)
    scans = ScanWaiter(database, worker, wait_s=scan_wait_s)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await database.open()
        try:
            async with _doing(memory.tidy()), _working(worker):
                try:
                    yield
                finally:
                    with suppress(*DATABASE_ERRORS):  # the leases run out by themselves
                        await scans.close()
        finally:
            memory.clear()
            await database.close()

    middleware.mask_access_log()
    gatekeeper = None if limits is None else RateLimiter(limits)
    app = Starlette(
        routes=list(_routes(_Front(ApiContext(database, scans, memory), gatekeeper, body_timeout_s))),
        middleware=[Middleware(middleware.RequestMiddleware)],
        exception_handlers={HTTPException: responses.unrouted},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a redirect would repeat the key in a header
    return app


@asynccontextmanager
async def _working(worker: Worker | None) -> AsyncIterator[None]:
    """A worker beside the block; if it ends by itself the block is cancelled.

    Raises:
        WorkerCrashed: It did.
    """
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


@asynccontextmanager
async def _doing(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Beside the block, for as long as it lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Segment(Convertor[str]):
    """The last part of a path, up to the suffix that selects the encoding."""

    regex = r"[^/.]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Suffix(_Segment):
    """The suffix: one of the two, or none."""

    regex = r"(?:\.json|\.xml)?"


register_url_convertor("exposurekit_segment", _Segment())
register_url_convertor("exposurekit_suffix", _Suffix())


@dataclass(frozen=True, slots=True)
class _Front:
    desk: ApiContext
    gatekeeper: RateLimiter | None
    body_timeout_s: float


def _routes(front: _Front) -> Iterator[Route]:
    for path, group in groupby(sorted(OPERATIONS, key=_path), key=_path):
        by_method = {operation.method: operation for operation in group}
        pattern = PREFIX + (path.removesuffix("}") + ":exposurekit_segment}" if path.endswith("}") else path)
        endpoint = _Endpoint(front, by_method)
        yield Route(pattern + "{format:exposurekit_suffix}", endpoint, methods=list(by_method))
    document = openapi.document()

    async def describe(request: Request) -> Response:
        return responses.reply(request.scope, document)

    yield Route("/openapi.json", describe, methods=["GET"])


def _path(operation: Operation) -> str:
    return operation.path


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """One path, as an ASGI application: to be called with a request would cost 10 us more."""

    front: _Front
    by_method: dict[str, Operation]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self.by_method["GET" if scope["method"] == "HEAD" else scope["method"]]
        scope[middleware.OPERATION] = operation.name
        try:
            response = await _endpoint_response(self.front, operation, scope, receive)
        except ApiError as refusal:
            response = responses.refused(scope, refusal)
        await response(scope, receive, send)


async def _endpoint_response(front: _Front, operation: Operation, scope: Scope, receive: Receive) -> Response:
    """One request of a key from an address, counted where there are limits; a refusal is counted too."""
    who, address = ("", "") if front.gatekeeper is None else _who(front.desk, scope)
    if front.gatekeeper:
        front.gatekeeper.check(who)
    try:
        asked = await requests.receive(scope, receive, operation, body_timeout_s=front.body_timeout_s)
        encoding = responses.format_of(scope)
        return responses.encoded(await answer(front.desk, asked, encoding), encoding)
    except ApiError as refusal:
        if front.gatekeeper:
            front.gatekeeper.refused(who, address, refusal.status)
        raise


def _who(desk: ApiContext, scope: Scope) -> tuple[str, str]:
    """A key at an address, and the address."""
    key = desk.database.vault.fingerprint(scope["path_params"]["api_key"], API_KEY).hex()
    client = scope.get("client")
    address = str(client[0]) if client else ""
    return f"{key} {address}", address
