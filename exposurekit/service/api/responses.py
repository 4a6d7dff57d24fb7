"""Plain values as HTTP answers, in the encoding that the request asks for. Decides no status of its own."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from exposurekit.contract import codec, xml
from exposurekit.contract.codec import MEDIA_TYPES
from exposurekit.service.errors import ApiError

_WORDS = {404: "there is nothing at this path", 405: "this path does not take this method"}


def format_of(scope: Scope) -> str:
    """The encoding of an answer: the path's suffix, else XML where ``Accept`` names it and not JSON, else JSON."""
    suffix = scope["path"].rpartition(".")[2]
    if suffix in MEDIA_TYPES:
        return str(suffix)
    accept = b",".join(value for name, value in scope["headers"] if name == b"accept").lower()
    return "xml" if b"/xml" in accept and b"json" not in accept else "json"


def reply(scope: Scope, value: dict[str, Any], *, status: int = 200) -> Response:
    """An answer that bears plain values."""
    told = format_of(scope)
    return encoded(codec.encode(value, told), told, status=status)


def encoded(body: bytes, encoding: str, *, status: int = 200) -> Response:
    """An answer that is encoded already."""
    return Response(body, status, media_type=MEDIA_TYPES[encoding])


def error(scope: Scope, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An answer that says no. not shown: the shape of error bodies; ours is ``{"error": message}``."""
    if format_of(scope) == "json":
        return Response(codec.encode({"error": message}, "json"), status, headers, MEDIA_TYPES["json"])
    return Response(xml.write({"message": message}, root="error"), status, headers, MEDIA_TYPES["xml"])


def refused(scope: Scope, refusal: ApiError) -> Response:
    """A refusal of ours as an answer."""
    headers = {"connection": "close"} if refusal.closes else {}
    if refusal.retry_after_s is not None:
        headers["retry-after"] = str(refusal.retry_after_s)
    return error(scope, refusal.status, str(refusal), headers)


async def unrouted(request: Request, problem: Exception) -> Response:
    """No such path or method, as an answer."""
    if not isinstance(problem, HTTPException):
        raise problem
    message = _WORDS.get(problem.status_code, "the request cannot be answered")
    return error(request.scope, problem.status_code, message, dict(problem.headers or {}))
