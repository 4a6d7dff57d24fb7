"""Webhook callbacks: an integrator's URL and its signing secret.

A name that no integrator has raises `ConfigurationError`.
"""

import base64
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Row, select, update

from exposurekit.contract.webhooks import SECRET_PREFIX, decode_secret
from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts.integrators import unknown_integrator
from exposurekit.service.http.address_policy import NotPublic, all_allowed, parse_networks
from exposurekit.service.http.client import FetchError, ForbiddenAddress, HttpClient, Resolve
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.encrypted_columns import CALLBACK
from exposurekit.service.storage.tables import integrators

_SECRET_BYTES = 32
_SHORTEST, _LONGEST = 24, 64  # bytes; Standard Webhooks


@dataclass(frozen=True, slots=True)
class Callback:
    """An integrator's webhook URL, and the secret that signs deliveries, if any."""

    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)


def new_secret() -> str:
    """Return a new random signing secret."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def validate_secret(text: str) -> str:
    """Return an integrator's own signing secret if it is ``whsec_`` and base64 of 24 to 64 bytes."""
    try:
        key = decode_secret(text)
    except ValueError:
        key = b""
    if not text.startswith(SECRET_PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise ConfigurationError(
            f"a signing secret is {SECRET_PREFIX} followed by the base64 form of 24 to 64 bytes"
        )
    return text


async def set_callback(session: Session, name: str, callback: Callback | None) -> None:
    """Set or, with None, remove an integrator's callback. Call `vet` for the URL first."""
    integrator_id = (await _integrator(session, name)).id
    ciphertext = None
    if callback is not None:
        stored = {"url": callback.url, "secret": callback.secret}
        ciphertext = session.encrypt(CALLBACK, integrator_id, stored)
    statement = update(integrators).filter_by(id=integrator_id)
    await session.run(statement.values(callback_ciphertext=ciphertext))


async def get_callback(session: Session, name: str) -> Callback | None:
    """Return an integrator's callback; None: it has none."""
    row = await _integrator(session, name)
    return decrypt_callback(session, row.id, row.callback_ciphertext)


async def _integrator(session: Session, name: str) -> Row[Any]:
    row = await session.first(select(integrators).filter_by(name=name))
    if row is None:
        raise unknown_integrator(name)
    return row


async def vet(url: str, *, callback_networks: Iterable[str] = (), resolve: Resolve | None = None) -> None:
    """Check that a URL may be a callback: public and https, or in one of the given networks in CIDR form."""
    allowed_networks = tuple(callback_networks)
    http = HttpClient(allowed_networks=allowed_networks, resolve=resolve)
    try:
        addresses = await http.check(url)
    except NotPublic as error:
        problem = f"{error}; --callback-network allows its network, here and for serve and worker"
    except ForbiddenAddress as error:
        problem = str(error)
    except FetchError:
        problem = "its host has no address"
    else:
        if urlsplit(url).scheme == "https" or all_allowed(addresses, parse_networks(allowed_networks)):
            return
        problem = "http is unencrypted: use https, or a network that --callback-network allows"
    finally:
        await http.close()
    raise ConfigurationError(f"the callback is refused: {problem}")


def decrypt_callback(session: Session, integrator_id: int, ciphertext: bytes | None) -> Callback | None:
    """Decrypt the callback in an integrator's row; None: it has none."""
    if ciphertext is None:
        return None
    stored = session.decrypt(CALLBACK, integrator_id, ciphertext)
    return Callback(stored["url"], stored["secret"])
