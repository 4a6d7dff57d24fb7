"""The values of a request: what the service accepts, what the client sends, and the schema of both.

Each type reads a value from any encoding. The service validates with the context `SERVICE`, which applies its limits:
spec does not say: length limits and the format of fields. The client does not know another service's limits.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)

from exposurekit.contract import codec
from exposurekit.contract.types import INT64_MAX, BirthDate, EpochSeconds
from exposurekit.errors import InvalidResponse
from exposurekit.text.words import split_full_name

SERVICE = {"limits": True}  # the validation context of our own service
TEXT_MAX, ITEMS_MAX = 255, 100  # characters of a text; items of a list, in a request and of a user
# Control characters other than tab and line ends, lone surrogates, and what XML cannot represent.
_FORBIDDEN = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff"
_LINE_END = re.compile(r"\r\n?")  # stored as a line feed: XML would read it as one
_FORBIDDEN_CHARACTERS = re.compile(f"[{_FORBIDDEN}]")
_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
# Accepted between the digits. spec does not say: the format in a request; responses have digits only
_MARKS = (
    # Word processors and web pages have dashes of several lengths, and address books put a number between marks of direction.
    r"[\s()+./\u00b7\u200b-\u200f\u2010-\u2015\u202a-\u202e\u2060\u2066-\u2069\u2212-]"
)
_PHONE_MARKS = re.compile(f"{_MARKS}+")
_PHONE_NUMBER = re.compile(f"{_MARKS}*(?:[0-9]{_MARKS}*)+")


class Reason:
    """Why a value is invalid: what it must be. None of them contains a value."""

    BOOLEAN = "must be true or false"
    TEXT = "must be text"
    OBJECT = "must be an object"
    FORM = "must have the documented form"
    DATE = "must be epoch seconds or a date such as 1980-02-29"
    ALIAS_TYPE = "must be nickname or maiden"
    LENGTH = f"must have at most {TEXT_MAX} characters"
    CHARACTERS = "must have no control characters"
    PHONE_NUMBER = "must be digits with only spaces and ()+./- between them"
    FIELDS = "must have a known field"
    JSON = "must be JSON"
    LIST = "must be a list"
    ITEMS = f"must have at most {ITEMS_MAX} items"

    @staticmethod
    def integer(low: int, high: int) -> str:
        """Return what an integer within bounds must be."""
        return f"must be an integer from {low} to {high}"


_REASON_OF_TYPE = {
    "string_type": Reason.TEXT,
    "bool_type": Reason.BOOLEAN,
    "bool_parsing": Reason.BOOLEAN,
    "string_unicode": Reason.BOOLEAN,  # a lone surrogate, which only a boolean does not read
    "model_type": Reason.OBJECT,
    "literal_error": Reason.ALIAS_TYPE,
}


def reason_of(problem: Mapping[str, Any]) -> str:
    """Return the `Reason` why a value is invalid.

    Args:
        problem: One of the errors of a `ValidationError`.
    """
    if problem["type"] == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    return _REASON_OF_TYPE.get(problem["type"], Reason.FORM)


def is_blank(value: Any) -> bool:
    """Return whether the value is a blank string."""
    return isinstance(value, str) and not value.strip(" \t\r\n")  # other control characters are not blank


def read_integer(value: Any, low: int = 0, high: int = INT64_MAX) -> int | None:
    """Read an integer within bounds, by default those of an id; None for a blank."""
    if is_blank(value):
        return None
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(Reason.integer(low, high))
    return value


def integer(low: int, high: int) -> Any:
    """Return the type of an integer within bounds."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Annotated[
        int | None, BeforeValidator(partial(read_integer, low=low, high=high)), WithJsonSchema(schema)
    ]


def _checked_text(value: str, info: ValidationInfo) -> str:
    if not info.context:
        return value
    if len(value) > TEXT_MAX:
        raise ValueError(Reason.LENGTH)
    if _FORBIDDEN_CHARACTERS.search(value):
        raise ValueError(Reason.CHARACTERS)
    return "" if is_blank(value) else _LINE_END.sub("\n", value)


def _checked_id(value: str, info: ValidationInfo) -> str:
    if info.context:
        read_integer(value)
    return value


def _digits(value: str, info: ValidationInfo) -> str:
    if info.context and value and not _PHONE_NUMBER.fullmatch(value):
        raise ValueError(Reason.PHONE_NUMBER)
    return _PHONE_MARKS.sub("", value) if info.context else value


