"""Handlers of the eight operations."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import ClientDisconnect

from exposurekit.contract import codec, operations
from exposurekit.service.accounts import consent, documents, users
from exposurekit.service.accounts.documents import Account
from exposurekit.service.accounts.subject import SEARCH_FIELDS
from exposurekit.service.api import auth, parameters
from exposurekit.service.api.auth import Principal
from exposurekit.service.api.requests import ApiRequest
from exposurekit.service.api.scan_wait import ScanWaiter
from exposurekit.service.api.turns import Turn
from exposurekit.service.errors import ApiError
from exposurekit.service.findings import findings, removals
from exposurekit.service.storage.database import Database, Session

Payload = dict[str, Any]
JsonReadHandler = Callable[[Session, Principal, Mapping[str, Any]], Awaitable[bytes]]
ReadHandler = Callable[[Session, Principal, Mapping[str, Any]], Awaitable[Payload]]


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What handlers need: the database and the scan waiter."""

    database: Database
    scans: ScanWaiter


@dataclass(slots=True)
class _Call:
    """A request that changes something, with its turn to be processed."""

    context: ApiContext
    request: ApiRequest
    turn: Turn


WriteHandler = Callable[[_Call, Principal, Mapping[str, Any]], Awaitable[Payload]]


async def handle(context: ApiContext, request: ApiRequest, turn: Turn, encoding: str) -> bytes:
    """Perform an operation and return the encoded response body; raises `ApiError` 400, 401 or 503."""
    name = request.operation.name
    async with context.database.reading() as session:
        principal = await auth.authenticate(session, request)
        values = await parameters.validated(request.operation, principal.values)
        if read_json := _JSON_READS.get(name):
            body = await read_json(session, principal, values)
            return body if encoding == "json" else codec.encode(codec.decode(body, "json"), encoding)
        if read := _READS.get(name):
            return codec.encode(await read(session, principal, values), encoding)
    call = _Call(context, request, turn)
    return codec.encode(await _WRITES[name](call, principal, values), encoding)


async def _create_user(call: _Call, principal: Principal, values: Mapping[str, Any]) -> Payload:
    context = call.context
    async with context.database.reading() as session:  # before it waits for a scan
        is_scanned = await users.check_may_create(session, principal.integrator_id)
    if values.get("async") or not is_scanned:
        async with call.turn.alone(), context.database.writing() as session:
            account = await users.create(session, principal.integrator_id, values)
            return {"user": await documents.show_changed(session, account)}
    async with AsyncExitStack() as stack:
        async with call.turn.set_aside():
            scan = await stack.enter_async_context(context.scans.turn(principal.integrator_id))
        if await call.request.is_disconnected():
            raise ClientDisconnect  # it may have asked again: nobody is registered twice
        async with call.turn.alone(), context.database.writing() as session:
            account = await users.create(session, principal.integrator_id, values)
            if not account.is_scanning:
                return {"user": await documents.show_changed(session, account)}
            lease = await scan.acquire(session, account.id)
        async with call.turn.set_aside():
            await scan.wait_for(account.id, lease)
    async with context.database.reading() as session:
        return {"user": await documents.show(session, await users.refresh(session, account))}


async def _update_user(call: _Call, principal: Principal, values: Mapping[str, Any]) -> Payload:
    async with call.turn.alone(), call.context.database.writing() as session:
        account, changed = await users.update(session, _account(principal), values)
        if changed:  # an opt-out that lacked data or was refused may be possible now
            await removals.reconsider(session, account.id, changed)
        if not changed.isdisjoint(SEARCH_FIELDS) and await consent.schedule_early_scan(session, account.id):
            account = replace(account, is_scanning=True)
        return {"user": await documents.show_changed(session, account)}


async def _list_users(session: Session, principal: Principal, values: Mapping[str, Any]) -> bytes:
    return await users.page(session, principal.integrator_id, values)


def _get_user(session: Session, principal: Principal, _: Mapping[str, Any]) -> Awaitable[bytes]:
    return documents.get_user(session, _account(principal))


def _list_findings(name: str, load: Callable[[Session, int], Awaitable[list[Payload]]]) -> ReadHandler:
    async def read(session: Session, principal: Principal, _: Mapping[str, Any]) -> Payload:
        return {name: await load(session, _account(principal).id)}

    return read


async def _get_record(session: Session, principal: Principal, values: Mapping[str, Any]) -> Payload:
    record = await findings.get_record(session, _account(principal).id, values["id"])
    if record is None:
        raise ApiError(400, "id is invalid: the user has no such record")
    return {"record": record}


def _account(principal: Principal) -> Account:
    if principal.account is None:
        raise LookupError("the operation concerns a user, but none is authenticated")
    return principal.account


# The two most frequent operations put their JSON together from encrypted JSON.
_JSON_READS: Mapping[str, JsonReadHandler] = {
    operations.LIST_USERS.name: _list_users,
    operations.GET_USER.name: _get_user,
}
_READS: Mapping[str, ReadHandler] = {
    operations.LIST_USER_RECORDS.name: _list_findings("records", findings.list_records),
    operations.GET_RECORD.name: _get_record,
    operations.LIST_USER_LINKS.name: _list_findings("links", findings.list_links),
    operations.GET_USER_ALERTS.name: _list_findings("alerts", findings.list_alerts),
}
_WRITES: Mapping[str, WriteHandler] = {
    operations.CREATE_USER.name: _create_user,
    operations.UPDATE_USER.name: _update_user,
}
