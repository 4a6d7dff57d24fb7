"""The protocol: build the request of a call, and turn a response into a reply or an error."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import quote

from pydantic import ValidationError

from exposurekit.client.calls import Call
from exposurekit.client.config import ClientConfig
from exposurekit.client.created_user import created_account
from exposurekit.client.error_masking import reason_of
from exposurekit.client.retry import Response, Result, TransportFailure
from exposurekit.contract import codec, forms, lenient
from exposurekit.contract.deviations import MISSING, NULL, Deviation, problem_in_words, problem_of
from exposurekit.contract.lenient import Reading
from exposurekit.contract.models import Reply, UserKey, UserPage
from exposurekit.contract.operations import CREATE_USER, CREDENTIAL_HEADERS, GET_RECORD, USER_AGENT
from exposurekit.contract.schema import row_adapter, shape_of_model
from exposurekit.errors import (
    APIStatusError,
    BadRequest,
    ConnectionFailed,
    InvalidResponse,
    Unauthorized,
    warn,
)

Notes = Counter[Deviation]

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

BODY_TYPES = {"json": codec.MEDIA_TYPES["json"], "form": "application/x-www-form-urlencoded"}
BODY_MAX = 64 * 1024 * 1024
BAD_REQUEST, UNAUTHORIZED = 400, 401
QUOTA = "quota"  # in the reason of a refusal that no field caused

_WEB_PAGE = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+)?html\b", re.IGNORECASE | re.DOTALL
)
_ADVICE = {
    400: "Check the fields you sent.",
    401: "Check api_key, api_secret, and the user's id and secret.",
    404: "No such path: check base_url, the part before /api/.",
    413: "The request is too large.",
    415: "The service does not accept this body_encoding: try the other one.",
    429: "Too many requests.",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request to send. Its repr shows neither URL nor body: both contain credentials."""

    method: str
    url: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


def request(call: Call[R, T], config: ClientConfig) -> Request:
    """Build the request of a call: where values and credentials are sent, and in which encoding."""
    operation = call.operation
    if config.ended:
        raise ConnectionFailed(config.ended, operation=operation.title, maybe_received=False)
    path_names = operation.path_names
    values = {name: value for name, value in call.values.items() if name not in path_names}
    headers = common_headers(config)
    query: dict[str, Any] = {}
    body: dict[str, Any] = {}
    (body if operation.takes_body else query).update(values)
    location = config.credentials_in or ("body" if operation.takes_body else "query")
    secrets: dict[str, Any] = {"api_secret": config.api_secret}
    if call.secret is not None:
        secrets["secret"] = call.secret
    if location == "header":
        headers = headers | {CREDENTIAL_HEADERS[name]: str(value) for name, value in secrets.items()}
    elif location == "body" and operation.takes_body:
        body |= secrets
    else:
        query |= secrets
    url = _url(call, config, query)
    if not operation.takes_body:
        return Request(operation.method, url, headers)
    content_type = {"Content-Type": BODY_TYPES[config.body_encoding]}
    return Request(operation.method, url, headers | content_type, _body(body, config))


def common_headers(config: ClientConfig) -> dict[str, str]:
    """Return the headers of every request."""
    return {"Accept": codec.MEDIA_TYPES[config.format], "Accept-Encoding": "gzip", "User-Agent": USER_AGENT}


def _url(call: Call[R, T], config: ClientConfig, query: Mapping[str, Any]) -> str:
    path = call.operation.path
    for name in call.operation.path_names:
        path = path.replace(f"{{{name}}}", _segment(call.values[name]))
    query_string = "&".join(f"{name}={_segment(value)}" for name, value in query.items())
    return f"{config.url_prefix}{path}.{config.format}{'?' if query_string else ''}{query_string}"


def _segment(value: Any) -> str:
    return str(value) if isinstance(value, int) else quote(str(value), safe="")