def _boolean(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError(Reason.BOOLEAN)  # noqa: TRY004  pydantic takes only ValueError
    return (value.strip() or None) if isinstance(value, str) else value


def _birth_date(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        if not isinstance(value, bool | float):  # pydantic would read True as 1 and 2.0 as 2
            return read(value)
    except ValueError:  # its message is about one of the formats
        pass
    raise ValueError(Reason.DATE)


_TEXT_SCHEMA = {"type": "string", "maxLength": TEXT_MAX, "pattern": f"^[^{_FORBIDDEN}]*$"}
_PHONE_SCHEMA = _TEXT_SCHEMA | {"pattern": rf"^(?:{_PHONE_NUMBER.pattern}|[ \t\r\n]*)$"}
TextInput = Annotated[str, AfterValidator(_checked_text), WithJsonSchema(_TEXT_SCHEMA)]
FlagInput = Annotated[bool | None, BeforeValidator(_boolean, json_schema_input_type=bool)]
BirthDateInput = Annotated[BirthDate, WrapValidator(_birth_date, json_schema_input_type=EpochSeconds | None)]


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

    id: Annotated[TextInput, AfterValidator(_checked_id)] | None = None
    destroy: bool | None = Field(default=None, alias="_destroy")

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """The id alone: the rest is personal."""
        yield "id", self.id

    @classmethod
    @cache
    def names(cls) -> tuple[str, ...]:
        """Return the names of its own fields, without ``id`` and ``_destroy``."""
        return tuple(name for name in cls.model_fields if name not in Item.model_fields)

    @property
    def fields(self) -> dict[str, str]:
        """The fields that the request has, without ``id`` and ``_destroy``."""
        values = self.__dict__
        return {name: value for name in self.names() if (value := values[name]) is not None}

    @model_validator(mode="after")
    def _is_not_empty(self, info: ValidationInfo) -> Self:
        if info.context and not (self.id or self.destroy or self.fields):
            raise ValueError(Reason.FIELDS)  # do not silently ignore a misspelt name
        return self


class AliasItem(Item):
    """An alias in a request."""

    first_name: TextInput | None = None
    last_name: TextInput | None = None
    alias_type: Literal["nickname", "maiden", ""] | None = None


class EmailItem(Item):
    """An email address in a request."""

    address: TextInput | None = None


class PhoneNumberItem(Item):
    """A phone number in a request."""

    number: Annotated[TextInput, AfterValidator(_digits), WithJsonSchema(_PHONE_SCHEMA)] | None = None


class AddressItem(Item):
    """A postal address in a request."""

    address1: TextInput | None = None
    address2: TextInput | None = None
    city: TextInput | None = None
    state: TextInput | None = None
    zip: TextInput | None = None
    country: TextInput | None = None


ADDRESS_FIELDS = AddressItem.names()


def _full_name(text: str) -> dict[str, str]:
    return dict(zip(("first_name", "last_name"), split_full_name(text), strict=True))


def _from_json(text: str, *, is_request: bool) -> Any:
    try:
        return codec.decode(text.encode("utf-8", "surrogatepass"), "json", is_request=is_request)
    except InvalidResponse:
        raise ValueError(Reason.JSON) from None


def _list_of(item: type[Item], parse: Callable[[str], dict[str, str]] | None = None) -> Any:
    """Return the type of a list: objects, the JSON text of them or, with ``parse``, a comma-separated text.

    A blank text is None: it clears the list.
    """

    def read(value: Any, info: ValidationInfo) -> Any:
        if is_blank(value):
            return None
        if isinstance(value, str) and value.lstrip().startswith("["):
            value = _from_json(value, is_request=bool(info.context))
        elif isinstance(value, str) and parse:
            value = value.split(",")
        items = [one for one in value if not is_blank(one)] if isinstance(value, list) else None
        if items is None:
            raise ValueError(Reason.LIST)
        if info.context and len(items) > ITEMS_MAX:
            raise ValueError(Reason.ITEMS)
        return [read_item(one) for one in items]

    def read_item(value: Any) -> Any:
        if isinstance(value, str) and parse:
            return parse(value.strip())
        if isinstance(value, dict):
            # A form sends a blank id for a new item, and a blank _destroy for an item to keep.
            return {
                key: one for key, one in value.items() if key not in {"id", "_destroy"} or not is_blank(one)
            }
        return value

    schema = Annotated[list[item], Field(max_length=ITEMS_MAX)]  # type: ignore[valid-type]
    return Annotated[list[item] | None, BeforeValidator(read, json_schema_input_type=schema)]  # type: ignore[valid-type]


AliasesInput = _list_of(AliasItem, _full_name)
EmailsInput = _list_of(EmailItem, lambda text: {"address": text})
PhoneNumbersInput = _list_of(PhoneNumberItem, lambda text: {"number": text})
AddressesInput = _list_of(AddressItem)
