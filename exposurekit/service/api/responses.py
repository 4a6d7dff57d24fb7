"""HTTP responses in the encoding that the request asks for."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from exposurekit.contract import codec, xml
from exposurekit.contract.codec import MEDIA_TYPES
from exposurekit.service.errors import ApiError

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
    return Response(body, status, media_type=MEDIA_TYPES[encoding])


def error(scope: Scope, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error response. spec does not say: the shape of error bodies; here ``{"error": message}``."""
    if format_of(scope) == "json":
        return Response(codec.encode({"error": message}, "json"), status, headers, MEDIA_TYPES["json"])
    return Response(xml.write({"message": message}, root="error"), status, headers, MEDIA_TYPES["xml"])


def api_error(scope: Scope, refusal: ApiError) -> Response:
    """Return the response of an `ApiError`."""
    headers = {"connection": "close"} if refusal.closes else {}
    if refusal.retry_after_s is not None:
        headers["retry-after"] = str(refusal.retry_after_s)
    return error(scope, refusal.status, str(refusal), headers)


async def unrouted(request: Request, problem: Exception) -> Response:
    """Return the response of an unknown path or method."""
    if not isinstance(problem, HTTPException):
        raise problem
    message = _MESSAGES.get(problem.status_code, "the request cannot be answered")
    return error(request.scope, problem.status_code, message, dict(problem.headers or {}))
