"""Lenient reading of responses that deviate from the specification; each deviation is counted.

A field that is null, missing or of another type is converted if the meaning is plain (``"12"`` for 12, one item for a
list of one), else null. A list item that is not an object, or a record without an id, is dropped. ``strict=True`` of
a client turns this off.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from math import isfinite
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from exposurekit.contract.deviations import (
    ABSENT,
    ITEM_LOST,
    MISSING,
    NULL,
    OUT_OF_RANGE,
    REPEATED,
    UNREADABLE,
    UNWRAPPED,
    WRAPPED,
    Deviation,
    example,
    is_number,
    json_type,
    problem_in_words,
)
from exposurekit.contract.models import (
    Alert,
    AlertSource,
    Link,
    Record,
    Resource,
    ServiceHistoryEntry,
    UserKey,
)
from exposurekit.contract.schema import described, names_of, options_of, row_adapter
from exposurekit.contract.types import DESCRIBED
from exposurekit.errors import InvalidResponse

M = TypeVar("M", bound=Resource)

_EXPECTED = {bool: "boolean", int: "integer", str: "text", datetime: "timestamp"}
_ERRORS = ("error", "errors", "message")
_LENIENT = ConfigDict(coerce_numbers_to_str=True, hide_input_in_errors=True)
_OF_USER = "user."
_SOURCES = {"record": Record, "link": Link}
_SOURCE_NAMES, _EVENTS = tuple(_SOURCES), tuple(ServiceHistoryEntry.model_fields)
_ONE_OF: dict[type[BaseModel], Iterable[str]] = {AlertSource: _SOURCES, ServiceHistoryEntry: _EVENTS}


@dataclass(slots=True)
class Reading:
    """The value that was read, a model or, for bulk, plain dicts; and its deviations, with their counts."""

    value: Any
    deviations: dict[Deviation, int]
    lost_items: list[Any] = field(default_factory=list, repr=False)  # as they came


def as_model(model: type[M], values: Any, operation: str = "", *, typed: bool = True) -> Reading:
    """Read plain values as a model.

    ``typed`` is whether the encoding has types: XML has none, so text for a number is no deviation there.

    Raises:
        InvalidResponse: It is not an object, or lacks an essential field; the message names the field.
    """
    if isinstance(values, dict) and not values.keys() & _field_names(model) and _is_list_alone(model):
        raise InvalidResponse(f"{_fields(model)[0].name} is missing")  # unknown is not empty
    return _Reader(_build, _exact_model, operation, typed).read(model, values)


def as_rows(model: type[Resource], values: Any, operation: str = "", *, typed: bool = True) -> Reading:
    """Read plain values as plain dicts, with exactly the fields of the model."""
    return _Reader(lambda _model, fields, _extra: fields, _exact_row, operation, typed).read(model, values)


def _build(model: type[BaseModel], fields: dict[str, Any], extra: dict[str, Any]) -> BaseModel:
    return model.model_construct(None, **extra, **fields)


def _exact_model(model: type[BaseModel], values: dict[str, Any], strict: bool | None) -> BaseModel:  # noqa: FBT001
    return model.model_validate(values, strict=strict)


def _exact_row(model: type[BaseModel], values: dict[str, Any], strict: bool | None) -> Any:  # noqa: FBT001
    return row_adapter(model).validate_python(values, strict=strict)


class _Lost(Exception):
    """An object cannot be read because an essential field cannot."""

    def __init__(self, where: str, kind: str) -> None:
        super().__init__(where)
        self.where = where
        self.kind = kind


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field of a model is read."""

    name: str
    names: tuple[str, ...]  # every name that it is read by
    expected: str  # its type, in a word
    described: bool  # the specification always gives it a value: null and absence are deviations
    required: bool  # it has no default
    nullable: bool
    item: type[BaseModel] | None  # the model of an object, or of a list's items; None: it is a value
    is_list: bool
    takes_text: bool  # a list may also be one text
    plain: type | None  # the Python type that needs no further check; None: the adapter checks
    adapter: TypeAdapter[Any]
    default: Any

    @property
    def essential(self) -> bool:
        """Whether its object cannot be read without it."""
        return self.required and not self.described


