"""The eight operations: what each asks of the domain, and what it answers. Knows no HTTP.

The two that are asked most are remembered as they were encoded, see `memory`.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from exposurekit.contract import codec
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
from exposurekit.service.accounts import users
from exposurekit.service.accounts.users import Account
from exposurekit.service.api import auth, parameters
from exposurekit.service.api.auth import Principal
from exposurekit.service.api.cache import ResponseCache
from exposurekit.service.api.requests import ApiRequest
from exposurekit.service.api.scan_wait import ScanWaiter
from exposurekit.service.errors import ApiError
from exposurekit.service.findings import findings, removals
from exposurekit.service.storage.database import Database, Session

Answer = dict[str, Any]
Looks = Callable[[Session, Principal, Mapping[str, Any]], Awaitable[Answer]]
States = Callable[[Session, Principal, Mapping[str, Any]], Awaitable[Hashable]]


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What an operation needs beside the request: the database, what is remembered, the scans it may wait for."""

    database: Database
    scans: ScanWaiter
    memory: ResponseCache


Writes = Callable[[ApiContext, Principal, Mapping[str, Any]], Awaitable[Answer]]


async def answer(desk: ApiContext, asked: ApiRequest, encoding: str) -> bytes:
    """Perform an operation; its answer, encoded.

    Raises:
        Refusal: 400 or 401, as the specification lists them.
    """
    name = asked.operation.name
    async with desk.database.reading() as session:
        caller = await auth.authenticate(session, asked)
        values = parameters.validated(asked.operation, caller.values)
        if looks := _LOOKS.get(name):
            key = None
            if desk.memory.is_on and (states := _STATES.get(name)):
                # In the gate's own look: what is read below is as it was when this was so.
                key = (name, encoding, await states(session, caller, values))
                if (body := desk.memory.find(key)) is not None:
                    return body
            body = codec.encode(await looks(session, caller, values), encoding)
            if key is not None:
                desk.memory.keep(key, body)
            return body
    return codec.encode(await _WRITES[name](desk, caller, values), encoding)


async def _create_user(desk: ApiContext, caller: Principal, values: Mapping[str, Any]) -> Answer:
    async with desk.database.writing() as session:
        account = await users.create(session, caller.integrator_id, values)
        if values.get("async") or not account.is_scanning:
            return {"user": await users.show(session, account)}
        lease = await desk.scans.take(session, account.id)
    await desk.scans.wait_for(account.id, lease)
    async with desk.database.reading() as session:
        return {"user": await users.show(session, await users.refresh(session, account))}


async def _update_user(desk: ApiContext, caller: Principal, values: Mapping[str, Any]) -> Answer:
    async with desk.database.writing() as session:
        account, changed = await users.update(session, _account(caller), values)
        if changed:  # an opt-out that lacked data or was refused may be possible now
            await removals.reconsider(session, account.id)
        return {"user": await users.show(session, account)}


async def _list_users(session: Session, caller: Principal, values: Mapping[str, Any]) -> Answer:
    return await users.page(session, caller.integrator_id, values)


async def _page_state(session: Session, caller: Principal, values: Mapping[str, Any]) -> Hashable:
    return caller.integrator_id, await users.page_cache_key(session, caller.integrator_id, values)


async def _get_user(session: Session, caller: Principal, _: Mapping[str, Any]) -> Answer:
    return {"user": await users.show(session, _account(caller), with_removal_fields=True)}


async def _user_state(_session: Session, caller: Principal, _values: Mapping[str, Any]) -> Hashable:
    return _account(caller).cache_key


async def _list_user_records(session: Session, caller: Principal, _: Mapping[str, Any]) -> Answer:
    return {"records": await findings.records_of(session, _account(caller).id)}


async def _get_record(session: Session, caller: Principal, values: Mapping[str, Any]) -> Answer:
    record = await findings.record_of(session, _account(caller).id, values["id"])
    if record is None:
        raise ApiError(400, "id is invalid")
    return {"record": record}


async def _list_user_links(session: Session, caller: Principal, _: Mapping[str, Any]) -> Answer:
    return {"links": await findings.links_of(session, _account(caller).id)}


async def _get_user_alerts(session: Session, caller: Principal, _: Mapping[str, Any]) -> Answer:
    return {"alerts": await findings.alerts_of(session, _account(caller).id)}


def _account(caller: Principal) -> Account:
    if caller.account is None:
        raise LookupError("this operation is about one user, and the gate let none in")
    return caller.account


_LOOKS: Mapping[str, Looks] = {
    LIST_USERS.name: _list_users,
    GET_USER.name: _get_user,
    LIST_USER_RECORDS.name: _list_user_records,
    GET_RECORD.name: _get_record,
    LIST_USER_LINKS.name: _list_user_links,
    GET_USER_ALERTS.name: _get_user_alerts,
}
# What stays the same for as long as the answer does. Whoever changes what Get user shows holds the person first.
_STATES: Mapping[str, States] = {LIST_USERS.name: _page_state, GET_USER.name: _user_state}
_WRITES: Mapping[str, Writes] = {CREATE_USER.name: _create_user, UPDATE_USER.name: _update_user}
