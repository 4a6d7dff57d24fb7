"""A call as a request, and an answer as a reply or an error. Moves no bytes; its errors hold no values."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from exposurekit.client.calls import Call
from exposurekit.client.config import ClientConfig
from exposurekit.client.retry import Response, Result, TransportFailure
from exposurekit.contract import codec, forms, lenient
from exposurekit.contract.deviations import Deviation, problem_of
from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, PhoneNumberItem
from exposurekit.contract.lenient import Reading
from exposurekit.contract.models import Reply, UserKey, UserPage
from exposurekit.contract.operations import CREATE_USER, CREDENTIAL_HEADERS, OPERATIONS
from exposurekit.contract.schema import row_type, shape_of_model
from exposurekit.errors import (
    APIStatusError,
    BadRequest,
    ConnectionFailed,
    InvalidResponse,
    Unauthorized,
    warn,
)
from exposurekit.text.sanitize import plain

Notes = Counter[Deviation]

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

BODY_TYPES = {"json": codec.MEDIA_TYPES["json"], "form": "application/x-www-form-urlencoded"}
BODY_MAX = 64 * 1024 * 1024
REASON_READ, REASON_MAX = 10_000, 200
BAD_REQUEST, UNAUTHORIZED = 400, 401

_TELLING = re.compile(
    r"\S*@\S*|\S*://\S*|\S*/api/\S*|\d[\d .()-]{3,}\d|\"[^\"]*\"|'[^']*'|\b(?=[\w-]*\d)[\w-]{12,}\b"
)
_WEB_PAGE = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+)?html\b", re.IGNORECASE | re.DOTALL
)
_VOCABULARY = {
    *(name for operation in OPERATIONS for name in operation.names),
    *(name for item in (AliasItem, EmailItem, PhoneNumberItem, AddressItem) for name in item.model_fields),
    *("is", "are", "was", "the", "not", "and", "nor", "with", "must", "have", "has", "does", "user"),
    *("valid", "value", "missing", "invalid", "empty", "blank", "accepted"),
}
_WHAT_TO_DO = {
    400: "Check the fields you sent.",
    401: "Check api_key, api_secret, and the user's id and secret.",
    404: "No such path: check base_url, the part before /api/.",
    413: "The request is too large.",
    415: "The service does not accept this body_encoding: try the other one.",
    429: "Too many requests.",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. Its repr shows neither address nor body: both hold credentials."""

    method: str
    url: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


def request(call: Call[R, T], access: ClientConfig) -> Request:
    """The call in this manner of asking: where the values and the credentials travel, and in which encoding."""
    operation = call.operation
    within = operation.path_names
    values = {name: value for name, value in call.values.items() if name not in within}
    headers = access.headers
    query: dict[str, Any] = {}
    body: dict[str, Any] = {}
    (body if operation.takes_body else query).update(values)
    place = access.credentials_in or ("body" if operation.takes_body else "query")
    secrets: dict[str, Any] = {"api_secret": access.api_secret}
    if call.secret is not None:
        secrets["secret"] = call.secret
    if place == "header":
        headers = headers | {CREDENTIAL_HEADERS[name]: str(value) for name, value in secrets.items()}
    elif place == "body" and operation.takes_body:
        body |= secrets
    else:
        query |= secrets
    url = _url(call, access, query)
    if not operation.takes_body:
        return Request(operation.method, url, headers)
    kind = {"Content-Type": BODY_TYPES[access.body_encoding]}
    return Request(operation.method, url, headers | kind, _body(body, access))


def _url(call: Call[R, T], access: ClientConfig, query: Mapping[str, Any]) -> str:
    path = call.operation.path
    for name in call.operation.path_names:
        path = path.replace(f"{{{name}}}", _segment(call.values[name]))
    asked = "&".join(f"{name}={_segment(value)}" for name, value in query.items())
    return f"{access.url_prefix}{path}.{access.format}{'?' if asked else ''}{asked}"


def _segment(value: Any) -> str:
    return str(value) if isinstance(value, int) else quote(str(value), safe="")


def _body(values: dict[str, Any], access: ClientConfig) -> bytes:
    if access.body_encoding == "json":
        return codec.encode(values, "json")
    addresses = values.get("addresses")
    fields = values | ({"addresses": codec.encode(addresses, "json").decode()} if addresses else {})
    return forms.encode(_as_csv(fields) if access.lists == "csv" else fields)


def _as_csv(values: dict[str, Any]) -> dict[str, Any]:
    """Lists as comma-separated strings (published pages), where each item is one value and nothing else."""
    columns = {"aliases": ("first_name", "last_name"), "emails": ("address",), "phone_numbers": ("number",)}
    joined = {}
    for name, parts in columns.items():
        items = values.get(name, [])
        texts = [" ".join(item[part] for part in parts if item.get(part)) for item in items]
        if (
            items
            and all(item.keys() <= set(parts) for item in items)
            and not any("," in text for text in texts)
        ):
            joined[name] = ",".join(texts)
    return values | joined


