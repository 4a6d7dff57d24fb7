"""Authentication: integrator and user credentials, compared in constant time.

Errors are checked in this order: the integrator's name and key, an unreadable request, missing credentials, the
integrator's secret, the user's id and secret (an unknown user and a wrong secret give the same message).
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Integer, Select, and_, bindparam, select, type_coerce

from exposurekit.contract.operations import CREDENTIAL_HEADERS, OPERATIONS, Operation
from exposurekit.service.accounts import integrators, users
from exposurekit.service.accounts.documents import Account
from exposurekit.service.api import requests
from exposurekit.service.api.middleware import INTEGRATOR
from exposurekit.service.api.parameters import USER_ID_NAMES
from exposurekit.service.api.requests import ApiRequest
from exposurekit.service.errors import ApiError
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.encrypted_columns import SECRET
from exposurekit.service.storage.encryption import Vault

NO_USER = -1  # no row has this id
_DECOY_SECRET = "000000000000000000"  # noqa: S105  no user has it: secrets have no leading zero


@dataclass(slots=True)  # not frozen: that would cost each request 1 us
class Principal:
    """An authenticated integrator, its request's unvalidated values, and the user concerned, if any."""

    integrator_id: int
    values: Mapping[str, Any] = field(repr=False)
    account: Account | None = None


async def authenticate(session: Session, request: ApiRequest) -> Principal:
    """Authenticate a request.

    Raises `ApiError`: 401 if a name, key or secret is not accepted, 400 if one is missing or malformed, or the error
    that made the request unreadable.
    """
    user_id = request.target.user_id
    key = {"digest": request.key_digest, "user_id": NO_USER if user_id is None else user_id}
    rows = await session.rows(_PRINCIPAL, key)
    if not rows:
        raise ApiError(401, integrators.NOT_ACCEPTED)
    integrator_id, name, secret_digest, *user = rows[0]
    if not _equal(name, request.target.integration_name):
        raise ApiError(401, integrators.NOT_ACCEPTED)
    request.scope[INTEGRATOR] = integrator_id  # also of a request that is refused below
    values = await requests.read(request)
    credentials = _credentials(request.operation, values)
    digest = session.vault.fingerprint(credentials["api_secret"], integrators.API_SECRET)
    if not hmac.compare_digest(digest, secret_digest):
        raise ApiError(401, "the api_secret is not accepted")
    if "secret" not in credentials:
        return Principal(integrator_id, values)
    if user_id is None:
        raise ApiError(400, f"{USER_ID_NAMES[request.operation.name]} is invalid")
    return Principal(integrator_id, values, _account(session, user_id, credentials["secret"], user))


_integrators, _users = tables.integrators.c, tables.users.c
_is_user = and_(_users.integrator_id == _integrators.id, _users.id == bindparam("user_id"))
_PRINCIPAL: Select[Any] = (  # an integrator, and the user, whose columns are null if there is none
    select(
        *(_integrators.id, _integrators.name, _integrators.api_secret_digest),
        *(_users.id, _users.secret_ciphertext, _users.ciphertext),
        # As they are stored, 0 and 1 in SQLite: to convert a column costs each request 1 us.
        *(type_coerce(flag, Integer) for flag in (_users.is_scanning, _users.identification_on_file)),
        _users.version,
    )
    .select_from(tables.integrators.outerjoin(tables.users, _is_user))
    .where(_integrators.api_key_digest == bindparam("digest"))
)


def _credentials(operation: Operation, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the credentials as text; the specification declares the user's secret as Integer and shows it as text."""
    credentials: dict[str, str] = {}
    problems: list[str] = []
    for name in _CREDENTIALS[operation.name]:
        value = values.get(name)
        if value is None or value == "":
            problems.append(f"{name} is missing")
        elif isinstance(value, bool) or not isinstance(value, (int, str)):
            problems.append(f"{name} is invalid")
        else:
            credentials[name] = str(value)
    if problems:
        raise ApiError(400, *problems)
    return credentials


_CREDENTIALS = {one.name: [name for name in CREDENTIAL_HEADERS if name in one.names] for one in OPERATIONS}


def _account(session: Session, user_id: int, secret: str, user: Sequence[Any]) -> Account:
    stored_id, secret_ciphertext, ciphertext, is_scanning, identification_on_file, version = user
    # A secret is decrypted and compared even for an unknown user, so that both cases take the same time.
    decoy = _decoy(session.vault)
    exists = stored_id is not None
    owner, stored_ciphertext = (user_id, secret_ciphertext) if exists else (NO_USER, decoy)
    [stored] = session.vault.decrypt_to_json([(stored_ciphertext, f"{SECRET}:{owner}")])
    # A secret is digits, which JSON puts in quotes.
    if not _equal(stored.decode(), f'"{secret}"') or not exists:
        raise ApiError(401, users.UNKNOWN_USER)
    return Account(user_id, secret, ciphertext, is_scanning == 1, identification_on_file == 1, version)


@lru_cache(maxsize=1)  # a service has one vault
def _decoy(vault: Vault) -> bytes:
    """Return an encrypted dummy secret, to compare in constant time; created by the first request."""
    return vault.encrypt(_DECOY_SECRET, f"{SECRET}:{NO_USER}")


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))
