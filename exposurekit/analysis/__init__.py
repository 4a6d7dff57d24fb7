"""Tables to tables: one function for each question an analyst asks. Stores and fetches nothing.

::

    statuses     the words for what becomes of a listing
    standing     where listings stand now                   exposed      what they show, and where they place people
    over_time    how counts went                            movement     what changed between two instants
    removal      how long removals take                     lapses       what comes back, and what grows old
    unblocking   what removals wait for                     work         what a human must do, in which order
    trust        whether the numbers can be trusted         forecasting  what is coming
    scoring      one number for it                          tally        the counting itself
    definitions  what each figure means, in one table
"""

from exposurekit.analysis.definitions import DEFINITIONS
from exposurekit.analysis.exposed import NOT_TOLD, by_kind, by_state
from exposurekit.analysis.forecasting import forecast
from exposurekit.analysis.lapses import relistings, stale
from exposurekit.analysis.movement import changes, diff, diff_counts
from exposurekit.analysis.over_time import status_over_time
from exposurekit.analysis.removal import survival, time_to_removal
from exposurekit.analysis.scoring import WEIGHTS, score, score_changes
from exposurekit.analysis.standing import by_site, by_user, counts, user_by_site
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
from exposurekit.analysis.trust import coverage, precision, site_health
from exposurekit.analysis.unblocking import best_next_fields, blockers, on_file
from exposurekit.analysis.work import work_queue

__all__ = [
    "CLOSED",
    "DEFINITIONS",
    "LISTED",
    "NOT_LISTED",
    "NOT_OPEN",
    "NOT_TOLD",
    "OTHER",
    "UNKNOWN",
    "VANISHED",
    "WEIGHTS",
    "best_next_fields",
    "blockers",
    "by_kind",
    "by_site",
    "by_state",
    "by_user",
    "changes",
    "counts",
    "coverage",
    "diff",
    "diff_counts",
    "forecast",
    "is_open",
    "on_file",
    "precision",
    "relistings",
    "score",
    "score_changes",
    "site_health",
    "stale",
    "status_over_time",
    "survival",
    "time_to_removal",
    "user_by_site",
    "work_queue",
]


def __dir__() -> list[str]:
    return [*__all__]