def _body(values: dict[str, Any], config: ClientConfig) -> bytes:
    if config.body_encoding == "json":
        return codec.encode(values, "json")
    addresses = values.get("addresses")
    fields = values | ({"addresses": codec.encode(addresses, "json").decode()} if addresses else {})
    return forms.encode(_as_csv(fields) if config.lists == "csv" else fields)


def _as_csv(values: dict[str, Any]) -> dict[str, Any]:
    """Join lists to comma-separated strings if each item is a single value without a comma."""
    columns = {"aliases": ("first_name", "last_name"), "emails": ("address",), "phone_numbers": ("number",)}
    joined = {}
    for name, parts in columns.items():
        items = values.get(name, [])
        texts = [" ".join(item[part] for part in parts if item.get(part)) for item in items]
        is_plain = all(item.keys() <= set(parts) for item in items) and "," not in "".join(texts)
        if items and is_plain:
            joined[name] = ",".join(texts)
    return values | joined


def is_success(result: Result) -> bool:
    """Whether the call succeeded: any 2xx status, although the specification only has 200."""
    return isinstance(result, Response) and 200 <= result.status < 300  # noqa: PLR2004  HTTP's success range


def model(call: Call[R, T], config: ClientConfig, result: Result, notes: Notes | None = None) -> T:
    """Return the reply as models of the specification.

    ``notes`` counts deviations; None: warn about items that could not be read.

    Raises:
        APIStatusError: The status is not 2xx; `BadRequest` for 400, `Unauthorized` for 401.
        ConnectionFailed: There is no complete response.
        InvalidResponse: The body does not match the specification and cannot be read leniently.
    """
    typed = config.format == "json"

    def read(body: bytes) -> Any:
        values = _decoded(call, config, body)
        with suppress(ValidationError):
            if typed or not config.strict:  # XML has no types of its own, so its validation accepts more
                reply = call.reply.model_validate(values, strict=typed or None)
                if lenient.conforms(reply):
                    return reply
        reading = lenient.as_model(call.reply, values, call.operation.title, typed=typed)
        _note(call, config, values, reading, notes)
        if isinstance(reading.value, UserPage):
            return reading.value.without(reading.lost_items)
        return reading.value

    return call.pick(_checked(call, config, result, read))


def row(call: Call[R, T], config: ClientConfig, result: Result, notes: Notes | None = None) -> dict[str, Any]:
    """Return the reply as plain dicts, by the same rules: bulk loads need no model objects.

    The body is validated directly from its bytes, and read leniently only if that fails.
    """
    adapter, typed = row_adapter(call.reply), config.format == "json"

    def read(body: bytes) -> Any:
        with suppress(ValidationError):
            if typed:
                reply = adapter.validate_json(codec.utf8(body), strict=True)
            else:
                reply = adapter.validate_python(_decoded(call, config, body))
            if (typed or not config.strict) and lenient.conforms(reply):
                return reply
        values = _decoded(call, config, body)
        reading = lenient.as_rows(call.reply, values, call.operation.title, typed=typed)
        _note(call, config, values, reading, notes)
        return reading.value

    return cast("dict[str, Any]", _checked(call, config, result, read))


def _note(call: Call[R, T], config: ClientConfig, values: Any, reading: Reading, notes: Notes | None) -> None:
    if config.strict and reading.deviations:
        call.reply.model_validate(values, strict=config.format == "json")  # its error has the position
        first = next(iter(reading.deviations))
        raise InvalidResponse(f"{first.field} {problem_in_words(first.kind)}")
    if notes is not None:
        notes.update(reading.deviations)
    lost = [one.field for one in reading.deviations if one.costs_item and one.kind not in {NULL, MISSING}]
    if notes is None and lost:
        fields = ", ".join(dict.fromkeys(lost))
        warn(f"{call.operation.title}: items that could not be read were dropped at {fields}")


def plain_values(call: Call[R, T], config: ClientConfig, result: Result) -> Any:
    """Return the reply as it came, without validation."""
    return _checked(call, config, result, lambda body: _decoded(call, config, body))


