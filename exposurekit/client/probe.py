"""Probe: how a service handles what the specification leaves open. Sends read requests only."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exposurekit.client import calls, protocol
from exposurekit.client.calls import Call
from exposurekit.client.retry import Response
from exposurekit.contract import codec
from exposurekit.contract.deviations import Deviation, json_type
from exposurekit.errors import ExposureError, InvalidResponse

if TYPE_CHECKING:
    import pandas as pd

UNKNOWN = "unknown: no registered user shows it"
_USERS = 5  # enough to include one with records, few enough to be cheap


def table(client: Any) -> "pd.DataFrame":
    """Return one row per point: ``point`` and ``answer``, both text."""
    import pandas as pd

    return pd.DataFrame(points(client), columns=["point", "answer"], dtype="str")


def points(client: Any) -> list[tuple[str, str]]:
    """Return each point with what this service does."""
    call = calls.list_users()
    page = protocol.plain_values(call, client.config, client.send(call))
    fields = page if isinstance(page, dict) else {}
    listed = _objects(_items([fields], "users"))
    keys = [(one["id"], one["secret"]) for one in listed[:_USERS] if {"id", "secret"} <= one.keys()]
    replies = [reply for key in keys if isinstance(reply := _reply(client, calls.get_user(key)), dict)]
    users = [user for reply in replies if isinstance(user := reply.get("user", reply), dict)]
    lists = _lists(client, calls.list_user_records, "records", keys)
    alerts = _lists(client, calls.get_user_alerts, "alerts", keys)
    questions: dict[str, Callable[[], str]] = {
        "count of users": lambda: _names(fields, "count", "total"),
        "users on a page without limit": lambda: f"{len(listed)}{_odd_note(_items([fields], 'users'))}",
        "limit of 0": lambda: _status(client, calls.list_users(limit=0)),
        "error without an api_secret": lambda: _error(client),
        "type of a user's secret": lambda: json_type(keys[0][1]) if keys else UNKNOWN,
        **_user_questions(users),
        "records in List user records": lambda: _wrapping(lists),
        "opt_out_procedure": lambda: _every(alerts, lambda alert: json_type(alert.get("opt_out_procedure"))),
        "alerts with a url": lambda: _share(alerts, "url"),
        "alerts with a guide": lambda: _share(alerts, "guide"),
        "deviations": lambda: "; ".join(deviations(client, keys)) or "none",
        "JSON responses": lambda: _reads(client, "json"),
        "XML responses": lambda: _reads(client, "xml"),
        "credentials in headers": lambda: _reads(client, client.config.format, credentials_in="header"),
    }
    return [(point, answer()) for point, answer in questions.items()]


@dataclass(frozen=True, slots=True)
class _Odd:
    """What stands in place of an object: ``what`` says which type, without its value."""

    what: str


def _items(objects: list[dict[str, Any]], name: str) -> list[Any]:
    """The items of one list of each object; `_Odd` for an item that is not an object, and for a value that is not a list."""
    lists = [_list(one, name) for one in objects]
    return [item for items in lists for item in items]


def _list(values: dict[str, Any], name: str) -> list[Any]:
    if name not in values:
        return [_Odd("missing")]
    if not isinstance(values[name], list):
        return [_Odd(f"{json_type(values[name])}, not a list")]
    return [_object(item) for item in values[name]]


def _object(item: Any) -> Any:
    return item if isinstance(item, dict) else _Odd(f"{json_type(item)}, not an object")


def _objects(items: list[Any]) -> list[dict[str, Any]]:
    return [item for item in items if not isinstance(item, _Odd)]


def _odd_note(items: list[Any]) -> str:
    odd = Counter(item.what for item in items if isinstance(item, _Odd))
    return "".join(f"; {n} of {len(items)} {'is' if n == 1 else 'are'} {what}" for what, n in odd.items())


def deviations(client: Any, keys: list[Any] | None = None) -> list[str]:
    """Describe how some responses deviate from the specification, the most frequent deviation first.

    ``keys`` are the ids and secrets of the users to fetch; None: the first few.
    """
    texts: Counter[str] = Counter()
    if keys is None:
        call = calls.list_users(limit=_USERS)
        result = client.send(call)
        keys = [(key.id, key.secret) for key in protocol.model(call, client.config, result, Counter()).users]
        texts.update(map(_describe, protocol.deviations(call, client.config, result)))
    by_user: Counter[str] = Counter()
    for key in keys[:_USERS]:
        by_user.update(_of_user(client, key))
    users = len(keys[:_USERS])
    texts.update({f"{text} ({times} of {users} users)": times for text, times in by_user.items()})
    return [text for text, _ in texts.most_common()]


def _of_user(client: Any, key: Any) -> list[str]:
    """The distinct deviations of one user, in order of appearance."""
    texts: dict[str, None] = {}
    builds: tuple[Callable[[Any], Call[Any, Any]], ...] = (
        calls.get_user,
        calls.list_user_records,
        calls.list_user_links,
        calls.get_user_alerts,
    )
    for call in [build(key) for build in builds]:
        with suppress(ExposureError):
            deviating = protocol.deviations(call, client.config, client.send(call))
            texts.update(dict.fromkeys(map(_describe, deviating)))
    return [*texts]


def _describe(deviation: Deviation) -> str:
    return f"{deviation.operation}: {deviation.field} {deviation.kind}"


def _lists(client: Any, call: Callable[[Any], Call[Any, Any]], name: str, keys: list[Any]) -> list[Any]:
    replies = [_reply(client, call(key)) for key in keys]
    return _items([reply for reply in replies if isinstance(reply, dict)], name)


def _user_questions(users: list[dict[str, Any]]) -> dict[str, Callable[[], str]]:
    def items(name: str) -> list[Any]:
        return _items(users, name)

    def bare_records() -> list[Any]:
        return [one if isinstance(one, _Odd) else _object(one.get("record", one)) for one in items("records")]

    return {
        "identification": lambda: _names(
            users[0] if users else None, "identification_on_file", "identification_onfile"
        ),
        "birth_date": lambda: _every(users, lambda user: json_type(user.get("birth_date"))),
        "middle_name unset": lambda: _every(users, lambda user: json_type(user.get("middle_name"))),
        "records in Get user": lambda: _wrapping(items("records")),
        "statuses": lambda: _every(bare_records(), lambda record: str(record.get("status"))),
        "user_fields_required_for_removal": lambda: _share(
            bare_records(), "user_fields_required_for_removal"
        ),
        "links with contains": lambda: _share(items("links"), "contains"),
        "alias_type in responses": lambda: _share(items("aliases"), "alias_type"),
    }


def _reply(client: Any, call: Call[Any, Any]) -> Any:
    try:
        return protocol.plain_values(call, client.config, client.send(call))
    except ExposureError:
        return None


def _status(client: Any, call: Call[Any, Any]) -> str:
    result = client.send(call)
    return str(result.status) if isinstance(result, Response) else UNKNOWN


def _error(client: Any) -> str:
    result = client.with_config(api_secret="").send(calls.list_users(limit=1))
    if not isinstance(result, Response):
        return UNKNOWN
    try:
        body = codec.decode(result.body, client.config.format)
    except InvalidResponse:
        return f"{result.status}, not {client.config.format}"
    shape = ", ".join(body) if isinstance(body, dict) else json_type(body)
    return f"{result.status}, {shape}"


def _reads(client: Any, format: str, **settings: Any) -> str:  # noqa: A002  the specification's word
    call = calls.list_users(limit=1)
    other = client.with_config(format=format, **settings)
    try:
        protocol.model(call, other.config, other.send(call), Counter())
    except ExposureError as error:
        return f"no ({type(error).__name__})"
    return "yes"


def _names(values: Any, *names: str) -> str:
    if values is None:
        return UNKNOWN
    return " and ".join(name for name in names if name in values) or "none"


def _wrapping(records: list[Any]) -> str:
    return _every(records, lambda record: "wrapped" if set(record) == {"record"} else "bare")


def _every(items: list[Any], answer: Callable[[Any], str]) -> str:
    answers = ", ".join(sorted({answer(item) for item in _objects(items)})) or UNKNOWN
    return answers + _odd_note(items)


def _share(items: list[Any], name: str) -> str:
    objects = _objects(items)
    share = f"{sum(item.get(name) is not None for item in objects)} of {len(objects)}" if objects else UNKNOWN
    return share + _odd_note(items)
