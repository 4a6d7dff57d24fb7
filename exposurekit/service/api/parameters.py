"""Request parameters: parsed and validated against the operations table.

Messages follow the Grape framework: ``limit is invalid: it must be an integer from 1 to 1000``, ``addresses[0][city] is missing``.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from exposurekit.contract.inputs import SERVICE, Item, reason_of
from exposurekit.contract.operations import CREATE_USER, CREDENTIAL_HEADERS, OPERATIONS, Operation
from exposurekit.service.errors import ApiError

PROBLEMS_MAX = 20  # listed in one response


async def validated(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    """Parse an operation's parameters, without credentials and the user's id, which `auth` checks.

    A list becomes a list of `Item`. None means that a blank string clears a list or a number. Raises `ApiError` 400,
    which names each missing or invalid parameter.
    """
    parsed: dict[str, Any] = {}
    problems: list[str] = []
    for parameter, adapter in _ADAPTERS[operation.name]:
        name = parameter.name
        if name not in values:
            problems += [f"{name} is missing"] * parameter.required
            continue
        try:
            parsed[name] = adapter.validate_python(
                values[name], context=SERVICE, by_alias=True, by_name=False
            )
        except ValidationError as error:
            for one in error.errors(include_url=False, include_context=False, include_input=False):
                path = name + "".join(f"[{step}]" for step in one["loc"])
                problems.append(f"{path} is invalid: it {reason_of(one)}")
        if isinstance(parsed.get(name), list):
            await asyncio.sleep(0)  # a long list takes milliseconds
    if operation is CREATE_USER:
        problems += _incomplete(parsed)
    if problems:
        raise ApiError(400, *list(dict.fromkeys(problems))[:PROBLEMS_MAX])
    return parsed


# The name of each operation's user id parameter.
USER_ID_NAMES = {one.name: "user_id" if "user_id" in one.names else "id" for one in OPERATIONS}
_ADAPTERS = {
    operation.name: [
        (parameter, TypeAdapter[Any](parameter.type))
        for parameter in operation.parameters
        if parameter.name not in {"api_key", *CREDENTIAL_HEADERS, USER_ID_NAMES[operation.name]}
    ]
    for operation in OPERATIONS
}


def _incomplete(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what Create user requires beyond the presence of parameters."""
    yield from (f"{name} is empty" for name in ("first_name", "last_name") if values.get(name) == "")
    if "addresses" in values:
        addresses: list[Item] = [item for item in values["addresses"] or () if not item.destroy]
        if not addresses:
            yield "addresses is missing"
        elif not any(item.fields.get("city") and item.fields.get("state") for item in addresses):
            absent = [name for name in ("city", "state") if not addresses[0].fields.get(name)]
            yield from (f"addresses[0][{name}] is missing" for name in absent)
