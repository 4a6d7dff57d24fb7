"""Requests and responses of the invented web as plain values, and the ASGI application that carries them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.responses import StreamingResponse

from exposurekit.system.asgi_server import Receive, Scope, Send

HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
STEP_S = 0.05  # how often a delayed response checks whether the client is still there


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """A parsed request."""

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    def parameters(self) -> Mapping[str, str]:
        """Return the form's fields for POST, else those of the query."""
        return self.form if self.method == "POST" else self.query

    def page_number(self, name: str) -> int:
        """Return the number of the page of results in a parameter; 1 if it is not a number."""
        text = self.parameters().get(name, "1")
        return max(int(text), 1) if text.isascii() and text.isdigit() and len(text) < 5 else 1  # noqa: PLR2004


@dataclass(frozen=True, slots=True, repr=False)
class Response:
    """A response: a body after a delay, or a stream of parts."""

    body: bytes = b""
    status: int = 200
    kind: str = HTML
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0
    parts: Callable[[], AsyncIterator[bytes]] | None = None


def html(text: str, status: int = 200, *, encoding: str = "utf-8") -> Response:
    """Return an HTML response; characters that the encoding lacks become character references."""
    return Response(text.encode(encoding, "xmlcharrefreplace"), status, f"text/html; charset={encoding}")


def text(body: str, status: int = 200) -> Response:
    """Return a plain-text response."""
    return Response(body.encode(), status, TEXT)


def redirect(to: str) -> Response:
    """Return a redirect."""
    return Response(status=302, kind=TEXT, headers=(("location", to),))


class AsgiTransport:
    """An ASGI application made of a function from a request to a response."""

    def __init__(self, respond: Callable[[Request], Response]) -> None:
        self._respond = respond
        self._closed = False

    def close(self) -> None:
        """End the responses that are still being sent."""
        self._closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the server's lifespan events."""
        if scope["type"] == "lifespan":
            for event in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{event}.complete"})
            return
        response = await self._response(HttpRequest(scope, receive, send))
        await response(scope, receive, send)

    async def _response(self, request: HttpRequest) -> HttpResponse:
        response = self._respond(await _parsed(request))
        until = asyncio.get_running_loop().time() + response.delay_s
        while (remaining := until - asyncio.get_running_loop().time()) > 0 and not self._closed:
            if await request.is_disconnected():
                break
            await asyncio.sleep(min(remaining, STEP_S))
        headers = {"content-type": response.kind, **dict(response.headers)}
        if response.parts is None:
            return HttpResponse(response.body, response.status, headers)
        return StreamingResponse(self._parts(response.parts()), response.status, headers)

    async def _parts(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for part in parts:
            if self._closed:
                break
            yield part
            await asyncio.sleep(0)  # so that the server learns of a closed connection before the next part


async def _parsed(request: HttpRequest) -> Request:
    is_form = request.method == "POST"
    return Request(
        method=request.method,
        host=request.headers.get("host", "").partition(":")[0].lower(),
        path=request.scope["path"],
        query=_fields(request.scope["query_string"]),
        form=_fields(await request.body()) if is_form else {},
        cookies=request.cookies,
    )


def _fields(encoded: bytes) -> dict[str, str]:
    return dict(parse_qsl(encoded.decode("latin-1"), keep_blank_values=True))