@cache
def _fields(model: type[BaseModel]) -> tuple[_Field, ...]:
    return tuple(_field(name, info) for name, info in model.model_fields.items())


def _field(name: str, info: Any) -> _Field:
    annotation = described(info)
    options = options_of(annotation)
    lists = [option for option in options if getattr(option, "__origin__", None) is list]
    inner = [leaf for one in lists for leaf in options_of(get_args(one)[0])] if lists else options
    models = [one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)]
    expected = (
        "list" if lists else "object" if models else _EXPECTED[next(o for o in options if o in _EXPECTED)]
    )
    others = [one for one in info.metadata if one != DESCRIBED]
    plain = options[0] if annotation in {str, bool} and not others else None
    return _Field(
        name=name,
        names=tuple(names_of(name, info)),
        expected=expected,
        described=DESCRIBED in info.metadata,
        required=info.is_required(),
        nullable=type(None) in options,
        item=models[0] if models else None,
        is_list=bool(lists),
        takes_text=bool(lists) and str in options,
        plain=plain,
        adapter=TypeAdapter(
            annotation if models else _with(annotation, others), config=None if models else _LENIENT
        ),
        default=_default(info),
    )


def _with(annotation: Any, metadata: list[Any]) -> Any:
    return Annotated[(annotation, *metadata)] if metadata else annotation


def _default(info: Any) -> Any:
    return None if info.is_required() else info.get_default(call_default_factory=True)


def _is_list_alone(model: type[BaseModel]) -> bool:
    return len(_fields(model)) == 1 and _fields(model)[0].is_list


@cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(name for one in _fields(model) for name in one.names)


