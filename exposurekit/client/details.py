"""A person's details as a caller gives them, made ready to be sent. Refuses what a service would silently drop."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from exposurekit.contract.items import AddressItem, AliasItem, EmailItem, Item, PhoneNumberItem
from exposurekit.contract.values import epoch_seconds
from exposurekit.errors import Misconfigured

Items = Iterable[Mapping[str, Any] | Item]


def details(
    birth_date: Any, aliases: Items, emails: Any, phone_numbers: Any, addresses: Items
) -> dict[str, Any]:
    """The five details that Create user and Update user share, as plain values.

    Raises:
        Misconfigured: An item has a field that the specification does not know, or a date is none.
    """
    return {
        "birth_date": birth_date if birth_date == "" else _birth_date(birth_date),
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
    raise Misconfigured(problem)


def _items(name: str, model: type[Item], items: Any, text: str | None = None) -> list[dict[str, Any]]:
    if isinstance(items, str | Mapping):
        raise Misconfigured(f"{name} is a list")
    return [_item(name, model, {text: item} if text and isinstance(item, str) else item) for item in items]


def _item(name: str, model: type[Item], item: Any) -> dict[str, Any]:
    try:
        checked = item if isinstance(item, model) else model.model_validate(item)
        problem = f"has no {', '.join(map(repr, checked.model_extra))}" if checked.model_extra else None
    except ValidationError as error:
        where = error.errors(include_input=False)[0]["loc"]
        problem = f"has an invalid {where[0]}" if where else "is no object"
    if problem:
        known = ", ".join(field.alias or key for key, field in model.model_fields.items())
        raise Misconfigured(f"an item of {name} {problem}; it takes {known}")
    return checked.model_dump(by_alias=True, exclude_none=True)
