"""Convert a user's fields from arguments to request values; reject what a service would silently drop."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from numbers import Integral
from typing import Any

from pydantic import ValidationError

from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, Item, PhoneNumberItem, reason_of
from exposurekit.contract.models import Resource
from exposurekit.contract.types import epoch_seconds
from exposurekit.errors import InvalidArgument
from exposurekit.system.clock import utc_now

_DAY_LENGTH = len("1980-02-29")
_AHEAD_MAX = timedelta(days=1)  # somewhere it is tomorrow already

Items = Iterable[Mapping[str, Any] | Item]


def user_payload(
    birth_date: Any, aliases: Any, emails: Any, phone_numbers: Any, addresses: Any
) -> dict[str, Any]:
    """Convert the five fields that Create user and Update user share to plain values; reject unknown fields."""
    return {
        "birth_date": "" if _is_blank(birth_date) else _birth_date(birth_date),
        "aliases": _items("aliases", AliasItem, aliases),
        "emails": _items("emails", EmailItem, emails, text="address"),
        "phone_numbers": _items("phone_numbers", PhoneNumberItem, phone_numbers, text="number"),
        "addresses": _items("addresses", AddressItem, addresses),
    }


def _birth_date(value: Any) -> int | None:
    if isinstance(value, datetime):
        value = value.date()  # the day as written: in UTC it may be another one
    try:
        seconds = epoch_seconds(value)
        if isinstance(value, str) and isinstance(seconds, int):
            seconds = epoch_seconds(value.strip()[:_DAY_LENGTH])
        if seconds is None or int(seconds) < (utc_now() + _AHEAD_MAX).timestamp():
            return None if seconds is None else int(seconds)
        problem = "birth_date is in the future"
    except (ValueError, TypeError, OverflowError):
        problem = "birth_date must be epoch seconds, a date, or a string such as 1980-02-29"
    raise InvalidArgument(problem)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _items(name: str, model: type[Item], items: Any, text: str | None = None) -> list[dict[str, Any]] | str:
    if items is None:
        return []
    if _is_blank(items):
        return ""  # clears the list
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise InvalidArgument(f"{name} must be a list")
    return [_item(name, model, item, text) for item in items]


def _item(name: str, model: type[Item], item: Any, text: str | None) -> dict[str, Any]:
    if text and isinstance(item, str):
        item = {text: item}
    if isinstance(item, Resource):  # from a response
        item = item.model_dump(include=set(model.model_fields), exclude_none=True)
    problem, about = "", f"an item of {name}"
    allowed = "; allowed: " + ", ".join(field.alias or key for key, field in model.model_fields.items())
    try:
        checked = item if isinstance(item, model) else model.model_validate(item)
        if unknown := ", ".join(map(repr, checked.model_extra or ())):
            problem = f"{about} has an unknown field {unknown}{allowed}"
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        if not first["loc"]:
            problem = f"{about} is {'neither text nor' if text else 'not'} an object{allowed}"
        elif first["type"] == "literal_error":
            problem = f"{first['loc'][0]} {reason_of(first)}"
        else:
            problem = f"{about} has an invalid {first['loc'][0]}{allowed}"
    if problem:  # raised here, without the frames of the validation
        raise InvalidArgument(problem)
    return checked.model_dump(by_alias=True, exclude_none=True)


def set_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are set: without None and empty lists, which change nothing."""
    fields = {name: value for name, value in values.items() if value is not None}
    for name, value in fields.items():
        if not _is_sendable(value):
            raise InvalidArgument(
                f"{name} has a value that cannot be sent: use strings, numbers, and lists of them"
            )
    return {name: value for name, value in fields.items() if not (isinstance(value, list) and not value)}


def _is_sendable(value: Any) -> bool:
    match value:
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case Mapping():
            return all(map(_is_sendable, value.values()))
        case list():
            return all(map(_is_sendable, value))
    return isinstance(value, Integral)
