"""What the service says, compared with what is so in the make-believe world. Believes the world."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from exposurekit.contract.types import REMOVED
from exposurekit.sandbox.world.world import Truth, World


@dataclass(frozen=True, slots=True)
class Observed:
    """A record as the service tells it: whose it says it is (the index of the person), where, and its status."""

    person: int
    site: str
    reference_id: str
    status: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the service's records agree with the world.

    Attributes:
        records: What the service tells.
        right: Of these, listings that are that person's.
        nobodys: Of these, listings that no site ever had.
        findable: Listings of registered people that a site showed at a scan, or that were found between two, where a
            polite scanner can read the site.
        found: Of these, records.
        out_of_reach: Listings of registered people, shown at a scan by the other sites.
        removed: Records that the service says are removed.
        really_gone: Of these, gone now, or gone at the last scan and listed again since.
    """

    records: int
    right: int
    nobodys: int
    findable: int
    found: int
    out_of_reach: int
    removed: int
    really_gone: int

    @property
    def precision(self) -> float | None:
        """The share of records that are right; None where there are none."""
        return self.right / self.records if self.records else None

    @property
    def recall(self) -> float | None:
        """The share of findable listings that were found; None where there are none."""
        return self.found / self.findable if self.findable else None


def agreement(world: World, said: Iterable[Observed], *, scanned_at: Sequence[datetime]) -> Agreement:
    """Compare the service's records with the world as it is now.

    Args:
        world: What is so.
        said: Every record of the service, whatever its status.
        scanned_at: When everybody was scanned, in order.
    """
    records = list(said)
    shown = {_key(truth): truth for at in scanned_at for truth in world.listings(at) if truth.visible}
    whose = {_key(truth): truth.person for truth in world.listings()}
    theirs = {key for key, truth in shown.items() if truth.person is not None}
    right = {_observed(one) for one in records if whose.get(_observed(one)) == one.person}
    findable = {key for key in theirs | right if key[0] in world.reachable}
    removed = [one for one in records if one.status == REMOVED]
    return Agreement(
        records=len(records),
        right=sum(whose.get(_observed(one)) == one.person for one in records),
        nobodys=sum(_observed(one) not in whose for one in records),
        findable=len(findable),
        found=len(findable & right),
        out_of_reach=len(theirs - findable),
        removed=len(removed),
        really_gone=sum(_is_gone(world, one, scanned_at[-1:]) for one in removed),
    )


LATE = timedelta(days=14)  # everybody is scanned weekly, and what is gone is looked for twice


@dataclass(frozen=True, slots=True)
class Day:
    """What was remembered at the end of a day, beside what was so.

    Attributes:
        at: When it was looked.
        open: Records that were said to be open, and of these ``listed``: those that a site showed at that moment.
        removed: Records that were said to be removed, and of these ``gone``: those that no site showed.
        late: What was otherwise at that moment, but as it was said within the two weeks before.
        wrong: What was not so in that time, at any moment.
    """

    at: datetime
    open: int
    listed: int
    removed: int
    gone: int
    late: int
    wrong: int


def agreement_on(world: World, said: Iterable[Observed], at: datetime) -> Day:
    """Compare what was said at an instant with the world as it was then.

    Args:
        world: What is so.
        said: Every record, with its status as it was said then.
        at: The instant.
    """
    records = list(said)
    removed = [one for one in records if one.status == REMOVED]
    others = [one for one in records if one.status != REMOVED]
    listed = [one for one in others if world.is_listed(*_observed(one), at)]
    gone = [one for one in removed if not world.is_listed(*_observed(one), at)]
    wrong = sum(not _recently(world, one, at) for one in records)
    off = len(records) - len(listed) - len(gone)
    return Day(at, len(others), len(listed), len(removed), len(gone), off - wrong, wrong)


def _recently(world: World, one: Observed, at: datetime) -> bool:
    return world.was_listed(*_observed(one), since=at - LATE, until=at, listed=one.status != REMOVED)


def _is_gone(world: World, one: Observed, before: Sequence[datetime]) -> bool:
    return not all(world.is_listed(*_observed(one), at) for at in (None, *before))


def _key(truth: Truth) -> tuple[str, str]:
    return truth.site, truth.reference_id


def _observed(one: Observed) -> tuple[str, str]:
    return one.site, one.reference_id
