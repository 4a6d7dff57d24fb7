"""Read a request's values from path, query, body and headers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Receive, Scope

from exposurekit.contract import codec, forms, xml
from exposurekit.contract.operations import CREDENTIAL_HEADERS, Operation
from exposurekit.contract.schema import Many, Scalar, Shape, shape_of_type
from exposurekit.errors import InvalidResponse
from exposurekit.service.api.targets import Target, Values, fields, merged
from exposurekit.service.errors import ApiError
from exposurekit.system.memory_budget import MemoryBudget, MemoryBudgetExceeded, Reservation

# spec does not say: the maximum size of a body; a person's lists have a quarter, which escaped characters multiply.
BODY_MAX = 2**18
BODY_TIMEOUT_S = 30.0
MEMORY_MAX = 128 * BODY_MAX  # of the bodies of all requests
RETRY_AFTER_S = 5
TOO_MUCH = "too much is being sent at once: try again"
ELEMENTS_MAX = 3_000  # of XML; four full lists have 2,300

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
XML = ("application/xml", "text/xml")  # treated alike

_ANNOUNCING = {b"content-length", b"transfer-encoding"}
_SECRET_HEADERS = {header.lower().encode(): name for name, header in CREDENTIAL_HEADERS.items()}


@dataclass(slots=True)  # not frozen: that would cost each request 2 us
class ApiRequest:
    """A request before authentication; its query and body are not parsed yet."""

    target: Target
    operation: Operation
    key_digest: bytes = field(repr=False)  # of the API key
    scope: Scope = field(repr=False)
    receive: Receive = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    problem: ApiError | None = None  # why the body is incomplete; raised once the key is checked
    release: Callable[[], object] | None = field(
        default=None, repr=False
    )  # of the memory of a body that is parsed

    async def is_disconnected(self) -> bool:
        """Return whether the client is gone."""
        return await Request(self.scope, self.receive).is_disconnected()


async def receive_body(
    request: ApiRequest, *, memory: MemoryBudget, reserved: ExitStack, timeout_s: float = BODY_TIMEOUT_S
) -> None:
    """Receive a request's body; errors are kept in `problem`, and its memory is reserved until it is parsed."""
    client, limit = request.scope.get("client"), asyncio.timeout(timeout_s)
    size = reserved.enter_context(memory.reservation(client[0] if client else "", limit))
    request.release = reserved.close
    try:
        async with limit:
            request.body = await _bounded(Request(request.scope, request.receive).stream(), size)
        size.is_complete = True
    except ApiError as refusal:
        request.problem = refusal
    except (MemoryBudgetExceeded, TimeoutError):
        request.problem = _out_of_time() if size.is_current else _out_of_memory()


def _out_of_time() -> ApiError:
    return ApiError(400, "the body did not arrive in time", closes=True)


def _out_of_memory() -> ApiError:
    return ApiError(503, TOO_MUCH, closes=True, retry_after_s=RETRY_AFTER_S)


def announces_body(scope: Scope) -> bool:
    """Return whether a body may follow; HTTP/1 announces one in the headers, and waiting costs 15 us."""
    if not scope["http_version"].startswith("1."):
        return True
    return any([name in _ANNOUNCING for name, _ in scope["headers"]])  # noqa: C419  a generator takes twice the time


async def read(request: ApiRequest) -> Mapping[str, Any]:
    """Return the operation's parameters; null counts as absent. A malformed request raises `ApiError`."""
    if request.problem:
        raise request.problem
    try:
        body = await _body(request) if request.body else None
        if request.release:
            request.release()
        target = request.target
        if target.problem:
            raise ApiError(400, target.problem)
        in_headers = [one for one in request.scope["headers"] if one[0] in _SECRET_HEADERS]
        if not body and not in_headers:
            return target.values
        secrets = [{_SECRET_HEADERS[name]: value.decode("latin-1")} for name, value in in_headers]
        return merged(request.operation, target.values, body or {}, *secrets)
    except InvalidResponse as unreadable:
        problem = str(unreadable)
    raise ApiError(400, problem)


async def _body(request: ApiRequest) -> Values:
    body = request.body
    headers = Headers(raw=request.scope["headers"])
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "the body must not be compressed: send it without Content-Encoding")
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == JSON:
        values = codec.decode(body, "json", is_request=True)
    elif media_type == FORM:
        if body[:100].lstrip().startswith((b"{", b"[{")):  # such as from curl without a header
            raise ApiError(400, f"not a form: it looks like JSON; send it with Content-Type: {JSON}")
        values = fields(body, "form")
    elif media_type in XML:
        values = xml.read(body, _shape(request.operation), elements_max=ELEMENTS_MAX, is_unique=True)
    elif media_type == MULTIPART:
        values = await _multipart(headers, body)
    else:
        raise ApiError(415, f"the body must be {JSON}, {XML[0]}, {FORM} or {MULTIPART}")
    if not isinstance(values, dict):
        raise ApiError(400, "the body must be an object")
    return values


async def _bounded(chunks: AsyncIterator[bytes], memory: Reservation) -> bytes:
    buffer = bytearray()
    async for chunk in chunks:
        if len(buffer) + len(chunk) > BODY_MAX:
            raise ApiError(413, f"the body must not be larger than {BODY_MAX // 1024} KiB", closes=True)
        memory.add(len(chunk))
        buffer += chunk
    return bytes(buffer)


async def _multipart(headers: Headers, body: bytes) -> Values:
    async def whole() -> AsyncGenerator[bytes]:
        yield body

    parser = MultiPartParser(
        headers, whole(), max_files=0, max_fields=forms.FIELDS_MAX, max_part_size=BODY_MAX
    )
    form = None
    try:
        body.decode()  # the parser would decode invalid UTF-8 as Latin-1
        _, options = parse_options_header(headers["content-type"])
        if b"--" + options[b"boundary"] + b"--" in body:  # otherwise it is truncated
            form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeError):  # KeyError: a content type without a boundary
        pass
    if form is None:
        raise ApiError(400, "not a complete multipart form of plain fields in UTF-8")
    return forms.nest((name, value) for name, value in form.multi_items() if isinstance(value, str))


def _shape(operation: Operation) -> dict[str, Shape]:
    return {parameter.name: _as_text(shape_of_type(parameter.type)) for parameter in operation.parameters}


def _as_text(shape: Shape) -> Shape:
    """Return the shape with text leaves, so that an empty element is a blank string; a list may be a text."""
    if isinstance(shape, Many):
        return Many(_as_text(shape.item), or_text=True, nullable=True)
    if isinstance(shape, dict):
        return {name: _as_text(inner) for name, inner in shape.items()}
    return Scalar.TEXT
