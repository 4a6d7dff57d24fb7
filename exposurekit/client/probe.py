"""How a service answers the points that the specification leaves open. Reads only; changes nothing, keeps nothing."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exposurekit.client import calls, protocol
from exposurekit.client.calls import Call
from exposurekit.client.retry import Response
from exposurekit.contract import codec
from exposurekit.contract.deviations import Deviation
from exposurekit.errors import ExposureError, InvalidResponse

if TYPE_CHECKING:
    import pandas as pd

UNTOLD = "could not be told: nobody registered shows it"
_PEOPLE = 5  # enough to meet one with records, few enough to cost nothing


def table(client: Any) -> "pd.DataFrame":
    """One row a point: ``point`` and ``answer``, both text."""
    import pandas as pd

    return pd.DataFrame(points(client), columns=["point", "answer"], dtype="str")


def points(client: Any) -> list[tuple[str, str]]:
    """Each point with what this service does about it.

    Raises:
        APIStatusError: List users was refused: without it there is nothing to tell.
        ConnectionFailed: Nobody answers.
    """
    call = calls.list_users()
    page = protocol.plain_values(call, client.config, client.send(call))
    listed = page["users"] if isinstance(page, dict) and isinstance(page.get("users"), list) else []
    keys = [
        (one["id"], one["secret"])
        for one in listed[:_PEOPLE]
        if isinstance(one, dict) and {"id", "secret"} <= one.keys()
    ]
    users = [
        found.get("user", found)
        for key in keys
        if isinstance(found := _ask(client, calls.get_user(key)), dict)
    ]
    lists = _lists(client, calls.list_user_records, "records", keys)
    alerts = _lists(client, calls.get_user_alerts, "alerts", keys)
    told: dict[str, Callable[[], str]] = {
        "count of users": lambda: _names(page, "count", "total"),
        "users on a page without limit": lambda: str(len(page["users"])),
        "limit of 0": lambda: _status(client, calls.list_users(limit=0)),
        "error without an api_secret": lambda: _error(client),
        "type of a user's secret": lambda: _kind(keys[0][1]) if keys else UNTOLD,
        **_of_users(users),
        "records in List user records": lambda: _wrapping(lists),
        "opt_out_procedure": lambda: _every(alerts, lambda alert: _kind(alert.get("opt_out_procedure"))),
        "alerts with a url": lambda: _share(alerts, "url"),
        "alerts with a guide": lambda: _share(alerts, "guide"),
        "deviations": lambda: "; ".join(map(said, deviations(client, keys))) or "none",
        "answers in json": lambda: _reads(client, "json"),
        "answers in xml": lambda: _reads(client, "xml"),
        "credentials in headers": lambda: _reads(client, client.config.format, credentials_in="header"),
    }
    return [(point, _row(answer)) for point, answer in told.items()]


def deviations(client: Any, keys: list[Any] | None = None) -> list[Deviation]:
    """How some answers deviate from the specification, the most frequent first.

    Args:
        client: Whom to ask.
        keys: Ids and secrets of the users to ask about; None: of the first few.

    Raises:
        ExposureError: List users could not be read.
    """
    notes: protocol.Notes = Counter()
    if keys is None:
        call = calls.list_users(limit=_PEOPLE)
        outcome = client.send(call)
        keys = [(key.id, key.secret) for key in protocol.model(call, client.config, outcome, Counter()).users]
        notes.update(protocol.deviations(call, client.config, outcome))
    for call in _calls(keys[:_PEOPLE]):
        with suppress(ExposureError):
            notes.update(protocol.deviations(call, client.config, client.send(call)))
    return [deviation for deviation, _ in notes.most_common()]


def _calls(keys: list[Any]) -> Iterator[Call[Any, Any]]:
    for key in keys:
        yield from (calls.get_user(key), calls.list_user_records(key), calls.list_user_links(key))
        yield calls.get_user_alerts(key)


def said(deviation: Deviation) -> str:
    """A deviation in a few words.

    >>> said(Deviation("Get user", "records.age", "text for integer", "text of 2 digits"))
    'Get user: records.age text for integer'
    """
    return f"{deviation.operation}: {deviation.field} {deviation.kind}"


def _row(answer: Callable[[], str]) -> str:
    try:
        return answer()
    except (
        KeyError,
        TypeError,
        AttributeError,
    ):  # whatever it is, it is nothing that the specification describes
        return "not as described"


def _lists(client: Any, call: Callable[[Any], Call[Any, Any]], name: str, keys: list[Any]) -> list[Any]:
    answers = [_ask(client, call(key)) for key in keys]
    lists = [found.get(name) for found in answers if isinstance(found, dict)]
    return [item for items in lists if isinstance(items, list) for item in items]


def _of_users(users: list[dict[str, Any]]) -> dict[str, Callable[[], str]]:
    def of(name: str) -> list[Any]:
        return [item for user in users for item in user[name]]

    def bare() -> list[Any]:
        return [record.get("record", record) for record in of("records")]

    return {
        "identification": lambda: _names(
            users[0] if users else None, "identification_on_file", "identification_onfile"
        ),
        "birth_date": lambda: _every(users, lambda user: _kind(user.get("birth_date"))),
        "middle_name unset": lambda: _every(users, lambda user: _kind(user.get("middle_name"))),
        "records in Get user": lambda: _wrapping(of("records")),
        "statuses seen": lambda: _every(bare(), lambda record: str(record.get("status"))),
        "user_fields_required_for_removal": lambda: _share(bare(), "user_fields_required_for_removal"),
        "links with contains": lambda: _share(of("links"), "contains"),
        "alias_type in answers": lambda: _share(of("aliases"), "alias_type"),
    }


def _ask(client: Any, call: Call[Any, Any]) -> Any:
    try:
        return protocol.plain_values(call, client.config, client.send(call))
    except ExposureError:
        return None


def _status(client: Any, call: Call[Any, Any]) -> str:
    outcome = client.send(call)
    return str(outcome.status) if isinstance(outcome, Response) else UNTOLD


def _error(client: Any) -> str:
    outcome = _otherwise(client, api_secret="").send(calls.list_users(limit=1))
    if not isinstance(outcome, Response):
        return UNTOLD
    try:
        body = codec.decode(outcome.body, client.config.format)
    except InvalidResponse:
        return f"{outcome.status}, not {client.config.format}"
    shape = ", ".join(body) if isinstance(body, dict) else _kind(body)
    return f"{outcome.status}, {shape}"


def _reads(client: Any, format: str, **manner: Any) -> str:  # noqa: A002  the specification's word
    call = calls.list_users(limit=1)
    other = _otherwise(client, format=format, **manner)
    try:
        protocol.model(call, other.config, other.send(call))
    except ExposureError as error:
        return f"no ({type(error).__name__})"
    return "yes"


def _otherwise(client: Any, **manner: Any) -> Any:
    """The same client with another manner of asking."""
    other = object.__new__(type(client))
    other.__dict__.update(client.__dict__)
    other.config = replace(client.config, **manner)
    return other


def _names(found: Any, *names: str) -> str:
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
