"""The life of a removal: submitted, verified by two looks in a row, or refused. Sends no opt-out itself.

Transitions (not shown; ours)::

    discovered --submit--> pending removal --gone twice in a row--> removed
        ^                        |                                     |
        +--------refused---------+          listed again               |
        +--------------------------(findings.discover_record)----------+
"""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, select, update

from exposurekit.contract.values import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import ExposureError
from exposurekit.service import alerts
from exposurekit.service.alerts import Event
from exposurekit.service.database import Work
from exposurekit.service.sightings import Listing, Site
from exposurekit.service.tables import records

GONE_LOOKS = 2  # one look may be a site's bad day


class WrongStatus(ExposureError):
    """The record is not in the status that this step starts from."""


class NoSuchRecord(ExposureError):
    """There is no record of that id on that site."""


async def submit_removal(work: Work, record_id: int, site: Site) -> None:
    """An opt-out was submitted: ``discovered`` -> ``pending removal``, with an alert.

    Raises:
        NoSuchRecord: There is no record of that id on that site.
        WrongStatus: The record is not ``discovered``.
    """
    record = await _held(work, record_id, site, DISCOVERED, "submitted for removal")
    await _change(work, record, status=PENDING_REMOVAL)
    await _tell(work, Event.OPT_OUT_SUBMITTED, record, site)


async def verify_removal(work: Work, record_id: int, site: Site, *, gone: bool) -> str:
    """A look was taken at a listing whose removal is pending; the status after it.

    The second look in a row that finds it gone makes it ``removed``, with an alert; one that finds it starts the
    count again. A look that told nothing (a block, a time-out) is not to be reported here.

    Raises:
        NoSuchRecord: There is no record of that id on that site.
        WrongStatus: The record is not ``pending removal``.
    """
    record = await _held(work, record_id, site, PENDING_REMOVAL, "verified as removed")
    looks = record.gone_looks + 1 if gone else 0
    if looks < GONE_LOOKS:
        await _change(work, record, status=PENDING_REMOVAL, gone_looks=looks)
        return PENDING_REMOVAL
    await _change(work, record, status=REMOVED, gone_looks=looks)
    await _tell(work, Event.REMOVAL_VERIFIED, record, site)
    return REMOVED


async def refuse_removal(work: Work, record_id: int, site: Site) -> None:
    """The site refused the opt-out: back to ``discovered``, with an alert that carries the steps by hand.

    Raises:
        NoSuchRecord: There is no record of that id on that site.
        WrongStatus: The record is not ``pending removal``.
    """
    record = await _held(work, record_id, site, PENDING_REMOVAL, "refused")
    await _change(work, record, status=DISCOVERED)
    await _tell(work, Event.OPT_OUT_REFUSED, record, site)


@dataclass(frozen=True, slots=True)
class _Record:
    id: int
    user_id: int
    status: str
    gone_looks: int
    listing: Listing = field(repr=False)


_HELD = (
    select(records.c.user_id, records.c.status, records.c.gone_looks, records.c.sealed)
    .where(records.c.id == bindparam("record_id"), records.c.site == bindparam("site"))
    .with_for_update()
)


async def _held(work: Work, record_id: int, site: Site, status: str, step: str) -> _Record:
    row = await work.first(_HELD, {"record_id": record_id, "site": site.name})
    if row is None:
        raise NoSuchRecord("there is no record of that id on that site")
    if row.status != status:
        raise WrongStatus(f"a record that is {row.status} cannot be {step}: it must be {status}")
    stored: dict[str, Any] = work.unseal("records", row.user_id, row.sealed)
    return _Record(record_id, row.user_id, row.status, row.gone_looks, Listing.of_stored(stored))


async def _change(work: Work, record: _Record, *, status: str, gone_looks: int = 0) -> None:
    changed: dict[str, Any] = {"status": status, "gone_looks": gone_looks}
    if status != record.status:
        changed["changed_at"] = work.clock.now()
    await work.run(update(records).where(records.c.id == record.id), changed)


async def _tell(work: Work, event: Event, record: _Record, site: Site) -> None:
    await alerts.about_record(work, event, record.user_id, record.id, listing=record.listing, site=site)
