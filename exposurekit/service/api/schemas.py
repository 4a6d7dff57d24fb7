"""JSON Schemas of the responses. Every field is always present, and no others are."""

from collections.abc import Mapping
from typing import Any

from exposurekit.contract import operations, webhooks
from exposurekit.contract.types import INT64_MAX, STATUSES
from exposurekit.service.accounts.consent import ACTIVATED, DEACTIVATED
from exposurekit.service.accounts.user_items import KINDS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
ID: Schema = {"type": "integer", "minimum": 0, "maximum": INT64_MAX}
FLAG: Schema = {"type": "boolean"}
SECRET: Schema = {"type": "string", "pattern": "^[1-9][0-9]{17}$"}
ON: Schema = {"type": "string", "pattern": r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \+0000$"}


def named(name: str) -> Schema:
    """Return a reference to a schema of the document's components."""
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _many(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _object(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _item(kind: str) -> Schema:
    fields = {name: _or_null(TEXT) if name == "address2" else TEXT for name in KINDS[kind].response_fields}
    return _object(id=ID, **fields)


def _user(record: Schema) -> Schema:
    return _object(
        id=ID,
        secret=SECRET,
        birth_date=_or_null({"type": "integer"}),
        first_name=TEXT,
        middle_name=TEXT,
        last_name=TEXT,
        **{kind: _many(named(listed.response.__name__)) for kind, listed in KINDS.items()},
        records=_many(record),
        links=_many(named("Link")),
        service_history=_many({"oneOf": [_object(**{event: ON}) for event in (ACTIVATED, DEACTIVATED)]}),
        is_scanning=FLAG,
        identification_on_file=FLAG,
    )


_RECORD = {
    "id": ID,
    "name": TEXT,
    "site": TEXT,
    "status": {"type": "string", "enum": list(STATUSES)},
    "age": _or_null({"type": "integer", "minimum": 0}),
    "href": _or_null(TEXT),
    "relations": _many(TEXT),
    "aliases": _many(TEXT),
    "locations": _many(TEXT),
    "reference_id": TEXT,
}
_WEBHOOK_ALERT = {"text": TEXT, "html": TEXT, "guide": TEXT, "opt_out_procedure": _many(TEXT)}
_ALERT = _WEBHOOK_ALERT | {"url": TEXT}


def _alert(fields: Schema, kind: str) -> Schema:
    return _object(**fields, source_type={"const": kind}, source=_object(**{kind: named(kind.capitalize())}))


RESOURCES: Mapping[str, Schema] = {
    **{listed.response.__name__: _item(kind) for kind, listed in KINDS.items()},
    "Record": _object(**_RECORD),
    "RecordInUser": _object(**_RECORD, user_fields_required_for_removal=_many(TEXT)),
    "Link": _object(url=TEXT, title=TEXT, contains=_many(TEXT)),
    "AlertOnRecord": _alert(_ALERT, "record"),
    "AlertOnLink": _alert(_ALERT, "link"),
    "Alert": {"oneOf": [named("AlertOnRecord"), named("AlertOnLink")]},
    "User": _user(named("Record")),
    "UserInFull": _user(named("RecordInUser")),
    "UserKey": _object(id=ID, secret=SECRET),
    "Error": _object(error=TEXT),
}
_ITEMS: Mapping[str, Schema] = {  # of the groups of a webhook
    webhooks.DISCOVERED_RECORDS: _object(record=named("Record")),
    webhooks.REMOVED_RECORDS: _object(record=named("Record")),
    webhooks.DISCOVERED_LINKS: _object(url=TEXT, title=TEXT),
    webhooks.NEW_ALERTS: {"oneOf": [_alert(_WEBHOOK_ALERT, "record"), _alert(_WEBHOOK_ALERT, "link")]},
}
DELIVERY: Schema = {
    **_object(
        user_id=ID,
        events=_many({"type": "string", "enum": list(webhooks.GROUPS)}),
        **{name: _many(_ITEMS[name]) for name in webhooks.GROUPS},
    ),
    "required": ["user_id", "events"],
}
RESPONSES: Mapping[str, Schema] = {
    operations.CREATE_USER.name: _object(user=named("User")),
    operations.LIST_USERS.name: _object(count=ID, total=ID, users=_many(named("UserKey"))),
    operations.GET_USER.name: _object(user=named("UserInFull")),
    operations.UPDATE_USER.name: _object(user=named("User")),
    operations.LIST_USER_RECORDS.name: _object(records=_many(_object(record=named("Record")))),
    operations.GET_RECORD.name: _object(record=named("Record")),
    operations.LIST_USER_LINKS.name: _object(links=_many(named("Link"))),
    operations.GET_USER_ALERTS.name: _object(alerts=_many(named("Alert"))),
}
