"""Parsers of a request's lists: aliases, e-mail addresses, phone numbers and postal addresses.

A list is a list of objects, the JSON text of one or, except for addresses, a comma-separated text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from exposurekit.contract import codec
from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, Item, PhoneNumberItem
from exposurekit.contract.models import Address, Alias, Email, PhoneNumber, Resource
from exposurekit.errors import InvalidResponse
from exposurekit.service.accounts.inputs import InvalidValue, fits, is_blank, whole_number

ITEMS_MAX = 200  # spec does not say: the maximum length of a list; here of a request's and of a user's
# Accepted between the digits. spec does not say: the format in a request; responses have digits only
_PHONE_MARKS = re.compile(r"[\s()+./-]+")
_PHONE_NUMBER = re.compile(r"[\s()+./-]*(?:[0-9][\s()+./-]*)+")


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the lists: its items in requests and responses, and how to parse a plain text as an item."""

    request: type[Item]
    response: type[Resource]
    parse_text: Callable[[str], dict[str, str]] | None = None
    hidden: frozenset[str] = frozenset()  # spec does not say: whether responses have these; stored, not sent

    @property
    def stored_fields(self) -> tuple[str, ...]:
        """The stored fields."""
        return tuple(name for name in self.request.model_fields if name not in Item.model_fields)

    @property
    def response_fields(self) -> tuple[str, ...]:
        """The fields in a response."""
        return tuple(name for name in self.response.model_fields if name != "id" and name not in self.hidden)


@dataclass(frozen=True, slots=True)
class Entry:
    """A validated list item; ``fields`` has only the fields that the request has."""

    id: int | None
    destroy: bool
    fields: Mapping[str, str] = field(repr=False)


def _name_in_full(text: str) -> dict[str, str]:
    first, _, last = text.rpartition(" ")
    return (
        {"first_name": first.strip(), "last_name": last} if first else {"first_name": last, "last_name": ""}
    )


KINDS: Mapping[str, Kind] = {
    "aliases": Kind(AliasItem, Alias, _name_in_full, frozenset({"alias_type"})),
    "emails": Kind(EmailItem, Email, lambda text: {"address": text}),
    "phone_numbers": Kind(PhoneNumberItem, PhoneNumber, lambda text: {"number": text}),
    "addresses": Kind(AddressItem, Address, None, frozenset({"country"})),
}
_ADAPTERS = {name: TypeAdapter(list[kind.request]) for name, kind in KINDS.items()}  # type: ignore[name-defined]


def entries(name: str, value: Any) -> list[Entry] | None:
    """Parse the items of a list; None: a blank string clears it.

    Raises:
        InvalidValue: The value is no such list; the paths name the fields.
    """
    if is_blank(value):
        return None
    items = _raw_items(KINDS[name], value)
    if len(items) > ITEMS_MAX:
        raise InvalidValue
    try:
        items = _ADAPTERS[name].validate_python(items)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise InvalidValue(
            *("".join(f"[{step}]" for step in problem["loc"]) for problem in problems)
        ) from None
    return _checked(KINDS[name], items)


def _raw_items(kind: Kind, value: Any) -> list[Any]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = codec.decode(value.encode("utf-8", "surrogatepass"), "json")
        except InvalidResponse:
            raise InvalidValue from None
    elif isinstance(value, str) and kind.parse_text:
        value = value.split(",")
    if not isinstance(value, list):
        raise InvalidValue
    return [_raw_item(kind, item) for item in value if not is_blank(item)]


def _raw_item(kind: Kind, item: Any) -> Any:
    if isinstance(item, str) and kind.parse_text:
        return kind.parse_text(item.strip())
    if isinstance(item, dict):
        # A form sends a blank id for a new item, and a blank _destroy for an item to keep.
        return {
            key: value for key, value in item.items() if key not in {"id", "_destroy"} or not is_blank(value)
        }
    return item


def _checked(kind: Kind, items: list[Item]) -> list[Entry]:
    checked: list[Entry] = []
    invalid_paths: list[str] = []
    for index, item in enumerate(items):
        try:
            checked.append(_entry(kind, item))
        except InvalidValue as invalid:
            invalid_paths += (f"[{index}]{path}" for path in invalid.paths)
    if invalid_paths:
        raise InvalidValue(*invalid_paths)
    return checked


def _entry(kind: Kind, item: Item) -> Entry:
    values = {name: getattr(item, name) for name in kind.stored_fields}
    fields = {name: "" if is_blank(text) else text for name, text in values.items() if text is not None}
    invalid_paths = [f"[{name}]" for name, text in fields.items() if not _fits(name, text)]
    try:
        item_id = whole_number(item.id) if item.id else None
    except InvalidValue:
        invalid_paths.append("[id]")
    if invalid_paths:
        raise InvalidValue(*invalid_paths)
    if not (fields or item.id or item.destroy):
        raise InvalidValue  # no known field: do not silently ignore a misspelt name
    if "number" in fields:
        fields["number"] = _PHONE_MARKS.sub("", fields["number"])
    return Entry(item_id, bool(item.destroy), fields)


def _fits(name: str, text: str) -> bool:
    return fits(text) and (name != "number" or not text or bool(_PHONE_NUMBER.fullmatch(text)))
