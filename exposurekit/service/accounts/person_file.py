"""Person files: the data of a person to register, as YAML or JSON with the parameters of Create user."""

from collections.abc import Iterator, Mapping
from typing import Any

from exposurekit.contract.inputs import AddressItem, AliasItem, EmailItem, Item, PhoneNumberItem
from exposurekit.contract.operations import CREATE_USER
from exposurekit.errors import ConfigurationError, suggestion
from exposurekit.system.named_files import decode
from exposurekit.text import plain_yaml
from exposurekit.text.plain_yaml import Document, InvalidYaml, Position

SIZE_MAX = 256 * 1024  # bytes, as of a request's body
KEYS = tuple(name for name in CREATE_USER.names if name not in {"api_key", "api_secret", "async"})
_ITEMS: Mapping[str, type[Item]] = {
    "aliases": AliasItem,
    "emails": EmailItem,
    "phone_numbers": PhoneNumberItem,
    "addresses": AddressItem,
}


def read(content: bytes, label: str) -> dict[str, Any]:
    """Return the parameters in a file; a key without a value is left out.

    Raises:
        ConfigurationError: The message names the line and the key, and no value; `label` names the file.
    """
    if len(content) > SIZE_MAX:
        raise ConfigurationError(f"{label} is larger than {SIZE_MAX // 1024} KiB")
    try:
        document = plain_yaml.read(decode(content, label))
    except InvalidYaml as error:  # its detail may hold a value
        raise ConfigurationError(f"{label}, line {error.line}: {error.reason}") from None
    if not isinstance(document.value, dict):
        raise ConfigurationError(f"{label} must have keys with values, such as first_name: Mara")
    for line, problem in _problems(document):
        raise ConfigurationError(f"{label}, line {line}: {problem}")
    values: dict[str, Any] = _without_none(document.value)
    return values


def _problems(document: Document) -> Iterator[tuple[int, str]]:
    for position, value in _positions(document.value, ()):
        if (keys := _keys(position)) is not None and position[-1] not in keys:
            hint = suggestion(str(position[-1]), keys) or f": the keys are {', '.join(keys)}"
            yield document.line(position), f"unknown key{hint}"
        if isinstance(value, dict) and not _may_have_keys(position):
            what = "a list" if position[0] in _ITEMS and len(position) == 1 else "text"
            yield document.line(position), f"{_path(position)} must be {what}"
        if isinstance(value, bool | int | float) and position != ("birth_date",):
            # YAML reads 01234 as 668, and NO as false.
            yield document.line(position), f"{_path(position)} must be in quotes, so that it is read as text"


def _keys(position: Position) -> tuple[str, ...] | None:
    """Return the keys that may be at a position; None: any, or no key is there."""
    match position:
        case (_,):
            return KEYS
        case (str() as name, int(), str()) if name in _ITEMS:
            return _ITEMS[name].names()
    return None


def _may_have_keys(position: Position) -> bool:
    """Return whether the keys at a position are known ones; others may be values, which no message names."""
    match position:
        case (str() as name, int()):
            return name in _ITEMS
    return False


def _positions(value: Any, at: Position) -> Iterator[tuple[Position, Any]]:
    """Yield each key and item with its value, in order."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*at, key), inner
        yield from _positions(inner, (*at, key))


def _path(position: Position) -> str:
    name, *steps = position
    return f"{name}{''.join(f'[{step}]' for step in steps)}"


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list) else value
