"""The jobs of the service, as `service status` and the metrics show them: how many are due, and what a wrong clock put off."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Table, insert, select, update

from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.leases import Correction
from exposurekit.service.storage.tables import service_metadata

KINDS = {
    "scans": tables.users,
    "removals": tables.records,
    "deliveries": tables.deliveries,
    "mailboxes": tables.mailboxes,
    "messages": tables.mail_messages,
}
_CORRECTION = "clock correction: "  # and the kind: a row of the metadata


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs of one kind: due later, due now, and leased by a worker; since when the oldest one has been due."""

    waiting: int
    due: int
    leased: int
    oldest_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class ClockCorrection:
    """The last time that jobs of one kind were made due because a clock that was ahead had put them off."""

    kind: str
    at: datetime
    jobs: int
    ahead_s: int  # by which the clock was ahead at least


async def queues(session: Session) -> dict[str, Queue]:
    """Return the queue of each kind of job."""
    return {
        kind: Queue(
            **await leases.counts(session, table), oldest_due_at=await leases.oldest_due(session, table)
        )
        for kind, table in KINDS.items()
    }


async def record_correction(
    session: Session, table: Table, correction: Correction, *, since: datetime
) -> None:
    """Record a correction, in its transaction; one since the time ``since`` belongs to the same pass and is added to."""
    [kind] = [kind for kind, one in KINDS.items() if one is table]
    before = next((one for one in await clock_corrections(session) if one.kind == kind), None)
    rows, ahead_s = correction.rows, int(correction.ahead / timedelta(seconds=1))
    if before is not None and before.at >= since:
        rows, ahead_s = rows + before.jobs, max(ahead_s, before.ahead_s)
    values = {"at": session.clock.now().isoformat(), "jobs": rows, "ahead_s": ahead_s}
    row = {"name": f"{_CORRECTION}{kind}", "value": json.dumps(values)}
    if before is None:
        await session.run(insert(service_metadata), row)
    else:
        await session.run(
            update(service_metadata).where(service_metadata.c.name == row["name"]).values(**row)
        )


async def clock_corrections(session: Session) -> list[ClockCorrection]:
    """Return the last correction of each kind of job that had one."""
    names = {f"{_CORRECTION}{kind}": kind for kind in KINDS}
    stored = select(service_metadata).where(service_metadata.c.name.in_(names))
    values = {names[row.name]: json.loads(row.value) for row in await session.all(stored)}
    return [
        ClockCorrection(kind, datetime.fromisoformat(one["at"]), one["jobs"], one["ahead_s"])
        for kind, one in sorted(values.items())
    ]