@dataclass(slots=True)
class _Reader:
    build: Callable[[Any, dict[str, Any], dict[str, Any]], Any]
    exact: Callable[[type[BaseModel], dict[str, Any], bool | None], Any]
    operation: str
    typed: bool
    notes: dict[tuple[str, str], Deviation] = field(default_factory=dict)
    times: Counter[tuple[str, str]] = field(default_factory=Counter)
    lost_items: list[Any] = field(default_factory=list)

    def read(self, model: type[Resource], values: Any) -> Reading:
        """Read the outermost object of a response."""
        if not isinstance(values, dict):
            raise InvalidResponse(f"the whole {problem_in_words(json_type(values))}")
        if not values.keys() & _field_names(model):
            values = self._wrapped(model, values)
        try:
            value = self.object(model, values, "")
        except _Lost as lost:
            problem = f"{lost.where} {problem_in_words(lost.kind)}"
        else:
            times = {one: self.times[key] for key, one in self.notes.items()}
            return Reading(value, times, self.lost_items)
        raise InvalidResponse(problem)

    def _wrapped(self, model: type[Resource], values: dict[str, Any]) -> dict[str, Any]:
        """Wrap an object that lacks the single key around it."""
        if any(name in values for name in _ERRORS):
            raise InvalidResponse("it is an error message")
        first, *others = _fields(model)
        if others or first.item is None or first.is_list or "id" not in values:
            return values
        self.note(first.name, UNWRAPPED, values)
        return {first.name: values}

    def note(self, where: str, kind: str, value: Any, *, costs_item: bool = False) -> None:
        """Count a deviation; store its first example."""
        where = where.removeprefix(_OF_USER)
        self.times[where, kind] += 1
        if (where, kind) not in self.notes:
            self.notes[where, kind] = Deviation(self.operation, where, kind, example(value), costs_item)

    def object(self, model: type[BaseModel], values: dict[str, Any], where: str) -> Any:
        """Read an object's fields, or raise `_Lost` if an essential one cannot be read."""
        values = _bare(model, values)
        fields = {}
        for one in _fields(model):
            value = _value(values, one.names)
            fields[one.name] = self.field(one, value, f"{where}.{one.name}" if where else one.name)
        extra = {name: value for name, value in values.items() if name not in _field_names(model)}
        return self.build(model, fields, extra)

    def field(self, one: _Field, value: Any, where: str) -> Any:
        if one.plain is not None and type(value) is one.plain:
            return value
        if value is ABSENT or value is None:
            return self._nothing(one, value, where)
        if one.item is not None and one.is_list:
            return self._items(one, one.item, value, where)
        if one.item is not None:
            return self._inner(one, one.item, value, where)
        return self._texts(one, value, where) if one.is_list else self._leaf(one, value, where)

    def _nothing(self, one: _Field, value: Any, where: str) -> Any:
        kind = MISSING if value is ABSENT else NULL
        if one.essential:
            raise _Lost(where, kind)
        if one.described:
            self.note(where, kind, value, costs_item=one.item is not None and one.is_list)
        if one.item is not None and one.described:
            return [] if one.is_list else self.object(one.item, {}, where)
        return _empty(one)

    def _lost(self, one: _Field, value: Any, where: str, kind: str) -> Any:
        if one.essential:
            raise _Lost(where, kind)
        things = one.item is not None and one.is_list
        self.note(where, kind + UNREADABLE, value, costs_item=things)
        if things:
            return []
        if one.item is not None and one.described:
            return self.object(one.item, {}, where)
        return None if one.described else _empty(one)

    def _items(self, one: _Field, model: type[BaseModel], value: Any, where: str) -> list[Any]:
        if isinstance(value, dict):
            items = _as_items(model, value)
            if items is None:
                return self._lost(one, value, where, _kind(value, one))  # type: ignore[no-any-return]
            self.note(where, _kind(value, one), value)
        elif isinstance(value, list):
            items = value
        else:
            return self._lost(one, value, where, _kind(value, one))  # type: ignore[no-any-return]
        objects: dict[Any, Any] = {}
        for index, item in enumerate(items):
            try:
                read = self._item(model, item, where)
            except _Lost as lost:
                self._item_lost(lost.where, lost.kind, item)
                continue
            key = _get(read, "id") if issubclass(model, Record) else index
            if key in objects:
                self.note(where, REPEATED, item)
            objects.setdefault(key, read)
        return [*objects.values()]

    def _item(self, model: type[BaseModel], item: Any, where: str) -> Any:
        if not isinstance(item, dict):
            raise _Lost(where, f"{json_type(item)} for object")
        _check_value(model, item, where)
        if model is UserKey and (bare := _bare(model, item)) is not item:
            self.note(where, WRAPPED, item)
            item = bare
        with suppress(ValidationError):  # most items conform, and validation is ten times as fast
            read = self.exact(model, _bare(model, item), self.typed or None)
            if model is not Alert or _get(_get(read, "source"), *_SOURCES) is not None:
                return read
        return self.object(model, item, where)

    def _item_lost(self, where: str, kind: str, item: Any) -> None:
        self.lost_items.append(item)
        self.note(where, kind + ITEM_LOST, item, costs_item=True)

    def _inner(self, one: _Field, model: type[BaseModel], value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            return self._lost(one, value, where, _kind(value, one))
        if model is AlertSource:
            value = self._source(value, where)
        try:
            _check_value(model, value, where)
            return self.object(model, value, where)
        except _Lost as lost:
            if one.essential:
                raise
            return self._lost(one, value, lost.where, lost.kind)

    def _source(self, values: dict[str, Any], where: str) -> dict[str, Any]:
        """Wrap a record or a link that lacks the single key around it."""
        names = values.keys()
        if names & _field_names(AlertSource):
            return values
        name = next((name for name, model in _SOURCES.items() if names & _field_names(model)), None)
        if name is None:
            return values
        self.note(where, UNWRAPPED, values)
        return {name: values}

    def _texts(self, one: _Field, value: Any, where: str) -> Any:
        if isinstance(value, list):
            value = [text for item in value if (text := self._text(item, where)) is not None]
        elif not (is_number(value) or isinstance(value, str)):
            return self._lost(one, value, where, _kind(value, one))
        elif not (one.takes_text and isinstance(value, str)):
            self.note(where, _kind(value, one), value)
            value = [str(value)] if str(value).strip() else []
        return one.adapter.validate_python(value)

    def _text(self, item: Any, where: str) -> str | None:
        if isinstance(item, str):
            return item
        if self.typed or not isinstance(item, int):
            self.note(where, f"{json_type(item)} for text{'' if is_number(item) else ITEM_LOST}", item)
        return str(item) if is_number(item) else None

    def _leaf(self, one: _Field, value: Any, where: str) -> Any:
        with suppress(ValidationError):
            return one.adapter.validate_python(value, strict=self.typed or type(value) is not str)
        kind = _kind(value, one)
        if isinstance(value, float) and not isfinite(value):
            return self._lost(one, value, where, kind)
        if type(value) is not bool or one.expected == "boolean":
            if isinstance(value, str) and one.expected == "boolean":
                value = value.strip().lower()
            with suppress(ValidationError, OverflowError):
                read = one.adapter.validate_python(value)
                if not one.essential or read is not None:
                    self.note(where, kind, value)
                    return read
        return self._lost(one, value, where, kind)


def conforms(reply: Any) -> bool:
    """Return whether a valid reply has no deviation that validation does not see, such as a repeated record."""
    get: Any = dict.get if isinstance(reply, dict) else _get
    owner = get(reply, "user") or reply
    ids = [get(record, "id") for record in get(owner, "records") or ()]
    items = [(entry, _EVENTS) for entry in get(owner, "service_history") or ()]
    items += [(get(alert, "source"), _SOURCE_NAMES) for alert in get(owner, "alerts") or ()]
    have_values = all(get(item, a) is not None or get(item, b) is not None for item, (a, b) in items)
    return len({*ids}) == len(ids) and have_values


def _get(item: Any, *names: str) -> Any:
    """Return the first value that a model or plain dict has under one of the names."""
    values = (item.get(name) if isinstance(item, dict) else getattr(item, name, None) for name in names)
    return next((value for value in values if value is not None), None)


def _check_value(model: type[BaseModel], values: dict[str, Any], where: str) -> None:
    """Check that an alert's source or a service history entry has a value, if only of a kind that is not known."""
    names = _ONE_OF.get(model, ())
    is_other = model is AlertSource and any(isinstance(value, dict) for value in values.values())
    if names and _get(values, *names) is None and not is_other:
        raise _Lost(where, f"object without {' or '.join(names)}")


def _empty(one: _Field) -> Any:
    """Return the value of a field that may be null or absent, such as no steps."""
    return one.adapter.validate_python(None) if one.nullable else one.default


def _value(values: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    first = ABSENT
    for name in names:
        value = values.get(name, ABSENT)
        if value is not ABSENT and value is not None:
            return value
        first = value if first is ABSENT else first
    return first


def _bare(model: type[BaseModel], values: dict[str, Any]) -> dict[str, Any]:
    """Unwrap a record, or a user in a list of users."""
    name = "record" if issubclass(model, Record) else "user" if model is UserKey else None
    while name and "id" not in values and isinstance(inner := values.get(name), dict):
        values = inner
    return values


def _as_items(model: type[BaseModel], value: dict[str, Any]) -> list[Any] | None:
    """Read an object instead of a list: its one item, or its items by position."""
    bare = _bare(model, value)
    if bare is not value or bare.keys() & _field_names(model):
        return [value]
    return list(value.values()) if value and all(name.isdecimal() for name in value) else None


def _kind(value: Any, one: _Field) -> str:
    got = json_type(value)
    return f"{got} {OUT_OF_RANGE}" if got == one.expected else f"{got} for {one.expected}"
