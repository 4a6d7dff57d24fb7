"""Evaluation of the service's records against the ground truth of the invented web."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from exposurekit.contract.types import REMOVED
from exposurekit.sandbox.world.world import World


@dataclass(frozen=True, slots=True)
class ReportedRecord:
    """A record as the service reports it: the index of the person, the site and the status."""

    person: int
    site: str
    reference_id: str
    status: str

    @property
    def key(self) -> tuple[str, str]:
        """What identifies its listing."""
        return self.site, self.reference_id


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the service's records agree with the invented web.

    Attributes:
        records: Records that the service reports.
        correct: Of these, listings that are that person's.
        nonexistent: Of these, listings that no site ever had.
        reachable: Listings of registered people that were visible during a scan, or matched between two, on sites
            that a polite scanner can read.
        matched: Of these, listings with a correct record.
        unreachable: Listings of registered people that were visible during a scan on the other sites.
        removed: Records that the service reports as removed.
        verified_removed: Of these, listings that are gone now, or were gone at the last scan and are listed again.
    """

    records: int
    correct: int
    nonexistent: int
    reachable: int
    matched: int
    unreachable: int
    removed: int
    verified_removed: int

    @property
    def precision(self) -> float | None:
        """The share of records that are correct; None without records."""
        return self.correct / self.records if self.records else None

    @property
    def recall(self) -> float | None:
        """The share of reachable listings that were matched; None without such listings."""
        return self.matched / self.reachable if self.reachable else None


def agreement(
    world: World, reported: Iterable[ReportedRecord], *, scanned_at: Sequence[datetime]
) -> Agreement:
    """Compare all records of the service with the invented web as it is now; everyone was scanned at some instants."""
    records = list(reported)
    visible = {truth.key: truth for at in scanned_at for truth in world.listings(at) if truth.visible}
    owners = {truth.key: truth.person for truth in world.listings()}
    owned = {key for key, truth in visible.items() if truth.person is not None}
    correct = {record.key for record in records if owners.get(record.key) == record.person}
    reachable = {key for key in owned | correct if key[0] in world.reachable}
    removed = [record for record in records if record.status == REMOVED]
    return Agreement(
        records=len(records),
        correct=sum(owners.get(record.key) == record.person for record in records),
        nonexistent=sum(record.key not in owners for record in records),
        reachable=len(reachable),
        matched=len(reachable & correct),
        unreachable=len(owned - reachable),
        removed=len(removed),
        verified_removed=sum(_is_removed(world, record, scanned_at[-1:]) for record in removed),
    )


GRACE_PERIOD = timedelta(days=14)  # scans are weekly, and a removal takes two of them to verify


@dataclass(frozen=True, slots=True)
class DailyAgreement:
    """What the history knew at the end of a day, compared with the ground truth: see `Demo.agreement_by_day`."""

    at: datetime
    open: int
    listed: int
    removed: int
    gone: int
    late: int
    wrong: int


def agreement_on(world: World, reported: Iterable[ReportedRecord], at: datetime) -> DailyAgreement:
    """Compare all records with the invented web as both were at an instant."""
    records = list(reported)
    removed = [record for record in records if record.status == REMOVED]
    still_open = [record for record in records if record.status != REMOVED]
    listed = [record for record in still_open if world.is_listed(*record.key, at)]
    gone = [record for record in removed if not world.is_listed(*record.key, at)]
    wrong = sum(not _was_right_recently(world, record, at) for record in records)
    mismatches = len(records) - len(listed) - len(gone)
    return DailyAgreement(
        at, len(still_open), len(listed), len(removed), len(gone), mismatches - wrong, wrong
    )


def _was_right_recently(world: World, record: ReportedRecord, at: datetime) -> bool:
    is_open = record.status != REMOVED
    return world.was_listed(*record.key, since=at - GRACE_PERIOD, until=at, listed=is_open)


def _is_removed(world: World, record: ReportedRecord, before: Sequence[datetime]) -> bool:
    return not all(world.is_listed(*record.key, at) for at in (None, *before))