def is_success(outcome: Result) -> bool:
    """Whether the service carried the call out: any 2xx, whatever the specification's 200."""
    return isinstance(outcome, Response) and 200 <= outcome.status < 300  # noqa: PLR2004  as HTTP has it


def model(call: Call[R, T], access: ClientConfig, outcome: Result, notes: Notes | None = None) -> T:
    """The reply as the specification's resources.

    Args:
        call: What was asked.
        access: How; says whether deviations are errors.
        outcome: What came.
        notes: Where deviations are counted. None: a warning tells of items that could not be read.

    Raises:
        APIStatusError: The status is no 2xx; `BadRequest` for 400, `Unauthorized` for 401.
        ConnectionFailed: No whole answer came.
        InvalidResponse: The body is not what the specification describes, and cannot be read leniently either.
    """

    def read(body: bytes) -> Any:
        values = _decoded(call, access, body)
        if access.strict:
            return call.reply.model_validate(values)
        typed = access.format == "json"
        with suppress(ValidationError):
            return call.reply.model_validate(values, strict=typed or None)
        reading = lenient.as_model(call.reply, values, call.operation.title, typed=typed)
        _note(call, reading, notes)
        if isinstance(reading.value, UserPage):
            return reading.value.without(reading.items_lost)
        return reading.value

    return call.pick(_checked(call, access, outcome, read))


def row(
    call: Call[R, T], access: ClientConfig, outcome: Result, notes: Notes | None = None
) -> dict[str, Any]:
    """The reply as plain dicts under the same rules: for bulk, where objects would be taken apart again.

    What conforms is validated straight from the bytes; only what does not is read leniently.
    """
    adapter, typed = _adapter(call.reply), access.format == "json"

    def read(body: bytes) -> Any:
        strict = None if access.strict else True
        try:
            if typed:
                return adapter.validate_json(codec.utf8(body), strict=strict)
            return adapter.validate_python(_decoded(call, access, body))
        except ValidationError:
            if access.strict:
                raise
        values = _decoded(call, access, body)
        reading = lenient.as_rows(call.reply, values, call.operation.title, typed=typed)
        _note(call, reading, notes)
        return reading.value

    return cast("dict[str, Any]", _checked(call, access, outcome, read))


def _note(call: Call[R, T], reading: Reading, notes: Notes | None) -> None:
    if notes is not None:
        notes.update(reading.deviations)
    elif costly := [one.field for one in reading.deviations if one.costs_item]:
        fields = ", ".join(dict.fromkeys(costly))
        warn(f"{call.operation.title}: items that could not be read were dropped at {fields}")


def plain_values(call: Call[R, T], access: ClientConfig, outcome: Result) -> Any:
    """The reply as it came, unvalidated: for telling how a server answers."""
    return _checked(call, access, outcome, lambda body: _decoded(call, access, body))


def deviations(call: Call[R, T], access: ClientConfig, outcome: Result) -> Notes:
    """How the reply deviates from the specification.

    Raises:
        ExposureError: There is no reply, or none that can be read.
    """
    notes: Notes = Counter()
    values = plain_values(call, access, outcome)
    typed = access.format == "json"
    notes.update(lenient.as_rows(call.reply, values, call.operation.title, typed=typed).deviations)
    return notes


@cache
def _adapter(reply: type[Reply]) -> TypeAdapter[Any]:
    return TypeAdapter(row_type(reply))


def _decoded(call: Call[R, T], access: ClientConfig, body: bytes) -> Any:
    return codec.decode(body, access.format, shape_of_model(call.reply), finite=access.strict)


def _checked(call: Call[R, T], access: ClientConfig, outcome: Result, read: Callable[[bytes], Any]) -> Any:
    if isinstance(outcome, TransportFailure):
        _unreached(call, outcome)
    if not is_success(outcome):
        _refuse(call, access, outcome)
    try:
        return read(outcome.body)
    except ValidationError as error:
        problem = problem_of(error)
    except InvalidResponse as error:
        problem = str(error)
    if _WEB_PAGE.match(outcome.body):
        problem = "it is an HTML page; check base_url"
    message = f"{call.operation.title}: invalid response: {problem}"
    if call.operation is not CREATE_USER:
        raise InvalidResponse(message)
    account = _account(outcome.body)
    if account is None or access.strict:
        key = account and UserKey(id=account["id"], secret=account["secret"])
        todo = (
            "The user was created: save the error's user_key."
            if key
            else "The user may have been created: check before you repeat the call."
        )
        raise InvalidResponse(f"{message}. {todo}", user_key=key)
    warn(f"{message}. Its id and secret were read; call get_user() for the rest")
    return lenient.as_model(call.reply, {"user": account}, call.operation.title).value


