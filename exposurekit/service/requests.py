"""A request as named values, from wherever they came: path, query, body and headers. Believes none of them yet."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from exposurekit.contract import codec, forms
from exposurekit.contract.operations import CREDENTIAL_HEADERS, Operation
from exposurekit.contract.shapes import Many, Scalar, Shape, shape_of_type
from exposurekit.errors import Unreadable
from exposurekit.service.refusals import Refusal

BODY_MAX = 2**20  # not shown: the largest body; ours is 1 MiB
_DRAINED_MAX = 8 * BODY_MAX  # so much more is read and dropped, that the caller can read why it was refused
BODY_TIMEOUT_S = 30.0

JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
XML = ("application/xml", "text/xml")  # the second is read as the first

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, before any of it is believed.

    Attributes:
        values: The operation's parameters that came; null counts as not there.
        problem: Why the request cannot be read, if so. It waits until the caller's key was looked at.
    """

    operation: Operation
    integration_name: str
    api_key: str = field(repr=False)
    values: Values = field(repr=False)
    problem: Refusal | None = None


async def read(request: Request, operation: Operation, *, body_timeout_s: float = BODY_TIMEOUT_S) -> Asked:
    """Gather the parameters of an operation; nothing is raised but a lost connection."""
    path: Values = {**request.path_params}
    name, api_key = path.pop("integration_name"), path["api_key"]
    headers = {name: request.headers.get(header) for name, header in CREDENTIAL_HEADERS.items()}
    values: Values = {}
    problem = None
    try:
        query = _query(request.scope["query_string"])
        async with asyncio.timeout(body_timeout_s):
            body = await _body(request, operation)
        values = _merged((path, query, body, headers), operation.names)
    except Refusal as refusal:
        problem = refusal
    except Unreadable as unreadable:
        problem = Refusal(400, str(unreadable))
    except TimeoutError:
        problem = Refusal(400, "the body did not arrive in time")
    return Asked(operation, name, api_key, values, problem)


def _merged(sources: Iterable[Mapping[str, Any]], names: tuple[str, ...]) -> Values:
    values: Values = {}
    for source in sources:
        for name in source.keys() & set(names):
            value = source[name]
            if value is None:
                continue
            if name in values and _told(values[name]) != _told(value):
                raise Refusal(400, f"{name} is given two different values")
            values.setdefault(name, value)
    return values


def _told(value: Any) -> Any:
    """A value as any encoding would tell it: 7 in JSON is "7" in a query."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else value


def _query(query: bytes) -> Values:
    if not query:
        return {}
    try:
        return forms.decode(query.decode())
    except UnicodeDecodeError:
        pass
    raise Refusal(400, "the query is not UTF-8")


async def _body(request: Request, operation: Operation) -> Values:
    body = await _bounded(request.stream())
    if not body:
        return {}
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == JSON:
        values = codec.decode(body, "json")
    elif media_type == FORM:
        values = _form(body)
    elif media_type in XML:
        values = codec.decode(body, "xml", _shape(operation))
    elif media_type == MULTIPART:
        values = await _multipart(request.headers, body)
    else:
        raise Refusal(415, f"the body must be {JSON}, {XML[0]}, {FORM} or {MULTIPART}")
    if not isinstance(values, dict):
        raise Refusal(400, "the body must be an object")
    return values


async def _bounded(chunks: AsyncIterator[bytes]) -> bytes:
    kept = bytearray()
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > _DRAINED_MAX:
            break
        if size <= BODY_MAX:
            kept += chunk
    if size > BODY_MAX:
        raise Refusal(413, f"the body must not be larger than {BODY_MAX} bytes")
    return bytes(kept)


def _form(body: bytes) -> Values:
    try:
        return forms.decode(body.decode())
    except UnicodeDecodeError:
        pass
    raise Refusal(400, "the form is not UTF-8")


async def _multipart(headers: Headers, body: bytes) -> Values:
    async def whole() -> AsyncGenerator[bytes]:
        yield body

    parser = MultiPartParser(
        headers, whole(), max_files=0, max_fields=forms.FIELDS_MAX, max_part_size=BODY_MAX
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeError):  # KeyError: a content type without a boundary
        form = None
    if form is None:
        raise Refusal(400, "not a multipart form of plain fields")
    return forms.nest((name, value) for name, value in form.multi_items() if isinstance(value, str))


def _shape(operation: Operation) -> dict[str, Shape]:
    return {
        parameter.name: _told_in_text(shape_of_type(parameter.type)) for parameter in operation.parameters
    }


def _told_in_text(shape: Shape) -> Shape:
    """Leaves as text, so that an empty element is a blank string; a text may stand in a list's place."""
    if isinstance(shape, Many):
        return Many(_told_in_text(shape.item), or_text=True, nullable=True)
    if isinstance(shape, dict):
        return {name: _told_in_text(inner) for name, inner in shape.items()}
    return Scalar.TEXT
