"""How a service answers the points that the specification leaves open. Reads only; changes nothing, keeps nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from exposurekit.client import calls, wire
from exposurekit.client.calls import Call
from exposurekit.client.retries import Answer
from exposurekit.contract import codec
from exposurekit.errors import ExposureError, Unreadable

UNTOLD = "could not be told"
_PEOPLE = 5  # enough to meet one with records, few enough to cost nothing


def table(client: Any) -> Any:
    """One row a point: ``point`` and ``answer``, both text."""
    import pandas as pd

    return pd.DataFrame(list(points(client)), columns=["point", "answer"], dtype="str")


def points(client: Any) -> Iterator[tuple[str, str]]:
    """Each point with what this service does about it."""
    page = _ask(client, calls.list_users())
    yield "count of users", _names(page, "count", "total")
    yield "users on a page without limit", str(len(page["users"])) if page else UNTOLD
    yield "limit of 0", _status(client, calls.list_users(limit=0))
    yield "error without an api_secret", _error(client)
    keys = [(item["id"], item["secret"]) for item in (page or {}).get("users", [])[:_PEOPLE]]
    yield "type of a user's secret", _kind(keys[0][1]) if keys else UNTOLD
    users = [found["user"] for key in keys if (found := _ask(client, calls.get_user(key)))]
    yield from _of_users(users)
    lists = [_ask(client, calls.list_user_records(key)) or {} for key in keys]
    yield (
        "records in List user records",
        _wrapping([record for found in lists for record in found.get("records", [])]),
    )
    lists = [_ask(client, calls.get_user_alerts(key)) or {} for key in keys]
    alerts = [alert for found in lists for alert in found.get("alerts", [])]
    yield "opt_out_procedure", _every(alerts, lambda alert: _kind(alert.get("opt_out_procedure")))
    yield "alerts with a url", _share(alerts, "url")
    yield "alerts with a guide", _share(alerts, "guide")
    for format in ("json", "xml"):  # noqa: A001  the specification's word
        yield f"answers in {format}", _reads(client, format)
    yield "credentials in headers", _reads(client, client.access.format, credentials_in="header")


def _of_users(users: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    first = users[0] if users else None
    yield "identification", _names(first, "identification_on_file", "identification_onfile")
    yield "birth_date", _every(users, lambda user: _kind(user.get("birth_date")))
    yield "middle_name unset", _every(users, lambda user: _kind(user.get("middle_name")))
    records = [record for user in users for record in user.get("records", [])]
    yield "records in Get user", _wrapping(records)
    bare = [record.get("record", record) for record in records]
    yield "statuses seen", _every(bare, lambda record: str(record.get("status")))
    yield "user_fields_required_for_removal", _share(bare, "user_fields_required_for_removal")
    links = [link for user in users for link in user.get("links", [])]
    yield "links with contains", _share(links, "contains")
    yield (
        "alias_type in answers",
        _share([alias for user in users for alias in user.get("aliases", [])], "alias_type"),
    )


def _ask(client: Any, call: Call[Any, Any]) -> Any:
    try:
        return wire.plain_values(call, client.access, client.outcome(call))
    except ExposureError:
        return None


def _status(client: Any, call: Call[Any, Any]) -> str:
    outcome = client.outcome(call)
    return str(outcome.status) if isinstance(outcome, Answer) else UNTOLD


def _error(client: Any) -> str:
    outcome = _otherwise(client, api_secret="").outcome(calls.list_users(limit=1))
    if not isinstance(outcome, Answer):
        return UNTOLD
    try:
        body = codec.decode(outcome.body, client.access.format)
    except Unreadable:
        return f"{outcome.status}, not {client.access.format}"
    shape = ", ".join(body) if isinstance(body, dict) else _kind(body)
    return f"{outcome.status}, {shape}"


def _reads(client: Any, format: str, **manner: Any) -> str:  # noqa: A002  the specification's word
    call = calls.list_users(limit=1)
    other = _otherwise(client, format=format, **manner)
    try:
        wire.model(call, other.access, other.outcome(call))
    except ExposureError as error:
        return f"no ({type(error).__name__})"
    return "yes"


def _otherwise(client: Any, **manner: Any) -> Any:
    """The same client with another manner of asking."""
    other = object.__new__(type(client))
    other.__dict__.update(client.__dict__)
    other.access = replace(client.access, **manner)
    return other


def _names(found: dict[str, Any] | None, *names: str) -> str:
    if found is None:
        return UNTOLD
    return " and ".join(name for name in names if name in found) or "none"


def _kind(value: Any) -> str:
    names = {str: "text", bool: "boolean", int: "integer", list: "list", dict: "object", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _wrapping(records: list[Any]) -> str:
    return _every(records, lambda record: "wrapped" if set(record) == {"record"} else "bare")


def _every(items: list[Any], answer: Callable[[Any], str]) -> str:
    return ", ".join(sorted({answer(item) for item in items})) or UNTOLD


def _share(items: list[dict[str, Any]], name: str) -> str:
    return f"{sum(item.get(name) is not None for item in items)} of {len(items)}" if items else UNTOLD