def _account(body: bytes) -> dict[str, Any] | None:
    """The object with an id and a secret in an answer to Create user, however much else of it cannot be read."""
    if body.lstrip()[:1] == b"<":
        with suppress(InvalidResponse):
            return _account_in(codec.decode(body, "xml"))
        return None
    try:
        return _account_in(codec.decode(body, "json", finite=False))
    except InvalidResponse:
        return _account_in(codec.beginning(body))


def _account_in(values: Any) -> dict[str, Any] | None:
    if isinstance(values, dict):
        with suppress(ValidationError):
            key = UserKey.model_validate({name: values.get(name) for name in ("id", "secret")})
            return values | {"id": key.id, "secret": key.secret}
    inner = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    return next((found for one in inner if (found := _account_in(one))), None)


def _unreached(call: Call[R, T], lost: TransportFailure) -> NoReturn:
    title = call.operation.title
    message = f"{title} failed: {lost.reason}."
    if lost == TransportFailure.refused():
        message += " Is the service running? Check base_url or EXPOSUREKIT_BASE_URL."
    elif lost.maybe_received and not call.repeatable:
        message += " The service may have processed it: check before you repeat it."
    raise ConnectionFailed(message, operation=title, maybe_received=lost.maybe_received)


def _refuse(call: Call[R, T], access: ClientConfig, answer: Response) -> NoReturn:
    """The error that an answer's status stands for."""
    kind = {BAD_REQUEST: BadRequest, UNAUTHORIZED: Unauthorized}.get(answer.status, APIStatusError)
    title, status, wait = call.operation.title, answer.status, answer.retry_after_s
    said = _reason(call, access, answer)
    message = f"{title} failed ({status}{': ' + said if said else ''})."
    if 300 <= status < BAD_REQUEST:  # noqa: PLR2004  redirections
        todo = (
            "Redirects are not followed because the path contains the key: set base_url to the final address."
        )
    else:
        todo = _WHAT_TO_DO.get(status, "The service failed: try again later." if status >= 500 else "")  # noqa: PLR2004
    if said and status == UNAUTHORIZED:
        todo = "Check the credentials, and that base_url is the service they belong to."
    if wait is not None:
        todo += f" The service asks to wait {wait:.0f} s."
    raise kind(f"{message} {todo}".strip(), status=status, operation=title, retry_after_s=wait)


def _reason(call: Call[R, T], access: ClientConfig, answer: Response) -> str:
    """What the service gives as its reason, from any of the usual bodies, with every value taken out.

    The text is the server's and may echo what a message must not hold: what was sent is masked, whole and by
    the word, and so are long digits, addresses, quotations and long identifiers.
    """
    body = answer.body[:REASON_READ]
    try:
        found = codec.decode(body, "xml" if body.lstrip()[:1] == b"<" else "json")
    except InvalidResponse:
        return ""
    text = plain(_error_text(found))
    sent = _texts(call.values, call.secret, access.api_key, access.api_secret, access.integration_name)
    sent |= {word for value in sent for word in re.findall(r"\w{3,}", value)}
    # A value that is a word of every such service tells nothing, and masked would hide the reason.
    sent = {value for value in sent if value.lower() not in _VOCABULARY}
    values = "|".join(map(re.escape, sorted(sent, key=len, reverse=True)))
    text = re.sub(rf"(?<!\w)(?:{values})(?!\w)", "***", text, flags=re.IGNORECASE)
    return _TELLING.sub("***", text)[:REASON_MAX]


def _error_text(found: Any) -> str:
    if isinstance(found, dict):
        inner = next((found[name] for name in ("error", "errors", "message") if name in found), None)
        return _by_field(inner) if isinstance(inner, dict) else _error_text(inner)
    if isinstance(found, list):
        return ", ".join(filter(None, map(_error_text, found)))
    return found if isinstance(found, str) else ""


def _by_field(errors: dict[str, Any]) -> str:
    """Errors as Rails gives them, by field: ``{"zip": ["is invalid"]}``; or one more step down."""
    if told := _error_text(errors):
        return told
    return ", ".join(f"{name} {text}" for name, of in errors.items() for text in _each_text(of))


def _each_text(found: Any) -> list[str]:
    return [text for one in (found if isinstance(found, list) else [found]) if (text := _error_text(one))]


def _texts(*values: Any) -> set[str]:
    """Every leaf of what was sent, as text."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, Mapping):
            found |= _texts(*value.values())
        elif isinstance(value, list):
            found |= _texts(*value)
        elif value not in {None, True, False, ""}:
            found.add(str(value))
    return found
