"""Decode and encode Rails-style form fields: ``addresses[][city]``, ``addresses[0][city]``."""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

from exposurekit.errors import InvalidResponse

FIELDS_MAX, DEPTH_MAX = 2_500, 8  # four full lists have 1,900 fields
_NESTED_OR_ESCAPED = re.compile(r"[\[\]%+]")
_KEY = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")

Pairs = list[tuple[str, str]]


def decode(body: str) -> dict[str, Any]:
    """Decode a query string or a form body to nested plain values."""
    flat = None if _NESTED_OR_ESCAPED.search(body) else _flat(body)
    if flat is not None:
        return flat
    try:
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except (ValueError, UnicodeError):
        pairs = None
    if pairs is None:
        raise InvalidResponse(f"not a form: its text is not UTF-8, or it has more than {FIELDS_MAX} fields")
    return nest(pairs)


def _flat(body: str) -> dict[str, Any] | None:
    """Decode fields with plain names, in a fifth of the time; None: `nest` reports the problem."""
    fields = body.split("&")
    if len(fields) > FIELDS_MAX:
        return None
    values: dict[str, Any] = {}
    for field in fields:
        name, _, value = field.partition("=")
        if field and (not name or values.setdefault(name, value) != value):
            return None
    return values


def nest(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Nest fields with bracketed names; index hashes become lists."""
    top: dict[str, Any] = {}
    for name, value in pairs:
        if name.count("[") >= DEPTH_MAX:
            raise InvalidResponse(f"not a form: a field's name nests deeper than {DEPTH_MAX}")
        match = _KEY.fullmatch(name)
        if not match:
            raise InvalidResponse("not a form: a field's name has brackets that do not match")
        steps = [match[1], *re.findall(r"\[([^\[\]]*)\]", match[2])]
        _put(top, steps, value)
    return {name: _indexed(value) for name, value in top.items()}


def _put(into: dict[str, Any], steps: list[str], value: str) -> None:
    name, *rest = steps
    if not rest:
        if into.setdefault(name, value) != value:
            raise InvalidResponse("not a form: one name is given two values")
    elif rest[0] == "":
        items = into.setdefault(name, [])
        if not isinstance(items, list):
            raise InvalidResponse("not a form: one name is given two shapes")
        _append(items, rest[1:], value)
    else:
        inner = into.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InvalidResponse("not a form: one name is given two shapes")
        _put(inner, rest, value)


def _append(items: list[Any], steps: list[str], value: str) -> None:
    if not steps:
        items.append(value)
        return
    # As in Rack: a name that the last item already has starts the next item.
    if not items or not isinstance(items[-1], dict) or _has(items[-1], steps):
        items.append({})
    _put(items[-1], steps, value)


def _has(item: dict[str, Any], steps: list[str]) -> bool:
    name, *rest = steps
    if name not in item:
        return False
    return not rest or (rest[0] != "" and isinstance(item[name], dict) and _has(item[name], rest))


def _indexed(value: Any) -> Any:
    if isinstance(value, list):
        return [_indexed(item) for item in value]
    if not isinstance(value, dict):
        return value
    if all(re.fullmatch(r"\d{1,6}", key, re.ASCII) for key in value):
        return [_indexed(value[key]) for key in sorted(value, key=int)]
    return {key: _indexed(item) for key, item in value.items()}


def encode(values: dict[str, Any]) -> bytes:
    """Encode nested plain values as a form body, without None."""
    try:
        return urlencode(list(flatten(values))).encode()
    except UnicodeEncodeError:
        problem = "the value cannot be written as a form"
    raise InvalidResponse(problem)


def flatten(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Flatten nested plain values to fields with bracketed names."""
    for name, value in values.items():
        yield from _fields(name, value)


def _fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _fields(f"{name}[{key}]", item)
    elif isinstance(value, list):
        yield from _items(name, value)
    elif value is not None:
        yield name, str(value).lower() if isinstance(value, bool) else str(value)


def _items(name: str, items: list[Any]) -> Iterator[tuple[str, str]]:
    items = [
        {k: v for k, v in item.items() if v is not None} if isinstance(item, dict) else item for item in items
    ]
    dicts = [item for item in items if isinstance(item, dict)]
    # Items without a common name would merge under []: number them instead.
    common = next((key for key in dicts[0] if all(key in item for item in dicts)), None) if dicts else None
    for index, item in enumerate(items):
        if isinstance(item, dict) and common is not None:
            yield from _fields(f"{name}[]", {common: item[common], **item})
        else:
            yield from _fields(f"{name}[{index}]" if dicts else f"{name}[]", item)
