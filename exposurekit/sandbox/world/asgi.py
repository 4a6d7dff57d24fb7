"""Requests and answers of the make-believe web as plain values, and the ASGI around them. Decides no answer."""

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
STEP_S = 0.05  # how soon an unfinished answer notices that nobody waits for it


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """A request, read."""

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)

    def told(self) -> Mapping[str, str]:
        """What a form sent, or what stands in the address."""
        return self.form if self.method == "POST" else self.query


@dataclass(frozen=True, slots=True, repr=False)
class Response:
    """What is sent back: a body after a delay, or parts for as long as they come."""

    body: bytes = b""
    status: int = 200
    kind: str = HTML
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0
    parts: Callable[[], AsyncIterator[bytes]] | None = None


def html(text: str, status: int = 200, *, encoding: str = "utf-8") -> Response:
    """An answer that is a page; what the encoding lacks stands in it as a character reference."""
    return Response(text.encode(encoding, "xmlcharrefreplace"), status, f"text/html; charset={encoding}")


def text(body: str, status: int = 200) -> Response:
    """An answer that is plain text."""
    return Response(body.encode(), status, TEXT)


def redirect(to: str) -> Response:
    """An answer that points elsewhere."""
    return Response(status=302, kind=TEXT, headers=(("location", to),))


class AsgiTransport:
    """An ASGI application out of a function from a request to an answer."""

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        self._answer = answer
        self._closed = False

    def close(self) -> None:
        """Answers that are under way end."""
        self._closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or open and close with the server."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        asked = await _read(scope, receive)
        answer = self._answer(asked)
        if answer.parts or answer.delay_s:
            await self._send_slowly(answer, receive, send)
        else:
            await _send(answer, send)

    async def _send_slowly(self, answer: Response, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await self._wait(answer.delay_s, gone)
            if answer.parts is None:
                await _send(answer, send)
                return
            await send(_start(answer, length=None))
            async with aclosing(_generator(answer.parts())) as parts:
                async for part in parts:
                    if gone.done() or self._closed:
                        break
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                    await asyncio.sleep(0)  # else nobody hears that the other side has hung up
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()

    async def _wait(self, seconds: float, gone: "asyncio.Future[None]") -> None:
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0 and not (gone.done() or self._closed):
            await asyncio.wait({gone}, timeout=min(left, STEP_S))


async def _generator(parts: AsyncIterator[bytes]) -> Any:
    async for part in parts:
        yield part


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _live(receive: Receive, send: Send) -> None:
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


def _start(answer: Response, length: int | None) -> Message:
    headers = [("content-type", answer.kind), *answer.headers]
    if length is not None:
        headers.append(("content-length", str(length)))
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": answer.status, "headers": encoded}


async def _send(answer: Response, send: Send) -> None:
    await send(_start(answer, len(answer.body)))
    await send({"type": "http.response.body", "body": answer.body})
