"""Requests in, answers out: routes read off the operations table. Decides nothing about people."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import groupby

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exposurekit.contract.operations import OPERATIONS, PREFIX, Operation
from exposurekit.service.database import Database
from exposurekit.service.front import openapi, replies, watch
from exposurekit.service.front.answers import answer
from exposurekit.service.front.requests import BODY_TIMEOUT_S, receive
from exposurekit.service.refusals import Refusal

Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(database: Database, *, body_timeout_s: float = BODY_TIMEOUT_S) -> Starlette:
    """The service as an ASGI application; it opens the database when it starts and closes it when it ends."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await database.open()
        yield
        await database.close()

    watch.mask_access_log()
    app = Starlette(
        routes=list(_routes(database, body_timeout_s)),
        middleware=[Middleware(watch.Watch)],
        exception_handlers={HTTPException: replies.unrouted},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # a redirect would repeat the key in a header
    return app


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


def _routes(database: Database, body_timeout_s: float) -> Iterator[Route]:
    for path, group in groupby(sorted(OPERATIONS, key=_path), key=_path):
        by_method = {operation.method: operation for operation in group}
        pattern = PREFIX + (path.removesuffix("}") + ":exposurekit_segment}" if path.endswith("}") else path)
        endpoint = _endpoint(database, by_method, body_timeout_s)
        yield Route(pattern + "{format:exposurekit_suffix}", endpoint, methods=list(by_method))
    document = openapi.document()

    async def describe(request: Request) -> Response:
        return replies.reply(request.scope, document)

    yield Route("/openapi.json", describe, methods=["GET"])


def _path(operation: Operation) -> str:
    return operation.path


def _endpoint(database: Database, by_method: dict[str, Operation], body_timeout_s: float) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        operation = by_method["GET" if request.method == "HEAD" else request.method]
        request.scope[watch.OPERATION] = operation.name
        asked = await receive(request, operation, body_timeout_s=body_timeout_s)
        try:
            return replies.reply(request.scope, await answer(database, asked))
        except Refusal as refusal:
            return replies.refused(request.scope, refusal)

    return endpoint
