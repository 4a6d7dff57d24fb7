"""The workers that run: each notes in the database, every minute, that it does."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, select, update

from exposurekit.service.storage.database import Session
from exposurekit.service.storage.tables import service_metadata

NOTE_EVERY_S = 60.0
RUNS_WITHIN = timedelta(seconds=150)  # of the last note; then two are missing
_FORGET_AFTER = timedelta(days=7)
PREFIX = "worker: "  # and its id: a row of the metadata


@dataclass(frozen=True, slots=True)
class Workers:
    """How many workers run, and when one was last seen; None: all have ended, or none was started."""

    running: int
    seen_at: datetime | None


async def note(session: Session, worker_id: str) -> bool:
    """Note that a worker runs. Return whether it did not yet."""
    name, now = f"{PREFIX}{worker_id}", session.clock.now()
    value = {"value": now.isoformat()}
    noted = update(service_metadata).where(service_metadata.c.name == name).values(**value)
    is_new = not await session.run(noted)
    if is_new:
        await session.run(insert(service_metadata), {"name": name, **value})
    for other, seen_at in (await _last_notes(session)).items():
        if abs(now - seen_at) > _FORGET_AFTER:
            await _forget(session, other)
    return is_new


async def forget(session: Session, worker_id: str) -> None:
    """Note that a worker has ended."""
    await _forget(session, f"{PREFIX}{worker_id}")


async def count(session: Session) -> Workers:
    """Return how many workers run."""
    notes, now = (await _last_notes(session)).values(), session.clock.now()
    return Workers(sum(abs(now - seen_at) <= RUNS_WITHIN for seen_at in notes), max(notes, default=None))


async def _forget(session: Session, name: str) -> None:
    await session.run(delete(service_metadata).where(service_metadata.c.name == name))


async def _last_notes(session: Session) -> dict[str, datetime]:
    rows = await session.all(select(service_metadata).where(service_metadata.c.name.startswith(PREFIX)))
    return {row.name: datetime.fromisoformat(row.value) for row in rows}
