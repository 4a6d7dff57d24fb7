"""A person's details as a caller gives them, made ready to be sent. Refuses what a service would silently drop."""

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from pydantic import ValidationError

from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, Item, PhoneNumberItem
from exposurekit.contract.models import Resource
from exposurekit.contract.types import epoch_seconds
from exposurekit.errors import InvalidArgument

Items = Iterable[Mapping[str, Any] | Item]


def user_payload(
    birth_date: Any, aliases: Any, emails: Any, phone_numbers: Any, addresses: Any
) -> dict[str, Any]:
    """The five details that Create user and Update user share, as plain values.

    Raises:
        InvalidArgument: An item has a field that the specification does not know, or a date is none.
    """
    return {
        "birth_date": "" if _is_blank(birth_date) else _birth_date(birth_date),
        "aliases": _items("aliases", AliasItem, aliases),
        "emails": _items("emails", EmailItem, emails, text="address"),
        "phone_numbers": _items("phone_numbers", PhoneNumberItem, phone_numbers, text="number"),
        "addresses": _items("addresses", AddressItem, addresses),
    }


def _birth_date(value: Any) -> int | None:
    try:
        seconds = epoch_seconds(value)
        return None if seconds is None else int(seconds)
    except (ValueError, TypeError, OverflowError):
        problem = "birth_date is epoch seconds, a date, or a date as text such as 1980-02-29"
    raise InvalidArgument(problem)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _items(name: str, model: type[Item], items: Any, text: str | None = None) -> list[dict[str, Any]] | str:
    if items is None:
        return []
    if _is_blank(items):
        return ""  # clears the list
    if isinstance(items, str | Mapping) or not isinstance(items, Iterable):
        raise InvalidArgument(f"{name} is a list")
    return [_item(name, model, {text: item} if text and isinstance(item, str) else item) for item in items]


def _item(name: str, model: type[Item], item: Any) -> dict[str, Any]:
    if isinstance(item, Resource):  # as an answer gave it
        item = item.model_dump(include=set(model.model_fields), exclude_none=True)
    try:
        checked = item if isinstance(item, model) else model.model_validate(item)
        problem = f"has no {', '.join(map(repr, checked.model_extra))}" if checked.model_extra else None
    except ValidationError as error:
        where = error.errors(include_input=False)[0]["loc"]
        problem = f"has an invalid {where[0]}" if where else "is no object"
    if problem:
        known = ", ".join(field.alias or key for key, field in model.model_fields.items())
        raise InvalidArgument(f"an item of {name} {problem}; it takes {known}")
    return checked.model_dump(by_alias=True, exclude_none=True)


def given_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was given: neither None nor an empty list, which would change nothing.

    Raises:
        InvalidArgument: A value cannot be sent; the message names its parameter.
    """
    found = {name: value for name, value in values.items() if value is not None}
    for name, value in found.items():
        if not _can_be_sent(value):
            raise InvalidArgument(
                f"{name} has a value that cannot be sent: it takes text, numbers and lists of these"
            )
    return {name: value for name, value in found.items() if not (isinstance(value, list) and not value)}


def _can_be_sent(value: Any) -> bool:
    match value:
        case str():
            return not any("\ud800" <= letter <= "\udfff" for letter in value)
        case Mapping():
            return all(map(_can_be_sent, value.values()))
        case list():
            return all(map(_can_be_sent, value))
    return isinstance(value, Integral)
