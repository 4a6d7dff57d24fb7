"""Who is asking, and may they. Compares in constant time; tells an unknown user and a wrong secret in one voice.

In this order: the integrator's name and key, a request that cannot be read, credentials that are missing, the
integrator's secret, the user's id and secret. Everything else comes after the gate.
"""

import hmac
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import and_, bindparam, select

from exposurekit.contract.operations import CREDENTIAL_HEADERS, OPERATIONS, Operation
from exposurekit.service.accounts import inputs, integrators, users
from exposurekit.service.accounts.inputs import InvalidValue
from exposurekit.service.accounts.users import Account
from exposurekit.service.api import requests
from exposurekit.service.api.parameters import name_of_user_id
from exposurekit.service.api.requests import ApiRequest, Values
from exposurekit.service.errors import ApiError
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.encryption import Vault

NO_USER = -1  # no row has it: a database then answers as it does for any unknown id
_DECOY_SECRET = "000000000000000000"  # noqa: S105  no user has it: secrets have no leading zero


@dataclass(frozen=True, slots=True)
class Principal:
    """An integrator that was let in: what it asks, not yet checked, and the user it asks about, if any."""

    integrator_id: int
    values: Values = field(repr=False)
    account: Account | None = None


async def authenticate(session: Session, asked: ApiRequest) -> Principal:
    """Let a request in.

    Raises:
        Refusal: 401, the name, a key or a secret is not accepted; 400, one is missing or no credential at all; or
            what made the request unreadable.
    """
    user_id = _user_id(asked)
    digest = session.vault.fingerprint(asked.api_key, integrators.API_KEY)
    found = await session.rows(
        _CALLER, {"digest": digest, "user_id": NO_USER if user_id is None else user_id}
    )
    known = _KnownUser(*found[0]) if found else None
    if known is None or not _same(known.name, asked.integration_name):
        raise ApiError(401, integrators.NOT_ACCEPTED)
    values = await requests.read(asked)
    given = _credentials(asked.operation, values)
    digest = session.vault.fingerprint(given["api_secret"], integrators.API_SECRET)
    if not hmac.compare_digest(digest, known.api_secret_digest):
        raise ApiError(401, "the api_secret is not accepted")
    if "secret" not in given:
        return Principal(known.integrator_id, values)
    if user_id is None:
        raise ApiError(400, f"{name_of_user_id(asked.operation)} is invalid")
    return Principal(known.integrator_id, values, _account(session, user_id, given["secret"], known))


class _KnownUser(NamedTuple):
    """An integrator, and its user if there is such a one, as the database keeps them."""

    integrator_id: int
    name: str
    api_secret_digest: bytes
    user_id: int | None
    secret_ciphertext: bytes
    ciphertext: bytes
    is_scanning: bool
    identification_on_file: bool
    version: int


_CALLER = (
    select(
        tables.integrators.c.id,
        tables.integrators.c.name,
        tables.integrators.c.api_secret_digest,
        tables.users.c.id,
        tables.users.c.secret_ciphertext,
        tables.users.c.ciphertext,
        tables.users.c.is_scanning,
        tables.users.c.identification_on_file,
        tables.users.c.version,
    )
    .select_from(
        tables.integrators.outerjoin(
            tables.users,
            and_(
                tables.users.c.integrator_id == tables.integrators.c.id,
                tables.users.c.id == bindparam("user_id"),
            ),
        )
    )
    .where(tables.integrators.c.api_key_digest == bindparam("digest"))
)


def _user_id(asked: ApiRequest) -> int | None:
    try:
        return inputs.whole_number(asked.path.get(name_of_user_id(asked.operation)))
    except InvalidValue:
        return None


def _credentials(operation: Operation, values: Values) -> dict[str, str]:
    names = _CREDENTIALS[operation.name]
    told = {name: _parameter(values.get(name)) for name in names}
    if wrong := [f"{name} is {problem}" for name in names if (problem := _PROBLEMS.get(told[name]))]:
        raise ApiError(400, *wrong)
    return told


_CREDENTIALS = {one.name: [name for name in CREDENTIAL_HEADERS if name in one.names] for one in OPERATIONS}
_MISSING, _ODD = "", "\0"
_PROBLEMS = {_MISSING: "missing", _ODD: "invalid"}


def _parameter(value: Any) -> str:
    """A credential as text: the specification declares the user's secret Integer and shows it as text."""
    if value is None:
        return _MISSING
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return _ODD
    return str(value)


def _account(session: Session, user_id: int, secret: str, known: _KnownUser) -> Account:
    # One secret is opened and compared, known user or not, so that both ways take the same work.
    decoy = _decoy(session.vault)
    there = known.user_id is not None
    owner, ciphertext = (user_id, known.secret_ciphertext) if there else (NO_USER, decoy)
    if not _same(users.decrypt_secret(session, owner, ciphertext), secret) or not there:
        raise ApiError(401, users.UNKNOWN_USER)
    return Account(
        user_id,
        secret,
        known.ciphertext,
        is_scanning=known.is_scanning,
        identification_on_file=known.identification_on_file,
        version=known.version,
    )


_decoys: WeakKeyDictionary[Vault, bytes] = WeakKeyDictionary()


def _decoy(vault: Vault) -> bytes:
    """A sealed secret that opens for no user; made by the first request, whichever way that goes."""
    decoy = _decoys.get(vault)
    if decoy is None:
        decoy = _decoys[vault] = vault.encrypt(_DECOY_SECRET, f"{users.SECRET}:{NO_USER}")
    return decoy


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))
