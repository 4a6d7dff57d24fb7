"""Listings that may be a person's, and listings of sites that are not to be believed. Never removed by themselves.

An operator looks at them, and may say that one is the person's: then it is a record like any other.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from exposurekit.errors import ConfigurationError
from exposurekit.service.constants import VERDICTS
from exposurekit.service.findings import findings
from exposurekit.service.models import Listing, Site
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import candidates

POSSIBLE, QUARANTINED, REJECTED = VERDICTS
CANDIDATE = "candidates"  # the part that a candidate is sealed for


@dataclass(frozen=True, slots=True)
class Candidate:
    """A listing that is not a record, and why not."""

    id: int
    user_id: int
    site: str
    verdict: str
    score: float
    seen_at: datetime
    reasons: tuple[str, ...]
    listing: Listing = field(repr=False)


@dataclass(frozen=True, slots=True)
class Judged:
    """Why a listing is no record: the verdict, the score of 0 to 1, and its reasons."""

    verdict: str
    score: float
    reasons: tuple[str, ...]


async def keep(session: Session, user_id: int, site: str, listing: Listing, judged: Judged) -> None:
    """Keep a listing for the operator; seen again, it is kept up to date. The person's row must be held."""
    stored = {"listing": listing.stored(Site(name=site)), "reasons": list(judged.reasons)}
    row: dict[str, Any] = {
        "verdict": judged.verdict,
        "score": judged.score,
        "ciphertext": session.encrypt(CANDIDATE, user_id, stored),
        "seen_at": session.clock.now(),
    }
    same = _same(session, user_id, site, listing)
    if not await session.run(update(candidates).filter_by(**same).values(**row)):
        await session.add(insert(candidates), row | same)


async def is_rejected(session: Session, user_id: int, site: str, listing: Listing) -> bool:
    """Whether an operator has said that this listing is not this person's."""
    same = select(candidates.c.id).filter_by(**_same(session, user_id, site, listing), verdict=REJECTED)
    return await session.first(same) is not None


async def drop(session: Session, user_id: int, site: str, listing: Listing) -> None:
    """It is a record now, or nothing."""
    await session.run(delete(candidates).filter_by(**_same(session, user_id, site, listing)))


async def all(  # noqa: A001  read as candidates.all
    session: Session, *, user_id: int | None = None, verdict: str | None = None, limit: int = 100
) -> list[Candidate]:
    """Candidates, the likeliest first; what was rejected only where it is asked for."""
    statement = select(candidates).order_by(candidates.c.score.desc(), candidates.c.id).limit(limit)
    if user_id is not None:
        statement = statement.where(candidates.c.user_id == user_id)
    wanted = candidates.c.verdict != REJECTED if verdict is None else candidates.c.verdict == verdict
    statement = statement.where(wanted)
    return [_opened(session, row) for row in await session.all(statement)]


async def find(session: Session, candidate_id: int) -> Candidate:
    """One candidate.

    Raises:
        ConfigurationError: There is no such candidate.
    """
    row = await session.first(select(candidates).where(candidates.c.id == candidate_id))
    if row is None:
        raise _no_such()
    return _opened(session, row)


async def accept(session: Session, candidate_id: int, site: Site) -> int:
    """An operator says that it is the person's: the new record's id.

    Raises:
        ConfigurationError: There is no such candidate on that site.
    """
    found = await find(session, candidate_id)
    if found.site != site.name:
        raise _no_such()
    record_id = await findings.discover_record(session, found.user_id, found.listing, site)
    await session.run(delete(candidates).where(candidates.c.id == candidate_id))
    return record_id


async def reject(session: Session, candidate_id: int) -> None:
    """An operator says that it is not; it is not asked again.

    Raises:
        ConfigurationError: There is no such candidate.
    """
    one = candidates.c.id == candidate_id
    if not await session.run(update(candidates).where(one).values(verdict=REJECTED)):
        raise _no_such()


def _no_such() -> ConfigurationError:
    return ConfigurationError("there is no candidate of that id: exposurekit users candidates shows them")


def _same(session: Session, user_id: int, site: str, listing: Listing) -> dict[str, Any]:
    digest = findings.reference_digest(session, user_id, site, listing.reference_id)
    return {"user_id": user_id, "site": site, "reference_digest": digest}


def _opened(session: Session, row: Row[Any]) -> Candidate:
    stored = session.decrypt(CANDIDATE, row.user_id, row.ciphertext)
    listing = Listing.of_stored(stored["listing"])
    reasons = tuple(stored["reasons"])
    return Candidate(row.id, row.user_id, row.site, row.verdict, row.score, row.seen_at, reasons, listing)
