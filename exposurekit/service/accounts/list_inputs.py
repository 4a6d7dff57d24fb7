"""The four lists of a person as a request tells them: aliases, e-mails, phones, addresses. Changes nothing.

A list may be a list of objects, a JSON string of one or, but for addresses, one text with commas.
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
from exposurekit.service.accounts.inputs import Invalid, fits, is_blank, whole_number

ITEMS_MAX = 200  # not shown: how many items a list may have; ours, for a request and for a person
# What a person writes between the digits. not shown: what a request may hold; an answer holds digits alone
_PHONE_MARKS = re.compile(r"[\s()+./-]+")
_PHONE_NUMBER = re.compile(r"[\s()+./-]*(?:[0-9][\s()+./-]*)+")


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the lists: its items in a request and in an answer, and how a mere text is read as an item."""

    request: type[Item]
    answer: type[Resource]
    item_of_text: Callable[[str], dict[str, str]] | None = None
    hidden: frozenset[str] = frozenset()  # not shown: whether answers carry these; stored, not sent

    @property
    def stored(self) -> tuple[str, ...]:
        """The fields that are kept."""
        return tuple(name for name in self.request.model_fields if name not in Item.model_fields)

    @property
    def sent(self) -> tuple[str, ...]:
        """The fields that are answered."""
        return tuple(name for name in self.answer.model_fields if name != "id" and name not in self.hidden)


@dataclass(frozen=True, slots=True)
class Entry:
    """A list item, checked. What it leaves out is not in ``fields``."""

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
    """The items of a list, or None where a blank string clears it.

    Raises:
        Invalid: It is no list of that kind; the places name the fields.
    """
    if is_blank(value):
        return None
    told = _item_text(KINDS[name], value)
    if len(told) > ITEMS_MAX:
        raise Invalid
    try:
        items = _ADAPTERS[name].validate_python(told)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        raise Invalid(*("".join(f"[{step}]" for step in problem["loc"]) for problem in problems)) from None
    return _checked(KINDS[name], items)


def _item_text(kind: Kind, value: Any) -> list[Any]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = codec.decode(value.encode("utf-8", "surrogatepass"), "json")
        except InvalidResponse:
            raise Invalid from None
    elif isinstance(value, str) and kind.item_of_text:
        value = value.split(",")
    if not isinstance(value, list):
        raise Invalid
    return [_item_told(kind, item) for item in value if not is_blank(item)]


def _item_told(kind: Kind, item: Any) -> Any:
    if isinstance(item, str) and kind.item_of_text:
        return kind.item_of_text(item.strip())
    if isinstance(item, dict):
        # A form sends a blank id with a new item, and a blank _destroy with one that stays.
        return {
            key: value for key, value in item.items() if key not in {"id", "_destroy"} or not is_blank(value)
        }
    return item


def _checked(kind: Kind, items: list[Item]) -> list[Entry]:
    found: list[Entry] = []
    wrong: list[str] = []
    for index, item in enumerate(items):
        try:
            found.append(_entry(kind, item))
        except Invalid as invalid:
            wrong += (f"[{index}]{place}" for place in invalid.places)
    if wrong:
        raise Invalid(*wrong)
    return found


def _entry(kind: Kind, item: Item) -> Entry:
    said = {name: getattr(item, name) for name in kind.stored}
    fields = {name: "" if is_blank(text) else text for name, text in said.items() if text is not None}
    wrong = [f"[{name}]" for name, text in fields.items() if not _fits(name, text)]
    try:
        item_id = whole_number(item.id) if item.id else None
    except Invalid:
        wrong.append("[id]")
    if wrong:
        raise Invalid(*wrong)
    if not (fields or item.id or item.destroy):
        raise Invalid  # nothing that is known: a misspelt name must not be lost in silence
    if "number" in fields:
        fields["number"] = _PHONE_MARKS.sub("", fields["number"])
    return Entry(item_id, bool(item.destroy), fields)


def _fits(name: str, text: str) -> bool:
    return fits(text) and (name != "number" or not text or bool(_PHONE_NUMBER.fullmatch(text)))
