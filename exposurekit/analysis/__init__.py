"""Tables to tables: one function for each question an analyst asks. Stores and fetches nothing.

::

    statuses   the words for what becomes of a listing
    sites      where listings stand now              over_time  how counts went
    movement   what changed between two instants     removal    how long removals take
    lapses     what comes back, and what grows old   tally      the counting itself
"""

from exposurekit.analysis.lapses import relistings, stale
from exposurekit.analysis.movement import changes, diff, diff_counts
from exposurekit.analysis.over_time import status_over_time
from exposurekit.analysis.removal import survival, time_to_removal
from exposurekit.analysis.sites import by_site, counts
from exposurekit.analysis.statuses import (
    CLOSED,
    LISTED,
    NOT_LISTED,
    NOT_OPEN,
    OTHER,
    UNKNOWN,
    VANISHED,
    is_open,
)

__all__ = [
    "CLOSED",
    "LISTED",
    "NOT_LISTED",
    "NOT_OPEN",
    "OTHER",
    "UNKNOWN",
    "VANISHED",
    "by_site",
    "changes",
    "counts",
    "diff",
    "diff_counts",
    "is_open",
    "relistings",
    "stale",
    "status_over_time",
    "survival",
    "time_to_removal",
]
