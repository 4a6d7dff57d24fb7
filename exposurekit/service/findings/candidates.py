"""Candidates: listings that may be the user's, or that come from an untrusted site, and await an operator's decision.

An id that no candidate has raises `ConfigurationError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, bindparam, delete, func, insert, select, update

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts import consent
from exposurekit.service.findings import evidence as evidence_entries
from exposurekit.service.findings import findings
from exposurekit.service.models import VERDICTS, Listing, Site
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encrypted_columns import CANDIDATE
from exposurekit.service.storage.tables import candidates

POSSIBLE, QUARANTINED, REJECTED = VERDICTS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A listing that is not a record, and the reasons."""

    id: int
    user_id: int
    site: str
    verdict: str
    score: float
    observed_at: datetime
    reasons: tuple[str, ...]
    listing: Listing = field(repr=False)
    evidence: Mapping[str, Any] | None = field(repr=False)  # how the site showed it; None: not recorded


@dataclass(frozen=True, slots=True)
class Assessment:
    """Why a listing is not a record: verdict, score (0 to 1) and reasons."""

    verdict: str
    score: float
    reasons: tuple[str, ...]


async def save(
    session: Session,
    user_id: int,
    site: str,
    listing: Listing,
    assessment: Assessment,
    *,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    """Save or update a candidate; the `evidence.before` is for its record, if it is accepted. The user must be locked."""
    stored = {
        "listing": listing.stored(Site(name=site)),
        "reasons": list(assessment.reasons),
        "evidence": evidence,
    }
    row: dict[str, Any] = {
        "verdict": assessment.verdict,
        "score": assessment.score,
        "ciphertext": session.encrypt(CANDIDATE, user_id, stored),
        "observed_at": session.clock.now(),
    }
    key = _key(session, user_id, site, listing)
    if not await session.run(_CHANGE, row | key):
        await session.add(_ADD, row | {name.removeprefix("of_"): value for name, value in key.items()})


async def is_rejected(session: Session, user_id: int, site: str, listing: Listing) -> bool:
    """Return whether an operator rejected this listing for this user."""
    return await session.first(_REJECTED, _key(session, user_id, site, listing)) is not None


async def discard(session: Session, user_id: int, site: str, listing: Listing) -> None:
    """Delete the candidate, if there is one that was not rejected."""
    await session.run(_DELETE, _key(session, user_id, site, listing))


async def open_listings(session: Session, user_id: int, site: str | None = None) -> list[tuple[str, Listing]]:
    """Return the site and the listing of each candidate that awaits a decision, of one site or all; without damaged ones."""
    if site is None:
        rows = await session.all(_OPEN, {"of_user_id": user_id})
    else:
        rows = await session.all(_OPEN_OF_SITE, {"of_user_id": user_id, "of_site": site})
    values = session.decrypt_readable([(CANDIDATE, user_id, row.ciphertext) for row in rows])
    return [
        (row.site, Listing.from_stored(stored["listing"]))
        for row, stored in zip(rows, values, strict=True)
        if stored is not DAMAGED
    ]


async def all(  # noqa: A001  read as candidates.all
    session: Session, *, user_id: int | None = None, verdict: str | None = None, limit: int = 100
) -> list[Candidate]:
    """List candidates, highest score first; rejected ones only with ``verdict``."""
    statement = select(candidates).order_by(candidates.c.score.desc(), candidates.c.id).limit(limit)
    if user_id is not None:
        statement = statement.where(candidates.c.user_id == user_id)
    is_included = candidates.c.verdict != REJECTED if verdict is None else candidates.c.verdict == verdict
    statement = statement.where(is_included)
    return [_candidate(session, row) for row in await session.all(statement)]


async def count_open(session: Session, user_id: int, site: str) -> int:
    """Count a user's candidates on a site that await a decision."""
    is_open = (candidates.c.user_id == user_id, candidates.c.site == site, candidates.c.verdict != REJECTED)
    [(count,)] = await session.all(select(func.count()).select_from(candidates).where(*is_open))
    return int(count)


async def find(session: Session, candidate_id: int) -> Candidate:
    """Return one candidate."""
    row = await session.first(select(candidates).where(candidates.c.id == candidate_id))
    if row is None:
        raise _not_found()
    return _candidate(session, row)


async def accept(session: Session, candidate_id: int, site: Site) -> int:
    """Accept a candidate on a site as the user's. Return the new record's id.

    The record gets the candidate's evidence only if the user may be scanned.
    """
    candidate = await find(session, candidate_id)
    if candidate.site != site.name:
        raise _not_found()
    record_id = await findings.discover_record(session, candidate.user_id, candidate.listing, site)
    if candidate.evidence is not None and await consent.may_scan(session, candidate.user_id):
        await evidence_entries.append(session, candidate.user_id, record_id, candidate.evidence)
    await session.run(delete(candidates).where(candidates.c.id == candidate_id))
    return record_id


async def reject(session: Session, candidate_id: int) -> None:
    """Reject a candidate permanently."""
    one = candidates.c.id == candidate_id
    if not await session.run(update(candidates).where(one).values(verdict=REJECTED)):
        raise _not_found()


def _not_found() -> ConfigurationError:
    return ConfigurationError("no candidate has this id: exposurekit users candidates shows them")


# Other names than the columns': SQLAlchemy would take those for columns to change.
_IS_KEY = and_(
    *(candidates.c[name] == bindparam(f"of_{name}") for name in ("user_id", "site", "reference_digest"))
)
_ADD = insert(candidates)
_CHANGE = update(candidates).where(_IS_KEY)
_DELETE = delete(candidates).where(_IS_KEY, candidates.c.verdict != REJECTED)
_OPEN = (
    select(candidates.c.site, candidates.c.ciphertext)
    .where(candidates.c.user_id == bindparam("of_user_id"), candidates.c.verdict != REJECTED)
    .order_by(candidates.c.id)
)
_OPEN_OF_SITE = _OPEN.where(candidates.c.site == bindparam("of_site"))
_REJECTED = select(candidates.c.id).where(_IS_KEY, candidates.c.verdict == REJECTED)


def _key(session: Session, user_id: int, site: str, listing: Listing) -> dict[str, Any]:
    digest = findings.reference_digest(session, user_id, site, listing.reference_id)
    return {"of_user_id": user_id, "of_site": site, "of_reference_digest": digest}


def _candidate(session: Session, row: Row[Any]) -> Candidate:
    stored = session.decrypt(CANDIDATE, row.user_id, row.ciphertext)
    listing = Listing.from_stored(stored["listing"])
    return Candidate(
        row.id,
        row.user_id,
        row.site,
        row.verdict,
        row.score,
        row.observed_at,
        tuple(stored["reasons"]),
        listing,
        stored.get("evidence"),
    )
