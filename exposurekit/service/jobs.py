"""The jobs of the service, and how many are due: what `service status` and the metrics both show."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Session

KINDS = {"scans": tables.users, "removals": tables.records, "deliveries": tables.deliveries}


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs of one kind: due later, due now, and leased by a worker; since when the oldest one has been due."""

    waiting: int
    due: int
    leased: int
    oldest_due_at: datetime | None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


async def queues(session: Session) -> dict[str, Queue]:
    """Return the queue of each kind of job."""
    return {
        kind: Queue(
            **await leases.counts(session, table), oldest_due_at=await leases.oldest_due(session, table)
        )
        for kind, table in KINDS.items()
    }
