"""Requests and responses of the invented web as plain values, and the ASGI application that carries them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
BODY_MAX = 64 * 1024
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
            await _run_lifespan(receive, send)
            return
        request = await _read(scope, receive)
        response = self._respond(request)
        if response.parts or response.delay_s:
            await self._send_slowly(response, receive, send)
        else:
            await _send(response, send)

    async def _send_slowly(self, response: Response, receive: Receive, send: Send) -> None:
        disconnected = asyncio.ensure_future(_disconnected(receive))
        try:
            await self._wait(response.delay_s, disconnected)
            if response.parts is None:
                await _send(response, send)
                return
            await send(_start(response, length=None))
            async with aclosing(_generator(response.parts())) as parts:
                async for part in parts:
                    if disconnected.done() or self._closed:
                        break
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                    await asyncio.sleep(0)  # lets the task above notice a disconnect
            await send({"type": "http.response.body", "body": b""})
        finally:
            disconnected.cancel()

    async def _wait(self, seconds: float, disconnected: "asyncio.Future[None]") -> None:
        until = asyncio.get_running_loop().time() + seconds
        while (remaining := until - asyncio.get_running_loop().time()) > 0 and not (
            disconnected.done() or self._closed
        ):
            await asyncio.wait({disconnected}, timeout=min(remaining, STEP_S))


async def _generator(parts: AsyncIterator[bytes]) -> Any:
    async for part in parts:
        yield part


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _run_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _read(scope: Scope, receive: Receive) -> Request:
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    body = await _body(receive) if scope["method"] == "POST" else b""
    return Request(
        method=scope["method"],
        host=headers.get(b"host", "").partition(":")[0].lower(),
        path=scope["path"],
        query=_fields(scope["query_string"]),
        form=_fields(body),
        cookies=_cookies(headers.get(b"cookie", "")),
    )


async def _body(receive: Receive) -> bytes:
    body = b""
    while len(body) <= BODY_MAX:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return body[:BODY_MAX]


def _fields(encoded: bytes) -> dict[str, str]:
    return dict(parse_qsl(encoded.decode("latin-1"), keep_blank_values=True)) if encoded else {}


def _cookies(header: str) -> dict[str, str]:
    if not header:
        return {}
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}


def _start(response: Response, length: int | None) -> Message:
    headers = [("content-type", response.kind), *response.headers]
    if length is not None:
        headers.append(("content-length", str(length)))
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": response.status, "headers": encoded}


async def _send(response: Response, send: Send) -> None:
    await send(_start(response, len(response.body)))
    await send({"type": "http.response.body", "body": response.body})
