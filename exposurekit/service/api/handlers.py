"""Handlers of the eight operations. The two most frequent ones use the response cache."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect

from exposurekit.contract import codec, operations
from exposurekit.service.accounts import users
from exposurekit.service.accounts.users import Account
from exposurekit.service.api import auth, parameters
from exposurekit.service.api.auth import Principal
from exposurekit.service.api.cache import ResponseCache
from exposurekit.service.api.requests import ApiRequest
from exposurekit.service.api.scan_wait import ScanWaiter
from exposurekit.service.api.turns import Turn
from exposurekit.service.errors import ApiError
from exposurekit.service.findings import findings, removals
from exposurekit.service.storage.database import Database, Session

Payload = dict[str, Any]
ReadHandler = Callable[[Session, Principal, Mapping[str, Any]], Awaitable[Payload]]
CacheKeyFunction = Callable[[Session, Principal, Mapping[str, Any]], Awaitable[Hashable]]


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What handlers need: the database, the scan waiter and the response cache."""

    database: Database
    scans: ScanWaiter
    cache: ResponseCache


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request, with its turn to be processed."""

    context: ApiContext
    request: ApiRequest
    turn: Turn


WriteHandler = Callable[[ApiCall, Principal, Mapping[str, Any]], Awaitable[Payload]]


async def handle(call: ApiCall, encoding: str) -> bytes:
    """Perform an operation and return the encoded response body; raises `ApiError` 400, 401 or 503."""
    context, request = call.context, call.request
    name = request.operation.name
    async with context.database.reading() as session:
        principal = await auth.authenticate(session, request)
        values = await parameters.validated(request.operation, principal.values)
        if read := _READS.get(name):
            key = None
            if context.cache.enabled and (cache_key := _CACHE_KEYS.get(name)):
                # In the same snapshot as authentication and the read below.
                key = (name, encoding, await cache_key(session, principal, values))
                if (body := context.cache.get(key)) is not None:
                    return body
            body = codec.encode(await read(session, principal, values), encoding)
            if key is not None:
                context.cache.put(key, body)
            return body
    return codec.encode(await _WRITES[name](call, principal, values), encoding)


async def _create_user(call: ApiCall, principal: Principal, values: Mapping[str, Any]) -> Payload:
    context = call.context
    async with context.database.reading() as session:  # before it waits for a scan
        is_scanned = await users.check_may_create(session, principal.integrator_id)
    if values.get("async") or not is_scanned:
        async with context.database.writing() as session:
            account = await users.create(session, principal.integrator_id, values)
            return {"user": await users.show(session, account)}
    async with AsyncExitStack() as stack:
        async with call.turn.set_aside():
            scan = await stack.enter_async_context(context.scans.turn(principal.integrator_id))
        if await call.request.is_disconnected():
            raise ClientDisconnect  # it may have asked again: nobody is registered twice
        async with context.database.writing() as session:
            account = await users.create(session, principal.integrator_id, values)
            if not account.is_scanning:
                return {"user": await users.show(session, account)}
            lease = await scan.acquire(session, account.id)
        async with call.turn.set_aside():
            await scan.wait_for(account.id, lease)
    async with context.database.reading() as session:
        return {"user": await users.show(session, await users.refresh(session, account))}


async def _update_user(call: ApiCall, principal: Principal, values: Mapping[str, Any]) -> Payload:
    async with call.context.database.writing() as session:
        account, changed = await users.update(session, _account(principal), values)
        if changed:  # an opt-out that lacked data or was refused may be possible now
            await removals.reconsider(session, account.id)
        return {"user": await users.show(session, account)}


async def _list_users(session: Session, principal: Principal, values: Mapping[str, Any]) -> Payload:
    return await users.page(session, principal.integrator_id, values)


async def _page_cache_key(session: Session, principal: Principal, values: Mapping[str, Any]) -> Hashable:
    return principal.integrator_id, await users.page_cache_key(session, principal.integrator_id, values)


async def _get_user(session: Session, principal: Principal, _: Mapping[str, Any]) -> Payload:
    return {"user": await users.show(session, _account(principal), with_removal_fields=True)}


async def _user_cache_key(_session: Session, principal: Principal, _values: Mapping[str, Any]) -> Hashable:
    return _account(principal).cache_key


def _list_findings(name: str, load: Callable[[Session, int], Awaitable[list[Payload]]]) -> ReadHandler:
    async def read(session: Session, principal: Principal, _: Mapping[str, Any]) -> Payload:
        return {name: await load(session, _account(principal).id)}

    return read


async def _get_record(session: Session, principal: Principal, values: Mapping[str, Any]) -> Payload:
    record = await findings.get_record(session, _account(principal).id, values["id"])
    if record is None:
        raise ApiError(400, "id is invalid")
    return {"record": record}


def _account(principal: Principal) -> Account:
    if principal.account is None:
        raise LookupError("the operation concerns a user, but none is authenticated")
    return principal.account


_READS: Mapping[str, ReadHandler] = {
    operations.LIST_USERS.name: _list_users,
    operations.GET_USER.name: _get_user,
    operations.LIST_USER_RECORDS.name: _list_findings("records", findings.list_records),
    operations.GET_RECORD.name: _get_record,
    operations.LIST_USER_LINKS.name: _list_findings("links", findings.list_links),
    operations.GET_USER_ALERTS.name: _list_findings("alerts", findings.list_alerts),
}
# Equal keys mean equal responses: whoever changes what Get user shows locks the user, which changes the key.
_CACHE_KEYS: Mapping[str, CacheKeyFunction] = {
    operations.LIST_USERS.name: _page_cache_key,
    operations.GET_USER.name: _user_cache_key,
}
_WRITES: Mapping[str, WriteHandler] = {
    operations.CREATE_USER.name: _create_user,
    operations.UPDATE_USER.name: _update_user,
}
