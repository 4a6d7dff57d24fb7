"""HTTP responses in the encoding that the request asks for."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from exposurekit.contract import codec, xml
from exposurekit.contract.codec import MEDIA_TYPES
from exposurekit.service.errors import ApiError

# XML has a parameter for its encoding; JSON has none, because it is always UTF-8 (RFC 8259).
_CONTENT_TYPES = {"json": MEDIA_TYPES["json"], "xml": f"{MEDIA_TYPES['xml']}; charset=utf-8"}
_MESSAGES = {404: "there is nothing at this path", 405: "this path does not take this method"}


def format_of(scope: Scope) -> str:
    """Return the encoding: the path's suffix, else XML if ``Accept`` names it and not JSON, else JSON."""
    suffix = scope["path"].rpartition(".")[2]
    if suffix in MEDIA_TYPES:
        return str(suffix)
    accept = b",".join(value for name, value in scope["headers"] if name == b"accept").lower()
    return "xml" if b"/xml" in accept and b"json" not in accept else "json"


def encoded(body: bytes, encoding: str, *, status: int = 200) -> Response:
    """Return a response with an encoded body."""
    return Response(body, status, media_type=_CONTENT_TYPES[encoding])


def error(scope: Scope, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response. spec does not say: the shape of error bodies; here ``{"error": message}``."""
    encoding = format_of(scope)
    if encoding == "json":
        body = codec.encode({"error": message}, encoding)
    else:
        body = xml.write({"message": message}, root="error")
    return Response(body, status, headers, _CONTENT_TYPES[encoding])


def api_error(scope: Scope, refusal: ApiError) -> Response:
    """Return the response of an `ApiError`."""
    headers = {"connection": "close"} if refusal.closes else {}
    if refusal.retry_after_s is not None:
        headers["retry-after"] = str(refusal.retry_after_s)
    return error(scope, refusal.status, str(refusal), headers)


def wrong_method(scope: Scope, methods: Sequence[str]) -> Response:
    """Return the response to a method that the path does not take."""
    return error(scope, 405, _MESSAGES[405], {"allow": ", ".join(methods)})


async def unrouted(request: Request, problem: Exception) -> Response:
    """Return the response of an unknown path or method."""
    if not isinstance(problem, HTTPException):
        raise problem
    message = _MESSAGES.get(problem.status_code, "the request cannot be answered")
    return error(request.scope, problem.status_code, message, dict(problem.headers or {}))
