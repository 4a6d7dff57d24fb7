"""Request parameters: parsed and validated against the operations table.

Messages follow the Grape framework: ``limit is invalid``, ``addresses[0][city] is missing``.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, get_origin

from exposurekit.contract.operations import (
    CREATE_USER,
    CREDENTIAL_HEADERS,
    LIST_LIMIT_MAX,
    OPERATIONS,
    Operation,
    Parameter,
)
from exposurekit.contract.types import INT64_MAX, BirthDate
from exposurekit.service.accounts import inputs, list_inputs
from exposurekit.service.accounts.inputs import InvalidValue
from exposurekit.service.accounts.list_inputs import Entry
from exposurekit.service.errors import ApiError

PROBLEMS_MAX = 20  # listed in one response
RANGES = {"limit": (1, LIST_LIMIT_MAX), "offset": (0, INT64_MAX)}


def validated(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    """Parse an operation's parameters, without credentials and the user's id, which `auth` checks.

    A list becomes a list of entries. None means that a blank string clears a list or a number.

    Raises:
        ApiError: 400, naming each missing or invalid parameter.
    """
    parsed: dict[str, Any] = {}
    problems: list[str] = []
    for parameter, read in _READERS[operation.name]:
        name = parameter.name
        if name not in values:
            problems += [f"{name} is missing"] * parameter.required
            continue
        try:
            parsed[name] = read(values[name])
        except InvalidValue as invalid:
            problems += (f"{name}{path} is invalid" for path in invalid.paths)
    if operation is CREATE_USER:
        problems += _incomplete(parsed)
    if problems:
        raise ApiError(400, *list(dict.fromkeys(problems))[:PROBLEMS_MAX])
    return parsed


def name_of_user_id(operation: Operation) -> str:
    """Return the name of the operation's user id parameter."""
    return _USER_ID[operation.name]


_USER_ID = {one.name: "user_id" if "user_id" in one.names else "id" for one in OPERATIONS}


def _readers(operation: Operation) -> tuple[tuple[Parameter, Callable[[Any], Any]], ...]:
    others = {"api_key", *CREDENTIAL_HEADERS, name_of_user_id(operation)}
    return tuple(
        (parameter, _reader(parameter)) for parameter in operation.parameters if parameter.name not in others
    )


def _reader(parameter: Parameter) -> Callable[[Any], Any]:
    if get_origin(parameter.type) is list:
        return partial(list_inputs.entries, parameter.name)
    if parameter.name in RANGES:
        low, high = RANGES[parameter.name]
        return partial(inputs.whole_number, low=low, high=high)
    readers: dict[Any, Callable[[Any], Any]] = {
        str: inputs.text,
        bool: inputs.boolean,
        BirthDate: inputs.birth_date,
    }
    return readers.get(parameter.type, inputs.whole_number)


_READERS = {operation.name: _readers(operation) for operation in OPERATIONS}


def _incomplete(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what Create user requires beyond the presence of parameters."""
    yield from (f"{name} is empty" for name in ("first_name", "last_name") if values.get(name) == "")
    if "addresses" in values:
        addresses: list[Entry] = [entry for entry in values["addresses"] or () if not entry.destroy]
        if not addresses:
            yield "addresses is missing"
        elif not any(entry.fields.get("city") and entry.fields.get("state") for entry in addresses):
            absent = [name for name in ("city", "state") if not addresses[0].fields.get(name)]
            yield from (f"addresses[0][{name}] is missing" for name in absent)
