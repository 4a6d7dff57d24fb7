"""Where an integrator is told, and how it knows that it is us. Vets and stores addresses and secrets; sends nothing.

Signatures follow Standard Webhooks (standardwebhooks.com): ``webhook-id``, ``webhook-timestamp``,
``webhook-signature``. Five lines of the standard library; the reference package brings an HTTP client along, and
checks our signatures in the tests.
"""

import base64
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy import select, update

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts.integrators import UNKNOWN_INTEGRATOR
from exposurekit.service.http.address_policy import NotPublic, all_opened, networks
from exposurekit.service.http.client import FetchError, ForbiddenAddress, Outbound, Resolve
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import integrators

CALLBACK = "callbacks"  # the part that an integrator's callback is sealed for
PREFIX = "whsec_"
_SECRET_BYTES = 32
_SHORTEST, _LONGEST = 24, 64  # bytes, as Standard Webhooks has it


@dataclass(frozen=True, slots=True)
class Callback:
    """An integrator's address for webhooks, and the secret that signs them, if it wants that."""

    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)

    def headers(self, webhook_id: str, at: datetime, body: bytes) -> dict[str, str]:
        """The headers of one attempt.

        >>> from datetime import UTC
        >>> sorted(Callback("https://acme.example/hook").headers("msg_1", datetime(2026, 1, 2, tzinfo=UTC), b"{}"))
        ['content-type', 'webhook-id', 'webhook-timestamp']
        """
        seconds = str(int(at.timestamp()))
        headers = {
            "content-type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": seconds,
        }
        if self.secret is None:
            return headers
        key = base64.b64decode(self.secret.removeprefix(PREFIX))
        digest = hmac.digest(key, f"{webhook_id}.{seconds}.".encode() + body, "sha256")
        return headers | {"webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}


def new_secret() -> str:
    """A fresh signing secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def checked_secret(text: str) -> str:
    """A signing secret that an integrator brings along.

    Raises:
        ConfigurationError: It is not ``whsec_`` and base64 of 24 to 64 bytes.
    """
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not text.startswith(PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise ConfigurationError(f"a signing secret is {PREFIX} and the base64 form of 24 to 64 bytes")
    return text


async def put(session: Session, name: str, callback: Callback | None) -> None:
    """Set an integrator's callback, or with None take it away. The address must have been vetted.

    Raises:
        ConfigurationError: There is no such integrator.
    """
    found = await session.first(select(integrators.c.id).where(integrators.c.name == name))
    if found is None:
        raise ConfigurationError(UNKNOWN_INTEGRATOR)
    ciphertext = None
    if callback is not None:
        ciphertext = session.encrypt(CALLBACK, found.id, {"url": callback.url, "secret": callback.secret})
    await session.run(
        update(integrators).where(integrators.c.id == found.id).values(callback_ciphertext=ciphertext)
    )


async def find(session: Session, name: str) -> Callback | None:
    """An integrator's callback; None: it has none.

    Raises:
        ConfigurationError: There is no such integrator.
    """
    row = await session.first(
        select(integrators.c.id, integrators.c.callback_ciphertext).where(integrators.c.name == name)
    )
    if row is None:
        raise ConfigurationError(UNKNOWN_INTEGRATOR)
    return decrypted(session, row.id, row.callback_ciphertext) if row.callback_ciphertext else None


async def vet(url: str, *, opened_networks: Iterable[str] = (), resolve: Resolve | None = None) -> None:
    """Make sure that an address may be an integrator's callback: a public one over https, or one in an opened network.

    Args:
        url: The address.
        opened_networks: In CIDR form.
        resolve: Tells a host's addresses, once; without it the system does.

    Raises:
        ConfigurationError: It may not, and why; or a network is none.
    """
    opened_ones = tuple(opened_networks)
    outbound = Outbound(opened=opened_ones, resolve=resolve)
    try:
        addresses = await outbound.check(url)
    except NotPublic as error:
        problem = f"{error}; --callback-network opens one"
    except ForbiddenAddress as error:
        problem = str(error)
    except FetchError:
        problem = "its host has no address"
    else:
        if urlsplit(url).scheme == "https" or all_opened(addresses, networks(opened_ones)):
            return
        problem = "http goes in the clear, and is for a network that --callback-network opens: use https"
    finally:
        await outbound.close()
    raise ConfigurationError(f"the callback is refused: {problem}")


def decrypted(session: Session, integrator_id: int, ciphertext: bytes) -> Callback:
    """The callback in an integrator's row."""
    stored = session.decrypt(CALLBACK, integrator_id, ciphertext)
    return Callback(stored["url"], stored["secret"])