def deviations(call: Call[R, T], config: ClientConfig, result: Result) -> Notes:
    """Return how the reply deviates from the specification."""
    values = plain_values(call, config, result)
    typed = config.format == "json"
    return Counter(lenient.as_rows(call.reply, values, call.operation.title, typed=typed).deviations)


def _decoded(call: Call[R, T], config: ClientConfig, body: bytes) -> Any:
    return codec.decode(body, config.format, shape_of_model(call.reply), tolerant=True)


def _checked(call: Call[R, T], config: ClientConfig, result: Result, read: Callable[[bytes], Any]) -> Any:
    if isinstance(result, TransportFailure):
        _raise_connection_failed(call, result)
    if not is_success(result):
        _raise_status_error(call, config, result)
    try:
        reply = read(result.body)
        if not _lacks_secret(call, reply) or created_account(result.body) is None:
            return reply
        problem = "user.secret is missing"
    except ValidationError as error:
        problem = problem_of(error)
    except InvalidResponse as error:
        problem = str(error)
    if _WEB_PAGE.match(result.body):
        problem = "it is an HTML page; check base_url"
    message = f"{call.operation.title}: invalid response: {problem}"
    if call.operation is not CREATE_USER:
        raise InvalidResponse(message)
    account = created_account(result.body)
    if account is None or config.strict:
        key = account and UserKey(id=account["id"], secret=account["secret"])
        advice = (
            "The user was created: save the error's user_key."
            if key
            else "The user may have been created: check before you repeat the call."
        )
        raise InvalidResponse(f"{message}. {advice}", user_key=key)
    warn(f"{message}. Its id and secret were read; call get_user() for the rest")
    return lenient.as_model(call.reply, {"user": account}, call.operation.title).value


def _lacks_secret(call: Call[R, T], reply: Any) -> bool:
    return call.operation is CREATE_USER and getattr(getattr(reply, "user", None), "secret", "") is None


def _raise_connection_failed(call: Call[R, T], failure: TransportFailure) -> NoReturn:
    title = call.operation.title
    message = f"{title} failed: {failure.reason}."
    if failure == TransportFailure.refused():
        message += " Is the service running? Check base_url or EXPOSUREKIT_BASE_URL."
    elif failure == TransportFailure.dns():
        message += " Check base_url or EXPOSUREKIT_BASE_URL."
    elif failure.maybe_received and not call.repeatable:
        message += " The service may have processed it: check before you repeat it."
    raise ConnectionFailed(message, operation=title, maybe_received=failure.maybe_received)


def _raise_status_error(call: Call[R, T], config: ClientConfig, response: Response) -> NoReturn:
    kind = {BAD_REQUEST: BadRequest, UNAUTHORIZED: Unauthorized}.get(response.status, APIStatusError)
    title, status, wait = call.operation.title, response.status, response.retry_after_s
    reason = reason_of(call, config, response)
    message = f"{title} failed ({status}{': ' + reason if reason else ''})."
    if 300 <= status < BAD_REQUEST:  # noqa: PLR2004  redirections
        advice = (
            "Redirects are not followed because the path contains the key: set base_url to the final address."
        )
    else:
        advice = _ADVICE.get(status, "The service failed: try again later." if status >= 500 else "")  # noqa: PLR2004
    if call.operation is GET_RECORD and status == BAD_REQUEST:
        advice = "Check the record's id: list_user_records() lists those of this user."
    if status == BAD_REQUEST and QUOTA in (reason or "").casefold():
        advice = ""  # the reason says what to do, and no field is wrong
    if reason and status == UNAUTHORIZED:
        advice = "Check the credentials, and that base_url is the service they belong to."
    if wait is not None:
        advice += f" The service asks to wait {wait:.0f} s."
    raise kind(f"{message} {advice}".strip(), status=status, operation=title, retry_after_s=wait)
