"""Analysis: one function per question, from tables to tables. No I/O.

::

    statuses          the statuses of a listing               counts            listings by site, user and status
    by_kind           exposed data by kind and state          status_over_time  counts per day, week or month
    diff              changes between two instants            survival          time to removal
    relistings        listings that reappear after a removal  failed_removals   requests not carried out, and overdue ones
    forecast          expected number of open listings        definitions       what each figure means
    bootstrap         future days, drawn from past ones       data_quality      precision, coverage, site health
    blockers          missing fields that block removals      work_queue        manual work in order of yield
    manual_tasks      manual work, listing by listing         score             an exposure score per person
    plan              what to do by hand in half an hour      step_minutes      what a step takes, learned from ticks
    missed            estimated number of missed listings     selection         rows of some sites or statuses
    group_codes       groups and instants as numbers
    declared_vs_observed  sites that take longer than they say
    site_outcomes         what came of the requests to each site
    step_requirements     what to check and need before a manual removal
    expected_removals     how many of some requests will succeed, with an interval
"""

from exposurekit.analysis.blockers import best_next_fields, blockers, on_file
from exposurekit.analysis.by_kind import NOT_STATED, by_kind, by_state
from exposurekit.analysis.counts import by_site, by_user, counts, user_by_site
from exposurekit.analysis.data_quality import coverage, precision, site_health, stale
from exposurekit.analysis.declared_vs_observed import declared_vs_observed
from exposurekit.analysis.definitions import DEFINITIONS
from exposurekit.analysis.diff import changes, diff, diff_by_site, diff_counts
from exposurekit.analysis.failed_removals import failed_removals
from exposurekit.analysis.forecast import forecast
from exposurekit.analysis.missed import missed
from exposurekit.analysis.plan import plan
from exposurekit.analysis.relistings import relistings
from exposurekit.analysis.score import WEIGHTS, score, score_changes
from exposurekit.analysis.site_outcomes import site_outcomes
from exposurekit.analysis.status_over_time import status_over_time
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
from exposurekit.analysis.step_minutes import minutes_spent, step_minutes
from exposurekit.analysis.survival import MIN_N, survival, time_to_removal
from exposurekit.analysis.work_queue import work_queue

__all__ = [
    "CLOSED",
    "DEFINITIONS",
    "LISTED",
    "MIN_N",
    "NOT_LISTED",
    "NOT_OPEN",
    "NOT_STATED",
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
    "declared_vs_observed",
    "diff",
    "diff_by_site",
    "diff_counts",
    "failed_removals",
    "forecast",
    "is_open",
    "minutes_spent",
    "missed",
    "on_file",
    "plan",
    "precision",
    "relistings",
    "score",
    "score_changes",
    "site_health",
    "site_outcomes",
    "stale",
    "status_over_time",
    "step_minutes",
    "survival",
    "time_to_removal",
    "user_by_site",
    "work_queue",
]


def __dir__() -> list[str]:
    return [*__all__]
