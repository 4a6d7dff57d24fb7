"""Who may use the service: names, keys and secrets. Keeps digests only; a secret is shown once, when it is made."""

import re
import secrets
import string
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import delete, func, insert, select, update

from exposurekit.errors import ConfigurationError
from exposurekit.service.constants import WHO_MAX
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import integrators, users

UNKNOWN = "there is no integrator of that name: exposurekit integrator list shows them"
NOT_ACCEPTED = "the integration name or the api_key is not accepted"
API_KEY, API_SECRET = "api_key", "api_secret"  # the domains of their fingerprints
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LETTERS = string.ascii_letters + string.digits  # stand in a path, a query and a shell as they are
_LENGTH = 43  # 256 bits


@dataclass(frozen=True, slots=True)
class Credentials:
    """What an integrator needs to call the service; the service itself forgets it at once."""

    integration_name: str
    api_key: str = field(repr=False)
    api_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Integrator:
    """One integrator, without anything secret."""

    id: int
    name: str
    created_at: datetime
    users: int
    attested_by: str | None
    has_callback: bool


async def add(work: Session, name: str, *, attested_by: str | None = None) -> Credentials:
    """Register an integrator.

    Args:
        work: A transaction.
        name: Stands in its addresses.
        attested_by: Who answers for the consent of everyone that it registers. Without it nobody is scanned until
            a consent is recorded for each.

    Raises:
        ConfigurationError: The name is taken, or is not 1 to 64 of ``A-Z a-z 0-9 _ -``; nobody attests.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError("an integrator's name has 1 to 64 letters, digits, underscores or hyphens")
    if await work.first(select(integrators.c.id).where(integrators.c.name == name)):
        raise ConfigurationError(
            f"the integrator {name} is already there: rotate its credentials, or choose another name"
        )
    credentials = _new_credentials(name)
    now = work.clock.now()
    row = {"name": name, **_digests(work, credentials), "created_at": now}
    if attested_by is not None:
        row |= {"attested_by": _who(attested_by), "attested_at": now}
    await work.add(insert(integrators), row)
    return credentials


async def attest(work: Session, name: str, *, attested_by: str | None) -> None:
    """Somebody answers from now on for the consent of everyone that it registers; None: nobody does.

    Raises:
        ConfigurationError: There is no such integrator, or nobody attests.
    """
    found = await _find(work, name)
    who = None if attested_by is None else _who(attested_by)
    new = {"attested_by": who, "attested_at": who and work.clock.now()}
    await work.run(update(integrators).where(integrators.c.id == found.id).values(**new))


async def rotate(work: Session, name: str) -> Credentials:
    """A new key and a new secret; the old ones are refused from now on.

    Raises:
        ConfigurationError: There is no such integrator.
    """
    found = await _find(work, name)
    credentials = _new_credentials(name)
    await work.run(
        update(integrators).where(integrators.c.id == found.id).values(_digests(work, credentials))
    )
    return credentials


async def remove(work: Session, name: str, *, with_users: bool = False) -> int:
    """Remove an integrator, and with ``with_users`` every person it registered; how many those were.

    Raises:
        ConfigurationError: There is no such integrator, or it has users and ``with_users`` is false.
    """
    found = await _find(work, name)
    if found.users and not with_users:
        raise ConfigurationError(
            f"the integrator {name} has {found.users} users, who would be removed with it: --with-users says that they are"
        )
    await work.run(delete(integrators).where(integrators.c.id == found.id))
    return found.users


async def all(work: Session) -> list[Integrator]:  # noqa: A001  read as integrators.all
    """Every integrator, by name."""
    counted = select(func.count()).where(users.c.integrator_id == integrators.c.id).scalar_subquery()
    columns = (
        integrators.c.id,
        integrators.c.name,
        integrators.c.created_at,
        counted.label("users"),
        integrators.c.attested_by,
        integrators.c.callback_ciphertext.is_not(None).label("has_callback"),
    )
    return [Integrator(*tuple(row)) for row in await work.all(select(*columns).order_by(integrators.c.name))]


async def _find(work: Session, name: str) -> Integrator:
    for found in await all(work):
        if found.name == name:
            return found
    raise ConfigurationError(UNKNOWN)


def _who(text: str) -> str:
    if not text.strip() or len(text) > WHO_MAX:
        raise ConfigurationError(f"who attests is told in 1 to {WHO_MAX} letters: a name, a role")
    return text.strip()


def _new_credentials(name: str) -> Credentials:
    return Credentials(name, _random_text(), _random_text())


def _random_text() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def _digests(work: Session, credentials: Credentials) -> dict[str, bytes]:
    return {
        "api_key_digest": work.vault.fingerprint(credentials.api_key, API_KEY),
        "api_secret_digest": work.vault.fingerprint(credentials.api_secret, API_SECRET),
    }
