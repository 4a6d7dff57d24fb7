"""The list items of a request: what may be asked of an alias, an e-mail, a phone number, an address. Changes nothing."""

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Item(BaseModel):
    """A list item of a request. Without ``id`` it is appended, with ``id`` updated, with ``_destroy`` deleted."""

    model_config = ConfigDict(
        extra="allow",
        coerce_numbers_to_str=True,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
    )

    id: str | None = None
    destroy: bool | None = Field(default=None, alias="_destroy")

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """The id alone: the rest is personal."""
        yield "id", self.id


class AliasItem(Item):
    """An alias in a request."""

    first_name: str | None = None
    last_name: str | None = None
    alias_type: Literal["nickname", "maiden", ""] | None = None


class EmailItem(Item):
    """An e-mail address in a request."""

    address: str | None = None


class PhoneNumberItem(Item):
    """A phone number in a request."""

    number: str | None = None


class AddressItem(Item):
    """A postal address in a request."""

    address1: str | None = None
    address2: str | None = None
    city: str | None = None
    state: str | None = None
    zip: str | None = None
    country: str | None = None
