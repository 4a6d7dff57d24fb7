"""HTTP responses in the encoding that the request asks for."""

from collections.abc import Iterable, Sequence

from starlette.types import Scope, Send

from exposurekit.contract import codec, xml
from exposurekit.contract.codec import MEDIA_TYPES
from exposurekit.service.errors import ApiError
from exposurekit.system.connection_limits import WHOLE_RESPONSE, Header

_SECURITY: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
# XML has a parameter for its encoding; JSON has none, because it is always UTF-8 (RFC 8259).
_HEADERS: dict[str, tuple[Header, ...]] = {
    "json": ((b"content-type", MEDIA_TYPES["json"].encode()), *_SECURITY),
    "xml": ((b"content-type", f"{MEDIA_TYPES['xml']}; charset=utf-8".encode()), *_SECURITY),
}


class Response:
    """A response with an encoded body, and security headers."""

    __slots__ = ("_body", "_headers", "status")

    def __init__(
        self, body: bytes, encoding: str, *, status: int = 200, headers: Iterable[Header] = ()
    ) -> None:
        self.status = status
        self._body = body
        self._headers = [(b"content-length", b"%d" % len(body)), *_HEADERS[encoding], *headers]

    async def send(self, scope: Scope, send: Send) -> None:
        """Send the response; of a response to HEAD the server sends the headers alone."""
        respond = scope.get("extensions", {}).get(WHOLE_RESPONSE)
        if respond and respond(self.status, self._headers, self._body):
            return
        await send({"type": "http.response.start", "status": self.status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


def format_of(scope: Scope) -> str:
    """Return the encoding: the path's suffix, else XML if ``Accept`` names it and not JSON, else JSON."""
    suffix = scope["path"].rpartition(".")[2]
    if suffix in MEDIA_TYPES:
        return str(suffix)
    accept = b",".join(value for name, value in scope["headers"] if name == b"accept").lower()
    return "xml" if b"/xml" in accept and b"json" not in accept else "json"


def error(scope: Scope, status: int, message: str, headers: Iterable[Header] = ()) -> Response:
    """Return an error response. spec does not say: the shape of error bodies; here ``{"error": message}``."""
    encoding = format_of(scope)
    if encoding == "json":
        body = codec.encode({"error": message}, encoding)
    else:
        body = xml.write({"message": message}, root="error")
    return Response(body, encoding, status=status, headers=headers)


def api_error(scope: Scope, refusal: ApiError) -> Response:
    """Return the response of an `ApiError`."""
    headers = [(b"connection", b"close")] if refusal.closes else []
    if refusal.retry_after_s is not None:
        headers.append(retry_after(refusal.retry_after_s))
    return error(scope, refusal.status, str(refusal), headers)


def retry_after(seconds: int) -> Header:
    """Return the header that says when to try again."""
    return b"retry-after", b"%d" % seconds


def unknown_path(scope: Scope) -> Response:
    """Return the response of a path that does not exist."""
    return error(scope, 404, "there is nothing at this path")


def wrong_method(scope: Scope, methods: Sequence[str]) -> Response:
    """Return the response to a method that the path does not take."""
    return error(scope, 405, "this path does not take this method", [(b"allow", ", ".join(methods).encode())])
