"""Integrators: names, API keys and secrets. Only digests are stored; a secret is shown once, when it is created.

A name that no integrator has raises `ConfigurationError`.
"""

import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update

from exposurekit.errors import ConfigurationError
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import integrators, users
from exposurekit.text.sanitize import plain

NOT_ACCEPTED = "the integration name or the api_key is not accepted"
API_KEY, API_SECRET = "api_key", "api_secret"  # the domains of their fingerprints
PERSON_NAME_MAX = 200  # characters of a name or a role, as in the tables
_NAME_MAX = 64
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{_NAME_MAX}}}")
_ALPHABET = string.ascii_letters + string.digits  # need no escaping in a path, a query or a shell
_LENGTH = 43  # 256 bits


@dataclass(frozen=True, slots=True)
class Credentials:
    """What an integrator needs to call the service; the service stores only digests."""

    integration_name: str
    api_key: str = field(repr=False)
    api_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Integrator:
    """An integrator, without its secrets."""

    id: int
    name: str
    created_at: datetime
    users: int
    attested_by: str | None
    quota: int | None  # how many users it may have; None: any number
    has_callback: bool


async def add(session: Session, name: str, *, attested_by: str | None = None) -> Credentials:
    """Register an integrator, whose name is part of its URLs and has 1 to 64 of ``A-Z a-z 0-9 _ -``.

    `attested_by` attests the consent of every user that it registers. Without it, no user is scanned until their own
    consent is recorded.
    """
    check_name(name)
    if await session.first(select(integrators.c.id).where(integrators.c.name == name)):
        raise ConfigurationError(
            f"the integrator {name} exists already: rotate its credentials, or choose another name"
        )
    credentials, now = _new_credentials(name), session.clock.now()
    row = {"name": name, **_digests(session, credentials), "created_at": now}
    if attested_by is not None:
        row |= {"attested_by": _checked_attestor(attested_by), "attested_at": now}
    await session.add(insert(integrators), row)
    return credentials


def check_name(name: str) -> None:
    """Raise `ConfigurationError` if no integrator can have this name."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError("an integrator's name has 1 to 64 letters, digits, underscores or hyphens")


async def attest(session: Session, name: str, *, attested_by: str | None) -> None:
    """Set who attests the consent of users that the integrator registers from now on; None: remove the attestation."""
    integrator = await find(session, name)
    attestor = None if attested_by is None else _checked_attestor(attested_by)
    new = {"attested_by": attestor, "attested_at": attestor and session.clock.now()}
    await session.run(update(integrators).filter_by(id=integrator.id).values(**new))


async def set_quota(session: Session, name: str, quota: int | None) -> Integrator:
    """Set how many users an integrator may have at a time; None: any number. Those it has stay. Return it as it was."""
    integrator = await find(session, name)
    await session.run(update(integrators).filter_by(id=integrator.id).values(people_max=quota))
    return integrator


async def lock(session: Session, integrator_id: int) -> Row[Any] | None:
    """Lock an integrator while it registers a user. Return its ``attested_by`` and ``people_max``; None: it is gone.

    The next registration waits until this one is counted, so that a quota is exact, even one that is set meanwhile.
    """
    row = select(integrators.c.attested_by, integrators.c.people_max).filter_by(id=integrator_id)
    return await session.first(row.with_for_update(key_share=True))


async def rotate(session: Session, name: str) -> Credentials:
    """Replace an integrator's key and secret; the old ones stop working at once."""
    integrator = await find(session, name)
    credentials = _new_credentials(name)
    digests = _digests(session, credentials)
    await session.run(update(integrators).filter_by(id=integrator.id).values(**digests))
    return credentials


async def remove(session: Session, name: str, *, with_users: bool = False) -> int:
    """Remove an integrator, and with ``with_users`` its users. Return how many users it had."""
    integrator = await find(session, name)
    if integrator.users and not with_users:
        raise ConfigurationError(
            f"the integrator {name} has {integrator.users} users: pass --with-users to remove them too"
        )
    await session.run(delete(integrators).where(integrators.c.id == integrator.id))
    return integrator.users


async def all(session: Session) -> list[Integrator]:  # noqa: A001  read as integrators.all
    """List integrators by name."""
    counted = select(func.count()).where(users.c.integrator_id == integrators.c.id).scalar_subquery()
    columns = integrators.c
    rows = select(
        *(columns.id, columns.name, columns.created_at, counted, columns.attested_by, columns.people_max),
        columns.callback_ciphertext.is_not(None),
    )
    return [Integrator(*tuple(row)) for row in await session.all(rows.order_by(columns.name))]


async def find(session: Session, name: str) -> Integrator:
    """Return the integrator of this name."""
    for integrator in await all(session):
        if integrator.name == name:
            return integrator
    raise unknown_integrator(name)


def unknown_integrator(name: str) -> ConfigurationError:
    """Return the error that no integrator has a name."""
    return ConfigurationError(
        f"no integrator has the name {plain(name[:_NAME_MAX])}: exposurekit integrator list shows them"
    )


def _checked_attestor(text: str) -> str:
    if not text.strip() or len(text) > PERSON_NAME_MAX:
        raise ConfigurationError(f"who attests is a name or a role of 1 to {PERSON_NAME_MAX} characters")
    return text.strip()


def _new_credentials(name: str) -> Credentials:
    key, secret = ("".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH)) for _ in range(2))
    return Credentials(name, key, secret)


def _digests(session: Session, credentials: Credentials) -> dict[str, bytes]:
    return {
        "api_key_digest": session.vault.fingerprint(credentials.api_key, API_KEY),
        "api_secret_digest": session.vault.fingerprint(credentials.api_secret, API_SECRET),
    }
