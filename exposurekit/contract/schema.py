"""Shapes and row types, derived from the models: for XML, which has no types of its own, and for bulk loads."""

from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices, BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from exposurekit.contract.types import DESCRIBED, without_none


class Scalar(Enum):
    """A leaf: the meaning of an empty element, and whether a declared type is used."""

    TEXT = "text"  # always text; empty is ""
    NULLABLE_TEXT = "nullable text"  # always text; empty is null
    VALUE = "value"  # by its type attribute, else text; empty is null


@dataclass(frozen=True, slots=True)
class Many:
    """A list. ``or_text``: or one text (``opt_out_procedure``). ``nullable``: or null."""

    item: "Shape"
    or_text: bool = False
    nullable: bool = False


Shape = Scalar | Many | dict[str, "Shape"]


def described(field: FieldInfo) -> Any:
    """Return a field's type in the specification: without the null of lenient reading."""
    return without_none(field.annotation) if DESCRIBED in field.metadata else field.annotation


def names_of(name: str, field: FieldInfo) -> list[str]:
    """Return every name that a field is read by, its own first."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [field.alias]
    return list(dict.fromkeys([name, *(str(key) for key in choices if key)]))


@cache
def shape_of_model(model: type[BaseModel]) -> dict[str, Shape]:
    """Return the shape of a model: its fields under every name they are read by."""
    shapes: dict[str, Shape] = {}
    for name, field in model.model_fields.items():
        shape = shape_of_type(described(field))
        shapes |= dict.fromkeys(names_of(name, field), shape)
    return shapes


def shape_of_type(annotation: Any) -> Shape:
    """Return the shape of a type: a model's fields, a list's items, or a leaf."""
    options = options_of(annotation)
    for option in options:
        if get_origin(option) is list:
            return Many(
                shape_of_type(get_args(option)[0]), or_text=str in options, nullable=NoneType in options
            )
        if isinstance(option, type) and issubclass(option, BaseModel):
            return shape_of_model(option)
    if set(options) <= {str, NoneType}:
        return Scalar.NULLABLE_TEXT if NoneType in options else Scalar.TEXT
    return Scalar.VALUE


def options_of(annotation: Any) -> list[Any]:
    """Return the members of a union, or the type itself."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return options_of(get_args(annotation)[0])
    if origin in {Union, UnionType}:
        return [leaf for option in get_args(annotation) for leaf in options_of(option)]
    return [annotation]


@cache
def row_type(model: type[BaseModel]) -> Any:
    """Return a TypedDict with the same fields and rules: bulk loads validate bytes to dicts.

    Model objects as an intermediate step would cost a fifth more.
    """
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        rules = Annotated[(_rows(field.annotation), *field.metadata, field)]  # type: ignore[valid-type]
        fields[name] = rules
    build: Any = TypedDict  # its name is known only at run time
    row = build(f"{model.__name__}Row", fields)
    row.__pydantic_config__ = {**model.model_config, "extra": "ignore", "cache_strings": "keys"}
    return row


@cache
def row_adapter(model: type[BaseModel]) -> TypeAdapter[Any]:
    """Return what validates values as such dicts."""
    return TypeAdapter(row_type(model))


def _rows(annotation: Any) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_rows(arguments[0]), *arguments[1:])]
    if origin is list:
        return list[_rows(arguments[0])]  # type: ignore[misc]
    if origin in {Union, UnionType}:
        return Union[tuple(_rows(option) for option in arguments)]  # noqa: UP007  built at run time
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return row_type(annotation)
    return annotation
