"""The eight operations: what each asks of the domain, and what it answers. Knows neither HTTP nor an encoding."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from exposurekit.contract.operations import (
    CREATE_USER,
    GET_RECORD,
    GET_USER,
    GET_USER_ALERTS,
    LIST_USER_LINKS,
    LIST_USER_RECORDS,
    LIST_USERS,
    UPDATE_USER,
)
from exposurekit.service import findings, users
from exposurekit.service.database import Database, Work
from exposurekit.service.front import gate, parameters
from exposurekit.service.front.gate import Caller
from exposurekit.service.front.requests import Asked
from exposurekit.service.refusals import Refusal
from exposurekit.service.users import Account

Answer = dict[str, Any]
Performs = Callable[[Work, Caller, Mapping[str, Any]], Awaitable[Answer]]


async def answer(database: Database, asked: Asked) -> Answer:
    """Perform an operation.

    Raises:
        Refusal: 400 or 401, as the specification and CONTRACT.md list them.
    """
    performs, writes = _PERFORMS[asked.operation.name]
    async with database.reading() as work:
        caller = await gate.admit(work, asked)
        values = parameters.validated(asked.operation, caller.values)
        if not writes:
            return await performs(work, caller, values)
    async with database.writing() as work:
        return await performs(work, caller, values)


async def _create_user(work: Work, caller: Caller, values: Mapping[str, Any]) -> Answer:
    account = await users.create(work, caller.integrator_id, values)
    return {"user": await users.show(work, account)}


async def _list_users(work: Work, caller: Caller, values: Mapping[str, Any]) -> Answer:
    return await users.page(work, caller.integrator_id, values)


async def _get_user(work: Work, caller: Caller, _: Mapping[str, Any]) -> Answer:
    return {"user": await users.show(work, _account(caller), with_removal_fields=True)}


async def _update_user(work: Work, caller: Caller, values: Mapping[str, Any]) -> Answer:
    account = await users.update(work, _account(caller), values)
    return {"user": await users.show(work, account)}


async def _list_user_records(work: Work, caller: Caller, _: Mapping[str, Any]) -> Answer:
    return {"records": await findings.records_of(work, _account(caller).id)}


async def _get_record(work: Work, caller: Caller, values: Mapping[str, Any]) -> Answer:
    record = await findings.record_of(work, _account(caller).id, values["id"])
    if record is None:
        raise Refusal(400, "id is invalid")
    return {"record": record}


async def _list_user_links(work: Work, caller: Caller, _: Mapping[str, Any]) -> Answer:
    return {"links": await findings.links_of(work, _account(caller).id)}


async def _get_user_alerts(work: Work, caller: Caller, _: Mapping[str, Any]) -> Answer:
    return {"alerts": await findings.alerts_of(work, _account(caller).id)}


def _account(caller: Caller) -> Account:
    if caller.account is None:
        raise LookupError("this operation is about one user, and the gate let none in")
    return caller.account


# What performs an operation, and whether it writes.
_PERFORMS: Mapping[str, tuple[Performs, bool]] = {
    CREATE_USER.name: (_create_user, True),
    LIST_USERS.name: (_list_users, False),
    GET_USER.name: (_get_user, False),
    UPDATE_USER.name: (_update_user, True),
    LIST_USER_RECORDS.name: (_list_user_records, False),
    GET_RECORD.name: (_get_record, False),
    LIST_USER_LINKS.name: (_list_user_links, False),
    GET_USER_ALERTS.name: (_get_user_alerts, False),
}
